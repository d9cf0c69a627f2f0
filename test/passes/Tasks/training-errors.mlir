// What has no task, for a training step.
// RUN: harmony-opt %s --harmony-lower-tasks="batch=2" --split-input-file --verify-diagnostics

// expected-error@+1 {{no function @main}}
module {
}

// -----

nn.variable <parameter> @w : tensor<4xf32>
func.func private @sgd(%p: tensor<4xf32>, %g: tensor<4xf32>) -> tensor<4xf32> {
  return %p : tensor<4xf32>
}
// expected-error@+1 {{parameter is not read by any layer}}
nn.optimize @w by @sgd states [] scalars []
func.func @main(%x: tensor<4xf32> {nn.name = "x"}) {
  return
}
func.func @prologue(%x: tensor<4xf32> {nn.name = "x"}) {
  return
}

// -----

// expected-error@+1 {{parameter 'w' has no optimizer}}
module {
  nn.variable <parameter> @w : tensor<f32>
  func.func @main(%x: tensor<4xf32> {nn.name = "x"}) {
    %w = nn.get @w : tensor<f32>
    %0 = call @layer(%w) {nn.layer_name = "l"} : (tensor<f32>) -> tensor<f32>
    nn.loss %0 scale 1.0 count 1.0 : tensor<f32>
    return
  }
  func.func @prologue(%x: tensor<4xf32> {nn.name = "x"}) {
    return
  }
  func.func private @layer(%w: tensor<f32>) -> tensor<f32> attributes {nn.layer} {
    return %w : tensor<f32>
  }
}
