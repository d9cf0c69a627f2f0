//===- Rows.h - The table of differentiated functions -----------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TEST_UNIT_AUTODIFF_ROWS_H
#define TEST_UNIT_AUTODIFF_ROWS_H

#include <map>
#include <string>
#include <vector>

namespace harmony::autodiff {

/// Values of an argument are drawn evenly from [low, high], integers
/// inclusively.
struct Domain {
  double low, high;
};

/// A function whose adjoint is compared with finite differences. Elements are
/// f64: constants are then the same in the forward, the adjoint and the
/// evaluator.
struct Row {
  std::string name;
  /// One function @f, in a module; its differentiable arguments and results are
  /// marked.
  std::string text;
  /// By argument; the others are in [-1.5, 1.5], integers in {0, 1}.
  std::map<unsigned, Domain> domains = {};
  int64_t samples = 3; ///< u
};

const std::vector<Row> &getRows();

} // namespace harmony::autodiff

#endif // TEST_UNIT_AUTODIFF_ROWS_H
