//===- Json.cpp - Reading and writing the planner's documents -------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/Json.h"

#include <nlohmann/json.hpp>

#include <set>

namespace harmony::planner {

using nlohmann::json;

namespace {

//===----------------------------------------------------------------------===//
// Strict reading
//===----------------------------------------------------------------------===//

/// An object under way: every key must be read by somebody.
class Reader {
public:
  Reader(const json &object, std::string path)
      : object(object), path(std::move(path)) {
    if (!object.is_object())
      fail(this->path, object, "an object");
  }

  /// Throws Error if a key was not asked for.
  void done() const {
    for (const auto &[key, value] : object.items())
      if (!known.count(key)) {
        std::string accepted;
        for (const std::string &name : known)
          accepted += (accepted.empty() ? "" : ", ") + name;
        throw Error(path + ": unknown key '" + key + "', accepted are " +
                    accepted);
      }
  }

  int64_t integer(const char *key) {
    const json &value = get(key);
    if (!value.is_number_integer())
      fail(at(key), value, "an integer");
    return value.get<int64_t>();
  }
  int index(const char *key) {
    int64_t value = integer(key);
    if (value < -1 || value > INT32_MAX)
      fail(at(key), object[key], "an index (-1: none)");
    return static_cast<int>(value);
  }
  double real(const char *key) {
    const json &value = get(key);
    if (!value.is_number())
      fail(at(key), value, "a number");
    return value.get<double>();
  }
  bool boolean(const char *key) {
    const json &value = get(key);
    if (!value.is_boolean())
      fail(at(key), value, "true or false");
    return value.get<bool>();
  }
  std::string text(const char *key) {
    const json &value = get(key);
    if (!value.is_string())
      fail(at(key), value, "a string");
    return value.get<std::string>();
  }
  template <typename T>
  T oneOf(const char *key, const std::vector<const char *> &names) {
    std::string value = text(key);
    std::string accepted;
    for (size_t i = 0; i < names.size(); ++i) {
      if (value == names[i])
        return static_cast<T>(i);
      accepted += (i ? ", " : "") + std::string(names[i]);
    }
    throw Error(at(key) + " is '" + value + "', accepted are " + accepted);
  }
  template <typename Visit>
  void list(const char *key, Visit visit) {
    const json &value = get(key);
    if (!value.is_array())
      fail(at(key), value, "a list");
    for (size_t i = 0; i < value.size(); ++i)
      visit(value[i], at(key) + "[" + std::to_string(i) + "]");
  }
  template <typename Visit>
  void objects(const char *key, Visit visit) {
    list(key, [&](const json &item, const std::string &where) {
      Reader reader(item, where);
      visit(reader);
      reader.done();
    });
  }
  template <typename T>
  std::vector<T> numbers(const char *key) {
    std::vector<T> result;
    list(key, [&](const json &item, const std::string &where) {
      if (!item.is_number_integer())
        fail(where, item, "an integer");
      int64_t number = item.get<int64_t>();
      if (number != static_cast<int64_t>(static_cast<T>(number)))
        fail(where, item, "an index");
      result.push_back(static_cast<T>(number));
    });
    return result;
  }
  Reader child(const char *key) { return Reader(get(key), at(key)); }
  bool has(const char *key) {
    known.insert(key);
    return object.contains(key);
  }

  void schema(const char *name) {
    std::string found = text("schema");
    if (found != name)
      throw Error(at("schema") + " is '" + found + "', accepted is '" + name +
                  "'");
    int64_t version = integer("version");
    if (version != schemaVersion)
      throw Error(at("version") + " is " + std::to_string(version) +
                  ", accepted is " + std::to_string(schemaVersion));
  }

  std::string at(const std::string &key) const { return path + "." + key; }

private:
  const json &object;
  std::string path;
  std::set<std::string> known;

  const json &get(const char *key) {
    known.insert(key);
    auto it = object.find(key);
    if (it == object.end())
      throw Error(path + ": key '" + key + "' is missing");
    return *it;
  }

  [[noreturn]] static void fail(const std::string &where, const json &value,
                                const char *accepted) {
    std::string found = value.dump();
    if (found.size() > 60)
      found = found.substr(0, 60) + "...";
    throw Error(where + " is " + found + ", accepted is " + accepted);
  }
};

const std::vector<const char *> updatePlaceNames = {"any", "host", "device"};
const std::vector<const char *> scalarRoleNames = {"seed", "accumulator",
                                                   "contribution"};
const std::vector<const char *> updateOrderNames = {"jit", "deferred"};
const std::vector<const char *> stepKindNames = {"forward", "recompute",
                                                 "backward"};

template <typename T>
std::vector<const char *> namesOf(int count) {
  std::vector<const char *> names;
  for (int i = 0; i < count; ++i)
    names.push_back(name(static_cast<T>(i)));
  return names;
}

template <typename T>
const char *pick(const std::vector<const char *> &names, T value) {
  return names[static_cast<size_t>(value)];
}

template <typename T, typename Write>
json arrayOf(const std::vector<T> &items, Write write) {
  json array = json::array();
  for (const T &item : items)
    array.push_back(write(item));
  return array;
}

json header(const char *schema) {
  return {{"schema", schema}, {"version", schemaVersion}};
}

//===----------------------------------------------------------------------===//
// Problem
//===----------------------------------------------------------------------===//

json updateCostJson(const UpdateCost &cost) {
  return {{"perTensor", cost.perTensor}, {"perByte", cost.perByte}};
}

UpdateCost readUpdateCost(Reader reader) {
  UpdateCost cost;
  cost.perTensor = reader.real("perTensor");
  cost.perByte = reader.real("perByte");
  reader.done();
  return cost;
}

json layerJson(const Layer &layer) {
  return {{"name", layer.name},
          {"function", layer.function},
          {"tensors", arrayOf(layer.tensors,
                              [](const TensorUse &use) {
                                return json{
                                    {"tensor", use.tensor},
                                    {"gradient", use.gradient},
                                    {"backwardReads", use.backwardReads},
                                    {"forwardWrites", use.forwardWrites}};
                              })},
          {"inputs", arrayOf(layer.inputs,
                             [](const ValueUse &use) {
                               return json{{"value", use.value},
                                           {"backwardReads", use.backwardReads},
                                           {"gradient", use.gradient}};
                             })},
          {"outputs", layer.outputs},
          {"isLoss", layer.isLoss}};
}

void readLayer(Reader &reader, Layer &layer) {
  layer.name = reader.text("name");
  layer.function = reader.index("function");
  layer.outputs = reader.numbers<int>("outputs");
  layer.isLoss = reader.boolean("isLoss");
  reader.objects("tensors", [&](Reader &use) {
    TensorUse read;
    read.tensor = use.index("tensor");
    read.gradient = use.boolean("gradient");
    read.backwardReads = use.boolean("backwardReads");
    read.forwardWrites = use.boolean("forwardWrites");
    layer.tensors.push_back(read);
  });
  reader.objects("inputs", [&](Reader &use) {
    ValueUse read;
    read.value = use.index("value");
    read.backwardReads = use.boolean("backwardReads");
    read.gradient = use.boolean("gradient");
    layer.inputs.push_back(read);
  });
}

void readCost(Reader &reader, Cost &cost) {
  cost.microbatch = reader.integer("microbatch");
  cost.forwardSeconds = reader.real("forwardSeconds");
  cost.backwardSeconds = reader.real("backwardSeconds");
  cost.savedBytes = reader.integer("savedBytes");
  cost.forwardWorkspace = reader.integer("forwardWorkspace");
  cost.backwardWorkspace = reader.integer("backwardWorkspace");
}

json functionJson(const Function &function) {
  return {{"name", function.name},
          {"costs", arrayOf(function.costs, [](const Cost &cost) {
             return json{{"microbatch", cost.microbatch},
                         {"forwardSeconds", cost.forwardSeconds},
                         {"backwardSeconds", cost.backwardSeconds},
                         {"savedBytes", cost.savedBytes},
                         {"forwardWorkspace", cost.forwardWorkspace},
                         {"backwardWorkspace", cost.backwardWorkspace}};
           })}};
}

} // namespace

json toJson(const Problem &problem) {
  json out = header("harmony.profile");
  out["name"] = problem.name;
  out["training"] = problem.training;
  out["batch"] = problem.batch;
  out["splittable"] = problem.splittable;
  out["microbatches"] = problem.microbatches;
  if (problem.epilogue)
    out["epilogue"] = true;
  out["tensors"] = arrayOf(problem.tensors, [](const Tensor &tensor) {
    json item = {{"name", tensor.name},
                 {"bytes", tensor.bytes},
                 {"trainable", tensor.trainable},
                 {"gradientBytes", tensor.gradientBytes},
                 {"stateBytes", tensor.stateBytes},
                 {"updatePlace", pick(updatePlaceNames, tensor.updatePlace)}};
    if (tensor.contribution >= 0)
      item["contribution"] = tensor.contribution;
    return item;
  });
  out["values"] = arrayOf(problem.values, [](const Value &value) {
    json item = {{"name", value.name},
                 {"bytesPerSample", value.bytesPerSample},
                 {"fixedBytes", value.fixedBytes},
                 {"differentiable", value.differentiable},
                 {"output", value.output}};
    if (value.sliceable)
      item["sliceable"] = true;
    return item;
  });
  out["functions"] = arrayOf(problem.functions, functionJson);
  out["layers"] = arrayOf(problem.layers, layerJson);
  out["scalars"] = arrayOf(problem.scalars, [](const Scalar &scalar) {
    json item = {{"name", scalar.name},
                 {"bytes", scalar.bytes},
                 {"role", pick(scalarRoleNames, scalar.role)}};
    if (scalar.layer >= 0)
      item["layer"] = scalar.layer;
    return item;
  });
  out["hostUpdate"] = updateCostJson(problem.hostUpdate);
  out["deviceUpdate"] = updateCostJson(problem.deviceUpdate);
  return out;
}

Problem problemFromJson(const json &document, const std::string &where) {
  Reader reader(document, where);
  reader.schema("harmony.profile");
  Problem problem;
  problem.name = reader.text("name");
  problem.training = reader.boolean("training");
  problem.batch = reader.integer("batch");
  problem.splittable = reader.boolean("splittable");
  problem.microbatches = reader.numbers<int64_t>("microbatches");
  problem.epilogue = reader.has("epilogue") && reader.boolean("epilogue");
  reader.objects("tensors", [&](Reader &item) {
    Tensor tensor;
    tensor.name = item.text("name");
    tensor.bytes = item.integer("bytes");
    tensor.trainable = item.boolean("trainable");
    tensor.gradientBytes = item.integer("gradientBytes");
    tensor.stateBytes = item.integer("stateBytes");
    tensor.updatePlace =
        item.oneOf<UpdatePlace>("updatePlace", updatePlaceNames);
    tensor.contribution =
        item.has("contribution") ? item.index("contribution") : -1;
    problem.tensors.push_back(std::move(tensor));
  });
  reader.objects("values", [&](Reader &item) {
    Value value;
    value.name = item.text("name");
    value.bytesPerSample = item.integer("bytesPerSample");
    value.fixedBytes = item.integer("fixedBytes");
    value.differentiable = item.boolean("differentiable");
    value.output = item.boolean("output");
    value.sliceable = item.has("sliceable") && item.boolean("sliceable");
    problem.values.push_back(std::move(value));
  });
  reader.objects("functions", [&](Reader &item) {
    Function function;
    function.name = item.text("name");
    item.objects("costs", [&](Reader &cost) {
      function.costs.emplace_back();
      readCost(cost, function.costs.back());
    });
    problem.functions.push_back(std::move(function));
  });
  reader.objects("layers", [&](Reader &item) {
    problem.layers.emplace_back();
    readLayer(item, problem.layers.back());
  });
  reader.objects("scalars", [&](Reader &item) {
    Scalar scalar;
    scalar.name = item.text("name");
    scalar.bytes = item.integer("bytes");
    scalar.role = item.oneOf<ScalarRole>("role", scalarRoleNames);
    scalar.layer = item.has("layer") ? item.index("layer") : -1;
    problem.scalars.push_back(std::move(scalar));
  });
  problem.hostUpdate = readUpdateCost(reader.child("hostUpdate"));
  problem.deviceUpdate = readUpdateCost(reader.child("deviceUpdate"));
  reader.done();
  try {
    problem.link();
    problem.check();
  } catch (const Error &error) {
    throw Error(where + ": " + error.what());
  }
  return problem;
}

//===----------------------------------------------------------------------===//
// Machine
//===----------------------------------------------------------------------===//

json toJson(const Machine &machine) {
  json out = header("harmony.machine");
  out["name"] = machine.name;
  out["hostBytes"] = machine.hostBytes;
  out["devices"] = arrayOf(machine.devices, [](const Device &device) {
    return json{{"name", device.name},
                {"capacity", device.capacity},
                {"flopsPerSecond", device.flopsPerSecond},
                {"bytesPerSecond", device.bytesPerSecond}};
  });
  out["links"] = arrayOf(machine.links, [](const Link &link) {
    json item = {{"from", link.from},
                 {"to", link.to},
                 {"bytesPerSecond", link.bytesPerSecond},
                 {"latencySeconds", link.latencySeconds}};
    if (!link.shares.empty())
      item["shares"] = link.shares;
    return item;
  });
  if (!machine.resources.empty())
    out["resources"] = arrayOf(machine.resources, [](const Resource &resource) {
      return json{{"name", resource.name},
                  {"bytesPerSecond", resource.bytesPerSecond}};
    });
  return out;
}

Machine machineFromJson(const json &document, const std::string &where) {
  Reader reader(document, where);
  reader.schema("harmony.machine");
  Machine machine;
  machine.name = reader.text("name");
  machine.hostBytes = reader.integer("hostBytes");
  reader.objects("devices", [&](Reader &item) {
    Device device;
    device.name = item.text("name");
    device.capacity = item.integer("capacity");
    device.flopsPerSecond = item.real("flopsPerSecond");
    device.bytesPerSecond = item.real("bytesPerSecond");
    machine.devices.push_back(std::move(device));
  });
  reader.objects("links", [&](Reader &item) {
    Link link;
    link.from = item.index("from");
    link.to = item.index("to");
    link.bytesPerSecond = item.real("bytesPerSecond");
    link.latencySeconds = item.real("latencySeconds");
    if (item.has("shares"))
      link.shares = item.numbers<int>("shares");
    machine.links.push_back(std::move(link));
  });
  if (reader.has("resources"))
    reader.objects("resources", [&](Reader &item) {
      Resource resource;
      resource.name = item.text("name");
      resource.bytesPerSecond = item.real("bytesPerSecond");
      machine.resources.push_back(std::move(resource));
    });
  reader.done();
  try {
    machine.check();
  } catch (const Error &error) {
    throw Error(where + ": " + error.what());
  }
  return machine;
}

//===----------------------------------------------------------------------===//
// Plan
//===----------------------------------------------------------------------===//

namespace {

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
              {"keep", phase.keep},
              {"steps", arrayOf(phase.steps, [](const Step &step) {
                 return json{{"layer", step.layer},
                             {"kind", pick(stepKindNames, step.kind)}};
               })}};
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
  phase.firstSample =
      reader.has("firstSample") ? reader.integer("firstSample") : 0;
  phase.firstMicrobatch =
      reader.has("firstMicrobatch") ? reader.integer("firstMicrobatch") : 0;
  phase.group = reader.has("group") ? reader.index("group") : 0;
  phase.keep = reader.boolean("keep");
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
  event.source = reader.has("source") ? reader.index("source") : -1;
  event.object = reader.has("object") ? reader.index("object") : -1;
  event.use = reader.has("use") ? reader.index("use") : -1;
  event.phase = reader.has("phase") ? reader.index("phase") : -1;
  event.firstStep = reader.has("firstStep") ? reader.index("firstStep") : 0;
  event.endStep = reader.has("endStep") ? reader.index("endStep") : 0;
  event.onHost = reader.has("onHost") && reader.boolean("onHost");
  event.trips = reader.has("trips") ? reader.integer("trips") : 1;
  event.bytes = reader.has("bytes") ? reader.integer("bytes") : 0;
  if (!reader.has("waits"))
    return;
  reader.objects("waits", [&](Reader &item) {
    Wait wait;
    wait.event = item.index("event");
    wait.lag = item.has("lag") ? item.index("lag") : Wait::whole;
    wait.previousStep =
        item.has("previousStep") && item.boolean("previousStep");
    wait.times = item.has("times") ? item.integer("times") : 1;
    wait.every = item.has("every") ? item.integer("every") : 1;
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
  buffer.use = reader.has("use") ? reader.index("use") : -1;
  buffer.firstSample =
      reader.has("firstSample") ? reader.integer("firstSample") : 0;
  buffer.device = reader.index("device");
  buffer.offset = reader.integer("offset");
  buffer.slotBytes = reader.integer("slotBytes");
  buffer.slots = reader.has("slots") ? reader.integer("slots") : 1;
  buffer.stride =
      reader.has("stride") ? reader.integer("stride") : buffer.slotBytes;
  buffer.first = readPoint(reader, "first");
  buffer.last = readPoint(reader, "last");
  buffer.persistent = reader.has("persistent") && reader.boolean("persistent");
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
  plan.computeSeconds = reader.real("computeSeconds");
  reader.done();
  return plan;
}

//===----------------------------------------------------------------------===//
// Text and summary
//===----------------------------------------------------------------------===//

json parseJson(const std::string &text, const std::string &where) {
  try {
    return json::parse(text);
  } catch (const json::exception &error) {
    throw Error(where + ": " + error.what());
  }
}

json summaryJson(const Planned &planned, const Problem &problem) {
  const Plan &plan = planned.plan;
  return {{"iteration_s", plan.seconds},
          {"samples_per_s", plan.seconds > 0
                                ? static_cast<double>(plan.batch) / plan.seconds
                                : 0},
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
