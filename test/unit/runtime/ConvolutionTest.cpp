//===- ConvolutionTest.cpp - The library's convolutions -------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Convolutions of the host driver against sums in double precision, written
// from the definition in runtime/program.h, and their bits over threads.
//
//===----------------------------------------------------------------------===//

#include "runtime/drivers/host/HostDriver.h"
#include "runtime/drivers/host/Mapping.h"
#include "runtime/hal/ConvolutionShape.h"
#include "runtime/hal/SplitMix.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

using namespace harmony::runtime;

namespace {

// Blocks that divide the samples and others; strides, padding on one side, a
// kernel of one row, colours, windows that leave a rest of the image.
const HmConvolution shapes[] = {
    {4, 2, 16, 24, {9, 7}, {9, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 0, 8},
    {5, 2, 8, 8, {8, 8}, {4, 4}, {3, 3}, {2, 2}, {1, 1}, {0, 0}, 0, 8},
    {3, 1, 3, 16, {18, 18}, {9, 9}, {7, 7}, {2, 2}, {3, 3}, {2, 2}, 0, 8},
    {3, 3, 16, 8, {1, 20}, {1, 20}, {1, 5}, {1, 1}, {0, 2}, {0, 2}, 0, 8},
    {2, 1, 8, 16, {6, 11}, {5, 10}, {2, 2}, {1, 1}, {0, 0}, {0, 0}, 0, 8}};

/// Where weight (o, c, y, x) lies.
int64_t weightAt(const HmConvolution &s, int64_t o, int64_t c, int64_t y,
                 int64_t x) {
  int64_t lanes = s.lanes, offset = y * s.kernel[1] + x,
          offsets = s.kernel[0] * s.kernel[1];
  if (s.channels < lanes)
    return ((o / lanes * offsets + offset) * s.channels + c) * lanes +
           o % lanes;
  bool isImage = s.direction == HM_CONVOLUTION_IMAGE;
  int64_t block =
      (o / lanes * (s.channels / lanes) + c / lanes) * offsets + offset;
  return (block * lanes + (isImage ? o : c) % lanes) * lanes +
         (isImage ? c : o) % lanes;
}

/// Calls `body(image, weight, result, sample)` with the positions of all
/// products that the convolution adds up.
template <typename Body>
void forProducts(const HmConvolution &s, Body body) {
  for (int64_t n = 0; n < s.samples; ++n)
    for (int64_t oy = 0; oy < s.out[0]; ++oy)
      for (int64_t ox = 0; ox < s.out[1]; ++ox)
        for (int64_t y = 0; y < s.kernel[0]; ++y)
          for (int64_t x = 0; x < s.kernel[1]; ++x) {
            int64_t iy = oy * s.strides[0] + y - s.low[0],
                    ix = ox * s.strides[1] + x - s.low[1];
            if (iy < 0 || iy >= s.image[0] || ix < 0 || ix >= s.image[1])
              continue;
            for (int64_t o = 0; o < s.outputs; ++o)
              for (int64_t c = 0; c < s.channels; ++c)
                body(((n * s.image[0] + iy) * s.image[1] + ix) * s.channels + c,
                     weightAt(s, o, c, y, x),
                     ((n * s.out[0] + oy) * s.out[1] + ox) * s.outputs + o, n);
          }
}

std::vector<double> expected(const HmConvolution &s, const float *first,
                             const float *second) {
  std::vector<double> sums(convolutionOperands(s)[2], 0.0);
  int64_t weights = convolutionSpans(s).weights;
  forProducts(s, [&](int64_t image, int64_t weight, int64_t result, int64_t n) {
    switch (s.direction) {
    case HM_CONVOLUTION_FORWARD:
      sums[result] += double(first[image]) * second[weight];
      break;
    case HM_CONVOLUTION_IMAGE:
      sums[image] += double(first[result]) * second[weight];
      break;
    default:
      sums[n / s.blockSamples * weights + weight] +=
          double(first[result]) * second[image];
      break;
    }
  });
  return sums;
}

/// Operands at 0, 1 and 2 MiB of the arena.
class Runner {
public:
  Runner(const HmConvolution &shape, unsigned threads) : shape(shape) {
    DriverOptions options;
    options.devices = {{3 << 20}};
    options.kernels.kernels = &kernel;
    options.kernels.kernelCount = 1;
    options.kernels.convolutions = &this->shape;
    options.kernels.convolutionCount = 1;
    options.threads = threads;
    driver = createHostDriver(options);
    driver->setHostMemory(HM_SPACE_HOST, host.data(), host.size());
    queue = driver->createQueue(HM_QUEUE_COMPUTE, 0);
    queue->attachThread();
    SplitMix random(1);
    for (int64_t i = 0; i < host.size() / 4; ++i)
      data()[i] = static_cast<float>(random.symmetric());
  }

  std::vector<float> run() {
    std::array<int64_t, 3> floats = convolutionOperands(shape);
    Range operands[3];
    for (int i = 0; i < 3; ++i)
      operands[i] = {HM_SPACE_DEVICE, 0, int64_t(i) << 20, floats[i] * 4};
    queue->copy({HM_SPACE_DEVICE, 0, 0, 3 << 20},
                {HM_SPACE_HOST, 0, 0, 3 << 20}, HM_TRAFFIC_SWAP_IN);
    queue->launch(0, operands, 3, convolutionBlocks(shape), 1, "convolution");
    Mapping result(1 << 20, "result");
    driver->setHostMemory(HM_SPACE_BATCH, result.data(), result.size());
    queue->copy({HM_SPACE_BATCH, 0, 0, floats[2] * 4}, operands[2],
                HM_TRAFFIC_SWAP_OUT);
    auto *values = reinterpret_cast<float *>(result.data());
    return {values, values + floats[2]};
  }

  float *data(int operand = 0) {
    return reinterpret_cast<float *>(host.data() + (int64_t(operand) << 20));
  }

private:
  HmConvolution shape;
  HmKernel kernel{0, HM_KERNEL_CONVOLUTION, 0, HM_FAMILY_GEMM};
  Mapping host{3 << 20, "host"};
  std::unique_ptr<Driver> driver;
  std::unique_ptr<Queue> queue;
};

/// All shapes in all directions; images of colours need no gradient.
std::vector<HmConvolution> allConvolutions() {
  std::vector<HmConvolution> all;
  for (HmConvolution shape : shapes)
    for (uint32_t i = 0; i < HM_CONVOLUTION_DIRECTION_COUNT; ++i) {
      shape.direction = i;
      if (i != HM_CONVOLUTION_IMAGE || shape.channels >= shape.lanes)
        all.push_back(shape);
    }
  return all;
}

class Convolutions : public testing::TestWithParam<HmConvolution> {
protected:
  const HmConvolution &shape = GetParam();
};

TEST_P(Convolutions, AreWhatTheDefinitionSays) {
  Runner runner(shape, 1);
  std::vector<double> sums = expected(shape, runner.data(0), runner.data(1));
  std::vector<float> result = runner.run();
  ASSERT_EQ(result.size(), sums.size());
  double largest = 0, error = 0;
  for (size_t i = 0; i < sums.size(); ++i) {
    largest = std::max(largest, std::abs(sums[i]));
    error = std::max(error, std::abs(sums[i] - result[i]));
  }
  EXPECT_GT(largest, 0.1);
  EXPECT_LT(error, 1e-5 * largest);
}

TEST_P(Convolutions, HaveTheSameBitsOnAnyNumberOfThreads) {
  std::vector<float> once = Runner(shape, 1).run();
  for (unsigned threads : {2, 5})
    EXPECT_EQ(Runner(shape, threads).run(), once) << threads << " threads";
}

INSTANTIATE_TEST_SUITE_P(All, Convolutions,
                         testing::ValuesIn(allConvolutions()));

} // namespace
