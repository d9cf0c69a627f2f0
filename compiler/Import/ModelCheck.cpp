//===- ModelCheck.cpp - What must hold before a model is imported ---------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Import/ModelCheck.h"

#include "compiler/Import/LibraryMessages.h"
#include "compiler/Import/TensorData.h"
#include "dialects/ONNX/ExternalFile.h"
#include "dialects/ONNX/Schema.h"

#include "onnx/checker.h"
#include "onnx/inliner/inliner.h"
#include "onnx/shape_inference/implementation.h"

#include "llvm/Support/JSON.h"

#include <algorithm>
#include <exception>
#include <functional>
#include <optional>
#include <set>
#include <tuple>
#include <unistd.h>

namespace harmony {

using ::onnx::AttributeProto;
using ::onnx::GraphProto;
using ::onnx::ModelProto;
using ::onnx::NodeProto;
using ::onnx::TensorProto;
using ::onnx::TypeProto;

std::string getNodeName(const NodeProto &node) {
  if (!node.name().empty())
    return node.name();
  for (const std::string &output : node.output())
    if (!output.empty())
      return output;
  return "";
}

std::string describeNode(const NodeProto &node) {
  std::string domain = normalizeDomain(node.domain());
  return "node \"" + getNodeName(node) + "\" (" +
         (domain.empty() ? "" : domain + "::") + node.op_type() + ")";
}

const AttributeProto *findAttribute(const NodeProto &node, const char *name) {
  for (const AttributeProto &attribute : node.attribute())
    if (attribute.name() == name)
      return &attribute;
  return nullptr;
}

namespace {

class Preparation {
public:
  Preparation(ModelProto model, const std::string &folder,
              PreparedModel &prepared, std::vector<std::string> &problems)
      : model(std::move(model)), folder(folder), prepared(prepared),
        problems(problems) {}

  void run();

private:
  using Step = std::function<void()>;

  bool checkVersions();
  void collectFunctions();
  void checkNodes(const google::protobuf::RepeatedPtrField<NodeProto> &nodes,
                  const std::map<std::string, int64_t> &opsets);
  void checkNode(const NodeProto &node,
                 const std::map<std::string, int64_t> &opsets);
  void checkNames(const GraphProto &graph);
  void checkGraphContents(const GraphProto &graph);
  void checkExternalData(const TensorProto &tensor, const std::string &what);
  void checkOverlaps(const GraphProto &graph);
  void checkBindings();
  ::onnx::checker::CheckerContext makeContext() const;
  void checkGraph(const GraphProto &graph, const std::string &where);
  void inlineFunctions(GraphProto &graph);
  void inferTypes(GraphProto &graph, const std::string &where);

  /// Runs `step`; what the ONNX library throws becomes a problem.
  void attempt(const std::string &where, const Step &step);

  ModelProto model;
  const std::string &folder;
  PreparedModel &prepared;
  std::vector<std::string> &problems;
  std::set<std::pair<std::string, std::string>> functions;
  /// Operators that there is no schema for, with the nodes that use them.
  std::map<std::string, std::vector<std::string>> unknownOperators;
};

void Preparation::attempt(const std::string &where, const Step &step) {
  try {
    step();
  } catch (const std::exception &error) {
    for (const std::string &line : splitMessage(error.what()))
      problems.push_back(where + line);
  }
}

bool Preparation::checkVersions() {
  constexpr int64_t newestVersion = ::onnx::Version::IR_VERSION;
  if (model.ir_version() < 1 || model.ir_version() > newestVersion) {
    problems.push_back("IR version " + std::to_string(model.ir_version()) +
                       " is not supported; accepted are 1 to " +
                       std::to_string(newestVersion));
    return false;
  }
  if (model.training_info_size() && model.ir_version() < 7)
    problems.push_back(
        "training_info needs IR version 7 or newer, the model states " +
        std::to_string(model.ir_version()));
  if (model.ir_version() < 3 && model.opset_import_size() == 0)
    prepared.opsets[""] = 1;
  for (auto &opset : *model.mutable_opset_import()) {
    opset.set_domain(normalizeDomain(opset.domain()));
    if (!prepared.opsets.emplace(opset.domain(), opset.version()).second)
      problems.push_back("two operator sets for domain \"" + opset.domain() +
                         "\"");
    int64_t newest = onnx::getNewestOpset(opset.domain());
    if (newest > 0 && (opset.version() < 1 || opset.version() > newest))
      problems.push_back("operator set " + std::to_string(opset.version()) +
                         " of domain \"" + opset.domain() +
                         "\" is not supported; accepted are 1 to " +
                         std::to_string(newest) +
                         ": export with opset_version=20, or convert the "
                         "model by onnx.version_converter");
  }
  if (prepared.opsets.empty())
    problems.push_back("the model imports no operator set");
  return problems.empty();
}

void Preparation::collectFunctions() {
  for (const auto &function : model.functions())
    functions.emplace(normalizeDomain(function.domain()), function.name());
}

void Preparation::checkNode(const NodeProto &node,
                            const std::map<std::string, int64_t> &opsets) {
  std::string domain = normalizeDomain(node.domain());
  if (functions.count({domain, node.op_type()}))
    return;
  auto opset = opsets.find(domain);
  if (opset == opsets.end()) {
    problems.push_back(describeNode(node) +
                       ": the model imports no operator set of domain \"" +
                       domain +
                       "\"; accepted are operators of ONNX's own domains and "
                       "of functions that are in the model");
    return;
  }
  int64_t version =
      onnx::getSinceVersion(node.op_type(), domain, opset->second);
  if (version == 0) {
    std::string text = "operator \"" + node.op_type() + "\"";
    if (!domain.empty())
      text += " of domain \"" + domain + "\"";
    text += " is not known";
    std::vector<int64_t> versions = onnx::getVersions(node.op_type(), domain);
    if (onnx::getNewestOpset(domain) > 0)
      text += " in operator set " + std::to_string(opset->second);
    if (!versions.empty() && versions.front() > opset->second)
      text += "; it came with " + std::to_string(versions.front());
    if (domain == "com.microsoft")
      text += "; ONNX Runtime's optimizer makes such operators: give the model "
              "from before it";
    unknownOperators[text].push_back(getNodeName(node));
    return;
  }
  // The library's inference of some of them reads types that may not be there.
  static const std::set<std::string> ofStrings = {
      "RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit",
      "TfIdfVectorizer"};
  if (domain.empty() && ofStrings.count(node.op_type())) {
    problems.push_back(describeNode(node) + ": strings are not supported");
    return;
  }
  for (const AttributeProto &attribute : node.attribute()) {
    if (attribute.type() == AttributeProto::GRAPH ||
        attribute.type() == AttributeProto::GRAPHS) {
      problems.push_back(describeNode(node) +
                         ": control flow is not supported (attribute \"" +
                         attribute.name() +
                         "\" is a graph); unroll loops and decide branches "
                         "before the export");
      return;
    }
    if (attribute.has_t())
      checkExternalData(attribute.t(), describeNode(node) + ": attribute \"" +
                                           attribute.name() + "\"");
  }
  // Inside a function an attribute may refer to one of the call: the kinds are
  // known, and the inlined node is checked again.
  onnx::NodeDescription description;
  description.opType = node.op_type();
  description.domain = domain;
  description.version = version;
  for (const AttributeProto &attribute : node.attribute())
    description.attributes.push_back(
        {attribute.name(),
         static_cast<onnx::AttributeKind>(static_cast<int>(attribute.type()))});
  for (const std::string &input : node.input())
    description.inputs.push_back(!input.empty());
  for (const std::string &output : node.output())
    description.outputs.push_back(!output.empty());
  std::string problem = onnx::checkNode(description);
  if (!problem.empty())
    problems.push_back(describeNode(node) + ": " + problem);
}

void Preparation::checkNodes(
    const google::protobuf::RepeatedPtrField<NodeProto> &nodes,
    const std::map<std::string, int64_t> &opsets) {
  for (const NodeProto &node : nodes)
    checkNode(node, opsets);
}

void Preparation::checkExternalData(const TensorProto &tensor,
                                    const std::string &what) {
  if (tensor.data_location() != TensorProto::EXTERNAL)
    return;
  uint64_t wanted = 0, offset = 0, size = 0;
  std::string file;
  std::string problem = getTensorSize(tensor, wanted);
  uint64_t length = wanted;
  if (problem.empty())
    problem = readExternalReference(tensor, file, offset, length);
  if (problem.empty() && length != wanted)
    problem = "external file \"" + file + "\": " + std::to_string(length) +
              " bytes are referred to, the tensor has " +
              std::to_string(wanted);
  if (problem.empty()) {
    int descriptor = onnx::openExternalFile(folder, file, size, problem);
    if (descriptor >= 0) {
      close(descriptor);
      problem = onnx::checkExternalRange(offset, length, size);
      if (!problem.empty())
        problem = "external file \"" + file + "\": " + problem;
    }
  }
  if (!problem.empty())
    problems.push_back(what + ": " + problem);
}

/// Two tensors may share their bytes; one that begins within another is a sign
/// of a file that was put together wrongly, but what it reads is defined.
void Preparation::checkOverlaps(const GraphProto &graph) {
  struct Range {
    std::string file;
    uint64_t offset, end;
    const std::string *name;
  };
  std::vector<Range> ranges;
  for (const TensorProto &tensor : graph.initializer()) {
    uint64_t size = 0, offset = 0;
    std::string file;
    if (tensor.data_location() == TensorProto::EXTERNAL &&
        getTensorSize(tensor, size).empty() && size > 0 &&
        readExternalReference(tensor, file, offset, size).empty())
      ranges.push_back({file, offset, offset + size, &tensor.name()});
  }
  std::sort(ranges.begin(), ranges.end(), [](const Range &a, const Range &b) {
    return std::tie(a.file, a.offset, a.end) <
           std::tie(b.file, b.offset, b.end);
  });
  for (size_t i = 1; i < ranges.size(); ++i) {
    const Range &a = ranges[i - 1], &b = ranges[i];
    bool equal = a.offset == b.offset && a.end == b.end;
    if (a.file == b.file && b.offset < a.end && !equal)
      prepared.warnings.push_back(
          "external file \"" + a.file + "\": the bytes of \"" + *a.name +
          "\" end at " + std::to_string(a.end) + ", those of \"" + *b.name +
          "\" begin at " + std::to_string(b.offset));
  }
}

/// ONNX is protobuf, whose strings are UTF-8. Names go into documents and files
/// that have nothing else.
void Preparation::checkNames(const GraphProto &graph) {
  auto check = [&](const std::string &what, const std::string &name) {
    size_t at = 0;
    if (!llvm::json::isUTF8(name, &at))
      problems.push_back(what + " \"" + llvm::json::fixUTF8(name) +
                         "\": its name is not UTF-8 from byte " +
                         std::to_string(at) + " on");
  };
  check("graph", graph.name());
  for (const TensorProto &tensor : graph.initializer())
    check("initializer", tensor.name());
  for (const auto &input : graph.input())
    check("input", input.name());
  for (const auto &output : graph.output())
    check("output", output.name());
  for (const NodeProto &node : graph.node()) {
    check("node", node.name());
    for (const std::string &output : node.output())
      check("value", output);
  }
}

void Preparation::checkGraphContents(const GraphProto &graph) {
  checkNames(graph);
  checkNodes(graph.node(), prepared.opsets);
  for (const TensorProto &tensor : graph.initializer())
    checkExternalData(tensor, "initializer \"" + tensor.name() + "\"");
  checkOverlaps(graph);
  for (const auto &tensor : graph.sparse_initializer())
    problems.push_back("sparse initializer \"" + tensor.values().name() +
                       "\": sparse tensors are not supported");
}

void Preparation::checkBindings() {
  std::set<std::string> mainInitializers, mainOutputs, updated;
  for (const TensorProto &tensor : model.graph().initializer())
    mainInitializers.insert(tensor.name());
  for (const auto &output : model.graph().output())
    mainOutputs.insert(output.name());
  for (int i = 0; i < model.training_info_size(); ++i) {
    const auto &training = model.training_info(i);
    std::string where = "training_info " + std::to_string(i) + ": ";
    std::set<std::string> initializers = mainInitializers,
                          outputs = mainOutputs, set;
    for (const TensorProto &tensor : training.algorithm().initializer())
      initializers.insert(tensor.name());
    for (const auto &output : training.algorithm().output())
      outputs.insert(output.name());
    auto checkEntry = [&](const ::onnx::StringStringEntryProto &entry,
                          const std::string &list, std::set<std::string> &seen,
                          const std::set<std::string> &values,
                          const std::string &graphs) {
      if (!initializers.count(entry.key()))
        problems.push_back(
            where + list + " assigns to \"" + entry.key() +
            "\"; accepted are initializers of the model's graph and of this "
            "algorithm");
      if (!seen.insert(entry.key()).second)
        problems.push_back(
            where + list + " assigns to \"" + entry.key() +
            "\" a second time; an initializer may be assigned once");
      if (!values.count(entry.value()))
        problems.push_back(where + list + " takes \"" + entry.key() +
                           "\" from \"" + entry.value() +
                           "\"; accepted are outputs of " + graphs);
    };
    for (const auto &entry : training.update_binding())
      checkEntry(entry, "update_binding", updated, outputs,
                 "the algorithm and of the model's graph");
    std::set<std::string> initialValues;
    for (const auto &output : training.initialization().output())
      initialValues.insert(output.name());
    for (const auto &entry : training.initialization_binding())
      checkEntry(entry, "initialization_binding", set, initialValues,
                 "the initialization graph");
    if (training.initialization().input_size())
      problems.push_back(where + "the initialization graph has the input \"" +
                         training.initialization().input(0).name() +
                         "\"; it may have none");
    if (!training.has_algorithm() || training.algorithm().node_size() == 0)
      problems.push_back(where + "there is no algorithm");
  }
}

::onnx::checker::CheckerContext Preparation::makeContext() const {
  ::onnx::checker::CheckerContext context;
  context.set_ir_version(static_cast<int>(model.ir_version()));
  context.set_opset_imports({prepared.opsets.begin(), prepared.opsets.end()});
  context.set_model_dir(folder);
  return context;
}

void Preparation::checkGraph(const GraphProto &graph,
                             const std::string &where) {
  // Versions that the checker refuses although they are in use are hidden from
  // it: of an unknown domain it checks the names of values alone.
  static constexpr const char *kHidden = "harmony.replaced";
  auto isReplaced = [&](const NodeProto &node) {
    auto opset = prepared.opsets.find(normalizeDomain(node.domain()));
    return opset != prepared.opsets.end() &&
           onnx::isReplaced(node.op_type(), opset->first, opset->second);
  };
  std::optional<GraphProto> copy;
  for (int i = 0; i < graph.node_size(); ++i) {
    if (!isReplaced(graph.node(i)))
      continue;
    if (!copy)
      copy = graph;
    copy->mutable_node(i)->set_domain(kHidden);
  }
  attempt(where, [&] {
    ::onnx::checker::CheckerContext context = makeContext();
    if (copy) {
      auto opsets = context.get_opset_imports();
      opsets[kHidden] = 1;
      context.set_opset_imports(opsets);
    }
    ::onnx::checker::LexicalScopeContext scope;
    ::onnx::checker::check_graph(copy ? *copy : graph, context, scope);
  });
}

void Preparation::inlineFunctions(GraphProto &graph) {
  if (model.functions_size() == 0)
    return;
  ModelProto shell;
  shell.set_ir_version(model.ir_version());
  *shell.mutable_opset_import() = model.opset_import();
  *shell.mutable_functions() = model.functions();
  shell.mutable_graph()->Swap(&graph);
  attempt("", [&] {
    ::onnx::inliner::InlineLocalFunctions(shell, /*convert_version=*/true);
  });
  graph.Swap(shell.mutable_graph());
}

/// Gives the results of Gradient nodes, which the library does not infer, the
/// types of their xs. Returns whether any was new.
bool inferGradients(GraphProto &graph) {
  std::map<std::string, TypeProto> types = collectTypes(graph);
  bool changed = false;
  for (const NodeProto &node : graph.node()) {
    const AttributeProto *xs =
        isGradient(node) ? findAttribute(node, "xs") : nullptr;
    for (int i = 0; xs && i < std::min(node.output_size(), xs->strings_size());
         ++i) {
      auto type = types.find(xs->strings(i));
      if (node.output(i).empty() || types.count(node.output(i)) ||
          type == types.end())
        continue;
      auto *value = graph.add_value_info();
      value->set_name(node.output(i));
      *value->mutable_type() = type->second;
      changed = true;
    }
  }
  return changed;
}

/// Forgets what the file states of the types of nodes' results: an aid, which
/// exporters get wrong. Whether there was anything. What a Gradient makes has
/// its type from us.
static bool dropStatedTypes(GraphProto &graph) {
  std::set<std::string> results;
  for (const NodeProto &node : graph.node())
    if (node.op_type() != "Gradient")
      results.insert(node.output().begin(), node.output().end());
  auto &stated = *graph.mutable_value_info();
  auto kept = std::remove_if(stated.begin(), stated.end(), [&](auto &value) {
    return results.count(value.name()) > 0;
  });
  bool any = kept != stated.end();
  stated.erase(kept, stated.end());
  return any;
}

void Preparation::inferTypes(GraphProto &graph, const std::string &where) {
  // The library's messages have a node's name or nothing.
  std::vector<NodeProto *> unnamed;
  for (NodeProto &node : *graph.mutable_node())
    if (node.name().empty()) {
      node.set_name(getNodeName(node));
      unnamed.push_back(&node);
    }
  const size_t before = problems.size();
  std::unordered_map<std::string, int> opsets(prepared.opsets.begin(),
                                              prepared.opsets.end());
  auto infer = [&](bool strict) {
    // Without propagation of data: it keeps an object for each element of every
    // tensor of one axis, of whatever extent, and normalisation computes what
    // shapes are made of itself.
    ::onnx::ShapeInferenceOptions options(/*check_type=*/strict,
                                          /*error_mode=*/strict,
                                          /*data_prop=*/false);
    ::onnx::shape_inference::InferShapes(
        &graph, opsets, ::onnx::OpSchemaRegistry::Instance(), options);
  };
  attempt(where, [&] {
    // An x may be computed by nodes behind another Gradient: as long as
    // gradients get types, what follows them may, too.
    while (inferGradients(graph))
      infer(/*strict=*/false);
    infer(/*strict=*/true);
  });
  if (problems.size() > before && dropStatedTypes(graph)) {
    std::vector<std::string> stated(problems.begin() + before, problems.end());
    problems.resize(before);
    attempt(where, [&] { infer(/*strict=*/true); });
    if (problems.size() == before) {
      prepared.warnings.push_back(
          stated.front() +
          "; the types that the file states for results of nodes are left "
          "aside, since without them the model is consistent");
    } else {
      problems.resize(before);
      problems.insert(problems.end(), stated.begin(), stated.end());
    }
  }
  if (problems.size() > before) {
    std::vector<std::string> lines(problems.begin() + before, problems.end());
    attempt(where, [&] { infer(/*strict=*/false); });
    problems.resize(before);
    addInputTypes(graph, lines);
    problems.insert(problems.end(), lines.begin(), lines.end());
  }
  for (NodeProto *node : unnamed)
    node->clear_name();
}

void Preparation::run() {
  if (!checkVersions())
    return;
  collectFunctions();
  checkGraphContents(model.graph());
  for (const auto &function : model.functions()) {
    std::map<std::string, int64_t> opsets;
    for (const auto &opset : function.opset_import())
      opsets[normalizeDomain(opset.domain())] = opset.version();
    checkNodes(function.node(), opsets);
  }
  for (const auto &training : model.training_info()) {
    checkGraphContents(training.algorithm());
    checkGraphContents(training.initialization());
  }
  checkBindings();
  constexpr size_t namedNodes = 5;
  for (const auto &[text, nodes] : unknownOperators) {
    std::string problem = text + (nodes.size() == 1 ? ": node " : ": nodes ");
    for (size_t i = 0; i < std::min(nodes.size(), namedNodes); ++i)
      problem += (i ? ", \"" : "\"") + nodes[i] + "\"";
    if (nodes.size() > namedNodes)
      problem += " and " + std::to_string(nodes.size() - namedNodes) + " more";
    problems.push_back(problem);
  }
  if (!problems.empty())
    return;

  checkGraph(model.graph(), "");
  attempt("", [&] {
    ::onnx::checker::check_function_call_cycles(model);
    if (model.functions_size())
      ::onnx::checker::check_model_local_functions(model, makeContext(), {});
  });
  if (!problems.empty())
    return;
  GraphProto inference = model.graph();
  inlineFunctions(inference);
  inferTypes(inference, "");
  for (int i = 0; i < model.training_info_size() && problems.empty(); ++i) {
    std::string where = "training_info " + std::to_string(i) + ": ";
    PreparedTraining training;
    // IR.md, "Training Related Information": the lists in this order.
    training.algorithm = inference;
    const GraphProto &algorithm = model.training_info(i).algorithm();
    training.algorithm.set_name(algorithm.name());
    training.algorithm.mutable_node()->MergeFrom(algorithm.node());
    training.algorithm.mutable_input()->MergeFrom(algorithm.input());
    training.algorithm.mutable_initializer()->MergeFrom(
        algorithm.initializer());
    training.algorithm.mutable_output()->MergeFrom(algorithm.output());
    training.algorithm.mutable_value_info()->MergeFrom(algorithm.value_info());
    checkGraph(training.algorithm, where + "algorithm: ");
    inlineFunctions(training.algorithm);
    inferTypes(training.algorithm, where + "algorithm: ");
    training.hasInitialization = model.training_info(i).has_initialization();
    if (training.hasInitialization) {
      training.initialization = model.training_info(i).initialization();
      checkGraph(training.initialization, where + "initialization: ");
      inlineFunctions(training.initialization);
      inferTypes(training.initialization, where + "initialization: ");
    }
    prepared.trainings.push_back(std::move(training));
  }
  prepared.model = std::move(model);
  prepared.model.mutable_graph()->Swap(&inference);
  prepared.model.clear_functions();
  for (auto &training : *prepared.model.mutable_training_info()) {
    training.clear_algorithm();
    training.clear_initialization();
  }
}

} // namespace

void prepareModel(ModelProto model, const std::string &folder,
                  PreparedModel &prepared, std::vector<std::string> &problems) {
  Preparation(std::move(model), folder, prepared, problems).run();
}

} // namespace harmony
