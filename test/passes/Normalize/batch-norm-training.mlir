// A training graph binds running statistics to the node's outputs: ONNX's biased variance, and no other statistics move.
// RUN: harmony-opt %s --harmony-normalize --harmony-verify-normalized | FileCheck %s

// CHECK: nn.variable <parameter> @w
// CHECK: nn.variable <buffer> @m : tensor<3xf32> {{.*}} {nn.reason = "it is a running statistic of BatchNormalization"}
// CHECK: func.func @main
// CHECK: nn.batch_norm
// CHECK-NOT: nn.count
// CHECK: nn.assign @m,
// CHECK: nn.assign @v,
// CHECK: nn.batch_norm
// CHECK-NOT: nn.assign
// CHECK: nn.loss
// CHECK: nn.optimize @w by @{{.*}} states [] scalars []
onnx.initializer @w : tensor<3xf32> = dense<1.0> : tensor<3xf32>
onnx.initializer @b : tensor<3xf32> = dense<0.0> : tensor<3xf32>
onnx.initializer @m : tensor<3xf32> = dense<0.0> : tensor<3xf32>
onnx.initializer @v : tensor<3xf32> = dense<1.0> : tensor<3xf32>
onnx.initializer @m2 : tensor<3xf32> = dense<0.0> : tensor<3xf32>
onnx.initializer @v2 : tensor<3xf32> = dense<1.0> : tensor<3xf32>
onnx.graph @main(%x: tensor<?x3xf32> {onnx.name = "x", onnx.dims = ["batch", 3]}) -> (tensor<?x3xf32> {onnx.name = "y"}) {
  onnx.return %x : tensor<?x3xf32>
}
onnx.graph @algorithm(%x: tensor<?x3xf32> {onnx.name = "x", onnx.dims = ["batch", 3]}) -> (tensor<f32> {onnx.name = "loss"}, tensor<3xf32> {onnx.name = "new_w"}, tensor<3xf32> {onnx.name = "new_m"}, tensor<3xf32> {onnx.name = "new_v"}) {
  %w = onnx.initial_value @w : tensor<3xf32>
  %b = onnx.initial_value @b : tensor<3xf32>
  %m = onnx.initial_value @m : tensor<3xf32>
  %v = onnx.initial_value @v : tensor<3xf32>
  %m2 = onnx.initial_value @m2 : tensor<3xf32>
  %v2 = onnx.initial_value @v2 : tensor<3xf32>
  %y, %mean, %variance = onnx.node "BatchNormalization"(%x, %w, %b, %m, %v) version 15 {training_mode = 1 : si64} names ["y", "mean", "variance"] : (tensor<?x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<?x3xf32>, tensor<3xf32>, tensor<3xf32>)
  %same = onnx.node "Identity"(%variance) version 16 {} : (tensor<3xf32>) -> tensor<3xf32>
  %t = onnx.node "Tanh"(%y) version 13 {} : (tensor<?x3xf32>) -> tensor<?x3xf32>
  %z = onnx.node "BatchNormalization"(%t, %w, %b, %m2, %v2) version 15 {training_mode = 1 : si64} names ["z"] : (tensor<?x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<?x3xf32>
  %u = onnx.node "Tanh"(%z) version 13 {} : (tensor<?x3xf32>) -> tensor<?x3xf32>
  %loss = onnx.node "ReduceMean"(%u) version 18 {keepdims = 0 : si64} : (tensor<?x3xf32>) -> tensor<f32>
  %g = onnx.gradient %loss : tensor<f32> xs(%w : tensor<3xf32>) zs(%x : tensor<?x3xf32>) at(%w, %x : tensor<3xf32>, tensor<?x3xf32>) -> tensor<3xf32>
  %nw = onnx.node "Sub"(%w, %g) version 14 {} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  onnx.return %loss, %nw, %mean, %same : tensor<f32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
}
onnx.training @step algorithm @algorithm update [[@w, "new_w"], [@m, "new_m"], [@v, "new_v"]]
