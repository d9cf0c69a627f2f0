// RUN: harmony-opt %s --harmony-differentiate --verify-diagnostics

func.func @f(%x: tensor<?x3x3xf32, #nn.batch<0, 1>> {nn.differentiable}, %p: tensor<?x3x3xi8, #nn.batch<0, 1>>) -> (tensor<?x6x3xf32, #nn.batch<0, 1>> {nn.differentiable}) attributes {nn.layer} {
  // expected-error@+1 {{a gradient of the gradient of max_pool}}
  %0 = nn.unpool %x at %p axis 1 kernel [2] strides [2] dilations [1] low [0] : tensor<?x3x3xf32, #nn.batch<0, 1>>, tensor<?x3x3xi8, #nn.batch<0, 1>> -> tensor<?x6x3xf32, #nn.batch<0, 1>>
  return %0 : tensor<?x6x3xf32, #nn.batch<0, 1>>
}
