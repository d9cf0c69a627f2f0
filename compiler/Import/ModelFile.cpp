//===- ModelFile.cpp - Reading and writing ONNX files ---------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Import/ModelFile.h"

#include "onnx/defs/parser.h"
#include "onnx/defs/printer.h"

#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

#include <climits>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/text_format.h>
#include <sstream>

namespace io = google::protobuf::io;

namespace harmony {
namespace {

/// A nested subgraph costs three levels; protobuf's own limit is 100.
constexpr int recursionLimit = 1000;

/// Names what `data` is, judged by how it begins; empty if there is no idea.
std::string recognize(llvm::StringRef data) {
  if (data.empty())
    return "the file is empty";
  if (data.starts_with("version https://git-lfs"))
    return "the file is a Git LFS pointer; fetch the file itself with `git lfs "
           "pull`";
  if (data.starts_with("PK\x03\x04"))
    return "the file is a ZIP archive (a PyTorch checkpoint or exported "
           "program is one); export it "
           "with torch.onnx.export";
  if (data.starts_with("\x1f\x8b"))
    return "the file is compressed with gzip; unpack it first";
  if (data.starts_with("\x89HDF"))
    return "the file is HDF5";
  if (data.size() > 9 && data[8] == '{' &&
      data.substr(0, 200).contains("\"dtype\""))
    return "the file is safetensors: weights without a graph";
  if (data.starts_with("ML\xefR") || data.starts_with("MLIR"))
    return "the file is MLIR bytecode";
  llvm::StringRef text = data.ltrim();
  if (text.starts_with("<") && text.contains("ir_version"))
    return "the file looks like ONNX text; such files are read by the ending "
           ".onnxtext";
  if (text.starts_with("ir_version:"))
    return "the file looks like protobuf text; such files are read by the "
           "ending .textproto";
  return "";
}

/// Walks the fields of the outermost message. Returns where and how the bytes
/// stop being one; empty if they are one.
std::string findDamage(llvm::StringRef data) {
  io::CodedInputStream stream(reinterpret_cast<const uint8_t *>(data.data()),
                              static_cast<int>(data.size()));
  while (true) {
    int position = stream.CurrentPosition();
    uint32_t tag = stream.ReadTag();
    if (tag == 0)
      return static_cast<size_t>(stream.CurrentPosition()) == data.size() &&
                     position == stream.CurrentPosition()
                 ? ""
                 : "not protobuf from byte " + std::to_string(position) + " on";
    uint64_t length = 0;
    switch (tag & 7) {
    case 0:
      if (!stream.ReadVarint64(&length))
        return "truncated at byte " + std::to_string(data.size());
      continue;
    case 1:
      length = 8;
      break;
    case 5:
      length = 4;
      break;
    case 2:
      if (!stream.ReadVarint64(&length))
        return "truncated at byte " + std::to_string(data.size());
      break;
    default:
      return "not protobuf from byte " + std::to_string(position) + " on";
    }
    uint64_t left =
        data.size() - static_cast<uint64_t>(stream.CurrentPosition());
    // Fields of ModelProto have small numbers: a large one is a sign of another
    // format.
    if ((tag >> 3) > 1000)
      return "not protobuf from byte " + std::to_string(position) + " on";
    if (length > left)
      return "truncated: the field at byte " + std::to_string(position) +
             " has " + std::to_string(length) + " bytes, the file has only " +
             std::to_string(left) + " more";
    stream.Skip(static_cast<int>(length));
  }
}

/// Passes the first error of protobuf's text parser on.
class FirstError : public io::ErrorCollector {
public:
  void AddError(int line, io::ColumnNumber column,
                const std::string &text) override {
    if (message.empty())
      message = "line " + std::to_string(line + 1) + ", column " +
                std::to_string(column + 1) + ": " + text;
  }
  std::string message;
};

std::string parseBinary(llvm::StringRef data, ::onnx::ModelProto &model) {
  if (data.size() > INT_MAX)
    return "the file has " + std::to_string(data.size()) +
           " bytes; protobuf ends at 2 GiB, so export the model with external "
           "data";
  io::CodedInputStream stream(reinterpret_cast<const uint8_t *>(data.data()),
                              static_cast<int>(data.size()));
  stream.SetRecursionLimit(recursionLimit);
  stream.SetTotalBytesLimit(INT_MAX);
  bool parsed =
      model.ParseFromCodedStream(&stream) && stream.ConsumedEntireMessage();
  if (parsed && model.has_ir_version() && model.has_graph())
    return "";
  std::string known = recognize(data);
  if (!known.empty())
    return "not an ONNX model: " + known;
  if (!parsed) {
    std::string damage = findDamage(data);
    return "not an ONNX model, or a damaged one: " +
           (damage.empty() ? "a message within it cannot be parsed" : damage);
  }
  if (!model.has_ir_version() && !model.has_graph())
    return "not an ONNX model: neither an ir_version nor a graph in it";
  return model.has_graph() ? "the model states no ir_version"
                           : "the model has no graph";
}

std::string parseProtoText(llvm::StringRef data, ::onnx::ModelProto &model) {
  io::ArrayInputStream stream(data.data(), static_cast<int>(data.size()));
  google::protobuf::TextFormat::Parser parser;
  FirstError error;
  parser.RecordErrorsTo(&error);
  parser.SetRecursionLimit(recursionLimit);
  if (!parser.Parse(&stream, &model))
    return error.message.empty() ? "not protobuf text" : error.message;
  return model.has_graph() ? "" : "the model has no graph";
}

std::string parseOnnxText(llvm::StringRef data, ::onnx::ModelProto &model) {
  ::onnx::OnnxParser parser(std::string_view(data.data(), data.size()));
  auto status = parser.Parse(model);
  if (!status.IsOK())
    return status.ErrorMessage();
  return parser.EndOfInput() ? ""
                             : "text follows the model's graph and functions";
}

} // namespace

ModelFormat getModelFormat(llvm::StringRef path) {
  return llvm::StringSwitch<ModelFormat>(llvm::sys::path::extension(path))
      .Case(".onnxtext", ModelFormat::OnnxText)
      .Cases({".textproto", ".pbtxt", ".prototxt"}, ModelFormat::ProtoText)
      .Default(ModelFormat::Binary);
}

std::string readModel(const std::string &path, ::onnx::ModelProto &model) {
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/false,
                                            /*RequiresNullTerminator=*/false);
  if (!buffer)
    return "cannot read the file: " + buffer.getError().message();
  llvm::StringRef data = (*buffer)->getBuffer();
  try {
    switch (getModelFormat(path)) {
    case ModelFormat::OnnxText:
      return parseOnnxText(data, model);
    case ModelFormat::ProtoText:
      return parseProtoText(data, model);
    case ModelFormat::Binary:
      return parseBinary(data, model);
    }
  } catch (const std::exception &error) {
    return error.what();
  }
  return "";
}

std::string writeModel(const ::onnx::ModelProto &model, ModelFormat format,
                       std::string &text) {
  switch (format) {
  case ModelFormat::Binary:
    if (model.ByteSizeLong() > INT_MAX || !model.SerializeToString(&text))
      return "the model has " + std::to_string(model.ByteSizeLong()) +
             " bytes; protobuf ends at 2 GiB";
    return "";
  case ModelFormat::OnnxText: {
    if (model.training_info_size())
      return "ONNX text has no syntax for training_info; accepted are .onnx "
             "and .textproto";
    std::ostringstream stream;
    stream << model << '\n';
    text = stream.str();
    return "";
  }
  case ModelFormat::ProtoText:
    return google::protobuf::TextFormat::PrintToString(model, &text)
               ? ""
               : "cannot print the model";
  }
  return "";
}

} // namespace harmony
