// What the exporter has traced says what ONNX has no place for: padding_idx of embeddings (whatever the table holds; flags go
// before), label_smoothing of cross entropies.
// RUN: harmony-opt %s --harmony-normalize 2>&1 | FileCheck %s
// RUN: harmony-opt %s --harmony-normalize="padding=t=none" 2>&1 | FileCheck %s --check-prefix=NONE

// CHECK: warning: node 'l' was exported from cross_entropy with label_smoothing=0.1, which the exporter has dropped
// CHECK-NOT: warning
// CHECK: nn.gather {{.*}} {nn.padding = 2 : i64} : tensor<3x2xf32>
// By keyword.
// CHECK: nn.gather {{.*}} {nn.padding = 0 : i64} : tensor<4x2xf32>
// Traced without one: the row that is zero trains.
// CHECK: nn.gather {{.*}} : tensor<5x2xf32>
// NONE-NOT: nn.padding = 2
// NONE: nn.padding = 0
onnx.initializer @t : tensor<3x2xf32> = dense<[[1.0, 2.0], [0.0, 0.0], [3.0, 0.0]]> : tensor<3x2xf32> {kind = "PARAMETER"}
onnx.initializer @u : tensor<4x2xf32> = dense<[[1.0, 2.0], [0.0, 0.0], [3.0, 0.0], [5.0, 1.0]]> : tensor<4x2xf32> {kind = "PARAMETER"}
onnx.initializer @v : tensor<5x2xf32> = dense<[[1.0, 2.0], [0.0, 0.0], [3.0, 0.0], [5.0, 1.0], [2.0, 2.0]]> : tensor<5x2xf32> {kind = "PARAMETER"}
onnx.graph @main(%x: tensor<?xi64> {onnx.name = "x", onnx.dims = ["batch"]}) -> (tensor<f32> {onnx.name = "loss"}) {
  %t = onnx.initial_value @t : tensor<3x2xf32>
  %u = onnx.initial_value @u : tensor<4x2xf32>
  %v = onnx.initial_value @v : tensor<5x2xf32>
  %a = onnx.node "Gather"(%t, %x) version 13 {axis = 0 : si64} attributes {onnx.metadata = {pkg.torch.onnx.fx_node = "%e : [num_users=1] = call_function[target=torch.ops.aten.embedding.default](args = (%p_t, %x, 2), kwargs = {})"}} : (tensor<3x2xf32>, tensor<?xi64>) -> tensor<?x2xf32>
  %b = onnx.node "Gather"(%u, %x) version 13 {axis = 0 : si64} attributes {onnx.metadata = {pkg.torch.onnx.fx_node = "%e : [num_users=1] = call_function[target=torch.ops.aten.embedding.default](args = (%p_t, %x), kwargs = {padding_idx: 0, sparse: False})"}} : (tensor<4x2xf32>, tensor<?xi64>) -> tensor<?x2xf32>
  %c = onnx.node "Gather"(%v, %x) version 13 {axis = 0 : si64} attributes {onnx.metadata = {pkg.torch.onnx.fx_node = "%e : [num_users=1] = call_function[target=torch.ops.aten.embedding.default](args = (%p_t, %x), kwargs = {})"}} : (tensor<5x2xf32>, tensor<?xi64>) -> tensor<?x2xf32>
  %d = onnx.node "Mul"(%a, %b) version 14 {} : (tensor<?x2xf32>, tensor<?x2xf32>) -> tensor<?x2xf32>
  %z = onnx.node "Mul"(%d, %c) version 14 {} : (tensor<?x2xf32>, tensor<?x2xf32>) -> tensor<?x2xf32>
  %l = onnx.node "SoftmaxCrossEntropyLoss"(%z, %x) version 13 {} names ["l"] attributes {onnx.metadata = {pkg.torch.onnx.fx_node = "%l : [num_users=1] = call_function[target=torch.ops.aten.cross_entropy_loss.default](args = (%z, %x, None, 1, -100, 0.1), kwargs = {})"}} : (tensor<?x2xf32>, tensor<?xi64>) -> tensor<f32>
  onnx.return %l : tensor<f32>
}
