//===- Kernel.h - Kernels out of fusion groups ------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the lowering of layer functions calls to turn one fusion group into
// range functions. A kernel works on bare pointers: where its tensors lie is
// said by views (strides, in elements), their base addresses are arguments of
// the launch.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_CODEGEN_KERNEL_H
#define PASSES_CODEGEN_KERNEL_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"

#include <string>

namespace harmony::codegen {

/// On an scf.if without an else, an f64: the part of the times that it is
/// taken, where that is known. For estimates (passes/Tasks/KernelWork).
inline constexpr llvm::StringLiteral kTakenAttr = "harmony.taken";

/// Where the elements of a tensor lie: element (i0, i1, ..) at base + sum i_k *
/// strides[k], in elements. A stride may be 0 (an operand's repeated axis) or
/// negative. Elements of i1 take a byte each.
struct View {
  llvm::SmallVector<int64_t> strides;

  static View rowMajor(llvm::ArrayRef<int64_t> shape);
};

/// A kernel to be made. `op` is an nn.group, or a single op of those that a
/// group may hold, or nn.scatter_add, nn.transpose, nn.slice, nn.pad,
/// nn.concat, or an op with windows; its types are static. Empty `accumulate`
/// and `inPlace` stand for none.
struct KernelSpec {
  mlir::Operation *op;
  llvm::SmallVector<View> operands, results;
  /// Result j is added to what memory holds instead of stored.
  llvm::SmallVector<bool> accumulate;
  /// Result j has the buffer (and the view) of operand inPlace[j]; -1: a buffer
  /// of its own. Otherwise results alias neither each other nor operands.
  llvm::SmallVector<int> inPlace;
};

/// One buffer of a launch.
struct Argument {
  enum Kind { Operand, Result, Temporary } kind;
  unsigned index;
  bool written = false;

  bool operator==(const Argument &other) const {
    return kind == other.kind && index == other.index;
  }
};

/// One call of a range function over [0, extent). Any split gives the same
/// bits.
struct Launch {
  std::string function; ///< symbol in the module of kernels
  int64_t extent;       ///< indices of the outermost parallel dimension
  int64_t grain;        ///< indices worth handing to a worker at a time
  int family;           ///< HmFamily of runtime/program.h
  llvm::SmallVector<Argument>
      arguments; ///< in the order of HmRangeFunction's buffers
};

/// Launches in the order in which they must run, and the workspace (bytes,
/// aligned to 64) that lives from the first to the last of them.
struct EmittedKernel {
  llvm::SmallVector<Launch> launches;
  llvm::SmallVector<int64_t> temporaries;
};

/// Rows summed into one partial result of a reduction across rows.
inline constexpr int64_t kChunkRows = 64;
/// Lanes of a reduction along a row, whatever the vector registers hold.
inline constexpr int64_t kLanes = 32;
/// Bytes of stack that one kernel may use for values of a row.
inline constexpr int64_t kStackBytes = 16384;

/// Adds the functions of a kernel to `kernels` (equal ones once: the name is a
/// hash of the code) and says how to launch them. Reports an error at the op
/// for what it cannot express. The functions are in scf, arith, math, vector
/// and llvm (loads and stores); buildLowerHostKernels brings them to the llvm
/// dialect.
mlir::FailureOr<EmittedKernel> emitHostKernel(const KernelSpec &spec,
                                              mlir::ModuleOp kernels);

} // namespace harmony::codegen

#endif // PASSES_CODEGEN_KERNEL_H
