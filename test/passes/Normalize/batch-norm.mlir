// BatchNormalization: both forms, all versions, what evaluation reads, what is assigned.
// RUN: harmony-opt %s -split-input-file --harmony-normalize --harmony-verify-normalized | FileCheck %s
// RUN: harmony-opt %s -split-input-file --harmony-normalize=bn-running-var=onnx | FileCheck %s --check-prefix=ONNX
// RUN: harmony-opt %s -split-input-file --harmony-normalize=forward=true | FileCheck %s --check-prefix=FORWARD
// RUN: harmony-opt %s -split-input-file --harmony-normalize=batch-norm=train | FileCheck %s --check-prefix=TRAIN
// RUN: harmony-opt %s -split-input-file --harmony-normalize --harmony-form-layers --harmony-verify-layers | FileCheck %s --check-prefix=LAYERS

// One node of each form: the second is frozen on purpose. Statistics are buffers by where they are read, whatever their names.
// CHECK-LABEL: module attributes {nn.unsplittable = ["node 'first' (BatchNormalization): normalises by the mean and variance of all samples"]}
// CHECK: nn.variable <buffer> @m : tensor<3xf32> = {{.*}} {nn.reason = "it is a running statistic of BatchNormalization"}
// CHECK: nn.variable <buffer> @v : tensor<3xf32>
// CHECK: func.func @main(%[[X:.*]]: tensor<?x3x4xf32, #nn.batch<0, 1>> {nn.name = "x"})
// An image is computed with its channels last; 4 elements a sample and channel.
// CHECK: %[[Y:.*]], %[[MEAN:.*]], %[[VARIANCE:.*]], %{{.*}} = nn.batch_norm %{{.*}}, %{{.*}}, %{{.*}} epsilon 0.001{{[0-9]*}} : tensor<?x4x3xf32, #nn.batch<0, 1>>
// CHECK: %[[COUNT:.*]] = nn.count 4 : tensor<f32>
// CHECK: %[[LESS:.*]] = arith.subf %[[COUNT]], %{{.*}}
// CHECK: %[[LEAST:.*]] = arith.maximumf %[[LESS]], %{{.*}}
// CHECK: arith.divf %[[COUNT]], %[[LEAST]]
// CHECK: nn.assign @m, %{{.*}} : tensor<3xf32>
// CHECK: nn.assign @v, %{{.*}} : tensor<3xf32>
// CHECK: math.sqrt
// CHECK: nn.by_mode %[[Y]] or %{{.*}}
// CHECK-NOT: nn.batch_norm
// CHECK: return

// ONNX-LABEL: func.func @main
// ONNX-NOT: nn.count
// ONNX: nn.assign @v

// FORWARD-NOT: nn.unsplittable
// FORWARD-LABEL: func.func @main
// FORWARD-NOT: nn.batch_norm
// FORWARD-NOT: nn.assign
// FORWARD: return

// TRAIN: nn.unsplittable = ["node 'first' {{.*}}", "node 'second' {{.*}}"]
// TRAIN-LABEL: func.func @main
// TRAIN: nn.assign @m,
// TRAIN: nn.assign @v,
// TRAIN: nn.batch_norm {{.*}} epsilon 9.9
// TRAIN: nn.assign @m2,
// TRAIN: nn.assign @v2,

// The layer returns what its arguments become; evaluation neither computes nor assigns it.
// LAYERS-LABEL: func.func @main
// LAYERS-DAG: %[[M:.*]] = nn.get @m :
// LAYERS-DAG: %[[V:.*]] = nn.get @v :
// LAYERS: %[[CALL:.*]]:3 = call @layer_0(%{{.*}}, %{{.*}}, %[[M]], %[[V]],
// LAYERS-DAG: nn.assign @m, %[[CALL]]#
// LAYERS-DAG: nn.assign @v, %[[CALL]]#
// LAYERS-LABEL: func.func @evaluate
// LAYERS-NOT: nn.assign
// LAYERS: return
// LAYERS-LABEL: func.func private @layer_0
// LAYERS-SAME: tensor<3xf32> {nn.assigns = 2 : i64}, tensor<3xf32> {nn.assigns = 3 : i64})
// LAYERS-LABEL: func.func private @layer_1
// LAYERS-NOT: nn.batch_norm
onnx.initializer @s : tensor<3xf32> = dense<1.0> : tensor<3xf32>
onnx.initializer @b : tensor<3xf32> = dense<0.0> : tensor<3xf32>
onnx.initializer @m : tensor<3xf32> = dense<0.0> : tensor<3xf32>
onnx.initializer @v : tensor<3xf32> = dense<1.0> : tensor<3xf32>
onnx.initializer @m2 : tensor<3xf32> = dense<0.5> : tensor<3xf32>
onnx.initializer @v2 : tensor<3xf32> = dense<2.0> : tensor<3xf32>
onnx.graph @main(%x: tensor<?x3x4xf32> {onnx.name = "x", onnx.dims = ["batch", 3, 4]}) -> (tensor<f32> {onnx.name = "loss"}) {
  %s = onnx.initial_value @s : tensor<3xf32>
  %b = onnx.initial_value @b : tensor<3xf32>
  %m = onnx.initial_value @m : tensor<3xf32>
  %v = onnx.initial_value @v : tensor<3xf32>
  %m2 = onnx.initial_value @m2 : tensor<3xf32>
  %v2 = onnx.initial_value @v2 : tensor<3xf32>
  %same = onnx.node "Identity"(%m) version 16 {} : (tensor<3xf32>) -> tensor<3xf32>
  %y, %mean, %variance = onnx.node "BatchNormalization"(%x, %s, %b, %same, %v) version 15 {epsilon = 0.001 : f32, momentum = 0.5 : f32, training_mode = 1 : si64} names ["first", "mean", "variance"] : (tensor<?x3x4xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<?x3x4xf32>, tensor<3xf32>, tensor<3xf32>)
  %z = onnx.node "BatchNormalization"(%y, %s, %b, %m2, %v2) version 15 {} names ["second"] : (tensor<?x3x4xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<?x3x4xf32>
  %l = onnx.node "ReduceMean"(%z) version 18 {keepdims = 0 : si64} : (tensor<?x3x4xf32>) -> tensor<f32>
  onnx.return %l : tensor<f32>
}
