// RUN: harmony-opt %s -split-input-file --harmony-differentiate --harmony-verify-differentiated | FileCheck %s

// A bias is repeated over the samples, so its gradient is summed over them.
// CHECK-LABEL: func.func @bias.bwd
// CHECK-NEXT: %[[D:.+]] = nn.reduce sum %arg0 over [0] : tensor<?x3xf32, #nn.batch<0, 1>> -> tensor<3xf32>
// CHECK-NEXT: return %[[D]]
func.func @bias(%b: tensor<3xf32> {nn.differentiable}) -> (tensor<?x3xf32, #nn.batch<0, 1>> {nn.differentiable}) attributes {nn.layer} {
  %0 = nn.broadcast %b to [1] : tensor<3xf32> -> tensor<?x3xf32, #nn.batch<0, 1>>
  return %0 : tensor<?x3xf32, #nn.batch<0, 1>>
}

// -----

// Unit axes that are repeated are summed and put back.
// CHECK-LABEL: func.func @units.bwd
// CHECK-NEXT: %[[S:.+]] = nn.reduce sum %arg0 over [1, 2] : tensor<2x3x4xf32> -> tensor<2xf32>
// CHECK-NEXT: %[[D:.+]] = nn.reshape %[[S]] : tensor<2xf32> -> tensor<2x1xf32>
func.func @units(%b: tensor<2x1xf32> {nn.differentiable}) -> (tensor<2x3x4xf32> {nn.differentiable}) attributes {nn.layer} {
  %0 = nn.broadcast %b to [0, 1] : tensor<2x1xf32> -> tensor<2x3x4xf32>
  return %0 : tensor<2x3x4xf32>
}

// -----

// CHECK-LABEL: func.func @sum.bwd
// CHECK-NEXT: nn.broadcast %arg0 to [1] : tensor<3xf32> -> tensor<?x3x4xf32, #nn.batch<0, 1>>
func.func @sum(%x: tensor<?x3x4xf32, #nn.batch<0, 1>> {nn.differentiable}) -> (tensor<3xf32> {nn.differentiable}) attributes {nn.layer} {
  %0 = nn.reduce sum %x over [0, 2] : tensor<?x3x4xf32, #nn.batch<0, 1>> -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// -----

// y = x w^T: dx = d w, dw = d^T x, contracted over the samples; nothing is transposed.
// CHECK-LABEL: func.func @linear.bwd
// CHECK-SAME: (%[[X:.+]]: tensor<?x4xf32, #nn.batch<0, 1>> {nn.primal = 0 : i64}, %[[W:.+]]: tensor<3x4xf32> {nn.primal = 1 : i64}, %[[D:[^:]+]]:
// CHECK-NEXT: %[[DX:.+]] = nn.dot_general %[[D]], %[[W]] batch [] x [] contract [1] x [0]
// CHECK-NEXT: %[[DW:.+]] = nn.dot_general %[[D]], %[[X]] batch [] x [] contract [0] x [0]
// CHECK-NEXT: return %[[DX]], %[[DW]]
func.func @linear(%x: tensor<?x4xf32, #nn.batch<0, 1>> {nn.differentiable}, %w: tensor<3x4xf32> {nn.differentiable}) -> (tensor<?x3xf32, #nn.batch<0, 1>> {nn.differentiable}) attributes {nn.layer} {
  %0 = nn.dot_general %x, %w batch [] x [] contract [1] x [1] : tensor<?x4xf32, #nn.batch<0, 1>>, tensor<3x4xf32> -> tensor<?x3xf32, #nn.batch<0, 1>>
  return %0 : tensor<?x3xf32, #nn.batch<0, 1>>
}

// -----

// y = x w: dw = x^T d, in the other order of the factors.
// CHECK-LABEL: func.func @columns.bwd
// CHECK: nn.dot_general %arg2, %arg1 batch [] x [] contract [2] x [1]
// CHECK-NEXT: nn.dot_general %arg0, %arg2 batch [] x [] contract [0, 1] x [0, 1] : {{.*}} -> tensor<4x3xf32>
func.func @columns(%x: tensor<?x2x4xf32, #nn.batch<0, 1>> {nn.differentiable}, %w: tensor<4x3xf32> {nn.differentiable}) -> (tensor<?x2x3xf32, #nn.batch<0, 1>> {nn.differentiable}) attributes {nn.layer} {
  %0 = nn.dot_general %x, %w batch [] x [] contract [2] x [0] : tensor<?x2x4xf32, #nn.batch<0, 1>>, tensor<4x3xf32> -> tensor<?x2x3xf32, #nn.batch<0, 1>>
  return %0 : tensor<?x2x3xf32, #nn.batch<0, 1>>
}

// -----

// CHECK-LABEL: func.func @embedding.bwd
// CHECK-SAME: (%[[I:.+]]: tensor<?x5xi64, #nn.batch<0, 1>> {nn.primal = 1 : i64}, %[[D:[^:]+]]:
// CHECK-NEXT: nn.scatter_add %[[D]] at %[[I]] axis 0 batch 0 : {{.*}} -> tensor<7x3xf32>
func.func @embedding(%w: tensor<7x3xf32> {nn.differentiable}, %i: tensor<?x5xi64, #nn.batch<0, 1>>) -> (tensor<?x5x3xf32, #nn.batch<0, 1>> {nn.differentiable}) attributes {nn.layer} {
  %0 = nn.gather %w at %i axis 0 batch 0 : tensor<7x3xf32>, tensor<?x5xi64, #nn.batch<0, 1>> -> tensor<?x5x3xf32, #nn.batch<0, 1>>
  return %0 : tensor<?x5x3xf32, #nn.batch<0, 1>>
}

// -----

// Elements 5, 3, 1 of 6: in the order 1, 3, 5 with one zero before and one between.
// CHECK-LABEL: func.func @slice.bwd
// CHECK: %[[R:.+]] = nn.slice %arg0 from [2] by [-1] : tensor<3xf32> -> tensor<3xf32>
// CHECK: nn.pad %[[R]] with %{{.+}} low [1] interior [1] : tensor<3xf32>, tensor<f32> -> tensor<6xf32>
func.func @slice(%x: tensor<6xf32> {nn.differentiable}) -> (tensor<3xf32> {nn.differentiable}) attributes {nn.layer} {
  %0 = nn.slice %x from [5] by [-2] : tensor<6xf32> -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// -----

// Parts that make up the whole come back one behind the other, not as sums with zeros.
// CHECK-LABEL: func.func @parts.bwd
// CHECK-SAME: (%[[D0:.+]]: tensor<2x3xf32> {nn.cotangent = 0 : i64}, %[[D1:.+]]: tensor<2x2xf32> {nn.cotangent = 1 : i64})
// CHECK-NEXT: %[[D:.+]] = nn.concat %[[D1]], %[[D0]] along 1
// CHECK-NEXT: return %[[D]]
func.func @parts(%x: tensor<2x5xf32> {nn.differentiable}) -> (tensor<2x3xf32> {nn.differentiable}, tensor<2x2xf32> {nn.differentiable}) attributes {nn.layer} {
  %0 = nn.slice %x from [0, 2] by [1, 1] : tensor<2x5xf32> -> tensor<2x3xf32>
  %1 = nn.slice %x from [0, 0] by [1, 1] : tensor<2x5xf32> -> tensor<2x2xf32>
  return %0, %1 : tensor<2x3xf32>, tensor<2x2xf32>
}

// -----

// Parts that overlap are summed.
// CHECK-LABEL: func.func @overlap.bwd
// CHECK-DAG: nn.pad %arg0
// CHECK-DAG: nn.pad %arg1
// CHECK: arith.addf
func.func @overlap(%x: tensor<5xf32> {nn.differentiable}) -> (tensor<3xf32> {nn.differentiable}, tensor<3xf32> {nn.differentiable}) attributes {nn.layer} {
  %0 = nn.slice %x from [2] by [1] : tensor<5xf32> -> tensor<3xf32>
  %1 = nn.slice %x from [0] by [1] : tensor<5xf32> -> tensor<3xf32>
  return %0, %1 : tensor<3xf32>, tensor<3xf32>
}

// -----

// CHECK-LABEL: func.func @concat.bwd
// CHECK-DAG: nn.slice %arg0 from [0, 0] by [1, 1] : tensor<2x5xf32> -> tensor<2x2xf32>
// CHECK-DAG: nn.slice %arg0 from [0, 2] by [1, 1] : tensor<2x5xf32> -> tensor<2x3xf32>
func.func @concat(%x: tensor<2x2xf32> {nn.differentiable}, %y: tensor<2x3xf32> {nn.differentiable}) -> (tensor<2x5xf32> {nn.differentiable}) attributes {nn.layer} {
  %0 = nn.concat %x, %y along 1 : tensor<2x2xf32>, tensor<2x3xf32> -> tensor<2x5xf32>
  return %0 : tensor<2x5xf32>
}

// -----

// (exp(x - logSum) - onehot) * d; the forward saves logSum alone.
// CHECK-LABEL: func.func @loss(
// CHECK: %{{.+}}, %[[LOGSUM:.+]] = nn.cross_entropy
// CHECK: return %{{.+}}, %[[LOGSUM]]
// CHECK-LABEL: func.func @loss.bwd
// CHECK-SAME: (%[[X:.+]]: tensor<?x5xf32, #nn.batch<0, 1>> {nn.primal = 0 : i64}, %[[L:.+]]: tensor<?xi64, #nn.batch<0, 1>> {nn.primal = 1 : i64}, %[[S:.+]]: tensor<?xf32, #nn.batch<0, 1>> {nn.saved = 0 : i64}, %[[D:[^:]+]]:
// CHECK: %[[ROWS:.+]] = nn.broadcast %[[S]] to [0]
// CHECK: %[[SHIFTED:.+]] = arith.subf %[[X]], %[[ROWS]]
// CHECK: math.exp %[[SHIFTED]]
// CHECK: arith.cmpi eq, %[[L]]
func.func @loss(%x: tensor<?x5xf32, #nn.batch<0, 1>> {nn.differentiable}, %l: tensor<?xi64, #nn.batch<0, 1>>) -> (tensor<?xf32, #nn.batch<0, 1>> {nn.differentiable}) attributes {nn.layer} {
  %0, %1 = nn.cross_entropy %x, %l ignore -100 : tensor<?x5xf32, #nn.batch<0, 1>>, tensor<?xi64, #nn.batch<0, 1>> -> tensor<?xf32, #nn.batch<0, 1>>, tensor<?xf32, #nn.batch<0, 1>>
  return %0 : tensor<?xf32, #nn.batch<0, 1>>
}

// -----

// Look-ups of the padding row give its table nothing.
// CHECK-LABEL: func.func @padding.bwd
// CHECK: %[[IS:.+]] = arith.cmpi eq, %[[I:.+]], %{{.+}} : tensor<?xi64, #nn.batch<0, 1>>
// CHECK: %[[MASK:.+]] = nn.broadcast %[[IS]] to [0]
// CHECK: %[[D:.+]] = arith.select %[[MASK]], %{{.+}}, %{{.+}} : {{.*}}tensor<?x4xf32, #nn.batch<0, 1>>
// CHECK: nn.scatter_add %[[D]] at %[[I]] axis 0 batch 0
func.func @padding(%t: tensor<3x4xf32> {nn.differentiable}, %i: tensor<?xi64, #nn.batch<0, 1>>) -> (tensor<?x4xf32, #nn.batch<0, 1>> {nn.differentiable}) attributes {nn.layer} {
  %0 = nn.gather %t at %i axis 0 batch 0 {nn.padding = 2 : i64} : tensor<3x4xf32>, tensor<?xi64, #nn.batch<0, 1>> -> tensor<?x4xf32, #nn.batch<0, 1>>
  return %0 : tensor<?x4xf32, #nn.batch<0, 1>>
}
