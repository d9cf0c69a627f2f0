// The gradient of a transposed convolution's weight, more outputs than positions in a window: the windows have the outputs
// innermost, the weight the positions. The product computes a weight that is ordered like the windows, which is copied.
// RUN: harmony-opt %s --harmony-lower-tasks="batch=4 microbatch=4 evaluate=true" | FileCheck %s

!x = tensor<?x16x16x24xf32, #nn.batch<0, 1>>
!y = tensor<?x32x32x32xf32, #nn.batch<0, 1>>
!w = tensor<24x32x2x2xf32>
func.func @evaluate(%x: !x {nn.name = "x"}, %d: !y {nn.name = "d"}) -> (!w {nn.name = "dw"}) {
  %0 = call @weight(%x, %d) {nn.layer_name = "w"} : (!x, !y) -> !w
  return %0 : !w
}

// CHECK-LABEL: harmony.task @weight.eval.u4 slots
// CHECK-SAME:    [#harmony.slot<argument 0, 98304>, #harmony.slot<argument 1, 524288>, #harmony.slot<result 0, 12288>, #harmony.slot<workspace 0, 536576>] {
// CHECK-NEXT:    harmony.launch @window_{{[0-9a-f]+}} [#harmony.ref<1 + 0, 524288, r>, #harmony.ref<3 + 0, 524288, w>]
// CHECK-NEXT:    harmony.gemm [#harmony.ref<0 + 0, 98304, r>, #harmony.ref<3 + 0, 524288, r>, #harmony.ref<3 + 524288, 12288, w>] shape [24, 128, 1024] leading [24, 128, 128] batch [1, 1, 1] {{.*}} transA
// CHECK-NEXT:    harmony.launch @copy_{{[0-9a-f]+}} [#harmony.ref<3 + 524288, 12288, r>, #harmony.ref<2 + 0, 12288, w>]
// CHECK-NEXT:  }
func.func private @weight(%x: !x, %d: !y) -> !w attributes {nn.layer} {
  %0 = nn.window %d axis 1 kernel [2, 2] strides [2, 2] dilations [1, 1] low [0, 0] : !y -> tensor<?x16x16x2x2x32xf32, #nn.batch<0, 1>>
  %1 = nn.transpose %0 by [0, 1, 2, 5, 3, 4] : tensor<?x16x16x2x2x32xf32, #nn.batch<0, 1>> -> tensor<?x16x16x32x2x2xf32, #nn.batch<0, 1>>
  %2 = nn.dot_general %x, %1 batch [] x [] contract [0, 1, 2] x [0, 1, 2] : !x, tensor<?x16x16x32x2x2xf32, #nn.batch<0, 1>> -> !w
  return %2 : !w
}
