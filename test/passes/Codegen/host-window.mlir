// RUN: harmony-opt --harmony-emit-host-kernels -split-input-file %s | FileCheck %s

// The range runs over windows, 2 * 4 * 4. Inside along the last axis, the three offsets are one run of 96 elements;
// at the borders each is looked at.
// CHECK: codegen.window = [{arguments = ["operand 0", "result 0 written"], extent = 32 : i64, function = @[[NAME:window_[0-9a-f]+]]
// CHECK: func.func private @[[NAME]].body
// CHECK: scf.if
// CHECK: scf.for %{{.*}} = %{{.*}} to %c96_i64{{.*}} step %c32_i64
// CHECK: llvm.load {{.*}} -> vector<32xf32>
func.func @window(%x: tensor<2x4x4x32xf32>) -> tensor<2x4x4x3x3x32xf32> {
  %0 = nn.window %x axis 1 kernel [3, 3] strides [1, 1] dilations [1, 1] low [1, 1] : tensor<2x4x4x32xf32> -> tensor<2x4x4x3x3x32xf32>
  return %0 : tensor<2x4x4x3x3x32xf32>
}

// -----

// The range of a fold runs over the image: every element gathers its windows, so that ranges do not meet.
// CHECK: codegen.fold = [{arguments = ["operand 0", "result 0 written"], extent = 10 : i64
// CHECK: arith.addf {{.*}} : vector<32xf32>
func.func @fold(%x: tensor<2x3x3x32xf32>) -> tensor<2x5x32xf32> {
  %0 = nn.fold %x axis 1 kernel [3] strides [2] dilations [1] low [1] : tensor<2x3x3x32xf32> -> tensor<2x5x32xf32>
  return %0 : tensor<2x5x32xf32>
}

// -----

// CHECK: codegen.pool = [{arguments = ["operand 0", "result 0 written", "result 1 written"], extent = 4 : i64
// CHECK: arith.cmpf ogt
// CHECK: arith.cmpf uno
// CHECK: arith.select {{.*}} : vector<32xi1>, vector<32xi8>
func.func @pool(%x: tensor<2x4x32xf32>) -> (tensor<2x2x32xf32>, tensor<2x2x32xi8>) {
  %0, %1 = nn.max_pool %x axis 1 kernel [2] strides [2] dilations [1] low [0] : tensor<2x4x32xf32> -> tensor<2x2x32xf32>, tensor<2x2x32xi8>
  return %0, %1 : tensor<2x2x32xf32>, tensor<2x2x32xi8>
}
