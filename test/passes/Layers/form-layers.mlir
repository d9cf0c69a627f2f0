// Cuts, arguments, marks, what is repeated and what becomes a variable.
// RUN: harmony-opt %s --harmony-form-layers --harmony-verify-layers | FileCheck %s

!x = tensor<?x8xf32, #nn.batch<0, 1>>
nn.variable <parameter> @w0 : tensor<8x8xf32>
nn.variable <parameter> @w1 : tensor<8x8xf32>
nn.variable <frozen> @w2 : tensor<8x8xf32>
nn.variable <buffer> @offset : tensor<8xf32>

// A table is read from memory: it becomes a variable.
// CHECK: nn.variable <constant> @constant : tensor<8xf32> = dense<[0.000000e+00, 1.000000e+00,

// Four products make four layers. Variables are read at the top, and w0 once, though the graph reads it twice.
// CHECK-LABEL: func.func @main(
// CHECK-SAME:    %[[X:.*]]: tensor<?x8xf32, #nn.batch<0, 1>> {nn.name = "x"}, %[[LABELS:.*]]: tensor<?xi64, #nn.batch<0, 1>> {nn.name = "labels"}, %[[MASK:.*]]: tensor<?xf32, #nn.batch<0, 1>> {nn.name = "mask"}) {
// CHECK-DAG:     %[[TABLE:.*]] = nn.get @constant
// CHECK-DAG:     %[[W0:.*]] = nn.get @w0
// CHECK-DAG:     %[[OFFSET:.*]] = nn.get @offset
// CHECK-DAG:     %[[W1:.*]] = nn.get @w1
// CHECK-DAG:     %[[W2:.*]] = nn.get @w2
// CHECK-NOT:     nn.get
// Weights first, then inputs, then values of the chain. Where a cut is as narrow in several places, the first is taken.
// CHECK:         %[[H0:.*]] = call @layer_0(%[[W0]], %[[X]]) {nn.layer_name = "w0"}
// CHECK-NEXT:    %[[H1:.*]] = call @layer_1(%[[OFFSET]], %[[W1]], %[[MASK]], %[[H0]]) {nn.layer_name = "w1"}
// CHECK-NEXT:    %[[H2:.*]] = call @layer_2(%[[TABLE]], %[[OFFSET]], %[[W2]], %[[MASK]], %[[H1]]) {nn.layer_name = "w2"}
// CHECK-NEXT:    %[[SUM:.*]] = call @layer_3(%[[W0]], %[[LABELS]], %[[MASK]], %[[H2]]) {nn.layer_name = "w0"}
// The denominator is the prologue's result 0; outputs are not computed when training.
// CHECK-NEXT:    nn.loss %[[SUM]] scale 1.000000e+00 count 1.000000e+00 {nn.denominator = 0 : i64} : tensor<f32>
// CHECK-NEXT:    return
// CHECK-NEXT:  }

// CHECK-LABEL: func.func @prologue(
// CHECK-SAME:    %{{.*}}: tensor<?x8xf32, #nn.batch<0, 1>> {nn.name = "x"}, %{{.*}}: tensor<?xi64, #nn.batch<0, 1>> {nn.name = "labels"}, %[[MASK:.*]]: tensor<?xf32, #nn.batch<0, 1>> {nn.name = "mask"}) -> tensor<f32> {
// CHECK-NEXT:    %[[COUNT:.*]] = nn.reduce sum %[[MASK]] over [0]
// CHECK-NEXT:    return %[[COUNT]] : tensor<f32>

// Evaluation shares the layers that it has in common, and has a last one with the output.
// CHECK-LABEL: func.func @evaluate(
// CHECK-SAME:    -> (tensor<?x8xf32, #nn.batch<0, 1>> {nn.name = "y"}) {
// CHECK:         call @layer_0(
// CHECK-NEXT:    call @layer_1(
// CHECK-NEXT:    call @layer_2(
// CHECK-NEXT:    %[[LAST:.*]]:2 = call @layer_4(
// CHECK-NEXT:    nn.loss %[[LAST]]#1
// CHECK-NEXT:    return %[[LAST]]#0

// A transposed weight is repeated, not handed over. An input of the graph gets no gradient.
// CHECK-LABEL: func.func private @layer_0(
// CHECK-SAME:    %[[W:.*]]: tensor<8x8xf32> {nn.differentiable}, %[[X:.*]]: tensor<?x8xf32, #nn.batch<0, 1>>) -> (tensor<?x8xf32, #nn.batch<0, 1>> {nn.differentiable}) attributes {nn.layer} {
// CHECK-NEXT:    %[[T:.*]] = nn.transpose %[[W]]
// CHECK-NEXT:    nn.dot_general %[[X]], %[[T]]

// mask * offset depends on no weight: layers 1 and 2 compute it for themselves.
// CHECK-LABEL: func.func private @layer_1(
// CHECK-SAME:    %[[OFFSET:[^:]*]]: tensor<8xf32>, %{{.*}}: tensor<8x8xf32> {nn.differentiable}, %[[MASK:[^:]*]]: tensor<?xf32, #nn.batch<0, 1>>, %[[H:[^:]*]]: tensor<?x8xf32, #nn.batch<0, 1>> {nn.differentiable})
// CHECK-DAG:     %[[M:.*]] = nn.broadcast %[[MASK]] to [0]
// CHECK-DAG:     %[[O:.*]] = nn.broadcast %[[OFFSET]] to [1]
// CHECK:         %[[SHIFT:.*]] = arith.mulf %[[M]], %[[O]]
// CHECK-NEXT:    arith.addf %[[H]], %[[SHIFT]]
// CHECK-NEXT:    nn.dot_general

// What is frozen gets no gradient; what passes through it does.
// CHECK-LABEL: func.func private @layer_2(
// CHECK-SAME:    tensor<8x8xf32>, %{{.*}}: tensor<?xf32, #nn.batch<0, 1>>, %{{.*}}: tensor<?x8xf32, #nn.batch<0, 1>> {nn.differentiable}) -> (tensor<?x8xf32, #nn.batch<0, 1>> {nn.differentiable})
// CHECK:         arith.mulf

// CHECK-LABEL: func.func private @layer_3(
// CHECK-SAME:    -> (tensor<f32> {nn.differentiable})
// CHECK-NOT:     nn.softmax

// Nothing differentiates a layer of the evaluation alone.
// CHECK-LABEL: func.func private @layer_4(
// CHECK-NOT:     nn.differentiable
// CHECK-SAME:    attributes {nn.layer}
// CHECK:         nn.softmax
func.func @main(%x: !x {nn.name = "x"}, %labels: tensor<?xi64, #nn.batch<0, 1>> {nn.name = "labels"}, %mask: tensor<?xf32, #nn.batch<0, 1>> {nn.name = "mask"})
    -> (!x {nn.name = "y"}) {
  %table = arith.constant dense<[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]> : tensor<8xf32>
  %w0 = nn.get @w0 : tensor<8x8xf32>
  %w0t = nn.transpose %w0 by [1, 0] : tensor<8x8xf32> -> tensor<8x8xf32>
  %offset = nn.get @offset : tensor<8xf32>
  %all = nn.broadcast %offset to [1] : tensor<8xf32> -> !x
  %rows = nn.broadcast %mask to [0] : tensor<?xf32, #nn.batch<0, 1>> -> !x
  %shift = arith.mulf %rows, %all : !x
  %h0 = nn.dot_general %x, %w0t batch [] x [] contract [1] x [0] : !x, tensor<8x8xf32> -> !x
  %a0 = arith.addf %h0, %shift : !x
  %w1 = nn.get @w1 : tensor<8x8xf32>
  %h1 = nn.dot_general %a0, %w1 batch [] x [] contract [1] x [0] : !x, tensor<8x8xf32> -> !x
  %tables = nn.broadcast %table to [1] : tensor<8xf32> -> !x
  %a1 = arith.addf %h1, %tables : !x
  %b1 = arith.addf %a1, %shift : !x
  %w2 = nn.get @w2 : tensor<8x8xf32>
  %h2 = nn.dot_general %b1, %w2 batch [] x [] contract [1] x [0] : !x, tensor<8x8xf32> -> !x
  %again = nn.get @w0 : tensor<8x8xf32>
  %h3 = nn.dot_general %h2, %again batch [] x [] contract [1] x [0] : !x, tensor<8x8xf32> -> !x
  %y = nn.softmax %h3 : !x
  %losses, %logSum = nn.cross_entropy %h3, %labels : !x, tensor<?xi64, #nn.batch<0, 1>> -> tensor<?xf32, #nn.batch<0, 1>>, tensor<?xf32, #nn.batch<0, 1>>
  %weighted = arith.mulf %losses, %mask : tensor<?xf32, #nn.batch<0, 1>>
  %sum = nn.reduce sum %weighted over [0] : tensor<?xf32, #nn.batch<0, 1>> -> tensor<f32>
  %count = nn.reduce sum %mask over [0] : tensor<?xf32, #nn.batch<0, 1>> -> tensor<f32>
  nn.loss %sum over %count : tensor<f32> scale 1.0 count 1.0 : tensor<f32>
  return %y : !x
}
