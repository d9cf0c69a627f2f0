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
#include "runtime/hal/Futex.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace harmony::runtime {

namespace {

double now() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

double quantile(std::vector<double> samples, double part) {
  auto at =
      samples.begin() + static_cast<std::ptrdiff_t>(
                            static_cast<double>(samples.size() - 1) * part);
  std::nth_element(samples.begin(), at, samples.end());
  return *at;
}

/// The lower quartile of the calls that fit into `budget` seconds, at least
/// one, behind one that does not count: what other work disturbs lies above it.
double typicalSeconds(double budget, const std::function<void()> &body) {
  body();
  std::vector<double> samples;
  double start = now(), end = start;
  do {
    double begin = now();
    body();
    end = now();
    samples.push_back(end - begin);
  } while (end - start < budget);
  return quantile(samples, 0.25);
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

/// A part of memory that moves on with every use, through so much that caches
/// near a processor do not hold it: a step of training comes back to what it
/// reads after all else that it touches.
class Moving {
public:
  Moving(float *memory, int64_t room) : memory(memory), room(room) {}

  /// The next `count` floats, at a multiple of a vector's length.
  float *take(int64_t count) {
    if (at + count > room)
      at = 0;
    float *part = memory + at;
    at += (count + 15) / 16 * 16;
    return part;
  }

private:
  float *memory;
  int64_t room, at = 0;
};

constexpr int64_t mebi = int64_t(1) << 20;

/// Every figure is measured for a short time in each of several rounds, and is
/// the lower quartile of the rounds: what disturbs the machine for a second or
/// two disturbs one or two rounds of all figures, not all of one figure.
class MachineMeasurement {
public:
  MachineMeasurement(HmIsa isa, unsigned threads)
      : wide(isa == HM_ISA_AVX512), pool(threads, 0), memory(72 * mebi) {
    configureGemm(isa);
    onEach(pool, [](int64_t) {
      attachGemmThread();
      reserveLibraryScratch(size_t(64) << 20);
    });
    for (unsigned i = 0; i < threads; ++i)
      operands.emplace_back(3 * mebi); // of products up to 1024 on each side
  }

  std::string run() {
    addSeconds("launch_s", [&] { return emptySeconds(); });
    addProducts();
    addMemory();
    addOperations();
    addUpdate();
    addCopies();
    constexpr int rounds = 7;
    for (int round = 0; round < rounds; ++round)
      for (Figure &figure : figures)
        figure.seconds.push_back(figure.measure());
    return write();
  }

private:
  struct Figure {
    std::string key;
    /// Of one of a list: its other members, each with a comma behind it.
    std::string where;
    double amount; ///< of which the figure is the rate; 0: it is the seconds
    std::function<double()> measure;
    std::vector<double> seconds; ///< of each round
  };

  void addSeconds(const char *key, std::function<double()> measure) {
    figures.push_back({key, "", 0, std::move(measure), {}});
  }
  void addRate(const char *key, std::string where, double amount,
               std::function<double()> measure) {
    figures.push_back({key, std::move(where), amount, std::move(measure), {}});
  }

  std::string write() const {
    std::string out, list;
    for (const Figure &figure : figures) {
      double seconds = quantile(figure.seconds, 0.25);
      char value[32];
      std::snprintf(value, sizeof(value), "%.6g",
                    figure.amount > 0 ? figure.amount / seconds : seconds);
      if (!list.empty() && figure.key != list)
        out += "]";
      if (figure.key == list)
        out += ", ";
      else
        out +=
            ",\n \"" + figure.key + (figure.where.empty() ? "\": " : "\": [");
      list = figure.where.empty() ? "" : figure.key;
      out += figure.where.empty() ? value : "[" + figure.where + value + "]";
    }
    return out + (list.empty() ? "" : "]");
  }

  double emptySeconds() {
    constexpr int repeats = 200;
    auto task = [](const void *, void *const *, int64_t, int64_t) {};
    return typicalSeconds(0.01,
                          [&] {
                            for (int i = 0; i < repeats; ++i)
                              pool.run(task, nullptr, nullptr, pool.size(), 1);
                          }) /
           repeats;
  }

  /// All workers multiply, each its own operands, always the same: what memory
  /// takes is added where costs are modelled. The mean of the three forms that
  /// training has: plain, and with either operand transposed.
  void addProducts() {
    for (int64_t m : {4, 16, 64, 256, 1024})
      for (int64_t n : {4, 16, 64, 256, 1024})
        for (int64_t k : {4, 16, 64, 256, 1024}) {
          HmGemm plain = product(m, n, k, false, false),
                 first = product(m, n, k, true, false),
                 second = product(m, n, k, false, true);
          // Code that the library keeps must not lie in the scratch of a call.
          for (const HmGemm &g : {plain, first, second})
            warmGemm(g);
          addRate("products",
                  std::to_string(m) + ", " + std::to_string(n) + ", " +
                      std::to_string(k) + ", ",
                  2.0 * static_cast<double>(m * n * k), [=] {
                    return (productSeconds(plain) + productSeconds(first) +
                            productSeconds(second)) /
                           3;
                  });
        }
  }

  static HmGemm product(int64_t m, int64_t n, int64_t k, bool transA,
                        bool transB) {
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
    return g;
  }

  double productSeconds(const HmGemm &g) {
    constexpr double budget = 0.002;
    int64_t sizeA = g.m * g.k, sizeB = g.k * g.n;
    // Short calls in groups, so that starting the workers does not count.
    int64_t group = std::clamp<int64_t>(int64_t(2e6) / (sizeA * g.n), 1, 2000);
    return typicalSeconds(budget,
                          [&] {
                            onEach(pool, [&](int64_t worker) {
                              for (int64_t i = 0; i < group; ++i) {
                                float *base = operands[worker].data();
                                void *buffers[] = {base, base + sizeA,
                                                   base + sizeA + sizeB};
                                runGemm(g, buffers, 0, 1);
                              }
                            });
                          }) /
           static_cast<double>(group);
  }

  /// Launches of all workers, each with what the one before wrote and with
  /// something from afar, over different sizes of all that they touch.
  void addMemory() {
    for (int shift = 12; shift <= 28; shift += 2) {
      int64_t bytes = int64_t(1) << shift, count = bytes / 12 / 16 * 16;
      addRate("memory", std::to_string(bytes) + ", ",
              12.0 * static_cast<double>(count),
              [=] { return launchSeconds(count); });
    }
  }

  double launchSeconds(int64_t count) {
    float *last = memory.data(), *next = last + count;
    int64_t beside = 2 * count;
    Moving afar(last + beside, memory.count() - beside);
    auto task = wide ? addWide : addNarrow;
    int64_t repeats = std::max<int64_t>(1, mebi / 4 / count);
    return typicalSeconds(0.03,
                          [&] {
                            for (int64_t i = 0; i < repeats; ++i) {
                              void *buffers[] = {last, afar.take(count), next};
                              onSlices(task, buffers, count / 16);
                              std::swap(last, next);
                            }
                          }) /
           static_cast<double>(repeats);
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

  void addOperations() {
    constexpr int64_t vectors = 1 << 15;
    addRate("operations_per_s", "",
            16.0 * 2 * operationDepth * vectors * pool.size(), [this] {
              return typicalSeconds(0.03, [&] {
                onEach(pool, [&](int64_t worker) {
                  void *buffers[] = {operands[worker].data()};
                  (wide ? computeWide : computeNarrow)(nullptr, buffers, 0,
                                                       vectors);
                });
              });
            });
  }

  /// adamw's arithmetic, with as many roots and divisions: four arrays are
  /// read, three written.
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
    const float rootOfCorrection = correction;
    for (int64_t i = perIndex * begin; i < perIndex * end; ++i) {
      m[i] = m[i] + (g[i] - m[i]) * 0.1f;
      v[i] = v[i] * 0.999f + g[i] * g[i] * 0.001f;
      Vector root = __builtin_elementwise_sqrt(v[i]) / rootOfCorrection + 1e-8f;
      w[i] = w[i] * 0.9999f - m[i] / root * 1e-3f;
    }
  }
  /// Not known to the compiler, as the corrections of a step are not.
  static inline volatile float correction = 0.5f;

  /// Over 128 MB, which is more than caches keep from one step to the next.
  void addUpdate() {
    constexpr int64_t count = 8 * mebi;
    addRate("update_bytes_per_s", "", 28.0 * count, [this] {
      float *base = memory.data();
      void *buffers[] = {base, base + count, base + 2 * count,
                         base + 3 * count};
      return typicalSeconds(0.04, [&] {
        onSlices(wide ? updateWide : updateNarrow, buffers, count / 16);
      });
    });
  }

  void addCopies() {
    constexpr double bytes = 4.0 * copyFloats;
    addRate("copy_in_bytes_per_s", "", bytes,
            [this] { return copySeconds(true, false); });
    addRate("copy_out_bytes_per_s", "", bytes,
            [this] { return copySeconds(false, false); });
    addRate("copy_both_bytes_per_s", "", 2 * bytes,
            [this] { return copySeconds(true, true); });
    addSeconds("copy_s", [this] { return leastCopySeconds(); });
  }

  /// Of 64 bytes, by a thread that sleeps until it is told to, as queues do: it
  /// takes what waking it up takes.
  double leastCopySeconds() {
    constexpr int copies = 40;
    constexpr double apart = 3e-4; // longer than waiters spin
    Signal told;
    std::atomic<int> begun{0}, ended{0};
    double begin = 0;
    std::vector<double> samples;
    std::thread copier([&] {
      char from[64] = {}, to[64];
      for (int i = 1; i <= copies; ++i) {
        told.await([&] { return begun.load(std::memory_order_acquire) >= i; });
        std::memmove(to, from, sizeof(from));
        asm volatile("" : : "r"(to) : "memory");
        samples.push_back(now() - begin);
        ended.store(i, std::memory_order_release);
      }
    });
    HmGemm work = product(256, 256, 256, false, false);
    for (int i = 1; i <= copies; ++i) {
      double until = now() + apart;
      do
        productSeconds(work);
      while (now() < until);
      begin = now();
      begun.store(i, std::memory_order_release);
      told.notify();
      while (ended.load(std::memory_order_acquire) < i)
        relaxProcessor();
    }
    copier.join();
    return quantile(samples, 0.25);
  }

  static constexpr int64_t copyFloats = mebi;

  /// Of one copy by a thread of its own while the workers multiply, `both`
  /// beside another thread that copies the other way. The host's side moves on
  /// through 64 MB, the device's through 16.
  double copySeconds(bool in, bool both) {
    std::atomic<bool> stop{false};
    auto copyThrough = [&](bool toDevice, int half) {
      float *base = memory.data() + half * 20 * mebi;
      return [=, host = Moving(base, 16 * mebi),
              device = Moving(base + 16 * mebi, 4 * mebi)]() mutable {
        float *h = host.take(copyFloats), *d = device.take(copyFloats);
        std::memmove(toDevice ? d : h, toDevice ? h : d, 4 * copyFloats);
      };
    };
    std::thread other([&] {
      auto copy = copyThrough(!in, 1);
      while (both && !stop.load())
        copy();
    });
    double seconds = 0;
    std::thread copier([&] {
      seconds = typicalSeconds(0.06, copyThrough(in, 0));
      stop.store(true);
    });
    HmGemm work = product(256, 256, 256, false, false);
    while (!stop.load())
      productSeconds(work);
    copier.join();
    other.join();
    return seconds;
  }

  const bool wide;
  WorkerPool pool;
  std::vector<Floats> operands; ///< of products, of each worker
  Floats memory;                ///< of all else
  std::vector<Figure> figures;
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
