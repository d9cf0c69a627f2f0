// RUN: harmony-opt --harmony-emit-host-kernels --split-input-file %s | FileCheck %s

// Three passes over a row of 100 = 96 + 4: the maximum; the exponentials, which are kept in a buffer on
// the stack, and their sum; the product. Lanes are combined by halving before the tail.
// CHECK: codegen.softmax = [{arguments = ["operand 0", "result 0 written"], extent = 6 : i64, function = @row_
// CHECK: llvm.alloca {{.*}} x i8 {alignment = 64 : i64}
// CHECK: scf.for %[[ROW:.*]] = %{{.*}} to %{{.*}} step
// CHECK: scf.for {{.*}} iter_args(%{{.*}}) -> (vector<32xf32>)
// CHECK: arith.cmpf ogt, {{.*}} : vector<32xf32>
// CHECK: arith.select {{.*}} : vector<32xi1>, vector<32xf32>
// CHECK: arith.cmpf uno, {{.*}} : vector<32xf32>
// CHECK: vector.shuffle %{{.*}} [16, 17,
// CHECK: arith.cmpf ogt, {{.*}} : vector<16xf32>
// CHECK: arith.cmpf ogt, {{.*}} : vector<8xf32>
// CHECK: arith.cmpf ogt, {{.*}} : vector<4xf32>
// CHECK: arith.cmpf ogt, {{.*}} : vector<2xf32>
// CHECK: arith.cmpf ogt, {{.*}} : vector<1xf32>
// CHECK: scf.for {{.*}} iter_args(%{{.*}}) -> (f32)
// CHECK: arith.cmpf ogt, {{.*}} : f32
// CHECK: math.exp {{.*}} : vector<32xf32>
// CHECK: llvm.store {{.*}} : vector<32xf32>
// CHECK: arith.addf {{.*}} : vector<32xf32>
// CHECK: math.exp {{.*}} : f32
// CHECK: arith.divf {{.*}} : f32
// CHECK-NOT: math.exp
// CHECK: arith.mulf {{.*}} : vector<32xf32>
func.func @softmax(%x: tensor<2x3x100xf32>) -> tensor<2x3x100xf32> {
  %0 = nn.softmax %x : tensor<2x3x100xf32>
  return %0 : tensor<2x3x100xf32>
}

// -----

// Rows too long for the stack: computed again instead.
// CHECK: codegen.long =
// CHECK-NOT: llvm.alloca
// CHECK: return
func.func @long(%x: tensor<2x9000xf32>) -> tensor<2x9000xf32> {
  %0 = nn.softmax %x : tensor<2x9000xf32>
  return %0 : tensor<2x9000xf32>
}

// -----

// Labels are compared with 32-bit indices in lanes, clamped so that the order stays.
// CHECK: codegen.onehot =
// CHECK: arith.constant -2147483648 : i64
// CHECK: arith.maxsi
// CHECK: arith.minsi
// CHECK: arith.trunci {{.*}} : i64 to i32
// CHECK: arith.cmpi eq, {{.*}} : vector<32xi32>
// CHECK: arith.cmpi eq, {{.*}} : i64
func.func @onehot(%l: tensor<6xi64>) -> tensor<6x40xi1> {
  %0 = nn.group (%a = %l) : (tensor<6xi64>) -> tensor<6x40xi1> {
    %1 = nn.iota 1 : tensor<6x40xi64>
    %2 = nn.broadcast %a to [0] : tensor<6xi64> -> tensor<6x40xi64>
    %3 = arith.cmpi eq, %1, %2 : tensor<6x40xi64>
    nn.yield %3 : tensor<6x40xi1>
  }
  return %0 : tensor<6x40xi1>
}
