//===- AutodiffTest.cpp - Adjoints against finite differences -------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/NN/Evaluate.h"
#include "passes/Autodiff/Adjoints.h"
#include "passes/Autodiff/Differentiate.h"
#include "test/unit/autodiff/BackwardArguments.h"
#include "test/unit/autodiff/Rows.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"
#include <cmath>
#include <random>

using namespace mlir;
using namespace harmony;
using namespace harmony::autodiff;
using namespace harmony::nn;

namespace {

using Tensors = SmallVector<HostTensor>;

MLIRContext &getContext() {
  static MLIRContext context = [] {
    DialectRegistry registry;
    registry.insert<NNDialect, arith::ArithDialect, func::FuncDialect,
                    math::MathDialect>();
    registerAutodiffModels(registry);
    return MLIRContext(registry);
  }();
  context.loadAllAvailableDialects();
  return context;
}

/// A row, its inputs, and its gradient by finite differences.
class Case {
public:
  explicit Case(const Row &row)
      : row(row), generator(std::hash<std::string>()(row.name)) {
    module = parseSourceString<ModuleOp>(row.text, &getContext());
    if (!module)
      return;
    options.samples = row.samples;
    auto function = getForward(*module);
    for (BlockArgument argument : function.getArguments())
      inputs.push_back(draw(argument.getType(), getDomain(argument)));
    for (Type type : function.getResultTypes())
      weights.push_back(draw(type, {-1.5, 1.5}));
    for (unsigned argument = 0; argument < inputs.size(); ++argument)
      if (function.getArgAttr(argument, nn::kDifferentiableAttr))
        expected[argument] = differentiateNumerically(argument);
  }

  explicit operator bool() const { return static_cast<bool>(module); }
  ModuleOp getModule() const { return *module; }

  /// The largest difference between the gradients of the backward and the
  /// expected ones, relative to the expected where that is above 1; NaN where
  /// evaluation fails.
  double getError(const DifferentiateOptions &differentiateOptions = {}) const {
    OwningOpRef<ModuleOp> copy = module.get().clone();
    auto forward = getForward(*copy);
    auto backward = differentiate(forward, differentiateOptions);
    if (failed(backward) || failed(verify(*copy)))
      return NAN;
    auto outputs = evaluate(forward, inputs, options);
    if (failed(outputs))
      return NAN;
    auto gradients = evaluate(
        *backward,
        getBackwardArguments(forward, *backward, inputs, *outputs, weights),
        options);
    if (failed(gradients) || gradients->size() != expected.size())
      return NAN;
    double error = 0;
    for (unsigned i = 0; i < gradients->size(); ++i) {
      unsigned argument =
          backward->getResultAttrOfType<IntegerAttr>(i, nn::kGradientAttr)
              .getInt();
      const std::vector<double> &numeric = expected.at(argument);
      for (size_t j = 0; j < numeric.size(); ++j) {
        double difference = std::fabs((*gradients)[i].floats[j] - numeric[j]) /
                            std::max(1.0, std::fabs(numeric[j]));
        if (std::isnan(difference))
          return NAN;
        error = std::max(error, difference);
      }
    }
    return error;
  }

private:
  static func::FuncOp getForward(ModuleOp module) {
    return module.lookupSymbol<func::FuncOp>("f");
  }

  Domain getDomain(BlockArgument argument) const {
    auto found = row.domains.find(argument.getArgNumber());
    if (found != row.domains.end())
      return found->second;
    bool isFloat =
        cast<RankedTensorType>(argument.getType()).getElementType().isFloat();
    return isFloat ? Domain{-1.5, 1.5} : Domain{0, 1};
  }

  HostTensor draw(Type type, Domain domain) {
    HostTensor tensor(instantiate(cast<RankedTensorType>(type), row.samples));
    std::uniform_real_distribution<double> real(domain.low, domain.high);
    std::uniform_int_distribution<int64_t> integer(domain.low, domain.high);
    for (double &element : tensor.floats)
      element = real(generator);
    for (int64_t &element : tensor.integers)
      element = integer(generator);
    return tensor;
  }

  /// Sum of the differentiable results times their weights.
  double evaluateAt(ArrayRef<HostTensor> point) const {
    auto function = getForward(*module);
    auto outputs = evaluate(function, point, options);
    if (failed(outputs))
      return NAN;
    double sum = 0;
    for (unsigned result = 0; result < outputs->size(); ++result)
      if (function.getResultAttr(result, nn::kDifferentiableAttr))
        for (size_t i = 0; i < weights[result].floats.size(); ++i)
          sum += weights[result].floats[i] * (*outputs)[result].floats[i];
    return sum;
  }

  /// Central differences of fourth order: the error is about step^4 + 1e-16 /
  /// step.
  std::vector<double> differentiateNumerically(unsigned argument) const {
    constexpr double step = 1e-3;
    Tensors point(inputs);
    std::vector<double> gradient;
    for (double &element : point[argument].floats) {
      double at = element;
      auto shifted = [&](double by) {
        element = at + by;
        double value = evaluateAt(point);
        element = at;
        return value;
      };
      gradient.push_back((8 * (shifted(step) - shifted(-step)) -
                          (shifted(2 * step) - shifted(-2 * step))) /
                         (12 * step));
    }
    return gradient;
  }

  const Row &row;
  std::mt19937_64 generator;
  EvaluateOptions options;
  OwningOpRef<ModuleOp> module;
  Tensors inputs, weights;
  std::map<unsigned, std::vector<double>> expected;
};

constexpr double kTolerance = 1e-7;

/// Remarks on zero gradients are not of interest here.
class Quiet {
public:
  Quiet()
      : handler(&getContext(), [](Diagnostic &diagnostic) {
          return success(diagnostic.getSeverity() ==
                         DiagnosticSeverity::Remark);
        }) {}

private:
  ScopedDiagnosticHandler handler;
};

TEST(Autodiff, AgreesWithFiniteDifferences) {
  Quiet quiet;
  for (const Row &row : getRows()) {
    Case testCase(row);
    ASSERT_TRUE(testCase) << row.name;
    double error = testCase.getError();
    EXPECT_LT(error, kTolerance) << row.name; // fails for NaN
  }
}

/// Every term of every adjoint matters: without it or with its sign changed the
/// row fails.
TEST(Autodiff, EveryMutationIsCaught) {
  Quiet quiet;
  unsigned mutations = 0, caught = 0;
  for (const Row &row : getRows()) {
    Case testCase(row);
    ASSERT_TRUE(testCase) << row.name;
    unsigned terms = 0;
    DifferentiateOptions counting;
    counting.mutate = [&](Operation *, unsigned, Value term, Algebra &) {
      return ++terms, term;
    };
    ASSERT_LT(testCase.getError(counting), kTolerance) << row.name;
    for (unsigned target = 0; target < terms; ++target) {
      for (double factor : {-1.0, 0.0}) {
        unsigned current = 0, termOfOp = 0;
        std::string op;
        DifferentiateOptions mutating;
        mutating.mutate = [&](Operation *owner, unsigned index, Value term,
                              Algebra &algebra) {
          if (current++ != target)
            return term;
          op = owner->getName().getStringRef().str();
          termOfOp = index;
          // A product with zero would keep NaNs and infinities alive.
          RankedTensorType type = Algebra::typeOf(term);
          return factor == 0 ? algebra.constant(0, type) : algebra.neg(term);
        };
        double error = testCase.getError(mutating);
        ++mutations;
        bool isCaught = !(error < kTolerance);
        caught += isCaught;
        EXPECT_TRUE(isCaught) << row.name << ": term " << termOfOp << " of "
                              << op << " times " << factor;
      }
    }
  }
  std::printf("%u mutations, %u caught\n", mutations, caught);
}

/// Ops with an adjoint that no row contains.
std::vector<std::string> getUncovered() {
  llvm::StringMap<bool> seen;
  for (const Row &row : getRows()) {
    OwningOpRef<ModuleOp> module =
        parseSourceString<ModuleOp>(row.text, &getContext());
    if (!module)
      return {"(row " + row.name + " does not parse)"};
    module->walk(
        [&](Operation *op) { seen[op->getName().getStringRef()] = true; });
  }
  std::vector<std::string> uncovered;
  for (RegisteredOperationName name : getContext().getRegisteredOperations())
    if (name.hasInterface<AutodiffOpInterface>() &&
        !seen.count(name.getStringRef()))
      uncovered.push_back(name.getStringRef().str());
  return uncovered;
}

} // namespace

int main(int argc, char **argv) {
  if (argc == 2 && StringRef(argv[1]) == "--check-coverage") {
    std::vector<std::string> uncovered = getUncovered();
    for (const std::string &op : uncovered)
      std::fprintf(stderr,
                   "error: %s has an adjoint but no row in "
                   "test/unit/autodiff/Rows.cpp\n",
                   op.c_str());
    return uncovered.empty() ? 0 : 1;
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
