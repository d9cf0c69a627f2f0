// RUN: harmony-opt %s --harmony-verify-layers --split-input-file --verify-diagnostics

!x = tensor<4xf32>

// What it accepts: reads, calls, losses.
nn.variable <parameter> @w : !x
func.func @main(%x: !x) {
  %w = nn.get @w : !x
  %0 = call @first(%w, %x) : (!x, !x) -> !x
  %1 = call @second(%0) : (!x) -> tensor<f32>
  nn.loss %1 scale 1.0 count 1.0 : tensor<f32>
  return
}
func.func private @first(!x {nn.differentiable}, !x) -> (!x {nn.differentiable}) attributes {nn.layer}
func.func private @second(!x {nn.differentiable}) -> (tensor<f32> {nn.differentiable}) attributes {nn.layer}

// -----

func.func @main(%x: tensor<4xf32>) {
  // expected-error@+1 {{is not part of a layer: @main may hold nn.get, calls, nn.assign and nn.loss}}
  %0 = nn.gelu %x : tensor<4xf32>
  return
}

// -----

func.func @evaluate(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{is not part of a layer: @evaluate may hold nn.get, calls, nn.assign and nn.loss}}
  %0 = nn.gelu %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @main(%x: tensor<4xf32>) {
  // expected-error@+1 {{calls @plain, which is not a layer function}}
  %0 = call @plain(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return
}
func.func private @plain(tensor<4xf32>) -> tensor<4xf32>

// -----

func.func @main() {
  return
}
// expected-error@+1 {{layer function is never called}}
func.func private @layer(tensor<4xf32>) -> tensor<4xf32> attributes {nn.layer}

// -----

func.func @main(%x: tensor<4xf32>) {
  %0 = call @first(%x) : (tensor<4xf32>) -> tensor<4xf32>
  // expected-note@+1 {{it is called with a value of the chain here}}
  %1 = call @second(%0) : (tensor<4xf32>) -> tensor<4xf32>
  return
}
func.func private @first(tensor<4xf32>) -> (tensor<4xf32> {nn.differentiable}) attributes {nn.layer}
// expected-error@+1 {{argument 0 must be nn.differentiable}}
func.func private @second(tensor<4xf32>) -> tensor<4xf32> attributes {nn.layer}

// -----

func.func @main(%x: tensor<4xf32>) {
  %0 = call @first(%x) : (tensor<4xf32>) -> tensor<4xf32>
  // expected-note@+1 {{it is called with a value of the chain here}}
  %1 = call @second(%x, %0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}
func.func private @first(tensor<4xf32>) -> tensor<4xf32> attributes {nn.layer}
// expected-error@+1 {{argument 1 must not be nn.differentiable}}
func.func private @second(tensor<4xf32>, tensor<4xf32> {nn.differentiable}) -> tensor<4xf32> attributes {nn.layer}

// -----

// Evaluation has no gradients.
func.func @evaluate(%x: tensor<4xf32>) {
  %0 = call @first(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = call @second(%0) : (tensor<4xf32>) -> tensor<4xf32>
  return
}
func.func private @first(tensor<4xf32>) -> (tensor<4xf32> {nn.differentiable}) attributes {nn.layer}
func.func private @second(tensor<4xf32>) -> tensor<4xf32> attributes {nn.layer}

// -----

// What a layer assigns goes where its argument came from.
nn.variable <buffer> @mean : tensor<4xf32>
nn.variable <buffer> @other : tensor<4xf32>
func.func @main(%x: tensor<4xf32>) {
  %mean = nn.get @mean : tensor<4xf32>
  %0 = call @layer(%mean, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  nn.assign @mean, %0 : tensor<4xf32>
  %1 = call @layer(%mean, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  // expected-error@+1 {{must be the only reader of a layer's result that is marked nn.assigns and takes the place of the variable}}
  nn.assign @other, %1 : tensor<4xf32>
  return
}
func.func private @layer(tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32> {nn.assigns = 0 : i64}) attributes {nn.layer}

// -----

nn.variable <buffer> @mean : tensor<4xf32>
func.func @main(%x: tensor<4xf32>) {
  %mean = nn.get @mean : tensor<4xf32>
  %0 = call @layer(%mean, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  // expected-error@+1 {{must be the only reader of a layer's result that is marked nn.assigns}}
  nn.assign @mean, %0 : tensor<4xf32>
  return
}
func.func private @layer(tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> attributes {nn.layer}
