//===- Variables.cpp - Verifiers of variables and updates -----------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/NN/NN.h"

#include "mlir/IR/Builders.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

using namespace mlir;
using namespace harmony::nn;

LogicalResult VariableOp::verify() {
  auto type = cast<RankedTensorType>(getType());
  if (!type.hasStaticShape())
    return emitOpError("type ") << type << " must be static";
  if (auto elements = dyn_cast_or_null<ElementsAttr>(getInitialAttr());
      elements && elements.getShapedType() != type)
    return emitOpError("initial value has type ")
           << elements.getShapedType() << ", expected " << type;
  if (auto file = dyn_cast_or_null<FileAttr>(getInitialAttr())) {
    unsigned bits =
        type.getElementType().isInteger(1) ? 8 : type.getElementTypeBitWidth();
    int64_t bytes = type.getNumElements() * (bits / 8);
    if (file.getLength() != bytes)
      return emitOpError("initial value has ")
             << file.getLength() << " bytes, expected " << bytes;
  }
  return success();
}

LogicalResult GetOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto variable =
      symbols.lookupNearestSymbolFrom<VariableOp>(*this, getVariableAttr());
  if (!variable)
    return emitOpError("no nn.variable is named ") << getVariableAttr();
  if (variable.getType() != getResult().getType()) {
    auto error = emitOpError("type is ") << getResult().getType()
                                         << ", expected " << variable.getType();
    error.attachNote(variable.getLoc()) << "the variable is declared here";
    return error;
  }
  return success();
}

LogicalResult AssignOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto variable =
      symbols.lookupNearestSymbolFrom<VariableOp>(*this, getVariableAttr());
  if (!variable)
    return emitOpError("no nn.variable is named ") << getVariableAttr();
  if (variable.getRole() == Role::buffer &&
      variable.getType() == getValue().getType())
    return success();
  auto error = emitOpError("needs a variable of role buffer and type ")
               << getValue().getType();
  error.attachNote(variable.getLoc()) << "the variable is declared here";
  return error;
}

/// Checks that `function` exists and maps the types of `inputs` to those of
/// `outputs`.
static LogicalResult verifyMapping(Operation *op,
                                   SymbolTableCollection &symbols,
                                   FlatSymbolRefAttr function,
                                   ArrayRef<Type> inputs,
                                   ArrayRef<Type> outputs) {
  auto callee = dyn_cast_or_null<FunctionOpInterface>(
      symbols.lookupNearestSymbolFrom(op, function));
  if (!callee)
    return op->emitOpError("no function is named ") << function;
  if (callee.getArgumentTypes() == inputs && callee.getResultTypes() == outputs)
    return success();
  auto error = op->emitOpError("function ")
               << function << " must have type "
               << FunctionType::get(op->getContext(), inputs, outputs);
  error.attachNote(callee.getLoc()) << "it is declared here";
  return error;
}

/// Appends the types of variables; fails where one does not exist.
static LogicalResult appendTypes(Operation *op, SymbolTableCollection &symbols,
                                 ArrayAttr names,
                                 SmallVectorImpl<Type> &types) {
  for (auto name : names.getAsRange<FlatSymbolRefAttr>()) {
    auto variable = symbols.lookupNearestSymbolFrom<VariableOp>(op, name);
    if (!variable)
      return op->emitOpError("no nn.variable is named ") << name;
    types.push_back(variable.getType());
  }
  return success();
}

LogicalResult OptimizeOp::verifySymbolUses(SymbolTableCollection &symbols) {
  SmallVector<Type> inputs, outputs;
  Builder builder(getContext());
  if (failed(appendTypes(*this, symbols,
                         builder.getArrayAttr({getParameterAttr()}), inputs)))
    return failure();
  inputs.push_back(inputs.front());
  outputs.push_back(inputs.front());
  if (failed(appendTypes(*this, symbols, getStates(), inputs)))
    return failure();
  outputs.append(inputs.begin() + 2, inputs.end());
  if (failed(appendTypes(*this, symbols, getScalars(), inputs)))
    return failure();
  return verifyMapping(*this, symbols, getFunctionAttr(), inputs, outputs);
}

LogicalResult StepScalarsOp::verifySymbolUses(SymbolTableCollection &symbols) {
  SmallVector<Type> inputs, outputs;
  if (failed(appendTypes(*this, symbols, getReads(), inputs)) ||
      failed(appendTypes(*this, symbols, getWrites(), outputs)))
    return failure();
  return verifyMapping(*this, symbols, getFunctionAttr(), inputs, outputs);
}

LogicalResult ContributionOp::verifySymbolUses(SymbolTableCollection &symbols) {
  SmallVector<Type> inputs;
  Builder builder(getContext());
  if (failed(appendTypes(*this, symbols,
                         builder.getArrayAttr({getParameterAttr()}), inputs)))
    return failure();
  return verifyMapping(*this, symbols, getFunctionAttr(), inputs,
                       RankedTensorType::get({}, builder.getF32Type()));
}

LogicalResult EpilogueOp::verifySymbolUses(SymbolTableCollection &symbols) {
  SmallVector<Type> inputs(
      getContributions().size(),
      RankedTensorType::get({}, Float32Type::get(getContext()))),
      outputs;
  if (failed(appendTypes(*this, symbols, getReads(), inputs)) ||
      failed(appendTypes(*this, symbols, getWrites(), outputs)))
    return failure();
  return verifyMapping(*this, symbols, getFunctionAttr(), inputs, outputs);
}

LogicalResult LossOp::verify() {
  if (getNumerator().getType().getRank() != 0 ||
      !getNumerator().getType().getElementType().isFloat())
    return emitOpError("numerator must be a floating scalar, not ")
           << getNumerator().getType();
  if (getDenominator() &&
      getDenominator().getType() != getNumerator().getType())
    return emitOpError("denominator must have the numerator's type, not ")
           << getDenominator().getType();
  return success();
}
