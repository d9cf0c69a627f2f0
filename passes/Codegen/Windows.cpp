//===- Windows.cpp - Kernels of convolution and pooling -------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Codegen/Windows.h"

#include "dialects/NN/Window.h"
#include "passes/Codegen/RangeEmitter.h"
#include "passes/Codegen/ScatterAdd.h"
#include "runtime/program.h"

using namespace mlir;
using namespace harmony;
using namespace harmony::codegen;

namespace {

/// A tensor [A.., middle.., Q..] in memory.
struct Tensor {
  Type element; ///< as memory holds it
  ArrayRef<int64_t> shape, strides;
  Value base; ///< of the launch, then of a row
};

class WindowEmitter : RangeEmitter {
public:
  WindowEmitter(OpBuilder &builder, Location loc, const KernelSpec &spec,
                ArrayRef<Value> pointers)
      : RangeEmitter(builder, loc), op(spec.op), window(nn::getWindow(op)),
        rank(window.rank()) {
    toImage = isa<nn::FoldOp, nn::UnpoolOp>(op);
    hasOffsets = isa<nn::WindowOp, nn::FoldOp>(op);
    accumulate = !spec.accumulate.empty() && spec.accumulate[0];
    SmallVector<Tensor> tensors;
    auto add = [&](Value value, const View &view) {
      auto type = cast<RankedTensorType>(value.getType());
      tensors.push_back({getMemoryType(type.getElementType()), type.getShape(),
                         view.strides, pointers[tensors.size()]});
    };
    for (auto [value, view] : llvm::zip_equal(op->getOperands(), spec.operands))
      add(value, view);
    size_t operands = tensors.size();
    for (auto [value, view] : llvm::zip_equal(op->getResults(), spec.results))
      add(value, view);
    source = tensors.front();
    target = tensors[operands];
    if (isa<nn::MaxPoolOp>(op))
      position = tensors.back();
    else if (operands == 2)
      position = tensors[1];
  }

  /// Rows of the launch: (A.., out..) or, to an image, (A.., n..).
  static SmallVector<int64_t> getRows(Operation *op) {
    nn::Window window = nn::getWindow(op);
    auto type = cast<RankedTensorType>(op->getResult(0).getType());
    return llvm::to_vector(
        type.getShape().take_front(window.axis + window.rank()));
  }

  void emitRow(Value row) {
    SmallVector<Value> at = delinearise(row, getRows(op));
    SmallVector<Value> lead(ArrayRef(at).take_front(window.axis));
    SmallVector<Value> middle(ArrayRef(at).drop_front(window.axis));
    move(source, lead, 0);
    move(target, at, 0);
    if (position) // laid out as the windows are
      move(*position, toImage ? lead : at, 0);
    if (!isa<nn::WindowOp>(op))
      initialise(middle);
    SmallVector<Value> offsets;
    forOffsets(middle, offsets);
  }

private:
  /// Moves the base of a tensor along axes beginning with `axis`.
  void move(Tensor &tensor, ArrayRef<Value> coordinates, int64_t axis) {
    tensor.base = addressAt(tensor, coordinates, axis);
  }
  Value addressAt(const Tensor &tensor, ArrayRef<Value> coordinates,
                  int64_t axis) {
    Value offset = constant(0);
    for (auto [index, coordinate] : llvm::enumerate(coordinates))
      offset = add(offset, times(coordinate, tensor.strides[axis + index]));
    return getAddress(builder, loc, tensor.element, tensor.base, offset);
  }

  /// The trailing axes Q of several tensors, `run` of them in a row.
  Walk getSlice(ArrayRef<const Tensor *> tensors, int64_t run = 1) const {
    Walk slice;
    ArrayRef<int64_t> shape = tensors.front()->shape;
    int64_t trailing = nn::getImageType(op).getRank() - window.axis - rank;
    for (int64_t i = trailing; i > 0; --i) {
      Walk::Strides strides;
      for (const Tensor *tensor : tensors)
        strides.push_back(tensor->strides[tensor->strides.size() - i]);
      slice.add(shape[shape.size() - i], strides);
    }
    if (run > 1) {
      int64_t length = slice.getCount();
      slice = Walk();
      slice.add(run * length, Walk::Strides(tensors.size(), 1));
    }
    return slice;
  }

  Value load(bool lanes, Type element, Value base, Value offset) {
    return lanes ? host.load(builder, loc, element, base, offset)
                 : loadElement(builder, loc, element, base, offset);
  }
  void store(bool lanes, Value value, Type element, Value base, Value offset) {
    if (lanes)
      host.store(builder, loc, value, element, base, offset);
    else
      storeElement(builder, loc, value, element, base, offset);
  }
  Value splat(bool lanes, Value scalar) {
    return lanes ? host.splat(builder, loc, scalar) : scalar;
  }
  void fill(const Tensor &tensor, Value base, Value scalar, int64_t run = 1) {
    forSlice(getSlice({&tensor}, run), 1, [&](bool lanes, ArrayRef<Value> at) {
      store(lanes, splat(lanes, scalar), tensor.element, base, at[0]);
    });
  }
  Value zero(Type element) {
    return arith::ConstantOp::create(builder, loc,
                                     builder.getZeroAttr(element));
  }

  /// What a row holds before any element of the window is seen.
  void initialise(ArrayRef<Value> middle) {
    if (!isa<nn::MaxPoolOp>(op)) {
      if (!accumulate)
        fill(target, target.base, zero(target.element));
      return;
    }
    fill(target, target.base,
         arith::ConstantOp::create(
             builder, loc, getIdentity(nn::ReduceKind::max, target.element)));
    // The first offset that is not in the padding: ceil((low - o s) / d) where
    // positive.
    Value first = constant(0), nothing = first;
    for (int64_t axis = 0; axis < rank; ++axis) {
      Value missing = arith::SubIOp::create(
          builder, loc, constant(window.low[axis] + window.dilations[axis] - 1),
          times(middle[axis], window.strides[axis]));
      missing = arith::MaxSIOp::create(builder, loc, missing, nothing);
      Value offset = arith::DivUIOp::create(builder, loc, missing,
                                            constant(window.dilations[axis]));
      first = add(times(first, window.kernel[axis]), offset);
    }
    fill(*position, position->base, narrow(first));
  }

  /// An offset's row-major index as positions hold it.
  Value narrow(Value index) {
    return arith::TruncIOp::create(builder, loc, position->element, index);
  }

  Value isBelow(Value index, int64_t extent) {
    // As unsigned numbers, negative ones are large.
    return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, index,
                                 constant(extent));
  }

  /// Loops over the offsets of a window, row-major; `offsets` are those of the
  /// axes outside.
  void forOffsets(ArrayRef<Value> middle, SmallVectorImpl<Value> &offsets) {
    int64_t axis = static_cast<int64_t>(offsets.size());
    if (axis == rank - 1 && isRun()) {
      // Most windows lie inside along the last axis: their offsets are one run
      // in both tensors.
      Value start = arith::SubIOp::create(
          builder, loc, times(middle[axis], window.strides[axis]),
          constant(window.low[axis]));
      int64_t room = source.shape[window.axis + axis] - window.kernel[axis] + 1;
      auto guard = scf::IfOp::create(builder, loc,
                                     isBelow(start, std::max<int64_t>(room, 0)),
                                     /*withElseRegion=*/true);
      OpBuilder::InsertionGuard insertion(builder);
      builder.setInsertionPointToStart(guard.thenBlock());
      offsets.push_back(constant(0));
      visitOffset(middle, offsets, window.kernel[axis]);
      offsets.pop_back();
      builder.setInsertionPointToStart(guard.elseBlock());
      forLastOffsets(middle, offsets);
      return;
    }
    if (axis < rank) {
      loop(constant(0), constant(window.kernel[axis]), 1, [&](Value offset) {
        offsets.push_back(offset);
        forOffsets(middle, offsets);
        offsets.pop_back();
      });
      return;
    }
    visitOffset(middle, offsets, 1);
  }

  void forLastOffsets(ArrayRef<Value> middle, SmallVectorImpl<Value> &offsets) {
    loop(constant(0), constant(window.kernel[rank - 1]), 1, [&](Value offset) {
      offsets.push_back(offset);
      visitOffset(middle, offsets, 1);
      offsets.pop_back();
    });
  }

  /// Whether consecutive offsets of the last axis follow each other in memory.
  bool isRun() const {
    if (!isa<nn::WindowOp>(op) || window.dilations[rank - 1] != 1 ||
        window.kernel[rank - 1] == 1)
      return false;
    Walk slice = getSlice({&target, &source});
    int64_t length = slice.getCount();
    return (length == 1 || slice.isContiguous()) &&
           source.strides[window.axis + rank - 1] == length &&
           target.strides[window.axis + 2 * rank - 1] == length;
  }

  /// The slices at `run` consecutive offsets of the last axis, the first of
  /// which decides whether they are inside.
  void visitOffset(ArrayRef<Value> middle, ArrayRef<Value> offsets,
                   int64_t run) {
    Value isInside, index = constant(0);
    SmallVector<Value> other;
    for (int64_t axis = 0; axis < rank; ++axis) {
      auto [at, inside] = locate(axis, middle[axis], offsets[axis]);
      other.push_back(at);
      isInside = isInside
                     ? arith::AndIOp::create(builder, loc, isInside, inside)
                           .getResult()
                     : inside;
      index = add(times(index, window.kernel[axis]), offsets[axis]);
    }
    bool isWindow = isa<nn::WindowOp>(op);
    auto guard = scf::IfOp::create(builder, loc, isInside,
                                   /*withElseRegion=*/isWindow);
    OpBuilder::InsertionGuard insertion(builder);
    builder.setInsertionPointToStart(guard.thenBlock());
    visit(other, offsets, index, run);
    if (!isWindow)
      return;
    builder.setInsertionPointToStart(guard.elseBlock());
    fill(target, addressAt(target, offsets, window.axis + rank),
         zero(target.element), run);
  }

  /// Where offset `offset` leads from coordinate `at` of the row to the source,
  /// and whether there is an element.
  std::pair<Value, Value> locate(int64_t axis, Value at, Value offset) {
    int64_t stride = window.strides[axis];
    ArrayRef<int64_t> shape = source.shape;
    int64_t extent = shape[window.axis + axis];
    Value shift = times(offset, window.dilations[axis]);
    Value low = constant(window.low[axis]);
    if (!toImage) {
      Value position = add(times(at, stride),
                           arith::SubIOp::create(builder, loc, shift, low));
      return {position, isBelow(position, extent)};
    }
    // The window o with o * stride + shift - low = at.
    Value start = arith::SubIOp::create(builder, loc, add(at, low), shift);
    if (stride == 1)
      return {start, isBelow(start, extent)};
    // Division rounds towards zero: a negative start that is no multiple is
    // caught by isWhole, one that is by the range.
    Value out = arith::DivSIOp::create(builder, loc, start, constant(stride));
    Value isWhole = arith::CmpIOp::create(
        builder, loc, arith::CmpIPredicate::eq, times(out, stride), start);
    return {out,
            arith::AndIOp::create(builder, loc, isWhole, isBelow(out, extent))};
  }

  /// Elements of the window and of the image, for all of Q.
  void visit(ArrayRef<Value> other, ArrayRef<Value> offsets, Value index,
             int64_t run) {
    SmallVector<Value> at(other);
    if (isa<nn::FoldOp>(op))
      llvm::append_range(at, offsets);
    Value from = addressAt(source, at, window.axis);
    if (isa<nn::WindowOp>(op)) {
      Value to = addressAt(target, offsets, window.axis + rank);
      forSlice(getSlice({&target, &source}, run), 2,
               [&](bool lanes, ArrayRef<Value> at) {
                 store(lanes, load(lanes, source.element, from, at[1]),
                       target.element, to, at[0]);
               });
      return;
    }
    if (isa<nn::MaxPoolOp>(op)) {
      Value here = narrow(index);
      forSlice(
          getSlice({&target, &source, &*position}), 3,
          [&](bool lanes, ArrayRef<Value> at) {
            Value value = load(lanes, source.element, from, at[1]);
            Value best = load(lanes, target.element, target.base, at[0]);
            Value known = load(lanes, position->element, position->base, at[2]);
            // Unordered: NaN is above all. A NaN that is held stays.
            Value isAbove = arith::CmpFOp::create(
                builder, loc, arith::CmpFPredicate::OGT, value, best);
            Value isNaN = arith::CmpFOp::create(
                builder, loc, arith::CmpFPredicate::UNO, value, value);
            Value isBetter = arith::OrIOp::create(builder, loc, isAbove, isNaN);
            store(lanes,
                  arith::SelectOp::create(builder, loc, isBetter, value, best),
                  target.element, target.base, at[0]);
            store(lanes,
                  arith::SelectOp::create(builder, loc, isBetter,
                                          splat(lanes, here), known),
                  position->element, position->base, at[2]);
          });
      return;
    }
    SmallVector<const Tensor *> tensors{&target, &source};
    Value chosen, here;
    if (position) {
      tensors.push_back(&*position);
      chosen = addressAt(*position, at, window.axis);
      here = narrow(index);
    }
    forSlice(
        getSlice(tensors), tensors.size(), [&](bool lanes, ArrayRef<Value> at) {
          Value value = load(lanes, source.element, from, at[1]);
          if (position) {
            Value isHere = arith::CmpIOp::create(
                builder, loc, arith::CmpIPredicate::eq,
                load(lanes, position->element, chosen, at[2]),
                splat(lanes, here));
            value = arith::SelectOp::create(builder, loc, isHere, value,
                                            splat(lanes, zero(source.element)));
          }
          Value old = load(lanes, target.element, target.base, at[0]);
          store(lanes, combine(builder, loc, nn::ReduceKind::sum, old, value),
                target.element, target.base, at[0]);
        });
  }

  Operation *op;
  nn::Window window;
  int64_t rank;
  bool toImage, hasOffsets, accumulate;
  HostLanes host;
  Tensor source, target;
  std::optional<Tensor> position;
};

} // namespace

FailureOr<EmittedKernel>
harmony::codegen::emitWindowKernel(const KernelSpec &spec, ModuleOp kernels) {
  Operation *op = spec.op;
  for (Type type :
       llvm::concat<const Type>(op->getOperandTypes(), op->getResultTypes()))
    if (!cast<RankedTensorType>(type).hasStaticShape())
      return op->emitOpError("as a kernel: types must be static"), failure();
  if (isa<nn::WindowOp, nn::MaxPoolOp>(op) &&
      llvm::is_contained(spec.accumulate, true))
    return op->emitOpError("as a kernel: its results cannot be added to"),
           failure();
  Type element =
      cast<RankedTensorType>(op->getResult(0).getType()).getElementType();
  if (element.isInteger(1) && !isa<nn::WindowOp>(op))
    return op->emitOpError("as a kernel: elements of type ")
               << element << " cannot be added",
           failure();

  nn::Window window = nn::getWindow(op);
  Launch launch;
  launch.extent = 1;
  for (int64_t extent : WindowEmitter::getRows(op))
    launch.extent *= extent;
  int64_t work = window.size();
  for (int64_t extent :
       nn::getImageType(op).getShape().drop_front(window.axis + window.rank()))
    work *= extent;
  constexpr int64_t kGrainElements = 16384;
  launch.grain =
      std::max<int64_t>(1, kGrainElements / std::max<int64_t>(work, 1));
  launch.family = isa<nn::WindowOp>(op) ? HM_FAMILY_COPY : HM_FAMILY_GATHER;
  for (unsigned i = 0; i < op->getNumOperands(); ++i)
    launch.arguments.push_back({Argument::Operand, i});
  for (unsigned i = 0; i < op->getNumResults(); ++i)
    launch.arguments.push_back({Argument::Result, i, true});
  auto body = [&](OpBuilder &builder, Location loc, ArrayRef<Value> pointers,
                  Value begin, Value end, function_ref<Value(int64_t)>) {
    RangeEmitter(builder, loc).loop(begin, end, 1, [&](Value row) {
      WindowEmitter(builder, loc, spec, pointers).emitRow(row);
    });
  };
  launch.function = buildRangeFunction(kernels, op->getLoc(), "window",
                                       launch.arguments.size(), body);
  EmittedKernel kernel;
  kernel.launches.push_back(std::move(launch));
  return kernel;
}
