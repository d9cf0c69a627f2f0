//===- Convolution.h - Convolutions on the host -----------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// oneDNN's convolutions, called on one thread for one block of samples at a
// time.
//
//===----------------------------------------------------------------------===//

#ifndef RUNTIME_DRIVERS_HOST_CONVOLUTION_H
#define RUNTIME_DRIVERS_HOST_CONVOLUTION_H

#include "runtime/program.h"

#include <cstdint>
#include <memory>

namespace harmony::runtime {

/// A convolution with the code that the library generates for it. Any number of
/// threads may run it at once.
class Convolution {
public:
  /// After configureGemm and attachGemmThread. Throws Error when the library
  /// has no such convolution.
  explicit Convolution(const HmConvolution &shape);
  ~Convolution();
  Convolution(Convolution &&) noexcept;

  /// Blocks [begin, end). `buffers` are the operands of HmConvolutionDirection.
  /// On threads that called attachGemmThread.
  void run(void *const *buffers, int64_t begin, int64_t end) const;

  /// Computes one block of each size on zeros; returns the scratch bytes that
  /// the largest call asks for.
  int64_t warm() const;

private:
  struct Call;
  HmConvolution shape;
  /// Of whole blocks, and of the last one where it is smaller.
  std::unique_ptr<Call> whole, last;
};

} // namespace harmony::runtime

#endif // RUNTIME_DRIVERS_HOST_CONVOLUTION_H
