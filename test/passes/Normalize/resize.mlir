// Resizing and padding become gathers, repetitions and products with constants; channels stay where they are.
// RUN: harmony-opt %s -split-input-file --harmony-normalize="forward=true" | FileCheck %s

// Whole multiples repeat each element: the adjoint is a sum. Scales that an exporter has folded to an initializer are
// constants.
// CHECK-NOT: nn.variable
// CHECK-LABEL: func.func @main
// CHECK:      nn.broadcast {{.*}} -> tensor<?x3x2x2x4xf32, #nn.batch<0, 1>>
// CHECK:      nn.broadcast {{.*}} -> tensor<?x3x4x4x2xf32, #nn.batch<0, 1>>
// CHECK-NOT:  nn.gather
onnx.initializer @scales : tensor<4xf32> = dense<[1.0, 1.0, 2.0, 2.0]> : tensor<4xf32>
onnx.graph @main(%x: tensor<?x3x2x4xf32> {onnx.name = "x", onnx.dims = ["batch", 3, 2, 4]}) -> (tensor<?x3x4x8xf32> {onnx.name = "y"}) {
  %scales = onnx.initial_value @scales : tensor<4xf32>
  %none = onnx.none
  %y = onnx.node "Resize"(%x, %none, %scales) version 13 {coordinate_transformation_mode = "asymmetric", nearest_mode = "floor"} : (tensor<?x3x2x4xf32>, none, tensor<4xf32>) -> tensor<?x3x4x8xf32>
  onnx.return %y : tensor<?x3x4x8xf32>
}

// -----

// Linear, 2 to 3 with aligned corners: positions 0, 1/2, 1. The axis that is combined goes to the end and back.
// CHECK-LABEL: func.func @main
// CHECK:      %[[C:.*]] = arith.constant dense<{{\[\[}}1.000000e+00, 0.000000e+00], [5.000000e-01, 5.000000e-01], [0.000000e+00, 1.000000e+00]]> : tensor<3x2xf32>
// CHECK-NEXT: %[[P:.*]] = nn.dot_general %arg0, %[[C]] batch [] x [] contract [2] x [1] : {{.*}} -> tensor<?x3x4x3xf32, #nn.batch<0, 1>>
// CHECK-NEXT: nn.transpose %[[P]] by [0, 1, 3, 2]
onnx.graph @main(%x: tensor<?x3x2x4xf32> {onnx.name = "x", onnx.dims = ["batch", 3, 2, 4]}) -> (tensor<?x3x3x4xf32> {onnx.name = "y"}) {
  %sizes = onnx.node "Constant"() version 13 {value_ints = array<i64: 3>} : () -> tensor<1xi64>
  %none = onnx.none
  %y = onnx.node "Resize"(%x, %none, %none, %sizes) version 19 {axes = array<i64: 2>, mode = "linear", coordinate_transformation_mode = "align_corners"} : (tensor<?x3x2x4xf32>, none, none, tensor<1xi64>) -> tensor<?x3x3x4xf32>
  onnx.return %y : tensor<?x3x3x4xf32>
}

// -----

// Reflection behind a relu of a convolution: taken along the positions, the channels last.
// CHECK-LABEL: func.func @main
// CHECK:      nn.dot_general
// CHECK:      %[[I:.*]] = arith.constant dense<[1, 0, 1, 2, 1]> : tensor<5xi64>
// CHECK-NEXT: nn.gather %{{.*}} at %[[I]] axis 1 batch 0 : {{.*}} -> tensor<?x5x2xf32, #nn.batch<0, 1>>
onnx.graph @main(%x: tensor<?x2x3xf32> {onnx.name = "x", onnx.dims = ["batch", 2, 3]}, %w: tensor<2x2x1xf32> {onnx.name = "w", onnx.dims = [2, 2, 1]}) -> (tensor<?x2x5xf32> {onnx.name = "y"}) {
  %c = onnx.node "Conv"(%x, %w) version 11 {} : (tensor<?x2x3xf32>, tensor<2x2x1xf32>) -> tensor<?x2x3xf32>
  %pads = onnx.node "Constant"() version 13 {value_ints = array<i64: 0, 0, 1, 0, 0, 1>} : () -> tensor<6xi64>
  %y = onnx.node "Pad"(%c, %pads) version 13 {mode = "reflect"} : (tensor<?x2x3xf32>, tensor<6xi64>) -> tensor<?x2x5xf32>
  onnx.return %y : tensor<?x2x5xf32>
}
