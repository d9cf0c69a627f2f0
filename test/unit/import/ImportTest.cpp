//===- ImportTest.cpp - Tests of the front end's interfaces ---------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Import/Import.h"
#include "dialects/ONNX/InitializerData.h"
#include "dialects/ONNX/ONNX.h"
#include "dialects/ONNX/Schema.h"
#include "test/unit/runtime/TemporaryFolder.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

#include <cstring>
#include <sys/stat.h>

using namespace mlir;
using namespace harmony;

namespace {

/// A folder that goes with the test, and a context that collects errors.
class ImportTest : public testing::Test {
protected:
  ImportTest() {
    context.loadDialect<onnx::ONNXDialect>();
    context.getDiagEngine().registerHandler(
        [this](Diagnostic &diagnostic) { errors.push_back(diagnostic.str()); });
  }

  std::string write(const std::string &name, const std::string &text) {
    std::string path = folder / name;
    runtime::test::writeFile(path, text);
    return path;
  }

  OwningOpRef<ModuleOp> parse(const std::string &text) {
    return parseSourceString<ModuleOp>(text, &context);
  }

  /// The bytes of the only initializer of `text`, as values of type T.
  template <typename T>
  std::vector<T> read(const std::string &text) {
    OwningOpRef<ModuleOp> module = parse(text);
    onnx::FileMap files(folder.getPath());
    auto initializer = *module->getOps<onnx::InitializerOp>().begin();
    FailureOr<ArrayRef<char>> bytes =
        onnx::getInitializerBytes(initializer, files);
    if (failed(bytes))
      return {};
    EXPECT_EQ(bytes->size(), initializer.getByteSize());
    std::vector<T> values(bytes->size() / sizeof(T));
    std::memcpy(values.data(), bytes->data(), bytes->size());
    return values;
  }

  MLIRContext context;
  runtime::test::TemporaryFolder folder;
  std::vector<std::string> errors;
};

TEST_F(ImportTest, ReadsDenseInitializers) {
  EXPECT_EQ(read<float>("onnx.initializer @w : tensor<2xf32> = dense<[1.5, "
                        "-2.0]> : tensor<2xf32>"),
            (std::vector<float>{1.5f, -2.0f}));
  // A splat is stored once and read in full.
  EXPECT_EQ(
      read<int64_t>(
          "onnx.initializer @w : tensor<3xi64> = dense<7> : tensor<3xi64>"),
      (std::vector<int64_t>{7, 7, 7}));
  // Booleans take a byte each.
  EXPECT_EQ(read<uint8_t>("onnx.initializer @w : tensor<3xi1> = dense<[1, 0, "
                          "1]> : tensor<3xi1>"),
            (std::vector<uint8_t>{1, 0, 1}));
  EXPECT_EQ(read<uint8_t>(
                "onnx.initializer @w : tensor<2xi1> = dense<1> : tensor<2xi1>"),
            (std::vector<uint8_t>{1, 1}));
  EXPECT_EQ(
      read<float>(
          "onnx.initializer @w : tensor<0xf32> = dense<> : tensor<0xf32>"),
      std::vector<float>());
  EXPECT_TRUE(errors.empty());
}

TEST_F(ImportTest, ReadsResources) {
  EXPECT_EQ(read<float>("onnx.initializer @w : tensor<1xf32> = "
                        "dense_resource<w> : tensor<1xf32>\n"
                        "{-# dialect_resources: { builtin: { w: "
                        "\"0x040000000000803F\" } } #-}"),
            (std::vector<float>{1.0f}));
  // The data of a resource may be missing.
  EXPECT_TRUE(read<float>("onnx.initializer @w : tensor<1xf32> = "
                          "dense_resource<v> : tensor<1xf32>")
                  .empty());
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_NE(errors[0].find("\"w\": no data to read"), std::string::npos)
      << errors[0];
}

TEST_F(ImportTest, ReadsExternalData) {
  const float values[] = {0.0f, 1.5f, 2.5f};
  write("data",
        std::string(reinterpret_cast<const char *>(values), sizeof(values)));
  EXPECT_EQ(read<float>("onnx.initializer @w : tensor<2xf32> = "
                        "#onnx.external<\"data\", 4, 8>"),
            (std::vector<float>{1.5f, 2.5f}));
  // The last byte of the file, and nothing after it.
  EXPECT_EQ(read<float>("onnx.initializer @w : tensor<0xf32> = "
                        "#onnx.external<\"data\", 12, 0>"),
            std::vector<float>());
  EXPECT_TRUE(errors.empty());
  read<float>(
      "onnx.initializer @w : tensor<2xf32> = #onnx.external<\"data\", 8, 8>");
  // The end of the range overflows.
  read<float>("onnx.initializer @w : tensor<2xf32> = #onnx.external<\"data\", "
              "18446744073709551612, 8>");
  read<float>("onnx.initializer @w : tensor<2xf32> = "
              "#onnx.external<\"../data\", 0, 8>");
  ASSERT_EQ(errors.size(), 3u);
  EXPECT_NE(errors[0].find("\"w\": external file \"data\": bytes from 8, 8 "
                           "long, are wanted of a "
                           "file of 12 bytes"),
            std::string::npos)
      << errors[0];
  EXPECT_NE(errors[1].find("bytes from 18446744073709551612, 8 long"),
            std::string::npos)
      << errors[1];
  EXPECT_NE(errors[2].find("leads out of the folder"), std::string::npos)
      << errors[2];
}

TEST_F(ImportTest, APipeIsNoExternalFile) {
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  uint64_t size = 0;
  std::string error;
  EXPECT_EQ(onnx::openExternalFile(folder.getPath(), "pipe", size, error), -1);
  EXPECT_NE(error.find("is not a regular file"), std::string::npos) << error;
}

TEST_F(ImportTest, MakesElements) {
  auto type = RankedTensorType::get({2}, Float32Type::get(&context));
  const char bytes[8] = {};
  EXPECT_TRUE(isa<DenseElementsAttr>(onnx::makeElements(type, bytes, "w")));
  EXPECT_FALSE(onnx::makeElements(type, ArrayRef(bytes, 7), "w"));
  std::vector<char> large(64 * 1024 + 4);
  auto largeType = RankedTensorType::get(
      {static_cast<int64_t>(large.size() / 4)}, Float32Type::get(&context));
  EXPECT_TRUE(isa<DenseResourceElementsAttr>(
      onnx::makeElements(largeType, large, "w")));
}

// What `harmonyc export` does: a model comes in, other weights go out.
TEST_F(ImportTest, WritesChangedWeights) {
  std::string path =
      write("model.onnxtext", "<ir_version: 8, opset_import: [\"\" : 17]>\n"
                              "main (float[2] x) => (float[2] y)\n"
                              "<float[2] w = {1, 2}> { y = Add (x, w) }\n");
  OwningOpRef<ModuleOp> module = importModel(path, context);
  ASSERT_TRUE(module);
  auto initializer = *module->getOps<onnx::InitializerOp>().begin();
  const float trained[] = {3.0f, 4.0f};
  initializer.setValueAttr(onnx::makeElements(
      initializer.getTensorType(),
      ArrayRef(reinterpret_cast<const char *>(trained), sizeof(trained)), "w"));
  std::string out = folder / "trained.onnx";
  ASSERT_TRUE(succeeded(exportModel(*module, out)));
  EXPECT_FALSE(std::filesystem::exists(out + ".tmp"));

  OwningOpRef<ModuleOp> again = importModel(out, context);
  ASSERT_TRUE(again);
  onnx::FileMap files(*again);
  auto bytes = onnx::getInitializerBytes(
      *again->getOps<onnx::InitializerOp>().begin(), files);
  ASSERT_TRUE(succeeded(bytes));
  EXPECT_EQ(std::memcmp(bytes->data(), trained, sizeof(trained)), 0);
  EXPECT_TRUE(failed(exportModel(*module, folder / "none/model.onnx")));
}

TEST_F(ImportTest, FindsGraphsAndNames) {
  OwningOpRef<ModuleOp> module = parse(R"mlir(
    onnx.initializer @W : tensor<2xf32> = dense<1.0> : tensor<2xf32> {original_name = "the weight"}
    onnx.graph @algorithm(%x: tensor<2xf32> {onnx.name = "x"}) -> (tensor<2xf32> {onnx.name = "W1"}) {
      onnx.return %x : tensor<2xf32>
    }
    onnx.graph @inference(%x: tensor<2xf32> {onnx.name = "in"}) -> (tensor<2xf32> {onnx.name = "out"}) {
      %W = onnx.initial_value @W : tensor<2xf32>
      %0 = onnx.node "Add"(%x, %W) version 14 {} names ["sum"] : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
      onnx.return %0 : tensor<2xf32>
    }
    onnx.training @step algorithm @algorithm update [[@W, "W1"]]
  )mlir");
  ASSERT_TRUE(module);
  onnx::GraphOp main = onnx::getMainGraph(*module);
  ASSERT_TRUE(main);
  EXPECT_EQ(main.getSymName(), "inference");
  EXPECT_EQ(onnx::findResult(main, "out"), 0);
  EXPECT_EQ(onnx::findResult(main, "sum"), -1);
  auto node = *main.getOps<onnx::NodeOp>().begin();
  EXPECT_EQ(onnx::getValueName(node.getResult(0)), "sum");
  EXPECT_EQ(onnx::getValueName(node.getOperand(0)), "in");
  EXPECT_EQ(onnx::getValueName(node.getOperand(1)), "the weight");
  EXPECT_TRUE(node.hasInput(1));
  EXPECT_FALSE(node.hasInput(2));
  auto training = *module->getOps<onnx::TrainingOp>().begin();
  auto bindings = onnx::getBindings(training.getUpdate());
  ASSERT_EQ(bindings.size(), 1u);
  EXPECT_EQ(bindings[0].initializer.getValue(), "W");
  EXPECT_EQ(bindings[0].result, "W1");
}

TEST(SchemaTest, KnowsVersions) {
  EXPECT_EQ(onnx::getSinceVersion("Gemm", "", 12), 11);
  EXPECT_EQ(onnx::getSinceVersion("Gelu", "", 19), 0);
  EXPECT_EQ(onnx::getSinceVersion("Adam", "ai.onnx.preview.training", 1), 1);
  EXPECT_EQ(onnx::getVersions("Relu", ""),
            (std::vector<int64_t>{1, 6, 13, 14}));
  EXPECT_EQ(onnx::getNewestOpset("nobody"), 0);
  EXPECT_EQ(onnx::getAttributeKind("Gemm", "", 13, "alpha"),
            onnx::AttributeKind::Float);
}

} // namespace
