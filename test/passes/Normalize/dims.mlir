// Symbolic dimensions other than the batch are bound by an option.
// RUN: harmony-opt %s --harmony-normalize="forward=true dims=seq=7" | FileCheck %s
// RUN: not harmony-opt %s --harmony-normalize="forward=true" 2>&1 | FileCheck %s --check-prefix=UNBOUND
// RUN: not harmony-opt %s --harmony-normalize="forward=true dims=seq=7,length=3" 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not harmony-opt %s --harmony-normalize="forward=true dims=seq=0" 2>&1 | FileCheck %s --check-prefix=ZERO
// RUN: not harmony-opt %s --harmony-normalize="forward=true dims=seq=7,batch=8" 2>&1 | FileCheck %s --check-prefix=BATCH
// RUN: not harmony-opt %s --harmony-normalize="forward=true dims=seq=7 batch-symbol=seq" 2>&1 | FileCheck %s --check-prefix=NOTFIRST

// CHECK: func.func @main(%arg0: tensor<?x7xf32, #nn.batch<0, 1>> {nn.name = "x"})
// UNBOUND: error: symbolic dimensions without a value: seq; give each one by --dim NAME=EXTENT
// UNKNOWN: error: no input has the dimension 'length'
// ZERO: error: dimension 'seq=0' must have the form name=extent, the extent being positive
// BATCH: error: dimension 'batch' is the batch: its size is set by --batch
// NOTFIRST: error: the batch symbol 'seq' is not on axis 0 of any input
onnx.graph @main(%x: tensor<?x?xf32> {onnx.name = "x", onnx.dims = ["batch", "seq"]}) -> (tensor<?x?xf32> {onnx.name = "y"}) {
  %y = onnx.node "Tanh"(%x) version 13 {} : (tensor<?x?xf32>) -> tensor<?x?xf32>
  onnx.return %y : tensor<?x?xf32>
}
