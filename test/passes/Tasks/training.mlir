// The tasks of a training step: forward, forward again, backward, update, prologue.
// RUN: harmony-opt %s --harmony-form-layers --harmony-differentiate --harmony-form-groups --harmony-lower-tasks="batch=4 microbatch=2" | FileCheck %s

// The prologue knows the minibatch: 4 samples of 8 floats. Seeds are 1 / (8 * 4) in the end.
// CHECK-LABEL: harmony.task @host.prologue slots
// CHECK-SAME:    [#harmony.slot<argument 0, 128>, #harmony.slot<result 0, 4>, #harmony.slot<result 1, 4>] {

// Both layers read the weight: two gradients, added in the order of the layers; the parameter is updated in place.
// CHECK-LABEL: harmony.task @update.sgd.uses2 slots
// CHECK-SAME:    [#harmony.slot<parameter 0, 192>, #harmony.slot<gradient 0, 192>, #harmony.slot<gradient 1, 192>, #harmony.slot<scalar 0, 4>] {
// CHECK-NEXT:    harmony.launch @map_{{.*}} [#harmony.ref<0 + 0, 192, rw>, #harmony.ref<1 + 0, 192, r>, #harmony.ref<2 + 0, 192, r>, #harmony.ref<3 + 0, 4, r>] extent 48 grain 16384 family update
// CHECK-NEXT:  }

// CHECK-LABEL: harmony.task @layer_0.u2 slots
// CHECK-SAME:    [#harmony.slot<argument 0, 192>, #harmony.slot<argument 1, 64>, #harmony.slot<result 0, 48>] {
// CHECK-NEXT:    harmony.gemm [#harmony.ref<1 + 0, 64, r>, #harmony.ref<0 + 0, 192, r>, #harmony.ref<2 + 0, 48, w>] shape [2, 6, 8] leading [8, 6, 6]
// CHECK-NEXT:  }
// CHECK-LABEL: harmony.task @layer_0.again.u2
// CHECK:         harmony.gemm

// x^T dy is added to the gradient in place.
// CHECK-LABEL: harmony.task @layer_0.bwd.u2 slots
// CHECK-SAME:    [#harmony.slot<argument 1, 64>, #harmony.slot<cotangent 0, 48>, #harmony.slot<gradient 0, 192>] {
// CHECK-NEXT:    harmony.gemm [#harmony.ref<0 + 0, 64, r>, #harmony.ref<1 + 0, 48, r>, #harmony.ref<2 + 0, 192, rw>] shape [8, 6, 2] leading [8, 6, 6] {{.*}} transA accumulate
// CHECK-NEXT:  }

// The numerator is added to the loss accumulator; the product is computed where it is saved.
// CHECK-LABEL: harmony.task @layer_1.u2 slots
// CHECK-SAME:    [#harmony.slot<argument 0, 192>, #harmony.slot<argument 1, 48>, #harmony.slot<result 0, 4>, #harmony.slot<saved 0, 64>, #harmony.slot<workspace 0, 48>] {
// CHECK-NEXT:    harmony.launch {{.*}} [#harmony.ref<1 + 0, 48, r>, #harmony.ref<4 + 0, 48, w>]
// CHECK-NEXT:    harmony.gemm [#harmony.ref<4 + 0, 48, r>, #harmony.ref<0 + 0, 192, r>, #harmony.ref<3 + 0, 64, w>] shape [2, 8, 6] leading [6, 6, 8] {{.*}} transB
// CHECK:         #harmony.ref<2 + 0, 4, rw>]
// CHECK-NEXT:  }

// Computed again, the loss is not added a second time.
// CHECK-LABEL: harmony.task @layer_1.again.u2 slots
// CHECK-SAME:    [#harmony.slot<argument 0, 192>, #harmony.slot<argument 1, 48>, #harmony.slot<saved 0, 64>, #harmony.slot<workspace 0, 48>] {
// CHECK-NOT:     rw>
// CHECK:       }

// dy (64 bytes) lives to the end and lies at 0; the gradient of gelu's result (48) at 64 is read by the kernel that makes
// gelu's result again (48) at 128, for the product behind it: 128 + 48 bytes. Gradient 1 is written, not added to.
// CHECK-LABEL: harmony.task @layer_1.bwd.u2 slots
// CHECK-SAME:    #harmony.slot<gradient 0, 192>, #harmony.slot<gradient 1, 48>, #harmony.slot<workspace 0, 176>] {
// CHECK-NEXT:    harmony.launch {{.*}} [#harmony.ref<3 + 0, 4, r>, #harmony.ref<2 + 0, 64, r>, #harmony.ref<6 + 0, 64, w>]
// CHECK-NEXT:    harmony.gemm [#harmony.ref<6 + 0, 64, r>, #harmony.ref<0 + 0, 192, r>, #harmony.ref<6 + 64, 48, w>] shape [2, 6, 8]
// CHECK-NEXT:    harmony.launch {{.*}} [#harmony.ref<1 + 0, 48, r>, #harmony.ref<6 + 128, 48, w>, #harmony.ref<6 + 64, 48, r>, #harmony.ref<5 + 0, 48, w>]
// CHECK-NEXT:    harmony.gemm [#harmony.ref<6 + 0, 64, r>, #harmony.ref<6 + 128, 48, r>, #harmony.ref<4 + 0, 192, rw>] shape [8, 6, 2] {{.*}} transA accumulate
// CHECK-NEXT:  }
!x = tensor<?x8xf32, #nn.batch<0, 1>>
nn.variable <parameter> @w : tensor<8x6xf32>
nn.variable <scalar> @rate : tensor<f32>
func.func private @sgd(%p: tensor<8x6xf32>, %g: tensor<8x6xf32>, %rate: tensor<f32>) -> tensor<8x6xf32> {
  %0 = nn.broadcast %rate to [] : tensor<f32> -> tensor<8x6xf32>
  %1 = arith.mulf %g, %0 : tensor<8x6xf32>
  %2 = arith.subf %p, %1 : tensor<8x6xf32>
  return %2 : tensor<8x6xf32>
}
nn.optimize @w by @sgd states [] scalars [@rate]
func.func @main(%x: !x {nn.name = "x"}) {
  %w = nn.get @w : tensor<8x6xf32>
  %0 = nn.dot_general %x, %w batch [] x [] contract [1] x [0] : !x, tensor<8x6xf32> -> tensor<?x6xf32, #nn.batch<0, 1>>
  %1 = nn.gelu %0 : tensor<?x6xf32, #nn.batch<0, 1>>
  %2 = nn.dot_general %1, %w batch [] x [] contract [1] x [1] : tensor<?x6xf32, #nn.batch<0, 1>>, tensor<8x6xf32> -> !x
  %3 = arith.mulf %2, %2 : !x
  %4 = nn.reduce sum %3 over [0, 1] : !x -> tensor<f32>
  nn.loss %4 scale 1.0 count 8.0 : tensor<f32>
  return
}
