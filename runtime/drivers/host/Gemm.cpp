//===- Gemm.cpp - Products on the host ------------------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/drivers/host/Gemm.h"

#include "runtime/drivers/host/LibraryScratch.h"
#include "runtime/hal/Error.h"
#include "runtime/hal/GemmShape.h"

#include <algorithm>
#include <dlfcn.h>
#include <dnnl.h>
#include <fstream>
#include <mutex>
#include <string>
#include <sys/mman.h>

namespace harmony::runtime {

namespace {

using detail::ceilDiv;

/// The library's own OpenMP runtime is asked for by name: linking one beside it
/// would load two.
void limitOpenMpThreads() {
  using SetThreads = void (*)(int);
  static const auto setThreads =
      reinterpret_cast<SetThreads>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
  if (setThreads)
    setThreads(1);
}

void multiply(const HmGemm &g, const float *a, const float *b, float *c,
              int64_t rows, int64_t columns) {
  LibraryCall call;
  dnnl_status_t status = dnnl_sgemm(
      g.transA ? 'T' : 'N', g.transB ? 'T' : 'N', rows, columns, g.k, 1.0f, a,
      g.lda, b, g.ldb, g.accumulate ? 1.0f : 0.0f, c, g.ldc);
  if (status != dnnl_success)
    throw Error(ExitCode::Failure,
                "dnnl_sgemm of " + std::to_string(rows) + " x " +
                    std::to_string(columns) + " x " + std::to_string(g.k) +
                    " failed with status " + std::to_string(status));
}

/// Zeros that cost no memory while they are only read.
class ZeroMemory {
public:
  explicit ZeroMemory(int64_t floats) : bytes(floats * sizeof(float)) {
    void *p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
      throw Error(ExitCode::NoDevice, "no address space for " +
                                          std::to_string(bytes) +
                                          " bytes to prepare a product");
    base = static_cast<float *>(p);
  }
  ~ZeroMemory() { munmap(base, bytes); }
  ZeroMemory(const ZeroMemory &) = delete;
  ZeroMemory &operator=(const ZeroMemory &) = delete;
  float *data() const { return base; }

private:
  size_t bytes;
  float *base;
};

} // namespace

bool processorHas(HmIsa isa) {
#if defined(__x86_64__)
  bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (isa == HM_ISA_AVX2)
    return avx2;
  return avx2 && __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
#else
  return false;
#endif
}

std::string productLibrary() {
  const dnnl_version_t *version = dnnl_version();
  return "oneDNN " + std::to_string(version->major) + "." +
         std::to_string(version->minor) + "." + std::to_string(version->patch);
}

std::string processorName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (size_t colon = line.find(": ");
        colon != std::string::npos && line.compare(0, 10, "model name") == 0)
      return line.substr(colon + 2);
  return "unknown";
}

void requireProcessor(HmIsa isa) {
  if (!processorHas(isa))
    throw Error(
        ExitCode::NoDevice,
        std::string("this executable was compiled for ") +
            (isa == HM_ISA_AVX2 ? "AVX2 and FMA" : "AVX-512 (F, BW, DQ, VL)") +
            ", which this processor does not have; compile with another "
            "--target");
}

void configureGemm(HmIsa isa) {
  requireProcessor(isa);
  static std::mutex mutex;
  static int configured = -1;
  std::lock_guard<std::mutex> lock(mutex);
  if (configured == static_cast<int>(isa))
    return;
  dnnl_cpu_isa_t cap =
      isa == HM_ISA_AVX2 ? dnnl_cpu_isa_avx2 : dnnl_cpu_isa_avx512_core;
  if (configured >= 0 || dnnl_set_max_cpu_isa(cap) != dnnl_success)
    throw Error(ExitCode::Failure,
                "the instruction set of the product library can be "
                "chosen only once, before its first use");
  configured = isa;
}

void runGemm(const HmGemm &g, void *const *buffers, int64_t begin,
             int64_t end) {
  const int64_t columnBlocks = ceilDiv(g.n, g.blockN);
  const int64_t rowBlocks = ceilDiv(g.m, g.blockM);
  for (int64_t i = begin; i < end; ++i) {
    int64_t row = i / columnBlocks % rowBlocks * g.blockM;
    int64_t column = i % columnBlocks * g.blockN;
    int64_t batch = i / (columnBlocks * rowBlocks);
    int64_t b2 = batch % g.batch[2];
    int64_t b1 = batch / g.batch[2] % g.batch[1];
    int64_t b0 = batch / (g.batch[2] * g.batch[1]);
    auto offset = [&](const int64_t *strides) {
      return b0 * strides[0] + b1 * strides[1] + b2 * strides[2];
    };
    auto *a = static_cast<const float *>(buffers[0]) + offset(g.strideA) +
              (g.transA ? row : row * g.lda);
    auto *b = static_cast<const float *>(buffers[1]) + offset(g.strideB) +
              (g.transB ? column * g.ldb : column);
    auto *c = static_cast<float *>(buffers[2]) + offset(g.strideC) +
              row * g.ldc + column;
    multiply(g, a, b, c, std::min(g.blockM, g.m - row),
             std::min(g.blockN, g.n - column));
  }
}

void attachGemmThread() {
  static thread_local bool attached = false;
  if (attached)
    return;
  attached = true;
  limitOpenMpThreads();
  float a[64] = {}, b[64] = {}, c[64] = {};
  dnnl_sgemm('N', 'N', 8, 8, 8, 1.0f, a, 8, b, 8, 0.0f, c, 8);
}

int64_t warmGemm(const HmGemm &gemm) {
  HmGemm g = gemm;
  attachGemmThread();
  GemmSpans spans = gemmSpans(g);
  ZeroMemory inputs(std::max(spans.a, spans.b)), output(spans.c);
  void *buffers[] = {inputs.data(), inputs.data(), output.data()};
  // The first row of blocks and the last row hold every shape at its first and
  // last.
  const int64_t columnBlocks = ceilDiv(g.n, g.blockN);
  const int64_t blocks = columnBlocks * ceilDiv(g.m, g.blockM);
  int64_t peak = 0;
  for (int64_t i :
       {int64_t(0), columnBlocks - 1, blocks - columnBlocks, blocks - 1}) {
    int64_t row = i / columnBlocks * g.blockM,
            column = i % columnBlocks * g.blockN;
    int64_t rows = std::min(g.blockM, g.m - row),
            columns = std::min(g.blockN, g.n - column);
    // What the library keeps (code) must not come from scratch: once outside of
    // a call.
    dnnl_sgemm(g.transA ? 'T' : 'N', g.transB ? 'T' : 'N', rows, columns, g.k,
               1.0f, inputs.data(), g.lda, inputs.data(), g.ldb,
               g.accumulate ? 1.0f : 0.0f, output.data(), g.ldc);
    // The scratch of this thread may be empty; what was asked for is known all
    // the same.
    runGemm(g, buffers, i, i + 1);
    peak = std::max(peak, static_cast<int64_t>(libraryScratch.used));
  }
  return peak;
}

} // namespace harmony::runtime
