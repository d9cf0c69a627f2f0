// A convolution is a gather of windows and one product, with the channels last; what follows it keeps that order.
// RUN: harmony-opt %s -split-input-file --harmony-normalize="forward=true" | FileCheck %s

// Convolution, relu and pooling: transposed are the input and what the classifier reads, nothing in between.
// CHECK-LABEL: func.func @main
// CHECK-NEXT: %[[X:.*]] = nn.transpose %arg0 by [0, 2, 3, 1]
// CHECK-NEXT: %[[W:.*]] = nn.window %[[X]] axis 1 kernel [3, 3] strides [1, 1] dilations [1, 1] low [1, 1] : tensor<?x8x8x3xf32, #nn.batch<0, 1>> -> tensor<?x8x8x3x3x3xf32, #nn.batch<0, 1>>
// CHECK-NEXT: %[[P:.*]] = nn.dot_general %[[W]], %arg1 batch [] x [] contract [3, 4, 5] x [2, 3, 1] : {{.*}} -> tensor<?x8x8x4xf32, #nn.batch<0, 1>>
// CHECK-NEXT: %[[B:.*]] = nn.broadcast %arg2 to [3]
// CHECK-NEXT: %[[S:.*]] = arith.addf %[[P]], %[[B]]
// CHECK-NOT:  nn.transpose
// CHECK:      %[[R:.*]] = arith.select {{.*}}, %[[S]],
// CHECK-NEXT: %[[M:.*]], %{{.*}} = nn.max_pool %[[R]] axis 1 kernel [2, 2] strides [2, 2] dilations [1, 1] low [0, 0]
// CHECK-NEXT: %[[T:.*]] = nn.transpose %[[M]] by [0, 3, 1, 2]
// CHECK-NEXT: %[[Y:.*]] = nn.reshape %[[T]]
// CHECK-NEXT: return %[[Y]]
onnx.graph @main(%x: tensor<?x3x8x8xf32> {onnx.name = "x", onnx.dims = ["batch", 3, 8, 8]}, %w: tensor<4x3x3x3xf32> {onnx.name = "w", onnx.dims = [4, 3, 3, 3]},
                 %b: tensor<4xf32> {onnx.name = "b", onnx.dims = [4]}) -> (tensor<?x64xf32> {onnx.name = "y"}) {
  %c = onnx.node "Conv"(%x, %w, %b) version 11 {pads = array<i64: 1, 1, 1, 1>, kernel_shape = array<i64: 3, 3>} : (tensor<?x3x8x8xf32>, tensor<4x3x3x3xf32>, tensor<4xf32>) -> tensor<?x4x8x8xf32>
  %r = onnx.node "Relu"(%c) version 14 {} : (tensor<?x4x8x8xf32>) -> tensor<?x4x8x8xf32>
  %p = onnx.node "MaxPool"(%r) version 12 {kernel_shape = array<i64: 2, 2>, strides = array<i64: 2, 2>} : (tensor<?x4x8x8xf32>) -> tensor<?x4x4x4xf32>
  %y = onnx.node "Flatten"(%p) version 13 {} : (tensor<?x4x4x4xf32>) -> tensor<?x64xf32>
  onnx.return %y : tensor<?x64xf32>
}

// -----

// Two groups, one axis, a product each; SAME_LOWER: 4 = 8 / 2 windows need 3 * 2 + 3 - 8 = 1 element of padding, in front.
// CHECK-LABEL: func.func @main
// CHECK:      %[[S:.*]] = nn.reshape %{{.*}} : tensor<?x8x4xf32, #nn.batch<0, 1>> -> tensor<?x8x2x2xf32, #nn.batch<0, 1>>
// CHECK-NEXT: %[[G:.*]] = nn.transpose %[[S]] by [2, 0, 1, 3]
// CHECK-NEXT: %[[K:.*]] = nn.reshape %arg1 : tensor<6x2x3xf32> -> tensor<2x3x2x3xf32>
// CHECK-NEXT: %[[W:.*]] = nn.window %[[G]] axis 2 kernel [3] strides [2] dilations [1] low [1] : {{.*}} -> tensor<2x?x4x3x2xf32, #nn.batch<1, 1>>
// CHECK-NEXT: %[[P:.*]] = nn.dot_general %[[W]], %[[K]] batch [0] x [0] contract [3, 4] x [3, 2]
// CHECK-NEXT: %[[T:.*]] = nn.transpose %[[P]] by [1, 2, 0, 3]
// CHECK-NEXT: nn.reshape %[[T]] : tensor<?x4x2x3xf32, #nn.batch<0, 1>> -> tensor<?x4x6xf32, #nn.batch<0, 1>>
onnx.graph @main(%x: tensor<?x4x8xf32> {onnx.name = "x", onnx.dims = ["batch", 4, 8]}, %w: tensor<6x2x3xf32> {onnx.name = "w", onnx.dims = [6, 2, 3]}) -> (tensor<?x6x4xf32> {onnx.name = "y"}) {
  %y = onnx.node "Conv"(%x, %w) version 11 {group = 2 : si64, auto_pad = "SAME_LOWER", strides = array<i64: 2>} : (tensor<?x4x8xf32>, tensor<6x2x3xf32>) -> tensor<?x6x4xf32>
  onnx.return %y : tensor<?x6x4xf32>
}

// -----

// A window of one element needs no windows: every second element, and a product.
// CHECK-LABEL: func.func @main
// CHECK:      %[[S:.*]] = nn.slice %{{.*}} from [0, 0, 0, 0] by [1, 2, 2, 1]
// CHECK-NEXT: %[[W:.*]] = nn.reshape %arg1 : tensor<6x4x1x1xf32> -> tensor<6x4xf32>
// CHECK-NEXT: nn.dot_general %[[S]], %[[W]] batch [] x [] contract [3] x [1]
onnx.graph @main(%x: tensor<?x4x8x8xf32> {onnx.name = "x", onnx.dims = ["batch", 4, 8, 8]}, %w: tensor<6x4x1x1xf32> {onnx.name = "w", onnx.dims = [6, 4, 1, 1]}) -> (tensor<?x6x4x4xf32> {onnx.name = "y"}) {
  %y = onnx.node "Conv"(%x, %w) version 11 {strides = array<i64: 2, 2>} : (tensor<?x4x8x8xf32>, tensor<6x4x1x1xf32>) -> tensor<?x6x4x4xf32>
  onnx.return %y : tensor<?x6x4x4xf32>
}

// -----

// Padding is not counted unless asked for: the outer windows of two have one element.
// CHECK-LABEL: func.func @main
// CHECK:      %[[S:.*]] = nn.sum_pool %[[X:.*]] axis 1 kernel [2] strides [2] dilations [1] low [1]
// CHECK-NEXT: %[[C:.*]] = arith.constant dense<[1.000000e+00, 5.000000e-01, 1.000000e+00]> : tensor<3xf32>
// CHECK-NEXT: %[[B:.*]] = nn.broadcast %[[C]] to [1]
// CHECK-NEXT: arith.mulf %[[S]], %[[B]]
// CHECK-NEXT: %[[H:.*]] = arith.constant dense<5.000000e-01> : tensor<f32>
// CHECK-NEXT: %[[A:.*]] = nn.broadcast %[[H]] to []
// CHECK-NEXT: arith.mulf %[[S]], %[[A]]
// CHECK-NEXT: nn.sum_pool %[[X]] axis 1 kernel [4] strides [1] dilations [1] low [0]
// CHECK-NEXT: arith.constant dense<2.500000e-01>
onnx.graph @main(%x: tensor<?x2x4xf32> {onnx.name = "x", onnx.dims = ["batch", 2, 4]}) -> (tensor<?x2x3xf32> {onnx.name = "y"}, tensor<?x2x3xf32> {onnx.name = "z"}, tensor<?x2x1xf32> {onnx.name = "g"}) {
  %y = onnx.node "AveragePool"(%x) version 11 {kernel_shape = array<i64: 2>, strides = array<i64: 2>, pads = array<i64: 1, 1>} : (tensor<?x2x4xf32>) -> tensor<?x2x3xf32>
  %z = onnx.node "AveragePool"(%x) version 11 {kernel_shape = array<i64: 2>, strides = array<i64: 2>, pads = array<i64: 1, 1>, count_include_pad = 1 : si64} : (tensor<?x2x4xf32>) -> tensor<?x2x3xf32>
  %g = onnx.node "GlobalAveragePool"(%x) version 1 {} : (tensor<?x2x4xf32>) -> tensor<?x2x1xf32>
  onnx.return %y, %z, %g : tensor<?x2x3xf32>, tensor<?x2x3xf32>, tensor<?x2x1xf32>
}

// -----

// A residual connection, channels joined along their axis, and a scale per channel keep the channels last as well.
// CHECK-LABEL: func.func @main
// CHECK-NEXT: nn.transpose %arg0 by [0, 2, 3, 1]
// CHECK-NOT:  nn.transpose
// CHECK:      nn.concat %{{.*}}, %{{.*}} along 3 : {{.*}} -> tensor<?x4x4x4xf32, #nn.batch<0, 1>>
// CHECK-NEXT: nn.transpose %{{.*}} by [0, 3, 1, 2]
// CHECK-NEXT: return
onnx.graph @main(%x: tensor<?x2x4x4xf32> {onnx.name = "x", onnx.dims = ["batch", 2, 4, 4]}, %w: tensor<2x2x3x3xf32> {onnx.name = "w", onnx.dims = [2, 2, 3, 3]},
                 %s: tensor<2x1x1xf32> {onnx.name = "s", onnx.dims = [2, 1, 1]}) -> (tensor<?x4x4x4xf32> {onnx.name = "y"}) {
  %a = onnx.node "Conv"(%x, %w) version 11 {pads = array<i64: 1, 1, 1, 1>} : (tensor<?x2x4x4xf32>, tensor<2x2x3x3xf32>) -> tensor<?x2x4x4xf32>
  %b = onnx.node "Mul"(%a, %s) version 14 {} : (tensor<?x2x4x4xf32>, tensor<2x1x1xf32>) -> tensor<?x2x4x4xf32>
  %c = onnx.node "Add"(%x, %b) version 14 {} : (tensor<?x2x4x4xf32>, tensor<?x2x4x4xf32>) -> tensor<?x2x4x4xf32>
  %y = onnx.node "Concat"(%a, %c) version 13 {axis = 1 : si64} : (tensor<?x2x4x4xf32>, tensor<?x2x4x4xf32>) -> tensor<?x4x4x4xf32>
  onnx.return %y : tensor<?x4x4x4xf32>
}

// -----

// Channels by themselves: the image is padded as far as windows reach (rows: 2 * 2 + 3 - 1 - 6 = 0 behind), and the
// weights are turned to [k.., C].
// CHECK-LABEL: func.func @main
// CHECK:      %[[P:.*]] = nn.pad %{{.*}} with %{{.*}} low [0, 1, 1, 0] interior [0, 0, 0, 0] : {{.*}} -> tensor<?x7x7x4xf32, #nn.batch<0, 1>>
// CHECK:      %[[W:.*]] = nn.transpose %{{.*}} by [1, 2, 0] : tensor<4x3x3xf32> -> tensor<3x3x4xf32>
// CHECK-NEXT: nn.depthwise %[[P]], %[[W]] axis 1 strides [2, 2] dilations [1, 1] : {{.*}} -> tensor<?x3x3x4xf32, #nn.batch<0, 1>>
onnx.graph @main(%x: tensor<?x4x6x6xf32> {onnx.name = "x", onnx.dims = ["batch", 4, 6, 6]}, %w: tensor<4x1x3x3xf32> {onnx.name = "w", onnx.dims = [4, 1, 3, 3]}) -> (tensor<?x4x3x3xf32> {onnx.name = "y"}) {
  %y = onnx.node "Conv"(%x, %w) version 11 {group = 4 : si64, pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 2, 2>} : (tensor<?x4x6x6xf32>, tensor<4x1x3x3xf32>) -> tensor<?x4x3x3xf32>
  onnx.return %y : tensor<?x4x3x3xf32>
}
