//===- ConvertElementwise.cpp - Arithmetic, logic, activations ------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Normalize/Activations.h"
#include "passes/Normalize/Binder.h"

using namespace mlir;
using namespace harmony;
using namespace harmony::normalize;

namespace {

void addUnary(ConverterTable &table, StringRef name,
              std::initializer_list<int64_t> versions, Unary kind) {
  table.onOp(name, versions, [kind](Binder &b) {
    b.output(0, b.build().unary(kind, b.input(0)));
  });
}

void addBinary(ConverterTable &table, StringRef name,
               std::initializer_list<int64_t> versions, Binary kind) {
  table.onOp(name, versions, [kind](Binder &b) {
    b.output(0, b.build().binary(kind, b.input(0), b.input(1)));
  });
}

void addCompare(ConverterTable &table, StringRef name,
                std::initializer_list<int64_t> versions, Compare kind) {
  table.onOp(name, versions, [kind](Binder &b) {
    b.output(0, b.build().compare(kind, b.input(0), b.input(1)));
  });
}

/// Combines any number of inputs from left to right.
void addVariadic(ConverterTable &table, StringRef name,
                 std::initializer_list<int64_t> versions, Binary kind,
                 bool isMean = false) {
  table.onOp(name, versions, [kind, isMean](Binder &b) {
    Tensor result = b.input(0);
    for (unsigned i = 1; i < b.inputCount(); ++i)
      result = b.build().binary(kind, result, b.input(i));
    if (isMean && result)
      result = b.build().divide(result,
                                b.build().scalarLike(result, b.inputCount()));
    b.output(0, result);
  });
}

/// An activation written as a formula of its input.
void addActivation(
    ConverterTable &table, StringRef name,
    std::initializer_list<int64_t> versions,
    std::function<Tensor(Binder &, TensorBuilder &, Tensor)> formula) {
  table.onOp(name, versions, [formula](Binder &b) {
    Tensor x = b.input(0);
    b.output(0, formula(b, b.build(), x));
  });
}

void addActivations(ConverterTable &table) {
  addActivation(table, "Relu", {1, 6, 13, 14},
                [](Binder &b, TensorBuilder &t, Tensor x) {
                  if (b.version() == 1)
                    b.ignore("consumed_inputs");
                  return t.relu(x);
                });
  addActivation(table, "LeakyRelu", {6, 16},
                [](Binder &b, TensorBuilder &t, Tensor x) {
                  return whereNegative(t, x, t.scale(x, b.real("alpha", 0.01)));
                });
  addActivation(table, "Elu", {6, 22},
                [](Binder &b, TensorBuilder &t, Tensor x) {
                  return elu(t, x, b.real("alpha", 1));
                });
  addActivation(table, "Celu", {12}, [](Binder &b, TensorBuilder &t, Tensor x) {
    double alpha = b.real("alpha", 1);
    return whereNegative(
        t, x,
        t.scale(exponentialMinusOne(t, t.divide(x, t.scalarLike(x, alpha))),
                alpha));
  });
  addActivation(
      table, "Selu", {6, 22}, [](Binder &b, TensorBuilder &t, Tensor x) {
        double alpha = b.real("alpha", 1.67326319217681884765625),
               gamma = b.real("gamma", 1.05070102214813232421875);
        return t.scale(
            whereNegative(t, x, t.scale(exponentialMinusOne(t, x), alpha)),
            gamma);
      });
  addActivation(table, "PRelu", {9, 16},
                [](Binder &b, TensorBuilder &t, Tensor x) {
                  return whereNegative(t, x, t.multiply(x, b.input(1)));
                });
  addActivation(table, "ThresholdedRelu", {10, 22},
                [](Binder &b, TensorBuilder &t, Tensor x) {
                  return thresholdedRelu(t, x, b.real("alpha", 1));
                });
  addActivation(
      table, "Sigmoid", {6, 13},
      [](Binder &, TensorBuilder &t, Tensor x) { return t.sigmoid(x); });
  addActivation(
      table, "Swish", {24}, [](Binder &b, TensorBuilder &t, Tensor x) {
        return t.multiply(x, t.sigmoid(t.scale(x, b.real("alpha", 1))));
      });
  addActivation(
      table, "HardSigmoid", {6, 22}, [](Binder &b, TensorBuilder &t, Tensor x) {
        double alpha = b.real("alpha", 0.2), beta = b.real("beta", 0.5);
        return hardSigmoid(t, x, alpha, beta);
      });
  addActivation(table, "HardSwish", {14, 22},
                [](Binder &, TensorBuilder &t, Tensor x) {
                  return t.multiply(x, hardSigmoid(t, x, 1.0 / 6, 0.5));
                });
  addActivation(
      table, "Softplus", {1, 22},
      [](Binder &, TensorBuilder &t, Tensor x) { return softplus(t, x); });
  addActivation(
      table, "Softsign", {1, 22},
      [](Binder &, TensorBuilder &t, Tensor x) { return softsign(t, x); });
  addActivation(table, "Mish", {18, 22},
                [](Binder &, TensorBuilder &t, Tensor x) {
                  return t.multiply(x, t.unary(Unary::Tanh, softplus(t, x)));
                });
  addActivation(
      table, "Shrink", {9}, [](Binder &b, TensorBuilder &t, Tensor x) {
        double lambda = b.real("lambd", 0.5), bias = b.real("bias", 0);
        Tensor above = t.compare(Compare::Greater, x, t.scalarLike(x, lambda)),
               below = t.compare(Compare::Less, x, t.scalarLike(x, -lambda));
        return t.select(above, t.subtract(x, t.scalarLike(x, bias)),
                        t.select(below, t.add(x, t.scalarLike(x, bias)),
                                 t.scalarLike(x, 0)));
      });
  addActivation(table, "Reciprocal", {6, 13},
                [](Binder &, TensorBuilder &t, Tensor x) {
                  return t.divide(t.scalarLike(x, 1), x);
                });
  addActivation(table, "Gelu", {20}, [](Binder &b, TensorBuilder &t, Tensor x) {
    std::string form = b.string("approximate", "none");
    if (form != "none" && form != "tanh")
      return b.refuse("approximate is '" + form +
                      "', accepted are 'none' and 'tanh'");
    return t.gelu(x, form == "tanh");
  });
}

void addCasts(ConverterTable &table) {
  auto castTo = [](Binder &b) {
    Tensor x = b.input(0);
    if (!x)
      return;
    int64_t to = b.integer("to", 0);
    Type type = getElementType(x.type().getContext(), to);
    // Saturation concerns 8-bit floating types alone, which are refused.
    b.ignore("saturate");
    b.ignore("round_mode");
    b.output(0, type ? b.build().cast(x, type)
                     : b.refuse("element type number " + Twine(to) +
                                " is not supported"));
  };
  table.onOp("Cast", {6, 9, 13, 19, 21, 23, 24, 25}, castTo);
  table.onOp("CastLike", {15, 19, 21, 23, 24, 25}, [](Binder &b) {
    Tensor x = b.input(0), like = b.input(1);
    b.ignore("saturate");
    b.ignore("round_mode");
    if (x && like)
      b.output(0, b.build().cast(x, like.type()));
  });
  table.onOp("Identity", {1, 13, 14, 16, 19, 21, 23, 24, 25}, [](Binder &b) {
    Tensor x = b.input(0);
    b.output(0,
             b.tracedArgument("detach", 0, "self") ? b.build().detach(x) : x);
  });
}

/// Output 1 is the mask. In evaluation all elements are kept, so that nothing
/// is random where there is no training.
void dropout(Binder &b, double ratio) {
  TensorBuilder &build = b.build();
  Tensor x = b.input(0);
  if (!x)
    return;
  Tensor all =
      build.expand(build.scalar(build.getBuilder().getI1Type(), 1), x.shape());
  if (ratio == 0 || build.evaluationOnly) {
    b.output(0, x);
    if (b.isOutputUsed(1))
      b.output(1, all);
    return;
  }
  Tensor isKept = build.dropoutMask(x.shape(), ratio, b.stableName());
  Tensor scaled = build.scale(x, ratio < 1 ? 1 / (1 - ratio) : 0);
  Tensor dropped = build.select(isKept, scaled, build.scalarLike(x, 0));
  b.output(0, build.byMode(dropped, x));
  if (b.isOutputUsed(1))
    b.output(1, build.byMode(isKept, all));
}

void addDropout(ConverterTable &table) {
  table.onOp("Dropout", {7, 10}, [](Binder &b) {
    b.ignore("ratio"); // inference only
    dropout(b, 0);
  });
  table.onOp("Dropout", {12, 13, 22}, [](Binder &b) {
    b.ignore("seed"); // --seed and the node's name are the seed
    auto number = [&](unsigned index, double otherwise) {
      if (!b.hasInput(index))
        return std::optional(otherwise);
      Tensor given = b.input(index);
      return given ? given.splatNumber() : std::nullopt;
    };
    std::optional<double> ratio = number(1, 0.5), training = number(2, 0);
    if (!ratio || *ratio < 0 || *ratio > 1) {
      b.refuse(ratio ? "ratio is " + std::to_string(*ratio) +
                           ", accepted is [0, 1]"
                     : std::string("ratio must be a constant"));
      return;
    }
    if (!training) {
      b.refuse("training_mode must be a constant");
      return;
    }
    dropout(b, *training != 0 ? *ratio : 0);
  });
}

/// Work on the bits of integers, and which floats are infinite.
void addBits(ConverterTable &table) {
  auto addBitwise = [&](StringRef name, Binary kind) {
    table.onOp(name, {18}, [kind](Binder &b) {
      Tensor x = b.input(0);
      if (x && x.isBool())
        b.refuse("needs integers");
      b.output(0, b.build().binary(kind, x, b.input(1)));
    });
  };
  addBitwise("BitwiseAnd", Binary::And);
  addBitwise("BitwiseOr", Binary::Or);
  addBitwise("BitwiseXor", Binary::Xor);
  table.onOp("BitwiseNot", {18}, [](Binder &b) {
    Tensor x = b.input(0);
    if (!x)
      return;
    if (x.isFloat() || x.isBool()) {
      b.refuse("needs integers");
      return;
    }
    TensorBuilder &t = b.build();
    Tensor one = t.scalarLike(x, 1), zero = t.scalarLike(x, 0);
    b.output(0, t.binary(Binary::Xor, x, t.subtract(zero, one)));
  });
  table.onOp("BitShift", {11, 28}, [](Binder &b) {
    std::string direction = b.string("direction", "");
    if (direction != "LEFT" && direction != "RIGHT")
      b.refuse("direction is '" + direction + "', accepted are LEFT and RIGHT");
    b.output(0, b.build().binary(direction == "LEFT" ? Binary::ShiftLeft
                                                     : Binary::ShiftRight,
                                 b.input(0), b.input(1)));
  });
  table.onOp("IsInf", {10, 20}, [](Binder &b) {
    Tensor x = b.input(0);
    bool positive = b.integer("detect_positive", 1),
         negative = b.integer("detect_negative", 1);
    if (!x)
      return;
    if (!x.isFloat()) {
      b.refuse("needs floating elements");
      return;
    }
    TensorBuilder &t = b.build();
    double infinity = std::numeric_limits<double>::infinity();
    auto equals = [&](bool isWanted, double value) {
      return isWanted
                 ? t.compare(Compare::Equal, x, t.scalarLike(x, value))
                 : t.expand(t.scalar(t.getBuilder().getI1Type(), 0), x.shape());
    };
    b.output(0, t.binary(Binary::Or, equals(positive, infinity),
                         equals(negative, -infinity)));
  });
}

void addClip(ConverterTable &table) {
  table.onOp("Clip", {6}, [](Binder &b) {
    Tensor x = b.input(0);
    if (b.attribute("min"))
      x = b.build().atLeast(x, b.build().scalarLike(x, b.real("min", 0)));
    if (b.attribute("max"))
      x = b.build().atMost(x, b.build().scalarLike(x, b.real("max", 0)));
    b.output(0, x);
  });
  table.onOp("Clip", {11, 12, 13}, [](Binder &b) {
    Tensor x = b.input(0);
    if (b.hasInput(1))
      x = b.build().atLeast(x, b.input(1));
    if (b.hasInput(2))
      x = b.build().atMost(x, b.input(2));
    b.output(0, x);
  });
}

} // namespace

void harmony::normalize::addElementwiseConverters(ConverterTable &table) {
  addUnary(table, "Neg", {6, 13}, Unary::Negate);
  addUnary(table, "Abs", {6, 13}, Unary::Absolute);
  addUnary(table, "Exp", {6, 13}, Unary::Exponential);
  addUnary(table, "Log", {6, 13}, Unary::Logarithm);
  addUnary(table, "Sqrt", {6, 13}, Unary::SquareRoot);
  addUnary(table, "Tanh", {6, 13}, Unary::Tanh);
  addUnary(table, "Erf", {9, 13}, Unary::ErrorFunction);
  addUnary(table, "Floor", {6, 13}, Unary::Floor);
  addUnary(table, "Ceil", {6, 13}, Unary::Ceil);
  addUnary(table, "Round", {11, 22}, Unary::RoundEven);
  addUnary(table, "Sin", {7, 22}, Unary::Sine);
  addUnary(table, "Cos", {7, 22}, Unary::Cosine);
  addUnary(table, "Tan", {7, 22}, Unary::Tangent);
  addUnary(table, "Asin", {7, 22}, Unary::ArcSine);
  addUnary(table, "Acos", {7, 22}, Unary::ArcCosine);
  addUnary(table, "Atan", {7, 22}, Unary::ArcTangent);
  addUnary(table, "Sinh", {9, 22}, Unary::HyperbolicSine);
  addUnary(table, "Cosh", {9, 22}, Unary::HyperbolicCosine);
  addUnary(table, "Asinh", {9, 22}, Unary::AreaSine);
  addUnary(table, "Acosh", {9, 22}, Unary::AreaCosine);
  addUnary(table, "Atanh", {9, 22}, Unary::AreaTangent);
  addUnary(table, "Sign", {9, 13}, Unary::Sign);
  addUnary(table, "Not", {1}, Unary::Not);
  addUnary(table, "IsNaN", {9, 13, 20}, Unary::IsNaN);

  addBinary(table, "Add", {7, 13, 14}, Binary::Add);
  addBinary(table, "Sub", {7, 13, 14}, Binary::Subtract);
  addBinary(table, "Mul", {7, 13, 14}, Binary::Multiply);
  addBinary(table, "Div", {7, 13, 14}, Binary::Divide);
  addBinary(table, "Pow", {7, 12, 13, 15}, Binary::Power);
  addBinary(table, "And", {7}, Binary::And);
  addBinary(table, "Or", {7}, Binary::Or);
  addBinary(table, "Xor", {7}, Binary::Xor);
  table.onOp("Mod", {10, 13}, [](Binder &b) {
    Tensor x = b.input(0);
    if (x && x.isFloat() != (b.integer("fmod", 0) != 0))
      b.refuse("fmod is set for floating elements alone");
    b.output(0, b.build().binary(Binary::Remainder, x, b.input(1)));
  });

  addBits(table);

  addCompare(table, "Equal", {7, 11, 13, 19}, Compare::Equal);
  addCompare(table, "Less", {7, 9, 13}, Compare::Less);
  addCompare(table, "LessOrEqual", {12, 16}, Compare::LessOrEqual);
  addCompare(table, "Greater", {7, 9, 13}, Compare::Greater);
  addCompare(table, "GreaterOrEqual", {12, 16}, Compare::GreaterOrEqual);
  table.onOp("Where", {9, 16}, [](Binder &b) {
    b.output(0, b.build().select(b.input(0), b.input(1), b.input(2)));
  });

  addVariadic(table, "Sum", {6, 8, 13}, Binary::Add);
  addVariadic(table, "Max", {6, 8, 12, 13}, Binary::Maximum);
  addVariadic(table, "Min", {6, 8, 12, 13}, Binary::Minimum);
  addVariadic(table, "Mean", {6, 8, 13}, Binary::Add, /*isMean=*/true);

  addActivations(table);
  addCasts(table);
  addDropout(table);
  addClip(table);
}
