// A constant that repeats one element 10^12 times stays a broadcast: nobody looks at its elements one by one.
// RUN: harmony-opt %s -split-input-file --harmony-normalize | FileCheck %s

// CHECK-LABEL: func.func @main
// CHECK: nn.broadcast {{.*}} -> tensor<1000000x1000000xf32>
onnx.initializer @w : tensor<3xf32> = dense<[1.0, 2.0, 3.0]> : tensor<3xf32> {kind = "PARAMETER"}
onnx.graph @main(%x: tensor<?x3xf32> {onnx.name = "x", onnx.dims = ["batch", 3]}) -> (tensor<f32> {onnx.name = "loss"}) {
  %w = onnx.initial_value @w : tensor<3xf32>
  %s = onnx.node "Constant"() version 19 {value_ints = array<i64: 1000000, 1000000>} : () -> tensor<2xi64>
  %c = onnx.node "ConstantOfShape"(%s) version 20 {value = dense<2.0> : tensor<1xf32>} : (tensor<2xi64>) -> tensor<1000000x1000000xf32>
  %m = onnx.node "ReduceMax"(%c) version 20 {keepdims = 0 : si64} : (tensor<1000000x1000000xf32>) -> tensor<f32>
  %p = onnx.node "Mul"(%x, %w) version 14 {} : (tensor<?x3xf32>, tensor<3xf32>) -> tensor<?x3xf32>
  %q = onnx.node "Mul"(%p, %m) version 14 {} : (tensor<?x3xf32>, tensor<f32>) -> tensor<?x3xf32>
  %l = onnx.node "ReduceMean"(%q) version 18 {keepdims = 0 : si64} : (tensor<?x3xf32>) -> tensor<f32>
  onnx.return %l : tensor<f32>
}
