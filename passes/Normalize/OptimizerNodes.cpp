//===- OptimizerNodes.cpp - Adam, Momentum and Adagrad --------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Formulas: onnx/defs/training/defs.cc, opset ai.onnx.preview.training 1.
//
//===----------------------------------------------------------------------===//

#include "passes/Normalize/UpdateConverter.h"

#include <cmath>

using namespace mlir;
using namespace harmony;
using namespace harmony::normalize;

Tensor UpdateConverter::powerOf(double base, const Tensor &exponent) {
  TensorBuilder &b = *steps.builder;
  Type type = Float64Type::get(context);
  if (exponent.isKnown())
    return b.scalar(type, std::pow(base, exponent.splatNumber().value_or(0)));
  // The product of base^(2^i) over the bits i that are set.
  OpBuilder &builder = b.getBuilder();
  Location location = n.training.getLoc();
  Value bits = b.materialize(exponent);
  auto isClear = [&](int64_t mask) {
    Value maskValue =
        b.materialize(b.known(exponent.type(), {}, {Element{mask}}));
    Value masked = arith::AndIOp::create(builder, location, bits, maskValue);
    return b.compare(Compare::Equal, b.fromValue(masked, exponent.type()),
                     b.scalar(exponent.type(), 0));
  };
  Tensor result = b.scalar(type, 1);
  double factor = base;
  for (int i = 0; i < 62 && factor != 1; ++i, factor *= factor) {
    if (factor == 0) // so is every higher power
      return b.select(isClear(std::numeric_limits<int64_t>::max() -
                              ((int64_t(1) << i) - 1)),
                      result, b.scalar(type, 0));
    result =
        b.select(isClear(int64_t(1) << i), result, b.scale(result, factor));
  }
  return result;
}

/// The formulas of a node, of the tensors of one index: x is a parameter, g its
/// gradient, v and h its states. Each gives the new x (0), v (1) or h (2).
class UpdateConverter::OptimizerFormulas {
public:
  OptimizerFormulas(UpdateConverter &converter, GrowingFunction &function,
                    onnx::NodeOp node, ArrayRef<Value> operands)
      : converter(converter), function(function), node(node),
        operands(operands), b(*function.builder), s(*converter.steps.builder),
        wide(Float64Type::get(converter.context)) {}

  /// False: an operand cannot be evaluated.
  bool readOperands() {
    x = converter.evaluate(function, operands[2]);
    g = converter.evaluate(function, operands[3]);
    v = converter.evaluate(function, operands[4]);
    if (!x || !g || !v)
      return false;
    b.startNode(node.getLoc());
    if (double norm = real("norm_coefficient", 0); norm != 0)
      g = b.add(b.scale(x, norm), g);
    return true;
  }

  Tensor adam(unsigned wanted) {
    double alpha = real("alpha", 0.9f), beta = real("beta", 0.999f),
           epsilon = real("epsilon", 1e-6f);
    double post = real("norm_coefficient_post", 0);
    Tensor h = converter.evaluate(function, operands[5]);
    v = b.add(b.scale(v, alpha), b.scale(g, 1 - alpha));
    h = b.add(b.scale(h, beta), b.scale(b.multiply(g, g), 1 - beta));
    Tensor adjusted = scalar("rate", [&]() -> Tensor {
      Tensor r = rate(), t = counter();
      if (!r || !t)
        return Tensor();
      Tensor one = s.scalar(wide, 1);
      Tensor root = s.unary(Unary::SquareRoot,
                            s.subtract(one, converter.powerOf(beta, t)));
      Tensor corrected = s.divide(s.multiply(r, root),
                                  s.subtract(one, converter.powerOf(alpha, t)));
      return ifCounting(corrected, r);
    });
    Tensor root =
        b.add(b.unary(Unary::SquareRoot, h), b.scalarLike(h, epsilon));
    x = b.subtract(x, b.divide(b.multiply(adjusted, v), root));
    if (post != 0)
      x = b.scale(x, 1 - post);
    return wanted == 0 ? x : wanted == 1 ? v : h;
  }

  Tensor momentum(unsigned wanted, bool nesterov) {
    double alpha = real("alpha", 0), beta = real("beta", 0);
    Tensor adjusted = scalar("beta", [&] {
      return ifCounting(s.scalar(wide, beta), s.scalar(wide, 1));
    });
    Tensor r = scalar("rate", [&] { return rate(); });
    v = b.add(b.scale(v, alpha), b.multiply(adjusted, g));
    Tensor direction = nesterov ? b.add(g, b.scale(v, alpha)) : v;
    x = b.subtract(x, b.multiply(r, direction));
    return wanted == 0 ? x : v;
  }

  Tensor adagrad(unsigned wanted) {
    double decay = real("decay_factor", 0), epsilon = real("epsilon", 1e-6f);
    Tensor r = scalar("rate", [&]() -> Tensor {
      Tensor t = counter(), given = rate();
      if (!t || !given)
        return Tensor();
      return s.divide(
          given, s.add(s.scalar(wide, 1), s.scale(s.cast(t, wide), decay)));
    });
    v = b.add(v, b.multiply(g, g));
    Tensor root =
        b.add(b.unary(Unary::SquareRoot, v), b.scalarLike(v, epsilon));
    x = b.subtract(x, b.divide(b.multiply(r, g), root));
    return wanted == 0 ? x : v;
  }

private:
  UpdateConverter &converter;
  GrowingFunction &function;
  onnx::NodeOp node;
  ArrayRef<Value> operands;
  TensorBuilder &b, &s; ///< of the update, and of the scalars of the step
  Type wide;            ///< of scalars, so that 1 - beta^T keeps its digits
  Tensor x, g, v;

  double real(StringRef name, double otherwise) {
    auto attribute = dyn_cast_or_null<FloatAttr>(node.getNodeAttribute(name));
    return attribute ? attribute.getValueAsDouble() : otherwise;
  }

  Tensor rate() {
    return s.cast(converter.evaluate(converter.steps, operands[0]), wide);
  }
  Tensor counter() { return converter.evaluate(converter.steps, operands[1]); }
  /// `no` in the first step, whose count is 0.
  Tensor ifCounting(Tensor yes, Tensor no) {
    Tensor t = counter();
    return t ? s.select(s.compare(Compare::Greater, t, s.scalarLike(t, 0)), yes,
                        no)
             : Tensor();
  }
  Tensor scalar(StringRef what, llvm::function_ref<Tensor()> compute) {
    Tensor tensor = converter.scalarArgument(
        function, converter.steps, {node.getAsOpaquePointer(), what},
        (node.getNodeName() + "." + what).str(), node.getLoc(), compute);
    return tensor ? b.cast(tensor, x.type()) : Tensor();
  }
};

Tensor UpdateConverter::evaluateOptimizer(GrowingFunction &function,
                                          onnx::NodeOp node, Value value) {
  if (function.kind != GrowingFunction::Kind::Update)
    return refuse(value,
                  function.reader +
                      " is computed from the result of an optimizer node");
  SmallVector<Value> operands = getOperands(value);
  unsigned groups = operands.size() - 2,
           count = (node.getInputs().size() - 2) / groups;
  unsigned wanted = cast<OpResult>(value).getResultNumber() / count;
  if (node.getInputs().size() != 2 + groups * count || wanted >= groups - 1)
    return refuse(value, "an optimizer node has " +
                             Twine(node.getInputs().size()) +
                             " inputs, expected 2 and " + Twine(groups) +
                             " for each tensor");
  if (!isScalar(operands[0]) || !isScalar(operands[1]))
    return refuse(value, "the rate R and the count T of an optimizer node must "
                         "be scalars that depend on no gradient");
  OptimizerFormulas formulas(*this, function, node, operands);
  if (!formulas.readOperands())
    return Tensor();

  StringRef kind = node.getOpType();
  Tensor result;
  if (kind == "Adam") {
    result = formulas.adam(wanted);
  } else if (kind == "Momentum") {
    auto mode = dyn_cast_or_null<StringAttr>(node.getNodeAttribute("mode"));
    if (!mode ||
        (mode.getValue() != "standard" && mode.getValue() != "nesterov"))
      return refuse(value, "mode must be 'standard' or 'nesterov'");
    result = formulas.momentum(wanted, mode.getValue() == "nesterov");
  } else if (kind == "Adagrad") {
    result = formulas.adagrad(wanted);
  } else {
    return refuse(
        value,
        "optimizer '" + kind +
            "' is not supported; accepted are Adam, Momentum and Adagrad");
  }
  std::string error = function.builder->takeError();
  if (!result && !failed)
    return refuse(value, function.reader + ": " + error);
  return result;
}
