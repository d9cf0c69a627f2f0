// What a convolution or pool cannot be is refused with its node, the value and what is accepted.
// RUN: harmony-opt %s -split-input-file --harmony-normalize="forward=true" -verify-diagnostics

onnx.graph @main(%x: tensor<?x4x8xf32> {onnx.name = "x", onnx.dims = ["batch", 4, 8]}, %w: tensor<6x4x3xf32> {onnx.name = "w", onnx.dims = [6, 4, 3]}) -> (tensor<?x6x6xf32> {onnx.name = "y"}) {
  // expected-error@+1 {{node 'c' (Conv, opset version 11): group is 2, which does not divide input [N, 4, 8] and weights [6, 4, 3]}}
  %y = onnx.node "Conv"(%x, %w) version 11 {group = 2 : si64} names ["c"] : (tensor<?x4x8xf32>, tensor<6x4x3xf32>) -> tensor<?x6x6xf32>
  onnx.return %y : tensor<?x6x6xf32>
}

// -----

onnx.graph @main(%x: tensor<?x4x8xf32> {onnx.name = "x", onnx.dims = ["batch", 4, 8]}, %w: tensor<6x4x3x3xf32> {onnx.name = "w", onnx.dims = [6, 4, 3, 3]}) -> (tensor<?x6x6xf32> {onnx.name = "y"}) {
  // expected-error@+1 {{expected an input [N, C, n..] and weights [O, C, k..], not [N, 4, 8] and [6, 4, 3, 3]}}
  %y = onnx.node "Conv"(%x, %w) version 11 {} names ["c"] : (tensor<?x4x8xf32>, tensor<6x4x3x3xf32>) -> tensor<?x6x6xf32>
  onnx.return %y : tensor<?x6x6xf32>
}

// -----

onnx.graph @main(%x: tensor<?x4x8xf32> {onnx.name = "x", onnx.dims = ["batch", 4, 8]}) -> (tensor<?x4x6xf32> {onnx.name = "y"}) {
  // expected-error@+1 {{node 'p' (MaxPool, opset version 12): strides has 2 entries, expected 1}}
  %y = onnx.node "MaxPool"(%x) version 12 {kernel_shape = array<i64: 3>, strides = array<i64: 1, 1>} names ["p"] : (tensor<?x4x8xf32>) -> tensor<?x4x6xf32>
  onnx.return %y : tensor<?x4x6xf32>
}

// -----

onnx.graph @main(%x: tensor<?x4x8xf32> {onnx.name = "x", onnx.dims = ["batch", 4, 8]}) -> (tensor<?x4x6xf32> {onnx.name = "y"}) {
  // expected-error@+1 {{a window of 9 elements does not fit axis 2 of [N, 4, 8] with a padding of 0 and 0}}
  %y = onnx.node "MaxPool"(%x) version 12 {kernel_shape = array<i64: 5>, dilations = array<i64: 2>} names ["p"] : (tensor<?x4x8xf32>) -> tensor<?x4x6xf32>
  onnx.return %y : tensor<?x4x6xf32>
}

// -----

onnx.graph @main(%x: tensor<?x4x8xf32> {onnx.name = "x", onnx.dims = ["batch", 4, 8]}) -> (tensor<?x4x6xf32> {onnx.name = "y"}, tensor<?x4x6xi64> {onnx.name = "i"}) {
  // expected-error@+1 {{output 1 (indices) numbers the elements of all samples, which depends on the batch: it is not supported}}
  %y, %i = onnx.node "MaxPool"(%x) version 12 {kernel_shape = array<i64: 3>} names ["p", "i"] : (tensor<?x4x8xf32>) -> (tensor<?x4x6xf32>, tensor<?x4x6xi64>)
  onnx.return %y, %i : tensor<?x4x6xf32>, tensor<?x4x6xi64>
}

// -----

onnx.graph @main(%x: tensor<?x4x8xf32> {onnx.name = "x", onnx.dims = ["batch", 4, 8]}) -> (tensor<4x8x1xf32> {onnx.name = "y"}) {
  %t = onnx.node "Transpose"(%x) version 13 {perm = array<i64: 1, 2, 0>} : (tensor<?x4x8xf32>) -> tensor<4x8x?xf32>
  // expected-error@+1 {{input [4, 8, N] has the batch along an axis of the image: this combines samples}}
  %y = onnx.node "GlobalMaxPool"(%t) version 1 {} names ["p"] : (tensor<4x8x?xf32>) -> tensor<4x8x1xf32>
  onnx.return %y : tensor<4x8x1xf32>
}

// -----

onnx.graph @main(%x: tensor<?x4x8xf32> {onnx.name = "x", onnx.dims = ["batch", 4, 8]}) -> (tensor<?x4x6xf32> {onnx.name = "y"}) {
  // expected-error@+1 {{auto_pad is 'SAME', accepted are NOTSET, VALID, SAME_UPPER and SAME_LOWER}}
  %y = onnx.node "AveragePool"(%x) version 11 {kernel_shape = array<i64: 3>, auto_pad = "SAME"} names ["p"] : (tensor<?x4x8xf32>) -> tensor<?x4x6xf32>
  onnx.return %y : tensor<?x4x6xf32>
}

// -----

onnx.graph @main(%x: tensor<?x4x8xf32> {onnx.name = "x", onnx.dims = ["batch", 4, 8]}) -> (tensor<?x4x6xf32> {onnx.name = "y"}) {
  // expected-error@+1 {{dilations has an entry 4294967296, expected 1 to 2147483647}}
  %y = onnx.node "MaxPool"(%x) version 12 {kernel_shape = array<i64: 3>, dilations = array<i64: 4294967296>} names ["p"] : (tensor<?x4x8xf32>) -> tensor<?x4x6xf32>
  onnx.return %y : tensor<?x4x6xf32>
}

// -----

onnx.graph @main(%x: tensor<?x4x8xf32> {onnx.name = "x", onnx.dims = ["batch", 4, 8]}) -> (tensor<?x4x6xf32> {onnx.name = "y"}) {
  // expected-error@+1 {{kernel_shape must have 1 entries of 1 to 2147483647}}
  %y = onnx.node "MaxPool"(%x) version 12 {kernel_shape = array<i64: 3, 3>} names ["p"] : (tensor<?x4x8xf32>) -> tensor<?x4x6xf32>
  onnx.return %y : tensor<?x4x6xf32>
}

// -----

onnx.graph @main(%x: tensor<?x4x8xf32> {onnx.name = "x", onnx.dims = ["batch", 4, 8]}, %w: tensor<3x2x3xf32> {onnx.name = "w", onnx.dims = [3, 2, 3]}) -> (tensor<?x2x10xf32> {onnx.name = "y"}) {
  // expected-error@+1 {{expected an input [N, C, n..] and weights [C, O, k..] with C a multiple of group 1, not [N, 4, 8] and [3, 2, 3]}}
  %y = onnx.node "ConvTranspose"(%x, %w) version 11 {} names ["t"] : (tensor<?x4x8xf32>, tensor<3x2x3xf32>) -> tensor<?x2x10xf32>
  onnx.return %y : tensor<?x2x10xf32>
}

// -----

onnx.graph @main(%x: tensor<?x4x8xf32> {onnx.name = "x", onnx.dims = ["batch", 4, 8]}, %w: tensor<4x2x3xf32> {onnx.name = "w", onnx.dims = [4, 2, 3]}) -> (tensor<?x2x12xf32> {onnx.name = "y"}) {
  // expected-error@+1 {{axis 2 of [N, 4, 8] gives 10 elements, of which a padding of 6 and 5 leaves none}}
  %y = onnx.node "ConvTranspose"(%x, %w) version 11 {pads = array<i64: 6, 5>} names ["t"] : (tensor<?x4x8xf32>, tensor<4x2x3xf32>) -> tensor<?x2x12xf32>
  onnx.return %y : tensor<?x2x12xf32>
}
