//===- SymbolicTensor.h - What is known about an ONNX value -----*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Exporters write shape arithmetic, masks and positions as ordinary nodes. The
// conversion to nn therefore computes with descriptors: a tensor has symbolic
// extents, perhaps known elements, and an SSA value that is made when one is
// needed. N is the number of samples of a microbatch, n the index of a sample.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_NORMALIZE_SYMBOLICTENSOR_H
#define PASSES_NORMALIZE_SYMBOLICTENSOR_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Value.h"

#include <memory>
#include <optional>
#include <vector>

namespace harmony::normalize {

/// The extent of an axis: `size`, or `factor` * N where factor is positive
/// (size is 0 then).
struct Extent {
  int64_t size = 0;
  int64_t factor = 0;

  bool isBatch() const { return factor != 0; }
  bool isOne() const { return size == 1 && !factor; }
  /// The extent for N = 1.
  int64_t forOneSample() const { return factor ? factor : size; }
  bool operator==(const Extent &other) const {
    return size == other.size && factor == other.factor;
  }
  bool operator!=(const Extent &other) const { return !(*this == other); }
};

using Shape = llvm::SmallVector<Extent, 4>;

/// "[2N, 64]".
std::string toString(llvm::ArrayRef<Extent> shape);

/// The batch axis of a shape, -1 if there is none.
int64_t getBatchAxis(llvm::ArrayRef<Extent> shape);

/// Number of elements for N = 1; the largest int64 where it is more.
int64_t getElementCount(llvm::ArrayRef<Extent> shape);

/// The shape that two broadcast to by ONNX's rules (numpy's); nothing where
/// they do not fit.
std::optional<Shape> broadcastShapes(llvm::ArrayRef<Extent> a,
                                     llvm::ArrayRef<Extent> b);

/// A known element: integer + batch * N + sample * n (integers and booleans),
/// or real + batch * N (floating types; rounded to the type).
struct Element {
  int64_t integer = 0;
  double real = 0;
  int64_t batch = 0;
  int64_t sample = 0;

  bool isConstant() const { return batch == 0 && sample == 0; }
  bool operator==(const Element &other) const;
};

/// Whether the integer element is >= 0, or > 0, for all N >= 1 and 0 <= n < N.
bool isNonNegative(const Element &element);
bool isPositive(const Element &element);

/// `value` rounded to a floating type.
double roundTo(mlir::Type type, double value);

/// Known elements that are repeated more often than this stay a broadcast. An
/// Element has 32 bytes.
inline constexpr int64_t kRepeatLimit = int64_t(1) << 24;

struct TensorData;

/// A handle to a descriptor. A null tensor stands for an error that has been
/// recorded: operations on it give null tensors.
class Tensor {
public:
  Tensor() = default;
  explicit Tensor(std::shared_ptr<TensorData> data) : data(std::move(data)) {}

  explicit operator bool() const { return data != nullptr; }
  TensorData *operator->() const { return data.get(); }
  const std::shared_ptr<TensorData> &get() const { return data; }

  mlir::Type type() const;
  llvm::ArrayRef<Extent> shape() const;
  int64_t rank() const { return static_cast<int64_t>(shape().size()); }
  int64_t batchAxis() const { return getBatchAxis(shape()); }
  bool isFloat() const { return mlir::isa<mlir::FloatType>(type()); }
  bool isBool() const { return type().isInteger(1); }

  /// A sum over the samples of the minibatch.
  bool isBatchSum() const;
  /// Whether all elements are known, and few enough to look at one by one.
  bool isKnown() const;
  /// The known elements; those of a broadcast are expanded.
  /// They live as long as the descriptor: a temporary's are not to be had.
  const std::vector<Element> &elements() const &;
  const std::vector<Element> &elements() const && = delete;
  /// The one element that all elements are equal to, if they are known and
  /// constant.
  std::optional<Element> splat() const;
  /// The same as a number, whatever the type.
  std::optional<double> splatNumber() const;

private:
  std::shared_ptr<TensorData> data;
};

/// A part of a sum over the samples of the minibatch (D samples):
/// scale * numerator / denominator, both summed over the samples. Without a
/// denominator it is count * D (a mean), or count where `constant` (a sum).
struct Term {
  Tensor numerator; ///< of one microbatch; floating, static shape
  Tensor denominator;
  double scale = 1;
  double count = 1;
  bool constant = false;
};

/// Shared, immutable but for the caches `value`, `content` and `constant`.
struct TensorData {
  mlir::Type elementType; ///< as ONNX has it: unsigned integers are marked
  Shape shape;
  /// Known elements of the case N = 1, row-major: for a batch axis of extent k
  /// * N k entries, the same for every sample but for Element::sample.
  std::shared_ptr<const std::vector<Element>> content;
  mlir::Value value;
  /// The nn.variable that `content` was put into, null if none was: a mask is
  /// read by every layer.
  mlir::FlatSymbolRefAttr constant;
  /// The nn.variable to read, null if the value comes from elsewhere.
  mlir::FlatSymbolRefAttr variable;
  /// Set where this is `base` broadcast to `shape`.
  Tensor base;
  /// Set where this is a sum over samples; there is neither content nor value
  /// then.
  std::vector<Term> terms;
  /// Set where only the shape is known: why the elements cannot be computed.
  /// Exporters write such tensors to take their shape.
  std::string unusable;
  /// Set where the leading axes [T.., N] of `rows` were merged to one of T * N
  /// rows, the samples innermost; `unusable` is set too, since the rows of a
  /// sample are not together. Products of rows use `rows` instead, and a
  /// reshape that splits the axis again gives it back.
  Tensor rows;
  /// Set where this is [N, C, n..], the axes of `channelsLast` [N, n.., C] in
  /// another order: convolutions and what follows them compute with that, and a
  /// transposition is made only where something needs it.
  Tensor channelsLast;
  /// Set where this is the logarithm of the softmax over axis 1: its argument,
  /// that axis moved to the end.
  Tensor logits;
};

inline mlir::Type Tensor::type() const { return data->elementType; }
inline llvm::ArrayRef<Extent> Tensor::shape() const { return data->shape; }
inline bool Tensor::isBatchSum() const { return !data->terms.empty(); }

} // namespace harmony::normalize

#endif // PASSES_NORMALIZE_SYMBOLICTENSOR_H
