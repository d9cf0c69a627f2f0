//===- MeasureMachine.cpp - How fast this machine is ----------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/train/MeasureMachine.h"

#include "runtime/drivers/host/Gemm.h"
#include "runtime/drivers/host/LibraryScratch.h"
#include "runtime/drivers/host/Mapping.h"
#include "runtime/drivers/host/WorkerPool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

namespace harmony::runtime {

namespace {

double now() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// The lower quartile of the calls that fit into `budget` seconds, at least
/// four, behind one that does not count: what other work disturbs, and what
/// frequencies do at first, lies above it.
double typicalSeconds(double budget, const std::function<void()> &body) {
  body();
  std::vector<double> samples;
  double start = now(), end = start;
  while (samples.size() < 4 || end - start < budget) {
    double begin = now();
    body();
    end = now();
    samples.push_back(end - begin);
  }
  size_t quarter = samples.size() / 4;
  std::nth_element(samples.begin(), samples.begin() + quarter, samples.end());
  return samples[quarter];
}

void onEach(WorkerPool &pool, const std::function<void(int64_t)> &body) {
  pool.runOnEach(
      [](const void *context, void *const *, int64_t begin, int64_t) {
        (*static_cast<const std::function<void(int64_t)> *>(context))(begin);
      },
      &body);
}

/// Memory of finite numbers that are none of them denormal.
class Floats {
public:
  explicit Floats(int64_t count)
      : mapping(count * static_cast<int64_t>(sizeof(float)), "measurement"),
        size(count) {
    for (int64_t i = 0; i < count; ++i)
      data()[i] = static_cast<float>(i % 251) / 251 + 0.25f;
  }
  float *data() { return reinterpret_cast<float *>(mapping.data()); }
  int64_t count() const { return size; }

private:
  Mapping mapping;
  int64_t size;
};

class MachineMeasurement {
public:
  MachineMeasurement(HmIsa isa, unsigned threads)
      : wide(isa == HM_ISA_AVX512), pool(threads, 0) {
    configureGemm(isa);
    onEach(pool, [](int64_t) {
      attachGemmThread();
      reserveLibraryScratch(size_t(64) << 20);
    });
  }

  std::string run() {
    add("launch_s", measureLaunch());
    measureProducts();
    measureMemory();
    add("operations_per_s", measureOperations());
    add("update_bytes_per_s", measureUpdate());
    measureCopies();
    return out;
  }

private:
  void add(const char *key, double value) {
    char text[96];
    std::snprintf(text, sizeof(text), ",\n \"%s\": %.6g", key, value);
    out += text;
  }

  double measureLaunch() {
    constexpr int repeats = 200;
    auto task = [](const void *, void *const *, int64_t, int64_t) {};
    return typicalSeconds(0.1,
                          [&] {
                            for (int i = 0; i < repeats; ++i)
                              pool.run(task, nullptr, nullptr, pool.size(), 1);
                          }) /
           repeats;
  }

  /// All workers multiply, each its own operands, which move on through memory
  /// that caches near a processor do not hold: those of a layer come from
  /// elsewhere too. The mean of the three forms that training has: plain, and
  /// with either operand transposed.
  void measureProducts() {
    constexpr int64_t sides[] = {4, 16, 64, 256, 1024},
                      depths[] = {4, 16, 64, 256, 1024};
    constexpr double budget = 0.025; // seconds of each
    constexpr int64_t room = int64_t(3) << 20;
    std::vector<Floats> memory;
    for (unsigned i = 0; i < pool.size(); ++i)
      memory.emplace_back(room + 3 * 1024 * 1024);
    out += ",\n \"products\": [";
    const char *separator = "\n  ";
    for (int64_t m : sides)
      for (int64_t n : sides)
        for (int64_t k : depths) {
          double seconds = 0;
          for (int form = 0; form < 3; ++form)
            seconds += productSeconds(m, n, k, form == 1, form == 2, memory,
                                      room, budget / 3) /
                       3;
          char text[96];
          std::snprintf(text, sizeof(text), "%s[%lld, %lld, %lld, %.4g]",
                        separator, static_cast<long long>(m),
                        static_cast<long long>(n), static_cast<long long>(k),
                        2.0 * m * n * k / seconds);
          out += text;
          separator = ", ";
        }
    out += "]";
  }

  double productSeconds(int64_t m, int64_t n, int64_t k, bool transA,
                        bool transB, std::vector<Floats> &memory, int64_t room,
                        double budget) {
    HmGemm g = {};
    g.m = g.blockM = m;
    g.n = g.blockN = n;
    g.k = k;
    g.transA = transA;
    g.transB = transB;
    g.lda = transA ? m : k;
    g.ldb = transB ? k : n;
    g.ldc = n;
    std::fill(g.batch, g.batch + 3, 1);
    int64_t step = m * k + k * n + m * n;
    // Short calls in groups, so that starting the workers does not count.
    int64_t group =
        std::clamp<int64_t>(int64_t(4e6) / (2 * m * n * k), 1, 2000);
    std::vector<int64_t> at(pool.size(), 0);
    return typicalSeconds(budget,
                          [&] {
                            onEach(pool, [&](int64_t worker) {
                              for (int64_t i = 0; i < group; ++i) {
                                float *base =
                                    memory[worker].data() + at[worker];
                                void *buffers[] = {base, base + m * k,
                                                   base + m * k + k * n};
                                runGemm(g, buffers, 0, 1);
                                at[worker] = (at[worker] + step) % room;
                              }
                            });
                          }) /
           static_cast<double>(group);
  }

  /// c = a + b by all workers, over different sizes of all three together.
  void measureMemory() {
    constexpr int64_t sizes[] = {
        int64_t(1) << 15, int64_t(1) << 18, int64_t(1) << 20, int64_t(1) << 22,
        int64_t(1) << 24, int64_t(1) << 26, int64_t(1) << 28};
    Floats memory((sizes[6] / 4 + 64));
    out += ",\n \"memory\": [";
    const char *separator = "";
    for (int64_t bytes : sizes) {
      int64_t count = bytes / 12;
      void *buffers[] = {memory.data(), memory.data() + count,
                         memory.data() + 2 * count};
      auto task = wide ? addWide : addNarrow;
      int repeats = static_cast<int>(
          std::clamp<int64_t>((int64_t(1) << 22) / bytes, 1, 64));
      double seconds = typicalSeconds(0.15, [&] {
        for (int i = 0; i < repeats; ++i)
          onSlices(task, buffers, count / 16);
      });
      char text[64];
      std::snprintf(text, sizeof(text), "%s[%lld, %.4g]", separator,
                    static_cast<long long>(bytes),
                    12.0 * static_cast<double>(count) * repeats / seconds);
      out += text;
      separator = ", ";
    }
    out += "]";
  }

  void onSlices(RangeTask task, void *const *buffers, int64_t vectors) {
    pool.run(task, nullptr, buffers, vectors,
             std::max<int64_t>(1, vectors / pool.size()));
  }

  typedef float Wide __attribute__((vector_size(64), aligned(4)));
  typedef float Narrow __attribute__((vector_size(32), aligned(4)));

  /// Indices are vectors of 16 elements.
  __attribute__((target("avx512f"))) static void
  addWide(const void *, void *const *buffers, int64_t begin, int64_t end) {
    auto *a = static_cast<const Wide *>(buffers[0]),
         *b = static_cast<const Wide *>(buffers[1]);
    auto *c = static_cast<Wide *>(buffers[2]);
    for (int64_t i = begin; i < end; ++i)
      c[i] = a[i] + b[i];
  }
  __attribute__((target("avx2"))) static void
  addNarrow(const void *, void *const *buffers, int64_t begin, int64_t end) {
    auto *a = static_cast<const Narrow *>(buffers[0]),
         *b = static_cast<const Narrow *>(buffers[1]);
    auto *c = static_cast<Narrow *>(buffers[2]);
    for (int64_t i = 2 * begin; i < 2 * end; ++i)
      c[i] = a[i] + b[i];
  }

  static constexpr int operationDepth = 24;

  /// A polynomial of each of 16 elements, twice as many operations as it has
  /// degrees, as functions of kernels take them.
  __attribute__((target("avx512f"))) static void
  computeWide(const void *, void *const *buffers, int64_t begin, int64_t end) {
    auto *a = static_cast<Wide *>(buffers[0]);
    for (int64_t i = begin; i < end; ++i) {
      Wide x = a[i % 64], y = x;
      for (int d = 0; d < operationDepth; ++d)
        y = y * x + x;
      a[i % 64] = y * 1e-3f;
    }
  }
  __attribute__((target("avx2"))) static void
  computeNarrow(const void *, void *const *buffers, int64_t begin,
                int64_t end) {
    auto *a = static_cast<Narrow *>(buffers[0]);
    for (int64_t i = 2 * begin; i < 2 * end; ++i) {
      Narrow x = a[i % 64], y = x;
      for (int d = 0; d < operationDepth; ++d)
        y = y * x + x;
      a[i % 64] = y * 1e-3f;
    }
  }

  double measureOperations() {
    constexpr int64_t vectors = 1 << 15;
    std::vector<Floats> memory;
    for (unsigned i = 0; i < pool.size(); ++i)
      memory.emplace_back(64 * 16);
    auto task = wide ? computeWide : computeNarrow;
    double seconds = typicalSeconds(0.2, [&] {
      onEach(pool, [&](int64_t worker) {
        void *buffers[] = {memory[worker].data()};
        task(nullptr, buffers, 0, vectors);
      });
    });
    return 16.0 * 2 * operationDepth * vectors * pool.size() / seconds;
  }

  /// adamw's arithmetic: of four arrays read, three written.
  __attribute__((target("avx512f"))) static void
  updateWide(const void *, void *const *buffers, int64_t begin, int64_t end) {
    update<Wide, 1>(buffers, begin, end);
  }
  __attribute__((target("avx2"))) static void
  updateNarrow(const void *, void *const *buffers, int64_t begin, int64_t end) {
    update<Narrow, 2>(buffers, begin, end);
  }
  template <typename Vector, int perIndex>
  __attribute__((always_inline)) static void
  update(void *const *buffers, int64_t begin, int64_t end) {
    auto *w = static_cast<Vector *>(buffers[0]),
         *m = static_cast<Vector *>(buffers[1]),
         *v = static_cast<Vector *>(buffers[2]);
    auto *g = static_cast<const Vector *>(buffers[3]);
    for (int64_t i = perIndex * begin; i < perIndex * end; ++i) {
      m[i] = m[i] * 0.9f + g[i] * 0.1f;
      v[i] = v[i] * 0.999f + g[i] * g[i] * 0.001f;
      w[i] = w[i] * 0.9999f - m[i] / (v[i] + 1e-3f) * 1e-3f;
    }
  }

  double measureUpdate() {
    constexpr int64_t count = int64_t(4) << 20;
    Floats memory(4 * count);
    void *buffers[] = {memory.data(), memory.data() + count,
                       memory.data() + 2 * count, memory.data() + 3 * count};
    double seconds = typicalSeconds(0.3, [&] {
      onSlices(wide ? updateWide : updateNarrow, buffers, count / 16);
    });
    return 28.0 * count / seconds;
  }

  /// One thread copies while the workers multiply, then two.
  void measureCopies() {
    constexpr int64_t count = int64_t(4) << 20;
    Floats host(2 * count), device(2 * count);
    auto copySeconds = [&](bool in, bool both) {
      std::atomic<bool> stop{false};
      auto copy = [&](bool toDevice, int half) {
        float *a = device.data() + half * count,
              *b = host.data() + half * count;
        std::memmove(toDevice ? a : b, toDevice ? b : a, count * sizeof(float));
      };
      double seconds = 0;
      std::thread other([&] {
        while (both && !stop.load())
          copy(!in, 1);
      });
      std::thread copier([&] {
        seconds = typicalSeconds(0.4, [&] { copy(in, 0); });
        stop.store(true);
      });
      compute(stop);
      copier.join();
      other.join();
      return seconds;
    };
    double bytes = count * sizeof(float);
    add("copy_in_bytes_per_s", bytes / copySeconds(true, false));
    add("copy_out_bytes_per_s", bytes / copySeconds(false, false));
    add("copy_both_bytes_per_s", 2 * bytes / copySeconds(true, true));
    char from[64] = {}, to[64];
    double least = typicalSeconds(0.05, [&] {
      for (int i = 0; i < 1000; ++i) {
        std::memmove(to, from, sizeof(from));
        asm volatile("" : : "r"(to) : "memory");
      }
    });
    add("copy_s", least / 1000);
  }

  void compute(const std::atomic<bool> &stop) {
    HmGemm g = {};
    g.m = g.blockM = g.n = g.blockN = g.k = 256;
    g.lda = g.ldb = g.ldc = 256;
    std::fill(g.batch, g.batch + 3, 1);
    std::vector<Floats> memory;
    for (unsigned i = 0; i < pool.size(); ++i)
      memory.emplace_back(3 * 256 * 256);
    while (!stop.load())
      onEach(pool, [&](int64_t worker) {
        float *base = memory[worker].data();
        void *buffers[] = {base, base + 256 * 256, base + 2 * 256 * 256};
        runGemm(g, buffers, 0, 1);
      });
  }

  const bool wide;
  WorkerPool pool;
  std::string out;
};

} // namespace

std::string measureMachine(HmIsa isa, unsigned threads) {
  std::string device = processorName();
  device.erase(std::remove_if(device.begin(), device.end(),
                              [](char c) { return c == '"' || c == '\\'; }),
               device.end());
  std::string out = "{\"device\": \"" + device + "\", \"library\": \"" +
                    productLibrary() + "\"";
  if (threads)
    out += MachineMeasurement(isa, threads).run();
  return out + "}\n";
}

} // namespace harmony::runtime
