//===- VerifyLayers.cpp - What form-layers promises -----------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Layers/Passes.h"

namespace harmony {
#define GEN_PASS_DEF_VERIFYLAYERSPASS
#include "passes/Layers/Passes.h.inc"
} // namespace harmony

using namespace mlir;
using namespace harmony;

namespace {
struct VerifyLayers : harmony::impl::VerifyLayersPassBase<VerifyLayers> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    SymbolTable symbols(module);
    DenseSet<Operation *> called;
    LogicalResult result = success();
    for (StringRef name : {kMainName, kEvaluateName})
      if (auto function = symbols.lookup<func::FuncOp>(name))
        if (failed(verifyChain(function, symbols, called,
                               /*trains=*/name == kMainName)))
          result = failure();
    for (auto function : module.getOps<func::FuncOp>())
      if (function->hasAttr(nn::kLayerAttr) && !called.contains(function))
        result = function.emitError("layer function is never called");
    if (failed(result))
      signalPassFailure();
  }

  static LogicalResult verifyChain(func::FuncOp function, SymbolTable &symbols,
                                   DenseSet<Operation *> &called, bool trains) {
    for (Operation &op : function.front().without_terminator()) {
      if (isa<nn::GetOp, nn::LossOp>(op))
        continue;
      if (auto assign = dyn_cast<nn::AssignOp>(op)) {
        if (failed(verifyAssign(assign, symbols)))
          return failure();
        continue;
      }
      auto call = dyn_cast<func::CallOp>(op);
      if (!call)
        return op.emitOpError("is not part of a layer: @")
               << function.getName()
               << " may hold nn.get, calls, nn.assign and nn.loss";
      auto layer = symbols.lookup<func::FuncOp>(call.getCallee());
      if (!layer || !layer->hasAttr(nn::kLayerAttr))
        return call.emitOpError("calls @")
               << call.getCallee() << ", which is not a layer function";
      called.insert(layer);
      // A value that one layer makes and another reads carries a gradient for
      // both or neither.
      for (auto [index, operand] : llvm::enumerate(call.getOperands())) {
        auto producer = operand.getDefiningOp<func::CallOp>();
        if (!trains || !producer)
          continue;
        bool expected =
            !!symbols.lookup<func::FuncOp>(producer.getCallee())
                  .getResultAttr(cast<OpResult>(operand).getResultNumber(),
                                 nn::kDifferentiableAttr);
        if (expected != !!layer.getArgAttr(index, nn::kDifferentiableAttr)) {
          auto error = layer.emitError("argument ")
                       << index << (expected ? " must" : " must not") << " be "
                       << nn::kDifferentiableAttr;
          error.attachNote(call.getLoc())
              << "it is called with a value of the chain here";
          return error;
        }
      }
    }
    return success();
  }

  /// A layer updates the variable that it is called with.
  static LogicalResult verifyAssign(nn::AssignOp assign, SymbolTable &symbols) {
    auto call = assign.getValue().getDefiningOp<func::CallOp>();
    auto layer =
        call ? symbols.lookup<func::FuncOp>(call.getCallee()) : func::FuncOp();
    auto argument =
        layer ? layer.getResultAttrOfType<IntegerAttr>(
                    cast<OpResult>(assign.getValue()).getResultNumber(),
                    nn::kAssignsAttr)
              : IntegerAttr();
    auto read =
        argument && argument.getInt() < call.getNumOperands()
            ? call.getOperand(argument.getInt()).getDefiningOp<nn::GetOp>()
            : nn::GetOp();
    if (read && read.getVariable() == assign.getVariable() &&
        assign.getValue().hasOneUse())
      return success();
    return assign.emitOpError(
               "must be the only reader of a layer's result that "
               "is marked ")
           << nn::kAssignsAttr << " and takes the place of the variable";
  }
};
} // namespace
