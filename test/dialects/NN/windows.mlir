// Ops with windows are printed as they are parsed.
// RUN: harmony-opt %s | harmony-opt --verify-roundtrip | FileCheck %s
// RUN: harmony-opt %s --mlir-print-op-generic | harmony-opt | FileCheck %s

!image = tensor<?x5x6x3xf32, #nn.batch<0, 1>>
// CHECK-LABEL: func.func @windows
func.func @windows(%x: !image, %columns: tensor<?x2x9x4xf64, #nn.batch<0, 2>>, %weights: tensor<3x2x3xf32>) {
  // 3 x 3 over 5 x 6, padded by 1: 5 = (5 + 2 - 3) / 1 + 1, 3 = (6 + 2 - 3) / 2 + 1 (rounded down).
  // CHECK: nn.window %{{.*}} axis 1 kernel [3, 3] strides [1, 2] dilations [1, 1] low [1, 1] : tensor<?x5x6x3xf32, #nn.batch<0, 1>> -> tensor<?x5x3x3x3x3xf32, #nn.batch<0, 1>>
  %0 = nn.window %x axis 1 kernel [3, 3] strides [1, 2] dilations [1, 1] low [1, 1] : !image -> tensor<?x5x3x3x3x3xf32, #nn.batch<0, 1>>
  // CHECK: nn.fold %{{.*}} axis 1 kernel [3, 3] strides [1, 2] dilations [1, 1] low [1, 1] : tensor<?x5x3x3x3x3xf32, #nn.batch<0, 1>> -> tensor<?x5x6x3xf32, #nn.batch<0, 1>>
  %1 = nn.fold %0 axis 1 kernel [3, 3] strides [1, 2] dilations [1, 1] low [1, 1] : tensor<?x5x3x3x3x3xf32, #nn.batch<0, 1>> -> !image
  // CHECK: %[[M:.*]], %[[P:.*]] = nn.max_pool %{{.*}} axis 1 kernel [2, 2] strides [2, 2] dilations [1, 1] low [0, 0] : tensor<?x5x6x3xf32, #nn.batch<0, 1>> -> tensor<?x2x3x3xf32, #nn.batch<0, 1>>, tensor<?x2x3x3xi8, #nn.batch<0, 1>>
  %2:2 = nn.max_pool %x axis 1 kernel [2, 2] strides [2, 2] dilations [1, 1] low [0, 0] : !image -> tensor<?x2x3x3xf32, #nn.batch<0, 1>>, tensor<?x2x3x3xi8, #nn.batch<0, 1>>
  // CHECK: nn.unpool %[[M]] at %[[P]] axis 1 kernel [2, 2] strides [2, 2] dilations [1, 1] low [0, 0] : tensor<?x2x3x3xf32, #nn.batch<0, 1>>, tensor<?x2x3x3xi8, #nn.batch<0, 1>> -> tensor<?x5x6x3xf32, #nn.batch<0, 1>>
  %3 = nn.unpool %2#0 at %2#1 axis 1 kernel [2, 2] strides [2, 2] dilations [1, 1] low [0, 0] : tensor<?x2x3x3xf32, #nn.batch<0, 1>>, tensor<?x2x3x3xi8, #nn.batch<0, 1>> -> !image
  // One axis in the middle, the batch in front of it with two indices a sample.
  // CHECK: nn.sum_pool %{{.*}} axis 2 kernel [3] strides [3] dilations [2] low [0] : tensor<?x2x9x4xf64, #nn.batch<0, 2>> -> tensor<?x2x2x4xf64, #nn.batch<0, 2>>
  %4 = nn.sum_pool %columns axis 2 kernel [3] strides [3] dilations [2] low [0] : tensor<?x2x9x4xf64, #nn.batch<0, 2>> -> tensor<?x2x2x4xf64, #nn.batch<0, 2>>
  // CHECK: nn.unpool %{{.*}} axis 2 kernel [3] strides [3] dilations [2] low [0] : tensor<?x2x2x4xf64, #nn.batch<0, 2>> -> tensor<?x2x9x4xf64, #nn.batch<0, 2>>
  %5 = nn.unpool %4 axis 2 kernel [3] strides [3] dilations [2] low [0] : tensor<?x2x2x4xf64, #nn.batch<0, 2>> -> tensor<?x2x9x4xf64, #nn.batch<0, 2>>
  // 3 x 2 over 5 x 6: 3 = 5 - 3 + 1; 3 = (6 - 2) / 2 + 1 (rounded down); windows lie within the image.
  // CHECK: nn.depthwise %{{.*}}, %{{.*}} axis 1 strides [1, 2] dilations [1, 1] : tensor<?x5x6x3xf32, #nn.batch<0, 1>>, tensor<3x2x3xf32> -> tensor<?x3x3x3xf32, #nn.batch<0, 1>>
  %7 = nn.depthwise %x, %weights axis 1 strides [1, 2] dilations [1, 1] : !image, tensor<3x2x3xf32> -> tensor<?x3x3x3xf32, #nn.batch<0, 1>>
  // More than 128 offsets need wider positions.
  // CHECK: nn.max_pool %{{.*}} axis 0 kernel [129] {{.*}} : tensor<129xf32> -> tensor<1xf32>, tensor<1xi32>
  %row = arith.constant dense<0.0> : tensor<129xf32>
  %6:2 = nn.max_pool %row axis 0 kernel [129] strides [1] dilations [1] low [0] : tensor<129xf32> -> tensor<1xf32>, tensor<1xi32>
  return
}
