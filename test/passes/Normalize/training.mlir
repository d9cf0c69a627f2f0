// Training graphs: ordinary operators as the optimizer, a decaying rate, state of the parameter's shape.
// RUN: harmony-opt %s -split-input-file --harmony-normalize -verify-diagnostics | FileCheck %s

// w' = w - lr v', v' = 0.5 v + g, lr' = 0.9 lr. The update reads the old lr, as a scalar of this step.
// CHECK-DAG: nn.variable {{.*}}<parameter> @w : tensor<3xf32> = dense<1.000000e+00> : tensor<3xf32> {nn.reason = "the training graph differentiates by it"}
// CHECK-DAG: nn.variable {{.*}}<state> @v : tensor<3xf32>
// CHECK-DAG: nn.variable {{.*}}<state> @lr : tensor<f32>
// CHECK: func.func @main(%arg0: tensor<?x3xf32, #nn.batch<0, 1>> {nn.name = "x"}) -> (tensor<?x3xf32, #nn.batch<0, 1>> {nn.name = "y"})
// CHECK: nn.loss
// CHECK: func.func private @step_scalars(%[[LR:.*]]: tensor<f32>) -> (tensor<f32>, tensor<f32>)
// CHECK: %[[NEW:.*]] = arith.mulf %[[LR]], %{{.*}} : tensor<f32>
// CHECK: return %[[LR]], %[[NEW]]
// CHECK: func.func private @update_3(%[[W:.*]]: tensor<3xf32>, %[[G:.*]]: tensor<3xf32>, %[[V:.*]]: tensor<3xf32>, %[[RATE:.*]]: tensor<f32>) -> (tensor<3xf32>, tensor<3xf32>)
// CHECK: %[[HALF:.*]] = arith.mulf %[[V]], %{{.*}}
// CHECK: %[[NEWV:.*]] = arith.addf %[[HALF]], %[[G]]
// CHECK: %[[R:.*]] = nn.broadcast %[[RATE]] to []
// CHECK: %[[STEP:.*]] = arith.mulf %[[R]], %[[NEWV]]
// CHECK: %[[NEWW:.*]] = arith.subf %[[W]], %[[STEP]]
// CHECK: return %[[NEWW]], %[[NEWV]]
// CHECK: nn.optimize @w by @update_3 states [@v] scalars [@step.lr]
// CHECK: nn.step_scalars @step_scalars reads [@lr] writes [@step.lr, @lr]
onnx.initializer @w : tensor<3xf32> = dense<1.0> : tensor<3xf32>
onnx.initializer @v : tensor<3xf32> = dense<0.0> : tensor<3xf32> {training = @step, kind = "STATE"}
onnx.initializer @lr : tensor<f32> = dense<0.1> : tensor<f32> {training = @step, kind = "STATE"}
onnx.graph @main(%x: tensor<?x3xf32> {onnx.name = "x", onnx.dims = ["batch", 3]}) -> (tensor<?x3xf32> {onnx.name = "y"}) {
  %w = onnx.initial_value @w : tensor<3xf32>
  %y = onnx.node "Mul"(%x, %w) version 14 {} : (tensor<?x3xf32>, tensor<3xf32>) -> tensor<?x3xf32>
  onnx.return %y : tensor<?x3xf32>
}
onnx.graph @algorithm(%x: tensor<?x3xf32> {onnx.name = "x", onnx.dims = ["batch", 3]}) -> (tensor<?x3xf32> {onnx.name = "y"}, tensor<f32> {onnx.name = "loss"}, tensor<3xf32> {onnx.name = "new_w"}, tensor<3xf32> {onnx.name = "new_v"}, tensor<f32> {onnx.name = "new_lr"}) {
  %w = onnx.initial_value @w : tensor<3xf32>
  %v = onnx.initial_value @v : tensor<3xf32>
  %lr = onnx.initial_value @lr : tensor<f32>
  %half = onnx.node "Constant"() version 19 {value_float = 0.5 : f32} : () -> tensor<f32>
  %decay = onnx.node "Constant"() version 19 {value_float = 0.9 : f32} : () -> tensor<f32>
  %y = onnx.node "Mul"(%x, %w) version 14 {} : (tensor<?x3xf32>, tensor<3xf32>) -> tensor<?x3xf32>
  %loss = onnx.node "ReduceMean"(%y) version 18 {keepdims = 0 : si64} : (tensor<?x3xf32>) -> tensor<f32>
  %g = onnx.gradient %loss : tensor<f32> xs(%w : tensor<3xf32>) zs(%x : tensor<?x3xf32>) at(%w, %x : tensor<3xf32>, tensor<?x3xf32>) -> tensor<3xf32>
  %hv = onnx.node "Mul"(%v, %half) version 14 {} : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  %nv = onnx.node "Add"(%hv, %g) version 14 {} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %s = onnx.node "Mul"(%lr, %nv) version 14 {} : (tensor<f32>, tensor<3xf32>) -> tensor<3xf32>
  %nw = onnx.node "Sub"(%w, %s) version 14 {} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %nlr = onnx.node "Mul"(%lr, %decay) version 14 {} : (tensor<f32>, tensor<f32>) -> tensor<f32>
  onnx.return %y, %loss, %nw, %nv, %nlr : tensor<?x3xf32>, tensor<f32>, tensor<3xf32>, tensor<3xf32>, tensor<f32>
}
onnx.training @step algorithm @algorithm update [[@w, "new_w"], [@v, "new_v"], [@lr, "new_lr"]]

// -----

// An update that is not elementwise.
onnx.initializer @w : tensor<2x3xf32> = dense<1.0> : tensor<2x3xf32>
onnx.graph @main(%x: tensor<?x2x3xf32> {onnx.name = "x", onnx.dims = ["batch", 2, 3]}) -> (tensor<?x2x3xf32> {onnx.name = "y"}) {
  onnx.return %x : tensor<?x2x3xf32>
}
onnx.graph @algorithm(%x: tensor<?x2x3xf32> {onnx.name = "x", onnx.dims = ["batch", 2, 3]}) -> (tensor<f32> {onnx.name = "loss"}, tensor<2x3xf32> {onnx.name = "new_w"}) {
  %w = onnx.initial_value @w : tensor<2x3xf32>
  %y = onnx.node "Mul"(%x, %w) version 14 {} : (tensor<?x2x3xf32>, tensor<2x3xf32>) -> tensor<?x2x3xf32>
  %loss = onnx.node "ReduceMean"(%y) version 18 {keepdims = 0 : si64} : (tensor<?x2x3xf32>) -> tensor<f32>
  %g = onnx.gradient %loss : tensor<f32> xs(%w : tensor<2x3xf32>) zs(%x : tensor<?x2x3xf32>) at(%w, %x : tensor<2x3xf32>, tensor<?x2x3xf32>) -> tensor<2x3xf32>
  // expected-error@+1 {{the update of 'w' is not elementwise: 'nn.reduce' is not supported there}}
  %n = onnx.node "ReduceL2"(%g) version 13 {axes = array<i64: 1>} : (tensor<2x3xf32>) -> tensor<2x1xf32>
  %s = onnx.node "Div"(%g, %n) version 14 {} : (tensor<2x3xf32>, tensor<2x1xf32>) -> tensor<2x3xf32>
  %nw = onnx.node "Sub"(%w, %s) version 14 {} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  onnx.return %loss, %nw : tensor<f32>, tensor<2x3xf32>
}
onnx.training @step algorithm @algorithm update [[@w, "new_w"]]

// -----

// An update that reads the gradient of another parameter.
onnx.initializer @a : tensor<3xf32> = dense<1.0> : tensor<3xf32>
onnx.initializer @b : tensor<3xf32> = dense<1.0> : tensor<3xf32>
onnx.graph @main(%x: tensor<?x3xf32> {onnx.name = "x", onnx.dims = ["batch", 3]}) -> (tensor<?x3xf32> {onnx.name = "y"}) {
  onnx.return %x : tensor<?x3xf32>
}
onnx.graph @algorithm(%x: tensor<?x3xf32> {onnx.name = "x", onnx.dims = ["batch", 3]}) -> (tensor<f32> {onnx.name = "loss"}, tensor<3xf32> {onnx.name = "new_a"}, tensor<3xf32> {onnx.name = "new_b"}) {
  %a = onnx.initial_value @a : tensor<3xf32>
  %b = onnx.initial_value @b : tensor<3xf32>
  %y = onnx.node "Mul"(%x, %a) version 14 {} : (tensor<?x3xf32>, tensor<3xf32>) -> tensor<?x3xf32>
  %z = onnx.node "Add"(%y, %b) version 14 {} : (tensor<?x3xf32>, tensor<3xf32>) -> tensor<?x3xf32>
  %loss = onnx.node "ReduceMean"(%z) version 18 {keepdims = 0 : si64} : (tensor<?x3xf32>) -> tensor<f32>
  // expected-error@+1 {{the update of 'b' reads 'ga', the gradient of another parameter; updates across parameters may read gradients through reductions to one element}}
  %ga, %gb = onnx.gradient %loss : tensor<f32> xs(%a, %b : tensor<3xf32>, tensor<3xf32>) zs(%x : tensor<?x3xf32>) at(%a, %b, %x : tensor<3xf32>, tensor<3xf32>, tensor<?x3xf32>) names ["ga", "gb"] -> tensor<3xf32>, tensor<3xf32>
  %na = onnx.node "Sub"(%a, %ga) version 14 {} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %nb = onnx.node "Sub"(%b, %ga) version 14 {} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  onnx.return %loss, %na, %nb : tensor<f32>, tensor<3xf32>, tensor<3xf32>
}
onnx.training @step algorithm @algorithm update [[@a, "new_a"], [@b, "new_b"]]

// -----

// A parameter that is differentiated by must be updated.
onnx.initializer @w : tensor<3xf32> = dense<1.0> : tensor<3xf32>
onnx.initializer @u : tensor<f32> = dense<1.0> : tensor<f32>
onnx.graph @main(%x: tensor<?x3xf32> {onnx.name = "x", onnx.dims = ["batch", 3]}) -> (tensor<?x3xf32> {onnx.name = "y"}) {
  onnx.return %x : tensor<?x3xf32>
}
onnx.graph @algorithm(%x: tensor<?x3xf32> {onnx.name = "x", onnx.dims = ["batch", 3]}) -> (tensor<f32> {onnx.name = "loss"}, tensor<f32> {onnx.name = "new_u"}) {
  %w = onnx.initial_value @w : tensor<3xf32>
  %u = onnx.initial_value @u : tensor<f32>
  %y = onnx.node "Mul"(%x, %w) version 14 {} : (tensor<?x3xf32>, tensor<3xf32>) -> tensor<?x3xf32>
  %loss = onnx.node "ReduceMean"(%y) version 18 {keepdims = 0 : si64} : (tensor<?x3xf32>) -> tensor<f32>
  %g = onnx.gradient %loss : tensor<f32> xs(%w : tensor<3xf32>) zs(%x : tensor<?x3xf32>) at(%w, %x : tensor<3xf32>, tensor<?x3xf32>) -> tensor<3xf32>
  onnx.return %loss, %u : tensor<f32>, tensor<f32>
}
// expected-error@+1 {{differentiates by @w but does not update it}}
onnx.training @step algorithm @algorithm update [[@u, "new_u"]]

// -----

// A tensor that the loss does not depend on, and one that it depends on by an integer alone.
onnx.initializer @w : tensor<3xf32> = dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
onnx.initializer @lonely : tensor<3xf32> = dense<[1.0, 2.0, 4.0]> : tensor<3xf32>
onnx.initializer @rounded : tensor<3xf32> = dense<[1.0, 2.0, 5.0]> : tensor<3xf32>
onnx.graph @main(%x: tensor<?x3xf32> {onnx.name = "x", onnx.dims = ["batch", 3]}) -> (tensor<?x3xf32> {onnx.name = "y"}) {
  onnx.return %x : tensor<?x3xf32>
}
onnx.graph @algorithm(%x: tensor<?x3xf32> {onnx.name = "x", onnx.dims = ["batch", 3]}) -> (tensor<f32> {onnx.name = "loss"}, tensor<3xf32> {onnx.name = "new_w"}, tensor<3xf32> {onnx.name = "new_lonely"}, tensor<3xf32> {onnx.name = "new_rounded"}) {
  %w = onnx.initial_value @w : tensor<3xf32>
  %lonely = onnx.initial_value @lonely : tensor<3xf32>
  %rounded = onnx.initial_value @rounded : tensor<3xf32>
  %r = onnx.node "Round"(%rounded) version 11 {} : (tensor<3xf32>) -> tensor<3xf32>
  %y = onnx.node "Mul"(%x, %w) version 14 {} : (tensor<?x3xf32>, tensor<3xf32>) -> tensor<?x3xf32>
  %z = onnx.node "Add"(%y, %r) version 14 {} : (tensor<?x3xf32>, tensor<3xf32>) -> tensor<?x3xf32>
  %loss = onnx.node "ReduceMean"(%z) version 18 {keepdims = 0 : si64} : (tensor<?x3xf32>) -> tensor<f32>
  // expected-error@+1 {{differentiates by tensors that the loss has no gradient by: 'lonely', 'rounded'; take them out of xs and out of the update}}
  %g, %h, %i = onnx.gradient %loss : tensor<f32> xs(%w, %lonely, %rounded : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) zs(%x : tensor<?x3xf32>) at(%w, %lonely, %rounded, %x : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<?x3xf32>) names ["g", "h", "i"] -> tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
  %nw = onnx.node "Sub"(%w, %g) version 14 {} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %nl = onnx.node "Sub"(%lonely, %h) version 14 {} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %nr = onnx.node "Sub"(%rounded, %i) version 14 {} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  onnx.return %loss, %nw, %nl, %nr : tensor<f32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
}
onnx.training @step algorithm @algorithm update [[@w, "new_w"], [@lonely, "new_lonely"], [@rounded, "new_rounded"]]
