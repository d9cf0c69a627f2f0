// What has no task, for an evaluation.
// RUN: harmony-opt %s --harmony-lower-tasks="batch=2 evaluate=true" --split-input-file --verify-diagnostics

nn.variable <frozen> @w : tensor<4x4xf64>
func.func @evaluate(%x: tensor<?x4xf64, #nn.batch<0, 1>> {nn.name = "x"}) -> (tensor<?x4xf64, #nn.batch<0, 1>> {nn.name = "y"}) {
  %w = nn.get @w : tensor<4x4xf64>
  %0 = call @layer(%w, %x) {nn.layer_name = "l"} : (tensor<4x4xf64>, tensor<?x4xf64, #nn.batch<0, 1>>) -> tensor<?x4xf64, #nn.batch<0, 1>>
  return %0 : tensor<?x4xf64, #nn.batch<0, 1>>
}
func.func private @layer(%w: tensor<4x4xf64>, %x: tensor<?x4xf64, #nn.batch<0, 1>>) -> tensor<?x4xf64, #nn.batch<0, 1>> attributes {nn.layer} {
  // expected-error@+1 {{products of 'f64' are not supported, only f32}}
  %0 = nn.dot_general %x, %w batch [] x [] contract [1] x [0] : tensor<?x4xf64, #nn.batch<0, 1>>, tensor<4x4xf64> -> tensor<?x4xf64, #nn.batch<0, 1>>
  return %0 : tensor<?x4xf64, #nn.batch<0, 1>>
}

// -----

func.func @evaluate(%x: tensor<?x4xf32, #nn.batch<0, 1>> {nn.name = "x"}) -> (tensor<?x4xf32, #nn.batch<0, 1>> {nn.name = "y"}) {
  %0 = call @layer(%x) {nn.layer_name = "l"} : (tensor<?x4xf32, #nn.batch<0, 1>>) -> tensor<?x4xf32, #nn.batch<0, 1>>
  return %0 : tensor<?x4xf32, #nn.batch<0, 1>>
}
func.func private @layer(%x: tensor<?x4xf32, #nn.batch<0, 1>>) -> tensor<?x4xf32, #nn.batch<0, 1>> attributes {nn.layer} {
  // expected-error@+1 {{no kernel for 'nn.gelu' on the host}}
  %0 = nn.gelu %x : tensor<?x4xf32, #nn.batch<0, 1>>
  return %0 : tensor<?x4xf32, #nn.batch<0, 1>>
}

// -----

// expected-error@+1 {{no function @evaluate}}
module {
}

// -----

// expected-error@+1 {{output "y" is an input or a weight as it is, which is not supported}}
func.func @evaluate(%x: tensor<?x4xf32, #nn.batch<0, 1>> {nn.name = "x"}) -> (tensor<?x4xf32, #nn.batch<0, 1>> {nn.name = "y"}) {
  return %x : tensor<?x4xf32, #nn.batch<0, 1>>
}

// -----

func.func @evaluate(%x: tensor<?x4xf32, #nn.batch<0, 1>> {nn.name = "x"}) -> (tensor<?x4xf32, #nn.batch<0, 1>> {nn.name = "y"}) {
  %0 = nn.gelu %x : tensor<?x4xf32, #nn.batch<0, 1>>
  // expected-error@+1 {{operand 0 is neither a variable, an input nor a layer's result}}
  %1 = call @layer(%0) {nn.layer_name = "l"} : (tensor<?x4xf32, #nn.batch<0, 1>>) -> tensor<?x4xf32, #nn.batch<0, 1>>
  return %1 : tensor<?x4xf32, #nn.batch<0, 1>>
}
func.func private @layer(%x: tensor<?x4xf32, #nn.batch<0, 1>>) -> tensor<?x4xf32, #nn.batch<0, 1>> attributes {nn.layer} {
  return %x : tensor<?x4xf32, #nn.batch<0, 1>>
}

// -----

func.func @evaluate(%x: tensor<?x4xf32, #nn.batch<0, 1>> {nn.name = "x"}) {
  // expected-error@+1 {{the loss is also read by other layers, which is not supported}}
  %0 = call @layer(%x) {nn.layer_name = "l"} : (tensor<?x4xf32, #nn.batch<0, 1>>) -> tensor<f32>
  nn.loss %0 scale 1.0 count 1.0 : tensor<f32>
  nn.loss %0 scale 1.0 count 1.0 : tensor<f32>
  return
}
func.func private @layer(%x: tensor<?x4xf32, #nn.batch<0, 1>>) -> tensor<f32> attributes {nn.layer} {
  %0 = nn.group (%a = %x) : (tensor<?x4xf32, #nn.batch<0, 1>>) -> tensor<f32> {
    %1 = nn.reduce sum %a over [0, 1] : tensor<?x4xf32, #nn.batch<0, 1>> -> tensor<f32>
    nn.yield %1 : tensor<f32>
  }
  return %0 : tensor<f32>
}

// -----

// Padding with a value that only a kernel knows.
func.func @evaluate(%x: tensor<?x4xf32, #nn.batch<0, 1>> {nn.name = "x"}, %c: tensor<f32> {nn.name = "c"}) -> (tensor<?x5xf32, #nn.batch<0, 1>> {nn.name = "y"}) {
  %0 = call @layer(%x, %c) {nn.layer_name = "l"} : (tensor<?x4xf32, #nn.batch<0, 1>>, tensor<f32>) -> tensor<?x5xf32, #nn.batch<0, 1>>
  return %0 : tensor<?x5xf32, #nn.batch<0, 1>>
}
func.func private @layer(%x: tensor<?x4xf32, #nn.batch<0, 1>>, %c: tensor<f32>) -> tensor<?x5xf32, #nn.batch<0, 1>> attributes {nn.layer} {
  // expected-error@+1 {{padding with a value that is computed is not supported}}
  %0 = nn.pad %x with %c low [0, 1] interior [0, 0] : tensor<?x4xf32, #nn.batch<0, 1>>, tensor<f32> -> tensor<?x5xf32, #nn.batch<0, 1>>
  return %0 : tensor<?x5xf32, #nn.batch<0, 1>>
}
