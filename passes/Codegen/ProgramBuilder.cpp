//===- ProgramBuilder.cpp - Nodes of a graph to a row program -------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Codegen/ProgramBuilder.h"

using namespace mlir;
using namespace harmony;
using namespace harmony::codegen;

unsigned ProgramBuilder::addMemory(unsigned memory) {
  // A buffer that is written in place is one argument.
  const Argument &argument = graph.memories[memory].argument;
  ArrayRef<int> inPlace = graph.getSpec().inPlace;
  if (!graph.memories[memory].table && argument.kind == Argument::Operand)
    for (auto [result, operand] : llvm::enumerate(inPlace))
      if (operand == static_cast<int>(argument.index))
        memory = graph.getSpec().operands.size() + result;
  auto [entry, isNew] =
      memoryNumbers.try_emplace(memory, program.memories.size());
  if (isNew) {
    program.memories.push_back(graph.memories[memory]);
    program.memories.back().argument.written = false;
  }
  return entry->second;
}

unsigned ProgramBuilder::addNode(unsigned number) {
  if (auto known = numbers.find(number); known != numbers.end())
    return known->second;
  const Node &node = graph.nodes[number];
  RowNode result(node);
  for (unsigned &operand : result.operands)
    operand = addNode(operand);
  bool isRead = node.kind == Node::Load || node.kind == Node::Combine;
  result.memory = isRead ? addMemory(node.memory) : 0;

  // The same value read or computed twice is one node.
  for (unsigned other = 0; other < program.nodes.size(); ++other)
    if (result.computesAs(program.nodes[other]) &&
        nodeStrides[other] == node.strides)
      return numbers[number] = other;
  program.nodes.push_back(std::move(result));
  nodeStrides.push_back(node.strides);
  return numbers[number] = program.nodes.size() - 1;
}

unsigned ProgramBuilder::addRowReduction(unsigned operand,
                                         nn::ReduceKind kind) {
  for (auto [index, node] : llvm::enumerate(program.nodes))
    if (node.kind == Node::Reduce && node.operands[0] == operand &&
        node.reduction == kind)
      return index;
  RowNode node(Node::Reduce, program.nodes[operand].type);
  node.operands = {operand};
  node.reduction = kind;
  program.nodes.push_back(std::move(node));
  nodeStrides.push_back({});
  return program.nodes.size() - 1;
}

void ProgramBuilder::addStore(RowStore store, const AtomStrides &strides) {
  store.memory = addMemory(store.memory);
  program.memories[store.memory].argument.written = true;
  program.stores.push_back(std::move(store));
  storeStrides.push_back(strides);
}

static int64_t getStride(const AtomStrides &strides, unsigned atom) {
  for (auto &[known, stride] : strides)
    if (known == atom)
      return stride;
  return 0;
}

void ProgramBuilder::finish(ArrayRef<unsigned> kept, ArrayRef<unsigned> reduced,
                            ArrayRef<unsigned> inner, bool mayFlatten) {
  // Joins runs of atoms whose strides continue each other in every access; each
  // run is one axis and its innermost atom tells the stride.
  struct Axis {
    unsigned last;
    int64_t extent;
  };
  auto fuse = [&](ArrayRef<unsigned> atoms) {
    SmallVector<Axis> axes;
    for (unsigned atom : atoms) {
      int64_t extent = graph.atoms.getExtent(atom);
      bool joins = !axes.empty();
      for (const AtomStrides &strides :
           llvm::concat<const AtomStrides>(nodeStrides, storeStrides))
        joins = joins && getStride(strides, axes.back().last) ==
                             getStride(strides, atom) * extent;
      if (joins)
        axes.back() = {atom, axes.back().extent * extent};
      else
        axes.push_back({atom, extent});
    }
    return axes;
  };
  SmallVector<Axis> outer = fuse(kept), combined = fuse(reduced),
                    row = fuse(inner);
  if (mayFlatten && !outer.empty()) {
    row = {outer.back()};
    outer.pop_back();
    program.flat = outer.empty();
  }
  program.reducedOuter = combined.size();
  llvm::append_range(outer, combined);
  auto convert = [&](const AtomStrides &strides) {
    AxisStrides result;
    for (const Axis &axis : outer)
      result.outer.push_back(getStride(strides, axis.last));
    for (const Axis &axis : row)
      result.inner.push_back(getStride(strides, axis.last));
    return result;
  };
  for (const Axis &axis : outer)
    program.outer.push_back(axis.extent);
  for (const Axis &axis : row)
    program.inner.push_back(axis.extent);
  for (auto [node, strides] : llvm::zip_equal(program.nodes, nodeStrides)) {
    node.strides = convert(strides);
    bool varies = llvm::any_of(node.strides.inner,
                               [](int64_t stride) { return stride != 0; });
    node.isRow = node.kind != Node::Reduce &&
                 (varies || llvm::any_of(node.operands, [&](unsigned operand) {
                    return program.nodes[operand].isRow;
                  }));
    for (unsigned operand : node.operands)
      node.level =
          std::max(node.level, program.nodes[operand].level +
                                   (node.kind == Node::Reduce ? 1 : 0));
  }
  for (auto [store, strides] : llvm::zip_equal(program.stores, storeStrides)) {
    store.strides = convert(strides);
    store.isRow = llvm::any_of(store.strides.inner,
                               [](int64_t stride) { return stride != 0; });
  }
}
