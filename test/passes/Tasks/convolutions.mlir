// 3 x 3 convolutions of 16 channels are calls of the library: images stay as they are, weights are copied into blocks of
// the target's lanes, and the gradients of the weights, one of each block of samples, are added into the model's
// order. Four samples make four blocks; a block of gradients has at least 1536 positions.
// RUN: harmony-opt %s --split-input-file --harmony-lower-tasks="batch=4 microbatch=4 evaluate=true" | FileCheck %s

// CHECK-LABEL: harmony.task @forward.eval.u4 slots
// CHECK-SAME:    [#harmony.slot<argument 0, 1048576>, #harmony.slot<argument 1, 18432>, #harmony.slot<result 0, 2097152>, #harmony.slot<workspace 0, 18432>] {
// CHECK-NEXT:    harmony.launch @copy_{{[0-9a-f]+}} [#harmony.ref<1 + 0, 18432, r>, #harmony.ref<3 + 0, 18432, w>] extent 288
// CHECK-NEXT:    harmony.convolution forward [#harmony.ref<0 + 0, 1048576, r>, #harmony.ref<3 + 0, 18432, r>, #harmony.ref<2 + 0, 2097152, w>]
// CHECK-SAME:      samples [4, 1] channels [16, 32] image [64, 64] out [64, 64] kernel [3, 3] strides [1, 1] low [1, 1] high [1, 1] lanes 16
// CHECK-NEXT:  }
// CHECK-LABEL: harmony.task @image.eval.u4 slots
// CHECK-NEXT:    harmony.launch @copy_
// CHECK-NEXT:    harmony.convolution image
// CHECK-SAME:      samples [4, 1] channels [16, 32] image [64, 64] out [64, 64] kernel [3, 3] strides [1, 1] low [1, 1] high [1, 1] lanes 16
// CHECK-NEXT:  }
// CHECK-LABEL: harmony.task @weight.eval.u4 slots
// CHECK-SAME:    workspace 0, 73728
// CHECK-NEXT:    harmony.convolution weights [#harmony.ref<1 + 0, 2097152, r>, #harmony.ref<0 + 0, 1048576, r>, #harmony.ref<3 + 0, 73728, w>]
// CHECK-SAME:      samples [4, 1] channels [16, 32]
// CHECK-NEXT:    harmony.launch @column_{{[0-9a-f]+}} [#harmony.ref<3 + 0, 73728, r>, #harmony.ref<2 + 0, 18432, w>]
// CHECK-NEXT:  }
!x = tensor<?x64x64x16xf32, #nn.batch<0, 1>>
!v = tensor<?x64x64x3x3x16xf32, #nn.batch<0, 1>>
!p = tensor<?x64x64x16x3x3xf32, #nn.batch<0, 1>>
!y = tensor<?x64x64x32xf32, #nn.batch<0, 1>>
!w = tensor<32x16x3x3xf32>
!r = tensor<32x3x3x16xf32>
func.func @evaluate(%x: !x {nn.name = "x"}, %d: !y {nn.name = "d"}, %w: !w {nn.name = "w"}) -> (!y {nn.name = "y"}, !x {nn.name = "dx"}, !w {nn.name = "dw"}) {
  %0 = call @forward(%x, %w) {nn.layer_name = "f"} : (!x, !w) -> !y
  %1 = call @image(%d, %w) {nn.layer_name = "i"} : (!y, !w) -> !x
  %2 = call @weight(%x, %d) {nn.layer_name = "w"} : (!x, !y) -> !w
  return %0, %1, %2 : !y, !x, !w
}

func.func private @forward(%x: !x, %w: !w) -> !y attributes {nn.layer} {
  %0 = nn.window %x axis 1 kernel [3, 3] strides [1, 1] dilations [1, 1] low [1, 1] : !x -> !v
  %1 = nn.dot_general %0, %w batch [] x [] contract [3, 4, 5] x [2, 3, 1] : !v, !w -> !y
  return %1 : !y
}

func.func private @image(%d: !y, %w: !w) -> !x attributes {nn.layer} {
  %0 = nn.dot_general %d, %w batch [] x [] contract [3] x [0] : !y, !w -> !p
  %1 = nn.transpose %0 by [0, 1, 2, 4, 5, 3] : !p -> !v
  %2 = nn.fold %1 axis 1 kernel [3, 3] strides [1, 1] dilations [1, 1] low [1, 1] : !v -> !x
  return %2 : !x
}

func.func private @weight(%x: !x, %d: !y) -> !w attributes {nn.layer} {
  %0 = nn.window %x axis 1 kernel [3, 3] strides [1, 1] dilations [1, 1] low [1, 1] : !x -> !v
  %1 = nn.dot_general %d, %0 batch [] x [] contract [0, 1, 2] x [0, 1, 2] : !y, !v -> !r
  %2 = nn.transpose %1 by [0, 3, 1, 2] : !r -> !w
  return %2 : !w
}

// -----

// Eight lanes, images of colours and one spatial axis: the image is copied to channels last first. What the library has
// no convolution for (dilations) stays a product of windows.
// CHECK-LABEL: harmony.task @colours.eval.u4 slots
// CHECK:         harmony.launch @copy_{{[0-9a-f]+}} [#harmony.ref<0 + 0,
// CHECK:         harmony.convolution forward
// CHECK-SAME:      samples [4, 1] channels [3, 8] image [1, 512] out [1, 256] kernel [1, 5] strides [1, 2] low [0, 2] high [0, 1] lanes 8
// CHECK-LABEL: harmony.task @dilated.eval.u4 slots
// CHECK-NOT:     harmony.convolution
!i = tensor<?x3x512xf32, #nn.batch<0, 1>>
!l = tensor<?x512x3xf32, #nn.batch<0, 1>>
!v = tensor<?x256x5x3xf32, #nn.batch<0, 1>>
!y = tensor<?x256x8xf32, #nn.batch<0, 1>>
!u = tensor<?x252x5x8xf32, #nn.batch<0, 1>>
!z = tensor<?x252x8xf32, #nn.batch<0, 1>>
!w = tensor<8x3x5xf32>
!q = tensor<8x8x5xf32>
module attributes {harmony.lanes = 8 : i64} {
  func.func @evaluate(%x: !i {nn.name = "x"}, %w: !w {nn.name = "w"}, %q: !q {nn.name = "q"}) -> (!z {nn.name = "z"}) {
    %0 = call @colours(%x, %w) {nn.layer_name = "c"} : (!i, !w) -> !y
    %1 = call @dilated(%0, %q) {nn.layer_name = "d"} : (!y, !q) -> !z
    return %1 : !z
  }

  func.func private @colours(%x: !i, %w: !w) -> !y attributes {nn.layer} {
    %0 = nn.transpose %x by [0, 2, 1] : !i -> !l
    %1 = nn.window %0 axis 1 kernel [5] strides [2] dilations [1] low [2] : !l -> !v
    %2 = nn.dot_general %1, %w batch [] x [] contract [2, 3] x [2, 1] : !v, !w -> !y
    return %2 : !y
  }

  func.func private @dilated(%x: !y, %w: !q) -> !z attributes {nn.layer} {
    %0 = nn.window %x axis 1 kernel [5] strides [1] dilations [2] low [2] : !y -> !u
    %1 = nn.dot_general %0, %w batch [] x [] contract [2, 3] x [2, 1] : !u, !q -> !z
    return %1 : !z
  }
}
