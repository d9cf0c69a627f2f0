// RUN: harmony-opt --harmony-emit-host-kernels --split-input-file %s | FileCheck %s

// All axes fuse into one: the range is the elements, 32 at a time, the rest one by one.
// CHECK: module attributes {codegen.gelu = [{arguments = ["operand 0", "result 0 written"], extent = 320 : i64, function = @[[NAME:map_[0-9a-f]+]], grain = 16384 : i64}]}
// CHECK: func.func private @[[NAME]].body(%[[X:.*]]: !llvm.ptr {llvm.noalias}, %[[Y:.*]]: !llvm.ptr {llvm.noalias}, %[[BEGIN:.*]]: i64, %[[END:.*]]: i64)
// CHECK: scf.for {{.*}} = %[[BEGIN]] to %[[MIDDLE:.*]] step %c32_i64
// CHECK: llvm.load {{.*}} -> vector<32xf32>
// CHECK: math.tanh {{.*}} : vector<32xf32>
// CHECK: llvm.store {{.*}} : vector<32xf32>
// CHECK: scf.for {{.*}} = %[[MIDDLE]] to %[[END]] step %c1_i64
// CHECK: math.tanh {{.*}} : f32
// CHECK: func.func @[[NAME]](%{{.*}}: !llvm.ptr, %{{.*}}: i64, %{{.*}}: i64)
// CHECK: call @[[NAME]].body
func.func @gelu(%x: tensor<5x64xf32>) -> tensor<5x64xf32> {
  %0 = nn.group (%a = %x) : (tensor<5x64xf32>) -> tensor<5x64xf32> {
    %1 = nn.gelu tanh %a : tensor<5x64xf32>
    nn.yield %1 : tensor<5x64xf32>
  }
  return %0 : tensor<5x64xf32>
}

// -----

// The same kernel twice is one function: the number of rows is not part of it.
// CHECK-DAG: codegen.a = [{{.*}}extent = 6 : i64, function = @[[NAME:map_[0-9a-f]+]]
// CHECK-DAG: codegen.b = [{{.*}}extent = 9 : i64, function = @[[NAME]]
// CHECK-COUNT-1: func.func @
// CHECK-NOT: func.func @
func.func @a(%x: tensor<6x40xf32>, %b: tensor<40xf32>) -> tensor<6x40xf32> {
  %0 = nn.group (%u = %x, %v = %b) : (tensor<6x40xf32>, tensor<40xf32>) -> tensor<6x40xf32> {
    %1 = nn.broadcast %v to [1] : tensor<40xf32> -> tensor<6x40xf32>
    %2 = arith.addf %u, %1 : tensor<6x40xf32>
    nn.yield %2 : tensor<6x40xf32>
  }
  return %0 : tensor<6x40xf32>
}
func.func @b(%x: tensor<9x40xf32>, %b: tensor<40xf32>) -> tensor<9x40xf32> {
  %0 = nn.group (%u = %x, %v = %b) : (tensor<9x40xf32>, tensor<40xf32>) -> tensor<9x40xf32> {
    %1 = nn.broadcast %v to [1] : tensor<40xf32> -> tensor<9x40xf32>
    %2 = arith.addf %u, %1 : tensor<9x40xf32>
    nn.yield %2 : tensor<9x40xf32>
  }
  return %0 : tensor<9x40xf32>
}

// -----

// A transposed read: axes that no access walks through together stay apart, and the
// operand is gathered with its stride of 3.
// CHECK: codegen.transpose = [{{.*}}extent = 3 : i64
// CHECK: llvm.intr.masked.gather
// CHECK: llvm.store {{.*}} : vector<32xf32>
func.func @transpose(%x: tensor<40x3xf32>) -> tensor<3x40xf32> {
  %0 = nn.transpose %x by [1, 0] : tensor<40x3xf32> -> tensor<3x40xf32>
  return %0 : tensor<3x40xf32>
}

// -----

// A boolean is a byte in memory.
// CHECK: codegen.compare =
// CHECK: arith.cmpf ogt, {{.*}} : vector<32xf32>
// CHECK: arith.extui {{.*}} : vector<32xi1> to vector<32xi8>
// CHECK: llvm.store {{.*}} : vector<32xi8>
func.func @compare(%x: tensor<64xf32>, %y: tensor<64xf32>) -> tensor<64xi1> {
  %0 = arith.cmpf ogt, %x, %y : tensor<64xf32>
  return %0 : tensor<64xi1>
}
