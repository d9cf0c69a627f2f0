//===- Atoms.cpp - Which axes of a group run together ---------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Codegen/Atoms.h"

using namespace harmony::codegen;
using namespace llvm;

AtomList Atoms::makeAxis(int64_t extent) {
  if (extent == 1)
    return {};
  atoms.push_back({extent});
  return {static_cast<unsigned>(atoms.size() - 1)};
}

int64_t Atoms::getExtent(ArrayRef<unsigned> list) const {
  int64_t extent = 1;
  for (unsigned atom : list)
    extent *= atoms[atom].extent;
  return extent;
}

void Atoms::append(unsigned atom, AtomList &list) const {
  while (atoms[atom].same >= 0)
    atom = atoms[atom].same;
  if (atoms[atom].outer < 0) {
    list.push_back(atom);
    return;
  }
  append(atoms[atom].outer, list);
  append(atoms[atom].inner, list);
}

AtomList Atoms::resolve(ArrayRef<unsigned> list) const {
  AtomList resolved;
  for (unsigned atom : list)
    append(atom, resolved);
  return resolved;
}

LogicalResult Atoms::equate(ArrayRef<unsigned> lhs, ArrayRef<unsigned> rhs) {
  // From the innermost factors outwards. A split may concern atoms further out
  // on either side as well, so the lists are resolved anew in every step.
  AtomList left = resolve(lhs), right = resolve(rhs);
  while (!left.empty() && !right.empty()) {
    left = resolve(left);
    right = resolve(right);
    unsigned l = left.back(), r = right.back();
    int64_t extentL = atoms[l].extent, extentR = atoms[r].extent;
    if (extentL == extentR) {
      if (l != r)
        atoms[l].same = r;
      left.pop_back();
      right.pop_back();
      continue;
    }
    unsigned big = extentL > extentR ? l : r;
    int64_t small = std::min(extentL, extentR),
            whole = std::max(extentL, extentR);
    if (whole % small)
      return failure();
    int outer = atoms.size();
    atoms.push_back({whole / small});
    atoms.push_back({small});
    atoms[big].outer = outer;
    atoms[big].inner = outer + 1;
  }
  return success(left.empty() && right.empty());
}
