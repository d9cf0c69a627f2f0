//===- DocumentMutator.h - Changes of a JSON document -----------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TEST_FUZZ_DOCUMENTMUTATOR_H
#define TEST_FUZZ_DOCUMENTMUTATOR_H

#include <cstdint>
#include <string>

namespace harmony::fuzz {

/// Changes one to three values of a document: another number, another type,
/// keys and elements lost, doubled or exchanged. Empty where `text` is none.
std::string mutateDocument(const std::string &text, uint64_t seed);

} // namespace harmony::fuzz

#endif // TEST_FUZZ_DOCUMENTMUTATOR_H
