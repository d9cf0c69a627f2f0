// RUN: harmony-opt %s -split-input-file --harmony-verify-normalized -verify-diagnostics

func.func @main(%x: tensor<?xf32, #nn.batch<0, 1>> {nn.name = "x"}) -> (tensor<?xf32, #nn.batch<0, 1>> {nn.name = "y"}) {
  %y = math.tanh %x : tensor<?xf32, #nn.batch<0, 1>>
  return %y : tensor<?xf32, #nn.batch<0, 1>>
}

// -----

// expected-error@+1 {{a normalised module has a function 'main'}}
module {}

// -----

// expected-error@+1 {{'onnx.initializer' is left; a normalised module holds nn, arith, math and func}}
onnx.initializer @w : tensor<1xf32> = dense<1.0> : tensor<1xf32>
func.func @main() { return }

// -----

// expected-error@+1 {{argument 0 of 'main' needs a name of its own (nn.name)}}
func.func @main(%x: tensor<2xf32>) { return }

// -----

// expected-error@+1 {{input 'x' has type 'tensor<3x?xf32, #nn.batch<1, 1>>', expected a static tensor, or one with the batch on axis 0}}
func.func @main(%x: tensor<3x?xf32, #nn.batch<1, 1>> {nn.name = "x"}) { return }

// -----

// expected-error@+1 {{result 0 of 'main' needs a name (nn.name)}}
func.func @main(%x: tensor<2xf32> {nn.name = "x"}) -> tensor<2xf32> { return %x : tensor<2xf32> }

// -----

nn.variable <parameter> @w : tensor<f32>
func.func @main(%x: tensor<f32> {nn.name = "x"}) {
  %w = nn.get @w : tensor<f32>
  %d = arith.mulf %x, %w : tensor<f32>
  // expected-error@+1 {{the denominator depends on a trained variable; it must depend on inputs alone}}
  nn.loss %x over %d : tensor<f32> scale 1.0 count 1.0 : tensor<f32>
  return
}

// -----

// expected-note@+1 {{the variable is declared here}}
nn.variable <frozen> @w : tensor<f32>
func.func @main() { return }
func.func private @step(%w: tensor<f32>, %g: tensor<f32>) -> tensor<f32> { return %g : tensor<f32> }
// expected-error@+1 {{updates @w, which is not a parameter}}
nn.optimize @w by @step states [] scalars []

// -----

nn.variable <parameter> @w : tensor<f32>
func.func @main() { return }
func.func private @step(%w: tensor<f32>, %g: tensor<f32>) -> tensor<f32> { return %g : tensor<f32> }
// expected-note@+1 {{the first update is here}}
nn.optimize @w by @step states [] scalars []
// expected-error@+1 {{updates @w a second time}}
nn.optimize @w by @step states [] scalars []

// -----

nn.variable <parameter> @w : tensor<f32>
func.func @main() { return }
func.func private @c(%g: tensor<f32>) -> tensor<f32> { return %g : tensor<f32> }
nn.contribution @w by @c
// expected-error@+1 {{is the second of @w}}
nn.contribution @w by @c

// -----

nn.variable <parameter> @w : tensor<f32>
func.func @main() { return }
func.func private @e(%c: tensor<f32>) { return }
// expected-error@+1 {{reads the contribution of @w, which has none or is read twice}}
nn.epilogue @e contributions [@w] reads [] writes []

// -----

func.func @main() { return }
func.func private @e() { return }
nn.epilogue @e contributions [] reads [] writes []
// expected-error@+1 {{is the second of the module}}
nn.epilogue @e contributions [] reads [] writes []

// -----

// expected-error@+1 {{no nn.epilogue reads the contribution of @w}}
module {
  nn.variable <parameter> @w : tensor<f32>
  func.func @main() { return }
  func.func private @c(%g: tensor<f32>) -> tensor<f32> { return %g : tensor<f32> }
  nn.contribution @w by @c
}

// -----

nn.variable <buffer> @mean : tensor<4xf32>
func.func @main(%x: tensor<4xf32> {nn.name = "x"}) {
  %0 = arith.addf %x, %x : tensor<4xf32>
  nn.assign @mean, %0 : tensor<4xf32>
  // expected-error@+1 {{assigns @mean, accepted is one value that main computes}}
  nn.assign @mean, %0 : tensor<4xf32>
  return
}
