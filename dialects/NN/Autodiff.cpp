//===- Autodiff.cpp - Adjoints of ops -------------------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/NN/Autodiff.h"

using namespace mlir;

#include "dialects/NN/AutodiffInterface.cpp.inc"
