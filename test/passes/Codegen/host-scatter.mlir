// RUN: harmony-opt --harmony-emit-host-kernels %s | FileCheck %s

// Rows of the result are the range; indices are kept inside of the table and every one is looked at.
// CHECK: codegen.scatter = [{arguments = ["operand 0", "operand 1", "result 0 written"], extent = 11 : i64, function = @[[NAME:scatter_[0-9a-f]+]]
// CHECK: func.func private @[[NAME]].body
// CHECK: arith.maxsi
// CHECK: arith.minsi
// CHECK: scf.if
// CHECK: arith.addf {{.*}} : vector<32xf32>
func.func @scatter(%i: tensor<7xi64>, %u: tensor<7x64xf32>) -> tensor<11x64xf32> {
  %0 = nn.scatter_add %u at %i axis 0 batch 0 : tensor<7x64xf32>, tensor<7xi64> -> tensor<11x64xf32>
  return %0 : tensor<11x64xf32>
}
