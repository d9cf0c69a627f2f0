// RUN: harmony-opt %s -split-input-file -verify-diagnostics --harmony-differentiate

// All ops in the way are reported in one run, at their nodes, in all functions.
func.func @first(%x: tensor<4xf32> {nn.differentiable}, %y: tensor<4xf32>) -> (tensor<4xf32> {nn.differentiable}) attributes {nn.layer} {
  // expected-error @+1 {{'arith.remf' op cannot be differentiated: it has no adjoint}}
  %0 = arith.remf %x, %y : tensor<4xf32>
  %1 = nn.reduce max %0 over [0] : tensor<4xf32> -> tensor<f32>
  %2 = nn.broadcast %1 to [] : tensor<f32> -> tensor<4xf32>
  // No gradient passes here: nothing to refuse.
  %3 = arith.remf %y, %y : tensor<4xf32>
  %4 = arith.addf %2, %3 : tensor<4xf32>
  %5 = arith.remf %x, %x : tensor<4xf32>
  return %4 : tensor<4xf32>
}
func.func @second(%x: tensor<4xf32> {nn.differentiable}) -> (tensor<f32> {nn.differentiable}) attributes {nn.layer} {
  // expected-error @+1 {{'arith.remf' op cannot be differentiated: it has no adjoint}}
  %0 = arith.remf %x, %x : tensor<4xf32>
  %1 = nn.reduce sum %0 over [0] : tensor<4xf32> -> tensor<f32>
  return %1 : tensor<f32>
}

// -----

// expected-error @+2 {{argument 0 is marked nn.differentiable but has type 'tensor<4xi64>', expected a tensor of floating-point elements}}
// expected-error @+1 {{result 1 is marked nn.differentiable but has type 'tensor<4xi64>', expected a tensor of floating-point elements}}
func.func @integers(%x: tensor<4xi64> {nn.differentiable}) -> (tensor<4xi64>, tensor<4xi64> {nn.differentiable}) attributes {nn.layer} {
  return %x, %x : tensor<4xi64>, tensor<4xi64>
}

// -----

// expected-error @+1 {{cannot be differentiated: it must have a body of one block}}
func.func private @declared(tensor<4xf32> {nn.differentiable}) -> (tensor<4xf32> {nn.differentiable}) attributes {nn.layer}

// -----

func.func @loss(%x: tensor<f32> {nn.differentiable}) attributes {nn.layer} {
  // expected-error @+1 {{'nn.loss' op cannot be differentiated inside loss: losses belong to the caller of a layer, which seeds them}}
  nn.loss %x scale 1.0 count 1.0 : tensor<f32>
  return
}

// -----

// A zero gradient is worth a remark.
// expected-remark @+1 {{argument 1 of unconnected is on no path to a differentiable result: its gradient is zero}}
func.func @unconnected(%x: tensor<4xf32> {nn.differentiable}, %y: tensor<4xf32> {nn.differentiable}) -> (tensor<4xf32> {nn.differentiable}) attributes {nn.layer} {
  return %x : tensor<4xf32>
}
