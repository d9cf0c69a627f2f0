//===- ModelFile.cpp - Reading and writing ONNX files ---------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Import/ModelFile.h"

#include "dialects/ONNX/ExportCall.h"

#include "onnx/defs/parser.h"
#include "onnx/defs/printer.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/FileSystem.h"
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

/// What a ZIP archive is, by the names of its members, which stand in the clear
/// at both of its ends.
std::string recognizeArchive(llvm::StringRef data) {
  constexpr size_t window = 1 << 16;
  auto holds = [&](llvm::StringRef name) {
    return data.take_front(window).contains(name) ||
           data.take_back(window).contains(name);
  };
  const std::string export_ =
      std::string("; load the module and export it with ") + onnx::kExportCall;
  if (holds("models/model.json") || holds("serialized_exported_program"))
    return "the file is an exported program of PyTorch" + export_;
  if (holds("constants.pkl"))
    return "the file is TorchScript" + export_;
  if (holds("data.pkl"))
    return "the file is a PyTorch checkpoint: weights without a graph" +
           export_;
  if (holds(".npy"))
    return "the file is a NumPy archive: arrays without a graph";
  return "the file is a ZIP archive; unpack it first";
}

/// Whether `data` begins with text.
bool isText(llvm::StringRef data) {
  return llvm::all_of(data.take_front(512), [](char c) {
    return llvm::isPrint(c) || llvm::isSpace(c) || (c & 0x80);
  });
}

/// Names what `data` is, judged by how it begins; empty if there is no idea.
std::string recognize(llvm::StringRef data) {
  if (data.empty())
    return "the file is empty";
  if (data.starts_with("version https://git-lfs"))
    return "the file is a Git LFS pointer; fetch the file itself with `git lfs "
           "pull`";
  if (data.starts_with("PK\x03\x04"))
    return recognizeArchive(data);
  if (data.size() > 2 && data[0] == '\x80' && data[1] >= 2 && data[1] <= 5)
    return std::string("the file is a Python pickle (old PyTorch checkpoints "
                       "are): weights without a graph; load the module and "
                       "export it with ") +
           onnx::kExportCall;
  if (data.size() > 9 && data[8] == '{' &&
      data.substr(0, 200).contains("\"dtype\""))
    return "the file is safetensors: weights without a graph";
  for (auto [head, what] : {
           std::pair("\x93NUMPY", "a NumPy array"),
           {"\x89HDF", "HDF5 (Keras writes it); convert the model by tf2onnx"},
           {"GGUF", "GGUF: weights without a graph"},
           {"\x7f"
            "ELF",
            "an executable or a library"},
           {"ML\xefR", "MLIR bytecode"},
           {"MLIR", "MLIR bytecode"},
           {"\x1f\x8b", "compressed with gzip; unpack it first"},
           {"BZh", "compressed with bzip2; unpack it first"},
           {"\xfd"
            "7zXZ",
            "compressed with xz; unpack it first"},
           {"\x28\xb5\x2f\xfd", "compressed with zstd; unpack it first"},
       })
    if (data.starts_with(head))
      return std::string("the file is ") + what;
  if (data.substr(4, 4) == "TFL3")
    return "the file is TensorFlow Lite; convert the model by tf2onnx";
  if (data.substr(4, 4) == "ORTM")
    return "the file is ONNX Runtime's own format; give the .onnx file that it "
           "was made from";
  if (data.substr(257, 5) == "ustar")
    return "the file is a tar archive; unpack it first";
  llvm::StringRef text = data.ltrim();
  if (text.starts_with("<") && text.contains("ir_version"))
    return "the file looks like ONNX text; such files are read by the ending "
           ".onnxtext";
  if (text.starts_with("ir_version:"))
    return "the file looks like protobuf text; such files are read by the "
           "ending .textproto";
  if (!isText(data))
    return "";
  if (text.starts_with_insensitive("<!doctype html") ||
      text.starts_with_insensitive("<html"))
    return "the file is a web page; the download went wrong";
  if (text.starts_with("{"))
    return "the file is JSON";
  return "the file is text";
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
  if (std::string known = recognize(data); !known.empty())
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
  if (!isText(data))
    return "not protobuf text, which the file's ending stands for; a binary "
           "model is read by any other ending, such as .onnx";
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
  if (!isText(data))
    return "not ONNX text, which the ending .onnxtext stands for; a binary "
           "model is read by any other ending, such as .onnx";
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
  // A device or a pipe has no end, or no beginning.
  llvm::sys::fs::file_status status;
  if (!llvm::sys::fs::status(path, status) &&
      status.type() != llvm::sys::fs::file_type::regular_file)
    return llvm::sys::fs::is_directory(status)
               ? "is a folder, expected the model's file"
               : "is not a regular file";
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
