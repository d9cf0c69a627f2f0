//===- Gemm.h - Products on the host ----------------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The one place that knows the library which computes products: oneDNN's
// dnnl_sgemm, called on one thread for one block at a time.
//
//===----------------------------------------------------------------------===//

#ifndef RUNTIME_DRIVERS_HOST_GEMM_H
#define RUNTIME_DRIVERS_HOST_GEMM_H

#include "runtime/program.h"

#include <cstdint>
#include <string>

namespace harmony::runtime {

/// Caps the library to the instruction set, so that the bits do not depend on
/// the processor. Once per process, before the first product; a second call
/// must ask for the same. Throws NoDevice when the processor lacks the
/// instructions.
void configureGemm(HmIsa isa);

/// Throws NoDevice when this processor lacks the instruction set.
void requireProcessor(HmIsa isa);

/// Whether this processor has the instruction set.
bool processorHas(HmIsa isa);

/// The library and its version: "oneDNN 3.1.0".
std::string productLibrary();
/// The processor's own name; "unknown" where the system does not say.
std::string processorName();

/// Blocks [begin, end) of C = beta * C + op(A) * op(B). Source of the order of
/// blocks: HmGemm. `buffers` are A, B, C. Throws Error when the library
/// refuses.
void runGemm(const HmGemm &gemm, void *const *buffers, int64_t begin,
             int64_t end);

/// One OpenMP thread for this thread's products. Each thread that calls runGemm
/// calls this first; what the library caches for the thread is allocated here.
void attachGemmThread();

/// Computes one block of each shape that the product has, on zeros, so that the
/// library generates its code now; returns the scratch bytes that the largest
/// call asks for, zero without the allocation hooks.
int64_t warmGemm(const HmGemm &gemm);

} // namespace harmony::runtime

#endif // RUNTIME_DRIVERS_HOST_GEMM_H
