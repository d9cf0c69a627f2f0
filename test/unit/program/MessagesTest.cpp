//===- MessagesTest.cpp - What programs say and print ---------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/unit/program/Programs.h"

#include "mlir/Parser/Parser.h"

using namespace mlir;
using namespace harmony;
using namespace harmony::test;
using schedule::ProgramKind;

namespace {

class Messages : public Programs {
protected:
  /// The first error that `action` reports.
  template <typename Action>
  std::string errorOf(Action action) {
    std::string message;
    ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
      if (message.empty())
        message = diagnostic.str();
      return success();
    });
    EXPECT_TRUE(failed(action()));
    return message;
  }

  /// Builds the step's program after the module or model has been spoilt.
  template <typename Spoil>
  std::string buildError(Spoil spoil, ProgramKind kind = ProgramKind::step) {
    Model model = makeChain(kind == ProgramKind::step, {2});
    planner::SearchOptions options;
    options.layersPerPack = 5;
    planner::Plan planned = *plan(model, 1 << 20, options);
    OwningOpRef<ModuleOp> module = makeChainModule(&context, {2});
    spoil(*module, model, planned);
    return errorOf([&] { return buildProgram(*module, model, planned, kind); });
  }

  std::string emitError(const char *text) {
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module);
    return errorOf([&] { return emitProgram(*module, {}); });
  }
};

TEST_F(Messages, Building) {
  auto erase = [](StringRef name) {
    return [name](ModuleOp module, Model &, planner::Plan &) {
      module.lookupSymbol(name)->erase();
    };
  };
  // Of a message that ends in the planner's name of an event, the part before
  // its number.
  auto withoutEvent = [](const std::string &message) {
    return message.substr(0, message.rfind(" event "));
  };
  EXPECT_EQ(withoutEvent(buildError(erase("scale.u2"))),
            "has no task @scale.u2, which layer 'second' runs in");
  EXPECT_EQ(buildError(erase("update.momentum.uses2")),
            "has no task @update.momentum.uses2, which updates 'w1'");
  EXPECT_EQ(buildError(erase(prologueTaskName())),
            std::string("has no task @") + prologueTaskName() +
                ", which computes the denominators of 1 loss terms");
  EXPECT_EQ(buildError(erase("main")),
            "has no function @main whose arguments are the graph inputs");
  EXPECT_EQ(buildError(erase("w1.momentum")),
            "optimizer state @w1.momentum of 'w1' is no nn.variable");
  EXPECT_EQ(buildError([](ModuleOp, Model &, planner::Plan &plan) {
              for (planner::Home &home : plan.homes)
                if (home.kind == planner::HomeKind::State)
                  home.size = 32;
            }),
            "optimizer state of 'w0' takes 96 bytes, but the plan has 32");
  EXPECT_EQ(
      buildError([](ModuleOp module, Model &, planner::Plan &) {
        module.lookupSymbol("main")->erase();
        OwningOpRef<ModuleOp> other = parseSourceString<ModuleOp>(
            R"(func.func private @main(tensor<24x?xf32, #nn.batch<1, 2>> {nn.name = "x"}))",
            module.getContext());
        other->lookupSymbol("main")->moveBefore(module.getBody(),
                                                module.getBody()->begin());
      }),
      "input 'x' has its samples along axis 1, 2 indices to a sample; expected "
      "one along axis 0");
  EXPECT_EQ(buildError(
                [](ModuleOp, Model &, planner::Plan &plan) {
                  llvm::erase_if(plan.homes, [](const planner::Home &home) {
                    return home.kind == planner::HomeKind::Value;
                  });
                },
                ProgramKind::evaluate),
            "output 'v3' has no home in the evaluation plan");
  EXPECT_EQ(withoutEvent(buildError([](ModuleOp, Model &, planner::Plan &plan) {
              for (planner::Buffer &buffer : plan.buffers)
                if (buffer.content == planner::Content::Saved)
                  buffer.object = 4;
            })),
            "the plan has no buffer for slot saved 0 of task @first.u2 at");
  EXPECT_EQ(withoutEvent(buildError([](ModuleOp, Model &, planner::Plan &plan) {
              for (planner::Buffer &buffer : plan.buffers)
                if (buffer.content == planner::Content::Scalar) {
                  buffer.content = planner::Content::Workspace;
                  buffer.object = 0;
                }
            })),
            "the plan has no buffer for what is zeroed at");
}

TEST_F(Messages, Emitting) {
  EXPECT_EQ(emitError(R"(
    harmony.device @d0 index 0 capacity 64
    harmony.buffer @b of step on 0 content gradient 0 use 0 bytes 4 slots 1 stride 4 live [0, 0] id 0 at 0
    harmony.program @step kind step batch 1 { harmony.zero @b event 0 }
  )"),
            "'harmony.zero' op stands in no queue: schedule queues first");
  EXPECT_EQ(emitError(R"(
    harmony.program @step kind step batch 1 {}
    harmony.program @again kind step batch 1 {}
  )"),
            "'harmony.program' op is the second program of kind step");
  EXPECT_EQ(emitError(R"(
    harmony.buffer @b of step on 0 content gradient 0 use 0 bytes 4 slots 1 stride 4 live [0, 0] id 0
    harmony.program @step kind step batch 1 { harmony.queue @q compute on 0 period 0 { harmony.zero @b event 0 } }
  )"),
            "'harmony.zero' op uses @b, which has no address: assign addresses "
            "first");
  EXPECT_EQ(emitError(R"(
    harmony.program @step kind step batch 1 { harmony.queue @q compute on 0 period 0 { harmony.zero @b event 0 } }
  )"),
            "'harmony.zero' op uses @b, which is no harmony.buffer");
  EXPECT_EQ(emitError(R"(
    harmony.home @h content tensor bytes 4 variables [] id 0 at 0
    harmony.program @step kind step batch 1 {
      harmony.queue @q in on 0 period 0 { harmony.swap_in @h to @b bytes 4 step 0 on 0 event 0 }
    }
  )"),
            "'harmony.swap_in' op uses @b, which is no place");
  EXPECT_EQ(emitError("nn.variable #nn.role<parameter> @w : tensor<4xf32>"),
            "'nn.variable' op has no home in the host store");
  EXPECT_EQ(emitError("nn.variable #nn.role<parameter> @w : tensor<4xi16>"),
            "'nn.variable' op has element type 'i16', which programs do not "
            "know; accepted are f16, bf16, f32, f64, i1, "
            "i8, ui8, i32, i64");
  EXPECT_EQ(emitError(R"(
    nn.variable #nn.role<constant> @c : tensor<4xf32> = #nn.file<"a", 0, 16>
    harmony.home @h content tensor bytes 16 variables [@c] id 0 at 0
  )"),
            "'nn.variable' op is a constant whose value #nn.file<\"a\", 0, 16> "
            "is no dense elements attribute");
  EXPECT_EQ(
      emitError(
          R"(harmony.output "y" in @h sample_bytes 4 : tensor<?xf32, #nn.batch<0, 1>>)"),
      "'harmony.output' op lies in @h, which is no harmony.home with an "
      "address");
  EXPECT_EQ(
      emitError("harmony.loss step @n over @d scale 1.0"),
      "'harmony.loss' op refers to what is no harmony.home with an address");
}

/// Two microbatches of 2 samples through a ring of two slots, a product, an
/// update on the host.
TEST_F(Messages, Dump) {
  const char *text = R"(
    nn.variable #nn.role<parameter> @w : tensor<2x2xf32>
    nn.variable #nn.role<constant> @c : tensor<3xi1> = dense<[true, false, true]> : tensor<3xi1>
    harmony.device @d0 index 0 capacity 256
    harmony.input @x index 0 name "x" sample_bytes 8 : tensor<?x2xf32, #nn.batch<0, 1>>
    harmony.input @ids index 1 name "ids" sample_bytes 8 range [0, 9] ignored -1 : tensor<?xi64, #nn.batch<0, 1>>
    harmony.scalar @lr index 0 kind 0 variable @rate
    harmony.home @host.w content tensor bytes 16 variables [@w] id 0 at 0
    harmony.home @host.c content tensor bytes 3 variables [@c] id 1 at 64
    harmony.home @host.g content gradient bytes 16 variables [] id 2 at 128
    harmony.buffer @x.d of step on 0 content value 0 use -1 bytes 16 slots 2 stride 64 home @x live [0, 1] id 0 at 0
    harmony.buffer @g of step on 0 content gradient 0 use 0 bytes 16 slots 1 stride 16 live [0, 2] id 1 at 128
    harmony.task @l slots [#harmony.slot<argument 0, 16>, #harmony.slot<gradient 0, 16>] {
      harmony.gemm [#harmony.ref<0 + 0, 16, r>, #harmony.ref<0 + 0, 16, r>, #harmony.ref<1 + 0, 16, rw>]
        shape [2, 2, 2] leading [2, 2, 2] batch [1, 1, 1] strides [0, 0, 0], [0, 0, 0], [0, 0, 0] block [2, 1] accumulate
    }
    harmony.task @u slots [#harmony.slot<parameter 0, 16>, #harmony.slot<gradient 0, 16>, #harmony.slot<scalar 0, 4>] {
      harmony.launch @sgd [#harmony.ref<0 + 0, 16, rw>, #harmony.ref<1 + 0, 16, r>, #harmony.ref<2 + 0, 4, r>]
        extent 4 grain 2 family update
    }
    harmony.loss step @host.g over @host.w scale 0.5
    harmony.output "y" in @host.g sample_bytes 4 : tensor<?xf32, #nn.batch<0, 1>>
    harmony.program @step kind step batch 4 {
      harmony.queue @d0.in in on 0 period 2 {
        harmony.for 2 of "F0" {
          harmony.wait @d0.compute until -1 slope 1 from 2
          harmony.load_input @x to @x.d bytes 16 step 16 on 0 event 0
          harmony.signal 1 slope 1
        }
      }
      harmony.queue @d0.compute compute on 0 period 3 {
        harmony.zero @g event 1
        harmony.signal 1
        harmony.for 2 of "F0" {
          harmony.wait @d0.in until 1 slope 1
          harmony.run forward @l at [#harmony.at<@x.d>, #harmony.at<@g>] layer 0 label "fc" event 2
          harmony.signal 2 slope 1
        }
      }
      harmony.queue @d0.out out on 0 period 1 {
        harmony.wait @host until 1 previous_step
        harmony.wait @d0.compute until 3
        harmony.swap_out @g to @host.g bytes 16 step 0 on 0 event 3
        harmony.release @g
        harmony.signal 1
      }
      harmony.queue @host host on -1 period 1 {
        harmony.wait @d0.out until 1
        harmony.update @w by @u at [#harmony.at<@host.w>, #harmony.at<@host.g>, #harmony.at<@lr>] on -1 event 4
        harmony.signal 1
      }
    }
  )";
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
  ASSERT_TRUE(module);
  ProgramInfo info;
  info.model = "m.onnx";
  info.compiler = "harmonyc 0";
  info.numericsKey = "key";
  info.libraryBytes = 7;
  FailureOr<EmittedProgram> program = emitProgram(*module, info);
  ASSERT_TRUE(succeeded(program));
  EXPECT_EQ(program->kernels, std::vector<std::string>{"sgd"});
  EXPECT_EQ(dumpProgram(program->blob), R"(program of m.onnx, harmonyc 0
numerics key key
host 192 batch 128 dump 64 scalars 1 constants 3
device 0 capacity 144 peak 144 evaluate peak 0 library 7
variable w parameter f32[2, 2] at 0 gradient 0
variable c constant bool[3] at 64 initial 0
input x f32[0, 2] at 0 sample 8 used by 2
input ids i64[0] at 64 sample 8 in [0, 9) or -1 used by 0
output y f32[0] at 128 sample 4
loss of program 1: 5.000000e-01 * @128 / @0
scalar 0 kind 0
kernel 0 gemm 2x2x2 product 0 family 0
kernel 1 sgd function 0 family 6
program step batch 4 traffic in 0 out 16 peer 0 input 32 output 0
  queue d0.in period 2
    loop 2 'F0'
      wait d0.compute >= -1 + 1i from 2
      copy input device0[0 + i%2*64, 16]w batch[0 + i*16, 16]r 'x.d' event 0 signal
    end
  queue d0.compute period 3
    fill 0 device0[128, 16]w 'g' event 1 signal
    loop 2 'F0'
      wait d0.in >= 1 + 1i
      launch kernel 0 over 2 by 1 device0[0 + i%2*64, 16]r device0[0 + i%2*64, 16]r device0[128, 16]rw 'fc: gemm' event 2 signal
    end
  queue d0.out period 1
    wait host >= 0
    wait d0.compute >= 3
    copy swap out host[128, 16]w device0[128, 16]r 'g' event 3
    release device0[128, 16]w 'g' signal
  queue host period 1
    wait d0.out >= 1
    copy output dump[0, 16]w host[128, 16]r 'gradient of w' event 4
    launch kernel 1 over 4 by 2 host[0, 16]rw host[128, 16]r scalars[0, 4]r 'w: sgd' event 4 signal
)");
}

/// Four microbatches of 2 samples on device 0 are one of 8 on device 1.
TEST_F(Messages, DumpOfTwoDevices) {
  const char *text = R"(
    harmony.device @d0 index 0 capacity 256
    harmony.device @d1 index 1 capacity 256
    harmony.resource @port bytes_per_second 2.0e+09
    harmony.link from 0 to 1 bytes_per_second 1.0e+09 latency 1.0e-06 shares [@port]
    harmony.link from -1 to 0 bytes_per_second 3.0e+09 latency 0.0 shares []
    harmony.home @host.v content value bytes 128 sample_bytes 8 variables [] id 0 at 0
    harmony.buffer @a of step on 0 content value 0 use -1 from 8 bytes 16 slots 2 stride 64 home @host.v live [0, 1] id 0 at 0
    harmony.buffer @b of step on 1 content value 0 use -1 from 8 bytes 16 slots 4 stride 64 home @host.v live [1, 2] id 1 at 0
    harmony.task @t slots [#harmony.slot<argument 0, 16>] {
      harmony.fill #harmony.ref<0 + 0, 16, w> value 1
      harmony.launch @k [#harmony.ref<0 + 0, 16, r>] extent 4 grain 2 family row
      harmony.launch @k [#harmony.ref<0 + 0, 16, r>] extent 4 grain 2 family row
    }
    harmony.program @step kind step batch 16 {
      harmony.queue @d0.in in on 0 period 4 {
        harmony.for 4 of "F0" {
          harmony.swap_in @host.v to @a bytes 16 at 64 step 16 on 0 event 0
          harmony.signal 1 slope 1
        }
      }
      harmony.queue @d0.peer peer on 0 period 4 {
        harmony.for 4 of "F0" {
          harmony.wait @d1.compute until -3 slope 2 every 4 from 4
          harmony.p2p @a to @b bytes 16 from 0 on 1 event 1
          harmony.signal 1 slope 1
        }
      }
      harmony.queue @d1.compute compute on 1 period 1 {
        harmony.run forward @t at [#harmony.at<@b>] layer 0 label "fc" event 2 {seconds = 2.0e-03 : f64}
        harmony.signal 1
      }
    }
  )";
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
  ASSERT_TRUE(module);
  FailureOr<EmittedProgram> program = emitProgram(*module, {});
  ASSERT_TRUE(succeeded(program));
  std::string dump = dumpProgram(program->blob);
  EXPECT_EQ(dump.substr(dump.find("device 0")),
            R"(device 0 capacity 80 peak 80 evaluate peak 0 library 0
device 1 capacity 208 peak 208 evaluate peak 0 library 0
resource port 2e+09 B/s
link 0 to 1 1e+09 B/s latency 1e-06 shares 0
link -1 to 0 3e+09 B/s latency 0
kernel 0 k function 0 family 2
program step batch 16 traffic in 64 out 0 peer 64 input 0 output 0
  queue d0.in period 4
    loop 4 'F0'
      copy swap in device0[0 + i%2*64, 16]w host[64 + i*16, 16]r 'a' event 0 signal
    end
  queue d0.peer period 4
    loop 4 'F0'
      wait d1.compute >= -3 + 2i/4 from 4
      copy peer device1[0 + i%4*64, 16]w device0[0 + i%2*64, 16]r 'b' event 1 signal
    end
  queue d1.compute period 1
    fill 1 device1[0, 16]w 'fc: fill' event 2
    launch kernel 0 over 4 by 2 device1[0, 16]r 'fc: k' event 2 takes 0.002
    launch kernel 0 over 4 by 2 device1[0, 16]r 'fc: k' event 2 signal
)");
}

} // namespace
