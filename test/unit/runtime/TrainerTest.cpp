//===- TrainerTest.cpp - Whole runs of a hand-made model ------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/drivers/host/LibraryScratch.h"
#include "runtime/engine/Blob.h"
#include "runtime/train/Log.h"
#include "test/unit/runtime/TrainerFixture.h"

#include <cmath>
#include <csignal>
#include <filesystem>
#include <limits>

namespace harmony::runtime {
namespace {

using namespace test;
using Json = nlohmann::json;

TEST_F(TrainerTest, TrainsLogsDumpsAndSaves) {
  std::string saved = folder / "w.safetensors",
              gradients = folder / "g.safetensors";
  for (std::vector<std::string> mode : {std::vector<std::string>{},
                                        {"--chunk", "1"},
                                        {"--poison"},
                                        {"--paranoid", "--poison"},
                                        {"--threads", "5"}}) {
    std::vector<std::string> flags = {
        "--data", data(),         "--steps", "5",     "--save",
        saved,    "--dump-grads", gradients, "--log", folder / "log.jsonl"};
    flags.insert(flags.end(), mode.begin(), mode.end());
    ASSERT_EQ(run(flags), 0) << message;
    std::vector<double> losses;
    EXPECT_EQ(weights(saved), train(5, &losses));
    EXPECT_EQ(weights(gradients), (std::vector<float>{0.5, 0.5, 0.5}));
    std::vector<Json> rows = log();
    ASSERT_EQ(rows.size(), 5u);
    for (size_t i = 0; i < 5; ++i) {
      EXPECT_EQ(rows[i]["step"], i + 1);
      EXPECT_DOUBLE_EQ(rows[i]["loss"], losses[i]);
      EXPECT_EQ(rows[i]["lr"], 0.5);
      EXPECT_EQ(rows[i]["swap_in_bytes"], 0);
      EXPECT_EQ(rows[i]["input_bytes"], 24);
      EXPECT_EQ(rows[i]["peak_bytes"], Json::array({196}));
    }
  }
  EXPECT_EQ(SafetensorsFile(saved).metadata().at("fingerprint"), "f00d");
}

TEST_F(TrainerTest, HostileOrdersTrainAlike) {
  std::string saved = folder / "w.safetensors";
  for (const char *seed : {"0", "1", "2", "18446744073709551615"}) {
    ASSERT_EQ(run({"--data", data(), "--steps", "5", "--save", saved,
                   "--adversarial", seed}),
              0)
        << message;
    EXPECT_EQ(weights(saved), train(5));
    EXPECT_NE(text.find(std::string("adversarial order, seed ") + seed),
              std::string::npos);
  }
}

TEST_F(TrainerTest, NegativeControlsAreNumberedAndShow) {
  ASSERT_EQ(run({"--count-waits"}), 0) << message;
  EXPECT_EQ(text,
            "waits 4\n"
            "wait 0: queue 'd0.in' command 0 for 'd0.compute'\n"
            "wait 1: queue 'd0.compute' command 0 for 'd0.in'\n"
            "wait 2: queue 'd0.compute' command 1 for 'd0.out'\n"
            "wait 3: queue 'd0.out' command 0 for 'd0.compute'\n"
            "releases 1\n"
            "release 0: queue 'd0.compute' command 4 read by command 3\n");
  std::string saved = folder / "w.safetensors";
  std::vector<std::string> flags = {"--data", data(),   "--steps",
                                    "1",      "--save", saved};
  auto with = [&](std::vector<std::string> more) {
    std::vector<std::string> all = flags;
    all.insert(all.end(), more.begin(), more.end());
    return run(all);
  };
  // Compute goes first and reads poison.
  bool shown = false;
  for (int seed = 0; seed < 20 && !shown; ++seed)
    shown = with({"--drop-wait", "1", "--adversarial", std::to_string(seed)}) ==
            static_cast<int>(ExitCode::NotFinite);
  EXPECT_TRUE(shown);
  ASSERT_EQ(with({"--drop-wait", "0", "--adversarial", "3"}), 0);
  EXPECT_EQ(weights(saved), train(1));
  // Gradients are made of poison; the loss was there before.
  EXPECT_EQ(with({"--early-release", "0"}), 5);
  EXPECT_EQ(message,
            "after step 1 parameter 'w' is not finite; nothing was saved");
  EXPECT_NE(text.find("release 0 comes too early"), std::string::npos);
  EXPECT_EQ(with({"--drop-wait", "4"}), 2);
  EXPECT_EQ(with({"--late-wait", "4"}), 2);
  ASSERT_EQ(with({"--late-wait", "3"}), 0) << message;
  EXPECT_NE(text.find("wait 3 is late"), std::string::npos);
  EXPECT_EQ(weights(saved), train(1));
}

TEST(Log, LinesHaveTheRateSinceTheLineBefore) {
  Traffic traffic{};
  std::vector<int64_t> peaks;
  StepRecord record;
  record.traffic = &traffic;
  record.peaks = &peaks;
  record.samples = 600000;
  testing::internal::CaptureStdout();
  {
    Log log("", 60);
    for (double seconds : {2.0, 0.1, 1.9, 600000.0}) {
      ++record.step;
      record.seconds = seconds;
      log.step(record);
    }
    record.step = 60;
    log.step(record);
  }
  EXPECT_EQ(testing::internal::GetCapturedStdout(),
            "step 1/60  loss 0  lr 0  300000 samples/s\n"
            "step 3/60  loss 0  lr 0  600000 samples/s\n"
            "step 60/60  loss 0  lr 0  1 samples/s\n");
}

TEST_F(TrainerTest, VirtualTimeIsMarked) {
  builder.link(HM_HOST_ENDPOINT, 0, 12, 0.5);
  builder.link(0, HM_HOST_ENDPOINT, 4, 0);
  ASSERT_EQ(run({"--data", data(), "--steps", "2", "--virtual-time", "--log",
                 folder / "log.jsonl", "--trace", folder / "trace.json"}),
            0)
      << message;
  EXPECT_NE(text.find("times are virtual"), std::string::npos) << text;
  EXPECT_NE(text.find("virtual samples/s"), std::string::npos) << text;
  // 24 bytes in: 2.5 s; 4 bytes out: 1 s, beside the next step's input.
  std::vector<double> seconds;
  for (const Json &row : log()) {
    seconds.push_back(row["step_s"]);
    EXPECT_EQ(row["samples_per_s"], row["step_s"] == 3.5 ? 0.571428571 : 0.8);
    EXPECT_EQ(row["virtual"], true);
  }
  EXPECT_EQ(seconds, (std::vector<double>{3.5, 2.5}));
  Json trace = Json::parse(readFile(folder / "trace.json"));
  EXPECT_EQ(trace["otherData"]["virtual"], true);
  int inputs = 0;
  for (const Json &e : trace["traceEvents"])
    if (e.value("cat", "") == "input") {
      ++inputs;
      EXPECT_EQ(e["dur"], 2.5e6);
      EXPECT_EQ(e["args"]["bytes"], 24);
    }
  EXPECT_EQ(inputs, 2);
}

TEST_F(TrainerTest, LinksAreEnforced) {
  builder.link(HM_HOST_ENDPOINT, 0, 1e6, 0.02);
  builder.link(0, HM_HOST_ENDPOINT, 1e6, 0.03);
  ASSERT_EQ(run({"--data", data(), "--steps", "3", "--enforce-links", "--log",
                 folder / "log.jsonl"}),
            0)
      << message;
  // A step's result is copied beside the next one's input.
  double sum = 0;
  for (const Json &row : log()) {
    sum += row["step_s"].get<double>();
    EXPECT_EQ(row.count("virtual"), 0u);
  }
  EXPECT_GE(sum, 0.05 + 2 * 0.03);
}

TEST_F(TrainerTest, NoStepsSaveTheInitialWeights) {
  EXPECT_EQ(run({"--steps", "0", "--save", folder / "w"}), 0) << message;
  EXPECT_EQ(weights(folder / "w"), (std::vector<float>{1, 2, 3}));
  writeWeights(folder / "other", {4, 5, 6}, "another");
  EXPECT_EQ(run({"--steps", "0", "--init-from", folder / "other", "--save",
                 folder / "w"}),
            0);
  EXPECT_EQ(weights(folder / "w"), (std::vector<float>{4, 5, 6}));
}

TEST_F(TrainerTest, WhereItCannotSaveItDoesNotTrain) {
  std::string none = folder / "none/w";
  EXPECT_EQ(run({"--data", data(), "--steps", "2", "--save", none}), 1);
  EXPECT_NE(message.find(none + ": cannot be written"), std::string::npos)
      << message;
  EXPECT_EQ(text.find("step 1/2"), std::string::npos) << text;
  EXPECT_EQ(run({"--data", data(), "--steps", "2", "--save", folder / "."}), 1);
  EXPECT_NE(message.find("is a folder, expected a file"), std::string::npos)
      << message;
}

TEST_F(TrainerTest, EpochsDropTheLastSamplesAndSaySo) {
  EXPECT_EQ(run({"--data", data(), "--epochs", "3", "--save", folder / "w"}), 0)
      << message;
  EXPECT_EQ(weights(folder / "w"), train(6));
  EXPECT_NE(text.find("6 steps of 2 samples"), std::string::npos) << text;
  EXPECT_NE(text.find("1 of 5 samples do not fill a batch"), std::string::npos)
      << text;
}

TEST_F(TrainerTest, ShuffledRunsRepeat) {
  args = {"--lr",     "0.5", "--data", data(),
          "--epochs", "4",   "--save", folder / "w"};
  EXPECT_EQ(run({"--seed", "3"}), 0);
  std::vector<float> first = weights(folder / "w");
  EXPECT_EQ(run({"--seed", "3", "--threads", "3"}), 0);
  EXPECT_EQ(weights(folder / "w"), first);
  EXPECT_EQ(run({"--seed", "4"}), 0);
  EXPECT_NE(weights(folder / "w"), first);
}

TEST_F(TrainerTest, EvaluatesWithoutDisturbingTheTraining) {
  EXPECT_EQ(
      run({"--data", data(), "--steps", "5", "--val", data(), "--eval-every",
           "2", "--metric", "accuracy:scores,labels", "--outputs", folder / "o",
           "--log", folder / "log.jsonl", "--save", folder / "w"}),
      0)
      << message;
  EXPECT_EQ(weights(folder / "w"), train(5));
  std::vector<Json> rows = log();
  ASSERT_EQ(rows.size(), 8u); // five steps, evaluations after 2, 4 and 5
  std::vector<float> w = train(5), scores = weights(folder / "o", "scores");
  ASSERT_EQ(scores.size(), 10u);
  double loss = 0;
  int correct = 0;
  for (int i = 0; i < 5; ++i) {
    float expected =
        w[0] * samples[i][0] + w[1] * samples[i][1] + w[2] * samples[i][2];
    EXPECT_FLOAT_EQ(scores[2 * i], expected);
    loss += i < 4 ? expected / 4 : 0; // whole batches
    correct += (expected >= 0 ? 0 : 1) == i % 2;
  }
  EXPECT_FLOAT_EQ(rows[7]["eval_loss"], loss);
  EXPECT_EQ(rows[7]["eval_samples"], 5);
  EXPECT_DOUBLE_EQ(rows[7]["accuracy"], correct / 5.0);
  EXPECT_FALSE(rows[7].contains("loss"));
  EXPECT_NE(text.find("(whole batches: 4 samples)"), std::string::npos) << text;
}

TEST_F(TrainerTest, EvaluatesAlone) {
  args.clear();
  EXPECT_EQ(run({"--eval-only", "--val", data(), "--paranoid"}), 0) << message;
  EXPECT_NE(text.find("evaluation after step 0, 5 samples:  loss"),
            std::string::npos)
      << text;
  EXPECT_EQ(run({"--eval-only"}), 2);
  EXPECT_EQ(run({"--eval-only", "--val", data(), "--metric",
                 "accuracy:logits,labels"}),
            2);
  EXPECT_NE(message.find("no output 'logits'; outputs: scores"),
            std::string::npos)
      << message;
}

TEST_F(TrainerTest, AllocatesNothingAfterTheFirstStep) {
  if (!haveAllocationHooks())
    GTEST_SKIP() << "this build has no allocation hooks";
  builder.link(HM_HOST_ENDPOINT, 0, 1e9, 0);
  builder.link(0, HM_HOST_ENDPOINT, 1e9, 0);
  for (std::vector<std::string> mode : {std::vector<std::string>{},
                                        {"--adversarial", "4"},
                                        {"--virtual-time"},
                                        {"--enforce-links"},
                                        {"--trace", folder / "trace.json"}}) {
    std::vector<std::string> flags = {"--data",
                                      data(),
                                      "--steps",
                                      "200",
                                      "--log",
                                      folder / "log.jsonl",
                                      "--count-allocations"};
    flags.insert(flags.end(), mode.begin(), mode.end());
    EXPECT_EQ(run(flags), 0) << message;
    EXPECT_NE(text.find("allocations after the first step: 0"),
              std::string::npos)
        << text;
  }
  functions[LinearForward] = [](void *const *b, int64_t begin, int64_t end) {
    void *volatile block =
        malloc(100); // volatile: else both calls are optimised away
    free(block);
    harmony_kernels[LinearForward](b, begin, end);
  };
  EXPECT_EQ(run({"--data", data(), "--steps", "20", "--count-allocations"}),
            70);
}

TEST_F(TrainerTest, ARateThatIsTooLargeIsBlamedOnTheWeights) {
  args = {"--no-shuffle", "--momentum", "0", "--lr", "3e38"};
  writeData({{4, 4, 4}, {4, 4, 4}}, {0, 1});
  EXPECT_EQ(run({"--data", data(), "--steps", "5", "--save", folder / "w"}), 5);
  EXPECT_NE(message.find("the first parameter that is not finite is 'w'; a "
                         "smaller --lr may help; nothing was saved"),
            std::string::npos)
      << message;
}

TEST_F(TrainerTest, FilesOfTheUserAreKept) {
  auto refused = [&](const std::vector<std::string> &flags,
                     const std::string &part) {
    std::vector<std::string> all = {"--data", data(), "--steps", "1"};
    all.insert(all.end(), flags.begin(), flags.end());
    EXPECT_EQ(run(all), 2);
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  refused({"--save", data()},
          "--save " + data() + ": is a file that the run reads");
  refused({"--save", folder / "w", "--trace", folder / "./w"},
          "is the file of --save");
  refused({"--log", executable}, "--log " + executable + ": is a file that");
  // A log is kept beside the new one, and a weights file is replaced at the
  // end alone.
  writeFile(folder / "log.jsonl", "before\n");
  writeFile(folder / "w", "before");
  writeData({{1, 2, 3}, {1, 2, 3}}, {0, 2});
  EXPECT_EQ(run({"--data", data(), "--steps", "1", "--save", folder / "w",
                 "--log", folder / "log.jsonl"}),
            4);
  EXPECT_EQ(readFile(folder / "log.jsonl.old"), "before\n");
  EXPECT_EQ(readFile(folder / "w"), "before");
  EXPECT_EQ(run({"--steps", "0", "--save", "/dev/full"}), 1);
  EXPECT_EQ(message, "/dev/full: writing failed: No space left on device");
  EXPECT_EQ(run({"--steps", "0", "--save", "/dev/null"}), 0) << message;
  std::filesystem::create_symlink("w", folder / "link");
  EXPECT_EQ(run({"--steps", "0", "--save", folder / "link"}), 0) << message;
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(weights(folder / "w"), (std::vector<float>{1, 2, 3}));
}

TEST_F(TrainerTest, ALossThatIsNotFiniteEndsTheRun) {
  std::vector<std::array<float, 3>> bad = samples;
  bad[2][1] = std::numeric_limits<float>::infinity();
  writeData(bad, {0, 1, 0, 1, 0});
  EXPECT_EQ(run({"--data", data(), "--steps", "5", "--log",
                 folder / "log.jsonl", "--save", folder / "w"}),
            5);
  EXPECT_EQ(message, "the loss of step 2 is inf: " + data() +
                         ": 'x' sample 2 element 1 is inf; nothing was saved");
  std::vector<Json> rows = log();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_TRUE(rows[1]["loss"].is_null());
  EXPECT_FALSE(std::filesystem::exists(folder / "w"));
}

TEST_F(TrainerTest, TheTextHasNoSignOfNaN) {
  std::vector<std::array<float, 3>> bad = samples;
  bad[2][1] = -std::numeric_limits<float>::quiet_NaN();
  writeData(bad, {0, 1, 0, 1, 0});
  EXPECT_EQ(run({"--data", data(), "--steps", "5"}), 5);
  EXPECT_NE(message.find("the loss of step 2 is nan"), std::string::npos)
      << message;
  EXPECT_NE(text.find("step 2/5  loss nan"), std::string::npos) << text;
}

TEST_F(TrainerTest, SaysThatWeightsAreNotKept) {
  const char *note = "the trained weights are not kept: --save FILE keeps them";
  EXPECT_EQ(run({"--data", data(), "--steps", "1"}), 0) << message;
  EXPECT_NE(text.find(note), std::string::npos) << text;
  EXPECT_EQ(run({"--data", data(), "--steps", "1", "--save", folder / "w"}), 0);
  EXPECT_EQ(text.find(note), std::string::npos) << text;
  EXPECT_EQ(run({"--data", data(), "--steps", "0"}), 0);
  EXPECT_EQ(text.find(note), std::string::npos) << text;
}

TEST_F(TrainerTest, AGradientThatIsNotFiniteIsNamed) {
  functions[LinearGradient] = [](void *const *b, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      static_cast<float *>(b[1])[4 * i] = NAN;
  };
  EXPECT_EQ(
      run({"--data", data(), "--steps", "5", "--dump-grads", folder / "g"}), 5);
  EXPECT_NE(message.find("the gradient of 'w' in step 1 is not finite"),
            std::string::npos);
}

TEST_F(TrainerTest, ASignalFinishesTheStepAndSaves) {
  static int calls;
  for (int number : {SIGINT, SIGTERM}) {
    calls = 0;
    if (number == SIGINT)
      functions[LinearForward] = [](void *const *b, int64_t begin,
                                    int64_t end) {
        if (++calls == 3)
          kill(getpid(), SIGINT);
        harmony_kernels[LinearForward](b, begin, end);
      };
    else
      functions[LinearForward] = [](void *const *b, int64_t begin,
                                    int64_t end) {
        if (++calls == 3)
          kill(getpid(), SIGTERM);
        harmony_kernels[LinearForward](b, begin, end);
      };
    EXPECT_EQ(run({"--data", data(), "--steps", "100", "--save", folder / "w"}),
              128 + number);
    // The fourth may have begun.
    bool third = text.find("signal after step 3") != std::string::npos;
    bool fourth = text.find("signal after step 4") != std::string::npos;
    EXPECT_TRUE(third || fourth) << text;
    EXPECT_EQ(weights(folder / "w"), train(third ? 3 : 4));
  }
}

TEST_F(TrainerTest, TheRunIsComparedWithThePlan) {
  tamper = [](HmHeader &header) {
    header.programs[HM_PROGRAM_STEP].traffic[HM_TRAFFIC_INPUT] += 8;
  };
  EXPECT_EQ(run({"--data", data(), "--steps", "2"}), 70);
  EXPECT_EQ(
      message,
      "the run differs from its plan: step, input traffic over 2 executions "
      "measured 48 bytes, the plan says 64");
  tamper = [](HmHeader &header) {
    auto *devices = reinterpret_cast<HmDevice *>(
        reinterpret_cast<char *>(&header) + header.devices.offset);
    devices[0].peak = 200;
  };
  EXPECT_EQ(run({"--data", data(), "--steps", "2"}), 70);
  EXPECT_EQ(message, "the run differs from its plan: step, peak of device 0 "
                     "measured 196 bytes, "
                     "the plan says 200");
}

TEST_F(TrainerTest, WeightsThatDoNotFitAreRefused) {
  auto problem = [&] {
    EXPECT_EQ(run({"--steps", "0"}), 4);
    return message;
  };
  std::string path = executable + HM_WEIGHTS_SUFFIX;
  writeWeights(path, {1, 2, 3}, "beef");
  EXPECT_NE(problem().find("fingerprint is beef, this executable's is f00d"),
            std::string::npos);
  float four[4] = {};
  writeSafetensors(path, {arrayOf("w", HM_F32, {4}, four)},
                   {{HM_FINGERPRINT_KEY, "f00d"}});
  EXPECT_EQ(problem(), path + ": these are not the weights of this model; of "
                              "another kind: 'w' is f32 [4], expected f32 "
                              "[3]");
  writeSafetensors(path, {arrayOf("v", HM_F32, {3}, four)},
                   {{HM_FINGERPRINT_KEY, "f00d"}});
  EXPECT_EQ(problem(), path + ": these are not the weights of this model; "
                              "missing: 'w' f32 [3]; in the file and not in "
                              "the model: 'v'");
  std::filesystem::remove(path);
  EXPECT_EQ(problem(), path + ": No such file or directory");
}

TEST_F(TrainerTest, DataErrorsInTheMiddleEndTheRun) {
  writeData(samples, {0, 1, 0, 2, 0});
  EXPECT_EQ(run({"--data", data(), "--steps", "1"}), 0) << message;
  EXPECT_EQ(run({"--data", data(), "--steps", "2"}), 4);
  EXPECT_EQ(message,
            data() +
                ": 'labels' sample 3 element 0 is 2, accepted range is [0, 2)");
  writeData({{1, 2, 3}}, {0});
  EXPECT_EQ(run({"--data", data(), "--steps", "2"}), 4);
  EXPECT_EQ(message, "the data has 1 samples, one batch needs 2: give more, or "
                     "compile with a smaller --batch");
}

TEST_F(TrainerTest, Flags) {
  auto refused = [&](const std::vector<std::string> &flags, const char *part) {
    EXPECT_EQ(run(flags), 2);
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  refused({"--resume"}, "--resume");
  refused({"--clip-grad-norm", "1"}, "--clip-grad-norm");
  refused({}, "no training data");
  refused({"--synthetic"}, "give --steps N");
  refused({"--data", data(), "--synthetic"}, "exclude each other");
  refused({"--data", data(), "--steps", "3", "--epochs", "2"}, "--steps");
  refused({"--data", data(), "--beta1", "0.5"},
          "--beta1 is not accepted: the optimizer is sgd");
  refused({"--data", data(), "--weight-decay", "-1"}, "accepted range is [0");
  refused({"--data", data(), "--steps", "-2"}, "--steps");
  refused({"--data", data(), "--virtual-time"}, "--virtual-time needs links");
  refused({"--data", data(), "--virtual-time", "--adversarial", "1"},
          "exclude each other");
  refused({"--data", data(), "--adversarial", "x"}, "--adversarial");
  refused({"--data", data(), "--adversarial", "-3"},
          "'-3' is not accepted: a whole number from 0 to 2^64 - 1 is");
  refused({"--data", data(), "--seed", "-1"}, "'-1' is not accepted");
  refused({"--data", data(), "--metric", "f1"}, "accuracy:OUTPUT,LABELS");
  refused({"--data", data(), "--metric", "accuracy:scores,labels"},
          "give --val");
  refused({"--data", data(), "--lr-schedule", "cosine", "--steps", "4",
           "--warmup", "4"},
          "leaves none of 4 steps");
  builder.header.optimizer = HM_OPTIMIZER_GRAPH;
  refused({"--data", data()},
          "--lr is not accepted: the optimizer is the training graph's own");
  builder.header.optimizer = HM_OPTIMIZER_SGD;

  args.clear();
  EXPECT_EQ(run({"--help"}), 0);
  EXPECT_NE(text.find("--lr X=0.01"), std::string::npos) << text;
  EXPECT_NE(text.find("--adversarial SEED"), std::string::npos);
  for (const char *hidden : {"--paranoid", "--drop-wait", "--early-release"})
    EXPECT_EQ(text.find(hidden), std::string::npos);
  EXPECT_EQ(run({"--version"}), 0);
  EXPECT_NE(text.find("hand.onnx, compiled by harmonyc test\nfingerprint f00d"),
            std::string::npos);
  EXPECT_EQ(run({"--print-plan"}), 0);
  EXPECT_EQ(text, "one plan\n");
  EXPECT_EQ(run({"--dry-run", "--data", data()}), 0) << message;
  EXPECT_NE(text.find("nothing was trained"), std::string::npos);
  EXPECT_EQ(run({"--synthetic", "--steps", "9", "--time-report"}), 0)
      << message;
  EXPECT_NE(text.find("update"), std::string::npos);
}

} // namespace
} // namespace harmony::runtime
