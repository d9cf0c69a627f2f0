//===- KeepLevels.cpp - Parts of a saved block to keep --------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Tasks/KeepLevels.h"

#include "dialects/Harmony/Harmony.h"
#include "dialects/NN/NN.h"
#include "passes/Tasks/View.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/BitVector.h"

using namespace mlir;
using namespace harmony;

namespace {

/// What recomputing a function's saved values takes, op by op.
class RecomputationCosts {
public:
  RecomputationCosts(func::FuncOp forward, int64_t saved, int64_t microbatch,
                     const CostRates &rates)
      : microbatch(microbatch), rates(rates) {
    for (Operation &op : forward.front().without_terminator()) {
      indexOf[&op] = ops.size();
      ops.push_back(&op);
      seconds.push_back(secondsOf(&op));
    }
    Operation *returned = forward.front().getTerminator();
    for (Value value : returned->getOperands().take_back(saved))
      values.push_back(value);
  }

  int64_t bytesOf(size_t saved) const {
    return schedule::alignTo64(bytes(values[saved]));
  }

  /// Seconds to make the values again that are not kept.
  double cost(const llvm::BitVector &kept) const {
    llvm::DenseSet<Value> there;
    std::vector<char> needed(ops.size(), 0);
    auto need = [&](Value value) {
      if (Operation *op = value.getDefiningOp(); op && !there.contains(value))
        needed[indexOf.lookup(op)] = 1;
    };
    for (auto [index, value] : llvm::enumerate(values))
      if (kept.test(index))
        there.insert(value);
    for (Value value : values)
      need(value);
    double total = 0;
    for (size_t i = ops.size(); i-- > 0;)
      if (needed[i]) {
        total += seconds[i];
        for (Value operand : ops[i]->getOperands())
          need(operand);
      }
    return total;
  }

private:
  int64_t microbatch;
  const CostRates &rates;
  std::vector<Operation *> ops;
  std::vector<double> seconds;
  SmallVector<Value> values;
  llvm::DenseMap<Operation *, size_t> indexOf;

  RankedTensorType typeOf(Value value) const {
    return nn::instantiate(cast<RankedTensorType>(value.getType()), microbatch);
  }
  int64_t bytes(Value value) const { return tensorBytes(typeOf(value)); }

  double secondsOf(Operation *op) const {
    if (isa<nn::ReshapeOp, nn::TransposeOp, nn::SliceOp, arith::ConstantOp>(op))
      return 0;
    double traffic = 0;
    for (Value value : op->getOperands())
      traffic += static_cast<double>(bytes(value));
    for (Value value : op->getResults())
      traffic += static_cast<double>(bytes(value));
    traffic /= rates.bytesPerSecond;
    double flops = 0;
    if (auto product = dyn_cast<nn::DotGeneralOp>(op)) {
      flops = 2.0 *
              static_cast<double>(typeOf(product.getResult()).getNumElements());
      RankedTensorType lhs = typeOf(product.getLhs());
      for (int64_t axis : product.getLhsContract())
        flops *= static_cast<double>(lhs.getDimSize(axis));
    }
    return std::max(flops / rates.flopsPerSecond, traffic) +
           rates.launchSeconds;
  }
};

/// What is kept where so many values are, and what the rest costs.
struct Corner {
  int kept = 0;
  double bytes = 0, seconds = 0;
};

/// How far a corner lies below the line between its neighbours, in seconds.
double depth(const Corner &before, const Corner &at, const Corner &after) {
  double part = (at.bytes - before.bytes) / (after.bytes - before.bytes);
  return before.seconds + part * (after.seconds - before.seconds) - at.seconds;
}

} // namespace

SavedSegments harmony::divideSaved(func::FuncOp forward, int64_t saved,
                                   int64_t microbatch, const CostRates &rates) {
  SavedSegments result;
  if (saved == 0)
    return result;
  RecomputationCosts recomputation(forward, saved, microbatch, rates);
  // From all values to none.
  llvm::BitVector kept(saved, true);
  SmallVector<int> dropped;
  std::vector<Corner> points = {{static_cast<int>(saved), 0, 0}};
  for (int64_t i = 0; i < saved; ++i)
    points[0].bytes += static_cast<double>(recomputation.bytesOf(i));
  while (kept.any()) {
    Corner last = points.back();
    std::vector<std::pair<double, int>> rates; // seconds a byte, value
    for (int value : kept.set_bits()) {
      kept.reset(value);
      rates.push_back({(recomputation.cost(kept) - last.seconds) /
                           static_cast<double>(recomputation.bytesOf(value)),
                       value});
      kept.set(value);
    }
    // Of many values several at a time.
    llvm::sort(rates);
    rates.resize(std::max<size_t>(1, rates.size() / 16));
    for (auto [rate, value] : rates) {
      kept.reset(value);
      dropped.push_back(value);
      last.bytes -= static_cast<double>(recomputation.bytesOf(value));
    }
    points.push_back(
        {static_cast<int>(kept.count()), last.bytes, recomputation.cost(kept)});
  }
  std::reverse(points.begin(), points.end()); // bytes ascending

  std::vector<Corner> corners;
  for (const Corner &point : points) {
    while (corners.size() > 1 &&
           depth(corners[corners.size() - 2], corners.back(), point) <= 0)
      corners.pop_back();
    corners.push_back(point);
  }
  while (corners.size() > mostSegments + 1) {
    size_t flattest = 1;
    for (size_t i = 1; i + 1 < corners.size(); ++i)
      if (depth(corners[i - 1], corners[i], corners[i + 1]) <
          depth(corners[flattest - 1], corners[flattest],
                corners[flattest + 1]))
        flattest = i;
    corners.erase(corners.begin() + flattest);
  }
  result.count = static_cast<int>(corners.size()) - 1;
  result.segmentOf.assign(saved, 0);
  for (auto [place, value] : llvm::enumerate(llvm::reverse(dropped)))
    for (int segment = 0; segment < result.count; ++segment)
      if (static_cast<int>(place) >= corners[segment].kept)
        result.segmentOf[value] = segment;
  return result;
}

harmony::Recomputation harmony::makeRecomputation(func::FuncOp forward,
                                                  const SavedSegments &segments,
                                                  int kept) {
  Recomputation result;
  result.function = cast<func::FuncOp>(forward->clone());
  func::FuncOp clone = *result.function;
  Block &block = clone.front();
  Operation *returned = block.getTerminator();
  unsigned first = returned->getNumOperands() - segments.segmentOf.size();
  SmallVector<Value> rest;
  SmallVector<Type> types;
  for (auto [index, segment] : llvm::enumerate(segments.segmentOf)) {
    Value value = returned->getOperand(first + index);
    if (segment >= kept) {
      rest.push_back(value);
      types.push_back(value.getType());
      continue;
    }
    BlockArgument argument = block.addArgument(value.getType(), value.getLoc());
    value.replaceAllUsesExcept(argument, returned);
  }
  returned->setOperands(rest);
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (&op != returned && op.use_empty())
      op.erase();
  for (unsigned i = 0; i < forward.getNumArguments(); ++i)
    if (!block.getArgument(i).use_empty())
      result.arguments.push_back(i);
  block.eraseArguments([&](BlockArgument argument) {
    return argument.getArgNumber() < forward.getNumArguments() &&
           argument.use_empty();
  });
  clone.setType(
      FunctionType::get(clone.getContext(), block.getArgumentTypes(), types));
  clone.removeArgAttrsAttr();
  clone.removeResAttrsAttr();
  return result;
}
