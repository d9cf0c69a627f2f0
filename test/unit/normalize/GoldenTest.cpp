//===- GoldenTest.cpp - Real exports against PyTorch's losses -------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every export of every model, normalised and evaluated in double precision,
// must give the loss that PyTorch computed; whatever the exporter did to the
// graph.
//
//===----------------------------------------------------------------------===//

#include "Support.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace mlir;
using namespace harmony;
using namespace harmony::test;
using nn::HostTensor;

namespace {

struct Export {
  const char *model, *file, *loss;
};

class GoldenTest : public testing::TestWithParam<Export> {};

TEST_P(GoldenTest, LossIsPyTorchs) {
  std::string folder =
      std::string(HARMONY_TEST_MODELS) + "/" + GetParam().model;
  NormalizeOptions options;
  options.loss = GetParam().loss;
  Model model(folder + "/" + GetParam().file, options);
  ASSERT_TRUE(model.ok) << model.messages;
  llvm::StringMap<HostTensor> golden =
      readSafetensors(folder + "/golden.safetensors", model.context);
  ASSERT_TRUE(golden.count("loss"));

  func::FuncOp main = model.function("main");
  std::vector<HostTensor> inputs;
  for (unsigned i = 0; i < main.getNumArguments(); ++i) {
    StringRef name =
        main.getArgAttrOfType<StringAttr>(i, nn::kNameAttr).getValue();
    auto tensor = golden.find(("input/" + name).str());
    ASSERT_NE(tensor, golden.end()) << name.str();
    inputs.push_back(tensor->second);
  }
  nn::EvaluateOptions evaluation;
  evaluation.samples = inputs[0].shape[0];
  SmallVector<double> losses;
  evaluation.losses = &losses;
  ASSERT_TRUE(succeeded(nn::evaluate(main, inputs, evaluation)))
      << model.messages;
  double loss = 0;
  for (double term : losses)
    loss += term;
  double expected = golden["loss"].floats[0];
  EXPECT_NEAR(loss, expected, 2e-6 * std::fabs(expected));
}

INSTANTIATE_TEST_SUITE_P(
    Exports, GoldenTest,
    testing::Values(Export{"mlp_digits", "train.onnx", ""},
                    Export{"mlp_digits", "train.ts17.onnx", ""},
                    Export{"mlp_digits", "train.default.onnx", ""},
                    Export{"mlp_digits", "infer.onnx", "cross-entropy"},
                    Export{"mlp_regress", "train.onnx", ""},
                    Export{"mlp_regress", "infer.onnx", "mse"},
                    Export{"nanogpt", "train.onnx", ""},
                    Export{"nanogpt", "train.ts17.onnx", ""},
                    Export{"nanogpt", "train.op23.onnx", ""},
                    Export{"nanogpt", "train.default.onnx", ""},
                    Export{"nanogpt", "infer.onnx", "cross-entropy"},
                    Export{"bert_classifier", "train.onnx", ""},
                    Export{"bert_classifier", "train.ts17.onnx", ""},
                    Export{"bert_classifier", "train.default.onnx", ""},
                    Export{"bert_classifier", "infer.onnx", "cross-entropy"},
                    Export{"convnet_bn", "train.onnx", ""},
                    Export{"convnet_bn", "train.ts17.onnx", ""},
                    Export{"llama_gqa", "train.onnx", ""},
                    Export{"llama_gqa", "train.default.onnx", ""},
                    Export{"rms_gqa", "train.onnx", ""},
                    Export{"rms_gqa", "train.op23.onnx", ""},
                    Export{"bert_mlm_tied", "train.onnx", ""},
                    Export{"bert_mlm_tied", "infer.onnx", "cross-entropy"},
                    Export{"gpt2_tied", "train.onnx", ""},
                    Export{"gpt2_tied", "train.default.onnx", ""}),
    [](const testing::TestParamInfo<Export> &info) {
      std::string name = std::string(info.param.model) + "_" + info.param.file;
      for (char &c : name)
        if (!std::isalnum(c))
          c = '_';
      return name;
    });

} // namespace
