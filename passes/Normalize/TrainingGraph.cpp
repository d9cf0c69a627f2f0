//===- TrainingGraph.cpp - The updates of a training graph ----------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See UpdateConverter.h.
//
//===----------------------------------------------------------------------===//

#include "passes/Normalize/Contribution.h"
#include "passes/Normalize/UpdateConverter.h"

using namespace mlir;
using namespace harmony;
using namespace harmony::normalize;

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
  if (mlir::failed(convertStates(epilogue, epilogueStates)) ||
      mlir::failed(convertStates(steps, stepStates)) || failed)
    return failure();
  emitSteps();
  emitEpilogue();
  return success();
}

LogicalResult
UpdateConverter::convertStates(GrowingFunction &function,
                               ArrayRef<std::pair<Attribute, Value>> states) {
  for (auto [state, value] : states) {
    Tensor tensor = evaluate(function, value);
    Value result = tensor ? function.builder->materialize(tensor) : Value();
    if (!result)
      return failure();
    function.writes.push_back(state);
    function.written.push_back(result);
    n.usedByUpdates.insert(state);
  }
  return success();
}

void UpdateConverter::emitSteps() {
  steps.finish(steps.written);
  if (steps.writes.empty()) {
    steps.function.erase();
    return;
  }
  OpBuilder builder = OpBuilder::atBlockEnd(n.module.getBody());
  nn::StepScalarsOp::create(
      builder, n.training.getLoc(),
      FlatSymbolRefAttr::get(steps.function.getSymNameAttr()),
      builder.getArrayAttr(reads), builder.getArrayAttr(steps.writes));
}

void UpdateConverter::emitEpilogue() {
  epilogue.finish(epilogue.written);
  if (epilogue.writes.empty()) {
    epilogue.function.erase();
    return;
  }
  OpBuilder builder = OpBuilder::atBlockEnd(n.module.getBody());
  SmallVector<Attribute> parameters;
  for (Contribution &contribution : contributions) {
    parameters.push_back(contribution.parameter);
    nn::ContributionOp::create(
        builder, contribution.function.getLoc(),
        cast<FlatSymbolRefAttr>(contribution.parameter),
        FlatSymbolRefAttr::get(contribution.function.getSymNameAttr()));
  }
  nn::EpilogueOp::create(
      builder, n.training.getLoc(),
      FlatSymbolRefAttr::get(epilogue.function.getSymNameAttr()),
      builder.getArrayAttr(parameters),
      builder.getArrayAttr(epilogue.scalarArguments),
      builder.getArrayAttr(epilogue.writes));
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

/// One element, known to be so.
static bool hasOneElement(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && type.hasStaticShape() && type.getNumElements() == 1;
}

const UpdateConverter::Sources &UpdateConverter::getSources(Value value) {
  auto cached = sourceCache.find(value);
  if (cached != sourceCache.end())
    return *cached->second;
  auto sources = std::make_unique<Sources>();
  if (value.getDefiningOp<onnx::GradientOp>())
    sources->gradients.insert(
        n.gradient.getXs()[cast<OpResult>(value).getResultNumber()]
            .getDefiningOp<onnx::InitialValueOp>()
            .getInitializerAttr());
  if (auto read = value.getDefiningOp<onnx::InitialValueOp>())
    sources->readsTensors =
        !n.roles[read.getInitializerAttr()].isKnown && !isScalar(value);
  for (Value operand : getOperands(value)) {
    const Sources &others = getSources(operand);
    sources->gradients.insert_range(others.gradients);
    sources->readsTensors |= others.readsTensors;
  }
  return *(sourceCache[value] = std::move(sources));
}

bool UpdateConverter::isShared(Value value, const Update &update) {
  auto node = value.getDefiningOp<onnx::NodeOp>();
  if (!hasOneElement(value) || (node && isOptimizer(node)))
    return false;
  const Sources &sources = getSources(value);
  if (sources.readsTensors || sources.gradients.empty())
    return false;
  auto isOwn = [&](Value other) {
    const auto &gradients = getSources(other).gradients;
    return gradients.size() == 1 && gradients.contains(update.parameter);
  };
  // A gradient of one element is read as it is, where it meets others too.
  return !hasOneElement(n.gradient.getGradients()[update.gradientIndex]) ||
         (!isOwn(value) && llvm::none_of(getOperands(value), isOwn));
}

bool UpdateConverter::isReducedGradient(Value value) {
  if (!hasOneElement(value) || getSources(value).gradients.size() != 1)
    return false;
  return value.getDefiningOp<onnx::GradientOp>() ||
         llvm::any_of(getOperands(value), [&](Value operand) {
           return !getSources(operand).gradients.empty() &&
                  !hasOneElement(operand);
         });
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

/// Whether `value` is what a BatchNormalization moves the statistic to.
static bool isRunningStatistic(Value value, Attribute statistic) {
  auto skipIdentity = [](Value value) {
    while (auto node = value.getDefiningOp<onnx::NodeOp>()) {
      if (node.getOpType() != "Identity")
        break;
      value = node.getInputs().front();
    }
    return value;
  };
  value = skipIdentity(value);
  auto node = value.getDefiningOp<onnx::NodeOp>();
  if (!node || !isBatchNorm(node))
    return false;
  unsigned output = cast<OpResult>(value).getResultNumber();
  if (output != 1 && output != 2)
    return false;
  auto read = skipIdentity(node.getInputs()[output + 2])
                  .getDefiningOp<onnx::InitialValueOp>();
  return read && read.getInitializerAttr() == statistic;
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
    if (isRunningStatistic(value, binding.initializer))
      continue; // nn.assign's
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
      stepStates.push_back({state, value});
      continue;
    }
    llvm::SmallSetVector<Attribute, 4> parameters;
    llvm::DenseSet<Value> seen;
    collectParameters(value, parameters, seen);
    auto typeOf = [&](Attribute symbol) {
      return n.initializers.lookup(cast<FlatSymbolRefAttr>(symbol).getValue())
          .getTensorType();
    };
    bool isOfOne =
        parameters.size() == 1 && typeOf(parameters.front()) == typeOf(state);
    if (!isOfOne && typeOf(state).getRank() == 0 && hasOneElement(value)) {
      epilogueStates.push_back({state, value});
      continue;
    }
    if (parameters.size() != 1) {
      InFlightDiagnostic error = n.training.emitError("state ")
                                 << state << " is updated from "
                                 << parameters.size()
                                 << " parameters or their gradients";
      error << "; accepted is one, whose shape it has, or any number for a "
               "scalar";
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

std::string UpdateConverter::getFreeName(StringRef name,
                                         ArrayRef<int64_t> shape) {
  std::string wanted = name.str();
  for (auto [axis, extent] : llvm::enumerate(shape))
    wanted += (axis ? "x" : "_") + std::to_string(extent);
  std::string free = wanted;
  for (int i = 2; n.module.lookupSymbol(free); ++i)
    free = wanted + "_" + std::to_string(i);
  return free;
}

LogicalResult UpdateConverter::convertParameter(Update &update) {
  onnx::InitializerOp initializer = n.initializers.lookup(
      cast<FlatSymbolRefAttr>(update.parameter).getValue());
  RankedTensorType type = initializer.getTensorType();
  GrowingFunction function(n.module, getFreeName("update", type.getShape()),
                           GrowingFunction::Kind::Update,
                           "the update of '" + initializer.getOnnxName() + "'");
  function.update = &update;
  Tensor parameter = function.addArgument(type, type.getElementType());
  Tensor gradient = function.addArgument(type, type.getElementType());
  function.bindReads(n.graph, update.parameter, parameter);
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
    function.bindReads(n.graph, state,
                       function.addArgument(type, type.getElementType()));
    states.push_back(state);
    values.push_back(value);
    n.usedByUpdates.insert(state);
  }
  SmallVector<Value> results;
  for (Value value : values) {
    Tensor tensor = evaluate(function, value);
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
  nn::OptimizeOp::create(builder, initializer.getLoc(),
                         cast<FlatSymbolRefAttr>(update.parameter),
                         FlatSymbolRefAttr::get(callee.getSymNameAttr()),
                         builder.getArrayAttr(states),
                         builder.getArrayAttr(function.scalarArguments));
  return success();
}

Tensor UpdateConverter::readInitializer(GrowingFunction &function,
                                        onnx::InitialValueOp read) {
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
  if (function.kind == GrowingFunction::Kind::Steps && type.getRank() == 0) {
    Tensor argument = function.addArgument(type, type.getElementType());
    function.converter->bind(read.getResult(), argument);
    reads.push_back(read.getInitializerAttr());
    n.usedByUpdates.insert(read.getInitializerAttr());
    return argument;
  }
  StringRef accepted =
      function.kind == GrowingFunction::Kind::Update
          ? "the parameter, its gradient, its own state, and scalars"
      : function.kind == GrowingFunction::Kind::Contribution
          ? "the gradient and constants"
          : "scalars, and gradients through reductions to one element";
  return refuse(read.getResult(), function.reader + " reads '" +
                                      onnx::getValueName(read.getResult()) +
                                      "'; accepted are " + accepted);
}

Tensor UpdateConverter::evaluate(GrowingFunction &function, Value value) {
  using Kind = GrowingFunction::Kind;
  if (function.converter->isBound(value))
    return function.converter->get(value);
  bool readsScalars =
      function.kind == Kind::Update || function.kind == Kind::Epilogue;
  Tensor argument;
  if (readsScalars && isScalar(value))
    argument = scalarArgument(function, steps, {value.getAsOpaquePointer(), ""},
                              onnx::getValueName(value), value.getLoc(),
                              [&] { return evaluate(steps, value); });
  else if (function.kind == Kind::Update && isShared(value, *function.update))
    argument =
        scalarArgument(function, epilogue, {value.getAsOpaquePointer(), ""},
                       onnx::getValueName(value), value.getLoc(),
                       [&] { return evaluate(epilogue, value); });
  else if (function.kind == Kind::Epilogue && isReducedGradient(value))
    argument = contributionArgument(value);
  else
    return evaluateNode(function, value);
  // Arguments have rank 0; an update broadcasts them whatever their rank is.
  if (argument && function.kind == Kind::Epilogue)
    argument = function.builder->reshape(
        argument,
        Shape(cast<RankedTensorType>(value.getType()).getRank(), Extent{1}));
  if (argument)
    function.converter->bind(value, argument);
  return argument;
}

Tensor UpdateConverter::evaluateNode(GrowingFunction &function, Value value) {
  if (auto read = value.getDefiningOp<onnx::InitialValueOp>())
    return readInitializer(function, read);
  if (value.getDefiningOp<onnx::GradientOp>())
    return refuse(value, function.reader + " reads '" +
                             onnx::getValueName(value) +
                             "', the gradient of another parameter; updates "
                             "across parameters may read gradients through "
                             "reductions to one element");
  auto node = value.getDefiningOp<onnx::NodeOp>();
  if (!node)
    return refuse(value, "an update depends on the input '" +
                             onnx::getValueName(value) + "' of the graph");
  if (isOptimizer(node)) {
    Tensor tensor = evaluateOptimizer(function, node, value);
    if (tensor)
      function.converter->bind(value, tensor);
    return tensor;
  }
  for (Value operand : node.getInputs())
    if (!isa<NoneType>(operand.getType()) && !evaluate(function, operand))
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
                                       GrowingFunction &producer, ScalarKey key,
                                       StringRef wanted, Location location,
                                       llvm::function_ref<Tensor()> compute) {
  if (Tensor argument = function.scalarTensors.lookup(key))
    return argument;
  FlatSymbolRefAttr variable = scalarVariables.lookup(key);
  std::string name = wanted.empty() ? "scalar" : wanted.str();
  auto type = RankedTensorType::get({}, Float32Type::get(context));
  if (!variable) {
    Tensor tensor = compute();
    if (!tensor)
      return Tensor();
    if (tensor.isKnown()) // the same in every step
      return function.scalarTensors[key] = tensor;
    if (tensor.isFloat() && !tensor.type().isF32())
      tensor = producer.builder->cast(tensor, type.getElementType());
    Value value =
        producer.builder->materialize(producer.builder->reshape(tensor, {}));
    if (!value || value.getType() != type) {
      emitError(location, "scalar '" + name + "' has elements of type " +
                              toText(tensor.type()) +
                              "; an update can read f32 and f64");
      failed = true;
      return Tensor();
    }
    OpBuilder builder = OpBuilder::atBlockEnd(n.module.getBody());
    auto scalar = nn::VariableOp::create(builder, location,
                                         getFreeName("step." + name, {}), type,
                                         nn::Role::scalar, nullptr);
    scalarVariables[key] = variable =
        FlatSymbolRefAttr::get(scalar.getSymNameAttr());
    producer.writes.push_back(variable);
    producer.written.push_back(value);
  }
  function.scalarArguments.push_back(variable);
  return function.scalarTensors[key] =
             function.addArgument(type, type.getElementType());
}

Tensor UpdateConverter::contributionArgument(Value value) {
  Attribute parameter = getSources(value).gradients.front();
  unsigned index = 0;
  while (n.gradient.getXs()[index]
             .getDefiningOp<onnx::InitialValueOp>()
             .getInitializerAttr() != parameter)
    ++index;
  onnx::InitializerOp initializer =
      n.initializers.lookup(cast<FlatSymbolRefAttr>(parameter).getValue());
  RankedTensorType type = initializer.getTensorType(),
                   scalar =
                       RankedTensorType::get({}, Float32Type::get(context));
  GrowingFunction function(
      n.module, getFreeName("contribution", type.getShape()),
      GrowingFunction::Kind::Contribution,
      "a reduction of the gradient of '" + initializer.getOnnxName() + "'");
  function.converter->bind(n.gradient.getGradients()[index],
                           function.addArgument(type, type.getElementType()));
  Tensor tensor = evaluate(function, value);
  if (!tensor)
    return Tensor();
  Value result =
      function.builder->materialize(function.builder->reshape(tensor, {}));
  if (!result || result.getType() != scalar)
    return refuse(value, function.reader + " has elements of type " +
                             toText(tensor.type()) + "; accepted is f32");
  function.finish(result);
  stageReductions(function.function);
  func::FuncOp callee = function.function;
  if (func::FuncOp equal = findEqual(n.module, callee)) {
    callee.erase();
    callee = equal;
  }
  for (const Contribution &contribution : contributions)
    if (contribution.parameter == parameter) {
      if (contribution.function == callee)
        return contribution.argument;
      return refuse(value, "the gradient of '" + initializer.getOnnxName() +
                               "' is reduced in two ways; accepted is one");
    }
  Tensor argument = epilogue.insertArgument(contributions.size(), scalar);
  contributions.push_back({parameter, callee, argument});
  return argument;
}
