// Windows of one sample have 192 * 192 * 144 * 4 = 21233664 bytes: 6 blocks of 32 rows of windows, 3538944 bytes each. The
// first and the last reach 33 rows of the image, those between 34. Rows of the image that are folded by themselves take at
// most four times as much: 2 blocks of 96 rows, each of 97 rows of windows, of which 2 are multiplied twice.
// RUN: harmony-opt %s --harmony-lower-tasks="batch=1 microbatch=1 evaluate=true" | FileCheck %s

// CHECK-LABEL: harmony.task @forward.eval.u1 slots
// CHECK-SAME:    [#harmony.slot<argument 0, 2359296>, #harmony.slot<argument 1, 4608>, #harmony.slot<result 0, 1179648>, #harmony.slot<workspace 0, 3538944>] {
// CHECK-NEXT:    harmony.launch @window_{{[0-9a-f]+}} [#harmony.ref<0 + 0, 405504, r>, #harmony.ref<3 + 0, 3538944, w>] extent 6144
// CHECK-NEXT:    harmony.gemm [#harmony.ref<3 + 0, 3538944, r>, #harmony.ref<1 + 0, 4608, r>, #harmony.ref<2 + 0, 196608, w>] shape [6144, 8, 144] {{.*}} transB
// CHECK-NEXT:    harmony.launch @window_{{[0-9a-f]+}} [#harmony.ref<0 + 380928, 417792, r>, #harmony.ref<3 + 0, 3538944, w>] extent 6144
// CHECK-NEXT:    harmony.gemm [#harmony.ref<3 + 0, 3538944, r>, #harmony.ref<1 + 0, 4608, r>, #harmony.ref<2 + 196608, 196608, w>] shape [6144, 8, 144] {{.*}} transB
// CHECK-NEXT:    harmony.launch @window_{{[0-9a-f]+}} [#harmony.ref<0 + 774144, 417792, r>, #harmony.ref<3 + 0, 3538944, w>] extent 6144
// CHECK-NEXT:    harmony.gemm [#harmony.ref<3 + 0, 3538944, r>, #harmony.ref<1 + 0, 4608, r>, #harmony.ref<2 + 393216, 196608, w>] shape [6144, 8, 144] {{.*}} transB
// CHECK-NEXT:    harmony.launch @window_{{[0-9a-f]+}} [#harmony.ref<0 + 1167360, 417792, r>, #harmony.ref<3 + 0, 3538944, w>] extent 6144
// CHECK-NEXT:    harmony.gemm [#harmony.ref<3 + 0, 3538944, r>, #harmony.ref<1 + 0, 4608, r>, #harmony.ref<2 + 589824, 196608, w>] shape [6144, 8, 144] {{.*}} transB
// CHECK-NEXT:    harmony.launch @window_{{[0-9a-f]+}} [#harmony.ref<0 + 1560576, 417792, r>, #harmony.ref<3 + 0, 3538944, w>] extent 6144
// CHECK-NEXT:    harmony.gemm [#harmony.ref<3 + 0, 3538944, r>, #harmony.ref<1 + 0, 4608, r>, #harmony.ref<2 + 786432, 196608, w>] shape [6144, 8, 144] {{.*}} transB
// CHECK-NEXT:    harmony.launch @window_{{[0-9a-f]+}} [#harmony.ref<0 + 1953792, 405504, r>, #harmony.ref<3 + 0, 3538944, w>] extent 6144
// CHECK-NEXT:    harmony.gemm [#harmony.ref<3 + 0, 3538944, r>, #harmony.ref<1 + 0, 4608, r>, #harmony.ref<2 + 983040, 196608, w>] shape [6144, 8, 144] {{.*}} transB
// CHECK-NEXT:  }
// CHECK-LABEL: harmony.task @image.eval.u1 slots
// CHECK-SAME:    [#harmony.slot<argument 0, 1179648>, #harmony.slot<argument 1, 4608>, #harmony.slot<result 0, 2359296>, #harmony.slot<workspace 0, 10727424>] {
// CHECK-NEXT:    harmony.gemm [#harmony.ref<0 + 0, 595968, r>, #harmony.ref<1 + 0, 4608, r>, #harmony.ref<3 + 0, 10727424, w>] shape [18624, 144, 8]
// CHECK-NEXT:    harmony.launch @window_{{[0-9a-f]+}} [#harmony.ref<3 + 0, 10727424, r>, #harmony.ref<2 + 0, 1179648, w>] extent 18432
// CHECK-NEXT:    harmony.gemm [#harmony.ref<0 + 583680, 595968, r>, #harmony.ref<1 + 0, 4608, r>, #harmony.ref<3 + 0, 10727424, w>] shape [18624, 144, 8]
// CHECK-NEXT:    harmony.launch @window_{{[0-9a-f]+}} [#harmony.ref<3 + 0, 10727424, r>, #harmony.ref<2 + 1179648, 1179648, w>] extent 18432
// CHECK-NEXT:  }
// CHECK-LABEL: harmony.task @weight.eval.u1 slots
// CHECK-SAME:    [#harmony.slot<argument 0, 2359296>, #harmony.slot<argument 1, 1179648>, #harmony.slot<result 0, 4608>, #harmony.slot<workspace 0, 3538944>] {
// CHECK-NEXT:    harmony.launch @window_{{[0-9a-f]+}} [#harmony.ref<0 + 0, 405504, r>, #harmony.ref<3 + 0, 3538944, w>] extent 6144
// CHECK-NEXT:    harmony.gemm [#harmony.ref<1 + 0, 196608, r>, #harmony.ref<3 + 0, 3538944, r>, #harmony.ref<2 + 0, 4608, w>] shape [8, 144, 6144] {{.*}} transA{{$}}
// CHECK-NEXT:    harmony.launch @window_{{[0-9a-f]+}} [#harmony.ref<0 + 380928, 417792, r>, #harmony.ref<3 + 0, 3538944, w>] extent 6144
// CHECK-NEXT:    harmony.gemm [#harmony.ref<1 + 196608, 196608, r>, #harmony.ref<3 + 0, 3538944, r>, #harmony.ref<2 + 0, 4608, rw>] shape [8, 144, 6144] {{.*}} transA accumulate
// CHECK-NEXT:    harmony.launch @window_{{[0-9a-f]+}} [#harmony.ref<0 + 774144, 417792, r>, #harmony.ref<3 + 0, 3538944, w>] extent 6144
// CHECK-NEXT:    harmony.gemm [#harmony.ref<1 + 393216, 196608, r>, #harmony.ref<3 + 0, 3538944, r>, #harmony.ref<2 + 0, 4608, rw>] shape [8, 144, 6144] {{.*}} transA accumulate
// CHECK-NEXT:    harmony.launch @window_{{[0-9a-f]+}} [#harmony.ref<0 + 1167360, 417792, r>, #harmony.ref<3 + 0, 3538944, w>] extent 6144
// CHECK-NEXT:    harmony.gemm [#harmony.ref<1 + 589824, 196608, r>, #harmony.ref<3 + 0, 3538944, r>, #harmony.ref<2 + 0, 4608, rw>] shape [8, 144, 6144] {{.*}} transA accumulate
// CHECK-NEXT:    harmony.launch @window_{{[0-9a-f]+}} [#harmony.ref<0 + 1560576, 417792, r>, #harmony.ref<3 + 0, 3538944, w>] extent 6144
// CHECK-NEXT:    harmony.gemm [#harmony.ref<1 + 786432, 196608, r>, #harmony.ref<3 + 0, 3538944, r>, #harmony.ref<2 + 0, 4608, rw>] shape [8, 144, 6144] {{.*}} transA accumulate
// CHECK-NEXT:    harmony.launch @window_{{[0-9a-f]+}} [#harmony.ref<0 + 1953792, 405504, r>, #harmony.ref<3 + 0, 3538944, w>] extent 6144
// CHECK-NEXT:    harmony.gemm [#harmony.ref<1 + 983040, 196608, r>, #harmony.ref<3 + 0, 3538944, r>, #harmony.ref<2 + 0, 4608, rw>] shape [8, 144, 6144] {{.*}} transA accumulate
// CHECK-NEXT:  }
!x = tensor<?x192x192x16xf32, #nn.batch<0, 1>>
!v = tensor<?x192x192x3x3x16xf32, #nn.batch<0, 1>>
!y = tensor<?x192x192x8xf32, #nn.batch<0, 1>>
!w = tensor<8x3x3x16xf32>
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
