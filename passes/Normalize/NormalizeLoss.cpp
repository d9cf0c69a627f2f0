//===- NormalizeLoss.cpp - The loss of a model ----------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Normalize/Normalizer.h"

#include "passes/Normalize/TensorBuilderDetail.h"

using namespace mlir;
using namespace harmony;
using namespace harmony::normalize;

static bool isScalar(const Tensor &tensor) {
  return tensor.isFloat() && tensor.batchAxis() < 0 &&
         getElementCount(tensor.shape()) == 1;
}

LogicalResult Normalizer::findLoss() {
  if (options.forward || loss)
    return success();
  auto listOutputs = [&](InFlightDiagnostic &error) {
    llvm::interleaveComma(outputs, error, [&](const Output &output) {
      error << "'" << output.name << "' " << toText(output.tensor.type())
            << toString(output.tensor.shape());
    });
  };
  auto take = [&](size_t index) {
    loss = outputs[index].tensor;
    lossLocation = outputs[index].location;
    outputs.erase(outputs.begin() + index);
    return success();
  };
  if (!options.loss.empty())
    return appendLoss();
  if (!options.lossOutput.empty()) {
    for (size_t i = 0; i < outputs.size(); ++i)
      if (outputs[i].name == options.lossOutput) {
        if (isScalar(outputs[i].tensor))
          return take(i);
        return graph.emitError("output '" + options.lossOutput +
                               "' has shape " +
                               toString(outputs[i].tensor.shape()) +
                               ", expected a floating scalar for the loss");
      }
    InFlightDiagnostic error = graph.emitError(
        "no output is named '" + options.lossOutput + "'; outputs are ");
    listOutputs(error);
    return error;
  }
  SmallVector<size_t> scalars;
  for (size_t i = 0; i < outputs.size(); ++i)
    if (isScalar(outputs[i].tensor))
      scalars.push_back(i);
  if (scalars.size() == 1)
    return take(scalars.front());
  for (size_t i : scalars)
    if (outputs[i].name == "loss")
      return take(i);
  InFlightDiagnostic error = graph.emitError(
      scalars.empty() ? "no output is a floating scalar that could be the "
                        "loss: append one by --loss; outputs are "
                      : "several outputs could be the loss: choose one by "
                        "--loss-output; outputs are ");
  listOutputs(error);
  return error;
}

/// Adds an input for labels or targets and the loss of the only floating
/// output.
LogicalResult Normalizer::appendLoss() {
  if (options.loss != "cross-entropy" && options.loss != "mse")
    return graph.emitError("loss is '" + options.loss +
                           "', accepted are cross-entropy and mse");
  SmallVector<Output *> candidates;
  for (Output &output : outputs)
    if (output.tensor.isFloat() && output.tensor.rank() > 0 &&
        (wholeBatch ? output.tensor.shape()[0] == Extent{wholeBatch, 0}
                    : output.tensor.batchAxis() == 0) &&
        (options.lossOutput.empty() || output.name == options.lossOutput))
      candidates.push_back(&output);
  if (candidates.size() != 1) {
    InFlightDiagnostic error =
        graph.emitError("--loss needs one floating output with the batch on "
                        "axis 0 (see --loss-output); there are ")
        << candidates.size();
    if (!candidates.empty()) {
      error << ": ";
      llvm::interleaveComma(candidates, error, [&](Output *output) {
        error << "'" << output->name << "'";
      });
    }
    return error;
  }
  const Tensor &prediction = candidates.front()->tensor;
  lossLocation = NameLoc::get(StringAttr::get(context, options.loss));
  builder->startNode(lossLocation);
  bool isCrossEntropy = options.loss == "cross-entropy";
  OpBuilder attributes(context);
  auto predictionType =
      cast<RankedTensorType>(builder->materialize(prediction).getType());
  Type element =
      isCrossEntropy ? Type(attributes.getI64Type()) : prediction.type();
  SmallVector<int64_t> shape(predictionType.getShape());
  if (isCrossEntropy) {
    if (shape.size() < 2)
      return graph.emitError("output '" + candidates.front()->name +
                             "' has shape " + toString(prediction.shape()) +
                             ", expected classes along the last axis");
    shape.pop_back();
  }
  RankedTensorType type = nn::getBatchType(
      shape, element, 0, wholeBatch ? 1 : prediction.shape()[0].factor);
  std::string name = isCrossEntropy ? "labels" : "target";
  for (unsigned i = 0; i < main.getNumArguments(); ++i)
    if (main.getArgAttrOfType<StringAttr>(i, nn::kNameAttr).getValue() == name)
      return graph.emitError("the model has an input '" + name +
                             "' already: it cannot be added for the loss");
  unsigned index = main.getNumArguments();
  if (failed(main.insertArgument(
          index, type,
          DictionaryAttr::get(
              context, attributes.getNamedAttr(nn::kNameAttr,
                                               attributes.getStringAttr(name))),
          lossLocation)))
    return graph.emitError("cannot add an input for the loss");
  Tensor wanted = bindInput(main.getArgument(index), element);
  auto allAxes = [](const Tensor &x) {
    return x ? llvm::to_vector(llvm::seq<int64_t>(0, x.rank()))
             : SmallVector<int64_t>();
  };
  if (isCrossEntropy) {
    Tensor losses = builder->crossEntropy(prediction, wanted, -100);
    Tensor isIgnored = builder->compare(Compare::Equal, wanted,
                                        builder->scalarLike(wanted, -100));
    Tensor count = builder->select(isIgnored, builder->scalarLike(losses, 0),
                                   builder->scalarLike(losses, 1));
    loss = builder->divide(
        builder->reduce(Reduction::Sum, losses, allAxes(losses)),
        builder->reduce(Reduction::Sum, count, allAxes(count)));
  } else {
    Tensor difference = builder->subtract(prediction, wanted);
    loss = builder->mean(builder->multiply(difference, difference),
                         allAxes(difference));
  }
  if (!loss)
    return graph.emitError("cannot append the loss: " + builder->takeError());
  return success();
}

/// Whether a value changes from step to step other than by the inputs.
static bool dependsOnTrained(Value value, ModuleOp module,
                             const DenseMap<Attribute, RoleDecision> &roles) {
  SmallVector<Value> worklist{value};
  llvm::DenseSet<Value> seen;
  while (!worklist.empty()) {
    Value current = worklist.pop_back_val();
    if (!seen.insert(current).second)
      continue;
    Operation *op = current.getDefiningOp();
    if (!op)
      continue;
    if (auto read = dyn_cast<nn::GetOp>(op)) {
      auto variable = module.lookupSymbol<nn::VariableOp>(read.getVariable());
      // Initializers become variables at the end.
      nn::Role role = variable ? variable.getRole()
                               : roles.lookup(read.getVariableAttr()).role;
      if (role == nn::Role::parameter || role == nn::Role::state)
        return true;
    }
    worklist.append(op->operand_begin(), op->operand_end());
  }
  return false;
}

LogicalResult Normalizer::emitLoss() {
  if (!loss)
    return success();
  if (!isScalar(loss))
    return emitError(lossLocation, "the loss has shape " +
                                       toString(loss.shape()) +
                                       ", expected a floating scalar");
  builder->startNode(lossLocation);
  if (wholeBatch) {
    // Of one microbatch; the step's is the mean over microbatches.
    Value value = builder->materialize(builder->reshape(loss, {}));
    if (!value)
      return emitError(lossLocation, "the loss: " + builder->takeError());
    nn::LossOp::create(builder->getBuilder(), lossLocation, value, Value(),
                       APFloat(1.0),
                       APFloat(1.0 / static_cast<double>(wholeBatch)),
                       /*constant=*/false);
    return success();
  }
  Tensor sum = builder->toBatchSum(loss);
  for (const Term &term : sum ? sum->terms : std::vector<Term>()) {
    Value numerator =
        builder->materialize(builder->reshape(term.numerator, {}));
    Value denominator;
    if (term.denominator) {
      Tensor divisor = builder->cast(builder->reshape(term.denominator, {}),
                                     term.numerator.type());
      denominator = builder->materialize(divisor);
      if (denominator && dependsOnTrained(denominator, module, roles))
        return emitError(lossLocation,
                         "the loss is divided by a sum over samples that "
                         "depends on parameters; a "
                         "denominator must depend on inputs alone, and on "
                         "tensors that are not trained (--freeze)");
    }
    if (!numerator || (term.denominator && !denominator))
      break;
    nn::LossOp::create(builder->getBuilder(), lossLocation, numerator,
                       denominator, APFloat(term.scale), APFloat(term.count),
                       term.constant);
  }
  std::string error = builder->takeError();
  if (!error.empty())
    return emitError(lossLocation, "the loss: " + error);
  return success();
}
