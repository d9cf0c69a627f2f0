// Matrix products: an operand that was transposed, shaped or repeated before is read as it lies in memory.
// RUN: harmony-opt %s -split-input-file --harmony-normalize="forward=true" | FileCheck %s

// Gemm reads its transposed operand in place; alpha and beta of 1 leave no trace.
// CHECK-LABEL: func.func @main(%arg0: tensor<?x4xf32, #nn.batch<0, 1>> {nn.name = "x"})
// CHECK: %[[W:.*]] = nn.get @w : tensor<3x4xf32>
// CHECK: %[[P:.*]] = nn.dot_general %arg0, %[[W]] batch [] x [] contract [1] x [1]
// CHECK-SAME: -> tensor<?x3xf32, #nn.batch<0, 1>>
// CHECK: %[[B:.*]] = nn.get @b : tensor<3xf32>
// CHECK: %[[R:.*]] = nn.broadcast %[[B]] to [1]
// CHECK: %[[Y:.*]] = arith.addf %[[P]], %[[R]]
// CHECK: return %[[Y]]
onnx.initializer @w : tensor<3x4xf32> = dense<[[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0], [9.0, 10.0, 11.0, 12.0]]> : tensor<3x4xf32> {kind = "PARAMETER"}
onnx.initializer @b : tensor<3xf32> = dense<[1.0, 2.0, 3.0]> : tensor<3xf32> {kind = "PARAMETER"}
onnx.graph @main(%x: tensor<?x4xf32> {onnx.name = "x", onnx.dims = ["batch", 4]}) -> (tensor<?x3xf32> {onnx.name = "y"}) {
  %w = onnx.initial_value @w : tensor<3x4xf32>
  %b = onnx.initial_value @b : tensor<3xf32>
  %y = onnx.node "Gemm"(%x, %w, %b) version 13 {alpha = 1.0 : f32, beta = 1.0 : f32, transB = 1 : si64} : (tensor<?x4xf32>, tensor<3x4xf32>, tensor<3xf32>) -> tensor<?x3xf32>
  onnx.return %y : tensor<?x3xf32>
}

// -----

// Transpose and MatMul of a linear layer on sequences: one product, no transposition left.
// CHECK-LABEL: func.func @main
// CHECK: %[[W:.*]] = nn.get @w
// CHECK-NEXT: %[[Y:.*]] = nn.dot_general %arg0, %[[W]] batch [] x [] contract [2] x [1]
// CHECK-NEXT: return %[[Y]] : tensor<?x5x3xf32, #nn.batch<0, 1>>
onnx.initializer @w : tensor<3x4xf32> = dense<[[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0], [9.0, 10.0, 11.0, 12.0]]> : tensor<3x4xf32> {kind = "PARAMETER"}
onnx.graph @main(%x: tensor<?x5x4xf32> {onnx.name = "x", onnx.dims = ["batch", 5, 4]}) -> (tensor<?x5x3xf32> {onnx.name = "y"}) {
  %w = onnx.initial_value @w : tensor<3x4xf32>
  %t = onnx.node "Transpose"(%w) version 13 {perm = array<i64: 1, 0>} : (tensor<3x4xf32>) -> tensor<4x3xf32>
  %y = onnx.node "MatMul"(%x, %t) version 13 {} : (tensor<?x5x4xf32>, tensor<4x3xf32>) -> tensor<?x5x3xf32>
  onnx.return %y : tensor<?x5x3xf32>
}

// -----

// Attention scores: heads are split off by reshape and transposition, keys are transposed by way of a
// reshape that merges batch and heads (PyTorch's SDPA). All that is left is one batched product.
// CHECK-LABEL: func.func @main
// CHECK-NEXT: %[[Q:.*]] = nn.reshape %arg0 : tensor<?x5x8xf32, #nn.batch<0, 1>> -> tensor<?x5x2x4xf32, #nn.batch<0, 1>>
// CHECK-NEXT: %[[S:.*]] = nn.dot_general %[[Q]], %[[Q]] batch [0, 2] x [0, 2] contract [3] x [3]
// CHECK-SAME: -> tensor<?x2x5x5xf32, #nn.batch<0, 1>>
// CHECK-NEXT: return %[[S]]
onnx.graph @main(%x: tensor<?x5x8xf32> {onnx.name = "x", onnx.dims = ["batch", 5, 8]}) -> (tensor<?x2x5x5xf32> {onnx.name = "y"}) {
  %heads = onnx.node "Constant"() version 19 {value_ints = array<i64: 0, 5, 2, 4>} : () -> tensor<4xi64>
  %merged = onnx.node "Constant"() version 19 {value_ints = array<i64: -1, 5, 4>} : () -> tensor<3xi64>
  %split = onnx.node "Constant"() version 19 {value_ints = array<i64: -1, 2, 4, 5>} : () -> tensor<4xi64>
  %r = onnx.node "Reshape"(%x, %heads) version 19 {} : (tensor<?x5x8xf32>, tensor<4xi64>) -> tensor<?x5x2x4xf32>
  %q = onnx.node "Transpose"(%r) version 13 {perm = array<i64: 0, 2, 1, 3>} : (tensor<?x5x2x4xf32>) -> tensor<?x2x5x4xf32>
  %m = onnx.node "Reshape"(%q, %merged) version 19 {} : (tensor<?x2x5x4xf32>, tensor<3xi64>) -> tensor<?x5x4xf32>
  %t = onnx.node "Transpose"(%m) version 13 {perm = array<i64: 0, 2, 1>} : (tensor<?x5x4xf32>) -> tensor<?x4x5xf32>
  %k = onnx.node "Reshape"(%t, %split) version 19 {} : (tensor<?x4x5xf32>, tensor<4xi64>) -> tensor<?x2x4x5xf32>
  %s = onnx.node "MatMul"(%q, %k) version 13 {} : (tensor<?x2x5x4xf32>, tensor<?x2x4x5xf32>) -> tensor<?x2x5x5xf32>
  onnx.return %s : tensor<?x2x5x5xf32>
}

// -----

// PyTorch's attention, batch second: the output projection sees 5 N rows, the samples innermost. The product is that of
// the rows that are told apart afterwards; no sample's rows are torn apart.
// CHECK-LABEL: func.func @main
// CHECK: %[[W:.*]] = nn.get @w
// CHECK: %[[P:.*]] = nn.dot_general %{{.*}}, %[[W]] batch [] x [] contract [2] x [1]
// CHECK-SAME: -> tensor<5x?x3xf32, #nn.batch<1, 1>>
// CHECK: %[[B:.*]] = nn.broadcast %{{.*}} to [2]
// CHECK: %[[Y:.*]] = arith.addf %[[P]], %[[B]] : tensor<5x?x3xf32, #nn.batch<1, 1>>
// CHECK: %[[T:.*]] = nn.transpose %[[Y]] by [1, 0, 2]
// CHECK: return %[[T]] : tensor<?x5x3xf32, #nn.batch<0, 1>>
onnx.initializer @w : tensor<3x4xf32> = dense<[[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0], [9.0, 10.0, 11.0, 12.0]]> : tensor<3x4xf32> {kind = "PARAMETER"}
onnx.initializer @b : tensor<3xf32> = dense<[1.0, 2.0, 3.0]> : tensor<3xf32> {kind = "PARAMETER"}
onnx.graph @main(%x: tensor<?x2x5x2xf32> {onnx.name = "x", onnx.dims = ["batch", 2, 5, 2]}) -> (tensor<?x5x3xf32> {onnx.name = "y"}) {
  %w = onnx.initial_value @w : tensor<3x4xf32>
  %b = onnx.initial_value @b : tensor<3xf32>
  %rows = onnx.node "Constant"() version 19 {value_ints = array<i64: -1, 4>} : () -> tensor<2xi64>
  %apart = onnx.node "Constant"() version 19 {value_ints = array<i64: 5, -1, 3>} : () -> tensor<3xi64>
  %t = onnx.node "Transpose"(%x) version 13 {perm = array<i64: 2, 0, 1, 3>} : (tensor<?x2x5x2xf32>) -> tensor<5x?x2x2xf32>
  %m = onnx.node "Reshape"(%t, %rows) version 19 {} : (tensor<5x?x2x2xf32>, tensor<2xi64>) -> tensor<?x4xf32>
  %p = onnx.node "Gemm"(%m, %w, %b) version 13 {alpha = 1.0 : f32, beta = 1.0 : f32, transB = 1 : si64} : (tensor<?x4xf32>, tensor<3x4xf32>, tensor<3xf32>) -> tensor<?x3xf32>
  %s = onnx.node "Reshape"(%p, %apart) version 19 {} : (tensor<?x3xf32>, tensor<3xi64>) -> tensor<5x?x3xf32>
  %y = onnx.node "Transpose"(%s) version 13 {perm = array<i64: 1, 0, 2>} : (tensor<5x?x3xf32>) -> tensor<?x5x3xf32>
  onnx.return %y : tensor<?x5x3xf32>
}
