//===- TaskDigest.cpp - What tells tasks apart ----------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Tasks/TaskDigest.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/SHA256.h"

using namespace mlir;
using namespace harmony;

std::string harmony::digest(StringRef text) {
  llvm::SHA256 hash;
  hash.update(text);
  return llvm::toHex(hash.final(), /*LowerCase=*/true).substr(0, 16);
}

void harmony::describeTask(schedule::TaskOp task, llvm::raw_ostream &stream) {
  for (Operation &op : task.getBlock()) {
    if (!isa<schedule::LaunchOp, schedule::GemmOp, schedule::ConvolutionOp>(op))
      continue;
    for (NamedAttribute attribute : op.getAttrs())
      if (attribute.getName() != "refs" && attribute.getName() != "grain")
        stream << attribute.getName().getValue() << '=' << attribute.getValue()
               << ' ';
    stream << '\n';
  }
}

std::string harmony::digestTask(schedule::TaskOp task) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  describeTask(task, stream);
  return digest(text);
}
