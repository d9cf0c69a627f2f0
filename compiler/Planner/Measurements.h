//===- Measurements.h - What an executable measured -------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_PLANNER_MEASUREMENTS_H
#define COMPILER_PLANNER_MEASUREMENTS_H

#include "compiler/Planner/Problem.h"

#include <nlohmann/json_fwd.hpp>

#include <optional>

namespace harmony::planner {

struct Machine;

/// The file of an executable's --profile ("harmony.measurements"): medians over
/// its steps, by the digest of a task's code.
struct Measurements {
  enum class Kind {
    Forward,
    Recompute,
    Backward,
    Prologue,
    Contribution,
    Epilogue,
    Update
  };
  struct Task {
    std::string key;  ///< digest of its code
    std::string name; ///< function, direction and microbatch size
    Kind kind = Kind::Forward;
    bool onHost = false;
    int64_t bytes = 0; ///< updates: of the tensor
    double seconds = 0;
  };
  /// The copies of one link.
  struct Transfer {
    int from = -1, to = 0;         ///< device, or hostEndpoint
    int64_t copies = 0, bytes = 0; ///< of one step
    double seconds = 0;            ///< of one copy
  };

  std::string where; ///< the file, for messages
  std::string numericsKey;
  std::string device, library, isa; ///< where it was measured
  int threads = 1, devices = 1;
  bool enforcedLinks = false;
  std::vector<Task> tasks;
  std::vector<Transfer> transfers;
};

/// Reads a document; strict. `where` begins the messages. Throws Error.
Measurements measurementsFromJson(const nlohmann::json &document,
                                  const std::string &where);

/// Gives links of the machine the bandwidth that was measured on them, where
/// copies are long enough (64 KiB on average) for it to tell. Those of enforced
/// links tell nothing.
void setMeasuredLinks(Machine &machine, const Measurements &measurements);

/// What updates cost in one place: the line through nothing but a start and a
/// slope that gives the measured sum; none where nothing was measured.
std::optional<UpdateCost> measuredUpdates(const Measurements &measurements,
                                          bool onHost);

} // namespace harmony::planner

#endif // COMPILER_PLANNER_MEASUREMENTS_H
