//===- ConvertRecurrent.cpp - LSTM, GRU, RNN ------------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A recurrent node becomes one product of all steps of X with W, for all
// directions, and a row of steps, each a product of the state with R and
// pointwise work. Samples are on axis 0 inside, whatever the layout is. The
// products of a node are marked to stay in one layer: R is read by every step,
// and a weight has one gradient for each layer that reads it.
//
//===----------------------------------------------------------------------===//

#include "passes/Normalize/Activations.h"
#include "passes/Normalize/Binder.h"
#include "passes/Normalize/TensorBuilderDetail.h"

using namespace mlir;
using namespace harmony;
using namespace harmony::normalize;

namespace {

enum class Cell { Plain, LSTM, GRU };

/// One recurrent node. Names follow the specification: T steps, N samples, I
/// inputs, H elements of state, D directions, G gates.
class Recurrence {
public:
  Recurrence(Binder &binder, Cell cell)
      : b(binder), t(binder.build()), cell(cell),
        gates(cell == Cell::LSTM  ? 4
              : cell == Cell::GRU ? 3
                                  : 1) {}

  void convert() {
    if (!readNode() || !readActivations())
      return;
    t.keepTogether(b.stableName());
    projectInputs();
    for (int64_t d = 0; d < directions; ++d)
      runDirection(d, /*isReverse=*/d == 1 || direction == "reverse");
    writeOutputs();
  }

private:
  struct State {
    Tensor h, c; ///< [N, H]; null: zero
  };

  //===--------------------------------------------------------------------===//
  // What the node says
  //===--------------------------------------------------------------------===//

  bool readNode() {
    x = b.input(0);
    w = b.input(1);
    r = b.input(2);
    bias = b.optionalInput(3);
    lengths = b.optionalInput(4);
    initialH = b.optionalInput(5);
    if (cell == Cell::LSTM) {
      initialC = b.optionalInput(6);
      peepholes = b.optionalInput(7);
      couplesGates = b.integer("input_forget", 0);
    }
    if (cell == Cell::GRU)
      resetsAfter = b.integer("linear_before_reset", 0);
    direction = b.string("direction", "forward");
    samplesFirst = b.integer("layout", 0);
    clip = b.real("clip", 0);
    // Version 1: whether output 0 is wanted, which its use tells.
    b.ignore("output_sequence");
    if (!x || !w || !r)
      return false;
    if (direction != "forward" && direction != "reverse" &&
        direction != "bidirectional")
      return refuse("direction is '" + direction +
                    "', accepted are 'forward', 'reverse' and "
                    "'bidirectional'");
    directions = direction == "bidirectional" ? 2 : 1;
    if (clip < 0)
      return refuse("clip is " + Twine(std::to_string(clip)) +
                    ", accepted are positive thresholds");
    if (x.rank() != 3 || w.rank() != 3 || r.rank() != 3)
      return refuse("X, W and R must have rank 3, not " + toString(x.shape()) +
                    ", " + toString(w.shape()) + " and " + toString(r.shape()));
    if (!samplesFirst)
      x = t.transpose(x, {1, 0, 2});
    samples = x.shape()[0];
    if (x.shape()[1].isBatch())
      return refuse("the steps of X carry the batch " + toString(x.shape()) +
                    " (samples, steps, inputs); their number must be known "
                    "(--dim), and samples lie on axis " +
                    Twine(samplesFirst ? 0 : 1));
    steps = x.shape()[1].size;
    if (steps == 0)
      return refuse("X has no steps");
    // Each step is compiled; more would take hours.
    constexpr int64_t maximumSteps = 16384;
    if (steps > maximumSteps)
      return refuse("X has " + Twine(steps) + " steps, accepted are up to " +
                    Twine(maximumSteps));
    hidden = r.shape()[2].size;
    if (int64_t size = b.integer("hidden_size", hidden); size != hidden)
      return refuse("hidden_size is " + Twine(size) + ", R has " +
                    Twine(hidden));
    Extent d{directions, 0}, inputs = x.shape()[2], h{hidden, 0},
                             g{gates * hidden, 0};
    return checkShape("W", w, {d, g, inputs}) &&
           checkShape("R", r, {d, g, h}) &&
           checkShape("B", bias, {d, Extent{2 * g.size, 0}}) &&
           checkShape("P", peepholes, {d, Extent{3 * hidden, 0}}) &&
           checkShape("initial_h", initialH, stateShape()) &&
           checkShape("initial_c", initialC, stateShape()) && readLengths();
  }

  bool refuse(const Twine &message) {
    b.refuse(message);
    return false;
  }

  bool checkShape(StringRef name, const Tensor &tensor,
                  ArrayRef<Extent> expected) {
    if (!tensor || tensor.shape() == expected)
      return true;
    return refuse(name + " has shape " + toString(tensor.shape()) +
                  ", expected " + toString(expected));
  }

  Shape stateShape() const {
    Extent d{directions, 0}, h{hidden, 0};
    return samplesFirst ? Shape{samples, d, h} : Shape{d, samples, h};
  }

  /// Lengths that are known to reach the end mask nothing.
  bool readLengths() {
    if (!lengths)
      return true;
    if (lengths.isKnown() &&
        llvm::all_of(lengths.elements(), [&](const Element &e) {
          return e.isConstant() && e.integer == steps;
        })) {
      lengths = Tensor();
      return true;
    }
    if (!checkShape("sequence_lens", lengths, {samples}))
      return false;
    lengths = t.reshape(lengths, {samples, Extent{1, 0}});
    return bool(lengths);
  }

  bool readActivations() {
    SmallVector<StringRef> names;
    if (cell != Cell::Plain)
      names.push_back("Sigmoid");
    names.push_back("Tanh");
    if (cell == Cell::LSTM)
      names.push_back("Tanh");
    size_t count = names.size();
    if (directions == 2)
      names.append(names.begin(), names.begin() + count);
    if (auto list = dyn_cast_or_null<ArrayAttr>(b.attribute("activations"))) {
      if (list.size() != names.size())
        return refuse("activations has " + Twine(list.size()) +
                      " entries, expected " + Twine(names.size()));
      for (auto [name, entry] : llvm::zip(names, list))
        name = cast<StringAttr>(entry).getValue();
    }
    ArrayRef<float> alphas = floats("activation_alpha"),
                    betas = floats("activation_beta");
    for (StringRef name : names) {
      Activation activation = takeActivation(name, alphas, betas);
      if (!activation)
        return refuse("activation '" + name +
                      "' is not supported; accepted are " +
                      getActivationNames());
      activations.push_back(activation);
    }
    return true;
  }

  ArrayRef<float> floats(StringRef name) {
    auto list = dyn_cast_or_null<DenseF32ArrayAttr>(b.attribute(name));
    return list ? list.asArrayRef() : ArrayRef<float>();
  }

  //===--------------------------------------------------------------------===//
  // Steps
  //===--------------------------------------------------------------------===//

  /// X W^T and the biases that are added to it, of all steps: [N, T, D G H].
  void projectInputs() {
    int64_t rows = directions * gates * hidden;
    projected = product(x, t.reshape(w, {Extent{rows, 0}, w.shape()[2]}));
    if (!bias)
      return;
    int64_t width = gates * hidden;
    Tensor ofInput = t.sliceAxis(bias, 1, 0, width),
           ofState = t.sliceAxis(bias, 1, width, width);
    if (cell == Cell::GRU && resetsAfter) {
      // The last gate resets the state's part with its bias.
      int64_t inner = 2 * hidden;
      stateBias = t.sliceAxis(ofState, 1, inner, hidden);
      ofInput = t.concat({t.add(t.sliceAxis(ofInput, 1, 0, inner),
                                t.sliceAxis(ofState, 1, 0, inner)),
                          t.sliceAxis(ofInput, 1, inner, hidden)},
                         1);
    } else {
      ofInput = t.add(ofInput, ofState);
    }
    projected = t.add(projected, t.reshape(ofInput, {Extent{rows, 0}}));
  }

  /// a b^T over the last axes; null where `a` is zero.
  Tensor product(const Tensor &a, const Tensor &b) {
    if (!a)
      return a;
    DotAxes axes;
    axes.lhsContract = {a.rank() - 1};
    axes.rhsContract = {1};
    return t.dot(a, b, axes);
  }

  /// Entry `index` along an axis, which the result lacks.
  Tensor entry(const Tensor &tensor, int64_t axis, int64_t index) {
    return tensor ? t.squeeze(t.sliceAxis(tensor, axis, index, 1), {axis})
                  : tensor;
  }

  /// Slice `index` of width H of the last axis.
  Tensor gate(const Tensor &tensor, int64_t index) {
    return tensor
               ? t.sliceAxis(tensor, tensor.rank() - 1, index * hidden, hidden)
               : tensor;
  }

  Tensor addIf(const Tensor &a, const Tensor &b) { return b ? t.add(a, b) : a; }

  /// a * b; null where `b` is zero.
  Tensor multiplyIf(const Tensor &a, const Tensor &b) {
    return b ? t.multiply(a, b) : b;
  }

  /// The state that a direction starts with; null for zeros.
  Tensor getInitial(const Tensor &tensor, int64_t d) {
    if (!tensor || tensor.splatNumber() == 0.0)
      return Tensor();
    return entry(tensor, samplesFirst ? 1 : 0, d);
  }

  /// An activation, of an argument that is clipped.
  Tensor activate(const Activation &activation, Tensor value) {
    if (value && clip > 0) {
      Tensor bound = t.scalarLike(value, clip);
      value = t.atMost(t.atLeast(value, t.scalarLike(value, -clip)), bound);
    }
    return value ? activation(t, value) : value;
  }

  void runDirection(int64_t d, bool isReverse) {
    int64_t width = gates * hidden;
    Tensor inputs = t.sliceAxis(projected, 2, d * width, width);
    weights = entry(r, 0, d);
    directionBias = entry(stateBias, 0, d);
    directionPeepholes = entry(peepholes, 0, d);
    functions = ArrayRef(activations)
                    .slice(d * activations.size() / directions,
                           activations.size() / directions);
    State state{getInitial(initialH, d), getInitial(initialC, d)};
    SmallVector<Tensor> outputs(steps);
    for (int64_t i = 0; i < steps; ++i) {
      int64_t step = isReverse ? steps - 1 - i : i;
      State next = advance(entry(inputs, 1, step), state);
      outputs[step] = next.h;
      if (lengths) {
        Tensor isInside =
            t.compare(Compare::Greater, lengths, t.scalarLike(lengths, step));
        outputs[step] = keepWhere(isInside, next.h, Tensor());
        next.h = keepWhere(isInside, next.h, state.h);
        if (next.c)
          next.c = keepWhere(isInside, next.c, state.c);
      }
      outputs[step] = t.unsqueeze(outputs[step], {1});
      if (!outputs[step])
        return;
      state = next;
    }
    sequences.push_back(t.unsqueeze(t.concat(outputs, 1), {2}));
    finalStates.push_back(state);
  }

  /// `otherwise` may be null for zeros.
  Tensor keepWhere(const Tensor &condition, const Tensor &value,
                   const Tensor &otherwise) {
    return t.select(condition, value,
                    otherwise ? otherwise : t.scalarLike(value, 0));
  }

  State advance(const Tensor &inputs, const State &state) {
    switch (cell) {
    case Cell::Plain:
      return {activate(functions[0], addIf(inputs, product(state.h, weights))),
              Tensor()};
    case Cell::LSTM:
      return advanceLSTM(inputs, state);
    case Cell::GRU:
      return advanceGRU(inputs, state);
    }
    llvm_unreachable("all cells are covered");
  }

  /// All gates of the inputs' part and of the state's: views come first, so
  /// that nothing is between the pointwise work of a step, which is one kernel.
  SmallVector<std::pair<Tensor, Tensor>> splitGates(const Tensor &inputs,
                                                    const Tensor &ofState) {
    SmallVector<std::pair<Tensor, Tensor>> parts;
    for (int64_t i = 0; i < gates; ++i)
      parts.push_back({gate(inputs, i), Tensor()});
    int64_t count = ofState ? ofState.shape().back().size / hidden : 0;
    for (int64_t i = 0; i < count; ++i)
      parts[i].second = gate(ofState, i);
    return parts;
  }

  /// Gates in the order i, o, f, c; peepholes i, o, f.
  State advanceLSTM(const Tensor &inputs, const State &state) {
    auto parts = splitGates(inputs, product(state.h, weights));
    auto sum = [&](int64_t index, const Tensor &watched) {
      Tensor value = addIf(parts[index].first, parts[index].second);
      return directionPeepholes && index < 3
                 ? addIf(value,
                         multiplyIf(gate(directionPeepholes, index), watched))
                 : value;
    };
    Tensor i = activate(functions[0], sum(0, state.c));
    Tensor f = couplesGates ? t.subtract(t.scalarLike(i, 1), i)
                            : activate(functions[0], sum(2, state.c));
    Tensor candidate = activate(functions[1], sum(3, Tensor()));
    Tensor c = addIf(t.multiply(i, candidate), multiplyIf(f, state.c));
    Tensor o = activate(functions[0], sum(1, c));
    return {t.multiply(o, activate(functions[2], c)), c};
  }

  /// Gates in the order z, r, h. Without `resetsAfter` the last gate's product
  /// reads the state that is reset, and is one of its own.
  State advanceGRU(const Tensor &inputs, const State &state) {
    int64_t early = 2 * hidden;
    auto parts = splitGates(
        inputs,
        product(state.h,
                resetsAfter ? weights : t.sliceAxis(weights, 0, 0, early)));
    Tensor z = activate(functions[0], addIf(parts[0].first, parts[0].second));
    Tensor reset =
        activate(functions[0], addIf(parts[1].first, parts[1].second));
    Tensor late;
    if (resetsAfter) {
      late = parts[2].second;
      if (directionBias)
        late = late ? t.add(late, directionBias) : directionBias;
      late = multiplyIf(reset, late);
    } else {
      late = product(multiplyIf(reset, state.h),
                     t.sliceAxis(weights, 0, early, hidden));
    }
    Tensor candidate = activate(functions[1], addIf(parts[2].first, late));
    // (1 - z) candidate + z h
    Tensor h = t.multiply(t.subtract(t.scalarLike(z, 1), z), candidate);
    return {addIf(h, multiplyIf(z, state.h)), Tensor()};
  }

  //===--------------------------------------------------------------------===//
  // Outputs
  //===--------------------------------------------------------------------===//

  void writeOutputs() {
    if (sequences.size() != static_cast<size_t>(directions))
      return;                                 // the error is the builder's
    Tensor sequence = t.concat(sequences, 2); // [N, T, D, H]
    b.output(0, samplesFirst ? sequence : t.transpose(sequence, {1, 2, 0, 3}));
    if (b.outputCount() > 1)
      b.output(1, joinStates(&State::h));
    if (b.outputCount() > 2 && cell == Cell::LSTM)
      b.output(2, joinStates(&State::c));
  }

  Tensor joinStates(Tensor State::*part) {
    int64_t axis = samplesFirst ? 1 : 0;
    SmallVector<Tensor> parts;
    for (const State &state : finalStates)
      parts.push_back(t.unsqueeze(state.*part, {axis}));
    return t.concat(parts, axis);
  }

  Binder &b;
  TensorBuilder &t;
  Cell cell;
  int64_t gates, directions = 1, steps = 0, hidden = 0;
  Extent samples;
  bool samplesFirst = false, couplesGates = false, resetsAfter = false;
  double clip = 0; ///< 0: none
  std::string direction;
  Tensor x, w, r, bias, lengths, initialH, initialC, peepholes;
  SmallVector<Activation> activations; ///< f, g, h of each direction
  Tensor projected, stateBias;
  // Of the direction at hand.
  Tensor weights, directionBias, directionPeepholes;
  ArrayRef<Activation> functions;
  // Of all directions.
  SmallVector<Tensor> sequences; ///< [N, T, 1, H]
  SmallVector<State> finalStates;
};

} // namespace

void harmony::normalize::addRecurrentConverters(ConverterTable &table) {
  auto add = [&](StringRef name, std::initializer_list<int64_t> versions,
                 Cell cell) {
    table.onOp(name, versions,
               [cell](Binder &b) { Recurrence(b, cell).convert(); });
  };
  add("RNN", {1, 7, 14, 22}, Cell::Plain);
  add("LSTM", {1, 7, 14, 22}, Cell::LSTM);
  add("GRU", {7, 14, 22}, Cell::GRU);
}
