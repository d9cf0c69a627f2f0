//===- Log.cpp - What a run tells about itself ----------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/train/Log.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdarg>
#include <cstring>
#include <sys/stat.h>
#include <unistd.h>

namespace harmony::runtime {

namespace {

constexpr int64_t plainLines = 20; // at most about this many per run
constexpr int barWidth = 24;

/// Text of bounded length in memory that is there already.
class LineBuilder {
public:
  explicit LineBuilder(std::vector<char> &buffer) : buffer(buffer) {}

  __attribute__((format(printf, 2, 3))) void add(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int n = std::vsnprintf(buffer.data() + used, buffer.size() - used, format,
                           arguments);
    va_end(arguments);
    used = std::min(buffer.size() - 1, used + std::max(0, n));
  }

  /// JSON has no NaN and no infinity.
  void addNumber(const char *key, double value) {
    if (std::isfinite(value))
      add(", \"%s\": %.9g", key, value);
    else
      add(", \"%s\": null", key);
  }

  size_t length() const { return used; }

private:
  std::vector<char> &buffer;
  size_t used = 0;
};

/// A NaN has no sign that means something, but printf shows it.
double printable(double value) {
  return std::isnan(value) ? std::fabs(value) : value;
}

/// Samples a second to four digits, without an exponent.
struct RateText {
  explicit RateText(double perSecond) {
    std::snprintf(text, sizeof(text), perSecond < 1000 ? "%.4g" : "%.0f",
                  perSecond);
  }
  char text[32];
};

} // namespace

Log::Log(const std::string &path, int64_t totalSteps)
    : totalSteps(totalSteps), terminal(isatty(STDOUT_FILENO)), path(path),
      line(16384), start(std::chrono::steady_clock::now()), lastDrawn(start) {
  if (path.empty())
    return;
  keepOld();
  file = std::fopen(path.c_str(), "we");
  if (!file)
    throw Error(ExitCode::Failure,
                path + ": cannot be written: " + strerror(errno));
  std::setvbuf(file, nullptr, _IONBF, 0); // every line is there if the run ends
}

void Log::keepOld() {
  struct stat status;
  if (stat(path.c_str(), &status) || !S_ISREG(status.st_mode) ||
      !status.st_size)
    return;
  std::string old = path + ".old";
  if (std::rename(path.c_str(), old.c_str()))
    throw Error(ExitCode::Failure,
                path + ": cannot be kept as " + old + ": " + strerror(errno));
  note("the log that was there is kept as " + old);
}

Log::~Log() {
  endBar();
  if (file)
    std::fclose(file);
}

void Log::writeLine(const char *text, size_t length) {
  if (file && std::fwrite(text, 1, length, file) != length)
    throw Error(ExitCode::Failure,
                path + ": writing failed: " + strerror(errno));
}

void Log::step(const StepRecord &r) {
  double perSecond =
      r.seconds > 0 ? static_cast<double>(r.samples) / r.seconds : 0;
  if (file) {
    LineBuilder text(line);
    text.add("{\"step\": %lld", static_cast<long long>(r.step));
    text.addNumber("loss", r.loss);
    text.addNumber("lr", r.rate);
    if (r.gradientNorm)
      text.addNumber("grad_norm", *r.gradientNorm);
    text.addNumber("samples_per_s", perSecond);
    text.addNumber("step_s", r.seconds);
    static constexpr struct {
      const char *key;
      HmTraffic traffic;
    } columns[] = {{"swap_in_bytes", HM_TRAFFIC_SWAP_IN},
                   {"swap_out_bytes", HM_TRAFFIC_SWAP_OUT},
                   {"peer_bytes", HM_TRAFFIC_PEER},
                   {"input_bytes", HM_TRAFFIC_INPUT}};
    for (auto &column : columns)
      text.add(", \"%s\": %lld", column.key,
               static_cast<long long>((*r.traffic)[column.traffic]));
    text.add(", \"peak_bytes\": [");
    for (size_t i = 0; i < r.peaks->size(); ++i)
      text.add("%s%lld", i ? ", " : "", static_cast<long long>((*r.peaks)[i]));
    text.add("], \"host_peak_bytes\": %lld, \"host_planned_bytes\": %lld",
             static_cast<long long>(r.hostPeak),
             static_cast<long long>(r.hostPlanned));
    if (r.disk) {
      text.add(", \"disk_read_bytes\": %lld, \"disk_write_bytes\": %lld",
               static_cast<long long>(r.disk->bytesRead),
               static_cast<long long>(r.disk->bytesWritten));
      text.addNumber("disk_wait_s", r.disk->waitSeconds);
    }
    text.add("%s}\n", r.isVirtual ? ", \"virtual\": true" : "");
    writeLine(line.data(), text.length());
  }
  if (terminal)
    return drawBar(r);
  int64_t every = std::max<int64_t>(1, totalSteps / plainLines);
  secondsSinceLine += r.seconds;
  samplesSinceLine += r.samples;
  if (r.step != 1 && r.step % every != 0 && r.step != totalSteps)
    return;
  // One step alone says little: with several on their way an end may follow
  // right behind another.
  double rate = secondsSinceLine > 0
                    ? static_cast<double>(samplesSinceLine) / secondsSinceLine
                    : 0;
  std::printf("step %lld/%lld  loss %.6g  lr %.4g  %s %ssamples/s\n",
              static_cast<long long>(r.step),
              static_cast<long long>(totalSteps), printable(r.loss), r.rate,
              RateText(rate).text, r.isVirtual ? "virtual " : "");
  secondsSinceLine = 0;
  samplesSinceLine = 0;
}

void Log::drawBar(const StepRecord &r) {
  auto now = std::chrono::steady_clock::now();
  if (r.step != totalSteps && r.step != 1 &&
      now - lastDrawn < std::chrono::milliseconds(100))
    return;
  lastDrawn = now;
  double elapsed = std::chrono::duration<double>(now - start).count();
  double rate = static_cast<double>(r.step) / std::max(elapsed, 1e-9);
  auto left =
      static_cast<long long>(static_cast<double>(totalSteps - r.step) / rate);
  int filled =
      static_cast<int>(barWidth * r.step / std::max<int64_t>(1, totalSteps));
  static const char full[] = "########################",
                    empty[] = "........................";
  std::printf("\r\033[K[%.*s%.*s] %lld/%lld  loss %.5g  lr %.3g  %s "
              "samples/s  %lld:%02lld:%02lld left",
              filled, full, barWidth - filled, empty,
              static_cast<long long>(r.step),
              static_cast<long long>(totalSteps), printable(r.loss), r.rate,
              RateText(rate * static_cast<double>(r.samples)).text, left / 3600,
              left / 60 % 60, left % 60);
  std::fflush(stdout);
  barShown = true;
}

void Log::endBar() {
  if (barShown)
    std::printf("\n");
  barShown = false;
  std::fflush(stdout);
}

void Log::evaluation(const EvaluationRecord &r) {
  endBar();
  LineBuilder text(line);
  text.add("{\"step\": %lld, \"eval_samples\": %lld",
           static_cast<long long>(r.step), static_cast<long long>(r.samples));
  if (r.hasLoss)
    text.addNumber("eval_loss", r.loss);
  double accuracy = r.counted ? static_cast<double>(r.correct) /
                                    static_cast<double>(r.counted)
                              : 0;
  if (r.hasAccuracy)
    text.addNumber("accuracy", accuracy);
  text.add("}\n");
  writeLine(line.data(), text.length());

  std::printf("evaluation after step %lld, %lld samples:",
              static_cast<long long>(r.step),
              static_cast<long long>(r.samples));
  if (r.hasLoss)
    std::printf("  loss %.6g", printable(r.loss));
  if (r.hasLoss && r.lossSamples < r.samples)
    std::printf(" (whole batches: %lld samples)",
                static_cast<long long>(r.lossSamples));
  if (r.hasAccuracy)
    std::printf("  accuracy %.2f %% (%lld of %lld)", 100 * accuracy,
                static_cast<long long>(r.correct),
                static_cast<long long>(r.counted));
  std::printf("\n");
  std::fflush(stdout);
}

void Log::note(const std::string &text) {
  endBar();
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
}

} // namespace harmony::runtime
