//===- Runner.cpp - Execute an emitted blob -------------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/unit/program/Runner.h"

#include "runtime/drivers/host/HostDriver.h"
#include "runtime/engine/Engine.h"

#include <cstdlib>
#include <cstring>
#include <memory>

namespace harmony::test {

using namespace runtime;

namespace {

/// Page-aligned memory: the paranoid mode protects whole pages.
struct Memory {
  explicit Memory(int64_t bytes) : bytes(bytes) {
    size_t size = (static_cast<size_t>(bytes) / 4096 + 1) * 4096;
    data.reset(static_cast<char *>(std::aligned_alloc(4096, size)));
    std::memset(data.get(), 0, size);
  }
  struct Free {
    void operator()(char *p) const { std::free(p); }
  };
  std::unique_ptr<char, Free> data;
  int64_t bytes;
};

class Session {
public:
  Session(const std::vector<char> &bytes,
          const std::vector<std::string> &kernels, RunMode mode, uint64_t seed)
      : copy(bytes.size()) {
    std::memcpy(copy.data.get(), bytes.data(), bytes.size());
    for (const std::string &name : kernels) {
      functions.push_back(findKernel(name));
      if (!functions.back())
        throw std::runtime_error("no kernel '" + name + "'");
    }
    blob =
        std::make_unique<Blob>(copy.data.get(), bytes.size(), functions.size());
    const HmHeader &header = blob->header();
    DriverOptions options;
    for (const HmDevice &device : blob->devices())
      options.devices.push_back(
          {device.capacity, std::max(device.peak, device.evaluatePeak), 0});
    options.kernels = kernelTable(*blob, functions.data(), functions.size());
    options.threads = 2;
    options.chunk = 5;
    options.poison = true;
    options.paranoid = mode == RunMode::SingleThread;
    driver = createHostDriver(options);
    const std::pair<HmSpace, int64_t> spaces[] = {
        {HM_SPACE_HOST, header.hostBytes},
        {HM_SPACE_BATCH, header.batchBytes},
        {HM_SPACE_SCALARS, header.scalarCount * 4},
        {HM_SPACE_DUMP, header.dumpBytes}};
    for (auto [space, size] : spaces) {
      memories.emplace_back(size);
      driver->setHostMemory(space, memories.back().data.get(), size);
    }
    EngineOptions engineOptions;
    engineOptions.singleThread = mode == RunMode::SingleThread;
    if (mode == RunMode::Adversarial)
      engineOptions.adversarialSeed = seed;
    engine = std::make_unique<Engine>(*blob, *driver, engineOptions);
  }

  float *host(int64_t offset) { return at(0, offset); }
  float *scalars() { return at(2, 0); }
  float *dump(int64_t offset) { return at(3, offset); }

  const HmVariable &variable(const std::string &name) {
    for (const HmVariable &v : blob->variables())
      if (blob->string(v.name) == name)
        return v;
    throw std::runtime_error("no variable '" + name + "'");
  }
  void write(const std::string &name, const std::vector<float> &values) {
    std::memcpy(host(variable(name).home), values.data(), values.size() * 4);
  }
  std::vector<float> read(const std::string &name) {
    float *from = host(variable(name).home);
    return {from, from + width};
  }
  void setBatch(int64_t step) {
    for (const HmInput &input : blob->inputs()) {
      std::vector<float> values = blob->string(input.name) == std::string("x")
                                      ? batchInput(step)
                                      : batchTarget(step);
      std::memcpy(at(1, input.offset), values.data(), values.size() * 4);
    }
  }
  /// One for each group.
  std::vector<HmLossTerm> losses(HmProgramKind kind) {
    std::vector<HmLossTerm> terms;
    for (const HmLossTerm &term : blob->lossTerms())
      if (term.program == static_cast<uint32_t>(kind))
        terms.push_back(term);
    if (terms.empty())
      throw std::runtime_error("no loss term");
    return terms;
  }

  /// What was measured since the last reset against one program's plan.
  std::string compare(HmProgramKind kind, int64_t executions) {
    std::string text;
    for (int c = 0; c < HM_TRAFFIC_COUNT; ++c) {
      int64_t planned = blob->header().programs[kind].traffic[c] * executions,
              measured = driver->traffic()[c];
      if (planned != measured)
        text += "traffic " + std::to_string(c) + ": planned " +
                std::to_string(planned) + ", measured " +
                std::to_string(measured) + "\n";
    }
    for (size_t d = 0; d < blob->devices().size(); ++d) {
      const HmDevice &device = blob->devices()[d];
      int64_t peak =
          kind == HM_PROGRAM_EVALUATE ? device.evaluatePeak : device.peak;
      if (driver->peak(d) != peak)
        text += "peak of device " + std::to_string(d) + ": planned " +
                std::to_string(peak) + ", measured " +
                std::to_string(driver->peak(d)) + "\n";
    }
    return text;
  }

  Memory copy;
  std::vector<HmRangeFunction> functions;
  std::unique_ptr<Blob> blob;
  std::vector<Memory> memories;
  std::unique_ptr<Driver> driver;
  std::unique_ptr<Engine> engine;

private:
  float *at(int space, int64_t offset) {
    return reinterpret_cast<float *>(memories[space].data.get() + offset);
  }
};

void run(Session &session, int64_t steps, float rate, RunResult &result) {
  State state = initialState();
  for (int p = 0; p < 3; ++p) {
    session.write("w" + std::to_string(p), state.weights[p]);
    session.write("w" + std::to_string(p) + ".momentum", state.momenta[p]);
  }
  session.scalars()[0] = rate;
  session.engine->run(HM_PROGRAM_LOAD);
  session.driver->resetEvidence();
  for (int64_t step = 0; step < steps; ++step) {
    session.setBatch(step);
    session.engine->run(HM_PROGRAM_STEP, step == 0);
    StepResult &out = result.steps.emplace_back();
    for (const HmLossTerm &term : session.losses(HM_PROGRAM_STEP)) {
      out.losses.push_back(session.host(term.numerator)[0]);
      out.denominator = session.host(term.denominator)[0];
    }
    if (step > 0)
      continue;
    for (int p = 0; p < 3; ++p) {
      for (const HmGradient &gradient :
           session.blob->gradients(session.variable("w" + std::to_string(p)))) {
        float *from = session.dump(gradient.home);
        out.gradients[p].emplace_back(from, from + width);
      }
    }
  }
  result.evidence += session.compare(HM_PROGRAM_STEP, steps);
  session.engine->run(HM_PROGRAM_STORE);
  for (int p = 0; p < 3; ++p) {
    result.state.weights[p] = session.read("w" + std::to_string(p));
    result.state.momenta[p] =
        session.read("w" + std::to_string(p) + ".momentum");
  }
  if (!session.blob->has(HM_PROGRAM_EVALUATE))
    return;
  session.setBatch(0);
  session.driver->resetEvidence();
  session.engine->run(HM_PROGRAM_EVALUATE);
  session.engine->run(HM_PROGRAM_EVALUATE);
  result.evidence += session.compare(HM_PROGRAM_EVALUATE, 2);
  result.evaluationLoss =
      session.host(session.losses(HM_PROGRAM_EVALUATE)[0].numerator)[0];
  float *from = session.host(session.blob->outputs()[0].home);
  result.outputs.assign(from, from + batch * width);
}

} // namespace

RunResult runBlob(const std::vector<char> &blob,
                  const std::vector<std::string> &kernels, int64_t steps,
                  float rate, RunMode mode, uint64_t seed) {
  RunResult result;
  try {
    Session session(blob, kernels, mode, seed);
    run(session, steps, rate, result);
  } catch (const std::exception &error) {
    result.error = error.what();
  }
  return result;
}

} // namespace harmony::test
