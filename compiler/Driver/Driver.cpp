//===- Driver.cpp - harmonyc's commands -----------------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Driver/Driver.h"

#include "compiler/Driver/Compilation.h"
#include "compiler/Driver/Inspect.h"
#include "compiler/Driver/OutputFiles.h"
#include "compiler/Driver/PlanArtifact.h"
#include "compiler/Driver/PlanProfile.h"
#include "compiler/Driver/PlanTrace.h"
#include "passes/Normalize/Passes.h"
#include "passes/Pipelines.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/InitLLVM.h"

#include <csignal>

using namespace mlir;
using namespace harmony;

namespace {

/// The name of the node that a location stands for, or "".
std::string nodeName(Location location) {
  return llvm::TypeSwitch<LocationAttr, std::string>(location)
      .Case([](NameLoc name) { return name.getName().str(); })
      .Case([](FusedLoc fused) {
        for (Location part : fused.getLocations())
          if (std::string name = nodeName(part); !name.empty())
            return name;
        return std::string();
      })
      .Case([](FileLineColLoc file) {
        return (file.getFilename().getValue() + ":" + Twine(file.getLine()) +
                ":" + Twine(file.getColumn()))
            .str();
      })
      .Default([](LocationAttr) { return std::string(); });
}

/// Prints diagnostics as `harmonyc: error: node 'x': message`, or with the
/// model's path where they concern all of it. Messages that name their place
/// themselves get no other.
LogicalResult printDiagnostic(Diagnostic &diagnostic, StringRef model) {
  static constexpr StringLiteral names[] = {"note", "warning", "error",
                                            "remark"};
  auto print = [&](Diagnostic &part) {
    std::string node = nodeName(part.getLocation()), message = part.str();
    llvm::errs() << "harmonyc: " << names[static_cast<int>(part.getSeverity())]
                 << ": ";
    if (node == model)
      llvm::errs() << model << ": ";
    else if (!node.empty() && !StringRef(message).starts_with("node '"))
      llvm::errs() << "node '" << node << "': ";
    llvm::errs() << message << '\n';
  };
  print(diagnostic);
  for (Diagnostic &note : diagnostic.getNotes())
    print(note);
  return success();
}

/// Runs the stages in order, up to --stop-after.
int runStages(Compilation &compilation, const CompilerOptions &options) {
  SmallVector<char> payload;
  std::pair<const char *, std::function<int()>> stages[] = {
      {"import", [&] { return compilation.import(); }},
      {"normalize", [&] { return compilation.normalize(); }},
      {"layers", [&] { return compilation.layers(); }},
      {"differentiate", [&] { return compilation.differentiate(); }},
      {"plan", [&] { return compilation.plan(); }},
      {"schedule", [&] { return compilation.schedule(); }},
      {"memory", [&] { return compilation.memory(); }},
      {"codegen", [&] { return compilation.codegen(payload); }},
      {"write", [&] { return compilation.write(payload); }},
  };
  for (auto &[name, stage] : stages) {
    if (int exitCode = compilation.run(name, stage))
      return exitCode;
    if (options.stopAfter == name) {
      compilation.getModule().print(llvm::outs());
      llvm::outs() << '\n';
      return kDone;
    }
    if (options.command == Command::Plan && StringRef(name) == "plan")
      return kDone;
  }
  return kDone;
}

int fail(const std::string &message, int exitCode = kRefused) {
  llvm::errs() << "harmonyc: error: " << message << '\n';
  return exitCode;
}

/// Prints a plan and writes what the flags ask for.
int writePlanned(const CompilerOptions &options,
                 const planner::Planned &planned,
                 const planner::Problem &problem,
                 const planner::Machine &machine,
                 const std::string &numericsKey) {
  std::string message;
  if (!options.planOut.empty())
    message = writePlan(options.planOut, planned, problem, numericsKey);
  if (message.empty() && !options.trace.empty())
    message = writeTrace(options.trace, planned.plan, problem, machine);
  if (message.empty() && !options.svg.empty())
    message =
        writePicture(options.svg, planned, problem, machine, options.model);
  return message.empty() ? kDone : fail(message);
}

/// A flag that is given and says what is computed, or shows how; else empty.
std::string flagOfModels(const CompilerOptions &options) {
  for (auto [flag, given] :
       {std::pair("--dim", !options.dims.empty()),
        {"--loss", !options.loss.empty()},
        {"--loss-output", !options.lossOutput.empty()},
        {"--trainable", !options.trainable.empty()},
        {"--freeze", !options.freeze.empty()},
        {"--padding", !options.padding.empty()},
        {"--batch-norm", !options.batchNorm.empty()},
        {"--bn-running-var", !options.runningVariance.empty()},
        {"--forward", options.forward},
        {"--optimizer", !options.optimizer.empty()},
        {"--clip-grad-norm", options.clipGradNorm},
        {"--allow-batch-mixing", options.allowBatchMixing},
        {"--dump-stages", !options.dumpStages.empty()},
        {"--stop-after", !options.stopAfter.empty()},
        {"--time-report", options.timeReport}})
    if (given)
      return flag;
  return "";
}

int estimateOfArtifact(const CompilerOptions &options) {
  if (std::string flag = flagOfModels(options); !flag.empty())
    return fail(flag + " is not accepted with --estimator artifact", kUsage);
  if (std::string message = checkOutputs(options); !message.empty())
    return fail(message);
  std::string error;
  ScheduleEstimate estimate = estimateSchedule(options, error);
  if (error.empty() && !options.planOut.empty())
    error = writeTextFile(options.planOut, estimate.document);
  if (!error.empty())
    return fail(error);
  llvm::outs() << estimate.text;
  return kDone;
}

int planOfProfile(const CompilerOptions &options) {
  if (std::string message = checkOutputs(options); !message.empty())
    return fail(message);
  for (auto [flag, value] : {std::pair("--profile", &options.profile),
                             {"--keep-numerics", &options.keepNumerics}})
    if (!value->empty())
      return fail(std::string(flag) + " is not accepted with " + options.model +
                      ", which is no model: its costs are given, and it has "
                      "no numerics key",
                  kUsage);
  if (std::string flag = flagOfModels(options); !flag.empty())
    return fail(flag + " is not accepted with " + options.model +
                    ", which is no model",
                kUsage);
  ProfilePlan plan = planProfile(options);
  if (plan.outcome.exitCode)
    return fail(plan.outcome.message, plan.outcome.exitCode);
  llvm::outs() << describePlanned(plan.outcome.planned, plan.problem,
                                  plan.outcome.machine);
  if (options.explain)
    llvm::outs() << explainPlanned(
        plan.outcome.planned, plan.problem, plan.outcome.machine, options,
        /*withOthers=*/options.planIn.empty(),
        [](const planner::Machine &wider, const CompilerOptions &others) {
          return planProfile(others, &wider).outcome;
        });
  return writePlanned(options, plan.outcome.planned, plan.problem,
                      plan.outcome.machine, /*numericsKey=*/"");
}

int compileOrPlan(const CompilerOptions &options, MLIRContext &context) {
  if (std::string message = checkOutputs(options); !message.empty())
    return fail(message);
  Compilation compilation(options, context);
  int exitCode = runStages(compilation, options);
  if (options.timeReport)
    compilation.printTimes();
  if (exitCode || !options.stopAfter.empty())
    return exitCode;
  if (options.command == Command::Plan)
    llvm::outs() << compilation.describePlan();
  llvm::outs() << compilation.getExplanation();
  return writePlanned(options, compilation.getPlan(), compilation.getProblem(),
                      compilation.getMachine(), compilation.getNumericsKey());
}

int listOperators() {
  for (const auto &[name, versions] : getConvertibleOperators()) {
    llvm::outs() << name << " since ";
    llvm::interleaveComma(versions, llvm::outs());
    llvm::outs() << '\n';
  }
  return kDone;
}

int measureMachine(const CompilerOptions &options) {
  FailureOr<HostTarget> chosen =
      options.target == "host"
          ? HostTarget::detect()
          : HostTarget::parse(StringRef(options.target).drop_front(5));
  if (failed(chosen))
    return fail("this processor has no AVX2, which is the least that is "
                "supported");
  return machineCommand(options, chosen->getName().str());
}

} // namespace

/// What the caller has us ignore (nohup, a shell's background) stays without
/// effect: LLVM's handlers would remove the files that are being written.
static void blockIgnoredSignals() {
  sigset_t ignored;
  sigemptyset(&ignored);
  for (int number : {SIGHUP, SIGINT}) {
    struct sigaction action;
    if (sigaction(number, nullptr, &action) == 0 &&
        action.sa_handler == SIG_IGN)
      sigaddset(&ignored, number);
  }
  sigprocmask(SIG_BLOCK, &ignored, nullptr);
}

int harmony::runDriver(int argc, char **argv) {
  blockIgnoredSignals();
  llvm::InitLLVM init(argc, argv);
  int exitCode = kDone;
  std::optional<CompilerOptions> options =
      parseCommandLine(argc, argv, exitCode);
  if (!options)
    return exitCode;
  if (options->command == Command::Ops)
    return listOperators();
  if (options->command == Command::Machine)
    return measureMachine(*options);
  if (options->command == Command::Plan && options->estimator == "artifact")
    return estimateOfArtifact(*options);
  if (options->command == Command::Plan && isProfile(options->model))
    return planOfProfile(*options);
  if (isProfile(options->model))
    return fail(whyNoModel(options->model));

  DialectRegistry registry;
  registerHarmonyDialects(registry);
  // One model's passes are too short to gain from threads.
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  // Users know nodes; the op is in --dump-stages.
  context.printOpOnDiagnostic(false);
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    return printDiagnostic(diagnostic, options->model);
  });
  return options->command == Command::Inspect
             ? inspectModel(*options, context)
             : compileOrPlan(*options, context);
}
