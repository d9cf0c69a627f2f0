// RUN: harmony-opt --harmony-emit-host-kernels --split-input-file %s | FileCheck %s
// RUN: harmony-opt --harmony-emit-host-kernels=accumulate --split-input-file %s | FileCheck %s --check-prefix=ADD

// 130 rows are 3 chunks of 64, each with a partial row; a second launch over the columns adds
// the partials in order.
// CHECK: codegen.bias = [
// CHECK-SAME: arguments = ["operand 0", "temporary 0 written"], extent = 3 : i64, function = @[[CHUNKS:column_[0-9a-f]+]]
// CHECK-SAME: arguments = ["temporary 0", "result 0 written"], extent = 40 : i64, function = @[[TOTAL:map_[0-9a-f]+]]
// CHECK: func.func private @[[CHUNKS]].body
// CHECK: arith.constant 130 : i64
// CHECK: func.func private @[[TOTAL]].body
// CHECK: scf.for {{.*}} iter_args(%{{.*}} = %{{.*}}) -> (vector<32xf32>)
// CHECK: arith.addf {{.*}} : vector<32xf32>

// ADD: codegen.bias = [
// ADD: func.func private @map_
// ADD: scf.for {{.*}} -> (vector<32xf32>)
// ADD: scf.yield
// ADD: llvm.load {{.*}} -> vector<32xf32>
// ADD: arith.addf {{.*}} : vector<32xf32>
// ADD: llvm.store {{.*}} : vector<32xf32>
func.func @bias(%x: tensor<130x40xf32>) -> tensor<40xf32> {
  %0 = nn.reduce sum %x over [0] : tensor<130x40xf32> -> tensor<40xf32>
  return %0 : tensor<40xf32>
}

// -----

// One chunk needs no second launch, unless it is added to memory.
// CHECK: codegen.small = [{arguments = ["operand 0", "result 0 written"], extent = 1 : i64, function = @column_{{[0-9a-f]+}}, grain = {{[0-9]+}} : i64}]
// ADD: codegen.small = [{{.*}}"temporary 0 written"{{.*}}"temporary 0", "result 0 written"
func.func @small(%x: tensor<60x40xf32>) -> tensor<40xf32> {
  %0 = nn.reduce sum %x over [0] : tensor<60x40xf32> -> tensor<40xf32>
  return %0 : tensor<40xf32>
}
