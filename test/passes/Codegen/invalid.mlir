// RUN: harmony-opt --harmony-emit-host-kernels --split-input-file --verify-diagnostics %s

func.func @dynamic(%x: tensor<?x4xf32, #nn.batch<0, 1>>) -> tensor<?x4xf32, #nn.batch<0, 1>> {
  // expected-error @below {{as a kernel: a view of rank 0 does not fit operand type 'tensor<?x4xf32, #nn.batch<0, 1>>'}}
  %0 = arith.addf %x, %x : tensor<?x4xf32, #nn.batch<0, 1>>
  return %0 : tensor<?x4xf32, #nn.batch<0, 1>>
}

// -----

func.func @product(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error @below {{cannot be part of a generated kernel}}
  %0 = nn.dot_general %x, %x batch [] x [] contract [1] x [0] : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

// -----

func.func @regroup(%x: tensor<6x4xf32>, %y: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %0 = nn.group (%a = %x, %b = %y) : (tensor<6x4xf32>, tensor<4x6xf32>) -> tensor<4x6xf32> {
    // expected-error @below {{regroups axes whose factors do not nest}}
    %1 = nn.reshape %a : tensor<6x4xf32> -> tensor<4x6xf32>
    %2 = arith.addf %1, %b : tensor<4x6xf32>
    nn.yield %2 : tensor<4x6xf32>
  }
  return %0 : tensor<4x6xf32>
}

// -----

// expected-error @below {{must hold one kernel and a return}}
func.func @two(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = math.exp %x : tensor<4xf32>
  %1 = math.exp %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}
