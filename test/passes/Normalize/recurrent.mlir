// Recurrent operators: one product of all inputs with W, then a product with R for each step but the first, whose state is
// zero. Samples come first inside, so that the transposition which makes them second vanishes.
// RUN: harmony-opt %s -split-input-file --harmony-normalize="forward=true" | FileCheck %s

// CHECK-LABEL: func.func @main(%arg0: tensor<?x2x3xf32
// CHECK: %[[W:.*]] = nn.get @w : tensor<1x4x3xf32>
// CHECK: %[[WM:.*]] = nn.reshape %[[W]] : tensor<1x4x3xf32> -> tensor<4x3xf32>
// CHECK: %[[G:.*]] = nn.dot_general %arg0, %[[WM]] batch [] x [] contract [2] x [1] {nn.undivided = "cell"} : {{.*}} -> tensor<?x2x4xf32, #nn.batch<0, 1>>
// CHECK: %[[R:.*]] = nn.get @r : tensor<1x4x4xf32>
// CHECK: %[[RM:.*]] = nn.reshape %[[R]] : tensor<1x4x4xf32> -> tensor<4x4xf32>
// CHECK: %[[G0:.*]] = nn.slice %[[G]] from [0, 0, 0]
// CHECK: %[[Z0:.*]] = nn.reshape %[[G0]]
// CHECK: %[[H0:.*]] = math.tanh %[[Z0]]
// CHECK: %[[P:.*]] = nn.dot_general %[[H0]], %[[RM]] batch [] x [] contract [1] x [1] {nn.undivided = "cell"}
// CHECK: %[[Z1:.*]] = arith.addf %{{.*}}, %[[P]]
// CHECK: %[[H1:.*]] = math.tanh %[[Z1]]
// CHECK-NOT: nn.dot_general
// CHECK: nn.concat
// CHECK: return
onnx.initializer @w : tensor<1x4x3xf32> = dense<0.5> : tensor<1x4x3xf32> {kind = "PARAMETER"}
onnx.initializer @r : tensor<1x4x4xf32> = dense<0.25> : tensor<1x4x4xf32> {kind = "PARAMETER"}
onnx.graph @main(%x: tensor<?x2x3xf32> {onnx.name = "x", onnx.dims = ["batch", 2, 3]}) -> (tensor<2x1x?x4xf32> {onnx.name = "y"}) {
  %w = onnx.initial_value @w : tensor<1x4x3xf32>
  %r = onnx.initial_value @r : tensor<1x4x4xf32>
  %t = onnx.node "Transpose"(%x) version 13 {perm = array<i64: 1, 0, 2>} : (tensor<?x2x3xf32>) -> tensor<2x?x3xf32>
  %y = onnx.node "RNN"(%t, %w, %r) version 14 {hidden_size = 4 : si64} names ["cell"] : (tensor<2x?x3xf32>, tensor<1x4x3xf32>, tensor<1x4x4xf32>) -> tensor<2x1x?x4xf32>
  onnx.return %y : tensor<2x1x?x4xf32>
}

// -----

// Lengths are an input: what lies behind the end of a sample leaves its state as it is, and gives zeros.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[L:[^:]+]]: tensor<?xi32, #nn.batch<0, 1>> {{{.*}}nn.name = "lengths"
// CHECK: %[[H0:.*]] = math.tanh
// CHECK: %[[INSIDE0:.*]] = arith.cmpi sgt
// CHECK: %[[C0:.*]] = nn.broadcast %[[INSIDE0]]
// CHECK: %[[S0:.*]] = arith.select %[[C0]], %[[H0]], %{{.*}}
// CHECK: nn.dot_general %[[S0]]
onnx.initializer @w : tensor<1x4x3xf32> = dense<0.5> : tensor<1x4x3xf32> {kind = "PARAMETER"}
onnx.initializer @r : tensor<1x4x4xf32> = dense<0.25> : tensor<1x4x4xf32> {kind = "PARAMETER"}
onnx.graph @main(%x: tensor<?x2x3xf32> {onnx.name = "x", onnx.dims = ["batch", 2, 3]}, %lengths: tensor<?xi32> {onnx.name = "lengths", onnx.dims = ["batch"]}) -> (tensor<?x1x4xf32> {onnx.name = "y"}) {
  %w = onnx.initial_value @w : tensor<1x4x3xf32>
  %r = onnx.initial_value @r : tensor<1x4x4xf32>
  %none = onnx.none
  %s, %y = onnx.node "RNN"(%x, %w, %r, %none, %lengths) version 14 {hidden_size = 4 : si64, layout = 1 : si64} names ["all", "last"] : (tensor<?x2x3xf32>, tensor<1x4x3xf32>, tensor<1x4x4xf32>, none, tensor<?xi32>) -> (tensor<?x2x1x4xf32>, tensor<?x1x4xf32>)
  onnx.return %y : tensor<?x1x4xf32>
}
