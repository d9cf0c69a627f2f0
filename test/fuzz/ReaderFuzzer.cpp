//===- ReaderFuzzer.cpp - Files that tools and executables read -----------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The first byte of the input says what the rest is:
//
//   n  .npy array           z  .npz archive         s  .safetensors data
//   w  weights file         b  program of an executable
//   m  machine              q  problem (profile)    p  plan
//
// Data, weights and programs are those of test/unit/runtime/LinearModel.h; a
// plan is verified against the problem that this file makes.
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/Json.h"
#include "compiler/Planner/Simulate.h"
#include "runtime/hal/Error.h"
#include "runtime/train/DataSet.h"
#include "runtime/train/Safetensors.h"
#include "runtime/train/Session.h"
#include "test/fuzz/DocumentMutator.h"
#include "test/fuzz/Random.h"
#include "test/fuzz/Sandbox.h"
#include "test/unit/planner/Problems.h"
#include "test/unit/runtime/LinearModel.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>

using namespace harmony;
using namespace harmony::fuzz;

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t maximum);

namespace {

/// A program without damage.
struct Linear {
  Linear() : bytes(runtime::test::linearModel().finish()) {}
  runtime::test::BlobBuilder::Bytes bytes;
  runtime::Blob blob{bytes.data.get(), bytes.size,
                     runtime::test::linearKernelCount};
};

/// Reads a data set to its last byte.
void readData(const Linear &linear, const std::string &source) {
  auto arrays = runtime::openSource(source);
  volatile unsigned sum = 0;
  for (const std::string &name : arrays->names())
    try {
      runtime::Array array = arrays->load(name);
      for (int64_t i = 0; i < array.bytes; ++i)
        sum = sum + static_cast<unsigned char>(array.data[i]);
    } catch (const runtime::Error &) {
      // The others may be readable.
    }
  runtime::DataSet data({source}, linear.blob, HM_PROGRAM_STEP);
  runtime::BatchFiller filler(linear.blob, data, HM_PROGRAM_STEP);
  std::vector<char> batch(static_cast<size_t>(linear.blob.header().batchBytes));
  std::vector<int64_t> indices(static_cast<size_t>(filler.batch()));
  std::iota(indices.begin(), indices.end(), 0);
  if (data.samples() >= filler.batch())
    filler.fill(batch.data(), indices.data());
}

void readWeights(const Linear &linear, const std::string &path) {
  runtime::Payload payload;
  payload.program = linear.bytes.data.get();
  payload.programSize = linear.bytes.size;
  payload.functions = harmony_kernels;
  payload.functionCount = runtime::test::linearKernelCount;
  runtime::Options options;
  options.initFrom = path;
  runtime::Session session(payload, linear.blob, options);
}

/// Checks a program. Loops are replayed by the check, iteration by iteration:
/// the counts that the blob has are made small.
void readBlob(const std::string &text) {
  std::unique_ptr<char, decltype(&std::free)> bytes(
      static_cast<char *>(std::aligned_alloc(64, (text.size() + 64) / 64 * 64)),
      &std::free);
  std::memcpy(bytes.get(), text.data(), text.size());
  HmHeader header;
  if (text.size() >= sizeof header) {
    std::memcpy(&header, text.data(), sizeof header);
    uint64_t at = header.commands.offset;
    for (uint32_t i = 0; i < header.commands.count; ++i) {
      HmCommand command;
      if (at + sizeof command > text.size())
        break;
      std::memcpy(&command, bytes.get() + at, sizeof command);
      if (command.op == HM_OP_LOOP)
        command.a %= 8;
      std::memcpy(bytes.get() + at, &command, sizeof command);
      at += sizeof command;
    }
  }
  runtime::Blob(bytes.get(), text.size(), runtime::test::linearKernelCount);
}

void readPlan(const std::string &text) {
  static const planner::Problem problem = planner::test::mlp({4, 8, 8, 3}, 8);
  static const planner::Machine machine = planner::Machine::uniform(
      "m", 2, int64_t(1) << 20, 1e9, 1e-6, planner::Link{0, 1, 1e9, 1e-6, {}});
  planner::Plan plan =
      planner::planFromJson(planner::parseJson(text, "plan"), "plan");
  if (plan.verify(problem, machine).empty())
    planner::simulate(plan, problem, machine);
}

/// A document that was read is written as it was read.
template <typename T>
void readDocument(const std::string &text,
                  T (*read)(const nlohmann::json &, const std::string &)) {
  T value = read(planner::parseJson(text, "file"), "file");
  std::string written = planner::toJson(value).dump();
  T again = read(planner::parseJson(written, "copy"), "copy");
  if (planner::toJson(again).dump() != written)
    fail("what was written reads differently");
}

void readInput(char kind, const std::string &text) {
  static Sandbox sandbox;
  static const Linear linear;
  auto write = [&](const std::string &name) {
    return sandbox.write(name, text.data(), text.size());
  };
  switch (kind) {
  case 'n':
    return readData(linear, "x=" + write("x.npy"));
  case 'z':
    return readData(linear, write("data.npz"));
  case 's':
    return readData(linear, write("data.safetensors"));
  case 'w':
    return readWeights(linear, write("weights.safetensors"));
  case 'b':
    return readBlob(text);
  case 'm':
    return readDocument(text, planner::machineFromJson);
  case 'q':
    return readDocument(text, planner::problemFromJson);
  case 'p':
    return readPlan(text);
  default:
    return;
  }
}

bool isDocument(uint8_t kind) {
  return kind == 'm' || kind == 'q' || kind == 'p';
}

/// Where the JSON header of a safetensors file is, if it is in its place.
bool findHeader(const std::string &text, size_t &length) {
  uint64_t size = 0;
  if (text.size() < 8)
    return false;
  std::memcpy(&size, text.data(), 8);
  length = static_cast<size_t>(size);
  return size <= text.size() - 8;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0)
    return 0;
  std::string text(reinterpret_cast<const char *>(data) + 1, size - 1);
  try {
    readInput(static_cast<char>(data[0]), text);
  } catch (const runtime::Error &error) {
    if (!*error.what())
      fail("an error without a message");
  } catch (const planner::Error &error) {
    if (!*error.what())
      fail("an error without a message");
  } // any other exception ends the process: a finding
  return 0;
}

/// Bytes as libFuzzer does; the values of documents and of headers every other
/// time.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size,
                                          size_t maximum, unsigned seed) {
  Random random(seed);
  if (size > 1 && random.oneIn(2)) {
    std::string text(reinterpret_cast<char *>(data) + 1, size - 1), changed;
    size_t length = 0;
    if (isDocument(data[0])) {
      changed = mutateDocument(text, random.next());
    } else if ((data[0] == 's' || data[0] == 'w') && findHeader(text, length)) {
      std::string header =
          mutateDocument(text.substr(8, length), random.next());
      uint64_t headerSize = header.size();
      if (!header.empty())
        changed = std::string(reinterpret_cast<char *>(&headerSize), 8) +
                  header + text.substr(8 + length);
    }
    if (!changed.empty() && changed.size() + 1 <= maximum) {
      std::memcpy(data + 1, changed.data(), changed.size());
      return changed.size() + 1;
    }
  }
  return LLVMFuzzerMutate(data, size, maximum);
}
