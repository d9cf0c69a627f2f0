//===- OutputFilesTest.cpp - What a command leaves on the disk ------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Driver/OutputFiles.h"
#include "runtime/train/Payload.h"
#include "test/unit/runtime/TemporaryFolder.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <csignal>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace harmony;

namespace {

class OutputFiles : public testing::TestWithParam<int> {
protected:
  runtime::test::TemporaryFolder folder;
};

TEST_P(OutputFiles, AreGoneAfterASignal) {
  // The weights of the model are in a pipe: the command hangs where it opens
  // them, the executable written and not renamed.
  std::string pipe = folder / "data";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  pid_t child = fork();
  ASSERT_GE(child, 0);
  if (!child) {
    signal(GetParam(), SIG_DFL); // nohup and shells have some ignored
    ExecutableFiles files;
    files.path = folder / "train";
    files.parts = {"text"};
    WeightsEntry entry;
    entry.name = "w";
    entry.shape = {1};
    entry.bytes = 4;
    entry.file = pipe;
    files.weights.push_back(entry);
    writeExecutableFiles(files);
    _exit(0); // not reached: nobody writes to the pipe
  }
  std::vector<std::string> growing = {"data",
                                      "train.tmp-" + std::to_string(child),
                                      std::string("train") + HM_WEIGHTS_SUFFIX +
                                          ".tmp-" + std::to_string(child)};
  std::sort(growing.begin(), growing.end());
  int status = 0;
  while (folder.list() != growing && !waitpid(child, &status, WNOHANG))
    usleep(1000);
  ASSERT_EQ(folder.list(), growing);
  kill(child, GetParam());
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), GetParam());
  EXPECT_EQ(folder.list(), std::vector<std::string>{"data"});
}

INSTANTIATE_TEST_SUITE_P(Signals, OutputFiles,
                         testing::Values(SIGINT, SIGTERM, SIGHUP));

} // namespace
