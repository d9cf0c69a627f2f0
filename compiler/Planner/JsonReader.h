//===- JsonReader.h - Strict reading of documents ---------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_PLANNER_JSONREADER_H
#define COMPILER_PLANNER_JSONREADER_H

#include "compiler/Planner/Json.h"

#include <nlohmann/json.hpp>

#include <set>

namespace harmony::planner {

using nlohmann::json;

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
    return integerOf(value, at(key));
  }
  int index(const char *key) {
    int64_t value = integer(key);
    if (value < -1 || value > INT32_MAX)
      fail(at(key), object[key], "an integer from -1 to 2147483647");
    return static_cast<int>(value);
  }
  /// Those that may be left out: `absent` then.
  int64_t integer(const char *key, int64_t absent) {
    return has(key) ? integer(key) : absent;
  }
  int index(const char *key, int absent) {
    return has(key) ? index(key) : absent;
  }
  bool boolean(const char *key, bool absent) {
    return has(key) ? boolean(key) : absent;
  }
  double real(const char *key) {
    const json &value = get(key);
    if (!value.is_number())
      fail(at(key), value, "a number");
    return value.get<double>();
  }
  double real(const char *key, double absent) {
    return has(key) ? real(key) : absent;
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
      int64_t number = integerOf(item, where);
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
    if (found != name) {
      std::string use = useOfSchema(found);
      throw Error(at("schema") + " is '" + found + "', accepted is '" + name +
                  "'" + (use.empty() ? "" : "; this is " + use));
    }
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

  /// JSON has integers above those that fit, which would wrap around.
  static int64_t integerOf(const json &value, const std::string &where) {
    if (!value.is_number_integer())
      fail(where, value, "an integer");
    if (value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX)
      fail(where, value, "at most 9223372036854775807");
    return value.get<int64_t>();
  }

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

inline json header(const char *schema) {
  return {{"schema", schema}, {"version", schemaVersion}};
}

} // namespace harmony::planner

#endif // COMPILER_PLANNER_JSONREADER_H
