//===- ConvertEinsum.cpp - Einstein summation -----------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Normalize/Binder.h"
#include "passes/Normalize/Positions.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace harmony;
using namespace harmony::normalize;

namespace {

/// A letter of the equation, or -1 - i for the i-th axis from the right of what
/// "..." stands for.
using Label = int;
using Labels = SmallVector<Label>;

/// A tensor whose axes have labels, each at most once.
struct Term {
  Tensor tensor;
  Labels labels;

  int64_t axisOf(Label label) const {
    return llvm::find(labels, label) - labels.begin();
  }
  bool has(Label label) const { return llvm::is_contained(labels, label); }
};

class Einsum {
public:
  explicit Einsum(Binder &binder) : b(binder), t(binder.build()) {}

  void convert() {
    equation = b.string("equation", "");
    std::string text;
    for (char c : equation)
      if (c != ' ')
        text.push_back(c);
    auto [left, right] = StringRef(text).split("->");
    SmallVector<StringRef> inputs;
    left.split(inputs, ',');
    if (inputs.size() != b.inputCount()) {
      b.refuse("equation '" + equation + "' has " + Twine(inputs.size()) +
               " terms for " + Twine(b.inputCount()) + " inputs");
      return;
    }
    SmallVector<Term> terms;
    for (auto [index, term] : llvm::enumerate(inputs)) {
      Tensor x = b.input(index);
      std::optional<Labels> labels;
      if (!x || !(labels = parse(term, x.rank())))
        return;
      terms.push_back(takeDiagonals({x, *labels}));
      if (!terms.back().tensor)
        return;
    }
    Labels output;
    if (StringRef(text).contains("->")) {
      std::optional<Labels> labels = parse(right, std::nullopt);
      if (!labels)
        return;
      output = *labels;
    } else {
      output = implicitOutput(left);
    }
    for (Label label : output)
      if (llvm::count(output, label) != 1 ||
          llvm::none_of(terms, [&](const Term &t) { return t.has(label); })) {
        b.refuse("equation '" + equation +
                 "': an axis of the result must be in a term, and once in the "
                 "result");
        return;
      }
    Term result = terms.front();
    sumUnless(result, neededAfter(terms, 1, output));
    for (size_t i = 1; i < terms.size() && result.tensor; ++i) {
      Term next = terms[i];
      Labels later = neededAfter(terms, i + 1, output), needed = later;
      needed.append(result.labels);
      sumUnless(next, needed);
      result = contract(result, next, later);
      sumUnless(result, later); // what repeats along axes of extent 1
    }
    if (!result.tensor)
      return;
    SmallVector<int64_t> permutation;
    for (Label label : output)
      permutation.push_back(result.axisOf(label));
    b.output(0, t.transpose(result.tensor, permutation));
  }

private:
  /// The labels of one term; `rank` is that of its tensor, nothing for the
  /// result, whose ellipsis has the axes of the widest.
  std::optional<Labels> parse(StringRef term, std::optional<int64_t> rank) {
    Labels labels;
    auto [before, after] = term.split("...");
    bool hasEllipsis = term.contains("...");
    auto append = [&](StringRef letters) {
      for (char c : letters)
        labels.push_back(c);
      return llvm::all_of(letters, [](char c) { return llvm::isAlpha(c); });
    };
    bool valid = append(before);
    int64_t letters = before.size() + after.size();
    if (hasEllipsis) {
      int64_t count = rank ? *rank - letters : widest;
      widest = std::max(widest, count);
      for (int64_t i = count; i-- > 0;)
        labels.push_back(-1 - static_cast<Label>(i));
    }
    valid &= append(after);
    if (valid && (!rank || static_cast<int64_t>(labels.size()) == *rank))
      return labels;
    b.refuse("equation '" + equation + "': term '" + term + "' does not fit" +
             (rank ? " a tensor of rank " + Twine(*rank) : Twine()));
    return std::nullopt;
  }

  /// Axes of an ellipsis, then the letters that occur once, in alphabetic
  /// order.
  Labels implicitOutput(StringRef left) const {
    Labels output;
    for (int64_t i = widest; i-- > 0;)
      output.push_back(-1 - static_cast<Label>(i));
    std::string letters;
    for (char c : left)
      if (llvm::isAlpha(c) && left.count(c) == 1)
        letters.push_back(c);
    llvm::sort(letters);
    output.append(letters.begin(), letters.end());
    return output;
  }

  /// Axes of one label within a term become one: what is off the diagonal
  /// counts as zero, and one of the axes is summed.
  Term takeDiagonals(Term term) {
    for (size_t i = 0; i < term.labels.size(); ++i)
      for (size_t j = term.labels.size(); j-- > i + 1;) {
        if (term.labels[i] != term.labels[j] || !term.tensor)
          continue;
        ArrayRef<Extent> shape = term.tensor.shape();
        if (shape[i] != shape[j] || shape[i].isBatch())
          return {b.refuse("equation '" + equation +
                           "' takes a diagonal of axes " + Twine(i) + " and " +
                           Twine(j) + " of " + toString(shape)),
                  {}};
        Type index = t.getBuilder().getI64Type();
        Tensor isDiagonal = t.compare(
            Compare::Equal,
            knownPositions(t, index, shape[i].size, term.tensor.rank(), i),
            knownPositions(t, index, shape[j].size, term.tensor.rank(), j));
        term.tensor = t.reduce(
            Reduction::Sum,
            t.select(isDiagonal, term.tensor, t.scalarLike(term.tensor, 0)),
            {static_cast<int64_t>(j)});
        term.labels.erase(term.labels.begin() + j);
      }
    return term;
  }

  static Labels neededAfter(ArrayRef<Term> terms, size_t first,
                            const Labels &output) {
    Labels needed(output);
    for (const Term &term : terms.drop_front(first))
      needed.append(term.labels);
    return needed;
  }

  /// Sums over the axes whose label is not among `needed`.
  void sumUnless(Term &term, const Labels &needed) {
    SmallVector<int64_t> axes;
    Labels kept;
    for (auto [axis, label] : llvm::enumerate(term.labels))
      if (llvm::is_contained(needed, label))
        kept.push_back(label);
      else
        axes.push_back(axis);
    term.tensor = t.reduce(Reduction::Sum, term.tensor, axes);
    term.labels = kept;
  }

  /// Drops axes of extent 1 where the other term has more along that label:
  /// they repeat.
  void dropRepeated(Term &term, const Term &other) {
    SmallVector<int64_t> axes;
    Labels kept;
    for (auto [axis, label] : llvm::enumerate(term.labels))
      if (term.tensor.shape()[axis].isOne() && other.has(label) &&
          !other.tensor.shape()[other.axisOf(label)].isOne())
        axes.push_back(axis);
      else
        kept.push_back(label);
    term.tensor = t.squeeze(term.tensor, axes);
    term.labels = kept;
  }

  /// The product of two terms, summed over the labels that nothing needs.
  Term contract(Term lhs, Term rhs, const Labels &needed) {
    if (!lhs.tensor || !rhs.tensor)
      return {};
    dropRepeated(lhs, rhs);
    dropRepeated(rhs, lhs);
    if (!lhs.tensor || !rhs.tensor)
      return {};
    DotAxes axes;
    Labels labels, lhsFree, rhsFree;
    for (auto [axis, label] : llvm::enumerate(lhs.labels)) {
      if (!rhs.has(label)) {
        lhsFree.push_back(label);
        continue;
      }
      bool isKept = llvm::is_contained(needed, label);
      (isKept ? axes.lhsBatch : axes.lhsContract).push_back(axis);
      (isKept ? axes.rhsBatch : axes.rhsContract).push_back(rhs.axisOf(label));
      if (isKept)
        labels.push_back(label);
    }
    for (Label label : rhs.labels)
      if (!lhs.has(label))
        rhsFree.push_back(label);
    labels.append(lhsFree);
    labels.append(rhsFree);
    if (!axes.lhsContract.empty())
      return {t.dot(lhs.tensor, rhs.tensor, axes), labels};
    return {t.multiply(spread(lhs, labels), spread(rhs, labels)), labels};
  }

  /// The tensor with its axes in the order of `labels`, those it lacks having
  /// extent 1.
  Tensor spread(const Term &term, const Labels &labels) {
    SmallVector<int64_t> permutation, missing;
    for (auto [position, label] : llvm::enumerate(labels))
      if (term.has(label))
        permutation.push_back(term.axisOf(label));
      else
        missing.push_back(position);
    return t.unsqueeze(t.transpose(term.tensor, permutation), missing);
  }

  Binder &b;
  TensorBuilder &t;
  std::string equation;
  int64_t widest = 0; ///< axes of the ellipsis
};

} // namespace

void harmony::normalize::addEinsumConverters(ConverterTable &table) {
  table.onOp("Einsum", {12}, [](Binder &b) { Einsum(b).convert(); });
}
