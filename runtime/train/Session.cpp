//===- Session.cpp - Memory, driver and engine of one run -----------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/train/Session.h"

#include "runtime/drivers/host/DiskStore.h"
#include "runtime/drivers/host/Gemm.h"
#include "runtime/drivers/host/HostDriver.h"
#include "runtime/drivers/host/MemoryStore.h"
#include "runtime/engine/HostAccesses.h"
#include "runtime/engine/VirtualClock.h"
#include "runtime/train/Available.h"
#include "runtime/train/FileMapping.h"
#include "runtime/train/Payload.h"
#include "runtime/train/Safetensors.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <set>
#include <unistd.h>

namespace harmony::runtime {

namespace {

const char *const programNames[] = {"load", "step", "store", "evaluation"};
const char *const trafficNames[] = {"swap-in", "swap-out", "peer", "input",
                                    "output"};

bool isSaved(const HmVariable &variable) {
  return variable.role <= HM_ROLE_STATE;
}

Array arrayOf(const Blob &blob, const HmVariable &variable, const char *data) {
  Array array;
  array.key = blob.string(variable.name);
  array.type = static_cast<HmType>(variable.type);
  Span<int64_t> dims = blob.dims(variable.dims, variable.rank);
  array.shape.assign(dims.begin(), dims.end());
  array.data = data;
  array.bytes = variable.bytes;
  return array;
}

/// Names for a message: the first few, and how many more.
class NameList {
public:
  void add(const std::string &name) {
    if (++total <= limit)
      shown += (shown.empty() ? "" : ", ") + name;
  }
  size_t count() const { return total; }
  std::string text() const {
    return total <= limit
               ? shown
               : shown + " and " + std::to_string(total - limit) + " more";
  }

private:
  static constexpr size_t limit = 5;
  size_t total = 0;
  std::string shown;
};

bool allFinite(const char *values, int64_t bytes) {
  for (int64_t at = 0; at < bytes; at += sizeof(float)) {
    float value;
    std::memcpy(&value, values + at, sizeof(value));
    if (!std::isfinite(value))
      return false;
  }
  return true;
}

} // namespace

Session::Session(const Payload &payload, const Blob &blob,
                 const Options &options)
    : payload(payload), blob(blob), options(options),
      hostStore(makeHostStore()),
      dumpSpace(options.dumpGradients.empty() ? 0 : blob.header().dumpBytes,
                "gradients to dump"),
      scalarSpace(Driver::maximalCopies * scalarBytes(), "scalars") {
  for (unsigned i = 0; i < Driver::maximalCopies; ++i)
    batches.emplace_back(blob.header().batchBytes, "batch");
  for (Totals &totals : measured)
    totals.peaks.resize(blob.devices().size());
  for (const HmVariable &variable : blob.variables())
    if (variable.role == HM_ROLE_CONSTANT)
      writeHost(variable.home, blob.constants() + variable.initial,
                variable.bytes);
  if (options.initFrom.empty())
    loadWeights(payload.executable + HM_WEIGHTS_SUFFIX, false);
  else
    loadWeights(options.initFrom, true);
}

Session::~Session() = default;

int64_t Session::scalarBytes() const {
  constexpr int64_t line = 64;
  int64_t bytes =
      blob.header().scalarCount * static_cast<int64_t>(sizeof(float));
  return (bytes + line - 1) / line * line;
}

int64_t Session::bytesBesideStore() const {
  const HmHeader &header = blob.header();
  int64_t bytes = Driver::maximalCopies * header.batchBytes +
                  (options.dumpGradients.empty() ? 0 : header.dumpBytes);
  for (const HmDevice &device : blob.devices())
    bytes += std::max(device.peak, device.evaluatePeak);
  return bytes;
}

void Session::checkMemory(int64_t storeBytes) const {
  int64_t needed = storeBytes + bytesBesideStore();
  int64_t available = availableMemory();
  if (available >= 0 && needed > available)
    throw Error(ExitCode::NoDevice,
                "the run needs " + std::to_string(needed) +
                    " bytes of memory for host store and devices, " +
                    std::to_string(available) +
                    " are available; --disk-path DIR puts the host store of " +
                    std::to_string(blob.header().hostBytes) +
                    " bytes on a disk");
}

std::unique_ptr<HostStore> Session::makeHostStore() const {
  const int64_t bytes = blob.header().hostBytes;
  if (options.diskPath.empty()) {
    checkMemory(bytes);
    return std::make_unique<MemoryStore>(bytes);
  }
  if (options.diskPaging) {
    checkMemory(0);
    return std::make_unique<MemoryStore>(bytes, options.diskPath);
  }
  DiskStoreOptions disk;
  disk.path = options.diskPath;
  disk.bytes = bytes;
  disk.guard = options.poison;
  for (int p = 0; p < HM_PROGRAM_COUNT; ++p)
    disk.accesses[p] =
        hostAccesses(blob, static_cast<HmProgramKind>(p), options.poison);
  disk.kept = keptHostRanges(blob);
  // Half of what is left: the rest is for files that are read, and for others.
  disk.memory = options.diskMemory
                    ? static_cast<int64_t>(
                          std::min<uint64_t>(options.diskMemory, INT64_MAX))
                    : std::max(DiskStore::leastMemory(disk),
                               (availableMemory() - bytesBesideStore()) / 2);
  auto store = std::make_unique<DiskStore>(disk);
  checkMemory(store->memoryBytes());
  return store;
}

void Session::readHost(int64_t offset, char *to, int64_t bytes) const {
  hostStore->visit(
      {offset, bytes, true, false},
      [&](const char *address, int64_t count) {
        std::memcpy(to, address, count);
        to += count;
      },
      false);
}

void Session::writeHost(int64_t offset, const char *from, int64_t bytes) {
  hostStore->visit(
      {offset, bytes, false, true},
      [&](char *address, int64_t count) {
        std::memcpy(address, from, count);
        from += count;
      },
      false);
}

/// What of `file` is not as the variables are: all of it. Empty if they agree.
std::string Session::compareWeights(const SafetensorsFile &file) const {
  NameList missing, different, extra;
  std::set<std::string> known;
  for (const HmVariable &variable : blob.variables()) {
    if (!isSaved(variable))
      continue;
    Array wanted = arrayOf(blob, variable, nullptr);
    known.insert(wanted.key);
    const Array *array = file.find(wanted.key);
    if (!array)
      missing.add("'" + wanted.key + "' " +
                  describe(wanted.type, wanted.shape));
    else if (array->type != wanted.type || array->shape != wanted.shape)
      different.add("'" + wanted.key + "' is " +
                    describe(array->type, array->shape) + ", expected " +
                    describe(wanted.type, wanted.shape));
  }
  if (!missing.count() && !different.count())
    return "";
  for (const std::string &name : file.names())
    if (!known.count(name))
      extra.add("'" + name + "'");
  std::string text = "these are not the weights of this model";
  if (missing.count())
    text += "; missing: " + missing.text();
  if (different.count())
    text += "; of another kind: " + different.text();
  if (extra.count())
    text += "; in the file and not in the model: " + extra.text();
  return text;
}

void Session::loadWeights(const std::string &path, bool initFrom) {
  if (std::none_of(blob.variables().begin(), blob.variables().end(), isSaved))
    return;
  SafetensorsFile file(path);
  if (!initFrom)
    file.addExternal();
  std::string expected = blob.string(blob.header().fingerprint);
  auto found = file.metadata().find(HM_FINGERPRINT_KEY);
  if (!initFrom &&
      (found == file.metadata().end() || found->second != expected))
    throw Error(
        ExitCode::Data,
        path + ": fingerprint is " +
            (found == file.metadata().end() ? "missing" : found->second) +
            ", this executable's is " + expected +
            "; the weights belong to another compilation: compile again, or "
            "give weights by --init-from");
  if (std::string problems = compareWeights(file); !problems.empty())
    throw Error(ExitCode::Data, path + ": " + problems);
  for (const HmVariable &variable : blob.variables()) {
    if (!isSaved(variable))
      continue;
    const Array *array = file.find(blob.string(variable.name));
    // The file does not stay resident beside the store.
    constexpr int64_t block = int64_t(4) << 20;
    for (int64_t at = 0; at < variable.bytes; at += block) {
      int64_t bytes = std::min(block, variable.bytes - at);
      writeHost(variable.home + at, array->data + at, bytes);
      FileMapping::forget(array->data + at, bytes);
    }
  }
}

void Session::prepare() {
  DriverOptions driverOptions;
  for (const HmDevice &device : blob.devices())
    driverOptions.devices.push_back({device.capacity,
                                     std::max(device.peak, device.evaluatePeak),
                                     device.libraryBytes});
  driverOptions.kernels =
      kernelTable(blob, payload.functions, payload.functionCount);
  driverOptions.isa = static_cast<HmIsa>(blob.header().isa);
  driverOptions.threads = options.threads;
  driverOptions.processors = availableProcessors();
  driverOptions.chunk = options.chunk;
  driverOptions.poison = options.poison;
  driverOptions.paranoid = options.paranoid;
  driverOptions.timing = options.timeReport;
  driverOptions.links = linkTable(blob);
  driverOptions.enforceLinks = options.enforceLinks;
  driverOptions.hostStore = hostStore.get();
  devices = createHostDriver(driverOptions);
  devices->setHostMemory(HM_SPACE_HOST, hostStore->data(), hostStore->size());
  for (unsigned i = 0; i < Driver::maximalCopies; ++i)
    devices->setHostMemory(HM_SPACE_SCALARS, scalars(i), scalarBytes(), i);
  devices->setHostMemory(HM_SPACE_CONSTANT,
                         const_cast<char *>(blob.constants()),
                         blob.header().constants.count);
  if (dumpSpace.size())
    devices->setHostMemory(HM_SPACE_DUMP, dumpSpace.data(), dumpSpace.size());
  EngineOptions engineOptions;
  engineOptions.singleThread = options.paranoid;
  engineOptions.adversarialSeed = options.adversarialSeed;
  engineOptions.virtualTime = options.virtualTime;
  engineOptions.inFlight = stepsInFlight();
  engineOptions.dropWait = options.dropWait;
  engineOptions.earlyRelease = options.earlyRelease;
  if (!options.trace.empty())
    trace = std::make_unique<Trace>(blob, options.virtualTime);
  engineOptions.trace = trace.get();
  if (!options.profile.empty())
    profile = std::make_unique<Profile>(blob);
  engineOptions.profile = profile.get();
  engine = std::make_unique<Engine>(blob, *devices, engineOptions);
}

void Session::run(HmProgramKind kind, bool dump) {
  hostStore->begin(kind);
  engine->run(kind, dump);
  measure(kind);
}

void Session::beginStep(bool dump) {
  hostStore->begin(HM_PROGRAM_STEP);
  engine->begin(HM_PROGRAM_STEP, dump);
}

void Session::finishStep() {
  engine->finish(HM_PROGRAM_STEP);
  measure(HM_PROGRAM_STEP);
}

void Session::measure(HmProgramKind kind) {
  const Evidence &evidence = engine->evidence(kind);
  Totals &totals = measured[kind];
  ++totals.executions;
  totals.virtualSeconds = engine->virtualSeconds();
  totals.lastTraffic = evidence.traffic;
  for (int i = 0; i < HM_TRAFFIC_COUNT; ++i)
    totals.traffic[i] += evidence.traffic[i];
  totals.peaks = evidence.peak;
  for (int i = 0; i < HM_FAMILY_COUNT; ++i)
    totals.times.kernels[i] += evidence.times.kernels[i];
  totals.times.copies += evidence.times.copies;
  totals.times.waits += evidence.times.waits;
}

int64_t Session::plannedHostBytes() const {
  int64_t bytes = hostStore->memoryBytes() + dumpSpace.size() +
                  scalarSpace.size() + blob.header().size +
                  (trace ? trace->bytes() : 0);
  for (const Mapping &batch : batches)
    bytes += batch.size();
  int64_t workers = 0, scratch = 0;
  if (devices)
    for (const std::vector<int64_t> &pool : devices->workerChunks())
      workers += static_cast<int64_t>(pool.size());
  for (const HmDevice &device : blob.devices()) {
    bytes += std::max(device.peak, device.evaluatePeak);
    scratch = std::max(scratch, device.libraryBytes);
  }
  return bytes + workers * scratch;
}

int64_t Session::measuredHostBytes() {
  int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return 0;
  char text[4096];
  ssize_t length = read(file, text, sizeof(text) - 1);
  close(file);
  if (length <= 0)
    return 0;
  text[length] = 0;
  const char *line = std::strstr(text, "VmHWM:");
  return line ? std::strtoll(line + 6, nullptr, 10) * 1024 : 0;
}

void Session::writeTrace() const {
  if (trace)
    trace->write(options.trace);
}

void Session::writeProfile() {
  if (profile)
    profile->write(options.profile, {processorName(), productLibrary(),
                                     options.threads, options.enforceLinks});
}

void Session::ensureLoaded() {
  if (!onDevices && blob.has(HM_PROGRAM_LOAD))
    run(HM_PROGRAM_LOAD);
  onDevices = true;
}

void Session::ensureStored() {
  if (onDevices && blob.has(HM_PROGRAM_STORE))
    run(HM_PROGRAM_STORE);
  onDevices = false;
}

void Session::setBatch(char *batchSpace, unsigned copy) {
  devices->setHostMemory(HM_SPACE_BATCH, batchSpace, blob.header().batchBytes,
                         copy);
}

float Session::stepResult(int64_t home) const {
  std::optional<float> kept = engine->result(HM_PROGRAM_STEP, home);
  return kept ? *kept : hostFloat(home);
}

float Session::hostFloat(int64_t offset) const {
  float value;
  readHost(offset, reinterpret_cast<char *>(&value), sizeof(value));
  return value;
}

void Session::saveWeights(const std::string &path) const {
  std::vector<Array> arrays;
  for (const HmVariable &variable : blob.variables())
    if (isSaved(variable))
      arrays.push_back(arrayOf(blob, variable, nullptr));
  std::map<std::string, const HmVariable *> variables;
  for (const HmVariable &variable : blob.variables())
    variables[blob.string(variable.name)] = &variable;
  AtomicFile file(path);
  writeSafetensors(
      file, arrays,
      {{HM_FINGERPRINT_KEY, blob.string(blob.header().fingerprint)},
       {"format", "pt"},
       {"producer",
        std::string("harmonyc ") + blob.string(blob.header().compiler)}},
      [&](const Array &array) {
        hostStore->visit(
            {variables.at(array.key)->home, array.bytes, true, false},
            [&](const char *bytes, int64_t count) { file.write(bytes, count); },
            false);
      });
  file.commit();
}

std::string Session::saveGradients(const std::string &path) const {
  std::vector<Array> arrays;
  std::vector<std::vector<float>> sums;
  std::string nonFinite;
  for (const HmVariable &variable : blob.variables()) {
    Span<HmGradient> parts = blob.gradients(variable);
    if (parts.empty())
      continue;
    std::vector<float> sum(variable.bytes / sizeof(float));
    std::memcpy(sum.data(), dumpSpace.data() + parts[0].home, variable.bytes);
    for (size_t i = 1; i < parts.size(); ++i)
      for (size_t j = 0; j < sum.size(); ++j) {
        float value;
        std::memcpy(&value,
                    dumpSpace.data() + parts[i].home + j * sizeof(float),
                    sizeof(value));
        sum[j] += value;
      }
    auto *bytes = reinterpret_cast<const char *>(sum.data());
    if (nonFinite.empty() && !allFinite(bytes, variable.bytes))
      nonFinite = blob.string(variable.name);
    sums.push_back(
        std::move(sum)); // the heap block, and so `bytes`, stays where it is
    arrays.push_back(arrayOf(blob, variable, bytes));
  }
  writeSafetensors(path, arrays, {});
  return nonFinite;
}

std::string Session::findNonFinite() const {
  for (const HmVariable &variable : blob.variables())
    if (variable.role == HM_ROLE_PARAMETER && variable.type == HM_F32) {
      bool finite = true;
      hostStore->visit(
          {variable.home, variable.bytes, true, false},
          [&](const char *bytes, int64_t count) {
            finite = finite && allFinite(bytes, count);
          },
          false);
      if (!finite)
        return blob.string(variable.name);
    }
  return "";
}

void Session::checkAgainstPlan() const {
  auto differ = [](const std::string &what, int64_t found, int64_t planned) {
    throw Error(ExitCode::Internal, "the run differs from its plan: " + what +
                                        " measured " + std::to_string(found) +
                                        " bytes, the plan says " +
                                        std::to_string(planned));
  };
  for (int p = 0; p < HM_PROGRAM_COUNT; ++p) {
    const Totals &totals = measured[p];
    if (!totals.executions)
      continue;
    for (int i = 0; i < HM_TRAFFIC_COUNT; ++i) {
      int64_t planned = blob.header().programs[p].traffic[i];
      if (totals.traffic[i] != planned * totals.executions)
        differ(std::string(programNames[p]) + ", " + trafficNames[i] +
                   " traffic over " + std::to_string(totals.executions) +
                   " executions",
               totals.traffic[i], planned * totals.executions);
    }
    for (size_t d = 0; d < blob.devices().size(); ++d) {
      const HmDevice &device = blob.devices()[d];
      int64_t planned =
          p == HM_PROGRAM_STEP ? device.peak : device.evaluatePeak;
      if ((p == HM_PROGRAM_STEP || p == HM_PROGRAM_EVALUATE) &&
          totals.peaks[d] != planned)
        differ(std::string(programNames[p]) + ", peak of device " +
                   std::to_string(d),
               totals.peaks[d], planned);
    }
  }
}

} // namespace harmony::runtime
