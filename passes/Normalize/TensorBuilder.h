//===- TensorBuilder.h - Folds or builds tensor algebra ---------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The one place where an operation on tensors has a meaning: each function here
// computes with known elements, or emits nn, arith and math ops. Converters of
// ONNX operators call nothing else.
//
// Errors: the first one is kept, the result is a null tensor, and operations on
// null tensors give null tensors. So a converter need not look until its end.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_NORMALIZE_TENSORBUILDER_H
#define PASSES_NORMALIZE_TENSORBUILDER_H

#include "dialects/NN/Window.h"
#include "passes/Normalize/RandomSource.h"
#include "passes/Normalize/SymbolicTensor.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/Twine.h"

#include <functional>

namespace harmony::normalize {

enum class Unary {
  Negate,
  Absolute,
  Exponential,
  Logarithm,
  SquareRoot,
  Tanh,
  ErrorFunction,
  Floor,
  Ceil,
  RoundEven,
  Sine,
  Cosine,
  Tangent,
  ArcSine,
  ArcCosine,
  ArcTangent,
  HyperbolicSine,
  HyperbolicCosine,
  AreaSine, ///< the inverse of the hyperbolic sine
  AreaCosine,
  AreaTangent,
  Sign,
  Not,
  IsNaN
};
enum class Binary {
  Add,
  Subtract,
  Multiply,
  Divide,
  Maximum,
  Minimum,
  Power,
  Remainder,
  And, ///< of booleans, or of the bits of integers
  Or,
  Xor,
  ShiftLeft, ///< of unsigned integers
  ShiftRight
};
/// What BatchNormalization means to the model.
struct BatchNormRules {
  bool train = false;   ///< nodes of the inference form train too
  bool unbiased = true; ///< the running variance is sum / (N - 1), as PyTorch's
  /// The initializers that the training graph updates; null: what trains
  /// updates its statistics.
  const llvm::SmallSetVector<mlir::Attribute, 16> *updated = nullptr;
};

enum class Compare { Equal, Less, LessOrEqual, Greater, GreaterOrEqual };
enum class Reduction { Sum, Maximum, Minimum };

/// Axes of a contraction: see nn.dot_general.
struct DotAxes {
  llvm::SmallVector<int64_t> lhsBatch, rhsBatch, lhsContract, rhsContract;
};

class TensorBuilder {
public:
  /// Operations go to `builder`'s insertion point; variables for large
  /// constants are added to `module`.
  TensorBuilder(mlir::ModuleOp module, mlir::OpBuilder builder);

  /// Errors and operations belong to the node at `location` from now on.
  void startNode(mlir::Location location);
  /// The first error since startNode, and forgets it. "" if there is none.
  std::string takeError();
  Tensor fail(const llvm::Twine &message);
  mlir::OpBuilder &getBuilder() { return builder; }
  mlir::ModuleOp getModule() { return module; }

  /// Samples per step where the model has a fixed batch, else 0: a constant
  /// extent in a reshape may stand for N then.
  int64_t fixedBatch = 0;
  /// Samples of every microbatch where the batch is an extent like any other,
  /// since the model combines samples; else 0.
  int64_t wholeBatch = 0;
  /// Null where nothing may be random.
  RandomSource *random = nullptr;
  /// Products of the current node belong to one layer: see nn::kUndividedAttr.
  void keepTogether(llvm::StringRef name) {
    undivided = builder.getStringAttr(name);
  }
  /// The row of a table that gets no gradient from look-ups; null: none has.
  std::function<std::optional<int64_t>(mlir::FlatSymbolRefAttr)> findPadding;
  /// There are no training steps: byMode's second operand is the value.
  bool evaluationOnly = false;
  BatchNormRules batchNormRules;
  /// Nodes whose result for a sample depends on the others of the microbatch:
  /// which, and why.
  std::vector<std::string> unsplittable;

  // Sources.
  Tensor known(mlir::Type type, llvm::ArrayRef<Extent> shape,
               std::vector<Element> elements);
  Tensor scalar(mlir::Type type, double value);
  /// A scalar of `like`'s type.
  Tensor scalarLike(const Tensor &like, double value) {
    return like ? scalar(like.type(), value) : Tensor();
  }
  Tensor vectorOf(llvm::ArrayRef<Element> integers); ///< int64, rank 1
  Tensor fromValue(mlir::Value value, mlir::Type onnxElementType);
  Tensor fromVariable(mlir::FlatSymbolRefAttr variable,
                      mlir::RankedTensorType type, mlir::Type onnxElementType);

  // Sinks.
  /// The SSA value, made now if need be.
  mlir::Value materialize(const Tensor &tensor);
  /// The same, broadcast to `shape`.
  mlir::Value materializeAs(const Tensor &tensor, llvm::ArrayRef<Extent> shape);

  // Elementwise, with broadcasting.
  Tensor unary(Unary kind, const Tensor &x);
  Tensor binary(Binary kind, Tensor a, Tensor b);
  Tensor compare(Compare kind, const Tensor &a, const Tensor &b);
  Tensor select(const Tensor &condition, const Tensor &yes, const Tensor &no);
  Tensor cast(const Tensor &x, mlir::Type type);

  Tensor add(const Tensor &a, const Tensor &b) {
    return binary(Binary::Add, a, b);
  }
  Tensor subtract(const Tensor &a, const Tensor &b) {
    return binary(Binary::Subtract, a, b);
  }
  Tensor multiply(const Tensor &a, const Tensor &b) {
    return binary(Binary::Multiply, a, b);
  }
  Tensor divide(const Tensor &a, const Tensor &b) {
    return binary(Binary::Divide, a, b);
  }
  Tensor scale(const Tensor &a, double factor) {
    return multiply(a, scalarLike(a, factor));
  }
  /// max(x, bound) and min(x, bound) as selections, which pass gradients and
  /// NaN of x.
  Tensor atLeast(const Tensor &x, const Tensor &bound);
  Tensor atMost(const Tensor &x, const Tensor &bound);
  Tensor sigmoid(const Tensor &x);
  /// x where it is above 0 or not a number, else 0: the gradient at 0 is 0.
  Tensor relu(const Tensor &x);

  /// x, from which no gradient passes on.
  Tensor detach(const Tensor &x);

  // Structure.
  Tensor expand(const Tensor &x, llvm::ArrayRef<Extent> shape);
  Tensor reshape(const Tensor &x, llvm::ArrayRef<Extent> shape);
  /// `rows` with its axes up to the batch merged, see TensorData::rows;
  /// `reason` is why its elements cannot be used like this.
  Tensor mergeRows(const Tensor &rows, llvm::ArrayRef<Extent> shape,
                   const llvm::Twine &reason);
  Tensor transpose(const Tensor &x, llvm::ArrayRef<int64_t> permutation);
  /// Elements starts[i] + j * strides[i], j < extents[i]; the batch axis is
  /// whole.
  Tensor slice(const Tensor &x, llvm::ArrayRef<int64_t> starts,
               llvm::ArrayRef<Extent> extents, llvm::ArrayRef<int64_t> strides);
  /// The slice [start, start + size) of one axis.
  Tensor sliceAxis(const Tensor &x, int64_t axis, int64_t start, int64_t size);
  Tensor concat(llvm::ArrayRef<Tensor> parts, int64_t axis);
  /// Adds low and high elements of value `fill`; negative numbers remove some.
  Tensor pad(const Tensor &x, const Tensor &fill, llvm::ArrayRef<int64_t> low,
             llvm::ArrayRef<int64_t> high);
  Tensor gather(const Tensor &x, const Tensor &indices, int64_t axis,
                int64_t batchDims = 0);
  /// Indices into an axis of `extent` elements of which negative ones count
  /// from the end, as ONNX has it.
  Tensor fromEnd(const Tensor &indices, int64_t extent);
  /// The adjoint of `gather` into zeros of `shape`: what `updates` have for one
  /// place adds up.
  Tensor scatterAdd(llvm::ArrayRef<Extent> shape, const Tensor &indices,
                    const Tensor &updates, int64_t axis, int64_t batchDims);
  Tensor unsqueeze(const Tensor &x, llvm::ArrayRef<int64_t> sortedAxes);
  Tensor squeeze(const Tensor &x, llvm::ArrayRef<int64_t> axes);
  /// The index along `axis`.
  Tensor iota(mlir::Type type, llvm::ArrayRef<Extent> shape, int64_t axis);

  // Reductions. A sum over the batch axis gives a sum over samples.
  Tensor reduce(Reduction kind, const Tensor &x, llvm::ArrayRef<int64_t> axes,
                bool keepDims = false);
  Tensor mean(const Tensor &x, llvm::ArrayRef<int64_t> axes,
              bool keepDims = false);

  // Images. Axes are [N, C, n..] as in ONNX, or [N, n.., C]: channels last.
  /// `x` with the channels last, as it was computed where it was so.
  Tensor toChannelsLast(const Tensor &x);
  /// The transposition of a tensor whose channels are last, made lazily.
  Tensor fromChannelsLast(const Tensor &x);
  /// The windows of an image, 0 in the padding, and pools of floats; `out`:
  /// their number along each axis.
  Tensor window(const Tensor &image, const nn::Window &window,
                llvm::ArrayRef<int64_t> out);
  /// The adjoint of `window`: adds windows up to an image of extents `image`.
  Tensor fold(const Tensor &windows, const nn::Window &window,
              llvm::ArrayRef<int64_t> image);
  /// The sum of each window of each channel times the weights [k.., C]; windows
  /// of an image [N, n.., C] without padding.
  Tensor depthwise(const Tensor &image, const Tensor &weights,
                   llvm::ArrayRef<int64_t> strides,
                   llvm::ArrayRef<int64_t> dilations);
  Tensor maxPool(const Tensor &image, const nn::Window &window,
                 llvm::ArrayRef<int64_t> out);
  Tensor sumPool(const Tensor &image, const nn::Window &window,
                 llvm::ArrayRef<int64_t> out);

  // Contractions and composites.
  Tensor dot(const Tensor &a, const Tensor &b, const DotAxes &axes);
  Tensor softmax(const Tensor &x, int64_t axis);
  Tensor logSoftmax(const Tensor &x, int64_t axis);
  struct Normalized {
    Tensor result, mean, inverseDeviation;
  };
  /// `centered`: the mean is subtracted; otherwise there is none in the result.
  Normalized layerNorm(const Tensor &x, const Tensor &scale,
                       const Tensor &shift, int64_t axis, double epsilon,
                       bool centered = true);
  struct BatchNormalized {
    Tensor result, mean, variance;
  };
  /// Normalises [.., C] by mean and variance (the biased one) of each channel
  /// in the microbatch; scale, shift and statistics are [C].
  BatchNormalized batchNorm(const Tensor &x, const Tensor &scale,
                            const Tensor &shift, double epsilon);
  /// How many elements of a microbatch a channel of [.., C] has: a scalar.
  Tensor channelCount(const Tensor &x);
  /// Leaves `value` in the variable that `variable` reads, after each
  /// microbatch of a training step. Fails for the second value of a variable.
  void assign(const Tensor &variable, const Tensor &value);
  Tensor gelu(const Tensor &x, bool tanhForm);
  /// Losses per row: logits [R.., C], labels [R..].
  Tensor crossEntropy(const Tensor &logits, const Tensor &labels,
                      std::optional<int64_t> ignoreIndex);

  // What is random, or differs between training and evaluation.
  /// 32 random bits for each element, as int64. `name` is the operator's, by
  /// which it is told apart from others; the batch axis has factor 1.
  Tensor randomBits(llvm::ArrayRef<Extent> shape, llvm::StringRef name);
  /// 24 of such bits as a float in [0, 1), for any batch axis.
  Tensor randomFraction(llvm::ArrayRef<Extent> shape, llvm::StringRef name);
  /// True with probability 1 - ratio.
  Tensor dropoutMask(llvm::ArrayRef<Extent> shape, double ratio,
                     llvm::StringRef name);
  Tensor byMode(const Tensor &training, const Tensor &evaluation);

  /// A scalar that is the same for all samples, as a sum over samples.
  Tensor toBatchSum(const Tensor &x);

private:
  template <typename Fold, typename Emit>
  Tensor elementwise(llvm::ArrayRef<Tensor> operands, mlir::Type resultType,
                     Fold fold, Emit emit);
  template <typename Op, typename... Args>
  mlir::Value emit(Args &&...args);
  mlir::Value unique(mlir::Operation *op);
  mlir::Value constantValue(const Tensor &tensor);
  mlir::RankedTensorType getType(llvm::ArrayRef<Extent> shape,
                                 mlir::Type onnxElementType);
  Tensor withValue(mlir::Type type, llvm::ArrayRef<Extent> shape,
                   mlir::Value value);
  template <typename OpTy>
  Tensor alongAxis(const Tensor &x, int64_t axis);
  Tensor refuseBatchSum(const Tensor &x, llvm::StringRef what);
  Tensor linearOnSum(Binary kind, const Tensor &a, const Tensor &b);
  Tensor scaleSum(const Tensor &sum, const Element &factor, bool isReal,
                  bool invert);
  Tensor mapSum(const Tensor &sum, llvm::function_ref<Tensor(Tensor)> map);
  std::optional<Tensor> gatherOwnSample(const Tensor &x, const Tensor &indices);
  Tensor toChannelsFirst(const Tensor &x);
  std::optional<llvm::SmallVector<Tensor>>
  withChannelsLast(llvm::ArrayRef<Tensor> operands);
  Shape reshapeTarget(const Tensor &x, llvm::ArrayRef<Extent> shape);

  mlir::ModuleOp module;
  mlir::OpBuilder builder;
  mlir::Location location;
  std::string error;
  mlir::StringAttr undivided; ///< of the current node's products
  /// Reads of variables by the current node.
  llvm::DenseMap<mlir::Attribute, mlir::Value> reads;

  struct OpInfo : llvm::DenseMapInfo<mlir::Operation *> {
    static unsigned getHashValue(const mlir::Operation *op);
    static bool isEqual(const mlir::Operation *a, const mlir::Operation *b);
  };
  llvm::DenseSet<mlir::Operation *, OpInfo> emitted;
  llvm::DenseMap<mlir::Attribute, mlir::FlatSymbolRefAttr> constantVariables;
  int64_t constantCount = 0;
  llvm::DenseSet<mlir::Attribute> assigned; ///< variables
};

} // namespace harmony::normalize

#endif // PASSES_NORMALIZE_TENSORBUILDER_H
