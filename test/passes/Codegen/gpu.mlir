// RUN: harmony-opt --harmony-emit-gpu-kernels %s | FileCheck %s
// RUN: harmony-opt --harmony-emit-gpu-kernels %s | harmony-opt --pass-pipeline='builtin.module(harmony-lower-gpu-kernels{chip=sm_90 format=isa})' | FileCheck %s --check-prefix=PTX

// A pointwise kernel: 32 elements to a warp, 4 warps to a block.
// CHECK: gpu.func @gelu(%{{.*}}: !llvm.ptr {llvm.noalias}, %{{.*}}: !llvm.ptr {llvm.noalias}, %{{.*}}: i64) kernel attributes {known_block_size = array<i32: 128, 1, 1>}
// CHECK: math.tanh {{.*}} : f32
func.func @gelu(%x: tensor<8x1024xf32>) -> tensor<8x1024xf32> {
  %0 = nn.gelu tanh %x : tensor<8x1024xf32>
  return %0 : tensor<8x1024xf32>
}

// A row kernel: a warp to a row; lanes are combined by the same tree as on the host.
// CHECK: gpu.func @softmax
// CHECK: gpu.shuffle xor {{.*}} : f32
// CHECK-COUNT-4: gpu.shuffle xor
func.func @softmax(%x: tensor<8x1000xf32>) -> tensor<8x1000xf32> {
  %0 = nn.softmax %x : tensor<8x1000xf32>
  return %0 : tensor<8x1000xf32>
}

// Loads through the read-only path, products and sums that ptxas may not fuse, no memory of a thread's own.
// PTX: .visible .entry gelu(
// PTX-NOT: .local
// PTX: ld.global.nc.b32
// PTX: mul.rn.f32
// PTX: fma.rn.f32
// PTX: .visible .entry softmax(
// PTX-NOT: .local
// PTX-COUNT-10: shfl.sync.bfly.b32
