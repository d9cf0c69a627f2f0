//===- BlobWriter.h - The sections of a program while they grow -*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_TARGET_PROGRAM_BLOBWRITER_H
#define COMPILER_TARGET_PROGRAM_BLOBWRITER_H

#include "runtime/program.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringMap.h"

#include <map>
#include <string>
#include <vector>

namespace harmony {

/// Collects what runtime/program.h describes. Parts of sections (commands of a
/// queue, queues of a program, gradients of a variable) are given in entries,
/// from the first of their section; layOut() makes bytes of them.
class BlobWriter {
public:
  BlobWriter();

  HmHeader header;
  std::vector<char> constants;
  std::vector<int64_t> dims;
  std::vector<HmDevice> devices;
  std::vector<HmLink> links;
  std::vector<HmResource> resources;
  std::vector<HmTask> tasks;
  std::vector<HmVariable> variables;
  std::vector<HmGradient> gradients;
  std::vector<HmInput> inputs;
  std::vector<HmOutput> outputs;
  std::vector<HmLossTerm> lossTerms;
  std::vector<HmScalar> scalars;
  std::vector<HmCommand> commands;
  std::vector<HmQueue> queues;
  std::vector<std::string> kernelNames; ///< of generated kernels, by index

  /// Equal strings, kernels and products are written once.
  HmString addString(llvm::StringRef text);
  uint32_t getKernel(llvm::StringRef name, HmFamily family);
  uint32_t getKernel(const HmGemm &gemm);
  uint32_t getKernel(const HmConvolution &convolution);
  /// The index of the first of them.
  uint32_t addRefs(llvm::ArrayRef<HmRef> list);

  /// The blob; empty when it would exceed the 32-bit offsets that sections
  /// have. Called once.
  std::vector<char> layOut();

private:
  std::vector<char> strings;
  std::vector<HmKernel> kernels;
  std::vector<HmGemm> gemms;
  std::vector<HmConvolution> convolutions;
  std::vector<HmRef> refs;
  llvm::StringMap<HmString> stringIndex;
  llvm::StringMap<uint32_t> kernelIndex;
  /// Kernels by the bytes of their HmGemm or HmConvolution.
  std::map<std::string, uint32_t> gemmIndex, convolutionIndex;
};

} // namespace harmony

#endif // COMPILER_TARGET_PROGRAM_BLOBWRITER_H
