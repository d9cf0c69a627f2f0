// Copies of a layer start equal in all tensors: two are named, the rest counted.
// RUN: harmony-opt %s --harmony-normalize 2>&1 | FileCheck %s

// CHECK: warning: tensors with equal elements train apart: 'w1' is 'w0', 'b1' is 'b0' and 2 more; if the model ties them, export with torch.onnx.export(
// CHECK-NOT: warning
// CHECK: nn.variable {{.*}}<parameter> @w2
onnx.initializer @w0 : tensor<2xf32> = dense<[1.0, 2.0]> : tensor<2xf32>
onnx.initializer @b0 : tensor<2xf32> = dense<[3.0, 4.0]> : tensor<2xf32>
onnx.initializer @w1 : tensor<2xf32> = dense<[1.0, 2.0]> : tensor<2xf32>
onnx.initializer @b1 : tensor<2xf32> = dense<[3.0, 4.0]> : tensor<2xf32>
onnx.initializer @w2 : tensor<2xf32> = dense<[1.0, 2.0]> : tensor<2xf32>
onnx.initializer @b2 : tensor<2xf32> = dense<[3.0, 4.0]> : tensor<2xf32>
onnx.graph @main(%x: tensor<?x2xf32> {onnx.name = "x", onnx.dims = ["batch", 2]}) -> (tensor<f32> {onnx.name = "loss"}) {
  %w0 = onnx.initial_value @w0 : tensor<2xf32>
  %b0 = onnx.initial_value @b0 : tensor<2xf32>
  %w1 = onnx.initial_value @w1 : tensor<2xf32>
  %b1 = onnx.initial_value @b1 : tensor<2xf32>
  %w2 = onnx.initial_value @w2 : tensor<2xf32>
  %b2 = onnx.initial_value @b2 : tensor<2xf32>
  %0 = onnx.node "Mul"(%x, %w0) version 14 {} : (tensor<?x2xf32>, tensor<2xf32>) -> tensor<?x2xf32>
  %1 = onnx.node "Add"(%0, %b0) version 14 {} : (tensor<?x2xf32>, tensor<2xf32>) -> tensor<?x2xf32>
  %2 = onnx.node "Mul"(%1, %w1) version 14 {} : (tensor<?x2xf32>, tensor<2xf32>) -> tensor<?x2xf32>
  %3 = onnx.node "Add"(%2, %b1) version 14 {} : (tensor<?x2xf32>, tensor<2xf32>) -> tensor<?x2xf32>
  %4 = onnx.node "Mul"(%3, %w2) version 14 {} : (tensor<?x2xf32>, tensor<2xf32>) -> tensor<?x2xf32>
  %5 = onnx.node "Add"(%4, %b2) version 14 {} : (tensor<?x2xf32>, tensor<2xf32>) -> tensor<?x2xf32>
  %l = onnx.node "ReduceMean"(%5) version 18 {keepdims = 0 : si64} : (tensor<?x2xf32>) -> tensor<f32>
  onnx.return %l : tensor<f32>
}
