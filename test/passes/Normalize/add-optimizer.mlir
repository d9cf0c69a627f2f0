// Built-in optimizers: one function per shape, state per parameter, scalars of the runtime.
// RUN: harmony-opt %s --harmony-add-optimizer="optimizer=adamw" | FileCheck %s --check-prefixes=CHECK,ADAMW
// RUN: harmony-opt %s --harmony-add-optimizer="optimizer=adam" | FileCheck %s --check-prefixes=CHECK,ADAM
// RUN: harmony-opt %s --harmony-add-optimizer="optimizer=sgd" | FileCheck %s --check-prefixes=SGD
// RUN: harmony-opt %s --harmony-add-optimizer="optimizer=sgd clip-grad-norm=true" --harmony-verify-normalized | FileCheck %s --check-prefixes=CLIP
// RUN: not harmony-opt %S/Inputs/own-optimizer.txt --harmony-add-optimizer="clip-grad-norm=true" 2>&1 | FileCheck %s --check-prefix=OWN
// RUN: not harmony-opt %s --harmony-add-optimizer="optimizer=lion" 2>&1 | FileCheck %s --check-prefix=UNKNOWN

// UNKNOWN: error: optimizer is 'lion', accepted are adamw, adam and sgd

nn.variable <parameter> @a : tensor<2x3xf32>
nn.variable <parameter> @b : tensor<2x3xf32>
nn.variable <parameter> @c : tensor<3xf32>
nn.variable <frozen> @d : tensor<3xf32>
func.func @main() { return }

// HmScalarKind: 0 lr, 1 decay factor, 2 weight decay, 9 one minus beta1, 8 momentum.
// ADAMW: nn.variable {{.*}}<scalar> @optimizer.decay_factor : tensor<f32> {nn.scalar_kind = 1 : i64}
// ADAM: nn.variable {{.*}}<scalar> @optimizer.weight_decay : tensor<f32> {nn.scalar_kind = 2 : i64}
// CHECK: nn.variable {{.*}}<scalar> @optimizer.one_minus_beta1 : tensor<f32> {nn.scalar_kind = 9 : i64}
// CHECK: nn.variable {{.*}}<optimizer> @a.exp_avg : tensor<2x3xf32>
// CHECK: nn.variable {{.*}}<optimizer> @a.exp_avg_sq : tensor<2x3xf32>
// ADAMW: func.func private @adamw_2x3(
// ADAMW: %[[K:.*]] = nn.broadcast %arg4 to [] : tensor<f32> -> tensor<2x3xf32>
// ADAMW: arith.mulf %arg0, %[[K]] : tensor<2x3xf32>
// ADAMW: nn.optimize @a by @adamw_2x3 states [@a.exp_avg, @a.exp_avg_sq] scalars [@optimizer.decay_factor, @optimizer.one_minus_beta1, @optimizer.beta2, @optimizer.one_minus_beta2, @optimizer.epsilon, @optimizer.step_size, @optimizer.sqrt_correction2]
// ADAMW: nn.optimize @b by @adamw_2x3
// ADAMW: nn.optimize @c by @adamw_3
// CHECK-NOT: nn.optimize @d

// SGD: @optimizer.momentum : tensor<f32> {nn.scalar_kind = 8 : i64}
// SGD: @optimizer.lr : tensor<f32> {nn.scalar_kind = 0 : i64}
// SGD: nn.variable {{.*}}<optimizer> @a.momentum_buffer
// SGD: func.func private @sgd_2x3(%arg0: tensor<2x3xf32>, %arg1: tensor<2x3xf32>, %arg2: tensor<2x3xf32>, %arg3: tensor<f32>, %arg4: tensor<f32>, %arg5: tensor<f32>)
// SGD: nn.optimize @a by @sgd_2x3 states [@a.momentum_buffer] scalars [@optimizer.weight_decay, @optimizer.momentum, @optimizer.lr]

// OWN: error: --clip-grad-norm: the model brings its own optimizer

// The factor min(1, maximum / (norm + 1e-6)) multiplies every gradient before anything else. Kinds: 11 maximum, 12 norm.
// CLIP: nn.variable {{.*}}<scalar> @optimizer.grad_scale : tensor<f32>{{$}}
// CLIP: func.func private @sgd_2x3(%arg0: tensor<2x3xf32>, %[[G:.*]]: tensor<2x3xf32>, %arg2: tensor<2x3xf32>, %arg3: tensor<f32>, %arg4: tensor<f32>, %arg5: tensor<f32>, %[[SCALE:.*]]: tensor<f32>)
// CLIP-NEXT: %[[WIDE:.*]] = nn.broadcast %[[SCALE]] to []
// CLIP-NEXT: arith.mulf %[[G]], %[[WIDE]]
// CLIP: nn.optimize @a by @sgd_2x3 states [@a.momentum_buffer] scalars [@optimizer.weight_decay, @optimizer.momentum, @optimizer.lr, @optimizer.grad_scale]
// CLIP: nn.variable {{.*}}<scalar> @optimizer.max_norm : tensor<f32> {nn.scalar_kind = 11 : i64}
// CLIP: nn.variable {{.*}}<scalar> @optimizer.grad_norm : tensor<f32> {nn.scalar_kind = 12 : i64}
// CLIP: func.func private @square_2x3(%[[X:.*]]: tensor<2x3xf32>) -> tensor<f32>
// CLIP-NEXT: %[[XX:.*]] = arith.mulf %[[X]], %[[X]]
// CLIP-NEXT: %[[ROWS:.*]] = nn.reduce sum %[[XX]] over [1]
// CLIP-NEXT: nn.reduce sum %[[ROWS]] over [0]
// CLIP: nn.contribution @a by @square_2x3
// CLIP: nn.contribution @b by @square_2x3
// CLIP: nn.contribution @c by @square_3
// CLIP-NOT: nn.contribution
// CLIP: func.func private @clip(%[[A:.*]]: tensor<f32>, %[[B:.*]]: tensor<f32>, %[[C:.*]]: tensor<f32>, %[[MAX:.*]]: tensor<f32>) -> (tensor<f32>, tensor<f32>)
// CLIP: %[[AB:.*]] = arith.addf %[[A]], %[[B]]
// CLIP: %[[ABC:.*]] = arith.addf %[[AB]], %[[C]]
// CLIP: %[[NORM:.*]] = math.sqrt %[[ABC]]
// CLIP: %[[SUM:.*]] = arith.addf %[[NORM]], %{{.*}}
// CLIP: %[[RATIO:.*]] = arith.divf %[[MAX]], %[[SUM]]
// CLIP: %[[FACTOR:.*]] = arith.minimumf %[[RATIO]], %{{.*}}
// CLIP: return %[[FACTOR]], %[[NORM]]
// CLIP: nn.epilogue @clip contributions [@a, @b, @c] reads [@optimizer.max_norm] writes [@optimizer.grad_scale, @optimizer.grad_norm]
