//===- KernelWork.cpp - Operations of a generated kernel ------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Tasks/KernelWork.h"

#include "passes/Codegen/Kernel.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace harmony;

/// Simple operations that one op takes for each element: polynomials of the
/// functions (about their degree, and what reduces their argument), and the
/// throughput of dividers.
static double weightOf(Operation *op) {
  if (isa<arith::ConstantOp>(op) || op->getNumResults() != 1)
    return 0;
  if (isa<math::ErfOp, math::TanhOp, math::SinOp, math::CosOp, math::PowFOp>(
          op))
    return 30;
  if (isa<math::SqrtOp, math::RsqrtOp>(op))
    return 12;
  if (isa<math::AbsFOp, math::FloorOp, math::CeilOp, math::FmaOp>(op))
    return 1;
  if (op->getName().getDialectNamespace() == "math")
    return 20; // exponential, logarithm
  if (isa<arith::DivFOp>(op))
    return 10;
  if (op->getName().getDialectNamespace() == "arith")
    return 1;
  return 0;
}

/// Of f32 in a register of the wider instruction set.
static constexpr int64_t lanes = 16;

static double operationsOf(Operation *op) {
  Type type = op->getNumResults() == 1 ? op->getResult(0).getType() : Type();
  auto vector = dyn_cast_or_null<VectorType>(type);
  Type element = vector ? vector.getElementType() : type;
  // Integers are addresses, but for vectors of them.
  if (!element || (!vector && !isa<FloatType>(element)))
    return 0;
  double elements = vector ? static_cast<double>(vector.getNumElements()) : 1;
  return weightOf(op) * std::max<double>(elements, lanes);
}

static double operationsOf(Block &block);

/// Whether the loop's steps are single elements, each by itself and without
/// positions to compare: LLVM takes a register of them at a time.
static bool isElementwise(scf::ForOp loop) {
  return loop.getInitArgs().empty() &&
         llvm::none_of(loop.getBody()->getOperations(), [](Operation &op) {
           return op.getNumRegions() > 0 || isa<arith::CmpIOp>(op) ||
                  llvm::any_of(op.getResultTypes(),
                               [](Type type) { return isa<VectorType>(type); });
         });
}

/// Of a loop over a part of the kernel's range: for one index. Of several that
/// share a range the one with the longest steps has most of it.
static double operationsOf(scf::ForOp loop, int64_t &dynamicStep) {
  APInt low, high, step;
  double body = operationsOf(*loop.getBody());
  if (!matchPattern(loop.getStep(), m_ConstantInt(&step)) ||
      step.getSExtValue() <= 0)
    return body;
  if (matchPattern(loop.getLowerBound(), m_ConstantInt(&low)) &&
      matchPattern(loop.getUpperBound(), m_ConstantInt(&high))) {
    int64_t extent = high.getSExtValue() - low.getSExtValue();
    int64_t trips = (extent + step.getSExtValue() - 1) / step.getSExtValue();
    trips = std::max<int64_t>(0, trips);
    if (step.isOne() && isElementwise(loop))
      trips = llvm::divideCeil(trips, lanes);
    return body * static_cast<double>(trips);
  }
  dynamicStep = step.getSExtValue();
  return body / static_cast<double>(dynamicStep);
}

/// Of its regions, of which a condition takes one: the longest, as often as the
/// kernel's author says that it is taken.
static double operationsInside(Operation &op) {
  double sum = 0, most = 0;
  for (Region &region : op.getRegions()) {
    double operations = 0;
    for (Block &inner : region)
      operations += operationsOf(inner);
    sum += operations;
    most = std::max(most, operations);
  }
  if (!isa<scf::IfOp>(op))
    return sum;
  auto taken = op.getAttrOfType<FloatAttr>(codegen::kTakenAttr);
  return taken ? most * taken.getValueAsDouble() : most;
}

static double operationsOf(Block &block) {
  double sum = 0, dynamic = 0;
  int64_t longest = 0;
  for (Operation &op : block) {
    auto loop = dyn_cast<scf::ForOp>(op);
    if (!loop) {
      sum += operationsOf(&op) + operationsInside(op);
      continue;
    }
    int64_t step = 0;
    double operations = operationsOf(loop, step);
    if (step == 0)
      sum += operations;
    else if (step > longest)
      dynamic = operations;
    else if (step == longest)
      dynamic += operations;
    longest = std::max(longest, step);
  }
  return sum + dynamic;
}

double harmony::countOperations(ModuleOp kernels, StringRef kernel) {
  auto body = kernels.lookupSymbol<func::FuncOp>((kernel + ".body").str());
  if (!body)
    return 0;
  double sum = 0;
  for (Block &block : body.getBody())
    sum += operationsOf(block);
  return sum;
}
