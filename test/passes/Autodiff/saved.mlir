// RUN: harmony-opt %s -split-input-file --harmony-differentiate --harmony-verify-differentiated | FileCheck %s

// The product is saved; bias and gelu are computed again from it, with the erf that
// the adjoint needs too.
// CHECK-LABEL: func.func @gelu(
// CHECK-SAME: nn.saved = 1 : i64
// CHECK: %[[Z:.+]] = nn.dot_general
// CHECK: return %{{.+}}, %[[Z]]
// CHECK-LABEL: func.func @gelu.bwd
// CHECK-SAME: %[[B:[^:]+]]: tensor<3xf32> {nn.primal = 2 : i64}, %[[V:[^:]+]]: tensor<2x3xf32> {nn.primal = 3 : i64}, %[[SAVED:[^:]+]]: tensor<?x3xf32, #nn.batch<0, 1>> {nn.saved = 0 : i64}
// CHECK: %[[BIAS:.+]] = nn.broadcast %[[B]] to [1]
// CHECK: %[[A:.+]] = arith.addf %[[SAVED]], %[[BIAS]]
// CHECK: %[[ARGUMENT:.+]] = arith.mulf %[[A]], %{{.+}}
// CHECK: %[[ERF:.+]] = math.erf %[[ARGUMENT]]
// CHECK: %[[SUM:.+]] = arith.addf %{{.+}}, %[[ERF]]
// CHECK: %[[H:.+]] = arith.mulf %{{.+}}, %[[SUM]]
// CHECK: nn.dot_general %{{.+}}, %[[H]] batch [] x [] contract [0] x [0]
// CHECK-NOT: math.erf
// CHECK: return
func.func @gelu(%x: tensor<?x4xf32, #nn.batch<0, 1>> {nn.differentiable}, %w: tensor<3x4xf32> {nn.differentiable}, %b: tensor<3xf32> {nn.differentiable}, %v: tensor<2x3xf32> {nn.differentiable}) -> (tensor<?x2xf32, #nn.batch<0, 1>> {nn.differentiable}) attributes {nn.layer} {
  %0 = nn.dot_general %x, %w batch [] x [] contract [1] x [1] : tensor<?x4xf32, #nn.batch<0, 1>>, tensor<3x4xf32> -> tensor<?x3xf32, #nn.batch<0, 1>>
  %1 = nn.broadcast %b to [1] : tensor<3xf32> -> tensor<?x3xf32, #nn.batch<0, 1>>
  %2 = arith.addf %0, %1 : tensor<?x3xf32, #nn.batch<0, 1>>
  %3 = nn.gelu %2 : tensor<?x3xf32, #nn.batch<0, 1>>
  %4 = nn.dot_general %3, %v batch [] x [] contract [1] x [1] : tensor<?x3xf32, #nn.batch<0, 1>>, tensor<2x3xf32> -> tensor<?x2xf32, #nn.batch<0, 1>>
  return %4 : tensor<?x2xf32, #nn.batch<0, 1>>
}

// -----

// Of softmax either the operand or the result is saved: here the result, which the
// product after it reads anyway. The scaled scores are not saved.
// CHECK-LABEL: func.func @attention(
// CHECK-SAME: nn.saved = 1 : i64
// CHECK: %[[P:.+]] = nn.softmax
// CHECK: return %{{.+}}, %[[P]]
// CHECK-LABEL: func.func @attention.bwd
// CHECK-NOT: nn.softmax
// CHECK: return
func.func @attention(%q: tensor<?x3x4xf32, #nn.batch<0, 1>> {nn.differentiable}, %v: tensor<?x3x4xf32, #nn.batch<0, 1>> {nn.differentiable}) -> (tensor<?x3x4xf32, #nn.batch<0, 1>> {nn.differentiable}) attributes {nn.layer} {
  %cst = arith.constant dense<0.5> : tensor<f32>
  %0 = nn.dot_general %q, %q batch [0] x [0] contract [2] x [2] : tensor<?x3x4xf32, #nn.batch<0, 1>>, tensor<?x3x4xf32, #nn.batch<0, 1>> -> tensor<?x3x3xf32, #nn.batch<0, 1>>
  %1 = nn.broadcast %cst to [] : tensor<f32> -> tensor<?x3x3xf32, #nn.batch<0, 1>>
  %2 = arith.mulf %0, %1 : tensor<?x3x3xf32, #nn.batch<0, 1>>
  %3 = nn.softmax %2 : tensor<?x3x3xf32, #nn.batch<0, 1>>
  %4 = nn.dot_general %3, %v batch [0] x [0] contract [2] x [1] : tensor<?x3x3xf32, #nn.batch<0, 1>>, tensor<?x3x4xf32, #nn.batch<0, 1>> -> tensor<?x3x4xf32, #nn.batch<0, 1>>
  return %4 : tensor<?x3x4xf32, #nn.batch<0, 1>>
}

// -----

// The sum of three products is what is read: one value is saved, not three.
// CHECK-LABEL: func.func @sum(
// CHECK: nn.dot_general
// CHECK: nn.dot_general
// CHECK: arith.addf
// CHECK: %[[S:.+]] = arith.addf
// CHECK: %[[E:.+]] = math.exp %[[S]]
// CHECK: return %[[E]], %[[E]]
func.func @sum(%x: tensor<?x4xf32, #nn.batch<0, 1>> {nn.differentiable}, %a: tensor<4x4xf32> {nn.differentiable}, %b: tensor<4x4xf32> {nn.differentiable}) -> (tensor<?x4xf32, #nn.batch<0, 1>> {nn.differentiable}) attributes {nn.layer} {
  %0 = nn.dot_general %x, %a batch [] x [] contract [1] x [1] : tensor<?x4xf32, #nn.batch<0, 1>>, tensor<4x4xf32> -> tensor<?x4xf32, #nn.batch<0, 1>>
  %1 = nn.dot_general %x, %b batch [] x [] contract [1] x [1] : tensor<?x4xf32, #nn.batch<0, 1>>, tensor<4x4xf32> -> tensor<?x4xf32, #nn.batch<0, 1>>
  %2 = arith.addf %0, %1 : tensor<?x4xf32, #nn.batch<0, 1>>
  %3 = arith.addf %2, %x : tensor<?x4xf32, #nn.batch<0, 1>>
  %4 = math.exp %3 : tensor<?x4xf32, #nn.batch<0, 1>>
  return %4 : tensor<?x4xf32, #nn.batch<0, 1>>
}

// -----

// Of a layer_norm the statistics are saved; its result is computed again from them,
// elementwise and to the same bits.
// CHECK-LABEL: func.func @norm(
// CHECK: %{{.+}}, %[[M:.+]], %[[I:.+]] = nn.layer_norm
// CHECK: return %{{.+}}, %[[M]], %[[I]] :
// CHECK-LABEL: func.func @norm.bwd
// CHECK-SAME: %[[X:[^:]+]]: tensor<?x4xf32, #nn.batch<0, 1>> {nn.primal = 0 : i64}, %[[S:[^:]+]]: tensor<4xf32> {nn.primal = 1 : i64}
// CHECK-SAME: %[[MEAN:[^:]+]]: tensor<?xf32, #nn.batch<0, 1>> {nn.saved = 0 : i64}, %[[INVERSE:[^:]+]]: tensor<?xf32, #nn.batch<0, 1>> {nn.saved = 1 : i64}
// CHECK-DAG: %[[SCALE:.+]] = nn.broadcast %[[S]] to [1]
// CHECK-DAG: %[[FACTOR:.+]] = nn.broadcast %[[INVERSE]] to [0]
// CHECK-DAG: %[[SHIFT:.+]] = nn.broadcast %[[MEAN]] to [0]
// CHECK: %[[CENTERED:.+]] = arith.subf %[[X]], %[[SHIFT]]
// CHECK: %[[N:.+]] = arith.mulf %[[CENTERED]], %[[FACTOR]]
// CHECK: %[[Y:.+]] = arith.mulf %[[N]], %[[SCALE]]
// CHECK: nn.dot_general %{{.+}}, %[[Y]] batch [] x [] contract [0] x [0]
func.func @norm(%x: tensor<?x4xf32, #nn.batch<0, 1>> {nn.differentiable}, %s: tensor<4xf32> {nn.differentiable}, %w: tensor<3x4xf32> {nn.differentiable}) -> (tensor<?x3xf32, #nn.batch<0, 1>> {nn.differentiable}) attributes {nn.layer} {
  %y, %m, %i = nn.layer_norm %x, %s axis 1 epsilon 1.0e-5 : tensor<?x4xf32, #nn.batch<0, 1>>, tensor<4xf32> -> tensor<?x4xf32, #nn.batch<0, 1>>, tensor<?xf32, #nn.batch<0, 1>>, tensor<?xf32, #nn.batch<0, 1>>
  %0 = nn.dot_general %y, %w batch [] x [] contract [1] x [1] : tensor<?x4xf32, #nn.batch<0, 1>>, tensor<3x4xf32> -> tensor<?x3xf32, #nn.batch<0, 1>>
  return %0 : tensor<?x3xf32, #nn.batch<0, 1>>
}

// -----

// A mask is a byte per element: less than what it is computed from.
// CHECK-LABEL: func.func @mask(
// CHECK: %[[C:.+]] = arith.cmpf
// CHECK: return %{{.+}}, %[[C]] : tensor<?x4xf32, #nn.batch<0, 1>>, tensor<?x4xi1, #nn.batch<0, 1>>
func.func @mask(%x: tensor<?x4xf32, #nn.batch<0, 1>> {nn.differentiable}, %w: tensor<4x4xf32>) -> (tensor<?x4xf32, #nn.batch<0, 1>> {nn.differentiable}) attributes {nn.layer} {
  %cst = arith.constant dense<0.0> : tensor<f32>
  %zero = nn.broadcast %cst to [] : tensor<f32> -> tensor<?x4xf32, #nn.batch<0, 1>>
  %0 = nn.dot_general %x, %w batch [] x [] contract [1] x [1] : tensor<?x4xf32, #nn.batch<0, 1>>, tensor<4x4xf32> -> tensor<?x4xf32, #nn.batch<0, 1>>
  %c = arith.cmpf ugt, %0, %zero : tensor<?x4xf32, #nn.batch<0, 1>>
  %1 = arith.select %c, %0, %zero : tensor<?x4xi1, #nn.batch<0, 1>>, tensor<?x4xf32, #nn.batch<0, 1>>
  return %1 : tensor<?x4xf32, #nn.batch<0, 1>>
}

// -----

// Calls get the new results; a layer without a differentiable argument saves nothing
// and has no backward.
// CHECK-LABEL: func.func @main
// CHECK: %[[R:.+]]:3 = call @square(%{{.+}}) {nn.layer_name = "first"} : (tensor<4xf32>) -> (tensor<4xf32>, tensor<i64>, tensor<f32>)
// CHECK: call @count(%{{.+}}) : (tensor<4xf32>) -> tensor<i64>
// CHECK: return %[[R]]#0
// CHECK-LABEL: func.func private @square(
// CHECK-LABEL: func.func private @square.bwd(
// CHECK-LABEL: func.func private @count(
// CHECK-SAME: nn.saved = 0 : i64
// CHECK-NOT: func.func
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0:2 = call @square(%x) {nn.layer_name = "first"} : (tensor<4xf32>) -> (tensor<4xf32>, tensor<i64>)
  %1 = call @count(%x) : (tensor<4xf32>) -> tensor<i64>
  return %0#0 : tensor<4xf32>
}
func.func private @square(%x: tensor<4xf32> {nn.differentiable}) -> (tensor<4xf32> {nn.differentiable}, tensor<i64>) attributes {nn.layer} {
  %0 = nn.reduce sum %x over [0] : tensor<4xf32> -> tensor<f32>
  %1 = nn.broadcast %0 to [] : tensor<f32> -> tensor<4xf32>
  %2 = math.exp %1 : tensor<4xf32>
  %3 = arith.constant dense<1> : tensor<i64>
  return %2, %3 : tensor<4xf32>, tensor<i64>
}
func.func private @count(%x: tensor<4xf32>) -> tensor<i64> attributes {nn.layer} {
  %0 = arith.constant dense<4> : tensor<i64>
  return %0 : tensor<i64>
}
