//===- harmony-translate.cpp - ONNX models to MLIR and back ---------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Import/Import.h"
#include "dialects/ONNX/ONNX.h"

#include "mlir/IR/AsmState.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Support/FileUtilities.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/ToolOutputFile.h"

using namespace mlir;
namespace cl = llvm::cl;

namespace {
enum class Action { ImportOnnx, MLIRToOnnx, OnnxToText };
} // namespace

static cl::OptionCategory category("harmony-translate options");

static cl::opt<Action> action(
    cl::desc("What to do:"), cl::Required, cl::cat(category),
    cl::values(
        clEnumValN(Action::ImportOnnx, "import-onnx",
                   "ONNX (.onnx, .onnxtext, .textproto) to the onnx dialect"),
        clEnumValN(Action::MLIRToOnnx, "mlir-to-onnx",
                   "The onnx dialect to ONNX"),
        clEnumValN(Action::OnnxToText, "onnx-to-text",
                   "Print a model file as text, without checks")));

static cl::opt<std::string> inputPath(cl::Positional, cl::desc("<input>"),
                                      cl::init("-"), cl::cat(category));

static cl::opt<std::string>
    outputPath("o", cl::desc("Output file (- is standard output)"),
               cl::value_desc("file"), cl::init("-"), cl::cat(category));

static cl::opt<harmony::ModelFormat> format(
    "format",
    cl::desc(
        "Form of a written model; by default the output file's ending tells"),
    cl::cat(category),
    cl::values(clEnumValN(harmony::ModelFormat::Binary, "onnx", "protobuf"),
               clEnumValN(harmony::ModelFormat::OnnxText, "onnxtext",
                          "ONNX text"),
               clEnumValN(harmony::ModelFormat::ProtoText, "textproto",
                          "protobuf text")));

static cl::opt<bool> nodeMetadata("node-metadata",
                                  cl::desc("Import the metadata of nodes"),
                                  cl::cat(category));

static LogicalResult writeModel(MLIRContext &context, raw_ostream &stream) {
  llvm::SourceMgr sources;
  SourceMgrDiagnosticHandler handler(sources, &context);
  OwningOpRef<ModuleOp> module =
      parseSourceFile<ModuleOp>(inputPath, sources, &context);
  if (!module)
    return failure();
  harmony::ModelFormat chosen =
      format.getNumOccurrences() ? format : harmony::getModelFormat(outputPath);
  if (outputPath != "-")
    return harmony::exportModel(*module, outputPath, chosen);
  return harmony::exportModel(*module, stream, chosen);
}

static LogicalResult run(MLIRContext &context) {
  if (action == Action::MLIRToOnnx)
    return writeModel(context, llvm::outs());
  std::string error;
  auto output = openOutputFile(outputPath, &error);
  if (!output) {
    llvm::errs() << "error: " << error << '\n';
    return failure();
  }
  if (action == Action::OnnxToText) {
    if (failed(harmony::printModelFile(inputPath, context, output->os())))
      return failure();
  } else {
    OwningOpRef<ModuleOp> module = harmony::importModel(
        inputPath, context, {/*nodeMetadata=*/nodeMetadata});
    if (!module)
      return failure();
    module->print(output->os());
    output->os() << '\n';
  }
  output->keep();
  return success();
}

int main(int argc, char **argv) {
  llvm::InitLLVM initialization(argc, argv);
  registerAsmPrinterCLOptions();
  registerMLIRContextCLOptions();
  cl::ParseCommandLineOptions(argc, argv, "ONNX models to MLIR and back\n");
  MLIRContext context;
  context.loadDialect<harmony::onnx::ONNXDialect>();
  // Messages of the importer tell by themselves where they belong.
  context.getDiagEngine().registerHandler([](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
      llvm::errs() << "error: ";
    if (!isa<UnknownLoc>(diagnostic.getLocation()))
      llvm::errs() << diagnostic.getLocation() << ": ";
    llvm::errs() << diagnostic << '\n';
    for (Diagnostic &note : diagnostic.getNotes())
      llvm::errs() << "note: " << note << '\n';
    return success();
  });
  return failed(run(context));
}
