// Contributions of gradients to a scalar that updates wait for, and the host's task that computes it.
// RUN: harmony-opt %s --harmony-verify-normalized --harmony-form-layers --harmony-differentiate --harmony-form-groups --harmony-lower-tasks="batch=4 microbatch=2" | FileCheck %s

// Two uses are added first. What the sum needs beside its operands lies behind the scalar, from byte 64 on; what is
// copied with it is defined.
// CHECK-LABEL: harmony.task @contribution.square.uses2 slots
// CHECK-SAME:    [#harmony.slot<gradient 0, 1228800>, #harmony.slot<gradient 1, 1228800>, #harmony.slot<result 0, [[BYTES:[0-9]+]]>] {
// CHECK-NEXT:    harmony.fill <2 + 0, [[BYTES]], w> value 0
// CHECK-NEXT:    harmony.launch @{{.*}} [#harmony.ref<0 + 0, 1228800, r>, #harmony.ref<1 + 0, 1228800, r>, #harmony.ref<2 + 64, {{[0-9]+}}, w>] {{.*}} family update
// CHECK-NEXT:    harmony.launch @{{.*}} [#harmony.ref<2 + 64, {{[0-9]+}}, r>, #harmony.ref<2 + 0, 4, w>] extent 1 {{.*}} family update
// CHECK-NEXT:  }
// CHECK-LABEL: harmony.task @contribution.small slots
// CHECK-SAME:    [#harmony.slot<gradient 0, 1200>, #harmony.slot<result 0, 4>] {

// The chain reads the weight first, whatever the order of the operands: contribution 0 is its. Results are written last.
// CHECK-LABEL: harmony.task @host.epilogue slots
// CHECK-SAME:    [#harmony.slot<argument 1, 4>, #harmony.slot<argument 0, 4>, #harmony.slot<argument 2, 4>, #harmony.slot<result 0, 4>, #harmony.slot<workspace 0, 4>] {
!x = tensor<?x300xf32, #nn.batch<0, 1>>
!y = tensor<?x1024xf32, #nn.batch<0, 1>>
nn.variable <parameter> @w : tensor<300x1024xf32>
nn.variable <parameter> @bias : tensor<300xf32>
nn.variable <scalar> @rate : tensor<f32>
nn.variable <scalar> @factor : tensor<f32>
func.func private @sgd(%p: tensor<300x1024xf32>, %g: tensor<300x1024xf32>, %rate: tensor<f32>) -> tensor<300x1024xf32> {
  %0 = nn.broadcast %rate to [] : tensor<f32> -> tensor<300x1024xf32>
  %1 = arith.mulf %g, %0 : tensor<300x1024xf32>
  %2 = arith.subf %p, %1 : tensor<300x1024xf32>
  return %2 : tensor<300x1024xf32>
}
func.func private @sgd_bias(%p: tensor<300xf32>, %g: tensor<300xf32>, %rate: tensor<f32>) -> tensor<300xf32> {
  %0 = nn.broadcast %rate to [] : tensor<f32> -> tensor<300xf32>
  %1 = arith.mulf %g, %0 : tensor<300xf32>
  %2 = arith.subf %p, %1 : tensor<300xf32>
  return %2 : tensor<300xf32>
}
func.func private @square(%g: tensor<300x1024xf32>) -> tensor<f32> {
  %0 = arith.mulf %g, %g : tensor<300x1024xf32>
  %1 = nn.reduce sum %0 over [1] : tensor<300x1024xf32> -> tensor<300xf32>
  %2 = nn.reduce sum %1 over [0] : tensor<300xf32> -> tensor<f32>
  return %2 : tensor<f32>
}
func.func private @small(%g: tensor<300xf32>) -> tensor<f32> {
  %0 = arith.mulf %g, %g : tensor<300xf32>
  %1 = nn.reduce sum %0 over [0] : tensor<300xf32> -> tensor<f32>
  return %1 : tensor<f32>
}
func.func private @clip(%bias: tensor<f32>, %w: tensor<f32>, %rate: tensor<f32>) -> tensor<f32> {
  %0 = arith.addf %bias, %w : tensor<f32>
  %1 = math.sqrt %0 : tensor<f32>
  %2 = arith.divf %rate, %1 : tensor<f32>
  return %2 : tensor<f32>
}
nn.optimize @w by @sgd states [] scalars [@factor]
nn.optimize @bias by @sgd_bias states [] scalars [@factor]
nn.contribution @w by @square
nn.contribution @bias by @small
nn.epilogue @clip contributions [@bias, @w] reads [@rate] writes [@factor]
func.func @main(%x: !x {nn.name = "x"}) {
  %w = nn.get @w : tensor<300x1024xf32>
  %bias = nn.get @bias : tensor<300xf32>
  %0 = nn.dot_general %x, %w batch [] x [] contract [1] x [0] : !x, tensor<300x1024xf32> -> !y
  %1 = nn.gelu %0 : !y
  %2 = nn.dot_general %1, %w batch [] x [] contract [1] x [1] : !y, tensor<300x1024xf32> -> !x
  %b = nn.broadcast %bias to [1] : tensor<300xf32> -> !x
  %3 = arith.addf %2, %b : !x
  %4 = arith.mulf %3, %3 : !x
  %5 = nn.reduce sum %4 over [0, 1] : !x -> tensor<f32>
  nn.loss %5 scale 1.0 count 8.0 : tensor<f32>
  return
}
