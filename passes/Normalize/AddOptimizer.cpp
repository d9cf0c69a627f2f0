//===- AddOptimizer.cpp - Built-in optimizers -----------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// PyTorch's AdamW, Adam and SGD, operation by operation. What changes from step
// to step (bias corrections, learning rate) comes in scalars that the runtime
// writes: HmScalarKind in runtime/program.h.
//
//===----------------------------------------------------------------------===//

#include "dialects/NN/NN.h"
#include "passes/Normalize/Passes.h"
#include "runtime/program.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace harmony {
#define GEN_PASS_DEF_ADDOPTIMIZERPASS
#include "passes/Normalize/Passes.h.inc"
} // namespace harmony

using namespace mlir;
using namespace harmony;

namespace {

/// Elementwise arithmetic on values of one tensor type; scalars are broadcast.
class UpdateBuilder {
public:
  UpdateBuilder(ImplicitLocOpBuilder &builder, RankedTensorType type)
      : builder(builder), type(type) {}

  Value add(Value a, Value b) {
    return arith::AddFOp::create(builder, whole(a), whole(b));
  }
  Value subtract(Value a, Value b) {
    return arith::SubFOp::create(builder, whole(a), whole(b));
  }
  Value multiply(Value a, Value b) {
    return arith::MulFOp::create(builder, whole(a), whole(b));
  }
  Value divide(Value a, Value b) {
    return arith::DivFOp::create(builder, whole(a), whole(b));
  }
  Value squareRoot(Value a) { return math::SqrtOp::create(builder, whole(a)); }

private:
  Value whole(Value value) {
    if (value.getType() == type)
      return value;
    return nn::BroadcastOp::create(builder, type, value, ArrayRef<int64_t>());
  }

  ImplicitLocOpBuilder &builder;
  RankedTensorType type;
};

struct Scalar {
  StringLiteral name;
  HmScalarKind kind;
};

/// A built-in optimizer: its state per parameter, its scalars, and its formula,
/// which maps (parameter, gradient, states.., scalars..) to (parameter,
/// states..).
struct Optimizer {
  StringLiteral name;
  SmallVector<StringLiteral> states;
  SmallVector<Scalar> scalars;
  SmallVector<Value> (*formula)(UpdateBuilder &, ValueRange);
};

/// m += (g - m) (1 - beta1); v = v beta2 + (1 - beta2) g g;
/// w -= lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + epsilon)
SmallVector<Value> adamStep(UpdateBuilder &b, Value w, Value g, Value m,
                            Value v, ValueRange s) {
  Value oneMinusBeta1 = s[0], beta2 = s[1], oneMinusBeta2 = s[2],
        epsilon = s[3], stepSize = s[4], correction = s[5];
  m = b.add(m, b.multiply(b.subtract(g, m), oneMinusBeta1));
  v = b.add(b.multiply(v, beta2), b.multiply(b.multiply(oneMinusBeta2, g), g));
  Value denominator = b.add(b.divide(b.squareRoot(v), correction), epsilon);
  return {b.subtract(w, b.multiply(stepSize, b.divide(m, denominator))), m, v};
}

SmallVector<Value> adamWFormula(UpdateBuilder &b, ValueRange a) {
  return adamStep(b, b.multiply(a[0], a[4]), a[1], a[2], a[3], a.drop_front(5));
}

SmallVector<Value> adamFormula(UpdateBuilder &b, ValueRange a) {
  return adamStep(b, a[0], b.add(a[1], b.multiply(a[4], a[0])), a[2], a[3],
                  a.drop_front(5));
}

/// v = momentum v + g, w -= lr v. The momentum is 0 in the first step, which
/// makes v = g.
SmallVector<Value> sgdFormula(UpdateBuilder &b, ValueRange a) {
  Value g = b.add(a[1], b.multiply(a[3], a[0]));
  Value v = b.add(b.multiply(a[4], a[2]), g);
  return {b.subtract(a[0], b.multiply(a[5], v)), v};
}

SmallVector<Scalar> adamScalars(Scalar decay) {
  return {decay,
          {"one_minus_beta1", HM_SCALAR_ONE_MINUS_BETA1},
          {"beta2", HM_SCALAR_BETA2},
          {"one_minus_beta2", HM_SCALAR_ONE_MINUS_BETA2},
          {"epsilon", HM_SCALAR_EPSILON},
          {"step_size", HM_SCALAR_STEP_SIZE},
          {"sqrt_correction2", HM_SCALAR_SQRT_CORRECTION2}};
}

std::optional<Optimizer> getOptimizer(StringRef name) {
  if (name == "adamw")
    return Optimizer{"adamw",
                     {"exp_avg", "exp_avg_sq"},
                     adamScalars({"decay_factor", HM_SCALAR_DECAY_FACTOR}),
                     adamWFormula};
  if (name == "adam")
    return Optimizer{"adam",
                     {"exp_avg", "exp_avg_sq"},
                     adamScalars({"weight_decay", HM_SCALAR_WEIGHT_DECAY}),
                     adamFormula};
  if (name == "sgd")
    return Optimizer{"sgd",
                     {"momentum_buffer"},
                     {{"weight_decay", HM_SCALAR_WEIGHT_DECAY},
                      {"momentum", HM_SCALAR_MOMENTUM},
                      {"lr", HM_SCALAR_LR}},
                     sgdFormula};
  return std::nullopt;
}

struct AddOptimizerPass
    : harmony::impl::AddOptimizerPassBase<AddOptimizerPass> {
  AddOptimizerPass() = default;
  explicit AddOptimizerPass(const std::string &name) { optimizer = name; }

  void runOnOperation() override {
    ModuleOp module = getOperation();
    std::optional<Optimizer> chosen = getOptimizer(optimizer);
    if (!chosen) {
      module.emitError("optimizer is '" + optimizer +
                       "', accepted are adamw, adam and sgd");
      return signalPassFailure();
    }
    if (llvm::none_of(module.getOps<nn::VariableOp>(), [](nn::VariableOp op) {
          return op.getRole() == nn::Role::parameter;
        })) {
      module.emitError("nothing is trained: the loss depends on no initializer "
                       "that --freeze leaves; for the outputs alone there is "
                       "--forward");
      return signalPassFailure();
    }
    llvm::DenseSet<Attribute> updated;
    for (auto update : module.getOps<nn::OptimizeOp>())
      updated.insert(update.getParameterAttr());
    SmallVector<nn::VariableOp> parameters;
    for (auto variable : module.getOps<nn::VariableOp>())
      if (variable.getRole() == nn::Role::parameter &&
          !updated.contains(FlatSymbolRefAttr::get(variable.getSymNameAttr())))
        parameters.push_back(variable);
    if (parameters.empty())
      return;
    SmallVector<Attribute> scalars;
    for (const Scalar &scalar : chosen->scalars)
      scalars.push_back(addScalar(module, *chosen, scalar));
    for (nn::VariableOp parameter : parameters)
      if (failed(addUpdate(module, *chosen, parameter, scalars)))
        return signalPassFailure();
  }

  /// A name that no symbol of the module has.
  static std::string getFreeName(ModuleOp module, const Twine &wanted) {
    std::string name = wanted.str();
    for (int i = 2; module.lookupSymbol(name); ++i)
      name = (wanted + "_" + Twine(i)).str();
    return name;
  }

  Attribute addScalar(ModuleOp module, const Optimizer &chosen,
                      const Scalar &scalar) {
    OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
    std::string name = getFreeName(module, Twine("optimizer.") + scalar.name);
    auto variable =
        nn::VariableOp::create(builder, module.getLoc(), name,
                               RankedTensorType::get({}, builder.getF32Type()),
                               nn::Role::scalar, nullptr);
    variable->setAttr("nn.scalar_kind", builder.getI64IntegerAttr(scalar.kind));
    return FlatSymbolRefAttr::get(variable.getSymNameAttr());
  }

  LogicalResult addUpdate(ModuleOp module, const Optimizer &chosen,
                          nn::VariableOp parameter,
                          ArrayRef<Attribute> scalars) {
    auto type = cast<RankedTensorType>(parameter.getType());
    if (!type.getElementType().isF32())
      return parameter.emitError("parameter has elements of type ")
             << type.getElementType() << "; built-in optimizers need f32";
    OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
    SmallVector<Attribute> states;
    for (StringRef state : chosen.states) {
      std::string name = (parameter.getSymName() + "." + state).str();
      if (module.lookupSymbol(name))
        return parameter.emitError("optimizer state needs the name '" + name +
                                   "', which is taken");
      auto variable =
          nn::VariableOp::create(builder, parameter.getLoc(), name, type,
                                 nn::Role::optimizer, nullptr);
      states.push_back(FlatSymbolRefAttr::get(variable.getSymNameAttr()));
    }
    FlatSymbolRefAttr function = getFunction(module, chosen, type);
    nn::OptimizeOp::create(builder, parameter.getLoc(),
                           FlatSymbolRefAttr::get(parameter.getSymNameAttr()),
                           function, builder.getArrayAttr(states),
                           builder.getArrayAttr(scalars));
    return success();
  }

  FlatSymbolRefAttr getFunction(ModuleOp module, const Optimizer &chosen,
                                RankedTensorType type) {
    FlatSymbolRefAttr &function = functions[type];
    if (function)
      return function;
    std::string suffix;
    for (int64_t extent : type.getShape())
      suffix += (suffix.empty() ? "_" : "x") + std::to_string(extent);
    ImplicitLocOpBuilder builder =
        ImplicitLocOpBuilder::atBlockEnd(module.getLoc(), module.getBody());
    SmallVector<Type> inputs(2 + chosen.states.size(), type),
        outputs(1 + chosen.states.size(), type);
    inputs.append(chosen.scalars.size(),
                  RankedTensorType::get({}, type.getElementType()));
    auto created =
        func::FuncOp::create(builder, getFreeName(module, chosen.name + suffix),
                             builder.getFunctionType(inputs, outputs));
    created.setPrivate();
    Block *body = created.addEntryBlock();
    builder.setInsertionPointToEnd(body);
    UpdateBuilder update(builder, type);
    func::ReturnOp::create(builder,
                           chosen.formula(update, body->getArguments()));
    return function = FlatSymbolRefAttr::get(created.getSymNameAttr());
  }

  llvm::DenseMap<Type, FlatSymbolRefAttr> functions;
};

} // namespace

std::unique_ptr<Pass> harmony::createAddOptimizerPass() {
  return std::make_unique<AddOptimizerPass>();
}

std::unique_ptr<Pass>
harmony::createAddOptimizerPass(const std::string &optimizer) {
  return std::make_unique<AddOptimizerPass>(optimizer);
}
