//===- gemm_ceiling.cpp - What the machine can do -------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Measures what training steps are compared with: the rate of the product
// library on shapes that suit it, every thread with a product of its own, and
// the bandwidth of memory (triad). With shapes on the command line it measures
// how those fare, cut into blocks as executables cut them. Prints one JSON
// object. Times are of the wall clock, the best of many short windows, so that
// other work on the machine disturbs little.
//
//===----------------------------------------------------------------------===//

#include "bench/Products.h"
#include "runtime/drivers/host/Gemm.h"
#include "runtime/drivers/host/LibraryScratch.h"
#include "runtime/drivers/host/WorkerPool.h"
#include "runtime/hal/GemmShape.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

using namespace harmony::runtime;

namespace {

using Clock = std::chrono::steady_clock;

/// Seconds of the fastest of the calls that fit into `budget` seconds, at least
/// three.
double bestSeconds(double budget, const std::function<void()> &body) {
  body();
  double best = 1e30, spent = 0;
  for (int i = 0; i < 3 || spent < budget; ++i) {
    Clock::time_point start = Clock::now();
    body();
    double seconds =
        std::chrono::duration<double>(Clock::now() - start).count();
    best = std::min(best, seconds);
    spent += seconds;
  }
  return best;
}

/// Runs `body(worker)` on every worker at once.
void onEach(WorkerPool &pool, const std::function<void(int64_t)> &body) {
  pool.runOnEach(
      [](const void *context, void *const *, int64_t begin, int64_t) {
        (*static_cast<const std::function<void(int64_t)> *>(context))(begin);
      },
      &body);
}

double flops(const HmGemm &g) {
  return 2.0 * g.batch[0] * g.batch[1] * g.batch[2] * g.m * g.n * g.k;
}

/// GFLOP/s of one product for each worker at the same time.
double measureProducts(WorkerPool &pool, const HmGemm &g, double budget) {
  struct Operands {
    std::vector<float> a, b, c;
  };
  std::vector<Operands> operands(pool.size());
  onEach(pool, [&](int64_t worker) {
    operands[worker] = {makeBuffer(g.m * g.k), makeBuffer(g.k * g.n),
                        makeBuffer(g.m * g.n)};
  });
  double seconds = bestSeconds(budget, [&] {
    onEach(pool, [&](int64_t worker) {
      Operands &mine = operands[worker];
      void *buffers[] = {mine.a.data(), mine.b.data(), mine.c.data()};
      runGemm(g, buffers, 0, 1);
    });
  });
  return pool.size() * flops(g) / seconds * 1e-9;
}

/// GFLOP/s of products that the workers share block by block. The products take
/// turns, so that all of them see the machine in its good moments.
std::vector<double> measureShared(WorkerPool &pool,
                                  const std::vector<HmGemm> &shapes,
                                  double budget) {
  std::vector<std::vector<float>> memory;
  std::vector<double> best(shapes.size(), 1e30);
  for (const HmGemm &g : shapes) {
    GemmSpans spans = gemmSpans(g);
    for (int64_t elements : {spans.a, spans.b, spans.c})
      memory.push_back(makeBuffer(elements));
  }
  auto task = [](const void *context, void *const *operands, int64_t begin,
                 int64_t end) {
    runGemm(*static_cast<const HmGemm *>(context), operands, begin, end);
  };
  double spent = 0;
  for (int round = 0; round < 4 || spent < budget * shapes.size(); ++round)
    for (size_t i = 0; i < shapes.size(); ++i) {
      void *buffers[] = {memory[3 * i].data(), memory[3 * i + 1].data(),
                         memory[3 * i + 2].data()};
      Clock::time_point start = Clock::now();
      pool.run(task, &shapes[i], buffers, gemmBlocks(shapes[i]), 1);
      double seconds =
          std::chrono::duration<double>(Clock::now() - start).count();
      if (round > 0)
        best[i] = std::min(best[i], seconds);
      spent += seconds;
    }
  for (size_t i = 0; i < shapes.size(); ++i)
    best[i] = flops(shapes[i]) / best[i] * 1e-9;
  return best;
}

/// GB/s of a[i] = b[i] + s * c[i], 12 bytes counted an element.
double measureTriad(WorkerPool &pool, double budget) {
  constexpr int64_t elements = int64_t(1) << 25; // 3 x 128 MiB, beyond caches
  std::vector<float> a(elements), b(elements, 1.0f), c(elements, 2.0f);
  auto task = [](const void *, void *const *buffers, int64_t begin,
                 int64_t end) {
    auto *to = static_cast<float *>(buffers[0]);
    auto *from = static_cast<const float *>(buffers[1]),
         *scaled = static_cast<const float *>(buffers[2]);
    for (int64_t i = begin; i < end; ++i)
      to[i] = from[i] + 3.0f * scaled[i];
  };
  void *buffers[] = {a.data(), b.data(), c.data()};
  double seconds = bestSeconds(
      budget, [&] { pool.run(task, nullptr, buffers, elements, 65536); });
  return 12.0 * elements / seconds * 1e-9;
}

/// "MxNxK[:key=value...]": keys block (RxC), ta, tb, acc (0 or 1), batch.
HmGemm parseShape(const std::string &text) {
  auto fail = [&] {
    throw CLI::ValidationError(
        "shape '" + text +
        "': MxNxK[:block=RxC][:ta=1][:tb=1][:acc=1][:batch=N] is accepted");
  };
  long m = 0, n = 0, k = 0;
  int used = 0;
  if (std::sscanf(text.c_str(), "%ldx%ldx%ld%n", &m, &n, &k, &used) != 3 ||
      m <= 0 || n <= 0 || k <= 0)
    fail();
  HmGemm g = makeGemm(m, n, k);
  for (size_t at = used; at < text.size();) {
    size_t end = std::min(text.find(':', at + 1), text.size());
    std::string option = text.substr(at, end - at);
    long first = 0, second = 0;
    if (std::sscanf(option.c_str(), ":block=%ldx%ld", &first, &second) == 2 &&
        first > 0 && second > 0) {
      g.blockM = std::min<int64_t>(first, g.m);
      g.blockN = std::min<int64_t>(second, g.n);
    } else if (std::sscanf(option.c_str(), ":batch=%ld", &first) == 1 &&
               first > 0)
      g.batch[0] = first;
    else if (option == ":ta=1")
      g.transA = 1, g.lda = g.m;
    else if (option == ":tb=1")
      g.transB = 1, g.ldb = g.k;
    else if (option == ":acc=1")
      g.accumulate = 1;
    else
      fail();
    at = end;
  }
  if (g.batch[0] > 1) {
    g.strideA[0] = g.m * g.k;
    g.strideB[0] = g.k * g.n;
    g.strideC[0] = g.m * g.n;
  }
  return g;
}

} // namespace

int main(int argc, char **argv) {
  CLI::App app("Measures the product library and the memory of this machine.");
  std::string isa = processorHas(HM_ISA_AVX512) ? "avx512" : "avx2";
  unsigned threads = 1;
  double budget = 0.5;
  bool triad = false;
  std::vector<std::string> texts;
  app.add_option("--isa", isa, "avx2 or avx512; default: the best there is")
      ->check(CLI::IsMember({"avx2", "avx512"}));
  app.add_option("--threads", threads, "workers")->check(CLI::Range(1, 1024));
  app.add_option("--seconds", budget, "time for each measurement");
  app.add_flag("--triad", triad, "measure the bandwidth of memory too");
  app.add_option("SHAPE", texts, "products to measure instead of the ceiling");
  CLI11_PARSE(app, argc, argv);
  try {
    std::vector<HmGemm> shapes;
    for (const std::string &text : texts)
      shapes.push_back(parseShape(text));
    configureGemm(isa == "avx2" ? HM_ISA_AVX2 : HM_ISA_AVX512);
    WorkerPool pool(threads, 0);
    onEach(pool, [](int64_t) {
      attachGemmThread();
      reserveLibraryScratch(size_t(64) << 20);
    });
    std::printf("{\"isa\": \"%s\", \"threads\": %u", isa.c_str(), threads);
    if (shapes.empty()) {
      double best = 0;
      for (auto [m, n, k] : {std::array<int64_t, 3>{512, 768, 768},
                             {1024, 1024, 1024},
                             {256, 2048, 1024}})
        best = std::max(best, measureProducts(pool, makeGemm(m, n, k), budget));
      std::printf(", \"gemm_gflops\": %.1f", best);
    }
    std::vector<double> rates = measureShared(pool, shapes, budget);
    for (size_t i = 0; i < shapes.size(); ++i)
      std::printf("%s\"%s\": %.1f", i ? ", " : ", \"shapes\": {",
                  texts[i].c_str(), rates[i]);
    if (!shapes.empty())
      std::printf("}");
    if (triad)
      std::printf(", \"triad_gbytes\": %.1f", measureTriad(pool, budget));
    std::printf("}\n");
  } catch (const std::exception &failure) {
    std::fprintf(stderr, "gemm_ceiling: %s\n", failure.what());
    return 1;
  }
  return 0;
}
