// Dropout: random bits for each sample, whatever axis it is on, and nothing of it in evaluation or where it does nothing.
// RUN: harmony-opt %s -split-input-file --harmony-normalize --harmony-verify-normalized | FileCheck %s
// RUN: harmony-opt %s -split-input-file --harmony-normalize=forward=true --harmony-verify-normalized | FileCheck %s --check-prefix=FORWARD
// RUN: harmony-opt %s -split-input-file --harmony-normalize --harmony-form-layers --harmony-verify-layers | FileCheck %s --check-prefix=LAYERS

// 0.25 * 2^32 of the values are below the bound; what is kept is divided by 0.75. Rows of two to a sample are split first.
// The input of keys is called something else than the model's own.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    %[[X:.*]]: tensor<?x3xf32, #nn.batch<0, 1>> {nn.name = "sample_keys"}, %[[KEYS:.*]]: tensor<?x3xi64, #nn.batch<0, 1>> {nn.name = "sample_keys_", nn.sample_keys})
// CHECK: %[[STREAM:.*]] = nn.get @stream.first : tensor<i64>
// CHECK: %[[BITS:.*]] = nn.random %[[KEYS]] stream %[[STREAM]] axis 0 : tensor<?x3xi64, #nn.batch<0, 1>>, tensor<i64> -> tensor<?x3xi64, #nn.batch<0, 1>>
// CHECK: %[[BOUND:.*]] = arith.constant dense<1073741824> : tensor<i64>
// CHECK: %[[KEPT:.*]] = arith.cmpi sge, %[[BITS]], %{{.*}}
// CHECK: arith.constant dense<1.33333337> : tensor<f32>
// CHECK: %[[SCALED:.*]] = arith.mulf %[[X]], %{{.*}}
// CHECK: %[[DROPPED:.*]] = arith.select %[[KEPT]], %[[SCALED]], %{{.*}}
// CHECK: %[[A:.*]] = nn.by_mode %[[DROPPED]] or %[[X]]
// CHECK: %[[OTHER:.*]] = nn.get @stream.mask : tensor<i64>
// CHECK: nn.random %[[KEYS]] stream %[[OTHER]] axis 0 {{.*}} -> tensor<?x2x3xi64, #nn.batch<0, 1>>
// CHECK: nn.reshape {{.*}} -> tensor<?x3xi1, #nn.batch<0, 2>>
// CHECK: nn.by_mode {{.*}} : tensor<?x3xi1, #nn.batch<0, 2>>
// CHECK: nn.variable <constant> @stream.first : tensor<i64> = dense<{{[0-9]+}}>
// CHECK: nn.variable <constant> @stream.mask : tensor<i64> = dense<{{[0-9]+}}>

// FORWARD: func.func @main
// FORWARD-NOT: nn.random
// FORWARD-NOT: sample_keys_
// FORWARD-NOT: nn.by_mode
// FORWARD: return

// LAYERS: func.func @evaluate
// LAYERS-NOT: nn.get @stream
// LAYERS: func.func private @layer_0
// LAYERS-COUNT-2: nn.random
// LAYERS: func.func private @layer_1
// LAYERS-NOT: nn.random
onnx.initializer @w : tensor<3x6xf32> = dense<1.0> : tensor<3x6xf32>
onnx.graph @main(%x: tensor<?x3xf32> {onnx.name = "sample_keys", onnx.dims = ["batch", 3]}) -> (tensor<f32> {onnx.name = "loss"}) {
  %ratio = onnx.node "Constant"() version 19 {value_float = 0.25 : f32} : () -> tensor<f32>
  %training = onnx.node "Constant"() version 19 {value = dense<true> : tensor<i1>} : () -> tensor<i1>
  %inference = onnx.node "Constant"() version 19 {value = dense<false> : tensor<i1>} : () -> tensor<i1>
  %d = onnx.node "Dropout"(%x, %ratio, %training) version 13 {} names ["first"] : (tensor<?x3xf32>, tensor<f32>, tensor<i1>) -> tensor<?x3xf32>
  %none = onnx.node "Dropout"(%d, %ratio, %inference) version 13 {} : (tensor<?x3xf32>, tensor<f32>, tensor<i1>) -> tensor<?x3xf32>
  %w = onnx.initial_value @w : tensor<3x6xf32>
  %y = onnx.node "MatMul"(%none, %w) version 13 {} : (tensor<?x3xf32>, tensor<3x6xf32>) -> tensor<?x6xf32>
  %shape = onnx.node "Constant"() version 19 {value_ints = array<i64: -1, 3>} : () -> tensor<2xi64>
  %rows = onnx.node "Reshape"(%y, %shape) version 14 {} : (tensor<?x6xf32>, tensor<2xi64>) -> tensor<?x3xf32>
  %half, %mask = onnx.node "Dropout"(%rows) version 7 {} : (tensor<?x3xf32>) -> (tensor<?x3xf32>, tensor<?x3xi1>)
  %e, %kept = onnx.node "Dropout"(%half, %ratio, %training) version 13 {} names ["mask", "kept"] : (tensor<?x3xf32>, tensor<f32>, tensor<i1>) -> (tensor<?x3xf32>, tensor<?x3xi1>)
  %z = onnx.node "Where"(%kept, %half, %e) version 16 {} : (tensor<?x3xi1>, tensor<?x3xf32>, tensor<?x3xf32>) -> tensor<?x3xf32>
  %l = onnx.node "ReduceMean"(%z) version 18 {keepdims = 0 : si64} : (tensor<?x3xf32>) -> tensor<f32>
  onnx.return %l : tensor<f32>
}
