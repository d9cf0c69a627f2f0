// RUN: harmony-opt %s -split-input-file --harmony-differentiate --harmony-verify-differentiated | FileCheck %s

// A weight that three steps read: one product over samples and steps, instead of three as large as the weight.
// CHECK-LABEL: func.func @steps.bwd
// CHECK: %[[D:.+]] = nn.concat %{{.+}}, %{{.+}}, %{{.+}} along 1 : {{.*}} -> tensor<?x3x4xf32, #nn.batch<0, 1>>
// CHECK: %[[X:.+]] = nn.concat %{{.+}}, %{{.+}}, %{{.+}} along 1 : {{.*}} -> tensor<?x3x2xf32, #nn.batch<0, 1>>
// CHECK: %[[DW:.+]] = nn.dot_general %[[D]], %[[X]] batch [] x [] contract [0, 1] x [0, 1] : {{.*}} -> tensor<4x2xf32>
// CHECK-NOT: nn.dot_general
// CHECK: return %[[DW]] : tensor<4x2xf32>
func.func @steps(%x: tensor<?x2xf32, #nn.batch<0, 1>>, %y: tensor<?x2xf32, #nn.batch<0, 1>>, %z: tensor<?x2xf32, #nn.batch<0, 1>>, %w: tensor<4x2xf32> {nn.differentiable}) -> (tensor<?x4xf32, #nn.batch<0, 1>> {nn.differentiable}, tensor<?x4xf32, #nn.batch<0, 1>> {nn.differentiable}, tensor<?x4xf32, #nn.batch<0, 1>> {nn.differentiable}) attributes {nn.layer} {
  %0 = nn.dot_general %x, %w batch [] x [] contract [1] x [1] : tensor<?x2xf32, #nn.batch<0, 1>>, tensor<4x2xf32> -> tensor<?x4xf32, #nn.batch<0, 1>>
  %1 = nn.dot_general %y, %w batch [] x [] contract [1] x [1] : tensor<?x2xf32, #nn.batch<0, 1>>, tensor<4x2xf32> -> tensor<?x4xf32, #nn.batch<0, 1>>
  %2 = nn.dot_general %z, %w batch [] x [] contract [1] x [1] : tensor<?x2xf32, #nn.batch<0, 1>>, tensor<4x2xf32> -> tensor<?x4xf32, #nn.batch<0, 1>>
  return %0, %1, %2 : tensor<?x4xf32, #nn.batch<0, 1>>, tensor<?x4xf32, #nn.batch<0, 1>>, tensor<?x4xf32, #nn.batch<0, 1>>
}

// -----

// Two are added, and so is what has another form.
// CHECK-LABEL: func.func @forms.bwd
// CHECK-NOT: nn.concat
// CHECK-COUNT-3: nn.dot_general
// CHECK-COUNT-2: arith.addf
func.func @forms(%x: tensor<?x2xf32, #nn.batch<0, 1>>, %y: tensor<?x2xf32, #nn.batch<0, 1>>, %z: tensor<?x3x2xf32, #nn.batch<0, 1>>, %w: tensor<4x2xf32> {nn.differentiable}) -> (tensor<?x4xf32, #nn.batch<0, 1>> {nn.differentiable}, tensor<?x4xf32, #nn.batch<0, 1>> {nn.differentiable}, tensor<?x3x4xf32, #nn.batch<0, 1>> {nn.differentiable}) attributes {nn.layer} {
  %0 = nn.dot_general %x, %w batch [] x [] contract [1] x [1] : tensor<?x2xf32, #nn.batch<0, 1>>, tensor<4x2xf32> -> tensor<?x4xf32, #nn.batch<0, 1>>
  %1 = nn.dot_general %y, %w batch [] x [] contract [1] x [1] : tensor<?x2xf32, #nn.batch<0, 1>>, tensor<4x2xf32> -> tensor<?x4xf32, #nn.batch<0, 1>>
  %2 = nn.dot_general %z, %w batch [] x [] contract [2] x [1] : tensor<?x3x2xf32, #nn.batch<0, 1>>, tensor<4x2xf32> -> tensor<?x3x4xf32, #nn.batch<0, 1>>
  return %0, %1, %2 : tensor<?x4xf32, #nn.batch<0, 1>>, tensor<?x4xf32, #nn.batch<0, 1>>, tensor<?x3x4xf32, #nn.batch<0, 1>>
}
