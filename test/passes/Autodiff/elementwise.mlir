// RUN: harmony-opt %s -split-input-file --harmony-differentiate --harmony-verify-differentiated | FileCheck %s

// What an adjoint reads of the forward: arguments are read again, the rest is saved.

// d * y and d * x
// CHECK-LABEL: func.func @mul.bwd
// CHECK-SAME: (%[[X:.+]]: tensor<4xf32> {nn.primal = 0 : i64}, %[[Y:.+]]: tensor<4xf32> {nn.primal = 1 : i64}, %[[D:.+]]: tensor<4xf32> {nn.cotangent = 0 : i64})
// CHECK-SAME: -> (tensor<4xf32> {nn.gradient = 0 : i64}, tensor<4xf32> {nn.gradient = 1 : i64})
// CHECK-DAG: %[[DX:.+]] = arith.mulf %[[D]], %[[Y]]
// CHECK-DAG: %[[DY:.+]] = arith.mulf %[[D]], %[[X]]
// CHECK: return %[[DX]], %[[DY]]
func.func @mul(%x: tensor<4xf32> {nn.differentiable}, %y: tensor<4xf32> {nn.differentiable}) -> (tensor<4xf32> {nn.differentiable}) attributes {nn.layer} {
  %0 = arith.mulf %x, %y : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// Nothing is computed for an operand that needs no gradient: x itself is not read.
// CHECK-LABEL: func.func @scale.bwd
// CHECK-SAME: (%[[Y:.+]]: tensor<4xf32> {nn.primal = 1 : i64}, %[[D:.+]]: tensor<4xf32> {nn.cotangent = 0 : i64})
// CHECK-NEXT: %[[DX:.+]] = arith.mulf %[[D]], %[[Y]]
// CHECK-NEXT: return %[[DX]]
func.func @scale(%x: tensor<4xf32> {nn.differentiable}, %y: tensor<4xf32>) -> (tensor<4xf32> {nn.differentiable}) attributes {nn.layer} {
  %0 = arith.mulf %x, %y : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// d / y and -(d / y) * r, r being recomputed.
// CHECK-LABEL: func.func @div.bwd
// CHECK-SAME: (%[[X:.+]]: tensor<4xf32> {nn.primal = 0 : i64}, %[[Y:.+]]: tensor<4xf32> {nn.primal = 1 : i64}, %[[D:.+]]: tensor<4xf32> {nn.cotangent = 0 : i64})
// CHECK-NEXT: %[[Q:.+]] = arith.divf %[[D]], %[[Y]]
// CHECK-NEXT: %[[R:.+]] = arith.divf %[[X]], %[[Y]]
// CHECK-NEXT: %[[P:.+]] = arith.mulf %[[Q]], %[[R]]
// CHECK-NEXT: %[[N:.+]] = arith.negf %[[P]]
// CHECK-NEXT: return %[[Q]], %[[N]]
func.func @div(%x: tensor<4xf32> {nn.differentiable}, %y: tensor<4xf32> {nn.differentiable}) -> (tensor<4xf32> {nn.differentiable}) attributes {nn.layer} {
  %0 = arith.divf %x, %y : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// relu: the gradient at 0 is 0, NaN passes.
// CHECK-LABEL: func.func @relu.bwd
// CHECK-SAME: (%[[X:.+]]: tensor<?x4xf32, #nn.batch<0, 1>> {nn.primal = 0 : i64}, %[[D:[^:]+]]:
// CHECK: %[[ZERO:.+]] = nn.broadcast %{{.+}} to [] : tensor<f32> -> tensor<?x4xf32, #nn.batch<0, 1>>
// CHECK: %[[C:.+]] = arith.cmpf ugt, %[[X]], %[[ZERO]]
// CHECK: %[[DX:.+]] = arith.select %[[C]], %[[D]], %[[ZERO]]
// CHECK: return %[[DX]]
func.func @relu(%x: tensor<?x4xf32, #nn.batch<0, 1>> {nn.differentiable}) -> (tensor<?x4xf32, #nn.batch<0, 1>> {nn.differentiable}) attributes {nn.layer} {
  %cst = arith.constant dense<0.0> : tensor<f32>
  %zero = nn.broadcast %cst to [] : tensor<f32> -> tensor<?x4xf32, #nn.batch<0, 1>>
  %c = arith.cmpf ugt, %x, %zero : tensor<?x4xf32, #nn.batch<0, 1>>
  %0 = arith.select %c, %x, %zero : tensor<?x4xi1, #nn.batch<0, 1>>, tensor<?x4xf32, #nn.batch<0, 1>>
  return %0 : tensor<?x4xf32, #nn.batch<0, 1>>
}

// -----

// d * (1 - r^2)
// CHECK-LABEL: func.func @tanh.bwd
// CHECK-DAG: %[[ONE:.+]] = nn.broadcast
// CHECK-DAG: %[[R:.+]] = math.tanh %arg0
// CHECK: %[[SQUARE:.+]] = arith.mulf %[[R]], %[[R]]
// CHECK: %[[SLOPE:.+]] = arith.subf %[[ONE]], %[[SQUARE]]
// CHECK: %[[DX:.+]] = arith.mulf %arg1, %[[SLOPE]]
func.func @tanh(%x: tensor<4xf32> {nn.differentiable}) -> (tensor<4xf32> {nn.differentiable}) attributes {nn.layer} {
  %0 = math.tanh %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// Contributions are summed in the order of the uses: sin (d0), cos (d1), the result (d2).
// CHECK-LABEL: func.func @uses.bwd
// CHECK-SAME: {nn.primal = 0 : i64}, %[[D0:.+]]: tensor<4xf32> {nn.cotangent = 0 : i64}, %[[D1:.+]]: tensor<4xf32> {nn.cotangent = 1 : i64}, %[[D2:.+]]: tensor<4xf32> {nn.cotangent = 2 : i64})
// CHECK: %[[SIN:.+]] = math.sin
// CHECK: %[[C1P:.+]] = arith.mulf %[[D1]], %[[SIN]]
// CHECK: %[[C1:.+]] = arith.negf %[[C1P]]
// CHECK: %[[COS:.+]] = math.cos
// CHECK: %[[C0:.+]] = arith.mulf %[[D0]], %[[COS]]
// CHECK: %[[S:.+]] = arith.addf %[[C0]], %[[C1]]
// CHECK: %[[T:.+]] = arith.addf %[[S]], %[[D2]]
// CHECK: return %[[T]]
func.func @uses(%x: tensor<4xf32> {nn.differentiable}) -> (tensor<4xf32> {nn.differentiable}, tensor<4xf32> {nn.differentiable}, tensor<4xf32> {nn.differentiable}) attributes {nn.layer} {
  %0 = math.sin %x : tensor<4xf32>
  %1 = math.cos %x : tensor<4xf32>
  return %0, %1, %x : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
