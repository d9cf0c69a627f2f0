//===- JsonProblem.cpp - Documents of problems and machines ---------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/JsonReader.h"

namespace harmony::planner {

//===----------------------------------------------------------------------===//
// Problem
//===----------------------------------------------------------------------===//

namespace {

const std::vector<const char *> updatePlaceNames = {"any", "host", "device"};
const std::vector<const char *> scalarRoleNames = {"seed", "accumulator",
                                                   "contribution"};

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

template <typename Use>
json withLevels(json item, const Use &use) {
  if (use.recomputeReads != everyLevel)
    item["recomputeReads"] = use.recomputeReads;
  return item;
}

json layerJson(const Layer &layer) {
  return {{"name", layer.name},
          {"function", layer.function},
          {"tensors", arrayOf(layer.tensors,
                              [](const TensorUse &use) {
                                return withLevels(
                                    {{"tensor", use.tensor},
                                     {"gradient", use.gradient},
                                     {"backwardReads", use.backwardReads},
                                     {"forwardWrites", use.forwardWrites}},
                                    use);
                              })},
          {"inputs", arrayOf(layer.inputs,
                             [](const ValueUse &use) {
                               return withLevels(
                                   {{"value", use.value},
                                    {"backwardReads", use.backwardReads},
                                    {"gradient", use.gradient}},
                                   use);
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
    read.recomputeReads = use.index("recomputeReads", everyLevel);
    layer.tensors.push_back(read);
  });
  reader.objects("inputs", [&](Reader &use) {
    ValueUse read;
    read.value = use.index("value");
    read.backwardReads = use.boolean("backwardReads");
    read.gradient = use.boolean("gradient");
    read.recomputeReads = use.index("recomputeReads", everyLevel);
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
  if (reader.has("keeps"))
    reader.objects("keeps", [&](Reader &item) {
      Keep keep;
      keep.bytes = item.integer("bytes");
      keep.recomputeSeconds = item.real("recomputeSeconds");
      keep.recomputeWorkspace = item.integer("recomputeWorkspace");
      cost.keeps.push_back(keep);
    });
}

json costJson(const Cost &cost) {
  json out = {{"microbatch", cost.microbatch},
              {"forwardSeconds", cost.forwardSeconds},
              {"backwardSeconds", cost.backwardSeconds},
              {"savedBytes", cost.savedBytes},
              {"forwardWorkspace", cost.forwardWorkspace},
              {"backwardWorkspace", cost.backwardWorkspace}};
  if (!cost.keeps.empty())
    out["keeps"] = arrayOf(cost.keeps, [](const Keep &keep) {
      return json{{"bytes", keep.bytes},
                  {"recomputeSeconds", keep.recomputeSeconds},
                  {"recomputeWorkspace", keep.recomputeWorkspace}};
    });
  return out;
}

json functionJson(const Function &function) {
  return {{"name", function.name},
          {"costs", arrayOf(function.costs, costJson)}};
}

Tensor readTensor(Reader &item) {
  Tensor tensor;
  tensor.name = item.text("name");
  tensor.bytes = item.integer("bytes");
  tensor.trainable = item.boolean("trainable");
  tensor.gradientBytes = item.integer("gradientBytes");
  tensor.stateBytes = item.integer("stateBytes");
  tensor.updatePlace = item.oneOf<UpdatePlace>("updatePlace", updatePlaceNames);
  tensor.contribution = item.index("contribution", -1);
  if (item.has("hostUpdateSeconds"))
    tensor.hostUpdateSeconds = item.real("hostUpdateSeconds");
  return tensor;
}

Value readValue(Reader &item) {
  Value value;
  value.name = item.text("name");
  value.bytesPerSample = item.integer("bytesPerSample");
  value.fixedBytes = item.integer("fixedBytes");
  value.differentiable = item.boolean("differentiable");
  value.output = item.boolean("output");
  value.sliceable = item.boolean("sliceable", false);
  return value;
}

Scalar readScalar(Reader &item) {
  Scalar scalar;
  scalar.name = item.text("name");
  scalar.bytes = item.integer("bytes");
  scalar.role = item.oneOf<ScalarRole>("role", scalarRoleNames);
  scalar.layer = item.index("layer", -1);
  return scalar;
}

} // namespace

json toJson(const Problem &problem) {
  json out = header("harmony.profile");
  out["name"] = problem.name;
  out["training"] = problem.training;
  out["batch"] = problem.batch;
  out["splittable"] = problem.splittable;
  if (problem.mixing)
    out["mixing"] = true;
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
    if (tensor.hostUpdateSeconds >= 0)
      item["hostUpdateSeconds"] = tensor.hostUpdateSeconds;
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
  problem.mixing = reader.boolean("mixing", false);
  problem.microbatches = reader.numbers<int64_t>("microbatches");
  problem.epilogue = reader.boolean("epilogue", false);
  reader.objects("tensors", [&](Reader &item) {
    problem.tensors.push_back(readTensor(item));
  });
  reader.objects("values", [&](Reader &item) {
    problem.values.push_back(readValue(item));
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
    problem.scalars.push_back(readScalar(item));
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
  out["hostQueues"] = machine.hostQueues;
  out["phaseSeconds"] = machine.phaseSeconds;
  out["sharing"] = name(machine.sharing);
  out["devices"] = arrayOf(machine.devices, [](const Device &device) {
    json item = {{"name", device.name},
                 {"capacity", device.capacity},
                 {"flopsPerSecond", device.flopsPerSecond},
                 {"bytesPerSecond", device.bytesPerSecond},
                 {"launchSeconds", device.launchSeconds},
                 {"workers", device.workers}};
    if (device.operationsPerSecond > 0)
      item["operationsPerSecond"] = device.operationsPerSecond;
    if (device.updateBytesPerSecond > 0)
      item["updateBytesPerSecond"] = device.updateBytesPerSecond;
    if (!device.products.empty())
      item["products"] = arrayOf(device.products, [](const ProductRate &rate) {
        return json{{"rows", rate.rows},
                    {"columns", rate.columns},
                    {"depth", rate.depth},
                    {"flopsPerSecond", rate.flopsPerSecond}};
      });
    if (!device.memory.empty())
      item["memory"] = arrayOf(device.memory, [](const MemoryRate &rate) {
        return json{{"bytes", rate.bytes},
                    {"bytesPerSecond", rate.bytesPerSecond}};
      });
    return item;
  });
  if (machine.hostUpdateBytesPerSecond > 0)
    out["hostUpdateBytesPerSecond"] = machine.hostUpdateBytesPerSecond;
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
  machine.hostBytes = reader.integer("hostBytes", 0);
  machine.hostQueues = reader.index("hostQueues", machine.hostQueues);
  machine.hostUpdateBytesPerSecond = reader.real("hostUpdateBytesPerSecond", 0);
  if (reader.has("phaseSeconds"))
    machine.phaseSeconds = reader.real("phaseSeconds");
  if (reader.has("sharing"))
    machine.sharing = reader.oneOf<Sharing>("sharing", namesOf<Sharing>(2));
  reader.objects("devices", [&](Reader &item) {
    Device device;
    device.name = item.text("name");
    device.capacity = item.integer("capacity");
    device.flopsPerSecond = item.real("flopsPerSecond");
    device.bytesPerSecond = item.real("bytesPerSecond");
    device.launchSeconds = item.real("launchSeconds", device.launchSeconds);
    device.workers = item.index("workers", device.workers);
    device.operationsPerSecond = item.real("operationsPerSecond", 0);
    device.updateBytesPerSecond = item.real("updateBytesPerSecond", 0);
    if (item.has("products"))
      item.objects("products", [&](Reader &entry) {
        device.products.push_back(
            {entry.integer("rows"), entry.integer("columns"),
             entry.integer("depth"), entry.real("flopsPerSecond")});
      });
    if (item.has("memory"))
      item.objects("memory", [&](Reader &entry) {
        device.memory.push_back(
            {entry.integer("bytes"), entry.real("bytesPerSecond")});
      });
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

} // namespace harmony::planner
