//===- EmitHostKernel.cpp - Row programs as range functions ---------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Codegen/Kernel.h"

#include "dialects/NN/Window.h"
#include "passes/Codegen/RowEmitter.h"
#include "passes/Codegen/ScatterAdd.h"
#include "passes/Codegen/Windows.h"
#include "runtime/program.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/xxhash.h"

using namespace mlir;
using namespace harmony;
using namespace harmony::codegen;

static std::string hash(StringRef text) {
  return llvm::utohexstr(llvm::xxh3_64bits(text), /*LowerCase=*/true, 16);
}

static std::string print(Operation *op) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  op->print(stream, OpPrintingFlags().useLocalScope());
  return text;
}

/// A constant table as read-only data; equal ones once.
static Value getTable(OpBuilder &builder, Location loc, ModuleOp kernels,
                      DenseElementsAttr table) {
  Type element = table.getElementType();
  DenseElementsAttr contents = table;
  if (element.isInteger(1)) { // a byte each
    SmallVector<int8_t> bytes;
    for (bool value : table.getValues<bool>())
      bytes.push_back(value);
    contents = DenseElementsAttr::get(
        RankedTensorType::get({table.getNumElements()}, builder.getI8Type()),
        ArrayRef<int8_t>(bytes));
  } else {
    contents =
        table.reshape(RankedTensorType::get({table.getNumElements()}, element));
  }
  std::string text;
  llvm::raw_string_ostream(text) << contents;
  std::string name = "table_" + hash(text);
  if (!kernels.lookupSymbol(name)) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(kernels.getBody());
    auto type = LLVM::LLVMArrayType::get(contents.getElementType(),
                                         contents.getNumElements());
    LLVM::GlobalOp::create(builder, loc, type, /*isConstant=*/true,
                           LLVM::Linkage::Internal, name, contents,
                           /*alignment=*/64);
  }
  return LLVM::AddressOfOp::create(
      builder, loc, LLVM::LLVMPointerType::get(builder.getContext()), name);
}

std::string harmony::codegen::buildRangeFunction(ModuleOp kernels, Location loc,
                                                 StringRef prefix,
                                                 unsigned count,
                                                 RangeBody body) {
  MLIRContext *context = kernels.getContext();
  OpBuilder builder(context);
  loc = UnknownLoc::get(context); // equal kernels of different layers are one
  builder.setInsertionPointToEnd(kernels.getBody());
  Type pointer = LLVM::LLVMPointerType::get(context),
       index = builder.getI64Type();

  // The body proper takes pointers that do not alias each other.
  SmallVector<Type> types(count, pointer);
  types.append(2, index);
  auto inner = func::FuncOp::create(builder, loc, "kernel",
                                    builder.getFunctionType(types, {}));
  inner.setPrivate();
  for (unsigned i = 0; i < count; ++i)
    inner.setArgAttr(i, LLVM::LLVMDialect::getNoAliasAttrName(),
                     builder.getUnitAttr());
  Block *entry = inner.addEntryBlock();
  builder.setInsertionPointToEnd(entry);
  func::ReturnOp::create(builder, loc);
  builder.setInsertionPoint(entry->getTerminator());
  SmallVector<Value> buffers(entry->getArguments().take_front(count));
  OpBuilder entryBuilder = OpBuilder::atBlockBegin(entry);
  auto allocate = [&](int64_t bytes) -> Value {
    OpBuilder::InsertionGuard guard(entryBuilder);
    entryBuilder.setInsertionPointToStart(entry);
    Value size = makeInteger(entryBuilder, loc, bytes);
    return LLVM::AllocaOp::create(entryBuilder, loc, pointer,
                                  entryBuilder.getI8Type(), size,
                                  /*alignment=*/64);
  };
  body(builder, loc, buffers, entry->getArgument(count),
       entry->getArgument(count + 1), allocate);

  std::string name = prefix.str() + "_" + hash(print(inner));
  if (kernels.lookupSymbol(name)) {
    inner.erase();
    return name;
  }
  inner.setName(name + ".body");

  builder.setInsertionPointToEnd(kernels.getBody());
  auto outer = func::FuncOp::create(
      builder, loc, name, builder.getFunctionType({pointer, index, index}, {}));
  entry = outer.addEntryBlock();
  builder.setInsertionPointToEnd(entry);
  SmallVector<Value> operands;
  for (unsigned i = 0; i < count; ++i)
    operands.push_back(loadElement(builder, loc, pointer, entry->getArgument(0),
                                   makeInteger(builder, loc, i)));
  operands.push_back(entry->getArgument(1));
  operands.push_back(entry->getArgument(2));
  func::CallOp::create(builder, loc, inner, operands);
  func::ReturnOp::create(builder, loc);
  return name;
}

static StringRef getPrefix(int family) {
  switch (family) {
  case HM_FAMILY_ROW:
    return "row";
  case HM_FAMILY_COLUMN:
    return "column";
  case HM_FAMILY_GATHER:
    return "gather";
  case HM_FAMILY_COPY:
    return "copy";
  default:
    return "map";
  }
}

static Launch emitProgram(const RowProgram &program, Location loc,
                          ModuleOp kernels) {
  Launch launch;
  launch.extent = program.getExtent();
  launch.grain = program.getGrain();
  launch.family = program.getFamily();
  for (const Memory &memory : program.memories)
    if (!memory.table)
      launch.arguments.push_back(memory.argument);
  launch.function = buildRangeFunction(
      kernels, loc, getPrefix(launch.family), launch.arguments.size(),
      [&](OpBuilder &builder, Location inner, ArrayRef<Value> pointers,
          Value begin, Value end, function_ref<Value(int64_t)> allocate) {
        HostLanes target;
        SmallVector<Value> buffers;
        for (const Memory &memory : program.memories) {
          if (memory.table) {
            buffers.push_back(getTable(builder, inner, kernels, memory.table));
          } else {
            buffers.push_back(pointers.front());
            pointers = pointers.drop_front();
          }
        }
        emitRowProgram(builder, inner, program,
                       {target, buffers, begin, end, allocate});
      });
  return launch;
}

/// Checks the parts of a specification against each other.
static LogicalResult verifySpec(const KernelSpec &spec) {
  Operation *op = spec.op;
  if (spec.operands.size() != op->getNumOperands() ||
      spec.results.size() != op->getNumResults())
    return op->emitOpError("as a kernel: has ")
           << spec.operands.size() << " operand views and "
           << spec.results.size() << " result views, expected "
           << op->getNumOperands() << " and " << op->getNumResults();
  auto hasRank = [](const View &view, Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    return tensor &&
           tensor.getRank() == static_cast<int64_t>(view.strides.size());
  };
  for (auto [view, type] :
       llvm::zip_equal(spec.operands, op->getOperandTypes()))
    if (!hasRank(view, type))
      return op->emitOpError("as a kernel: a view of rank ")
             << view.strides.size() << " does not fit operand type " << type;
  for (auto [view, type] : llvm::zip_equal(spec.results, op->getResultTypes()))
    if (!hasRank(view, type))
      return op->emitOpError("as a kernel: a view of rank ")
             << view.strides.size() << " does not fit result type " << type;
  return success();
}

FailureOr<EmittedKernel>
harmony::codegen::emitHostKernel(const KernelSpec &spec, ModuleOp kernels) {
  if (failed(verifySpec(spec)))
    return failure();
  if (auto scatter = dyn_cast<nn::ScatterAddOp>(spec.op))
    return emitScatterAdd(scatter, spec, kernels);
  if (nn::isWindowOp(spec.op))
    return emitWindowKernel(spec, kernels);
  FailureOr<Graph> graph = Graph::build(spec);
  if (failed(graph))
    return failure();
  std::vector<RowProgram> programs;
  if (failed(planRowPrograms(*graph, programs)))
    return failure();
  EmittedKernel kernel;
  for (const RowProgram &program : programs)
    kernel.launches.push_back(emitProgram(program, spec.op->getLoc(), kernels));
  kernel.temporaries = graph->temporaries;
  return kernel;
}
