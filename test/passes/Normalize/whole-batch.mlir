// A model that combines samples is normalised for microbatches of one size, where that is known.
// RUN: harmony-opt %s --harmony-normalize=samples=4 --harmony-verify-normalized 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t
// RUN: not harmony-opt %s --harmony-normalize 2>&1 | FileCheck %s --check-prefix=REFUSED

// WHY: the model combines samples: each microbatch is computed with all of its 4 samples together
// WHY-NEXT: {{.*}}note: node 's' (MatMul, opset version 13): shapes [N, 3] and [3, N] do not fit
// REFUSED: error: node 's' (MatMul, opset version 13): shapes [N, 3] and [3, N] do not fit, or carry the batch along different axes

// CHECK: module attributes {
// CHECK-SAME: nn.unsplittable = ["node 's' (MatMul, opset version 13):
// CHECK-SAME: nn.whole_batch = 4 : i64
// CHECK: func.func @main(%[[X:.*]]: tensor<?x3xf32, #nn.batch<0, 1>>
// All samples as one value.
// CHECK: %[[WHOLE:.*]] = nn.reshape %[[X]] : tensor<?x3xf32, #nn.batch<0, 1>> -> tensor<4x3xf32>
// CHECK: %[[S:.*]] = nn.dot_general %[[WHOLE]], %[[WHOLE]]
// CHECK-SAME: -> tensor<4x4xf32>
// The loss of the step is the mean of those of its microbatches: 1 / 4 of D.
// CHECK: nn.loss %{{.*}} scale 1.000000e+00 count 2.500000e-01 : tensor<f32>
// An output with a row for each sample.
// CHECK: %[[ROWS:.*]] = nn.reshape %[[S]] : tensor<4x4xf32> -> tensor<?x4xf32, #nn.batch<0, 1>>
// CHECK: return %[[ROWS]]
onnx.graph @main(%x: tensor<?x3xf32> {onnx.name = "x", onnx.dims = ["batch", 3]}) -> (tensor<f32> {onnx.name = "loss"}, tensor<?x?xf32> {onnx.name = "y"}) {
  %t = onnx.node "Transpose"(%x) version 13 {perm = array<i64: 1, 0>} names ["t"] : (tensor<?x3xf32>) -> tensor<3x?xf32>
  %s = onnx.node "MatMul"(%x, %t) version 13 {} names ["s"] : (tensor<?x3xf32>, tensor<3x?xf32>) -> tensor<?x?xf32>
  %l = onnx.node "ReduceMean"(%s) version 18 {keepdims = 0 : si64} : (tensor<?x?xf32>) -> tensor<f32>
  onnx.return %l, %s : tensor<f32>, tensor<?x?xf32>
}
