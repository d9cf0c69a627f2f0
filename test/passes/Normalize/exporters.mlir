// What exporters do to weights is told in one warning for each kind of damage.
// RUN: harmony-opt %s --harmony-normalize 2>&1 | FileCheck %s

// onnxscript's optimizer says what it has folded. What it made of its own values alone (val_N) or of buffers is no
// parameter.
// CHECK: warning: of the 3 tensors that are trained, the exporter has made 2 from others: 'val_9' (of 'attn.weight'), 'pos_1' (of 'wpe.weight', 'h.bias'); weights that it folded do not train as in PyTorch, and tied ones come apart; export with torch.onnx.export(model, args, "model.onnx", dynamo=True, optimize=False)
// CHECK: warning: tensors with equal elements train apart: 'val_9' is 'marked' transposed; if the model ties them, export with
// CHECK: nn.variable <parameter> @marked
// CHECK-NEXT: nn.variable <parameter> @val_9
// CHECK-NEXT: nn.variable <parameter> @pos_1
// CHECK-NEXT: nn.variable <buffer> @table {{.*}}the exporter has folded constants into it
// CHECK-NOT: nn.variable
onnx.initializer @marked : tensor<2x3xf32> = dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32> {kind = "PARAMETER"}
onnx.initializer @val_9 : tensor<3x2xf32> = dense<[[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]]> : tensor<3x2xf32> {metadata = {pkg.onnxscript.optimizer.folded_from = "['attn.weight']"}}
onnx.initializer @pos_1 : tensor<2xf32> = dense<[7.0, 8.0]> : tensor<2xf32> {metadata = {pkg.onnxscript.optimizer.folded_from = "['arange', 'val_2', 'wpe.weight', 'h.bias']"}}
onnx.initializer @val_3 : tensor<1xf32> = dense<0.5> : tensor<1xf32> {metadata = {pkg.onnxscript.optimizer.folded_from = "['val_1', 'val_2']"}}
onnx.initializer @table : tensor<20x2xf32> = dense<3.0> : tensor<20x2xf32> {metadata = {pkg.onnxscript.optimizer.folded_from = "['arange', 'rotary.inv_freq']"}}
onnx.graph @main(%x: tensor<?x2xf32> {onnx.name = "x", onnx.dims = ["batch", 2]}) -> (tensor<f32> {onnx.name = "loss"}) {
  %marked = onnx.initial_value @marked : tensor<2x3xf32>
  %val_9 = onnx.initial_value @val_9 : tensor<3x2xf32>
  %pos_1 = onnx.initial_value @pos_1 : tensor<2xf32>
  %val_3 = onnx.initial_value @val_3 : tensor<1xf32>
  %table = onnx.initial_value @table : tensor<20x2xf32>
  %0 = onnx.node "MatMul"(%x, %marked) version 13 {} : (tensor<?x2xf32>, tensor<2x3xf32>) -> tensor<?x3xf32>
  %1 = onnx.node "MatMul"(%0, %val_9) version 13 {} : (tensor<?x3xf32>, tensor<3x2xf32>) -> tensor<?x2xf32>
  %2 = onnx.node "Add"(%1, %pos_1) version 14 {} : (tensor<?x2xf32>, tensor<2xf32>) -> tensor<?x2xf32>
  %3 = onnx.node "Mul"(%2, %val_3) version 14 {} : (tensor<?x2xf32>, tensor<1xf32>) -> tensor<?x2xf32>
  %m = onnx.node "ReduceMean"(%table) version 18 {keepdims = 0 : si64} : (tensor<20x2xf32>) -> tensor<f32>
  %4 = onnx.node "Mul"(%3, %m) version 14 {} : (tensor<?x2xf32>, tensor<f32>) -> tensor<?x2xf32>
  %l = onnx.node "ReduceMean"(%4) version 18 {keepdims = 0 : si64} : (tensor<?x2xf32>) -> tensor<f32>
  onnx.return %l : tensor<f32>
}
