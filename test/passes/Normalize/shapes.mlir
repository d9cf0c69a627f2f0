// Shape arithmetic, masks and positions are computed at compile time, the batch size N staying symbolic.
// RUN: harmony-opt %s -split-input-file --harmony-normalize="forward=true" | FileCheck %s

// Reshape to [Shape(x)[0], 2, -1].
// CHECK-LABEL: func.func @main
// CHECK-NEXT: %[[Y:.*]] = nn.reshape %arg0 : tensor<?x6xf32, #nn.batch<0, 1>> -> tensor<?x2x3xf32, #nn.batch<0, 1>>
// CHECK-NEXT: return %[[Y]]
onnx.graph @main(%x: tensor<?x6xf32> {onnx.name = "x", onnx.dims = ["batch", 6]}) -> (tensor<?x2x3xf32> {onnx.name = "y"}) {
  %s = onnx.node "Shape"(%x) version 15 {end = 1 : si64, start = 0 : si64} : (tensor<?x6xf32>) -> tensor<1xi64>
  %two = onnx.node "Constant"() version 19 {value_ints = array<i64: 2, -1>} : () -> tensor<2xi64>
  %to = onnx.node "Concat"(%s, %two) version 13 {axis = 0 : si64} : (tensor<1xi64>, tensor<2xi64>) -> tensor<3xi64>
  %y = onnx.node "Reshape"(%x, %to) version 19 {} : (tensor<?x6xf32>, tensor<3xi64>) -> tensor<?x2x3xf32>
  onnx.return %y : tensor<?x2x3xf32>
}

// -----

// Merging the batch with the sequence: index i of 5 N belongs to sample i / 5.
// CHECK-LABEL: func.func @main
// CHECK: nn.reshape %arg0 : tensor<?x5x6xf32, #nn.batch<0, 1>> -> tensor<?x6xf32, #nn.batch<0, 5>>
onnx.graph @main(%x: tensor<?x5x6xf32> {onnx.name = "x", onnx.dims = ["batch", 5, 6]}) -> (tensor<?x6xf32> {onnx.name = "y"}) {
  %to = onnx.node "Constant"() version 19 {value_ints = array<i64: -1, 6>} : () -> tensor<2xi64>
  %y = onnx.node "Reshape"(%x, %to) version 19 {} : (tensor<?x5x6xf32>, tensor<2xi64>) -> tensor<?x6xf32>
  onnx.return %y : tensor<?x6xf32>
}

// -----

// x[n, j] read with coordinates (Range(N), Range(4)): each sample reads its own row, so nothing moves.
// CHECK-LABEL: func.func @main
// CHECK-NEXT: %[[Y:.*]] = nn.reshape %arg0 : tensor<?x4xf32, #nn.batch<0, 1>> -> tensor<?x1x4xf32, #nn.batch<0, 1>>
// CHECK-NEXT: return %[[Y]]
onnx.graph @main(%x: tensor<?x4xf32> {onnx.name = "x", onnx.dims = ["batch", 4]}) -> (tensor<?x1x4xf32> {onnx.name = "y"}) {
  %zero = onnx.node "Constant"() version 19 {value_int = 0 : si64} : () -> tensor<i64>
  %one = onnx.node "Constant"() version 19 {value_int = 1 : si64} : () -> tensor<i64>
  %four = onnx.node "Constant"() version 19 {value_int = 4 : si64} : () -> tensor<i64>
  %rows_at = onnx.node "Constant"() version 19 {value_ints = array<i64: 1, 2>} : () -> tensor<2xi64>
  %last = onnx.node "Constant"() version 19 {value_ints = array<i64: -1>} : () -> tensor<1xi64>
  %s = onnx.node "Shape"(%x) version 15 {end = 1 : si64, start = 0 : si64} : (tensor<?x4xf32>) -> tensor<1xi64>
  %n = onnx.node "Squeeze"(%s) version 13 {} : (tensor<1xi64>) -> tensor<i64>
  %samples = onnx.node "Range"(%zero, %n, %one) version 11 {} : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<?xi64>
  %rows = onnx.node "Unsqueeze"(%samples, %rows_at) version 13 {} : (tensor<?xi64>, tensor<2xi64>) -> tensor<?x1x1xi64>
  %columns = onnx.node "Range"(%zero, %four, %one) version 11 {} : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<4xi64>
  // Only the shape of this maximum is used; its elements could not be computed.
  %both = onnx.node "Max"(%rows, %columns) version 13 {} : (tensor<?x1x1xi64>, tensor<4xi64>) -> tensor<?x1x4xi64>
  %shape = onnx.node "Shape"(%both) version 15 {} : (tensor<?x1x4xi64>) -> tensor<3xi64>
  %r = onnx.node "Expand"(%rows, %shape) version 13 {} : (tensor<?x1x1xi64>, tensor<3xi64>) -> tensor<?x1x4xi64>
  %c = onnx.node "Expand"(%columns, %shape) version 13 {} : (tensor<4xi64>, tensor<3xi64>) -> tensor<?x1x4xi64>
  %r1 = onnx.node "Unsqueeze"(%r, %last) version 13 {} : (tensor<?x1x4xi64>, tensor<1xi64>) -> tensor<?x1x4x1xi64>
  %c1 = onnx.node "Unsqueeze"(%c, %last) version 13 {} : (tensor<?x1x4xi64>, tensor<1xi64>) -> tensor<?x1x4x1xi64>
  %at = onnx.node "Concat"(%r1, %c1) version 13 {axis = -1 : si64} : (tensor<?x1x4x1xi64>, tensor<?x1x4x1xi64>) -> tensor<?x1x4x2xi64>
  %y = onnx.node "GatherND"(%x, %at) version 13 {} : (tensor<?x4xf32>, tensor<?x1x4x2xi64>) -> tensor<?x1x4xf32>
  onnx.return %y : tensor<?x1x4xf32>
}

// -----

// A causal mask is a constant; the batch axis it was expanded along costs nothing until it is used.
// CHECK-LABEL: func.func @main
// CHECK-NEXT: %[[M:.*]] = arith.constant dense<{{\[}}[0.000000e+00, -1.000000e+00], [0.000000e+00, 0.000000e+00]]> : tensor<2x2xf32>
// CHECK-NEXT: %[[B:.*]] = nn.broadcast %[[M]] to [1, 2] : tensor<2x2xf32> -> tensor<?x2x2xf32, #nn.batch<0, 1>>
// CHECK-NEXT: %[[Y:.*]] = arith.addf %arg0, %[[B]]
onnx.graph @main(%x: tensor<?x2x2xf32> {onnx.name = "x", onnx.dims = ["batch", 2, 2]}) -> (tensor<?x2x2xf32> {onnx.name = "y"}) {
  %one = onnx.node "Constant"() version 19 {value_float = 1.0 : f32} : () -> tensor<f32>
  %minus = onnx.node "Constant"() version 19 {value_float = -1.0 : f32} : () -> tensor<f32>
  %zero = onnx.node "Constant"() version 19 {value_float = 0.0 : f32} : () -> tensor<f32>
  %shape = onnx.node "Shape"(%x) version 15 {} : (tensor<?x2x2xf32>) -> tensor<3xi64>
  %ones = onnx.node "Expand"(%one, %shape) version 13 {} : (tensor<f32>, tensor<3xi64>) -> tensor<?x2x2xf32>
  %lower = onnx.node "Trilu"(%ones) version 14 {upper = 0 : si64} : (tensor<?x2x2xf32>) -> tensor<?x2x2xf32>
  %hidden = onnx.node "Equal"(%lower, %zero) version 19 {} : (tensor<?x2x2xf32>, tensor<f32>) -> tensor<?x2x2xi1>
  %mask = onnx.node "Where"(%hidden, %minus, %zero) version 16 {} : (tensor<?x2x2xi1>, tensor<f32>, tensor<f32>) -> tensor<?x2x2xf32>
  %y = onnx.node "Add"(%x, %mask) version 14 {} : (tensor<?x2x2xf32>, tensor<?x2x2xf32>) -> tensor<?x2x2xf32>
  onnx.return %y : tensor<?x2x2xf32>
}

// -----

// Sequences of parts are slices.
// CHECK-LABEL: func.func @main
// CHECK-NEXT: %[[A:.*]] = nn.slice %arg0 from [0, 0] by [1, 1] : tensor<?x6xf32, #nn.batch<0, 1>> -> tensor<?x3xf32, #nn.batch<0, 1>>
// CHECK-NEXT: %[[B:.*]] = nn.slice %arg0 from [0, 3] by [1, 1]
// CHECK-NEXT: arith.mulf %[[A]], %[[B]]
onnx.graph @main(%x: tensor<?x6xf32> {onnx.name = "x", onnx.dims = ["batch", 6]}) -> (tensor<?x3xf32> {onnx.name = "y"}) {
  %three = onnx.node "Constant"() version 19 {value_int = 3 : si64} : () -> tensor<i64>
  %zero = onnx.node "Constant"() version 19 {value_int = 0 : si64} : () -> tensor<i64>
  %minus = onnx.node "Constant"() version 19 {value_int = -1 : si64} : () -> tensor<i64>
  %parts = onnx.node "SplitToSequence"(%x, %three) version 11 {axis = 1 : si64} : (tensor<?x6xf32>, tensor<i64>) -> !onnx.seq<tensor<?x3xf32>>
  %a = onnx.node "SequenceAt"(%parts, %zero) version 11 {} : (!onnx.seq<tensor<?x3xf32>>, tensor<i64>) -> tensor<?x3xf32>
  %b = onnx.node "SequenceAt"(%parts, %minus) version 11 {} : (!onnx.seq<tensor<?x3xf32>>, tensor<i64>) -> tensor<?x3xf32>
  %y = onnx.node "Mul"(%a, %b) version 14 {} : (tensor<?x3xf32>, tensor<?x3xf32>) -> tensor<?x3xf32>
  onnx.return %y : tensor<?x3xf32>
}

// -----

// A position table read at 0, 1, 2: a slice of the parameter.
// CHECK-LABEL: func.func @main
// CHECK: %[[T:.*]] = nn.get @table : tensor<4x2xf32>
// CHECK-NEXT: %[[S:.*]] = nn.slice %[[T]] from [0, 0] by [1, 1] : tensor<4x2xf32> -> tensor<3x2xf32>
// CHECK-NEXT: nn.broadcast %[[S]] to [1, 2]
onnx.initializer @table : tensor<4x2xf32> = dense<[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]]> : tensor<4x2xf32> {kind = "PARAMETER"}
onnx.initializer @positions : tensor<1x3xi64> = dense<[[0, 1, 2]]> : tensor<1x3xi64> {kind = "BUFFER"}
onnx.graph @main(%x: tensor<?x3x2xf32> {onnx.name = "x", onnx.dims = ["batch", 3, 2]}) -> (tensor<?x3x2xf32> {onnx.name = "y"}) {
  %table = onnx.initial_value @table : tensor<4x2xf32>
  %positions = onnx.initial_value @positions : tensor<1x3xi64>
  %rows = onnx.node "Gather"(%table, %positions) version 13 {} : (tensor<4x2xf32>, tensor<1x3xi64>) -> tensor<1x3x2xf32>
  %y = onnx.node "Add"(%x, %rows) version 14 {} : (tensor<?x3x2xf32>, tensor<1x3x2xf32>) -> tensor<?x3x2xf32>
  onnx.return %y : tensor<?x3x2xf32>
}
