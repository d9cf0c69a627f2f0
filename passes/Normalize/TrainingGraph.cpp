//===- TrainingGraph.cpp - The updates of a training graph ----------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Normalize/Normalizer.h"

using namespace mlir;
using namespace harmony;
using namespace harmony::normalize;

LogicalResult Normalizer::convertUpdates() { return success(); }
