//===- Options.cpp - The command line of a training executable ------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/train/Options.h"

#include "runtime/hal/Error.h"
#include "runtime/train/Available.h"

#include <CLI/CLI.hpp>
#include <cmath>
#include <iostream>

namespace harmony::runtime {

namespace {

constexpr unsigned maximalThreads = 1024;

[[noreturn]] void refuse(const std::string &what) {
  throw Error(ExitCode::Usage, what + "; --help lists the flags");
}

/// Validators that say nothing in --help: the ranges are wide and the texts
/// name the words.
template <typename T>
CLI::Validator inRange(T low, T high) {
  return CLI::Range(low, high).description("");
}
CLI::Validator oneOf(std::vector<std::string> words) {
  return CLI::IsMember(std::move(words)).description("");
}

/// Seeds and the like: unsigned conversion would take -3 for 2^64 - 3.
CLI::Validator wholeNumber() {
  return CLI::Validator(
      [](const std::string &text) {
        bool digits = !text.empty() &&
                      text.find_first_not_of("0123456789") == std::string::npos;
        return digits ? std::string()
                      : "'" + text +
                            "' is not accepted: a whole number from 0 to "
                            "2^64 - 1 is";
      },
      "");
}

/// Flags that only some optimizers read.
struct HyperparameterFlag {
  const char *flag;
  double Hyperparameters::*value;
  const char *help;
  unsigned optimizers; // bit HmOptimizer
  double low, end;     // accepted: [low, end)
};

constexpr unsigned adamFamily =
    1u << HM_OPTIMIZER_ADAM | 1u << HM_OPTIMIZER_ADAMW;
constexpr unsigned builtIn = adamFamily | 1u << HM_OPTIMIZER_SGD;
constexpr double noLimit = HUGE_VAL;

const HyperparameterFlag hyperparameterFlags[] = {
    {"--lr", &Hyperparameters::rate, "learning rate", builtIn, 0, noLimit},
    {"--momentum", &Hyperparameters::momentum, "momentum of sgd",
     1u << HM_OPTIMIZER_SGD, 0, 1},
    {"--beta1", &Hyperparameters::beta1, "decay of the first moment",
     adamFamily, 0, 1},
    {"--beta2", &Hyperparameters::beta2, "decay of the second moment",
     adamFamily, 0, 1},
    {"--eps", &Hyperparameters::epsilon,
     "added to the root of the second moment", adamFamily, 0, noLimit},
    {"--weight-decay", &Hyperparameters::weightDecay, "weight decay", builtIn,
     0, noLimit},
};

bool clipsGradients(const Blob &blob) {
  for (const HmScalar &scalar : blob.scalars())
    if (scalar.kind == HM_SCALAR_MAX_NORM)
      return true;
  return false;
}

const char *optimizerName(unsigned optimizer) {
  static const char *const names[] = {"the training graph's own", "adamw",
                                      "adam", "sgd", "none"};
  return names[optimizer];
}

void checkTogether(const Options &o, const CLI::App &app, const Blob &blob) {
  bool training = !o.evaluateOnly && o.steps != 0;
  bool evaluates = o.evaluateEvery || o.evaluateOnly;
  if (o.synthetic && !o.data.empty())
    refuse("--synthetic and --data exclude each other");
  if (o.version || o.printPlan || o.countWaits || o.findRaces)
    return;
  if (training && !blob.has(HM_PROGRAM_STEP))
    refuse("this executable was compiled without training (--forward); use "
           "--eval-only");
  if (training && o.data.empty() && !o.synthetic)
    refuse("no training data: give --data SOURCE or --synthetic");
  if (training && o.synthetic && o.steps < 0)
    refuse("--synthetic data has no end: give --steps N");
  if ((evaluates || !o.metricOutput.empty() || !o.outputs.empty()) &&
      o.validation.empty())
    refuse("evaluation needs data: give --val SOURCE");
  if (!o.validation.empty() && !blob.has(HM_PROGRAM_EVALUATE))
    refuse("this executable has no evaluation program, --val is not accepted");
  if (o.evaluateOnly &&
      (app.count("--steps") || app.count("--epochs") || app.count("--data") ||
       app.count("--dump-grads") || app.count("--eval-every")))
    refuse("--eval-only does not train: --steps, --epochs, --data, "
           "--dump-grads and "
           "--eval-every are not accepted with it");
  if (o.adversarialSeed.has_value() + o.enforceLinks + o.virtualTime > 1)
    refuse("--adversarial, --enforce-links and --virtual-time exclude each "
           "other");
  if (!o.profile.empty() &&
      (o.adversarialSeed || o.virtualTime || o.paranoid || o.poison))
    refuse("--profile measures what training costs, which --adversarial, "
           "--virtual-time, --paranoid and --poison change: they are not "
           "accepted with it");
  if (!o.profile.empty() && o.steps >= 0 && o.steps < 2 && !o.evaluateOnly)
    refuse("--profile needs two steps, the first of which does not count; "
           "--steps is " +
           std::to_string(o.steps));
  bool givesMemory = app.count("--disk-memory") != 0;
  if (o.diskPath.empty() && (givesMemory || o.diskPaging))
    refuse(std::string(o.diskPaging ? "--disk-paging" : "--disk-memory") +
           " needs --disk-path DIR");
  if (givesMemory && o.diskPaging)
    refuse("--disk-memory and --disk-paging exclude each other");
  if ((o.enforceLinks || o.virtualTime) && blob.links().empty())
    refuse(std::string(o.virtualTime ? "--virtual-time" : "--enforce-links") +
           " needs links, the machine that this executable was compiled for "
           "has none");
  if (!o.dumpGradients.empty() && o.steps == 0)
    refuse("--dump-grads needs a step, --steps is 0");
  if (o.steps > 0 && o.hyperparameters.schedule != RateSchedule::Constant &&
      o.hyperparameters.warmup >= o.steps)
    refuse("--warmup " + std::to_string(o.hyperparameters.warmup) +
           " leaves none of " + std::to_string(o.steps) +
           " steps to the schedule");
}

void addData(CLI::App &app, Options &o) {
  auto *group = app.add_option_group("Data");
  group
      ->add_option("--data", o.data,
                   "FILE.npz, FILE.safetensors or NAME=FILE.npy: one array per "
                   "model input, "
                   "axis 0 = samples; repeatable")
      ->type_name("SOURCE")
      ->allow_extra_args(false);
  group
      ->add_option("--val", o.validation,
                   "the same, for evaluation; repeatable")
      ->type_name("SOURCE")
      ->allow_extra_args(false);
  group->add_flag("--synthetic", o.synthetic, "random data instead of --data");
  auto *steps =
      group->add_option("--steps", o.steps, "steps to train; 0 trains nothing")
          ->type_name("N")
          ->check(inRange(int64_t(0), int64_t(1) << 60));
  group->add_option("--epochs", o.epochs, "passes over the data")
      ->type_name("N")
      ->check(inRange(int64_t(1), int64_t(1) << 40))
      ->capture_default_str()
      ->excludes(steps);
  group->add_option("--seed", o.seed, "of the order of samples and of dropout")
      ->type_name("S")
      ->check(wholeNumber())
      ->capture_default_str();
  group->add_flag("--shuffle,!--no-shuffle", o.shuffle,
                  "order by seed and epoch, or as stored (default: shuffle)");
}

void addOptimizer(CLI::App &app, Options &o, std::string &schedule,
                  const Blob &blob, HmOptimizer optimizer) {
  auto *group = app.add_option_group("Optimizer");
  for (const HyperparameterFlag &flag : hyperparameterFlags)
    group->add_option(flag.flag, o.hyperparameters.*flag.value, flag.help)
        ->type_name("X")
        ->capture_default_str()
        ->group(flag.optimizers >> optimizer & 1 ? "Options" : "");
  group
      ->add_option("--clip-grad-norm", o.hyperparameters.maxNorm,
                   "clip gradients to this global norm")
      ->type_name("X")
      ->check(inRange(0.0, noLimit))
      ->capture_default_str()
      ->group(clipsGradients(blob) ? "Options" : "");
  group->add_option("--lr-schedule", schedule, "constant, linear or cosine")
      ->type_name("NAME")
      ->check(oneOf({"constant", "linear", "cosine"}))
      ->capture_default_str();
  group
      ->add_option("--warmup", o.hyperparameters.warmup,
                   "steps over which the rate rises")
      ->type_name("N")
      ->check(inRange(int64_t(0), int64_t(1) << 60))
      ->capture_default_str();
}

void addFiles(CLI::App &app, Options &o) {
  auto *group = app.add_option_group("Files");
  group
      ->add_option("--init-from", o.initFrom,
                   "initial weights instead of those beside the executable")
      ->type_name("FILE");
  group->add_option("--save", o.save, "trained weights, as safetensors")
      ->type_name("FILE");
  group
      ->add_option("--dump-grads", o.dumpGradients,
                   "the first step's gradients, as safetensors")
      ->type_name("FILE");
  group->add_option("--log", o.log, "one JSON object per step and evaluation")
      ->type_name("FILE.jsonl");
}

void addEvaluation(CLI::App &app, Options &o, std::string &metric) {
  auto *group = app.add_option_group("Evaluation");
  group
      ->add_option("--eval-every", o.evaluateEvery,
                   "evaluate on --val every N steps (and at the end)")
      ->type_name("N")
      ->check(inRange(int64_t(1), int64_t(1) << 60));
  group->add_flag("--eval-only", o.evaluateOnly,
                  "evaluate the initial weights and stop");
  group->add_option("--metric", metric, "accuracy:OUTPUT,LABELS")
      ->type_name("METRIC");
  group
      ->add_option("--outputs", o.outputs,
                   "outputs for all of --val, as safetensors")
      ->type_name("FILE");
}

void addExecution(CLI::App &app, Options &o) {
  auto *group = app.add_option_group("Execution");
  group->add_option("--threads", o.threads, "over all devices")
      ->type_name("N")
      ->check(inRange(1u, maximalThreads))
      ->capture_default_str();
  group
      ->add_option("--adversarial", o.adversarialSeed,
                   "run commands in an order drawn from SEED, any that waits "
                   "allow; the result is the same")
      ->type_name("SEED")
      ->check(wholeNumber());
  group->add_flag("--enforce-links", o.enforceLinks,
                  "transfers take the time of the machine's links");
  group->add_flag("--virtual-time", o.virtualTime,
                  "step times and traces of the machine planned for");
  group
      ->add_option("--trace", o.trace,
                   "the last steps, for Perfetto and chrome://tracing")
      ->type_name("FILE.json");
  group
      ->add_option("--profile", o.profile,
                   "measured costs, for harmonyc compile --profile")
      ->type_name("FILE.json");
  group
      ->add_option("--disk-path", o.diskPath,
                   "the host store lies in a file there, most of it out of "
                   "memory")
      ->type_name("DIR");
  group
      ->add_option("--disk-memory", o.diskMemory,
                   "of the host store in memory at once, with --disk-path "
                   "(default: by what is available)")
      ->type_name("SIZE")
      ->transform(CLI::AsSizeValue(true).description(""));
  group->add_flag("--time-report", o.timeReport,
                  "seconds by kernel family, at the end");
  group->add_flag("--dry-run", o.dryRun, "check everything, train nothing");
  group->add_flag("--print-plan", o.printPlan, "print the plan and stop");
  group->add_flag("--version", o.version,
                  "print what this executable is and stop");
}

/// For tests and for who looks for an error.
void addHidden(CLI::App &app, Options &o) {
  auto *group = app.add_option_group("");
  group->add_option("--chunk", o.chunk, "")
      ->check(inRange(int64_t(1), int64_t(1) << 40))
      ->group("");
  group->add_flag("--poison", o.poison, "")->group("");
  group->add_flag("--paranoid", o.paranoid, "")->group("");
  group->add_flag("--count-allocations", o.countAllocations, "")->group("");
  group->add_flag("--count-waits", o.countWaits, "")->group("");
  group->add_option("--late-wait", o.lateWait, "")->group("");
  group->add_flag("--find-races", o.findRaces, "")->group("");
  group->add_flag("--disk-paging", o.diskPaging, "")->group("");
  group->add_option("--drop-wait", o.dropWait, "")->group("");
  group->add_option("--early-release", o.earlyRelease, "")->group("");
}

/// That the optimizer has what is asked of it.
void checkOptimizer(const Options &o, const CLI::App &app, const Blob &blob,
                    HmOptimizer optimizer) {
  for (const HyperparameterFlag &flag : hyperparameterFlags) {
    double value = o.hyperparameters.*flag.value;
    if (!app.count(flag.flag))
      continue;
    if (!(flag.optimizers >> optimizer & 1))
      refuse(std::string(flag.flag) + " is not accepted: the optimizer is " +
             optimizerName(optimizer));
    if (!(value >= flag.low && value < flag.end))
      refuse(std::string(flag.flag) + " is " + std::to_string(value) +
             ", accepted range is [" + std::to_string(flag.low) + ", " +
             std::to_string(flag.end) + ")");
  }
  if (app.count("--clip-grad-norm") && !clipsGradients(blob))
    refuse("--clip-grad-norm is not accepted: the executable was compiled "
           "without it");
  if (!(builtIn >> optimizer & 1) &&
      (app.count("--lr-schedule") || app.count("--warmup")))
    refuse(
        std::string(
            "--lr-schedule and --warmup are not accepted: the optimizer is ") +
        optimizerName(optimizer));
}

void readMetric(const std::string &metric, Options &o) {
  size_t comma = metric.find(',');
  static const std::string prefix = "accuracy:";
  if (metric.compare(0, prefix.size(), prefix) || comma == std::string::npos)
    refuse("--metric is '" + metric + "', accepted is accuracy:OUTPUT,LABELS");
  o.metricOutput = metric.substr(prefix.size(), comma - prefix.size());
  o.metricLabels = metric.substr(comma + 1);
}

} // namespace

bool parseOptions(const std::vector<std::string> &arguments, const Blob &blob,
                  Options &o) {
  auto optimizer = static_cast<HmOptimizer>(blob.header().optimizer);
  o.hyperparameters = defaultHyperparameters(optimizer);
  o.threads = availableProcessors();
  o.diskPath = blob.string(blob.header().diskPath);
  o.diskMemory = static_cast<uint64_t>(blob.header().diskMemory);
  CLI::App app(std::string("Trains ") + blob.string(blob.header().model) +
                   ", compiled by harmonyc " +
                   blob.string(blob.header().compiler) +
                   "; optimizer: " + optimizerName(optimizer) + ".",
               "EXE");
  app.get_formatter()->column_width(34);
  std::string schedule = "constant", metric;

  addData(app, o);
  addOptimizer(app, o, schedule, blob, optimizer);
  addFiles(app, o);
  addEvaluation(app, o, metric);
  addExecution(app, o);
  addHidden(app, o);
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::CallForHelp &) {
    std::cout << app.help();
    return false;
  } catch (const CLI::ParseError &error) {
    refuse(error.what());
  }

  checkOptimizer(o, app, blob, optimizer);
  o.hyperparameters.schedule = schedule == "linear"   ? RateSchedule::Linear
                               : schedule == "cosine" ? RateSchedule::Cosine
                                                      : RateSchedule::Constant;
  if (!metric.empty())
    readMetric(metric, o);
  checkTogether(o, app, blob);
  o.poison |= o.adversarialSeed.has_value() || o.earlyRelease.has_value();
  return true;
}

} // namespace harmony::runtime
