//===- FormLayers.cpp - Cut the model into layers -------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Layers/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringMap.h"

namespace harmony {
#define GEN_PASS_DEF_FORMLAYERSPASS
#include "passes/Layers/Passes.h.inc"
} // namespace harmony

using namespace mlir;
using namespace harmony;

namespace {

/// What a value depends on. Only `Chain` values, which depend on weights
/// (trained or frozen) and on inputs, have a place in the sequence of layers.
/// Constants and buffers are not weights: tables of positions and masks.
enum class Origin { Constant, Weights, Inputs, Chain };

Origin join(Origin a, Origin b) {
  if (a == Origin::Constant)
    return b;
  if (b == Origin::Constant || a == b)
    return a;
  return Origin::Chain;
}

/// Bytes per sample that a value adds to a cut.
int64_t bytesPerSample(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  int64_t bytes = std::max<int64_t>(type.getElementTypeBitWidth() / 8, 1);
  for (int64_t extent : type.getShape())
    bytes *= ShapedType::isDynamic(extent) ? 1 : extent;
  if (nn::BatchAttr batch = nn::getBatch(type))
    bytes *= batch.getFactor();
  return bytes;
}

void eraseDeadOps(func::FuncOp function) {
  auto ops = llvm::map_to_vector(function.front().without_terminator(),
                                 [](Operation &op) { return &op; });
  for (Operation *op : llvm::reverse(ops))
    if (op->use_empty() && isPure(op))
      op->erase();
}

/// The chain of one function and where to cut it.
class Chain {
public:
  Chain(func::FuncOp function, SymbolTable &symbols) {
    for (BlockArgument argument : function.getArguments())
      origins[argument] = Origin::Inputs;
    // What the function is for is computed by a layer, whatever it depends on:
    // penalties of weights, outputs that depend on inputs alone.
    DenseSet<Operation *> roots;
    for (Value result : function.front().getTerminator()->getOperands())
      roots.insert(result.getDefiningOp());
    for (auto loss : function.getOps<nn::LossOp>())
      roots.insert(loss.getNumerator().getDefiningOp());
    for (auto assign : function.getOps<nn::AssignOp>())
      roots.insert(assign.getValue().getDefiningOp());
    for (Operation &op : function.front().without_terminator()) {
      if (isa<nn::LossOp, nn::AssignOp>(op))
        continue;
      Origin origin = Origin::Constant;
      bool isTrained = false;
      if (auto get = dyn_cast<nn::GetOp>(op)) {
        nn::Role role =
            symbols.lookup<nn::VariableOp>(get.getVariable()).getRole();
        if (role != nn::Role::constant && role != nn::Role::buffer)
          origin = Origin::Weights;
        isTrained = role == nn::Role::parameter;
      } else if (roots.contains(&op)) {
        origin = Origin::Chain;
      }
      for (Value operand : op.getOperands()) {
        origin = join(origin, origins.lookup(operand));
        isTrained |= trained.contains(operand);
      }
      for (Value result : op.getResults()) {
        origins[result] = origin;
        if (isTrained &&
            isa<FloatType>(
                cast<RankedTensorType>(result.getType()).getElementType()))
          trained.insert(result);
      }
      if (origin == Origin::Chain)
        ops.push_back(&op);
    }
    for (auto [index, op] : llvm::enumerate(ops))
      position[op] = index;
  }

  Origin getOrigin(Value value) const { return origins.lookup(value); }
  /// Whether a value gets a gradient: it is floating and depends, by floating
  /// values, on a trained parameter.
  bool isTrained(Value value) const { return trained.contains(value); }
  ArrayRef<Operation *> getOps() const { return ops; }

  /// Indices of the ops behind which the chain is cut, ascending; the last op
  /// is not among them.
  SmallVector<size_t> findCuts() const {
    SmallVector<Heavy> heavy = findHeavyOps();
    if (heavy.size() < 2)
      return {};
    SmallVector<int64_t> bytes(ops.size()), values(ops.size());
    measureLiveSets(bytes, values);

    struct Gap {
      size_t cut;
      int64_t bytes, values;
    };
    SmallVector<Gap> gaps;
    for (size_t i = 0; i + 1 < heavy.size(); ++i) {
      size_t best = heavy[i].last;
      for (size_t p = heavy[i].last; p < heavy[i + 1].first; ++p)
        if (std::pair(bytes[p], values[p]) <
            std::pair(bytes[best], values[best]))
          best = p;
      gaps.push_back({best, bytes[best], values[best]});
    }
    SmallVector<size_t> cuts;
    for (size_t i = 0; i < gaps.size(); ++i) {
      bool narrowLeft = i == 0 || gaps[i].bytes < gaps[i - 1].bytes;
      bool narrowRight =
          i + 1 == gaps.size() || gaps[i].bytes < gaps[i + 1].bytes;
      if (gaps[i].values == 1 || (narrowLeft && narrowRight))
        cuts.push_back(gaps[i].cut);
    }
    return cuts;
  }

private:
  /// Ops [first, last] that one layer holds.
  struct Heavy {
    size_t first, last;
  };

  /// Products, and the last of a run of look-ups: embeddings that are added up
  /// make one layer. Products that must not be divided are one, with what is
  /// between them.
  SmallVector<Heavy> findHeavyOps() const {
    SmallVector<Heavy> heavy;
    DenseMap<Attribute, size_t> undivided; // entry of heavy
    bool lookup = false;
    for (auto [index, op] : llvm::enumerate(ops)) {
      bool isLookup = false;
      if (auto gather = dyn_cast<nn::GatherOp>(op))
        isLookup = origins.lookup(gather.getOperand()) == Origin::Weights;
      if (!isLookup && !isa<nn::DotGeneralOp>(op))
        continue;
      if (isLookup && lookup)
        heavy.back() = {index, index};
      else
        heavy.push_back({index, index});
      lookup = isLookup;
      if (Attribute name = op->getAttr(nn::kUndividedAttr)) {
        size_t here = heavy.size() - 1;
        size_t entry =
            std::min(undivided.try_emplace(name, here).first->second, here);
        heavy.truncate(entry + 1);
        heavy[entry].last = index;
      }
    }
    return heavy;
  }

  /// bytes[p], values[p]: what of the chain is live behind op p.
  void measureLiveSets(MutableArrayRef<int64_t> bytes,
                       MutableArrayRef<int64_t> values) const {
    for (auto [index, op] : llvm::enumerate(ops)) {
      for (Value result : op->getResults()) {
        size_t last = index;
        for (Operation *user : result.getUsers()) {
          if (isa<nn::AssignOp>(user))
            continue; // goes to its variable at once
          auto it = position.find(user);
          // The loss and results are read at the end.
          last = std::max(last,
                          it == position.end() ? ops.size() - 1 : it->second);
        }
        for (size_t p = index; p < last; ++p) {
          bytes[p] += bytesPerSample(result);
          ++values[p];
        }
      }
    }
  }

  DenseMap<Value, Origin> origins;
  DenseSet<Value> trained;
  SmallVector<Operation *> ops;
  DenseMap<Operation *, size_t> position;
};

/// Replaces the body of one function by calls of layer functions.
class LayerBuilder {
public:
  LayerBuilder(func::FuncOp function, llvm::StringMap<func::FuncOp> &known,
               SymbolTable &symbols, bool trains)
      : function(function), chain(function, symbols), known(known),
        symbols(symbols), trains(trains) {}

  /// Returns the number of layers.
  size_t run() {
    SmallVector<size_t> cuts = chain.findCuts();
    ArrayRef<Operation *> ops = chain.getOps();
    SmallVector<ArrayRef<Operation *>> segments;
    size_t begin = 0;
    for (size_t cut : cuts) {
      segments.push_back(ops.slice(begin, cut + 1 - begin));
      begin = cut + 1;
    }
    if (begin < ops.size())
      segments.push_back(ops.drop_front(begin));

    OpBuilder builder(function.getContext());
    builder.setInsertionPoint(function.front().getTerminator());
    for (auto [index, segment] : llvm::enumerate(segments))
      buildLayer(segment, index, builder);
    finish();
    return segments.size();
  }

private:
  void buildLayer(ArrayRef<Operation *> segment, size_t index,
                  OpBuilder &builder) {
    DenseSet<Operation *> inside(segment.begin(), segment.end());
    // What the layer reads, in three classes, each in the order of first use.
    llvm::SetVector<Value> weights, inputs, cuts;
    llvm::SetVector<Operation *> repeated;
    for (Operation *op : segment)
      for (Value operand : op->getOperands())
        collect(operand, inside, weights, inputs, cuts, repeated);
    SmallVector<Value> results;
    SmallVector<nn::AssignOp> assigns;
    for (Operation *op : segment)
      for (Value result : op->getResults()) {
        bool isRead = false;
        for (Operation *user : result.getUsers()) {
          if (auto assign = dyn_cast<nn::AssignOp>(user)) {
            assigns.push_back(assign);
            weights.insert(readOf(assign.getVariableAttr(), result.getType()));
          } else {
            isRead |= !inside.contains(user);
          }
        }
        if (isRead)
          results.push_back(result);
      }
    SmallVector<Value> arguments;
    for (auto *set : {&weights, &inputs, &cuts})
      arguments.append(set->begin(), set->end());

    Location loc = segment.back()->getLoc();
    func::FuncOp layer = outline(segment, repeated.getArrayRef(), arguments,
                                 results, assigns, loc);
    SmallVector<Value> operands;
    for (Value argument : arguments)
      operands.push_back(mapped.lookupOrDefault(argument));
    auto call = func::CallOp::create(builder, loc, layer, operands);
    call->setAttr(nn::kLayerNameAttr,
                  builder.getStringAttr(nameLayer(segment, index)));
    for (auto [result, replacement] : llvm::zip(results, call.getResults()))
      mapped.map(result, replacement);
    for (auto [assign, value] :
         llvm::zip(assigns, call.getResults().drop_front(results.size())))
      assigned[assign] = value;
  }

  /// The first read of a variable, made where there is none.
  Value readOf(FlatSymbolRefAttr variable, Type type) {
    Value &read = reads[variable.getAttr()];
    if (!read) {
      auto builder = OpBuilder::atBlockBegin(&function.front());
      read = nn::GetOp::create(builder, function.getLoc(), type, variable);
    }
    return read;
  }

  /// Sorts the leaves that `value` is computed from into classes and lists the
  /// ops to repeat.
  void collect(Value value, const DenseSet<Operation *> &inside,
               llvm::SetVector<Value> &weights, llvm::SetVector<Value> &inputs,
               llvm::SetVector<Value> &cuts,
               llvm::SetVector<Operation *> &repeated) {
    Operation *op = value.getDefiningOp();
    if (!op) {
      inputs.insert(value);
    } else if (isa<nn::GetOp>(op)) {
      // Two reads of a variable are one argument.
      auto name = cast<nn::GetOp>(op).getVariableAttr().getAttr();
      auto [it, inserted] = reads.try_emplace(name, value);
      weights.insert(it->second);
      if (!inserted && it->second != value)
        sameRead[value] = it->second;
    } else if (chain.getOrigin(value) == Origin::Chain) {
      if (!inside.contains(op))
        cuts.insert(value);
    } else if (!repeated.contains(op)) {
      for (Value operand : op->getOperands())
        collect(operand, inside, weights, inputs, cuts, repeated);
      repeated.insert(op);
    }
  }

  func::FuncOp outline(ArrayRef<Operation *> segment,
                       ArrayRef<Operation *> repeated,
                       ArrayRef<Value> arguments, ArrayRef<Value> results,
                       ArrayRef<nn::AssignOp> assigns, Location loc) {
    MLIRContext *context = function.getContext();
    SmallVector<Value> all(results);
    for (nn::AssignOp assign : assigns)
      all.push_back(assign.getValue());
    auto type = FunctionType::get(context, TypeRange(ValueRange(arguments)),
                                  TypeRange(ValueRange(all)));
    auto layer = func::FuncOp::create(loc, "layer", type);
    layer.setPrivate();
    layer->setAttr(nn::kLayerAttr, UnitAttr::get(context));
    Block *body = layer.addEntryBlock();
    IRMapping mapping;
    for (auto [argument, parameter] :
         llvm::zip(arguments, body->getArguments()))
      mapping.map(argument, parameter);
    for (auto [read, first] : sameRead)
      if (mapping.contains(first))
        mapping.map(read, mapping.lookup(first));
    OpBuilder builder = OpBuilder::atBlockEnd(body);
    for (Operation *op : repeated)
      builder.clone(*op, mapping);
    for (Operation *op : segment)
      builder.clone(*op, mapping)->removeAttr(nn::kUndividedAttr);
    SmallVector<Value> returned;
    for (Value result : all)
      returned.push_back(mapping.lookup(result));
    func::ReturnOp::create(builder, loc, returned);

    UnitAttr unit = UnitAttr::get(context);
    for (auto [index, argument] : llvm::enumerate(arguments))
      if (chain.isTrained(argument))
        layer.setArgAttr(index, nn::kDifferentiableAttr, unit);
    for (auto [index, result] : llvm::enumerate(results))
      if (chain.isTrained(result))
        layer.setResultAttr(index, nn::kDifferentiableAttr, unit);
    for (auto [index, assign] : llvm::enumerate(assigns)) {
      nn::AssignOp op = assign;
      Value read = reads.lookup(op.getVariableAttr().getAttr());
      layer.setResultAttr(results.size() + index, nn::kAssignsAttr,
                          builder.getI64IntegerAttr(
                              llvm::find(arguments, read) - arguments.begin()));
    }
    return unique(layer);
  }

  /// Returns the function that equals `layer`, which is deleted, or else
  /// inserts it.
  func::FuncOp unique(func::FuncOp layer) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    layer.print(stream, OpPrintingFlags().useLocalScope());
    func::FuncOp &entry = known[text];
    if (entry) {
      layer.erase();
      return entry;
    }
    // Layers of the evaluation alone have no backward.
    if (!trains) {
      layer.removeArgAttrsAttr();
      layer.removeResAttrsAttr();
    }
    layer.setName(("layer_" + Twine(known.size() - 1)).str());
    symbols.insert(layer);
    return entry = layer;
  }

  /// Named after the last heavy op's weight, or its position.
  std::string nameLayer(ArrayRef<Operation *> segment, size_t index) {
    llvm::SetVector<Value> weights, inputs, cuts;
    llvm::SetVector<Operation *> repeated;
    DenseSet<Operation *> inside(segment.begin(), segment.end());
    std::string name;
    for (Operation *op : segment) {
      if (!isa<nn::DotGeneralOp, nn::GatherOp>(op))
        continue;
      weights.clear();
      for (Value operand : op->getOperands())
        if (chain.getOrigin(operand) == Origin::Weights)
          collect(operand, inside, weights, inputs, cuts, repeated);
      repeated.clear();
      if (!weights.empty())
        name = weights.front().getDefiningOp<nn::GetOp>().getVariable().str();
    }
    return name.empty() ? "layer " + std::to_string(index) : name;
  }

  /// Redirects loss, results and assignments to the calls and erases the old
  /// body, but for the reads of variables.
  void finish() {
    Operation *terminator = function.front().getTerminator();
    // They are moved: collected first.
    for (nn::LossOp loss : llvm::to_vector(function.getOps<nn::LossOp>())) {
      loss.getNumeratorMutable().assign(
          mapped.lookupOrDefault(loss.getNumerator()));
      loss->moveBefore(terminator);
    }
    for (nn::AssignOp assign :
         llvm::to_vector(function.getOps<nn::AssignOp>())) {
      assign.getValueMutable().assign(assigned.lookup(assign));
      assign->moveBefore(terminator);
    }
    for (OpOperand &operand : terminator->getOpOperands())
      operand.set(mapped.lookupOrDefault(operand.get()));
    eraseDeadOps(function);
  }

  func::FuncOp function;
  Chain chain;
  llvm::StringMap<func::FuncOp> &known;
  SymbolTable &symbols;
  bool trains;
  IRMapping mapped;
  DenseMap<Operation *, Value> assigned;  ///< what an nn.assign stores
  DenseMap<StringAttr, Value> reads;      ///< first read of each variable
  llvm::MapVector<Value, Value> sameRead; ///< other reads, to the first
};

struct FormLayers : harmony::impl::FormLayersPassBase<FormLayers> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    SymbolTable symbols(module);
    auto main = symbols.lookup<func::FuncOp>(kMainName);
    if (!main) {
      module.emitError(
          "no function @main: the module is not a normalised model");
      return signalPassFailure();
    }
    outlineConstants(main, symbols);
    auto evaluate = cast<func::FuncOp>(main->clone());
    evaluate.setName(kEvaluateName);
    symbols.insert(evaluate, std::next(Block::iterator(main)));
    bool trains = !main.getOps<nn::LossOp>().empty();
    resolveModes(main, trains);
    resolveModes(evaluate, /*trains=*/false);
    if (trains) {
      dropResults(main);
      buildPrologue(main, symbols);
      dropDenominators(main);
      dropDenominators(evaluate);
    }
    llvm::StringMap<func::FuncOp> known;
    // A forward-only model has no training forward.
    if (trains)
      layerCount += LayerBuilder(main, known, symbols, /*trains=*/true).run();
    else
      main.erase();
    LayerBuilder(evaluate, known, symbols, /*trains=*/false).run();
    functionCount += known.size();
  }

  /// Tables become variables: a kernel reads them from memory like everything
  /// else.
  static void outlineConstants(func::FuncOp main, SymbolTable &symbols) {
    for (auto constant :
         llvm::make_early_inc_range(main.getOps<arith::ConstantOp>())) {
      auto elements = dyn_cast<DenseElementsAttr>(constant.getValue());
      if (!elements || elements.isSplat())
        continue;
      OpBuilder builder(main);
      auto type = cast<RankedTensorType>(elements.getType());
      auto variable =
          nn::VariableOp::create(builder, constant.getLoc(), "constant", type,
                                 nn::Role::constant, elements);
      symbols.insert(variable, Block::iterator(main));
      builder.setInsertionPoint(constant);
      auto get = nn::GetOp::create(builder, constant.getLoc(), type,
                                   variable.getSymName());
      constant.replaceAllUsesWith(get.getResult());
      constant.erase();
    }
  }

  static void resolveModes(func::FuncOp function, bool trains) {
    if (!trains)
      eraseAssigns(function);
    for (auto op :
         llvm::make_early_inc_range(function.getOps<nn::ByModeOp>())) {
      op.getResult().replaceAllUsesWith(trains ? op.getTraining()
                                               : op.getEvaluation());
      op.erase();
    }
    eraseDeadOps(function);
  }

  static void eraseAssigns(func::FuncOp function) {
    for (auto assign :
         llvm::make_early_inc_range(function.getOps<nn::AssignOp>()))
      assign.erase();
  }

  /// The training forward computes the loss alone.
  static void dropResults(func::FuncOp main) {
    main.front().getTerminator()->setOperands({});
    main.setType(
        FunctionType::get(main.getContext(), main.getArgumentTypes(), {}));
    main.removeResAttrsAttr();
    eraseDeadOps(main);
  }

  /// What layers no longer compute: the terms refer to results of @prologue
  /// instead.
  static void dropDenominators(func::FuncOp function) {
    int64_t term = 0;
    for (auto loss : function.getOps<nn::LossOp>())
      if (loss.getDenominator()) {
        loss.getDenominatorMutable().clear();
        loss->setAttr(kDenominatorAttr,
                      Builder(loss).getI64IntegerAttr(term++));
      }
    eraseDeadOps(function);
  }

  /// @prologue: the inputs to the denominators that depend on them, in the
  /// order of the terms.
  static void buildPrologue(func::FuncOp main, SymbolTable &symbols) {
    auto prologue = cast<func::FuncOp>(main->clone());
    prologue.setName(kPrologueName);
    SmallVector<Value> denominators;
    SmallVector<Type> types;
    for (auto loss :
         llvm::make_early_inc_range(prologue.getOps<nn::LossOp>())) {
      if (Value denominator = loss.getDenominator()) {
        denominators.push_back(denominator);
        types.push_back(denominator.getType());
      }
      loss.erase();
    }
    eraseAssigns(prologue);
    prologue.front().getTerminator()->setOperands(denominators);
    prologue.setType(
        FunctionType::get(main.getContext(), main.getArgumentTypes(), types));
    eraseDeadOps(prologue);
    symbols.insert(prologue, std::next(Block::iterator(main)));
  }
};

} // namespace
