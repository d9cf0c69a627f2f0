// What resizing, padding and normalisation refuse.
// RUN: harmony-opt %s -split-input-file --harmony-normalize="forward=true" -verify-diagnostics

onnx.graph @main(%x: tensor<?x3x2x4xf32> {onnx.name = "x", onnx.dims = ["batch", 3, 2, 4]}) -> (tensor<?x3x2x4xf32> {onnx.name = "y"}) {
  %scales = onnx.node "Constant"() version 13 {value_floats = array<f32: 2.0, 1.0, 1.0, 1.0>} : () -> tensor<4xf32>
  %none = onnx.none
  // expected-error@+1 {{resizes the batch axis 0 of [N, 3, 2, 4]: this combines samples}}
  %y = onnx.node "Resize"(%x, %none, %scales) version 13 {} : (tensor<?x3x2x4xf32>, none, tensor<4xf32>) -> tensor<?x3x2x4xf32>
  onnx.return %y : tensor<?x3x2x4xf32>
}

// -----

onnx.graph @main(%x: tensor<?x3x2x4xf32> {onnx.name = "x", onnx.dims = ["batch", 3, 2, 4]}, %scales: tensor<4xf32> {onnx.name = "scales", onnx.dims = [4]}) -> (tensor<?x3x2x4xf32> {onnx.name = "y"}) {
  %none = onnx.none
  // expected-error@+1 {{scales must be floating numbers known at compile time}}
  %y = onnx.node "Resize"(%x, %none, %scales) version 13 {} : (tensor<?x3x2x4xf32>, none, tensor<4xf32>) -> tensor<?x3x2x4xf32>
  onnx.return %y : tensor<?x3x2x4xf32>
}

// -----

onnx.graph @main(%x: tensor<?x3x2x4xf32> {onnx.name = "x", onnx.dims = ["batch", 3, 2, 4]}) -> (tensor<?x3x2x4xf32> {onnx.name = "y"}) {
  %scales = onnx.node "Constant"() version 13 {value_floats = array<f32: 1.0, 1.0, 0.0, 1.0>} : () -> tensor<4xf32>
  %none = onnx.none
  // expected-error@+1 {{a scale is 0.000000, accepted is above 0}}
  %y = onnx.node "Resize"(%x, %none, %scales) version 13 {} : (tensor<?x3x2x4xf32>, none, tensor<4xf32>) -> tensor<?x3x2x4xf32>
  onnx.return %y : tensor<?x3x2x4xf32>
}

// -----

onnx.graph @main(%x: tensor<?x3x2x4xf32> {onnx.name = "x", onnx.dims = ["batch", 3, 2, 4]}) -> (tensor<?x3x2x4xf32> {onnx.name = "y"}) {
  %sizes = onnx.node "Constant"() version 13 {value_ints = array<i64: 3>} : () -> tensor<1xi64>
  %none = onnx.none
  // expected-error@+1 {{coordinate_transformation_mode is 'middle', accepted are half_pixel, half_pixel_symmetric, }}
  %y = onnx.node "Resize"(%x, %none, %none, %sizes) version 19 {axes = array<i64: 2>, coordinate_transformation_mode = "middle"} : (tensor<?x3x2x4xf32>, none, none, tensor<1xi64>) -> tensor<?x3x2x4xf32>
  onnx.return %y : tensor<?x3x2x4xf32>
}

// -----

onnx.graph @main(%x: tensor<?x3xf32> {onnx.name = "x", onnx.dims = ["batch", 3]}) -> (tensor<?x3xf32> {onnx.name = "y"}) {
  %pads = onnx.node "Constant"() version 13 {value_ints = array<i64: 1, 0, 0, 0>} : () -> tensor<4xi64>
  // expected-error@+1 {{pads the batch axis 0 of [N, 3]: this combines samples}}
  %y = onnx.node "Pad"(%x, %pads) version 13 {mode = "edge"} : (tensor<?x3xf32>, tensor<4xi64>) -> tensor<?x3xf32>
  onnx.return %y : tensor<?x3xf32>
}

// -----

onnx.graph @main(%x: tensor<?x3xf32> {onnx.name = "x", onnx.dims = ["batch", 3]}) -> (tensor<?x3xf32> {onnx.name = "y"}) {
  %pads = onnx.node "Constant"() version 13 {value_ints = array<i64: 0, -2, 0, -2>} : () -> tensor<4xi64>
  // expected-error@+1 {{a padding of -2 and -2 does not fit axis 1 of [N, 3]}}
  %y = onnx.node "Pad"(%x, %pads) version 13 {mode = "reflect"} : (tensor<?x3xf32>, tensor<4xi64>) -> tensor<?x3xf32>
  onnx.return %y : tensor<?x3xf32>
}

// -----

onnx.graph @main(%x: tensor<?x3x4xf32> {onnx.name = "x", onnx.dims = ["batch", 3, 4]}) -> (tensor<?x3x4xf32> {onnx.name = "y"}) {
  // expected-error@+1 {{takes statistics over the batch axis of [N, 3, 4]: this combines samples; accepted are axes without it}}
  %y = onnx.node "MeanVarianceNormalization"(%x) version 13 {axes = array<i64: 0, 2>} : (tensor<?x3x4xf32>) -> tensor<?x3x4xf32>
  onnx.return %y : tensor<?x3x4xf32>
}

// -----

onnx.graph @main(%x: tensor<?x3x4xf32> {onnx.name = "x", onnx.dims = ["batch", 3, 4]}) -> (tensor<?x3x4xf32> {onnx.name = "y"}) {
  // expected-error@+1 {{normalises over the batch axis of [N, 3, 4]: this combines samples}}
  %y = onnx.node "LpNormalization"(%x) version 1 {axis = 0 : si64} : (tensor<?x3x4xf32>) -> tensor<?x3x4xf32>
  onnx.return %y : tensor<?x3x4xf32>
}

// -----

onnx.graph @main(%x: tensor<?x6x4x4xf32> {onnx.name = "x", onnx.dims = ["batch", 6, 4, 4]}) -> (tensor<?x6x4x4xf32> {onnx.name = "y"}) {
  // expected-error@+1 {{the channels of [N, 6, 4, 4] are no multiple of blocksize * blocksize = 4}}
  %y = onnx.node "DepthToSpace"(%x) version 13 {blocksize = 2 : si64} : (tensor<?x6x4x4xf32>) -> tensor<?x6x4x4xf32>
  onnx.return %y : tensor<?x6x4x4xf32>
}
