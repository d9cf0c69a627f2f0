//===- Graph.cpp - A fusion group as an expression graph ------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Codegen/Graph.h"

#include "dialects/NN/Decompose.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace harmony;
using namespace harmony::codegen;

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

int64_t harmony::codegen::getElementBytes(Type type) {
  return std::max(1u, type.getIntOrFloatBitWidth() / 8);
}

static bool isSameOperation(Operation *a, Operation *b) {
  return a && b ? a->getName() == b->getName() &&
                      a->getAttrDictionary() == b->getAttrDictionary() &&
                      a->getPropertiesAsAttribute() ==
                          b->getPropertiesAsAttribute()
                : a == b;
}

bool NodeBase::computesAs(const NodeBase &o) const {
  return kind == o.kind && type == o.type && operands == o.operands &&
         value == o.value && memory == o.memory && offset == o.offset &&
         indexed == o.indexed && indexExtent == o.indexExtent &&
         indexStride == o.indexStride && chunks == o.chunks &&
         chunkStride == o.chunkStride && reduction == o.reduction &&
         isSameOperation(op, o.op);
}

View View::rowMajor(ArrayRef<int64_t> shape) {
  View view;
  view.strides.resize(shape.size());
  int64_t stride = 1;
  for (size_t axis = shape.size(); axis-- > 0;) {
    view.strides[axis] = stride;
    stride *= shape[axis];
  }
  return view;
}

AtomStrides harmony::codegen::resolveStrides(const Atoms &atoms,
                                             const Axes &axes,
                                             ArrayRef<int64_t> axisStrides) {
  AtomStrides strides;
  for (auto [axis, axisStride] : llvm::zip_equal(axes, axisStrides)) {
    int64_t stride = axisStride;
    for (unsigned atom : llvm::reverse(atoms.resolve(axis))) {
      auto *known = llvm::find_if(
          strides, [&](auto &entry) { return entry.first == atom; });
      if (known != strides.end())
        known->second += stride;
      else
        strides.push_back({atom, stride});
      stride *= atoms.getExtent(atom);
    }
  }
  return strides;
}

//===----------------------------------------------------------------------===//
// Flattening
//===----------------------------------------------------------------------===//

FailureOr<Graph> Graph::build(const KernelSpec &spec) {
  Graph graph;
  graph.spec = &spec;
  Operation *op = spec.op;
  for (Type type :
       llvm::concat<const Type>(op->getOperandTypes(), op->getResultTypes())) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor || !tensor.hasStaticShape() ||
        !tensor.getElementType().isIntOrFloat() || !tensor.getNumElements()) {
      graph.emitError() << "type " << type
                        << " is not a static tensor of numbers";
      return failure();
    }
  }

  OpBuilder builder(op->getContext());
  graph.scratch = ModuleOp::create(op->getLoc());
  builder.setInsertionPointToEnd(graph.scratch->getBody());
  auto function = func::FuncOp::create(
      builder, op->getLoc(), "group",
      builder.getFunctionType(op->getOperandTypes(), op->getResultTypes()));
  graph.body = function.addEntryBlock();
  builder.setInsertionPointToEnd(graph.body);
  IRMapping mapping;
  if (auto group = dyn_cast<nn::GroupOp>(op)) {
    Block &block = group.getBody().front();
    mapping.map(block.getArguments(), graph.body->getArguments());
    for (Operation &inner : block.without_terminator())
      builder.clone(inner, mapping);
    for (Value value : block.getTerminator()->getOperands())
      graph.results.push_back(mapping.lookup(value));
  } else {
    mapping.map(op->getOperands(), graph.body->getArguments());
    // An op that reads a value twice has two operands in the launch as well;
    // the mapping leads both to one of them, which has the same address.
    Operation *copy = builder.clone(*op, mapping);
    copy->setOperands(graph.body->getArguments());
    llvm::append_range(graph.results, copy->getResults());
  }

  for (Operation &inner : llvm::make_early_inc_range(*graph.body)) {
    if (!nn::isComposite(&inner))
      continue;
    builder.setInsertionPoint(&inner);
    FailureOr<SmallVector<Value>> values = nn::decompose(&inner, builder);
    if (failed(values))
      return inner.emitOpError("cannot be decomposed"), failure();
    for (Value &result : graph.results)
      if (result.getDefiningOp() == &inner)
        result = (*values)[cast<OpResult>(result).getResultNumber()];
    inner.replaceAllUsesWith(*values);
    inner.erase();
  }
  builder.setInsertionPointToEnd(graph.body);
  func::ReturnOp::create(builder, op->getLoc(), graph.results);
  for (Operation &inner :
       llvm::make_early_inc_range(llvm::reverse(*graph.body)))
    if (isOpTriviallyDead(&inner))
      inner.erase();
  return graph;
}

Value Graph::getValue(unsigned node) const { return reductions.lookup(node); }

bool Graph::isUsedInside(Value value) const {
  return llvm::any_of(value.getUsers(), [](Operation *user) {
    return !isa<func::ReturnOp>(user);
  });
}

//===----------------------------------------------------------------------===//
// Analysis
//===----------------------------------------------------------------------===//

LogicalResult Graph::analyse() {
  // Each round may find values that must lie in memory and starts over with
  // them.
  constexpr int kRounds = 64;
  for (int round = 0; round < kRounds; ++round) {
    again = false;
    atoms = Atoms();
    nodes.clear();
    memories.clear();
    roots.clear();
    temporaries.clear();
    tensors.clear();
    leaves.clear();
    reductions.clear();
    ValueRange arguments = body->getArguments();
    for (auto [index, argument] : llvm::enumerate(arguments)) {
      RankedTensorType type = typeOf(argument);
      memories.push_back({{Argument::Operand, static_cast<unsigned>(index)},
                          type.getElementType(),
                          llvm::to_vector(type.getShape()),
                          spec->operands[index].strides,
                          {}});
    }
    for (auto [index, result] : llvm::enumerate(spec->op->getResultTypes())) {
      auto type = cast<RankedTensorType>(result);
      memories.push_back(
          {{Argument::Result, static_cast<unsigned>(index), true},
           type.getElementType(),
           llvm::to_vector(type.getShape()),
           spec->results[index].strides,
           {}});
    }
    // An intermediate result is kept where the group's result of the same value
    // goes.
    for (auto &[value, memory] : materialised) {
      memory = ~0u;
      for (auto [index, result] : llvm::enumerate(results))
        if (result == value &&
            (spec->accumulate.empty() || !spec->accumulate[index]))
          memory = arguments.size() + index;
      if (memory == ~0u)
        memory = addTemporary(typeOf(value).getElementType(),
                              typeOf(value).getShape());
    }
    for (Operation &op : body->without_terminator()) {
      if (failed(visit(&op)))
        return failure();
      if (again)
        break;
    }
    if (!again && sharing == Domain)
      shareDomain();
    if (again)
      continue;
    if (failed(makeRoots()))
      return failure();
    if (!again)
      return resolve();
  }
  return emitError() << "its values need too many intermediate results";
}

unsigned Graph::addTemporary(Type element, ArrayRef<int64_t> shape) {
  int64_t count = 1;
  for (int64_t extent : shape)
    count *= extent;
  memories.push_back(
      {{Argument::Temporary, static_cast<unsigned>(temporaries.size()), true},
       element,
       llvm::to_vector(shape),
       View::rowMajor(shape).strides,
       {}});
  temporaries.push_back(count * getElementBytes(element));
  return memories.size() - 1;
}

Axes Graph::makeAxes(ArrayRef<int64_t> shape) {
  Axes axes;
  for (int64_t extent : shape)
    axes.push_back(atoms.makeAxis(extent));
  return axes;
}

unsigned Graph::addNode(Node node) {
  nodes.push_back(std::move(node));
  return nodes.size() - 1;
}

Tensor Graph::load(unsigned memory) {
  Node node(Node::Load, memories[memory].element);
  node.memory = memory;
  node.axes = makeAxes(memories[memory].shape);
  node.axisStrides = memories[memory].strides;
  Axes axes = node.axes;
  return {addNode(std::move(node)), axes};
}

FailureOr<unsigned> Graph::useMemory(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value))
    return argument.getArgNumber();
  if (auto *entry = materialised.find(value); entry != materialised.end())
    return entry->second;
  DenseElementsAttr elements;
  if (auto constant = value.getDefiningOp<arith::ConstantOp>();
      constant &&
      (elements = dyn_cast<DenseElementsAttr>(constant.getValue()))) {
    RankedTensorType type = typeOf(value);
    memories.push_back({{},
                        type.getElementType(),
                        llvm::to_vector(type.getShape()),
                        View::rowMajor(type.getShape()).strides,
                        elements});
    return memories.size() - 1;
  }
  materialise(value);
  again = true;
  return failure();
}

FailureOr<Tensor> Graph::use(Value value) {
  if (auto known = tensors.find(value);
      known != tensors.end() && !isMaterialised(value))
    return known->second;
  if (auto *known = leaves.find(value);
      known != leaves.end() && sharing != None)
    return known->second;
  FailureOr<Tensor> leaf = makeLeaf(value);
  if (succeeded(leaf))
    leaves[value] = *leaf;
  return leaf;
}

/// A load, constant or index with axes of its own.
FailureOr<Tensor> Graph::makeLeaf(Value value) {
  RankedTensorType type = typeOf(value);
  if (isa<BlockArgument>(value) || materialised.count(value))
    return load(*useMemory(value));
  if (auto constant = value.getDefiningOp<arith::ConstantOp>()) {
    auto elements = dyn_cast<DenseElementsAttr>(constant.getValue());
    if (!elements)
      return constant.emitOpError(
                 "is a constant of a kind that kernels cannot hold"),
             failure();
    if (!elements.isSplat())
      return load(*useMemory(value));
    Node node(Node::Constant, type.getElementType());
    node.value = elements.getSplatValue<Attribute>();
    return Tensor{addNode(std::move(node)), makeAxes(type.getShape())};
  }
  if (auto iota = value.getDefiningOp<nn::IotaOp>()) {
    Node node(Node::Iota, type.getElementType());
    node.axes = makeAxes(type.getShape());
    node.axisStrides.assign(type.getRank(), 0);
    node.axisStrides[iota.getAxis()] = 1;
    Axes axes = node.axes;
    return Tensor{addNode(std::move(node)), axes};
  }
  return value.getDefiningOp()->emitOpError("has no value in a kernel"),
         failure();
}

/// Equates the axes of all values that have the largest shape of the group.
void Graph::shareDomain() {
  SmallVector<std::pair<Value, const Tensor *>> values;
  for (Operation &op : body->without_terminator())
    for (Value result : op.getResults())
      if (auto known = tensors.find(result); known != tensors.end())
        values.push_back({result, &known->second});
  for (auto &[value, tensor] : leaves)
    values.push_back({value, &tensor});
  const std::pair<Value, const Tensor *> *widest = nullptr;
  for (auto &entry : values)
    if (!widest || typeOf(entry.first).getNumElements() >
                       typeOf(widest->first).getNumElements())
      widest = &entry;
  for (auto &[value, tensor] : values)
    if (typeOf(value).getShape() == typeOf(widest->first).getShape())
      for (auto [mine, theirs] :
           llvm::zip_equal(tensor->axes, widest->second->axes))
        if (failed(atoms.equate(
                mine, theirs))) // axes of one extent whose factors differ
          sharing = Leaves, again = true;
}

LogicalResult Graph::visitElementwise(Operation *op) {
  Node node(Node::Element, typeOf(op->getResult(0)).getElementType());
  node.op = op;
  Axes axes = makeAxes(typeOf(op->getResult(0)).getShape());
  for (Value operand : op->getOperands()) {
    FailureOr<Tensor> tensor = use(operand);
    if (failed(tensor))
      return failure();
    if (typeOf(operand).getShape() != typeOf(op->getResult(0)).getShape())
      return op->emitOpError("is not elementwise");
    for (auto [mine, theirs] : llvm::zip_equal(axes, tensor->axes))
      if (failed(atoms.equate(mine, theirs)))
        return op->emitOpError("cannot be computed in one loop nest");
    node.operands.push_back(tensor->node);
  }
  tensors[op->getResult(0)] = {addNode(std::move(node)), axes};
  return success();
}

LogicalResult Graph::visitGather(nn::GatherOp op) {
  FailureOr<unsigned> memory = useMemory(op.getOperand());
  if (failed(memory))
    return success();
  FailureOr<Tensor> indices = use(op.getIndices());
  if (failed(indices))
    return failure();
  const Memory &table = memories[*memory];
  int64_t axis = op.getAxis(), batch = op.getBatchDims();
  Node node(Node::Load, table.element);
  node.memory = *memory;
  node.indexed = true;
  node.operands = {indices->node};
  node.indexExtent = table.shape[axis];
  node.indexStride = table.strides[axis];
  Axes axes;
  auto addAxis = [&](int64_t tableAxis, AtomList list) {
    node.axes.push_back(list);
    node.axisStrides.push_back(table.strides[tableAxis]);
    axes.push_back(list);
  };
  for (int64_t i = 0; i < batch; ++i)
    addAxis(i, indices->axes[i]);
  for (int64_t i = batch; i < axis; ++i)
    addAxis(i, atoms.makeAxis(table.shape[i]));
  for (size_t i = batch; i < indices->axes.size(); ++i)
    axes.push_back(indices->axes[i]);
  for (size_t i = axis + 1; i < table.shape.size(); ++i)
    addAxis(i, atoms.makeAxis(table.shape[i]));
  tensors[op.getResult()] = {addNode(std::move(node)), axes};
  return success();
}

LogicalResult Graph::visit(Operation *op) {
  if (isa<arith::ConstantOp, nn::IotaOp>(op))
    return success();
  if (auto gather = dyn_cast<nn::GatherOp>(op))
    return visitGather(gather);
  if (isa<nn::PadOp, nn::ConcatOp>(op)) { // stored in pieces: see makeRoots
    if (!isMaterialised(op->getResult(0))) {
      materialise(op->getResult(0));
      again = true;
      return success();
    }
    for (Value operand : op->getOperands()) {
      FailureOr<Tensor> tensor = use(operand);
      if (failed(tensor))
        return failure();
    }
    return success();
  }
  if (auto slice = dyn_cast<nn::SliceOp>(op)) {
    FailureOr<unsigned> memory = useMemory(slice.getOperand());
    if (failed(memory))
      return success();
    Node node(Node::Load, memories[*memory].element);
    node.memory = *memory;
    node.axes = makeAxes(typeOf(slice.getResult()).getShape());
    for (auto [axis, stride] : llvm::enumerate(memories[*memory].strides)) {
      node.offset += slice.getStarts()[axis] * stride;
      node.axisStrides.push_back(slice.getStrides()[axis] * stride);
    }
    Axes axes = node.axes;
    tensors[slice.getResult()] = {addNode(std::move(node)), axes};
    return success();
  }
  if (isa_and_nonnull<arith::ArithDialect, math::MathDialect>(
          op->getDialect()) &&
      op->getNumResults() == 1)
    return visitElementwise(op);
  if (!isa<nn::BroadcastOp, nn::ReshapeOp, nn::TransposeOp, nn::ReduceOp>(op))
    return op->emitOpError("cannot be part of a generated kernel");

  FailureOr<Tensor> operand = use(op->getOperand(0));
  if (failed(operand))
    return failure();
  Tensor &result = tensors[op->getResult(0)];
  ArrayRef<int64_t> shape = typeOf(op->getResult(0)).getShape();
  result.node = operand->node;
  if (auto broadcast = dyn_cast<nn::BroadcastOp>(op)) {
    result.axes = makeAxes(shape);
    for (auto [index, axis] : llvm::enumerate(broadcast.getAxes()))
      if (typeOf(broadcast.getOperand()).getDimSize(index) == shape[axis])
        result.axes[axis] = operand->axes[index];
  } else if (auto transpose = dyn_cast<nn::TransposeOp>(op)) {
    for (int64_t axis : transpose.getPermutation())
      result.axes.push_back(operand->axes[axis]);
  } else if (isa<nn::ReshapeOp>(op)) {
    result.axes = makeAxes(shape);
    AtomList from, to;
    for (const AtomList &list : operand->axes)
      llvm::append_range(from, list);
    for (const AtomList &list : result.axes)
      llvm::append_range(to, list);
    if (failed(atoms.equate(from, to)))
      return op->emitOpError("regroups axes whose factors do not nest");
  } else {
    auto reduce = cast<nn::ReduceOp>(op);
    Node node(Node::Reduce, nodes[operand->node].type);
    node.operands = {operand->node};
    node.reduction = reduce.getKind();
    node.axes = operand->axes;
    for (auto [axis, list] : llvm::enumerate(operand->axes)) {
      if (llvm::is_contained(reduce.getAxes(), axis))
        llvm::append_range(node.reduced, list);
      else
        result.axes.push_back(list);
    }
    if (node.reduced.empty()) // of one element
      return success();
    result.node = addNode(std::move(node));
    reductions[result.node] = op->getResult(0);
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Roots
//===----------------------------------------------------------------------===//

void Graph::addRoot(Tensor tensor, unsigned memory, ArrayRef<int64_t> starts,
                    ArrayRef<int64_t> steps, bool accumulate, bool intermediate,
                    int order) {
  Root root{std::move(tensor), memory,       0,     {},
            accumulate,        intermediate, order, {}};
  for (auto [axis, stride] : llvm::enumerate(memories[memory].strides)) {
    root.offset += (starts.empty() ? 0 : starts[axis]) * stride;
    root.axisStrides.push_back((steps.empty() ? 1 : steps[axis]) * stride);
  }
  roots.push_back(std::move(root));
}

LogicalResult Graph::storePieces(Operation *op, unsigned memory,
                                 bool accumulate, bool intermediate) {
  if (auto pad = dyn_cast<nn::PadOp>(op)) {
    FailureOr<Tensor> fill = use(pad.getFill()),
                      operand = use(pad.getOperand());
    if (failed(fill) || failed(operand))
      return failure();
    fill->axes = makeAxes(typeOf(pad.getResult()).getShape());
    addRoot(*fill, memory, {}, {}, accumulate, intermediate, 0);
    SmallVector<int64_t> steps;
    for (int64_t interior : pad.getInterior())
      steps.push_back(interior + 1);
    addRoot(*operand, memory, pad.getLow(), steps, accumulate, intermediate, 1);
    return success();
  }
  auto concat = cast<nn::ConcatOp>(op);
  SmallVector<int64_t> starts(typeOf(concat.getResult()).getRank(), 0);
  for (Value piece : concat.getOperands()) {
    FailureOr<Tensor> tensor = use(piece);
    if (failed(tensor))
      return failure();
    addRoot(*tensor, memory, starts, {}, accumulate, intermediate, 0);
    starts[concat.getAxis()] += typeOf(piece).getDimSize(concat.getAxis());
  }
  return success();
}

LogicalResult Graph::makeRoots() {
  // In order of definition: an intermediate result may depend on earlier ones.
  for (Operation &op : body->without_terminator()) {
    if (op.getNumResults() != 1 || !isMaterialised(op.getResult(0)))
      continue;
    unsigned memory = materialised.find(op.getResult(0))->second;
    if (isa<nn::PadOp, nn::ConcatOp>(op)) {
      if (failed(storePieces(&op, memory, false, true)))
        return failure();
    } else {
      addRoot(tensors.lookup(op.getResult(0)), memory, {}, {}, false, true, 0);
    }
  }
  for (auto [index, value] : llvm::enumerate(results)) {
    unsigned memory = body->getNumArguments() + index;
    auto *entry = materialised.find(value);
    if (entry != materialised.end() && entry->second == memory)
      continue;
    FailureOr<Tensor> tensor = use(value);
    if (failed(tensor))
      return failure();
    bool accumulate = !spec->accumulate.empty() && spec->accumulate[index];
    addRoot(*tensor, memory, {}, {}, accumulate, false, 0);
  }
  return success();
}

LogicalResult Graph::resolve() {
  auto repeats = [](ArrayRef<AtomList> axes) {
    SmallVector<unsigned> seen;
    for (const AtomList &list : axes)
      for (unsigned atom : list) {
        if (llvm::is_contained(seen, atom))
          return true;
        seen.push_back(atom);
      }
    return false;
  };
  // A value that is used at two different indices of the same atoms, as in x[i]
  // * x[j], must be read from memory by each of its uses.
  bool conflict = false;
  for (auto &[value, tensor] : tensors) {
    for (AtomList &list : tensor.axes)
      list = atoms.resolve(list);
    conflict |= repeats(tensor.axes);
  }
  for (Node &node : nodes) {
    for (AtomList &list : node.axes)
      list = atoms.resolve(list);
    conflict |= repeats(node.axes);
  }
  if (conflict && sharing != None) {
    sharing = sharing == Domain ? Leaves : None;
    return analyse();
  }
  if (conflict) {
    bool progress = false;
    for (Operation &op : body->without_terminator())
      if (auto broadcast = dyn_cast<nn::BroadcastOp>(op)) {
        Value operand = broadcast.getOperand();
        if (isa<BlockArgument>(operand) || isMaterialised(operand) ||
            isa<arith::ConstantOp, nn::IotaOp>(operand.getDefiningOp()) ||
            operand.hasOneUse())
          continue;
        materialise(operand);
        progress = true;
      }
    if (!progress)
      return emitError() << "a value is needed at two indices of one axis";
    return analyse();
  }

  for (Node &node : nodes) {
    node.reduced = atoms.resolve(node.reduced);
    if (node.kind == Node::Load || node.kind == Node::Iota)
      node.strides = resolveStrides(atoms, node.axes, node.axisStrides);
  }
  for (Root &root : roots) {
    for (AtomList &list : root.tensor.axes)
      list = atoms.resolve(list);
    root.strides = resolveStrides(atoms, root.tensor.axes, root.axisStrides);
  }
  return success();
}
