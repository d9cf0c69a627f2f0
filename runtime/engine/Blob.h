//===- Blob.h - The program, read and checked -------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A read-only view of the blob that runtime/program.h describes. The
// constructor checks everything that later code relies on, so that a corrupt
// blob is an error with a message and never a wild access: sections, strings,
// indices, every reference of every iteration against the size of its space,
// loops, signals against periods, and that each program runs to its end without
// a wait that nobody satisfies.
//
//===----------------------------------------------------------------------===//

#ifndef RUNTIME_ENGINE_BLOB_H
#define RUNTIME_ENGINE_BLOB_H

#include "runtime/program.h"

#include <cstddef>
#include <cstdint>

namespace harmony::runtime {

template <typename T>
class Span {
public:
  Span() = default;
  Span(const T *first, size_t count) : first(first), count(count) {}
  const T *begin() const { return first; }
  const T *end() const { return first + count; }
  const T *data() const { return first; }
  size_t size() const { return count; }
  bool empty() const { return count == 0; }
  const T &operator[](size_t i) const { return first[i]; }

private:
  const T *first = nullptr;
  size_t count = 0;
};

/// Bytes of one element.
int64_t typeBytes(unsigned type);
/// "f32": for messages.
const char *typeName(unsigned type);

/// Does not own the bytes, which must outlive it.
class Blob {
public:
  /// `functionCount`: entries of harmony_kernels. Throws Error (Internal) that
  /// names the section and entry at fault.
  Blob(const void *data, uint64_t size, uint64_t functionCount);

  const HmHeader &header() const { return *head; }

  Span<HmDevice> devices() const { return list<HmDevice>(head->devices); }
  Span<HmVariable> variables() const {
    return list<HmVariable>(head->variables);
  }
  Span<HmInput> inputs() const { return list<HmInput>(head->inputs); }
  Span<HmOutput> outputs() const { return list<HmOutput>(head->outputs); }
  Span<HmLossTerm> lossTerms() const {
    return list<HmLossTerm>(head->lossTerms);
  }
  Span<HmScalar> scalars() const { return list<HmScalar>(head->scalars); }
  Span<HmKernel> kernels() const { return list<HmKernel>(head->kernels); }
  Span<HmGemm> gemms() const { return list<HmGemm>(head->gemms); }
  Span<HmConvolution> convolutions() const {
    return list<HmConvolution>(head->convolutions);
  }
  Span<HmRef> refs() const { return list<HmRef>(head->refs); }
  Span<HmLink> links() const { return list<HmLink>(head->links); }
  Span<HmResource> resources() const {
    return list<HmResource>(head->resources);
  }
  Span<HmTask> tasks() const { return list<HmTask>(head->tasks); }
  Span<HmQueue> queues(HmProgramKind kind) const {
    return list<HmQueue>(head->programs[kind].queues);
  }
  Span<HmCommand> commands(const HmQueue &queue) const {
    return list<HmCommand>(queue.commands);
  }
  Span<HmGradient> gradients(const HmVariable &variable) const {
    return list<HmGradient>(variable.gradients);
  }
  Span<int64_t> dims(uint32_t first, unsigned rank) const {
    return {list<int64_t>(head->dims).data() + first, rank};
  }
  const char *string(HmString offset) const {
    return list<char>(head->strings).data() + offset;
  }
  const char *constants() const { return list<char>(head->constants).data(); }
  bool has(HmProgramKind kind) const {
    return head->programs[kind].present != 0;
  }

private:
  friend class BlobChecker;

  template <typename T>
  Span<T> list(const HmSection &section) const {
    return {reinterpret_cast<const T *>(bytes + section.offset), section.count};
  }

  const char *bytes;
  const HmHeader *head;
};

} // namespace harmony::runtime

#endif // RUNTIME_ENGINE_BLOB_H
