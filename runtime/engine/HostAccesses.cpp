//===- HostAccesses.cpp - When programs touch the host store --------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/engine/HostAccesses.h"

#include "runtime/engine/Cursor.h"
#include "runtime/engine/VirtualClock.h"

#include <algorithm>

namespace harmony::runtime {

static void addAccesses(const Blob &blob, const HmCommand &c, int64_t iteration,
                        bool withReleases, std::vector<HostAccess> &accesses) {
  if (c.op == HM_OP_WAIT || (c.op == HM_OP_RELEASE && !withReleases))
    return;
  const HmRef *refs = blob.refs().data() + c.first;
  auto isIn = [&](HmSpace space) {
    return [space](const HmRef &ref) { return ref.space == space; };
  };
  if (std::any_of(refs, refs + c.count, isIn(HM_SPACE_DUMP)))
    return;
  bool whole = c.op == HM_OP_LAUNCH ||
               (c.op == HM_OP_COPY &&
                std::all_of(refs, refs + c.count, isIn(HM_SPACE_HOST)));
  bool joins = false;
  for (uint32_t r = 0; r < c.count; ++r) {
    if (refs[r].space != HM_SPACE_HOST)
      continue;
    HostAccess access;
    access.offset = offsetOf(refs[r], iteration);
    // A copy moves the bytes of its target.
    access.bytes = c.op == HM_OP_COPY ? refs[0].bytes : refs[r].bytes;
    access.reads = readsOperand(c, r, refs[r]);
    access.writes = c.op == HM_OP_RELEASE || writesOperand(c, r, refs[r]);
    access.whole = whole;
    access.joins = joins;
    joins = whole;
    accesses.push_back(access);
  }
}

std::vector<HostAccess> hostAccesses(const Blob &blob, HmProgramKind kind,
                                     bool withReleases) {
  std::vector<HostAccess> accesses;
  if (!blob.has(kind))
    return accesses;
  VirtualClock clock(blob, kind);
  clock.begin(0);
  for (VirtualClock::Completion done; clock.next(done);)
    addAccesses(blob,
                blob.commands(blob.queues(kind)[done.queue])[done.command],
                done.iteration, withReleases, accesses);
  return accesses;
}

std::vector<std::pair<int64_t, int64_t>> keptHostRanges(const Blob &blob) {
  std::vector<std::pair<int64_t, int64_t>> ranges;
  for (const HmVariable &variable : blob.variables())
    ranges.emplace_back(variable.home, variable.bytes);
  for (const HmOutput &output : blob.outputs())
    ranges.emplace_back(
        output.home,
        output.sampleBytes *
            (output.perStep
                 ? 1
                 : blob.header().programs[HM_PROGRAM_EVALUATE].batch));
  for (const HmLossTerm &term : blob.lossTerms())
    for (int64_t home : {term.numerator, term.denominator})
      ranges.emplace_back(home, static_cast<int64_t>(sizeof(float)));
  return ranges;
}

} // namespace harmony::runtime
