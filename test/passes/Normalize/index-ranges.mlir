// What the data loader checks of indices. Columns of one input that index tables of 4 and 9 rows are limited by the larger
// table; an input that is an index as a whole by the smallest one.
// RUN: harmony-opt %s --harmony-normalize="forward=true" | FileCheck %s

// CHECK-LABEL: func.func @main
// CHECK-SAME: %arg0: tensor<?x2xi64, #nn.batch<0, 1>> {nn.index_range = [0, 9], nn.name = "columns"}
// CHECK-SAME: %arg1: tensor<?xi64, #nn.batch<0, 1>> {nn.index_range = [0, 4], nn.name = "whole"}
onnx.initializer @small : tensor<4x2xf32> = dense<1.0> : tensor<4x2xf32> {kind = "PARAMETER"}
onnx.initializer @large : tensor<9x2xf32> = dense<2.0> : tensor<9x2xf32> {kind = "PARAMETER"}
onnx.graph @main(%columns: tensor<?x2xi64> {onnx.name = "columns", onnx.dims = ["batch", 2]}, %whole: tensor<?xi64> {onnx.name = "whole", onnx.dims = ["batch"]}) -> (tensor<?x2xf32> {onnx.name = "y"}) {
  %small = onnx.initial_value @small : tensor<4x2xf32>
  %large = onnx.initial_value @large : tensor<9x2xf32>
  %0 = onnx.node "Constant"() version 19 {value_int = 0 : si64} : () -> tensor<i64>
  %1 = onnx.node "Constant"() version 19 {value_int = 1 : si64} : () -> tensor<i64>
  %c0 = onnx.node "Gather"(%columns, %0) version 13 {axis = 1 : si64} : (tensor<?x2xi64>, tensor<i64>) -> tensor<?xi64>
  %c1 = onnx.node "Gather"(%columns, %1) version 13 {axis = 1 : si64} : (tensor<?x2xi64>, tensor<i64>) -> tensor<?xi64>
  %a = onnx.node "Gather"(%small, %c0) version 13 {axis = 0 : si64} : (tensor<4x2xf32>, tensor<?xi64>) -> tensor<?x2xf32>
  %b = onnx.node "Gather"(%large, %c1) version 13 {axis = 0 : si64} : (tensor<9x2xf32>, tensor<?xi64>) -> tensor<?x2xf32>
  %c = onnx.node "Gather"(%small, %whole) version 13 {axis = 0 : si64} : (tensor<4x2xf32>, tensor<?xi64>) -> tensor<?x2xf32>
  %d = onnx.node "Gather"(%large, %whole) version 13 {axis = 0 : si64} : (tensor<9x2xf32>, tensor<?xi64>) -> tensor<?x2xf32>
  %y = onnx.node "Sum"(%a, %b, %c, %d) version 13 {} : (tensor<?x2xf32>, tensor<?x2xf32>, tensor<?x2xf32>, tensor<?x2xf32>) -> tensor<?x2xf32>
  onnx.return %y : tensor<?x2xf32>
}
