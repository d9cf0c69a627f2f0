// RUN: not harmony-opt %s --harmony-lower-tasks="batch=0" 2>&1 | FileCheck %s --check-prefix=BATCH
// BATCH: error: batch is 0, expected at least 1
// RUN: not harmony-opt %s --harmony-lower-tasks="batch=4 microbatch=5" 2>&1 | FileCheck %s --check-prefix=MANY
// MANY: error: microbatch is 5, expected at most the batch of 4
// RUN: not harmony-opt %s --harmony-lower-tasks="batch=4 microbatch=-1" 2>&1 | FileCheck %s --check-prefix=NEGATIVE
// NEGATIVE: error: microbatch is -1, expected at most the batch of 4

// Every divisor of the batch is a candidate.
// RUN: harmony-opt %s --harmony-lower-tasks="batch=6 evaluate=true" | FileCheck %s
// CHECK-COUNT-1: harmony.task @layer.eval.u1 slots [#harmony.slot<argument 0, 16>, #harmony.slot<result 0, 16>]
// CHECK:         harmony.task @layer.eval.u2 slots [#harmony.slot<argument 0, 32>
// CHECK:         harmony.task @layer.eval.u3 slots [#harmony.slot<argument 0, 48>
// CHECK:         harmony.task @layer.eval.u6 slots [#harmony.slot<argument 0, 96>
// CHECK-NOT:     harmony.task
// RUN: harmony-opt %s --harmony-lower-tasks="batch=6 microbatch=2 evaluate=true" | grep -c harmony.task | FileCheck %s --check-prefix=ONE
// ONE: 1
// One that leaves a smaller last microbatch is a size like others.
// RUN: harmony-opt %s --harmony-lower-tasks="batch=6 microbatch=4 evaluate=true" | FileCheck %s --check-prefix=FOUR
// FOUR: harmony.task @layer.eval.u4 slots [#harmony.slot<argument 0, 64>, #harmony.slot<result 0, 64>]
func.func @evaluate(%x: tensor<?x4xf32, #nn.batch<0, 1>> {nn.name = "x"}) -> (tensor<?x4xf32, #nn.batch<0, 1>> {nn.name = "y"}) {
  %0 = call @layer(%x) {nn.layer_name = "l"} : (tensor<?x4xf32, #nn.batch<0, 1>>) -> tensor<?x4xf32, #nn.batch<0, 1>>
  return %0 : tensor<?x4xf32, #nn.batch<0, 1>>
}
func.func private @layer(%x: tensor<?x4xf32, #nn.batch<0, 1>>) -> tensor<?x4xf32, #nn.batch<0, 1>> attributes {nn.layer} {
  return %x : tensor<?x4xf32, #nn.batch<0, 1>>
}
