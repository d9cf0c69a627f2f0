//===- Verify.cpp - Replay of a plan --------------------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Two executions are expanded into instances (event, iteration). Queue order
// and waits alone give each instance a vector clock. Every byte of every arena
// and of the host store carries what it holds (which byte of which thing, which
// version, samples, how much has been added to it), who wrote it and who read
// it since: a read must find what the problem's semantics say it should,
// written by an instance that happens before it; a write must come after all
// earlier accesses. No conflict without order means that what one replay order
// shows holds for all.
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/Replay.h"

namespace harmony::planner {

const std::vector<std::string> verifyRules = {
    "structure",  "coverage",  "microbatch", "size",       "alignment",
    "live-range", "overlap",   "capacity",   "peak",       "host",
    "traffic",    "slices",    "deadlock",  "read",       "read-order", "write-order",
    "source",     "gradient",  "update",     "epilogue",   "scalar",
    "output",     "persistent"};

std::vector<Violation> Plan::verify(const Problem &problem,
                                    const Machine &machine, int limit) const {
  Report report(limit);
  checkPhases(*this, problem, machine, report);
  if (report.violations().empty())
    checkStructure(*this, problem, machine, report);
  if (!report.violations().empty())
    return report.violations(); // a replay would meet indices that mean nothing
  checkMemory(*this, problem, machine, report);
  if (!report.full())
    replay(*this, problem, report);
  return report.violations();
}

} // namespace harmony::planner
