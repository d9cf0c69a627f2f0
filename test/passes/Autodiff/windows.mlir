// RUN: harmony-opt %s -split-input-file --harmony-differentiate --harmony-verify-differentiated | FileCheck %s

// A convolution: windows are gathered again rather than saved, the gradient of the image folds those of the windows.
// CHECK-LABEL: func.func @convolution
// CHECK-SAME:  nn.saved = 0
// CHECK-LABEL: func.func @convolution.bwd
// CHECK-SAME: (%[[X:.+]]: tensor<?x4x4x2xf32, #nn.batch<0, 1>> {nn.primal = 0 : i64}, %[[W:.+]]: tensor<5x3x3x2xf32> {nn.primal = 1 : i64}, %[[D:[^:]+]]:
// CHECK-NEXT: %[[DV:.+]] = nn.dot_general %[[D]], %[[W]] batch [] x [] contract [3] x [0]
// CHECK-NEXT: %[[V:.+]] = nn.window %[[X]] axis 1 kernel [3, 3]
// CHECK-NEXT: %[[DW:.+]] = nn.dot_general %[[D]], %[[V]] batch [] x [] contract [0, 1, 2] x [0, 1, 2]
// CHECK-NEXT: %[[DX:.+]] = nn.fold %[[DV]] axis 1 kernel [3, 3] strides [1, 1] dilations [1, 1] low [1, 1]
// CHECK-NEXT: return %[[DX]], %[[DW]]
func.func @convolution(%x: tensor<?x4x4x2xf32, #nn.batch<0, 1>> {nn.differentiable}, %w: tensor<5x3x3x2xf32> {nn.differentiable})
    -> (tensor<?x4x4x5xf32, #nn.batch<0, 1>> {nn.differentiable}) attributes {nn.layer} {
  %0 = nn.window %x axis 1 kernel [3, 3] strides [1, 1] dilations [1, 1] low [1, 1] : tensor<?x4x4x2xf32, #nn.batch<0, 1>> -> tensor<?x4x4x3x3x2xf32, #nn.batch<0, 1>>
  %1 = nn.dot_general %0, %w batch [] x [] contract [3, 4, 5] x [1, 2, 3] : tensor<?x4x4x3x3x2xf32, #nn.batch<0, 1>>, tensor<5x3x3x2xf32> -> tensor<?x4x4x5xf32, #nn.batch<0, 1>>
  return %1 : tensor<?x4x4x5xf32, #nn.batch<0, 1>>
}

// -----

// Max pooling saves where the maxima are, a byte each, rather than what it pools.
// CHECK-LABEL: func.func @pool
// CHECK: %[[Y:.+]], %[[P:.+]] = nn.max_pool
// CHECK: return %[[Y]], %[[P]]
// CHECK-LABEL: func.func @pool.bwd
// CHECK: nn.unpool %{{.*}} at %{{.*}} axis 1 kernel [2] strides [2] dilations [1] low [0]
func.func @pool(%x: tensor<?x6x3xf32, #nn.batch<0, 1>> {nn.differentiable}, %w: tensor<3x3xf32> {nn.differentiable}) -> (tensor<?x3x3xf32, #nn.batch<0, 1>> {nn.differentiable}) attributes {nn.layer} {
  %0 = nn.dot_general %x, %w batch [] x [] contract [2] x [0] : tensor<?x6x3xf32, #nn.batch<0, 1>>, tensor<3x3xf32> -> tensor<?x6x3xf32, #nn.batch<0, 1>>
  %1, %2 = nn.max_pool %0 axis 1 kernel [2] strides [2] dilations [1] low [0] : tensor<?x6x3xf32, #nn.batch<0, 1>> -> tensor<?x3x3xf32, #nn.batch<0, 1>>, tensor<?x3x3xi8, #nn.batch<0, 1>>
  return %1 : tensor<?x3x3xf32, #nn.batch<0, 1>>
}

// -----

// CHECK-LABEL: func.func @sum.bwd
// CHECK-NEXT: nn.unpool %arg0 axis 1 kernel [2] strides [2] dilations [1] low [0] : tensor<?x3x3xf32, #nn.batch<0, 1>> -> tensor<?x6x3xf32, #nn.batch<0, 1>>
func.func @sum(%x: tensor<?x6x3xf32, #nn.batch<0, 1>> {nn.differentiable}) -> (tensor<?x3x3xf32, #nn.batch<0, 1>> {nn.differentiable}) attributes {nn.layer} {
  %0 = nn.sum_pool %x axis 1 kernel [2] strides [2] dilations [1] low [0] : tensor<?x6x3xf32, #nn.batch<0, 1>> -> tensor<?x3x3xf32, #nn.batch<0, 1>>
  return %0 : tensor<?x3x3xf32, #nn.batch<0, 1>>
}
