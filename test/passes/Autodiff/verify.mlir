// RUN: harmony-opt %s -split-input-file -verify-diagnostics --harmony-verify-differentiated

// expected-error @+1 {{needs nn.saved, the number of saved values among its 1 results}}
func.func @f(%x: tensor<4xf32> {nn.differentiable}) -> (tensor<4xf32> {nn.differentiable}) attributes {nn.layer} {
  return %x : tensor<4xf32>
}

// -----

// expected-error @+1 {{has no backward f.bwd}}
func.func @f(%x: tensor<4xf32> {nn.differentiable}) -> (tensor<4xf32> {nn.differentiable}) attributes {nn.layer, nn.saved = 0 : i64} {
  return %x : tensor<4xf32>
}

// -----

// expected-error @+1 {{result 0 is a saved value and must not be nn.differentiable}}
func.func @f(%x: tensor<4xf32>) -> (tensor<4xf32> {nn.differentiable}) attributes {nn.layer, nn.saved = 1 : i64} {
  return %x : tensor<4xf32>
}

// -----

// expected-note @+1 {{the forward is here}}
func.func @f(%x: tensor<4xf32> {nn.differentiable}) -> (tensor<4xf32> {nn.differentiable}) attributes {nn.layer, nn.saved = 0 : i64} {
  return %x : tensor<4xf32>
}
// expected-error @+1 {{argument 0 needs exactly one of nn.primal, nn.saved and nn.cotangent}}
func.func @f.bwd(%d: tensor<4xf32>) -> (tensor<4xf32> {nn.gradient = 0 : i64}) {
  return %d : tensor<4xf32>
}

// -----

// expected-note @+1 {{the forward is here}}
func.func @f(%x: tensor<4xf32> {nn.differentiable}) -> (tensor<4xf32> {nn.differentiable}) attributes {nn.layer, nn.saved = 0 : i64} {
  return %x : tensor<4xf32>
}
// expected-error @+1 {{argument 0 has nn.cotangent = 1, expected a value in [0, 1)}}
func.func @f.bwd(%d: tensor<4xf32> {nn.cotangent = 1 : i64}) -> (tensor<4xf32> {nn.gradient = 0 : i64}) {
  return %d : tensor<4xf32>
}

// -----

// expected-note @+1 {{the forward is here}}
func.func @f(%x: tensor<4xf32> {nn.differentiable}) -> (tensor<4xf32> {nn.differentiable}) attributes {nn.layer, nn.saved = 0 : i64} {
  return %x : tensor<4xf32>
}
// expected-error @+1 {{argument 1 repeats nn.primal = 0}}
func.func @f.bwd(%x: tensor<4xf32> {nn.primal = 0 : i64}, %y: tensor<4xf32> {nn.primal = 0 : i64}) -> (tensor<4xf32> {nn.gradient = 0 : i64}) {
  %0 = arith.addf %x, %y : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// expected-note @+1 {{the forward is here}}
func.func @f(%x: tensor<4xf32> {nn.differentiable}) -> tensor<4xf32> attributes {nn.layer, nn.saved = 0 : i64} {
  return %x : tensor<4xf32>
}
// expected-error @+1 {{argument 0 is the cotangent of result 0, which is not nn.differentiable}}
func.func @f.bwd(%d: tensor<4xf32> {nn.cotangent = 0 : i64}) -> (tensor<4xf32> {nn.gradient = 0 : i64}) {
  return %d : tensor<4xf32>
}

// -----

// expected-note @+1 {{the forward is here}}
func.func @f(%x: tensor<4xf32> {nn.differentiable}) -> (tensor<4xf32> {nn.differentiable}) attributes {nn.layer, nn.saved = 0 : i64} {
  return %x : tensor<4xf32>
}
// expected-error @+1 {{argument 0 has type 'tensor<2xf32>', expected 'tensor<4xf32>'}}
func.func @f.bwd(%d: tensor<2xf32> {nn.cotangent = 0 : i64}) -> (tensor<2xf32> {nn.gradient = 0 : i64}) {
  return %d : tensor<2xf32>
}

// -----

// expected-note @+1 {{the forward is here}}
func.func @f(%x: tensor<4xf32> {nn.differentiable}) -> (tensor<4xf32> {nn.differentiable}) attributes {nn.layer, nn.saved = 0 : i64} {
  return %x : tensor<4xf32>
}
// expected-error @+1 {{argument 0 is not read}}
func.func @f.bwd(%x: tensor<4xf32> {nn.primal = 0 : i64}, %d: tensor<4xf32> {nn.cotangent = 0 : i64}) -> (tensor<4xf32> {nn.gradient = 0 : i64}) {
  return %d : tensor<4xf32>
}

// -----

// expected-note @+1 {{the forward is here}}
func.func @f(%x: tensor<4xf32> {nn.differentiable}) -> (tensor<4xf32> {nn.differentiable}, tensor<4xf32>) attributes {nn.layer, nn.saved = 1 : i64} {
  return %x, %x : tensor<4xf32>, tensor<4xf32>
}
// expected-error @+1 {{does not read saved value 0}}
func.func @f.bwd(%d: tensor<4xf32> {nn.cotangent = 0 : i64}) -> (tensor<4xf32> {nn.gradient = 0 : i64}) {
  return %d : tensor<4xf32>
}

// -----

// expected-note @+1 {{the forward is here}}
func.func @f(%x: tensor<4xf32> {nn.differentiable}, %i: tensor<4xi64>) -> (tensor<4xf32> {nn.differentiable}) attributes {nn.layer, nn.saved = 0 : i64} {
  return %x : tensor<4xf32>
}
// expected-error @+1 {{result 0 needs nn.gradient, the number of a differentiable argument of the forward}}
func.func @f.bwd(%d: tensor<4xf32> {nn.cotangent = 0 : i64}) -> (tensor<4xf32> {nn.gradient = 1 : i64}) {
  return %d : tensor<4xf32>
}

// -----

// expected-note @+1 {{the forward is here}}
func.func @f(%x: tensor<4xf32> {nn.differentiable}) -> (tensor<4xf32> {nn.differentiable}) attributes {nn.layer, nn.saved = 0 : i64} {
  return %x : tensor<4xf32>
}
// expected-error @+1 {{result 1 is a second gradient of argument 0}}
func.func @f.bwd(%d: tensor<4xf32> {nn.cotangent = 0 : i64}) -> (tensor<4xf32> {nn.gradient = 0 : i64}, tensor<4xf32> {nn.gradient = 0 : i64}) {
  return %d, %d : tensor<4xf32>, tensor<4xf32>
}

// -----

// expected-note @+1 {{the forward is here}}
func.func @f(%x: tensor<4xf32> {nn.differentiable}, %w: tensor<f32> {nn.differentiable}) -> (tensor<4xf32> {nn.differentiable}) attributes {nn.layer, nn.saved = 0 : i64} {
  return %x : tensor<4xf32>
}
// expected-error @+1 {{gradient of argument 1 has type 'tensor<4xf32>', expected 'tensor<f32>'}}
func.func @f.bwd(%d: tensor<4xf32> {nn.cotangent = 0 : i64}) -> (tensor<4xf32> {nn.gradient = 0 : i64}, tensor<4xf32> {nn.gradient = 1 : i64}) {
  return %d, %d : tensor<4xf32>, tensor<4xf32>
}

// -----

// expected-note @+1 {{the forward is here}}
func.func @f(%x: tensor<4xf32> {nn.differentiable}, %w: tensor<4xf32> {nn.differentiable}) -> (tensor<4xf32> {nn.differentiable}) attributes {nn.layer, nn.saved = 0 : i64} {
  return %x : tensor<4xf32>
}
// expected-error @+1 {{has no gradient of argument 1}}
func.func @f.bwd(%d: tensor<4xf32> {nn.cotangent = 0 : i64}) -> (tensor<4xf32> {nn.gradient = 0 : i64}) {
  return %d : tensor<4xf32>
}
