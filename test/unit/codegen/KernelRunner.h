//===- KernelRunner.h - Compile and run one kernel --------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Takes the way of the compiler: emit, lower, object, shared object, load; then
// runs the launches on buffers laid out by views.
//
//===----------------------------------------------------------------------===//

#ifndef TEST_UNIT_CODEGEN_KERNELRUNNER_H
#define TEST_UNIT_CODEGEN_KERNELRUNNER_H

#include "compiler/Target/Host/HostTarget.h"
#include "dialects/NN/Evaluate.h"
#include "passes/Codegen/Kernel.h"

#include "mlir/IR/OwningOpRef.h"

namespace harmony::test {

using Bytes = std::vector<char>;

struct RunnerOptions {
  bool accumulate = false;
  /// Results that share the buffer of an operand.
  llvm::SmallVector<int> inPlace;
  /// Axes of every operand and result are laid out in reverse order, with gaps.
  bool strided = false;
  /// All values of the function are results of the group, not only those it
  /// returns.
  bool storeAll = false;
};

/// The function `f` of a module in text, as one group (or, when it holds only
/// one op, as it is).
class KernelRunner {
public:
  KernelRunner(llvm::StringRef text, RunnerOptions options);
  ~KernelRunner();

  bool isValid() const { return valid; }
  /// Whether the function has more than one op.
  bool isGroup() const { return mlir::isa<nn::GroupOp>(spec.op); }
  const codegen::EmittedKernel &getKernel() const { return kernel; }
  /// Compiles for a target; the kernels of the last one run. False on errors.
  bool compile(HostTarget target);
  /// Random inputs: floats in [-2, 2), integers in [0, limit).
  void makeInputs(unsigned seed, int64_t limit);
  /// Runs all launches, the range of each in pieces of `split` indices (0: as
  /// one). Returns the elements of the results in row-major order.
  std::vector<Bytes> run(int64_t split);
  /// What the reference interpreter makes of the same inputs, before
  /// accumulation.
  std::vector<nn::HostTensor> evaluate();
  /// Results as returned by run, as numbers.
  static std::vector<double> toNumbers(const Bytes &bytes, mlir::Type element);
  /// What result buffers hold before a run.
  static constexpr double kOld = 0.5;

  mlir::func::FuncOp function;
  /// Results that the function itself returns come first.
  size_t returned = 0;
  llvm::SmallVector<mlir::RankedTensorType> resultTypes;
  std::vector<nn::HostTensor> inputs;

private:
  codegen::View makeView(mlir::RankedTensorType type, int64_t &elements) const;

  RunnerOptions options;
  mlir::MLIRContext &context;
  mlir::OwningOpRef<mlir::ModuleOp> module, kernels;
  codegen::KernelSpec spec;
  codegen::EmittedKernel kernel;
  llvm::SmallVector<int64_t> operandElements, resultElements;
  bool valid = false;
  void *library = nullptr;
};

} // namespace harmony::test

#endif // TEST_UNIT_CODEGEN_KERNELRUNNER_H
