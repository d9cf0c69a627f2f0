// RUN: harmony-opt %s --harmony-form-groups | FileCheck %s

// A mask of labels is repeated where it is read, also when the labels come in another
// shape and the reshape stands behind the first op of the group.
// CHECK-LABEL: func.func @layer
// CHECK: nn.reshape %arg1
// CHECK: nn.group
// CHECK: math.exp
// CHECK: arith.cmpi eq
// CHECK: arith.mulf
// CHECK: nn.yield
// CHECK-NOT: nn.group
// CHECK: return
func.func @layer(%x: tensor<?x8xf32, #nn.batch<0, 4>>, %labels: tensor<?x4xi64, #nn.batch<0, 1>>, %seed: tensor<f32>)
    -> tensor<?x8xf32, #nn.batch<0, 4>> attributes {nn.layer} {
  %0 = math.exp %x : tensor<?x8xf32, #nn.batch<0, 4>>
  %1 = nn.reshape %labels : tensor<?x4xi64, #nn.batch<0, 1>> -> tensor<?xi64, #nn.batch<0, 4>>
  %ignored = arith.constant dense<-100> : tensor<i64>
  %2 = nn.broadcast %ignored to [] : tensor<i64> -> tensor<?xi64, #nn.batch<0, 4>>
  %3 = arith.cmpi eq, %1, %2 : tensor<?xi64, #nn.batch<0, 4>>
  %zero = arith.constant dense<0.0> : tensor<f32>
  %4 = nn.broadcast %zero to [] : tensor<f32> -> tensor<?xf32, #nn.batch<0, 4>>
  %5 = nn.broadcast %seed to [] : tensor<f32> -> tensor<?xf32, #nn.batch<0, 4>>
  %6 = arith.select %3, %4, %5 : tensor<?xi1, #nn.batch<0, 4>>, tensor<?xf32, #nn.batch<0, 4>>
  %7 = nn.broadcast %6 to [0] : tensor<?xf32, #nn.batch<0, 4>> -> tensor<?x8xf32, #nn.batch<0, 4>>
  %8 = arith.mulf %0, %7 : tensor<?x8xf32, #nn.batch<0, 4>>
  return %8 : tensor<?x8xf32, #nn.batch<0, 4>>
}
