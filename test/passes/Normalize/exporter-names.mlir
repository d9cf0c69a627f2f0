// RUN: harmony-opt %s --harmony-normalize 2>&1 | FileCheck %s

// The TorchScript exporter says nothing: names tell.
// CHECK: warning: not trained, since the exporter has made them: 'onnx::MatMul_7'; if there are weights in them, export with torch.onnx.export({{.*}}) or, by the TorchScript exporter, do_constant_folding=False
// CHECK: warning: trained, though nothing says that they are parameters: 'pixel_mean'; buffers (statistics, masks, tables) must be frozen: --freeze REGEX
// CHECK: warning: not trained, since nothing says that these scalars are parameters: 'net.eps'; --trainable REGEX trains them
// CHECK-NOT: warning
onnx.initializer @net.eps : tensor<f32> = dense<0.5> : tensor<f32>
onnx.initializer @"/net/one" : tensor<f32> = dense<1.0> : tensor<f32>
onnx.initializer @fc.weight : tensor<5x4xf32> = dense<2.0> : tensor<5x4xf32>
onnx.initializer @pixel_mean : tensor<5xf32> = dense<0.5> : tensor<5xf32>
onnx.initializer @"onnx::MatMul_7" : tensor<4x5xf32> = dense<1.0> : tensor<4x5xf32>
onnx.graph @main(%x: tensor<?x5xf32> {onnx.name = "x", onnx.dims = ["batch", 5]}) -> (tensor<f32> {onnx.name = "loss"}) {
  %w = onnx.initial_value @fc.weight : tensor<5x4xf32>
  %mean = onnx.initial_value @pixel_mean : tensor<5xf32>
  %f = onnx.initial_value @"onnx::MatMul_7" : tensor<4x5xf32>
  %eps = onnx.initial_value @net.eps : tensor<f32>
  %one = onnx.initial_value @"/net/one" : tensor<f32>
  %s = onnx.node "Add"(%eps, %one) version 14 {} : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %c = onnx.node "Mul"(%x, %s) version 14 {} : (tensor<?x5xf32>, tensor<f32>) -> tensor<?x5xf32>
  %0 = onnx.node "Sub"(%c, %mean) version 14 {} : (tensor<?x5xf32>, tensor<5xf32>) -> tensor<?x5xf32>
  %1 = onnx.node "MatMul"(%0, %w) version 13 {} : (tensor<?x5xf32>, tensor<5x4xf32>) -> tensor<?x4xf32>
  %2 = onnx.node "MatMul"(%1, %f) version 13 {} : (tensor<?x4xf32>, tensor<4x5xf32>) -> tensor<?x5xf32>
  %l = onnx.node "ReduceMean"(%2) version 18 {keepdims = 0 : si64} : (tensor<?x5xf32>) -> tensor<f32>
  onnx.return %l : tensor<f32>
}
