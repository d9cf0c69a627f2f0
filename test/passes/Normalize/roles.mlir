// What each initializer is to training, and why.
// RUN: harmony-opt %s --harmony-normalize 2>&1 | FileCheck %s
// RUN: harmony-opt %s --harmony-normalize="freeze=^plain$,marked trainable=buffer" 2>/dev/null | FileCheck %s --check-prefix=FLAGS
// RUN: not harmony-opt %s --harmony-normalize="freeze=(" 2>&1 | FileCheck %s --check-prefix=INVALID

// CHECK: warning: of the 4 tensors that are trained, the exporter has made 1 from others: 'plain'; weights that it folded do not train as in PyTorch, and tied ones come apart; export with torch.onnx.export(model, args, "model.onnx", dynamo=True, optimize=False)
// CHECK: warning: parameters that do not reach the loss are dropped: 'unused'
// CHECK: warning: tensors with equal elements train apart: 'twin' is 'marked'; if the model ties them, export with torch.onnx.export(
// CHECK: nn.variable {{.*}}<parameter> @marked {{.*}} {nn.reason = "the exporter marks it as a parameter"}
// CHECK: nn.variable {{.*}}<parameter> @twin
// CHECK: nn.variable {{.*}}<buffer> @buffer {{.*}} {nn.reason = "the exporter marks it as a buffer"}
// CHECK: nn.variable {{.*}}<parameter> @plain {{.*}} {nn.reason = "it is floating, of rank 1 or more; the exporter has made it from others"}
// CHECK-NOT: nn.variable
// FLAGS: nn.variable {{.*}}<frozen> @marked {{.*}} {nn.reason = "--freeze marked"}
// FLAGS: nn.variable {{.*}}<parameter> @buffer {{.*}} {nn.reason = "--trainable buffer"}
// FLAGS: nn.variable {{.*}}<frozen> @plain {{.*}} {nn.reason = "--freeze ^plain$"}
// INVALID: error: '(' is not a regular expression
onnx.initializer @marked : tensor<3xf32> = dense<[1.0, 2.0, 3.0]> : tensor<3xf32> {kind = "PARAMETER"}
onnx.initializer @twin : tensor<3xf32> = dense<[1.0, 2.0, 3.0]> : tensor<3xf32> {kind = "PARAMETER"}
onnx.initializer @buffer : tensor<3xf32> = dense<[4.0, 5.0, 6.0]> : tensor<3xf32> {kind = "BUFFER"}
onnx.initializer @plain : tensor<3xf32> = dense<[7.0, 8.0, 9.0]> : tensor<3xf32>
onnx.initializer @mask : tensor<3xf32> = dense<[0.0, 1.0, 1.0]> : tensor<3xf32>
onnx.initializer @scalar : tensor<f32> = dense<2.0> : tensor<f32>
onnx.initializer @unused : tensor<3xf32> = dense<[7.0, 7.0, 9.0]> : tensor<3xf32> {kind = "PARAMETER"}
onnx.graph @main(%x: tensor<?x3xf32> {onnx.name = "x", onnx.dims = ["batch", 3]}) -> (tensor<f32> {onnx.name = "loss"}) {
  %marked = onnx.initial_value @marked : tensor<3xf32>
  %twin = onnx.initial_value @twin : tensor<3xf32>
  %buffer = onnx.initial_value @buffer : tensor<3xf32>
  %plain = onnx.initial_value @plain : tensor<3xf32>
  %mask = onnx.initial_value @mask : tensor<3xf32>
  %scalar = onnx.initial_value @scalar : tensor<f32>
  %0 = onnx.node "Mul"(%x, %marked) version 14 {} : (tensor<?x3xf32>, tensor<3xf32>) -> tensor<?x3xf32>
  %1 = onnx.node "Mul"(%0, %twin) version 14 {} : (tensor<?x3xf32>, tensor<3xf32>) -> tensor<?x3xf32>
  %2 = onnx.node "Mul"(%1, %buffer) version 14 {} : (tensor<?x3xf32>, tensor<3xf32>) -> tensor<?x3xf32>
  %3 = onnx.node "Mul"(%2, %plain) version 14 {} : (tensor<?x3xf32>, tensor<3xf32>) -> tensor<?x3xf32>
  %4 = onnx.node "Mul"(%3, %mask) version 14 {} : (tensor<?x3xf32>, tensor<3xf32>) -> tensor<?x3xf32>
  %5 = onnx.node "Mul"(%4, %scalar) version 14 {} : (tensor<?x3xf32>, tensor<f32>) -> tensor<?x3xf32>
  %l = onnx.node "ReduceMean"(%5) version 18 {keepdims = 0 : si64} : (tensor<?x3xf32>) -> tensor<f32>
  onnx.return %l : tensor<f32>
}
