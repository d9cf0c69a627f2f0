nn.variable <parameter> @w : tensor<f32>
func.func @main() { return }
func.func private @step(%w: tensor<f32>, %g: tensor<f32>) -> tensor<f32> { return %g : tensor<f32> }
nn.optimize @w by @step states [] scalars []
