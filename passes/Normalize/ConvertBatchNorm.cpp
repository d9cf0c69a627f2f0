//===- ConvertBatchNorm.cpp - Statistics of the batch ---------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// BatchNormalization has two forms. The training form normalises by mean and
// variance of the batch and moves the running statistics towards them; it
// becomes nn.batch_norm and nn.assign, and evaluation uses the running
// statistics. The inference form is arithmetic with constants.
//
//===----------------------------------------------------------------------===//

#include "passes/Normalize/Binder.h"
#include "passes/Normalize/TensorBuilderDetail.h"

using namespace mlir;
using namespace harmony;
using namespace harmony::normalize;

bool harmony::normalize::isBatchNorm(onnx::NodeOp node) {
  return node.getOpType() == "BatchNormalization" && node.getDomain().empty();
}

/// Before opset 14 the number of outputs tells, and is_test before opset 7.
bool harmony::normalize::isTrainingBatchNorm(onnx::NodeOp node) {
  auto isSet = [&](StringRef name) {
    auto value = dyn_cast_or_null<IntegerAttr>(node.getNodeAttribute(name));
    return value && !value.getValue().isZero();
  };
  if (node.getVersion() >= 14)
    return isSet("training_mode");
  return node.getNumResults() > 1 && !isSet("is_test");
}

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

TensorBuilder::BatchNormalized TensorBuilder::batchNorm(const Tensor &x,
                                                        const Tensor &scale,
                                                        const Tensor &shift,
                                                        double epsilon) {
  Value value = materialize(x), scaleValue = materialize(scale),
        shiftValue = materialize(shift);
  if (!value || !scaleValue || !shiftValue)
    return {};
  Type channels = scaleValue.getType();
  Value result =
      emit<nn::BatchNormOp>(value.getType(), channels, channels, channels,
                            value, scaleValue, shiftValue, APFloat(epsilon));
  Operation *op = result.getDefiningOp();
  return {fromValue(result, x.type()), fromValue(op->getResult(1), x.type()),
          fromValue(op->getResult(2), x.type())};
}

Tensor TensorBuilder::channelCount(const Tensor &x) {
  if (!x)
    return x;
  int64_t factor = getElementCount(x.shape().drop_back());
  if (x.batchAxis() < 0)
    return scalarLike(x, static_cast<double>(factor));
  auto scalar = RankedTensorType::get({}, x.type());
  return fromValue(emit<nn::CountOp>(scalar, factor), x.type());
}

void TensorBuilder::assign(const Tensor &variable, const Tensor &value) {
  Value stored = materialize(value);
  if (!stored || !variable)
    return;
  if (!assigned.insert(variable->variable).second) {
    fail("updates the running statistic " + toText(variable->variable) +
         ", which another node updates too");
    return;
  }
  nn::AssignOp::create(builder, location, variable->variable, stored);
}

//===----------------------------------------------------------------------===//
// The operator
//===----------------------------------------------------------------------===//

namespace {

struct Operands {
  Tensor x; ///< channels last
  Tensor scale, shift, mean, variance;
  double epsilon = 0;
};

/// By statistics that are constants in the step.
Tensor normalizeByRunning(TensorBuilder &t, const Operands &o) {
  Tensor deviation =
      t.unary(Unary::SquareRoot,
              t.add(o.variance, t.scalarLike(o.variance, o.epsilon)));
  Tensor inverse = t.divide(t.scalarLike(o.variance, 1), deviation);
  Tensor normalized = t.multiply(t.subtract(o.x, o.mean), inverse);
  return t.add(t.multiply(normalized, o.scale), o.shift);
}

/// By statistics of the batch, which move the running ones.
void convertTraining(Binder &b, const Operands &o, double momentum) {
  TensorBuilder &t = b.build();
  const BatchNormRules &rules = t.batchNormRules;
  TensorBuilder::BatchNormalized batch =
      t.batchNorm(o.x, o.scale, o.shift, o.epsilon);
  Tensor variance = batch.variance;
  if (rules.unbiased) {
    // Of one element there is no variance: nothing is divided by 0.
    Tensor count = t.channelCount(o.x);
    Tensor less =
        t.binary(Binary::Maximum, t.subtract(count, t.scalarLike(count, 1)),
                 t.scalarLike(count, 1));
    variance = t.multiply(variance, t.divide(count, less));
  }
  Tensor results[] = {batch.mean, variance};
  const Tensor *running[] = {&o.mean, &o.variance};
  for (unsigned i = 0; i < 2; ++i) {
    Tensor moved = t.add(t.scale(*running[i], momentum),
                         t.scale(results[i], 1 - momentum));
    if (!moved)
      return;
    FlatSymbolRefAttr variable = (*running[i])->variable;
    bool isUpdated =
        !rules.updated || (variable && rules.updated->contains(variable));
    if (isUpdated && !variable) {
      b.refuse(Twine("the running ") + (i ? "variance" : "mean") +
               " is computed in the graph: a node that trains updates it, "
               "accepted is an initializer");
      return;
    }
    if (isUpdated)
      t.assign(*running[i], moved);
    if (b.isOutputUsed(1 + i))
      b.output(1 + i, t.byMode(moved, *running[i]));
  }
  t.unsplittable.push_back(
      "node '" + b.stableName() +
      "' (BatchNormalization): normalises by the mean and variance of all "
      "samples");
  b.output(
      0, t.fromChannelsLast(t.byMode(batch.result, normalizeByRunning(t, o))));
}

void convertBatchNormalization(Binder &b) {
  TensorBuilder &t = b.build();
  Operands o;
  Tensor x = b.input(0);
  o.scale = b.input(1);
  o.shift = b.input(2);
  o.mean = b.input(3);
  o.variance = b.input(4);
  o.epsilon = b.real("epsilon", 1e-5f);
  double momentum = b.real("momentum", 0.9f);
  b.ignore("consumed_inputs"); // of opset 1, about memory
  bool isTraining = b.version() >= 14
                        ? b.integer("training_mode", 0) != 0
                        : b.integer("is_test", 0) == 0 && b.outputCount() > 1;
  if (b.integer("spatial", 1) == 0) {
    b.refuse("spatial is 0: statistics for each position of an image are not "
             "supported, only those of channels; opset 9 has no others");
    return;
  }
  if (!x || !o.scale || !o.shift || !o.mean || !o.variance)
    return;
  if (x.rank() < 2 || !x.isFloat() || x.shape()[1].isBatch()) {
    b.refuse("input " + toText(x.type()) + toString(x.shape()) +
             " must be floating, of shape [N, C, ..], the batch not along C");
    return;
  }
  Shape channels{x.shape()[1]};
  for (auto [name, tensor] : {std::pair("scale", &o.scale),
                              {"B", &o.shift},
                              {"mean", &o.mean},
                              {"variance", &o.variance}})
    if (Shape(tensor->shape()) != channels || tensor->type() != x.type()) {
      b.refuse(Twine(name) + " is " + toText(tensor->type()) +
               toString(tensor->shape()) + ", expected " + toText(x.type()) +
               toString(channels));
      return;
    }
  o.x = t.toChannelsLast(x);
  if (!t.evaluationOnly && (isTraining || t.batchNormRules.train))
    convertTraining(b, o, momentum);
  else
    b.output(0, t.fromChannelsLast(normalizeByRunning(t, o)));
}

} // namespace

void harmony::normalize::addBatchNormConverters(ConverterTable &table) {
  table.onOp("BatchNormalization", {1, 6, 7, 9, 14, 15},
             convertBatchNormalization);
}
