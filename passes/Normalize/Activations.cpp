//===- Activations.cpp - Activations by formula ---------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Normalize/Activations.h"

#include "llvm/ADT/StringExtras.h"

using namespace harmony::normalize;
using llvm::StringRef;

Tensor harmony::normalize::whereNegative(TensorBuilder &t, const Tensor &x,
                                         const Tensor &negative) {
  return t.select(t.compare(Compare::Less, x, t.scalarLike(x, 0)), negative, x);
}

Tensor harmony::normalize::exponentialMinusOne(TensorBuilder &t,
                                               const Tensor &x) {
  Tensor bounded = t.atMost(x, t.scalarLike(x, 0));
  return t.subtract(t.unary(Unary::Exponential, bounded), t.scalarLike(x, 1));
}

Tensor harmony::normalize::elu(TensorBuilder &t, const Tensor &x,
                               double alpha) {
  return whereNegative(t, x, t.scale(exponentialMinusOne(t, x), alpha));
}

Tensor harmony::normalize::softplus(TensorBuilder &t, const Tensor &x) {
  Tensor tail = t.unary(Unary::Exponential,
                        t.unary(Unary::Negate, t.unary(Unary::Absolute, x)));
  return t.add(t.relu(x),
               t.unary(Unary::Logarithm, t.add(tail, t.scalarLike(x, 1))));
}

Tensor harmony::normalize::softsign(TensorBuilder &t, const Tensor &x) {
  return t.divide(x, t.add(t.unary(Unary::Absolute, x), t.scalarLike(x, 1)));
}

Tensor harmony::normalize::hardSigmoid(TensorBuilder &t, const Tensor &x,
                                       double alpha, double beta) {
  Tensor line = t.add(t.scale(x, alpha), t.scalarLike(x, beta));
  return t.atMost(t.atLeast(line, t.scalarLike(x, 0)), t.scalarLike(x, 1));
}

Tensor harmony::normalize::thresholdedRelu(TensorBuilder &t, const Tensor &x,
                                           double alpha) {
  return t.select(t.compare(Compare::Greater, x, t.scalarLike(x, alpha)), x,
                  t.scalarLike(x, 0));
}

namespace {
/// An activation of recurrent operators; a default is null where the function
/// has no such value.
struct NamedActivation {
  StringRef name;
  std::optional<double> alpha, beta;
  Tensor (*formula)(TensorBuilder &t, const Tensor &x, double alpha,
                    double beta);
};
} // namespace

/// Defaults are those of the operators of these names; ScaledTanh and Affine,
/// which are none any more, scale by 1.
static llvm::ArrayRef<NamedActivation> getNamedActivations() {
  using T = TensorBuilder;
  static const NamedActivation all[] = {
      {"Relu",
       {},
       {},
       [](T &t, const Tensor &x, double, double) { return t.relu(x); }},
      {"Tanh",
       {},
       {},
       [](T &t, const Tensor &x, double, double) {
         return t.unary(Unary::Tanh, x);
       }},
      {"Sigmoid",
       {},
       {},
       [](T &t, const Tensor &x, double, double) { return t.sigmoid(x); }},
      {"Affine", 1, 0,
       [](T &t, const Tensor &x, double alpha, double beta) {
         return t.add(t.scale(x, alpha), t.scalarLike(x, beta));
       }},
      {"LeakyRelu",
       0.01,
       {},
       [](T &t, const Tensor &x, double alpha, double) {
         return whereNegative(t, x, t.scale(x, alpha));
       }},
      {"ThresholdedRelu",
       1,
       {},
       [](T &t, const Tensor &x, double alpha, double) {
         return thresholdedRelu(t, x, alpha);
       }},
      {"ScaledTanh", 1, 1,
       [](T &t, const Tensor &x, double alpha, double beta) {
         return t.scale(t.unary(Unary::Tanh, t.scale(x, beta)), alpha);
       }},
      {"HardSigmoid", 0.2, 0.5, hardSigmoid},
      {"Elu",
       1,
       {},
       [](T &t, const Tensor &x, double alpha, double) {
         return elu(t, x, alpha);
       }},
      {"Softsign",
       {},
       {},
       [](T &t, const Tensor &x, double, double) { return softsign(t, x); }},
      {"Softplus",
       {},
       {},
       [](T &t, const Tensor &x, double, double) { return softplus(t, x); }},
  };
  return all;
}

Activation harmony::normalize::takeActivation(StringRef name,
                                              llvm::ArrayRef<float> &alphas,
                                              llvm::ArrayRef<float> &betas) {
  auto take = [](const std::optional<double> &otherwise,
                 llvm::ArrayRef<float> &values) {
    if (!otherwise || values.empty())
      return otherwise.value_or(0);
    double value = values.front();
    values = values.drop_front();
    return value;
  };
  for (const NamedActivation &known : getNamedActivations())
    if (name.equals_insensitive(known.name)) {
      double alpha = take(known.alpha, alphas), beta = take(known.beta, betas);
      return [formula = known.formula, alpha, beta](TensorBuilder &t,
                                                    const Tensor &x) {
        return formula(t, x, alpha, beta);
      };
    }
  return nullptr;
}

std::string harmony::normalize::getActivationNames() {
  return llvm::join(llvm::map_range(getNamedActivations(),
                                    [](const NamedActivation &known) {
                                      return known.name.str();
                                    }),
                    ", ");
}
