//===- EmitGpuKernels.cpp - Row programs as GPU kernels -------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Codegen/KernelFunctions.h"
#include "passes/Codegen/Passes.h"
#include "passes/Codegen/RowEmitter.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace harmony::codegen {
#define GEN_PASS_DEF_EMITGPUKERNELSPASS
#include "passes/Codegen/Passes.h.inc"
} // namespace harmony::codegen

using namespace mlir;
using namespace harmony;
using namespace harmony::codegen;

/// Warps of a block: rows of a row program that run on one multiprocessor
/// together.
static constexpr int64_t kWarps = 4;

static Value getId(OpBuilder &builder, Location loc, bool isBlock) {
  Value id =
      isBlock
          ? gpu::BlockIdOp::create(builder, loc, gpu::Dimension::x).getResult()
          : gpu::ThreadIdOp::create(builder, loc, gpu::Dimension::x)
                .getResult();
  return arith::IndexCastOp::create(builder, loc, builder.getI64Type(), id);
}

/// One kernel: its buffers, then the extent of the range (i64).
static void emitKernel(OpBuilder &builder, Location loc, StringRef name,
                       const RowProgram &program) {
  Type pointer = LLVM::LLVMPointerType::get(builder.getContext()),
       index = builder.getI64Type();
  SmallVector<Type> types(program.memories.size(), pointer);
  types.push_back(index);
  auto function = gpu::GPUFuncOp::create(builder, loc, name,
                                         builder.getFunctionType(types, {}));
  function->setAttr(gpu::GPUDialect::getKernelFuncAttrName(),
                    builder.getUnitAttr());
  function.setKnownBlockSizeAttr(
      builder.getDenseI32ArrayAttr({kWarps * 32, 1, 1}));
  for (unsigned i = 0; i < program.memories.size(); ++i)
    function.setArgAttr(i, LLVM::LLVMDialect::getNoAliasAttrName(),
                        builder.getUnitAttr());
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToEnd(&function.getBody().front());
  gpu::ReturnOp::create(builder, loc);
  builder.setInsertionPoint(function.getBody().front().getTerminator());

  Value thread = getId(builder, loc, false), block = getId(builder, loc, true);
  Value width = makeInteger(builder, loc, kLanes),
        one = makeInteger(builder, loc, 1);
  Value lane = arith::RemUIOp::create(builder, loc, thread, width);
  Value warp = arith::AddIOp::create(
      builder, loc,
      arith::MulIOp::create(builder, loc, block,
                            makeInteger(builder, loc, kWarps)),
      arith::DivUIOp::create(builder, loc, thread, width));
  Value extent = function.getArgument(program.memories.size());
  Value begin = warp, step = one;
  if (program.flat) {
    begin = arith::MulIOp::create(builder, loc, warp, width);
    step = width;
  }
  Value end = arith::MinSIOp::create(
      builder, loc, arith::AddIOp::create(builder, loc, begin, step), extent);
  Value isInside = arith::CmpIOp::create(
      builder, loc, arith::CmpIPredicate::slt, begin, extent);
  auto inside =
      scf::IfOp::create(builder, loc, isInside, /*withElseRegion=*/false);
  builder.setInsertionPoint(inside.thenBlock()->getTerminator());
  GpuLanes target(lane);
  SmallVector<Value> buffers(
      function.getArguments().take_front(program.memories.size()));
  auto allocate = [](int64_t) { return Value(); };
  emitRowProgram(builder, loc, program,
                 {target, buffers, begin, end, allocate});
}

namespace {
struct EmitGpuKernels
    : harmony::codegen::impl::EmitGpuKernelsPassBase<EmitGpuKernels> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    OpBuilder builder(module.getContext());
    builder.setInsertionPointToEnd(module.getBody());
    auto kernels =
        gpu::GPUModuleOp::create(builder, module.getLoc(), "kernels");
    module->setAttr(gpu::GPUDialect::getContainerModuleAttrName(),
                    builder.getUnitAttr());
    for (auto function :
         llvm::make_early_inc_range(module.getOps<func::FuncOp>())) {
      FailureOr<Operation *> op = getOnlyKernel(function);
      if (failed(op))
        return signalPassFailure();
      KernelSpec spec = makeRowMajorSpec(*op);
      FailureOr<Graph> graph = Graph::build(spec);
      std::vector<RowProgram> programs;
      if (failed(graph) || failed(planRowPrograms(*graph, programs)))
        return signalPassFailure();
      for (auto [index, program] : llvm::enumerate(programs)) {
        if (llvm::any_of(program.memories, [](const Memory &memory) {
              return bool(memory.table);
            })) {
          (*op)->emitOpError(
              "as a kernel: tables of constants are not placed on GPUs");
          return signalPassFailure();
        }
        builder.setInsertionPointToEnd(kernels.getBody());
        std::string name = function.getName().str();
        if (programs.size() > 1)
          name += "." + std::to_string(index);
        emitKernel(builder, (*op)->getLoc(), name, program);
      }
      function.erase();
    }
  }
};
} // namespace
