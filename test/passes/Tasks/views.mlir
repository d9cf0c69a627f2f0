// Values as strided memory: what is a stride, what is a copy, where results are computed and how the workspace is shared.
// Sizes are those of two samples: 48 bytes for 2 x 6 floats, 192 for 2 x 4 x 6, 144 for a weight.
// RUN: harmony-opt %s --harmony-lower-tasks="batch=2 microbatch=2 evaluate=true" | FileCheck %s

!b = tensor<?x6xf32, #nn.batch<0, 1>>
!h = tensor<?x4x6xf32, #nn.batch<0, 1>>
nn.variable <frozen> @w : tensor<6x6xf32>
func.func @evaluate(%x: !b {nn.name = "x"}, %s: !h {nn.name = "s"}) -> (!b {nn.name = "y0"}, tensor<?x3xf32, #nn.batch<0, 1>> {nn.name = "y1"}, tensor<?x2x4x4xf32, #nn.batch<0, 1>> {nn.name = "y2"}, tensor<?x24xf32, #nn.batch<0, 1>> {nn.name = "y3"}, tensor<?x12xf32, #nn.batch<0, 1>> {nn.name = "y4"}, tensor<6x?xf32, #nn.batch<1, 1>> {nn.name = "y5"}, tensor<?x9xf32, #nn.batch<0, 1>> {nn.name = "y6"}, tensor<?x9xf32, #nn.batch<0, 1>> {nn.name = "y7"}, !b {nn.name = "y8"}, !b {nn.name = "y9"}, !h {nn.name = "y10"}) {
  %w = nn.get @w : tensor<6x6xf32>
  %0 = call @transposed(%w, %x) {nn.layer_name = "l"} : (tensor<6x6xf32>, !b) -> !b
  %1 = call @sliced(%w, %x) {nn.layer_name = "l"} : (tensor<6x6xf32>, !b) -> tensor<?x3xf32, #nn.batch<0, 1>>
  %2 = call @heads(%s) {nn.layer_name = "l"} : (!h) -> tensor<?x2x4x4xf32, #nn.batch<0, 1>>
  %3 = call @copied(%s) {nn.layer_name = "l"} : (!h) -> tensor<?x24xf32, #nn.batch<0, 1>>
  %4 = call @parts(%x) {nn.layer_name = "l"} : (!b) -> tensor<?x12xf32, #nn.batch<0, 1>>
  %5 = call @swapped(%w, %x) {nn.layer_name = "l"} : (tensor<6x6xf32>, !b) -> tensor<6x?xf32, #nn.batch<1, 1>>
  %6 = call @padded(%x) {nn.layer_name = "l"} : (!b) -> tensor<?x9xf32, #nn.batch<0, 1>>
  %7 = call @filled(%x) {nn.layer_name = "l"} : (!b) -> tensor<?x9xf32, #nn.batch<0, 1>>
  %8 = call @workspace(%w, %x) {nn.layer_name = "l"} : (tensor<6x6xf32>, !b) -> !b
  %9:2 = call @twice(%w, %x) {nn.layer_name = "l"} : (tensor<6x6xf32>, !b) -> (!b, !b)
  %10 = call @unmapped(%w, %s) {nn.layer_name = "l"} : (tensor<6x6xf32>, !h) -> !h
  return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9#0, %10 : !b, tensor<?x3xf32, #nn.batch<0, 1>>, tensor<?x2x4x4xf32, #nn.batch<0, 1>>, tensor<?x24xf32, #nn.batch<0, 1>>, tensor<?x12xf32, #nn.batch<0, 1>>, tensor<6x?xf32, #nn.batch<1, 1>>, tensor<?x9xf32, #nn.batch<0, 1>>, tensor<?x9xf32, #nn.batch<0, 1>>, !b, !b, !h
}

// A transposed weight is a flag of the product.
// CHECK-LABEL: harmony.task @transposed.eval.u2 slots
// CHECK-SAME:    [#harmony.slot<argument 0, 144>, #harmony.slot<argument 1, 48>, #harmony.slot<result 0, 48>] {
// CHECK-NEXT:    harmony.gemm [#harmony.ref<1 + 0, 48, r>, #harmony.ref<0 + 0, 144, r>, #harmony.ref<2 + 0, 48, w>] shape [2, 6, 6] leading [6, 6, 6] batch [1, 1, 1] strides [0, 0, 0], [0, 0, 0], [0, 0, 0] block [2, 6] transB
// CHECK-NEXT:  }
func.func private @transposed(%w: tensor<6x6xf32>, %x: !b) -> !b attributes {nn.layer} {
  %t = nn.transpose %w by [1, 0] : tensor<6x6xf32> -> tensor<6x6xf32>
  %0 = nn.dot_general %x, %t batch [] x [] contract [1] x [0] : !b, tensor<6x6xf32> -> !b
  return %0 : !b
}

// Columns 2 to 4 of x begin 2 * 4 bytes on, rows 6 apart: 6 + 3 floats are touched. Rows 1, 3, 5 of w from column 3 begin
// (6 + 3) * 4 bytes on, 12 apart: 2 * 12 + 3 floats.
// CHECK-LABEL: harmony.task @sliced.eval.u2 slots
// CHECK-NEXT:    harmony.gemm [#harmony.ref<1 + 8, 36, r>, #harmony.ref<0 + 36, 108, r>, #harmony.ref<2 + 0, 24, w>] shape [2, 3, 3] leading [6, 12, 3]
// CHECK-NEXT:  }
func.func private @sliced(%w: tensor<6x6xf32>, %x: !b) -> tensor<?x3xf32, #nn.batch<0, 1>> attributes {nn.layer} {
  %a = nn.slice %x from [0, 2] by [1, 1] : !b -> tensor<?x3xf32, #nn.batch<0, 1>>
  %b = nn.slice %w from [1, 3] by [2, 1] : tensor<6x6xf32> -> tensor<3x3xf32>
  %0 = nn.dot_general %a, %b batch [] x [] contract [1] x [0] : tensor<?x3xf32, #nn.batch<0, 1>>, tensor<3x3xf32> -> tensor<?x3xf32, #nn.batch<0, 1>>
  return %0 : tensor<?x3xf32, #nn.batch<0, 1>>
}

// Two heads of 3 within rows of 6: samples are 24 floats apart and heads 3, in the operands; 32 and 16 in the result.
// CHECK-LABEL: harmony.task @heads.eval.u2 slots
// CHECK-SAME:    [#harmony.slot<argument 0, 192>, #harmony.slot<result 0, 256>] {
// CHECK-NEXT:    harmony.gemm [#harmony.ref<0 + 0, 192, r>, #harmony.ref<0 + 0, 192, r>, #harmony.ref<1 + 0, 256, w>] shape [4, 4, 3] leading [6, 6, 4] batch [2, 2, 1] strides [24, 3, 0], [24, 3, 0], [32, 16, 0] block [4, 4] transB
// CHECK-NEXT:  }
func.func private @heads(%x: !h) -> tensor<?x2x4x4xf32, #nn.batch<0, 1>> attributes {nn.layer} {
  %r = nn.reshape %x : !h -> tensor<?x4x2x3xf32, #nn.batch<0, 1>>
  %t = nn.transpose %r by [0, 2, 1, 3] : tensor<?x4x2x3xf32, #nn.batch<0, 1>> -> tensor<?x2x4x3xf32, #nn.batch<0, 1>>
  %0 = nn.dot_general %t, %t batch [0, 1] x [0, 1] contract [3] x [3] : tensor<?x2x4x3xf32, #nn.batch<0, 1>>, tensor<?x2x4x3xf32, #nn.batch<0, 1>> -> tensor<?x2x4x4xf32, #nn.batch<0, 1>>
  return %0 : tensor<?x2x4x4xf32, #nn.batch<0, 1>>
}

// No strides say a transposed tensor in another shape: one copy, straight to the result.
// CHECK-LABEL: harmony.task @copied.eval.u2 slots
// CHECK-SAME:    [#harmony.slot<argument 0, 192>, #harmony.slot<result 0, 192>] {
// CHECK-NEXT:    harmony.launch @copy_{{[0-9a-f]+}} [#harmony.ref<0 + 0, 192, r>, #harmony.ref<1 + 0, 192, w>] extent 12 grain 4096 family copy
// CHECK-NEXT:  }
func.func private @copied(%x: !h) -> tensor<?x24xf32, #nn.batch<0, 1>> attributes {nn.layer} {
  %t = nn.transpose %x by [0, 2, 1] : !h -> tensor<?x6x4xf32, #nn.batch<0, 1>>
  %r = nn.reshape %t : tensor<?x6x4xf32, #nn.batch<0, 1>> -> tensor<?x24xf32, #nn.batch<0, 1>>
  return %r : tensor<?x24xf32, #nn.batch<0, 1>>
}

// The second part is computed where it belongs, 6 floats into rows of 12 (6 + 12 floats to the end); the first is copied,
// since an argument is elsewhere.
// CHECK-LABEL: harmony.task @parts.eval.u2 slots
// CHECK-SAME:    [#harmony.slot<argument 0, 48>, #harmony.slot<result 0, 96>] {
// CHECK-NEXT:    harmony.launch @map_{{[0-9a-f]+}} [#harmony.ref<0 + 0, 48, r>, #harmony.ref<1 + 24, 72, w>] extent 2 grain 2730 family pointwise
// CHECK-NEXT:    harmony.launch @copy_{{[0-9a-f]+}} [#harmony.ref<0 + 0, 48, r>, #harmony.ref<1 + 0, 72, w>] extent 2 grain 2730 family copy
// CHECK-NEXT:  }
func.func private @parts(%x: !b) -> tensor<?x12xf32, #nn.batch<0, 1>> attributes {nn.layer} {
  %0 = nn.group (%a = %x) : (!b) -> !b {
    %1 = arith.mulf %a, %a : !b
    nn.yield %1 : !b
  }
  %c = nn.concat %x, %0 along 1 : !b, !b -> tensor<?x12xf32, #nn.batch<0, 1>>
  return %c : tensor<?x12xf32, #nn.batch<0, 1>>
}

// What is returned transposed is the product of the transposes: w^T x^T, 6 rows of 2.
// CHECK-LABEL: harmony.task @swapped.eval.u2 slots
// CHECK-NEXT:    harmony.gemm [#harmony.ref<0 + 0, 144, r>, #harmony.ref<1 + 0, 48, r>, #harmony.ref<2 + 0, 48, w>] shape [6, 2, 6] leading [6, 6, 2] batch [1, 1, 1] strides [0, 0, 0], [0, 0, 0], [0, 0, 0] block [6, 2] transA transB
// CHECK-NEXT:  }
func.func private @swapped(%w: tensor<6x6xf32>, %x: !b) -> tensor<6x?xf32, #nn.batch<1, 1>> attributes {nn.layer} {
  %0 = nn.dot_general %x, %w batch [] x [] contract [1] x [0] : !b, tensor<6x6xf32> -> !b
  %1 = nn.transpose %0 by [1, 0] : !b -> tensor<6x?xf32, #nn.batch<1, 1>>
  return %1 : tensor<6x?xf32, #nn.batch<1, 1>>
}

// Zeros are a fill; the operand goes 2 floats into rows of 9.
// CHECK-LABEL: harmony.task @padded.eval.u2 slots
// CHECK-SAME:    [#harmony.slot<argument 0, 48>, #harmony.slot<result 0, 72>] {
// CHECK-NEXT:    harmony.fill <1 + 0, 72, w> value 0
// CHECK-NEXT:    harmony.launch @copy_{{[0-9a-f]+}} [#harmony.ref<0 + 0, 48, r>, #harmony.ref<1 + 8, 60, w>] extent 2 grain 2730 family copy
// CHECK-NEXT:  }
func.func private @padded(%x: !b) -> tensor<?x9xf32, #nn.batch<0, 1>> attributes {nn.layer} {
  %c = arith.constant dense<0.0> : tensor<f32>
  %0 = nn.pad %x with %c low [0, 2] interior [0, 0] : !b, tensor<f32> -> tensor<?x9xf32, #nn.batch<0, 1>>
  return %0 : tensor<?x9xf32, #nn.batch<0, 1>>
}

// Another value is a kernel.
// CHECK-LABEL: harmony.task @filled.eval.u2 slots
// CHECK-NEXT:    harmony.launch @copy_{{[0-9a-f]+}} [#harmony.ref<1 + 0, 72, w>] extent 18 grain 16384 family copy
// CHECK-NEXT:    harmony.launch @copy_{{[0-9a-f]+}} [#harmony.ref<0 + 0, 48, r>, #harmony.ref<1 + 8, 60, w>] extent 2 grain 2730 family copy
// CHECK-NEXT:  }
func.func private @filled(%x: !b) -> tensor<?x9xf32, #nn.batch<0, 1>> attributes {nn.layer} {
  %c = arith.constant dense<1.0> : tensor<f32>
  %0 = nn.pad %x with %c low [0, 2] interior [0, 0] : !b, tensor<f32> -> tensor<?x9xf32, #nn.batch<0, 1>>
  return %0 : tensor<?x9xf32, #nn.batch<0, 1>>
}

// Three values of 48 bytes, each read by the next launch alone: the first and third share offset 0, the second lies at the next
// multiple of 64. In all 64 + 48 bytes.
// CHECK-LABEL: harmony.task @workspace.eval.u2 slots
// CHECK-SAME:    [#harmony.slot<argument 0, 144>, #harmony.slot<argument 1, 48>, #harmony.slot<result 0, 48>, #harmony.slot<workspace 0, 112>] {
// CHECK-NEXT:    harmony.gemm [#harmony.ref<1 + 0, 48, r>, #harmony.ref<0 + 0, 144, r>, #harmony.ref<3 + 0, 48, w>]
// CHECK-NEXT:    harmony.gemm [#harmony.ref<3 + 0, 48, r>, #harmony.ref<0 + 0, 144, r>, #harmony.ref<3 + 64, 48, w>]
// CHECK-NEXT:    harmony.gemm [#harmony.ref<3 + 64, 48, r>, #harmony.ref<0 + 0, 144, r>, #harmony.ref<3 + 0, 48, w>]
// CHECK-NEXT:    harmony.gemm [#harmony.ref<3 + 0, 48, r>, #harmony.ref<0 + 0, 144, r>, #harmony.ref<2 + 0, 48, w>]
// CHECK-NEXT:  }
func.func private @workspace(%w: tensor<6x6xf32>, %x: !b) -> !b attributes {nn.layer} {
  %0 = nn.dot_general %x, %w batch [] x [] contract [1] x [0] : !b, tensor<6x6xf32> -> !b
  %1 = nn.dot_general %0, %w batch [] x [] contract [1] x [0] : !b, tensor<6x6xf32> -> !b
  %2 = nn.dot_general %1, %w batch [] x [] contract [1] x [0] : !b, tensor<6x6xf32> -> !b
  %3 = nn.dot_general %2, %w batch [] x [] contract [1] x [0] : !b, tensor<6x6xf32> -> !b
  return %3 : !b
}

// One value returned twice is copied.
// CHECK-LABEL: harmony.task @twice.eval.u2 slots
// CHECK-NEXT:    harmony.gemm [#harmony.ref<1 + 0, 48, r>, #harmony.ref<0 + 0, 144, r>, #harmony.ref<3 + 0, 48, w>]
// CHECK-NEXT:    harmony.launch @copy_{{[0-9a-f]+}} [#harmony.ref<3 + 0, 48, r>, #harmony.ref<2 + 0, 48, w>] extent 12 grain 16384 family copy
// CHECK-NEXT:  }
func.func private @twice(%w: tensor<6x6xf32>, %x: !b) -> (!b, !b) attributes {nn.layer} {
  %0 = nn.dot_general %x, %w batch [] x [] contract [1] x [0] : !b, tensor<6x6xf32> -> !b
  return %0, %0 : !b, !b
}

// No library takes a reversed row: that operand is copied.
// CHECK-LABEL: harmony.task @unmapped.eval.u2 slots
// CHECK-NEXT:    harmony.launch @copy_{{[0-9a-f]+}} [#harmony.ref<1 + 20, 172, r>, #harmony.ref<3 + 0, 192, w>] extent 8 grain 2730 family copy
// CHECK-NEXT:    harmony.gemm [#harmony.ref<3 + 0, 192, r>, #harmony.ref<0 + 0, 144, r>, #harmony.ref<2 + 0, 192, w>] shape [8, 6, 6]
// CHECK-NEXT:  }
func.func private @unmapped(%w: tensor<6x6xf32>, %x: !h) -> !h attributes {nn.layer} {
  %s = nn.slice %x from [0, 0, 5] by [1, 1, -1] : !h -> !h
  %0 = nn.dot_general %s, %w batch [] x [] contract [2] x [0] : !h, tensor<6x6xf32> -> !h
  return %0 : !h
}
