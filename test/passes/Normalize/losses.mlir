// A loss is a sum of terms numerator / denominator, both sums over the samples of the minibatch.
// RUN: harmony-opt %s -split-input-file --harmony-normalize | FileCheck %s

// A mean over [N, 3]: 3 elements per sample.
// CHECK-LABEL: func.func @main
// CHECK: %[[S:.*]] = nn.reduce {{.*}}sum %{{.*}} over [0, 1] : tensor<?x3xf32, #nn.batch<0, 1>> -> tensor<f32>
// CHECK-NEXT: nn.loss %[[S]] scale 1.000000e+00 count 3.000000e+00 : tensor<f32>
// CHECK-NEXT: return
onnx.graph @main(%x: tensor<?x3xf32> {onnx.name = "x", onnx.dims = ["batch", 3]}) -> (tensor<f32> {onnx.name = "loss"}) {
  %s = onnx.node "Mul"(%x, %x) version 14 {} : (tensor<?x3xf32>, tensor<?x3xf32>) -> tensor<?x3xf32>
  %l = onnx.node "ReduceMean"(%s) version 18 {keepdims = 0 : si64} : (tensor<?x3xf32>) -> tensor<f32>
  onnx.return %l : tensor<f32>
}

// -----

// Means of means, scaled: 0.5 * mean over samples of (sum over 3).
// CHECK-LABEL: func.func @main
// CHECK: %[[R:.*]] = nn.reduce {{.*}}sum %{{.*}} over [1]
// CHECK: %[[S:.*]] = nn.reduce {{.*}}sum %[[R]] over [0] : tensor<?xf32, #nn.batch<0, 1>> -> tensor<f32>
// CHECK-NEXT: nn.loss %[[S]] scale 5.000000e-01 count 1.000000e+00 : tensor<f32>
onnx.graph @main(%x: tensor<?x3xf32> {onnx.name = "x", onnx.dims = ["batch", 3]}) -> (tensor<f32> {onnx.name = "loss"}) {
  %half = onnx.node "Constant"() version 19 {value_float = 0.5 : f32} : () -> tensor<f32>
  %axis = onnx.node "Constant"() version 19 {value_ints = array<i64: 1>} : () -> tensor<1xi64>
  %r = onnx.node "ReduceSum"(%x, %axis) version 13 {keepdims = 0 : si64} : (tensor<?x3xf32>, tensor<1xi64>) -> tensor<?xf32>
  %m = onnx.node "ReduceMean"(%r) version 18 {keepdims = 0 : si64} : (tensor<?xf32>) -> tensor<f32>
  %l = onnx.node "Mul"(%m, %half) version 14 {} : (tensor<f32>, tensor<f32>) -> tensor<f32>
  onnx.return %l : tensor<f32>
}

// -----

// A sum divided by the batch size, as PyTorch's batchmean writes it, is a mean.
// CHECK-LABEL: func.func @main
// CHECK: nn.loss %{{.*}} scale 1.000000e+00 count 1.000000e+00 : tensor<f32>
onnx.graph @main(%x: tensor<?x3xf32> {onnx.name = "x", onnx.dims = ["batch", 3]}) -> (tensor<f32> {onnx.name = "loss"}) {
  %s = onnx.node "ReduceSum"(%x) version 13 {keepdims = 0 : si64} : (tensor<?x3xf32>) -> tensor<f32>
  %n = onnx.node "Shape"(%x) version 15 {end = 1 : si64} : (tensor<?x3xf32>) -> tensor<1xi64>
  %n0 = onnx.node "Squeeze"(%n) version 13 {} : (tensor<1xi64>) -> tensor<i64>
  %f = onnx.node "Cast"(%n0) version 19 {to = 1 : si64} : (tensor<i64>) -> tensor<f32>
  %l = onnx.node "Div"(%s, %f) version 14 {} : (tensor<f32>, tensor<f32>) -> tensor<f32>
  onnx.return %l : tensor<f32>
}

// -----

// A sum stays one: its denominator is constant.
// CHECK-LABEL: func.func @main
// CHECK: nn.loss %{{.*}} scale 1.000000e+00 count 1.000000e+00 constant : tensor<f32>
onnx.graph @main(%x: tensor<?x3xf32> {onnx.name = "x", onnx.dims = ["batch", 3]}) -> (tensor<f32> {onnx.name = "loss"}) {
  %l = onnx.node "ReduceSum"(%x) version 13 {keepdims = 0 : si64} : (tensor<?x3xf32>) -> tensor<f32>
  onnx.return %l : tensor<f32>
}

// -----

// The valid labels are the denominator: input alone, for the prologue to count.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %arg1: tensor<?xi64, #nn.batch<0, 1>> {nn.ignored = -100 : i64, nn.index_range = [0, 3], nn.name = "labels"}
// CHECK: %[[L:.*]], %{{.*}} = nn.cross_entropy %arg0, %arg1 ignore -100
// CHECK: %[[I:.*]] = arith.cmpi eq, %arg1
// CHECK: %[[V:.*]] = arith.select %[[I]]
// CHECK: %[[N:.*]] = nn.reduce {{.*}}sum %[[L]] over [0]
// CHECK: %[[D:.*]] = nn.reduce {{.*}}sum %[[V]] over [0]
// CHECK: nn.loss %[[N]] over %[[D]] : tensor<f32> scale 1.000000e+00
onnx.graph @main(%x: tensor<?x3xf32> {onnx.name = "x", onnx.dims = ["batch", 3]}, %t: tensor<?xi64> {onnx.name = "labels", onnx.dims = ["batch"]}) -> (tensor<f32> {onnx.name = "loss"}) {
  %l = onnx.node "SoftmaxCrossEntropyLoss"(%x, %t) version 13 {ignore_index = -100 : si64} : (tensor<?x3xf32>, tensor<?xi64>) -> tensor<f32>
  onnx.return %l : tensor<f32>
}

// -----

// Class weights enter numerator and denominator. Classes are axis 1: they move to the end.
// CHECK-LABEL: func.func @main
// CHECK: %[[X:.*]] = nn.transpose %arg0 by [0, 2, 1] : tensor<?x3x5xf32, #nn.batch<0, 1>>
// CHECK: %[[L:.*]], %{{.*}} = nn.cross_entropy %[[X]], %arg1
// CHECK: %[[W:.*]] = nn.gather %{{.*}} at %arg1 axis 0 batch 0 : tensor<3xf32>
// CHECK: %[[P:.*]] = arith.mulf %[[L]], %[[W]]
// CHECK: %[[N:.*]] = nn.reduce {{.*}}sum %[[P]] over [0, 1]
// CHECK: %[[D:.*]] = nn.reduce {{.*}}sum %[[W]] over [0, 1]
// CHECK: nn.loss %[[N]] over %[[D]]
onnx.graph @main(%x: tensor<?x3x5xf32> {onnx.name = "x", onnx.dims = ["batch", 3, 5]}, %t: tensor<?x5xi64> {onnx.name = "labels", onnx.dims = ["batch", 5]}) -> (tensor<f32> {onnx.name = "loss"}) {
  %weights = onnx.node "Constant"() version 19 {value_floats = array<f32: 1.0, 2.0, 3.0>} : () -> tensor<3xf32>
  %l = onnx.node "SoftmaxCrossEntropyLoss"(%x, %t, %weights) version 13 {} : (tensor<?x3x5xf32>, tensor<?x5xi64>, tensor<3xf32>) -> tensor<f32>
  onnx.return %l : tensor<f32>
}

// -----

// A masked mean written out: sum(x * m) / sum(m).
// CHECK-LABEL: func.func @main
// CHECK: %[[N:.*]] = nn.reduce {{.*}}sum %{{.*}} over [0, 1]
// CHECK: %[[D:.*]] = nn.reduce {{.*}}sum %arg1 over [0, 1]
// CHECK: nn.loss %[[N]] over %[[D]] : tensor<f32> scale 1.000000e+00
onnx.graph @main(%x: tensor<?x3xf32> {onnx.name = "x", onnx.dims = ["batch", 3]}, %m: tensor<?x3xf32> {onnx.name = "mask", onnx.dims = ["batch", 3]}) -> (tensor<f32> {onnx.name = "loss"}) {
  %p = onnx.node "Mul"(%x, %m) version 14 {} : (tensor<?x3xf32>, tensor<?x3xf32>) -> tensor<?x3xf32>
  %n = onnx.node "ReduceSum"(%p) version 13 {keepdims = 0 : si64} : (tensor<?x3xf32>) -> tensor<f32>
  %d = onnx.node "ReduceSum"(%m) version 13 {keepdims = 0 : si64} : (tensor<?x3xf32>) -> tensor<f32>
  %l = onnx.node "Div"(%n, %d) version 14 {} : (tensor<f32>, tensor<f32>) -> tensor<f32>
  onnx.return %l : tensor<f32>
}

// -----

// Two terms, and a penalty on a parameter: counted once per minibatch, as the mean of a copy per sample.
// CHECK-LABEL: func.func @main
// CHECK: %[[A:.*]] = nn.reduce {{.*}}sum %{{.*}} over [0, 1]
// CHECK: %[[W:.*]] = nn.get @w
// CHECK: %[[Q:.*]] = nn.reduce {{.*}}sum %{{.*}} over [0] : tensor<3xf32> -> tensor<f32>
// CHECK: %[[C:.*]] = nn.broadcast %[[Q]] to [] : tensor<f32> -> tensor<?xf32, #nn.batch<0, 1>>
// CHECK: %[[P:.*]] = nn.reduce {{.*}}sum %[[C]] over [0]
// CHECK: nn.loss %[[A]] scale 1.000000e+00 count 3.000000e+00
// CHECK: nn.loss %[[P]] scale -1.000000e+00 count 1.000000e+00
onnx.initializer @w : tensor<3xf32> = dense<[1.0, 2.0, 3.0]> : tensor<3xf32> {kind = "PARAMETER"}
onnx.graph @main(%x: tensor<?x3xf32> {onnx.name = "x", onnx.dims = ["batch", 3]}) -> (tensor<f32> {onnx.name = "loss"}) {
  %w = onnx.initial_value @w : tensor<3xf32>
  %p = onnx.node "Mul"(%x, %w) version 14 {} : (tensor<?x3xf32>, tensor<3xf32>) -> tensor<?x3xf32>
  %m = onnx.node "ReduceMean"(%p) version 18 {keepdims = 0 : si64} : (tensor<?x3xf32>) -> tensor<f32>
  %q = onnx.node "ReduceSumSquare"(%w) version 18 {keepdims = 0 : si64} : (tensor<3xf32>) -> tensor<f32>
  %l = onnx.node "Sub"(%m, %q) version 14 {} : (tensor<f32>, tensor<f32>) -> tensor<f32>
  onnx.return %l : tensor<f32>
}

// -----

// LogSoftmax and NLL are one cross entropy.
// CHECK-LABEL: func.func @main
// CHECK-NEXT: %[[L:.*]], %{{.*}} = nn.cross_entropy %arg0, %arg1 :
// CHECK-NEXT: %[[S:.*]] = nn.reduce {{.*}}sum %[[L]] over [0]
// CHECK-NEXT: nn.loss %[[S]] scale 1.000000e+00 count 1.000000e+00 :
onnx.graph @main(%x: tensor<?x3xf32> {onnx.name = "x", onnx.dims = ["batch", 3]}, %t: tensor<?xi64> {onnx.name = "labels", onnx.dims = ["batch"]}) -> (tensor<f32> {onnx.name = "loss"}) {
  %p = onnx.node "LogSoftmax"(%x) version 13 {axis = 1 : si64} : (tensor<?x3xf32>) -> tensor<?x3xf32>
  %l = onnx.node "NegativeLogLikelihoodLoss"(%p, %t) version 13 {} : (tensor<?x3xf32>, tensor<?xi64>) -> tensor<f32>
  onnx.return %l : tensor<f32>
}
