//===- Driver.cpp - The device interface ----------------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/hal/Driver.h"

namespace harmony::runtime {

std::string describe(const Range &range) {
  static const char *const names[] = {"device",  "host store", "batch",
                                      "scalars", "constants",  "dump",
                                      "results"};
  std::string text =
      range.space <= HM_SPACE_RESULTS ? names[range.space] : "unknown space";
  if (range.space == HM_SPACE_DEVICE)
    text += " " + std::to_string(range.device);
  return text + " bytes [" + std::to_string(range.offset) + ", +" +
         std::to_string(range.bytes) + ")";
}

} // namespace harmony::runtime
