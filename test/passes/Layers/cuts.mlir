// Where the chain is cut.
// RUN: harmony-opt %s --harmony-form-layers --harmony-verify-layers --split-input-file | FileCheck %s

// Look-ups that are added up make one layer. Of two places between heavy ops, the narrower is taken: 4 floats a sample
// behind the reduction instead of 32.
nn.variable <parameter> @token : tensor<50x4xf32>
nn.variable <parameter> @kind : tensor<2x4xf32>
nn.variable <parameter> @w : tensor<4x4xf32>
// CHECK-LABEL: func.func @main
// CHECK:         %[[E:.*]] = call @layer_0({{.*}}) {nn.layer_name = "kind"} : {{.*}} -> tensor<?x4xf32, #nn.batch<0, 1>>
// CHECK-NEXT:    call @layer_1({{.*}}, %[[E]]) {nn.layer_name = "w"}
// CHECK-NEXT:    nn.loss
// CHECK:       func.func private @layer_0
// CHECK:         nn.gather
// CHECK:         nn.gather
// CHECK:         nn.reduce
func.func @main(%ids: tensor<?x8xi64, #nn.batch<0, 1>> {nn.name = "ids"}, %kinds: tensor<?x8xi64, #nn.batch<0, 1>> {nn.name = "kinds"}) {
  %t = nn.get @token : tensor<50x4xf32>
  %k = nn.get @kind : tensor<2x4xf32>
  %w = nn.get @w : tensor<4x4xf32>
  %0 = nn.gather %t at %ids axis 0 batch 0 : tensor<50x4xf32>, tensor<?x8xi64, #nn.batch<0, 1>> -> tensor<?x8x4xf32, #nn.batch<0, 1>>
  %1 = nn.gather %k at %kinds axis 0 batch 0 : tensor<2x4xf32>, tensor<?x8xi64, #nn.batch<0, 1>> -> tensor<?x8x4xf32, #nn.batch<0, 1>>
  %2 = arith.addf %0, %1 : tensor<?x8x4xf32, #nn.batch<0, 1>>
  %3 = nn.reduce sum %2 over [1] : tensor<?x8x4xf32, #nn.batch<0, 1>> -> tensor<?x4xf32, #nn.batch<0, 1>>
  %4 = nn.dot_general %3, %w batch [] x [] contract [1] x [0] : tensor<?x4xf32, #nn.batch<0, 1>>, tensor<4x4xf32> -> tensor<?x4xf32, #nn.batch<0, 1>>
  %5 = nn.reduce sum %4 over [0, 1] : tensor<?x4xf32, #nn.batch<0, 1>> -> tensor<f32>
  nn.loss %5 scale 1.0 count 1.0 : tensor<f32>
  return
}

// -----

// CHECK-LABEL: {{^}}// {{-+$}}
// A residual branch of two products: between them 4 + 8 floats of two values are live, wider than the cuts on both
// sides (4), so it stays whole.
nn.variable <parameter> @a : tensor<4x4xf32>
nn.variable <parameter> @up : tensor<4x8xf32>
nn.variable <parameter> @down : tensor<8x4xf32>
nn.variable <parameter> @c : tensor<4x4xf32>
// CHECK-LABEL: func.func @main
// CHECK:         %[[A:.*]] = call @layer_0({{.*}}) {nn.layer_name = "a"}
// CHECK-NEXT:    %[[B:.*]] = call @layer_1({{.*}}, %[[A]]) {nn.layer_name = "down"} : {{.*}} -> tensor<?x4xf32, #nn.batch<0, 1>>
// CHECK-NEXT:    call @layer_2({{.*}}, %[[B]]) {nn.layer_name = "c"}
// CHECK-NEXT:    nn.loss
func.func @main(%x: tensor<?x4xf32, #nn.batch<0, 1>> {nn.name = "x"}) {
  %a = nn.get @a : tensor<4x4xf32>
  %up = nn.get @up : tensor<4x8xf32>
  %down = nn.get @down : tensor<8x4xf32>
  %c = nn.get @c : tensor<4x4xf32>
  %0 = nn.dot_general %x, %a batch [] x [] contract [1] x [0] : tensor<?x4xf32, #nn.batch<0, 1>>, tensor<4x4xf32> -> tensor<?x4xf32, #nn.batch<0, 1>>
  %1 = nn.dot_general %0, %up batch [] x [] contract [1] x [0] : tensor<?x4xf32, #nn.batch<0, 1>>, tensor<4x8xf32> -> tensor<?x8xf32, #nn.batch<0, 1>>
  %2 = nn.gelu %1 : tensor<?x8xf32, #nn.batch<0, 1>>
  %3 = nn.dot_general %2, %down batch [] x [] contract [1] x [0] : tensor<?x8xf32, #nn.batch<0, 1>>, tensor<8x4xf32> -> tensor<?x4xf32, #nn.batch<0, 1>>
  %4 = arith.addf %0, %3 : tensor<?x4xf32, #nn.batch<0, 1>>
  %5 = nn.dot_general %4, %c batch [] x [] contract [1] x [0] : tensor<?x4xf32, #nn.batch<0, 1>>, tensor<4x4xf32> -> tensor<?x4xf32, #nn.batch<0, 1>>
  %6 = nn.reduce sum %5 over [0, 1] : tensor<?x4xf32, #nn.batch<0, 1>> -> tensor<f32>
  nn.loss %6 scale 1.0 count 1.0 : tensor<f32>
  return
}

// -----

// CHECK-LABEL: {{^}}// {{-+$}}
// Two terms, one a penalty of weights alone: the last layer computes both. The second has no denominator.
nn.variable <parameter> @w : tensor<4x4xf32>
// CHECK-LABEL: func.func @main
// CHECK:         %[[W:.*]] = nn.get @w
// CHECK-NEXT:    %[[L:.*]]:2 = call @layer_0(%[[W]], %{{.*}}) {nn.layer_name = "w"}
// CHECK-NEXT:    nn.loss %[[L]]#0 scale 1.000000e+00 count 1.000000e+00 {nn.denominator = 0 : i64} : tensor<f32>
// CHECK-NEXT:    nn.loss %[[L]]#1 scale 1.000000e-01 count 1.000000e+00 constant : tensor<f32>
// CHECK-LABEL: func.func @prologue
// CHECK-LABEL: func.func private @layer_0
// CHECK-SAME:    -> (tensor<f32> {nn.differentiable}, tensor<f32> {nn.differentiable})
// CHECK-NOT:   @layer_1
func.func @main(%x: tensor<?x4xf32, #nn.batch<0, 1>> {nn.name = "x"}) {
  %w = nn.get @w : tensor<4x4xf32>
  %0 = nn.dot_general %x, %w batch [] x [] contract [1] x [0] : tensor<?x4xf32, #nn.batch<0, 1>>, tensor<4x4xf32> -> tensor<?x4xf32, #nn.batch<0, 1>>
  %1 = nn.reduce sum %0 over [0, 1] : tensor<?x4xf32, #nn.batch<0, 1>> -> tensor<f32>
  %2 = nn.reduce sum %x over [0, 1] : tensor<?x4xf32, #nn.batch<0, 1>> -> tensor<f32>
  %3 = arith.mulf %w, %w : tensor<4x4xf32>
  %4 = nn.reduce sum %3 over [0, 1] : tensor<4x4xf32> -> tensor<f32>
  nn.loss %1 over %2 : tensor<f32> scale 1.0 count 1.0 : tensor<f32>
  nn.loss %4 scale 0.1 count 1.0 constant : tensor<f32>
  return
}

// -----

// CHECK-LABEL: {{^}}// {{-+$}}
// What only a denominator reads is not part of a layer, also where it depends on a frozen table.
nn.variable <parameter> @w : tensor<4x4xf32>
nn.variable <frozen> @k : tensor<4xf32>
// CHECK-LABEL: func.func @main
// CHECK:         %[[L:.*]] = call @layer_0(%{{.*}}, %{{.*}}) {nn.layer_name = "w"} : (tensor<4x4xf32>, tensor<?x4xf32, #nn.batch<0, 1>>) -> tensor<f32>
// CHECK-NEXT:    nn.loss %[[L]]
// CHECK-LABEL: func.func @prologue
// CHECK:         %[[K:.*]] = nn.get @k
// CHECK-NEXT:    nn.gather %[[K]]
// CHECK-LABEL: func.func @evaluate
// CHECK-NOT:     nn.gather
func.func @main(%x: tensor<?x4xf32, #nn.batch<0, 1>> {nn.name = "x"}, %labels: tensor<?xi64, #nn.batch<0, 1>> {nn.name = "labels"}) {
  %w = nn.get @w : tensor<4x4xf32>
  %0 = nn.dot_general %x, %w batch [] x [] contract [1] x [0] : tensor<?x4xf32, #nn.batch<0, 1>>, tensor<4x4xf32> -> tensor<?x4xf32, #nn.batch<0, 1>>
  %1 = nn.reduce sum %0 over [0, 1] : tensor<?x4xf32, #nn.batch<0, 1>> -> tensor<f32>
  %k = nn.get @k : tensor<4xf32>
  %2 = nn.gather %k at %labels axis 0 batch 0 : tensor<4xf32>, tensor<?xi64, #nn.batch<0, 1>> -> tensor<?xf32, #nn.batch<0, 1>>
  %3 = nn.reduce sum %2 over [0] : tensor<?xf32, #nn.batch<0, 1>> -> tensor<f32>
  nn.loss %1 over %3 : tensor<f32> scale 1.0 count 1.0 : tensor<f32>
  return
}

// -----

// CHECK-LABEL: {{^}}// {{-+$}}
// What comes before the first trained parameter carries no gradient.
nn.variable <frozen> @f : tensor<4x4xf32>
nn.variable <parameter> @w : tensor<4x4xf32>
// CHECK-LABEL: func.func private @layer_0
// CHECK-NOT:     nn.differentiable
// CHECK-LABEL: func.func private @layer_1
// CHECK-SAME:    (%{{.*}}: tensor<4x4xf32> {nn.differentiable}, %{{.*}}: tensor<?x4xf32, #nn.batch<0, 1>>) -> (tensor<f32> {nn.differentiable})
func.func @main(%x: tensor<?x4xf32, #nn.batch<0, 1>> {nn.name = "x"}) {
  %f = nn.get @f : tensor<4x4xf32>
  %w = nn.get @w : tensor<4x4xf32>
  %0 = nn.dot_general %x, %f batch [] x [] contract [1] x [0] : tensor<?x4xf32, #nn.batch<0, 1>>, tensor<4x4xf32> -> tensor<?x4xf32, #nn.batch<0, 1>>
  %1 = nn.dot_general %0, %w batch [] x [] contract [1] x [0] : tensor<?x4xf32, #nn.batch<0, 1>>, tensor<4x4xf32> -> tensor<?x4xf32, #nn.batch<0, 1>>
  %2 = nn.reduce sum %1 over [0, 1] : tensor<?x4xf32, #nn.batch<0, 1>> -> tensor<f32>
  nn.loss %2 scale 1.0 count 1.0 : tensor<f32>
  return
}

// -----

// CHECK-LABEL: {{^}}// {{-+$}}
// Without a loss there is evaluation alone; an output that depends on no weight is computed all the same.
// CHECK-NOT:   @main
// CHECK-NOT:   @prologue
// CHECK-LABEL: func.func @evaluate
// CHECK-NEXT:    %[[Y:.*]] = call @layer_0(%{{.*}}) {nn.layer_name = "layer 0"}
// CHECK-NEXT:    return %[[Y]]
// CHECK:       func.func private @layer_0
// CHECK-NOT:     nn.differentiable
// CHECK:         arith.mulf
// CHECK-NEXT:    nn.gelu
func.func @main(%x: tensor<?x4xf32, #nn.batch<0, 1>> {nn.name = "x"}) -> (tensor<?x4xf32, #nn.batch<0, 1>> {nn.name = "y"}) {
  %0 = arith.mulf %x, %x : tensor<?x4xf32, #nn.batch<0, 1>>
  %1 = nn.gelu %0 : tensor<?x4xf32, #nn.batch<0, 1>>
  return %1 : tensor<?x4xf32, #nn.batch<0, 1>>
}

// -----

// CHECK-LABEL: {{^}}// {{-+$}}
// Products of one recurrent node stay in one layer, though one value alone is live between them; the mark is gone.
nn.variable <parameter> @a : tensor<4x4xf32>
nn.variable <parameter> @r : tensor<4x4xf32>
nn.variable <parameter> @c : tensor<4x4xf32>
// CHECK-LABEL: func.func @main
// CHECK:         %[[A:.*]] = call @layer_0({{.*}}) {nn.layer_name = "a"}
// CHECK-NEXT:    %[[B:.*]] = call @layer_1({{.*}}, %[[A]]) {nn.layer_name = "r"}
// CHECK-NEXT:    call @layer_2({{.*}}, %[[B]]) {nn.layer_name = "c"}
// CHECK-NEXT:    nn.loss
// CHECK:       func.func private @layer_0
// CHECK-NOT:     nn.undivided
func.func @main(%x: tensor<?x4xf32, #nn.batch<0, 1>> {nn.name = "x"}) {
  %a = nn.get @a : tensor<4x4xf32>
  %r = nn.get @r : tensor<4x4xf32>
  %c = nn.get @c : tensor<4x4xf32>
  %0 = nn.dot_general %x, %a batch [] x [] contract [1] x [0] : tensor<?x4xf32, #nn.batch<0, 1>>, tensor<4x4xf32> -> tensor<?x4xf32, #nn.batch<0, 1>>
  %1 = nn.dot_general %0, %r batch [] x [] contract [1] x [0] {nn.undivided = "cell"} : tensor<?x4xf32, #nn.batch<0, 1>>, tensor<4x4xf32> -> tensor<?x4xf32, #nn.batch<0, 1>>
  %2 = nn.dot_general %1, %r batch [] x [] contract [1] x [0] {nn.undivided = "cell"} : tensor<?x4xf32, #nn.batch<0, 1>>, tensor<4x4xf32> -> tensor<?x4xf32, #nn.batch<0, 1>>
  %3 = nn.dot_general %2, %r batch [] x [] contract [1] x [0] {nn.undivided = "cell"} : tensor<?x4xf32, #nn.batch<0, 1>>, tensor<4x4xf32> -> tensor<?x4xf32, #nn.batch<0, 1>>
  %4 = nn.dot_general %3, %c batch [] x [] contract [1] x [0] : tensor<?x4xf32, #nn.batch<0, 1>>, tensor<4x4xf32> -> tensor<?x4xf32, #nn.batch<0, 1>>
  %5 = nn.reduce sum %4 over [0, 1] : tensor<?x4xf32, #nn.batch<0, 1>> -> tensor<f32>
  nn.loss %5 scale 1.0 count 1.0 : tensor<f32>
  return
}
