//===- Standalone.cpp - Runs a fuzz target without libFuzzer --------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The test suite runs the targets uninstrumented: every file of a corpus as it
// is, then a number of mutations that depend on the seed alone. The flags are
// those of libFuzzer that are named below; the others are libFuzzer's alone.
//
//===----------------------------------------------------------------------===//

#include "test/fuzz/Random.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <sys/resource.h>
#include <unistd.h>
#include <vector>

extern "C" {
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
__attribute__((weak)) int LLVMFuzzerInitialize(int *count, char ***arguments);
__attribute__((weak)) size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size,
                                                     size_t maximum,
                                                     unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t maximum);
}

namespace {

using harmony::fuzz::Random;
using Bytes = std::vector<uint8_t>;

/// libFuzzer's -runs, -seed, -timeout (seconds of one run), -rss_limit_mb and
/// -max_len.
struct Flags {
  long runs = 0, seed = 1, timeout = 20, memory = 2048, length = 65536;
};

Random mutation(1);

// What a signal handler writes: the input that is under way.
const uint8_t *current = nullptr;
size_t currentSize = 0;

void writeText(const char *text) {
  // Nothing is left to do where standard error is gone.
  if (write(STDERR_FILENO, text, strlen(text)) < 0)
    return;
}

/// Keeps the input under way in the current folder.
void saveInput() {
  const char *name = "finding";
  int file = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  bool written = file >= 0 && write(file, current, currentSize) ==
                                  static_cast<ssize_t>(currentSize);
  writeText(written ? "the input is in the file 'finding'\n"
                    : "the input could not be written to 'finding'\n");
}

void onSignal(int signal) {
  writeText(signal == SIGALRM ? "a run took too long; " : "a run crashed; ");
  saveInput();
  _exit(1);
}

void run(const Bytes &input, const Flags &flags) {
  current = input.data();
  currentSize = input.size();
  alarm(static_cast<unsigned>(flags.timeout));
  LLVMFuzzerTestOneInput(input.data(), input.size());
  alarm(0);
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  if (usage.ru_maxrss > flags.memory * 1024) {
    std::fprintf(stderr, "%ld MiB of memory, accepted are %ld; ",
                 usage.ru_maxrss / 1024, flags.memory);
    saveInput();
    std::exit(1);
  }
}

Bytes readFile(const std::filesystem::path &path) {
  std::ifstream file(path, std::ios::binary);
  return Bytes(std::istreambuf_iterator<char>(file), {});
}

bool readFlag(const std::string &argument, const char *name, long &value) {
  std::string head = std::string("-") + name + "=";
  if (argument.compare(0, head.size(), head) != 0)
    return false;
  value = std::stol(argument.substr(head.size()));
  return true;
}

} // namespace

/// One change of a few bytes, in the manner of libFuzzer's function of this
/// name, which custom mutators call.
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t maximum) {
  size_t at = mutation.below(size + 1), length = 1 + mutation.below(8);
  switch (size ? mutation.below(5) : 0) {
  case 0: // insert
    length = std::min(length, maximum - size);
    std::memmove(data + at + length, data + at, size - at);
    for (size_t i = 0; i < length; ++i)
      data[at + i] = static_cast<uint8_t>(mutation.next());
    return size + length;
  case 1: // erase
    length = std::min(length, size - at);
    std::memmove(data + at, data + at + length, size - at - length);
    return size - length;
  case 2: // one bit
    data[at % size] ^= static_cast<uint8_t>(1u << mutation.below(8));
    return size;
  case 3: { // a number
    uint64_t value = static_cast<uint64_t>(mutation.integer());
    length = std::min(size_t(1) << mutation.below(4), size - at % size);
    std::memcpy(data + at % size, &value, length);
    return size;
  }
  default: // bytes from elsewhere
    at %= size;
    length = std::min(length, size - at);
    std::memmove(data + at, data + mutation.below(size - length + 1), length);
    return size;
  }
}

int main(int count, char **arguments) {
  Flags flags;
  std::vector<std::filesystem::path> paths;
  if (LLVMFuzzerInitialize)
    LLVMFuzzerInitialize(&count, &arguments);
  for (int i = 1; i < count; ++i) {
    std::string argument = arguments[i];
    if (readFlag(argument, "runs", flags.runs) ||
        readFlag(argument, "seed", flags.seed) ||
        readFlag(argument, "timeout", flags.timeout) ||
        readFlag(argument, "rss_limit_mb", flags.memory) ||
        readFlag(argument, "max_len", flags.length))
      continue;
    if (argument.empty() || argument[0] == '-') {
      std::fprintf(stderr,
                   "%s: unknown flag %s; accepted are -runs, -seed, -timeout, "
                   "-rss_limit_mb, -max_len and files or folders\n",
                   arguments[0], argument.c_str());
      return 2;
    }
    if (!std::filesystem::exists(argument)) {
      std::fprintf(stderr, "%s: %s: no such file or folder\n", arguments[0],
                   argument.c_str());
      return 2;
    }
    if (!std::filesystem::is_directory(argument)) {
      paths.push_back(argument);
      continue;
    }
    for (const auto &entry :
         std::filesystem::recursive_directory_iterator(argument))
      if (entry.is_regular_file())
        paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  for (int signal : {SIGALRM, SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL})
    std::signal(signal, onSignal);

  std::vector<Bytes> corpus;
  for (const auto &path : paths) {
    corpus.push_back(readFile(path));
    run(corpus.back(), flags);
  }
  if (corpus.empty())
    corpus.emplace_back();
  Random choice(static_cast<uint64_t>(flags.seed));
  size_t maximum = static_cast<size_t>(flags.length);
  for (long i = 0; i < flags.runs; ++i) {
    Bytes input = corpus[choice.below(corpus.size())];
    size_t size = std::min(input.size(), maximum);
    input.resize(maximum);
    for (uint64_t n = 1 + choice.below(4); n > 0; --n) {
      mutation = Random(choice.next());
      size = LLVMFuzzerCustomMutator
                 ? LLVMFuzzerCustomMutator(input.data(), size, maximum,
                                           static_cast<unsigned>(choice.next()))
                 : LLVMFuzzerMutate(input.data(), size, maximum);
    }
    input.resize(size);
    run(input, flags);
  }
  std::printf("%zu files, %ld mutations\n", paths.size(), flags.runs);
  return 0;
}
