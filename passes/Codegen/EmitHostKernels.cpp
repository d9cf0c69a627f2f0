//===- EmitHostKernels.cpp - Kernels of functions, for tests --------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Codegen/Kernel.h"
#include "passes/Codegen/KernelFunctions.h"
#include "passes/Codegen/Passes.h"

namespace harmony::codegen {
#define GEN_PASS_DEF_EMITHOSTKERNELSPASS
#include "passes/Codegen/Passes.h.inc"
} // namespace harmony::codegen

using namespace mlir;
using namespace harmony;
using namespace harmony::codegen;

FailureOr<Operation *> harmony::codegen::getOnlyKernel(func::FuncOp function) {
  Block &body = function.getBody().front();
  if (!llvm::hasNItems(body, 2))
    return function.emitOpError("must hold one kernel and a return"), failure();
  return &body.front();
}

KernelSpec harmony::codegen::makeRowMajorSpec(Operation *op) {
  KernelSpec spec{op, {}, {}, {}, {}};
  auto getView = [](Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    return tensor && tensor.hasStaticShape() ? View::rowMajor(tensor.getShape())
                                             : View();
  };
  for (Type type : op->getOperandTypes())
    spec.operands.push_back(getView(type));
  for (Type type : op->getResultTypes())
    spec.results.push_back(getView(type));
  return spec;
}

static ArrayAttr describe(const EmittedKernel &kernel, Builder &builder) {
  SmallVector<Attribute> launches;
  for (const Launch &launch : kernel.launches) {
    SmallVector<Attribute> arguments;
    for (const Argument &argument : launch.arguments) {
      constexpr StringRef names[] = {"operand ", "result ", "temporary "};
      arguments.push_back(
          builder.getStringAttr(names[argument.kind] + Twine(argument.index) +
                                (argument.written ? " written" : "")));
    }
    launches.push_back(builder.getDictionaryAttr(
        {builder.getNamedAttr(
             "function",
             FlatSymbolRefAttr::get(builder.getContext(), launch.function)),
         builder.getNamedAttr("extent",
                              builder.getI64IntegerAttr(launch.extent)),
         builder.getNamedAttr("grain", builder.getI64IntegerAttr(launch.grain)),
         builder.getNamedAttr("arguments", builder.getArrayAttr(arguments))}));
  }
  return builder.getArrayAttr(launches);
}

namespace {
struct EmitHostKernels
    : harmony::codegen::impl::EmitHostKernelsPassBase<EmitHostKernels> {
  using EmitHostKernelsPassBase::EmitHostKernelsPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    Builder builder(module.getContext());
    for (func::FuncOp function :
         llvm::to_vector(module.getOps<func::FuncOp>())) {
      FailureOr<Operation *> op = getOnlyKernel(function);
      if (failed(op))
        return signalPassFailure();
      KernelSpec spec = makeRowMajorSpec(*op);
      spec.accumulate.assign(spec.results.size(), accumulate);
      if (inPlace)
        for (size_t i = 0; i < spec.results.size(); ++i)
          spec.inPlace.push_back(i);
      std::string name = function.getName().str();
      OwningOpRef<ModuleOp> kernels = ModuleOp::create(module.getLoc());
      FailureOr<EmittedKernel> kernel = emitHostKernel(spec, *kernels);
      if (failed(kernel))
        return signalPassFailure();
      module->setAttr("codegen." + name, describe(*kernel, builder));
      function.erase();
      for (Operation &made : llvm::make_early_inc_range(*kernels->getBody())) {
        if (module.lookupSymbol(SymbolTable::getSymbolName(&made)))
          continue;
        made.moveBefore(module.getBody(), module.getBody()->end());
      }
    }
  }
};
} // namespace
