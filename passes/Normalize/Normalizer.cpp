//===- Normalizer.cpp - From a model to nn --------------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Normalize/Normalizer.h"

#include "passes/Normalize/Binder.h"
#include "passes/Normalize/Fuse.h"
#include "passes/Normalize/TensorBuilderDetail.h"
#include "passes/Normalize/TrainingChecks.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/Regex.h"

using namespace mlir;
using namespace harmony;
using namespace harmony::normalize;

Normalizer::Normalizer(ModuleOp module, const NormalizeOptions &options,
                       int64_t wholeBatch)
    : module(module), options(options), wholeBatch(wholeBatch),
      context(module.getContext()), files(module),
      lossLocation(module.getLoc()) {}

LogicalResult Normalizer::run() {
  if (failed(findGraph()) || failed(decideRoles()) || failed(bindInputs()) ||
      failed(convertForward()) || failed(findLoss()) || failed(emitLoss()) ||
      failed(emitOutputs()) || failed(convertUpdates()))
    return failure();
  padding.warnOfUnused(module);
  Block &body = main.getBody().front();
  Fuser fuser(body);
  if (options.fuse)
    fuser.run();
  eraseDeadOps(body);
  if (ArrayAttr report = fuser.takeReport())
    module->setAttr(kFusionsAttr, report);
  if (failed(createVariables()))
    return failure();
  annotateIndices();
  noteUnsplittable();
  for (Operation &op : llvm::make_early_inc_range(*module.getBody()))
    if (isa<onnx::GraphOp, onnx::TrainingOp, onnx::InitializerOp>(op))
      op.erase();
  main.setSymName("main");
  return success();
}

//===----------------------------------------------------------------------===//
// The graph and its sources
//===----------------------------------------------------------------------===//

LogicalResult Normalizer::findGraph() {
  SmallVector<onnx::TrainingOp> trainings(module.getOps<onnx::TrainingOp>());
  graph = onnx::getMainGraph(module);
  if (!graph)
    return module.emitError("the module has no onnx.graph to normalise");
  if (trainings.empty() || options.forward)
    return success();
  if (trainings.size() > 1) {
    InFlightDiagnostic error = trainings[1].emitError(
        "the model has several training steps; accepted is one");
    error.attachNote(trainings[0].getLoc()) << "the first is here";
    return error;
  }
  training = trainings.front();
  graph = module.lookupSymbol<onnx::GraphOp>(training.getAlgorithm());
  SmallVector<onnx::GradientOp> gradients(
      graph.getBody().front().getOps<onnx::GradientOp>());
  if (gradients.size() != 1)
    return training.emitError("the training graph has ")
           << gradients.size() << " Gradient nodes; accepted is one";
  gradient = gradients.front();
  rules.isTrainingGraph = true;
  return success();
}

LogicalResult Normalizer::decideRoles() {
  FailureOr<RoleRules> created = RoleRules::create(module, options);
  if (failed(created) || failed(padding.parse(module, options.padding)))
    return failure();
  created->isTrainingGraph = rules.isTrainingGraph;
  created->findStatistics(module);
  created->findSettings(module);
  created->exporterMarks =
      llvm::any_of(module.getOps<onnx::InitializerOp>(),
                   [](onnx::InitializerOp initializer) {
                     return initializer.getKind() == "PARAMETER";
                   });
  rules = *created;
  if (training) {
    for (auto [x, at] : llvm::zip(gradient.getXs(), gradient.getAt())) {
      auto read = x.getDefiningOp<onnx::InitialValueOp>();
      if (!read)
        return gradient.emitError("differentiates by '" +
                                  onnx::getValueName(x) +
                                  "', which is not an initializer");
      if (x != at)
        return gradient.emitError("takes the gradient by '" +
                                  onnx::getValueName(x) +
                                  "' at another point than its value");
      rules.differentiated.insert(read.getInitializerAttr());
    }
    for (const onnx::Binding &binding : onnx::getBindings(training.getUpdate()))
      rules.updated.insert(binding.initializer);
    for (Attribute symbol : rules.differentiated)
      if (!rules.updated.contains(symbol))
        return training.emitError("differentiates by ")
               << symbol << " but does not update it";
  }
  for (auto [flag, expressions] : {std::pair("--trainable", &options.trainable),
                                   std::pair("--freeze", &options.freeze)})
    for (const std::string &expression : *expressions)
      if (llvm::none_of(
              module.getOps<onnx::InitializerOp>(),
              [&](onnx::InitializerOp initializer) {
                return llvm::Regex(expression).match(initializer.getOnnxName());
              }))
        emitWarning(module.getLoc())
            << flag << " " << expression << ": no initializer has such a name";
  SmallVector<DecidedInitializer> decided;
  for (auto initializer : module.getOps<onnx::InitializerOp>()) {
    RoleDecision decision = rules.decide(initializer, files);
    if (options.forward && decision.role == nn::Role::parameter)
      decision = RoleDecision{nn::Role::frozen, "nothing is trained", false};
    auto symbol = SymbolRefAttr::get(initializer.getSymNameAttr());
    roles[symbol] = decision;
    initializers[initializer.getSymName()] = initializer;
    decided.push_back({initializer, decision});
  }
  if (options.forward || training)
    return success();
  warnOfExporter(module, decided);
  warnOfLostSmoothing(module);
  warnOfLostDetach(module);
  return checkElementTypes(module, decided);
}

LogicalResult Normalizer::bindInputs() {
  FailureOr<GraphInputs> inputs = resolveInputs(graph, options);
  if (failed(inputs))
    return failure();
  OpBuilder moduleBuilder = OpBuilder::atBlockEnd(module.getBody());
  std::string name = "main";
  while (module.lookupSymbol(name)) // the graph's own name is free at the end
    name += "_nn";
  SmallVector<Type> types(inputs->types.begin(), inputs->types.end());
  main = func::FuncOp::create(moduleBuilder, graph.getLoc(), name,
                              moduleBuilder.getFunctionType(types, {}));
  Block *body = main.addEntryBlock();
  builder =
      std::make_unique<TensorBuilder>(module, OpBuilder::atBlockEnd(body));
  builder->fixedBatch = wholeBatch ? 0 : inputs->fixedBatch;
  builder->wholeBatch = wholeBatch;
  random = std::make_unique<RandomSource>(main);
  builder->random = random.get();
  builder->evaluationOnly = options.forward;
  // A training graph says itself what its gradient is.
  if (!training)
    builder->findPadding = [this](FlatSymbolRefAttr table) {
      return roles.lookup(table).role == nn::Role::parameter
                 ? padding.find(initializers.lookup(table.getValue()), files)
                 : std::nullopt;
    };
  BatchNormRules &batchNorm = builder->batchNormRules;
  batchNorm.train = options.batchNorm == "train";
  batchNorm.unbiased = options.runningVariance.empty()
                           ? !training
                           : options.runningVariance == "torch";
  batchNorm.updated = training ? &rules.updated : nullptr;
  if (inputs->fixedBatch)
    module->setAttr("nn.fixed_batch",
                    moduleBuilder.getI64IntegerAttr(inputs->fixedBatch));
  converter = std::make_unique<GraphConverter>(*builder);
  for (auto [index, argument] :
       llvm::enumerate(graph.getBody().getArguments())) {
    main.setArgAttr(index, nn::kNameAttr,
                    moduleBuilder.getStringAttr(graph.getArgumentName(index)));
    Type element = cast<RankedTensorType>(argument.getType()).getElementType();
    converter->bind(argument, bindInput(body->getArgument(index), element));
  }
  return success();
}

/// An argument of main; all samples of a microbatch as one value where they
/// cannot be told apart.
Tensor Normalizer::bindInput(Value argument, Type elementType) {
  Tensor input = builder->fromValue(argument, elementType);
  if (!wholeBatch || input.batchAxis() < 0)
    return input;
  auto type = cast<RankedTensorType>(argument.getType());
  Value whole =
      nn::ReshapeOp::create(builder->getBuilder(), argument.getLoc(),
                            nn::instantiate(type, wholeBatch), argument);
  return builder->fromValue(whole, elementType);
}

Tensor Normalizer::bindInitializer(GraphConverter &target,
                                   onnx::InitialValueOp op) {
  onnx::InitializerOp initializer = initializers.lookup(op.getInitializer());
  const RoleDecision &decision = roles[op.getInitializerAttr()];
  RankedTensorType type = initializer.getTensorType();
  Tensor tensor;
  if (decision.isKnown) {
    FailureOr<ArrayRef<char>> bytes =
        onnx::getInitializerBytes(initializer, files);
    if (failed(bytes))
      return Tensor();
    tensor = knownFromBytes(*builder, type, *bytes);
  } else {
    tensor = builder->fromVariable(op.getInitializerAttr(), type,
                                   type.getElementType());
  }
  target.bind(op.getResult(), tensor);
  return tensor;
}

//===----------------------------------------------------------------------===//
// The forward part
//===----------------------------------------------------------------------===//

LogicalResult Normalizer::convertForward() {
  Block &block = graph.getBody().front();
  auto returned = cast<onnx::ReturnOp>(block.getTerminator());
  // What depends on the gradient or updates state is not forward.
  llvm::StringSet<> bound;
  if (training)
    for (const onnx::Binding &binding : onnx::getBindings(training.getUpdate()))
      bound.insert(binding.result);
  SmallVector<Value> roots;
  SmallVector<unsigned> kept;
  if (training)
    roots.push_back(gradient.getY());
  for (auto [index, value] : llvm::enumerate(returned.getOperands()))
    if (!bound.contains(graph.getResultName(index))) {
      roots.push_back(value);
      kept.push_back(index);
    }
  SmallVector<Operation *> ops = getLiveOps(block, roots);
  if (failed(GraphConverter::checkSupported(ops)) ||
      failed(checkBatchNorms(ops)))
    return failure();
  for (Operation *op : ops) {
    if (auto read = dyn_cast<onnx::InitialValueOp>(op)) {
      builder->startNode(op->getLoc());
      if (!bindInitializer(*converter, read))
        return read.emitError("initializer ")
               << read.getInitializerAttr() << ": " << builder->takeError();
    } else if (auto node = dyn_cast<onnx::NodeOp>(op)) {
      converter->convert(node);
    } else if (isa<onnx::GradientOp>(op)) {
      return op->emitError("an output depends on a gradient: only updates may");
    }
  }
  if (converter->hasFailed())
    return failure();
  for (unsigned index : kept) {
    Value value = returned.getOperand(index);
    if (!converter->get(value))
      return graph.emitError("output '" + graph.getResultName(index) +
                             "' must be a tensor");
    if (!training || value != gradient.getY())
      outputs.push_back({graph.getResultName(index).str(),
                         converter->get(value), value.getLoc()});
  }
  if (training) {
    loss = converter->get(gradient.getY());
    lossLocation = gradient.getY().getLoc();
  }
  return success();
}

/// Refuses a model to be trained whose every BatchNormalization has constant
/// statistics, unless that is meant: exporters write this form unasked.
LogicalResult Normalizer::checkBatchNorms(ArrayRef<Operation *> ops) {
  if (options.forward || training || !options.batchNorm.empty())
    return success();
  SmallVector<onnx::NodeOp> nodes;
  for (Operation *op : ops)
    if (auto node = dyn_cast<onnx::NodeOp>(op); node && isBatchNorm(node))
      nodes.push_back(node);
  if (nodes.empty() || llvm::any_of(nodes, isTrainingBatchNorm))
    return success();
  InFlightDiagnostic error =
      graph.emitError("every BatchNormalization has the inference form, whose "
                      "running statistics are constants: ");
  llvm::interleaveComma(nodes, error, [&](onnx::NodeOp node) {
    error << "'" << node.getNodeName() << "'";
  });
  return error
         << ". torch.onnx.export(dynamo=True) writes it for a model in "
            "training mode too. To normalise by the batch, switch them by "
            "--batch-norm train, or export with dynamo=False, "
            "training=torch.onnx.TrainingMode.TRAINING, opset_version=17, or "
            "with a custom_translation_table that sets training_mode=1; to "
            "train with the statistics frozen, say --batch-norm as-exported";
}

//===----------------------------------------------------------------------===//
// Outputs
//===----------------------------------------------------------------------===//

LogicalResult Normalizer::emitOutputs() {
  SmallVector<Value> values;
  SmallVector<std::string> names;
  bool ok = true;
  for (const Output &output : outputs) {
    if (output.tensor.isBatchSum()) {
      emitRemark(output.location, "output '" + output.name +
                                      "' is a sum over the samples of the "
                                      "minibatch other than the loss: dropped");
      continue;
    }
    builder->startNode(output.location);
    Value value = builder->materialize(output.tensor);
    if (!value) {
      std::string error = builder->takeError();
      if (output.tensor.isKnown()) {
        emitRemark(output.location,
                   "output '" + output.name + "' is dropped: " + error);
        continue;
      }
      emitError(output.location, "output '" + output.name + "': " + error);
      ok = false;
      continue;
    }
    if (wholeBatch && output.tensor.rank() > 0 &&
        output.tensor.shape()[0].size % wholeBatch == 0) {
      auto type = cast<RankedTensorType>(value.getType());
      value = nn::ReshapeOp::create(
          builder->getBuilder(), output.location,
          nn::getBatchType(type.getShape(), type.getElementType(), 0,
                           type.getDimSize(0) / wholeBatch),
          value);
    }
    values.push_back(value);
    names.push_back(output.name);
  }
  if (!ok)
    return failure();
  func::ReturnOp::create(builder->getBuilder(), main.getLoc(), values);
  main.setFunctionType(FunctionType::get(context, main.getArgumentTypes(),
                                         ValueRange(values).getTypes()));
  for (auto [index, name] : llvm::enumerate(names))
    main.setResultAttr(index, nn::kNameAttr, StringAttr::get(context, name));
  return success();
}

//===----------------------------------------------------------------------===//
// Finishing
//===----------------------------------------------------------------------===//

void harmony::normalize::eraseDeadOps(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isOpTriviallyDead(&op))
      op.erase();
}

static Attribute getInitialValue(onnx::InitializerOp initializer,
                                 ModuleOp module) {
  auto external = dyn_cast<onnx::ExternalAttr>(initializer.getValue());
  RankedTensorType type = initializer.getTensorType();
  if (!external) {
    auto elements = dyn_cast<ElementsAttr>(initializer.getValue());
    auto integer = dyn_cast<IntegerType>(type.getElementType());
    if (auto dense = dyn_cast_or_null<DenseElementsAttr>(elements);
        dense && integer && !integer.isSignless())
      return dense.bitcast(
          IntegerType::get(type.getContext(), integer.getWidth()));
    return elements;
  }
  auto source = module->getAttrOfType<StringAttr>("onnx.source");
  StringRef model = source ? source.getValue() : StringRef();
  size_t folder = model.rfind('/');
  std::string path =
      (folder == StringRef::npos ? StringRef() : model.take_front(folder + 1))
          .str();
  return nn::FileAttr::get(type.getContext(), path + external.getFile().str(),
                           external.getOffset(), external.getLength());
}

LogicalResult Normalizer::createVariables() {
  Block &body = main.getBody().front();
  llvm::DenseSet<Attribute> read;
  for (auto get : body.getOps<nn::GetOp>())
    read.insert(get.getVariableAttr());
  for (auto assign : body.getOps<nn::AssignOp>())
    read.insert(assign.getVariableAttr());
  GradientPaths paths = findGradientPaths(body);
  SmallVector<std::string> unreached;
  for (Attribute symbol : rules.differentiated)
    if (!paths.trained.contains(symbol))
      unreached.push_back(
          initializers[cast<FlatSymbolRefAttr>(symbol).getValue()]
              .getOnnxName()
              .str());
  if (!unreached.empty())
    return gradient.emitError("differentiates by tensors that the loss has no "
                              "gradient by: ")
           << listNames(unreached)
           << "; take them out of xs and out of the update";
  // Constants that nothing reads any more.
  for (auto variable :
       llvm::make_early_inc_range(module.getOps<nn::VariableOp>()))
    if (variable.getRole() == nn::Role::constant &&
        !read.contains(SymbolRefAttr::get(variable.getSymNameAttr())))
      variable.erase();

  SmallVector<DecidedInitializer> created;
  SmallVector<std::string> dropped, apart;
  llvm::MapVector<Operation *, SmallVector<std::string>> cut;
  for (auto initializer : module.getOps<onnx::InitializerOp>()) {
    auto symbol = SymbolRefAttr::get(initializer.getSymNameAttr());
    RoleDecision decision = roles[symbol];
    bool isUsed = read.contains(symbol) || usedByUpdates.contains(symbol);
    if (decision.role == nn::Role::parameter &&
        !paths.trained.contains(symbol) && !usedByUpdates.contains(symbol)) {
      std::string parameter = initializer.getOnnxName().str();
      if (Operation *cause = paths.cut.lookup(symbol))
        cut[cause].push_back(parameter);
      else
        (isUsed ? apart : dropped).push_back(parameter);
      decision =
          RoleDecision{nn::Role::frozen, "it does not reach the loss", false};
    }
    if (isUsed && !decision.isKnown)
      created.push_back({initializer, decision});
  }
  for (auto &[cause, names] : cut)
    cause->emitWarning("no gradient passes this node, and parameters reach the "
                       "loss by it alone: ")
        << listNames(names) << "; they are not trained";
  if (!apart.empty())
    emitWarning(module.getLoc())
        << "parameters that do not reach the loss are not trained: "
        << listNames(apart);
  if (!dropped.empty())
    emitWarning(module.getLoc())
        << "parameters that do not reach the loss are dropped: "
        << listNames(dropped);
  warnOfCopies(module, created, files);
  OpBuilder moduleBuilder = OpBuilder::atBlockBegin(module.getBody());
  for (auto &[initializer, decision] : created) {
    RankedTensorType type = initializer.getTensorType();
    if (auto integer = dyn_cast<IntegerType>(type.getElementType());
        integer && !integer.isSignless())
      type = RankedTensorType::get(
          type.getShape(), IntegerType::get(context, integer.getWidth()));
    auto variable = nn::VariableOp::create(
        moduleBuilder, initializer.getLoc(), initializer.getSymName(), type,
        decision.role, getInitialValue(initializer, module));
    variable->setAttr("nn.reason",
                      moduleBuilder.getStringAttr(decision.reason));
    if (initializer.getOnnxName() != initializer.getSymName())
      variable->setAttr("source_name",
                        moduleBuilder.getStringAttr(initializer.getOnnxName()));
  }
  return success();
}

/// Says on the module which nodes combine samples.
void Normalizer::noteUnsplittable() {
  if (builder->unsplittable.empty())
    return;
  SmallVector<StringRef> reasons(builder->unsplittable.begin(),
                                 builder->unsplittable.end());
  module->setAttr(nn::kUnsplittableAttr,
                  Builder(context).getStrArrayAttr(reasons));
}

/// Notes on integer inputs what values the loader has to check for.
void Normalizer::annotateIndices() {
  struct Range {
    int64_t low = std::numeric_limits<int64_t>::min(),
            high = std::numeric_limits<int64_t>::max(), highOfParts = 0,
            leastOfParts = std::numeric_limits<int64_t>::max();
    std::optional<int64_t> ignored;
    bool isUsed = false, everyUseIgnores = true;
  };
  llvm::MapVector<BlockArgument, Range> ranges; // warnings keep the order
  auto isPart = [](Value indices) {
    for (; Operation *op = indices.getDefiningOp(); indices = op->getOperand(0))
      if (isa<nn::SliceOp>(op))
        return true;
    return false;
  };
  auto note = [&](Value indices, int64_t high, std::optional<int64_t> ignored) {
    BlockArgument argument = getInput(indices);
    if (!argument)
      return;
    Range &range = ranges[argument];
    range.low = std::max<int64_t>(range.low, 0);
    // Columns of one input may index tables of different size: the largest is
    // the limit of all, and gathers clamp what is beyond their own.
    if (isPart(indices)) {
      range.highOfParts = std::max(range.highOfParts, high);
      range.leastOfParts = std::min(range.leastOfParts, high);
    } else {
      range.high = std::min(range.high, high);
    }
    range.everyUseIgnores &=
        ignored && (!range.isUsed || range.ignored == ignored);
    range.ignored = ignored;
    range.isUsed = true;
  };
  for (Operation &op : main.getBody().front()) {
    if (auto gather = dyn_cast<nn::GatherOp>(op))
      note(gather.getIndices(),
           cast<RankedTensorType>(gather.getOperand().getType())
               .getDimSize(gather.getAxis()),
           std::nullopt);
    if (auto entropy = dyn_cast<nn::CrossEntropyOp>(op))
      note(entropy.getLabels(),
           cast<RankedTensorType>(entropy.getLogits().getType())
               .getShape()
               .back(),
           entropy.getIgnoreIndex()
               ? std::optional<int64_t>(*entropy.getIgnoreIndex())
               : std::nullopt);
  }
  Builder attributes(context);
  for (auto &[argument, range] : ranges) {
    if (range.highOfParts)
      range.high = std::min(range.high, range.highOfParts);
    if (range.leastOfParts < range.highOfParts)
      emitWarning(main.getLoc())
          << "columns of input "
          << main.getArgAttr(argument.getArgNumber(), nn::kNameAttr)
          << " index tables of " << range.leastOfParts << " to "
          << range.highOfParts << " rows: values are checked against "
          << range.highOfParts
          << ", and what is beyond a smaller table reads its last row";
    main.setArgAttr(argument.getArgNumber(), "nn.index_range",
                    attributes.getI64ArrayAttr({range.low, range.high}));
    if (range.everyUseIgnores)
      main.setArgAttr(argument.getArgNumber(), "nn.ignored",
                      attributes.getI64IntegerAttr(*range.ignored));
  }
}
