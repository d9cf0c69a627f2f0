//===- OutputFiles.cpp - What a command writes ----------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Driver/OutputFiles.h"

#include "runtime/train/Payload.h"
#include "runtime/train/Safetensors.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Signals.h"

#include <deque>
#include <filesystem>
#include <map>

using namespace harmony;

namespace {

struct NamedFile {
  std::string flag, path;
};

/// A file that is not complete when a signal ends the command (Ctrl-C, a limit)
/// goes with it. Lives longer than the file's AtomicFile.
class RemovalOnSignal {
public:
  explicit RemovalOnSignal(const std::string &path)
      : temporary(runtime::AtomicFile::temporaryOf(path)) {
    llvm::sys::RemoveFileOnSignal(temporary);
  }
  ~RemovalOnSignal() { llvm::sys::DontRemoveFileOnSignal(temporary); }
  RemovalOnSignal(const RemovalOnSignal &) = delete;
  RemovalOnSignal &operator=(const RemovalOnSignal &) = delete;

private:
  std::string temporary;
};

/// Runs `action`; what it throws is the message.
template <typename Action>
std::string catchMessage(Action action) {
  try {
    action();
  } catch (const std::exception &error) {
    return error.what();
  }
  return "";
}

} // namespace

/// Those of an executable first.
static std::vector<NamedFile> outputsOf(const CompilerOptions &options) {
  std::vector<NamedFile> outputs = {{"-o", options.output},
                                    {"-o", options.output + HM_WEIGHTS_SUFFIX},
                                    {"--plan-out", options.planOut},
                                    {"--trace", options.trace},
                                    {"--svg", options.svg}};
  if (options.output.empty())
    outputs[1].path.clear();
  return outputs;
}

static std::string overwritten(const NamedFile &output,
                               const std::string &input) {
  return output.flag + " " + output.path + ": is the file of " + input +
         ", which would be overwritten";
}

std::string
harmony::checkOutputsApart(const CompilerOptions &options,
                           const std::set<std::string> &externalFiles) {
  for (const NamedFile &output : outputsOf(options))
    for (const std::string &file : externalFiles)
      if (!output.path.empty() && runtime::isSameFile(output.path, file))
        return overwritten(output, "weights of MODEL");
  return "";
}

std::string harmony::checkOutputs(const CompilerOptions &options) {
  std::vector<NamedFile> inputs = {{"MODEL", options.model},
                                   {"--plan-in", options.planIn},
                                   {"--machine", options.machine},
                                   {"--profile", options.profile},
                                   {"--keep-numerics", options.keepNumerics}};
  std::vector<NamedFile> outputs = outputsOf(options);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string &flag = outputs[i].flag, &path = outputs[i].path;
    if (path.empty())
      continue;
    // A device has room for several.
    std::error_code failure;
    bool isFile = !std::filesystem::exists(path, failure) ||
                  std::filesystem::is_regular_file(path, failure);
    for (const NamedFile &input : inputs)
      if (isFile && !input.path.empty() &&
          runtime::isSameFile(path, input.path))
        return overwritten(outputs[i], input.flag);
    for (size_t j = 0; isFile && j < i; ++j)
      if (!outputs[j].path.empty() &&
          runtime::isSameFile(path, outputs[j].path))
        return flag + " " + path + ": is the file of " + outputs[j].flag +
               " as well";
    if (i < 2 && !isFile && !std::filesystem::is_directory(path, failure))
      return flag + " " + path + ": is not a regular file";
    if (std::string message = catchMessage([&] {
          RemovalOnSignal removal(path);
          runtime::checkWritable(path);
        });
        !message.empty())
      return flag + " " + message;
  }
  return "";
}

std::string harmony::writeTextFile(const std::string &path,
                                   const std::string &text) {
  return catchMessage([&] {
    RemovalOnSignal removal(path);
    runtime::writeAtomically(path, text);
  });
}

/// Tensors that stay in the files of the model, by file: their offsets.
using ExternalTensors =
    std::map<std::string, std::vector<std::pair<int64_t, runtime::Array>>>;

/// The metadata of a weights file. Throws Error where a file of the model
/// cannot be read or is too short.
static std::map<std::string, std::string>
describeWeights(const std::string &fingerprint,
                const ExternalTensors &external) {
  std::map<std::string, std::string> metadata = {
      {HM_FINGERPRINT_KEY, fingerprint}};
  std::deque<runtime::FileMapping> mappings;
  std::vector<runtime::ExternalFile> files;
  for (const auto &[path, tensors] : external) {
    const auto &mapping =
        mappings.emplace_back(path, runtime::ExitCode::Failure);
    runtime::ExternalFile file{path, &mapping, {}};
    for (auto [offset, array] : tensors) {
      if (offset < 0 || array.bytes > static_cast<int64_t>(mapping.size()) ||
          offset > static_cast<int64_t>(mapping.size()) - array.bytes)
        throw runtime::Error(runtime::ExitCode::Failure,
                             path + ": too short for tensor '" + array.key +
                                 "'");
      array.data = mapping.data() + offset;
      file.arrays.push_back(array);
    }
    files.push_back(std::move(file));
  }
  if (!files.empty())
    metadata[HM_EXTERNAL_KEY] = runtime::ExternalFile::describe(files);
  return metadata;
}

std::string harmony::writeExecutableFiles(const ExecutableFiles &files) {
  const std::string weightsPath = files.path + HM_WEIGHTS_SUFFIX;
  std::vector<runtime::Array> arrays;
  ExternalTensors external;
  for (const WeightsEntry &entry : files.weights) {
    runtime::Array array;
    array.file = weightsPath;
    array.key = entry.name;
    array.type = entry.type;
    array.shape = entry.shape;
    array.data = entry.owned.empty() ? entry.data : entry.owned.data();
    array.bytes = entry.bytes;
    entry.file.empty() ? arrays.push_back(array)
                       : external[entry.file].push_back({entry.offset, array});
  }
  return catchMessage([&] {
    RemovalOnSignal removal(files.path), removalOfWeights(weightsPath);
    runtime::AtomicFile executable(files.path, 0777), weights(weightsPath);
    for (std::string_view part : files.parts)
      executable.write(part.data(), part.size());
    runtime::writeSafetensors(weights, arrays,
                              describeWeights(files.fingerprint, external));
    executable.finish();
    weights.finish();
    weights.commit();
    executable.commit();
  });
}
