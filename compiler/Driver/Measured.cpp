//===- Measured.cpp - Measured costs, machines and numerics keys ----------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Driver/Measured.h"

#include "compiler/Driver/OutputFiles.h"
#include "compiler/Planner/Json.h"
#include "compiler/Planner/Text.h"
#include "runtime/engine/Blob.h"
#include "runtime/hal/Error.h"
#include "runtime/train/Available.h"
#include "runtime/train/Payload.h"
#include "runtime/train/PayloadLoader.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <memory>
#include <string_view>
#include <unistd.h>
#include <vector>

using namespace harmony;
using nlohmann::json;

int64_t harmony::availableMemory() {
  return std::max<int64_t>(0, runtime::availableMemory());
}

//===----------------------------------------------------------------------===//
// The runtime, asked
//===----------------------------------------------------------------------===//

/// What the runtime beside the compiler prints with these arguments.
static std::optional<json> askRuntime(const std::string &isa, unsigned threads,
                                      std::string &error) {
  char self[4096];
  ssize_t length = readlink("/proc/self/exe", self, sizeof(self));
  std::string path(self, length > 0 ? static_cast<size_t>(length) : 0);
  path = path.substr(0, path.rfind('/') + 1) + "harmony-train-host";
  std::string quoted = "'";
  for (char c : path)
    quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  std::string command = quoted + "' " HM_FLAG_MEASURE_MACHINE " " + isa + " " +
                        std::to_string(threads);
  std::FILE *pipe = popen(command.c_str(), "r");
  std::string text;
  char part[4096];
  while (pipe) {
    size_t bytes = std::fread(part, 1, sizeof(part), pipe);
    if (bytes == 0)
      break;
    text.append(part, bytes);
  }
  int status = pipe ? pclose(pipe) : -1;
  json document = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (status == 0 && document.is_object())
    return document;
  error = path + ": cannot measure this machine" +
          (status > 0 ? " (its message is above)"
                      : ": the runtime is part of the compiler's installation");
  return std::nullopt;
}

std::string harmony::whyRefused(const std::vector<char> &program,
                                size_t functions) {
  // As in an executable.
  std::unique_ptr<void, decltype(&std::free)> copy(
      std::aligned_alloc(HM_PROGRAM_ALIGNMENT, program.size()), &std::free);
  if (!copy)
    return std::to_string(program.size()) + " bytes cannot be allocated";
  std::memcpy(copy.get(), program.data(), program.size());
  try {
    runtime::Blob blob(copy.get(), program.size(), functions);
    return "";
  } catch (const runtime::Error &e) {
    std::string why = e.what();
    const std::string executables = "corrupt program: ";
    return why.rfind(executables, 0) == 0 ? why.substr(executables.size())
                                          : why;
  }
}

std::optional<planner::Machine>
harmony::measureThisMachine(const std::string &isa, unsigned threads,
                            int devices, std::string &error) {
  std::optional<json> facts = askRuntime(isa, threads, error);
  if (!facts)
    return std::nullopt;
  auto number = [&](const char *key) { return facts->at(key).get<double>(); };
  double copy =
      std::min(number("copy_in_bytes_per_s"), number("copy_out_bytes_per_s"));
  planner::Machine machine = planner::Machine::uniform(
      facts->at("device").get<std::string>() + ", " +
          facts->at("library").get<std::string>() + ", " + isa,
      devices, std::max<int64_t>(1, availableMemory() / 2 / devices), copy,
      number("copy_s"));
  for (planner::Link &link : machine.links)
    link.bytesPerSecond =
        number(link.from == planner::hostEndpoint ? "copy_in_bytes_per_s"
                                                  : "copy_out_bytes_per_s");
  for (int from = 0; from < devices; ++from)
    for (int to = 0; to < devices; ++to)
      if (from != to)
        machine.links.push_back({from, to, copy, number("copy_s"), {}});
  // All copies are in one memory.
  machine.resources.push_back({"memory", number("copy_both_bytes_per_s")});
  for (planner::Link &link : machine.links)
    link.shares.push_back(0);
  // Devices share the workers: each has a part of them or, where there are
  // fewer than devices, a part of their time.
  double part = std::max(1u, threads / static_cast<unsigned>(devices));
  double time = std::min(1.0, static_cast<double>(threads) / devices);
  double share = time * part / threads;
  for (planner::Device &device : machine.devices) {
    device.workers = static_cast<int>(part);
    device.launchSeconds = number("launch_s");
    device.operationsPerSecond = number("operations_per_s") * share;
    device.updateBytesPerSecond = number("update_bytes_per_s") * share;
    for (const json &entry : facts->at("products")) {
      double rate = entry.at(3).get<double>() * time;
      device.products.push_back({entry.at(0).get<int64_t>(),
                                 entry.at(1).get<int64_t>(),
                                 entry.at(2).get<int64_t>(), rate});
      device.flopsPerSecond = std::max(device.flopsPerSecond, rate * part);
    }
    for (const json &entry : facts->at("memory"))
      device.memory.push_back(
          {entry.at(0).get<int64_t>(), entry.at(1).get<double>() * share});
    device.bytesPerSecond = device.memory.back().bytesPerSecond;
  }
  machine.hostUpdateBytesPerSecond = number("update_bytes_per_s");
  return machine;
}

int harmony::machineCommand(const CompilerOptions &options,
                            const std::string &isa) {
  std::string error = checkOutputs(options);
  unsigned threads = options.threads.value_or(runtime::availableProcessors());
  std::optional<planner::Machine> machine;
  if (error.empty())
    machine =
        measureThisMachine(isa, threads, options.devices.value_or(1), error);
  if (machine)
    error =
        writeTextFile(options.output, planner::toJson(*machine).dump(1) + '\n');
  if (!error.empty()) {
    std::cerr << "harmonyc: error: " << error << '\n';
    return kRefused;
  }
  const planner::Device &device = machine->devices[0];
  char text[512];
  std::snprintf(
      text, sizeof(text),
      "%s: %zu device%s of %d thread%s\n"
      "products       %.1f GFLOP/s at best, %.2f at least\n"
      "memory         %.1f GB/s, %.1f in caches\n"
      "operations     %.1f G/s\n"
      "updates        %.1f GB/s\n"
      "copies         %.1f GB/s in, %.1f out, %.1f both at once; %.0f us to "
      "begin\n"
      "launch         %.2f us\n",
      machine->name.c_str(), machine->devices.size(),
      machine->devices.size() == 1 ? "" : "s", device.workers,
      device.workers == 1 ? "" : "s", device.flopsPerSecond * 1e-9,
      device.workers * 1e-9 *
          std::min_element(device.products.begin(), device.products.end(),
                           [](const auto &a, const auto &b) {
                             return a.flopsPerSecond < b.flopsPerSecond;
                           })
              ->flopsPerSecond,
      device.bytesPerSecond * 1e-9, device.memory.front().bytesPerSecond * 1e-9,
      device.operationsPerSecond * 1e-9, device.updateBytesPerSecond * 1e-9,
      machine->link(planner::hostEndpoint, 0).bytesPerSecond * 1e-9,
      machine->link(0, planner::hostEndpoint).bytesPerSecond * 1e-9,
      machine->resources[0].bytesPerSecond * 1e-9,
      machine->link(planner::hostEndpoint, 0).latencySeconds * 1e6,
      device.launchSeconds * 1e6);
  std::cout << text;
  return kDone;
}

//===----------------------------------------------------------------------===//
// Measured costs
//===----------------------------------------------------------------------===//

std::optional<planner::Measurements>
harmony::readMeasurements(const std::string &path, std::string &error) {
  try {
    return planner::measurementsFromJson(planner::readJson(path), path);
  } catch (const planner::Error &e) {
    error = e.what();
    return std::nullopt;
  }
}

std::string harmony::whyStale(const planner::Measurements &measurements,
                              const std::string &isa,
                              const planner::Machine &machine, bool builtIn,
                              std::string &error) {
  auto differs = [](const std::string &what, const std::string &there,
                    const std::string &here) {
    return there == here ? ""
                         : "measured with " + what + " '" + there +
                               "', this is '" + here + "'";
  };
  if (std::string why = differs("instruction set", measurements.isa, isa);
      !why.empty())
    return why;
  const planner::Device &device = machine.devices[0];
  int workers = std::max(1, measurements.threads / measurements.devices);
  // Machines that were not measured do not say how many threads they mean.
  if (!device.products.empty() && device.workers != workers)
    return "measured with " + std::to_string(workers) +
           " threads a device, machine '" + machine.name + "' has " +
           std::to_string(device.workers);
  if (int devices = static_cast<int>(machine.devices.size());
      builtIn && devices != measurements.devices)
    return "measured with " +
           planner::countText(measurements.devices, "device") +
           ", which had other shares of the processors than one of " +
           std::to_string(devices);
  std::optional<json> facts = askRuntime(isa, 0, error);
  if (!facts)
    return "";
  std::string why = differs("processor", measurements.device,
                            facts->at("device").get<std::string>());
  return why.empty() ? differs("library", measurements.library,
                               facts->at("library").get<std::string>())
                     : why;
}

//===----------------------------------------------------------------------===//
// Numerics keys
//===----------------------------------------------------------------------===//

static const size_t npos = std::string_view::npos;

/// The number behind `prefix` at the beginning of a text, which it is cut from;
/// nothing if there is none of up to 13 digits, the most that a batch has.
static std::optional<int64_t> takeNumber(std::string_view &text, char prefix) {
  size_t end = text.find_first_not_of("0123456789", 1);
  if (end == npos)
    end = text.size();
  if (text.empty() || text[0] != prefix || end < 2 || end > 14)
    return std::nullopt;
  int64_t number = std::stoll(std::string(text.substr(1, end - 1)));
  text.remove_prefix(end);
  return number;
}

/// Of `u4` or `u3x2+2x1`, where what is left of a share is one smaller
/// microbatch.
static std::optional<int64_t> singleMicrobatch(std::string_view sizes) {
  std::optional<int64_t> first = takeNumber(sizes, 'u');
  if (sizes.empty())
    return first;
  if (!takeNumber(sizes, 'x'))
    return std::nullopt;
  bool endsInRest =
      takeNumber(sizes, '+') && takeNumber(sizes, 'x') == 1 && sizes.empty();
  return sizes.empty() || endsInRest ? first : std::nullopt;
}

/// INSTRUCTIONS-LIBRARY-D<batch>[-G<groups>]-<sizes>-<digest>[-mixed], of which
/// the sizes may be as many as the layers; nothing if a text is no key.
static std::optional<NumericsPins> parseKey(const std::string &key) {
  static const char lower[] = "abcdefghijklmnopqrstuvwxyz";
  static const char alphanumeric[] = "abcdefghijklmnopqrstuvwxyz0123456789";
  std::vector<std::string_view> parts;
  for (std::string_view rest = key;;
       rest.remove_prefix(parts.back().size() + 1)) {
    parts.push_back(rest.substr(0, rest.find('-')));
    if (parts.back().size() == rest.size())
      break;
  }
  if (parts.back() == "mixed")
    parts.pop_back();
  if (parts.size() < 5 || parts.size() > 6)
    return std::nullopt;
  std::string_view instructions = parts[0], library = parts[1],
                   digest = parts.back();
  size_t version = library.find_first_not_of(lower);
  if (instructions.empty() ||
      instructions.find_first_not_of(alphanumeric) != npos || version == 0 ||
      version == npos ||
      library.find_first_not_of("0123456789", version) != npos ||
      digest.size() != 16 ||
      digest.find_first_not_of("0123456789abcdef") != npos)
    return std::nullopt;
  std::optional<int64_t> batch = takeNumber(parts[2], 'D'), groups = 1;
  if (parts.size() == 6)
    groups = takeNumber(parts[3], 'G');
  std::string_view sizes = parts[parts.size() - 2];
  if (!batch || !parts[2].empty() || !groups || *groups > INT32_MAX ||
      (parts.size() == 6 && !parts[3].empty()) || sizes.empty())
    return std::nullopt;
  return NumericsPins{key, *batch, static_cast<int>(*groups),
                      singleMicrobatch(sizes)};
}

std::string harmony::readNumericsKey(const std::string &source,
                                     std::string &error) {
  if (parseKey(source))
    return source;
  std::ifstream file(source, std::ios::binary);
  char first = 0;
  file >> first;
  if (!file) {
    error = "--keep-numerics " + source +
            ": is neither a file that can be read nor a numerics key";
    return "";
  }
  std::string key;
  bool isExecutable = false;
  if (first == '\x7f') {
    char rest[3] = {};
    isExecutable = file.read(rest, sizeof(rest)) &&
                   std::string_view(rest, sizeof(rest)) == "ELF";
  }
  if (first == '{') {
    json document;
    try {
      document = planner::readJson(source);
    } catch (const planner::Error &e) {
      error = std::string("--keep-numerics ") + e.what();
      return "";
    }
    auto take = [&](const json &place) {
      if (place.is_object() && place.contains("numerics_key") &&
          place["numerics_key"].is_string())
        key = place["numerics_key"].get<std::string>();
    };
    take(document);
    if (document.contains("summary"))
      take(document["summary"]);
  } else if (isExecutable) {
    try {
      runtime::Payload payload = runtime::loadPayload(source);
      runtime::Blob blob(payload.program, payload.programSize,
                         payload.functionCount);
      key = blob.string(blob.header().numericsKey);
    } catch (const runtime::Error &e) {
      error = "--keep-numerics " + source + ": " + e.what();
      return "";
    }
  }
  if (!parseKey(key))
    error = "--keep-numerics " + source +
            ": has no numerics key; plans of --plan-out, profiles of --profile "
            "and executables have one";
  return key;
}

NumericsPins harmony::pinsOf(const std::string &key) {
  return parseKey(key).value_or(NumericsPins{key, 0, 1, std::nullopt});
}
