//===- Passes.td - Kernel code generation -------------------*- tablegen -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_CODEGEN_PASSES_TD
#define PASSES_CODEGEN_PASSES_TD

include "mlir/Pass/PassBase.td"

def EmitHostKernelsPass : Pass<"harmony-emit-host-kernels", "mlir::ModuleOp"> {
  let summary = "replace functions around one fusion group by its range functions";
  let description = [{
    Before: functions whose body is one kernel (an `nn.group`, or an op that can be a kernel of its own) and
    a return, on static types. After: the kernels alone, for row-major buffers, and for
    every function an attribute of the module that tells its launches: function, extent, grain and arguments
    in order. For tests; the compiler calls emitHostKernel with the views of its buffers.
  }];
  let options = [
    Option<"accumulate", "accumulate", "bool", "false", "add results to what memory holds">,
    Option<"inPlace", "in-place", "bool", "false", "result j has the buffer of operand j">
  ];
  let dependentDialects = ["mlir::arith::ArithDialect", "mlir::math::MathDialect", "mlir::scf::SCFDialect",
                           "mlir::vector::VectorDialect", "mlir::LLVM::LLVMDialect", "mlir::func::FuncDialect"];
}

def EmitGpuKernelsPass : Pass<"harmony-emit-gpu-kernels", "mlir::ModuleOp"> {
  let summary = "replace functions around one fusion group by GPU kernels, a warp to a row";
  let description = [{
    The same row programs as on the host with the threads of a warp as lanes, so that sums have the same
    order. A kernel takes its buffers and the extent of its range; the grid covers the range with 4 warps
    to a block (maps over one axis: 128 elements to a block).
  }];
  let dependentDialects = ["mlir::arith::ArithDialect", "mlir::math::MathDialect", "mlir::scf::SCFDialect",
                           "mlir::gpu::GPUDialect", "mlir::LLVM::LLVMDialect", "mlir::func::FuncDialect",
                           "mlir::NVVM::NVVMDialect"];
}

def ApproximateMathPass : Pass<"harmony-approximate-math"> {
  let summary = "replace f32 functions by polynomials";
  let description = [{
    Vectors and scalars get the same polynomial, so that an element has the same bits wherever in a row
    it falls and whatever the instruction set. f64 functions are left to the mathematical library:
    they are for tests.
  }];
  let dependentDialects = ["mlir::arith::ArithDialect", "mlir::math::MathDialect", "mlir::vector::VectorDialect"];
}

def UseDeviceInstructionsPass : Pass<"harmony-use-device-instructions", "mlir::gpu::GPUModuleOp"> {
  let summary = "replace calls of libdevice by instructions";
  let description = [{
    convert-gpu-to-nvvm calls libdevice for absolute values, fused multiply-adds, square roots and rounding, which are
    instructions with one correct result; kernels then need no library.
  }];
  let dependentDialects = ["mlir::LLVM::LLVMDialect"];
}

#endif // PASSES_CODEGEN_PASSES_TD
