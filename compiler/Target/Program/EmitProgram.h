//===- EmitProgram.h - Programs to the command table ------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_TARGET_PROGRAM_EMITPROGRAM_H
#define COMPILER_TARGET_PROGRAM_EMITPROGRAM_H

#include "runtime/program.h"

#include "mlir/IR/BuiltinOps.h"

#include <string>
#include <vector>

namespace harmony {

/// What the header holds beside the programs.
struct ProgramInfo {
  std::string model;    ///< file name, without folders
  std::string compiler; ///< version of harmonyc
  std::string numericsKey;
  std::string fingerprint; ///< hexadecimal
  std::string planSummary; ///< for --print-plan
  std::string diskPath;    ///< of the host store; empty: in memory
  int64_t diskMemory = 0;  ///< bytes of that store in memory; 0: not said
  HmIsa isa = HM_ISA_AVX2;
  HmOptimizer optimizer = HM_OPTIMIZER_NONE;
  int64_t libraryBytes =
      0; ///< scratch of one library call, per worker of every device
};

struct EmittedProgram {
  std::vector<char> blob; ///< as runtime/program.h says
  /// Generated kernels: entry i is harmony_kernels[i].
  std::vector<std::string> kernels;
};

/// Writes the programs of a module: queues with addresses (passes Schedule and
/// Memory), tasks, places and variables. The size does not depend on the number
/// of microbatches. Errors are reported at the op.
mlir::FailureOr<EmittedProgram> emitProgram(mlir::ModuleOp module,
                                            const ProgramInfo &info);

/// A blob as text, one command a line: for tests and --dump-stages. The blob
/// must be one that emitProgram wrote.
std::string dumpProgram(const std::vector<char> &blob);

} // namespace harmony

#endif // COMPILER_TARGET_PROGRAM_EMITPROGRAM_H
