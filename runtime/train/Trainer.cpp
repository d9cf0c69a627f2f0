//===- Trainer.cpp - The training loop ------------------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/train/Trainer.h"

#include "runtime/drivers/host/LibraryScratch.h"
#include "runtime/engine/NegativeControl.h"
#include "runtime/engine/Order.h"
#include "runtime/train/Evaluator.h"
#include "runtime/train/Loader.h"
#include "runtime/train/Log.h"
#include "runtime/train/Options.h"
#include "runtime/train/Safetensors.h"
#include "runtime/train/Session.h"

#include <cmath>
#include <csignal>
#include <exception>
#include <filesystem>
#include <memory>

namespace harmony::runtime {

namespace {

volatile std::sig_atomic_t caughtSignal = 0;

/// While it lives, the first SIGINT or SIGTERM is noted; a second one ends the
/// process.
class SignalHandlers {
public:
  SignalHandlers() {
    caughtSignal = 0;
    struct sigaction action = {};
    action.sa_handler = [](int number) { caughtSignal = number; };
    action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
    sigaction(SIGINT, &action, &interrupt);
    sigaction(SIGTERM, &action, &terminate);
  }
  ~SignalHandlers() {
    sigaction(SIGINT, &interrupt, nullptr);
    sigaction(SIGTERM, &terminate, nullptr);
  }
  SignalHandlers(const SignalHandlers &) = delete;
  SignalHandlers &operator=(const SignalHandlers &) = delete;

private:
  struct sigaction interrupt, terminate;
};

/// A NaN has no sign that means something.
std::string number(double value) {
  if (std::isnan(value))
    return "nan";
  char text[32];
  std::snprintf(text, sizeof(text), "%.6g", value);
  return text;
}

class Trainer {
public:
  Trainer(const Payload &payload, const Blob &blob, const Options &options)
      : payload(payload), blob(blob), options(options),
        session(payload, blob, options) {}

  int run() {
    planSteps();
    checkFiles();
    if (!options.validation.empty())
      evaluator = std::make_unique<Evaluator>(blob, session, options);
    log = std::make_unique<Log>(options.log, totalSteps);
    describeRun();
    if (evaluator && evaluator->leftOut() > 0)
      log->note(
          "the last " + std::to_string(evaluator->leftOut()) +
          " samples of --val do not fill a batch, whose samples the model "
          "combines: they are not evaluated");
    if (totalSteps > 0 || evaluator || options.dryRun)
      session.prepare();
    if (options.dryRun) {
      log->note(
          "dry run: data, weights and memory are there; nothing was trained");
      return 0;
    }
    if (totalSteps > 0)
      train();
    session.ensureStored();
    if (evaluator && evaluatedAt != done && !caughtSignal)
      evaluate();
    if (!options.save.empty()) {
      if (std::string name = session.findNonFinite(); !name.empty())
        throw Error(ExitCode::NotFinite,
                    "after step " + std::to_string(done) + " parameter '" +
                        name + "' is not finite; nothing was saved");
      session.saveWeights(options.save);
      log->note("weights saved to " + options.save);
    }
    if (totalSteps > 0 || evaluator) {
      session.writeTrace();
      if (!options.trace.empty())
        log->note("trace of the last steps written to " + options.trace);
      session.writeProfile();
      if (!options.profile.empty())
        log->note("measured costs written to " + options.profile);
    }
    report();
    session.checkAgainstPlan();
    return caughtSignal ? 128 + caughtSignal : 0;
  }

private:
  /// Before there is something to lose: every file to write can be written, and
  /// is neither another one of them nor a file that the run reads.
  /// (--init-from may be saved to: it has been read by then.)
  void checkFiles() const {
    const std::pair<const char *, const std::string *> outputs[] = {
        {"--save", &options.save},
        {"--dump-grads", &options.dumpGradients},
        {"--outputs", &options.outputs},
        {"--trace", &options.trace},
        {"--profile", &options.profile},
        {"--log", &options.log}};
    std::vector<std::string> inputs = {payload.executable};
    for (const auto *sources : {&options.data, &options.validation})
      for (const std::string &source : *sources)
        inputs.push_back(source.substr(source.find('=') + 1));
    auto refuse = [](const char *flag, const std::string &path,
                     const std::string &why) {
      throw Error(ExitCode::Usage,
                  std::string(flag) + " " + path + ": is " + why);
    };
    for (const auto &[flag, path] : outputs) {
      std::error_code failure;
      if (path->empty())
        continue;
      if (!std::filesystem::exists(*path, failure) ||
          std::filesystem::is_regular_file(*path, failure)) {
        for (const std::string &input : inputs)
          if (isSameFile(*path, input))
            refuse(flag, *path, "a file that the run reads");
        for (const auto &other : outputs) {
          if (other.second == path)
            break;
          if (!other.second->empty() && isSameFile(*path, *other.second))
            refuse(flag, *path, std::string("the file of ") + other.first);
        }
      }
      checkWritable(*path);
    }
  }

  void planSteps() {
    batch = blob.header().programs[HM_PROGRAM_STEP].batch;
    if (options.evaluateOnly || options.steps == 0)
      return;
    data = std::make_unique<DataSet>(
        options.synthetic
            ? DataSet::synthetic(blob, HM_PROGRAM_STEP,
                                 syntheticBatches * batch, options.seed)
            : DataSet(options.data, blob, HM_PROGRAM_STEP));
    int64_t batches = data->samples() / batch;
    if (batches < 1)
      throw Error(ExitCode::Data,
                  "the data has " + std::to_string(data->samples()) +
                      " samples, one batch needs " + std::to_string(batch) +
                      ": give more, or compile with a smaller --batch");
    totalSteps = options.steps;
    if (options.steps < 0 &&
        __builtin_mul_overflow(options.epochs, batches, &totalSteps))
      throw Error(ExitCode::Usage, "--epochs " +
                                       std::to_string(options.epochs) +
                                       " is too much");
    const Hyperparameters &h = options.hyperparameters;
    if (h.schedule != RateSchedule::Constant && h.warmup >= totalSteps)
      throw Error(ExitCode::Usage,
                  "--warmup " + std::to_string(h.warmup) + " leaves none of " +
                      std::to_string(totalSteps) + " steps to the schedule");
  }

  void describeRun() {
    const HmHeader &header = blob.header();
    log->note(std::string(blob.string(header.model)) +
              ", compiled by harmonyc " + blob.string(header.compiler) + "; " +
              std::to_string(header.devices.count) + " host device" +
              (header.devices.count == 1 ? "" : "s") + ", " +
              std::to_string(options.threads) + " thread" +
              (options.threads == 1 ? "" : "s"));
    if (totalSteps <= 0)
      return;
    const Hyperparameters &h = options.hyperparameters;
    std::string text;
    switch (header.optimizer) {
    case HM_OPTIMIZER_ADAMW:
    case HM_OPTIMIZER_ADAM:
      text = std::string(header.optimizer == HM_OPTIMIZER_ADAM ? "adam"
                                                               : "adamw") +
             ": beta1 " + number(h.beta1) + ", beta2 " + number(h.beta2) +
             ", eps " + number(h.epsilon) + ", weight decay " +
             number(h.weightDecay) + ", ";
      break;
    case HM_OPTIMIZER_SGD:
      text = "sgd: momentum " + number(h.momentum) + ", weight decay " +
             number(h.weightDecay) + ", ";
      break;
    default:
      text = "optimizer of the training graph; ";
    }
    if (header.optimizer != HM_OPTIMIZER_GRAPH) {
      static const char *const schedules[] = {"constant", "linear", "cosine"};
      text += "lr " + number(h.rate) + " " +
              schedules[static_cast<int>(h.schedule)] + ", warmup " +
              std::to_string(h.warmup) + "; ";
    }
    text += "seed " + std::to_string(options.seed) +
            (options.shuffle ? ", shuffled" : ", in order") + "; " +
            std::to_string(totalSteps) + " steps of " + std::to_string(batch) +
            " samples";
    log->note(text);
    if (options.save.empty() && !options.synthetic)
      log->note("the trained weights are not kept: --save FILE keeps them");
    describeMode();
    if (int64_t rest = data->samples() % batch)
      log->note(std::to_string(rest) + " of " +
                std::to_string(data->samples()) +
                " samples do not fill a batch and are left out of each epoch");
    if (!data->conversions().empty()) {
      std::string text;
      for (const std::string &conversion : data->conversions())
        text += (text.empty() ? "" : ", ") + conversion;
      log->note("converted, without scaling: " + text);
    }
    if (!data->ignored().empty()) {
      std::string names;
      for (const std::string &name : data->ignored())
        names += (names.empty() ? "" : ", ") + name;
      log->note("not inputs of the model and ignored: " + names);
    }
  }

  void describeMode() {
    if (!options.diskPath.empty())
      log->note("host store of " + std::to_string(blob.header().hostBytes) +
                " bytes in " + options.diskPath + ", " +
                (options.diskPaging
                     ? std::string("paged by the system")
                     : std::to_string(session.store().memoryBytes()) +
                           " of them in memory"));
    if (options.adversarialSeed)
      log->note("adversarial order, seed " +
                std::to_string(*options.adversarialSeed));
    if (options.enforceLinks)
      log->note("transfers take the time of the machine's links");
    if (options.virtualTime) {
      double planned = blob.header().programs[HM_PROGRAM_STEP].seconds;
      log->note("times are virtual: those of the machine planned for" +
                (planned > 0
                     ? "; the plan says " + number(planned) + " s per step"
                     : std::string()));
    }
    if (options.lateWait)
      log->note("negative control: wait " + std::to_string(*options.lateWait) +
                " is late");
    if (options.dropWait)
      log->note("negative control: wait " + std::to_string(*options.dropWait) +
                " is dropped");
    if (options.earlyRelease)
      log->note("negative control: release " +
                std::to_string(*options.earlyRelease) + " comes too early");
  }

  void train() {
    BatchFiller filler(blob, *data, HM_PROGRAM_STEP);
    Loader loader(filler, data->samples(),
                  options.shuffle && !options.synthetic, options.seed,
                  session.batchBuffers());
    if (options.countAllocations && !haveAllocationHooks())
      throw Error(ExitCode::Usage,
                  "--count-allocations: this build cannot count them");
    const int64_t plannedHostBytes =
        session.plannedHostBytes() +
        (options.synthetic ? syntheticBatches * blob.header().batchBytes : 0);
    auto end = std::chrono::steady_clock::now();
    while (done < totalSteps) {
      beginSteps(loader);
      if (begun == done)
        break; // a signal
      session.finishStep();
      const int64_t t = ++done;
      const double value = loss();
      std::string cause;
      if (!std::isfinite(value))
        cause = explainLoss(
            filler.findNonFinite(loader.buffer(), loader.samples()));
      loader.release();

      const Session::Totals &totals = session.totals(HM_PROGRAM_STEP);
      auto now = std::chrono::steady_clock::now();
      StepRecord record;
      record.step = t;
      record.loss = value;
      record.rate = learningRate(options.hyperparameters, t, totalSteps);
      for (const HmScalar &scalar : blob.scalars())
        if (scalar.kind == HM_SCALAR_GRAD_NORM)
          record.gradientNorm = session.scalars(copyOf(t))[scalar.index];
      record.isVirtual = options.virtualTime;
      record.seconds = options.virtualTime
                           ? totals.virtualSeconds
                           : std::chrono::duration<double>(now - end).count();
      record.samples = batch;
      record.traffic = &totals.lastTraffic;
      record.peaks = &totals.peaks;
      if (!options.log.empty()) {
        record.hostPeak = Session::measuredHostBytes();
        record.hostPlanned = plannedHostBytes;
      }
      end = now;
      record.disk = diskSinceStep();
      log->step(record);
      if (isDumped(t))
        checkGradients();
      if (!std::isfinite(value))
        stopNotFinite(value, cause);
      if (evaluatesAfter(t)) {
        setAllocationCounting(false);
        session.ensureStored();
        evaluate();
        end = std::chrono::steady_clock::now();
      }
      if (options.countAllocations)
        setAllocationCounting(true);
    }
    setAllocationCounting(false);
    if (loaderFailure)
      std::rethrow_exception(loaderFailure);
  }

  /// Begins as many steps as may be under way. None begins beside one after
  /// which there is an evaluation, nor after a signal or a batch that cannot be
  /// read: steps before it are finished first.
  void beginSteps(Loader &loader) {
    while (begun < totalSteps && !caughtSignal && !loaderFailure &&
           begun - done < session.stepsInFlight() &&
           (begun == done || !evaluatesAfter(begun))) {
      try {
        beginStep(begun + 1, loader.acquire());
      } catch (const Error &) {
        loaderFailure = std::current_exception();
        return;
      }
      ++begun;
    }
  }

  void beginStep(int64_t t, char *batchSpace) {
    if (begun == done)
      session.ensureLoaded();
    const unsigned copy = copyOf(t);
    double rate = learningRate(options.hyperparameters, t, totalSteps);
    for (const HmScalar &scalar : blob.scalars())
      session.scalars(copy)[scalar.index] =
          static_cast<float>(scalarValue(static_cast<HmScalarKind>(scalar.kind),
                                         options.hyperparameters, rate, t));
    session.setBatch(batchSpace, copy);
    session.beginStep(isDumped(t));
  }

  unsigned copyOf(int64_t t) const {
    return static_cast<unsigned>((t - 1) % session.stepsInFlight());
  }
  bool isDumped(int64_t t) const {
    return t == 1 && !options.dumpGradients.empty();
  }
  bool evaluatesAfter(int64_t t) const {
    return options.evaluateEvery && t % options.evaluateEvery == 0;
  }

  /// Nothing where the host store is in memory.
  std::optional<HostStoreEvidence> diskSinceStep() {
    if (options.diskPath.empty() || options.diskPaging)
      return std::nullopt;
    HostStoreEvidence now = session.store().evidence(), since = now;
    since.bytesRead -= disk.bytesRead;
    since.bytesWritten -= disk.bytesWritten;
    since.waitSeconds -= disk.waitSeconds;
    disk = now;
    return since;
  }

  double loss() const {
    double sum = 0;
    for (const HmLossTerm &term : blob.lossTerms())
      if (term.program == HM_PROGRAM_STEP)
        sum += static_cast<double>(term.scale) *
               session.stepResult(term.numerator) /
               session.stepResult(term.denominator);
    return sum;
  }

  void checkGradients() {
    std::string name = session.saveGradients(options.dumpGradients);
    if (!name.empty())
      throw Error(ExitCode::NotFinite,
                  "the gradient of '" + name + "' in step " +
                      std::to_string(done) + " is not finite; " +
                      options.dumpGradients + " holds the gradients");
  }

  /// Why the loss of the last step is not finite, where the batch is the
  /// reason; else empty. `input`: its first number that is not finite.
  std::string explainLoss(const std::string &input) const {
    if (!input.empty())
      return input;
    for (const HmLossTerm &term : blob.lossTerms())
      if (term.program == HM_PROGRAM_STEP &&
          session.stepResult(term.denominator) == 0)
        return "it is divided by 0: all labels of the batch are ignored, or "
               "all weights are 0";
    return "";
  }

  [[noreturn]] void stopNotFinite(double loss, std::string cause) {
    while (session.stepsUnderWay())
      session.finishStep();
    session.ensureStored();
    std::string name = session.findNonFinite();
    if (cause.empty())
      cause = (name.empty() ? std::string("all parameters are finite")
                            : "the first parameter that is not finite is '" +
                                  name + "'") +
              "; a smaller --lr may help";
    throw Error(ExitCode::NotFinite,
                "the loss of step " + std::to_string(done) + " is " +
                    number(loss) + ": " + cause + "; nothing was saved");
  }

  void evaluate() {
    EvaluationRecord record = evaluator->run();
    record.step = done;
    evaluatedAt = done;
    log->evaluation(record);
    if (!record.hasLoss &&
        record.samples < blob.header().programs[HM_PROGRAM_EVALUATE].batch)
      log->note("no loss: --val has fewer samples than a batch");
  }

  void report() {
    if (caughtSignal)
      log->note("stopped by a signal after step " + std::to_string(done));
    if (options.timeReport && totalSteps > 0)
      reportTimes();
    if (options.chunk && totalSteps > 0)
      reportChunks();
    if (options.countAllocations) {
      int64_t count = allocationCount();
      log->note("allocations after the first step: " + std::to_string(count));
      if (count)
        throw Error(ExitCode::Internal,
                    std::to_string(count) +
                        " allocations after the first step");
    }
  }

  void reportTimes() {
    static const char *const names[HM_FAMILY_COUNT] = {
        "gemm", "pointwise", "row", "column", "gather", "copy", "update"};
    const Times &times = session.totals(HM_PROGRAM_STEP).times;
    double sum = times.copies;
    for (double seconds : times.kernels)
      sum += seconds;
    log->note("seconds of all training steps, and share of the work:");
    auto row = [&](const char *name, double seconds, bool share) {
      char text[96];
      std::snprintf(text, sizeof(text),
                    share ? "  %-10s %10.4f  %5.1f %%" : "  %-10s %10.4f", name,
                    seconds, sum > 0 ? 100 * seconds / sum : 0);
      log->note(text);
    };
    for (int i = 0; i < HM_FAMILY_COUNT; ++i)
      row(names[i], times.kernels[i], true);
    row("transfers", times.copies, true);
    row("waits", times.waits, false);
  }

  void reportChunks() {
    std::vector<std::vector<int64_t>> pools = session.driver().workerChunks();
    for (size_t i = 0; i < pools.size(); ++i) {
      if (pools[i].empty())
        continue;
      std::string text =
          i + 1 < pools.size()
              ? "chunks of the workers of pool " + std::to_string(i) + ":"
              : std::string("chunks of the host's workers:");
      for (int64_t count : pools[i])
        text += " " + std::to_string(count);
      log->note(text);
    }
  }

  /// Enough that steps do not find their batch in the cache of the one before.
  static constexpr int64_t syntheticBatches = 4;

  const Payload &payload;
  const Blob &blob;
  const Options &options;
  Session session;
  std::unique_ptr<DataSet> data;
  std::unique_ptr<Evaluator> evaluator;
  std::unique_ptr<Log> log;
  int64_t batch = 0;
  int64_t totalSteps = 0;
  int64_t begun = 0, done = 0; // steps
  std::exception_ptr loaderFailure;
  int64_t evaluatedAt = -1;
  HostStoreEvidence disk; // at the last record
};

} // namespace

int runExecutable(const Payload &payload,
                  const std::vector<std::string> &arguments) {
  Blob blob(payload.program, payload.programSize, payload.functionCount);
  Options options;
  if (!parseOptions(arguments, blob, options))
    return 0;
  if (options.version) {
    std::printf(
        "%s, compiled by harmonyc %s\nfingerprint %s\nnumerics key %s\n",
        blob.string(blob.header().model), blob.string(blob.header().compiler),
        blob.string(blob.header().fingerprint),
        blob.string(blob.header().numericsKey));
    return 0;
  }
  if (options.findRaces) {
    if (std::string race = findRace(blob); !race.empty())
      throw Error(ExitCode::Internal, race);
    std::puts("every two commands that conflict are ordered");
    return 0;
  }
  if (options.countWaits) {
    std::fputs(listControls(blob).c_str(), stdout);
    return 0;
  }
  if (options.printPlan) {
    std::printf("%s\n", blob.string(blob.header().planSummary));
    return 0;
  }
  SignalHandlers handlers;
  if (options.lateWait) {
    std::vector<BlobLine> lines =
        withLateWait(blob, payload.functionCount, *options.lateWait);
    Blob late(lines.front().bytes, blob.header().size, payload.functionCount);
    return Trainer(payload, late, options).run();
  }
  return Trainer(payload, blob, options).run();
}

} // namespace harmony::runtime
