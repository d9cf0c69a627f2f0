//===- ModelRunner.cpp - A model through the first stages -----------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/fuzz/ModelRunner.h"

#include "compiler/Import/Import.h"
#include "dialects/NN/NN.h"
#include "dialects/ONNX/InitializerData.h"
#include "dialects/ONNX/ONNX.h"
#include "passes/Normalize/Passes.h"
#include "test/fuzz/Sandbox.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Pass/PassManager.h"

#include <memory>

using namespace mlir;

namespace harmony::fuzz {
namespace {

/// A context and the errors emitted in it. It keeps every attribute that was
/// ever made in it, so a new one is made now and then.
struct Session {
  Session() : context(MLIRContext::Threading::DISABLED) {
    context.loadDialect<nn::NNDialect, onnx::ONNXDialect, func::FuncDialect,
                        arith::ArithDialect, math::MathDialect>();
    context.getDiagEngine().registerHandler([this](Diagnostic &diagnostic) {
      if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
        errors += diagnostic.str() + "\n";
      return success();
    });
  }

  /// A failure has a message, and a success none.
  void check(const char *stage, bool worked) {
    if (worked != errors.empty())
      fail(std::string(stage) + (worked
                                     ? " works with the error: " + errors
                                     : std::string(" fails without an error")));
  }

  MLIRContext context;
  std::string errors;
};

Session &startSession() {
  constexpr int runsPerContext = 200;
  static std::unique_ptr<Session> session;
  static int runs = 0;
  if (runs++ % runsPerContext == 0)
    session = std::make_unique<Session>();
  session->errors.clear();
  return *session;
}

/// Adds the bytes up, so that each is read.
void readAll(ModuleOp module) {
  onnx::FileMap files(module);
  volatile unsigned sum = 0;
  for (auto initializer : module.getOps<onnx::InitializerOp>()) {
    FailureOr<ArrayRef<char>> bytes =
        onnx::getInitializerBytes(initializer, files);
    if (failed(bytes))
      continue; // the file was exchanged: not while a fuzzer runs
    for (char byte : *bytes)
      sum = sum + static_cast<unsigned char>(byte);
  }
}

} // namespace

void runImport(const std::string &path) {
  Session &session = startSession();
  OwningOpRef<ModuleOp> module = importModel(path, session.context);
  session.check("import", bool(module));
  if (!module)
    return;
  readAll(*module);
  session.check("reading initializers", true);
  std::string copy = path + ".copy.onnx";
  bool written = succeeded(exportModel(*module, copy));
  session.check("export", written);
  if (written && !importModel(copy, session.context))
    fail("what was exported is refused: " + session.errors);
}

void runNormalize(const std::string &path, const RunOptions &options) {
  Session &session = startSession();
  OwningOpRef<ModuleOp> module = importModel(path, session.context);
  session.check("import", bool(module));
  if (!module)
    return;
  NormalizeOptions normalize;
  normalize.dims = options.dims;
  normalize.loss = options.loss;
  normalize.forward = options.forward;
  auto run = [&](std::unique_ptr<Pass> pass) {
    PassManager manager(&session.context);
    manager.addPass(std::move(pass));
    return succeeded(manager.run(*module));
  };
  bool worked = run(createNormalizePass(normalize));
  session.check("normalisation", worked);
  if (worked && !run(createVerifyNormalizedPass()))
    fail("what was normalised does not verify: " + session.errors);
}

} // namespace harmony::fuzz
