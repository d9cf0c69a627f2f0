// What of BatchNormalization is refused, and what to do about it.
// RUN: harmony-opt %s -split-input-file -verify-diagnostics --harmony-normalize

// Exporters write the inference form unasked.
onnx.initializer @c : tensor<3xf32> = dense<1.0> : tensor<3xf32>
onnx.initializer @m : tensor<3xf32> = dense<0.0> : tensor<3xf32>
onnx.initializer @v : tensor<3xf32> = dense<1.0> : tensor<3xf32>
// expected-error@+1 {{every BatchNormalization has the inference form, whose running statistics are constants: 'a', 'b'. torch.onnx.export(dynamo=True) writes it for a model in training mode too. To normalise by the batch, switch them by --batch-norm train}}
onnx.graph @main(%x: tensor<?x3xf32> {onnx.name = "x", onnx.dims = ["batch", 3]}) -> (tensor<f32> {onnx.name = "loss"}) {
  %c = onnx.initial_value @c : tensor<3xf32>
  %m = onnx.initial_value @m : tensor<3xf32>
  %v = onnx.initial_value @v : tensor<3xf32>
  %y = onnx.node "BatchNormalization"(%x, %c, %c, %m, %v) version 15 {} names ["a"] : (tensor<?x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<?x3xf32>
  %z = onnx.node "BatchNormalization"(%y, %c, %c, %m, %v) version 9 {} names ["b"] : (tensor<?x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<?x3xf32>
  %l = onnx.node "ReduceMean"(%z) version 18 {keepdims = 0 : si64} : (tensor<?x3xf32>) -> tensor<f32>
  onnx.return %l : tensor<f32>
}

// -----

onnx.initializer @c : tensor<3xf32> = dense<1.0> : tensor<3xf32>
onnx.initializer @m : tensor<3xf32> = dense<0.0> : tensor<3xf32>
onnx.initializer @v : tensor<3xf32> = dense<1.0> : tensor<3xf32>
onnx.graph @main(%x: tensor<?x3xf32> {onnx.name = "x", onnx.dims = ["batch", 3]}) -> (tensor<f32> {onnx.name = "loss"}) {
  %c = onnx.initial_value @c : tensor<3xf32>
  %m = onnx.initial_value @m : tensor<3xf32>
  // expected-warning@+1 {{'v' is a running statistic of a BatchNormalization and read by other nodes too: it is not trained}}
  %v = onnx.initial_value @v : tensor<3xf32>
  // expected-error@+1 {{node 'a' (BatchNormalization, opset version 7): spatial is 0: statistics for each position of an image are not supported, only those of channels; opset 9 has no others}}
  %y, %0, %1, %2, %3 = onnx.node "BatchNormalization"(%x, %c, %c, %m, %v) version 7 {spatial = 0 : si64} names ["a", "0", "1", "2", "3"] : (tensor<?x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<?x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
  %w = onnx.node "Exp"(%v) version 13 {} : (tensor<3xf32>) -> tensor<3xf32>
  // expected-error@+1 {{node 'b' (BatchNormalization, opset version 15): the running variance is computed in the graph: a node that trains updates it, accepted is an initializer}}
  %z = onnx.node "BatchNormalization"(%x, %c, %c, %m, %w) version 15 {training_mode = 1 : si64} names ["b"] : (tensor<?x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<?x3xf32>
  // expected-error@+1 {{node 'c' (BatchNormalization, opset version 15): updates the running statistic @m, which another node updates too}}
  %t = onnx.node "BatchNormalization"(%x, %c, %c, %m, %v) version 15 {training_mode = 1 : si64} names ["c"] : (tensor<?x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<?x3xf32>
  %sum = onnx.node "Sum"(%y, %z, %t) version 13 {} : (tensor<?x3xf32>, tensor<?x3xf32>, tensor<?x3xf32>) -> tensor<?x3xf32>
  %l = onnx.node "ReduceMean"(%sum) version 18 {keepdims = 0 : si64} : (tensor<?x3xf32>) -> tensor<f32>
  onnx.return %l : tensor<f32>
}
