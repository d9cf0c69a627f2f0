// Which output is the loss, and what becomes of the others.
// RUN: harmony-opt %s --harmony-normalize="loss-output=second" 2>&1 | FileCheck %s --check-prefix=SECOND
// RUN: not harmony-opt %s --harmony-normalize 2>&1 | FileCheck %s --check-prefix=SEVERAL
// RUN: not harmony-opt %s --harmony-normalize="loss-output=third" 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not harmony-opt %s --harmony-normalize="loss-output=y" 2>&1 | FileCheck %s --check-prefix=VECTOR
// RUN: harmony-opt %s --harmony-normalize="forward=true" 2>/dev/null | FileCheck %s --check-prefix=FORWARD

// SECOND: remark: output 'first' is a sum over the samples of the minibatch other than the loss: dropped
// SECOND: func.func @main(%arg0: {{.*}}) -> (tensor<?x3xf32, #nn.batch<0, 1>> {nn.name = "y"})
// SECOND: nn.loss %{{.*}} constant
// SEVERAL: error: several outputs could be the loss: choose one by --loss-output; outputs are 'y' f32[N, 3], 'first' f32[], 'second' f32[]
// NONE: error: no output is named 'third'; outputs are 'y' f32[N, 3], 'first' f32[], 'second' f32[]
// VECTOR: error: output 'y' has shape [N, 3], expected a floating scalar for the loss
// FORWARD-NOT: nn.loss
onnx.graph @main(%x: tensor<?x3xf32> {onnx.name = "x", onnx.dims = ["batch", 3]})
    -> (tensor<?x3xf32> {onnx.name = "y"}, tensor<f32> {onnx.name = "first"}, tensor<f32> {onnx.name = "second"}) {
  %y = onnx.node "Relu"(%x) version 14 {} : (tensor<?x3xf32>) -> tensor<?x3xf32>
  %m = onnx.node "ReduceMean"(%y) version 18 {keepdims = 0 : si64} : (tensor<?x3xf32>) -> tensor<f32>
  %s = onnx.node "ReduceSum"(%y) version 13 {keepdims = 0 : si64} : (tensor<?x3xf32>) -> tensor<f32>
  onnx.return %y, %m, %s : tensor<?x3xf32>, tensor<f32>, tensor<f32>
}
