//===- Activations.h - Activations by formula -------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What operators of their own and the attributes of recurrent nodes name alike.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_NORMALIZE_ACTIVATIONS_H
#define PASSES_NORMALIZE_ACTIVATIONS_H

#include "passes/Normalize/TensorBuilder.h"

#include <functional>

namespace harmony::normalize {

/// select(x < 0, negative, x)
Tensor whereNegative(TensorBuilder &t, const Tensor &x, const Tensor &negative);
/// exp(x) - 1 for x < 0, with which the gradient is exp(x); 0 above, where a
/// power that nothing selects could be infinite and its gradient NaN.
Tensor exponentialMinusOne(TensorBuilder &t, const Tensor &x);
/// alpha * (exp(x) - 1) where x < 0, else x.
Tensor elu(TensorBuilder &t, const Tensor &x, double alpha);
/// log(1 + exp(x)) = max(x, 0) + log(1 + exp(-|x|)).
Tensor softplus(TensorBuilder &t, const Tensor &x);
/// x / (1 + |x|)
Tensor softsign(TensorBuilder &t, const Tensor &x);
/// min(max(alpha * x + beta, 0), 1)
Tensor hardSigmoid(TensorBuilder &t, const Tensor &x, double alpha,
                   double beta);
/// x where x > alpha, else 0
Tensor thresholdedRelu(TensorBuilder &t, const Tensor &x, double alpha);

using Activation = std::function<Tensor(TensorBuilder &, const Tensor &)>;

/// The activation that recurrent operators call `name`, whatever the case. The
/// scaling values that it has are taken off the front of `alphas` and `betas`;
/// defaults stand for what is missing. Null for an unknown name.
Activation takeActivation(llvm::StringRef name, llvm::ArrayRef<float> &alphas,
                          llvm::ArrayRef<float> &betas);
/// "Relu, Tanh, ..."
std::string getActivationNames();

} // namespace harmony::normalize

#endif // PASSES_NORMALIZE_ACTIVATIONS_H
