//===- Passes.cpp - Differentiation ---------------------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Autodiff/Passes.h"

#include "passes/Autodiff/Adjoints.h"
#include "passes/Autodiff/Differentiate.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/BitVector.h"

namespace harmony {
#define GEN_PASS_DEF_DIFFERENTIATEPASS
#define GEN_PASS_DEF_VERIFYDIFFERENTIATEDPASS
#include "passes/Autodiff/Passes.h.inc"
} // namespace harmony

using namespace mlir;
using namespace harmony;
using namespace harmony::autodiff;

//===----------------------------------------------------------------------===//
// harmony-differentiate
//===----------------------------------------------------------------------===//

namespace {
struct DifferentiatePass
    : harmony::impl::DifferentiatePassBase<DifferentiatePass> {
  /// The adjoints come with the pass: no tool can run it without them.
  void getDependentDialects(DialectRegistry &registry) const override {
    DifferentiatePassBase::getDependentDialects(registry);
    registerAutodiffModels(registry);
  }

  void runOnOperation() override {
    // All functions are tried, so that every refusal is told.
    bool valid = true;
    SmallVector<func::FuncOp> layers;
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (function->hasAttr(nn::kLayerAttr) &&
          !function->hasAttr(nn::kSavedAttr))
        layers.push_back(function);
    llvm::StringMap<func::FuncOp> changed;
    for (func::FuncOp function : layers) {
      unsigned results = function.getNumResults();
      valid &= succeeded(differentiate(function));
      saved += function.getNumResults() - results;
      if (function.getNumResults() != results)
        changed[function.getName()] = function;
    }
    if (!valid)
      return signalPassFailure();
    getOperation().walk([&](func::CallOp call) {
      if (auto callee = changed.find(call.getCallee()); callee != changed.end())
        updateCall(call, callee->second);
    });
  }

  /// Gives a call the results that its callee has now.
  static void updateCall(func::CallOp call, func::FuncOp callee) {
    OpBuilder builder(call);
    auto updated = func::CallOp::create(builder, call.getLoc(), callee,
                                        call.getOperands());
    for (NamedAttribute attribute : call->getDiscardableAttrs())
      updated->setDiscardableAttr(attribute.getName(), attribute.getValue());
    call->replaceAllUsesWith(
        updated.getResults().take_front(call.getNumResults()));
    call.erase();
  }
};

//===----------------------------------------------------------------------===//
// harmony-verify-differentiated
//===----------------------------------------------------------------------===//

/// A forward and its backward.
class Pair {
public:
  Pair(func::FuncOp forward, func::FuncOp backward)
      : forward(forward), backward(backward) {}

  LogicalResult verify();

private:
  LogicalResult verifyArgument(BlockArgument argument);
  LogicalResult verifyGradients();
  InFlightDiagnostic report() {
    InFlightDiagnostic error = backward.emitError();
    error.attachNote(forward.getLoc()) << "the forward is here";
    return error;
  }
  /// Claims entry `index` of one kind; fails where it does not exist or is
  /// taken.
  LogicalResult claim(llvm::BitVector &taken, int64_t index, unsigned argument,
                      StringRef attribute) {
    if (index < 0 || index >= static_cast<int64_t>(taken.size()))
      return report() << "argument " << argument << " has " << attribute
                      << " = " << index << ", expected a value in [0, "
                      << taken.size() << ")";
    if (taken.test(index))
      return report() << "argument " << argument << " repeats " << attribute
                      << " = " << index;
    taken.set(index);
    return success();
  }

  func::FuncOp forward, backward;
  llvm::BitVector primals, savedValues, cotangents;
  unsigned firstSaved = 0; ///< result of the forward
};

struct VerifyDifferentiatedPass
    : harmony::impl::VerifyDifferentiatedPassBase<VerifyDifferentiatedPass> {
  void runOnOperation() override {
    SymbolTable symbols(getOperation());
    bool valid = true;
    for (auto forward : getOperation().getOps<func::FuncOp>())
      if (forward->hasAttr(nn::kLayerAttr))
        valid &=
            succeeded(Pair(forward, symbols.lookup<func::FuncOp>(
                                        getBackwardName(forward.getName())))
                          .verify());
    if (!valid)
      signalPassFailure();
  }
};
} // namespace

LogicalResult Pair::verify() {
  auto count = forward->getAttrOfType<IntegerAttr>(nn::kSavedAttr);
  if (!count || count.getInt() < 0 || count.getInt() > forward.getNumResults())
    return forward.emitError() << "needs " << nn::kSavedAttr
                               << ", the number of saved values among its "
                               << forward.getNumResults() << " results";
  firstSaved = forward.getNumResults() - count.getInt();
  for (unsigned result = firstSaved; result < forward.getNumResults(); ++result)
    if (forward.getResultAttr(result, nn::kDifferentiableAttr))
      return forward.emitError()
             << "result " << result << " is a saved value and must not be "
             << nn::kDifferentiableAttr;
  bool needsBackward = false;
  for (unsigned argument = 0; argument < forward.getNumArguments(); ++argument)
    needsBackward |=
        forward.getArgAttr(argument, nn::kDifferentiableAttr) != nullptr;
  if (!backward) {
    if (needsBackward || count.getInt())
      return forward.emitError()
             << "has no backward " << getBackwardName(forward.getName());
    return success();
  }
  if (!backward.getBody().hasOneBlock())
    return report() << "must have a body of one block";

  primals.resize(forward.getNumArguments());
  savedValues.resize(count.getInt());
  cotangents.resize(firstSaved);
  for (BlockArgument argument : backward.getArguments())
    if (failed(verifyArgument(argument)))
      return failure();
  if (int missing = savedValues.find_first_unset(); missing >= 0)
    return report() << "does not read saved value " << missing;
  return verifyGradients();
}

LogicalResult Pair::verifyArgument(BlockArgument argument) {
  unsigned number = argument.getArgNumber();
  auto getIndex = [&](StringRef name) {
    return backward.getArgAttrOfType<IntegerAttr>(number, name);
  };
  IntegerAttr primal = getIndex(nn::kPrimalAttr),
              saved = getIndex(nn::kSavedAttr),
              cotangent = getIndex(nn::kCotangentAttr);
  if (!!primal + !!saved + !!cotangent != 1)
    return report() << "argument " << number << " needs exactly one of "
                    << nn::kPrimalAttr << ", " << nn::kSavedAttr << " and "
                    << nn::kCotangentAttr;
  Type expected;
  if (primal) {
    if (failed(claim(primals, primal.getInt(), number, nn::kPrimalAttr)))
      return failure();
    expected = forward.getArgumentTypes()[primal.getInt()];
  } else if (saved) {
    if (failed(claim(savedValues, saved.getInt(), number, nn::kSavedAttr)))
      return failure();
    expected = forward.getResultTypes()[firstSaved + saved.getInt()];
  } else {
    if (failed(
            claim(cotangents, cotangent.getInt(), number, nn::kCotangentAttr)))
      return failure();
    expected = forward.getResultTypes()[cotangent.getInt()];
    if (!forward.getResultAttr(cotangent.getInt(), nn::kDifferentiableAttr))
      return report() << "argument " << number << " is the cotangent of result "
                      << cotangent.getInt() << ", which is not "
                      << nn::kDifferentiableAttr;
  }
  if (argument.getType() != expected)
    return report() << "argument " << number << " has type "
                    << argument.getType() << ", expected " << expected;
  if (argument.use_empty())
    return report() << "argument " << number << " is not read";
  return success();
}

LogicalResult Pair::verifyGradients() {
  llvm::BitVector found(forward.getNumArguments());
  for (unsigned result = 0; result < backward.getNumResults(); ++result) {
    auto gradient =
        backward.getResultAttrOfType<IntegerAttr>(result, nn::kGradientAttr);
    if (!gradient || gradient.getInt() < 0 ||
        gradient.getInt() >= forward.getNumArguments() ||
        !forward.getArgAttr(gradient.getInt(), nn::kDifferentiableAttr))
      return report()
             << "result " << result << " needs " << nn::kGradientAttr
             << ", the number of a differentiable argument of the forward";
    unsigned argument = gradient.getInt();
    if (found.test(argument))
      return report() << "result " << result
                      << " is a second gradient of argument " << argument;
    found.set(argument);
    if (backward.getResultTypes()[result] !=
        forward.getArgumentTypes()[argument])
      return report() << "gradient of argument " << argument << " has type "
                      << backward.getResultTypes()[result] << ", expected "
                      << forward.getArgumentTypes()[argument];
  }
  for (unsigned argument = 0; argument < forward.getNumArguments(); ++argument)
    if (forward.getArgAttr(argument, nn::kDifferentiableAttr) &&
        !found.test(argument))
      return report() << "has no gradient of argument " << argument;
  return success();
}
