//===- NNOps.td - Training tensor algebra -------------------*- tablegen -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_NN_NNOPS_TD
#define DIALECTS_NN_NNOPS_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/TensorEncoding.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"

def NN_Dialect : Dialect {
  let name = "nn";
  let cppNamespace = "::harmony::nn";
  let summary = "A small tensor algebra closed under differentiation";
  let description = [{
    What a model means, without opset differences and with every extent static but
    one: the number of samples of a microbatch, called u. Elementwise work is
    `arith` and `math` on ranked tensors; this dialect adds what those lack. A value
    that depends on the microbatch has one axis whose extent is k * u: its type is
    `tensor<?x64xf32, #nn.batch<0, 1>>`, the dynamic extent standing for 1 * u.
    Values without the attribute are the same for every sample. An elementwise op
    has operands of one and the same type: what differs is broadcast explicitly.
  }];
  let useDefaultAttributePrinterParser = 1;
}

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

def NN_BatchAttr : AttrDef<NN_Dialect, "Batch",
    [DeclareAttrInterfaceMethods<VerifiableTensorEncoding>]> {
  let mnemonic = "batch";
  let summary = "the axis of a tensor type that carries the microbatch";
  let description = [{
    `#nn.batch<axis, k>`: extent `axis` is dynamic and equals k * u. Samples are the
    major factor: index i of the axis belongs to sample i / k.
  }];
  let parameters = (ins "int64_t":$axis, "int64_t":$factor);
  let assemblyFormat = "`<` $axis `,` $factor `>`";
}

def NN_FileAttr : AttrDef<NN_Dialect, "File"> {
  let mnemonic = "file";
  let summary = "the initial value of a variable: bytes of a file, little-endian, row-major";
  let parameters = (ins StringRefParameter<"path">:$path, "int64_t":$offset, "int64_t":$length);
  let assemblyFormat = "`<` $path `,` $offset `,` $length `>`";
}

def NN_Role : I32EnumAttr<"Role", "what a variable is to training", [
    I32EnumAttrCase<"parameter", 0>, I32EnumAttrCase<"frozen", 1>, I32EnumAttrCase<"buffer", 2>,
    I32EnumAttrCase<"state", 3>, I32EnumAttrCase<"optimizer", 4>, I32EnumAttrCase<"constant", 5>, I32EnumAttrCase<"scalar", 6>]> {
  let cppNamespace = "::harmony::nn";
  let genSpecializedAttr = 0;
}
def NN_RoleAttr : EnumAttr<NN_Dialect, NN_Role, "role"> { let assemblyFormat = "`<` $value `>`"; }

def NN_ReduceKind : I32EnumAttr<"ReduceKind", "how values are combined", [
    I32EnumAttrCase<"sum", 0>, I32EnumAttrCase<"max", 1>, I32EnumAttrCase<"min", 2>]> {
  let cppNamespace = "::harmony::nn";
  let genSpecializedAttr = 0;
}
def NN_ReduceKindAttr : EnumAttr<NN_Dialect, NN_ReduceKind, "reduce_kind">;

def NN_ConvolutionDirection : I32EnumAttr<"ConvolutionDirection", "what a convolution computes", [
    I32EnumAttrCase<"forward", 0>, I32EnumAttrCase<"image", 1>, I32EnumAttrCase<"weights", 2>]> {
  let cppNamespace = "::harmony::nn";
  let genSpecializedAttr = 0;
}
def NN_ConvolutionDirectionAttr : EnumAttr<NN_Dialect, NN_ConvolutionDirection, "convolution_direction">;

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

class NN_Op<string mnemonic, list<Trait> traits = []> : Op<NN_Dialect, mnemonic, traits>;

/// Any pure tensor op; the result type is explicit and checked by the verifier.
class NN_PureOp<string mnemonic, list<Trait> traits = []> : NN_Op<mnemonic, !listconcat([Pure], traits)> {
  let hasVerifier = 1;
}

def NN_VariableOp : NN_Op<"variable", [Symbol]> {
  let summary = "a tensor that outlives a step";
  let description = [{
    Parameters, buffers, state of the training graph or of a built-in optimizer, large
    constants, and step scalars (role scalar, rank 0, f32: written once per step, by the
    runtime where `nn.scalar_kind` holds a HmScalarKind, else by nn.step_scalars or nn.epilogue). `initial` is a `#nn.file`, an elements attribute, or absent for
    zero. `source_name` is the initializer's name in the model.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<AnyRankedTensor>:$type,
                       NN_RoleAttr:$role, OptionalAttr<AnyAttr>:$initial);
  let assemblyFormat = "$role $sym_name `:` $type (`=` $initial^)? attr-dict";
  let hasVerifier = 1;
}

def NN_GetOp : NN_Op<"get", [Pure, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "the value of a variable at the beginning of the step";
  let arguments = (ins FlatSymbolRefAttr:$variable);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$variable `:` type($result) attr-dict";
}

def NN_AssignOp : NN_Op<"assign", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "what the forward of a training step leaves in a variable";
  let description = [{
    Once for each microbatch, in the order of the samples: running statistics. A read of the variable gives
    what the microbatch before has left. Evaluation assigns nothing. At most one to a variable; the
    value is computed for this alone.
  }];
  let arguments = (ins FlatSymbolRefAttr:$variable, AnyRankedTensor:$value);
  let assemblyFormat = "$variable `,` $value attr-dict `:` type($value)";
}

def NN_LossOp : NN_Op<"loss"> {
  let summary = "one term of the loss: scale * numerator / denominator";
  let description = [{
    `numerator` is a sum over the samples of the microbatch; `denominator` depends on
    inputs alone, is a sum over samples too, and is taken over the whole minibatch by
    the prologue. Without it the denominator is `count` * D, D samples in the minibatch
    (a mean), or `count` alone where `constant` is set (a sum).
  }];
  let arguments = (ins AnyRankedTensor:$numerator, Optional<AnyRankedTensor>:$denominator,
                       F64Attr:$scale, F64Attr:$count, UnitAttr:$constant);
  let assemblyFormat = "$numerator (`over` $denominator^ `:` type($denominator))? `scale` $scale `count` $count (`constant` $constant^)? attr-dict `:` type($numerator)";
  let hasVerifier = 1;
}

def NN_BroadcastOp : NN_PureOp<"broadcast"> {
  let summary = "repeats a tensor along new or unit axes";
  let description = [{
    Axis i of the operand becomes axis `axes[i]` of the result; its extent is the
    result's or 1. `axes` is strictly increasing. An operand without batch may be repeated along the
    batch axis of the result.
  }];
  let arguments = (ins AnyRankedTensor:$operand, DenseI64ArrayAttr:$axes);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$operand `to` $axes attr-dict `:` type($operand) `->` type($result)";
}

def NN_ReshapeOp : NN_PureOp<"reshape"> {
  let summary = "the same elements in row-major order under another shape";
  let description = [{
    Samples stay whole and in order. With the batch on one side alone, the microbatch has as many samples
    as make the other side's extents, and the function holds for that size alone: all samples together as
    one value, for what combines them, or the rows of such a value as samples.
  }];
  let arguments = (ins AnyRankedTensor:$operand);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$operand attr-dict `:` type($operand) `->` type($result)";
  let hasFolder = 1;
}

def NN_TransposeOp : NN_PureOp<"transpose"> {
  let summary = "axis i of the result is axis permutation[i] of the operand";
  let arguments = (ins AnyRankedTensor:$operand, DenseI64ArrayAttr:$permutation);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$operand `by` $permutation attr-dict `:` type($operand) `->` type($result)";
  let hasFolder = 1;
}

def NN_SliceOp : NN_PureOp<"slice"> {
  let summary = "elements starts[i] + j * strides[i], j < extent i of the result";
  let description = [{
    `starts` and `strides` hold one entry per axis; a stride may be negative. The
    batch axis is taken whole: start 0, stride 1.
  }];
  let arguments = (ins AnyRankedTensor:$operand, DenseI64ArrayAttr:$starts, DenseI64ArrayAttr:$strides);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$operand `from` $starts `by` $strides attr-dict `:` type($operand) `->` type($result)";
  let hasFolder = 1;
}

def NN_PadOp : NN_PureOp<"pad"> {
  let summary = "surrounds a tensor with the value `fill`";
  let description = [{
    Axis i gets low[i] elements before, `interior`[i] between and the rest after its
    elements; none along the batch axis. The adjoint of slice, and it of slice.
  }];
  let arguments = (ins AnyRankedTensor:$operand, AnyRankedTensor:$fill,
                       DenseI64ArrayAttr:$low, DenseI64ArrayAttr:$interior);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$operand `with` $fill `low` $low `interior` $interior attr-dict `:` type($operand) `,` type($fill) `->` type($result)";
}

def NN_ConcatOp : NN_PureOp<"concat"> {
  let summary = "tensors one after the other along an axis other than the batch";
  let arguments = (ins Variadic<AnyRankedTensor>:$operands, I64Attr:$axis);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$operands `along` $axis attr-dict `:` type($operands) `->` type($result)";
}

def NN_ReduceOp : NN_PureOp<"reduce"> {
  let summary = "combines the elements along axes, which the result lacks";
  let description = [{
    Reducing the batch axis combines the samples of the microbatch: sums of losses and
    of parameter gradients. Elements that share the maximum or minimum share its gradient
    equally; integer and float elements alike.
  }];
  let arguments = (ins AnyRankedTensor:$operand, NN_ReduceKindAttr:$kind, DenseI64ArrayAttr:$axes);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$kind $operand `over` $axes attr-dict `:` type($operand) `->` type($result)";
}

def NN_DotGeneralOp : NN_PureOp<"dot_general"> {
  let summary = "sum over contracted axes, for every index of the batched ones";
  let description = [{
    Result axes: the batched axes in order, the free axes of lhs, the free axes of rhs.
    The microbatch axis may be batched (on both sides), free (on one), or contracted
    (on both: the gradient of a weight, a sum over the samples of the microbatch).
    f32 products are one library call per block: see docs/Codegen.md.
  }];
  let arguments = (ins AnyRankedTensor:$lhs, AnyRankedTensor:$rhs,
                       DenseI64ArrayAttr:$lhsBatch, DenseI64ArrayAttr:$rhsBatch,
                       DenseI64ArrayAttr:$lhsContract, DenseI64ArrayAttr:$rhsContract);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $lhs `,` $rhs `batch` $lhsBatch `x` $rhsBatch `contract` $lhsContract `x` $rhsContract
    attr-dict `:` type($lhs) `,` type($rhs) `->` type($result)
  }];
}

def NN_GatherOp : NN_PureOp<"gather"> {
  let summary = "slices of a tensor at indices";
  let description = [{
    As numpy.take with batch dimensions (ONNX Gather; GatherND of one coordinate): with
    operand [B.., P.., n, Q..] (`batchDims` axes B, axis = |B| + |P|) and indices [B.., I..]
    the result is [B.., P.., I.., Q..]. Indices are in [0, n): negative ones are resolved at import,
    others are refused by the data loader or clamped.
  }];
  let arguments = (ins AnyRankedTensor:$operand, AnyRankedTensor:$indices, I64Attr:$axis, I64Attr:$batchDims);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$operand `at` $indices `axis` $axis `batch` $batchDims attr-dict `:` type($operand) `,` type($indices) `->` type($result)";
}

def NN_ScatterAddOp : NN_PureOp<"scatter_add"> {
  let summary = "the adjoint of gather: adds slices into a tensor of zeros";
  let description = [{
    result[.., indices[i], ..] += updates[.., i, ..], in row-major order of the indices; repeated
    indices accumulate. Shapes as in gather, the result being its operand's.
  }];
  let arguments = (ins AnyRankedTensor:$indices, AnyRankedTensor:$updates, I64Attr:$axis, I64Attr:$batchDims);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$updates `at` $indices `axis` $axis `batch` $batchDims attr-dict `:` type($updates) `,` type($indices) `->` type($result)";
}

def NN_IotaOp : NN_PureOp<"iota"> {
  let summary = "the index along an axis other than the batch";
  let arguments = (ins I64Attr:$axis);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$axis attr-dict `:` type($result)";
}

def NN_CountOp : NN_PureOp<"count"> {
  let summary = "factor * u as a floating number, u being the samples of the microbatch";
  let description = [{A constant once the size of the microbatch is known; the same in all elements of the result.}];
  let arguments = (ins I64Attr:$factor);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$factor attr-dict `:` type($result)";
}

// Windows: what convolution and pooling are made of. The axes [axis, axis + d), d the
// length of `kernel`, hold positions of an image of extents n. Window o, one of out, has at
// offset k < kernel the position o * strides + k * dilations - low along each of them;
// positions outside of [0, n) are padding. How much padding comes behind follows from
// the extents. None of these axes carries the batch.
defvar NN_WindowAttributes = (ins I64Attr:$axis, DenseI64ArrayAttr:$kernel, DenseI64ArrayAttr:$strides,
                                  DenseI64ArrayAttr:$dilations, DenseI64ArrayAttr:$low);
defvar NN_WindowFormat = [{
  `axis` $axis `kernel` $kernel `strides` $strides `dilations` $dilations `low` $low attr-dict
}];

def NN_WindowOp : NN_PureOp<"window"> {
  let summary = "the windows of an image, 0 where they reach into the padding";
  let description = [{
    [A.., n.., Q..] becomes [A.., out.., kernel.., Q..] (im2col): with the channels last, a
    convolution is this and one product whose rows are windows. The adjoint of fold, and it of window.
  }];
  let arguments = !con((ins AnyRankedTensor:$operand), NN_WindowAttributes);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = !strconcat("$operand", NN_WindowFormat, "`:` type($operand) `->` type($result)");
}

def NN_FoldOp : NN_PureOp<"fold"> {
  let summary = "adds up windows where they overlap: the adjoint of window";
  let description = [{
    [A.., out.., kernel.., Q..] becomes [A.., n.., Q..]. Each element of the result adds the windows that
    cover it in row-major order of the offsets; what lies in the padding is dropped.
  }];
  let arguments = !con((ins AnyRankedTensor:$operand), NN_WindowAttributes);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = !strconcat("$operand", NN_WindowFormat, "`:` type($operand) `->` type($result)");
}

def NN_MaxPoolOp : NN_PureOp<"max_pool"> {
  let summary = "the maximum of each window, and where in the window it is";
  let description = [{
    [A.., n.., Q..] becomes [A.., out.., Q..]. `position` is the row-major index of the offset of the first
    maximum, as in PyTorch: of equal elements the first, NaN above all and of NaNs the last. Padding is below
    everything; a window of nothing else is minus infinity.
  }];
  let arguments = !con((ins AnyRankedTensor:$operand), NN_WindowAttributes);
  let results = (outs AnyRankedTensor:$result, AnyRankedTensor:$position);
  let assemblyFormat = !strconcat("$operand", NN_WindowFormat, "`:` type($operand) `->` type($result) `,` type($position)");
}

def NN_SumPoolOp : NN_PureOp<"sum_pool"> {
  let summary = "the sum of each window, in row-major order of the offsets";
  let description = [{[A.., n.., Q..] becomes [A.., out.., Q..]. The adjoint of unpool without positions, and it of sum_pool.}];
  let arguments = !con((ins AnyRankedTensor:$operand), NN_WindowAttributes);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = !strconcat("$operand", NN_WindowFormat, "`:` type($operand) `->` type($result)");
}

def NN_UnpoolOp : NN_PureOp<"unpool"> {
  let summary = "adds the value of each window to its elements, or to the one at `position`";
  let description = [{
    [A.., out.., Q..] becomes [A.., n.., Q..], the sums in row-major order of the offsets. With positions it is the
    adjoint of max_pool.
  }];
  let arguments = !con((ins AnyRankedTensor:$operand, Optional<AnyRankedTensor>:$position), NN_WindowAttributes);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = !strconcat("$operand (`at` $position^)?", NN_WindowFormat,
                                  "`:` type($operand) (`,` type($position)^)? `->` type($result)");
}

def NN_ConvolutionOp : NN_PureOp<"convolution"> {
  let summary = "a convolution as the library computes it, on blocks of samples";
  let description = [{
    Formed while a function is lowered to a task, on static types: what a convolution means is a window and a product.
    Images are [N, n, n, C] and [N, out, out, O], weights lie in blocks of lanes as HmConvolution says:

      forward: image, weights -> result       weights [O/l, C/l, k, k, l (C), l (O)], or [O/l, k, k, C, l] for C < l
      image:   gradient, weights -> image     weights [O/l, C/l, k, k, l (O), l (C)]
      weights: gradient, image -> parts       [blocks, weights as forward's]: one sum for each block of samples
  }];
  let arguments = (ins NN_ConvolutionDirectionAttr:$direction, AnyRankedTensor:$lhs, AnyRankedTensor:$rhs,
                       DenseI64ArrayAttr:$kernel, DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$low,
                       DenseI64ArrayAttr:$high, I64Attr:$blockSamples);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $direction $lhs `,` $rhs `kernel` $kernel `strides` $strides `low` $low `high` $high `block` $blockSamples
    attr-dict `:` type($lhs) `,` type($rhs) `->` type($result)
  }];
}

def NN_RandomOp : NN_PureOp<"random"> {
  let summary = "32 random bits for every element, the same whenever they are asked for";
  let description = [{
    Word 0 of Philox4x32-10 (Salmon and others, 2011): counter (element within the sample, row-major; sample; step;
    high half of the seed), key (low half of the seed, stream). `keys` holds one row (sample within the minibatch,
    step, seed) for each sample of the microbatch, as the runtime writes it; `stream` tells the ops of a model apart.
    So the bits depend neither on the microbatch nor on where or how often they are computed. Index i of `axis` of
    the result belongs to row i of the keys. A composite, and a source like iota: repeated in every group that reads it.
  }];
  let arguments = (ins AnyRankedTensor:$keys, AnyRankedTensor:$stream, I64Attr:$axis);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$keys `stream` $stream `axis` $axis attr-dict `:` type($keys) `,` type($stream) `->` type($result)";
}

def NN_ByModeOp : NN_PureOp<"by_mode", [AllTypesMatch<["training", "evaluation", "result"]>]> {
  let summary = "the first operand in a training step, the second in evaluation";
  let description = [{Resolved by form-layers, which makes a chain of each.}];
  let arguments = (ins AnyRankedTensor:$training, AnyRankedTensor:$evaluation);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$training `or` $evaluation attr-dict `:` type($result)";
}

// Composites: ops that deserve a backward of their own. Each means what
// `decompose` (Decompose.h) says in the ops above; they stay whole until code
// generation.

def NN_DepthwiseOp : NN_PureOp<"depthwise"> {
  let summary = "windows of each channel times its weights: a convolution whose groups are the channels";
  let description = [{
    operand [A.., n.., C] and weights [k.., C] become [A.., out.., C]: at each position the sum over the offsets, in
    row-major order, of the element o * strides + k * dilations times the weight. Windows lie within the image.
    Formed by form-groups as pointwise work on slices of the operand: no window is made.
  }];
  let arguments = (ins AnyRankedTensor:$operand, AnyRankedTensor:$weights, I64Attr:$axis, DenseI64ArrayAttr:$strides,
                       DenseI64ArrayAttr:$dilations);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $operand `,` $weights `axis` $axis `strides` $strides `dilations` $dilations attr-dict
    `:` type($operand) `,` type($weights) `->` type($result)
  }];
}

def NN_SoftmaxOp : NN_PureOp<"softmax", [AllTypesMatch<["operand", "result"]>]> {
  let summary = "exp(x - max x) / sum exp(x - max x) along the last axis";
  let arguments = (ins AnyRankedTensor:$operand);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$operand attr-dict `:` type($result)";
}

def NN_LogSoftmaxOp : NN_PureOp<"log_softmax", [AllTypesMatch<["operand", "result"]>]> {
  let summary = "(x - max x) - log sum exp(x - max x) along the last axis";
  let arguments = (ins AnyRankedTensor:$operand);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$operand attr-dict `:` type($result)";
}

def NN_LayerNormOp : NN_PureOp<"layer_norm"> {
  let summary = "(x - mean) * inverse deviation * scale + shift over the trailing axes";
  let description = [{
    Normalises over axes [axis, rank); the variance is the biased one, plus epsilon.
    `scale` and `shift` have the normalised shape. `mean` and `inverseDeviation` have the leading shape.
    Without `mean` nothing is subtracted: x / sqrt(mean of squares + epsilon), RMS normalisation
    (Zhang and Sennrich, 2019).
  }];
  let arguments = (ins AnyRankedTensor:$operand, AnyRankedTensor:$scale, Optional<AnyRankedTensor>:$shift,
                       I64Attr:$axis, F64Attr:$epsilon);
  let results = (outs AnyRankedTensor:$result, Optional<AnyRankedTensor>:$mean, AnyRankedTensor:$inverseDeviation);
  // The types of the statistics are one, so that their order in the text is free.
  let assemblyFormat = [{
    $operand `,` $scale (`,` $shift^)? `axis` $axis `epsilon` $epsilon attr-dict
    `:` type($operand) `,` type($scale) (`,` type($shift)^)? `->` type($result) `,` type($inverseDeviation) (`,` type($mean)^)?
  }];
}

def NN_BatchNormOp : NN_PureOp<"batch_norm"> {
  let summary = "(x - mean) * inverse deviation * scale + shift, statistics over all axes but the last";
  let description = [{
    The statistics of the channels [C] of an image [.., C] are those of the microbatch: `variance` is the biased one,
    `inverseDeviation` is 1 / sqrt(variance + epsilon). `scale`, `shift` and the statistics have type [C].
    form-groups replaces it by its definition: each of the two sums over the microbatch ends a group.
  }];
  let arguments = (ins AnyRankedTensor:$operand, AnyRankedTensor:$scale, AnyRankedTensor:$shift, F64Attr:$epsilon);
  let results = (outs AnyRankedTensor:$result, AnyRankedTensor:$mean, AnyRankedTensor:$variance,
                      AnyRankedTensor:$inverseDeviation);
  let assemblyFormat = [{
    $operand `,` $scale `,` $shift `epsilon` $epsilon attr-dict `:` type($operand) `,` type($scale) `,` type($shift)
    `->` type($result) `,` type($mean) `,` type($variance) `,` type($inverseDeviation)
  }];
}

def NN_GeluOp : NN_PureOp<"gelu", [AllTypesMatch<["operand", "result"]>]> {
  let summary = "x * Phi(x), exactly by erf or by the tanh approximation";
  let arguments = (ins AnyRankedTensor:$operand, UnitAttr:$tanh);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "(`tanh` $tanh^)? $operand attr-dict `:` type($result)";
}

def NN_SigmoidOp : NN_PureOp<"sigmoid", [AllTypesMatch<["operand", "result"]>]> {
  let summary = "1 / (1 + exp(-x))";
  let description = [{Its gradient r (1 - r) is finite where exp(-x) is not.}];
  let arguments = (ins AnyRankedTensor:$operand);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$operand attr-dict `:` type($result)";
}

def NN_CrossEntropyOp : NN_PureOp<"cross_entropy"> {
  let summary = "-log softmax(logits)[label] per row, 0 where the label is ignored";
  let description = [{
    logits [R.., C], labels [R..]: losses [R..] and `logSum` [R..] = log sum exp of the row, which
    the backward reads. A label equal to `ignoreIndex` contributes neither loss nor gradient.
  }];
  let arguments = (ins AnyRankedTensor:$logits, AnyRankedTensor:$labels, OptionalAttr<I64Attr>:$ignoreIndex);
  let results = (outs AnyRankedTensor:$losses, AnyRankedTensor:$logSum);
  let assemblyFormat = "$logits `,` $labels (`ignore` $ignoreIndex^)? attr-dict `:` type($logits) `,` type($labels) `->` type($losses) `,` type($logSum)";
}

// The optimizer.

def NN_OptimizeOp : NN_Op<"optimize", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "how one parameter is updated";
  let description = [{
    `function` maps (parameter, gradient, states.., scalars..) to (parameter, states..), elementwise,
    in place. It runs once per step, after the last gradient of the parameter. `states` are variables of
    the parameter's shape, `scalars` variables of role scalar, rank 0.
  }];
  let arguments = (ins FlatSymbolRefAttr:$parameter, FlatSymbolRefAttr:$function,
                       FlatSymbolRefArrayAttr:$states, FlatSymbolRefArrayAttr:$scalars);
  let assemblyFormat = "$parameter `by` $function `states` $states `scalars` $scalars attr-dict";
}

def NN_StepScalarsOp : NN_Op<"step_scalars", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "scalar work of the optimizer, once per step on the host, before any update";
  let description = [{
    `function` maps the old values of `reads` to `writes`: learning rates, bias corrections, step
    counters. Reads are taken before anything is written. Variables of role scalar or state, rank 0.
  }];
  let arguments = (ins FlatSymbolRefAttr:$function, FlatSymbolRefArrayAttr:$reads, FlatSymbolRefArrayAttr:$writes);
  let assemblyFormat = "$function `reads` $reads `writes` $writes attr-dict";
}

def NN_ContributionOp : NN_Op<"contribution", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "what one gradient adds to scalars that depend on all of them";
  let description = [{
    `function` maps the gradient of `parameter` (the sum of its uses) to one f32, in an order of additions
    that its shape alone decides: a part of the global norm. Read by nn.epilogue.
  }];
  let arguments = (ins FlatSymbolRefAttr:$parameter, FlatSymbolRefAttr:$function);
  let assemblyFormat = "$parameter `by` $function attr-dict";
}

def NN_EpilogueOp : NN_Op<"epilogue", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "scalar work of the optimizer that depends on gradients, once per step on the host";
  let description = [{
    Runs after every gradient is complete and before any update. `function` maps the results of the
    nn.contribution of each parameter in `contributions`, then `reads`, variables of role scalar, to
    `writes`: variables of role scalar, such as the factor that clips, or rank 0 state.
  }];
  let arguments = (ins FlatSymbolRefAttr:$function, FlatSymbolRefArrayAttr:$contributions,
                       FlatSymbolRefArrayAttr:$reads, FlatSymbolRefArrayAttr:$writes);
  let assemblyFormat = "$function `contributions` $contributions `reads` $reads `writes` $writes attr-dict";
}

// Fusion groups.

def NN_GroupOp : NN_Op<"group", [Pure, IsolatedFromAbove, SingleBlock, RecursiveMemoryEffects]> {
  let summary = "ops that become one kernel";
  let description = [{
    Formed once per layer function, before packing; whatever pack the layer is in, the
    group is computed whole by the same kernel, so that recomputing gives the same bits.
    The block's arguments stand for the operands.
  }];
  let arguments = (ins Variadic<AnyRankedTensor>:$operands);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

def NN_YieldOp : NN_Op<"yield", [Pure, Terminator, ReturnLike, HasParent<"GroupOp">]> {
  let arguments = (ins Variadic<AnyRankedTensor>:$operands);
  let assemblyFormat = "($operands^ `:` type($operands))? attr-dict";
}

#endif // DIALECTS_NN_NNOPS_TD
