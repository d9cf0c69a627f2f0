//===- ProgramBuilder.h - Nodes of a graph to a row program -----*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_CODEGEN_PROGRAMBUILDER_H
#define PASSES_CODEGEN_PROGRAMBUILDER_H

#include "passes/Codegen/RowProgram.h"

namespace harmony::codegen {

/// Turns the nodes and stores of a stage into a row program, fusing
/// neighbouring axes that every access walks through as one.
class ProgramBuilder {
public:
  ProgramBuilder(Graph &graph, RowProgram &program)
      : graph(graph), program(program) {}

  unsigned addNode(unsigned node);
  /// A reduction along the row that the graph has not got: a part of one across
  /// rows.
  unsigned addRowReduction(unsigned operand, nn::ReduceKind kind);
  unsigned addMemory(unsigned memory);
  void addStore(RowStore store, const AtomStrides &strides);
  void finish(llvm::ArrayRef<unsigned> kept, llvm::ArrayRef<unsigned> reduced,
              llvm::ArrayRef<unsigned> inner, bool mayFlatten);

private:
  Graph &graph;
  RowProgram &program;
  llvm::DenseMap<unsigned, unsigned> numbers, memoryNumbers;
  std::vector<AtomStrides> nodeStrides, storeStrides;
};
} // namespace harmony::codegen

#endif // PASSES_CODEGEN_PROGRAMBUILDER_H
