//===- Kernels.cpp - The kernels of the chain model -----------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// x -> w0 x -> w1 . -> w1 . -> w2 . + (w0 x) -> half the squared distance from
// the target. The weights are vectors, the products elementwise. Kernels whose
// work depends on the microbatch have it in their name, as generated ones have.
//
//===----------------------------------------------------------------------===//

#include "test/unit/program/Kernels.h"

#include <algorithm>
#include <map>

namespace harmony::test {

namespace {

const float *in(void *const *buffers, int i) {
  return static_cast<const float *>(buffers[i]);
}
float *out(void *const *buffers, int i) {
  return static_cast<float *>(buffers[i]);
}

void scale(void *const *b, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i)
    out(b, 2)[i] = in(b, 0)[i % width] * in(b, 1)[i];
}
void copyElements(void *const *b, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i)
    out(b, 1)[i] = in(b, 0)[i];
}
void add(void *const *b, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i)
    out(b, 2)[i] = in(b, 0)[i] + in(b, 1)[i];
}
void addTo(void *const *b, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i)
    out(b, 1)[i] += in(b, 0)[i];
}
/// dx = dy * w, plus what `saved` differs from w * x: nothing, where it is
/// right.
void scaleBackward(void *const *b, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    float w = in(b, 0)[i % width];
    out(b, 4)[i] = in(b, 3)[i] * w + (in(b, 2)[i] - w * in(b, 1)[i]);
  }
}
template <int64_t u>
void weightGradient(void *const *b, int64_t begin, int64_t end) {
  for (int64_t j = begin; j < end; ++j) {
    float sum = 0;
    for (int64_t i = 0; i < u; ++i)
      sum += in(b, 1)[i * width + j] * in(b, 0)[i * width + j];
    out(b, 2)[j] += sum;
  }
}
template <int64_t u>
void loss(void *const *b, int64_t begin, int64_t end) {
  for (int64_t k = begin; k < end; ++k) {
    float sum = 0;
    for (int64_t i = 0; i < u * width; ++i) {
      float d = in(b, 0)[i] - in(b, 1)[i];
      sum += d * d;
    }
    out(b, 2)[0] += 0.5f * sum;
  }
}
void lossBackward(void *const *b, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i)
    out(b, 3)[i] = in(b, 2)[0] * (in(b, 0)[i] - in(b, 1)[i]);
}
void denominator(void *const *b, int64_t begin, int64_t end) {
  for (int64_t k = begin; k < end; ++k) {
    // Depends on the inputs, as the number of labels that count does.
    out(b, 1)[0] = static_cast<float>(batch) + in(b, 0)[0];
    out(b, 2)[0] = 1.0f / out(b, 1)[0];
  }
}
/// Parameter, parts of the gradient, momentum, rate.
template <int parts>
void momentum(void *const *b, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    float sum = in(b, 1)[i];
    for (int part = 1; part < parts; ++part)
      sum += in(b, 1 + part)[i];
    float &moment = out(b, 1 + parts)[i];
    moment = 0.5f * moment + sum;
    out(b, 0)[i] -= in(b, 2 + parts)[0] * moment;
  }
}

/// As momentum, the gradient scaled by what comes last.
template <int parts>
void clippedMomentum(void *const *b, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    float sum = in(b, 1)[i];
    for (int part = 1; part < parts; ++part)
      sum += in(b, 1 + part)[i];
    float &moment = out(b, 1 + parts)[i];
    moment = 0.5f * moment + in(b, 3 + parts)[0] * sum;
    out(b, 0)[i] -= in(b, 2 + parts)[0] * moment;
  }
}
/// Parts of a gradient, sum of squares.
template <int parts>
void squares(void *const *b, int64_t begin, int64_t end) {
  for (int64_t k = begin; k < end; ++k) {
    float total = 0;
    for (int64_t i = 0; i < width; ++i) {
      float sum = in(b, 0)[i];
      for (int part = 1; part < parts; ++part)
        sum += in(b, part)[i];
      total += sum * sum;
    }
    out(b, parts)[0] = total;
  }
}
/// Sums of squares of the three gradients, rate, factor.
void factor(void *const *b, int64_t begin, int64_t end) {
  for (int64_t k = begin; k < end; ++k)
    out(b, 4)[0] =
        1.0f / (1.0f + in(b, 3)[0] + in(b, 0)[0] + in(b, 1)[0] + in(b, 2)[0]);
}

using Kernels = std::map<std::string, HmRangeFunction>;

/// Those of u samples and parts, for 1 to n.
template <int n>
void addSizes(Kernels &kernels) {
  std::string size = "." + std::to_string(n);
  kernels["weight_gradient" + size] = weightGradient<n>;
  kernels["loss" + size] = loss<n>;
  kernels["momentum" + size] = momentum<n>;
  kernels["clipped_momentum" + size] = clippedMomentum<n>;
  kernels["squares" + size] = squares<n>;
  if constexpr (n > 1)
    addSizes<n - 1>(kernels);
}

void call(const std::string &name, std::vector<const void *> buffers,
          int64_t extent) {
  std::vector<void *> pointers;
  for (const void *buffer : buffers)
    pointers.push_back(const_cast<void *>(buffer));
  findKernel(name)(pointers.data(), 0, extent);
}

struct Activations {
  std::vector<float> values[5]; // x, w0 x, w1 ., w1 ., output
};

/// Weight of each of the three scaling layers and of the one with the skip.
constexpr int weightOf[] = {0, 1, 1, 2};

Activations forward(const State &state, const float *x, int64_t u) {
  Activations a;
  a.values[0].assign(x, x + u * width);
  for (int l = 0; l < 4; ++l) {
    a.values[l + 1].resize(u * width);
    call("scale",
         {state.weights[weightOf[l]].data(), a.values[l].data(),
          a.values[l + 1].data()},
         u * width);
  }
  call("add_to", {a.values[1].data(), a.values[4].data()}, u * width);
  return a;
}

std::vector<float> pattern(int64_t count, int64_t seed) {
  std::vector<float> values(count);
  for (int64_t i = 0; i < count; ++i)
    values[i] = 0.25f + static_cast<float>((i * 37 + seed * 101) % 97) / 97.0f;
  return values;
}

} // namespace

HmRangeFunction findKernel(const std::string &name) {
  static const Kernels kernels = [] {
    Kernels all = {{"scale", scale},
                   {"copy", copyElements},
                   {"add", add},
                   {"add_to", addTo},
                   {"scale_backward", scaleBackward},
                   {"loss_backward", lossBackward},
                   {"factor", factor},
                   {"denominator", denominator}};
    addSizes<2 * batch>(all);
    return all;
  }();
  auto found = kernels.find(name);
  return found == kernels.end() ? nullptr : found->second;
}

State initialState() {
  State state;
  for (int p = 0; p < 3; ++p) {
    state.weights[p] = pattern(width, 7 + p);
    state.momenta[p].assign(width, 0);
  }
  return state;
}

std::vector<float> batchInput(int64_t step) {
  return pattern(batch * width, 20 + step);
}
std::vector<float> batchTarget(int64_t step) {
  return pattern(batch * width, 50 + step);
}

Split splitBatch(int groups, int64_t microbatch) {
  Split split(groups);
  for (int group = 0; group < groups; ++group)
    for (int64_t left = batch / groups + (group < batch % groups); left > 0;) {
      split[group].push_back(std::min(left, microbatch));
      left -= split[group].back();
    }
  return split;
}

StepResult trainStep(State &state, int64_t step, const Split &split, float rate,
                     bool clips) {
  std::vector<float> x = batchInput(step), target = batchTarget(step);
  StepResult result;
  float seed = 0;
  call("denominator", {target.data(), &result.denominator, &seed}, 1);
  for (int p = 0; p < 3; ++p)
    result.gradients[p].assign((p == 1 ? 2 : 1) * split.size(),
                               std::vector<float>(width, 0));
  result.losses.assign(split.size(), 0);
  int64_t first = 0;
  for (size_t group = 0; group < split.size(); ++group)
    for (int64_t u : split[group]) {
      std::string suffix = "." + std::to_string(u);
      Activations a = forward(state, x.data() + first * width, u);
      const float *t = target.data() + first * width;
      call("loss" + suffix, {a.values[4].data(), t, &result.losses[group]}, 1);
      std::vector<float> dy(u * width), dx(u * width), skip;
      call("loss_backward", {a.values[4].data(), t, &seed, dy.data()},
           u * width);
      skip = dy;
      for (int l = 3; l >= 0; --l) {
        const float *w = state.weights[weightOf[l]].data();
        size_t part = l == 1 || l == 2 ? 2 * group + (l == 2) : group;
        std::vector<float> product(u * width);
        call("scale", {w, a.values[l].data(), product.data()}, u * width);
        call("weight_gradient" + suffix,
             {a.values[l].data(), dy.data(),
              result.gradients[weightOf[l]][part].data()},
             width);
        call("scale_backward",
             {w, a.values[l].data(), product.data(), dy.data(), dx.data()},
             u * width);
        if (l == 1)
          call("add", {skip.data(), dx.data(), dx.data()}, u * width);
        dy = dx;
      }
      first += u;
    }
  float sums[3] = {}, scale = 1;
  auto parts = [&](int p) {
    std::vector<const void *> operands;
    for (const std::vector<float> &part : result.gradients[p])
      operands.push_back(part.data());
    return operands;
  };
  auto sized = [&](const char *name, int p) {
    return name + ("." + std::to_string(result.gradients[p].size()));
  };
  if (clips) {
    for (int p = 0; p < 3; ++p) {
      std::vector<const void *> operands = parts(p);
      operands.push_back(&sums[p]);
      call(sized("squares", p), operands, 1);
    }
    call("factor", {&sums[0], &sums[1], &sums[2], &rate, &scale}, 1);
  }
  for (int p = 0; p < 3; ++p) {
    std::vector<const void *> operands = parts(p);
    operands.insert(operands.begin(), state.weights[p].data());
    operands.push_back(state.momenta[p].data());
    operands.push_back(&rate);
    if (clips)
      operands.push_back(&scale);
    call(sized(clips ? "clipped_momentum" : "momentum", p), operands, width);
  }
  return result;
}

std::vector<float> evaluateOutputs(const State &state, int64_t step, int64_t u,
                                   float &total) {
  std::vector<float> x = batchInput(step), target = batchTarget(step), outputs;
  total = 0;
  int64_t first = 0;
  Split split = splitBatch(1, u);
  for (int64_t samples : split[0]) {
    Activations a = forward(state, x.data() + first * width, samples);
    outputs.insert(outputs.end(), a.values[4].begin(), a.values[4].end());
    call("loss." + std::to_string(samples),
         {a.values[4].data(), target.data() + first * width, &total}, 1);
    first += samples;
  }
  return outputs;
}

} // namespace harmony::test
