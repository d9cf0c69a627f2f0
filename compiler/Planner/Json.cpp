//===- Json.cpp - Documents of plans --------------------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/JsonReader.h"
#include "compiler/Planner/JsonWriter.h"

#include <array>

namespace harmony::planner {

//===----------------------------------------------------------------------===//
// Plan
//===----------------------------------------------------------------------===//

namespace {

const std::vector<const char *> updateOrderNames = {"jit", "deferred"};
const std::vector<const char *> stepKindNames = {"forward", "recompute",
                                                 "backward"};

constexpr int eventKinds = static_cast<int>(EventKind::CopyValueGradient) + 1;
constexpr int contents = static_cast<int>(Content::Scalar) + 1;
constexpr int homeKinds = static_cast<int>(HomeKind::Scalar) + 1;

void write(JsonWriter &out, const Phase &phase) {
  out.object([&] {
    out.member("device", phase.device);
    out.member("firstLayer", phase.firstLayer);
    out.memberUnless<int64_t>(0, "firstMicrobatch", phase.firstMicrobatch);
    out.memberUnless<int64_t>(0, "firstSample", phase.firstSample);
    out.memberUnless(true, "frees", phase.frees);
    out.memberUnless(0, "group", phase.group);
    if (!phase.keep.empty()) {
      out.key("keep");
      out.array(phase.keep);
    }
    out.memberName("kind", name(phase.kind));
    out.member("lastLayer", phase.lastLayer);
    out.member("microbatch", phase.microbatch);
    out.key("steps");
    out.array(phase.steps, [&](const Step &step) {
      out.object([&] {
        out.memberName("kind", pick(stepKindNames, step.kind));
        out.member("layer", step.layer);
      });
    });
    out.member("trips", phase.trips);
  });
}

void write(JsonWriter &out, const Wait &wait) {
  out.object([&] {
    out.member("event", wait.event);
    out.memberUnless<int64_t>(1, "every", wait.every);
    out.memberUnless(Wait::whole, "lag", wait.lag);
    out.memberUnless(false, "previousStep", wait.previousStep);
    out.memberUnless<int64_t>(1, "times", wait.times);
  });
}

/// Members that say nothing are left out: an event has few of them.
void write(JsonWriter &out, const Event &event) {
  out.object([&] {
    out.memberUnless<int64_t>(0, "bytes", event.bytes);
    out.member("device", event.device);
    out.memberUnless(0, "endStep", event.endStep);
    out.memberUnless<int64_t>(0, "firstByte", event.firstByte);
    out.memberUnless(0, "firstStep", event.firstStep);
    out.memberName("kind", name(event.kind));
    out.memberUnless(-1, "object", event.object);
    out.memberUnless(false, "onHost", event.onHost);
    out.memberUnless(-1, "phase", event.phase);
    out.member("queue", event.queue);
    out.memberUnless(-1, "source", event.source);
    out.memberUnless<int64_t>(1, "trips", event.trips);
    out.memberUnless(-1, "use", event.use);
    if (!event.waits.empty()) {
      out.key("waits");
      out.array(event.waits, [&](const Wait &wait) { write(out, wait); });
    }
  });
}

void write(JsonWriter &out, const Point &point) {
  out.array(std::array{point.event, point.step});
}

void write(JsonWriter &out, const Buffer &buffer) {
  out.object([&] {
    out.memberName("content", name(buffer.content));
    out.member("device", buffer.device);
    out.key("first");
    write(out, buffer.first);
    out.memberUnless<int64_t>(0, "firstSample", buffer.firstSample);
    out.key("last");
    write(out, buffer.last);
    out.member("object", buffer.object);
    out.member("offset", buffer.offset);
    out.memberUnless(false, "persistent", buffer.persistent);
    out.member("slotBytes", buffer.slotBytes);
    if (buffer.slots != 1) {
      out.member("slots", buffer.slots);
      out.member("stride", buffer.stride);
    }
    out.memberUnless(-1, "use", buffer.use);
  });
}

void write(JsonWriter &out, const Home &home) {
  out.object([&] {
    out.memberName("kind", name(home.kind));
    out.member("object", home.object);
    out.member("offset", home.offset);
    out.member("size", home.size);
    out.member("use", home.use);
  });
}

void write(JsonWriter &out, const ResidentTransfer &transfer) {
  out.object([&] {
    out.member("buffer", transfer.buffer);
    out.memberName("content", name(transfer.content));
    out.member("device", transfer.device);
    out.member("object", transfer.object);
  });
}

void write(JsonWriter &out, const Queue &queue) {
  out.object([&] {
    out.member("device", queue.device);
    out.memberName("kind", name(queue.kind));
    out.member("lane", queue.lane);
  });
}

template <typename T>
void writeAll(JsonWriter &out, const char *key, const std::vector<T> &items) {
  out.key(key);
  out.array(items, [&](const T &item) { write(out, item); });
}

void readPhase(Reader &reader, Phase &phase) {
  phase.device = reader.index("device");
  phase.kind = reader.oneOf<PhaseKind>("kind", namesOf<PhaseKind>(3));
  phase.firstLayer = reader.index("firstLayer");
  phase.lastLayer = reader.index("lastLayer");
  phase.microbatch = reader.integer("microbatch");
  if (phase.microbatch < 1)
    throw Error(reader.at("microbatch") + " is " +
                std::to_string(phase.microbatch) + ", accepted is 1 or more");
  phase.trips = reader.integer("trips");
  phase.firstSample = reader.integer("firstSample", 0);
  phase.firstMicrobatch = reader.integer("firstMicrobatch", 0);
  phase.group = reader.index("group", 0);
  phase.frees = reader.boolean("frees", true);
  if (reader.has("keep"))
    phase.keep = reader.numbers<int>("keep");
  reader.objects("steps", [&](Reader &item) {
    Step step;
    step.layer = item.index("layer");
    step.kind = item.oneOf<StepKind>("kind", stepKindNames);
    phase.steps.push_back(step);
  });
}

void readEvent(Reader &reader, Event &event) {
  static const std::vector<const char *> kinds = namesOf<EventKind>(eventKinds);
  event.kind = reader.oneOf<EventKind>("kind", kinds);
  event.queue = reader.index("queue");
  event.device = reader.index("device");
  event.source = reader.index("source", -1);
  event.object = reader.index("object", -1);
  event.use = reader.index("use", -1);
  event.phase = reader.index("phase", -1);
  event.firstStep = reader.index("firstStep", 0);
  event.endStep = reader.index("endStep", 0);
  event.onHost = reader.boolean("onHost", false);
  event.trips = reader.integer("trips", 1);
  event.bytes = reader.integer("bytes", 0);
  event.firstByte = reader.integer("firstByte", 0);
  if (!reader.has("waits"))
    return;
  reader.objects("waits", [&](Reader &item) {
    Wait wait;
    wait.event = item.index("event");
    wait.lag = item.index("lag", Wait::whole);
    wait.previousStep = item.boolean("previousStep", false);
    wait.times = item.integer("times", 1);
    wait.every = item.integer("every", 1);
    event.waits.push_back(wait);
  });
}

Point readPoint(Reader &reader, const char *key) {
  std::vector<int> numbers = reader.numbers<int>(key);
  if (numbers.size() != 2)
    throw Error(reader.at(key) + " has " + std::to_string(numbers.size()) +
                " numbers, accepted are 2: event and step");
  return {numbers[0], numbers[1]};
}

void readBuffer(Reader &reader, Buffer &buffer) {
  static const std::vector<const char *> kinds = namesOf<Content>(contents);
  buffer.content = reader.oneOf<Content>("content", kinds);
  buffer.object = reader.index("object");
  buffer.use = reader.index("use", -1);
  buffer.firstSample = reader.integer("firstSample", 0);
  buffer.device = reader.index("device");
  buffer.offset = reader.integer("offset");
  buffer.slotBytes = reader.integer("slotBytes");
  buffer.slots = reader.integer("slots", 1);
  buffer.stride = reader.integer("stride", buffer.slotBytes);
  buffer.first = readPoint(reader, "first");
  buffer.last = readPoint(reader, "last");
  buffer.persistent = reader.boolean("persistent", false);
}

void readResident(Reader &reader, std::vector<ResidentTransfer> &list) {
  ResidentTransfer transfer;
  transfer.content = reader.oneOf<Content>("content", {"tensor", "state"});
  transfer.object = reader.index("object");
  transfer.device = reader.index("device");
  transfer.buffer = reader.index("buffer");
  list.push_back(transfer);
}

} // namespace

std::string jsonText(const Plan &plan, const json *summary) {
  JsonWriter out;
  out.object([&] {
    out.member("batch", plan.batch);
    writeAll(out, "buffers", plan.buffers);
    out.member("computeSeconds", json(plan.computeSeconds));
    writeAll(out, "events", plan.events);
    out.member("firstSeconds", json(plan.firstSeconds));
    out.member("groups", plan.groups);
    writeAll(out, "homes", plan.homes);
    out.member("hostBytes", plan.hostBytes);
    writeAll(out, "load", plan.load);
    out.key("peakBytes");
    out.array(plan.peakBytes);
    writeAll(out, "phases", plan.phases);
    out.member("problem", json(plan.problem));
    writeAll(out, "queues", plan.queues);
    out.member("schema", json("harmony.plan"));
    out.member("seconds", json(plan.seconds));
    writeAll(out, "store", plan.store);
    if (summary)
      out.member("summary", *summary);
    json traffic;
    for (int i = 0; i < trafficCount; ++i)
      traffic[name(static_cast<Traffic>(i))] = plan.traffic[i];
    out.member("traffic", traffic);
    out.memberName("update", pick(updateOrderNames, plan.update));
    out.member("version", schemaVersion);
  });
  return out.take();
}

json toJson(const Plan &plan) { return json::parse(jsonText(plan)); }

Plan planFromJson(const json &document, const std::string &where) {
  Reader reader(document, where);
  reader.schema("harmony.plan");
  reader.has("summary"); // written beside the plan; derived from it
  Plan plan;
  plan.problem = reader.text("problem");
  plan.batch = reader.integer("batch");
  plan.groups = reader.index("groups");
  plan.update = reader.oneOf<UpdateOrder>("update", updateOrderNames);
  reader.objects("queues", [&](Reader &item) {
    Queue queue;
    queue.kind = item.oneOf<QueueKind>("kind", namesOf<QueueKind>(5));
    queue.device = item.index("device");
    queue.lane = item.index("lane");
    plan.queues.push_back(queue);
  });
  reader.objects("phases", [&](Reader &item) {
    plan.phases.emplace_back();
    readPhase(item, plan.phases.back());
  });
  reader.objects("events", [&](Reader &item) {
    plan.events.emplace_back();
    readEvent(item, plan.events.back());
  });
  reader.objects("buffers", [&](Reader &item) {
    plan.buffers.emplace_back();
    readBuffer(item, plan.buffers.back());
  });
  reader.objects("homes", [&](Reader &item) {
    Home home;
    home.kind = item.oneOf<HomeKind>("kind", namesOf<HomeKind>(homeKinds));
    home.object = item.index("object");
    home.use = item.index("use");
    home.offset = item.integer("offset");
    home.size = item.integer("size");
    plan.homes.push_back(home);
  });
  reader.objects("load", [&](Reader &item) { readResident(item, plan.load); });
  reader.objects("store",
                 [&](Reader &item) { readResident(item, plan.store); });
  plan.peakBytes = reader.numbers<int64_t>("peakBytes");
  plan.hostBytes = reader.integer("hostBytes");
  Reader traffic = reader.child("traffic");
  for (int i = 0; i < trafficCount; ++i)
    plan.traffic[i] = traffic.integer(name(static_cast<Traffic>(i)));
  traffic.done();
  plan.seconds = reader.real("seconds");
  if (reader.has("firstSeconds"))
    plan.firstSeconds = reader.real("firstSeconds");
  plan.computeSeconds = reader.real("computeSeconds");
  reader.done();
  return plan;
}

//===----------------------------------------------------------------------===//
// Text and summary
//===----------------------------------------------------------------------===//

std::string useOfSchema(const std::string &schema) {
  static constexpr struct {
    const char *schema, *use;
  } uses[] = {
      {"harmony.measurements",
       "costs that an executable has measured, by digests of its tasks: they "
       "are planned with by --profile FILE beside the model that it was "
       "compiled from"},
      {"harmony.plan", "a plan, for --plan-in FILE beside its model"},
      {"harmony.machine", "a machine, for --machine FILE"},
      {"harmony.profile",
       "layers with their costs, in place of a model for harmonyc plan alone"},
  };
  for (const auto &known : uses)
    if (schema == known.schema)
      return known.use;
  return "";
}

json summaryJson(const Planned &planned, const Problem &problem) {
  const Plan &plan = planned.plan;
  double bound = planned.boundSeconds;
  json others = json::array();
  for (const RunnerUp &other : planned.runnersUp)
    others.push_back({{"form", other.form},
                      {"iteration_s", other.seconds},
                      {"swap_bytes", other.swapBytes},
                      {"peak_bytes", other.peakBytes}});
  return {{"iteration_s", plan.seconds},
          {"samples_per_s", plan.seconds > 0
                                ? static_cast<double>(plan.batch) / plan.seconds
                                : 0},
          {"bound_s", bound},
          {"distance", bound > 0 ? plan.seconds / bound : 0},
          {"bound_of_groups_s", planned.groupsBoundSeconds},
          {"form", planned.form},
          {"best_of_forms", std::move(others)},
          {"compute_bound_s", problem.computeBoundSeconds()},
          {"training_state_bytes", problem.trainingStateBytes()},
          {"min_device_bytes", planned.minDeviceBytes},
          {"bound_bytes", planned.boundBytes},
          {"swap_in_bytes", plan.traffic[static_cast<int>(Traffic::SwapIn)]},
          {"swap_out_bytes", plan.traffic[static_cast<int>(Traffic::SwapOut)]},
          {"peer_bytes", plan.traffic[static_cast<int>(Traffic::Peer)]},
          {"input_bytes", plan.traffic[static_cast<int>(Traffic::Input)]},
          {"peak_bytes", plan.peakBytes},
          {"host_bytes", plan.hostBytes}};
}

} // namespace harmony::planner
