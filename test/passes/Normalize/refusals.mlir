// Everything that is refused names the node, the operator, its version, and what is accepted.
// RUN: harmony-opt %s -split-input-file --harmony-normalize -verify-diagnostics

// All operators without a converter are reported at once.
onnx.graph @main(%x: tensor<?x3xf32> {onnx.name = "x", onnx.dims = ["batch", 3]}) -> (tensor<f32> {onnx.name = "loss"}) {
  // expected-error@+1 {{node 'h' (MatMulInteger, opset version 10): the operator is not supported}}
  %0 = onnx.node "MatMulInteger"(%x, %x) version 10 {} names ["h"] : (tensor<?x3xf32>, tensor<?x3xf32>) -> tensor<?x3xf32>
  // expected-error@+1 {{node 'd' (Det, opset version 22): the operator is not supported}}
  %1 = onnx.node "Det"(%0) version 22 {} names ["d"] : (tensor<?x3xf32>) -> tensor<?x3xf32>
  // expected-error@+1 {{node 'g' (Bernoulli, opset version 22): the operator is not supported}}
  %l = onnx.node "Bernoulli"(%1) version 22 {} names ["g"] : (tensor<?x3xf32>) -> tensor<f32>
  onnx.return %l : tensor<f32>
}

// -----

// Operators that no output needs do not matter.
onnx.graph @main(%x: tensor<?x3xf32> {onnx.name = "x", onnx.dims = ["batch", 3]}) -> (tensor<f32> {onnx.name = "loss"}) {
  %0 = onnx.node "MatMulInteger"(%x, %x) version 10 {} names ["h"] : (tensor<?x3xf32>, tensor<?x3xf32>) -> tensor<?x3xf32>
  %l = onnx.node "ReduceMean"(%x) version 18 {keepdims = 0 : si64} : (tensor<?x3xf32>) -> tensor<f32>
  onnx.return %l : tensor<f32>
}

// -----

onnx.graph @main(%x: tensor<?x3xf32> {onnx.name = "x", onnx.dims = ["batch", 3]}) -> (tensor<f32> {onnx.name = "loss"}) {
  // expected-error@+1 {{node 'a' (Add, opset version 6): this version of the operator is not supported; supported are 7, 13, 14}}
  %0 = onnx.node "Add"(%x, %x) version 6 {axis = 1 : si64} names ["a"] : (tensor<?x3xf32>, tensor<?x3xf32>) -> tensor<?x3xf32>
  %l = onnx.node "ReduceMean"(%0) version 18 {keepdims = 0 : si64} : (tensor<?x3xf32>) -> tensor<f32>
  onnx.return %l : tensor<f32>
}

// -----

// Several nodes of which each has a fault of its own; what depends on a refused node is not reported.
onnx.graph @main(%x: tensor<?x3xf32> {onnx.name = "x", onnx.dims = ["batch", 3]}) -> (tensor<f32> {onnx.name = "loss"}) {
  %pads = onnx.node "Constant"() version 19 {value_ints = array<i64: 0, 1, 0, 1>} : () -> tensor<4xi64>
  // expected-error@+1 {{node 'p' (Pad, opset version 19): mode is 'mirror', accepted are constant, reflect, edge, wrap}}
  %0 = onnx.node "Pad"(%x, %pads) version 19 {mode = "mirror"} names ["p"] : (tensor<?x3xf32>, tensor<4xi64>) -> tensor<?x5xf32>
  // expected-error@+1 {{node 's' (Softmax, opset version 13): axis is 5, accepted is [-2, 1]}}
  %1 = onnx.node "Softmax"(%x) version 13 {axis = 5 : si64} names ["s"] : (tensor<?x3xf32>) -> tensor<?x3xf32>
  %2 = onnx.node "ReduceMean"(%0) version 18 {keepdims = 0 : si64} : (tensor<?x5xf32>) -> tensor<f32>
  %3 = onnx.node "ReduceMean"(%1) version 18 {keepdims = 0 : si64} : (tensor<?x3xf32>) -> tensor<f32>
  %l = onnx.node "Add"(%2, %3) version 14 {} : (tensor<f32>, tensor<f32>) -> tensor<f32>
  onnx.return %l : tensor<f32>
}

// -----

// Samples are independent: what couples them is named.
onnx.graph @main(%x: tensor<?x3xf32> {onnx.name = "x", onnx.dims = ["batch", 3]}) -> (tensor<f32> {onnx.name = "loss"}) {
  // expected-error@+1 {{node 's' (Softmax, opset version 13): normalises over the batch axis of [N, 3]: this combines samples}}
  %1 = onnx.node "Softmax"(%x) version 13 {axis = 0 : si64} names ["s"] : (tensor<?x3xf32>) -> tensor<?x3xf32>
  %l = onnx.node "ReduceMean"(%1) version 18 {keepdims = 0 : si64} : (tensor<?x3xf32>) -> tensor<f32>
  onnx.return %l : tensor<f32>
}

// -----

onnx.graph @main(%x: tensor<?x3xf32> {onnx.name = "x", onnx.dims = ["batch", 3]}) -> (tensor<f32> {onnx.name = "loss"}) {
  %t = onnx.node "Transpose"(%x) version 13 {perm = array<i64: 1, 0>} : (tensor<?x3xf32>) -> tensor<3x?xf32>
  // expected-error@+1 {{node 'm' (MatMul, opset version 13): shapes [N, 3] and [3, N] do not fit, or carry the batch along different axes, which combines samples}}
  %m = onnx.node "MatMul"(%x, %t) version 13 {} names ["m"] : (tensor<?x3xf32>, tensor<3x?xf32>) -> tensor<?x?xf32>
  %l = onnx.node "ReduceMean"(%m) version 18 {keepdims = 0 : si64} : (tensor<?x?xf32>) -> tensor<f32>
  onnx.return %l : tensor<f32>
}

// -----

onnx.graph @main(%x: tensor<?x3xf32> {onnx.name = "x", onnx.dims = ["batch", 3]}) -> (tensor<f32> {onnx.name = "loss"}) {
  %m = onnx.node "ReduceMean"(%x) version 18 {keepdims = 0 : si64} : (tensor<?x3xf32>) -> tensor<f32>
  // expected-error@+1 {{node 'r' (Sqrt, opset version 13): a sum over the samples of the minibatch is computed with here; after it only sums, differences, and products or quotients with constants are supported}}
  %l = onnx.node "Sqrt"(%m) version 13 {} names ["r"] : (tensor<f32>) -> tensor<f32>
  onnx.return %l : tensor<f32>
}

// -----

onnx.graph @main(%x: tensor<?x3xf32> {onnx.name = "x", onnx.dims = ["batch", 3]}) -> (tensor<f32> {onnx.name = "loss"}) {
  %zero = onnx.node "Constant"() version 19 {value_ints = array<i64: 0>} : () -> tensor<1xi64>
  %one = onnx.node "Constant"() version 19 {value_ints = array<i64: 1>} : () -> tensor<1xi64>
  // expected-error@+1 {{node 'f' (Slice, opset version 13): takes some samples of [N, 3] along the batch axis 0: this combines samples}}
  %f = onnx.node "Slice"(%x, %zero, %one, %zero) version 13 {} names ["f"] : (tensor<?x3xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<1x3xf32>
  %l = onnx.node "ReduceMean"(%f) version 18 {keepdims = 0 : si64} : (tensor<1x3xf32>) -> tensor<f32>
  onnx.return %l : tensor<f32>
}

// -----

onnx.graph @main(%x: tensor<?x4xf32> {onnx.name = "x", onnx.dims = ["batch", 4]}) -> (tensor<f32> {onnx.name = "loss"}) {
  %to = onnx.node "Constant"() version 19 {value_ints = array<i64: 2, -1>} : () -> tensor<2xi64>
  // expected-error@+1 {{node 'r' (Reshape, opset version 19): reshaping [N, 4] to [2, 2N] does not keep the elements of each sample (N) together}}
  %f = onnx.node "Reshape"(%x, %to) version 19 {} names ["r"] : (tensor<?x4xf32>, tensor<2xi64>) -> tensor<2x?xf32>
  %l = onnx.node "ReduceMean"(%f) version 18 {keepdims = 0 : si64} : (tensor<2x?xf32>) -> tensor<f32>
  onnx.return %l : tensor<f32>
}

// -----

// The rows of a sample are not together: a product of rows may see them, nothing that reads them one by one.
onnx.graph @main(%x: tensor<?x5x2x2xf32> {onnx.name = "x", onnx.dims = ["batch", 5, 2, 2]}) -> (tensor<f32> {onnx.name = "loss"}) {
  %to = onnx.node "Constant"() version 19 {value_ints = array<i64: -1, 4>} : () -> tensor<2xi64>
  %t = onnx.node "Transpose"(%x) version 13 {perm = array<i64: 1, 0, 2, 3>} : (tensor<?x5x2x2xf32>) -> tensor<5x?x2x2xf32>
  %m = onnx.node "Reshape"(%t, %to) version 19 {} names ["m"] : (tensor<5x?x2x2xf32>, tensor<2xi64>) -> tensor<?x4xf32>
  %e = onnx.node "Exp"(%m) version 13 {} names ["e"] : (tensor<?x4xf32>) -> tensor<?x4xf32>
  // expected-error@+1 {{node 'l' (ReduceMean, opset version 18): reshaping [5, N, 2, 2] to [5N, 4] does not keep the elements of each sample (N) together}}
  %l = onnx.node "ReduceMean"(%e) version 18 {keepdims = 0 : si64} names ["l"] : (tensor<?x4xf32>) -> tensor<f32>
  onnx.return %l : tensor<f32>
}

// -----

// A denominator is computed before the step: it cannot depend on parameters.
onnx.initializer @w : tensor<3xf32> = dense<[1.0, 2.0, 3.0]> : tensor<3xf32> {kind = "PARAMETER"}
onnx.graph @main(%x: tensor<?x3xf32> {onnx.name = "x", onnx.dims = ["batch", 3]}) -> (tensor<f32> {onnx.name = "loss"}) {
  %w = onnx.initial_value @w : tensor<3xf32>
  %p = onnx.node "Mul"(%x, %w) version 14 {} : (tensor<?x3xf32>, tensor<3xf32>) -> tensor<?x3xf32>
  %n = onnx.node "ReduceSum"(%x) version 13 {keepdims = 0 : si64} : (tensor<?x3xf32>) -> tensor<f32>
  %d = onnx.node "ReduceSum"(%p) version 13 {keepdims = 0 : si64} : (tensor<?x3xf32>) -> tensor<f32>
  // expected-error@+1 {{the loss is divided by a sum over samples that depends on parameters; a denominator must depend on inputs alone, and on tensors that are not trained (--freeze)}}
  %l = onnx.node "Div"(%n, %d) version 14 {} : (tensor<f32>, tensor<f32>) -> tensor<f32>
  onnx.return %l : tensor<f32>
}

// -----

// Attention with half of a cache, or heads that do not fit; angles of another size than the heads.
onnx.graph @main(%x: tensor<?x2x4x4xf32> {onnx.name = "x", onnx.dims = ["batch", 2, 4, 4]}, %k: tensor<?x3x4x4xf32> {onnx.name = "k", onnx.dims = ["batch", 3, 4, 4]}) -> (tensor<f32> {onnx.name = "loss"}) {
  %none = onnx.none
  // expected-error@+1 {{node 'p' (Attention, opset version 23): past_key and past_value go together, and not with nonpad_kv_seqlen}}
  %p = onnx.node "Attention"(%x, %x, %x, %none, %x) version 23 {} names ["p"] : (tensor<?x2x4x4xf32>, tensor<?x2x4x4xf32>, tensor<?x2x4x4xf32>, none, tensor<?x2x4x4xf32>) -> tensor<?x2x4x4xf32>
  // expected-error@+1 {{node 'h' (Attention, opset version 23): heads of [N, 2, 4, 4] and [N, 3, 4, 4] do not fit}}
  %h = onnx.node "Attention"(%x, %k, %k) version 23 {} names ["h"] : (tensor<?x2x4x4xf32>, tensor<?x3x4x4xf32>, tensor<?x3x4x4xf32>) -> tensor<?x2x4x4xf32>
  %0 = onnx.node "Add"(%p, %h) version 14 {} : (tensor<?x2x4x4xf32>, tensor<?x2x4x4xf32>) -> tensor<?x2x4x4xf32>
  // expected-error@+1 {{node 'r' (RotaryEmbedding, opset version 23): turns 4 of 4 elements by caches of shape [N, 2, 4, 4] and [N, 2, 4, 4]; accepted are an even number, and half as many in a cache}}
  %r = onnx.node "RotaryEmbedding"(%x, %x, %x) version 23 {} names ["r"] : (tensor<?x2x4x4xf32>, tensor<?x2x4x4xf32>, tensor<?x2x4x4xf32>) -> tensor<?x2x4x4xf32>
  %1 = onnx.node "Add"(%0, %r) version 14 {} : (tensor<?x2x4x4xf32>, tensor<?x2x4x4xf32>) -> tensor<?x2x4x4xf32>
  %l = onnx.node "ReduceMean"(%1) version 18 {keepdims = 0 : si64} : (tensor<?x2x4x4xf32>) -> tensor<f32>
  onnx.return %l : tensor<f32>
}

// -----

// Dropout that cannot be said before training, or draws nothing for samples.
onnx.initializer @w : tensor<3xf32> = dense<1.0> : tensor<3xf32>
onnx.graph @main(%x: tensor<?x3xf32> {onnx.name = "x", onnx.dims = ["batch", 3]}) -> (tensor<f32> {onnx.name = "loss"}) {
  %ratio = onnx.node "ReduceMean"(%x) version 18 {keepdims = 0 : si64} : (tensor<?x3xf32>) -> tensor<f32>
  %half = onnx.node "Constant"() version 19 {value_float = 0.5 : f32} : () -> tensor<f32>
  %more = onnx.node "Constant"() version 19 {value_float = 1.5 : f32} : () -> tensor<f32>
  %training = onnx.node "Constant"() version 19 {value = dense<true> : tensor<i1>} : () -> tensor<i1>
  // expected-error@+1 {{node 'd' (Dropout, opset version 13): ratio must be a constant}}
  %d = onnx.node "Dropout"(%x, %ratio, %training) version 13 {} names ["d"] : (tensor<?x3xf32>, tensor<f32>, tensor<i1>) -> tensor<?x3xf32>
  // expected-error@+1 {{node 'e' (Dropout, opset version 13): ratio is 1.500000, accepted is [0, 1]}}
  %e = onnx.node "Dropout"(%x, %more, %training) version 13 {} names ["e"] : (tensor<?x3xf32>, tensor<f32>, tensor<i1>) -> tensor<?x3xf32>
  %w = onnx.initial_value @w : tensor<3xf32>
  // expected-error@+1 {{node 'f' (Dropout, opset version 13): random numbers are drawn for samples; shape [3] has none, or several to an index}}
  %f = onnx.node "Dropout"(%w, %half, %training) version 13 {} names ["f"] : (tensor<3xf32>, tensor<f32>, tensor<i1>) -> tensor<3xf32>
  %s = onnx.node "Sum"(%d, %e, %f) version 13 {} : (tensor<?x3xf32>, tensor<?x3xf32>, tensor<3xf32>) -> tensor<?x3xf32>
  %l = onnx.node "ReduceMean"(%s) version 18 {keepdims = 0 : si64} : (tensor<?x3xf32>) -> tensor<f32>
  onnx.return %l : tensor<f32>
}

// -----

// expected-error@+1 {{axis 0 of the inputs has several symbols (batch, rows): give all but the batch an extent by --dim NAME=EXTENT, or export inputs with one name for it}}
onnx.graph @main(%x: tensor<?x3xf32> {onnx.name = "x", onnx.dims = ["batch", 3]}, %y: tensor<?x3xf32> {onnx.name = "y", onnx.dims = ["rows", 3]}) -> (tensor<f32> {onnx.name = "loss"}) {
  %l = onnx.node "ReduceMean"(%x) version 18 {keepdims = 0 : si64} : (tensor<?x3xf32>) -> tensor<f32>
  onnx.return %l : tensor<f32>
}

// -----

// expected-error@+1 {{cannot tell the batch: axis 0 of the inputs has extents (4, 5), expected one and the same}}
onnx.graph @main(%x: tensor<4x3xf32> {onnx.name = "x"}, %y: tensor<5x3xf32> {onnx.name = "y"}) -> (tensor<f32> {onnx.name = "loss"}) {
  %l = onnx.node "ReduceMean"(%x) version 18 {keepdims = 0 : si64} : (tensor<4x3xf32>) -> tensor<f32>
  onnx.return %l : tensor<f32>
}

// -----

// expected-error@+1 {{input 'x' has the batch ('batch') on axis 1; accepted is axis 0}}
onnx.graph @main(%x: tensor<3x?xf32> {onnx.name = "x", onnx.dims = [3, "batch"]}, %y: tensor<?xf32> {onnx.name = "y", onnx.dims = ["batch"]}) -> (tensor<f32> {onnx.name = "loss"}) {
  %l = onnx.node "ReduceMean"(%y) version 18 {keepdims = 0 : si64} : (tensor<?xf32>) -> tensor<f32>
  onnx.return %l : tensor<f32>
}

// -----

onnx.graph @main(%x: tensor<?x3xf32> {onnx.name = "x", onnx.dims = ["batch", 3]}) -> (tensor<2x?xi64> {onnx.name = "y"}) {
  // expected-error@+1 {{node 'y' (NonZero, opset version 13): the operator is not supported: the shape of its result depends on the data, and every extent must be known at compile time}}
  %y = onnx.node "NonZero"(%x) version 13 {} names ["y"] : (tensor<?x3xf32>) -> tensor<2x?xi64>
  onnx.return %y : tensor<2x?xi64>
}
