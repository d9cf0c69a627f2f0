// RUN: harmony-opt --harmony-emit-host-kernels --harmony-lower-host-kernels %s | FileCheck %s

// Polynomials instead of functions, no fast-math, and fused multiply-adds only where a
// polynomial asks for them.
// CHECK-NOT: math.
// CHECK-NOT: fastmath
// CHECK-NOT: llvm.intr.exp
// CHECK: llvm.intr.fma({{.*}}) : (vector<32xf32>, vector<32xf32>, vector<32xf32>)
// CHECK: llvm.intr.fma({{.*}}) : (f32, f32, f32)
// CHECK-NOT: unrealized
func.func @exp(%x: tensor<5x7xf32>) -> tensor<5x7xf32> {
  %0 = math.exp %x : tensor<5x7xf32>
  return %0 : tensor<5x7xf32>
}
