//===- Model.cpp - What a model's inputs and initializers are -------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Normalize/Model.h"

#include "passes/Normalize/Binder.h"
#include "passes/Normalize/TrainingChecks.h"

#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Regex.h"

#include <cmath>
#include <cstring>

using namespace mlir;
using namespace harmony;
using namespace harmony::normalize;

//===----------------------------------------------------------------------===//
// Inputs
//===----------------------------------------------------------------------===//

namespace {
/// A dimension as the file states it: an extent, a symbol, or neither ("").
struct Dimension {
  int64_t extent = -1;
  std::string symbol;
  bool isSymbolic() const { return extent < 0; }
};
} // namespace

static SmallVector<Dimension> getDimensions(onnx::GraphOp graph, unsigned index,
                                            RankedTensorType type) {
  SmallVector<Dimension> dimensions(type.getRank());
  auto names = graph.getArgAttrOfType<ArrayAttr>(index, "onnx.dims");
  for (int64_t axis = 0; axis < type.getRank(); ++axis) {
    if (!type.isDynamicDim(axis))
      dimensions[axis].extent = type.getDimSize(axis);
    else if (names && axis < static_cast<int64_t>(names.size()))
      if (auto symbol = dyn_cast<StringAttr>(names[axis]))
        dimensions[axis].symbol = symbol.str();
  }
  return dimensions;
}

static FailureOr<llvm::StringMap<int64_t>>
parseBindings(onnx::GraphOp graph, ArrayRef<std::string> bindings) {
  llvm::StringMap<int64_t> result;
  for (StringRef binding : bindings) {
    auto [name, value] = binding.split('=');
    int64_t extent = 0;
    if (auto known = result.find(name); known != result.end())
      return graph.emitError("dimension '" + name + "' is bound twice: to " +
                             Twine(known->second) + " and by '" + binding +
                             "'");
    if (name.empty() || value.getAsInteger(10, extent) || extent < 1)
      return graph.emitError(
          "dimension '" + binding +
          "' must have the form name=extent, the extent being positive");
    result[name] = extent;
  }
  return result;
}

/// The symbol of the batch; "" where the inputs fix it, to `fixedBatch`, or
/// where there is none: a forward graph without symbols.
static FailureOr<std::string> findBatch(onnx::GraphOp graph,
                                        ArrayRef<SmallVector<Dimension>> inputs,
                                        StringRef requested,
                                        const llvm::StringMap<int64_t> &bound,
                                        bool isForward, int64_t &fixedBatch) {
  llvm::SmallSetVector<StringRef, 4> symbols;
  llvm::SmallSetVector<int64_t, 4> extents;
  bool isUnnamed = false;
  for (ArrayRef<Dimension> input : inputs) {
    if (input.empty())
      continue;
    if (!input[0].isSymbolic())
      extents.insert(input[0].extent);
    else if (input[0].symbol.empty())
      isUnnamed = true;
    else
      symbols.insert(input[0].symbol);
  }
  if (!requested.empty()) {
    if (symbols.contains(requested))
      return requested.str();
    return graph.emitError("the batch symbol '" + requested +
                           "' is not on axis 0 of any input");
  }
  if (symbols.size() > 1) // what is bound is not the batch
    symbols.remove_if([&](StringRef symbol) { return bound.contains(symbol); });
  if (symbols.size() > 1) {
    InFlightDiagnostic error =
        graph.emitError("axis 0 of the inputs has several symbols (");
    llvm::interleaveComma(symbols, error);
    return error << "): give all but the batch an extent by --dim "
                    "NAME=EXTENT, or export inputs with one name for it";
  }
  if (symbols.size() == 1)
    return symbols.front().str();
  if (isUnnamed)
    return std::string("?");
  if (isForward) // nothing is split: extents are what they are
    return std::string();
  if (extents.size() != 1) {
    InFlightDiagnostic error = graph.emitError(
        "cannot tell the batch: axis 0 of the inputs has extents (");
    llvm::interleaveComma(extents, error);
    return error << "), expected one and the same";
  }
  fixedBatch = extents.front();
  return std::string();
}

FailureOr<GraphInputs>
harmony::normalize::resolveInputs(onnx::GraphOp graph,
                                  const NormalizeOptions &options) {
  GraphInputs result;
  SmallVector<SmallVector<Dimension>> inputs;
  for (auto [index, type] : llvm::enumerate(graph.getArgumentTypes())) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor)
      return graph.emitError("input '" + graph.getArgumentName(index) +
                             "' must be a tensor of known rank");
    inputs.push_back(getDimensions(graph, index, tensor));
    for (auto [axis, dimension] : llvm::enumerate(inputs.back()))
      if (dimension.extent == 0)
        return graph.emitError("axis " + Twine(axis) + " of input '" +
                               graph.getArgumentName(index) +
                               "' has the extent 0; accepted is 1 or more");
  }
  FailureOr<llvm::StringMap<int64_t>> bindings =
      parseBindings(graph, options.dims);
  if (failed(bindings))
    return failure();
  FailureOr<std::string> batch =
      findBatch(graph, inputs, options.batchSymbol, *bindings, options.forward,
                result.fixedBatch);
  if (failed(batch))
    return failure();

  llvm::SmallSetVector<StringRef, 4> unbound;
  llvm::StringSet<> known;
  bool ok = true;
  for (auto [index, dimensions] : llvm::enumerate(inputs)) {
    SmallVector<int64_t> shape;
    int64_t batchAxis = -1;
    for (auto [axis, dimension] : llvm::enumerate(dimensions)) {
      StringRef symbol = dimension.symbol;
      bool isBatchSymbol =
          dimension.isSymbolic() &&
          (symbol.empty() ? axis == 0 && *batch == "?" : symbol == *batch);
      known.insert(symbol);
      shape.push_back(1);
      if (axis == 0 &&
          (isBatchSymbol || (result.fixedBatch && !dimension.isSymbolic()))) {
        batchAxis = 0;
      } else if (isBatchSymbol) {
        ok = false;
        graph.emitError("input '" + graph.getArgumentName(index) +
                        "' has the batch ('" + symbol + "') on axis " +
                        Twine(axis) + "; accepted is axis 0");
      } else if (!dimension.isSymbolic()) {
        shape.back() = dimension.extent;
      } else if (auto bound = bindings->find(symbol);
                 bound != bindings->end()) {
        shape.back() = bound->second;
      } else if (symbol.empty()) {
        ok = false;
        graph.emitError("axis " + Twine(axis) + " of input '" +
                        graph.getArgumentName(index) +
                        "' has neither an extent nor a name");
      } else {
        unbound.insert(symbol);
      }
    }
    Type element = cast<RankedTensorType>(graph.getArgumentTypes()[index])
                       .getElementType();
    if (auto integer = dyn_cast<IntegerType>(element);
        integer && !integer.isSignless())
      element = IntegerType::get(element.getContext(), integer.getWidth());
    result.types.push_back(nn::getBatchType(shape, element, batchAxis, 1));
  }
  if (!unbound.empty()) {
    InFlightDiagnostic error =
        graph.emitError("symbolic dimensions without a value: ");
    llvm::interleaveComma(unbound, error);
    error << "; give each one by --dim NAME=EXTENT";
    ok = false;
  }
  for (const auto &binding : *bindings)
    if (!known.contains(binding.getKey())) {
      graph.emitError("no input has the dimension '" + binding.getKey() + "'");
      ok = false;
    } else if (binding.getKey() == *batch) {
      graph.emitError("dimension '" + binding.getKey() +
                      "' is the batch: its size is set by --batch");
      ok = false;
    }
  if (!ok)
    return failure();
  return result;
}

//===----------------------------------------------------------------------===//
// Roles
//===----------------------------------------------------------------------===//

FailureOr<RoleRules> RoleRules::create(ModuleOp module,
                                       const NormalizeOptions &options) {
  RoleRules rules;
  rules.trainable = options.trainable;
  rules.freeze = options.freeze;
  for (const std::vector<std::string> *list : {&rules.trainable, &rules.freeze})
    for (const std::string &expression : *list) {
      std::string error;
      if (!llvm::Regex(expression).isValid(error))
        return module.emitError("'" + expression +
                                "' is not a regular expression: " + error);
    }
  return rules;
}

/// Names of tensors that PyTorch keeps as buffers, where the file does not say
/// so.
static bool isBufferName(StringRef name) {
  static constexpr StringLiteral endings[] = {"running_mean", "running_var",
                                              "num_batches_tracked", "inv_freq",
                                              "position_ids"};
  return llvm::any_of(endings,
                      [&](StringRef ending) { return name.ends_with(ending); });
}

/// Whether the exporter made it of constants and buffers alone. Names without a
/// module's path are of its own values, or of parameters of the outermost
/// module: these are told apart where they are called val_N.
static bool isFoldedConstant(onnx::InitializerOp initializer) {
  SmallVector<std::string> names = getFoldedNames(initializer);
  bool hasBuffer = false, hasUnknown = false;
  for (StringRef name : names) {
    if (isBufferName(name)) {
      hasBuffer = true;
      continue;
    }
    if (name.contains('.'))
      return false;
    unsigned number;
    hasUnknown |= !name.consume_front("val_") || name.getAsInteger(10, number);
  }
  return !names.empty() && (hasBuffer || !hasUnknown);
}

/// Minus infinity and the like, or nothing but 0 and 1: what masks hold. (Not
/// all 0 or all 1: a fresh bias or scale is that.) Only f32 is looked into, and
/// of it as many elements as hold the first row of a mask: the files of large
/// models are not read for this.
static bool isMask(RankedTensorType type, ArrayRef<char> bytes) {
  if (!type.getElementType().isF32())
    return false;
  constexpr size_t limit = 64 << 10;
  bool hasZero = false, hasOne = false, hasOther = false;
  for (size_t i = 0; i + 4 <= bytes.size() && i < 4 * limit; i += 4) {
    float element;
    std::memcpy(&element, bytes.data() + i, sizeof(element));
    if (std::fabs(element) >= 1e8f)
      return true;
    hasZero |= element == 0;
    hasOne |= element == 1;
    hasOther |= element != 0 && element != 1;
  }
  return hasZero && hasOne && !hasOther;
}

void RoleRules::findStatistics(ModuleOp module) {
  auto isStatistic = [](OpOperand &use) {
    auto node = dyn_cast<onnx::NodeOp>(use.getOwner());
    return node && isBatchNorm(node) && use.getOperandNumber() >= 3;
  };
  module.walk([&](onnx::InitialValueOp read) {
    // Exporters put an Identity in between.
    SmallVector<Value> copies{read.getResult()};
    bool isRead = false, isOther = false;
    for (size_t i = 0; i < copies.size(); ++i)
      for (OpOperand &use : copies[i].getUses()) {
        auto node = dyn_cast<onnx::NodeOp>(use.getOwner());
        if (node && node.getOpType() == "Identity")
          copies.push_back(node->getResult(0));
        else
          (isStatistic(use) ? isRead : isOther) = true;
      }
    if (!isRead || !statistics.insert(read.getInitializerAttr()) || !isOther)
      return;
    read.emitWarning("'" + onnx::getValueName(read.getResult()) +
                     "' is a running statistic of a BatchNormalization and "
                     "read by other nodes too: it is not trained");
  });
}

void RoleRules::findSettings(ModuleOp module) {
  module.walk([&](onnx::InitialValueOp read) {
    Value value = read.getResult();
    bool isSetting =
        !value.use_empty() && llvm::all_of(value.getUses(), [](OpOperand &use) {
          auto node = dyn_cast<onnx::NodeOp>(use.getOwner());
          return node && use.getOperandNumber() > 0 &&
                 (node.getOpType() == "Resize" ||
                  node.getOpType() == "Upsample");
        });
    if (isSetting)
      settings.insert(read.getInitializerAttr());
  });
}

RoleDecision RoleRules::decide(onnx::InitializerOp initializer,
                               onnx::FileMap &files) const {
  /// A float tensor up to this size that is no variable by name is a constant.
  static constexpr int64_t kConstantElements = 16;
  RankedTensorType type = initializer.getTensorType();
  std::string name = initializer.getOnnxName().str();
  StringRef kind = initializer.getKind().value_or("");
  auto symbol = SymbolRefAttr::get(initializer.getSymNameAttr());
  bool isFloat = isa<FloatType>(type.getElementType());
  auto matches =
      [&](const std::vector<std::string> &expressions) -> const std::string * {
    for (const std::string &expression : expressions)
      if (llvm::Regex(expression).match(name))
        return &expression;
    return nullptr;
  };
  auto variable = [](nn::Role role, const Twine &reason) {
    return RoleDecision{role, reason.str(), false};
  };
  auto notTrained = [&](const Twine &reason) {
    bool isConstant =
        type.getRank() == 0 ||
        (type.getNumElements() <= kConstantElements && kind != "BUFFER");
    return RoleDecision{isConstant ? nn::Role::constant : nn::Role::buffer,
                        reason.str(), isConstant};
  };

  if (statistics.contains(symbol))
    return variable(nn::Role::buffer,
                    "it is a running statistic of BatchNormalization");
  if (settings.contains(symbol))
    return RoleDecision{nn::Role::constant, "it says how to resize", true};
  if (differentiated.contains(symbol))
    return variable(nn::Role::parameter,
                    "the training graph differentiates by it");
  if (updated.contains(symbol))
    return variable(nn::Role::state, "the training graph updates it");
  if (!isFloat) {
    bool isSmall = type.getNumElements() <= (1 << 20);
    return RoleDecision{isSmall ? nn::Role::constant : nn::Role::buffer,
                        "its elements are not floating", isSmall};
  }
  if (isTrainingGraph)
    return notTrained("the training graph does not update it");
  if (const std::string *expression = matches(freeze))
    return variable(nn::Role::frozen, "--freeze " + *expression);
  if (const std::string *expression = matches(trainable))
    return variable(nn::Role::parameter, "--trainable " + *expression);
  if (kind == "PARAMETER")
    return variable(nn::Role::parameter,
                    "the exporter marks it as a parameter");
  if (kind == "BUFFER" || kind == "CONSTANT_TENSOR")
    return notTrained("the exporter marks it as a " +
                      StringRef(kind == "BUFFER" ? "buffer" : "constant"));
  if (type.getRank() == 0) {
    // Values of exporters have paths or namespaces, what modules own has dots.
    RoleDecision decision = notTrained("it is a scalar");
    decision.isGuess = !isBufferName(name) &&
                       StringRef(name).find_first_of(":/") == StringRef::npos;
    return decision;
  }
  if (isBufferName(name))
    return notTrained("its name is a buffer's");
  if (StringRef(name).starts_with("onnx::")) {
    RoleDecision decision = notTrained("its name is an exporter's constant's");
    decision.isExporters = true;
    return decision;
  }
  if (isFoldedConstant(initializer))
    return notTrained("the exporter has folded constants into it");
  FailureOr<ArrayRef<char>> bytes =
      onnx::getInitializerBytes(initializer, files);
  if (failed(bytes))
    return notTrained("its data cannot be read");
  if (isMask(type, *bytes))
    return notTrained("its elements are a mask's");
  if (exporterMarks) {
    RoleDecision decision = variable(
        nn::Role::parameter, "it is floating, of rank 1 or more; the exporter "
                             "has made it from others");
    decision.isExporters = true;
    return decision;
  }
  RoleDecision decision =
      variable(nn::Role::parameter,
               "it is floating, of rank 1 or more, and nothing says otherwise");
  decision.isGuess = true;
  return decision;
}
