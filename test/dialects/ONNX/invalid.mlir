// RUN: harmony-opt %s -split-input-file -verify-diagnostics

onnx.graph @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{operator "Rleu" is not known}}
  %0 = onnx.node "Rleu"(%x) version 14 {} : (tensor<4xf32>) -> tensor<4xf32>
  onnx.return %0 : tensor<4xf32>
}

// -----

onnx.graph @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{operator "Relu" has no version 12; its versions are 1, 6, 13, 14}}
  %0 = onnx.node "Relu"(%x) version 12 {} : (tensor<4xf32>) -> tensor<4xf32>
  onnx.return %0 : tensor<4xf32>
}

// -----

onnx.graph @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{operator "Normalizer" is not known}}
  %0 = onnx.node "Normalizer"(%x) version 1 {} : (tensor<4xf32>) -> tensor<4xf32>
  onnx.return %0 : tensor<4xf32>
}

// -----

onnx.graph @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{operator "Relu" (version 14): has no attribute "alpha"; accepted are none}}
  %0 = onnx.node "Relu"(%x) version 14 {alpha = 1.0 : f32} : (tensor<4xf32>) -> tensor<4xf32>
  onnx.return %0 : tensor<4xf32>
}

// -----

onnx.graph @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error@+1 {{operator "Gemm" (version 13): has 1 input, accepted are 2 to 3; attribute "transA" is FLOAT, accepted is INT}}
  %0 = onnx.node "Gemm"(%x) version 13 {transA = 1.0 : f32} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  onnx.return %0 : tensor<4x4xf32>
}

// -----

onnx.graph @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %none = onnx.none
  // expected-error@+1 {{operator "Gemm" (version 13): input 0 ("A") is required, but absent}}
  %0 = onnx.node "Gemm"(%none, %x) version 13 {} : (none, tensor<4x4xf32>) -> tensor<4x4xf32>
  onnx.return %0 : tensor<4x4xf32>
}

// -----

onnx.graph @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{operator "Cast" (version 19): attribute "to" is required, but absent}}
  %0 = onnx.node "Cast"(%x) version 19 {} : (tensor<4xf32>) -> tensor<4xf32>
  onnx.return %0 : tensor<4xf32>
}

// -----

onnx.graph @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{operator "Relu" (version 14): has 2 outputs, accepted are 1}}
  %0:2 = onnx.node "Relu"(%x) version 14 {} : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  onnx.return %0#0 : tensor<4xf32>
}

// -----

onnx.graph @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{has 2 result names for 1 results}}
  %0 = onnx.node "Relu"(%x) version 14 {} names ["a", "b"] : (tensor<4xf32>) -> tensor<4xf32>
  onnx.return %0 : tensor<4xf32>
}

// -----

// expected-error@+1 {{has type 'tensor<?xf32>'; a static shape is needed}}
onnx.initializer @w : tensor<?xf32> = dense<1.0> : tensor<4xf32>

// -----

// expected-error@+1 {{has elements of type 'i4'; a type of whole bytes is needed}}
onnx.initializer @w : tensor<4xi4> = dense<1> : tensor<4xi4>

// -----

// expected-error@+1 {{refers to 12 bytes, 'tensor<4xf32>' has 16}}
onnx.initializer @w : tensor<4xf32> = #onnx.external<"file", 0, 12>

// -----

// expected-error@+1 {{has value "text"; accepted are #onnx.external, a dense attribute and a dense resource}}
onnx.initializer @w : tensor<4xf32> = "text"

// -----

// expected-error@+1 {{has type 'tensor<4xf32>', its value has 'tensor<2xf32>'}}
onnx.initializer @w : tensor<4xf32> = dense<1.0> : tensor<2xf32>

// -----

onnx.graph @main() -> tensor<4xf32> {
  // expected-error@+1 {{there is no onnx.initializer @w}}
  %0 = onnx.initial_value @w : tensor<4xf32>
  onnx.return %0 : tensor<4xf32>
}

// -----

// expected-note@+1 {{the initializer is here}}
onnx.initializer @w : tensor<2xf32> = dense<1.0> : tensor<2xf32>
onnx.graph @main() -> tensor<4xf32> {
  // expected-error@+1 {{has type 'tensor<4xf32>', the initializer has 'tensor<2xf32>'}}
  %0 = onnx.initial_value @w : tensor<4xf32>
  onnx.return %0 : tensor<4xf32>
}

// -----

// expected-error@+1 {{argument 0 has 1 onnx.dims, 'tensor<4x4xf32>' has rank 2}}
onnx.graph @main(%x: tensor<4x4xf32> {onnx.dims = ["n"]}) {
  onnx.return
}

// -----

// expected-error@+1 {{result 0 has onnx.dims 4.000000e+00 : f32; accepted is an array of integers and strings}}
onnx.graph @main(%x: tensor<4xf32>) -> (tensor<4xf32> {onnx.dims = 4.0 : f32}) {
  onnx.return %x : tensor<4xf32>
}

// -----

onnx.graph @main(%x: tensor<4xf32>) -> tensor<2xf32> {
  // expected-error@+1 {{has operands of types 'tensor<4xf32>', the graph returns 'tensor<2xf32>'}}
  onnx.return %x : tensor<4xf32>
}

// -----

onnx.graph @main(%x: tensor<4xf32>, %z: tensor<4xf32>) {
  // expected-error@+1 {{has 1 inputs for 2 variables (xs and zs); one for each is needed}}
  %0 = onnx.gradient %x : tensor<4xf32> xs(%x : tensor<4xf32>) zs(%z : tensor<4xf32>) at(%x : tensor<4xf32>) -> tensor<4xf32>
  onnx.return
}

// -----

onnx.graph @main(%x: tensor<4xf32> {onnx.name = "x"}) {
  // expected-error@+1 {{names "x" twice among xs and zs; each value may be there once}}
  %0 = onnx.gradient %x : tensor<4xf32> xs(%x : tensor<4xf32>) zs(%x : tensor<4xf32>) at(%x, %x : tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  onnx.return
}

// -----

onnx.graph @main(%x: tensor<4xf32>, %y: tensor<2xf32>) {
  // expected-error@+1 {{input 0 has type 'tensor<2xf32>', the variable it replaces has 'tensor<4xf32>'}}
  %0 = onnx.gradient %x : tensor<4xf32> xs(%x : tensor<4xf32>) at(%y : tensor<2xf32>) -> tensor<4xf32>
  onnx.return
}

// -----

onnx.graph @main(%x: tensor<4xf32>) {
  // expected-error@+1 {{a result has type 'tensor<2xf32>', its x has 'tensor<4xf32>'}}
  %0 = onnx.gradient %x : tensor<4xf32> xs(%x : tensor<4xf32>) at(%x : tensor<4xf32>) -> tensor<2xf32>
  onnx.return
}

// -----

onnx.graph @main(%x: tensor<4xf32>) {
  // expected-error@+1 {{has 2 results for 1 xs}}
  %0:2 = onnx.gradient %x : tensor<4xf32> xs(%x : tensor<4xf32>) at(%x : tensor<4xf32>) -> tensor<4xf32>, tensor<4xf32>
  onnx.return
}

// -----

// expected-error@+1 {{there is no onnx.graph @algorithm}}
onnx.training @step algorithm @algorithm update []

// -----

onnx.graph @algorithm() {
  onnx.return
}
// expected-error@+1 {{`update` has the entry "W"; accepted is [@initializer, "result"]}}
onnx.training @step algorithm @algorithm update ["W"]

// -----

onnx.graph @algorithm() {
  onnx.return
}
// expected-error@+1 {{`update` names @W, which is no onnx.initializer}}
onnx.training @step algorithm @algorithm update [[@W, "W1"]]

// -----

onnx.initializer @W : tensor<2xf32> = dense<1.0> : tensor<2xf32>
onnx.graph @algorithm() {
  onnx.return
}
// expected-error@+1 {{`update` takes @W from "W1", which is no result of @algorithm}}
onnx.training @step algorithm @algorithm update [[@W, "W1"]]

// -----

onnx.initializer @W : tensor<2xf32> = dense<1.0> : tensor<2xf32>
onnx.graph @algorithm(%x: tensor<4xf32>) -> (tensor<4xf32> {onnx.name = "W1"}) {
  onnx.return %x : tensor<4xf32>
}
// expected-error@+1 {{`update` takes @W of type 'tensor<2xf32>' from "W1" of type 'tensor<4xf32>'}}
onnx.training @step algorithm @algorithm update [[@W, "W1"]]

// -----

onnx.initializer @W : tensor<2xf32> = dense<1.0> : tensor<2xf32>
onnx.graph @algorithm(%x: tensor<2xf32>) -> (tensor<2xf32> {onnx.name = "W1"}) {
  onnx.return %x : tensor<2xf32>
}
// expected-error@+1 {{`update` names @W twice}}
onnx.training @step algorithm @algorithm update [[@W, "W1"], [@W, "W1"]]

// -----

onnx.initializer @W : tensor<2xf32> = dense<1.0> : tensor<2xf32>
onnx.graph @algorithm(%x: tensor<2xf32>) -> (tensor<2xf32> {onnx.name = "W1"}) {
  onnx.return %x : tensor<2xf32>
}
// expected-note@+1 {{the other step is here}}
onnx.training @a algorithm @algorithm update [[@W, "W1"]]
// expected-error@+1 {{`update` names @W, which @a updates}}
onnx.training @b algorithm @algorithm update [[@W, "W1"]]

// -----

onnx.initializer @T : tensor<2xf32> = dense<1.0> : tensor<2xf32> {training = @other}
onnx.graph @algorithm(%x: tensor<2xf32>) -> (tensor<2xf32> {onnx.name = "T1"}) {
  onnx.return %x : tensor<2xf32>
}
// expected-error@+1 {{`update` names @T, which belongs to @other}}
onnx.training @step algorithm @algorithm update [[@T, "T1"]]
