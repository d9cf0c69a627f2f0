// Saved values share a block, in segments by the seconds that keeping a byte saves; a value that several layers read gets its gradients added up; a
// layer without anything to differentiate has an empty backward; a prologue reads variables.
// RUN: harmony-opt %s --harmony-lower-tasks="batch=2 microbatch=2" | FileCheck %s

!x = tensor<?x3xf32, #nn.batch<0, 1>>
nn.variable <frozen> @k : tensor<3xf32>
func.func @main(%x: !x {nn.name = "x"}) {
  %0 = call @frozen(%x) {nn.layer_name = "a"} : (!x) -> !x
  %1:3 = call @two(%0) {nn.layer_name = "b"} : (!x) -> (!x, !x, tensor<?x5xf32, #nn.batch<0, 1>>)
  %2 = call @one(%1#0) {nn.layer_name = "c"} : (!x) -> !x
  %3 = call @loss(%1#0, %2) {nn.layer_name = "d"} : (!x, !x) -> tensor<f32>
  nn.loss %3 scale 1.0 count 1.0 {nn.denominator = 0 : i64} : tensor<f32>
  return
}
// CHECK-LABEL: harmony.task @host.prologue slots
// CHECK-SAME:    [#harmony.slot<argument 0, 24>, #harmony.slot<parameter 0, 12>, #harmony.slot<result 0, 4>, #harmony.slot<result 1, 4>
func.func @prologue(%x: !x {nn.name = "x"}) -> tensor<f32> {
  %k = nn.get @k : tensor<3xf32>
  %0 = nn.reduce sum %k over [0] : tensor<3xf32> -> tensor<f32>
  return %0 : tensor<f32>
}
// CHECK-LABEL: harmony.task @frozen.u2
func.func private @frozen(%x: !x) -> !x attributes {nn.layer, nn.saved = 0 : i64} {
  return %x : !x
}
// CHECK-LABEL: harmony.task @frozen.bwd.u2 slots [] {
// CHECK-NEXT:  }

// The product is worth more than the constant: 24 bytes in segment 0, 40 in segment 1.
// CHECK-LABEL: harmony.task @two.u2 slots
// CHECK-SAME:    [#harmony.slot<argument 0, 24>, #harmony.slot<result 0, 24>, #harmony.slot<saved 0, 24>, #harmony.slot<saved 1, 40>]
// CHECK-DAG:     [#harmony.ref<0 + 0, 24, r>, #harmony.ref<2 + 0, 24, w>]
// CHECK-DAG:     [#harmony.ref<3 + 0, 40, w>]
// Where nothing is kept, results are made again with the block.
// CHECK-LABEL: harmony.task @two.again.u2 slots
// CHECK-COUNT-3: harmony.launch
// Where outputs are kept, the block alone, and then what is not kept of it.
// CHECK-LABEL: harmony.task @two.again1.u2 slots
// CHECK-SAME:    [#harmony.slot<argument 0, 24>, #harmony.slot<saved 0, 24>, #harmony.slot<saved 1, 40>]
// CHECK-COUNT-2: harmony.launch
// CHECK-NOT:     harmony.launch
// Its argument is no longer read, and has no slot.
// CHECK-LABEL: harmony.task @two.again2.u2 slots
// CHECK-SAME:    [#harmony.slot<saved 0, 24>, #harmony.slot<saved 1, 40>]
// CHECK-NEXT:    harmony.launch {{.*}}[#harmony.ref<1 + 0, 40, w>]
// CHECK-NEXT:  }
func.func private @two(%x: !x {nn.differentiable}) -> (!x {nn.differentiable}, !x, tensor<?x5xf32, #nn.batch<0, 1>>) attributes {nn.layer, nn.saved = 2 : i64} {
  %0 = nn.group (%a = %x) : (!x) -> !x {
    %2 = arith.mulf %a, %a : !x
    nn.yield %2 : !x
  }
  %1 = nn.group () : () -> tensor<?x5xf32, #nn.batch<0, 1>> {
    %c = arith.constant dense<1.0> : tensor<f32>
    %2 = nn.broadcast %c to [] : tensor<f32> -> tensor<?x5xf32, #nn.batch<0, 1>>
    nn.yield %2 : tensor<?x5xf32, #nn.batch<0, 1>>
  }
  return %x, %0, %1 : !x, !x, tensor<?x5xf32, #nn.batch<0, 1>>
}
// Its backward reads columns 1 to 3 of the second saved value alone: 4 bytes further on, 5 + 3 floats to the end.
// CHECK-LABEL: harmony.task @two.bwd.u2 slots
// CHECK-SAME:    [#harmony.slot<saved 1, 40>, #harmony.slot<cotangent 0, 24>, #harmony.slot<gradient 0, 24>
// CHECK:         #harmony.ref<0 + 4, 32, r>
func.func private @two.bwd(%s: tensor<?x5xf32, #nn.batch<0, 1>> {nn.saved = 1 : i64}, %dy: !x {nn.cotangent = 0 : i64}) -> (!x {nn.gradient = 0 : i64}) {
  %0 = nn.slice %s from [0, 1] by [1, 1] : tensor<?x5xf32, #nn.batch<0, 1>> -> !x
  %1 = nn.group (%a = %0, %b = %dy) : (!x, !x) -> !x {
    %2 = arith.mulf %a, %b : !x
    nn.yield %2 : !x
  }
  return %1 : !x
}
func.func private @one(%x: !x {nn.differentiable}) -> (!x {nn.differentiable}) attributes {nn.layer, nn.saved = 0 : i64} {
  return %x : !x
}
// The loss' backward comes first and stores the gradient of their common operand; this one adds to it.
// CHECK-LABEL: harmony.task @one.bwd.u2.add0 slots
// CHECK:         #harmony.ref<{{[0-9]+}} + 0, 24, rw>
func.func private @one.bwd(%dy: !x {nn.cotangent = 0 : i64}) -> (!x {nn.gradient = 0 : i64}) {
  return %dy : !x
}
func.func private @loss(%x: !x {nn.differentiable}, %y: !x {nn.differentiable}) -> (tensor<f32> {nn.differentiable}) attributes {nn.layer, nn.saved = 0 : i64} {
  %0 = nn.group (%a = %x, %b = %y) : (!x, !x) -> tensor<f32> {
    %1 = arith.mulf %a, %b : !x
    %2 = nn.reduce sum %1 over [0, 1] : !x -> tensor<f32>
    nn.yield %2 : tensor<f32>
  }
  return %0 : tensor<f32>
}
// CHECK-LABEL: harmony.task @loss.bwd.u2 slots
// CHECK-NOT:     rw>
func.func private @loss.bwd(%x: !x {nn.primal = 0 : i64}, %y: !x {nn.primal = 1 : i64}, %d: tensor<f32> {nn.cotangent = 0 : i64}) -> (!x {nn.gradient = 0 : i64}, !x {nn.gradient = 1 : i64}) {
  %0:2 = nn.group (%a = %x, %b = %y, %c = %d) : (!x, !x, tensor<f32>) -> (!x, !x) {
    %1 = nn.broadcast %c to [] : tensor<f32> -> !x
    %2 = arith.mulf %1, %b : !x
    %3 = arith.mulf %1, %a : !x
    nn.yield %2, %3 : !x, !x
  }
  return %0#0, %0#1 : !x, !x
}
