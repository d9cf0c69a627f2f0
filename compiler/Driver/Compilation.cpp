//===- Compilation.cpp - The stages of one compilation --------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Driver/Compilation.h"

#include "compiler/Driver/Executable.h"
#include "compiler/Driver/NumericsKey.h"
#include "compiler/Driver/OutputFiles.h"
#include "compiler/Import/Import.h"
#include "compiler/Target/Program/EmitProgram.h"
#include "dialects/Harmony/Harmony.h"
#include "dialects/NN/NN.h"
#include "passes/Codegen/Passes.h"
#include "passes/Layers/Passes.h"
#include "passes/Memory/Memory.h"
#include "passes/Schedule/Schedule.h"
#include "passes/Tasks/BuildModel.h"
#include "passes/Tasks/FormConvolutions.h"
#include "passes/Tasks/TaskDigest.h"
#include "passes/Tasks/View.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/Path.h"

#include <set>
#include <sys/resource.h>

using namespace mlir;
using namespace harmony;

Compilation::Compilation(const CompilerOptions &options, MLIRContext &context)
    : options(options), context(context), training(!options.forward) {}

int Compilation::error(const std::string &message, int exitCode) const {
  llvm::errs() << "harmonyc: error: " << message << '\n';
  return exitCode;
}

//===----------------------------------------------------------------------===//
// Stages
//===----------------------------------------------------------------------===//

/// Seconds of processor time of this process, its system calls included.
static double processorSeconds() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  auto seconds = [](const timeval &time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * time.tv_usec;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

int Compilation::run(const std::string &name, llvm::function_ref<int()> stage) {
  auto begin = std::chrono::steady_clock::now();
  double processor = processorSeconds();
  int exitCode = stage();
  std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;
  times.push_back({name, wall.count(), processorSeconds() - processor});
  if (exitCode == kDone && !options.dumpStages.empty()) {
    llvm::SmallString<128> path(options.dumpStages);
    std::error_code failure = llvm::sys::fs::create_directories(path);
    llvm::sys::path::append(path,
                            std::to_string(++stages) + "-" + name + ".mlir");
    if (!failure) {
      llvm::raw_fd_ostream file(path, failure);
      module->print(file);
      file << '\n';
    }
    if (failure)
      return error(std::string(path) + ": " + failure.message());
  }
  return exitCode;
}

void Compilation::printTimes() const {
  for (const StageTime &time : times)
    llvm::errs() << llvm::format("%10.3f s %10.3f s of the processor  ",
                                 time.wall, time.processor)
                 << time.stage << '\n';
}

int Compilation::runPasses(llvm::function_ref<void(OpPassManager &)> build) {
  PassManager passes(&context);
  build(passes);
  return succeeded(passes.run(*module)) ? kDone : kRefused;
}

int Compilation::import() {
  FailureOr<HostTarget> chosen =
      options.target == "host"
          ? HostTarget::detect()
          : HostTarget::parse(StringRef(options.target).drop_front(5));
  if (failed(chosen))
    return error(
        "this processor has no AVX2, which is the least that is supported");
  target = *chosen;
  module = importModel(options.model, context);
  if (!module)
    return kRefused;
  std::string message =
      checkOutputsApart(options, externalFiles(*module, options.model));
  return message.empty() ? kDone : error(message);
}

PipelineOptions harmony::getPipelineOptions(const CompilerOptions &options) {
  PipelineOptions pipeline;
  pipeline.normalize.dims = options.dims;
  pipeline.normalize.loss = options.loss;
  pipeline.normalize.lossOutput = options.lossOutput;
  pipeline.normalize.trainable = options.trainable;
  pipeline.normalize.freeze = options.freeze;
  pipeline.normalize.padding = options.padding;
  pipeline.normalize.forward = options.forward;
  pipeline.normalize.samples = options.allowBatchMixing && options.microbatch
                                   ? *options.microbatch
                                   : options.batch.value_or(0);
  pipeline.normalize.batchNorm = options.batchNorm;
  pipeline.normalize.runningVariance = options.runningVariance;
  if (!options.optimizer.empty())
    pipeline.optimizer = options.optimizer;
  pipeline.clipGradientNorm = options.clipGradNorm;
  return pipeline;
}

int Compilation::normalize() {
  PipelineOptions pipeline = getPipelineOptions(options);
  if (int exitCode = runPasses([&](OpPassManager &passes) {
        buildNormalizeStage(passes, pipeline);
      }))
    return exitCode;
  // The graph's own optimizer has no scalar that the runtime writes.
  ownOptimizer = llvm::none_of(
      module->getOps<nn::VariableOp>(), [](nn::VariableOp variable) {
        return variable.getRole() == nn::Role::scalar &&
               variable->hasAttr("nn.scalar_kind");
      });
  if (training && ownOptimizer && !options.optimizer.empty())
    return error("--optimizer " + options.optimizer +
                 ": the model brings its own optimizer");
  auto main = module->lookupSymbol<func::FuncOp>(kMainName);
  if (!training && main.getNumResults() == 0)
    return error("--forward: the model has no output besides the loss");
  for (BlockArgument argument : main.getArguments())
    if (argument.use_empty())
      llvm::errs() << "harmonyc: warning: input '"
                   << main.getArgAttrOfType<StringAttr>(argument.getArgNumber(),
                                                        nn::kNameAttr)
                          .getValue()
                   << "' is read by nothing that "
                   << (training ? "the loss" : "an output")
                   << " depends on; an exporter makes one input of a tensor "
                      "that is passed twice\n";
  return findBatch();
}

int Compilation::findBatch() {
  auto fixed = (*module)->getAttrOfType<IntegerAttr>("nn.fixed_batch");
  if (fixed && options.batch && fixed.getInt() != *options.batch)
    return error(
        "--batch " + std::to_string(*options.batch) +
        ": the model is exported for " + std::to_string(fixed.getInt()) +
        " samples; export it with a dynamic first axis to change that");
  if (!fixed && !options.batch)
    return error(
        "--batch is needed: the model leaves the number of samples open",
        kUsage);
  batch = fixed ? fixed.getInt() : *options.batch;
  if (options.microbatch && *options.microbatch > batch)
    return error("--microbatch " + std::to_string(*options.microbatch) +
                     " is more than the batch of " + std::to_string(batch),
                 kUsage);
  auto whole = (*module)->getAttrOfType<IntegerAttr>(nn::kWholeBatchAttr);
  if (whole && batch % whole.getInt() != 0)
    return error("--microbatch " + std::to_string(whole.getInt()) +
                     " does not divide the batch of " + std::to_string(batch) +
                     ", which it must where samples are combined",
                 kUsage);
  return kDone;
}

/// Refuses flags that split the batch of a training step that combines samples
/// on so many devices.
int Compilation::checkSplitting(size_t devices) const {
  auto nodes = (*module)->getAttrOfType<ArrayAttr>(nn::kUnsplittableAttr);
  if (!training || !nodes || options.allowBatchMixing)
    return kDone;
  std::string flag;
  if (options.microbatch && *options.microbatch < batch)
    flag = "--microbatch " + std::to_string(*options.microbatch);
  else if (devices > 1 &&
           (options.schedule == "harmony-dp" || options.schedule == "dp-swap"))
    flag = "--schedule " + options.schedule;
  if (flag.empty())
    return kDone;
  std::string message = flag + ": the batch of " + std::to_string(batch) +
                        " samples cannot be split, since";
  for (auto node : nodes.getAsRange<StringAttr>())
    message += "\n  " + node.str();
  return error(message +
               "\nwith --allow-batch-mixing each microbatch does that "
               "by its own samples, which changes the results");
}

int Compilation::layers() { return runPasses(buildLayersStage); }

int Compilation::differentiate() { return runPasses(buildDifferentiateStage); }

int Compilation::planOne(Model &model, PlanOutcome &outcome, bool forTraining,
                         const planner::Machine &machine,
                         const planner::Plan *given,
                         const CompilerOptions &flags) {
  int devices = static_cast<int>(machine.devices.size());
  CompilerOptions wanted = given ? flags : pinnedOptions(flags, pins, devices);
  if (given) // for messages
    wanted.planIn =
        options.planIn.empty() ? options.keepNumerics : options.planIn;
  // A group's share of the batch can be smaller than --microbatch; an
  // evaluation of more at once could need more memory than the training step.
  if (training && !forTraining && wanted.microbatch) {
    int64_t largest = 1;
    for (const planner::Phase &phase : trainingPlan.planned.plan.phases)
      largest = std::max(largest, phase.microbatch);
    wanted.microbatch = std::min(*wanted.microbatch, largest);
  }
  ModelOptions build(*costs);
  build.training = forTraining;
  build.batch = batch;
  build.mostGroups = devices;
  if (given) {
    std::set<int64_t> sizes;
    for (const planner::Phase &phase : given->phases)
      sizes.insert(std::clamp<int64_t>(phase.microbatch, 1, batch));
    build.microbatches.assign(sizes.begin(), sizes.end());
  } else {
    build.microbatches = planner::candidateMicrobatches(
        batch, devices, searchOptions(wanted, forTraining));
  }
  // Statistics of batches are not taken in evaluation; other models combine
  // samples there too.
  auto whole = (*module)->getAttrOfType<IntegerAttr>(nn::kWholeBatchAttr);
  bool combines =
      (forTraining || whole) && (*module)->hasAttr(nn::kUnsplittableAttr);
  build.splittable = !combines || options.allowBatchMixing;
  build.mixing = combines && options.allowBatchMixing;
  if (!given && whole)
    build.microbatches = {whole.getInt()};
  else if (!given && !build.splittable)
    build.microbatches = {batch};
  (*module)->setAttr(kLanesAttr,
                     Builder(&context).getI64IntegerAttr(target.getLanes()));
  FailureOr<Model> built = buildModel(*module, *kernels, build);
  if (failed(built))
    return kRefused;
  model = std::move(*built);
  outcome = planProblem(model.problem, machine, wanted, given);
  if (outcome.exitCode)
    return outcome.exitCode;
  int groups = outcome.planned.plan.groups;
  if (forTraining && groups > 1 &&
      failed(lowerUpdatesForGroups(*module, *kernels, model, groups)))
    return kRefused;
  return kDone;
}

/// Parameters, as many bytes of gradients, and the optimizer's state.
static int64_t trainingStateBytes(ModuleOp module) {
  int64_t sum = 0;
  for (auto variable : module.getOps<nn::VariableOp>()) {
    int64_t bytes = tensorBytes(cast<RankedTensorType>(variable.getType()));
    if (variable.getRole() == nn::Role::parameter)
      sum += 2 * bytes;
    else if (variable.getRole() == nn::Role::optimizer ||
             variable.getRole() == nn::Role::state)
      sum += bytes;
  }
  return sum;
}

int Compilation::plan() {
  std::string message;
  std::optional<planner::Plan> given;
  if (!options.planIn.empty()) {
    given = readPlan(options.planIn, message);
    if (!given)
      return error(message);
    if (!training)
      return error("--plan-in " + options.planIn +
                   ": takes the plan of a training step, and --forward has "
                   "none");
  }
  const planner::Plan *givenPlan = given ? &*given : nullptr;
  planner::Machine machine =
      loadMachine(options, trainingStateBytes(*module), givenPlan, message);
  if (!message.empty())
    return error(message);
  if (int exitCode = checkSplitting(machine.devices.size()))
    return exitCode;
  if (int exitCode = takeMeasurements(machine))
    return exitCode;
  if (!options.keepNumerics.empty()) {
    pins = pinsOf(readNumericsKey(options.keepNumerics, message));
    if (!message.empty())
      return error(message);
    if (pins.batch != batch)
      return error("--keep-numerics " + options.keepNumerics + ": key " +
                   pins.key + " is of a batch of " +
                   std::to_string(pins.batch) + ", this is one of " +
                   std::to_string(batch));
  }
  if (int exitCode = planBoth(machine, givenPlan))
    return exitCode;
  if (!pins.key.empty() && pins.key != numericsKey)
    if (int exitCode = takeKeptPlan(machine))
      return exitCode;
  warnOfIdleDevices(getPlan().plan, getProblem(),
                    static_cast<int>(getMachine().devices.size()));
  if (int exitCode = reportNumerics())
    return exitCode;
  if (options.explain) {
    // Sizes that cannot be pinned would change, and with them the bits.
    bool comparable =
        options.planIn.empty() && (pins.key.empty() || pins.microbatch);
    explanation = explainPlanned(
        getPlan(), getProblem(), getMachine(),
        pinnedOptions(options, pins, static_cast<int>(machine.devices.size())),
        comparable,
        [&](const planner::Machine &wider, const CompilerOptions &others) {
          return planOn(wider, others);
        });
  }
  return kDone;
}

/// Tasks that are there already are not lowered, and then have no costs.
static void eraseTasks(ModuleOp module) {
  for (auto task :
       llvm::make_early_inc_range(module.getOps<schedule::TaskOp>()))
    task.erase();
}

int Compilation::planBoth(const planner::Machine &machine,
                          const planner::Plan *given) {
  eraseTasks(*module);
  kernels = ModuleOp::create(UnknownLoc::get(&context));
  costs = std::make_unique<CostModel>(costMachine,
                                      measurements ? &*measurements : nullptr);
  if (training)
    if (int exitCode = planOne(trainingModel, trainingPlan,
                               /*forTraining=*/true, machine, given, options))
      return exitCode == kRefused && trainingPlan.message.empty()
                 ? exitCode
                 : error(trainingPlan.message, exitCode);
  if (int exitCode = planOne(evaluationModel, evaluationPlan,
                             /*forTraining=*/false, machine, nullptr, options))
    return exitCode == kRefused && evaluationPlan.message.empty()
               ? exitCode
               : error("evaluation: " + evaluationPlan.message, exitCode);
  numericsKey =
      makeNumericsKey(*module, training ? trainingModel : evaluationModel,
                      getPlan().plan, target.getName());
  if (isMixed())
    numericsKey += "-mixed";
  return kDone;
}

int Compilation::takeKeptPlan(const planner::Machine &machine) {
  std::string message;
  std::optional<planner::Plan> kept = readPlan(options.keepNumerics, message);
  if (!kept || !training)
    return kDone; // an executable, a profile or a key: reportNumerics() tells
  llvm::errs() << "harmonyc: note: no plan that was found has the numerics key "
               << pins.key << "; the best has " << numericsKey << ": the plan "
               << options.keepNumerics << " itself is taken\n";
  return planBoth(machine, &*kept);
}

int Compilation::takeMeasurements(planner::Machine &machine) {
  std::string message;
  if (!options.profile.empty()) {
    measurements = readMeasurements(options.profile, message);
    if (!measurements)
      return error(message);
    std::string why = whyStale(*measurements, target.getName().str(), machine,
                               options.machine.empty(), message);
    if (!message.empty())
      return error(message);
    if (!why.empty()) {
      llvm::errs() << "harmonyc: warning: " << options.profile << ": " << why
                   << ": all " << measurements->tasks.size()
                   << " measured tasks are stale, and not used\n";
      measurements.reset();
    } else {
      planner::setMeasuredLinks(machine, *measurements);
    }
  }
  costMachine = machine;
  return kDone;
}

int Compilation::reportNumerics() const {
  std::string text = costs->report();
  for (size_t at = 0; at < text.size();) {
    size_t end = text.find('\n', at);
    llvm::errs() << "harmonyc: note: " << StringRef(text).slice(at, end)
                 << '\n';
    at = end + 1;
  }
  int devices = static_cast<int>(costMachine.devices.size());
  if (!pins.key.empty() && pins.key != numericsKey)
    return error("--keep-numerics " + options.keepNumerics +
                 ": no plan that was found has the numerics key " + pins.key +
                 "; the best has " + numericsKey +
                 (pins.groups > devices
                      ? "; the key is of " + std::to_string(pins.groups) +
                            " groups of devices, and this is a machine of " +
                            std::to_string(devices) + " (--devices)"
                      : "") +
                 (pins.microbatch
                      ? ""
                      : "; the key is of microbatches of several sizes, which "
                        "cannot be pinned: give the plan that has it "
                        "(--plan-out of the command that made it), or make "
                        "one of one size (--microbatch), whose key can be "
                        "kept"));
  if (pins.key.empty() && measurements && training &&
      measurements->numericsKey != numericsKey)
    llvm::errs() << "harmonyc: note: numerics key " << numericsKey
                 << ", that of the executable which measured is "
                 << measurements->numericsKey
                 << "; --keep-numerics would keep it\n";
  return kDone;
}

PlanOutcome Compilation::planOn(planner::Machine machine,
                                const CompilerOptions &flags) {
  if (measurements)
    planner::setMeasuredLinks(machine, *measurements);
  auto rates = std::make_unique<CostModel>(
      machine, measurements ? &*measurements : nullptr);
  std::swap(costs, rates);
  OwningOpRef<ModuleOp> copy = cast<ModuleOp>((*module)->clone());
  eraseTasks(*copy);
  OwningOpRef<ModuleOp> scratch = ModuleOp::create(UnknownLoc::get(&context));
  std::swap(module, copy);
  std::swap(kernels, scratch);
  Model model;
  PlanOutcome outcome;
  outcome.exitCode = planOne(model, outcome, training, machine, nullptr, flags);
  std::swap(module, copy);
  std::swap(kernels, scratch);
  std::swap(costs, rates);
  return outcome;
}

bool Compilation::isMixed() const {
  return training && trainingModel.problem.mixing &&
         llvm::any_of(getPlan().plan.phases, [&](const planner::Phase &phase) {
           return phase.microbatch < batch;
         });
}

int Compilation::schedule() {
  addDevices(*module, getMachine(),
             static_cast<int>(busyDevices(getPlan().plan).size()));
  if (training &&
      failed(schedulePlan(*module, trainingModel, trainingPlan.planned.plan,
                          schedule::ProgramKind::step)))
    return kInternalError;
  if (failed(schedulePlan(*module, evaluationModel, evaluationPlan.planned.plan,
                          schedule::ProgramKind::evaluate)))
    return kInternalError;
  removeUnusedTasks();
  return kDone;
}

void Compilation::removeUnusedTasks() {
  llvm::StringSet<> tasks, launched;
  module->walk([&](Operation *op) {
    if (auto run = dyn_cast<schedule::RunOp>(op))
      tasks.insert(run.getTask());
    if (auto update = dyn_cast<schedule::UpdateOp>(op))
      tasks.insert(update.getTask());
  });
  for (auto task :
       llvm::make_early_inc_range(module->getOps<schedule::TaskOp>())) {
    if (!tasks.contains(task.getSymName())) {
      task.erase();
      continue;
    }
    task.walk([&](schedule::LaunchOp launch) {
      launched.insert(launch.getKernel());
    });
  }
  // A kernel is a wrapper and its body.
  for (Operation &kernel : llvm::make_early_inc_range(*kernels->getBody())) {
    StringRef name = cast<SymbolOpInterface>(kernel).getName();
    name.consume_back(".body");
    if (!launched.contains(name))
      kernel.erase();
  }
}

int Compilation::memory() {
  const planner::Plan *step = training ? &trainingPlan.planned.plan : nullptr;
  if (failed(assignAddresses(*module, step, &evaluationPlan.planned.plan)) ||
      failed(verifyMemory(*module)))
    return kInternalError;
  return kDone;
}

int Compilation::codegen(SmallVectorImpl<char> &payload) {
  ProgramInfo info;
  // Traces and profiles, which are JSON, name it.
  info.model = llvm::json::fixUTF8(llvm::sys::path::filename(options.model));
  info.compiler = HARMONY_VERSION;
  info.numericsKey = numericsKey;
  info.fingerprint = fingerprint = makeFingerprint();
  info.planSummary = describePlan();
  info.diskPath = options.diskPath;
  info.diskMemory = diskMemory(options);
  info.isa =
      target.isa == HostTarget::Isa::Avx512 ? HM_ISA_AVX512 : HM_ISA_AVX2;
  info.optimizer = !training                     ? HM_OPTIMIZER_NONE
                   : ownOptimizer                ? HM_OPTIMIZER_GRAPH
                   : options.optimizer == "sgd"  ? HM_OPTIMIZER_SGD
                   : options.optimizer == "adam" ? HM_OPTIMIZER_ADAM
                                                 : HM_OPTIMIZER_ADAMW;
  FailureOr<EmittedProgram> program = emitProgram(*module, info);
  if (failed(program))
    return kInternalError;
  // Numbers have limits in the executable, which it would find out too late.
  if (std::string why = whyRefused(program->blob, program->kernels.size());
      !why.empty())
    return error("no executable can run this plan: " + why, kRefused);
  PassManager passes(&context);
  codegen::buildLowerHostKernels(passes);
  if (failed(passes.run(*kernels)))
    return kInternalError;
  Payload parts;
  parts.program = program->blob;
  parts.kernels.assign(program->kernels.begin(), program->kernels.end());
  auto object = compileToObject(*kernels, target, parts);
  if (failed(object))
    return kInternalError;
  std::string message;
  auto linked = linkSharedObject(*object, message);
  if (failed(linked))
    return error(message, kInternalError);
  payload.assign(linked->begin(), linked->end());
  return kDone;
}

int Compilation::write(ArrayRef<char> payload) {
  std::string message = writeExecutable(options.output, payload, *module,
                                        fingerprint, options.weightsFromModel);
  return message.empty() ? kDone : error(message);
}

//===----------------------------------------------------------------------===//
// Keys and text
//===----------------------------------------------------------------------===//

std::string Compilation::makeFingerprint() {
  std::string text;
  llvm::raw_string_ostream stream(text);
  for (auto variable : module->getOps<nn::VariableOp>())
    if (variable.getRole() <= nn::Role::state)
      stream << variable.getSymName() << ' ' << variable.getType() << ' '
             << static_cast<int>(variable.getRole()) << '\n';
  for (auto function : module->getOps<func::FuncOp>())
    if (function.getName() == kEvaluateName ||
        function->hasAttr(nn::kLayerAttr))
      function.print(stream, OpPrintingFlags().useLocalScope());
  return digest(text);
}

std::string Compilation::describePlan() const {
  return describePlanned(getPlan(), getProblem(), getMachine()) +
         (isMixed() ? "batch mixing: each microbatch combines its own samples "
                      "alone\n"
                    : "") +
         "numerics key: " + numericsKey + "\n";
}
