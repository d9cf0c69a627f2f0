//===- main.cpp - harmony-train-host --------------------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/drivers/host/Gemm.h"
#include "runtime/hal/Error.h"
#include "runtime/train/MeasureMachine.h"
#include "runtime/train/Payload.h"
#include "runtime/train/PayloadLoader.h"
#include "runtime/train/Trainer.h"

#include <cstdio>
#include <cstdlib>
#include <new>
#include <unistd.h>

using namespace harmony::runtime;

/// Where this executable is; weights are looked for beside it.
static std::string executablePath() {
  char path[4096];
  ssize_t length = readlink("/proc/self/exe", path, sizeof(path));
  if (length <= 0 || length == sizeof(path))
    throw Error(ExitCode::Failure,
                "/proc/self/exe cannot be read; is /proc mounted?");
  return std::string(path, length);
}

// The runtime alone, asked by the compiler; see Payload.h.

static HmIsa instructionSet(const char *flag, const std::string &name) {
  if (name != "avx2" && name != "avx512")
    throw Error(ExitCode::Usage, std::string(flag) + " is '" + name +
                                     "', accepted are avx2 and avx512");
  return name == "avx2" ? HM_ISA_AVX2 : HM_ISA_AVX512;
}

static int measureLibraryScratch(const std::string &isa) {
  configureGemm(instructionSet(HM_FLAG_LIBRARY_SCRATCH, isa));
  HmGemm gemm;
  while (std::fread(&gemm, sizeof(gemm), 1, stdin) == 1)
    std::printf("%lld\n", static_cast<long long>(warmGemm(gemm)));
  return 0;
}

int main(int argc, char **argv) {
  int code = 0;
  try {
    if (argc == 3 && std::string(argv[1]) == HM_FLAG_LIBRARY_SCRATCH) {
      code = measureLibraryScratch(argv[2]);
    } else if (argc == 4 && std::string(argv[1]) == HM_FLAG_MEASURE_MACHINE) {
      std::string text =
          measureMachine(instructionSet(HM_FLAG_MEASURE_MACHINE, argv[2]),
                         static_cast<unsigned>(std::atoi(argv[3])));
      std::fputs(text.c_str(), stdout);
    } else {
      Payload payload = loadPayload(executablePath());
      code = runExecutable(payload, {argv + 1, argv + argc});
    }
  } catch (const Error &error) {
    std::fflush(stdout);
    std::fprintf(stderr, "%s: %s\n",
                 error.exitCode() == ExitCode::Internal ? "internal error"
                                                        : "error",
                 error.what());
    code = static_cast<int>(error.exitCode());
  } catch (const std::bad_alloc &) {
    std::fprintf(stderr, "error: host memory is exhausted\n");
    code = static_cast<int>(ExitCode::NoDevice);
  } catch (const std::exception &error) {
    std::fprintf(stderr, "internal error: %s\n", error.what());
    code = static_cast<int>(ExitCode::Internal);
  }
  std::fflush(stdout);
  // The payload stays loaded and worker threads are gone; static destructors of
  // the product library have nothing left to do.
  _exit(code);
}
