//===- convolutions.cpp - Ways to compute a convolution -------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Measures the convolutions of ResNet-18, and some others, on one thread: by
// windows and products, by the library's primitives on blocked layouts, with
// channels last and weights as the library likes ("last") or as HmConvolution
// has them ("fixed"), and as one product for each offset of the kernel. The
// reorders of weights count. Prints a JSON object: GFLOP/s for each layer,
// direction and way, and the rate of a product of the same run. The ways take
// turns; each time is the best of many.
//
//===----------------------------------------------------------------------===//

#include "bench/Products.h"
#include "runtime/drivers/host/Gemm.h"
#include "runtime/drivers/host/LibraryScratch.h"

#include <CLI/CLI.hpp>
#include <dnnl.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

using namespace harmony::runtime;
using dnnl::memory;

namespace {

/// A convolution of [N, size, size, in], same padding.
struct Layer {
  std::string name;
  int64_t uses; ///< in ResNet-18; 0: not there
  int64_t in, out, size, kernel, stride;
  int64_t groups = 1;
  bool hasImageGradient = true;

  int64_t pad() const { return kernel / 2; }
  int64_t outSize() const { return (size + 2 * pad() - kernel) / stride + 1; }
  int64_t window() const { return kernel * kernel * in / groups; }
  double flops(int64_t samples) const {
    return 2.0 * samples * outSize() * outSize() * out * window();
  }
};

const std::vector<Layer> kLayers = {
    {"7x7/2 3-64 @224", 1, 3, 64, 224, 7, 2, 1, false},
    {"3x3 64-64 @56", 4, 64, 64, 56, 3, 1},
    {"3x3/2 64-128 @56", 1, 64, 128, 56, 3, 2},
    {"1x1/2 64-128 @56", 1, 64, 128, 56, 1, 2},
    {"3x3 128-128 @28", 3, 128, 128, 28, 3, 1},
    {"3x3/2 128-256 @28", 1, 128, 256, 28, 3, 2},
    {"1x1/2 128-256 @28", 1, 128, 256, 28, 1, 2},
    {"3x3 256-256 @14", 3, 256, 256, 14, 3, 1},
    {"3x3/2 256-512 @14", 1, 256, 512, 14, 3, 2},
    {"1x1/2 256-512 @14", 1, 256, 512, 14, 1, 2},
    {"3x3 512-512 @7", 3, 512, 512, 7, 3, 1},
    {"1x1 64-256 @56", 0, 64, 256, 56, 1, 1},
    {"3x3 64-64 @112", 0, 64, 64, 112, 3, 1},
    {"3x3 144 depthwise @56", 0, 144, 144, 56, 3, 1, 144},
};

enum Direction { Forward, Image, Weights };
const char *const kDirections[] = {"forward", "image", "weights"};

using Buffer = std::vector<float>;

void multiply(const HmGemm &g, const float *a, const float *b, float *c) {
  void *buffers[] = {const_cast<float *>(a), const_cast<float *>(b), c};
  runGemm(g, buffers, 0, 1);
}

/// Images with channels last; windows of at most 4 MiB at a time, multiplied by
/// products of at most 512 rows, as passes/Tasks does.
class WindowWay {
public:
  WindowWay(const Layer &layer, int64_t samples)
      : layer(layer), samples(samples) {
    int64_t out = layer.outSize(), positions = out * out;
    bytes = positions * layer.window() * sizeof(float);
    pieces = std::max<int64_t>(1, (bytes + kMost - 1) / kMost);
    together = std::max<int64_t>(1, kMost / bytes);
    image = makeBuffer(samples * layer.size * layer.size * layer.in);
    result = makeBuffer(samples * positions * layer.out);
    weights = makeBuffer(layer.window() * layer.out);
    reordered = weights;
    windows = makeBuffer(together * positions * layer.window());
  }

  void run(Direction direction) {
    if (direction != Weights || layer.kernel > 1)
      reorderWeights();
    for (int64_t first = 0; first < samples; first += together) {
      int64_t count = std::min(together, samples - first);
      for (int64_t piece = 0; piece < pieces; ++piece) {
        int64_t begin = layer.outSize() * piece / pieces,
                end = layer.outSize() * (piece + 1) / pieces;
        int64_t rows = count * (end - begin) * layer.outSize();
        float *d = result.data() + (first * layer.outSize() + begin) *
                                       layer.outSize() * layer.out;
        if (direction == Image) {
          product(rows, layer.window(), layer.out, d, reordered.data(),
                  windows.data(), false, false);
          forWindows(first, count, begin, end,
                     [](float *w, float *x, int64_t n) {
                       for (int64_t i = 0; i < n; ++i)
                         x[i] += w[i];
                     });
          continue;
        }
        forWindows(first, count, begin, end, [](float *w, float *x, int64_t n) {
          std::memcpy(w, x, n * sizeof(float));
        });
        if (direction == Forward)
          product(rows, layer.out, layer.window(), windows.data(),
                  reordered.data(), d, false, false);
        else
          product(layer.out, layer.window(), rows, d, windows.data(),
                  reordered.data(), true, first + piece > 0);
      }
    }
  }

private:
  static constexpr int64_t kMost = 4 << 20;

  void product(int64_t m, int64_t n, int64_t k, float *a, float *b, float *c,
               bool transA, bool accumulate) {
    HmGemm g = makeGemm(m, n, k);
    g.blockM = std::min<int64_t>(m, 512);
    g.blockN = std::min<int64_t>(n, 576);
    g.transA = transA;
    if (transA)
      g.lda = m;
    g.accumulate = accumulate;
    void *buffers[] = {a, b, c};
    runGemm(g, buffers, 0,
            (m + g.blockM - 1) / g.blockM * ((n + g.blockN - 1) / g.blockN));
  }

  void reorderWeights() {
    int64_t kernel = layer.kernel * layer.kernel;
    for (int64_t o = 0; o < layer.out; ++o)
      for (int64_t k = 0; k < kernel; ++k)
        for (int64_t c = 0; c < layer.in; ++c)
          reordered[(o * kernel + k) * layer.in + c] =
              weights[(o * layer.in + c) * kernel + k];
  }

  template <typename Body>
  void forWindows(int64_t first, int64_t count, int64_t begin, int64_t end,
                  Body body) {
    int64_t c = layer.in, row = layer.kernel * c;
    float *w = windows.data();
    for (int64_t n = first; n < first + count; ++n)
      for (int64_t y = begin; y < end; ++y)
        for (int64_t x = 0; x < layer.outSize(); ++x)
          for (int64_t i = 0; i < layer.kernel; ++i, w += row) {
            int64_t at = y * layer.stride + i - layer.pad();
            int64_t left = x * layer.stride - layer.pad();
            int64_t skip = std::max<int64_t>(0, -left);
            int64_t length = std::min(layer.kernel, layer.size - left) - skip;
            if (at < 0 || at >= layer.size)
              continue;
            body(w + skip * c,
                 image.data() +
                     ((n * layer.size + at) * layer.size + left + skip) * c,
                 length * c);
          }
  }

  Layer layer;
  int64_t samples, bytes, pieces, together;
  Buffer image, result, weights, reordered, windows;
};

/// Stride 1: images padded by zeros, and for each offset a product of all
/// positions, those of the padding included, with the weights of the offset.
class OffsetWay {
public:
  OffsetWay(const Layer &layer, int64_t samples)
      : layer(layer), samples(samples) {
    padded = layer.size + 2 * layer.pad();
    image = makeBuffer((samples * padded + 1) * padded * layer.in);
    result = makeBuffer(samples * padded * padded * layer.out);
    weights = makeBuffer(layer.window() * layer.out);
  }

  void run(Direction direction) {
    int64_t positions = layer.size * padded;
    for (int64_t n = 0; n < samples; ++n)
      for (int64_t y = 0; y < layer.kernel; ++y)
        for (int64_t x = 0; x < layer.kernel; ++x) {
          float *from =
              image.data() + ((n * padded + y) * padded + x) * layer.in;
          float *to = result.data() + n * padded * padded * layer.out;
          float *w =
              weights.data() + (y * layer.kernel + x) * layer.in * layer.out;
          bool isFirst = y + x == 0;
          HmGemm g;
          switch (direction) {
          case Forward:
            g = makeGemm(positions, layer.out, layer.in);
            g.accumulate = !isFirst;
            multiply(g, from, w, to);
            break;
          case Image:
            g = makeGemm(positions, layer.in, layer.out);
            g.accumulate = true;
            multiply(g, to, w, from);
            break;
          case Weights:
            g = makeGemm(layer.in, layer.out, positions);
            g.transA = true;
            g.lda = layer.in;
            g.accumulate = n > 0;
            multiply(g, from, to, w);
            break;
          }
        }
  }

private:
  Layer layer;
  int64_t samples, padded;
  Buffer image, result, weights;
};

/// The library's convolutions. Weights come in the model's order and leave in
/// it: their reorders count. The formats of the images are given.
class PrimitiveWay {
public:
  PrimitiveWay(const Layer &layer, int64_t samples, Direction direction,
               memory::format_tag images, memory::format_tag results,
               memory::format_tag inside)
      : engine(dnnl::engine::kind::cpu, 0), stream(engine),
        direction(direction) {
    using tag = memory::format_tag;
    auto f32 = memory::data_type::f32;
    memory::dims x{samples, layer.in, layer.size, layer.size},
        y{samples, layer.out, layer.outSize(), layer.outSize()},
        w{layer.out, layer.in, layer.kernel, layer.kernel},
        strides{layer.stride, layer.stride}, pad{layer.pad(), layer.pad()};
    if (layer.groups > 1)
      w = {layer.groups, layer.out / layer.groups, layer.in / layer.groups,
           layer.kernel, layer.kernel};
    memory::desc xDesc(x, f32, images), yDesc(y, f32, results),
        wDesc(w, f32, inside),
        plainDesc(w, f32, layer.groups > 1 ? tag::goihw : tag::oihw);
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    auto direct = dnnl::algorithm::convolution_direct;
    dnnl::convolution_forward::primitive_desc forward(
        {dnnl::prop_kind::forward_training, direct, xDesc, wDesc, yDesc,
         strides, pad, pad},
        attr, engine);
    memory::desc inner, scratch;
    switch (direction) {
    case Forward:
      primitive = dnnl::convolution_forward(forward);
      inner = forward.weights_desc();
      scratch = forward.scratchpad_desc();
      name = forward.impl_info_str();
      break;
    case Image: {
      dnnl::convolution_backward_data::primitive_desc backward(
          {direct, xDesc, wDesc, yDesc, strides, pad, pad}, attr, engine,
          forward);
      primitive = dnnl::convolution_backward_data(backward);
      inner = backward.weights_desc();
      scratch = backward.scratchpad_desc();
      name = backward.impl_info_str();
      break;
    }
    case Weights: {
      dnnl::convolution_backward_weights::primitive_desc backward(
          {direct, xDesc, wDesc, yDesc, strides, pad, pad}, attr, engine,
          forward);
      primitive = dnnl::convolution_backward_weights(backward);
      inner = backward.diff_weights_desc();
      scratch = backward.scratchpad_desc();
      name = backward.impl_info_str();
      break;
    }
    }
    memory::desc from = direction == Weights ? inner : plainDesc,
                 to = direction == Weights ? plainDesc : inner;
    weights = memory(from, engine);
    reorderedWeights = memory(to, engine);
    reorder = dnnl::reorder(weights, reorderedWeights);
    memory xMemory(xDesc, engine), yMemory(yDesc, engine);
    for (const memory &m : {xMemory, yMemory, weights, reorderedWeights}) {
      auto *data = static_cast<float *>(m.get_data_handle());
      size_t floats = m.get_desc().get_size() / sizeof(float);
      for (size_t i = 0; i < floats; ++i)
        data[i] = static_cast<float>(i % 251) / 251 - 0.5f;
    }
    bool isForward = direction == Forward, isWeights = direction == Weights;
    arguments = {
        {direction == Image ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC, xMemory},
        {isForward ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST, yMemory},
        {isWeights ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS,
         isWeights ? weights : reorderedWeights},
        {DNNL_ARG_SCRATCHPAD, memory(scratch, engine)}};
  }

  void run() {
    if (direction != Weights)
      reorder.execute(stream, weights, reorderedWeights);
    primitive.execute(stream, arguments);
    if (direction == Weights)
      reorder.execute(stream, weights, reorderedWeights);
  }

  std::string name;

private:
  dnnl::engine engine;
  dnnl::stream stream;
  Direction direction;
  dnnl::primitive primitive;
  dnnl::reorder reorder;
  memory weights, reorderedWeights;
  std::unordered_map<int, memory> arguments;
};

struct Way {
  std::string name, detail;
  std::function<void()> run;
  double best = 1e30;
};

/// Seconds of the best of many calls for each way.
void measure(std::vector<Way> &ways, double budget) {
  using Clock = std::chrono::steady_clock;
  double spent = 0;
  for (int round = 0; round < 4 || spent < budget * ways.size(); ++round)
    for (Way &way : ways) {
      Clock::time_point start = Clock::now();
      way.run();
      double seconds =
          std::chrono::duration<double>(Clock::now() - start).count();
      if (round > 0)
        way.best = std::min(way.best, seconds);
      spent += seconds;
    }
}

} // namespace

int main(int argc, char **argv) {
  CLI::App app("Measures ways to compute convolutions.");
  std::string isa = processorHas(HM_ISA_AVX512) ? "avx512" : "avx2";
  int64_t samples = 4;
  double budget = 0.3;
  app.add_option("--isa", isa, "avx2 or avx512; default: the best there is")
      ->check(CLI::IsMember({"avx2", "avx512"}));
  app.add_option("--samples", samples, "of a batch")->check(CLI::Range(1, 64));
  app.add_option("--seconds", budget, "for each measurement");
  CLI11_PARSE(app, argc, argv);
  try {
    bool isWide = isa == "avx512";
    configureGemm(isWide ? HM_ISA_AVX512 : HM_ISA_AVX2);
    attachGemmThread();
    reserveLibraryScratch(size_t(64) << 20);
    using tag = memory::format_tag;
    const tag blocked = isWide ? tag::nChw16c : tag::nChw8c;

    HmGemm ceiling = makeGemm(512, 768, 768);
    Buffer a = makeBuffer(512 * 768), b = makeBuffer(768 * 768),
           c = makeBuffer(512 * 768);
    std::vector<Way> products{
        {"product", "",
         [&] { multiply(ceiling, a.data(), b.data(), c.data()); }}};
    measure(products, budget);
    double best = 2.0 * 512 * 768 * 768 / products[0].best * 1e-9;
    std::printf("{\"isa\": \"%s\", \"samples\": %ld, \"gemm_gflops\": %.1f,\n"
                " \"layers\": {",
                isa.c_str(), static_cast<long>(samples), best);
    std::map<std::string, double> total;
    bool isFirst = true;
    for (const Layer &layer : kLayers)
      for (Direction direction : {Forward, Image, Weights}) {
        if (direction == Image && !layer.hasImageGradient)
          continue;
        std::vector<Way> ways;
        if (layer.groups == 1) {
          auto way = std::make_shared<WindowWay>(layer, samples);
          ways.push_back({"windows", "", [=] { way->run(direction); }});
        }
        if (layer.groups == 1 && layer.stride == 1 && layer.kernel > 1) {
          auto way = std::make_shared<OffsetWay>(layer, samples);
          ways.push_back({"offsets", "", [=] { way->run(direction); }});
        }
        for (const char *name : {"blocked", "last", "fixed"}) {
          bool isBlocked = *name == 'b';
          tag images = !isBlocked      ? tag::nhwc
                       : layer.in % 16 ? tag::nchw
                                       : blocked;
          tag inside = tag::any;
          if (*name == 'f')
            inside = layer.groups > 1 ? (isWide ? tag::Goihw16g : tag::Goihw8g)
                     : layer.in % 16  ? (isWide ? tag::Ohwi16o : tag::Ohwi8o)
                     : direction == Image
                         ? (isWide ? tag::OIhw16o16i : tag::OIhw8o8i)
                         : (isWide ? tag::OIhw16i16o : tag::OIhw8i8o);
          auto way = std::make_shared<PrimitiveWay>(
              layer, samples, direction, images,
              isBlocked ? blocked : tag::nhwc, inside);
          ways.push_back({name, way->name, [=] { way->run(); }});
        }
        measure(ways, budget);
        std::printf("%s\n  \"%s %s\": {", isFirst ? "" : ",",
                    layer.name.c_str(), kDirections[direction]);
        isFirst = false;
        for (size_t i = 0; i < ways.size(); ++i) {
          const Way &way = ways[i];
          total[way.name] += layer.uses * way.best * 1e3;
          std::printf("%s\"%s\": %.0f", i ? ", " : "", way.name.c_str(),
                      layer.flops(samples) / way.best * 1e-9);
          if (!way.detail.empty())
            std::printf(", \"%s primitive\": \"%s\"", way.name.c_str(),
                        way.detail.c_str());
        }
        std::printf("}");
        std::fflush(stdout);
      }
    std::printf("},\n \"resnet18_ms\": {\"windows\": %.1f, \"blocked\": %.1f, "
                "\"last\": %.1f, \"fixed\": %.1f}}\n",
                total["windows"], total["blocked"], total["last"],
                total["fixed"]);
  } catch (const std::exception &failure) {
    std::fprintf(stderr, "convolutions: %s\n", failure.what());
    return 1;
  }
  return 0;
}
