//===- TrainingChecks.cpp - Whether what should train does ----------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Normalize/TrainingChecks.h"

#include "dialects/NN/Autodiff.h"
#include "dialects/ONNX/ExportCall.h"
#include "dialects/ONNX/TracedCall.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/StringSet.h"

#include <cstring>

using namespace mlir;
using namespace harmony;
using namespace harmony::normalize;

//===----------------------------------------------------------------------===//
// Gradients
//===----------------------------------------------------------------------===//

static bool isFloating(Value value) {
  return isa<FloatType>(getElementTypeOrSelf(value.getType()));
}

static bool isFlat(Operation *op) {
  return isa<math::RoundOp, math::RoundEvenOp, math::FloorOp, math::CeilOp,
             math::TruncOp>(op) ||
         op->hasAttr(nn::kDetachedAttr);
}

GradientPaths harmony::normalize::findGradientPaths(Block &body) {
  GradientPaths paths;
  // Values that lead to the loss, and the node that keeps the gradient from
  // them: none at first.
  SmallVector<std::pair<Value, Operation *>> worklist, without;
  llvm::DenseSet<Operation *> seen;
  for (auto loss : body.getOps<nn::LossOp>())
    worklist.push_back({loss.getNumerator(), nullptr});
  while (!worklist.empty()) {
    Operation *op = worklist.pop_back_val().first.getDefiningOp();
    if (!op || !seen.insert(op).second)
      continue;
    if (auto read = dyn_cast<nn::GetOp>(op))
      paths.trained.insert(read.getVariableAttr());
    for (Value operand : op->getOperands())
      (isFloating(operand) && !isFlat(op) ? worklist : without)
          .push_back({operand, isFlat(op) ? op : nullptr});
  }
  seen.clear();
  while (!without.empty()) {
    auto [value, cause] = without.pop_back_val();
    Operation *op = value.getDefiningOp();
    if (!op || !seen.insert(op).second)
      continue;
    if (auto read = dyn_cast<nn::GetOp>(op);
        read && !paths.trained.contains(read.getVariableAttr()))
      paths.cut.insert({read.getVariableAttr(), cause});
    for (Value operand : op->getOperands())
      without.push_back({operand, cause || !isFloating(operand) ? cause : op});
  }
  return paths;
}

//===----------------------------------------------------------------------===//
// Exporters
//===----------------------------------------------------------------------===//

SmallVector<std::string>
harmony::normalize::getFoldedNames(onnx::InitializerOp initializer) {
  SmallVector<std::string> names;
  auto metadata = initializer.getMetadataAttr();
  auto text =
      metadata
          ? metadata.getAs<StringAttr>("pkg.onnxscript.optimizer.folded_from")
          : StringAttr();
  if (!text)
    return names;
  // A Python list of strings.
  StringRef rest = text.getValue();
  while (true) {
    size_t begin = rest.find_first_of("'\"");
    if (begin == StringRef::npos)
      return names;
    size_t end = rest.find(rest[begin], begin + 1);
    if (end == StringRef::npos)
      return names;
    names.push_back(rest.slice(begin + 1, end).str());
    rest = rest.drop_front(end + 1);
  }
}

std::string harmony::normalize::listNames(ArrayRef<std::string> names,
                                          size_t limit) {
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), limit); ++i)
    text += (i ? ", '" : "'") + names[i] + "'";
  if (names.size() > limit)
    text += " and " + std::to_string(names.size() - limit) + " more";
  return text;
}

/// `val_9 (of h.0.attn.weight)`: with the names of modules that went into it.
static std::string describeFolded(onnx::InitializerOp initializer) {
  std::string text = initializer.getOnnxName().str();
  SmallVector<std::string> sources;
  for (const std::string &name : getFoldedNames(initializer))
    if (StringRef(name).contains('.'))
      sources.push_back(name);
  if (sources.empty())
    return text;
  return text + "' (of " + listNames(sources) + ")";
}

/// Removes the quote that closes a name with sources behind it.
static std::string listFolded(ArrayRef<std::string> names) {
  std::string text = listNames(names);
  for (size_t at; (at = text.find(")'")) != std::string::npos;)
    text.erase(at + 1, 1);
  return text;
}

/// PyTorch's modules call their parameters *weight* and *bias*.
static bool isParameterName(StringRef name) {
  StringRef last =
      name.rsplit('.').second.empty() ? name : name.rsplit('.').second;
  return last.contains("weight") || last.contains("bias");
}

void harmony::normalize::warnOfLostSmoothing(ModuleOp module) {
  module.walk([](onnx::NodeOp node) {
    std::optional<StringRef> smoothing = onnx::getTracedArgument(
        node, "cross_entropy_loss", 5, "label_smoothing");
    double amount = 0;
    if (node.getOpType() == "SoftmaxCrossEntropyLoss" && smoothing &&
        !smoothing->getAsDouble(amount) && amount != 0)
      node.emitWarning("node '" + node.getNodeName() +
                       "' was exported from cross_entropy with "
                       "label_smoothing=" +
                       *smoothing +
                       ", which the exporter has dropped: the loss is the one "
                       "without it (write smoothing with log_softmax)");
  });
}

void harmony::normalize::warnOfLostDetach(ModuleOp module) {
  llvm::StringSet<> kept;
  SmallVector<std::string> readers;
  module.walk([&](onnx::NodeOp node) {
    if (onnx::getTracedArgument(node, "detach", 0, "self"))
      kept.insert(onnx::getTracedName(node));
  });
  module.walk([&](onnx::NodeOp node) {
    if (llvm::any_of(onnx::getDetachedArguments(node),
                     [&](StringRef name) { return !kept.contains(name); }))
      readers.push_back(node.getNodeName().str());
  });
  if (!readers.empty())
    emitWarning(module.getLoc())
        << "the exporter has dropped detach in front of " << listNames(readers)
        << ": gradients pass there, unlike in PyTorch; export with "
        << onnx::kExportCall;
}

void harmony::normalize::warnOfExporter(
    ModuleOp module, ArrayRef<DecidedInitializer> initializers) {
  SmallVector<std::string> made, lost, odd, scalars;
  int usual = 0, marked = 0, trained = 0;
  for (auto [initializer, decision] : initializers) {
    StringRef name = initializer.getOnnxName();
    marked += initializer.getKind() == "PARAMETER";
    if (decision.role != nn::Role::parameter) {
      if (decision.isExporters &&
          initializer.getTensorType().getNumElements() > 16)
        lost.push_back(name.str());
      if (decision.isGuess)
        scalars.push_back(name.str());
      continue;
    }
    ++trained;
    if (decision.isExporters)
      made.push_back(describeFolded(initializer));
    else if (isParameterName(name))
      ++usual;
    else if (decision.isGuess)
      odd.push_back(name.str());
  }
  if (!made.empty())
    emitWarning(module.getLoc())
        << "of the " << trained << " tensors that are trained, the exporter "
        << "has made " << made.size() << " from others: " << listFolded(made)
        << "; weights that it folded do not train as in PyTorch, and tied ones "
           "come apart; export with "
        << onnx::kExportCall;
  if (!lost.empty())
    emitWarning(module.getLoc())
        << "not trained, since the exporter has made them: " << listNames(lost)
        << "; if there are weights in them, export with " << onnx::kExportCall
        << " or, by the TorchScript exporter, do_constant_folding=False";
  // In a file where some are called as PyTorch's modules do.
  if (!odd.empty() && usual > 0 && marked == 0)
    emitWarning(module.getLoc())
        << "trained, though nothing says that they are parameters: "
        << listNames(odd)
        << "; buffers (statistics, masks, tables) must be frozen: --freeze "
           "REGEX";
  if (!scalars.empty() && usual > 0 && marked == 0)
    emitWarning(module.getLoc())
        << "not trained, since nothing says that these scalars are parameters: "
        << listNames(scalars) << "; --trainable REGEX trains them";
}

LogicalResult harmony::normalize::checkElementTypes(
    ModuleOp module, ArrayRef<DecidedInitializer> initializers) {
  llvm::MapVector<Type, SmallVector<std::string>> others;
  for (auto [initializer, decision] : initializers) {
    Type element = initializer.getTensorType().getElementType();
    if (decision.role == nn::Role::parameter && !element.isF32())
      others[element].push_back(initializer.getOnnxName().str());
  }
  for (auto &[element, names] : others)
    emitError(module.getLoc())
        << "parameters of type " << element
        << " are not supported: " << listNames(names)
        << "; training is in f32: export the model after model.float()";
  return failure(!others.empty());
}

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

/// Whether the [columns, rows] of `b` are those of `a`, [rows, columns],
/// transposed. Elements of `size` bytes.
static bool isTransposed(ArrayRef<char> a, ArrayRef<char> b, int64_t rows,
                         int64_t columns, size_t size) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      if (std::memcmp(a.data() + (i * columns + j) * size,
                      b.data() + (j * rows + i) * size, size) != 0)
        return false;
  return true;
}

void harmony::normalize::warnOfCopies(ModuleOp module,
                                      ArrayRef<DecidedInitializer> variables,
                                      onnx::FileMap &files) {
  SmallVector<std::pair<onnx::InitializerOp, ArrayRef<char>>> seen;
  SmallVector<std::string> copies;
  for (auto [initializer, decision] : variables) {
    RankedTensorType type = initializer.getTensorType();
    if (decision.role != nn::Role::parameter)
      continue;
    FailureOr<ArrayRef<char>> bytes =
        onnx::getInitializerBytes(initializer, files);
    size_t size = onnx::getElementByteSize(type.getElementType());
    if (failed(bytes) || bytes->size() <= size)
      continue;
    // All elements equal: a fresh bias or scale.
    if (std::memcmp(bytes->data(), bytes->data() + size,
                    bytes->size() - size) == 0)
      continue;
    for (auto &[other, otherBytes] : seen) {
      RankedTensorType otherType = other.getTensorType();
      std::string name = initializer.getOnnxName().str() + "' is '" +
                         other.getOnnxName().str();
      if (otherType == type && otherBytes == *bytes) {
        copies.push_back(name);
        break;
      }
      if (type.getRank() == 2 &&
          otherType.getElementType() == type.getElementType() &&
          otherType.getRank() == 2 &&
          otherType.getDimSize(0) == type.getDimSize(1) &&
          otherType.getDimSize(1) == type.getDimSize(0) &&
          isTransposed(otherBytes, *bytes, otherType.getDimSize(0),
                       otherType.getDimSize(1), size)) {
        copies.push_back(name + "' transposed");
        break;
      }
    }
    seen.push_back({initializer, *bytes});
  }
  if (copies.empty())
    return;
  // Layers that a module copies (nn.TransformerEncoder) start equal in all of
  // their tensors: two tell which.
  std::string text = listNames(copies, /*limit=*/2);
  for (size_t at; (at = text.find("transposed'")) != std::string::npos;)
    text.erase(at + std::strlen("transposed"), 1);
  emitWarning(module.getLoc())
      << "tensors with equal elements train apart: " << text
      << "; if the model ties them, export with " << onnx::kExportCall;
}
