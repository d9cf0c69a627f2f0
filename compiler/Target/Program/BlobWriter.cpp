//===- BlobWriter.cpp - The sections of a program while they grow
//----------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Target/Program/BlobWriter.h"

#include <cstring>

using namespace harmony;

BlobWriter::BlobWriter() {
  std::memset(&header, 0, sizeof(header));
  header.magic = HM_PROGRAM_MAGIC;
  header.version = HM_PROGRAM_VERSION;
  addString("");
}

HmString BlobWriter::addString(llvm::StringRef text) {
  auto [entry, inserted] =
      stringIndex.try_emplace(text, static_cast<HmString>(strings.size()));
  if (inserted) {
    strings.insert(strings.end(), text.begin(), text.end());
    strings.push_back('\0');
  }
  return entry->second;
}

uint32_t BlobWriter::getKernel(llvm::StringRef name, HmFamily family) {
  auto [entry, inserted] =
      kernelIndex.try_emplace(name, static_cast<uint32_t>(kernels.size()));
  if (inserted) {
    kernels.push_back({addString(name), HM_KERNEL_GENERATED,
                       static_cast<uint32_t>(kernelNames.size()),
                       static_cast<uint32_t>(family)});
    kernelNames.push_back(name.str());
  }
  return entry->second;
}

uint32_t BlobWriter::getKernel(const HmGemm &gemm) {
  std::string key(reinterpret_cast<const char *>(&gemm), sizeof(gemm));
  auto [entry, inserted] =
      gemmIndex.insert({key, static_cast<uint32_t>(kernels.size())});
  if (inserted) {
    std::string name = "gemm " + std::to_string(gemm.m) + "x" +
                       std::to_string(gemm.n) + "x" + std::to_string(gemm.k);
    int64_t batches = gemm.batch[0] * gemm.batch[1] * gemm.batch[2];
    if (batches > 1)
      name += " times " + std::to_string(batches);
    kernels.push_back({addString(name), HM_KERNEL_GEMM,
                       static_cast<uint32_t>(gemms.size()), HM_FAMILY_GEMM});
    gemms.push_back(gemm);
  }
  return entry->second;
}

uint32_t BlobWriter::getKernel(const HmConvolution &c) {
  std::string key(reinterpret_cast<const char *>(&c), sizeof(c));
  auto [entry, inserted] =
      convolutionIndex.insert({key, static_cast<uint32_t>(kernels.size())});
  if (inserted) {
    static const char *const directions[] = {"forward", "image", "weights"};
    std::string name =
        "convolution " + std::to_string(c.kernel[0]) + "x" +
        std::to_string(c.kernel[1]) + " " + std::to_string(c.channels) + "-" +
        std::to_string(c.outputs) + " " + directions[c.direction];
    kernels.push_back({addString(name), HM_KERNEL_CONVOLUTION,
                       static_cast<uint32_t>(convolutions.size()),
                       HM_FAMILY_GEMM});
    convolutions.push_back(c);
  }
  return entry->second;
}

uint32_t BlobWriter::addRefs(llvm::ArrayRef<HmRef> list) {
  uint32_t first = refs.size();
  refs.insert(refs.end(), list.begin(), list.end());
  return first;
}

std::vector<char> BlobWriter::layOut() {
  std::vector<char> blob(sizeof(HmHeader), '\0');
  auto pad = [&](size_t alignment) {
    blob.resize((blob.size() + alignment - 1) / alignment * alignment, '\0');
  };
  auto place = [&](HmSection &section, const auto &entries,
                   size_t alignment = 8) {
    pad(alignment);
    section = {static_cast<uint32_t>(blob.size()),
               static_cast<uint32_t>(entries.size())};
    const char *bytes = reinterpret_cast<const char *>(entries.data());
    blob.insert(blob.end(), bytes, bytes + entries.size() * sizeof(entries[0]));
  };
  place(header.commands, commands);
  for (HmQueue &queue : queues)
    queue.commands.offset =
        header.commands.offset + queue.commands.offset * sizeof(HmCommand);
  place(header.queues, queues);
  for (HmProgram &program : header.programs)
    program.queues.offset =
        program.present
            ? header.queues.offset + program.queues.offset * sizeof(HmQueue)
            : 0;
  place(header.gradients, gradients);
  for (HmVariable &variable : variables)
    variable.gradients.offset = header.gradients.offset +
                                variable.gradients.offset * sizeof(HmGradient);
  place(header.variables, variables);
  place(header.refs, refs);
  place(header.gemms, gemms);
  place(header.convolutions, convolutions);
  place(header.kernels, kernels);
  place(header.devices, devices);
  place(header.links, links);
  place(header.resources, resources);
  place(header.tasks, tasks);
  place(header.inputs, inputs);
  place(header.outputs, outputs);
  place(header.lossTerms, lossTerms);
  place(header.scalars, scalars);
  place(header.dims, dims);
  place(header.strings, strings);
  place(header.constants, constants, 64);
  pad(64);
  if (blob.size() > UINT32_MAX)
    return {};
  header.size = static_cast<uint32_t>(blob.size());
  std::memcpy(blob.data(), &header, sizeof(header));
  return blob;
}
