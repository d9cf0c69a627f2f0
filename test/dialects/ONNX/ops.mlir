// RUN: harmony-opt %s | harmony-opt | FileCheck %s
// RUN: harmony-opt %s --mlir-print-op-generic | harmony-opt | FileCheck %s

// CHECK: module attributes {onnx.ir_version = 10 : i64, onnx.opset = {ai.onnx = 20 : i64}}
module attributes {onnx.ir_version = 10 : i64, onnx.opset = {ai.onnx = 20 : i64}} {
  // CHECK: onnx.initializer @fc1.weight : tensor<8x4xf32> = #onnx.external<"m.onnx.data", 16, 128> {kind = "PARAMETER"}
  onnx.initializer @fc1.weight : tensor<8x4xf32> = #onnx.external<"m.onnx.data", 16, 128> {kind = "PARAMETER"}
  // CHECK: onnx.initializer @"0" : tensor<8xf32> = dense<0.000000e+00> : tensor<8xf32> {original_name = "bias"}
  onnx.initializer @"0" : tensor<8xf32> = dense<0.0> : tensor<8xf32> {original_name = "bias"}
  // CHECK: onnx.initializer @limit : tensor<f32> = dense_resource<limit> : tensor<f32>
  onnx.initializer @limit : tensor<f32> = dense_resource<limit> : tensor<f32>

  // CHECK: onnx.graph @main(%x: tensor<?x4xf32> {onnx.dims = ["batch", 4], onnx.name = "x"}) -> (tensor<?x8xf32> {onnx.name = "y"}) {
  onnx.graph @main(%arg0: tensor<?x4xf32> {onnx.dims = ["batch", 4], onnx.name = "x"}) -> (tensor<?x8xf32> {onnx.name = "y"}) {
    // CHECK-NEXT: %[[W:.*]] = onnx.initial_value @fc1.weight : tensor<8x4xf32>
    %w = onnx.initial_value @fc1.weight : tensor<8x4xf32>
    // CHECK-NEXT: %[[NONE:.*]] = onnx.none
    %none = onnx.none
    // CHECK-NEXT: %g = onnx.node "Gemm"(%x, %[[W]], %[[NONE]]) version 13 {alpha = 5.000000e-01 : f32, transB = 1 : si64} names ["g"] : (tensor<?x4xf32>, tensor<8x4xf32>, none) -> tensor<?x8xf32>
    %0 = onnx.node "Gemm"(%arg0, %w, %none) version 13 {alpha = 0.5 : f32, transB = 1 : si64} names ["g"] : (tensor<?x4xf32>, tensor<8x4xf32>, none) -> tensor<?x8xf32>
    %limit = onnx.initial_value @limit : tensor<f32>
    %1 = onnx.node "Clip"(%0, %none, %limit) version 13 {} : (tensor<?x8xf32>, none, tensor<f32>) -> tensor<?x8xf32>
    // CHECK: onnx.node "SplitToSequence"(%{{.*}}) version 11 {axis = 1 : si64} : (tensor<?x8xf32>) -> !onnx.seq<tensor<*xf32>>
    %2 = onnx.node "SplitToSequence"(%1) version 11 {axis = 1 : si64} : (tensor<?x8xf32>) -> !onnx.seq<tensor<*xf32>>
    // CHECK: onnx.node "Normalizer"(%{{.*}}) domain "ai.onnx.ml" version 1 {norm = "L2"} : (tensor<?x8xf32>) -> !onnx.unknown
    %3 = onnx.node "Normalizer"(%1) domain "ai.onnx.ml" version 1 {norm = "L2"} : (tensor<?x8xf32>) -> !onnx.unknown
    // CHECK: onnx.node "Constant"() version 19 {value_ints = array<i64: 1, 2>} : () -> tensor<2xi64>
    %4 = onnx.node "Constant"() version 19 {value_ints = array<i64: 1, 2>} : () -> tensor<2xi64>
    // CHECK: %a, %absent, %c = onnx.node "BatchNormalization"
    // CHECK-SAME: names ["a", "", "c"]
    // CHECK-SAME: -> (tensor<?x8xf32>, none, tensor<8xf32>)
    %b = onnx.initial_value @"0" : tensor<8xf32>
    %5:3 = onnx.node "BatchNormalization"(%1, %b, %b, %b, %b) version 15 {training_mode = 1 : si64} names ["a", "", "c"] : (tensor<?x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<?x8xf32>, none, tensor<8xf32>)
    // CHECK: onnx.return %a : tensor<?x8xf32>
    onnx.return %5#0 : tensor<?x8xf32>
  }
}

{-#
  dialect_resources: { builtin: { limit: "0x040000000000803F" } }
#-}
