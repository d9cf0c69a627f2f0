//===- HostTarget.h - Objects and shared objects for the host ---*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The last steps of compiling: kernels in the llvm dialect to an x86-64 object,
// and the object to the shared object that an executable carries. Both in
// process; no compiler, linker or C library is needed where harmonyc runs.
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_TARGET_HOST_HOSTTARGET_H
#define COMPILER_TARGET_HOST_HOSTTARGET_H

#include "mlir/IR/BuiltinOps.h"

#include <string>

namespace harmony {

/// The least processor that code runs on. AVX2 includes FMA, F16C and BMI;
/// AVX-512 also F, VL, DQ, BW and CD. Results have the same bits under both.
struct HostTarget {
  enum class Isa { Avx2, Avx512 } isa = Isa::Avx2;

  /// The best that the running processor has; fails, without a diagnostic,
  /// where it lacks AVX2.
  static mlir::FailureOr<HostTarget> detect();
  /// "avx2" or "avx512".
  static mlir::FailureOr<HostTarget> parse(llvm::StringRef name);
  llvm::StringRef getName() const {
    return isa == Isa::Avx512 ? "avx512" : "avx2";
  }
  /// Floats in a vector register.
  int64_t getLanes() const { return isa == Isa::Avx512 ? 16 : 8; }
};

/// What the shared object exports beside kernels: see runtime/program.h.
struct Payload {
  llvm::ArrayRef<char>
      program; ///< harmony_program, of harmony_program_size bytes
  llvm::SmallVector<std::string> kernels; ///< harmony_kernels, by name
};

struct ObjectOptions {
  /// Kernels for f64 call the mathematical library; without this, an undefined
  /// symbol is an error.
  bool allowLibraryCalls = false;
  /// 0 to 3, as of LLVM.
  unsigned optimization = 2;
};

/// Compiles a module in the llvm dialect to a position-independent ELF object.
/// Errors are reported at the module. No fast-math, no contraction: the bits
/// are those that the IR asks for.
mlir::FailureOr<llvm::SmallVector<char, 0>>
compileToObject(mlir::ModuleOp module, const HostTarget &target,
                const ObjectOptions &options = {});
/// The same with the symbols of a payload.
mlir::FailureOr<llvm::SmallVector<char, 0>>
compileToObject(mlir::ModuleOp module, const HostTarget &target,
                const Payload &payload, const ObjectOptions &options = {});

/// Links one object into a shared object without dependencies (lld). On failure
/// `error` has the linker's words.
mlir::FailureOr<llvm::SmallVector<char, 0>>
linkSharedObject(llvm::ArrayRef<char> object, std::string &error);

} // namespace harmony

#endif // COMPILER_TARGET_HOST_HOSTTARGET_H
