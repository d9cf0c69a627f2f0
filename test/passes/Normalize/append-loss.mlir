// A loss for a graph that has none.
// RUN: harmony-opt %s --harmony-normalize="loss=cross-entropy" | FileCheck %s --check-prefix=ENTROPY
// RUN: harmony-opt %s --harmony-normalize="loss=mse" | FileCheck %s --check-prefix=MSE
// RUN: not harmony-opt %s --harmony-normalize="loss=hinge" 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not harmony-opt %s --harmony-normalize 2>&1 | FileCheck %s --check-prefix=MISSING

// ENTROPY: func.func @main(%arg0: {{.*}}, %arg1: tensor<?xi64, #nn.batch<0, 1>> {nn.ignored = -100 : i64, nn.index_range = [0, 3], nn.name = "labels"}) -> (tensor<?x3xf32, #nn.batch<0, 1>> {nn.name = "logits"})
// ENTROPY: nn.cross_entropy %{{.*}}, %arg1 ignore -100
// ENTROPY: nn.loss %{{.*}} over %{{.*}}
// MSE: func.func @main(%arg0: {{.*}}, %arg1: tensor<?x3xf32, #nn.batch<0, 1>> {nn.name = "target"})
// MSE: %[[D:.*]] = arith.subf %{{.*}}, %arg1
// MSE: arith.mulf %[[D]], %[[D]]
// MSE: nn.loss %{{.*}} scale 1.000000e+00 count 3.000000e+00
// UNKNOWN: error: loss is 'hinge', accepted are cross-entropy and mse
// MISSING: error: no output is a floating scalar that could be the loss: append one by --loss; outputs are 'logits' f32[N, 3]
onnx.graph @main(%x: tensor<?x3xf32> {onnx.name = "x", onnx.dims = ["batch", 3]}) -> (tensor<?x3xf32> {onnx.name = "logits"}) {
  %y = onnx.node "Tanh"(%x) version 13 {} : (tensor<?x3xf32>) -> tensor<?x3xf32>
  onnx.return %y : tensor<?x3xf32>
}
