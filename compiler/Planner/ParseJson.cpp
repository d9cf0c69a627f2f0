//===- ParseJson.cpp - Text to documents ----------------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/Error.h"
#include "compiler/Planner/Json.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <sstream>

namespace harmony::planner {

using nlohmann::json;

namespace {

/// No document has more than a handful of levels. What reads and prints them
/// recurses, so that a limit keeps the stack.
constexpr size_t maximalDepth = 64;

/// Characters of a text, of which `read` is behind the last that the parser
/// took.
struct Characters {
  using iterator_category = std::forward_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char *;
  using reference = const char &;

  const char *at;
  const char **read;

  reference operator*() const { return *at; }
  Characters &operator++() {
    *read = ++at;
    return *this;
  }
  Characters operator++(int) {
    Characters before = *this;
    ++*this;
    return before;
  }
  bool operator==(const Characters &other) const { return at == other.at; }
  bool operator!=(const Characters &other) const { return at != other.at; }
};

/// Builds the document of what the parser reports. The library's own builder
/// lets the last of several equal keys win, which hides a mistake: a second
/// `capacity` of a device would be planned with, whichever was meant.
class DocumentBuilder {
public:
  DocumentBuilder(const std::string &text, const std::string &where)
      : begin(text.data()), end(begin + text.size()), where(where) {}

  json build() {
    json::sax_parse(Characters{begin, &read}, Characters{end, &read}, this);
    return std::move(root);
  }

  // What the parser reports, under the names that it asks for.
  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(json::number_integer_t value) { return add(value); }
  bool number_unsigned(json::number_unsigned_t value) { return add(value); }
  bool number_float(json::number_float_t value, const std::string &) {
    return add(value);
  }
  bool string(std::string &value) { return add(std::move(value)); }
  bool binary(json::binary_t &value) { return add(std::move(value)); }
  bool start_object(size_t) { return open(json::object()); }
  bool start_array(size_t) { return open(json::array()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(std::string &name) {
    auto [member, isNew] =
        containers.back()->get_ref<json::object_t &>().emplace(name, nullptr);
    if (!isNew)
      throw Error(path() + ": key '" + shortened(name) + "' is there twice, " +
                  "the second time in line " + std::to_string(line()));
    target = &member->second;
    return true;
  }
  bool parse_error(size_t, const std::string &, const json::exception &error) {
    // The library's text begins with a number of its own, in brackets.
    std::string what = error.what();
    size_t number = what.find("] ");
    throw Error(where + ": is not JSON: " +
                what.substr(number == std::string::npos ? 0 : number + 2));
  }

private:
  /// Puts a value where the parser is.
  json *put(json &&value) {
    if (containers.empty())
      return &(root = std::move(value));
    if (containers.back()->is_object())
      return &(*target = std::move(value));
    containers.back()->push_back(std::move(value));
    return &containers.back()->back();
  }
  bool add(json &&value) {
    put(std::move(value));
    return true;
  }
  bool open(json &&container) {
    if (containers.size() == maximalDepth)
      throw Error(where + ": line " + std::to_string(line()) +
                  " is nested more than " + std::to_string(maximalDepth) +
                  " levels deep");
    containers.push_back(put(std::move(container)));
    return true;
  }
  bool close() {
    containers.pop_back();
    return true;
  }

  int64_t line() const { return 1 + std::count(begin, read, '\n'); }

  /// Of the innermost object, as the messages of readers have it.
  std::string path() const {
    std::string text = where;
    for (size_t i = 0; i + 1 < containers.size(); ++i) {
      const json &outer = *containers[i];
      if (outer.is_array()) {
        text += "[" + std::to_string(outer.size() - 1) + "]";
        continue;
      }
      for (const auto &[name, value] : outer.items())
        if (&value == containers[i + 1])
          text += "." + shortened(name);
    }
    return text;
  }
  static std::string shortened(const std::string &name) {
    return name.size() > 60 ? name.substr(0, 60) + "..." : name;
  }

  const char *const begin, *const end;
  const char *read = begin;
  const std::string &where;
  json root;
  std::vector<json *> containers; ///< that are open, the outermost first
  json *target = nullptr; ///< of the innermost object, for the key just read
};

} // namespace

json parseJson(const std::string &text, const std::string &where) {
  return DocumentBuilder(text, where).build();
}

json readJson(const std::string &path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  if (!file)
    throw Error(path + ": cannot be read");
  return parseJson(text.str(), path);
}

} // namespace harmony::planner
