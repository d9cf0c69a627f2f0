// What a window cannot be is refused, with what is expected instead.
// RUN: harmony-opt %s --split-input-file --verify-diagnostics

func.func @f(%x: tensor<4x4xf32>) {
  // expected-error@+1 {{strides has 1 entries, expected 2}}
  %0 = nn.sum_pool %x axis 0 kernel [2, 2] strides [1] dilations [1, 1] low [0, 0] : tensor<4x4xf32> -> tensor<3x3xf32>
  return
}

// -----

func.func @f(%x: tensor<4x4xf32>) {
  // expected-error@+1 {{dilations has an entry 0, expected at least 1}}
  %0 = nn.sum_pool %x axis 0 kernel [2, 2] strides [1, 1] dilations [1, 0] low [0, 0] : tensor<4x4xf32> -> tensor<3x3xf32>
  return
}

// -----

func.func @f(%x: tensor<4x4xf32>) {
  // expected-error@+1 {{low has an entry -1, expected at least 0}}
  %0 = nn.sum_pool %x axis 0 kernel [2, 2] strides [1, 1] dilations [1, 1] low [0, -1] : tensor<4x4xf32> -> tensor<3x3xf32>
  return
}

// -----

func.func @f(%x: tensor<4x4xf32>) {
  // expected-error@+1 {{axes [1, 3) are not axes of 'tensor<4x4xf32>'}}
  %0 = nn.sum_pool %x axis 1 kernel [2, 2] strides [1, 1] dilations [1, 1] low [0, 0] : tensor<4x4xf32> -> tensor<3x3xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32, #nn.batch<0, 1>>) {
  // expected-error@+1 {{windows must not reach over the batch axis 0}}
  %0 = nn.sum_pool %x axis 0 kernel [2] strides [1] dilations [1] low [0] : tensor<?x4xf32, #nn.batch<0, 1>> -> tensor<3x4xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4x2xf32, #nn.batch<0, 1>>) {
  // expected-error@+1 {{has windows of type 'tensor<?x3x2xf32, #nn.batch<0, 1>>', expected 'tensor<?x3x2x2xf32, #nn.batch<0, 1>>'}}
  %0 = nn.window %x axis 1 kernel [2] strides [1] dilations [1] low [0] : tensor<?x4x2xf32, #nn.batch<0, 1>> -> tensor<?x3x2xf32, #nn.batch<0, 1>>
  return
}

// -----

func.func @f(%x: tensor<?x3x2x2xf32, #nn.batch<0, 1>>) {
  // expected-error@+1 {{expected 'tensor<?x3x2x5xf32, #nn.batch<0, 1>>'}}
  %0 = nn.fold %x axis 1 kernel [2] strides [1] dilations [1] low [0] : tensor<?x3x2x2xf32, #nn.batch<0, 1>> -> tensor<?x4x5xf32, #nn.batch<0, 1>>
  return
}

// -----

func.func @f(%x: tensor<4xi32>) {
  // expected-error@+1 {{needs floating elements, not 'tensor<4xi32>'}}
  %0:2 = nn.max_pool %x axis 0 kernel [2] strides [2] dilations [1] low [0] : tensor<4xi32> -> tensor<2xi32>, tensor<2xi8>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{positions have type 'tensor<2xi64>', expected 'tensor<2xi8>'}}
  %0:2 = nn.max_pool %x axis 0 kernel [2] strides [2] dilations [1] low [0] : tensor<4xf32> -> tensor<2xf32>, tensor<2xi64>
  return
}

// -----

func.func @f(%x: tensor<2xf32>, %p: tensor<3xi8>) {
  // expected-error@+1 {{positions have type 'tensor<3xi8>', expected 'tensor<2xi8>'}}
  %0 = nn.unpool %x at %p axis 0 kernel [2] strides [2] dilations [1] low [0] : tensor<2xf32>, tensor<3xi8> -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4x3xf32, #nn.batch<0, 1>>, %w: tensor<3x3xf32>) {
  // expected-error@+1 {{operand, weights and windows do not fit}}
  %0 = nn.depthwise %x, %w axis 1 strides [1] dilations [2] : tensor<?x4x3xf32, #nn.batch<0, 1>>, tensor<3x3xf32> -> tensor<?x1x3xf32, #nn.batch<0, 1>>
  return
}

// -----

func.func @f(%x: tensor<?x4x3xf32, #nn.batch<0, 1>>, %w: tensor<3x2xf32>) {
  // expected-error@+1 {{operand, weights and windows do not fit}}
  %0 = nn.depthwise %x, %w axis 1 strides [1] dilations [1] : tensor<?x4x3xf32, #nn.batch<0, 1>>, tensor<3x2xf32> -> tensor<?x2x3xf32, #nn.batch<0, 1>>
  return
}

// -----

func.func @f(%x: tensor<?x4x3xf32, #nn.batch<0, 1>>, %w: tensor<3x3xf32>) {
  // expected-error@+1 {{result must have type 'tensor<?x2x3xf32, #nn.batch<0, 1>>'}}
  %0 = nn.depthwise %x, %w axis 1 strides [1] dilations [1] : tensor<?x4x3xf32, #nn.batch<0, 1>>, tensor<3x3xf32> -> tensor<?x4x3xf32, #nn.batch<0, 1>>
  return
}
