//===- Graph.h - A fusion group as an expression graph ----------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A group without its shape algebra: what broadcast, reshape and transpose do
// is in the atoms of loads and stores, so that only loads, elementwise ops and
// reductions are left.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_CODEGEN_GRAPH_H
#define PASSES_CODEGEN_GRAPH_H

#include "dialects/NN/NN.h"
#include "passes/Codegen/Atoms.h"
#include "passes/Codegen/Kernel.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/MapVector.h"

#include <vector>

namespace harmony::codegen {

/// The atoms of every axis of a value.
using Axes = llvm::SmallVector<AtomList, 4>;
/// How far one step of an atom moves an address (or an index), in elements.
using AtomStrides = llvm::SmallVector<std::pair<unsigned, int64_t>, 4>;

/// Something that loads read and stores write: a buffer of the launch, or a
/// table of constants that is part of the code.
struct Memory {
  Argument argument;
  mlir::Type element;
  llvm::SmallVector<int64_t> shape, strides;
  mlir::DenseElementsAttr table;
};

/// What a node of a group and a node of a program have in common.
struct NodeBase {
  enum Kind {
    Load,     ///< memory at `strides`, plus operand 0 (an index, clamped to [0,
              ///< indexExtent)) * indexStride
    Combine,  ///< the partials of a reduction, in order: memory at `strides` +
              ///< chunk * chunkStride
    Constant, ///< `value`
    Iota,     ///< the index that `strides` make
    Element,  ///< `op` of the operands
    Reduce    ///< of operand 0 over `reduced`
  };
  NodeBase(Kind kind, mlir::Type type) : kind(kind), type(type) {}

  Kind kind;
  mlir::Type type; ///< of an element
  llvm::SmallVector<unsigned, 3> operands;
  mlir::Operation *op = nullptr;
  mlir::Attribute value;
  unsigned memory = 0;
  int64_t offset = 0;
  bool indexed = false;
  int64_t indexExtent = 0, indexStride = 0;
  int64_t chunks = 0, chunkStride = 0;
  nn::ReduceKind reduction = nn::ReduceKind::sum;

  /// Whether both compute the same, but for their strides; operands are of one
  /// list of nodes.
  bool computesAs(const NodeBase &other) const;
};

struct Node : NodeBase {
  using NodeBase::NodeBase;

  // As built: axes and a stride for each. As resolved: strides by atom.
  Axes axes;
  llvm::SmallVector<int64_t> axisStrides;
  AtomStrides strides;
  AtomList reduced;
};

/// A value of the group: a node seen along axes.
struct Tensor {
  unsigned node;
  Axes axes;
};

/// A store of a value.
struct Root {
  Tensor tensor;
  unsigned memory;
  int64_t offset;
  llvm::SmallVector<int64_t> axisStrides;
  bool accumulate;
  /// The value is read by later launches: they wait for all stores to its
  /// memory.
  bool intermediate;
  /// Position among stores to one memory that must keep their order (the fill
  /// of a pad).
  int order;
  AtomStrides strides = {};
};

/// Strides by atom of a tensor that is stored with `axisStrides`.
AtomStrides resolveStrides(const Atoms &atoms, const Axes &axes,
                           llvm::ArrayRef<int64_t> axisStrides);

class Graph {
public:
  /// Flattens the op of `spec`: composites are decomposed, dead ops dropped.
  static mlir::FailureOr<Graph> build(const KernelSpec &spec);

  /// Finds nodes and roots, as far as possible without intermediate results in
  /// memory but for the values that materialise() has named.
  mlir::LogicalResult analyse();
  /// Lets the next analysis store the result of a reduction in memory.
  void materialise(mlir::Value value) { materialised.insert({value, ~0u}); }
  bool isMaterialised(mlir::Value value) const {
    return materialised.count(value);
  }

  Atoms atoms;
  std::vector<Node> nodes;
  std::vector<Memory> memories;
  std::vector<Root> roots;
  /// Sizes of the temporaries in bytes.
  llvm::SmallVector<int64_t> temporaries;

  mlir::Location getLoc() const { return spec->op->getLoc(); }
  mlir::InFlightDiagnostic emitError() const {
    return spec->op->emitOpError("as a kernel: ");
  }
  const KernelSpec &getSpec() const { return *spec; }
  /// The value that a reduction node computes, and whether the group uses it
  /// otherwise than as a result.
  mlir::Value getValue(unsigned node) const;
  bool isUsedInside(mlir::Value value) const;
  unsigned addTemporary(mlir::Type element, llvm::ArrayRef<int64_t> shape);

private:
  mlir::LogicalResult visit(mlir::Operation *op);
  mlir::LogicalResult visitElementwise(mlir::Operation *op);
  mlir::LogicalResult visitGather(nn::GatherOp op);
  mlir::FailureOr<Tensor> use(mlir::Value value);
  mlir::FailureOr<Tensor> makeLeaf(mlir::Value value);
  void shareDomain();
  /// A value that must lie in memory: its memory, or failure after having asked
  /// for it.
  mlir::FailureOr<unsigned> useMemory(mlir::Value value);
  Axes makeAxes(llvm::ArrayRef<int64_t> shape);
  unsigned addNode(Node node);
  Tensor load(unsigned memory);
  void addRoot(Tensor tensor, unsigned memory, llvm::ArrayRef<int64_t> starts,
               llvm::ArrayRef<int64_t> steps, bool accumulate,
               bool intermediate, int order);
  mlir::LogicalResult storePieces(mlir::Operation *op, unsigned memory,
                                  bool accumulate, bool intermediate);
  mlir::LogicalResult makeRoots();
  mlir::LogicalResult resolve();

  const KernelSpec *spec = nullptr;
  mlir::OwningOpRef<mlir::ModuleOp> scratch;
  mlir::Block *body = nullptr;
  llvm::SmallVector<mlir::Value> results;
  /// Values kept in memory and their memories; in order of definition once
  /// analysed.
  llvm::MapVector<mlir::Value, unsigned> materialised;
  llvm::DenseMap<mlir::Value, Tensor> tensors;
  /// How much of the group is assumed to run over the same indices. What is
  /// assumed too much shows as an axis that a value has twice.
  enum Sharing {
    None,   ///< every use of an operand has indices of its own
    Leaves, ///< all uses of an operand have the same indices
    Domain  ///< so have all values of the largest shape
  } sharing = Domain;
  llvm::MapVector<mlir::Value, Tensor> leaves;
  llvm::DenseMap<unsigned, mlir::Value> reductions;
  bool again = false;
};

/// Size of an element in memory, in bytes.
int64_t getElementBytes(mlir::Type type);

} // namespace harmony::codegen

#endif // PASSES_CODEGEN_GRAPH_H
