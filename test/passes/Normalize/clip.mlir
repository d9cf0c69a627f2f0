// Scalars of a training graph that depend on gradients: contributions and the epilogue.
// RUN: harmony-opt %s -split-input-file --harmony-normalize --harmony-verify-normalized -verify-diagnostics | FileCheck %s

// The norm over the parameters clips; the rate that it is scaled by is of this step; the mean norm is state. Reductions of
// matrices go by rows; the parameter of one element gives its gradient itself.
// CHECK: nn.variable <state> @mean : tensor<f32>
// CHECK: func.func private @step_scalars(%[[LR:[^:]*]]: tensor<f32>, %[[MEAN:[^:]*]]: tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<f32>)
// CHECK: func.func private @epilogue(%[[A:.*]]: tensor<f32>, %[[B:.*]]: tensor<f32>, %[[RATE:.*]]: tensor<f32>, %[[OLD:.*]]: tensor<f32>) -> (tensor<f32>, tensor<f32>)
// CHECK: %[[B1:.*]] = nn.reshape %[[B]] : tensor<f32> -> tensor<1xf32>
// CHECK: %[[BB:.*]] = arith.mulf %[[B1]], %[[B1]]
// CHECK: %[[A1:.*]] = nn.broadcast %[[A]] to []
// CHECK: %[[SUM:.*]] = arith.addf %[[A1]], %[[BB]]
// CHECK: %[[NORM:.*]] = math.sqrt %[[SUM]]
// CHECK: %[[RATIO:.*]] = arith.divf %{{.*}}, %[[NORM]]
// CHECK: %[[ONE:.*]] = arith.constant dense<1.000000e+00>
// CHECK: %[[ONE1:.*]] = nn.broadcast %[[ONE]] to []
// CHECK: %[[FACTOR:.*]] = arith.minimumf %[[RATIO]], %[[ONE1]]
// CHECK: %[[RATE1:.*]] = nn.broadcast %[[RATE]] to []
// CHECK: %[[STEP1:.*]] = arith.mulf %[[RATE1]], %[[FACTOR]]
// CHECK: %[[STEP:.*]] = nn.reshape %[[STEP1]]
// CHECK: %[[OLD1:.*]] = nn.broadcast %[[OLD]] to []
// CHECK: %[[NEW1:.*]] = arith.addf %[[OLD1]], %[[NORM]]
// CHECK: %[[NEW:.*]] = nn.reshape %[[NEW1]]
// CHECK: return %[[STEP]], %[[NEW]]
// CHECK: func.func private @update_2x3(%{{.*}}: tensor<2x3xf32>, %{{.*}}: tensor<2x3xf32>, %{{.*}}: tensor<f32>) -> tensor<2x3xf32>
// CHECK: func.func private @contribution_2x3(%[[G:.*]]: tensor<2x3xf32>) -> tensor<f32>
// CHECK: %[[SQUARE:.*]] = arith.mulf %[[G]], %[[G]]
// CHECK: %[[ROWS:.*]] = nn.reduce sum %[[SQUARE]] over [1]
// CHECK: %[[ALL:.*]] = nn.reduce sum %[[ROWS]] over [0]
// CHECK: return %[[ALL]]
// CHECK: func.func private @contribution_1(%[[G:.*]]: tensor<1xf32>) -> tensor<f32>
// CHECK: nn.reshape %[[G]]
// CHECK: nn.optimize @a by @update_2x3 states [] scalars [@step.step]
// CHECK: nn.optimize @b by @update_1 states [] scalars [@step.step]
// CHECK: nn.step_scalars @step_scalars reads [@lr, @mean] writes [@step.lr, @step.mean, @lr]
// CHECK: nn.contribution @a by @contribution_2x3
// CHECK: nn.contribution @b by @contribution_1
// CHECK: nn.epilogue @epilogue contributions [@a, @b] reads [@step.lr, @step.mean] writes [@step.step, @mean]
onnx.initializer @a : tensor<2x3xf32> = dense<1.0> : tensor<2x3xf32>
onnx.initializer @b : tensor<1xf32> = dense<1.0> : tensor<1xf32>
onnx.initializer @lr : tensor<f32> = dense<0.1> : tensor<f32> {training = @step, kind = "STATE"}
onnx.initializer @mean : tensor<f32> = dense<0.0> : tensor<f32> {training = @step, kind = "STATE"}
onnx.graph @main(%x: tensor<?x2x3xf32> {onnx.name = "x", onnx.dims = ["batch", 2, 3]}) -> (tensor<?x2x3xf32> {onnx.name = "y"}) {
  onnx.return %x : tensor<?x2x3xf32>
}
onnx.graph @algorithm(%x: tensor<?x2x3xf32> {onnx.name = "x", onnx.dims = ["batch", 2, 3]}) -> (tensor<f32> {onnx.name = "loss"}, tensor<2x3xf32> {onnx.name = "new_a"}, tensor<1xf32> {onnx.name = "new_b"}, tensor<f32> {onnx.name = "new_lr"}, tensor<f32> {onnx.name = "new_mean"}) {
  %a = onnx.initial_value @a : tensor<2x3xf32>
  %b = onnx.initial_value @b : tensor<1xf32>
  %lr = onnx.initial_value @lr : tensor<f32>
  %mean = onnx.initial_value @mean : tensor<f32>
  %half = onnx.node "Constant"() version 19 {value_float = 0.5 : f32} : () -> tensor<f32>
  %one = onnx.node "Constant"() version 19 {value_float = 1.0 : f32} : () -> tensor<f32>
  %y = onnx.node "Mul"(%x, %a) version 14 {} : (tensor<?x2x3xf32>, tensor<2x3xf32>) -> tensor<?x2x3xf32>
  %z = onnx.node "Add"(%y, %b) version 14 {} : (tensor<?x2x3xf32>, tensor<1xf32>) -> tensor<?x2x3xf32>
  %loss = onnx.node "ReduceMean"(%z) version 18 {keepdims = 0 : si64} : (tensor<?x2x3xf32>) -> tensor<f32>
  %ga, %gb = onnx.gradient %loss : tensor<f32> xs(%a, %b : tensor<2x3xf32>, tensor<1xf32>) zs(%x : tensor<?x2x3xf32>) at(%a, %b, %x : tensor<2x3xf32>, tensor<1xf32>, tensor<?x2x3xf32>) -> tensor<2x3xf32>, tensor<1xf32>
  %sa = onnx.node "ReduceSumSquare"(%ga) version 13 {keepdims = 0 : si64} : (tensor<2x3xf32>) -> tensor<f32>
  %sb = onnx.node "Mul"(%gb, %gb) version 14 {} : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
  %sum = onnx.node "Add"(%sa, %sb) version 14 {} : (tensor<f32>, tensor<1xf32>) -> tensor<1xf32>
  %norm = onnx.node "Sqrt"(%sum) version 13 {} : (tensor<1xf32>) -> tensor<1xf32>
  %ratio = onnx.node "Div"(%half, %norm) version 14 {} : (tensor<f32>, tensor<1xf32>) -> tensor<1xf32>
  %clip = onnx.node "Min"(%ratio, %one) version 13 {} : (tensor<1xf32>, tensor<f32>) -> tensor<1xf32>
  %step = onnx.node "Mul"(%lr, %clip) version 14 {} names ["step"] : (tensor<f32>, tensor<1xf32>) -> tensor<1xf32>
  %ua = onnx.node "Mul"(%step, %ga) version 14 {} : (tensor<1xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %na = onnx.node "Sub"(%a, %ua) version 14 {} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %ub = onnx.node "Mul"(%step, %gb) version 14 {} : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
  %nb = onnx.node "Sub"(%b, %ub) version 14 {} : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
  %nlr = onnx.node "Mul"(%lr, %half) version 14 {} : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %all = onnx.node "Add"(%mean, %norm) version 14 {} : (tensor<f32>, tensor<1xf32>) -> tensor<1xf32>
  %zero = onnx.node "Constant"() version 19 {value_ints = array<i64: 0>} : () -> tensor<1xi64>
  %nmean = onnx.node "Squeeze"(%all, %zero) version 13 {} : (tensor<1xf32>, tensor<1xi64>) -> tensor<f32>
  onnx.return %loss, %na, %nb, %nlr, %nmean : tensor<f32>, tensor<2x3xf32>, tensor<1xf32>, tensor<f32>, tensor<f32>
}
onnx.training @step algorithm @algorithm update [[@a, "new_a"], [@b, "new_b"], [@lr, "new_lr"], [@mean, "new_mean"]]

// -----

// One scalar to a gradient.
onnx.initializer @w : tensor<3xf32> = dense<1.0> : tensor<3xf32>
onnx.graph @main(%x: tensor<?x3xf32> {onnx.name = "x", onnx.dims = ["batch", 3]}) -> (tensor<?x3xf32> {onnx.name = "y"}) {
  onnx.return %x : tensor<?x3xf32>
}
onnx.graph @algorithm(%x: tensor<?x3xf32> {onnx.name = "x", onnx.dims = ["batch", 3]}) -> (tensor<f32> {onnx.name = "loss"}, tensor<3xf32> {onnx.name = "new_w"}) {
  %w = onnx.initial_value @w : tensor<3xf32>
  %y = onnx.node "Mul"(%x, %w) version 14 {} : (tensor<?x3xf32>, tensor<3xf32>) -> tensor<?x3xf32>
  %loss = onnx.node "ReduceMean"(%y) version 18 {keepdims = 0 : si64} : (tensor<?x3xf32>) -> tensor<f32>
  %g = onnx.gradient %loss : tensor<f32> xs(%w : tensor<3xf32>) zs(%x : tensor<?x3xf32>) at(%w, %x : tensor<3xf32>, tensor<?x3xf32>) -> tensor<3xf32>
  %n = onnx.node "ReduceL2"(%g) version 13 {keepdims = 0 : si64} : (tensor<3xf32>) -> tensor<f32>
  // expected-error@+1 {{the gradient of 'w' is reduced in two ways; accepted is one}}
  %m = onnx.node "ReduceL1"(%g) version 13 {keepdims = 0 : si64} : (tensor<3xf32>) -> tensor<f32>
  %nm = onnx.node "Add"(%n, %m) version 14 {} : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %s = onnx.node "Div"(%g, %nm) version 14 {} : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  %nw = onnx.node "Sub"(%w, %s) version 14 {} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  onnx.return %loss, %nw : tensor<f32>, tensor<3xf32>
}
onnx.training @step algorithm @algorithm update [[@w, "new_w"]]

// -----

// The norm of the weights is none of the scalars that updates may share.
onnx.initializer @w : tensor<3xf32> = dense<1.0> : tensor<3xf32>
onnx.graph @main(%x: tensor<?x3xf32> {onnx.name = "x", onnx.dims = ["batch", 3]}) -> (tensor<?x3xf32> {onnx.name = "y"}) {
  onnx.return %x : tensor<?x3xf32>
}
onnx.graph @algorithm(%x: tensor<?x3xf32> {onnx.name = "x", onnx.dims = ["batch", 3]}) -> (tensor<f32> {onnx.name = "loss"}, tensor<3xf32> {onnx.name = "new_w"}) {
  %w = onnx.initial_value @w : tensor<3xf32>
  %y = onnx.node "Mul"(%x, %w) version 14 {} : (tensor<?x3xf32>, tensor<3xf32>) -> tensor<?x3xf32>
  %loss = onnx.node "ReduceMean"(%y) version 18 {keepdims = 0 : si64} : (tensor<?x3xf32>) -> tensor<f32>
  %g = onnx.gradient %loss : tensor<f32> xs(%w : tensor<3xf32>) zs(%x : tensor<?x3xf32>) at(%w, %x : tensor<3xf32>, tensor<?x3xf32>) -> tensor<3xf32>
  %n = onnx.node "ReduceL2"(%g) version 13 {keepdims = 0 : si64} : (tensor<3xf32>) -> tensor<f32>
  // expected-error@+1 {{the update of 'w' is not elementwise: 'nn.reduce' is not supported there}}
  %m = onnx.node "ReduceL2"(%w) version 13 {keepdims = 0 : si64} : (tensor<3xf32>) -> tensor<f32>
  %nm = onnx.node "Div"(%m, %n) version 14 {} : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %s = onnx.node "Mul"(%g, %nm) version 14 {} : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  %nw = onnx.node "Sub"(%w, %s) version 14 {} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  onnx.return %loss, %nw : tensor<f32>, tensor<3xf32>
}
onnx.training @step algorithm @algorithm update [[@w, "new_w"]]
