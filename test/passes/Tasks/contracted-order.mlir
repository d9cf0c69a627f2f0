// A product contracts two pairs of axes that are not in the same order in the memory of its operands (the gradient of the
// weight that mixes tokens, behind a transposition): a copy of one brings its axes into the order of the other's.
// RUN: harmony-opt %s --harmony-lower-tasks="batch=2 microbatch=2 evaluate=true" | FileCheck %s

!a = tensor<?x4x3xf32, #nn.batch<0, 1>>
!b = tensor<?x5x4xf32, #nn.batch<0, 1>>
func.func @evaluate(%a: !a {nn.name = "a"}, %b: !b {nn.name = "b"}) -> (tensor<3x5xf32> {nn.name = "y"}) {
  %0 = call @mixed(%a, %b) {nn.layer_name = "l"} : (!a, !b) -> tensor<3x5xf32>
  return %0 : tensor<3x5xf32>
}

// CHECK-LABEL: harmony.task @mixed.eval.u2 slots
// CHECK-SAME:    [#harmony.slot<argument 0, 96>, #harmony.slot<argument 1, 160>, #harmony.slot<result 0, 60>, #harmony.slot<workspace 0, 160>] {
// CHECK-NEXT:    harmony.launch @copy_{{[0-9a-f]+}} [#harmony.ref<1 + 0, 160, r>, #harmony.ref<3 + 0, 160, w>]
// CHECK-NEXT:    harmony.gemm [#harmony.ref<0 + 0, 96, r>, #harmony.ref<3 + 0, 160, r>, #harmony.ref<2 + 0, 60, w>] shape [3, 5, 8] leading [3, 5, 5] {{.*}} transA
// CHECK-NEXT:  }
func.func private @mixed(%a: !a, %b: !b) -> tensor<3x5xf32> attributes {nn.layer} {
  %0 = nn.dot_general %a, %b batch [] x [] contract [0, 1] x [0, 2] : !a, !b -> tensor<3x5xf32>
  return %0 : tensor<3x5xf32>
}
