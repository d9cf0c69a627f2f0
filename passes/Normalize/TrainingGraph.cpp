//===- TrainingGraph.cpp - The updates of a training graph ----------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a training graph computes from gradients and state falls into two kinds
// of functions: one elementwise function per parameter (nn.optimize), and one
// function for all work on scalars that needs no gradient, such as step
// counters and bias corrections (nn.step_scalars). A binding reads old values,
// whatever its place.
//
// Formulas of Adam, Momentum and Adagrad: onnx/defs/training/defs.cc, opset
// ai.onnx.preview.training 1. An optimizer node over n tensors is n updates.
//
//===----------------------------------------------------------------------===//

#include "passes/Normalize/Normalizer.h"
#include "passes/Normalize/TensorBuilderDetail.h"

#include <cmath>

using namespace mlir;
using namespace harmony;
using namespace harmony::normalize;

static bool isOptimizer(onnx::NodeOp node) {
  return node.getDomain() == "ai.onnx.preview.training";
}

namespace harmony::normalize {

/// A function that grows arguments on demand.
class GrowingFunction {
public:
  GrowingFunction(ModuleOp module, const Twine &name) {
    OpBuilder moduleBuilder = OpBuilder::atBlockEnd(module.getBody());
    function = func::FuncOp::create(moduleBuilder, module.getLoc(), name.str(),
                                    moduleBuilder.getFunctionType({}, {}));
    function.setPrivate();
    body = function.addEntryBlock();
    builder =
        std::make_unique<TensorBuilder>(module, OpBuilder::atBlockEnd(body));
    converter = std::make_unique<GraphConverter>(*builder);
  }

  Tensor addArgument(RankedTensorType type, Type onnxElementType) {
    return builder->fromValue(body->addArgument(type, function.getLoc()),
                              onnxElementType);
  }

  /// Returns `results` and sets the function's type.
  void finish(ArrayRef<Value> results) {
    func::ReturnOp::create(builder->getBuilder(), function.getLoc(), results);
    function.setFunctionType(FunctionType::get(function.getContext(),
                                               body->getArgumentTypes(),
                                               ValueRange(results).getTypes()));
    eraseDeadOps(*body);
  }

  func::FuncOp function;
  Block *body = nullptr;
  std::unique_ptr<TensorBuilder> builder;
  std::unique_ptr<GraphConverter> converter;
};

class UpdateConverter {
public:
  explicit UpdateConverter(Normalizer &normalizer)
      : n(normalizer), context(normalizer.context),
        steps(normalizer.module, "step_scalars") {}

  LogicalResult run();

private:
  /// A parameter with what is updated along with it.
  struct Update {
    Attribute parameter;
    unsigned gradientIndex = 0;
    Value value; ///< the new parameter
    SmallVector<std::pair<Attribute, Value>> states;
  };

  LogicalResult sortBindings();
  LogicalResult convertParameter(Update &update);
  void emitSteps();

  /// What a value is computed from: parameters (by their value or their
  /// gradient). Follows only the tensors of one index through optimizer nodes.
  void collectParameters(Value value,
                         llvm::SmallSetVector<Attribute, 4> &parameters,
                         llvm::DenseSet<Value> &seen);
  SmallVector<Value> getOperands(Value value);
  /// Computed from scalars alone, without a gradient.
  bool isScalar(Value value);

  Tensor evaluate(GrowingFunction &function, Value value, Update *update);
  Tensor evaluateOptimizer(GrowingFunction &function, onnx::NodeOp node,
                           Value value, Update *update);
  Tensor readInitializer(GrowingFunction &function, onnx::InitialValueOp read,
                         Update *update);

  /// A value that step_scalars computes, as an argument of the update that is
  /// being converted; inline where it is constant.
  Tensor scalarArgument(GrowingFunction &function, const std::string &name,
                        Location location,
                        llvm::function_ref<Tensor()> compute);
  /// base^exponent for an integer exponent >= 0, by squaring, in double
  /// precision.
  Tensor powerOf(double base, const Tensor &exponent);

  Tensor refuse(Value value, const Twine &message) {
    emitError(value.getLoc(), message);
    failed = true;
    return Tensor();
  }

  Normalizer &n;
  MLIRContext *context;
  GrowingFunction steps;
  std::vector<Update> updates;
  llvm::DenseMap<Attribute, Value>
      newValues; ///< by initializer: what its binding assigns
  SmallVector<std::pair<Attribute, Value>> scalarStates;
  llvm::DenseMap<Value, bool> scalarCache;
  SmallVector<Attribute> reads, writes;
  SmallVector<Value> written;
  llvm::StringMap<FlatSymbolRefAttr> scalarVariables;
  SmallVector<Attribute>
      scalarArguments; ///< of the update that is being converted
  llvm::StringMap<Tensor> scalarTensors; ///< likewise
  bool failed = false;
};

} // namespace harmony::normalize

LogicalResult Normalizer::convertUpdates() {
  if (!training)
    return success();
  return UpdateConverter(*this).run();
}

LogicalResult UpdateConverter::run() {
  if (mlir::failed(sortBindings()))
    return failure();
  for (Update &update : updates)
    if (mlir::failed(convertParameter(update)))
      failed = true;
  for (auto [state, value] : scalarStates) {
    Tensor tensor = evaluate(steps, value, nullptr);
    Value result = tensor ? steps.builder->materialize(tensor) : Value();
    if (!result) {
      failed = true;
      continue;
    }
    writes.push_back(state);
    written.push_back(result);
    n.usedByUpdates.insert(state);
  }
  if (failed)
    return failure();
  emitSteps();
  return success();
}

void UpdateConverter::emitSteps() {
  steps.finish(written);
  if (writes.empty()) {
    steps.function.erase();
    return;
  }
  OpBuilder builder = OpBuilder::atBlockEnd(n.module.getBody());
  nn::StepScalarsOp::create(
      builder, n.training.getLoc(),
      FlatSymbolRefAttr::get(steps.function.getSymNameAttr()),
      builder.getArrayAttr(reads), builder.getArrayAttr(writes));
}

//===----------------------------------------------------------------------===//
// Which binding belongs to what
//===----------------------------------------------------------------------===//

/// The operands that one result of a node depends on.
SmallVector<Value> UpdateConverter::getOperands(Value value) {
  Operation *op = value.getDefiningOp();
  auto node = dyn_cast_or_null<onnx::NodeOp>(op);
  if (!node)
    return {};
  if (!isOptimizer(node))
    return SmallVector<Value>(node.getInputs());
  // R, T, then groups of `count` tensors; results are groups too.
  unsigned groups = node.getOpType() == "Adam" ? 4 : 3,
           count = (node.getInputs().size() - 2) / groups;
  unsigned index = cast<OpResult>(value).getResultNumber() % count;
  SmallVector<Value> operands{node.getInputs()[0], node.getInputs()[1]};
  for (unsigned group = 0; group < groups; ++group)
    operands.push_back(node.getInputs()[2 + group * count + index]);
  return operands;
}

bool UpdateConverter::isScalar(Value value) {
  auto cached = scalarCache.find(value);
  if (cached != scalarCache.end())
    return cached->second;
  bool result = false;
  if (auto read = value.getDefiningOp<onnx::InitialValueOp>()) {
    auto type = dyn_cast<RankedTensorType>(read.getType());
    result = type && type.getRank() == 0 &&
             !n.rules.differentiated.contains(read.getInitializerAttr());
  } else if (auto node = value.getDefiningOp<onnx::NodeOp>();
             node && !isOptimizer(node)) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    result = node.getInputs().empty()
                 ? type && type.getRank() == 0
                 : llvm::all_of(node.getInputs(), [&](Value operand) {
                     return isScalar(operand);
                   });
  }
  return scalarCache[value] = result;
}

void UpdateConverter::collectParameters(
    Value value, llvm::SmallSetVector<Attribute, 4> &parameters,
    llvm::DenseSet<Value> &seen) {
  if (!seen.insert(value).second)
    return;
  if (auto read = value.getDefiningOp<onnx::InitialValueOp>()) {
    if (n.rules.differentiated.contains(read.getInitializerAttr()))
      parameters.insert(read.getInitializerAttr());
    return;
  }
  if (value.getDefiningOp<onnx::GradientOp>()) {
    Value x = n.gradient.getXs()[cast<OpResult>(value).getResultNumber()];
    parameters.insert(
        x.getDefiningOp<onnx::InitialValueOp>().getInitializerAttr());
    return;
  }
  for (Value operand : getOperands(value))
    collectParameters(operand, parameters, seen);
}

LogicalResult UpdateConverter::sortBindings() {
  auto returned =
      cast<onnx::ReturnOp>(n.graph.getBody().front().getTerminator());
  llvm::DenseMap<Attribute, size_t> updateOf;
  SmallVector<std::pair<Attribute, Value>> others;
  for (const onnx::Binding &binding :
       onnx::getBindings(n.training.getUpdate())) {
    int index = onnx::findResult(n.graph, binding.result);
    if (index < 0)
      return n.training.emitError(
          "update binding names '" + binding.result +
          "', which is not an output of the training graph");
    Value value = returned.getOperand(index);
    if (!n.rules.differentiated.contains(binding.initializer)) {
      others.push_back({binding.initializer, value});
      continue;
    }
    Update update;
    update.parameter = binding.initializer;
    update.value = value;
    for (auto [i, x] : llvm::enumerate(n.gradient.getXs()))
      if (x.getDefiningOp<onnx::InitialValueOp>().getInitializerAttr() ==
          binding.initializer)
        update.gradientIndex = i;
    updateOf[binding.initializer] = updates.size();
    updates.push_back(update);
  }
  bool ok = true;
  for (auto [state, value] : others) {
    if (isScalar(value)) {
      scalarStates.push_back({state, value});
      continue;
    }
    llvm::SmallSetVector<Attribute, 4> parameters;
    llvm::DenseSet<Value> seen;
    collectParameters(value, parameters, seen);
    if (parameters.size() != 1) {
      InFlightDiagnostic error = n.training.emitError("state ")
                                 << state << " is updated from "
                                 << parameters.size()
                                 << " parameters or their gradients";
      error << "; accepted is one, whose shape it has, or scalars without "
               "gradients";
      ok = false;
      continue;
    }
    updates[updateOf[parameters.front()]].states.push_back({state, value});
  }
  return success(ok);
}

//===----------------------------------------------------------------------===//
// The update of one parameter
//===----------------------------------------------------------------------===//

/// A function equal to `function` that is in the module already.
static func::FuncOp findEqual(ModuleOp module, func::FuncOp function) {
  for (auto other : module.getOps<func::FuncOp>())
    if (other != function && other.isPrivate() &&
        other.getFunctionType() == function.getFunctionType() &&
        OperationEquivalence::isRegionEquivalentTo(
            &other.getBody(), &function.getBody(),
            OperationEquivalence::IgnoreLocations))
      return other;
  return func::FuncOp();
}

LogicalResult UpdateConverter::convertParameter(Update &update) {
  onnx::InitializerOp initializer = n.initializers.lookup(
      cast<FlatSymbolRefAttr>(update.parameter).getValue());
  RankedTensorType type = initializer.getTensorType();
  std::string name = "update";
  for (int64_t extent : type.getShape())
    name += (name == "update" ? "_" : "x") + std::to_string(extent);
  std::string free = name;
  for (int i = 2; n.module.lookupSymbol(free); ++i)
    free = name + "_" + std::to_string(i);

  GrowingFunction function(n.module, free);
  scalarArguments.clear();
  scalarTensors.clear();
  Tensor parameter = function.addArgument(type, type.getElementType());
  Tensor gradient = function.addArgument(type, type.getElementType());
  Block &graph = n.graph.getBody().front();
  for (auto read : graph.getOps<onnx::InitialValueOp>())
    if (read.getInitializerAttr() == update.parameter)
      function.converter->bind(read.getResult(), parameter);
  function.converter->bind(n.gradient.getGradients()[update.gradientIndex],
                           gradient);
  bool ok = true;
  SmallVector<Attribute> states;
  SmallVector<Value> values{update.value};
  for (auto [state, value] : update.states) {
    onnx::InitializerOp stateInitializer =
        n.initializers.lookup(cast<FlatSymbolRefAttr>(state).getValue());
    if (stateInitializer.getTensorType() != type) {
      stateInitializer.emitError("state '" + stateInitializer.getOnnxName() +
                                 "' has type ")
          << stateInitializer.getTensorType() << ", but is updated along with '"
          << initializer.getOnnxName() << "' of type " << type
          << "; accepted is the same type";
      return failure();
    }
    Tensor argument = function.addArgument(type, type.getElementType());
    for (auto read : graph.getOps<onnx::InitialValueOp>())
      if (read.getInitializerAttr() == state)
        function.converter->bind(read.getResult(), argument);
    states.push_back(state);
    values.push_back(value);
    n.usedByUpdates.insert(state);
  }
  SmallVector<Value> results;
  for (Value value : values) {
    Tensor tensor = evaluate(function, value, &update);
    if (!tensor)
      return failure();
    Shape shape(parameter.shape());
    std::optional<Shape> joined = broadcastShapes(tensor.shape(), shape);
    if (!joined || *joined != shape) {
      refuse(value, "the update of '" + initializer.getOnnxName() +
                        "' has shape " + toString(tensor.shape()) +
                        ", expected " + toString(shape));
      return failure();
    }
    results.push_back(function.builder->materializeAs(tensor, shape));
    ok &= bool(results.back());
  }
  if (!ok)
    return failure();
  function.finish(results);
  for (Operation &op : function.body->without_terminator())
    if (!op.hasTrait<OpTrait::Elementwise>() &&
        !isa<nn::BroadcastOp, arith::ConstantOp>(op))
      return op.emitError("the update of '" + initializer.getOnnxName() +
                          "' is not elementwise: '")
             << op.getName() << "' is not supported there";

  func::FuncOp callee = function.function;
  if (func::FuncOp equal = findEqual(n.module, callee)) {
    callee.erase();
    callee = equal;
  }
  n.usedByUpdates.insert(update.parameter);
  OpBuilder builder = OpBuilder::atBlockEnd(n.module.getBody());
  nn::OptimizeOp::create(
      builder, initializer.getLoc(), cast<FlatSymbolRefAttr>(update.parameter),
      FlatSymbolRefAttr::get(callee.getSymNameAttr()),
      builder.getArrayAttr(states), builder.getArrayAttr(scalarArguments));
  return success();
}

Tensor UpdateConverter::readInitializer(GrowingFunction &function,
                                        onnx::InitialValueOp read,
                                        Update *update) {
  const RoleDecision &decision = n.roles[read.getInitializerAttr()];
  if (decision.isKnown) {
    onnx::InitializerOp initializer =
        n.initializers.lookup(read.getInitializer());
    FailureOr<ArrayRef<char>> bytes =
        onnx::getInitializerBytes(initializer, n.files);
    if (mlir::failed(bytes)) {
      failed = true;
      return Tensor();
    }
    Tensor tensor =
        knownFromBytes(*function.builder, initializer.getTensorType(), *bytes);
    function.converter->bind(read.getResult(), tensor);
    return tensor;
  }
  auto type = cast<RankedTensorType>(read.getType());
  if (!update && type.getRank() == 0) {
    Tensor argument = function.addArgument(type, type.getElementType());
    function.converter->bind(read.getResult(), argument);
    reads.push_back(read.getInitializerAttr());
    n.usedByUpdates.insert(read.getInitializerAttr());
    return argument;
  }
  return refuse(read.getResult(),
                "the update of " +
                    toText(update ? update->parameter : Attribute()) +
                    " reads '" + onnx::getValueName(read.getResult()) +
                    "'; accepted are the parameter, its gradient, its own "
                    "state, and scalars");
}

Tensor UpdateConverter::evaluate(GrowingFunction &function, Value value,
                                 Update *update) {
  if (function.converter->isBound(value))
    return function.converter->get(value);
  if (update && isScalar(value)) {
    Tensor tensor = scalarArgument(
        function, onnx::getValueName(value).str(), value.getLoc(),
        [&] { return evaluate(steps, value, nullptr); });
    if (tensor)
      function.converter->bind(value, tensor);
    return tensor;
  }
  if (auto read = value.getDefiningOp<onnx::InitialValueOp>())
    return readInitializer(function, read, update);
  if (value.getDefiningOp<onnx::GradientOp>())
    return refuse(value, "the update of " +
                             toText(update ? update->parameter : Attribute()) +
                             " reads '" + onnx::getValueName(value) +
                             "', the gradient of another parameter; updates "
                             "across parameters, such as clipping by "
                             "the global norm, are not supported");
  auto node = value.getDefiningOp<onnx::NodeOp>();
  if (!node)
    return refuse(value, "an update depends on the input '" +
                             onnx::getValueName(value) + "' of the graph");
  if (isOptimizer(node)) {
    Tensor tensor = evaluateOptimizer(function, node, value, update);
    if (tensor)
      function.converter->bind(value, tensor);
    return tensor;
  }
  for (Value operand : node.getInputs())
    if (!isa<NoneType>(operand.getType()) &&
        !evaluate(function, operand, update))
      return Tensor();
  if (mlir::failed(GraphConverter::checkSupported({node.getOperation()}))) {
    failed = true;
    return Tensor();
  }
  function.converter->convert(node);
  failed |= function.converter->hasFailed();
  return function.converter->get(value);
}

//===----------------------------------------------------------------------===//
// Scalars
//===----------------------------------------------------------------------===//

Tensor UpdateConverter::scalarArgument(GrowingFunction &function,
                                       const std::string &name,
                                       Location location,
                                       llvm::function_ref<Tensor()> compute) {
  Tensor &argument = scalarTensors[name];
  if (argument)
    return argument;
  FlatSymbolRefAttr &variable = scalarVariables[name];
  auto type = RankedTensorType::get({}, Float32Type::get(context));
  if (!variable) {
    Tensor tensor = compute();
    if (!tensor)
      return Tensor();
    if (tensor.isKnown()) // the same in every step
      return argument = tensor;
    if (tensor.isFloat() && !tensor.type().isF32())
      tensor = steps.builder->cast(tensor, type.getElementType());
    Value value =
        steps.builder->materialize(steps.builder->reshape(tensor, {}));
    if (!value || value.getType() != type) {
      emitError(location, "scalar '" + name + "' has elements of type " +
                              toText(tensor.type()) +
                              "; an update can read f32 and f64");
      failed = true;
      return Tensor();
    }
    std::string symbol = "step." + name;
    for (int i = 2; n.module.lookupSymbol(symbol); ++i)
      symbol = "step." + name + "_" + std::to_string(i);
    OpBuilder builder = OpBuilder::atBlockEnd(n.module.getBody());
    nn::VariableOp::create(builder, location, symbol, type, nn::Role::scalar,
                           nullptr);
    variable = FlatSymbolRefAttr::get(context, symbol);
    writes.push_back(variable);
    written.push_back(value);
  }
  scalarArguments.push_back(variable);
  return argument = function.addArgument(type, type.getElementType());
}

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

//===----------------------------------------------------------------------===//
// Optimizer nodes
//===----------------------------------------------------------------------===//

Tensor UpdateConverter::evaluateOptimizer(GrowingFunction &function,
                                          onnx::NodeOp node, Value value,
                                          Update *update) {
  if (!update)
    return refuse(value,
                  "a scalar is updated from the result of an optimizer node");
  TensorBuilder &b = *function.builder, &s = *steps.builder;
  StringRef kind = node.getOpType();
  auto real = [&](StringRef name, double otherwise) {
    auto attribute = dyn_cast_or_null<FloatAttr>(node.getNodeAttribute(name));
    return attribute ? attribute.getValueAsDouble() : otherwise;
  };
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
  Tensor x = evaluate(function, operands[2], update),
         g = evaluate(function, operands[3], update);
  Tensor v = evaluate(function, operands[4], update);
  if (!x || !g || !v)
    return Tensor();
  b.startNode(node.getLoc());
  double norm = real("norm_coefficient", 0);
  if (norm != 0)
    g = b.add(b.scale(x, norm), g);

  // Scalars in double precision, so that 1 - beta^T keeps its digits.
  Type wide = Float64Type::get(context);
  auto rate = [&] {
    return s.cast(evaluate(steps, operands[0], nullptr), wide);
  };
  auto counter = [&] { return evaluate(steps, operands[1], nullptr); };
  auto ifCounting = [&](Tensor yes, Tensor no) {
    Tensor t = counter();
    return t ? s.select(s.compare(Compare::Greater, t, s.scalarLike(t, 0)), yes,
                        no)
             : Tensor();
  };
  auto scalar = [&](StringRef what, llvm::function_ref<Tensor()> compute) {
    Tensor tensor =
        scalarArgument(function, (node.getNodeName() + "." + what).str(),
                       node.getLoc(), compute);
    return tensor ? b.cast(tensor, x.type()) : Tensor();
  };

  Tensor result;
  if (kind == "Adam") {
    double alpha = real("alpha", 0.9f), beta = real("beta", 0.999f),
           epsilon = real("epsilon", 1e-6f);
    double post = real("norm_coefficient_post", 0);
    Tensor h = evaluate(function, operands[5], update);
    v = b.add(b.scale(v, alpha), b.scale(g, 1 - alpha));
    h = b.add(b.scale(h, beta), b.scale(b.multiply(g, g), 1 - beta));
    Tensor adjusted = scalar("rate", [&]() -> Tensor {
      Tensor r = rate(), t = counter();
      if (!r || !t)
        return Tensor();
      Tensor one = s.scalar(wide, 1);
      Tensor corrected =
          s.divide(s.multiply(r, s.unary(Unary::SquareRoot,
                                         s.subtract(one, powerOf(beta, t)))),
                   s.subtract(one, powerOf(alpha, t)));
      return ifCounting(corrected, r);
    });
    Tensor root =
        b.add(b.unary(Unary::SquareRoot, h), b.scalarLike(h, epsilon));
    x = b.subtract(x, b.divide(b.multiply(adjusted, v), root));
    if (post != 0)
      x = b.scale(x, 1 - post);
    result = wanted == 0 ? x : wanted == 1 ? v : h;
  } else if (kind == "Momentum") {
    double alpha = real("alpha", 0), beta = real("beta", 0);
    auto mode = dyn_cast_or_null<StringAttr>(node.getNodeAttribute("mode"));
    if (!mode ||
        (mode.getValue() != "standard" && mode.getValue() != "nesterov"))
      return refuse(value, "mode must be 'standard' or 'nesterov'");
    Tensor adjusted = scalar("beta", [&] {
      return ifCounting(s.scalar(wide, beta), s.scalar(wide, 1));
    });
    Tensor r = scalar("rate", rate);
    v = b.add(b.scale(v, alpha), b.multiply(adjusted, g));
    Tensor direction =
        mode.getValue() == "standard" ? v : b.add(g, b.scale(v, alpha));
    x = b.subtract(x, b.multiply(r, direction));
    result = wanted == 0 ? x : v;
  } else if (kind == "Adagrad") {
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
    result = wanted == 0 ? x : v;
  } else {
    return refuse(
        value,
        "optimizer '" + kind +
            "' is not supported; accepted are Adam, Momentum and Adagrad");
  }
  std::string error = b.takeError();
  if (!result && !failed)
    return refuse(value,
                  "the update of " + toText(update->parameter) + ": " + error);
  return result;
}
