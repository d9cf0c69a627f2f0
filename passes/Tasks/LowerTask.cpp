//===- LowerTask.cpp - Functions to launches ------------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Tasks/LowerTask.h"

#include "dialects/NN/Window.h"
#include "passes/Codegen/Kernel.h"
#include "passes/Tasks/BlockWindows.h"
#include "passes/Tasks/FormConvolutions.h"
#include "passes/Tasks/KernelWork.h"
#include "passes/Tasks/Placement.h"
#include "passes/Tasks/Product.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace harmony;

namespace {

/// The static clone of a function for one microbatch size.
OwningOpRef<func::FuncOp> instantiateFunction(func::FuncOp function,
                                              int64_t samples) {
  OwningOpRef<func::FuncOp> clone = cast<func::FuncOp>(function->clone());
  auto convert = [&](Type type) -> Type {
    auto tensor = dyn_cast<RankedTensorType>(type);
    return tensor ? nn::instantiate(tensor, samples) : type;
  };
  SmallVector<Type> inputs, results;
  for (Type type : clone->getArgumentTypes())
    inputs.push_back(convert(type));
  for (Type type : clone->getResultTypes())
    results.push_back(convert(type));
  clone->setType(FunctionType::get(function.getContext(), inputs, results));
  SmallVector<Operation *> counts;
  clone->walk([&](Operation *op) {
    for (Region &region : op->getRegions())
      for (Block &block : region)
        for (BlockArgument argument : block.getArguments())
          argument.setType(convert(argument.getType()));
    for (Value result : op->getResults())
      result.setType(convert(result.getType()));
    if (auto count = dyn_cast<nn::CountOp>(op)) {
      OpBuilder builder(op);
      auto type = cast<RankedTensorType>(count.getResult().getType());
      double elements = static_cast<double>(count.getFactor() * samples);
      Value constant = arith::ConstantOp::create(
          builder, op->getLoc(),
          DenseElementsAttr::get(
              type, builder.getFloatAttr(type.getElementType(), elements)
                        .getValue()));
      count.getResult().replaceAllUsesWith(constant);
      counts.push_back(count);
    }
    if (auto constant = dyn_cast<arith::ConstantOp>(op))
      if (auto splat = dyn_cast<SplatElementsAttr>(constant.getValue()))
        constant.setValueAttr(
            SplatElementsAttr::get(cast<ShapedType>(constant.getType()),
                                   splat.getSplatValue<Attribute>()));
  });
  for (Operation *count : counts)
    count->erase();
  return clone;
}

class TaskLowering {
  using Launch = TaskBuilder::Launch;

public:
  TaskLowering(func::FuncOp function, const TaskOptions &options,
               ModuleOp module, ModuleOp kernels)
      : function(function), options(options), module(module), kernels(kernels),
        task(options), places(function, options, task, views) {}

  FailureOr<TaskCost> run() {
    for (Operation &op : function.front().without_terminator())
      if (failed(lower(&op)))
        return failure();
    if (failed(lowerReturn(
            cast<func::ReturnOp>(function.front().getTerminator()))))
      return failure();
    return task.finish(module, function.getLoc());
  }

private:
  //===--------------------------------------------------------------------===//
  // Ops
  //===--------------------------------------------------------------------===//

  LogicalResult lower(Operation *op) {
    if (auto reshape = dyn_cast<nn::ReshapeOp>(op)) {
      Value operand = reshape.getOperand();
      ArrayRef<int64_t> from = typeOf(operand).getShape(),
                        to = typeOf(reshape.getResult()).getShape();
      if (auto view = views[operand].reshape(from, to)) {
        views[reshape.getResult()] = *view;
        return success();
      }
      // Copied to where the result belongs, if that can be said in the
      // operand's shape.
      Destination destination = places.place(reshape.getResult());
      auto target = destination.view.reshape(to, from);
      if (!target) {
        destination = Destination{places.allocate(reshape.getResult())};
        target = destination.view.reshape(to, from);
      }
      if (failed(copy(typeOf(operand), views[operand],
                      {*target, destination.accumulate}, op->getLoc())))
        return failure();
      views[reshape.getResult()] = destination.view;
      return success();
    }
    if (auto transpose = dyn_cast<nn::TransposeOp>(op)) {
      views[transpose.getResult()] =
          views[transpose.getOperand()].transpose(transpose.getPermutation());
      return success();
    }
    if (auto slice = dyn_cast<nn::SliceOp>(op)) {
      views[slice.getResult()] = views[slice.getOperand()].slice(
          slice.getStarts(), slice.getStrides());
      return success();
    }
    if (auto product = dyn_cast<nn::DotGeneralOp>(op))
      return lowerProduct(product);
    if (auto convolution = dyn_cast<nn::ConvolutionOp>(op))
      return lowerConvolution(convolution);
    if (auto concat = dyn_cast<nn::ConcatOp>(op))
      return lowerConcat(concat);
    if (auto pad = dyn_cast<nn::PadOp>(op))
      return lowerPad(pad);
    if (isa<nn::GroupOp, nn::ScatterAddOp>(op) || nn::isWindowOp(op))
      return lowerKernel(op);
    if (auto sum = dyn_cast<arith::AddFOp>(op)) {
      views[sum.getResult()] =
          places.findSum(sum, 0).view; // its terms are there
      return success();
    }
    if (auto constant = dyn_cast<arith::ConstantOp>(op))
      return success(); // read by pads alone, as an attribute
    return op->emitError("no kernel for '") << op->getName() << "' on the host";
  }

  LogicalResult lowerProduct(nn::DotGeneralOp op) {
    if (!typeOf(op.getResult()).getElementType().isF32())
      return op.emitError("products of ")
             << typeOf(op.getResult()).getElementType()
             << " are not supported, only f32";
    Destination destination = places.place(op.getResult());
    View lhs = views[op.getLhs()], rhs = views[op.getRhs()];
    std::optional<View> temporary; // of the result; without memory yet
    Product product;
    bool copied[2] = {false, false};
    auto reorderResult = [&] {
      temporary = orderResultOfProduct(
          op, lhs, rhs, temporary ? *temporary : destination.view);
    };
    // Each operand is copied at most once, and the result has two other orders.
    for (int attempt = 0; attempt < 5; ++attempt) {
      ProductObstacle obstacle =
          mapProduct(op, lhs, rhs, temporary ? *temporary : destination.view,
                     destination.accumulate && !temporary, product);
      switch (obstacle) {
      case ProductObstacle::None: {
        if (temporary)
          temporary->buffer =
              task.addWorkspace(tensorBytes(typeOf(op.getResult())));
        const View &result = temporary ? *temporary : destination.view;
        if (product.swapped)
          addProduct(op, product, rhs, op.getRhs(), lhs, op.getLhs(), result);
        else
          addProduct(op, product, lhs, op.getLhs(), rhs, op.getRhs(), result);
        if (temporary)
          if (failed(copy(typeOf(op.getResult()), *temporary, destination,
                          op.getLoc())))
            return failure();
        views[op.getResult()] = destination.view;
        return success();
      }
      case ProductObstacle::Lhs:
      case ProductObstacle::Rhs: {
        // An operand that is already a copy is not the obstacle: the other one
        // has its axes in another order.
        bool isLhs = obstacle == ProductObstacle::Lhs ? !copied[0] : copied[1];
        View &operand = isLhs ? lhs : rhs;
        View target =
            orderForProduct(op, isLhs, views[isLhs ? op.getLhs() : op.getRhs()],
                            isLhs ? rhs : lhs);
        // Where a copy would look the same, it is the result's order that does
        // not fit.
        if (operand.strides == target.strides && !temporary) {
          reorderResult();
          break;
        }
        Value value = isLhs ? op.getLhs() : op.getRhs();
        auto copies = reordered.find(value);
        if (copies != reordered.end() &&
            copies->second.strides == target.strides) {
          operand = copies->second;
        } else {
          target.buffer = task.addWorkspace(tensorBytes(typeOf(value)));
          if (failed(copy(typeOf(value), operand, {target}, op.getLoc())))
            return failure();
          operand = reordered[value] = target;
        }
        copied[isLhs ? 0 : 1] = true;
        break;
      }
      case ProductObstacle::Result:
        reorderResult();
        break;
      }
    }
    return op.emitError("no library call computes this product: ")
           << op->getName();
  }

  void addProduct(nn::DotGeneralOp op, const Product &product, const View &a,
                  Value aValue, const View &b, Value bValue, const View &c) {
    Launch launch{op.getLoc(), Launch::Kind::Product};
    launch.extent = product.blocks;
    launch.family = HM_FAMILY_GEMM;
    launch.gemm = product.gemm;
    launch.flops = product.flops;
    launch.touch(a, aValue.getType(), schedule::Access::Read);
    launch.touch(b, bValue.getType(), schedule::Access::Read);
    launch.touch(c, op.getResult().getType(),
                 product.gemm.accumulate ? schedule::Access::ReadWrite
                                         : schedule::Access::Write);
    task.add(std::move(launch));
  }

  LogicalResult lowerConvolution(nn::ConvolutionOp op) {
    Launch launch{op.getLoc(), Launch::Kind::Convolution};
    launch.convolution = getConvolution(op);
    const HmConvolution &c = launch.convolution;
    launch.flops = 2.0 * c.samples * c.out[0] * c.out[1] * c.outputs *
                   c.kernel[0] * c.kernel[1] * c.channels;
    launch.family = HM_FAMILY_GEMM;
    for (Value operand : op.getOperands()) {
      RankedTensorType type = typeOf(operand);
      View view = views[operand];
      if (!view.isContiguous(type.getShape())) {
        View &copied = reordered[operand];
        if (copied.strides != rowMajorStrides(type.getShape())) {
          View target = places.allocate(operand);
          if (failed(copy(type, view, {target}, op.getLoc())))
            return failure();
          copied = target;
        }
        view = copied;
      }
      launch.touch(view, type, schedule::Access::Read);
    }
    RankedTensorType type = typeOf(op.getResult());
    auto destination = places.findDestination(op.getResult());
    bool isInPlace = destination && !destination->accumulate &&
                     destination->view.isContiguous(type.getShape());
    View result =
        isInPlace ? destination->view : places.allocate(op.getResult());
    launch.touch(result, type, schedule::Access::Write);
    task.add(std::move(launch));
    views[op.getResult()] = result;
    if (!destination || isInPlace)
      return success();
    views[op.getResult()] = destination->view;
    return copy(type, result, *destination, op.getLoc());
  }

  LogicalResult lowerConcat(nn::ConcatOp concat) {
    for (auto [index, operand] : llvm::enumerate(concat.getOperands())) {
      Destination part = places.findPart(concat, index);
      View view = views[operand];
      if (!view.isSame(part.view, typeOf(operand).getShape()) &&
          failed(copy(typeOf(operand), view, part, concat.getLoc())))
        return failure();
    }
    views[concat.getResult()] = places.getWhole(concat);
    return success();
  }

  LogicalResult lowerPad(nn::PadOp pad) {
    SplatElementsAttr fill;
    if (!matchPattern(pad.getFill(), m_Constant(&fill)))
      return pad.emitError(
          "padding with a value that is computed is not supported");
    Destination destination = places.place(pad.getResult());
    RankedTensorType type = typeOf(pad.getResult());
    View whole = destination.view;
    if (destination.accumulate || !whole.isContiguous(type.getShape()))
      whole = places.allocate(pad.getResult());
    if (isZero(fill)) {
      Launch launch{pad.getLoc(), Launch::Kind::Fill};
      launch.touch(whole, type, schedule::Access::Write);
      task.add(std::move(launch));
    } else if (failed(lowerSplat(pad, fill, whole))) {
      return failure();
    }
    SmallVector<int64_t> steps;
    for (int64_t interior : pad.getInterior())
      steps.push_back(interior + 1);
    if (failed(copy(typeOf(pad.getOperand()), views[pad.getOperand()],
                    {whole.slice(pad.getLow(), steps)}, pad.getLoc())))
      return failure();
    views[pad.getResult()] = whole;
    return success();
  }

  /// A kernel that writes one value everywhere.
  LogicalResult lowerSplat(nn::PadOp pad, SplatElementsAttr value,
                           const View &target) {
    RankedTensorType type = typeOf(pad.getResult());
    OpBuilder builder(pad);
    auto group = nn::GroupOp::create(builder, pad.getLoc(), TypeRange{type},
                                     ValueRange{});
    builder.setInsertionPointToEnd(&group.getBody().emplaceBlock());
    Value scalar = arith::ConstantOp::create(builder, pad.getLoc(), value);
    Value splat = nn::BroadcastOp::create(builder, pad.getLoc(), type, scalar,
                                          ArrayRef<int64_t>{});
    nn::YieldOp::create(builder, pad.getLoc(), splat);
    codegen::KernelSpec spec;
    spec.op = group;
    spec.results.push_back({target.strides});
    spec.accumulate.push_back(false);
    spec.inPlace.push_back(-1);
    LogicalResult result = addKernel(spec, {target}, pad.getLoc());
    group.erase();
    return result;
  }

  static bool isZero(SplatElementsAttr splat) {
    if (isa<FloatType>(splat.getElementType()))
      return splat.getSplatValue<APFloat>().isZero();
    return splat.getSplatValue<APInt>().isZero();
  }

  LogicalResult lowerKernel(Operation *op) {
    codegen::KernelSpec spec;
    spec.op = op;
    SmallVector<View> results;
    for (Value operand : op->getOperands())
      spec.operands.push_back({views[operand].strides});
    for (Value result : op->getResults()) {
      Destination destination = places.place(result);
      // A scatter writes whole rows; windows and maxima add to nothing.
      if ((isa<nn::ScatterAddOp>(op) &&
           !destination.view.isContiguous(typeOf(result).getShape())) ||
          (isa<nn::WindowOp, nn::MaxPoolOp>(op) && destination.accumulate))
        destination = Destination{places.allocate(result)};
      results.push_back(destination.view);
      spec.results.push_back({destination.view.strides});
      spec.accumulate.push_back(destination.accumulate);
      spec.inPlace.push_back(findInPlace(op, destination.view));
      views[result] = destination.view;
    }
    return addKernel(spec, results, op->getLoc());
  }

  /// The operand that occupies the very memory of a result, or -1.
  int findInPlace(Operation *op, const View &result) {
    const TaskBuilder::Buffer &buffer = task.getBuffer(result.buffer);
    if (buffer.slot < 0)
      return -1;
    for (auto [index, operand] : llvm::enumerate(op->getOperands())) {
      const View &view = views[operand];
      const TaskBuilder::Buffer &other = task.getBuffer(view.buffer);
      if (other.slot == buffer.slot && other.offset == buffer.offset &&
          view.offset == result.offset && view.strides == result.strides)
        return index;
    }
    return -1;
  }

  /// Equal for kernels that are equal: steps of a recurrence have the same
  /// ones, which are then emitted once.
  static std::string describe(const codegen::KernelSpec &spec) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    spec.op->print(stream, OpPrintingFlags().useLocalScope());
    llvm::interleaveComma(spec.op->getOperandTypes(), stream);
    auto list = [&](const auto &values) {
      stream << ';';
      llvm::interleaveComma(values, stream);
    };
    for (const codegen::View &view : spec.operands)
      list(view.strides);
    stream << '=';
    for (const codegen::View &view : spec.results)
      list(view.strides);
    list(spec.accumulate);
    list(spec.inPlace);
    return text;
  }

  double operationsOf(StringRef kernel) {
    auto [known, isNew] = operations.try_emplace(kernel);
    if (isNew)
      known->second = countOperations(kernels, kernel);
    return known->second;
  }

  LogicalResult addKernel(const codegen::KernelSpec &spec,
                          ArrayRef<View> results, Location loc) {
    auto [known, isNew] = emittedKernels.try_emplace(describe(spec));
    if (isNew) {
      FailureOr<codegen::EmittedKernel> emitted =
          codegen::emitHostKernel(spec, kernels);
      if (failed(emitted))
        return failure();
      known->second = std::move(*emitted);
    }
    const codegen::EmittedKernel &emitted = known->second;
    SmallVector<int> temporaries;
    for (int64_t bytes : emitted.temporaries)
      temporaries.push_back(task.addWorkspace(bytes));
    for (const codegen::Launch &part : emitted.launches) {
      Launch launch{loc, Launch::Kind::Kernel};
      launch.kernel = part.function;
      launch.extent = part.extent;
      launch.grain = part.grain;
      launch.family = static_cast<HmFamily>(part.family);
      launch.operations = operationsOf(part.function);
      for (const codegen::Argument &argument : part.arguments) {
        switch (argument.kind) {
        case codegen::Argument::Operand: {
          Value operand = spec.op->getOperand(argument.index);
          launch.touch(views[operand], operand.getType(),
                       schedule::Access::Read);
          break;
        }
        case codegen::Argument::Result:
          launch.touch(results[argument.index],
                       spec.op->getResult(argument.index).getType(),
                       !argument.written ? schedule::Access::Read
                       : spec.accumulate[argument.index] ||
                               spec.inPlace[argument.index] >= 0
                           ? schedule::Access::ReadWrite
                           : schedule::Access::Write);
          break;
        case codegen::Argument::Temporary: {
          int buffer = temporaries[argument.index];
          launch.operands.push_back({buffer, 0, task.getBuffer(buffer).bytes,
                                     argument.written
                                         ? schedule::Access::Write
                                         : schedule::Access::Read});
          break;
        }
        }
      }
      task.add(std::move(launch));
    }
    return success();
  }

  //===--------------------------------------------------------------------===//
  // Copies
  //===--------------------------------------------------------------------===//

  /// Copies (or adds) a tensor from one view to another by an identity kernel.
  /// Views are taken by value: the map that they come from grows.
  LogicalResult copy(RankedTensorType type, View from, Destination to,
                     Location loc) {
    OpBuilder builder(function.getContext());
    builder.setInsertionPoint(function.front().getTerminator());
    auto source =
        UnrealizedConversionCastOp::create(builder, loc, type, ValueRange{});
    auto group =
        nn::GroupOp::create(builder, loc, TypeRange{type}, source.getResults());
    Block *body = &group.getBody().emplaceBlock();
    Value argument = body->addArgument(type, loc);
    builder.setInsertionPointToEnd(body);
    nn::YieldOp::create(builder, loc, argument);
    views[source.getResult(0)] = from;
    codegen::KernelSpec spec;
    spec.op = group;
    spec.operands.push_back({from.strides});
    spec.results.push_back({to.view.strides});
    spec.accumulate.push_back(to.accumulate);
    spec.inPlace.push_back(-1);
    LogicalResult result = addKernel(spec, {to.view}, loc);
    views.erase(source.getResult(0));
    group.erase();
    source.erase();
    return result;
  }

  LogicalResult lowerReturn(func::ReturnOp op) {
    for (auto [index, value] : llvm::enumerate(op.getOperands())) {
      View target = places.getResult(index);
      View view = views[value];
      if (view.isSame(target, typeOf(value).getShape()))
        continue; // computed there
      if (failed(copy(typeOf(value), view, {target, options.accumulate[index]},
                      op.getLoc())))
        return failure();
    }
    return success();
  }

  func::FuncOp function;
  const TaskOptions &options;
  ModuleOp module, kernels;
  TaskBuilder task;
  DenseMap<Value, View> views;
  Placement places;
  DenseMap<Value, View> reordered; ///< the last copy of a product's operand
  llvm::StringMap<codegen::EmittedKernel> emittedKernels; ///< by description
  llvm::StringMap<double> operations; ///< of one index, by kernel
};

} // namespace

FailureOr<TaskCost> harmony::lowerTask(func::FuncOp function,
                                       const TaskOptions &options,
                                       ModuleOp module, ModuleOp kernels) {
  OwningOpRef<func::FuncOp> clone =
      instantiateFunction(function, options.microbatch);
  auto lanes = module->getAttrOfType<IntegerAttr>(kLanesAttr);
  formConvolutions(*clone, lanes ? lanes.getInt() : 16);
  blockWindows(*clone);
  return TaskLowering(*clone, options, module, kernels).run();
}
