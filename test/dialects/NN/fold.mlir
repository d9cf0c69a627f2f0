// RUN: harmony-opt %s --canonicalize --split-input-file | FileCheck %s

// CHECK-LABEL: func.func @reshape
func.func @reshape(%x: tensor<?x12xf32, #nn.batch<0, 1>>) -> (tensor<?x12xf32, #nn.batch<0, 1>>, tensor<?x2x6xf32, #nn.batch<0, 1>>) {
  %same = nn.reshape %x : tensor<?x12xf32, #nn.batch<0, 1>> -> tensor<?x12xf32, #nn.batch<0, 1>>
  // Only the last of two counts.
  // CHECK-NEXT: %[[R:.*]] = nn.reshape %arg0 : tensor<?x12xf32, #nn.batch<0, 1>> -> tensor<?x2x6xf32, #nn.batch<0, 1>>
  %0 = nn.reshape %x : tensor<?x12xf32, #nn.batch<0, 1>> -> tensor<?x3xf32, #nn.batch<0, 4>>
  %1 = nn.reshape %0 : tensor<?x3xf32, #nn.batch<0, 4>> -> tensor<?x2x6xf32, #nn.batch<0, 1>>
  // CHECK-NEXT: return %arg0, %[[R]]
  return %same, %1 : tensor<?x12xf32, #nn.batch<0, 1>>, tensor<?x2x6xf32, #nn.batch<0, 1>>
}

// -----

// There and back is nothing.
// CHECK-LABEL: func.func @thereAndBack
func.func @thereAndBack(%x: tensor<6x2xf32>) -> (tensor<6x2xf32>, tensor<6x2xf32>) {
  %0 = nn.reshape %x : tensor<6x2xf32> -> tensor<12xf32>
  %1 = nn.reshape %0 : tensor<12xf32> -> tensor<6x2xf32>
  %2 = nn.transpose %x by [1, 0] : tensor<6x2xf32> -> tensor<2x6xf32>
  %3 = nn.transpose %2 by [1, 0] : tensor<2x6xf32> -> tensor<6x2xf32>
  // CHECK-NEXT: return %arg0, %arg0
  return %1, %3 : tensor<6x2xf32>, tensor<6x2xf32>
}

// -----

// CHECK-LABEL: func.func @transpose
func.func @transpose(%x: tensor<2x3x?xf32, #nn.batch<2, 5>>) -> (tensor<2x3x?xf32, #nn.batch<2, 5>>, tensor<3x?x2xf32, #nn.batch<1, 5>>) {
  %same = nn.transpose %x by [0, 1, 2] : tensor<2x3x?xf32, #nn.batch<2, 5>> -> tensor<2x3x?xf32, #nn.batch<2, 5>>
  // p = [2, 0, 1]: axis i of the second result is axis p[i] of the first, which is axis p[p[i]] of the operand.
  // CHECK: %[[T:.*]] = nn.transpose %arg0 by [1, 2, 0] : tensor<2x3x?xf32, #nn.batch<2, 5>> -> tensor<3x?x2xf32, #nn.batch<1, 5>>
  %0 = nn.transpose %x by [2, 0, 1] : tensor<2x3x?xf32, #nn.batch<2, 5>> -> tensor<?x2x3xf32, #nn.batch<0, 5>>
  %1 = nn.transpose %0 by [2, 0, 1] : tensor<?x2x3xf32, #nn.batch<0, 5>> -> tensor<3x?x2xf32, #nn.batch<1, 5>>
  // CHECK: return %arg0, %[[T]]
  return %same, %1 : tensor<2x3x?xf32, #nn.batch<2, 5>>, tensor<3x?x2xf32, #nn.batch<1, 5>>
}

// -----

// CHECK-LABEL: func.func @slice
func.func @slice(%x: tensor<?x4xf32, #nn.batch<0, 1>>) -> (tensor<?x4xf32, #nn.batch<0, 1>>, tensor<?x4xf32, #nn.batch<0, 1>>) {
  %whole = nn.slice %x from [0, 0] by [1, 1] : tensor<?x4xf32, #nn.batch<0, 1>> -> tensor<?x4xf32, #nn.batch<0, 1>>
  // Backwards is not the same.
  // CHECK: %[[S:.*]] = nn.slice %arg0 from [0, 3] by [1, -1]
  %0 = nn.slice %x from [0, 3] by [1, -1] : tensor<?x4xf32, #nn.batch<0, 1>> -> tensor<?x4xf32, #nn.batch<0, 1>>
  // CHECK: return %arg0, %[[S]]
  return %whole, %0 : tensor<?x4xf32, #nn.batch<0, 1>>, tensor<?x4xf32, #nn.batch<0, 1>>
}

// -----

// What has no effect and no reader goes; a loss stays.
// CHECK-LABEL: func.func @dead
func.func @dead(%x: tensor<4xf32>) {
  // CHECK-NEXT: %[[SUM:.*]] = nn.reduce
  // CHECK-NEXT: nn.loss %[[SUM]]
  // CHECK-NEXT: return
  %0 = nn.reduce sum %x over [0] : tensor<4xf32> -> tensor<f32>
  %1 = nn.gelu %x : tensor<4xf32>
  %2 = nn.group (%a = %x) : (tensor<4xf32>) -> tensor<4xf32> {
    nn.yield %a : tensor<4xf32>
  }
  nn.loss %0 scale 1.0 count 1.0 : tensor<f32>
  return
}
