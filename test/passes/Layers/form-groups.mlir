// What is one kernel: pointwise work, rows, columns, what is repeated, and what stays outside.
// RUN: harmony-opt %s --harmony-form-groups | FileCheck %s

!x = tensor<?x8xf32, #nn.batch<0, 1>>
!r = tensor<?xf32, #nn.batch<0, 1>>

// A bias, softmax, a row sum, work on its result, what reads that over the domain, a column sum at the end: one group. The
// broadcasts are part of it.
// CHECK-LABEL: func.func @row
// CHECK:         nn.group
// CHECK:         arith.addf
// CHECK:         nn.softmax
// CHECK:         nn.reduce sum %{{.*}} over [1]
// CHECK:         arith.mulf %{{.*}} : tensor<?xf32, #nn.batch<0, 1>>
// CHECK:         nn.broadcast
// CHECK:         arith.addf
// CHECK:         nn.reduce sum %{{.*}} over [0]
// CHECK-NEXT:    nn.yield %{{.*}}, %{{.*}}, %{{.*}} : tensor<?xf32, #nn.batch<0, 1>>, tensor<?x8xf32, #nn.batch<0, 1>>, tensor<8xf32>
// CHECK-NOT:     nn.group
// CHECK:         return
func.func @row(%x: !x, %y: !x, %b: tensor<8xf32>) -> (!x, tensor<8xf32>, !r) attributes {nn.layer} {
  %0 = nn.broadcast %b to [1] : tensor<8xf32> -> !x
  %1 = arith.addf %x, %0 : !x
  %2 = nn.softmax %1 : !x
  %3 = arith.mulf %2, %y : !x
  %4 = nn.reduce sum %3 over [1] : !x -> !r
  %5 = arith.mulf %4, %4 : !r
  %6 = nn.broadcast %5 to [0] : !r -> !x
  %7 = arith.addf %3, %6 : !x
  %8 = nn.reduce sum %7 over [0] : !x -> tensor<8xf32>
  return %7, %8, %5 : !x, tensor<8xf32>, !r
}

// A column sum is complete when the whole domain is through: what reads it is another group.
// CHECK-LABEL: func.func @column
// CHECK:         %[[FIRST:.*]]:2 = nn.group
// CHECK:         arith.mulf
// CHECK-NEXT:    nn.reduce sum
// CHECK-NEXT:    nn.yield
// CHECK:         nn.group (%{{.*}} = %[[FIRST]]#1, %{{.*}} = %[[FIRST]]#0)
// CHECK-NEXT:    nn.broadcast
// CHECK-NEXT:    arith.addf
// CHECK-NEXT:    nn.yield
func.func @column(%x: !x, %y: !x) -> (!x) attributes {nn.layer} {
  %0 = arith.mulf %x, %y : !x
  %1 = nn.reduce sum %0 over [0] : !x -> tensor<8xf32>
  %2 = nn.broadcast %1 to [1] : tensor<8xf32> -> !x
  %3 = arith.addf %0, %2 : !x
  return %3 : !x
}

// Products, reshapes and transposes stay outside.
// CHECK-LABEL: func.func @opaque
// CHECK:         %[[A:.*]] = nn.group
// CHECK-NEXT:    arith.mulf
// CHECK-NEXT:    nn.yield
// CHECK-NEXT:    }
// CHECK-NEXT:    %[[P:.*]] = nn.dot_general %[[A]]
// CHECK-NEXT:    %[[B:.*]] = nn.group (%{{.*}} = %[[P]])
// CHECK-NEXT:    nn.gelu
// CHECK-NEXT:    nn.yield
// CHECK-NEXT:    }
// CHECK-NEXT:    %[[R:.*]] = nn.reshape %[[B]]
// CHECK-NEXT:    %[[T:.*]] = nn.transpose %[[R]]
// CHECK-NEXT:    %[[C:.*]] = nn.group (%{{.*}} = %[[T]])
// CHECK-NEXT:    arith.negf
// CHECK-NEXT:    nn.yield
// CHECK-NEXT:    }
// CHECK-NEXT:    %[[Y:.*]] = nn.reshape %[[C]]
// CHECK-NEXT:    return %[[Y]]
func.func @opaque(%x: !x, %w: tensor<8x8xf32>) -> (!x) attributes {nn.layer} {
  %0 = arith.mulf %x, %x : !x
  %1 = nn.dot_general %0, %w batch [] x [] contract [1] x [0] : !x, tensor<8x8xf32> -> !x
  %2 = nn.gelu %1 : !x
  %3 = nn.reshape %2 : !x -> tensor<?x2x4xf32, #nn.batch<0, 1>>
  %4 = nn.transpose %3 by [0, 2, 1] : tensor<?x2x4xf32, #nn.batch<0, 1>> -> tensor<?x4x2xf32, #nn.batch<0, 1>>
  %5 = arith.negf %4 : tensor<?x4x2xf32, #nn.batch<0, 1>>
  %6 = nn.reshape %5 : tensor<?x4x2xf32, #nn.batch<0, 1>> -> !x
  return %6 : !x
}

// A mask of labels is cheap: both groups make it for themselves and read the labels, and nothing is stored.
// CHECK-LABEL: func.func @mask
// CHECK:         nn.group (%{{.*}} = %[[LABELS:.*]], %{{.*}} = %{{.*}}) : (tensor<?xi64, #nn.batch<0, 1>>, tensor<?x8xf32, #nn.batch<0, 1>>) -> tensor<?x8xf32, #nn.batch<0, 1>>
// CHECK:         arith.cmpi ne
// CHECK:         arith.uitofp
// CHECK:         nn.dot_general
// CHECK:         nn.group (%{{.*}} = %[[LABELS]], %{{.*}} = %{{.*}}) : (tensor<?xi64, #nn.batch<0, 1>>, tensor<?x8xf32, #nn.batch<0, 1>>) -> (tensor<?x8xf32, #nn.batch<0, 1>>, tensor<?xf32, #nn.batch<0, 1>>)
// CHECK:         arith.cmpi ne
// CHECK:         arith.uitofp
func.func @mask(%x: !x, %labels: tensor<?xi64, #nn.batch<0, 1>>, %w: tensor<8x8xf32>) -> (!x, !r) attributes {nn.layer} {
  %c = arith.constant dense<-100> : tensor<i64>
  %cs = nn.broadcast %c to [] : tensor<i64> -> tensor<?xi64, #nn.batch<0, 1>>
  %valid = arith.cmpi ne, %labels, %cs : tensor<?xi64, #nn.batch<0, 1>>
  %f = arith.uitofp %valid : tensor<?xi1, #nn.batch<0, 1>> to !r
  %rows = nn.broadcast %f to [0] : !r -> !x
  %0 = arith.mulf %x, %rows : !x
  %1 = nn.dot_general %0, %w batch [] x [] contract [1] x [0] : !x, tensor<8x8xf32> -> !x
  %2 = arith.mulf %1, %rows : !x
  %3 = nn.reduce sum %2 over [1] : !x -> !r
  %4 = arith.mulf %3, %f : !r
  return %2, %4 : !x, !r
}

// A product reads memory: what would be repeated becomes a group of its own, once, for the product and the result.
// CHECK-LABEL: func.func @own
// CHECK:         %[[F:.*]] = nn.group () : () ->
// CHECK-NEXT:    nn.iota
// CHECK-NEXT:    arith.sitofp
// CHECK-NEXT:    nn.yield
// CHECK-NEXT:    }
// CHECK-NEXT:    %[[P:.*]] = nn.dot_general %[[F]]
// CHECK-NEXT:    return %[[P]], %[[F]]
func.func @own(%labels: tensor<?xi64, #nn.batch<0, 1>>, %table: tensor<8x8xf32>) -> (!x, !x) attributes {nn.layer} {
  %i = nn.iota 1 : tensor<?x8xi64, #nn.batch<0, 1>>
  %f = arith.sitofp %i : tensor<?x8xi64, #nn.batch<0, 1>> to !x
  %0 = nn.dot_general %f, %table batch [] x [] contract [1] x [0] : !x, tensor<8x8xf32> -> !x
  return %0, %f : !x, !x
}

// A sum over everything, and the scalar work behind it.
// CHECK-LABEL: func.func @all
// CHECK:         %[[S:.*]] = nn.group
// CHECK-NEXT:    arith.mulf
// CHECK-NEXT:    nn.reduce sum %{{.*}} over [0, 1]
// CHECK-NEXT:    nn.yield
// CHECK:         nn.group (%{{.*}} = %[[S]],
// CHECK-NEXT:    arith.mulf %{{.*}} : tensor<f32>
func.func @all(%x: !x, %c: tensor<f32>) -> (tensor<f32>, tensor<f32>) attributes {nn.layer} {
  %0 = arith.mulf %x, %x : !x
  %1 = nn.reduce sum %0 over [0, 1] : !x -> tensor<f32>
  %2 = arith.mulf %1, %c : tensor<f32>
  return %1, %2 : tensor<f32>, tensor<f32>
}

// Work over one domain is one pass, related or not.
// CHECK-LABEL: func.func @independent
// CHECK:         nn.group
// CHECK:         arith.addf
// CHECK:         arith.mulf
// CHECK:         arith.addf
// CHECK-NOT:     nn.group
// CHECK:         return
func.func @independent(%m: tensor<4xf32>, %v: tensor<4xf32>, %g: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) attributes {nn.layer} {
  %0 = arith.addf %m, %g : tensor<4xf32>
  %1 = arith.mulf %g, %g : tensor<4xf32>
  %2 = arith.addf %v, %1 : tensor<4xf32>
  return %0, %2 : tensor<4xf32>, tensor<4xf32>
}

// A look-up begins a group, since it reads its table anywhere; pointwise work joins it.
// CHECK-LABEL: func.func @gather
// CHECK:         nn.group
// CHECK-NEXT:    nn.gather
// CHECK-NEXT:    arith.addf
// CHECK-NEXT:    nn.yield
func.func @gather(%t: tensor<5x8xf32>, %ids: tensor<?xi64, #nn.batch<0, 1>>, %x: !x) -> (!x) attributes {nn.layer} {
  %0 = nn.gather %t at %ids axis 0 batch 0 : tensor<5x8xf32>, tensor<?xi64, #nn.batch<0, 1>> -> !x
  %1 = arith.addf %0, %x : !x
  return %1 : !x
}

// What a pad fills with stays a constant beside it.
// CHECK-LABEL: func.func @pad
// CHECK:         %[[C:.*]] = arith.constant
// CHECK-NEXT:    nn.pad %{{.*}} with %[[C]]
// CHECK-NEXT:    return
func.func @pad(%x: !x) -> (tensor<?x10xf32, #nn.batch<0, 1>>) attributes {nn.layer} {
  %c = arith.constant dense<0.0> : tensor<f32>
  %0 = nn.pad %x with %c low [0, 1] interior [0, 0] : !x, tensor<f32> -> tensor<?x10xf32, #nn.batch<0, 1>>
  return %0 : tensor<?x10xf32, #nn.batch<0, 1>>
}

// Arguments are returned as they are; a mask is made by a group.
// CHECK-LABEL: func.func @returned
// CHECK-SAME:    (%[[X:.*]]: tensor<?x8xf32, #nn.batch<0, 1>>, %{{.*}}: tensor<?xi64, #nn.batch<0, 1>>)
// CHECK:         %[[M:.*]] = nn.group
// CHECK:         arith.cmpi
// CHECK-NEXT:    nn.yield
// CHECK-NEXT:    }
// CHECK-NEXT:    return %[[X]], %[[M]]
func.func @returned(%x: !x, %labels: tensor<?xi64, #nn.batch<0, 1>>) -> (!x, tensor<?xi1, #nn.batch<0, 1>>) attributes {nn.layer} {
  %c = arith.constant dense<-100> : tensor<i64>
  %cs = nn.broadcast %c to [] : tensor<i64> -> tensor<?xi64, #nn.batch<0, 1>>
  %valid = arith.cmpi ne, %labels, %cs : tensor<?xi64, #nn.batch<0, 1>>
  return %x, %valid : !x, tensor<?xi1, #nn.batch<0, 1>>
}

// A mask of one value a row joins the group of softmax rows.
// CHECK-LABEL: func.func @wide
// CHECK:         nn.group
// CHECK:         arith.cmpi sle
// CHECK:         arith.uitofp
// CHECK:         nn.broadcast
// CHECK:         arith.mulf
// CHECK-NEXT:    nn.softmax
// CHECK-NEXT:    nn.yield
// CHECK-NOT:     nn.group
// CHECK:         return
func.func @wide(%x: !x, %labels: tensor<?xi64, #nn.batch<0, 1>>, %y: tensor<?x8x3xf32, #nn.batch<0, 1>>) -> (tensor<?x8x3xf32, #nn.batch<0, 1>>) attributes {nn.layer} {
  %i = nn.iota 1 : tensor<?x8xi64, #nn.batch<0, 1>>
  %l = nn.broadcast %labels to [0] : tensor<?xi64, #nn.batch<0, 1>> -> tensor<?x8xi64, #nn.batch<0, 1>>
  %e = arith.cmpi sle, %i, %l : tensor<?x8xi64, #nn.batch<0, 1>>
  %f = arith.uitofp %e : tensor<?x8xi1, #nn.batch<0, 1>> to !x
  %b = nn.broadcast %f to [0, 1] : !x -> tensor<?x8x3xf32, #nn.batch<0, 1>>
  %0 = arith.mulf %y, %b : tensor<?x8x3xf32, #nn.batch<0, 1>>
  %1 = nn.softmax %0 : tensor<?x8x3xf32, #nn.batch<0, 1>>
  return %1 : tensor<?x8x3xf32, #nn.batch<0, 1>>
}

// A causal mask has neither the shape of the domain nor one value a row: a group of its own computes it, and the other
// reads it.
// CHECK-LABEL: func.func @square
// CHECK:         %[[M:.*]] = nn.group () : () -> tensor<8x8xi1>
// CHECK:         arith.cmpi sge
// CHECK-NEXT:    nn.yield
// CHECK-NEXT:    }
// CHECK-NEXT:    nn.group ({{.*}}%[[M]]
// CHECK:         arith.select
// CHECK-NEXT:    nn.softmax
func.func @square(%x: tensor<?x8x8xf32, #nn.batch<0, 1>>) -> tensor<?x8x8xf32, #nn.batch<0, 1>> attributes {nn.layer} {
  %i = nn.iota 0 : tensor<8x8xi64>
  %j = nn.iota 1 : tensor<8x8xi64>
  %m = arith.cmpi sge, %i, %j : tensor<8x8xi64>
  %zero = arith.constant dense<0.0> : tensor<f32>
  %zeros = nn.broadcast %zero to [] : tensor<f32> -> tensor<?x8x8xf32, #nn.batch<0, 1>>
  %all = nn.broadcast %m to [1, 2] : tensor<8x8xi1> -> tensor<?x8x8xi1, #nn.batch<0, 1>>
  %0 = arith.select %all, %x, %zeros : tensor<?x8x8xi1, #nn.batch<0, 1>>, tensor<?x8x8xf32, #nn.batch<0, 1>>
  %1 = nn.softmax %0 : tensor<?x8x8xf32, #nn.batch<0, 1>>
  return %1 : tensor<?x8x8xf32, #nn.batch<0, 1>>
}

// A normalisation and the column sums of its gradients are one group.
// CHECK-LABEL: func.func @heads
// CHECK:         nn.group
// CHECK:         nn.layer_norm
// CHECK-NEXT:    arith.mulf
// CHECK-NEXT:    nn.reduce
// CHECK-NEXT:    nn.reduce
// CHECK-NEXT:    nn.yield
func.func @heads(%x: tensor<?x4xf32, #nn.batch<0, 1>>, %g: tensor<?x4xf32, #nn.batch<0, 1>>, %s: tensor<4xf32>) -> (tensor<?x4xf32, #nn.batch<0, 1>>, tensor<4xf32>, tensor<4xf32>) attributes {nn.layer} {
  %n:3 = nn.layer_norm %x, %s axis 1 epsilon 1.0e-5 : tensor<?x4xf32, #nn.batch<0, 1>>, tensor<4xf32> -> tensor<?x4xf32, #nn.batch<0, 1>>, tensor<?xf32, #nn.batch<0, 1>>, tensor<?xf32, #nn.batch<0, 1>>
  %0 = arith.mulf %n#0, %g : tensor<?x4xf32, #nn.batch<0, 1>>
  %1 = nn.reduce sum %0 over [0] : tensor<?x4xf32, #nn.batch<0, 1>> -> tensor<4xf32>
  %2 = nn.reduce sum %g over [0] : tensor<?x4xf32, #nn.batch<0, 1>> -> tensor<4xf32>
  return %0, %1, %2 : tensor<?x4xf32, #nn.batch<0, 1>>, tensor<4xf32>, tensor<4xf32>
}

// Rows of one axis and of two are two groups.
// CHECK-LABEL: func.func @rows
// CHECK:         %[[S:.*]] = nn.group
// CHECK-NEXT:    nn.softmax
// CHECK-NEXT:    nn.yield
// CHECK-NEXT:    }
// CHECK-NEXT:    nn.group (%{{.*}} = %[[S]])
// CHECK-NEXT:    nn.reduce max
func.func @rows(%x: tensor<?x4x8xf32, #nn.batch<0, 1>>) -> tensor<?xf32, #nn.batch<0, 1>> attributes {nn.layer} {
  %0 = nn.softmax %x : tensor<?x4x8xf32, #nn.batch<0, 1>>
  %1 = nn.reduce max %0 over [1, 2] : tensor<?x4x8xf32, #nn.batch<0, 1>> -> tensor<?xf32, #nn.batch<0, 1>>
  return %1 : tensor<?xf32, #nn.batch<0, 1>>
}

// Functions that are neither layers nor their backwards are left alone.
// CHECK-LABEL: func.func @other
// CHECK-NOT:     nn.group
func.func @other(%x: !x) -> !x {
  %0 = arith.mulf %x, %x : !x
  return %0 : !x
}
// CHECK-LABEL: func.func @layer.bwd
// CHECK:         nn.group
func.func @layer.bwd(%x: !x) -> !x {
  %0 = arith.mulf %x, %x : !x
  return %0 : !x
}
