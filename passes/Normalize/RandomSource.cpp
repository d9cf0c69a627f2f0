//===- RandomSource.cpp - What random operators draw from -----------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Normalize/RandomSource.h"

#include "dialects/NN/NN.h"
#include "passes/Normalize/TensorBuilderDetail.h"

#include <cmath>

using namespace mlir;
using namespace harmony;
using namespace harmony::normalize;

Value RandomSource::getKeys() {
  if (keys)
    return keys;
  Builder builder(function.getContext());
  auto isTaken = [&](StringRef name) {
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      if (function.getArgAttrOfType<StringAttr>(i, nn::kNameAttr).getValue() ==
          name)
        return true;
    return false;
  };
  std::string name = "sample_keys";
  while (isTaken(name))
    name += "_";
  unsigned index = function.getNumArguments();
  RankedTensorType type =
      nn::getBatchType({ShapedType::kDynamic, 3}, builder.getI64Type(), 0, 1);
  auto attributes = builder.getDictionaryAttr(
      {builder.getNamedAttr(nn::kNameAttr, builder.getStringAttr(name)),
       builder.getNamedAttr(nn::kSampleKeysAttr, builder.getUnitAttr())});
  // Fails only for functions without a body.
  (void)function.insertArgument(index, type, attributes, function.getLoc());
  return keys = function.getArgument(index);
}

/// FNV-1a, 32 bits.
static int64_t hash(StringRef text) {
  uint32_t value = 2166136261u;
  for (unsigned char c : text)
    value = (value ^ c) * 16777619u;
  return value;
}

FlatSymbolRefAttr RandomSource::addStream(StringRef name) {
  constexpr int64_t kStreams = int64_t(1) << 32;
  int64_t stream = hash(name);
  while (!streams.insert(stream).second)
    stream = (stream + 1) % kStreams;
  auto module = function->getParentOfType<ModuleOp>();
  std::string wanted = "stream." + name.str(), symbol = wanted;
  for (int i = 2; module.lookupSymbol(symbol); ++i)
    symbol = wanted + "_" + std::to_string(i);
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  auto type = RankedTensorType::get({}, builder.getI64Type());
  nn::VariableOp::create(builder, function.getLoc(), symbol, type,
                         nn::Role::constant,
                         DenseElementsAttr::get(type, stream));
  return FlatSymbolRefAttr::get(function.getContext(), symbol);
}

Tensor TensorBuilder::byMode(const Tensor &training, const Tensor &evaluation) {
  if (!training || !evaluation)
    return Tensor();
  if (evaluationOnly)
    return evaluation;
  Value inTraining = materialize(training),
        inEvaluation = materializeAs(evaluation, training.shape());
  if (!inTraining || !inEvaluation)
    return Tensor();
  return withValue(
      training.type(), training.shape(),
      emit<nn::ByModeOp>(inTraining.getType(), inTraining, inEvaluation));
}

Tensor TensorBuilder::randomBits(ArrayRef<Extent> shape, StringRef name) {
  int64_t axis = getBatchAxis(shape);
  if (random && axis < 0 && wholeBatch) {
    // Where samples are not told apart, each draws its share of the elements.
    int64_t count = getElementCount(shape),
            share = (count + wholeBatch - 1) / wholeBatch;
    Tensor drawn = randomBits({Extent{0, 1}, Extent{share, 0}}, name);
    if (!drawn)
      return Tensor();
    Type type = drawn.type();
    Value flat = emit<nn::ReshapeOp>(
        getType({Extent{wholeBatch * share, 0}}, type), materialize(drawn));
    return reshape(
        sliceAxis(withValue(type, {Extent{wholeBatch * share, 0}}, flat), 0, 0,
                  count),
        shape);
  }
  if (!random || axis < 0 || shape[axis].factor != 1)
    return fail("random numbers are drawn for samples; shape " +
                toString(shape) + " has none, or several to an index");
  Type type = builder.getI64Type();
  auto scalar = RankedTensorType::get({}, type);
  Value stream =
      materialize(fromVariable(random->addStream(name), scalar, type));
  return withValue(type, shape,
                   emit<nn::RandomOp>(getType(shape, type), random->getKeys(),
                                      stream, axis));
}

/// Several elements to an index of the batch axis become an axis of their own,
/// so that each sample counts its own.
static Shape splitSamples(ArrayRef<Extent> shape) {
  Shape whole;
  for (const Extent &extent : shape) {
    whole.push_back(extent.isBatch() ? Extent{0, 1} : extent);
    if (extent.isBatch() && extent.factor != 1)
      whole.push_back(Extent{extent.factor, 0});
  }
  return whole;
}

Tensor TensorBuilder::randomFraction(ArrayRef<Extent> shape, StringRef name) {
  Tensor bits = randomBits(splitSamples(shape), name);
  if (!bits)
    return bits;
  // As many as a float holds.
  Tensor lower = binary(Binary::And, bits, scalarLike(bits, (1 << 24) - 1));
  return reshape(scale(cast(lower, builder.getF32Type()), std::ldexp(1, -24)),
                 shape);
}

Tensor TensorBuilder::dropoutMask(ArrayRef<Extent> shape, double ratio,
                                  StringRef name) {
  constexpr double kValues = 4294967296.0; // of 32 random bits
  Tensor bits = randomBits(splitSamples(shape), name);
  Tensor isKept =
      compare(Compare::GreaterOrEqual, bits,
              bits ? scalarLike(bits, std::round(ratio * kValues)) : Tensor());
  return isKept ? reshape(isKept, shape) : Tensor();
}
