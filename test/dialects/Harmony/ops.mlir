// RUN: harmony-opt %s | harmony-opt | FileCheck %s

// CHECK-LABEL: harmony.task @layer.u4
// CHECK-SAME:  slots [#harmony.slot<argument 0, 256>, #harmony.slot<workspace 0, 128>, #harmony.slot<result 0, 256>]
harmony.task @layer.u4 slots [#harmony.slot<argument 0, 256>, #harmony.slot<workspace 0, 128>, #harmony.slot<result 0, 256>] {
  // CHECK: harmony.fill <1 + 0, 64, w> value 0
  harmony.fill #harmony.ref<1 + 0, 64, w> value 0
  // CHECK: harmony.launch @row [#harmony.ref<0 + 0, 256, r>, #harmony.ref<1 + 64, 64, w>] extent 64 grain 16 family row
  harmony.launch @row [#harmony.ref<0 + 0, 256, r>, #harmony.ref<1 + 64, 64, w>] extent 64 grain 16 family row
  // CHECK: harmony.gemm
  // CHECK-SAME: shape [4, 4, 4] leading [4, 4, 4] batch [1, 1, 1] strides [0, 0, 0], [0, 0, 0], [0, 0, 0] block [4, 4] transB accumulate
  harmony.gemm [#harmony.ref<0 + 0, 64, r>, #harmony.ref<1 + 64, 64, r>, #harmony.ref<2 + 0, 64, rw>]
    shape [4, 4, 4] leading [4, 4, 4] batch [1, 1, 1] strides [0, 0, 0], [0, 0, 0], [0, 0, 0] block [4, 4] transB accumulate
}

// CHECK-LABEL: harmony.task @convolution
harmony.task @convolution slots [#harmony.slot<argument 0, 2048>, #harmony.slot<argument 1, 2304>, #harmony.slot<result 0, 2048>] {
  // CHECK: harmony.convolution forward
  // CHECK-SAME: samples [4, 2] channels [8, 8] image [4, 4] out [4, 4] kernel [3, 3] strides [1, 1] low [1, 1] high [1, 1] lanes 8
  harmony.convolution forward [#harmony.ref<0 + 0, 2048, r>, #harmony.ref<1 + 0, 2304, r>, #harmony.ref<2 + 0, 2048, w>]
    samples [4, 2] channels [8, 8] image [4, 4] out [4, 4] kernel [3, 3] strides [1, 1] low [1, 1] high [1, 1] lanes 8
}

harmony.task @copy slots [#harmony.slot<argument 0, 64>, #harmony.slot<result 0, 64>] {
  harmony.launch @copy [#harmony.ref<0 + 0, 64, r>, #harmony.ref<1 + 0, 64, w>] extent 16 grain 16 family copy
}

// CHECK: harmony.device @d0 index 0 capacity 4096
harmony.device @d0 index 0 capacity 4096
// CHECK: harmony.device @d1 index 1 capacity 4096
harmony.device @d1 index 1 capacity 4096
// CHECK: harmony.resource @port bytes_per_second 1.200000e+10
harmony.resource @port bytes_per_second 12.0e+09
// CHECK: harmony.link from -1 to 0 bytes_per_second 1.200000e+10 latency 1.000000e-05 shares [@port]
harmony.link from -1 to 0 bytes_per_second 12.0e+09 latency 1.0e-05 shares [@port]
// CHECK: harmony.link from 0 to 1 bytes_per_second 8.000000e+09 latency 0.000000e+00 shares []
harmony.link from 0 to 1 bytes_per_second 8.0e+09 latency 0.0 shares []
// CHECK: harmony.input @input.ids index 0 name "ids" sample_bytes 32 range [0, 100] ignored -1 : tensor<?x4xi64, #nn.batch<0, 1>>
harmony.input @input.ids index 0 name "ids" sample_bytes 32 range [0, 100] ignored -1 : tensor<?x4xi64, #nn.batch<0, 1>>
// CHECK: harmony.input @input.mask index 1 name "mask" sample_bytes 16 per_step : tensor<4xf32>
harmony.input @input.mask index 1 name "mask" sample_bytes 16 per_step : tensor<4xf32>
// CHECK: harmony.scalar @scalar.lr index 0 kind 0 variable @lr
harmony.scalar @scalar.lr index 0 kind 0 variable @lr
// CHECK: harmony.home @host.v content value bytes 256 sample_bytes 32 variables [] id 3 at 128
harmony.home @host.v content value bytes 256 sample_bytes 32 variables [] id 3 at 128
// CHECK: harmony.home @host.t content tensor bytes 64 variables [@t] id -1 temporary
harmony.home @host.t content tensor bytes 64 variables [@t] id -1 temporary
// CHECK: harmony.buffer @step.v of step on 0 content value 2 use -1 bytes 64 slots 2 stride 64 home @host.v live [1, 2] id 0 at 0
harmony.buffer @step.v of step on 0 content value 2 use -1 bytes 64 slots 2 stride 64 home @host.v live [1, 2] id 0 at 0
// CHECK: harmony.buffer @step.t of step on 0 content tensor 0 use -1 bytes 64 slots 1 stride 64 home @host.t persistent live [0, 2] id 1
harmony.buffer @step.t of step on 0 content tensor 0 use -1 bytes 64 slots 1 stride 64 home @host.t persistent live [0, 2] id 1
// CHECK: harmony.buffer @step.v.1 of step on 1 content value 2 use -1 from 4 bytes 64 slots 2 stride 64 home @host.v live [1, 2] id 2
harmony.buffer @step.v.1 of step on 1 content value 2 use -1 from 4 bytes 64 slots 2 stride 64 home @host.v live [1, 2] id 2
// CHECK: harmony.home @host.w content value bytes 272 sample_bytes 32 fixed_bytes 4 variables [] id 4
harmony.home @host.w content value bytes 272 sample_bytes 32 fixed_bytes 4 variables [] id 4
harmony.buffer @step.t.1 of step on 1 content tensor 0 use -1 bytes 64 slots 1 stride 64 home @host.t persistent live [0, 2] id 3
harmony.buffer @step.g of step on 0 content gradient 0 use 1 bytes 64 slots 1 stride 64 live [0, 2] id 4
harmony.buffer @step.g.1 of step on 1 content gradient 0 use 1 bytes 64 slots 1 stride 64 live [0, 2] id 5
// CHECK: harmony.loss step @host.v over @host.t scale 5.000000e-01
harmony.loss step @host.v over @host.t scale 0.5
// CHECK: harmony.output "logits" in @host.v sample_bytes 64 : tensor<?x16xf32, #nn.batch<0, 1>>
harmony.output "logits" in @host.v sample_bytes 64 : tensor<?x16xf32, #nn.batch<0, 1>>

// CHECK-LABEL: harmony.program @sequence kind step batch 8
harmony.program @sequence kind step batch 8 {
  // CHECK: harmony.zero @step.t event 0
  harmony.zero @step.t event 0
  // CHECK: harmony.pack "F0" forward layers 0 to 1 microbatch 2 trips 4 on 0 phase 0 event 2 {
  harmony.pack "F0" forward layers 0 to 1 microbatch 2 trips 4 on 0 phase 0 event 2 {
    // CHECK: harmony.swap_in @host.v to @step.v bytes 64 step 64 on 0 event 1
    harmony.swap_in @host.v to @step.v bytes 64 step 64 on 0 event 1
    // CHECK: harmony.run forward @copy at [#harmony.at<@step.v>, #harmony.at<@step.t>] layer 0 label "fc" event 2
    harmony.run forward @copy at [#harmony.at<@step.v>, #harmony.at<@step.t + 0>] layer 0 label "fc" event 2
    // CHECK: harmony.p2p @step.v to @step.v.1 bytes 64 from 0 on 1 event 3
    harmony.p2p @step.v to @step.v.1 bytes 64 from 0 on 1 event 3
  }
  // CHECK: harmony.pack "F1" forward layers 0 to 1 microbatch 2 trips 2 from 4 after 2 group 1 on 1 phase 1 event 4 {
  harmony.pack "F1" forward layers 0 to 1 microbatch 2 trips 2 from 4 after 2 group 1 on 1 phase 1 event 4 {
    // CHECK: harmony.swap_in @host.v to @step.v.1 bytes 64 at 128 step 64 on 1 event 3
    harmony.swap_in @host.v to @step.v.1 bytes 64 at 128 step 64 on 1 event 3
  }
  // CHECK: harmony.run contribution @copy at [#harmony.at<@step.t>, #harmony.at<@step.t>] layer -1 label "t" event 5 {seconds = 1.000000e-03 : f64}
  harmony.run contribution @copy at [#harmony.at<@step.t>, #harmony.at<@step.t>] layer -1 label "t" event 5 {seconds = 1.0e-03 : f64}
  // CHECK: harmony.reduce_scatter over [0, 1] [@step.g] to [@step.g.1] bytes [64]
  harmony.reduce_scatter over [0, 1] [@step.g] to [@step.g.1] bytes [64]
  // CHECK: harmony.all_gather over [0, 1] [@step.t.1] to [@step.t] bytes [64]
  harmony.all_gather over [0, 1] [@step.t.1] to [@step.t] bytes [64]
  // CHECK: harmony.all_reduce over [0, 1] [@step.g] to [@step.g.1] bytes [64] updates 1 gather [@step.t.1] to [@step.t] bytes [64]
  harmony.all_reduce over [0, 1] [@step.g] to [@step.g.1] bytes [64] updates 1 gather [@step.t.1] to [@step.t] bytes [64]
  harmony.update @t by @copy at [#harmony.at<@step.t.1>, #harmony.at<@step.g.1>] on 1 event 6
  // CHECK: harmony.store_output @step.t to @host.t bytes 64 step 0 on 0 event 3
  harmony.store_output @step.t to @host.t bytes 64 step 0 on 0 event 3
}

// CHECK-LABEL: harmony.program @queues kind evaluate batch 8
harmony.program @queues kind evaluate batch 8 {
  // CHECK: harmony.queue @d0.in in on 0 period 8 {
  harmony.queue @d0.in in on 0 period 8 {
    // CHECK: harmony.wait @host until 1 previous_step
    harmony.wait @host until 1 previous_step
    // CHECK: harmony.for 4 of "F0" {
    harmony.for 4 of "F0" {
      // CHECK: harmony.wait @host until -3 slope 2 every 4 from 8
      harmony.wait @host until -3 slope 2 every 4 from 8
      // CHECK: harmony.wait @host until -1 slope 1 from 2
      harmony.wait @host until -1 slope 1 from 2
      harmony.load_input @input.ids to @step.v bytes 64 step 64 on 0 event 1
      // CHECK: harmony.signal 1 slope 2
      harmony.signal 1 slope 2
      harmony.swap_in @host.t to @step.t bytes 64 step 0 on 0 event 2
      harmony.signal 2 slope 2
    }
  }
  harmony.queue @host host on -1 period 1 {
    // CHECK: harmony.update @t by @copy at [#harmony.at<@host.t>, #harmony.at<@host.v + 64>] on -1 event 4
    harmony.update @t by @copy at [#harmony.at<@host.t>, #harmony.at<@host.v + 64>] on -1 event 4
    // CHECK: harmony.release @step.v
    harmony.release @step.v
    harmony.signal 1
  }
}
