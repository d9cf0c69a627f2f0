// What recurrent operators refuse.
// RUN: harmony-opt %s -split-input-file --harmony-normalize="forward=true" -verify-diagnostics

// Samples lie on axis 1 where layout is 0: here the batch is the number of steps.
onnx.graph @main(%x: tensor<?x2x3xf32> {onnx.name = "x", onnx.dims = ["batch", 2, 3]}, %w: tensor<1x4x3xf32> {onnx.name = "w"}, %r: tensor<1x4x4xf32> {onnx.name = "r"}) -> (tensor<?x1x2x4xf32> {onnx.name = "y"}) {
  // expected-error@+1 {{node 'cell' (RNN, opset version 14): the steps of X carry the batch [2, N, 3] (samples, steps, inputs); their number must be known (--dim), and samples lie on axis 1}}
  %y = onnx.node "RNN"(%x, %w, %r) version 14 {hidden_size = 4 : si64} names ["cell"] : (tensor<?x2x3xf32>, tensor<1x4x3xf32>, tensor<1x4x4xf32>) -> tensor<?x1x2x4xf32>
  onnx.return %y : tensor<?x1x2x4xf32>
}

// -----

onnx.graph @main(%x: tensor<?x2x3xf32> {onnx.name = "x", onnx.dims = ["batch", 2, 3]}) -> (tensor<?x2x1x4xf32> {onnx.name = "y"}) {
  %w = onnx.node "Constant"() version 19 {value = dense<0.5> : tensor<1x4x3xf32>} : () -> tensor<1x4x3xf32>
  %r = onnx.node "Constant"() version 19 {value = dense<0.5> : tensor<1x4x4xf32>} : () -> tensor<1x4x4xf32>
  // expected-error@+1 {{node 'cell' (RNN, opset version 14): activation 'Swish' is not supported; accepted are Relu, Tanh, Sigmoid, Affine, LeakyRelu, ThresholdedRelu, ScaledTanh, HardSigmoid, Elu, Softsign, Softplus}}
  %y = onnx.node "RNN"(%x, %w, %r) version 14 {hidden_size = 4 : si64, layout = 1 : si64, activations = ["Swish"]} names ["cell"] : (tensor<?x2x3xf32>, tensor<1x4x3xf32>, tensor<1x4x4xf32>) -> tensor<?x2x1x4xf32>
  onnx.return %y : tensor<?x2x1x4xf32>
}

// -----

onnx.graph @main(%x: tensor<?x2x3xf32> {onnx.name = "x", onnx.dims = ["batch", 2, 3]}) -> (tensor<?x2x1x4xf32> {onnx.name = "y"}) {
  %w = onnx.node "Constant"() version 19 {value = dense<0.5> : tensor<1x4x3xf32>} : () -> tensor<1x4x3xf32>
  %r = onnx.node "Constant"() version 19 {value = dense<0.5> : tensor<1x4x4xf32>} : () -> tensor<1x4x4xf32>
  // expected-error@+1 {{node 'cell' (RNN, opset version 14): activations has 2 entries, expected 1}}
  %y = onnx.node "RNN"(%x, %w, %r) version 14 {hidden_size = 4 : si64, layout = 1 : si64, activations = ["Tanh", "Tanh"]} names ["cell"] : (tensor<?x2x3xf32>, tensor<1x4x3xf32>, tensor<1x4x4xf32>) -> tensor<?x2x1x4xf32>
  onnx.return %y : tensor<?x2x1x4xf32>
}

// -----

onnx.graph @main(%x: tensor<?x2x3xf32> {onnx.name = "x", onnx.dims = ["batch", 2, 3]}) -> (tensor<?x2x1x4xf32> {onnx.name = "y"}) {
  %w = onnx.node "Constant"() version 19 {value = dense<0.5> : tensor<1x4x3xf32>} : () -> tensor<1x4x3xf32>
  %r = onnx.node "Constant"() version 19 {value = dense<0.5> : tensor<1x4x4xf32>} : () -> tensor<1x4x4xf32>
  // expected-error@+1 {{node 'cell' (RNN, opset version 14): hidden_size is 5, R has 4}}
  %y = onnx.node "RNN"(%x, %w, %r) version 14 {hidden_size = 5 : si64, layout = 1 : si64} names ["cell"] : (tensor<?x2x3xf32>, tensor<1x4x3xf32>, tensor<1x4x4xf32>) -> tensor<?x2x1x4xf32>
  onnx.return %y : tensor<?x2x1x4xf32>
}

// -----

// A cell of four gates, with the weights of one.
onnx.graph @main(%x: tensor<?x2x3xf32> {onnx.name = "x", onnx.dims = ["batch", 2, 3]}) -> (tensor<?x2x1x4xf32> {onnx.name = "y"}) {
  %w = onnx.node "Constant"() version 19 {value = dense<0.5> : tensor<1x4x3xf32>} : () -> tensor<1x4x3xf32>
  %r = onnx.node "Constant"() version 19 {value = dense<0.5> : tensor<1x4x4xf32>} : () -> tensor<1x4x4xf32>
  // expected-error@+1 {{node 'cell' (LSTM, opset version 14): W has shape [1, 4, 3], expected [1, 16, 3]}}
  %y = onnx.node "LSTM"(%x, %w, %r) version 14 {hidden_size = 4 : si64, layout = 1 : si64} names ["cell"] : (tensor<?x2x3xf32>, tensor<1x4x3xf32>, tensor<1x4x4xf32>) -> tensor<?x2x1x4xf32>
  onnx.return %y : tensor<?x2x1x4xf32>
}

// -----

onnx.graph @main(%x: tensor<?x2x3xf32> {onnx.name = "x", onnx.dims = ["batch", 2, 3]}) -> (tensor<?x2x1x4xf32> {onnx.name = "y"}) {
  %w = onnx.node "Constant"() version 19 {value = dense<0.5> : tensor<1x4x3xf32>} : () -> tensor<1x4x3xf32>
  %r = onnx.node "Constant"() version 19 {value = dense<0.5> : tensor<1x4x4xf32>} : () -> tensor<1x4x4xf32>
  // expected-error@+1 {{node 'cell' (RNN, opset version 14): direction is 'backward', accepted are 'forward', 'reverse' and 'bidirectional'}}
  %y = onnx.node "RNN"(%x, %w, %r) version 14 {direction = "backward", layout = 1 : si64} names ["cell"] : (tensor<?x2x3xf32>, tensor<1x4x3xf32>, tensor<1x4x4xf32>) -> tensor<?x2x1x4xf32>
  onnx.return %y : tensor<?x2x1x4xf32>
}
