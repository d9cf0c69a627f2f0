// Every op and attribute is printed as it is parsed.
// RUN: harmony-opt %s | harmony-opt --verify-roundtrip | FileCheck %s
// RUN: harmony-opt %s --mlir-print-op-generic | harmony-opt | FileCheck %s
// RUN: harmony-opt %s --emit-bytecode | harmony-opt | FileCheck %s

// CHECK: nn.variable <parameter> @weight : tensor<64x32xf32> = #nn.file<"model.onnx.data", 4096, 8192> {source_name = "fc.weight"}
nn.variable <parameter> @weight : tensor<64x32xf32> = #nn.file<"model.onnx.data", 4096, 8192> {source_name = "fc.weight"}
// CHECK: nn.variable <frozen> @table : tensor<2xf32> = dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32>
nn.variable <frozen> @table : tensor<2xf32> = dense<[1.0, 2.0]> : tensor<2xf32>
// CHECK: nn.variable <buffer> @mean : tensor<8xf32>{{$}}
nn.variable <buffer> @mean : tensor<8xf32>
// CHECK: nn.variable <state> @count : tensor<i64>
nn.variable <state> @count : tensor<i64>
// CHECK: nn.variable <optimizer> @moment : tensor<64x32xf32>
nn.variable <optimizer> @moment : tensor<64x32xf32>
// CHECK: nn.variable <constant> @flags : tensor<4xi1> = #nn.file<"flags", 0, 4>
nn.variable <constant> @flags : tensor<4xi1> = #nn.file<"flags", 0, 4>
// CHECK: nn.variable <scalar> @rate : tensor<f32> {nn.scalar_kind = 0 : i64}
nn.variable <scalar> @rate : tensor<f32> {nn.scalar_kind = 0 : i64}
// CHECK: nn.variable <scalar> @correction : tensor<f32>
nn.variable <scalar> @correction : tensor<f32>

// CHECK: nn.step_scalars @correct reads [@rate, @correction] writes [@correction]
nn.step_scalars @correct reads [@rate, @correction] writes [@correction]
// CHECK: nn.optimize @weight by @sgd states [@moment] scalars [@rate]
nn.optimize @weight by @sgd states [@moment] scalars [@rate]

// CHECK: nn.contribution @weight by @square
nn.contribution @weight by @square
// CHECK: nn.epilogue @clip contributions [@weight] reads [@rate] writes [@correction]
nn.epilogue @clip contributions [@weight] reads [@rate] writes [@correction]

func.func private @square(%g: tensor<64x32xf32>) -> tensor<f32> {
  %0 = arith.mulf %g, %g : tensor<64x32xf32>
  %1 = nn.reduce sum %0 over [0, 1] : tensor<64x32xf32> -> tensor<f32>
  return %1 : tensor<f32>
}
func.func private @clip(%square: tensor<f32>, %rate: tensor<f32>) -> tensor<f32> {
  %0 = arith.divf %rate, %square : tensor<f32>
  return %0 : tensor<f32>
}
func.func private @correct(%rate: tensor<f32>, %old: tensor<f32>) -> tensor<f32> {
  %0 = arith.mulf %rate, %old : tensor<f32>
  return %0 : tensor<f32>
}
func.func private @sgd(%p: tensor<64x32xf32>, %g: tensor<64x32xf32>, %m: tensor<64x32xf32>, %rate: tensor<f32>)
    -> (tensor<64x32xf32>, tensor<64x32xf32>) {
  return %p, %m : tensor<64x32xf32>, tensor<64x32xf32>
}

!row = tensor<?x12xf32, #nn.batch<0, 1>>

// CHECK-LABEL: func.func @tensors
func.func @tensors(%x: !row, %ids: tensor<?x3xi64, #nn.batch<0, 1>>, %table: tensor<7x5xf32>, %v: tensor<12xf32>,
                   %pairs: tensor<4x6xf32>) {
  // CHECK: nn.get @weight : tensor<64x32xf32>
  %w = nn.get @weight : tensor<64x32xf32>
  // CHECK: nn.broadcast %{{.*}} to [1] : tensor<12xf32> -> tensor<?x12xf32, #nn.batch<0, 1>>
  %0 = nn.broadcast %v to [1] : tensor<12xf32> -> !row
  // A unit axis is repeated, also along the batch.
  // CHECK: nn.broadcast %{{.*}} to [0, 2] : tensor<1x12xf32> -> tensor<?x4x12xf32, #nn.batch<0, 1>>
  %u = nn.reshape %v : tensor<12xf32> -> tensor<1x12xf32>
  %1 = nn.broadcast %u to [0, 2] : tensor<1x12xf32> -> tensor<?x4x12xf32, #nn.batch<0, 1>>
  // CHECK: nn.broadcast %{{.*}} to [] : tensor<f32> -> tensor<2x3xf32>
  %c = arith.constant dense<1.0> : tensor<f32>
  %2 = nn.broadcast %c to [] : tensor<f32> -> tensor<2x3xf32>
  // Samples stay whole: u * 12 elements are 4u * 3, 2u * 6 and u * 3 * 4.
  // CHECK: nn.reshape %{{.*}} : tensor<?x12xf32, #nn.batch<0, 1>> -> tensor<?x3xf32, #nn.batch<0, 4>>
  %3 = nn.reshape %x : !row -> tensor<?x3xf32, #nn.batch<0, 4>>
  // CHECK: nn.reshape %{{.*}} : tensor<?x3xf32, #nn.batch<0, 4>> -> tensor<1x?x3x2xf32, #nn.batch<1, 2>>
  %4 = nn.reshape %3 : tensor<?x3xf32, #nn.batch<0, 4>> -> tensor<1x?x3x2xf32, #nn.batch<1, 2>>
  // CHECK: nn.transpose %{{.*}} by [1, 0] : tensor<?x12xf32, #nn.batch<0, 1>> -> tensor<12x?xf32, #nn.batch<1, 1>>
  %5 = nn.transpose %x by [1, 0] : !row -> tensor<12x?xf32, #nn.batch<1, 1>>
  // CHECK: nn.slice %{{.*}} from [0, 11] by [1, -4] : tensor<?x12xf32, #nn.batch<0, 1>> -> tensor<?x3xf32, #nn.batch<0, 1>>
  %6 = nn.slice %x from [0, 11] by [1, -4] : !row -> tensor<?x3xf32, #nn.batch<0, 1>>
  // CHECK: nn.slice %{{.*}} from [4, 0] by [1, 1] : tensor<4x6xf32> -> tensor<0x6xf32>
  %7 = nn.slice %pairs from [4, 0] by [1, 1] : tensor<4x6xf32> -> tensor<0x6xf32>
  // 3 elements, 2 between each two, 1 in front: 1 + 3 + 2 * 2 of 10.
  // CHECK: nn.pad %{{.*}} with %{{.*}} low [0, 1] interior [0, 2] : tensor<?x3xf32, #nn.batch<0, 1>>, tensor<f32> -> tensor<?x10xf32, #nn.batch<0, 1>>
  %8 = nn.pad %6 with %c low [0, 1] interior [0, 2] : tensor<?x3xf32, #nn.batch<0, 1>>, tensor<f32> -> tensor<?x10xf32, #nn.batch<0, 1>>
  // CHECK: nn.concat %{{.*}}, %{{.*}} along 1 : tensor<?x3xf32, #nn.batch<0, 1>>, tensor<?x10xf32, #nn.batch<0, 1>> -> tensor<?x13xf32, #nn.batch<0, 1>>
  %9 = nn.concat %6, %8 along 1 : tensor<?x3xf32, #nn.batch<0, 1>>, tensor<?x10xf32, #nn.batch<0, 1>> -> tensor<?x13xf32, #nn.batch<0, 1>>
  // CHECK: nn.reduce sum %{{.*}} over [0] : tensor<?x12xf32, #nn.batch<0, 1>> -> tensor<12xf32>
  %10 = nn.reduce sum %x over [0] : !row -> tensor<12xf32>
  // CHECK: nn.reduce max %{{.*}} over [1] : tensor<?x3xi64, #nn.batch<0, 1>> -> tensor<?xi64, #nn.batch<0, 1>>
  %11 = nn.reduce max %ids over [1] : tensor<?x3xi64, #nn.batch<0, 1>> -> tensor<?xi64, #nn.batch<0, 1>>
  // CHECK: nn.reduce min %{{.*}} over [1, 0] : tensor<4x6xf32> -> tensor<f32>
  %12 = nn.reduce min %pairs over [1, 0] : tensor<4x6xf32> -> tensor<f32>
  // The batch free, contracted and batched.
  // CHECK: nn.dot_general %{{.*}}, %{{.*}} batch [] x [] contract [1] x [0] : tensor<?x12xf32, #nn.batch<0, 1>>, tensor<12x7xf32> -> tensor<?x7xf32, #nn.batch<0, 1>>
  %m = nn.broadcast %v to [0] : tensor<12xf32> -> tensor<12x7xf32>
  %13 = nn.dot_general %x, %m batch [] x [] contract [1] x [0] : !row, tensor<12x7xf32> -> tensor<?x7xf32, #nn.batch<0, 1>>
  // CHECK: nn.dot_general %{{.*}}, %{{.*}} batch [] x [] contract [0] x [0] : tensor<?x12xf32, #nn.batch<0, 1>>, tensor<?x7xf32, #nn.batch<0, 1>> -> tensor<12x7xf32>
  %14 = nn.dot_general %x, %13 batch [] x [] contract [0] x [0] : !row, tensor<?x7xf32, #nn.batch<0, 1>> -> tensor<12x7xf32>
  // CHECK: nn.dot_general %{{.*}}, %{{.*}} batch [0] x [0] contract [] x [] : tensor<?x12xf32, #nn.batch<0, 1>>, tensor<?x7xf32, #nn.batch<0, 1>> -> tensor<?x12x7xf32, #nn.batch<0, 1>>
  %15 = nn.dot_general %x, %13 batch [0] x [0] contract [] x [] : !row, tensor<?x7xf32, #nn.batch<0, 1>> -> tensor<?x12x7xf32, #nn.batch<0, 1>>
  // CHECK: nn.gather %{{.*}} at %{{.*}} axis 0 batch 0 : tensor<7x5xf32>, tensor<?x3xi64, #nn.batch<0, 1>> -> tensor<?x3x5xf32, #nn.batch<0, 1>>
  %16 = nn.gather %table at %ids axis 0 batch 0 : tensor<7x5xf32>, tensor<?x3xi64, #nn.batch<0, 1>> -> tensor<?x3x5xf32, #nn.batch<0, 1>>
  // CHECK: nn.gather %{{.*}} at %{{.*}} axis 1 batch 1 : tensor<?x12xf32, #nn.batch<0, 1>>, tensor<?x3xi64, #nn.batch<0, 1>> -> tensor<?x3xf32, #nn.batch<0, 1>>
  %17 = nn.gather %x at %ids axis 1 batch 1 : !row, tensor<?x3xi64, #nn.batch<0, 1>> -> tensor<?x3xf32, #nn.batch<0, 1>>
  // CHECK: nn.scatter_add %{{.*}} at %{{.*}} axis 0 batch 0 : tensor<?x3x5xf32, #nn.batch<0, 1>>, tensor<?x3xi64, #nn.batch<0, 1>> -> tensor<7x5xf32>
  %18 = nn.scatter_add %16 at %ids axis 0 batch 0 : tensor<?x3x5xf32, #nn.batch<0, 1>>, tensor<?x3xi64, #nn.batch<0, 1>> -> tensor<7x5xf32>
  // CHECK: nn.iota 1 : tensor<?x12xi64, #nn.batch<0, 1>>
  %19 = nn.iota 1 : tensor<?x12xi64, #nn.batch<0, 1>>
  return
}

// CHECK-LABEL: func.func @composites
func.func @composites(%x: tensor<?x4x6xf32, #nn.batch<0, 1>>, %scale: tensor<6xf32>, %both: tensor<4x6xf32>,
                      %labels: tensor<?x4xi64, #nn.batch<0, 1>>) {
  // CHECK: nn.softmax %{{.*}} : tensor<?x4x6xf32, #nn.batch<0, 1>>
  %0 = nn.softmax %x : tensor<?x4x6xf32, #nn.batch<0, 1>>
  // CHECK: nn.batch_norm %{{.*}}, %{{.*}}, %{{.*}} epsilon 1.000000e-05 : tensor<?x4x6xf32, #nn.batch<0, 1>>, tensor<6xf32>, tensor<6xf32> -> tensor<?x4x6xf32, #nn.batch<0, 1>>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>
  %batch:4 = nn.batch_norm %x, %scale, %scale epsilon 1.0e-5 : tensor<?x4x6xf32, #nn.batch<0, 1>>, tensor<6xf32>, tensor<6xf32> -> tensor<?x4x6xf32, #nn.batch<0, 1>>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>
  // CHECK: nn.count 4 : tensor<6xf32>
  %count = nn.count 4 : tensor<6xf32>
  // CHECK: nn.layer_norm %{{.*}}, %{{.*}}, %{{.*}} axis 2 epsilon 1.000000e-05 : tensor<?x4x6xf32, #nn.batch<0, 1>>, tensor<6xf32>, tensor<6xf32> -> tensor<?x4x6xf32, #nn.batch<0, 1>>, tensor<?x4xf32, #nn.batch<0, 1>>, tensor<?x4xf32, #nn.batch<0, 1>>
  %1:3 = nn.layer_norm %x, %scale, %scale axis 2 epsilon 1.0e-5 : tensor<?x4x6xf32, #nn.batch<0, 1>>, tensor<6xf32>, tensor<6xf32> -> tensor<?x4x6xf32, #nn.batch<0, 1>>, tensor<?x4xf32, #nn.batch<0, 1>>, tensor<?x4xf32, #nn.batch<0, 1>>
  // Over two axes, without a shift.
  // CHECK: nn.layer_norm %{{.*}}, %{{.*}} axis 1 epsilon 1.000000e-01 : tensor<?x4x6xf32, #nn.batch<0, 1>>, tensor<4x6xf32> -> tensor<?x4x6xf32, #nn.batch<0, 1>>, tensor<?xf32, #nn.batch<0, 1>>, tensor<?xf32, #nn.batch<0, 1>>
  %2:3 = nn.layer_norm %x, %both axis 1 epsilon 0.1 : tensor<?x4x6xf32, #nn.batch<0, 1>>, tensor<4x6xf32> -> tensor<?x4x6xf32, #nn.batch<0, 1>>, tensor<?xf32, #nn.batch<0, 1>>, tensor<?xf32, #nn.batch<0, 1>>
  // CHECK: nn.gelu %{{.*}} : tensor<?x4x6xf32, #nn.batch<0, 1>>
  %3 = nn.gelu %x : tensor<?x4x6xf32, #nn.batch<0, 1>>
  // CHECK: nn.gelu tanh %{{.*}} : tensor<?x4x6xf32, #nn.batch<0, 1>>
  %4 = nn.gelu tanh %x : tensor<?x4x6xf32, #nn.batch<0, 1>>
  // CHECK: nn.cross_entropy %{{.*}}, %{{.*}} ignore -100 : tensor<?x4x6xf32, #nn.batch<0, 1>>, tensor<?x4xi64, #nn.batch<0, 1>> -> tensor<?x4xf32, #nn.batch<0, 1>>, tensor<?x4xf32, #nn.batch<0, 1>>
  %5:2 = nn.cross_entropy %x, %labels ignore -100 : tensor<?x4x6xf32, #nn.batch<0, 1>>, tensor<?x4xi64, #nn.batch<0, 1>> -> tensor<?x4xf32, #nn.batch<0, 1>>, tensor<?x4xf32, #nn.batch<0, 1>>
  // CHECK: nn.cross_entropy %{{.*}}, %{{.*}} : tensor<?x4x6xf32, #nn.batch<0, 1>>
  %6:2 = nn.cross_entropy %x, %labels : tensor<?x4x6xf32, #nn.batch<0, 1>>, tensor<?x4xi64, #nn.batch<0, 1>> -> tensor<?x4xf32, #nn.batch<0, 1>>, tensor<?x4xf32, #nn.batch<0, 1>>
  %sum = nn.reduce sum %5#0 over [0, 1] : tensor<?x4xf32, #nn.batch<0, 1>> -> tensor<f32>
  // CHECK: nn.loss %{{.*}} over %{{.*}} : tensor<f32> scale 5.000000e-01 count 1.000000e+00 : tensor<f32>
  nn.loss %sum over %sum : tensor<f32> scale 0.5 count 1.0 : tensor<f32>
  // CHECK: nn.loss %{{.*}} scale 1.000000e+00 count 4.000000e+00 : tensor<f32>
  nn.loss %sum scale 1.0 count 4.0 : tensor<f32>
  // CHECK: nn.loss %{{.*}} scale 1.000000e+00 count 1.000000e+00 constant : tensor<f32>
  nn.loss %sum scale 1.0 count 1.0 constant : tensor<f32>
  return
}

// CHECK-LABEL: func.func @groups
func.func @groups(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  // CHECK: %[[SUM:.*]]:2 = nn.group (%[[A:.*]] = %{{.*}}, %[[B:.*]] = %{{.*}}) : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) attributes {note = "two"} {
  // CHECK-NEXT: %[[R:.*]] = arith.addf %[[A]], %[[B]]
  // CHECK-NEXT: nn.yield %[[R]], %[[A]] : tensor<4xf32>, tensor<4xf32>
  // CHECK-NEXT: }
  %0:2 = nn.group (%a = %x, %b = %y) : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) attributes {note = "two"} {
    %1 = arith.addf %a, %b : tensor<4xf32>
    nn.yield %1, %a : tensor<4xf32>, tensor<4xf32>
  }
  // CHECK: nn.group () : () -> () {
  // CHECK-NEXT: nn.yield
  nn.group () : () -> () {
    nn.yield
  }
  return %0#0, %0#1 : tensor<4xf32>, tensor<4xf32>
}

// CHECK-LABEL: func.func @random
func.func @random(%keys: tensor<?x3xi64, #nn.batch<0, 1>>, %stream: tensor<i64>, %x: tensor<4x?xi64, #nn.batch<1, 1>>) {
  // CHECK: nn.random %{{.*}} stream %{{.*}} axis 1 : tensor<?x3xi64, #nn.batch<0, 1>>, tensor<i64> -> tensor<4x?xi64, #nn.batch<1, 1>>
  %0 = nn.random %keys stream %stream axis 1 : tensor<?x3xi64, #nn.batch<0, 1>>, tensor<i64> -> tensor<4x?xi64, #nn.batch<1, 1>>
  // CHECK: nn.by_mode %{{.*}} or %{{.*}} : tensor<4x?xi64, #nn.batch<1, 1>>
  %1 = nn.by_mode %0 or %x : tensor<4x?xi64, #nn.batch<1, 1>>
  return
}
