//===- RowEmission.h - State of emitting a row program ----------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Private to RowEmitter.cpp (loops) and RowValues.cpp (values and addresses).
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_CODEGEN_ROWEMISSION_H
#define PASSES_CODEGEN_ROWEMISSION_H

#include "passes/Codegen/RowEmitter.h"

namespace harmony::codegen {

/// Where elements are being computed: lanes starting at `first`, or the element
/// `first`.
struct RowBlock {
  RowBlock(mlir::OpBuilder &builder, bool lanes, mlir::Value first)
      : builder(builder), lanes(lanes), first(first) {}

  mlir::OpBuilder &builder;
  bool lanes;
  mlir::Value first;
  llvm::DenseMap<unsigned, mlir::Value> values; ///< of nodes
  llvm::SmallVector<mlir::Value> coordinates;   ///< along the inner axes
};

class RowEmitter {
public:
  RowEmitter(mlir::OpBuilder &builder, mlir::Location loc,
             const RowProgram &program, const RowFrame &frame)
      : builder(builder), rowBuilder(builder), loc(loc), program(program),
        frame(frame), target(frame.target) {}
  void run();

private:
  // Loops.
  void emitFlat();
  void emitRows();
  void emitChunks();
  void emitRow();
  void emitPass(unsigned pass, mlir::Value low, mlir::Value high,
                bool isStatic);
  using LoopBody = llvm::function_ref<llvm::SmallVector<mlir::Value>(
      mlir::OpBuilder &, mlir::Value, mlir::ValueRange)>;
  mlir::ValueRange emitLoop(mlir::OpBuilder &at, mlir::Value low,
                            mlir::Value high, int64_t step,
                            mlir::ValueRange initial, LoopBody body);
  llvm::SmallVector<mlir::Value> delinearise(mlir::OpBuilder &at,
                                             mlir::Value index,
                                             llvm::ArrayRef<int64_t> extents);

  // Values.
  mlir::Value getUniform(unsigned node);
  mlir::Value getValue(unsigned node, RowBlock &block);
  mlir::Value computeRow(unsigned node, RowBlock &block);
  mlir::Value loadRow(unsigned node, RowBlock &block);
  mlir::Value combineChunks(unsigned node, RowBlock *block);
  mlir::Value apply(mlir::OpBuilder &at, const RowNode &node,
                    mlir::ValueRange operands, bool lanes);
  bool comparesIndices(const RowNode &node) const;
  mlir::Value compareNarrow(const RowNode &node, RowBlock &block);
  mlir::Value convertIndex(mlir::OpBuilder &at, mlir::Value index,
                           mlir::Type element, bool lanes);
  mlir::Value clampIndex(mlir::OpBuilder &at, mlir::Value index, int64_t extent,
                         bool lanes);
  mlir::Value makeConstant(mlir::OpBuilder &at, mlir::TypedAttr value,
                           bool lanes);

  // Addresses.
  mlir::Value getBase(unsigned memory, int64_t offset,
                      const AxisStrides &strides);
  mlir::Value getNodeBase(unsigned node);
  mlir::Value getStoreBase(unsigned store);
  mlir::Value getInnerOffset(const AxisStrides &strides, RowBlock &block);
  mlir::Value readMemory(mlir::Type element, mlir::Value base,
                         const AxisStrides &strides, RowBlock &block);
  void writeMemory(mlir::Value value, mlir::Value base,
                   const AxisStrides &strides, RowBlock &block);
  void storeRow(unsigned store, RowBlock &block);
  void storeUniform(unsigned store);
  bool isContiguous(const AxisStrides &strides) const {
    return program.inner.size() == 1 && strides.inner.front() == 1;
  }

  // Passes.
  unsigned getPass(const RowStore &store) const;
  void planBuffers();
  void reach(unsigned node, unsigned pass,
             llvm::DenseMap<unsigned, unsigned> &firstPass,
             llvm::DenseSet<unsigned> &seen);

  mlir::OpBuilder &builder;
  mlir::OpBuilder rowBuilder; ///< in front of the pass that is being emitted
  mlir::Location loc;
  const RowProgram &program;
  const RowFrame &frame;
  const LaneTarget &target;

  unsigned passes = 0, currentPass = 0;
  llvm::SmallVector<mlir::Value> outerCoordinates;
  mlir::Value chunk;
  llvm::DenseMap<unsigned, mlir::Value> uniforms, nodeBases, storeBases;
  struct Buffer {
    unsigned pass; ///< that writes it
    mlir::Value base;
  };
  llvm::DenseMap<unsigned, Buffer> buffers;
};
} // namespace harmony::codegen

#endif // PASSES_CODEGEN_ROWEMISSION_H
