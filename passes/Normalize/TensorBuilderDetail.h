//===- TensorBuilderDetail.h - Shared by the parts of TensorBuilder -*- C++
//-*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_NORMALIZE_TENSORBUILDERDETAIL_H
#define PASSES_NORMALIZE_TENSORBUILDERDETAIL_H

#include "passes/Normalize/TensorBuilder.h"

#include "dialects/NN/NN.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

namespace harmony::normalize {

template <typename Op, typename... Args>
mlir::Value TensorBuilder::emit(Args &&...args) {
  return unique(Op::create(builder, location, std::forward<Args>(args)...));
}

/// The type as MLIR spells it, for messages.
std::string toText(mlir::Type type);
std::string toText(mlir::Attribute attribute);

/// The argument of the function that the elements of `value` are taken from, by
/// reshaping, slicing, padding and transposing alone; null where there is none.
mlir::BlockArgument getInput(mlir::Value value);
inline bool isFromInput(mlir::Value value) { return value && getInput(value); }

/// More elements than this are computed at run time.
inline constexpr int64_t kFoldLimit = 1 << 20;

/// Nothing where an element is not computed at compile time.
using Folded = std::optional<Element>;

inline Element realElement(mlir::Type type, double value, int64_t batch = 0) {
  Element element;
  element.real = roundTo(type, value);
  element.batch = batch;
  return element;
}

inline Element boolElement(bool value) { return Element{value}; }

/// Wraps to the width of an integer type.
inline Folded integerElement(mlir::Type type, Element element) {
  auto integer = llvm::cast<mlir::IntegerType>(type);
  if (integer.getWidth() == 1)
    element.integer = element.integer != 0;
  else if (integer.getWidth() < 64)
    element.integer =
        integer.isUnsigned()
            ? static_cast<int64_t>(static_cast<uint64_t>(element.integer) &
                                   ((uint64_t(1) << integer.getWidth()) - 1))
            : static_cast<int64_t>(static_cast<uint64_t>(element.integer)
                                   << (64 - integer.getWidth())) >>
                  (64 - integer.getWidth());
  return element;
}

/// fold: elements -> Folded; emit: (values, result type) -> Value.
template <typename Fold, typename Emit>
Tensor TensorBuilder::elementwise(llvm::ArrayRef<Tensor> operands,
                                  mlir::Type resultType, Fold fold,
                                  Emit emitOp) {
  if (auto images = withChannelsLast(operands)) {
    Tensor result =
        fromChannelsLast(elementwise(*images, resultType, fold, emitOp));
    for (const Tensor &operand : operands)
      result = expand(result, operand.shape());
    return result;
  }
  // Broadcast operands are computed with as they were before.
  llvm::SmallVector<Tensor> bases;
  Shape full, joined;
  for (const Tensor &operand : operands) {
    if (!operand)
      return Tensor();
    if (operand.isBatchSum())
      return refuseBatchSum(operand, "is computed with");
    bases.push_back(operand->base ? operand->base : operand);
    std::optional<Shape> fullNext = broadcastShapes(full, operand.shape());
    std::optional<Shape> joinedNext =
        broadcastShapes(joined, bases.back().shape());
    if (!fullNext || !joinedNext)
      return fail("cannot broadcast " + toString(operands.front().shape()) +
                  " with " + toString(operand.shape()));
    full = *fullNext;
    joined = *joinedNext;
  }
  if (llvm::count_if(full,
                     [](const Extent &extent) { return extent.isBatch(); }) > 1)
    return fail(
        "operands carry the batch along different axes: this combines samples");

  if (llvm::all_of(bases, [](const Tensor &base) { return base.isKnown(); }) &&
      getElementCount(joined) <= kFoldLimit) {
    int64_t count = getElementCount(joined);
    llvm::SmallVector<Tensor> expanded;
    for (const Tensor &base : bases)
      expanded.push_back(expand(base, joined));
    std::vector<Element> elements;
    elements.reserve(count);
    llvm::SmallVector<Element> current(bases.size());
    for (int64_t i = 0; i < count; ++i) {
      for (auto [index, tensor] : llvm::enumerate(expanded))
        current[index] = tensor.elements()[i];
      Folded element = fold(llvm::ArrayRef<Element>(current));
      if (!element)
        break;
      elements.push_back(*element);
    }
    if (static_cast<int64_t>(elements.size()) == count)
      return expand(known(resultType, joined, std::move(elements)), full);
  }

  for (const Tensor &base : bases) {
    std::string reason = base->unusable;
    if (base->content && !llvm::all_of(*base->content, [](const Element &e) {
          return e.isConstant();
        }))
      reason = "its elements depend on the number of samples of the minibatch "
               "or on a sample's position in it, which "
               "is not the same for every microbatch";
    if (reason.empty())
      continue;
    Tensor result = withValue(resultType, full, mlir::Value());
    result->unusable = reason;
    return result;
  }
  llvm::SmallVector<mlir::Value> values;
  for (const Tensor &base : bases) {
    values.push_back(materializeAs(base, joined));
    if (!values.back())
      return Tensor();
  }
  mlir::Value result =
      emitOp(llvm::ArrayRef<mlir::Value>(values), getType(joined, resultType));
  if (!result)
    return fail("is not supported for elements of type " +
                toText(operands.front().type()));
  return expand(withValue(resultType, joined, result), full);
}

} // namespace harmony::normalize

#endif // PASSES_NORMALIZE_TENSORBUILDERDETAIL_H
