// RUN: harmony-opt %s | harmony-opt | FileCheck %s

onnx.initializer @W : tensor<4xf32> = dense<1.0> : tensor<4xf32>
onnx.graph @main(%x: tensor<4xf32> {onnx.name = "x"}) -> (tensor<4xf32> {onnx.name = "p"}) {
  %W = onnx.initial_value @W : tensor<4xf32>
  %p = onnx.node "Mul"(%x, %W) version 14 {} names ["p"] : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  onnx.return %p : tensor<4xf32>
}
// CHECK: onnx.initializer @rate : tensor<f32> = dense<1.000000e-01> : tensor<f32> {kind = "STATE", training = @step}
onnx.initializer @rate : tensor<f32> = dense<0.1> : tensor<f32> {kind = "STATE", training = @step}
onnx.graph @algorithm(%x: tensor<4xf32> {onnx.name = "x"})
    -> (tensor<4xf32> {onnx.name = "p"}, tensor<4xf32> {onnx.name = "W1"}) {
  %W = onnx.initial_value @W : tensor<4xf32>
  %p = onnx.node "Mul"(%x, %W) version 14 {} names ["p"] : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  // CHECK: %dW = onnx.gradient %p : tensor<4xf32> xs(%W : tensor<4xf32>) zs(%x : tensor<4xf32>) at(%W, %x : tensor<4xf32>, tensor<4xf32>) names ["dW"] -> tensor<4xf32>
  %dW = onnx.gradient %p : tensor<4xf32> xs(%W : tensor<4xf32>) zs(%x : tensor<4xf32>) at(%W, %x : tensor<4xf32>, tensor<4xf32>) names ["dW"] -> tensor<4xf32>
  // An output that nobody wants, and no zs.
  // CHECK: %{{.*}} = onnx.gradient %p : tensor<4xf32> xs(%W : tensor<4xf32>) at(%x : tensor<4xf32>) -> none
  %no = onnx.gradient %p : tensor<4xf32> xs(%W : tensor<4xf32>) at(%x : tensor<4xf32>) -> none
  %rate = onnx.initial_value @rate : tensor<f32>
  %u = onnx.node "Mul"(%rate, %dW) version 14 {} : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  %W1 = onnx.node "Sub"(%W, %u) version 14 {} names ["W1"] : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  onnx.return %p, %W1 : tensor<4xf32>, tensor<4xf32>
}
onnx.graph @initialization() -> (tensor<4xf32> {onnx.name = "W0"}) {
  %W0 = onnx.node "RandomNormal"() version 1 {shape = array<i64: 4>} : () -> tensor<4xf32>
  onnx.return %W0 : tensor<4xf32>
}
// CHECK: onnx.training @step algorithm @algorithm update {{\[\[}}@W, "W1"{{\]\]}} initialization @initialization set {{\[\[}}@W, "W0"{{\]\]}}
onnx.training @step algorithm @algorithm update [[@W, "W1"]] initialization @initialization set [[@W, "W0"]]
