//===- ExecutableTest.cpp - Runs of a real executable ---------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/train/Session.h"
#include "test/unit/runtime/TrainerFixture.h"

#include <cstring>
#include <filesystem>

namespace harmony::runtime {
namespace {

using namespace test;
using Json = nlohmann::json;

class ExecutableTest : public TrainerTest {
protected:
  void SetUp() override {
    TrainerTest::SetUp();
    std::string runtime = readFile(HARMONY_RUNTIME),
                payload = readFile(HARMONY_TEST_PAYLOAD);
    runtime.resize((runtime.size() + HM_PAYLOAD_ALIGNMENT - 1) /
                   HM_PAYLOAD_ALIGNMENT * HM_PAYLOAD_ALIGNMENT);
    HmPayloadTrailer trailer{runtime.size(), payload.size(), {}};
    std::memcpy(trailer.magic, HM_PAYLOAD_MAGIC, 8);
    whole = runtime + payload +
            std::string(reinterpret_cast<char *>(&trailer), sizeof(trailer));
    write(whole);
  }

  void write(const std::string &contents) {
    writeFile(executable, contents);
    std::filesystem::permissions(executable, std::filesystem::perms::owner_all);
  }

  int shell(const std::string &flags) {
    std::string command =
        executable + " " + flags + " > " + (folder / "text") + " 2>&1";
    int status = std::system(command.c_str());
    text = readFile(folder / "text");
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  std::string whole;
};

TEST_F(ExecutableTest, Trains) {
  EXPECT_EQ(shell("--no-shuffle --lr 0.5 --steps 5 --data " + data() +
                  " --save " + (folder / "w")),
            0)
      << text;
  EXPECT_EQ(weights(folder / "w"), train(5));
  EXPECT_EQ(shell("--frobnicate"), 2);
  EXPECT_NE(
      text.find("error: The following argument was not expected: --frobnicate"),
      std::string::npos)
      << text;
}

TEST_F(ExecutableTest, StaysWithinItsDeclaredMemory) {
  ASSERT_EQ(shell("--synthetic --steps 3 --log " + (folder / "log.jsonl")), 0)
      << text;
  for (const Json &row : log()) {
    int64_t peak = row["host_peak_bytes"], planned = row["host_planned_bytes"];
    EXPECT_GT(peak, planned);
    EXPECT_LT(peak - planned, Session::hostMemoryConstant);
  }
}

TEST_F(ExecutableTest, RefusesADamagedFile) {
  write(whole.substr(0, whole.size() - 24));
  EXPECT_EQ(shell(""), 2);
  EXPECT_NE(text.find("carries no program to train"), std::string::npos)
      << text;
  std::string cut = whole;
  cut.erase(cut.size() - 1024, 1000);
  write(cut);
  EXPECT_EQ(shell(""), 1);
  EXPECT_NE(text.find("was it truncated?"), std::string::npos) << text;
}

} // namespace
} // namespace harmony::runtime
