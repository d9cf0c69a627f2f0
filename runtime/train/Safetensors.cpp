//===- Safetensors.cpp - The safetensors format ---------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/train/Safetensors.h"

#include "runtime/train/Payload.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include <set>

namespace harmony::runtime {

using Json = nlohmann::json;

static constexpr uint64_t maximalHeaderBytes =
    100000000; // the format's own limit

static constexpr struct {
  const char *name;
  HmType type;
} dtypeTable[] = {{"F32", HM_F32},   {"F64", HM_F64}, {"I64", HM_I64},
                  {"I32", HM_I32},   {"I8", HM_I8},   {"U8", HM_U8},
                  {"BOOL", HM_BOOL}, {"F16", HM_F16}, {"BF16", HM_BF16}};

namespace {

class HeaderReader {
public:
  explicit HeaderReader(const std::string &path) : path(path) {}

  [[noreturn]] void fail(const std::string &what) const {
    throw Error(ExitCode::Data, path + ": " + what);
  }

  /// The header as JSON; repeated keys, which JSON libraries let pass, are
  /// refused.
  Json parse(const char *begin, const char *end) {
    std::vector<std::set<std::string>> keys;
    auto watch = [&](int depth, Json::parse_event_t event, Json &value) {
      if (event == Json::parse_event_t::object_start)
        keys.emplace_back();
      else if (event == Json::parse_event_t::object_end)
        keys.pop_back();
      else if (event == Json::parse_event_t::key &&
               !keys.back().insert(value.get<std::string>()).second)
        fail("key '" + value.get<std::string>() +
             "' occurs twice in the header");
      if (depth > 5)
        fail("the header is nested too deeply");
      return true;
    };
    try {
      return Json::parse(begin, end, watch);
    } catch (const Json::exception &error) {
      fail(std::string("the header is not JSON: ") + error.what());
    }
  }

  int64_t integer(const Json &value, const std::string &what) const {
    if (!value.is_number_unsigned() || value.get<uint64_t>() > INT64_MAX)
      fail(what + " is " + value.dump() + ", expected a non-negative integer");
    return value.get<int64_t>();
  }

  Array tensor(const std::string &name, const Json &entry, const char *data,
               int64_t dataBytes) const {
    std::string where = "'" + name + "': ";
    if (!entry.is_object() || entry.size() != 3 || !entry.contains("dtype") ||
        !entry.contains("shape") || !entry.contains("data_offsets"))
      fail(where + "expected dtype, shape and data_offsets");
    Array array;
    array.file = path;
    array.key = name;
    array.type = type(where, entry["dtype"]);
    if (!entry["shape"].is_array())
      fail(where + "shape is not a list");
    for (const Json &extent : entry["shape"])
      array.shape.push_back(integer(extent, where + "an extent"));
    const Json &offsets = entry["data_offsets"];
    if (!offsets.is_array() || offsets.size() != 2)
      fail(where + "data_offsets is not a pair");
    int64_t begin = integer(offsets[0], where + "an offset");
    int64_t end = integer(offsets[1], where + "an offset");
    if (begin > end || end > dataBytes)
      fail(where + "data_offsets [" + std::to_string(begin) + ", " +
           std::to_string(end) + ") exceed the " + std::to_string(dataBytes) +
           " bytes of data; is it truncated?");
    array.bytes = arrayBytes(array.type, array.shape);
    if (array.bytes != end - begin)
      fail(where + describe(array.type, array.shape) + " needs " +
           std::to_string(array.bytes) + " bytes, data_offsets give " +
           std::to_string(end - begin));
    array.data = data + begin;
    return array;
  }

private:
  HmType type(const std::string &where, const Json &value) const {
    if (value.is_string())
      for (auto &row : dtypeTable)
        if (value.get<std::string>() == row.name)
          return row.type;
    std::string accepted;
    for (auto &row : dtypeTable)
      accepted += std::string(accepted.empty() ? "" : ", ") + row.name;
    fail(where + "dtype " + value.dump() + ", accepted are " + accepted);
  }

  const std::string path;
};

} // namespace

SafetensorsFile::SafetensorsFile(const std::string &path) : filePath(path) {
  auto mapping = std::make_shared<FileMapping>(path, ExitCode::Data);
  HeaderReader reader(path);
  if (mapping->size() < 8)
    reader.fail("too short for a safetensors file");
  if (std::memcmp(mapping->data(), "PK\3\4", 4) == 0)
    reader.fail(
        "is a ZIP archive, as .npz files and PyTorch's checkpoints are, "
        "not safetensors (safetensors.torch.save_file)");
  uint64_t length = 0;
  for (int i = 0; i < 8; ++i)
    length |=
        static_cast<uint64_t>(static_cast<unsigned char>(mapping->data()[i]))
        << 8 * i;
  if (length > maximalHeaderBytes || length > mapping->size() - 8)
    reader.fail("the header length " + std::to_string(length) +
                " exceeds the file of " + std::to_string(mapping->size()) +
                " bytes or the limit of " + std::to_string(maximalHeaderBytes));
  const char *begin = mapping->data() + 8;
  if (!length || *begin != '{')
    reader.fail("the header does not begin with '{'");
  Json header = reader.parse(begin, begin + length);
  int64_t dataBytes = static_cast<int64_t>(mapping->size() - 8 - length);

  for (auto &[name, entry] : header.items()) {
    if (name == "__metadata__") {
      if (!entry.is_object())
        reader.fail("__metadata__ is not an object");
      for (auto &[key, value] : entry.items()) {
        if (!value.is_string())
          reader.fail("__metadata__ '" + key + "' is not a string");
        info[key] = value.get<std::string>();
      }
      continue;
    }
    arrays.push_back(reader.tensor(name, entry, begin + length, dataBytes));
    arrays.back().owner = mapping;
  }
  std::sort(arrays.begin(), arrays.end(), [](const Array &a, const Array &b) {
    return a.data != b.data ? a.data < b.data : a.bytes < b.bytes;
  });
  const char *expected = begin + length;
  for (size_t i = 0; i < arrays.size(); ++i) {
    if (arrays[i].data != expected)
      reader.fail("'" + arrays[i].key + "': the bytes " +
                  (arrays[i].data < expected ? "overlap those of"
                                             : "leave a gap after") +
                  (i ? " '" + arrays[i - 1].key + "'" : " the header"));
    expected += arrays[i].bytes;
    indices[arrays[i].key] = i;
  }
  if (expected != mapping->data() + mapping->size())
    reader.fail(std::to_string(mapping->data() + mapping->size() - expected) +
                " bytes after the last tensor");
}

void SafetensorsFile::addExternal() {
  auto text = info.find(HM_EXTERNAL_KEY);
  if (text == info.end())
    return;
  HeaderReader index(filePath);
  const char *begin = text->second.data();
  Json files = index.parse(begin, begin + text->second.size());
  auto member = [&](const Json &value, const char *key) -> const Json & {
    if (!value.is_object() || !value.contains(key))
      index.fail(std::string("external files without '") + key + "'");
    return value[key];
  };
  for (const Json &file : files) {
    const Json &path = member(file, "path"), &tensors = member(file, "tensors");
    if (!path.is_string() || !tensors.is_object())
      index.fail("an external file is not described as one");
    HeaderReader reader(path.get<std::string>());
    std::shared_ptr<FileMapping> mapping;
    try {
      mapping = std::make_shared<FileMapping>(path.get<std::string>(),
                                              ExitCode::Data);
    } catch (const Error &error) {
      throw Error(ExitCode::Data,
                  std::string(error.what()) +
                      ": the executable was compiled with --weights-from-model "
                      "and reads this file; put it back, or give the weights "
                      "by --init-from");
    }
    if (index.integer(member(file, "bytes"), "a size") !=
            static_cast<int64_t>(mapping->size()) ||
        index.integer(member(file, "modified"), "a time") !=
            mapping->modified())
      reader.fail("the file has changed since the executable was compiled with "
                  "--weights-from-model; compile again, or give the weights by "
                  "--init-from");
    for (auto &[name, entry] : tensors.items()) {
      if (!indices.emplace(name, arrays.size()).second)
        index.fail("'" + name + "' is both in the file and in another");
      arrays.push_back(reader.tensor(name, entry, mapping->data(),
                                     static_cast<int64_t>(mapping->size())));
      arrays.back().owner = mapping;
    }
  }
}

std::vector<std::string> SafetensorsFile::names() const {
  std::vector<std::string> result;
  for (const Array &array : arrays)
    result.push_back(array.key);
  return result;
}

const Array *SafetensorsFile::find(const std::string &name) const {
  auto found = indices.find(name);
  return found == indices.end() ? nullptr : &arrays[found->second];
}

static Json headerEntry(const Array &array, int64_t offset) {
  const char *dtype = nullptr;
  for (auto &row : dtypeTable)
    if (row.type == array.type)
      dtype = row.name;
  return {{"dtype", dtype},
          {"shape", array.shape},
          {"data_offsets", {offset, offset + array.bytes}}};
}

std::string ExternalFile::describe(const std::vector<ExternalFile> &files) {
  Json list = Json::array();
  for (const ExternalFile &file : files) {
    Json tensors = Json::object();
    for (const Array &array : file.arrays)
      tensors[array.key] =
          headerEntry(array, array.data - file.mapping->data());
    list.push_back({{"path", file.path},
                    {"bytes", file.mapping->size()},
                    {"modified", file.mapping->modified()},
                    {"tensors", std::move(tensors)}});
  }
  return list.dump();
}

void writeSafetensors(AtomicFile &file, const std::vector<Array> &arrays,
                      const std::map<std::string, std::string> &metadata,
                      const std::function<void(const Array &)> &write) {
  Json header = Json::object();
  if (!metadata.empty())
    header["__metadata__"] = metadata;
  int64_t offset = 0;
  for (const Array &array : arrays) {
    header[array.key] = headerEntry(array, offset);
    offset += array.bytes;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' '); // tensors start aligned
  char length[8];
  for (int i = 0; i < 8; ++i)
    length[i] = static_cast<char>(text.size() >> 8 * i);

  file.write(length, sizeof(length));
  file.write(text.data(), text.size());
  for (const Array &array : arrays)
    if (write)
      write(array);
    else
      file.write(array.data, array.bytes);
}

void writeSafetensors(const std::string &path, const std::vector<Array> &arrays,
                      const std::map<std::string, std::string> &metadata) {
  AtomicFile file(path);
  writeSafetensors(file, arrays, metadata);
  file.commit();
}

} // namespace harmony::runtime
