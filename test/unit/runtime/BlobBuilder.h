//===- BlobBuilder.h - Programs made by hand --------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TEST_UNIT_RUNTIME_BLOBBUILDER_H
#define TEST_UNIT_RUNTIME_BLOBBUILDER_H

#include "runtime/program.h"

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

namespace harmony::runtime::test {

/// Writes blobs as runtime/program.h describes them, from its description
/// alone. Periods, peaks and traffic are counted here by unrolling the
/// commands.
class BlobBuilder {
public:
  BlobBuilder();

  HmString string(const std::string &text);
  uint32_t dims(const std::vector<int64_t> &extents);

  HmHeader header{};

  void device(int64_t capacity, int64_t libraryBytes = 0);
  void link(int32_t from, int32_t to, double bytesPerSecond,
            double latencySeconds, uint32_t share = HM_NONE);
  /// Returns the index that links share it by.
  uint32_t resource(const std::string &name, double bytesPerSecond);
  /// The address of a constant: offset in the constant section.
  int64_t constant(const std::vector<float> &values);
  void variable(const std::string &name, HmRole role,
                const std::vector<int64_t> &shape, int64_t home,
                std::vector<int64_t> gradientHomes = {}, int64_t initial = -1);
  HmInput &input(const std::string &name, HmType type,
                 const std::vector<int64_t> &shape, int64_t offset,
                 uint32_t usedBy);
  void output(const std::string &name, const std::vector<int64_t> &shape,
              int64_t home);
  void lossTerm(int64_t numerator, int64_t denominator, float scale,
                HmProgramKind program);
  void scalar(HmScalarKind kind, uint32_t index);
  /// Returns the kernel's index.
  uint32_t kernel(const std::string &name, uint32_t function,
                  HmFamily family = HM_FAMILY_POINTWISE);
  uint32_t gemm(const std::string &name, const HmGemm &gemm);
  uint32_t convolution(const std::string &name, const HmConvolution &shape);

  class QueueBuilder {
  public:
    QueueBuilder &loop(int64_t iterations);
    QueueBuilder &end();
    QueueBuilder &wait(uint32_t queue, int64_t a, int64_t b = 0,
                       uint32_t divide = 0, uint32_t first = 0);
    QueueBuilder &copy(HmRef to, HmRef from,
                       HmTraffic traffic = HM_TRAFFIC_SWAP_IN);
    QueueBuilder &fill(HmRef to, int64_t value);
    QueueBuilder &launch(uint32_t kernel, const std::vector<HmRef> &operands,
                         int64_t extent, int64_t grain = 1);
    QueueBuilder &release(HmRef ref);
    /// Of the command before: its predicted seconds, its label.
    QueueBuilder &takes(double seconds, double lastSeconds = 0);
    QueueBuilder &label(const std::string &text);
    /// The command before signals.
    QueueBuilder &signal();

  private:
    friend class BlobBuilder;
    HmCommand &add(HmOpcode op, const std::vector<HmRef> &refs);

    BlobBuilder *builder;
    HmQueue queue{};
    std::vector<HmCommand> commands;
  };

  /// References to it stay valid. Queues of a program are numbered as they are
  /// made.
  QueueBuilder &queue(HmProgramKind program, const std::string &name,
                      HmQueueKind kind, uint32_t device);
  void program(HmProgramKind kind, int64_t batch);

  /// The finished blob, aligned to 64 bytes. The builder can go on afterwards.
  struct Bytes {
    std::unique_ptr<char, decltype(&std::free)> data{nullptr, &std::free};
    uint64_t size = 0;
    HmHeader &header() { return *reinterpret_cast<HmHeader *>(data.get()); }
    template <typename T>
    T *at(const HmSection &section) {
      return reinterpret_cast<T *>(data.get() + section.offset);
    }
  };
  Bytes finish();

private:
  void count(HmProgramKind kind, QueueBuilder &queue);

  std::vector<char> strings;
  std::vector<int64_t> dimList;
  std::vector<char> constants;
  std::vector<HmDevice> devices;
  std::vector<HmLink> links;
  std::vector<HmResource> resources;
  std::vector<HmVariable> variables;
  std::vector<std::vector<HmGradient>> gradients; // by variable
  std::vector<HmInput> inputs;
  std::vector<HmOutput> outputs;
  std::vector<HmLossTerm> lossTerms;
  std::vector<HmScalar> scalars;
  std::vector<HmKernel> kernels;
  std::vector<HmGemm> gemms;
  std::vector<HmConvolution> convolutions;
  std::vector<HmRef> refs;
  std::vector<std::unique_ptr<QueueBuilder>> queues[HM_PROGRAM_COUNT];
};

/// References, access flags left out: the runtime does not read them.
HmRef onDevice(unsigned device, int64_t offset, int64_t bytes,
               int64_t stride = 0, uint32_t modulo = 0);
HmRef in(HmSpace space, int64_t offset, int64_t bytes, int64_t stride = 0,
         uint32_t modulo = 0);

} // namespace harmony::runtime::test

#endif // TEST_UNIT_RUNTIME_BLOBBUILDER_H
