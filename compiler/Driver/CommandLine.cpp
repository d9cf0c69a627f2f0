//===- CommandLine.cpp - What the command line says -----------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Driver/Options.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <iostream>

using namespace harmony;

const std::vector<std::string> harmony::kStages = {
    "import", "normalize", "layers", "differentiate",
    "plan",   "schedule",  "memory", "codegen"};

int64_t harmony::diskMemory(const CompilerOptions &options) {
  const std::optional<MemorySize> &size =
      options.diskMemory ? options.diskMemory : options.hostMemory;
  return size && !options.diskPath.empty() ? size->bytes : 0;
}

std::optional<MemorySize> harmony::parseMemorySize(const std::string &text) {
  static const std::pair<const char *, double> units[] = {
      {"", 1},
      {"B", 1},
      {"kB", 1e3},
      {"KB", 1e3},
      {"MB", 1e6},
      {"GB", 1e9},
      {"TB", 1e12},
      {"KiB", 1024.},
      {"MiB", 1048576.},
      {"GiB", 1073741824.},
      {"TiB", 1099511627776.}};
  size_t used = 0;
  double number;
  try {
    number = std::stod(text, &used);
  } catch (const std::exception &) {
    return std::nullopt;
  }
  std::string unit = text.substr(used);
  if (!(number > 0) || !std::isfinite(number))
    return std::nullopt;
  if (unit == "%")
    return MemorySize{0, number / 100};
  for (auto [name, factor] : units)
    if (unit == name && number * factor < 9e18)
      return MemorySize{static_cast<int64_t>(number * factor), 0};
  return std::nullopt;
}

namespace {

/// A size option: the text is checked while it is parsed.
void addSize(CLI::App *app, const std::string &name,
             std::optional<MemorySize> &target, bool allowShare,
             const std::string &help) {
  app->add_option_function<std::string>(
         name,
         [&target, name, allowShare](const std::string &text) {
           target = parseMemorySize(text);
           if (!target || (target->share > 0 && !allowShare))
             throw CLI::ValidationError(
                 name,
                 "'" + text +
                     "' is not a size: expected a number with B, kB, MB, GB, "
                     "KiB, MiB, GiB" +
                     (allowShare ? ", or a percentage of the training state"
                                 : ""));
         },
         help)
      ->type_name("SIZE");
}

void addModel(CLI::App *app, CompilerOptions &options) {
  app->add_option("MODEL", options.model,
                  "ONNX model (.onnx, or ONNX text .onnxtext)")
      ->required();
  app->add_option("--dim", options.dims,
                  "bind a symbolic dimension other than the batch: NAME=VALUE")
      ->type_name("NAME=VALUE");
  app->add_option("--loss", options.loss,
                  "append a loss to a model without one")
      ->check(CLI::IsMember({"cross-entropy", "mse"}));
  app->add_option("--loss-output", options.lossOutput,
                  "output that is the loss");
  app->add_option("--trainable", options.trainable,
                  "train initializers whose name matches")
      ->type_name("REGEX");
  app->add_option("--freeze", options.freeze,
                  "do not train initializers whose name matches")
      ->type_name("REGEX");
  app->add_option("--padding", options.padding,
                  "the row of a table that gets no gradient from look-ups "
                  "(padding_idx), or none; default: the one row that is zero")
      ->type_name("NAME=ROW");
  app->add_option("--batch-norm", options.batchNorm,
                  "what BatchNormalization of the inference form is in "
                  "training: frozen, or normalising by the batch all the same")
      ->check(CLI::IsMember({"as-exported", "train"}));
  app->add_option("--bn-running-var", options.runningVariance,
                  "running variances of N - 1 (torch) or N (onnx); default: "
                  "torch, with a training graph onnx")
      ->check(CLI::IsMember({"torch", "onnx"}));
  app->add_flag("--forward", options.forward,
                "compile the outputs alone, no training");
}

void addBatch(CLI::App *app, CompilerOptions &options) {
  app->add_option("--batch", options.batch, "samples per optimizer step")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
}

void addDevices(CLI::App *app, CompilerOptions &options) {
  app->add_option("--devices", options.devices,
                  "number of devices; default: the machine's, 1 built in")
      ->check(CLI::Range(1, 256))
      ->type_name("N");
  addSize(app, "--device-memory", options.deviceMemory, true,
          "capacity of each device, or a share of the training state over all "
          "devices together (50%); default: what is available");
  addSize(app, "--host-memory", options.hostMemory, false,
          "budget of the host store; with --disk-path, of what it has in "
          "memory");
  app->add_option("--disk-path", options.diskPath,
                  "the executable's host store lies on disk, in this folder of "
                  "the machine that it runs on (its --disk-path overrides)")
      ->type_name("DIR");
  addSize(app, "--disk-memory", options.diskMemory, false,
          "of a host store on disk, what is in memory at once (the "
          "executable's --disk-memory overrides); default: --host-memory");
  app->add_option("--machine", options.machine,
                  "devices, speeds and links: a machine file (JSON), or one "
                  "of " +
                      machineNames())
      ->type_name("NAME|FILE");
}

void addMicrobatch(CLI::App *app, CompilerOptions &options) {
  app->add_option_function<std::string>(
         "--microbatch",
         [&options](const std::string &text) {
           if (text == "auto")
             return;
           try {
             size_t used = 0;
             int64_t value = std::stoll(text, &used);
             if (used == text.size() && value > 0) {
               options.microbatch = value;
               return;
             }
           } catch (const std::exception &) {
           }
           throw CLI::ValidationError(
               "--microbatch",
               "'" + text + "' is neither a positive number nor auto");
         },
         "samples per microbatch, or auto")
      ->type_name("U|auto");
}

/// What a plan is made to be instead of being searched.
void addPins(CLI::App *app, CompilerOptions &options) {
  app->add_option("--schedule", options.schedule,
                  "Harmony as a pipeline or data parallel; the baselines "
                  "virtualise each device's memory")
      ->check(CLI::IsMember(
          {"auto", "harmony-pp", "harmony-dp", "pp-swap", "dp-swap"}))
      ->capture_default_str();
  app->add_option("--residency", options.residency,
                  "what stays on the device between packs")
      ->check(CLI::IsMember({"auto", "none"}))
      ->capture_default_str();
  app->add_option("--update", options.update,
                  "update right after a pack's backward, or at the end")
      ->check(CLI::IsMember({"auto", "jit", "deferred"}))
      ->capture_default_str();
  app->add_option("--recompute", options.recompute,
                  "recompute activations in the backward")
      ->check(CLI::IsMember({"auto", "all", "none"}))
      ->capture_default_str();
  app->add_option("--optimizer-on", options.optimizerOn,
                  "where weights are updated")
      ->check(CLI::IsMember({"auto", "host", "device"}))
      ->capture_default_str();
  app->add_option("--pack", options.pack, "layers per pack")
      ->check(CLI::Range(1, 1 << 20));
  app->add_option("--random-plan", options.randomPlan,
                  "a random valid plan, by seed")
      ->group(""); // for tests
}

/// Plans and costs that come from files or go there.
void addDocuments(CLI::App *app, CompilerOptions &options) {
  app->add_option("--plan-in", options.planIn,
                  "take this plan, which is verified first, instead of "
                  "searching for one")
      ->type_name("FILE.json");
  app->add_option("--plan-out", options.planOut, "write the plan")
      ->type_name("FILE.json");
  app->add_flag("--explain", options.explain,
                "print what limits the plan, the best plan of every other "
                "form, and what more memory, a faster link or one more device "
                "would bring");
  app->add_option("--profile", options.profile,
                  "costs that an executable has measured (its --profile); what "
                  "they do not tell is modelled")
      ->type_name("FILE.json");
  app->add_option("--keep-numerics", options.keepNumerics,
                  "plan with the numerics key of this plan, executable or "
                  "profile (or the key itself): the same bits")
      ->type_name("FILE|KEY");
}

void addStages(CLI::App *app, CompilerOptions &options) {
  app->add_option("--dump-stages", options.dumpStages,
                  "write the module after each stage into this folder")
      ->type_name("DIR");
  app->add_option("--stop-after", options.stopAfter,
                  "stop after a stage and print the module")
      ->check(CLI::IsMember(kStages));
  app->add_flag("--time-report", options.timeReport,
                "print the time that each stage took");
}

/// In the order that --help has them.
void addPlanning(CLI::App *app, CompilerOptions &options) {
  addModel(app, options);
  app->add_option("--target", options.target, "what the executable runs on")
      ->check(CLI::IsMember({"host", "host:avx2", "host:avx512"}))
      ->capture_default_str();
  addDevices(app, options);
  addBatch(app, options);
  addMicrobatch(app, options);
  app->add_flag("--allow-batch-mixing", options.allowBatchMixing,
                "split the batch of a model that combines samples: each "
                "microbatch is normalised on its own");
  app->add_option("--optimizer", options.optimizer,
                  "optimizer with PyTorch's semantics; default: the graph's "
                  "own, else adamw")
      ->check(CLI::IsMember({"adamw", "adam", "sgd"}));
  app->add_flag("--clip-grad-norm", options.clipGradNorm,
                "clip gradients by their global norm; the threshold is the "
                "executable's flag of that name");
  addPins(app, options);
  addDocuments(app, options);
  addStages(app, options);
}

CLI::App *addCompile(CLI::App &app, CompilerOptions &options) {
  CLI::App *compile =
      app.add_subcommand("compile", "compile a training executable");
  addPlanning(compile, options);
  compile
      ->add_option("-o,--output", options.output,
                   "the executable; its weights go beside it")
      ->required()
      ->type_name("EXE");
  compile->add_flag("--weights-from-model", options.weightsFromModel,
                    "leave weights in the model's external data files, which "
                    "must stay as they are");
  return compile;
}

CLI::App *addPlan(CLI::App &app, CompilerOptions &options) {
  CLI::App *plan = app.add_subcommand(
      "plan", "the plan alone: packs, residency, time, traffic, peaks");
  addPlanning(plan, options);
  plan->add_option("--estimator", options.estimator,
                   "artifact: say what the estimator of Harmony's artifact "
                   "says of its schedule in --plan-in; the model is its "
                   "profile")
      ->check(CLI::IsMember({"plan", "artifact"}))
      ->capture_default_str();
  plan->add_flag("--prefetch", options.prefetch,
                 "of the artifact's estimator: with its --prefetch_offload");
  plan->add_option("--trace", options.trace,
                   "write the simulated timeline for Perfetto or "
                   "chrome://tracing")
      ->type_name("FILE.json");
  plan->add_option("--svg", options.svg,
                   "draw one iteration: every queue, and the memory of every "
                   "device")
      ->type_name("FILE.svg");
  return plan;
}

CLI::App *addInspect(CLI::App &app, CompilerOptions &options) {
  CLI::App *inspect = app.add_subcommand(
      "inspect", "inputs, loss, what trains and why, ties, operators");
  addModel(inspect, options);
  addBatch(inspect, options);
  return inspect;
}

CLI::App *addMeasure(CLI::App &app, CompilerOptions &options) {
  CLI::App *machine = app.add_subcommand(
      "machine", "measure this machine: products, memory, copies, updates");
  machine
      ->add_option("-o,--output", options.output,
                   "the machine file (--machine)")
      ->required()
      ->type_name("FILE.json");
  machine
      ->add_option("--devices", options.devices,
                   "devices that share the processors")
      ->check(CLI::Range(1, 256))
      ->type_name("N");
  machine
      ->add_option("--threads", options.threads,
                   "threads that compute, over all devices; default: all "
                   "processors")
      ->check(CLI::Range(1u, 1024u))
      ->type_name("T");
  machine
      ->add_option("--target", options.target,
                   "instruction set that products are measured with")
      ->check(CLI::IsMember({"host", "host:avx2", "host:avx512"}))
      ->capture_default_str();
  return machine;
}

/// What is wrong with flags that are right one by one; empty if nothing is.
std::string checkTogether(const CLI::App &command,
                          const CompilerOptions &options) {
  auto given = [&](const char *flag) {
    const CLI::Option *option = command.get_option_no_throw(flag);
    return option && option->count() > 0;
  };
  auto firstOf = [&](std::initializer_list<const char *> flags) {
    for (const char *flag : flags)
      if (given(flag))
        return std::string(flag);
    return std::string();
  };
  // An unset variable of a shell would be taken for no flag at all.
  for (const CLI::Option *option : command.get_options())
    if (option->count() > 0 && option->get_expected_min() > 0)
      for (const std::string &value : option->results())
        if (value.empty())
          return option->get_name() + " is empty";
  if (given("--disk-memory") && options.diskPath.empty())
    return "--disk-memory needs --disk-path DIR";
  if (options.estimator == "artifact") {
    if (!given("--plan-in"))
      return "--estimator artifact needs --plan-in SCHEDULE.json";
    if (std::string flag =
            firstOf({"--batch", "--devices", "--device-memory", "--host-memory",
                     "--trace", "--svg", "--explain", "--stop-after",
                     "--profile", "--keep-numerics"});
        !flag.empty())
      return flag + " is not accepted with --estimator artifact: profile, "
                    "schedule and machine decide";
  } else if (given("--prefetch")) {
    return "--prefetch is accepted with --estimator artifact only";
  }
  if (given("--plan-in"))
    if (std::string flag =
            firstOf({"--microbatch", "--schedule", "--residency", "--update",
                     "--recompute", "--optimizer-on", "--pack", "--random-plan",
                     "--keep-numerics"});
        !flag.empty())
      return flag + " is not accepted with --plan-in: the plan decides it";
  if (given("--keep-numerics"))
    if (std::string flag = firstOf({"--microbatch", "--random-plan"});
        !flag.empty())
      return flag + " is not accepted with --keep-numerics, which pins it";
  if (options.forward)
    if (std::string flag = firstOf(
            {"--loss", "--loss-output", "--trainable", "--freeze", "--padding",
             "--optimizer", "--clip-grad-norm", "--schedule", "--update",
             "--recompute", "--optimizer-on", "--pack"});
        !flag.empty())
      return flag + " is not accepted with --forward: nothing is trained";
  if (given("--stop-after")) {
    if (std::string flag =
            firstOf({"--plan-out", "--trace", "--svg", "--explain"});
        !flag.empty())
      return flag + " is not accepted with --stop-after, which prints the "
                    "module and writes nothing";
    auto stage = [](const std::string &name) {
      return std::find(kStages.begin(), kStages.end(), name);
    };
    if (options.command == Command::Plan &&
        stage(options.stopAfter) > stage("plan"))
      return "--stop-after " + options.stopAfter +
             " is not accepted: the command plan ends with the stage plan";
  }
  return "";
}

} // namespace

std::optional<CompilerOptions> harmony::parseCommandLine(int argc, char **argv,
                                                         int &exitCode) {
  CompilerOptions options;
  options.program = argv[0];
  CLI::App app("harmonyc: compiles ONNX training graphs into native training "
               "executables",
               "harmonyc");
  app.set_version_flag("--version", std::string("harmonyc ") + HARMONY_VERSION);
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);

  CLI::App *compile = addCompile(app, options);
  CLI::App *plan = addPlan(app, options);
  CLI::App *inspect = addInspect(app, options);
  CLI::App *machine = addMeasure(app, options);
  app.add_subcommand("ops", "the ONNX operators supported, by opset");

  // The parser's own message would not name it.
  if (argc > 1 && argv[1][0] != '-' &&
      app.get_subcommands(
             [&](CLI::App *command) { return command->check_name(argv[1]); })
          .empty()) {
    std::cerr
        << "harmonyc: error: '" << argv[1]
        << "' is not a command: expected compile, plan, inspect, machine or "
           "ops\n";
    exitCode = kUsage;
    return std::nullopt;
  }
  app.failure_message([](const CLI::App *, const CLI::Error &error) {
    return std::string("harmonyc: error: ") + error.what() +
           "\nRun with --help for more information.\n";
  });
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    exitCode = app.exit(error) == 0 ? kDone : kUsage;
    return std::nullopt;
  }
  options.command = compile->parsed()   ? Command::Compile
                    : plan->parsed()    ? Command::Plan
                    : inspect->parsed() ? Command::Inspect
                    : machine->parsed() ? Command::Machine
                                        : Command::Ops;
  const CLI::App &command = *app.get_subcommands().front();
  if (std::string problem = checkTogether(command, options); !problem.empty()) {
    std::cerr << "harmonyc: error: " << problem << '\n';
    exitCode = kUsage;
    return std::nullopt;
  }
  return options;
}
