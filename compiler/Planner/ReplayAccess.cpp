//===- ReplayAccess.cpp - Reads and writes of a replay --------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/Replayer.h"

namespace harmony::planner {

//===----------------------------------------------------------------------===//
// Look-up
//===----------------------------------------------------------------------===//

static int64_t homeKey(HomeKind kind, int object, int use) {
  return (static_cast<int64_t>(kind) << 56) |
         (static_cast<int64_t>(object) << 24) | (use + 1);
}

bool Replayer::indexHomes() {
  for (int h = 0; h < static_cast<int>(plan.homes.size()); ++h) {
    const Home &home = plan.homes[h];
    if (!homeIndex.emplace(homeKey(home.kind, home.object, home.use), h).second)
      report.add("host", std::string("there are two homes of ") +
                             name(home.kind) + " " +
                             std::to_string(home.object));
  }
  return !report.full();
}

const Home *Replayer::findHome(HomeKind kind, int object, int use) const {
  auto it = homeIndex.find(homeKey(kind, object, use));
  return it == homeIndex.end() ? nullptr : &plan.homes[it->second];
}

Replayer::Bytes Replayer::on(int device, Content content, int object, int use,
                             int step, int64_t bytes) {
  const Event &event = plan.events[self.event];
  bool ofSamples =
      content == Content::Value || content == Content::ValueGradient ||
      content == Content::RecomputedValue || content == Content::Saved;
  int64_t firstSample = ofSamples ? plan.phases[event.phase].firstSample : 0;
  const Buffer *buffer = buffers.find(content, object, use, device,
                                      {self.event, step}, firstSample);
  if (!buffer) {
    report.add("live-range",
               text(self.event) + " uses " + name(content) + " " +
                   std::to_string(object) +
                   (use >= 0 ? " use " + std::to_string(use) : "") +
                   ", of which no buffer is live on device " +
                   std::to_string(device) + " at step " + std::to_string(step),
               self.event);
    return {};
  }
  if (bytes >= 0 && buffer->slotBytes != bytes) {
    report.add("size",
               text(self.event) + " uses " + name(content) + " " +
                   std::to_string(object) + " in slots of " +
                   std::to_string(buffer->slotBytes) +
                   " bytes, what it holds has " + std::to_string(bytes),
               self.event);
    return {};
  }
  int64_t begin = buffer->address(buffer->slots > 1 ? iteration : 0);
  return {1 + device, begin, begin + buffer->slotBytes, buffer};
}

Replayer::Bytes Replayer::home(HomeKind kind, int object, int use) {
  const Home *home = findHome(kind, object, use);
  if (!home) {
    report.add("host",
               text(self.event) + " uses the home of " + name(kind) + " " +
                   std::to_string(object) +
                   (use >= 0 ? " use " + std::to_string(use) : "") +
                   ", which is not there",
               self.event);
    return {};
  }
  Extent extent = homeExtent(plan, problem, *home,
                             plan.events[self.event].phase, iteration);
  if (extent.offset < home->offset ||
      extent.offset + extent.bytes > home->offset + home->size) {
    report.add("host",
               text(self.event) + " uses bytes outside of the home of " +
                   name(kind) + " " + std::to_string(object),
               self.event);
    return {};
  }
  return {0, extent.offset, extent.offset + extent.bytes, nullptr};
}

Replayer::Bytes Replayer::mark(EventKind kind) const {
  int64_t at = kind == EventKind::Prologue ? 0 : 1;
  return {static_cast<int>(spaces.size()) - 1, at, at + 1, nullptr};
}

//===----------------------------------------------------------------------===//
// What bytes hold
//===----------------------------------------------------------------------===//

Held Replayer::placed(Held held, int64_t address) const {
  held.base = address;
  bool value = held.kind == Held::Value || held.kind == Held::ValueGradient;
  if (value && problem.values[held.object].sliceable) {
    held.base -= held.firstSample * problem.values[held.object].bytesPerSample;
    held.firstSample = held.samples = 0;
  }
  return held;
}

std::string Replayer::print(const Held &held) const {
  std::string execution = ", execution " + std::to_string(held.execution);
  std::string count = std::to_string(held.count);
  std::string samples =
      held.samples > 0
          ? ", samples " + std::to_string(held.firstSample) + " to " +
                std::to_string(held.firstSample + held.samples - 1)
          : "";
  switch (held.kind) {
  case Held::Nothing:
    return "nothing known";
  case Held::Tensor:
    return "tensor '" + problem.tensors[held.object].name + "' (version " +
           count + ")";
  case Held::State:
    return "the state of '" + problem.tensors[held.object].name +
           "' (version " + count + ")";
  case Held::Gradient:
    return "the gradient of '" + problem.tensors[held.object].name +
           "' (part " + std::to_string(held.use) + execution + ", " + count +
           " samples added)";
  case Held::Value:
    return "value '" + problem.values[held.object].name + "' (" +
           execution.substr(2) + samples + ")";
  case Held::ValueGradient:
    return "the gradient of value '" + problem.values[held.object].name +
           "' (" + execution.substr(2) + samples + ", " + count +
           " contributions)";
  case Held::Saved:
    return "the saved block of layer '" + problem.layers[held.object].name +
           "' (" + execution.substr(2) + samples + ")";
  case Held::Scalar:
    return "scalar '" + problem.scalars[held.object].name + "' (" +
           execution.substr(2) + ", " + count + " samples added)";
  case Held::Mark:
    return "what the host computed in " + execution.substr(2);
  }
  return "";
}

//===----------------------------------------------------------------------===//
// Accesses
//===----------------------------------------------------------------------===//

/// What an earlier buffer left at an address is not to be relied on.
bool Replayer::inLiveRange(const Buffer *buffer, const Stamp &writer) const {
  if (!buffer || buffer->persistent)
    return true;
  return writer.execution == execution && writer.event >= buffer->first.event;
}

void Replayer::noteReader(Space::Segment &segment) {
  for (Stamp &reader : segment.readers)
    if (reader.queue == self.queue) {
      reader = self;
      return;
    }
  segment.readers.push_back(self);
}

Held Replayer::load(Bytes bytes, const char *rule) {
  Held held;
  if (!bytes)
    return held;
  bool first = true;
  spaces[bytes.space].visit(
      bytes.begin, bytes.end, [&](Space::Segment &segment) {
        if (!ordered(segment.writer))
          report.add("read-order",
                     text(self.event) + " reads what " +
                         text(segment.writer.event) +
                         " writes, but does not wait for it (" +
                         print(segment.held) + ")",
                     segment.writer.event, self.event);
        if (segment.held.kind != Held::Nothing &&
            !inLiveRange(bytes.buffer, segment.writer))
          report.add(rule,
                     text(self.event) + " reads what " +
                         text(segment.writer.event) +
                         " wrote before the live range of the buffer began",
                     segment.writer.event, self.event);
        if (!first && segment.held != held)
          report.add(rule,
                     text(self.event) + " reads bytes that hold in part " +
                         print(held) + " and in part " + print(segment.held),
                     segment.writer.event, self.event);
        held = segment.held;
        first = false;
        noteReader(segment);
      });
  return held;
}

void Replayer::expect(Bytes bytes, Held expected, const char *rule) {
  if (!bytes)
    return;
  expected = placed(expected, bytes.base());
  Held held = load(bytes, rule);
  if (held == expected)
    return;
  int writer = -1;
  spaces[bytes.space].visit(
      bytes.begin, bytes.end,
      [&](Space::Segment &segment) { writer = segment.writer.event; });
  report.add(rule,
             text(self.event) + " needs " + print(expected) + " in iteration " +
                 std::to_string(iteration) + " and finds " + print(held) +
                 (writer >= 0 ? ", written by " + text(writer) : ""),
             writer, self.event);
}

void Replayer::store(Bytes bytes, Held held) {
  if (!bytes)
    return;
  spaces[bytes.space].visit(
      bytes.begin, bytes.end, [&](Space::Segment &segment) {
        if (!ordered(segment.writer))
          report.add("write-order",
                     text(self.event) + " overwrites what " +
                         text(segment.writer.event) +
                         " writes, but does not wait for it",
                     segment.writer.event, self.event);
        for (const Stamp &reader : segment.readers)
          if (!ordered(reader))
            report.add("write-order",
                       text(self.event) + " overwrites what " +
                           text(reader.event) +
                           " reads, but does not wait for it (" +
                           print(segment.held) + ")",
                       reader.event, self.event);
      });
  spaces[bytes.space].write(bytes.begin, bytes.end, placed(held, bytes.base()),
                            self);
}

void Replayer::copy(Bytes from, Bytes to, Held what) {
  if (!from || !to)
    return;
  Held held = load(from, "source"), expected = placed(what, from.base());
  expected.count = held.count;
  if (held != expected)
    report.add("source",
               text(self.event) + " finds " + print(held) +
                   " at its source in iteration " + std::to_string(iteration),
               self.event);
  what.count = held.count;
  store(to, what);
}

} // namespace harmony::planner
