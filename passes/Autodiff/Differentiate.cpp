//===- Differentiate.cpp - Reverse mode on functions ----------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Autodiff/Differentiate.h"

#include "dialects/NN/Decompose.h"
#include "passes/Autodiff/JoinProducts.h"
#include "passes/Autodiff/SavedSet.h"

#include "mlir/IR/Dominance.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/CSE.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace harmony;
using namespace harmony::autodiff;
using namespace harmony::nn;

std::string harmony::autodiff::getBackwardName(StringRef forward) {
  return (forward + ".bwd").str();
}

static bool isFloating(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && type.getElementType().isFloat();
}

namespace {

//===----------------------------------------------------------------------===//
// Activity
//===----------------------------------------------------------------------===//

/// Which values of a function are on a path of floating values from a
/// differentiable argument to a differentiable result.
class Activity {
public:
  explicit Activity(func::FuncOp function) {
    Block &block = function.getBody().front();
    for (BlockArgument argument : block.getArguments())
      if (function.getArgAttr(argument.getArgNumber(), nn::kDifferentiableAttr))
        varied.insert(argument);
    for (Operation &op : block)
      if (llvm::any_of(op.getOperands(),
                       [&](Value value) { return varied.contains(value); }))
        for (Value result : op.getResults())
          if (isFloating(result))
            varied.insert(result);

    Operation *terminator = block.getTerminator();
    for (OpOperand &operand : terminator->getOpOperands())
      if (function.getResultAttr(operand.getOperandNumber(),
                                 nn::kDifferentiableAttr))
        useful.insert(operand.get());
    for (Operation &op : llvm::reverse(block.without_terminator()))
      if (llvm::any_of(op.getResults(),
                       [&](Value value) { return useful.contains(value); }))
        for (Value operand : op.getOperands())
          if (isFloating(operand))
            useful.insert(operand);
  }

  /// A gradient with respect to this value is part of some argument's.
  bool isActive(Value value) const {
    return varied.contains(value) && useful.contains(value);
  }
  bool isActive(Operation *op) const {
    return llvm::any_of(op->getResults(),
                        [&](Value value) { return isActive(value); });
  }

private:
  llvm::DenseSet<Value> varied, useful;
};

//===----------------------------------------------------------------------===//
// The backward under construction
//===----------------------------------------------------------------------===//

/// One addend of a cotangent. Those of a value are summed in the order of its
/// uses in the forward.
struct Contribution {
  unsigned op, operand, index;
  Value value;
};

class Backward {
public:
  Backward(func::FuncOp forward, const DifferentiateOptions &options)
      : forward(forward), options(options), builder(forward.getContext()),
        activity(forward) {
    for (auto [index, op] : llvm::enumerate(forward.getBody().front()))
      positions[&op] = index;
    RewritePatternSet canonicalization(forward.getContext());
    for (RegisteredOperationName op :
         forward.getContext()->getRegisteredOperations())
      if (isa<NNDialect, arith::ArithDialect, math::MathDialect>(
              op.getDialect()))
        op.getCanonicalizationPatterns(canonicalization, forward.getContext());
    patterns = std::move(canonicalization);
  }

  LogicalResult check();
  func::FuncOp build();

private:
  friend class Context;

  void buildAdjoints();
  void simplify();
  void resolveReads();
  Value recompute(Value value, IRMapping &mapping);
  void sinkRecomputed(ArrayRef<Operation *> recomputed);
  void finishForward();
  Value takeCotangent(Value value);

  Block &getForwardBlock() { return forward.getBody().front(); }
  Value read(Value value);
  void contribute(OpOperand &use, Value value) {
    auto &list = contributions[use.get()];
    list.push_back({positions[use.getOwner()], use.getOperandNumber(),
                    static_cast<unsigned>(list.size()), value});
  }

  func::FuncOp forward, backward;
  const DifferentiateOptions &options;
  OpBuilder builder;
  FrozenRewritePatternSet
      patterns; ///< canonicalization of what adjoints are made of
  Activity activity;
  llvm::DenseMap<Operation *, unsigned> positions;
  llvm::DenseMap<Value, SmallVector<Contribution>> contributions;
  /// Values of the forward that the adjoints read, as arguments of the backward
  /// until it is decided which of them are saved.
  llvm::MapVector<Value, BlockArgument> reads;
  SmallVector<std::pair<unsigned, BlockArgument>>
      cotangents; ///< by result of the forward
  SmallVector<Value> saved;
};

/// The access of one op's adjoint to the function under construction.
class Context final : public AdjointContext {
public:
  Context(Backward &backward, Operation *op, ArrayRef<Value> cotangents)
      : AdjointContext(backward.builder, op->getLoc()), backward(backward),
        op(op), cotangents(cotangents) {}

  Value cotangent(unsigned result) override { return cotangents[result]; }
  bool isNeeded(unsigned operand) override {
    return backward.activity.isActive(op->getOperand(operand));
  }
  Value primal(Value forward) override { return backward.read(forward); }

  Value term(Value value) override {
    return backward.options.mutate
               ? backward.options.mutate(op, terms++, value, *this)
               : value;
  }

  void contribute(unsigned operand, Value value) override {
    assert(value.getType() == op->getOperand(operand).getType() &&
           "a cotangent has its value's type");
    backward.contribute(op->getOpOperand(operand), term(value));
  }

private:
  Backward &backward;
  Operation *op;
  ArrayRef<Value> cotangents;
  unsigned terms = 0;
};

} // namespace

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

LogicalResult Backward::check() {
  bool valid = true;
  auto checkFloating = [&](Value value, const char *kind, unsigned index) {
    if (isFloating(value))
      return;
    forward.emitError() << kind << ' ' << index << " is marked "
                        << nn::kDifferentiableAttr << " but has type "
                        << value.getType()
                        << ", expected a tensor of floating-point elements";
    valid = false;
  };
  for (BlockArgument argument : getForwardBlock().getArguments())
    if (forward.getArgAttr(argument.getArgNumber(), nn::kDifferentiableAttr))
      checkFloating(argument, "argument", argument.getArgNumber());
  for (OpOperand &operand : getForwardBlock().getTerminator()->getOpOperands())
    if (forward.getResultAttr(operand.getOperandNumber(),
                              nn::kDifferentiableAttr))
      checkFloating(operand.get(), "result", operand.getOperandNumber());

  for (Operation &op : getForwardBlock().without_terminator()) {
    if (isa<LossOp>(op)) {
      op.emitOpError("cannot be differentiated inside ")
          << forward.getName()
          << ": losses belong to the caller of a layer, which seeds them";
      valid = false;
    }
    if (!activity.isActive(&op))
      continue;
    auto interface = dyn_cast<AutodiffOpInterface>(op);
    std::string refusal =
        interface ? interface.getAdjointRefusal() : "it has no adjoint";
    if (refusal.empty())
      continue;
    op.emitOpError("cannot be differentiated: ") << refusal;
    valid = false;
  }
  return success(valid);
}

//===----------------------------------------------------------------------===//
// Adjoints
//===----------------------------------------------------------------------===//

Value Backward::read(Value value) {
  auto [entry, isNew] = reads.insert({value, BlockArgument()});
  if (isNew)
    entry->second =
        backward.getBody().front().addArgument(value.getType(), value.getLoc());
  return entry->second;
}

/// The sum of tensors each of which is zero outside of its own part along one
/// axis, as the tensors one behind the other; null where they are not of this
/// kind. Queries, keys and values that are sliced from one product come back
/// like this.
static Value concatenateParts(OpBuilder &builder, Location loc,
                              ArrayRef<Contribution> contributions) {
  struct Part {
    int64_t start;
    Value value;
  };
  SmallVector<Part> parts;
  auto whole = cast<RankedTensorType>(contributions.front().value.getType());
  int64_t axis = -1;
  for (const Contribution &contribution : contributions) {
    auto pad = contribution.value.getDefiningOp<PadOp>();
    if (!pad || !matchPattern(pad.getFill(), m_AnyZeroFloat()) ||
        llvm::any_of(pad.getInterior(),
                     [](int64_t interior) { return interior != 0; }))
      return {};
    auto type = cast<RankedTensorType>(pad.getOperand().getType());
    for (int64_t i = 0; i < type.getRank(); ++i) {
      if (type.getDimSize(i) == whole.getDimSize(i))
        continue;
      if (axis >= 0 && axis != i)
        return {};
      axis = i;
    }
    if (axis < 0)
      return {};
    parts.push_back({pad.getLow()[axis], pad.getOperand()});
  }
  llvm::sort(parts, [](const Part &lhs, const Part &rhs) {
    return lhs.start < rhs.start;
  });
  int64_t end = 0;
  SmallVector<Value> values;
  for (const Part &part : parts) {
    if (part.start != end)
      return {};
    end += cast<RankedTensorType>(part.value.getType()).getDimSize(axis);
    values.push_back(part.value);
  }
  if (end != whole.getDimSize(axis))
    return {};
  return ConcatOp::create(builder, loc, whole, values, axis);
}

/// The sum of what the uses of a value contributed; null where nothing did.
Value Backward::takeCotangent(Value value) {
  auto found = contributions.find(value);
  if (found == contributions.end())
    return {};
  llvm::sort(found->second,
             [](const Contribution &lhs, const Contribution &rhs) {
               return std::tuple(lhs.op, lhs.operand, lhs.index) <
                      std::tuple(rhs.op, rhs.operand, rhs.index);
             });
  if (Value parts = concatenateParts(builder, value.getLoc(), found->second))
    return parts;
  SmallVector<Value> terms;
  for (const Contribution &contribution : found->second)
    terms.push_back(contribution.value);
  Value sum;
  for (Value term : joinProducts(builder, value.getLoc(), terms))
    sum = sum ? Value(arith::AddFOp::create(builder, value.getLoc(), sum, term))
              : term;
  return sum;
}

void Backward::buildAdjoints() {
  Block &block = backward.getBody().front();
  for (OpOperand &operand :
       getForwardBlock().getTerminator()->getOpOperands()) {
    unsigned index = operand.getOperandNumber();
    if (!forward.getResultAttr(index, nn::kDifferentiableAttr) ||
        !activity.isActive(operand.get()))
      continue;
    BlockArgument argument =
        block.addArgument(operand.get().getType(), operand.get().getLoc());
    cotangents.push_back({index, argument});
    contribute(operand, argument);
  }

  for (Operation &op : llvm::reverse(getForwardBlock().without_terminator())) {
    if (!activity.isActive(&op))
      continue;
    SmallVector<Value> cotangents;
    for (Value result : op.getResults())
      cotangents.push_back(takeCotangent(result));
    Context context(*this, &op, cotangents);
    if (llvm::any_of(cotangents, [](Value value) { return value != nullptr; }))
      cast<AutodiffOpInterface>(op).buildAdjoint(context);
  }

  SmallVector<Value> gradients;
  for (BlockArgument argument : getForwardBlock().getArguments()) {
    if (!forward.getArgAttr(argument.getArgNumber(), nn::kDifferentiableAttr))
      continue;
    Value gradient = takeCotangent(argument);
    if (!gradient) {
      emitRemark(argument.getLoc())
          << "argument " << argument.getArgNumber() << " of "
          << forward.getName()
          << " is on no path to a differentiable result: its gradient is zero";
      gradient = Algebra(builder, argument.getLoc())
                     .constant(0, Algebra::typeOf(argument));
    }
    gradients.push_back(gradient);
  }
  func::ReturnOp::create(builder, forward.getLoc(), gradients);
}

/// Removes what is computed twice or for nothing.
void Backward::simplify() {
  backward.setFunctionType(builder.getFunctionType(
      backward.getBody().front().getArgumentTypes(),
      backward.getBody().front().getTerminator()->getOperandTypes()));
  // A fixed point that is missed costs speed, not correctness.
  (void)applyPatternsGreedily(backward, patterns);
  IRRewriter rewriter(builder.getContext());
  DominanceInfo dominance(backward);
  eliminateCommonSubExpressions(rewriter, dominance, backward);
}

//===----------------------------------------------------------------------===//
// What the backward reads
//===----------------------------------------------------------------------===//

/// The value in the backward, recomputed unless it is mapped already.
Value Backward::recompute(Value value, IRMapping &mapping) {
  if (Value known = mapping.lookupOrNull(value))
    return known;
  for (Value operand : getRecomputeOperands(value))
    if (!mapping.contains(operand)) // an op's operands are recomputed before it
      recompute(operand, mapping);
  Operation *op = value.getDefiningOp();
  if (auto norm = dyn_cast<LayerNormOp>(op)) {
    Algebra algebra(builder, norm.getLoc());
    auto optional = [&](Value operand) {
      return operand ? mapping.lookup(operand) : Value();
    };
    mapping.map(value, applyLayerNorm(
                           algebra, mapping.lookup(norm.getOperand()),
                           mapping.lookup(norm.getScale()),
                           optional(norm.getShift()), optional(norm.getMean()),
                           mapping.lookup(norm.getInverseDeviation())));
  } else if (auto norm = dyn_cast<BatchNormOp>(op)) {
    Algebra algebra(builder, norm.getLoc());
    mapping.map(value,
                applyBatchNorm(algebra, mapping.lookup(norm.getOperand()),
                               mapping.lookup(norm.getScale()),
                               mapping.lookup(norm.getShift()),
                               mapping.lookup(norm.getMean()),
                               mapping.lookup(norm.getInverseDeviation())));
  } else if (Operation *copy = builder.clone(*op, mapping); isa<GeluOp>(copy)) {
    // In primitives it shares erf or tanh with the adjoint.
    mapping.map(value, decompose(copy, builder)->front());
    copy->erase();
  }
  return mapping.lookup(value);
}

/// Moves recomputed ops down to their first use, so that they live shortly.
void Backward::sinkRecomputed(ArrayRef<Operation *> recomputed) {
  for (Operation *op : llvm::reverse(recomputed)) {
    Operation *first = nullptr;
    for (Operation *user : op->getUsers())
      if (!first || user->isBeforeInBlock(first))
        first = user;
    if (first)
      op->moveBefore(first);
  }
}

/// Replaces the arguments that stand for values of the forward: by arguments
/// that are the forward's own, by saved values, and by recomputation from
/// those.
void Backward::resolveReads() {
  Block &old = backward.getBody().front();
  SmallVector<Value> needed;
  for (auto &[value, argument] : reads)
    if (!argument.use_empty())
      needed.push_back(value);
  saved = chooseSavedValues(needed);

  // Arguments are added for all that could be read; those without use go at the
  // end.
  auto *block = new Block();
  SmallVector<NamedAttribute> attributes;
  IRMapping mapping;
  auto addArgument = [&](Value value, StringRef attribute, int64_t index) {
    attributes.push_back(
        builder.getNamedAttr(attribute, builder.getI64IntegerAttr(index)));
    return block->addArgument(value.getType(), value.getLoc());
  };
  for (BlockArgument argument : getForwardBlock().getArguments())
    mapping.map(argument, addArgument(argument, nn::kPrimalAttr,
                                      argument.getArgNumber()));
  unsigned firstSaved = block->getNumArguments();
  for (auto [index, value] : llvm::enumerate(saved))
    mapping.map(value, addArgument(value, nn::kSavedAttr, index));
  for (auto &[result, argument] : cotangents)
    argument.replaceAllUsesWith(
        addArgument(argument, nn::kCotangentAttr, result));

  backward.getBody().push_front(block);
  builder.setInsertionPointToStart(block);
  llvm::sort(needed, [&](Value lhs, Value rhs) {
    auto position = [&](Value value) {
      Operation *op = value.getDefiningOp();
      return op ? static_cast<int64_t>(positions[op]) : -1;
    };
    return position(lhs) < position(rhs);
  });
  for (Value value : needed)
    reads.find(value)->second.replaceAllUsesWith(recompute(value, mapping));
  SmallVector<Operation *> recomputed;
  for (Operation &op : *block)
    recomputed.push_back(&op);
  block->getOperations().splice(block->end(), old.getOperations());
  old.erase();
  sinkRecomputed(recomputed);
  simplify();

  // Drop what is not read, and renumber what is saved.
  llvm::BitVector dead(block->getNumArguments());
  SmallVector<Value> kept;
  SmallVector<DictionaryAttr> argumentAttributes;
  for (BlockArgument argument : block->getArguments()) {
    unsigned number = argument.getArgNumber();
    if (argument.use_empty()) {
      dead.set(number);
      continue;
    }
    NamedAttribute attribute = attributes[number];
    if (attribute.getName() == nn::kSavedAttr) {
      attribute.setValue(builder.getI64IntegerAttr(kept.size()));
      kept.push_back(saved[number - firstSaved]);
    }
    argumentAttributes.push_back(builder.getDictionaryAttr(attribute));
  }
  saved = kept;
  block->eraseArguments(dead);
  backward.setFunctionType(builder.getFunctionType(
      block->getArgumentTypes(), block->getTerminator()->getOperandTypes()));
  backward.setAllArgAttrs(argumentAttributes);
}

void Backward::finishForward() {
  Operation *terminator = getForwardBlock().getTerminator();
  for (Value value : saved) {
    (void)forward.insertResult(forward.getNumResults(), value.getType(),
                               nullptr);
    terminator->insertOperands(terminator->getNumOperands(), value);
  }
  forward->setAttr(nn::kSavedAttr, builder.getI64IntegerAttr(saved.size()));
}

func::FuncOp Backward::build() {
  SmallVector<Attribute> gradients;
  for (BlockArgument argument : getForwardBlock().getArguments())
    if (forward.getArgAttr(argument.getArgNumber(), nn::kDifferentiableAttr))
      gradients.push_back(builder.getDictionaryAttr(builder.getNamedAttr(
          nn::kGradientAttr,
          builder.getI64IntegerAttr(argument.getArgNumber()))));
  if (gradients.empty()) {
    finishForward();
    return {};
  }
  builder.setInsertionPointAfter(forward);
  backward = func::FuncOp::create(builder, forward.getLoc(),
                                  getBackwardName(forward.getName()),
                                  builder.getFunctionType({}, {}));
  backward.setVisibility(forward.getVisibility());
  builder.setInsertionPointToStart(backward.addEntryBlock());
  buildAdjoints();
  simplify();
  resolveReads();
  for (auto [index, attribute] : llvm::enumerate(gradients))
    backward.setResultAttrs(index, cast<DictionaryAttr>(attribute));
  finishForward();
  return backward;
}

FailureOr<func::FuncOp>
harmony::autodiff::differentiate(func::FuncOp forward,
                                 const DifferentiateOptions &options) {
  if (!forward.getBody().hasOneBlock())
    return forward.emitError(
        "cannot be differentiated: it must have a body of one block");
  Backward backward(forward, options);
  if (failed(backward.check()))
    return failure();
  return backward.build();
}
