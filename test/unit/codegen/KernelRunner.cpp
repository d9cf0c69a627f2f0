//===- KernelRunner.cpp - Compile and run one kernel ----------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/unit/codegen/KernelRunner.h"

#include "passes/Codegen/Passes.h"
#include "runtime/program.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"

#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <random>
#include <unistd.h>

using namespace mlir;
using namespace harmony;
using namespace harmony::test;
using namespace harmony::codegen;

static MLIRContext &getContext() {
  static MLIRContext *context = [] {
    auto *made = new MLIRContext(MLIRContext::Threading::DISABLED);
    made->loadDialect<nn::NNDialect, func::FuncDialect, arith::ArithDialect,
                      math::MathDialect, scf::SCFDialect, vector::VectorDialect,
                      LLVM::LLVMDialect>();
    return made;
  }();
  return *context;
}

static int64_t bytesOf(Type element) {
  return std::max(1u, element.getIntOrFloatBitWidth() / 8);
}

View KernelRunner::makeView(RankedTensorType type, int64_t &elements) const {
  if (!options.strided) {
    elements = type.getNumElements();
    return View::rowMajor(type.getShape());
  }
  View view;
  int64_t stride = 1;
  for (int64_t extent : type.getShape()) {
    view.strides.push_back(stride);
    stride *= extent + 1;
  }
  elements = stride;
  return view;
}

KernelRunner::KernelRunner(StringRef text, RunnerOptions options)
    : options(options), context(getContext()) {
  module = parseSourceString<ModuleOp>(text, &context);
  if (!module)
    return;
  function = module->lookupSymbol<func::FuncOp>("f");
  Block &body = function.getBody().front();
  Operation *terminator = body.getTerminator();
  returned = terminator->getNumOperands();

  Operation *op = &body.front();
  if (!llvm::hasNItems(body, 2) || options.storeAll ||
      isa<arith::ConstantOp>(op)) {
    SmallVector<Value> values(terminator->getOperands());
    if (options.storeAll)
      for (Operation &inner : body.without_terminator())
        for (Value value : inner.getResults())
          if (!llvm::is_contained(values, value))
            values.push_back(value);
    OpBuilder builder(terminator);
    auto group =
        nn::GroupOp::create(builder, function.getLoc(),
                            TypeRange(ValueRange(values)), body.getArguments());
    Block *block = &group.getBody().emplaceBlock();
    IRMapping mapping;
    for (Value argument : body.getArguments())
      mapping.map(argument,
                  block->addArgument(argument.getType(), argument.getLoc()));
    builder.setInsertionPointToEnd(block);
    for (Operation &inner : body.without_terminator())
      if (&inner != group)
        builder.clone(inner, mapping);
    SmallVector<Value> yielded;
    for (Value value : values)
      yielded.push_back(mapping.lookup(value));
    nn::YieldOp::create(builder, function.getLoc(), yielded);
    op = group;
  }
  spec.op = op;
  spec.inPlace = options.inPlace;
  spec.accumulate.assign(op->getNumResults(), options.accumulate);
  for (Type type : op->getOperandTypes())
    spec.operands.push_back(
        makeView(cast<RankedTensorType>(type), operandElements.emplace_back()));
  for (Type type : op->getResultTypes()) {
    resultTypes.push_back(cast<RankedTensorType>(type));
    spec.results.push_back(
        makeView(resultTypes.back(), resultElements.emplace_back()));
  }
  kernels = ModuleOp::create(function.getLoc());
  FailureOr<EmittedKernel> emitted = emitHostKernel(spec, *kernels);
  if (failed(emitted))
    return;
  kernel = *emitted;
  if (getenv("CODEGEN_TEST_DUMP"))
    kernels->dump();
  if (failed(verify(*kernels)))
    return;
  PassManager manager(&context);
  buildLowerHostKernels(manager);
  valid = succeeded(manager.run(*kernels));
}

KernelRunner::~KernelRunner() {
  if (library)
    dlclose(library);
}

bool KernelRunner::compile(HostTarget target) {
  bool isDouble = llvm::any_of(spec.op->getOperandTypes(), [](Type type) {
    return cast<RankedTensorType>(type).getElementType().isF64();
  });
  ObjectOptions objectOptions;
  objectOptions.allowLibraryCalls = isDouble;
  auto object = compileToObject(*kernels, target, objectOptions);
  if (failed(object))
    return false;
  std::string error;
  auto shared = linkSharedObject(*object, error);
  if (failed(shared)) {
    fprintf(stderr, "%s\n", error.c_str());
    return false;
  }
  char path[] = "/tmp/codegen_testXXXXXX";
  int descriptor = mkstemp(path);
  bool written = write(descriptor, shared->data(), shared->size()) ==
                 static_cast<ssize_t>(shared->size());
  close(descriptor);
  if (library)
    dlclose(library);
  library = written ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;
  if (!library)
    fprintf(stderr, "%s\n", dlerror());
  unlink(path);
  return library;
}

void KernelRunner::makeInputs(unsigned seed, int64_t limit) {
  std::mt19937 random(seed);
  inputs.clear();
  for (Type type : function.getArgumentTypes()) {
    nn::HostTensor tensor(cast<RankedTensorType>(type));
    std::uniform_real_distribution<float> real(-2, 2);
    std::uniform_int_distribution<int64_t> integer(
        0, tensor.element.isInteger(1) ? 1 : limit - 1);
    for (double &value : tensor.floats)
      value = real(random);
    for (int64_t &value : tensor.integers)
      value = integer(random);
    inputs.push_back(std::move(tensor));
  }
}

static void setElement(char *at, Type element, double real, int64_t integer) {
  if (element.isF32()) {
    float value = real;
    memcpy(at, &value, 4);
  } else if (element.isF64()) {
    memcpy(at, &real, 8);
  } else {
    memcpy(at, &integer, bytesOf(element));
  }
}

/// Calls visit(offset) for every element in row-major order.
static void forElements(ArrayRef<int64_t> shape, ArrayRef<int64_t> strides,
                        llvm::function_ref<void(int64_t)> visit) {
  SmallVector<int64_t> index(shape.size(), 0);
  while (true) {
    int64_t offset = 0;
    for (auto [i, stride] : llvm::zip_equal(index, strides))
      offset += i * stride;
    visit(offset);
    int64_t axis = shape.size() - 1;
    for (; axis >= 0 && ++index[axis] == shape[axis]; --axis)
      index[axis] = 0;
    if (axis < 0)
      return;
  }
}

std::vector<Bytes> KernelRunner::run(int64_t split) {
  std::vector<Bytes> operands, results, temporaries;
  for (size_t index = 0; index < inputs.size(); ++index) {
    const nn::HostTensor &input = inputs[index];
    int64_t width = bytesOf(input.element);
    // Bytes that no element has stand out in results that read them.
    Bytes bytes(operandElements[index] * width, '\x7f');
    size_t next = 0;
    forElements(input.shape, spec.operands[index].strides, [&](int64_t offset) {
      setElement(&bytes[offset * width], input.element,
                 input.isFloat() ? input.floats[next] : 0,
                 input.isFloat() ? 0 : input.integers[next]);
      ++next;
    });
    operands.push_back(std::move(bytes));
  }
  for (size_t index = 0; index < resultTypes.size(); ++index) {
    RankedTensorType type = resultTypes[index];
    int64_t width = bytesOf(type.getElementType());
    Bytes bytes(resultElements[index] * width, '\x7f');
    if (options.accumulate)
      forElements(
          type.getShape(), spec.results[index].strides, [&](int64_t offset) {
            setElement(&bytes[offset * width], type.getElementType(), kOld, 0);
          });
    if (index < options.inPlace.size() && options.inPlace[index] >= 0)
      bytes = operands[options.inPlace[index]];
    results.push_back(std::move(bytes));
  }
  for (int64_t bytes : kernel.temporaries)
    temporaries.push_back(Bytes(bytes, '\x7f'));

  for (const Launch &launch : kernel.launches) {
    auto function = reinterpret_cast<HmRangeFunction>(
        dlsym(library, launch.function.c_str()));
    if (!function) {
      fprintf(stderr, "no function %s\n", launch.function.c_str());
      return {};
    }
    std::vector<void *> buffers;
    for (const Argument &argument : launch.arguments)
      buffers.push_back(
          (argument.kind == Argument::Operand  ? operands[argument.index]
           : argument.kind == Argument::Result ? results[argument.index]
                                               : temporaries[argument.index])
              .data());
    int64_t step = split ? split : launch.extent;
    // From the last piece to the first: ranges must not depend on each other.
    for (int64_t begin = (launch.extent - 1) / step * step; begin >= 0;
         begin -= step)
      function(buffers.data(), begin, std::min(begin + step, launch.extent));
  }

  std::vector<Bytes> packed;
  for (size_t index = 0; index < resultTypes.size(); ++index) {
    RankedTensorType type = resultTypes[index];
    int64_t width = bytesOf(type.getElementType());
    Bytes bytes;
    forElements(type.getShape(), spec.results[index].strides,
                [&](int64_t offset) {
                  bytes.insert(bytes.end(), &results[index][offset * width],
                               &results[index][offset * width] + width);
                });
    packed.push_back(std::move(bytes));
  }
  return packed;
}

std::vector<nn::HostTensor> KernelRunner::evaluate() {
  auto results = nn::evaluate(function, inputs);
  if (failed(results))
    return {};
  return {results->begin(), results->end()};
}

std::vector<double> KernelRunner::toNumbers(const Bytes &bytes, Type element) {
  std::vector<double> numbers;
  int64_t width = bytesOf(element);
  for (size_t at = 0; at < bytes.size(); at += width) {
    if (element.isF32()) {
      float value;
      memcpy(&value, &bytes[at], 4);
      numbers.push_back(value);
    } else if (element.isF64()) {
      double value;
      memcpy(&value, &bytes[at], 8);
      numbers.push_back(value);
    } else {
      int64_t value = 0;
      memcpy(&value, &bytes[at], width);
      if (width == 4)
        value = static_cast<int32_t>(value);
      numbers.push_back(value);
    }
  }
  return numbers;
}
