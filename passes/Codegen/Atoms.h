//===- Atoms.h - Which axes of a group run together -------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An atom is an index that several tensors share. Every axis of every value in
// a group is a list of atoms, outermost first; elementwise ops and broadcasts
// equate axes, reshapes split them into factors. Axes of extent 1 have no
// atoms.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_CODEGEN_ATOMS_H
#define PASSES_CODEGEN_ATOMS_H

#include "mlir/Support/LLVM.h"

namespace harmony::codegen {

using AtomList = llvm::SmallVector<unsigned, 4>;

class Atoms {
public:
  /// An axis of the given extent that nothing shares yet.
  AtomList makeAxis(int64_t extent);
  int64_t getExtent(unsigned atom) const { return atoms[atom].extent; }
  int64_t getExtent(llvm::ArrayRef<unsigned> list) const;
  /// The atoms that a list stands for now, outermost first.
  AtomList resolve(llvm::ArrayRef<unsigned> list) const;
  /// Makes two lists of equal extent the same, splitting atoms where needed.
  /// Fails where factors do not nest, as for 6 x 4 against 4 x 6.
  llvm::LogicalResult equate(llvm::ArrayRef<unsigned> lhs,
                             llvm::ArrayRef<unsigned> rhs);

private:
  struct Atom {
    int64_t extent;
    int same = -1;              ///< the atom that this one was found equal to
    int outer = -1, inner = -1; ///< its factors, once split
  };
  void append(unsigned atom, AtomList &list) const;

  llvm::SmallVector<Atom> atoms;
};

} // namespace harmony::codegen

#endif // PASSES_CODEGEN_ATOMS_H
