//===- Stages.cpp - Splitting a group into row programs -------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Most groups are one program. A reduction whose result the group uses again
// along the reduced axes ("row reduction") fixes what a row is. Any other
// reduction is stored: along trailing axes as a value per row, across rows by
// chunks whose partials a later program adds up. Every program recomputes what
// it needs from operands.
//
//===----------------------------------------------------------------------===//

#include "passes/Codegen/ProgramBuilder.h"

#include <algorithm>
#include <set>

using namespace mlir;
using namespace harmony;
using namespace harmony::codegen;

namespace {
using AtomSet = std::set<unsigned>;

AtomSet makeSet(ArrayRef<unsigned> list) {
  return AtomSet(list.begin(), list.end());
}

AtomList flatten(const Axes &axes) {
  AtomList list;
  for (const AtomList &axis : axes)
    llvm::append_range(list, axis);
  return list;
}

bool intersects(const AtomSet &set, const AtomSet &other) {
  return llvm::any_of(set, [&](unsigned atom) { return other.count(atom); });
}

AtomSet minus(const AtomSet &set, const AtomSet &other) {
  AtomSet rest;
  for (unsigned atom : set)
    if (!other.count(atom))
      rest.insert(atom);
  return rest;
}

AtomSet unite(const AtomSet &set, const AtomSet &other) {
  AtomSet all = set;
  all.insert(other.begin(), other.end());
  return all;
}

/// A store, or a reduction across rows, that waits for its program.
struct Task {
  unsigned node;       ///< what is stored; for a reduction, its operand
  AtomList order;      ///< atoms of the value that is stored or reduced, in
                       ///< row-major order
  AtomStrides strides; ///< of the store
  unsigned memory;
  int64_t offset;
  bool accumulate, inPlace;
  bool reduces = false;
  nn::ReduceKind reduction = nn::ReduceKind::sum;
  AtomSet reduced = {};
  unsigned level = 0;
};

/// Tasks that run as one program.
struct Stage {
  bool hasRowReductions = false;
  AtomSet outer, inner; ///< where it has; otherwise all atoms are in `outer`
                        ///< until it is laid out
  AtomSet chunked;      ///< outer atoms that its reductions combine
  bool inPlace = false;
  SmallVector<unsigned> tasks;
};

class Stager {
public:
  Stager(Graph &graph, std::vector<RowProgram> &programs)
      : graph(graph), programs(programs) {}
  LogicalResult run();

private:
  LogicalResult chooseRow();
  LogicalResult makeTasks();
  LogicalResult runLevel(unsigned level);
  void place(unsigned task, std::vector<Stage> &stages);
  LogicalResult emit(Stage &stage, unsigned level);
  LogicalResult verifyInPlace(const Stage &stage);
  void layOut(const Stage &stage, SmallVector<unsigned> &kept,
              SmallVector<unsigned> &reduced, SmallVector<unsigned> &inner);
  void collectCone(unsigned node, std::set<unsigned> &cone) const;
  AtomSet getConeAtoms(unsigned node, bool &hasRowReductions) const;
  bool isRowReduction(unsigned node) const {
    return graph.nodes[node].kind == Node::Reduce && rowReductions.count(node);
  }

  Graph &graph;
  std::vector<RowProgram> &programs;
  AtomSet row; ///< atoms of a row, empty where no reduction fixes it
  bool keepRows = true;
  std::set<unsigned> rowReductions;
  std::vector<Task> tasks;
  DenseMap<unsigned, unsigned>
      memoryLevel; ///< level at which a memory can be read
  std::set<unsigned>
      overwritten; ///< operands that earlier programs have stored to
};
} // namespace

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

/// Decides which reductions stay in registers; all others that the group uses
/// go to memory.
LogicalResult Stager::chooseRow() {
  while (true) {
    if (failed(graph.analyse()))
      return failure();
    row.clear();
    rowReductions.clear();
    bool rowIsReused = false;
    // Of the candidates, one whose result meets its axes again comes first.
    for (auto [index, node] : llvm::enumerate(graph.nodes)) {
      if (!keepRows || node.kind != Node::Reduce || node.reduced.empty())
        continue;
      Value value = graph.getValue(index);
      if (!graph.isUsedInside(value) || graph.isMaterialised(value))
        continue;
      AtomList operand = flatten(node.axes);
      AtomSet reduced = makeSet(node.reduced);
      bool trailing =
          makeSet(ArrayRef<unsigned>(operand).take_back(reduced.size())) ==
          reduced;
      if (!trailing)
        continue;
      std::set<unsigned> users{static_cast<unsigned>(index)};
      bool reused = false;
      for (size_t user = index + 1; user < graph.nodes.size(); ++user) {
        const Node &other = graph.nodes[user];
        if (!llvm::any_of(other.operands, [&](unsigned operandNode) {
              return users.count(operandNode);
            }))
          continue;
        users.insert(user);
        bool ignored;
        reused |=
            intersects(getConeAtoms(user, ignored), reduced) &&
            other.kind == Node::Element &&
            llvm::any_of(other.operands, [&](unsigned operandNode) {
              return !users.count(operandNode) &&
                     intersects(getConeAtoms(operandNode, ignored), reduced);
            });
      }
      if (reused ? !rowIsReused
                 : (row.empty() && operand.size() > reduced.size())) {
        row = reduced;
        rowIsReused |= reused;
      }
    }
    bool again = false;
    for (auto [index, node] : llvm::enumerate(graph.nodes)) {
      if (node.kind != Node::Reduce)
        continue;
      Value value = graph.getValue(index);
      AtomSet reduced = makeSet(node.reduced);
      if (!row.empty() && reduced == row && !graph.isMaterialised(value)) {
        rowReductions.insert(index);
        continue;
      }
      if (graph.isUsedInside(value) && !graph.isMaterialised(value)) {
        graph.materialise(value);
        again = true;
      }
    }
    if (again)
      continue;
    // A program has one row; overlapping reductions exclude each other.
    LogicalResult consistent = makeTasks();
    if (succeeded(consistent))
      return success();
    if (!keepRows)
      return graph.emitError() << "its reductions do not fit together";
    keepRows = false;
  }
}

void Stager::collectCone(unsigned node, std::set<unsigned> &cone) const {
  if (!cone.insert(node).second)
    return;
  for (unsigned operand : graph.nodes[node].operands)
    collectCone(operand, cone);
}

/// Atoms over which a node must be evaluated; those of row reductions included.
AtomSet Stager::getConeAtoms(unsigned node, bool &hasRowReductions) const {
  std::set<unsigned> cone;
  collectCone(node, cone);
  AtomSet atoms;
  hasRowReductions = false;
  for (unsigned inner : cone) {
    hasRowReductions |= isRowReduction(inner);
    for (auto &[atom, stride] : graph.nodes[inner].strides)
      atoms.insert(atom);
    for (unsigned atom : graph.nodes[inner].reduced)
      atoms.insert(atom);
  }
  return atoms;
}

//===----------------------------------------------------------------------===//
// Tasks
//===----------------------------------------------------------------------===//

LogicalResult Stager::makeTasks() {
  tasks.clear();
  memoryLevel.clear();
  auto levelOf = [&](unsigned node) {
    std::set<unsigned> cone;
    collectCone(node, cone);
    unsigned level = 0;
    for (unsigned inner : cone)
      if (graph.nodes[inner].kind == Node::Load)
        level = std::max(level, memoryLevel.lookup(graph.nodes[inner].memory));
    return level;
  };
  ArrayRef<int> inPlace = graph.getSpec().inPlace;
  for (const Root &root : graph.roots) {
    const Node &node = graph.nodes[root.tensor.node];
    Task task{
        root.tensor.node, flatten(root.tensor.axes), root.strides, root.memory,
        root.offset,      root.accumulate,           false};
    const Argument &argument = graph.memories[root.memory].argument;
    task.inPlace = argument.kind == Argument::Result && !inPlace.empty() &&
                   inPlace[argument.index] >= 0;
    if (node.kind == Node::Reduce && !isRowReduction(root.tensor.node)) {
      task.reduces = true;
      task.node = node.operands[0];
      task.reduction = node.reduction;
      task.reduced = makeSet(node.reduced);
      task.order = flatten(node.axes);
      bool hasRow;
      AtomSet cone = getConeAtoms(task.node, hasRow);
      // A row is combined whole or not at all.
      if (hasRow && intersects(task.reduced, row) &&
          !minus(row, task.reduced).empty())
        return failure();
    }
    task.level = levelOf(task.node);
    if (root.order > 0) // after the fill of the same memory
      task.level = std::max(task.level, memoryLevel.lookup(root.memory));
    bool hasRow;
    AtomSet cone = getConeAtoms(task.node, hasRow);
    if (hasRow) {
      AtomSet order = makeSet(task.order);
      if (intersects(order, row) && !minus(row, order).empty())
        return failure();
      if (!minus(minus(cone, order), row).empty())
        return failure();
    }
    unsigned &level = memoryLevel[root.memory];
    level = std::max(level, task.level + (task.reduces ? 2 : 1));
    tasks.push_back(std::move(task));
  }
  // What is overwritten in place must have been read by everyone else.
  for (Task &task : tasks) {
    if (!task.inPlace)
      continue;
    unsigned operand = inPlace[graph.memories[task.memory].argument.index];
    for (Task &reader : tasks) {
      std::set<unsigned> cone;
      collectCone(reader.node, cone);
      for (unsigned node : cone)
        if (graph.nodes[node].kind == Node::Load &&
            graph.nodes[node].memory == operand)
          task.level = std::max(task.level, reader.level);
    }
  }
  return success();
}

/// Puts a task into a stage that it fits, or a new one.
void Stager::place(unsigned index, std::vector<Stage> &stages) {
  Task &task = tasks[index];
  bool hasRow;
  AtomSet cone = getConeAtoms(task.node, hasRow);
  AtomSet all = unite(makeSet(task.order), cone);
  AtomSet across = task.reduces ? minus(task.reduced, row) : AtomSet();
  for (Stage &stage : stages) {
    AtomSet whole = unite(stage.outer, stage.inner);
    bool fits = stage.hasRowReductions
                    ? all == whole || (hasRow ? minus(all, row) == stage.outer
                                              : all == stage.outer)
                    : !hasRow && all == whole;
    if (!fits)
      continue;
    if (task.reduces) {
      AtomSet mine = stage.hasRowReductions ? across : task.reduced;
      if (!stage.chunked.empty() && stage.chunked != mine)
        continue;
      if (stage.hasRowReductions && intersects(task.reduced, row) &&
          !minus(row, task.reduced).empty())
        continue;
      stage.chunked = mine;
    }
    stage.tasks.push_back(index);
    stage.inPlace |= task.inPlace;
    return;
  }
  Stage stage;
  stage.hasRowReductions = hasRow;
  stage.inner = hasRow ? row : AtomSet();
  stage.outer = hasRow ? minus(all, row) : all;
  stage.inPlace = task.inPlace;
  if (task.reduces)
    stage.chunked = hasRow ? across : task.reduced;
  stage.tasks.push_back(index);
  stages.push_back(std::move(stage));
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

/// Orders the atoms of a stage: outer ones that stay, outer ones that are
/// combined, and the row.
void Stager::layOut(const Stage &stage, SmallVector<unsigned> &kept,
                    SmallVector<unsigned> &reduced,
                    SmallVector<unsigned> &inner) {
  // Memory order: of the widest task, reductions first.
  SmallVector<unsigned> order;
  auto add = [&](ArrayRef<unsigned> list) {
    for (unsigned atom : list)
      if (!llvm::is_contained(order, atom))
        order.push_back(atom);
  };
  const Task *widest = nullptr;
  for (unsigned index : stage.tasks) {
    const Task &task = tasks[index];
    if (!widest || std::pair(task.reduces, task.order.size()) >
                       std::pair(widest->reduces, widest->order.size()))
      widest = &task;
  }
  add(widest->order);
  if (stage.hasRowReductions) {
    // The order of a reduction's operand is what the sum is defined by.
    SmallVector<unsigned> rowOrder;
    for (unsigned node : rowReductions)
      if (rowOrder.empty())
        for (unsigned atom : flatten(graph.nodes[node].axes))
          if (row.count(atom))
            rowOrder.push_back(atom);
    inner = rowOrder;
    for (const Node &node : graph.nodes)
      add(flatten(node.axes));
    for (unsigned atom : order)
      if (stage.outer.count(atom))
        (stage.chunked.count(atom) ? reduced : kept).push_back(atom);
    return;
  }
  for (unsigned atom :
       stage.outer) // atoms that only operands have: none today, but harmless
    add(atom);
  if (stage.chunked.empty()) {
    kept = order;
    return;
  }
  bool rowIsReduced = stage.chunked.count(order.back());
  size_t first = order.size();
  while (first > 0 && static_cast<bool>(stage.chunked.count(
                          order[first - 1])) == rowIsReduced)
    --first;
  if (rowIsReduced && first == 0 && order.size() > 1)
    first = 1;
  for (size_t i = 0; i < order.size(); ++i) {
    if (i >= first)
      inner.push_back(order[i]);
    else
      (stage.chunked.count(order[i]) ? reduced : kept).push_back(order[i]);
  }
}

/// An operand whose buffer is overwritten may be read by the same program, at
/// the very element that is stored, and by no later one.
LogicalResult Stager::verifyInPlace(const Stage &stage) {
  ArrayRef<int> inPlace = graph.getSpec().inPlace;
  std::set<unsigned> cone;
  for (unsigned index : stage.tasks)
    collectCone(tasks[index].node, cone);
  auto sorted = [](AtomStrides strides) {
    llvm::sort(strides);
    return strides;
  };
  for (unsigned number : cone) {
    const Node &node = graph.nodes[number];
    if (node.kind != Node::Load)
      continue;
    if (overwritten.count(node.memory))
      return graph.emitError() << "operand " << node.memory
                               << " is read after a result has taken its place";
    for (unsigned index : stage.tasks) {
      const Task &task = tasks[index];
      if (!task.inPlace || task.reduces)
        continue;
      unsigned result = graph.memories[task.memory].argument.index;
      if (inPlace[result] == static_cast<int>(node.memory) &&
          (node.indexed || node.offset != task.offset ||
           sorted(node.strides) != sorted(task.strides)))
        return graph.emitError() << "operand " << node.memory
                                 << " is read at other indices than result "
                                 << result << " is stored at in its place";
    }
  }
  for (unsigned index : stage.tasks)
    if (tasks[index].inPlace && !tasks[index].reduces)
      overwritten.insert(
          inPlace[graph.memories[tasks[index].memory].argument.index]);
  return success();
}

LogicalResult Stager::emit(Stage &stage, unsigned level) {
  if (failed(verifyInPlace(stage)))
    return failure();
  SmallVector<unsigned> kept, reduced, inner;
  layOut(stage, kept, reduced, inner);
  programs.emplace_back();
  RowProgram &program = programs.back();
  ProgramBuilder builder(graph, program);
  auto extentOf = [&](ArrayRef<unsigned> atoms) {
    return graph.atoms.getExtent(atoms);
  };
  int64_t chunks = llvm::divideCeil(extentOf(reduced), kChunkRows);
  program.chunked = !reduced.empty();
  AtomSet innerSet = makeSet(inner);
  for (unsigned index : stage.tasks) {
    Task task = tasks[index]; // a copy: finishing tasks are appended below
    unsigned node = builder.addNode(task.node);
    RowStore store(node, task.memory);
    store.offset = task.offset;
    store.accumulate = task.accumulate;
    store.inPlace = task.inPlace;
    if (!task.reduces) {
      builder.addStore(store, task.strides);
      continue;
    }
    bool alongRow = intersects(task.reduced, innerSet);
    if (alongRow)
      store.node = builder.addRowReduction(node, task.reduction);
    if (reduced.empty()) { // along the row alone
      builder.addStore(store, task.strides);
      continue;
    }
    store.partial = true;
    store.reduction = task.reduction;
    if (chunks == 1 && !task.accumulate && !task.inPlace) {
      builder.addStore(store, task.strides);
      continue;
    }
    // Partials lie as [kept.., chunks, row..]; a task of the next level
    // combines them.
    SmallVector<unsigned> rowAtoms;
    for (unsigned atom : inner)
      if (!alongRow && llvm::is_contained(task.order, atom))
        rowAtoms.push_back(atom);
    Type type = graph.nodes[task.node].type;
    unsigned memory =
        graph.addTemporary(type, {extentOf(kept), chunks, extentOf(rowAtoms)});
    Node total(Node::Combine, type);
    total.memory = memory;
    total.chunks = chunks;
    total.chunkStride = store.chunkStride = extentOf(rowAtoms);
    total.reduction = task.reduction;
    int64_t stride = 1;
    for (unsigned atom : llvm::reverse(rowAtoms)) {
      total.strides.push_back({atom, stride});
      stride *= graph.atoms.getExtent(atom);
    }
    stride *= chunks;
    for (unsigned atom : llvm::reverse(kept)) {
      total.strides.push_back({atom, stride});
      stride *= graph.atoms.getExtent(atom);
    }
    store.memory = memory;
    store.offset = 0;
    store.accumulate = false;
    store.inPlace = false;
    builder.addStore(store, total.strides);
    Task finish{0,           {},          task.strides,
                task.memory, task.offset, task.accumulate,
                task.inPlace};
    llvm::append_range(finish.order, kept);
    llvm::append_range(finish.order, rowAtoms);
    finish.node = graph.nodes.size();
    finish.level = level + 1;
    graph.nodes.push_back(std::move(total));
    tasks.push_back(std::move(finish));
  }
  builder.finish(kept, reduced, inner,
                 !stage.hasRowReductions && stage.chunked.empty());
  return success();
}

LogicalResult Stager::runLevel(unsigned level) {
  std::vector<Stage> stages;
  // Tasks with row reductions fix what a row is; others join.
  for (bool rowReductionsFirst : {true, false})
    for (unsigned index = 0; index < tasks.size(); ++index) {
      bool hasRow;
      getConeAtoms(tasks[index].node, hasRow);
      if (tasks[index].level == level && hasRow == rowReductionsFirst)
        place(index, stages);
    }
  // In place: whoever else reads the operand must have run before.
  std::stable_partition(stages.begin(), stages.end(),
                        [](const Stage &stage) { return !stage.inPlace; });
  for (Stage &stage : stages)
    if (failed(emit(stage, level)))
      return failure();
  return success();
}

LogicalResult Stager::run() {
  if (failed(chooseRow()))
    return failure();
  for (unsigned level = 0;; ++level) {
    bool any = false;
    for (unsigned index = 0; index < tasks.size(); ++index)
      any |= tasks[index].level >= level;
    if (!any)
      return success();
    if (failed(runLevel(level)))
      return failure();
  }
}

LogicalResult
harmony::codegen::planRowPrograms(Graph &graph,
                                  std::vector<RowProgram> &programs) {
  return Stager(graph, programs).run();
}
