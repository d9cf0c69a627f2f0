//===- Inspect.cpp - What harmonyc makes of a model -----------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Driver/Inspect.h"

#include "compiler/Driver/Compilation.h"
#include "compiler/Import/Import.h"
#include "compiler/Planner/Text.h"
#include "dialects/NN/NN.h"
#include "dialects/ONNX/ONNX.h"
#include "passes/Layers/Passes.h"
#include "passes/Normalize/Fuse.h"
#include "passes/Tasks/BuildModel.h"
#include "passes/Tasks/FormConvolutions.h"
#include "passes/Tasks/View.h"

#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/FormatVariadic.h"

#include <map>

using namespace mlir;
using namespace harmony;

namespace {

/// `f32 [N, 12, 4*N]`: N is the number of samples.
std::string formatType(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << tensor.getElementType() << " [";
  nn::BatchAttr batch = nn::getBatch(type);
  for (int64_t axis = 0; axis < tensor.getRank(); ++axis) {
    stream << (axis ? ", " : "");
    if (batch && batch.getAxis() == axis)
      stream << (batch.getFactor() == 1
                     ? ""
                     : std::to_string(batch.getFactor()) + "*")
             << "N";
    else
      stream << tensor.getDimSize(axis);
  }
  stream << "]";
  return text;
}

void printOperators(ModuleOp module) {
  std::map<std::string, int> counts;
  module.walk([&](onnx::NodeOp node) { ++counts[node.getOpType().str()]; });
  llvm::outs() << "operators:";
  for (const auto &[name, count] : counts)
    llvm::outs() << ' ' << name << ' ' << count;
  llvm::outs() << "\n";
}

void printInterface(func::FuncOp main) {
  llvm::outs() << "inputs (N samples):\n";
  for (unsigned i = 0; i < main.getNumArguments(); ++i) {
    if (main.getArgAttr(i, nn::kSampleKeysAttr))
      continue; // made by the runtime
    llvm::outs() << llvm::formatv(
        "  {0}: {1}",
        main.getArgAttrOfType<StringAttr>(i, nn::kNameAttr).getValue(),
        formatType(main.getArgument(i).getType()));
    if (auto range = main.getArgAttrOfType<ArrayAttr>(i, "nn.index_range"))
      llvm::outs() << " values in [" << cast<IntegerAttr>(range[0]).getInt()
                   << ", " << cast<IntegerAttr>(range[1]).getInt() << ")";
    if (auto ignored = main.getArgAttrOfType<IntegerAttr>(i, "nn.ignored"))
      llvm::outs() << ", or " << ignored.getInt() << ": ignored";
    llvm::outs() << '\n';
  }
  llvm::outs() << (main.getNumResults() ? "outputs:\n"
                                        : "outputs: none beside the loss\n");
  for (unsigned i = 0; i < main.getNumResults(); ++i)
    llvm::outs() << llvm::formatv(
        "  {0}: {1}\n",
        main.getResultAttrOfType<StringAttr>(i, nn::kNameAttr).getValue(),
        formatType(main.getResultTypes()[i]));
  for (auto loss : main.getOps<nn::LossOp>()) {
    llvm::outs() << "loss: ";
    if (loss.getScale().convertToDouble() != 1)
      llvm::outs() << loss.getScale().convertToDouble() << " * ";
    llvm::outs() << "a sum over the minibatch, divided by "
                 << (loss.getDenominator()
                         ? std::string(
                               "what the inputs say (valid labels, weights)")
                     : loss.getConstant()
                         ? std::to_string(static_cast<int64_t>(
                               loss.getCount().convertToDouble()))
                         : std::to_string(static_cast<int64_t>(
                               loss.getCount().convertToDouble())) +
                               " * N")
                 << '\n';
  }
}

void printVariables(ModuleOp module, func::FuncOp main) {
  llvm::MapVector<StringRef, int> uses;
  main.walk([&](nn::GetOp get) {
    uses[get.getVariable()] += std::distance(get->use_begin(), get->use_end());
  });
  int64_t trained = 0, count = 0;
  for (auto variable : module.getOps<nn::VariableOp>()) {
    if (variable.getRole() == nn::Role::optimizer ||
        variable.getRole() == nn::Role::scalar)
      continue;
    auto reason = variable->getAttrOfType<StringAttr>("nn.reason");
    llvm::outs() << llvm::formatv(
        "  {0,-10} {1} {2}", nn::stringifyRole(variable.getRole()),
        variable.getSymName(), formatType(variable.getType()));
    if (uses.lookup(variable.getSymName()) > 1)
      llvm::outs() << ", " << uses.lookup(variable.getSymName()) << " uses";
    if (reason)
      llvm::outs() << " (" << reason.getValue() << ")";
    llvm::outs() << '\n';
    if (variable.getRole() == nn::Role::parameter) {
      trained += tensorBytes(cast<RankedTensorType>(variable.getType()));
      count += cast<RankedTensorType>(variable.getType()).getNumElements();
    }
  }
  llvm::outs() << llvm::formatv("trained: {0} parameters, {1}\n", count,
                                planner::bytesText(trained));
}

/// What exporters had taken apart: `nn.layer_norm from 9 nodes: a, b, ..`.
void printFusions(ModuleOp module) {
  auto fusions = module->getAttrOfType<ArrayAttr>(normalize::kFusionsAttr);
  if (!fusions)
    return;
  llvm::outs() << "put together:\n";
  for (auto fusion : fusions.getAsRange<DictionaryAttr>()) {
    auto nodes = fusion.getAs<ArrayAttr>("nodes");
    llvm::outs() << "  " << fusion.getAs<StringAttr>("op").getValue()
                 << " from " << nodes.size() << " nodes: ";
    llvm::interleaveComma(
        nodes.getAsRange<StringAttr>(), llvm::outs(),
        [](StringAttr name) { llvm::outs() << name.getValue(); });
    llvm::outs() << "\n";
  }
}

void printLayers(ModuleOp module) {
  auto main = module.lookupSymbol<func::FuncOp>(kMainName);
  if (!main)
    main = module.lookupSymbol<func::FuncOp>(kEvaluateName);
  llvm::outs() << "layers:\n";
  int index = 0;
  for (auto call : main.getOps<func::CallOp>())
    llvm::outs() << llvm::formatv(
        "  {0,3} {1} as @{2}\n", index++,
        call->getAttrOfType<StringAttr>(nn::kLayerNameAttr).getValue(),
        call.getCallee());
}

/// The microbatch at which a plan would decide what levels keep.
int64_t middleMicrobatch(ModuleOp module, const CompilerOptions &options) {
  if (auto whole = module->getAttrOfType<IntegerAttr>(nn::kWholeBatchAttr))
    return whole.getInt();
  int64_t batch = options.batch.value_or(1);
  if (auto fixed = module->getAttrOfType<IntegerAttr>("nn.fixed_batch"))
    batch = fixed.getInt();
  if (module->hasAttr(nn::kUnsplittableAttr))
    return batch;
  std::vector<int64_t> sizes =
      planner::candidateMicrobatches(batch, /*devices=*/1, {});
  return sizes[sizes.size() / 2];
}

/// Of every layer function, what a backward may find of what the forward has
/// saved, and what making the rest again takes.
LogicalResult printLevels(ModuleOp module, const CompilerOptions &options) {
  std::string message;
  planner::Machine machine = loadMachine(options, 0, nullptr, message);
  if (!message.empty())
    return module.emitError(message);
  // A processor that runs no kernels can still be told of their levels.
  FailureOr<HostTarget> found = HostTarget::detect();
  HostTarget target = succeeded(found) ? *found : HostTarget();
  module->setAttr(
      kLanesAttr,
      Builder(module.getContext()).getI64IntegerAttr(target.getLanes()));
  CostModel costs(machine, /*measurements=*/nullptr);
  ModelOptions build(costs);
  build.batch = middleMicrobatch(module, options);
  build.microbatches = {build.batch};
  OwningOpRef<ModuleOp> kernels = ModuleOp::create(module.getLoc());
  FailureOr<Model> model = buildModel(module, *kernels, build);
  if (failed(model))
    return failure();
  llvm::outs() << "levels of keeping, N = " << build.batch
               << " (bytes kept, seconds to make the rest again):\n";
  for (const planner::Function &function : model->problem.functions) {
    const planner::Cost &cost = function.costs.front();
    llvm::outs() << "  @" << function.name << ":";
    for (int level = 0; level <= cost.levels(); ++level)
      llvm::outs() << (level ? ", " : " ")
                   << planner::bytesText(cost.keptBytes(level)) << ' '
                   << planner::secondsText(cost.recomputeSeconds(level));
    llvm::outs() << '\n';
  }
  return success();
}

} // namespace

int harmony::inspectModel(const CompilerOptions &options,
                          MLIRContext &context) {
  OwningOpRef<ModuleOp> module = importModel(options.model, context);
  if (!module)
    return kRefused;
  llvm::outs() << options.model << "\n";
  printOperators(*module);
  PassManager normalize(&context);
  buildNormalizeStage(normalize, getPipelineOptions(options));
  if (failed(normalize.run(*module)))
    return kRefused;
  auto main = module->lookupSymbol<func::FuncOp>(kMainName);
  printInterface(main);
  printFusions(*module);
  llvm::outs() << "variables:\n";
  printVariables(*module, main);
  if (auto nodes = (*module)->getAttrOfType<ArrayAttr>("nn.unsplittable"))
    llvm::outs() << "cannot be split into microbatches: " << nodes << "\n";
  PassManager layers(&context);
  buildLayersStage(layers);
  if (failed(layers.run(*module)))
    return kRefused;
  printLayers(*module);
  // Says what has no gradient.
  PassManager differentiate(&context);
  if (!options.forward)
    buildDifferentiateStage(differentiate);
  if (failed(differentiate.run(*module)))
    return kRefused;
  if (!options.forward && failed(printLevels(*module, options)))
    return kRefused;
  return kDone;
}
