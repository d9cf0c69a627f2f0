// RUN: harmony-opt %s --harmony-verify-memory -split-input-file -verify-diagnostics

// A weight of 64 bytes is read by the device and written back changed. All is ordered.
nn.variable #nn.role<parameter> @w : tensor<16xf32>
harmony.device @d0 index 0 capacity 128
harmony.home @host.w content tensor bytes 64 variables [@w] id 0 at 0
harmony.buffer @w.d of step on 0 content tensor 0 use -1 bytes 64 slots 1 stride 64 home @host.w live [0, 2] id 0 at 64
harmony.task @inc slots [#harmony.slot<parameter 0, 64>] {
  harmony.launch @inc [#harmony.ref<0 + 0, 64, rw>] extent 16 grain 16 family update
}
harmony.program @step kind step batch 1 {
  harmony.queue @in in on 0 period 1 {
    harmony.wait @out until 1 previous_step
    harmony.swap_in @host.w to @w.d bytes 64 step 0 on 0 event 0
    harmony.signal 1
  }
  harmony.queue @compute compute on 0 period 1 {
    harmony.wait @in until 1
    harmony.update @w by @inc at [#harmony.at<@w.d>] on 0 event 1
    harmony.signal 1
  }
  harmony.queue @out out on 0 period 1 {
    harmony.wait @compute until 1
    harmony.swap_out @w.d to @host.w bytes 64 step 0 on 0 event 2
    harmony.signal 1
  }
}

// -----

// Two queues that wait for each other.
harmony.device @d0 index 0 capacity 128
harmony.program @step kind step batch 1 {
  harmony.queue @a in on 0 period 1 {
    // expected-error @below {{of queue @a is never satisfied: in iteration 0 of execution 0 it needs 1 of @b, which stays at 0}}
    harmony.wait @b until 1
    harmony.signal 1
  }
  harmony.queue @b out on 0 period 1 {
    harmony.wait @a until 1
    harmony.signal 1
  }
}

// -----

harmony.device @d0 index 0 capacity 96
harmony.buffer @g of step on 0 content gradient 0 use 0 bytes 64 slots 1 stride 64 live [0, 1] id 0 at 64
harmony.program @step kind step batch 1 {
  harmony.queue @compute compute on 0 period 0 {
    // expected-error @below {{touches bytes [64, 128) of device 0 (@g), whose arena has 96}}
    harmony.zero @g event 0
  }
}

// -----

// expected-error @below {{lies on device 0, which no harmony.device declares}}
harmony.buffer @g of step on 0 content gradient 0 use 0 bytes 64 slots 1 stride 64 live [0, 1] id 0 at 64
harmony.program @step kind step batch 1 {
  harmony.queue @compute compute on 0 period 0 {
    harmony.zero @g event 0
  }
}

// -----

harmony.device @d0 index 0 capacity 128
harmony.buffer @g of step on 0 content gradient 0 use 0 bytes 64 slots 1 stride 64 live [0, 1] id 0
harmony.program @step kind step batch 1 {
  harmony.queue @compute compute on 0 period 0 {
    // expected-error @below {{uses @g, which has no address: assign addresses first}}
    harmony.zero @g event 0
  }
}

// -----

harmony.device @d0 index 0 capacity 128
harmony.home @host.g content gradient bytes 64 variables [] id 0 at 0
harmony.buffer @g of step on 0 content gradient 0 use 0 bytes 64 slots 1 stride 64 home @host.g live [0, 1] id 0 at 64
harmony.program @step kind step batch 1 {
  harmony.queue @out out on 0 period 0 {
    // expected-error @below {{reads @g in iteration 0 of execution 0, where nothing has been written}}
    harmony.swap_out @g to @host.g bytes 64 step 0 on 0 event 0
  }
}

// -----

// Two live buffers at one address.
harmony.device @d0 index 0 capacity 128
harmony.home @host.g content gradient bytes 64 variables [] id 0 at 0
harmony.buffer @g of step on 0 content gradient 0 use 0 bytes 64 slots 1 stride 64 home @host.g live [0, 1] id 0 at 64
harmony.buffer @h of step on 0 content gradient 1 use 0 bytes 32 slots 1 stride 32 live [0, 1] id 0 at 64
harmony.program @step kind step batch 1 {
  harmony.queue @compute compute on 0 period 1 {
    harmony.zero @g event 0
    // expected-note @below {{the last to have written these bytes}}
    harmony.zero @h event 0
    harmony.signal 1
  }
  harmony.queue @out out on 0 period 0 {
    harmony.wait @compute until 1
    // expected-error @below {{reads @g in iteration 0 of execution 0, where @h lies}}
    harmony.swap_out @g to @host.g bytes 64 step 0 on 0 event 1
  }
}

// -----

// A released buffer is gone.
harmony.device @d0 index 0 capacity 128
harmony.home @host.g content gradient bytes 64 variables [] id 0 at 0
harmony.buffer @g of step on 0 content gradient 0 use 0 bytes 64 slots 1 stride 64 home @host.g live [0, 1] id 0 at 64
harmony.program @step kind step batch 1 {
  harmony.queue @compute compute on 0 period 1 {
    harmony.zero @g event 0
    // expected-note @below {{the last to have written these bytes}}
    harmony.release @g
    harmony.signal 1
  }
  harmony.queue @out out on 0 period 0 {
    harmony.wait @compute until 1
    // expected-error @below {{reads @g in iteration 0 of execution 0, where nothing has been written}}
    harmony.swap_out @g to @host.g bytes 64 step 0 on 0 event 1
  }
}

// -----

// The transfer is not waited for.
harmony.device @d0 index 0 capacity 128
nn.variable #nn.role<parameter> @w : tensor<16xf32>
harmony.home @host.w content tensor bytes 64 variables [@w] id 0 at 0
harmony.buffer @w.d of step on 0 content tensor 0 use -1 bytes 64 slots 1 stride 64 home @host.w live [0, 2] id 0 at 64
harmony.task @read slots [#harmony.slot<argument 0, 64>] {
  harmony.launch @read [#harmony.ref<0 + 0, 64, r>] extent 16 grain 16 family row
}
harmony.program @step kind step batch 1 {
  harmony.queue @in in on 0 period 1 {
    // expected-note @below {{which is 'harmony.swap_in' of event 0}}
    harmony.swap_in @host.w to @w.d bytes 64 step 0 on 0 event 0
    harmony.signal 1
  }
  harmony.queue @compute compute on 0 period 1 {
    // expected-error @below {{reads @w.d in iteration 0 of execution 0, but nothing orders it after the write}}
    harmony.run forward @read at [#harmony.at<@w.d>] layer 0 label "l" event 1
    harmony.signal 1
  }
}

// -----

// Within one step all is ordered; the next step's transfer does not wait for this step's read.
harmony.device @d0 index 0 capacity 128
nn.variable #nn.role<parameter> @w : tensor<16xf32>
harmony.home @host.w content tensor bytes 64 variables [@w] id 0 at 0
harmony.buffer @w.d of step on 0 content tensor 0 use -1 bytes 64 slots 1 stride 64 home @host.w live [0, 2] id 0 at 64
harmony.task @read slots [#harmony.slot<argument 0, 64>] {
  harmony.launch @read [#harmony.ref<0 + 0, 64, r>] extent 16 grain 16 family row
}
harmony.program @step kind step batch 1 {
  harmony.queue @compute compute on 0 period 1 {
    harmony.wait @in until 1
    // expected-error @below {{reads @w.d in iteration 0 of execution 0, but nothing orders it after the write}}
    harmony.run forward @read at [#harmony.at<@w.d>] layer 0 label "l" event 1
    harmony.signal 1
  }
  harmony.queue @in in on 0 period 1 {
    // expected-note @below {{which is 'harmony.swap_in' of event 0}}
    harmony.swap_in @host.w to @w.d bytes 64 step 0 on 0 event 0
    harmony.signal 1
  }
}

// -----

// A write that meets an earlier write.
harmony.device @d0 index 0 capacity 128
nn.variable #nn.role<parameter> @w : tensor<16xf32>
harmony.home @host.w content tensor bytes 64 variables [@w] id 0 at 0
harmony.buffer @w.d of step on 0 content tensor 0 use -1 bytes 64 slots 1 stride 64 home @host.w live [0, 2] id 0 at 64
harmony.buffer @g of step on 0 content gradient 0 use 0 bytes 64 slots 1 stride 64 live [0, 1] id 0 at 64
harmony.program @step kind step batch 1 {
  harmony.queue @in in on 0 period 1 {
    // expected-note @below {{which is 'harmony.swap_in' of event 0}}
    harmony.swap_in @host.w to @w.d bytes 64 step 0 on 0 event 0
    harmony.signal 1
  }
  harmony.queue @compute compute on 0 period 0 {
    // expected-error @below {{writes @g over @w.d in iteration 0 of execution 0, but nothing orders it after an earlier write}}
    harmony.zero @g event 1
  }
}

// -----

// A write that meets an earlier read.
harmony.device @d0 index 0 capacity 128
nn.variable #nn.role<parameter> @w : tensor<16xf32>
harmony.home @host.w content tensor bytes 64 variables [@w] id 0 at 0
harmony.buffer @w.d of step on 0 content tensor 0 use -1 bytes 64 slots 1 stride 64 home @host.w live [0, 2] id 0 at 64
harmony.task @inc slots [#harmony.slot<parameter 0, 64>] {
  harmony.launch @inc [#harmony.ref<0 + 0, 64, w>] extent 16 grain 16 family update
}
harmony.program @step kind step batch 1 {
  harmony.queue @in in on 0 period 1 {
    // expected-note @below {{which is 'harmony.swap_in' of event 0}}
    harmony.swap_in @host.w to @w.d bytes 64 step 0 on 0 event 0
    harmony.signal 1
  }
  harmony.queue @host host on -1 period 0 {
    // expected-error @below {{writes @host.w in iteration 0 of execution 0, but nothing orders it after an earlier read}}
    harmony.update @w by @inc at [#harmony.at<@host.w>] on -1 event 1
  }
}

// -----

// Four microbatches through a ring of two slots, read too late: microbatch 2 lies where 0 was.
harmony.device @d0 index 0 capacity 256
harmony.input @x index 0 name "x" sample_bytes 64 : tensor<?x16xf32, #nn.batch<0, 1>>
harmony.buffer @x.d of step on 0 content value 0 use -1 bytes 64 slots 2 stride 64 home @x live [0, 1] id 0 at 0
harmony.task @read slots [#harmony.slot<argument 0, 64>] {
  harmony.launch @read [#harmony.ref<0 + 0, 64, r>] extent 16 grain 16 family row
}
harmony.program @step kind step batch 4 {
  harmony.queue @in in on 0 period 4 {
    harmony.for 4 of "load" {
      harmony.load_input @x to @x.d bytes 64 step 64 on 0 event 0
      harmony.signal 1 slope 1
    }
  }
  harmony.queue @compute compute on 0 period 4 {
    harmony.wait @in until 4
    harmony.for 4 of "read" {
      // expected-error @below {{reads microbatch 0 of @x.d, where microbatch 2 lies}}
      harmony.run forward @read at [#harmony.at<@x.d>] layer 0 label "l" event 1
      harmony.signal 1 slope 1
    }
  }
}

// -----

// More than a place has.
harmony.device @d0 index 0 capacity 256
nn.variable #nn.role<parameter> @w : tensor<8xf32>
harmony.home @host.w content tensor bytes 32 variables [@w] id 0 at 0
harmony.buffer @w.d of step on 0 content tensor 0 use -1 bytes 64 slots 1 stride 64 home @host.w live [0, 2] id 0 at 64
harmony.program @step kind step batch 1 {
  harmony.queue @in in on 0 period 0 {
    // expected-error @below {{touches 64 bytes at 0 of @host.w, which has 32}}
    harmony.swap_in @host.w to @w.d bytes 64 step 0 on 0 event 0
  }
}

// -----

harmony.device @d0 index 0 capacity 256
harmony.program @step kind step batch 1 {
  harmony.queue @in in on 0 period 0 {
    // expected-error @below {{uses @nothing, which is no place}}
    harmony.swap_in @nothing to @d0 bytes 64 step 0 on 0 event 0
  }
}

// -----

harmony.device @d0 index 0 capacity 256
harmony.program @step kind step batch 1 {
  harmony.queue @in in on 0 period 0 {
    // expected-error @below {{zeroes @d0, which is no harmony.buffer}}
    harmony.zero @d0 event 0
  }
}

// -----

harmony.device @d0 index 0 capacity 256
harmony.program @step kind step batch 1 {
  harmony.queue @in in on 0 period 0 {
    // expected-error @below {{frees @d0, which is no harmony.buffer with an address}}
    harmony.release @d0
  }
}

// -----

// Two microbatches of 2 samples from device to device through a ring of one slot, the second half of a batch of 8:
// the loads of the next microbatch wait for the copies, the copies for the stores.
harmony.device @d0 index 0 capacity 64
harmony.device @d1 index 1 capacity 64
harmony.input @x index 0 name "x" sample_bytes 8 : tensor<?x2xf32, #nn.batch<0, 1>>
harmony.home @host.x content value bytes 64 sample_bytes 8 variables [] id 0 at 0
harmony.buffer @x.d0 of step on 0 content value 0 use -1 from 4 bytes 16 slots 1 stride 16 home @x live [0, 1] id 0 at 0
harmony.buffer @x.d1 of step on 1 content value 0 use -1 from 4 bytes 16 slots 1 stride 16 home @host.x live [1, 2] id 1 at 0
harmony.program @step kind step batch 8 {
  harmony.queue @d0.in in on 0 period 2 {
    harmony.wait @d0.peer until 2 previous_step
    harmony.for 2 of "F0" {
      harmony.wait @d0.peer until 0 slope 1 from 1
      harmony.load_input @x to @x.d0 bytes 16 at 32 step 16 on 0 event 0
      harmony.signal 1 slope 1
    }
  }
  harmony.queue @d0.peer peer on 0 period 2 {
    harmony.wait @d1.out until 2 previous_step
    harmony.for 2 of "F0" {
      harmony.wait @d0.in until 1 slope 1
      harmony.wait @d1.out until 0 slope 1 from 1
      harmony.p2p @x.d0 to @x.d1 bytes 16 from 0 on 1 event 1
      harmony.signal 1 slope 1
    }
  }
  harmony.queue @d1.out out on 1 period 2 {
    harmony.for 2 of "F0" {
      harmony.wait @d0.peer until 1 slope 1
      harmony.swap_out @x.d1 to @host.x bytes 16 at 32 step 16 on 1 event 2
      harmony.signal 1 slope 1
    }
  }
}

// -----

// The copy does not wait for the slot that it writes.
harmony.device @d0 index 0 capacity 128
harmony.device @d1 index 1 capacity 64
harmony.input @x index 0 name "x" sample_bytes 8 : tensor<?x2xf32, #nn.batch<0, 1>>
harmony.home @host.x content value bytes 32 sample_bytes 8 variables [] id 0 at 0
harmony.buffer @x.d0 of step on 0 content value 0 use -1 bytes 16 slots 2 stride 64 home @x live [0, 1] id 0 at 0
harmony.buffer @x.d1 of step on 1 content value 0 use -1 bytes 16 slots 1 stride 16 home @host.x live [1, 2] id 1 at 0
harmony.program @step kind step batch 4 {
  harmony.queue @d0.in in on 0 period 2 {
    harmony.wait @d0.peer until 2 previous_step
    harmony.for 2 of "F0" {
      harmony.load_input @x to @x.d0 bytes 16 step 16 on 0 event 0
      harmony.signal 1 slope 1
    }
  }
  harmony.queue @d0.peer peer on 0 period 2 {
    harmony.wait @d0.in until 2
    harmony.for 2 of "F0" {
      harmony.p2p @x.d0 to @x.d1 bytes 16 from 0 on 1 event 1
      harmony.signal 1 slope 1
    }
  }
  harmony.queue @d1.out out on 1 period 2 {
    harmony.for 2 of "F0" {
      harmony.wait @d0.peer until 1 slope 1
      // expected-error @below {{reads microbatch 0 of @x.d1, where microbatch 1 lies}}
      harmony.swap_out @x.d1 to @host.x bytes 16 step 16 on 1 event 2
      harmony.signal 1 slope 1
    }
  }
}

// -----

// One microbatch of 4 samples is stored, two of 2 are loaded: every two wait for one. The second loop's are not there
// when the wait does not say so.
harmony.device @d0 index 0 capacity 256
harmony.input @x index 0 name "x" sample_bytes 8 : tensor<?x2xf32, #nn.batch<0, 1>>
harmony.home @host.x content value bytes 64 sample_bytes 8 variables [] id 0 at 0
harmony.buffer @x.4 of step on 0 content value 0 use -1 bytes 32 slots 2 stride 64 home @x live [0, 1] id 0 at 0
harmony.buffer @x.2 of step on 0 content value 0 use -1 bytes 16 slots 1 stride 16 home @host.x live [2, 2] id 1 at 128
harmony.program @step kind step batch 8 {
  harmony.queue @in in on 0 period 2 {
    harmony.wait @out until 2 previous_step
    harmony.for 2 of "F0" {
      harmony.load_input @x to @x.4 bytes 32 step 32 on 0 event 0
      harmony.signal 1 slope 1
    }
  }
  harmony.queue @out out on 0 period 2 {
    harmony.wait @in.lane1 until 4 previous_step
    harmony.for 2 of "F0" {
      harmony.wait @in until 1 slope 1
      harmony.swap_out @x.4 to @host.x bytes 32 step 32 on 0 event 1
      harmony.signal 1 slope 1
    }
  }
  harmony.queue @in.lane1 in on 0 period 4 {
    harmony.for 4 of "F1" {
      harmony.wait @out until 1 slope 1 every 2
      harmony.swap_in @host.x to @x.2 bytes 16 step 16 on 0 event 2
      harmony.signal 1 slope 1
    }
  }
}

// -----

harmony.device @d0 index 0 capacity 256
harmony.home @host.x content value bytes 64 sample_bytes 8 variables [] id 0 at 0
harmony.buffer @x.d of step on 0 content value 0 use -1 from 4 bytes 16 slots 1 stride 16 home @host.x live [0, 0] id 0 at 0
harmony.program @step kind step batch 8 {
  harmony.queue @in in on 0 period 0 {
    // expected-error @below {{begins at byte 16 of @host.x, but @x.d holds samples from 4 on, of 8 bytes each}}
    harmony.swap_in @host.x to @x.d bytes 16 at 16 step 0 on 0 event 0
  }
}

// -----

harmony.device @d0 index 0 capacity 256
harmony.input @x index 0 name "x" sample_bytes 8 : tensor<?x2xf32, #nn.batch<0, 1>>
harmony.buffer @x.d of step on 0 content value 0 use -1 from 4 bytes 16 slots 1 stride 16 home @x live [0, 0] id 0 at 0
harmony.program @step kind step batch 6 {
  harmony.queue @in in on 0 period 0 {
    harmony.for 2 of "F0" {
      // expected-error @below {{touches bytes [48, 64) of @x, which has 48}}
      harmony.load_input @x to @x.d bytes 16 at 32 step 16 on 0 event 0
    }
  }
}

// -----

harmony.device @d0 index 0 capacity 64
harmony.device @d1 index 1 capacity 64
harmony.device @d2 index 2 capacity 64
harmony.buffer @t0 of step on 0 content tensor 0 use -1 bytes 64 slots 1 stride 64 live [0, 1] id 0 at 0
harmony.buffer @t1 of step on 1 content tensor 0 use -1 bytes 64 slots 1 stride 64 live [0, 1] id 1 at 0
harmony.program @step kind step batch 1 {
  harmony.queue @q peer on 2 period 0 {
    // expected-error @below {{expects @t0 on device 2}}
    harmony.p2p @t0 to @t1 bytes 64 from 2 on 1 event 0
  }
}
