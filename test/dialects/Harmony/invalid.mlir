// RUN: harmony-opt %s -split-input-file -verify-diagnostics

// expected-error @below {{slot index is -1, expected at least 0}}
harmony.task @t slots [#harmony.slot<argument -1, 4>] {}

// -----

// expected-error @below {{slot size is -4 bytes, expected at least 0}}
harmony.task @t slots [#harmony.slot<argument 0, -4>] {}

// -----

// expected-error @below {{slot index of workspace is 1, expected 0: a task has one}}
harmony.task @t slots [#harmony.slot<workspace 1, 4>] {}

// -----

// expected-error @below {{has slot argument 0 twice}}
harmony.task @t slots [#harmony.slot<argument 0, 4>, #harmony.slot<argument 0, 4>] {}

// -----

harmony.buffer @b of step on 0 content tensor 0 use -1 bytes 64 slots 1 stride 64 live [0, 1] id 0
// expected-error @below {{holds 'harmony.zero', expected harmony.launch, harmony.gemm, harmony.convolution or harmony.fill}}
harmony.task @t slots [] {
  harmony.zero @b event 0
}

// -----

harmony.task @t slots [#harmony.slot<argument 0, 64>] {
  // expected-error @below {{refers to slot 1 of @t, which has 1 slots}}
  harmony.launch @k [#harmony.ref<1 + 0, 64, r>] extent 1 grain 1 family row
}

// -----

harmony.task @t slots [#harmony.slot<argument 0, 64>] {
  // expected-error @below {{touches bytes [32, 96) of slot 0 of @t, which has 64 bytes}}
  harmony.launch @k [#harmony.ref<0 + 32, 64, r>] extent 1 grain 1 family row
}

// -----

harmony.task @t slots [] {
  // expected-error @below {{extent is 0, expected at least 1}}
  harmony.launch @k [] extent 0 grain 1 family row
}

// -----

harmony.task @t slots [] {
  // expected-error @below {{grain is 0, expected at least 1}}
  harmony.launch @k [] extent 1 grain 0 family row
}

// -----

harmony.task @t slots [] {
  // expected-error @below {{expected string or keyword containing one of the following enum values for attribute 'family' [gemm, pointwise, row, column, gather, copy, update]}}
  harmony.launch @k [] extent 1 grain 1 family quick
}

// -----

harmony.task @t slots [#harmony.slot<result 0, 64>] {
  // expected-error @below {{value is 256, expected a byte in [0, 255]}}
  harmony.fill #harmony.ref<0 + 0, 64, w> value 256
}

// -----

harmony.task @t slots [#harmony.slot<result 0, 64>] {
  // expected-error @below {{has access r, expected w}}
  harmony.fill #harmony.ref<0 + 0, 64, r> value 0
}

// -----

harmony.task @t slots [#harmony.slot<result 0, 64>] {
  // expected-error @below {{has 1 references, expected 3: A, B and C}}
  harmony.gemm [#harmony.ref<0 + 0, 64, r>] shape [4, 4, 4] leading [4, 4, 4] batch [1, 1, 1]
    strides [0, 0, 0], [0, 0, 0], [0, 0, 0] block [4, 4]
}

// -----

harmony.task @t slots [#harmony.slot<result 0, 64>] {
  // expected-error @below {{shape has 2 entries, expected 3}}
  harmony.gemm [#harmony.ref<0 + 0, 64, r>, #harmony.ref<0 + 0, 64, r>, #harmony.ref<0 + 0, 64, w>] shape [4, 4]
    leading [4, 4, 4] batch [1, 1, 1] strides [0, 0, 0], [0, 0, 0], [0, 0, 0] block [4, 4]
}

// -----

harmony.task @t slots [#harmony.slot<result 0, 64>] {
  // expected-error @below {{block holds 0, expected at least 1}}
  harmony.gemm [#harmony.ref<0 + 0, 64, r>, #harmony.ref<0 + 0, 64, r>, #harmony.ref<0 + 0, 64, w>] shape [4, 4, 4]
    leading [4, 4, 4] batch [1, 1, 1] strides [0, 0, 0], [0, 0, 0], [0, 0, 0] block [4, 0]
}

// -----

harmony.task @t slots [#harmony.slot<result 0, 64>] {
  // expected-error @below {{has access w to C, expected rw}}
  harmony.gemm [#harmony.ref<0 + 0, 64, r>, #harmony.ref<0 + 0, 64, r>, #harmony.ref<0 + 0, 64, w>] shape [4, 4, 4]
    leading [4, 4, 4] batch [1, 1, 1] strides [0, 0, 0], [0, 0, 0], [0, 0, 0] block [4, 4] accumulate
}

// -----

harmony.task @t slots [#harmony.slot<result 0, 64>] {
  // expected-error @below {{has 1 references, expected 3}}
  harmony.convolution image [#harmony.ref<0 + 0, 64, r>] samples [1, 1] channels [8, 8]
    image [1, 2] out [1, 2] kernel [1, 1] strides [1, 1] low [0, 0] high [0, 0] lanes 8
}

// -----

harmony.task @t slots [#harmony.slot<result 0, 64>] {
  // expected-error @below {{samples has 1 entries, expected 2}}
  harmony.convolution image [#harmony.ref<0 + 0, 64, r>, #harmony.ref<0 + 0, 64, r>, #harmony.ref<0 + 0, 64, w>] samples [1] channels [8, 8]
    image [1, 2] out [1, 2] kernel [1, 1] strides [1, 1] low [0, 0] high [0, 0] lanes 8
}

// -----

harmony.task @t slots [#harmony.slot<result 0, 64>] {
  // expected-error @below {{low holds -1, expected at least 0}}
  harmony.convolution image [#harmony.ref<0 + 0, 64, r>, #harmony.ref<0 + 0, 64, r>, #harmony.ref<0 + 0, 64, w>] samples [1, 1] channels [8, 8]
    image [1, 2] out [1, 2] kernel [1, 1] strides [1, 1] low [-1, 0] high [0, 0] lanes 8
}

// -----

harmony.task @t slots [#harmony.slot<result 0, 64>] {
  // expected-error @below {{lanes is 4, expected 8 or 16}}
  harmony.convolution image [#harmony.ref<0 + 0, 64, r>, #harmony.ref<0 + 0, 64, r>, #harmony.ref<0 + 0, 64, w>] samples [1, 1] channels [8, 8]
    image [1, 2] out [1, 2] kernel [1, 1] strides [1, 1] low [0, 0] high [0, 0] lanes 4
}

// -----

harmony.task @t slots [#harmony.slot<result 0, 64>] {
  // expected-error @below {{has access rw to what it computes, expected w}}
  harmony.convolution image [#harmony.ref<0 + 0, 64, r>, #harmony.ref<0 + 0, 64, r>, #harmony.ref<0 + 0, 64, rw>] samples [1, 1] channels [8, 8]
    image [1, 2] out [1, 2] kernel [1, 1] strides [1, 1] low [0, 0] high [0, 0] lanes 8
}

// -----

// expected-error @below {{has -1 bytes, expected at least 0}}
harmony.home @h content tensor bytes -1 variables [] id 0

// -----

// expected-error @below {{has 0 slots, expected at least 1}}
harmony.buffer @b of step on 0 content value 0 use -1 bytes 64 slots 0 stride 64 live [0, 1] id 0

// -----

// expected-error @below {{begins at sample -1, expected at least 0}}
harmony.buffer @b of step on 0 content value 0 use -1 from -1 bytes 64 slots 1 stride 64 live [0, 1] id 0

// -----

// expected-error @below {{has 4 bytes for a sample and -4 for a microbatch, expected at least 0 of each}}
harmony.home @h content value bytes 4 sample_bytes 4 fixed_bytes -4 variables [] id 0

// -----

// expected-error @below {{lies at 32, expected a multiple of 64}}
harmony.home @h content tensor bytes 4 variables [] id 0 at 32

// -----

// expected-error @below {{has stride 32, expected a multiple of 64 of at least 64}}
harmony.buffer @b of step on 0 content value 0 use -1 bytes 64 slots 2 stride 32 live [0, 1] id 0

// -----

// expected-error @below {{live has 1 entries, expected the first and the last event}}
harmony.buffer @b of step on 0 content value 0 use -1 bytes 64 slots 2 stride 64 live [0] id 0

// -----

harmony.program @p kind step batch 1 {
  // expected-error @below {{runs @t, which is no harmony.task}}
  harmony.run forward @t at [] layer 0 label "l" event 0
}

// -----

harmony.task @t slots [#harmony.slot<argument 0, 64>] {}
harmony.program @p kind step batch 1 {
  // expected-error @below {{binds 0 places to @t, which has 1 slots}}
  harmony.run forward @t at [] layer 0 label "l" event 0
}

// -----

harmony.task @t slots [#harmony.slot<argument 0, 64>] {}
harmony.program @p kind step batch 1 {
  // expected-error @below {{binds @t, which is no harmony.buffer, harmony.home, harmony.input or harmony.scalar}}
  harmony.update @w by @t at [#harmony.at<@t>] on 0 event 0
}

// -----

harmony.program @p kind step batch 1 {
  // expected-error @below {{moves 0 bytes, expected at least 1}}
  harmony.swap_in @a to @b bytes 0 step 0 on 0 event 0
}

// -----

harmony.program @p kind step batch 1 {
  // expected-error @below {{begins at byte -64, expected at least 0}}
  harmony.swap_in @a to @b bytes 4 at -64 step 0 on 0 event 0
}

// -----

harmony.program @p kind step batch 1 {
  // expected-error @below {{goes from device 1 to 1, expected two devices}}
  harmony.p2p @a to @b bytes 4 from 1 on 1 event 0
}

// -----

harmony.program @p kind step batch 1 {
  // expected-error @below {{moves 0 bytes, expected at least 1}}
  harmony.p2p @a to @b bytes 0 from 0 on 1 event 0
}

// -----

harmony.program @p kind step batch 1 {
  // expected-error @below {{has 1 sources, 0 destinations and 1 sizes, expected as many of each}}
  harmony.reduce_scatter over [0, 1] [@a] to [] bytes [4]
}

// -----

harmony.program @p kind step batch 1 {
  // expected-error @below {{moves @a, which is no harmony.buffer}}
  harmony.reduce_scatter over [0, 1] [@a] to [@a] bytes [4]
}

// -----

harmony.buffer @t0 of step on 0 content tensor 0 use -1 bytes 64 slots 1 stride 64 live [0, 1] id 0
harmony.buffer @t1 of step on 1 content tensor 0 use -1 bytes 64 slots 1 stride 64 live [0, 1] id 1
harmony.program @p kind step batch 1 {
  // expected-error @below {{moves @t0, which holds a tensor, expected a gradient}}
  harmony.reduce_scatter over [0, 1] [@t0] to [@t1] bytes [64]
}

// -----

harmony.buffer @t0 of step on 0 content tensor 0 use -1 bytes 64 slots 1 stride 64 live [0, 1] id 0
harmony.buffer @t1 of step on 1 content tensor 0 use -1 bytes 64 slots 1 stride 64 live [0, 1] id 1
harmony.program @p kind step batch 1 {
  // expected-error @below {{moves @t1 of device 1, which takes no part}}
  harmony.all_gather over [0, 2] [@t0] to [@t1] bytes [64]
}

// -----

harmony.buffer @t0 of step on 0 content tensor 0 use -1 bytes 64 slots 1 stride 64 live [0, 1] id 0
harmony.buffer @t1 of step on 1 content tensor 1 use -1 bytes 64 slots 1 stride 64 live [0, 1] id 1
harmony.program @p kind step batch 1 {
  // expected-error @below {{moves @t0 to @t1, expected the same thing on another device}}
  harmony.all_gather over [0, 1] [@t0] to [@t1] bytes [64]
}

// -----

harmony.buffer @t0 of step on 0 content tensor 0 use -1 bytes 64 slots 1 stride 64 live [0, 1] id 0
harmony.buffer @t1 of step on 1 content tensor 0 use -1 bytes 64 slots 1 stride 64 live [0, 1] id 1
harmony.program @p kind step batch 1 {
  // expected-error @below {{moves 68 bytes of @t0, expected from 1 to 64}}
  harmony.all_gather over [0, 1] [@t0] to [@t1] bytes [68]
}

// -----

harmony.program @p kind step batch 1 {
  // expected-error @below {{surrounds 1 updates, but 0 follow}}
  harmony.all_reduce over [0, 1] [] to [] bytes [] updates 1 gather [] to [] bytes []
}

// -----

// expected-error @below {{shares @r, which is no harmony.resource}}
harmony.link from 0 to -1 bytes_per_second 1.0e+09 latency 0.0 shares [@r]

// -----

harmony.resource @r bytes_per_second 1.0e+09
// expected-error @below {{shares 5 resources, expected at most 4}}
harmony.link from 0 to -1 bytes_per_second 1.0e+09 latency 0.0 shares [@r, @r, @r, @r, @r]

// -----

harmony.program @p kind step batch 1 {
  harmony.queue @q compute on 0 period 0 {
    // expected-error @below {{grows every 0 iterations, expected at least 1}}
    harmony.wait @q until 1 every 0
  }
}

// -----

harmony.program @p kind step batch 1 {
  // expected-error @below {{begins at sample 0, microbatch 0, group -1, expected at least 0 of each}}
  harmony.pack "F0" forward layers 0 to 0 microbatch 1 trips 1 group -1 on 0 phase 0 event 0 {}
}

// -----

harmony.program @p kind step batch 1 {
  // expected-error @below {{steps by -4 bytes, expected at least 0}}
  harmony.store_output @a to @b bytes 4 step -4 on 0 event 0
}

// -----

harmony.program @p kind step batch 1 {
  harmony.queue @q compute on 0 period 0 {
    // expected-error @below {{waits for @r, which is no queue of this program}}
    harmony.wait @r until 1
  }
}

// -----

harmony.program @p kind step batch 1 {
  harmony.queue @q compute on 0 period 0 {}
  // expected-error @below {{stands beside queues: in a program of queues every command is in one}}
  harmony.zero @b event 0
}

// -----

harmony.program @p kind step batch 1 {
  // expected-error @below {{stands outside of a queue}}
  harmony.signal 1
}

// -----

harmony.program @p kind step batch 1 {
  // expected-error @below {{has 0 trips of 1 samples, expected at least 1 of each}}
  harmony.pack "F0" forward layers 0 to 0 microbatch 1 trips 0 on 0 phase 0 event 0 {}
}

// -----

harmony.program @p kind step batch 1 {
  harmony.pack "F0" forward layers 0 to 0 microbatch 1 trips 1 on 0 phase 0 event 0 {
    // expected-error @below {{stands in a pack, which holds runs and value transfers}}
    harmony.zero @b event 0
  }
}

// -----

harmony.program @p kind step batch 1 {
  harmony.queue @q compute on 0 period 2 {
    harmony.signal 1
    // expected-error @below {{states value 3 slope 0, expected 2 slope 0}}
    harmony.signal 3
  }
}

// -----

harmony.program @p kind step batch 1 {
  harmony.queue @q compute on 0 period 4 {
    harmony.for 2 of "loop" {
      harmony.signal 1 slope 2
      // expected-error @below {{states value 2 slope 1, expected 2 slope 2}}
      harmony.signal 2 slope 1
    }
  }
}

// -----

harmony.program @p kind step batch 1 {
  // expected-error @below {{has period 3, but signals 4 times}}
  harmony.queue @q compute on 0 period 3 {
    harmony.for 2 of "loop" {
      harmony.signal 1 slope 2
      harmony.signal 2 slope 2
    }
  }
}
