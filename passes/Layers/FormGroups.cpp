//===- FormGroups.cpp - Fuse pointwise and row work -----------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Layers/Passes.h"

#include "dialects/NN/Decompose.h"
#include "dialects/NN/Window.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

namespace harmony {
#define GEN_PASS_DEF_FORMGROUPSPASS
#include "passes/Layers/Passes.h.inc"
} // namespace harmony

using namespace mlir;
using namespace harmony;

namespace {

bool isPointwise(Operation *op) {
  return op->hasTrait<OpTrait::Elementwise>() || isa<arith::SelectOp>(op);
}

/// An argument in another shape.
bool isArgumentView(Operation *op) {
  return isa_and_present<nn::ReshapeOp, nn::TransposeOp, nn::SliceOp>(op) &&
         isa<BlockArgument>(op->getOperand(0));
}

/// The ops that are repeated in every group that reads them rather than stored:
/// constants, broadcasts, iotas, and cheap pointwise work on nothing but these
/// and arguments (masks made of labels).
DenseSet<Operation *> findLeaves(func::FuncOp function) {
  DenseSet<Operation *> leaves;
  auto isLeafOperand = [&](Value operand) {
    // Floating arguments are activations: what is made of them is stored.
    bool isFloat = isa<FloatType>(
        cast<RankedTensorType>(operand.getType()).getElementType());
    Operation *producer = operand.getDefiningOp();
    return !producer || isArgumentView(producer) ? !isFloat
                                                 : leaves.contains(producer);
  };
  for (Operation &op : function.front().without_terminator()) {
    bool isSource = isa<arith::ConstantOp, nn::BroadcastOp, nn::IotaOp,
                        nn::RandomOp, nn::CountOp>(op);
    bool isCheap = isPointwise(&op) &&
                   !isa<math::MathDialect>(op.getDialect()) &&
                   !isa<arith::DivFOp>(op);
    if (isSource || (isCheap && llvm::all_of(op.getOperands(), isLeafOperand)))
      leaves.insert(&op);
  }
  return leaves;
}

/// Ops that stay outside of groups: library calls, views, and what moves data.
bool isOpaque(Operation *op) {
  return isa<nn::DotGeneralOp, nn::ReshapeOp, nn::TransposeOp, nn::SliceOp,
             nn::ConcatOp, nn::PadOp, nn::ScatterAddOp, nn::GetOp>(op) ||
         nn::isWindowOp(op);
}

/// Shape and batch: what a domain is compared by.
struct Shape {
  SmallVector<int64_t> extents;
  Attribute encoding;
  explicit Shape(Type type)
      : extents(cast<RankedTensorType>(type).getShape()),
        encoding(cast<RankedTensorType>(type).getEncoding()) {}
  bool operator==(const Shape &other) const {
    return extents == other.extents && encoding == other.encoding;
  }
  /// This shape without its last `count` axes.
  Shape drop(int64_t count) const {
    Shape result = *this;
    result.extents.resize(extents.size() - count);
    if (auto batch = dyn_cast_or_null<nn::BatchAttr>(encoding);
        batch && batch.getAxis() >= static_cast<int64_t>(result.extents.size()))
      result.encoding = {};
    return result;
  }
  int64_t rank() const { return extents.size(); }
};

/// How many trailing axes an op combines within a row; 0: none (pointwise).
int64_t rowAxes(Operation *op) {
  if (isa<nn::SoftmaxOp, nn::LogSoftmaxOp, nn::CrossEntropyOp>(op))
    return 1;
  if (auto norm = dyn_cast<nn::LayerNormOp>(op))
    return cast<RankedTensorType>(norm.getOperand().getType()).getRank() -
           norm.getAxis();
  auto reduce = dyn_cast<nn::ReduceOp>(op);
  if (!reduce)
    return 0;
  int64_t rank =
      cast<RankedTensorType>(reduce.getOperand().getType()).getRank();
  SmallVector<int64_t> axes(reduce.getAxes());
  llvm::sort(axes);
  for (auto [index, axis] : llvm::enumerate(axes))
    if (axis !=
        rank - static_cast<int64_t>(axes.size()) + static_cast<int64_t>(index))
      return 0;
  return axes.size();
}

/// A reduction over leading axes ends a group: its result is complete only when
/// the whole domain is through.
bool isColumnReduction(Operation *op) {
  auto reduce = dyn_cast<nn::ReduceOp>(op);
  if (!reduce)
    return false;
  SmallVector<int64_t> axes(reduce.getAxes());
  llvm::sort(axes);
  for (auto [index, axis] : llvm::enumerate(axes))
    if (axis != static_cast<int64_t>(index))
      return false;
  return !axes.empty();
}

/// The shape that an op iterates over.
Shape domainOf(Operation *op) {
  if (isa<nn::ReduceOp, nn::LayerNormOp, nn::SoftmaxOp, nn::LogSoftmaxOp,
          nn::CrossEntropyOp>(op))
    return Shape(op->getOperand(0).getType());
  return Shape(op->getResult(0).getType());
}

struct Group {
  Shape domain;
  int64_t row = 0; ///< trailing axes of a row; 0 while nothing asks for one
  llvm::SetVector<Operation *> ops;
  DenseSet<Value> complete;     ///< results of column reductions
  DenseSet<Value> across;       ///< results of reductions over other axes than
                                ///< those of a row, not one for each row
  llvm::SetVector<Value> reads; ///< from outside
};

class GroupFormer {
public:
  explicit GroupFormer(func::FuncOp function)
      : function(function), leaves(findLeaves(function)) {}

  size_t run() {
    // What only looks at arguments waits for nothing, wherever it stands.
    for (Operation &op : function.front().without_terminator())
      if (isArgumentView(&op))
        assign(&op);
    for (Operation &op : function.front().without_terminator())
      if (!isLeaf(&op) && !item.contains(&op))
        assign(&op);
    emit();
    return groups.size();
  }

private:
  bool isLeaf(Operation *op) const { return leaves.contains(op); }

  /// The last item (group or opaque op, in order of emission) that `value`
  /// waits for, -1: none.
  int itemOf(Value value) {
    Operation *op = value.getDefiningOp();
    if (!op)
      return -1;
    if (auto it = item.find(op); it != item.end())
      return it->second;
    int last = -1; // a leaf: what it is made from has its place already
    for (Value operand : op->getOperands())
      last = std::max(last, itemOf(operand));
    item[op] = last;
    return last;
  }

  void assign(Operation *op) {
    int last = -1;
    for (Value operand : op->getOperands())
      last = std::max(last, itemOf(operand));
    // The latest group that comes no earlier than what the op reads: one pass
    // over memory serves independent work over the same domain too (the moments
    // of an optimizer).
    if (!isOpaque(op))
      for (int index = items.size(); index-- > std::max(last, 0);)
        if (items[index].group && canJoin(*items[index].group, op)) {
          join(*items[index].group, op);
          item[op] = index;
          return;
        }
    item[op] = items.size();
    if (isOpaque(op)) {
      items.push_back({op, nullptr});
      return;
    }
    groups.push_back(
        std::make_unique<Group>(Group{domainOf(op), 0, {}, {}, {}, {}}));
    join(*groups.back(), op);
    items.push_back({nullptr, groups.back().get()});
  }

  /// What a group would read from outside for `op`, leaves being repeated.
  void collectReads(const Group &group, Operation *op,
                    llvm::SetVector<Value> &reads) const {
    for (Value operand : op->getOperands()) {
      Operation *producer = operand.getDefiningOp();
      if (producer && group.ops.contains(producer))
        continue;
      if (producer && isLeaf(producer))
        collectReads(group, producer, reads);
      else
        reads.insert(operand);
    }
  }

  bool canJoin(Group &group, Operation *op) const {
    // A launch has a limited number of operands (runtime/engine/Blob.cpp), some
    // of which are temporaries.
    constexpr size_t kReads = 40, kOperands = 56;
    llvm::SetVector<Value> reads(group.reads);
    collectReads(group, op, reads);
    if (reads.size() > kReads && reads.size() > group.reads.size())
      return false;
    if (reads.size() + group.ops.size() >= kOperands &&
        reads.size() + countResults(group, op) > kOperands)
      return false;
    for (Value operand : op->getOperands())
      if (reachesAny(group.complete, operand))
        return false;
    Shape domain = domainOf(op);
    int64_t row = rowAxes(op);
    if (isa<nn::GatherOp>(op))
      return false; // reads its operand at random
    if (domain == group.domain) {
      if (isColumnReduction(op) && row == domain.rank())
        return true; // everything into one value: a row reduction, then a
                     // column one
      return row == 0 || group.row == 0 || row == group.row;
    }
    // Work on the results of row reductions.
    return group.row != 0 && domain == group.domain.drop(group.row) &&
           (isPointwise(op) || isColumnReduction(op)) &&
           llvm::none_of(op->getOperands(), [&](Value operand) {
             return reachesAny(group.across, operand);
           });
  }

  /// How many members of the group, `op` being one, are read outside of it.
  size_t countResults(const Group &group, Operation *op) const {
    auto isResult = [&](Operation *member) {
      return llvm::any_of(member->getUsers(), [&](Operation *user) {
        return user != op && isOutside(user, group);
      });
    };
    return isResult(op) + llvm::count_if(group.ops, isResult);
  }

  /// Whether `value` is, or is made by leaves from, one of `results`.
  bool reachesAny(const DenseSet<Value> &results, Value value) const {
    llvm::SetVector<Value> reached;
    reached.insert(value);
    for (size_t i = 0; i < reached.size(); ++i) {
      if (results.contains(reached[i]))
        return true;
      if (Operation *op = reached[i].getDefiningOp(); op && isLeaf(op))
        reached.insert(op->operand_begin(), op->operand_end());
    }
    return false;
  }

  void join(Group &group, Operation *op) const {
    collectReads(group, op, group.reads);
    group.ops.insert(op);
    int64_t row = rowAxes(op);
    bool column = isColumnReduction(op);
    if (row && !column && domainOf(op) == group.domain)
      group.row = row;
    if (column)
      group.complete.insert(op->getResult(0));
    else if (isa<nn::ReduceOp>(op) && !row)
      group.across.insert(op->getResult(0));
  }

  void emit() {
    IRMapping mapping;
    for (BlockArgument argument : function.getArguments())
      mapping.map(argument, argument);
    Operation *terminator = function.front().getTerminator();
    OpBuilder builder(terminator);
    for (auto &[op, group] : items) {
      if (group) {
        emitGroup(*group, builder, mapping);
        continue;
      }
      for (OpOperand &operand : op->getOpOperands()) {
        // What a pad fills with is an attribute of it, in effect.
        Operation *producer = operand.get().getDefiningOp();
        if (isa<nn::PadOp>(op) && operand.getOperandNumber() == 1 &&
            isa_and_present<arith::ConstantOp>(producer)) {
          if (!mapping.contains(operand.get()))
            builder.clone(*producer, mapping);
          continue;
        }
        materialise(operand.get(), builder, mapping);
      }
      builder.clone(*op, mapping);
    }
    for (OpOperand &operand : terminator->getOpOperands()) {
      materialise(operand.get(), builder, mapping);
      operand.set(mapping.lookup(operand.get()));
    }
    auto ops = llvm::map_to_vector(function.front().without_terminator(),
                                   [](Operation &op) { return &op; });
    for (Operation *op : llvm::reverse(ops))
      if (op->use_empty())
        op->erase();
  }

  /// A leaf that is read where it cannot be repeated becomes a group of its
  /// own.
  void materialise(Value value, OpBuilder &builder, IRMapping &mapping) {
    if (mapping.contains(value))
      return;
    Operation *op = value.getDefiningOp();
    Group group{Shape(value.getType()), 0, {}, {}, {}, {}};
    group.ops.insert(op);
    outputs.insert(value);
    emitGroup(group, builder, mapping);
  }

  /// Clones leaves that `value` is made from into the group, in front of their
  /// users.
  void collectLeaves(Value value, const Group &group,
                     llvm::SetVector<Operation *> &ops) const {
    Operation *op = value.getDefiningOp();
    if (!op || !isLeaf(op) || group.ops.contains(op) || ops.contains(op))
      return;
    if (isPointwise(op) && !fits(Shape(value.getType()), group))
      return;
    for (Value operand : op->getOperands())
      collectLeaves(operand, group, ops);
    ops.insert(op);
  }

  /// Whether pointwise work of a shape can be part of the group: over the
  /// domain, or one value a row.
  static bool fits(const Shape &shape, const Group &group) {
    for (int64_t dropped = 0; dropped <= group.domain.rank(); ++dropped)
      if (shape == group.domain.drop(dropped))
        return dropped == 0 || group.row == 0 || dropped == group.row;
    return false;
  }

  void emitGroup(const Group &group, OpBuilder &builder, IRMapping &mapping) {
    llvm::SetVector<Operation *> ops;
    for (Operation *op : group.ops) {
      for (Value operand : op->getOperands())
        collectLeaves(operand, group, ops);
      ops.insert(op);
    }
    llvm::SetVector<Value> operands;
    SmallVector<Value> results;
    SmallVector<Location> locs;
    for (Operation *op : ops) {
      for (Value operand : op->getOperands())
        if (Operation *producer = operand.getDefiningOp();
            !producer || !ops.contains(producer))
          operands.insert(operand);
      if (!group.ops.contains(op))
        continue;
      locs.push_back(op->getLoc());
      for (Value result : op->getResults())
        if (outputs.contains(result) ||
            llvm::any_of(result.getUsers(), [&](Operation *user) {
              return isOutside(user, group);
            }))
          results.push_back(result);
    }
    SmallVector<Value> mappedOperands;
    for (Value operand : operands) {
      materialise(operand, builder, mapping);
      mappedOperands.push_back(mapping.lookup(operand));
    }
    auto op =
        nn::GroupOp::create(builder, builder.getFusedLoc(locs),
                            TypeRange(ValueRange(results)), mappedOperands);
    Block *body = &op.getBody().emplaceBlock();
    IRMapping inner;
    for (Value operand : operands)
      inner.map(operand,
                body->addArgument(operand.getType(), operand.getLoc()));
    OpBuilder bodyBuilder = OpBuilder::atBlockEnd(body);
    for (Operation *member : ops)
      bodyBuilder.clone(*member, inner);
    SmallVector<Value> yielded;
    for (Value result : results)
      yielded.push_back(inner.lookup(result));
    nn::YieldOp::create(bodyBuilder, op.getLoc(), yielded);
    for (auto [result, replacement] : llvm::zip(results, op.getResults()))
      mapping.map(result, replacement);
  }

  /// Whether `user`, directly or through leaves, belongs to something else than
  /// the group.
  bool isOutside(Operation *user, const Group &group) const {
    llvm::SetVector<Operation *> reached;
    reached.insert(user);
    for (size_t i = 0; i < reached.size(); ++i) {
      Operation *op = reached[i];
      if (group.ops.contains(op))
        continue;
      if (!isLeaf(op))
        return true;
      reached.insert(op->user_begin(), op->user_end());
    }
    return false;
  }

  struct Item {
    Operation *op;
    Group *group;
  };
  func::FuncOp function;
  DenseSet<Operation *> leaves;
  std::vector<std::unique_ptr<Group>> groups;
  SmallVector<Item> items;
  DenseMap<Operation *, int> item;
  DenseSet<Value> outputs; ///< of groups made for a leaf
};

} // namespace

/// A sum over the microbatch ends a group, and a batch normalisation has two; a
/// depthwise convolution reads slices, which are views outside of groups.
static void expandComposites(func::FuncOp function) {
  OpBuilder builder(function.getContext());
  for (Operation &op : llvm::make_early_inc_range(function.front())) {
    if (!isa<nn::BatchNormOp, nn::DepthwiseOp>(op))
      continue;
    builder.setInsertionPoint(&op);
    op.replaceAllUsesWith(*nn::decompose(&op, builder));
    op.erase();
  }
}

size_t harmony::formGroups(func::FuncOp function) {
  expandComposites(function);
  return GroupFormer(function).run();
}

namespace {
struct FormGroups : harmony::impl::FormGroupsPassBase<FormGroups> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (function->hasAttr(nn::kLayerAttr) ||
          function.getName().ends_with(".bwd"))
        groupCount += formGroups(function);
    }
  }
};

} // namespace
