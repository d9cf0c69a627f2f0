//===- Json.cpp - Documents of plans --------------------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/JsonReader.h"

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

json phaseJson(const Phase &phase) {
  json out = {{"device", phase.device},
              {"kind", name(phase.kind)},
              {"firstLayer", phase.firstLayer},
              {"lastLayer", phase.lastLayer},
              {"microbatch", phase.microbatch},
              {"trips", phase.trips},
              {"steps", arrayOf(phase.steps, [](const Step &step) {
                 return json{{"layer", step.layer},
                             {"kind", pick(stepKindNames, step.kind)}};
               })}};
  if (!phase.keep.empty())
    out["keep"] = phase.keep;
  if (phase.firstSample != 0)
    out["firstSample"] = phase.firstSample;
  if (phase.firstMicrobatch != 0)
    out["firstMicrobatch"] = phase.firstMicrobatch;
  if (phase.group != 0)
    out["group"] = phase.group;
  return out;
}

/// Members that say nothing are left out: an event has few of them.
json eventJson(const Event &event) {
  json out = {{"kind", name(event.kind)},
              {"queue", event.queue},
              {"device", event.device}};
  if (event.source >= 0)
    out["source"] = event.source;
  if (event.object >= 0)
    out["object"] = event.object;
  if (event.use >= 0)
    out["use"] = event.use;
  if (event.phase >= 0)
    out["phase"] = event.phase;
  if (event.firstStep != 0)
    out["firstStep"] = event.firstStep;
  if (event.endStep != 0)
    out["endStep"] = event.endStep;
  if (event.onHost)
    out["onHost"] = true;
  if (event.trips != 1)
    out["trips"] = event.trips;
  if (event.bytes != 0)
    out["bytes"] = event.bytes;
  if (event.firstByte != 0)
    out["firstByte"] = event.firstByte;
  if (!event.waits.empty())
    out["waits"] = arrayOf(event.waits, [](const Wait &wait) {
      json w = {{"event", wait.event}};
      if (wait.lag != Wait::whole)
        w["lag"] = wait.lag;
      if (wait.previousStep)
        w["previousStep"] = true;
      if (wait.times != 1)
        w["times"] = wait.times;
      if (wait.every != 1)
        w["every"] = wait.every;
      return w;
    });
  return out;
}

json pointJson(const Point &point) {
  return json::array({point.event, point.step});
}

json bufferJson(const Buffer &buffer) {
  json out = {
      {"content", name(buffer.content)}, {"object", buffer.object},
      {"device", buffer.device},         {"offset", buffer.offset},
      {"slotBytes", buffer.slotBytes},   {"first", pointJson(buffer.first)},
      {"last", pointJson(buffer.last)}};
  if (buffer.use >= 0)
    out["use"] = buffer.use;
  if (buffer.firstSample != 0)
    out["firstSample"] = buffer.firstSample;
  if (buffer.slots != 1) {
    out["slots"] = buffer.slots;
    out["stride"] = buffer.stride;
  }
  if (buffer.persistent)
    out["persistent"] = true;
  return out;
}

json homeJson(const Home &home) {
  return {{"kind", name(home.kind)},
          {"object", home.object},
          {"use", home.use},
          {"offset", home.offset},
          {"size", home.size}};
}

json residentJson(const ResidentTransfer &transfer) {
  return {{"content", name(transfer.content)},
          {"object", transfer.object},
          {"device", transfer.device},
          {"buffer", transfer.buffer}};
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

json toJson(const Plan &plan) {
  json out = header("harmony.plan");
  out["problem"] = plan.problem;
  out["batch"] = plan.batch;
  out["groups"] = plan.groups;
  out["update"] = pick(updateOrderNames, plan.update);
  out["queues"] = arrayOf(plan.queues, [](const Queue &queue) {
    return json{{"kind", name(queue.kind)},
                {"device", queue.device},
                {"lane", queue.lane}};
  });
  out["phases"] = arrayOf(plan.phases, phaseJson);
  out["events"] = arrayOf(plan.events, eventJson);
  out["buffers"] = arrayOf(plan.buffers, bufferJson);
  out["homes"] = arrayOf(plan.homes, homeJson);
  out["load"] = arrayOf(plan.load, residentJson);
  out["store"] = arrayOf(plan.store, residentJson);
  out["peakBytes"] = plan.peakBytes;
  out["hostBytes"] = plan.hostBytes;
  json traffic;
  for (int i = 0; i < trafficCount; ++i)
    traffic[name(static_cast<Traffic>(i))] = plan.traffic[i];
  out["traffic"] = traffic;
  out["seconds"] = plan.seconds;
  out["firstSeconds"] = plan.firstSeconds;
  out["computeSeconds"] = plan.computeSeconds;
  return out;
}

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
