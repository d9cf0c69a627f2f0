// An Identity that was traced from detach lets no gradient pass; what reads one that the graph lacks is warned of.
// RUN: harmony-opt %s --harmony-normalize 2>&1 | FileCheck %s

// CHECK: warning: the exporter has dropped detach in front of 'q': gradients pass there
// CHECK: warning: no gradient passes this node, and parameters reach the loss by it alone: 'v'; they are not trained
// CHECK: module {
// CHECK: math.copysign %[[Z:[0-9]+]], %[[Z]] {nn.detached}
// CHECK-NOT: nn.detached
onnx.initializer @w : tensor<2xf32> = dense<[1.0, 2.0]> : tensor<2xf32> {kind = "PARAMETER"}
onnx.initializer @v : tensor<2xf32> = dense<[3.0, 0.5]> : tensor<2xf32> {kind = "PARAMETER"}
onnx.graph @main(%x: tensor<?x2xf32> {onnx.name = "x", onnx.dims = ["batch", 2]}) -> (tensor<f32> {onnx.name = "loss"}) {
  %w = onnx.initial_value @w : tensor<2xf32>
  %v = onnx.initial_value @v : tensor<2xf32>
  %z = onnx.node "Mul"(%x, %v) version 14 {} : (tensor<?x2xf32>, tensor<2xf32>) -> tensor<?x2xf32>
  %k = onnx.node "Identity"(%z) version 16 {} names ["k"] attributes {onnx.metadata = {pkg.torch.onnx.fx_node = "%detach : [num_users=1] = call_function[target=torch.ops.aten.detach.default](args = (%z,), kwargs = {})"}} : (tensor<?x2xf32>) -> tensor<?x2xf32>
  %s = onnx.node "Identity"(%k) version 16 {} : (tensor<?x2xf32>) -> tensor<?x2xf32>
  %a = onnx.node "Add"(%s, %w) version 14 {} names ["a"] attributes {onnx.metadata = {pkg.torch.onnx.fx_node = "%a : [num_users=1] = call_function[target=torch.ops.aten.add.Tensor](args = (%detach, %w), kwargs = {})"}} : (tensor<?x2xf32>, tensor<2xf32>) -> tensor<?x2xf32>
  %q = onnx.node "Mul"(%a, %a) version 14 {} names ["q"] attributes {onnx.metadata = {pkg.torch.onnx.fx_node = "%q : [num_users=1] = call_function[target=torch.ops.aten.mul.Tensor](args = (%a, %detach_1), kwargs = {})"}} : (tensor<?x2xf32>, tensor<?x2xf32>) -> tensor<?x2xf32>
  %p = onnx.node "Mul"(%q, %w) version 14 {} : (tensor<?x2xf32>, tensor<2xf32>) -> tensor<?x2xf32>
  %l = onnx.node "ReduceMean"(%p) version 18 {keepdims = 0 : si64} : (tensor<?x2xf32>) -> tensor<f32>
  onnx.return %l : tensor<f32>
}
