// A gradient that is computed where it belongs, through a reshape that adds axes of one element, is not added a second time.
// RUN: harmony-opt %s --harmony-form-layers --harmony-differentiate --harmony-form-groups --harmony-lower-tasks="batch=4 microbatch=2" | FileCheck %s

// CHECK-LABEL: harmony.task @layer_0.bwd.u2 slots
// CHECK-COUNT-1: rw>
// CHECK-NOT:     rw>
// CHECK:       }
!x = tensor<?x1x6xf32, #nn.batch<0, 1>>
nn.variable <parameter> @query : tensor<1x1x6xf32>
nn.variable <scalar> @rate : tensor<f32>
func.func private @sgd(%p: tensor<1x1x6xf32>, %g: tensor<1x1x6xf32>, %rate: tensor<f32>) -> tensor<1x1x6xf32> {
  %0 = nn.broadcast %rate to [] : tensor<f32> -> tensor<1x1x6xf32>
  %1 = arith.mulf %g, %0 : tensor<1x1x6xf32>
  %2 = arith.subf %p, %1 : tensor<1x1x6xf32>
  return %2 : tensor<1x1x6xf32>
}
nn.optimize @query by @sgd states [] scalars [@rate]
func.func @main(%x: !x {nn.name = "x"}) {
  %q = nn.get @query : tensor<1x1x6xf32>
  %0 = nn.broadcast %q to [0, 1, 2] : tensor<1x1x6xf32> -> !x
  %1 = arith.mulf %0, %x : !x
  %2 = arith.mulf %1, %1 : !x
  %3 = nn.reduce sum %2 over [0, 1, 2] : !x -> tensor<f32>
  nn.loss %3 scale 1.000000e+00 count 6.000000e+00 : tensor<f32>
  return
}
