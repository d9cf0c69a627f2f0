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
void momentum(void *const *b, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    out(b, 2)[i] = 0.5f * out(b, 2)[i] + in(b, 1)[i];
    out(b, 0)[i] -= in(b, 3)[0] * out(b, 2)[i];
  }
}
void momentum2(void *const *b, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    out(b, 3)[i] = 0.5f * out(b, 3)[i] + (in(b, 1)[i] + in(b, 2)[i]);
    out(b, 0)[i] -= in(b, 4)[0] * out(b, 3)[i];
  }
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
  static const std::map<std::string, HmRangeFunction> kernels = {
      {"scale", scale},
      {"copy", copyElements},
      {"add", add},
      {"add_to", addTo},
      {"scale_backward", scaleBackward},
      {"weight_gradient.1", weightGradient<1>},
      {"weight_gradient.2", weightGradient<2>},
      {"weight_gradient.4", weightGradient<4>},
      {"weight_gradient.8", weightGradient<8>},
      {"loss.1", loss<1>},
      {"loss.2", loss<2>},
      {"loss.4", loss<4>},
      {"loss.8", loss<8>},
      {"loss_backward", lossBackward},
      {"denominator", denominator},
      {"momentum", momentum},
      {"momentum2", momentum2}};
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

StepResult trainStep(State &state, int64_t step, int64_t u, float rate) {
  std::vector<float> x = batchInput(step), target = batchTarget(step);
  StepResult result;
  float seed = 0;
  call("denominator", {target.data(), &result.denominator, &seed}, 1);
  for (auto &uses : result.gradients)
    for (auto &gradient : uses)
      gradient.assign(width, 0);
  std::string suffix = "." + std::to_string(u);
  for (int64_t first = 0; first < batch; first += u) {
    Activations a = forward(state, x.data() + first * width, u);
    const float *t = target.data() + first * width;
    call("loss" + suffix, {a.values[4].data(), t, &result.loss}, 1);
    std::vector<float> dy(u * width), dx(u * width), skip;
    call("loss_backward", {a.values[4].data(), t, &seed, dy.data()}, u * width);
    skip = dy;
    for (int l = 3; l >= 0; --l) {
      const float *w = state.weights[weightOf[l]].data();
      std::vector<float> product(u * width);
      call("scale", {w, a.values[l].data(), product.data()}, u * width);
      call("weight_gradient" + suffix,
           {a.values[l].data(), dy.data(),
            result.gradients[weightOf[l]][l == 2].data()},
           width);
      call("scale_backward",
           {w, a.values[l].data(), product.data(), dy.data(), dx.data()},
           u * width);
      if (l == 1)
        call("add", {skip.data(), dx.data(), dx.data()}, u * width);
      dy = dx;
    }
  }
  for (int p = 0; p < 3; ++p) {
    float *w = state.weights[p].data(), *m = state.momenta[p].data();
    const float *g = result.gradients[p][0].data();
    if (p == 1)
      call("momentum2", {w, g, result.gradients[p][1].data(), m, &rate}, width);
    else
      call("momentum", {w, g, m, &rate}, width);
  }
  return result;
}

std::vector<float> evaluateOutputs(const State &state, int64_t step, int64_t u,
                                   float &total) {
  std::vector<float> x = batchInput(step), target = batchTarget(step), outputs;
  total = 0;
  for (int64_t first = 0; first < batch; first += u) {
    Activations a = forward(state, x.data() + first * width, u);
    outputs.insert(outputs.end(), a.values[4].begin(), a.values[4].end());
    call("loss." + std::to_string(u),
         {a.values[4].data(), target.data() + first * width, &total}, 1);
  }
  return outputs;
}

} // namespace harmony::test
