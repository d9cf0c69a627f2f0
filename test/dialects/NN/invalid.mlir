// What an nn op cannot mean is refused, with what is expected instead.
// RUN: harmony-opt %s --split-input-file --verify-diagnostics

// expected-error@+1 {{batch axis 2 is not an axis of a tensor of rank 2}}
func.func private @f(tensor<?x4xf32, #nn.batch<2, 1>>)

// -----

// expected-error@+1 {{batch axis -1 is not an axis of a tensor of rank 2}}
func.func private @f(tensor<?x4xf32, #nn.batch<-1, 1>>)

// -----

// expected-error@+1 {{batch factor is 0, expected at least 1}}
func.func private @f(tensor<?x4xf32, #nn.batch<0, 0>>)

// -----

// expected-error@+1 {{axis 1 must be static: only the batch axis 0 is dynamic}}
func.func private @f(tensor<?x?xf32, #nn.batch<0, 1>>)

// -----

// expected-error@+1 {{axis 0 must be dynamic: only the batch axis 0 is dynamic}}
func.func private @f(tensor<3x4xf32, #nn.batch<0, 1>>)

// -----

// expected-error@+1 {{axis 0 must be dynamic: only the batch axis 0 is dynamic}}
func.func private @f(tensor<4x?xf32, #nn.batch<0, 1>>)

// -----

// expected-error@+1 {{type 'tensor<?x4xf32>' must be static}}
nn.variable <parameter> @w : tensor<?x4xf32>

// -----

// expected-error@+1 {{initial value has type 'tensor<3xf32>', expected 'tensor<4xf32>'}}
nn.variable <parameter> @w : tensor<4xf32> = dense<0.0> : tensor<3xf32>

// -----

// expected-error@+1 {{initial value has 15 bytes, expected 16}}
nn.variable <parameter> @w : tensor<4xf32> = #nn.file<"f", 0, 15>

// -----

// expected-error@+1 {{initial value has 1 bytes, expected 8}}
nn.variable <constant> @w : tensor<8xi1> = #nn.file<"f", 0, 1>

// -----

// expected-error@+2 {{to be one of: parameter, frozen, buffer, state, optimizer, constant, scalar}}
// expected-error@+1 {{failed to parse NN_RoleAttr parameter}}
nn.variable <trained> @w : tensor<8xf32>

// -----

func.func @f() {
  // expected-error@+1 {{no nn.variable is named @w}}
  %0 = nn.get @w : tensor<4xf32>
  return
}

// -----

func.func private @g()
func.func @f() {
  // expected-error@+1 {{no nn.variable is named @g}}
  %0 = nn.get @g : tensor<4xf32>
  return
}

// -----

// expected-note@+1 {{the variable is declared here}}
nn.variable <parameter> @w : tensor<5xf32>
func.func @f() {
  // expected-error@+1 {{type is 'tensor<4xf32>', expected 'tensor<5xf32>'}}
  %0 = nn.get @w : tensor<4xf32>
  return
}

// -----

nn.variable <parameter> @w : tensor<4xf32>
nn.variable <optimizer> @m : tensor<4xf32>
nn.variable <scalar> @r : tensor<f32>
// expected-error@+1 {{no nn.variable is named @v}}
nn.optimize @v by @f states [] scalars []

// -----

nn.variable <parameter> @w : tensor<4xf32>
nn.variable <optimizer> @m : tensor<4xf32>
nn.variable <scalar> @r : tensor<f32>
// expected-error@+1 {{no nn.variable is named @v}}
nn.optimize @w by @f states [@v] scalars []

// -----

nn.variable <parameter> @w : tensor<4xf32>
nn.variable <optimizer> @m : tensor<4xf32>
nn.variable <scalar> @r : tensor<f32>
// expected-error@+1 {{no nn.variable is named @v}}
nn.optimize @w by @f states [@m] scalars [@v]

// -----

nn.variable <parameter> @w : tensor<4xf32>
nn.variable <optimizer> @m : tensor<4xf32>
nn.variable <scalar> @r : tensor<f32>
// expected-error@+1 {{no function is named @f}}
nn.optimize @w by @f states [@m] scalars [@r]

// -----

nn.variable <parameter> @w : tensor<4xf32>
nn.variable <optimizer> @m : tensor<4xf32>
nn.variable <scalar> @r : tensor<f32>
// expected-error@+1 {{function @f must have type '(tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>)'}}
nn.optimize @w by @f states [@m] scalars [@r]
// expected-note@+1 {{it is declared here}}
func.func private @f(tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>

// -----

nn.variable <parameter> @w : tensor<4xf32>
nn.variable <optimizer> @m : tensor<4xf32>
nn.variable <scalar> @r : tensor<f32>
// expected-error@+1 {{no nn.variable is named @v}}
nn.step_scalars @f reads [@v] writes []

// -----

nn.variable <parameter> @w : tensor<4xf32>
nn.variable <optimizer> @m : tensor<4xf32>
nn.variable <scalar> @r : tensor<f32>
// expected-error@+1 {{no nn.variable is named @v}}
nn.step_scalars @f reads [] writes [@v]

// -----

nn.variable <parameter> @w : tensor<4xf32>
nn.variable <optimizer> @m : tensor<4xf32>
nn.variable <scalar> @r : tensor<f32>
// expected-error@+1 {{no function is named @w}}
nn.step_scalars @w reads [@r] writes [@r]

// -----

nn.variable <parameter> @w : tensor<4xf32>
nn.variable <optimizer> @m : tensor<4xf32>
nn.variable <scalar> @r : tensor<f32>
// expected-error@+1 {{function @f must have type '(tensor<f32>) -> tensor<f32>'}}
nn.step_scalars @f reads [@r] writes [@r]
// expected-note@+1 {{it is declared here}}
func.func private @f()

// -----

nn.variable <parameter> @w : tensor<4xf32>
// expected-error@+1 {{no nn.variable is named @v}}
nn.contribution @v by @f
func.func private @f(tensor<4xf32>) -> tensor<f32>

// -----

nn.variable <parameter> @w : tensor<4xf32>
// expected-error@+1 {{function @f must have type '(tensor<4xf32>) -> tensor<f32>'}}
nn.contribution @w by @f
// expected-note@+1 {{it is declared here}}
func.func private @f(tensor<4xf32>) -> tensor<1xf32>

// -----

func.func @f(%k: tensor<?x2xi64, #nn.batch<0, 1>>, %s: tensor<i64>) {
  // expected-error@+1 {{keys must be rows of 3 i64, not 'tensor<?x2xi64, #nn.batch<0, 1>>'}}
  %0 = nn.random %k stream %s axis 0 : tensor<?x2xi64, #nn.batch<0, 1>>, tensor<i64> -> tensor<?x4xi64, #nn.batch<0, 1>>
  return
}

// -----

func.func @f(%k: tensor<?x3xi64, #nn.batch<0, 1>>, %s: tensor<1xi64>) {
  // expected-error@+1 {{stream must be an i64 scalar, not 'tensor<1xi64>'}}
  %0 = nn.random %k stream %s axis 0 : tensor<?x3xi64, #nn.batch<0, 1>>, tensor<1xi64> -> tensor<?x4xi64, #nn.batch<0, 1>>
  return
}

// -----

func.func @f(%k: tensor<?x3xi64, #nn.batch<0, 1>>, %s: tensor<i64>) {
  // expected-error@+1 {{result must hold i64, and one index of axis 0 for each row of 'tensor<?x3xi64, #nn.batch<0, 1>>', not 'tensor<?x4xi64, #nn.batch<0, 2>>'}}
  %0 = nn.random %k stream %s axis 0 : tensor<?x3xi64, #nn.batch<0, 1>>, tensor<i64> -> tensor<?x4xi64, #nn.batch<0, 2>>
  return
}

// -----

func.func @f(%k: tensor<?x3xi64, #nn.batch<0, 1>>, %s: tensor<i64>) {
  // expected-error@+1 {{result must hold i64, and one index of axis 1 for each row of}}
  %0 = nn.random %k stream %s axis 1 : tensor<?x3xi64, #nn.batch<0, 1>>, tensor<i64> -> tensor<?x4xi64, #nn.batch<0, 1>>
  return
}

// -----

// expected-error@+1 {{no nn.variable is named @v}}
nn.epilogue @f contributions [] reads [@v] writes []

// -----

// expected-error@+1 {{no nn.variable is named @v}}
nn.epilogue @f contributions [] reads [] writes [@v]

// -----

nn.variable <parameter> @w : tensor<4xf32>
nn.variable <scalar> @r : tensor<f32>
// expected-error@+1 {{function @f must have type '(tensor<f32>, tensor<f32>) -> tensor<f32>'}}
nn.epilogue @f contributions [@w] reads [@r] writes [@r]
// expected-note@+1 {{it is declared here}}
func.func private @f(tensor<f32>) -> tensor<f32>

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{numerator must be a floating scalar, not 'tensor<4xf32>'}}
  nn.loss %x scale 1.0 count 1.0 : tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<i64>) {
  // expected-error@+1 {{numerator must be a floating scalar, not 'tensor<i64>'}}
  nn.loss %x scale 1.0 count 1.0 : tensor<i64>
  return
}

// -----

func.func @f(%x: tensor<f32>, %d: tensor<i64>) {
  // expected-error@+1 {{denominator must have the numerator's type, not 'tensor<i64>'}}
  nn.loss %x over %d : tensor<i64> scale 1.0 count 1.0 : tensor<f32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{has 0 axes, expected 1}}
  %0 = nn.broadcast %x to [] : tensor<4xf32> -> tensor<3x4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{changes the element type}}
  %0 = nn.broadcast %x to [1] : tensor<4xf32> -> tensor<3x4xf64>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{axes must increase and lie in [0, 2)}}
  %0 = nn.broadcast %x to [2] : tensor<4xf32> -> tensor<3x4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{axes must increase and lie in [0, 2)}}
  %0 = nn.broadcast %x to [-1] : tensor<4xf32> -> tensor<3x4xf32>
  return
}

// -----

func.func @f(%x: tensor<4x3xf32>) {
  // expected-error@+1 {{axes must increase and lie in [0, 2)}}
  %0 = nn.broadcast %x to [1, 0] : tensor<4x3xf32> -> tensor<3x4xf32>
  return
}

// -----

func.func @f(%x: tensor<4x4xf32>) {
  // expected-error@+1 {{axes must increase and lie in [0, 2)}}
  %0 = nn.broadcast %x to [1, 1] : tensor<4x4xf32> -> tensor<3x4xf32>
  return
}

// -----

func.func @f(%x: tensor<3xf32>) {
  // expected-error@+1 {{axis 0 is neither 1 nor the extent of axis 1 of the result}}
  %0 = nn.broadcast %x to [1] : tensor<3xf32> -> tensor<3x4xf32>
  return
}

// -----

func.func @f(%x: tensor<4x4xf32>) {
  // expected-error@+1 {{axis 0 is neither 1 nor the extent of axis 0 of the result}}
  %0 = nn.broadcast %x to [0, 1] : tensor<4x4xf32> -> tensor<?x4xf32, #nn.batch<0, 1>>
  return
}

// -----

func.func @f(%x: tensor<?xf32, #nn.batch<0, 2>>) {
  // expected-error@+1 {{axis 0 is neither 1 nor the extent of axis 0 of the result}}
  %0 = nn.broadcast %x to [0] : tensor<?xf32, #nn.batch<0, 2>> -> tensor<?x4xf32, #nn.batch<0, 1>>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32, #nn.batch<0, 1>>) {
  // expected-error@+1 {{axis 0 is neither 1 nor the extent of axis 0 of the result}}
  %0 = nn.broadcast %x to [0, 1] : tensor<?x4xf32, #nn.batch<0, 1>> -> tensor<3x4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{changes the element type}}
  %0 = nn.reshape %x : tensor<4xf32> -> tensor<2x2xi32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{does not keep the elements of each sample: 'tensor<4xf32>' and 'tensor<2x3xf32>'}}
  %0 = nn.reshape %x : tensor<4xf32> -> tensor<2x3xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32, #nn.batch<0, 1>>) {
  // expected-error@+1 {{does not keep the elements of each sample}}
  %0 = nn.reshape %x : tensor<?x4xf32, #nn.batch<0, 1>> -> tensor<?xf32, #nn.batch<0, 3>>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32, #nn.batch<0, 1>>) {
  // expected-error@+1 {{does not keep the elements of each sample}}
  %0 = nn.reshape %x : tensor<?x4xf32, #nn.batch<0, 1>> -> tensor<2x?x2xf32, #nn.batch<1, 1>>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32, #nn.batch<0, 1>>) {
  // expected-error@+1 {{does not keep the elements of each sample}}
  %0 = nn.reshape %x : tensor<?x4xf32, #nn.batch<0, 1>> -> tensor<6xf32>
  return
}

// -----

func.func @f(%x: tensor<4x3xf32>) {
  // expected-error@+1 {{operands and attributes do not fit}}
  %0 = nn.transpose %x by [0] : tensor<4x3xf32> -> tensor<4x3xf32>
  return
}

// -----

func.func @f(%x: tensor<4x3xf32>) {
  // expected-error@+1 {{operands and attributes do not fit}}
  %0 = nn.transpose %x by [0, 0] : tensor<4x3xf32> -> tensor<4x4xf32>
  return
}

// -----

func.func @f(%x: tensor<4x3xf32>) {
  // expected-error@+1 {{operands and attributes do not fit}}
  %0 = nn.transpose %x by [0, 2] : tensor<4x3xf32> -> tensor<4x4xf32>
  return
}

// -----

func.func @f(%x: tensor<4x3xf32>) {
  // expected-error@+1 {{result type is 'tensor<4x3xf32>', expected 'tensor<3x4xf32>'}}
  %0 = nn.transpose %x by [1, 0] : tensor<4x3xf32> -> tensor<4x3xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32, #nn.batch<0, 1>>) {
  // expected-error@+1 {{result type is 'tensor<?x4xf32, #nn.batch<0, 1>>', expected 'tensor<4x?xf32, #nn.batch<1, 1>>'}}
  %0 = nn.transpose %x by [1, 0] : tensor<?x4xf32, #nn.batch<0, 1>> -> tensor<?x4xf32, #nn.batch<0, 1>>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{needs one start and stride per axis, and the operand's rank, batch and element type}}
  %0 = nn.slice %x from [0, 0] by [1] : tensor<4xf32> -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{needs one start and stride per axis, and the operand's rank, batch and element type}}
  %0 = nn.slice %x from [0] by [1, 1] : tensor<4xf32> -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{needs one start and stride per axis, and the operand's rank, batch and element type}}
  %0 = nn.slice %x from [0] by [1] : tensor<4xf32> -> tensor<1x4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{needs one start and stride per axis, and the operand's rank, batch and element type}}
  %0 = nn.slice %x from [0] by [1] : tensor<4xf32> -> tensor<4xf64>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32, #nn.batch<0, 1>>) {
  // expected-error@+1 {{needs one start and stride per axis, and the operand's rank, batch and element type}}
  %0 = nn.slice %x from [0, 0] by [1, 1] : tensor<?x4xf32, #nn.batch<0, 1>> -> tensor<3x4xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32, #nn.batch<0, 1>>) {
  // expected-error@+1 {{must take the batch axis 0 whole}}
  %0 = nn.slice %x from [1, 0] by [1, 1] : tensor<?x4xf32, #nn.batch<0, 1>> -> tensor<?x4xf32, #nn.batch<0, 1>>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32, #nn.batch<0, 1>>) {
  // expected-error@+1 {{must take the batch axis 0 whole}}
  %0 = nn.slice %x from [0, 0] by [2, 1] : tensor<?x4xf32, #nn.batch<0, 1>> -> tensor<?x4xf32, #nn.batch<0, 1>>
  return
}

// -----

func.func @f(%x: tensor<4x5xf32>) {
  // expected-error@+1 {{leaves axis 1 of extent 5}}
  %0 = nn.slice %x from [0, 2] by [1, 2] : tensor<4x5xf32> -> tensor<4x3xf32>
  return
}

// -----

func.func @f(%x: tensor<4x5xf32>) {
  // expected-error@+1 {{leaves axis 1 of extent 5}}
  %0 = nn.slice %x from [0, -1] by [1, 1] : tensor<4x5xf32> -> tensor<4x3xf32>
  return
}

// -----

func.func @f(%x: tensor<4x5xf32>) {
  // expected-error@+1 {{leaves axis 1 of extent 5}}
  %0 = nn.slice %x from [0, 1] by [1, -1] : tensor<4x5xf32> -> tensor<4x3xf32>
  return
}

// -----

func.func @f(%x: tensor<4x5xf32>) {
  // expected-error@+1 {{leaves axis 1 of extent 5}}
  %0 = nn.slice %x from [0, 5] by [1, -1] : tensor<4x5xf32> -> tensor<4x3xf32>
  return
}

// -----

func.func @f(%x: tensor<4x5xf32>) {
  // expected-error@+1 {{leaves axis 1 of extent 5}}
  %0 = nn.slice %x from [0, 1] by [1, 0] : tensor<4x5xf32> -> tensor<4x3xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>, %c: tensor<f32>) {
  // expected-error@+1 {{needs one `low` and `interior` per axis, and the operand's rank, batch and element type}}
  %0 = nn.pad %x with %c low [] interior [0] : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>, %c: tensor<f32>) {
  // expected-error@+1 {{needs one `low` and `interior` per axis, and the operand's rank, batch and element type}}
  %0 = nn.pad %x with %c low [0] interior [0, 0] : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>, %c: tensor<f32>) {
  // expected-error@+1 {{needs one `low` and `interior` per axis, and the operand's rank, batch and element type}}
  %0 = nn.pad %x with %c low [0] interior [0] : tensor<4xf32>, tensor<f32> -> tensor<4x1xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>, %c: tensor<1xf32>) {
  // expected-error@+1 {{fill must be a scalar of the operand's element type}}
  %0 = nn.pad %x with %c low [0] interior [0] : tensor<4xf32>, tensor<1xf32> -> tensor<5xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>, %c: tensor<i32>) {
  // expected-error@+1 {{fill must be a scalar of the operand's element type}}
  %0 = nn.pad %x with %c low [0] interior [0] : tensor<4xf32>, tensor<i32> -> tensor<5xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32, #nn.batch<0, 1>>, %c: tensor<f32>) {
  // expected-error@+1 {{must not pad the batch axis 0}}
  %0 = nn.pad %x with %c low [1, 0] interior [0, 0] : tensor<?x4xf32, #nn.batch<0, 1>>, tensor<f32> -> tensor<?x4xf32, #nn.batch<0, 1>>
  return
}

// -----

func.func @f(%x: tensor<4xf32>, %c: tensor<f32>) {
  // expected-error@+1 {{does not fit into axis 0 of the result}}
  %0 = nn.pad %x with %c low [-1] interior [0] : tensor<4xf32>, tensor<f32> -> tensor<5xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>, %c: tensor<f32>) {
  // expected-error@+1 {{does not fit into axis 0 of the result}}
  %0 = nn.pad %x with %c low [0] interior [-1] : tensor<4xf32>, tensor<f32> -> tensor<5xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>, %c: tensor<f32>) {
  // expected-error@+1 {{does not fit into axis 0 of the result}}
  %0 = nn.pad %x with %c low [1] interior [2] : tensor<4xf32>, tensor<f32> -> tensor<10xf32>
  return
}

// -----

func.func @f() {
  // expected-error@+1 {{operands and attributes do not fit}}
  %0 = "nn.concat"() {axis = 0 : i64} : () -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{operands and attributes do not fit}}
  %0 = nn.concat %x, %x along 1 : tensor<4xf32>, tensor<4xf32> -> tensor<8xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{operands and attributes do not fit}}
  %0 = nn.concat %x, %x along -1 : tensor<4xf32>, tensor<4xf32> -> tensor<8xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>, %y: tensor<4x1xf32>) {
  // expected-error@+1 {{operands and attributes do not fit}}
  %0 = nn.concat %x, %y along 0 : tensor<4xf32>, tensor<4x1xf32> -> tensor<8xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>, %y: tensor<4xf64>) {
  // expected-error@+1 {{operands and attributes do not fit}}
  %0 = nn.concat %x, %y along 0 : tensor<4xf32>, tensor<4xf64> -> tensor<8xf32>
  return
}

// -----

func.func @f(%x: tensor<4x2xf32>, %y: tensor<4x3xf32>) {
  // expected-error@+1 {{operands and attributes do not fit}}
  %0 = nn.concat %x, %y along 0 : tensor<4x2xf32>, tensor<4x3xf32> -> tensor<8x2xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32, #nn.batch<0, 1>>) {
  // expected-error@+1 {{operands and attributes do not fit}}
  %0 = nn.concat %x, %x along 0 : tensor<?x4xf32, #nn.batch<0, 1>>, tensor<?x4xf32, #nn.batch<0, 1>> -> tensor<?x4xf32, #nn.batch<0, 2>>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32, #nn.batch<0, 1>>, %y: tensor<3x4xf32>) {
  // expected-error@+1 {{operands and attributes do not fit}}
  %0 = nn.concat %x, %y along 1 : tensor<?x4xf32, #nn.batch<0, 1>>, tensor<3x4xf32> -> tensor<?x8xf32, #nn.batch<0, 1>>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{result type is 'tensor<7xf32>', expected 'tensor<8xf32>'}}
  %0 = nn.concat %x, %x along 0 : tensor<4xf32>, tensor<4xf32> -> tensor<7xf32>
  return
}

// -----

func.func @f(%x: tensor<4x3xf32>) {
  // expected-error@+1 {{operands and attributes do not fit}}
  %0 = nn.reduce sum %x over [2] : tensor<4x3xf32> -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4x3xf32>) {
  // expected-error@+1 {{operands and attributes do not fit}}
  %0 = nn.reduce sum %x over [-1] : tensor<4x3xf32> -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4x3xf32>) {
  // expected-error@+1 {{operands and attributes do not fit}}
  %0 = nn.reduce sum %x over [1, 1] : tensor<4x3xf32> -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4x3xf32>) {
  // expected-error@+1 {{result type is 'tensor<3xf32>', expected 'tensor<4xf32>'}}
  %0 = nn.reduce sum %x over [1] : tensor<4x3xf32> -> tensor<3xf32>
  return
}

// -----

func.func @f(%x: tensor<4x3xf32>, %y: tensor<3x2xf32>) {
  // expected-error@+1 {{operands and attributes do not fit}}
  %0 = nn.dot_general %x, %y batch [] x [0] contract [1] x [0] : tensor<4x3xf32>, tensor<3x2xf32> -> tensor<4x2xf32>
  return
}

// -----

func.func @f(%x: tensor<4x3xf32>, %y: tensor<3x2xf32>) {
  // expected-error@+1 {{operands and attributes do not fit}}
  %0 = nn.dot_general %x, %y batch [] x [] contract [1] x [] : tensor<4x3xf32>, tensor<3x2xf32> -> tensor<4x2xf32>
  return
}

// -----

func.func @f(%x: tensor<4x3xf32>, %y: tensor<3x2xf32>) {
  // expected-error@+1 {{operands and attributes do not fit}}
  %0 = nn.dot_general %x, %y batch [] x [] contract [2] x [0] : tensor<4x3xf32>, tensor<3x2xf32> -> tensor<4x2xf32>
  return
}

// -----

func.func @f(%x: tensor<4x3xf32>, %y: tensor<3x2xf32>) {
  // expected-error@+1 {{operands and attributes do not fit}}
  %0 = nn.dot_general %x, %y batch [1] x [0] contract [1] x [0] : tensor<4x3xf32>, tensor<3x2xf32> -> tensor<4x2xf32>
  return
}

// -----

func.func @f(%x: tensor<4x3xf32>, %y: tensor<3x2xf32>) {
  // expected-error@+1 {{operands and attributes do not fit}}
  %0 = nn.dot_general %x, %y batch [] x [] contract [0] x [0] : tensor<4x3xf32>, tensor<3x2xf32> -> tensor<3x2xf32>
  return
}

// -----

func.func @f(%x: tensor<4x3xf32>, %y: tensor<3x2xf64>) {
  // expected-error@+1 {{operands and attributes do not fit}}
  %0 = nn.dot_general %x, %y batch [] x [] contract [1] x [0] : tensor<4x3xf32>, tensor<3x2xf64> -> tensor<4x2xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32, #nn.batch<0, 1>>, %y: tensor<?x4xf32, #nn.batch<0, 2>>) {
  // expected-error@+1 {{operands and attributes do not fit}}
  %0 = nn.dot_general %x, %y batch [] x [] contract [0] x [0] : tensor<?x4xf32, #nn.batch<0, 1>>, tensor<?x4xf32, #nn.batch<0, 2>> -> tensor<4x4xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32, #nn.batch<0, 1>>, %y: tensor<?x4xf32, #nn.batch<0, 1>>) {
  // expected-error@+1 {{operands and attributes do not fit}}
  %0 = nn.dot_general %x, %y batch [] x [] contract [1] x [1] : tensor<?x4xf32, #nn.batch<0, 1>>, tensor<?x4xf32, #nn.batch<0, 1>> -> tensor<4x4xf32>
  return
}

// -----

func.func @f(%x: tensor<4x3xf32>, %y: tensor<3x2xf32>) {
  // expected-error@+1 {{result type is 'tensor<2x4xf32>', expected 'tensor<4x2xf32>'}}
  %0 = nn.dot_general %x, %y batch [] x [] contract [1] x [0] : tensor<4x3xf32>, tensor<3x2xf32> -> tensor<2x4xf32>
  return
}

// -----

func.func @f(%x: tensor<7x5xf32>, %i: tensor<3xf32>) {
  // expected-error@+1 {{indices must be integers}}
  %0 = nn.gather %x at %i axis 0 batch 0 : tensor<7x5xf32>, tensor<3xf32> -> tensor<3x5xf32>
  return
}

// -----

func.func @f(%x: tensor<7x5xf32>, %i: tensor<?x3xi64, #nn.batch<0, 1>>) {
  // expected-error@+1 {{operands and attributes do not fit}}
  %0 = nn.gather %x at %i axis 2 batch 0 : tensor<7x5xf32>, tensor<?x3xi64, #nn.batch<0, 1>> -> tensor<3x5xf32>
  return
}

// -----

func.func @f(%x: tensor<7x5xf32>, %i: tensor<?x3xi64, #nn.batch<0, 1>>) {
  // expected-error@+1 {{operands and attributes do not fit}}
  %0 = nn.gather %x at %i axis -1 batch 0 : tensor<7x5xf32>, tensor<?x3xi64, #nn.batch<0, 1>> -> tensor<3x5xf32>
  return
}

// -----

func.func @f(%x: tensor<7x5xf32>, %i: tensor<?x3xi64, #nn.batch<0, 1>>) {
  // expected-error@+1 {{operands and attributes do not fit}}
  %0 = nn.gather %x at %i axis 0 batch 1 : tensor<7x5xf32>, tensor<?x3xi64, #nn.batch<0, 1>> -> tensor<3x5xf32>
  return
}

// -----

func.func @f(%x: tensor<7x5xf32>, %i: tensor<?x3xi64, #nn.batch<0, 1>>) {
  // expected-error@+1 {{operands and attributes do not fit}}
  %0 = nn.gather %x at %i axis 1 batch 1 : tensor<7x5xf32>, tensor<?x3xi64, #nn.batch<0, 1>> -> tensor<3x5xf32>
  return
}

// -----

func.func @f(%x: tensor<7x5xf32>, %i: tensor<i64>) {
  // expected-error@+1 {{operands and attributes do not fit}}
  %0 = nn.gather %x at %i axis 1 batch 1 : tensor<7x5xf32>, tensor<i64> -> tensor<3x5xf32>
  return
}

// -----

func.func @f(%x: tensor<7x5xf32>, %i: tensor<?x3xi64, #nn.batch<0, 1>>) {
  // expected-error@+1 {{operands and attributes do not fit}}
  %0 = nn.gather %x at %i axis 0 batch -1 : tensor<7x5xf32>, tensor<?x3xi64, #nn.batch<0, 1>> -> tensor<3x5xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32, #nn.batch<0, 1>>, %i: tensor<3xi64>) {
  // expected-error@+1 {{operands and attributes do not fit}}
  %0 = nn.gather %x at %i axis 0 batch 0 : tensor<?x4xf32, #nn.batch<0, 1>>, tensor<3xi64> -> tensor<3x4xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32, #nn.batch<0, 1>>, %i: tensor<?x3xi64, #nn.batch<0, 1>>) {
  // expected-error@+1 {{operands and attributes do not fit}}
  %0 = nn.gather %x at %i axis 1 batch 0 : tensor<?x4xf32, #nn.batch<0, 1>>, tensor<?x3xi64, #nn.batch<0, 1>> -> tensor<3x4xf32>
  return
}

// -----

func.func @f(%x: tensor<7x5xf32>, %i: tensor<?x3xi64, #nn.batch<0, 1>>) {
  // expected-error@+1 {{result type is 'tensor<3x5xf32>', expected 'tensor<?x3x5xf32, #nn.batch<0, 1>>'}}
  %0 = nn.gather %x at %i axis 0 batch 0 : tensor<7x5xf32>, tensor<?x3xi64, #nn.batch<0, 1>> -> tensor<3x5xf32>
  return
}

// -----

func.func @f(%u: tensor<3x5xf32>, %i: tensor<3xf32>) {
  // expected-error@+1 {{indices must be integers}}
  %0 = nn.scatter_add %u at %i axis 0 batch 0 : tensor<3x5xf32>, tensor<3xf32> -> tensor<7x5xf32>
  return
}

// -----

func.func @f(%u: tensor<3x5xf32>, %i: tensor<?x3xi64, #nn.batch<0, 1>>) {
  // expected-error@+1 {{updates of type 'tensor<3x5xf32>' do not fit into 'tensor<7x5xf32>'}}
  %0 = nn.scatter_add %u at %i axis 0 batch 0 : tensor<3x5xf32>, tensor<?x3xi64, #nn.batch<0, 1>> -> tensor<7x5xf32>
  return
}

// -----

func.func @f(%u: tensor<3x5xf32>, %i: tensor<3xi64>) {
  // expected-error@+1 {{updates of type 'tensor<3x5xf32>' do not fit into 'tensor<7x5xf32>'}}
  %0 = nn.scatter_add %u at %i axis 2 batch 0 : tensor<3x5xf32>, tensor<3xi64> -> tensor<7x5xf32>
  return
}

// -----

func.func @f() {
  // expected-error@+1 {{element type must be an integer}}
  %0 = nn.iota 0 : tensor<4xf32>
  return
}

// -----

func.func @f() {
  // expected-error@+1 {{axis 1 must be a static axis of the result}}
  %0 = nn.iota 1 : tensor<4xi64>
  return
}

// -----

func.func @f() {
  // expected-error@+1 {{axis -1 must be a static axis of the result}}
  %0 = nn.iota -1 : tensor<4xi64>
  return
}

// -----

func.func @f() {
  // expected-error@+1 {{axis 0 must be a static axis of the result}}
  %0 = nn.iota 0 : tensor<i64>
  return
}

// -----

func.func @f() {
  // expected-error@+1 {{axis 0 must be a static axis of the result}}
  %0 = nn.iota 0 : tensor<?x4xi64, #nn.batch<0, 1>>
  return
}

// -----

func.func @f(%x: tensor<f32>) {
  // expected-error@+1 {{needs a last axis that does not carry the batch, not 'tensor<f32>'}}
  %0 = nn.softmax %x : tensor<f32>
  return
}

// -----

func.func @f(%x: tensor<4x?xf32, #nn.batch<1, 1>>) {
  // expected-error@+1 {{needs a last axis that does not carry the batch}}
  %0 = nn.softmax %x : tensor<4x?xf32, #nn.batch<1, 1>>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{failed to verify that all of {operand, result} have same type}}
  %0 = "nn.softmax"(%x) : (tensor<4xf32>) -> tensor<5xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{failed to verify that all of {operand, result} have same type}}
  %0 = "nn.gelu"(%x) : (tensor<4xf32>) -> tensor<5xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32, #nn.batch<0, 1>>, %s: tensor<4xf32>) {
  // expected-error@+1 {{axis is 2: it must lie in [0, 2), behind the batch axis}}
  %0:3 = nn.layer_norm %x, %s axis 2 epsilon 1.0e-5 : tensor<?x4xf32, #nn.batch<0, 1>>, tensor<4xf32> -> tensor<?x4xf32, #nn.batch<0, 1>>, tensor<?xf32, #nn.batch<0, 1>>, tensor<?xf32, #nn.batch<0, 1>>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32, #nn.batch<0, 1>>, %s: tensor<4xf32>) {
  // expected-error@+1 {{axis is -1: it must lie in [0, 2), behind the batch axis}}
  %0:3 = nn.layer_norm %x, %s axis -1 epsilon 1.0e-5 : tensor<?x4xf32, #nn.batch<0, 1>>, tensor<4xf32> -> tensor<?x4xf32, #nn.batch<0, 1>>, tensor<?xf32, #nn.batch<0, 1>>, tensor<?xf32, #nn.batch<0, 1>>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32, #nn.batch<0, 1>>, %s: tensor<4xf32>) {
  // expected-error@+1 {{axis is 0: it must lie in [0, 2), behind the batch axis}}
  %0:3 = nn.layer_norm %x, %s axis 0 epsilon 1.0e-5 : tensor<?x4xf32, #nn.batch<0, 1>>, tensor<4xf32> -> tensor<?x4xf32, #nn.batch<0, 1>>, tensor<?xf32, #nn.batch<0, 1>>, tensor<?xf32, #nn.batch<0, 1>>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32, #nn.batch<0, 1>>, %s: tensor<5xf32>) {
  // expected-error@+1 {{scale and shift must have type 'tensor<4xf32>'}}
  %0:3 = nn.layer_norm %x, %s axis 1 epsilon 1.0e-5 : tensor<?x4xf32, #nn.batch<0, 1>>, tensor<5xf32> -> tensor<?x4xf32, #nn.batch<0, 1>>, tensor<?xf32, #nn.batch<0, 1>>, tensor<?xf32, #nn.batch<0, 1>>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32, #nn.batch<0, 1>>, %s: tensor<4xf32>, %b: tensor<1xf32>) {
  // expected-error@+1 {{scale and shift must have type 'tensor<4xf32>'}}
  %0:3 = nn.layer_norm %x, %s, %b axis 1 epsilon 1.0e-5 : tensor<?x4xf32, #nn.batch<0, 1>>, tensor<4xf32>, tensor<1xf32> -> tensor<?x4xf32, #nn.batch<0, 1>>, tensor<?xf32, #nn.batch<0, 1>>, tensor<?xf32, #nn.batch<0, 1>>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32, #nn.batch<0, 1>>, %s: tensor<4xf32>) {
  // expected-error@+1 {{results must have types 'tensor<?x4xf32, #nn.batch<0, 1>>', 'tensor<?xf32, #nn.batch<0, 1>>' and 'tensor<?xf32, #nn.batch<0, 1>>'}}
  %0:3 = nn.layer_norm %x, %s axis 1 epsilon 1.0e-5 : tensor<?x4xf32, #nn.batch<0, 1>>, tensor<4xf32> -> tensor<?x4xf32, #nn.batch<0, 1>>, tensor<4xf32>, tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<f32>, %l: tensor<i64>) {
  // expected-error@+1 {{needs a last axis that does not carry the batch, not 'tensor<f32>'}}
  %0:2 = nn.cross_entropy %x, %l : tensor<f32>, tensor<i64> -> tensor<f32>, tensor<f32>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32, #nn.batch<0, 1>>, %l: tensor<?xf32, #nn.batch<0, 1>>) {
  // expected-error@+1 {{labels of type 'tensor<?xf32, #nn.batch<0, 1>>' do not fit the rows of 'tensor<?x4xf32, #nn.batch<0, 1>>'}}
  %0:2 = nn.cross_entropy %x, %l : tensor<?x4xf32, #nn.batch<0, 1>>, tensor<?xf32, #nn.batch<0, 1>> -> tensor<?xf32, #nn.batch<0, 1>>, tensor<?xf32, #nn.batch<0, 1>>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32, #nn.batch<0, 1>>, %l: tensor<3xi64>) {
  // expected-error@+1 {{labels of type 'tensor<3xi64>' do not fit the rows of 'tensor<?x4xf32, #nn.batch<0, 1>>'}}
  %0:2 = nn.cross_entropy %x, %l : tensor<?x4xf32, #nn.batch<0, 1>>, tensor<3xi64> -> tensor<?xf32, #nn.batch<0, 1>>, tensor<?xf32, #nn.batch<0, 1>>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32, #nn.batch<0, 1>>, %l: tensor<?xi64, #nn.batch<0, 1>>) {
  // expected-error@+1 {{results must have type 'tensor<?xf32, #nn.batch<0, 1>>'}}
  %0:2 = nn.cross_entropy %x, %l : tensor<?x4xf32, #nn.batch<0, 1>>, tensor<?xi64, #nn.batch<0, 1>> -> tensor<f32>, tensor<f32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{block arguments must have the operands' types}}
  %0 = "nn.group"(%x) ({
  ^bb0(%a: tensor<5xf32>):
    "nn.yield"(%a) : (tensor<5xf32>) -> ()
  }) : (tensor<4xf32>) -> tensor<5xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{expects a non-empty block}}
  nn.group () : () -> () {
  ^bb0:
  }
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{body must end in nn.yield}}
  nn.group () : () -> () {
    %c = arith.constant dense<0> : tensor<i64>
  }
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{yielded values must have the results' types}}
  %0 = nn.group (%a = %x) : (tensor<4xf32>) -> tensor<5xf32> {
    nn.yield %a : tensor<4xf32>
  }
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{yielded values must have the results' types}}
  %0 = nn.group (%a = %x) : (tensor<4xf32>) -> tensor<4xf32> {
    nn.yield
  }
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{number of operands and types do not match: got 1 operands and 0 types}}
  %0 = nn.group (%a = %x) : () -> tensor<4xf32> {
    nn.yield %a : tensor<4xf32>
  }
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{'nn.yield' op expects parent op 'nn.group'}}
  nn.yield
  return
}

// -----

func.func @f(%x: tensor<?x4xf32, #nn.batch<0, 1>>, %s: tensor<3xf32>) {
  // expected-error@+1 {{scale, shift and statistics must have type 'tensor<4xf32>'}}
  %0:4 = nn.batch_norm %x, %s, %s epsilon 1.0e-5 : tensor<?x4xf32, #nn.batch<0, 1>>, tensor<3xf32>, tensor<3xf32> -> tensor<?x4xf32, #nn.batch<0, 1>>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4x?xf32, #nn.batch<1, 1>>, %s: tensor<4xf32>) {
  // expected-error@+1 {{needs a last axis that does not carry the batch, not 'tensor<4x?xf32, #nn.batch<1, 1>>'}}
  %0:4 = nn.batch_norm %x, %s, %s epsilon 1.0e-5 : tensor<4x?xf32, #nn.batch<1, 1>>, tensor<4xf32>, tensor<4xf32> -> tensor<4x?xf32, #nn.batch<1, 1>>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32, #nn.batch<0, 1>>, %s: tensor<4xf32>) {
  // expected-error@+1 {{result must have the operand's type}}
  %0:4 = nn.batch_norm %x, %s, %s epsilon 1.0e-5 : tensor<?x4xf32, #nn.batch<0, 1>>, tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  return
}

// -----

func.func @f() {
  // expected-error@+1 {{needs a factor of 1 or more and a floating result, not 0 and 'tensor<f32>'}}
  %0 = nn.count 0 : tensor<f32>
  return
}

// -----

func.func @f() {
  // expected-error@+1 {{needs a factor of 1 or more and a floating result, not 2 and 'tensor<i64>'}}
  %0 = nn.count 2 : tensor<i64>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{no nn.variable is named @v}}
  nn.assign @v, %x : tensor<4xf32>
  return
}

// -----

// expected-note@+1 {{the variable is declared here}}
nn.variable <parameter> @v : tensor<4xf32>
func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{needs a variable of role buffer and type 'tensor<4xf32>'}}
  nn.assign @v, %x : tensor<4xf32>
  return
}

// -----

// expected-note@+1 {{the variable is declared here}}
nn.variable <buffer> @v : tensor<3xf32>
func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{needs a variable of role buffer and type 'tensor<4xf32>'}}
  nn.assign @v, %x : tensor<4xf32>
  return
}
