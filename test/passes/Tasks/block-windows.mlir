// Windows of three of seven samples have 3 * 64 * 64 * 72 * 4 = 3538944 bytes, of four more than 4 MiB: blocks of 2, 2 and 3
// samples take turns in the same workspace. A gradient of a weight is a sum of products, the first of which stores.
// RUN: harmony-opt %s --harmony-lower-tasks="batch=7 microbatch=7 evaluate=true" | FileCheck %s

// CHECK-LABEL: harmony.task @forward.eval.u7 slots
// CHECK-SAME:    [#harmony.slot<argument 0, 917504>, #harmony.slot<argument 1, 4608>, #harmony.slot<result 0, 1835008>, #harmony.slot<workspace 0, 3538944>] {
// CHECK-NEXT:    harmony.launch @window_{{[0-9a-f]+}} [#harmony.ref<0 + 0, 262144, r>, #harmony.ref<3 + 0, 2359296, w>] extent 8192
// CHECK-NEXT:    harmony.gemm [#harmony.ref<3 + 0, 2359296, r>, #harmony.ref<1 + 0, 4608, r>, #harmony.ref<2 + 0, 524288, w>] shape [8192, 16, 72] {{.*}} transB
// CHECK-NEXT:    harmony.launch @window_{{[0-9a-f]+}} [#harmony.ref<0 + 262144, 262144, r>, #harmony.ref<3 + 0, 2359296, w>] extent 8192
// CHECK-NEXT:    harmony.gemm [#harmony.ref<3 + 0, 2359296, r>, #harmony.ref<1 + 0, 4608, r>, #harmony.ref<2 + 524288, 524288, w>] shape [8192, 16, 72] {{.*}} transB
// CHECK-NEXT:    harmony.launch @window_{{[0-9a-f]+}} [#harmony.ref<0 + 524288, 393216, r>, #harmony.ref<3 + 0, 3538944, w>] extent 12288
// CHECK-NEXT:    harmony.gemm [#harmony.ref<3 + 0, 3538944, r>, #harmony.ref<1 + 0, 4608, r>, #harmony.ref<2 + 1048576, 786432, w>] shape [12288, 16, 72] {{.*}} transB
// CHECK-NEXT:  }
// CHECK-LABEL: harmony.task @image.eval.u7 slots
// CHECK-SAME:    [#harmony.slot<argument 0, 1835008>, #harmony.slot<argument 1, 4608>, #harmony.slot<result 0, 917504>, #harmony.slot<workspace 0, 3538944>] {
// CHECK-NEXT:    harmony.gemm [#harmony.ref<0 + 0, 524288, r>, #harmony.ref<1 + 0, 4608, r>, #harmony.ref<3 + 0, 2359296, w>] shape [8192, 72, 16]
// CHECK-NEXT:    harmony.launch @window_{{[0-9a-f]+}} [#harmony.ref<3 + 0, 2359296, r>, #harmony.ref<2 + 0, 262144, w>] extent 8192
// CHECK-NEXT:    harmony.gemm [#harmony.ref<0 + 524288, 524288, r>, #harmony.ref<1 + 0, 4608, r>, #harmony.ref<3 + 0, 2359296, w>] shape [8192, 72, 16]
// CHECK-NEXT:    harmony.launch @window_{{[0-9a-f]+}} [#harmony.ref<3 + 0, 2359296, r>, #harmony.ref<2 + 262144, 262144, w>] extent 8192
// CHECK-NEXT:    harmony.gemm [#harmony.ref<0 + 1048576, 786432, r>, #harmony.ref<1 + 0, 4608, r>, #harmony.ref<3 + 0, 3538944, w>] shape [12288, 72, 16]
// CHECK-NEXT:    harmony.launch @window_{{[0-9a-f]+}} [#harmony.ref<3 + 0, 3538944, r>, #harmony.ref<2 + 524288, 393216, w>] extent 12288
// CHECK-NEXT:  }
// CHECK-LABEL: harmony.task @weight.eval.u7 slots
// CHECK-SAME:    [#harmony.slot<argument 0, 917504>, #harmony.slot<argument 1, 1835008>, #harmony.slot<result 0, 4608>, #harmony.slot<workspace 0, 3538944>] {
// CHECK-NEXT:    harmony.launch @window_{{[0-9a-f]+}} [#harmony.ref<0 + 0, 262144, r>, #harmony.ref<3 + 0, 2359296, w>] extent 8192
// CHECK-NEXT:    harmony.gemm [#harmony.ref<1 + 0, 524288, r>, #harmony.ref<3 + 0, 2359296, r>, #harmony.ref<2 + 0, 4608, w>] shape [16, 72, 8192] {{.*}} transA{{$}}
// CHECK-NEXT:    harmony.launch @window_{{[0-9a-f]+}} [#harmony.ref<0 + 262144, 262144, r>, #harmony.ref<3 + 0, 2359296, w>] extent 8192
// CHECK-NEXT:    harmony.gemm [#harmony.ref<1 + 524288, 524288, r>, #harmony.ref<3 + 0, 2359296, r>, #harmony.ref<2 + 0, 4608, rw>] shape [16, 72, 8192] {{.*}} transA accumulate
// CHECK-NEXT:    harmony.launch @window_{{[0-9a-f]+}} [#harmony.ref<0 + 524288, 393216, r>, #harmony.ref<3 + 0, 3538944, w>] extent 12288
// CHECK-NEXT:    harmony.gemm [#harmony.ref<1 + 1048576, 786432, r>, #harmony.ref<3 + 0, 3538944, r>, #harmony.ref<2 + 0, 4608, rw>] shape [16, 72, 12288] {{.*}} transA accumulate
// CHECK-NEXT:  }
!x = tensor<?x64x64x8xf32, #nn.batch<0, 1>>
!v = tensor<?x64x64x3x3x8xf32, #nn.batch<0, 1>>
!y = tensor<?x64x64x16xf32, #nn.batch<0, 1>>
!w = tensor<16x3x3x8xf32>
func.func @evaluate(%x: !x {nn.name = "x"}, %d: !y {nn.name = "d"}, %w: !w {nn.name = "w"}) -> (!y {nn.name = "y"}, !x {nn.name = "dx"}, !w {nn.name = "dw"}) {
  %0 = call @forward(%x, %w) {nn.layer_name = "f"} : (!x, !w) -> !y
  %1 = call @image(%d, %w) {nn.layer_name = "i"} : (!y, !w) -> !x
  %2 = call @weight(%x, %d) {nn.layer_name = "w"} : (!x, !y) -> !w
  return %0, %1, %2 : !y, !x, !w
}

func.func private @forward(%x: !x, %w: !w) -> !y attributes {nn.layer} {
  %0 = nn.window %x axis 1 kernel [3, 3] strides [1, 1] dilations [1, 1] low [1, 1] : !x -> !v
  %1 = nn.dot_general %0, %w batch [] x [] contract [3, 4, 5] x [1, 2, 3] : !v, !w -> !y
  return %1 : !y
}

func.func private @image(%d: !y, %w: !w) -> !x attributes {nn.layer} {
  %0 = nn.dot_general %d, %w batch [] x [] contract [3] x [0] : !y, !w -> !v
  %1 = nn.fold %0 axis 1 kernel [3, 3] strides [1, 1] dilations [1, 1] low [1, 1] : !v -> !x
  return %1 : !x
}

func.func private @weight(%x: !x, %d: !y) -> !w attributes {nn.layer} {
  %0 = nn.window %x axis 1 kernel [3, 3] strides [1, 1] dilations [1, 1] low [1, 1] : !x -> !v
  %1 = nn.dot_general %d, %0 batch [] x [] contract [0, 1, 2] x [0, 1, 2] : !y, !v -> !w
  return %1 : !w
}
