//===- Convolution.cpp - Convolutions on the host -------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/drivers/host/Convolution.h"

#include "runtime/drivers/host/LibraryScratch.h"
#include "runtime/drivers/host/Mapping.h"
#include "runtime/hal/ConvolutionShape.h"
#include "runtime/hal/Error.h"

#include <algorithm>
#include <array>
#include <dnnl.h>
#include <new>
#include <string>
#include <vector>

namespace harmony::runtime {

namespace {

constexpr std::align_val_t kScratchAlignment{64};

void check(dnnl_status_t status, const char *what) {
  if (status != dnnl_success)
    throw Error(ExitCode::Failure, std::string("the product library: ") + what +
                                       " failed with status " +
                                       std::to_string(status));
}

/// A handle of the library. What the library made is destroyed here.
template <typename T, dnnl_status_t (*destroy)(T)>
class Handle {
public:
  Handle() = default;
  ~Handle() {
    if (value)
      destroy(value);
  }
  Handle(const Handle &) = delete;
  Handle &operator=(const Handle &) = delete;
  operator T() const { return value; }
  T *receive() { return &value; }

private:
  T value = nullptr;
};
using Engine = Handle<dnnl_engine_t, dnnl_engine_destroy>;
using Stream = Handle<dnnl_stream_t, dnnl_stream_destroy>;
using Memory = Handle<dnnl_memory_t, dnnl_memory_destroy>;
using Primitive = Handle<dnnl_primitive_t, dnnl_primitive_destroy>;
using Attributes = Handle<dnnl_primitive_attr_t, dnnl_primitive_attr_destroy>;
using Descriptor = Handle<dnnl_primitive_desc_t, dnnl_primitive_desc_destroy>;

dnnl_engine_t getEngine() {
  static Engine engine;
  static const dnnl_status_t status =
      dnnl_engine_create(engine.receive(), dnnl_cpu, 0);
  check(status, "creating an engine");
  return engine;
}

dnnl_memory_desc_t describe(std::array<int64_t, 4> dims,
                            dnnl_format_tag_t format) {
  dnnl_memory_desc_t desc;
  check(dnnl_memory_desc_init_by_tag(&desc, 4, dims.data(), dnnl_f32, format),
        "describing a tensor");
  return desc;
}

dnnl_format_tag_t getWeightsFormat(const HmConvolution &shape) {
  bool isWide = shape.lanes == 16;
  if (shape.channels < shape.lanes)
    return isWide ? dnnl_Ohwi16o : dnnl_Ohwi8o;
  if (shape.direction == HM_CONVOLUTION_IMAGE)
    return isWide ? dnnl_OIhw16o16i : dnnl_OIhw8o8i;
  return isWide ? dnnl_OIhw16i16o : dnnl_OIhw8i8o;
}

} // namespace

/// The library's convolution of one number of samples.
struct Convolution::Call {
  Call(const HmConvolution &shape, int64_t samples);
  /// With the library's allocations served from the worker's region.
  void run(std::array<void *, 3> buffers) const {
    LibraryCall call;
    compute(buffers);
  }
  void compute(std::array<void *, 3> buffers) const;

  std::array<dnnl_memory_desc_t, 3> operands;
  std::array<int, 3> arguments;
  dnnl_memory_desc_t scratch;
  Primitive primitive;
};

Convolution::Call::Call(const HmConvolution &c, int64_t samples) {
  dnnl_memory_desc_t image =
      describe({samples, c.channels, c.image[0], c.image[1]}, dnnl_nhwc);
  dnnl_memory_desc_t result =
      describe({samples, c.outputs, c.out[0], c.out[1]}, dnnl_nhwc);
  dnnl_memory_desc_t weights = describe(
      {c.outputs, c.channels, c.kernel[0], c.kernel[1]}, getWeightsFormat(c));
  Attributes attributes;
  check(dnnl_primitive_attr_create(attributes.receive()),
        "creating attributes");
  check(dnnl_primitive_attr_set_scratchpad_mode(attributes,
                                                dnnl_scratchpad_mode_user),
        "setting the scratchpad");
  auto makeDescriptor = [&](const dnnl_convolution_desc_t &desc,
                            dnnl_primitive_desc_t hint, Descriptor &made) {
    dnnl_status_t status = dnnl_primitive_desc_create(
        made.receive(), &desc, attributes, getEngine(), hint);
    if (status != dnnl_success)
      throw Error(ExitCode::NoDevice,
                  "the product library has no convolution of " +
                      std::to_string(c.kernel[0]) + " x " +
                      std::to_string(c.kernel[1]) + " windows, " +
                      std::to_string(c.channels) + " channels and " +
                      std::to_string(c.outputs) + " outputs (status " +
                      std::to_string(status) + ")");
  };
  const char *describing = "describing a convolution";
  dnnl_convolution_desc_t desc;
  Descriptor forward, backward;
  check(dnnl_convolution_forward_desc_init(
            &desc, dnnl_forward_training, dnnl_convolution_direct, &image,
            &weights, nullptr, &result, c.strides, c.low, c.high),
        describing);
  // Backward primitives ask for a forward one as a hint, which may have the
  // weights in the other order.
  makeDescriptor(desc, nullptr, forward);
  switch (c.direction) {
  case HM_CONVOLUTION_FORWARD:
    operands = {image, weights, result};
    arguments = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
    break;
  case HM_CONVOLUTION_IMAGE:
    check(dnnl_convolution_backward_data_desc_init(
              &desc, dnnl_convolution_direct, &image, &weights, &result,
              c.strides, c.low, c.high),
          describing);
    makeDescriptor(desc, forward, backward);
    operands = {result, weights, image};
    arguments = {DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_SRC};
    break;
  default:
    check(dnnl_convolution_backward_weights_desc_init(
              &desc, dnnl_convolution_direct, &image, &weights, nullptr,
              &result, c.strides, c.low, c.high),
          describing);
    makeDescriptor(desc, forward, backward);
    operands = {result, image, weights};
    arguments = {DNNL_ARG_DIFF_DST, DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS};
    break;
  }
  dnnl_primitive_desc_t chosen =
      c.direction == HM_CONVOLUTION_FORWARD ? forward : backward;
  scratch = *dnnl_primitive_desc_query_md(chosen, dnnl_query_scratchpad_md, 0);
  check(dnnl_primitive_create(primitive.receive(), chosen),
        "creating a convolution");
}

void Convolution::Call::compute(std::array<void *, 3> buffers) const {
  dnnl_engine_t engine = getEngine();
  size_t bytes = dnnl_memory_desc_get_size(&scratch);
  struct Free {
    void operator()(char *p) const { operator delete(p, kScratchAlignment); }
  };
  std::unique_ptr<char, Free> own;
  // The worker's region, else the heap.
  void *region = bytes ? allocateLibraryScratch(bytes, 64) : nullptr;
  if (bytes && !region) {
    own.reset(static_cast<char *>(operator new(bytes, kScratchAlignment)));
    region = own.get();
  }
  Stream stream;
  check(dnnl_stream_create(stream.receive(), engine, dnnl_stream_default_flags),
        "creating a stream");
  Memory memories[4];
  dnnl_exec_arg_t list[4];
  for (int i = 0; i < 4; ++i) {
    const dnnl_memory_desc_t &desc = i < 3 ? operands[i] : scratch;
    check(dnnl_memory_create(memories[i].receive(), &desc, engine,
                             i < 3 ? buffers[i] : region),
          "wrapping a tensor");
    list[i] = {i < 3 ? arguments[i] : DNNL_ARG_SCRATCHPAD, memories[i]};
  }
  check(dnnl_primitive_execute(primitive, stream, 4, list), "a convolution");
}

Convolution::Convolution(const HmConvolution &shape) : shape(shape) {
  whole = std::make_unique<Call>(shape, shape.blockSamples);
  if (int64_t rest = shape.samples % shape.blockSamples)
    last = std::make_unique<Call>(shape, rest);
}
Convolution::~Convolution() = default;
Convolution::Convolution(Convolution &&) noexcept = default;

void Convolution::run(void *const *buffers, int64_t begin, int64_t end) const {
  ConvolutionSpans spans = convolutionSpans(shape);
  int64_t image = spans.image / shape.samples * shape.blockSamples,
          result = spans.result / shape.samples * shape.blockSamples;
  std::array<int64_t, 3> steps;
  switch (shape.direction) {
  case HM_CONVOLUTION_FORWARD:
    steps = {image, 0, result};
    break;
  case HM_CONVOLUTION_IMAGE:
    steps = {result, 0, image};
    break;
  default:
    steps = {result, image, spans.weights};
    break;
  }
  for (int64_t block = begin; block < end; ++block) {
    std::array<void *, 3> operands;
    for (int i = 0; i < 3; ++i)
      operands[i] = static_cast<float *>(buffers[i]) + block * steps[i];
    bool isLast = last && block + 1 == convolutionBlocks(shape);
    (isLast ? *last : *whole).run(operands);
  }
}

int64_t Convolution::warm() const {
  int64_t peak = 0;
  for (const Call *call : {whole.get(), last.get()}) {
    if (!call)
      continue;
    std::array<void *, 3> buffers;
    std::vector<Mapping> zeros;
    for (const dnnl_memory_desc_t &desc : call->operands)
      zeros.emplace_back(dnnl_memory_desc_get_size(&desc),
                         "tensors to prepare a convolution");
    for (int i = 0; i < 3; ++i)
      buffers[i] = zeros[i].data();
    // What the library keeps must not come from scratch: once outside of a
    // library call.
    call->compute(buffers);
    call->run(buffers);
    peak = std::max(peak, static_cast<int64_t>(libraryScratch.used));
  }
  return peak;
}

} // namespace harmony::runtime
