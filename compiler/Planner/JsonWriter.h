//===- JsonWriter.h - Large documents as text -------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A plan has a hundred thousand members, each of which would be a node of a
// tree of json before it is a few characters. They are written as they come, in
// the form of json::dump(1): a line for each member and item, indented by one
// space a level. Who writes an object gives its keys in alphabetical order, as
// json has them.
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_PLANNER_JSONWRITER_H
#define COMPILER_PLANNER_JSONWRITER_H

#include <nlohmann/json.hpp>

#include <charconv>
#include <string>
#include <type_traits>
#include <utility>

namespace harmony::planner {

class JsonWriter {
public:
  template <typename Write>
  void object(Write write) {
    enclose('{', '}', write);
  }
  template <typename List, typename Write>
  void array(const List &items, Write write) {
    enclose('[', ']', [&] {
      for (const auto &item : items) {
        beginLine();
        write(item);
      }
    });
  }
  template <typename List>
  void array(const List &items) {
    array(items, [&](const auto &item) { value(item); });
  }

  template <typename Integer,
            std::enable_if_t<std::is_integral_v<Integer> &&
                                 !std::is_same_v<Integer, bool>,
                             bool> = true>
  void value(Integer number) {
    constexpr size_t mostDigits = 24;
    char digits[mostDigits];
    text.append(digits, std::to_chars(digits, digits + mostDigits, number).ptr);
  }
  void value(bool of) { text += of ? "true" : "false"; }
  /// Of the library, which escapes text and finds the shortest digits; nested
  /// ones begin in the column of the member.
  void value(const nlohmann::json &document) {
    for (char c : document.dump(1)) {
      text += c;
      if (c == '\n')
        text.append(depth, ' ');
    }
  }
  /// Text that needs no escapes.
  void name(const char *plain) {
    text += '"';
    text += plain;
    text += '"';
  }

  /// The value of the member has to follow.
  void key(const char *plain) {
    beginLine();
    name(plain);
    text += ": ";
  }
  template <typename T>
  void member(const char *plain, const T &of) {
    key(plain);
    value(of);
  }
  /// Of text that needs no escapes.
  void memberName(const char *plain, const char *of) {
    key(plain);
    name(of);
  }
  /// Unless it says nothing.
  template <typename T>
  void memberUnless(const T &absent, const char *plain, const T &of) {
    if (of != absent)
      member(plain, of);
  }

  std::string take() { return std::move(text); }

private:
  std::string text;
  size_t depth = 0;
  bool first = true; ///< nothing precedes the next item in what is open

  void beginLine() {
    text += first ? "\n" : ",\n";
    first = false;
    text.append(depth, ' ');
  }

  template <typename Write>
  void enclose(char open, char close, Write write) {
    text += open;
    ++depth;
    first = true;
    write();
    --depth;
    if (!first) {
      text += '\n';
      text.append(depth, ' ');
    }
    text += close;
    first = false;
  }
};

} // namespace harmony::planner

#endif // COMPILER_PLANNER_JSONWRITER_H
