//===- TrainerFixture.h - Runs of a hand-made model -------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TEST_UNIT_RUNTIME_TRAINERFIXTURE_H
#define TEST_UNIT_RUNTIME_TRAINERFIXTURE_H

#include "runtime/hal/Error.h"
#include "runtime/train/Payload.h"
#include "runtime/train/Safetensors.h"
#include "runtime/train/Trainer.h"
#include "test/unit/runtime/LinearModel.h"
#include "test/unit/runtime/TemporaryFolder.h"

#include <array>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace harmony::runtime::test {

inline Array arrayOf(const std::string &key, HmType type,
                     std::vector<int64_t> shape, const void *data) {
  Array a;
  a.key = key;
  a.type = type;
  a.shape = std::move(shape);
  a.data = static_cast<const char *>(data);
  a.bytes = arrayBytes(type, a.shape);
  return a;
}

/// Runs the hand-made model of LinearModel.h in a folder of its own.
class TrainerTest : public testing::Test {
protected:
  void SetUp() override {
    std::copy(harmony_kernels, harmony_kernels + linearKernelCount, functions);
    executable = folder / "train";
    writeWeights(executable + HM_WEIGHTS_SUFFIX, {1, 2, 3});
    writeData(samples, {0, 1, 0, 1, 0});
    args = {"--no-shuffle", "--lr", "0.5", "--momentum", "0"};
  }

  void writeWeights(const std::string &path, const std::array<float, 3> &w,
                    const std::string &fingerprint = "f00d") {
    writeSafetensors(path, {arrayOf("w", HM_F32, {3}, w.data())},
                     {{HM_FINGERPRINT_KEY, fingerprint}});
  }

  void writeData(const std::vector<std::array<float, 3>> &x,
                 const std::vector<int64_t> &labels) {
    auto count = static_cast<int64_t>(x.size());
    writeSafetensors(data(),
                     {arrayOf("x", HM_F32, {count, 3}, x.data()),
                      arrayOf("labels", HM_I64, {count}, labels.data())},
                     {});
  }

  std::string data() const { return folder / "data.safetensors"; }

  /// Exit code; the message of an error is left in `message`.
  int run(const std::vector<std::string> &more) {
    bytes = builder.finish();
    if (tamper)
      tamper(bytes.header());
    Payload payload{bytes.data.get(), bytes.size, functions, linearKernelCount,
                    executable};
    std::vector<std::string> all = args;
    all.insert(all.end(), more.begin(), more.end());
    message.clear();
    testing::internal::CaptureStdout();
    int code;
    try {
      code = runExecutable(payload, all);
    } catch (const Error &error) {
      message = error.what();
      code = static_cast<int>(error.exitCode());
    }
    text = testing::internal::GetCapturedStdout();
    return code;
  }

  std::vector<float> weights(const std::string &path,
                             const std::string &name = "w") {
    SafetensorsFile file(path);
    const Array *a = file.find(name);
    auto *values = reinterpret_cast<const float *>(a->data);
    return {values, values + a->bytes / 4};
  }

  std::vector<nlohmann::json> log() {
    std::vector<nlohmann::json> rows;
    std::ifstream file(folder / "log.jsonl");
    for (std::string line; std::getline(file, line);)
      rows.push_back(nlohmann::json::parse(line));
    return rows;
  }

  /// w after `steps` steps over the five samples in order, and the losses.
  std::vector<float> train(int steps, std::vector<double> *losses = nullptr) {
    std::vector<float> w = {1, 2, 3};
    for (int t = 0; t < steps; ++t) {
      const auto &a = samples[t % 2 * 2], &b = samples[t % 2 * 2 + 1];
      double loss = 0;
      for (int j = 0; j < 3; ++j)
        loss += w[j] * (a[j] + b[j]) / 2;
      if (losses)
        losses->push_back(loss);
      for (int j = 0; j < 3; ++j)
        w[j] -= 0.5f * (a[j] / 2 + b[j] / 2);
    }
    return w;
  }

  const std::vector<std::array<float, 3>> samples = {
      {1, 0, 2}, {0, 1, -1}, {2, 2, 0}, {-1, 0, 4}, {8, 8, 8}};
  TemporaryFolder folder;
  std::string executable, message, text;
  BlobBuilder builder = linearModel();
  BlobBuilder::Bytes bytes;
  HmRangeFunction functions[linearKernelCount];
  std::vector<std::string> args;
  void (*tamper)(HmHeader &) = nullptr;
};

} // namespace harmony::runtime::test

#endif // TEST_UNIT_RUNTIME_TRAINERFIXTURE_H
