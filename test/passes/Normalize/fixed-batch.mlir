// A model with a fixed batch of 4: extents that hold it are read as N.
// RUN: harmony-opt %s --harmony-normalize | FileCheck %s

// CHECK: module attributes {nn.fixed_batch = 4 : i64}
// CHECK: func.func @main(%arg0: tensor<?x6xf32, #nn.batch<0, 1>> {nn.name = "x"})
// CHECK: nn.reshape %arg0 : tensor<?x6xf32, #nn.batch<0, 1>> -> tensor<?x3xf32, #nn.batch<0, 2>>
// CHECK: nn.loss %{{.*}} scale 1.000000e+00 count 6.000000e+00
onnx.graph @main(%x: tensor<4x6xf32> {onnx.name = "x", onnx.dims = [4, 6]}) -> (tensor<f32> {onnx.name = "loss"}) {
  %to = onnx.node "Constant"() version 19 {value_ints = array<i64: 8, 3>} : () -> tensor<2xi64>
  %r = onnx.node "Reshape"(%x, %to) version 19 {} : (tensor<4x6xf32>, tensor<2xi64>) -> tensor<8x3xf32>
  %s = onnx.node "Tanh"(%r) version 13 {} : (tensor<8x3xf32>) -> tensor<8x3xf32>
  %l = onnx.node "ReduceMean"(%s) version 18 {keepdims = 0 : si64} : (tensor<8x3xf32>) -> tensor<f32>
  onnx.return %l : tensor<f32>
}
