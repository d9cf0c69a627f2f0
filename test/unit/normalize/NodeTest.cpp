//===- NodeTest.cpp - ONNX's own node tests -------------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs over a folder of ONNX node tests (model.onnx, test_data_set_0/*.pb),
// named by the environment variable HARMONY_ONNX_NODE_TESTS; skipped without
// it. A model that is refused is counted, a wrong result is a failure.
//
//===----------------------------------------------------------------------===//

#include "Support.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

using namespace mlir;
using namespace harmony;
using namespace harmony::test;
using nn::HostTensor;

namespace {

bool isClose(double a, double b) {
  if (std::isnan(a) || std::isnan(b))
    return std::isnan(a) && std::isnan(b);
  return a == b || std::fabs(a - b) <= 1e-6 + 1e-3 * std::fabs(b);
}

enum class Outcome { Refused, Passed, Failed };

std::vector<std::string> listInputs(const std::string &folder) {
  std::vector<std::string> files;
  for (;;) {
    std::string file = folder + "/test_data_set_0/input_" +
                       std::to_string(files.size()) + ".pb";
    if (!llvm::sys::fs::exists(file))
      return files;
    files.push_back(file);
  }
}

Outcome runModel(const std::string &path, const std::string &folder,
                 const NormalizeOptions &options, std::string &message) {
  Model model(path, options);
  if (!model.ok) {
    message = model.messages;
    return Outcome::Refused;
  }
  func::FuncOp main = model.function("main");
  std::map<std::string, std::string> files;
  for (const std::string &file : listInputs(folder))
    files[readTensorName(file)] = file;
  std::vector<HostTensor> inputs(main.getNumArguments());
  for (auto [i, input] : llvm::enumerate(inputs)) {
    std::string name =
        main.getArgAttrOfType<StringAttr>(i, nn::kNameAttr).getValue().str();
    if (!readTensorProto(files[name], model.context, input)) {
      message = "input " + name + " is of a type that this test does not read";
      return Outcome::Refused;
    }
  }
  nn::EvaluateOptions evaluation;
  evaluation.roundToFloat = true;
  FailureOr<SmallVector<HostTensor>> results =
      nn::evaluate(main, inputs, evaluation);
  if (failed(results)) {
    message = model.messages;
    return Outcome::Failed;
  }
  for (auto [i, result] : llvm::enumerate(*results)) {
    HostTensor expected;
    if (!readTensorProto(folder + "/test_data_set_0/output_" +
                             std::to_string(i) + ".pb",
                         model.context, expected))
      continue;
    bool same = expected.shape == result.shape &&
                expected.isFloat() == result.isFloat();
    for (int64_t j = 0; same && j < result.size(); ++j)
      same = result.isFloat() ? isClose(result.floats[j], expected.floats[j])
                              : result.integers[j] == expected.integers[j];
    if (!same) {
      message = "output " + std::to_string(i) + " differs";
      return Outcome::Failed;
    }
  }
  return Outcome::Passed;
}

/// What is refused is tried again with what may be a shape, axes or scales as
/// constants: integers, and few floats other than the first input.
Outcome runNodeTest(const std::string &folder, std::string &message) {
  NormalizeOptions options;
  options.forward = true;
  std::string path = folder + "/model.onnx";
  Outcome outcome = runModel(path, folder, options, message);
  if (outcome != Outcome::Refused)
    return outcome;
  MLIRContext context;
  std::vector<std::string> constants;
  for (auto [i, file] : llvm::enumerate(listInputs(folder))) {
    HostTensor tensor;
    if (readTensorProto(file, context, tensor) &&
        (!tensor.isFloat() || (i > 0 && tensor.size() <= 16)))
      constants.push_back(file);
  }
  if (constants.empty())
    return outcome;
  options.freeze = {".*"};
  std::string changed = writeModelWithInitializers(path, constants);
  outcome = runModel(changed, folder, options, message);
  llvm::sys::fs::remove(changed);
  return outcome;
}

TEST(NodeTest, MatchesOnnx) {
  // Debian's libonnx-testdata, unless another folder is named.
  const char *chosen = std::getenv("HARMONY_ONNX_NODE_TESTS");
  std::string root = chosen ? chosen : "/usr/share/libonnx-testdata/data/node";
  if (!llvm::sys::fs::is_directory(root))
    GTEST_SKIP() << root << " does not exist (package libonnx-testdata)";
  std::set<std::string> folders;
  std::error_code error;
  for (llvm::sys::fs::directory_iterator it(root, error), end;
       it != end && !error; it.increment(error))
    if (llvm::sys::fs::exists(it->path() + "/model.onnx"))
      folders.insert(it->path());
  ASSERT_FALSE(folders.empty());
  int passed = 0, refused = 0;
  bool isVerbose = std::getenv("HARMONY_VERBOSE") != nullptr;
  for (const std::string &folder : folders) {
    StringRef name = llvm::sys::path::filename(folder);
    // Bfloat16 data are stored as integers there; negative indices in a graph
    // input are for the data loader to refuse; what is drawn is not compared.
    if (name.contains("BFLOAT16") || name.contains("bernoulli") ||
        name == "test_gather_negative_indices" ||
        name == "test_gather_elements_negative_indices")
      continue;
    std::string message;
    Outcome outcome = runNodeTest(folder, message);
    passed += outcome == Outcome::Passed;
    refused += outcome == Outcome::Refused;
    EXPECT_NE(outcome, Outcome::Failed) << folder << ": " << message;
    if (isVerbose && outcome == Outcome::Refused)
      std::cout << "refused " << folder << ": " << message;
  }
  // What is converted today stays converted.
  EXPECT_GE(passed, 733);
  std::cout << passed << " passed, " << refused << " refused of "
            << folders.size() << "\n";
}

} // namespace
