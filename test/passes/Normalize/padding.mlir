// The row of padding_idx, which exporters drop: the one row that is zero, or what --padding says.
// RUN: harmony-opt %s --harmony-normalize 2>&1 | FileCheck %s --check-prefix=FOUND
// RUN: harmony-opt %s --harmony-normalize="padding=t=2" 2>&1 | FileCheck %s --check-prefix=GIVEN
// RUN: harmony-opt %s --harmony-normalize="padding=t=none" 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not harmony-opt %s --harmony-normalize="padding=t=3" 2>&1 | FileCheck %s --check-prefix=RANGE
// RUN: not harmony-opt %s --harmony-normalize="padding=u=1" 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: harmony-opt %s --harmony-normalize="padding=s=1" 2>&1 | FileCheck %s --check-prefix=UNUSED
// RUN: harmony-opt %s --harmony-normalize="freeze=t trainable=s" 2>&1 | FileCheck %s --check-prefix=NONE

// FOUND: warning: 't': row 1 is zero and the others are not
// FOUND: nn.gather {{.*}} {nn.padding = 1 : i64}
// GIVEN-NOT: warning
// GIVEN: nn.gather {{.*}} {nn.padding = 2 : i64}
// NONE-NOT: warning: 't'
// NONE-NOT: nn.padding
// RANGE: error: --padding t=3: accepted are none and rows of 't', 0 to 2
// UNUSED: warning: --padding s=1: no look-up trains rows of 's', so it changes nothing
// NAME: error: --padding u=1: no initializer is named 'u'
onnx.initializer @t : tensor<3x2xf32> = dense<[[1.0, 2.0], [0.0, 0.0], [3.0, 0.0]]> : tensor<3x2xf32> {kind = "PARAMETER"}
onnx.initializer @s : tensor<2xf32> = dense<[1.0, 2.0]> : tensor<2xf32> {kind = "PARAMETER"}
onnx.graph @main(%x: tensor<?xi64> {onnx.name = "x", onnx.dims = ["batch"]}) -> (tensor<f32> {onnx.name = "loss"}) {
  %t = onnx.initial_value @t : tensor<3x2xf32>
  %s = onnx.initial_value @s : tensor<2xf32>
  %y = onnx.node "Gather"(%t, %x) version 13 {axis = 0 : si64} : (tensor<3x2xf32>, tensor<?xi64>) -> tensor<?x2xf32>
  %z = onnx.node "Mul"(%y, %s) version 14 {} : (tensor<?x2xf32>, tensor<2xf32>) -> tensor<?x2xf32>
  %l = onnx.node "ReduceMean"(%z) version 18 {keepdims = 0 : si64} : (tensor<?x2xf32>) -> tensor<f32>
  onnx.return %l : tensor<f32>
}
