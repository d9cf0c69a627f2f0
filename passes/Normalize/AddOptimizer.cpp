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
#include "passes/Normalize/Contribution.h"
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
  AddOptimizerPass(const std::string &name, bool clip) {
    optimizer = name;
    clipGradientNorm = clip;
  }

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
    if (parameters.empty()) {
      if (clipGradientNorm) {
        module.emitError(
            "--clip-grad-norm: the model brings its own optimizer");
        signalPassFailure();
      }
      return;
    }
    SmallVector<Attribute> scalars;
    for (const Scalar &scalar : chosen->scalars)
      scalars.push_back(addVariable(module, scalar.name, scalar.kind));
    if (clipGradientNorm)
      scalars.push_back(addVariable(module, "grad_scale"));
    for (nn::VariableOp parameter : parameters)
      if (failed(addUpdate(module, *chosen, parameter, scalars)))
        return signalPassFailure();
    if (clipGradientNorm)
      addClipping(module, parameters, scalars.back());
  }

  /// A name that no symbol of the module has.
  static std::string getFreeName(ModuleOp module, const Twine &wanted) {
    std::string name = wanted.str();
    for (int i = 2; module.lookupSymbol(name); ++i)
      name = (wanted + "_" + Twine(i)).str();
    return name;
  }

  /// A scalar of the step; without a kind it is the program's own.
  Attribute addVariable(ModuleOp module, StringRef suffix,
                        std::optional<HmScalarKind> kind = {}) {
    OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
    auto variable = nn::VariableOp::create(
        builder, module.getLoc(), getFreeName(module, "optimizer." + suffix),
        RankedTensorType::get({}, builder.getF32Type()), nn::Role::scalar,
        nullptr);
    if (kind)
      variable->setAttr("nn.scalar_kind", builder.getI64IntegerAttr(*kind));
    return FlatSymbolRefAttr::get(variable.getSymNameAttr());
  }

  /// The sum of squares of each gradient, and from them the norm and the
  /// factor that clips.
  void addClipping(ModuleOp module, ArrayRef<nn::VariableOp> parameters,
                   Attribute scale) {
    constexpr double kEpsilon = 1e-6; // PyTorch's
    Attribute maximum = addVariable(module, "max_norm", HM_SCALAR_MAX_NORM),
              norm = addVariable(module, "grad_norm", HM_SCALAR_GRAD_NORM);
    ImplicitLocOpBuilder builder =
        ImplicitLocOpBuilder::atBlockEnd(module.getLoc(), module.getBody());
    auto scalar = RankedTensorType::get({}, builder.getF32Type());
    SmallVector<Attribute> names;
    for (nn::VariableOp parameter : parameters) {
      auto type = cast<RankedTensorType>(parameter.getType());
      auto symbol = FlatSymbolRefAttr::get(parameter.getSymNameAttr());
      names.push_back(symbol);
      nn::ContributionOp::create(builder, symbol, getSquare(module, type));
    }
    SmallVector<Type> inputs(parameters.size() + 1, scalar);
    auto epilogue =
        func::FuncOp::create(builder, getFreeName(module, "clip"),
                             builder.getFunctionType(inputs, {scalar, scalar}));
    epilogue.setPrivate();
    nn::EpilogueOp::create(
        builder, FlatSymbolRefAttr::get(epilogue.getSymNameAttr()),
        builder.getArrayAttr(names), builder.getArrayAttr({maximum}),
        builder.getArrayAttr({scale, norm}));
    Block *body = epilogue.addEntryBlock();
    builder.setInsertionPointToEnd(body);
    auto constant = [&](double value) -> Value {
      return arith::ConstantOp::create(
          builder,
          SplatElementsAttr::get(scalar, builder.getF32FloatAttr(value)));
    };
    Value sum = body->getArgument(0);
    for (Value square : body->getArguments().drop_front().drop_back())
      sum = arith::AddFOp::create(builder, sum, square);
    Value total = math::SqrtOp::create(builder, sum);
    Value factor = arith::DivFOp::create(
        builder, body->getArguments().back(),
        arith::AddFOp::create(builder, total, constant(kEpsilon)));
    factor = arith::MinimumFOp::create(builder, factor, constant(1));
    func::ReturnOp::create(builder, ValueRange{factor, total});
  }

  FlatSymbolRefAttr getSquare(ModuleOp module, RankedTensorType type) {
    FlatSymbolRefAttr &function = squares[type];
    if (function)
      return function;
    ImplicitLocOpBuilder builder =
        ImplicitLocOpBuilder::atBlockEnd(module.getLoc(), module.getBody());
    auto scalar = RankedTensorType::get({}, builder.getF32Type());
    auto created = func::FuncOp::create(
        builder, getFreeName(module, "square" + getSuffix(type)),
        builder.getFunctionType({type}, {scalar}));
    created.setPrivate();
    Block *body = created.addEntryBlock();
    builder.setInsertionPointToEnd(body);
    Value gradient = body->getArgument(0);
    Value sum = arith::MulFOp::create(builder, gradient, gradient);
    if (type.getRank())
      sum = nn::ReduceOp::create(
          builder, scalar, sum, nn::ReduceKind::sum,
          llvm::to_vector(llvm::seq<int64_t>(0, type.getRank())));
    func::ReturnOp::create(builder, sum);
    normalize::stageReductions(created);
    return function = FlatSymbolRefAttr::get(created.getSymNameAttr());
  }

  static std::string getSuffix(RankedTensorType type) {
    std::string suffix;
    for (int64_t extent : type.getShape())
      suffix += (suffix.empty() ? "_" : "x") + std::to_string(extent);
    return suffix;
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
    ImplicitLocOpBuilder builder =
        ImplicitLocOpBuilder::atBlockEnd(module.getLoc(), module.getBody());
    SmallVector<Type> inputs(2 + chosen.states.size(), type),
        outputs(1 + chosen.states.size(), type);
    inputs.append(chosen.scalars.size() + clipGradientNorm,
                  RankedTensorType::get({}, type.getElementType()));
    auto created = func::FuncOp::create(
        builder, getFreeName(module, chosen.name + getSuffix(type)),
        builder.getFunctionType(inputs, outputs));
    created.setPrivate();
    Block *body = created.addEntryBlock();
    builder.setInsertionPointToEnd(body);
    UpdateBuilder update(builder, type);
    SmallVector<Value> arguments(body->getArguments());
    if (clipGradientNorm)
      arguments[1] = update.multiply(arguments[1], arguments.pop_back_val());
    func::ReturnOp::create(builder, chosen.formula(update, arguments));
    return function = FlatSymbolRefAttr::get(created.getSymNameAttr());
  }

  llvm::DenseMap<Type, FlatSymbolRefAttr> functions, squares;
};

} // namespace

std::unique_ptr<Pass> harmony::createAddOptimizerPass() {
  return std::make_unique<AddOptimizerPass>();
}

std::unique_ptr<Pass>
harmony::createAddOptimizerPass(const std::string &optimizer,
                                bool clipGradientNorm) {
  return std::make_unique<AddOptimizerPass>(optimizer, clipGradientNorm);
}
