// A GELU that an exporter took apart is put together again.
// RUN: harmony-opt %s -split-input-file --harmony-normalize="forward=true" | FileCheck %s

// GPT-2's tanh form: (0.5 x) (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))).
// CHECK-LABEL: func.func @main
// CHECK-NEXT: %[[Y:.*]] = nn.gelu tanh %arg0
// CHECK-NEXT: return %[[Y]]
onnx.graph @main(%x: tensor<?x3xf32> {onnx.name = "x", onnx.dims = ["batch", 3]}) -> (tensor<?x3xf32> {onnx.name = "y"}) {
  %half = onnx.node "Constant"() version 19 {value_float = 0.5 : f32} : () -> tensor<f32>
  %three = onnx.node "Constant"() version 19 {value_float = 3.0 : f32} : () -> tensor<f32>
  %cubic = onnx.node "Constant"() version 19 {value_float = 0.044715 : f32} : () -> tensor<f32>
  %root = onnx.node "Constant"() version 19 {value_float = 0.7978846 : f32} : () -> tensor<f32>
  %one = onnx.node "Constant"() version 19 {value_float = 1.0 : f32} : () -> tensor<f32>
  %0 = onnx.node "Mul"(%x, %half) version 14 {} : (tensor<?x3xf32>, tensor<f32>) -> tensor<?x3xf32>
  %1 = onnx.node "Pow"(%x, %three) version 15 {} : (tensor<?x3xf32>, tensor<f32>) -> tensor<?x3xf32>
  %2 = onnx.node "Mul"(%1, %cubic) version 14 {} : (tensor<?x3xf32>, tensor<f32>) -> tensor<?x3xf32>
  %3 = onnx.node "Add"(%x, %2) version 14 {} : (tensor<?x3xf32>, tensor<?x3xf32>) -> tensor<?x3xf32>
  %4 = onnx.node "Mul"(%3, %root) version 14 {} : (tensor<?x3xf32>, tensor<f32>) -> tensor<?x3xf32>
  %5 = onnx.node "Tanh"(%4) version 13 {} : (tensor<?x3xf32>) -> tensor<?x3xf32>
  %6 = onnx.node "Add"(%5, %one) version 14 {} : (tensor<?x3xf32>, tensor<f32>) -> tensor<?x3xf32>
  %y = onnx.node "Mul"(%0, %6) version 14 {} : (tensor<?x3xf32>, tensor<?x3xf32>) -> tensor<?x3xf32>
  onnx.return %y : tensor<?x3xf32>
}

// -----

// The erf form, of a product: (a b) (1 + erf(a b / sqrt 2)) * 0.5.
// CHECK-LABEL: func.func @main
// CHECK-NEXT: %[[P:.*]] = arith.mulf %arg0, %arg0
// CHECK-NEXT: %[[Y:.*]] = nn.gelu %[[P]]
// CHECK-NEXT: return %[[Y]]
onnx.graph @main(%x: tensor<?x3xf32> {onnx.name = "x", onnx.dims = ["batch", 3]}) -> (tensor<?x3xf32> {onnx.name = "y"}) {
  %half = onnx.node "Constant"() version 19 {value_float = 0.5 : f32} : () -> tensor<f32>
  %root = onnx.node "Constant"() version 19 {value_float = 1.4142135 : f32} : () -> tensor<f32>
  %one = onnx.node "Constant"() version 19 {value_float = 1.0 : f32} : () -> tensor<f32>
  %p = onnx.node "Mul"(%x, %x) version 14 {} : (tensor<?x3xf32>, tensor<?x3xf32>) -> tensor<?x3xf32>
  %0 = onnx.node "Div"(%p, %root) version 14 {} : (tensor<?x3xf32>, tensor<f32>) -> tensor<?x3xf32>
  %1 = onnx.node "Erf"(%0) version 13 {} : (tensor<?x3xf32>) -> tensor<?x3xf32>
  %2 = onnx.node "Add"(%one, %1) version 14 {} : (tensor<f32>, tensor<?x3xf32>) -> tensor<?x3xf32>
  %3 = onnx.node "Mul"(%p, %2) version 14 {} : (tensor<?x3xf32>, tensor<?x3xf32>) -> tensor<?x3xf32>
  %y = onnx.node "Mul"(%half, %3) version 14 {} : (tensor<f32>, tensor<?x3xf32>) -> tensor<?x3xf32>
  onnx.return %y : tensor<?x3xf32>
}

// -----

// Another constant is another function.
// CHECK-LABEL: func.func @main
// CHECK-NOT: nn.gelu
onnx.graph @main(%x: tensor<?x3xf32> {onnx.name = "x", onnx.dims = ["batch", 3]}) -> (tensor<?x3xf32> {onnx.name = "y"}) {
  %half = onnx.node "Constant"() version 19 {value_float = 0.5 : f32} : () -> tensor<f32>
  %root = onnx.node "Constant"() version 19 {value_float = 1.5 : f32} : () -> tensor<f32>
  %one = onnx.node "Constant"() version 19 {value_float = 1.0 : f32} : () -> tensor<f32>
  %0 = onnx.node "Div"(%x, %root) version 14 {} : (tensor<?x3xf32>, tensor<f32>) -> tensor<?x3xf32>
  %1 = onnx.node "Erf"(%0) version 13 {} : (tensor<?x3xf32>) -> tensor<?x3xf32>
  %2 = onnx.node "Add"(%one, %1) version 14 {} : (tensor<f32>, tensor<?x3xf32>) -> tensor<?x3xf32>
  %3 = onnx.node "Mul"(%x, %2) version 14 {} : (tensor<?x3xf32>, tensor<?x3xf32>) -> tensor<?x3xf32>
  %y = onnx.node "Mul"(%half, %3) version 14 {} : (tensor<f32>, tensor<?x3xf32>) -> tensor<?x3xf32>
  onnx.return %y : tensor<?x3xf32>
}
