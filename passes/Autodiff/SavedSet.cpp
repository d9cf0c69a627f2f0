//===- SavedSet.cpp - What the forward saves for the backward -------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Autodiff/SavedSet.h"

#include "dialects/NN/NN.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/SetVector.h"
#include <limits>
#include <queue>

using namespace mlir;
using namespace harmony;
using namespace harmony::autodiff;
using namespace harmony::nn;

static bool isView(Operation *op) {
  return isa<BroadcastOp, ReshapeOp, TransposeOp, SliceOp, PadOp, ConcatOp,
             WindowOp>(op);
}

bool harmony::autodiff::isRecomputable(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return false;
  if (isa<LayerNormOp, BatchNormOp>(op))
    return value == op->getResult(0);
  if (isView(op) ||
      isa<IotaOp, CountOp, RandomOp, GetOp, SoftmaxOp, LogSoftmaxOp, GeluOp,
          SigmoidOp, MaxPoolOp, SumPoolOp, arith::ConstantOp>(op))
    return true;
  return isa_and_nonnull<arith::ArithDialect, math::MathDialect>(
             op->getDialect()) &&
         isPure(op) && op->hasTrait<OpTrait::Elementwise>();
}

SmallVector<Value> harmony::autodiff::getRecomputeOperands(Value value) {
  Operation *op = value.getDefiningOp();
  SmallVector<Value> operands(op->getOperands());
  if (auto norm = dyn_cast<LayerNormOp>(op)) {
    operands.push_back(norm.getInverseDeviation());
    if (norm.getMean())
      operands.push_back(norm.getMean());
  }
  if (auto norm = dyn_cast<BatchNormOp>(op))
    operands.append({norm.getMean(), norm.getInverseDeviation()});
  return operands;
}

/// Bytes of a value for one sample, booleans being bytes.
static int64_t getBytes(Value value) {
  RankedTensorType type =
      instantiate(cast<RankedTensorType>(value.getType()), 1);
  return type.getNumElements() *
         llvm::divideCeil(type.getElementTypeBitWidth(), 8);
}

/// What saving a value costs: bytes, then whether it would be written only to
/// be saved. Library calls read and write memory, so their operands and results
/// are there anyway; a view would be copied.
static int64_t getCost(Value value) {
  constexpr int64_t kBytes =
      1024; // more than the values of a layer that could tie
  Operation *op = value.getDefiningOp();
  int64_t penalty = 1;
  if (isView(op))
    penalty = 2;
  else if (!isRecomputable(value) ||
           isa<SoftmaxOp, LogSoftmaxOp, LayerNormOp, BatchNormOp>(op) ||
           llvm::any_of(value.getUsers(), [](Operation *user) {
             return isa<DotGeneralOp>(user);
           }))
    penalty = 0;
  return getBytes(value) * kBytes + penalty;
}

namespace {
/// Maximum flow by augmenting shortest paths (Edmonds and Karp, 1972); the
/// graphs have some hundred nodes.
class FlowGraph {
public:
  static constexpr int64_t kInfinite = std::numeric_limits<int64_t>::max() / 4;

  explicit FlowGraph(int nodes) : edgesOf(nodes) {}

  void addEdge(int from, int to, int64_t capacity) {
    edgesOf[from].push_back(edges.size());
    edges.push_back({to, capacity});
    edgesOf[to].push_back(edges.size());
    edges.push_back({from, 0});
  }

  void saturate(int source, int sink) {
    while (true) {
      std::vector<int> enteredBy(edgesOf.size(), -1);
      std::queue<int> queue({source});
      while (!queue.empty() && enteredBy[sink] < 0) {
        int node = queue.front();
        queue.pop();
        for (int edge : edgesOf[node])
          if (int to = edges[edge].to;
              edges[edge].capacity > 0 && enteredBy[to] < 0 && to != source) {
            enteredBy[to] = edge;
            queue.push(to);
          }
      }
      if (enteredBy[sink] < 0)
        return;
      int64_t flow = kInfinite;
      for (int node = sink; node != source;
           node = edges[enteredBy[node] ^ 1].to)
        flow = std::min(flow, edges[enteredBy[node]].capacity);
      for (int node = sink; node != source;
           node = edges[enteredBy[node] ^ 1].to) {
        edges[enteredBy[node]].capacity -= flow;
        edges[enteredBy[node] ^ 1].capacity += flow;
      }
    }
  }

  /// The nodes from which the sink can be reached through what capacity is
  /// left.
  std::vector<bool> getSinkSide(int sink) const {
    std::vector<bool> reaches(edgesOf.size());
    reaches[sink] = true;
    std::queue<int> queue({sink});
    while (!queue.empty()) {
      int node = queue.front();
      queue.pop();
      for (int edge : edgesOf[node])
        if (int from = edges[edge].to;
            edges[edge ^ 1].capacity > 0 && !reaches[from]) {
          reaches[from] = true;
          queue.push(from);
        }
    }
    return reaches;
  }

private:
  struct Edge {
    int to;
    int64_t capacity; ///< what is left; edge e and its reverse e ^ 1 share it
  };
  std::vector<Edge> edges;
  std::vector<SmallVector<int>> edgesOf;
};
} // namespace

static bool comesBefore(Value lhs, Value rhs) {
  auto left = cast<OpResult>(lhs), right = cast<OpResult>(rhs);
  if (left.getOwner() == right.getOwner())
    return left.getResultNumber() < right.getResultNumber();
  return left.getOwner()->isBeforeInBlock(right.getOwner());
}

SmallVector<Value> harmony::autodiff::chooseSavedValues(ArrayRef<Value> reads) {
  // The values that the reads can be recomputed from. Value i is an edge from
  // node 2i + 2 to 2i + 3 whose capacity is the cost of saving it.
  llvm::SetVector<Value> values;
  for (Value read : reads)
    if (read.getDefiningOp())
      values.insert(read);
  for (size_t i = 0; i < values.size(); ++i)
    if (isRecomputable(values[i]))
      for (Value operand : getRecomputeOperands(values[i]))
        if (operand.getDefiningOp())
          values.insert(operand);

  constexpr int source = 0, sink = 1;
  FlowGraph graph(2 * values.size() + 2);
  llvm::DenseMap<Value, int> nodeOf;
  for (auto [index, value] : llvm::enumerate(values))
    nodeOf[value] = 2 * index + 2;
  for (Value value : values) {
    int node = nodeOf[value];
    graph.addEdge(node, node + 1, getCost(value));
    if (!isRecomputable(value)) {
      graph.addEdge(source, node, FlowGraph::kInfinite);
      continue;
    }
    for (Value operand : getRecomputeOperands(value))
      if (operand.getDefiningOp())
        graph.addEdge(nodeOf[operand] + 1, node, FlowGraph::kInfinite);
  }
  for (Value read : reads)
    if (read.getDefiningOp())
      graph.addEdge(nodeOf[read] + 1, sink, FlowGraph::kInfinite);
  graph.saturate(source, sink);

  std::vector<bool> sinkSide = graph.getSinkSide(sink);
  SmallVector<Value> saved;
  for (Value value : values)
    if (int node = nodeOf[value]; !sinkSide[node] && sinkSide[node + 1])
      saved.push_back(value);
  llvm::sort(saved, comesBefore);
  return saved;
}
