//===- Svg.h - Elements of an SVG document ----------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Private to the picture of a plan. Coordinates are pixels, y grows downwards.
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_PLANNER_SVG_H
#define COMPILER_PLANNER_SVG_H

#include <string>
#include <string_view>

namespace harmony::planner {

/// A coordinate with one decimal, "12.5", "3".
std::string svgNumber(double value);
/// UTF-8 with what XML reserves replaced and what it forbids left out.
std::string svgEscape(std::string_view text);
/// An upper estimate of how wide a text is in a sans-serif font.
double svgTextWidth(std::string_view text, double fontSize);

/// Elements are appended as they are called.
class Svg {
public:
  std::string text;

  /// `anchor`: start, middle, end. `y` is the base line.
  void label(double x, double y, std::string_view what,
             std::string_view cssClass, std::string_view anchor = "start");
  /// With a tooltip if `title` is not empty.
  void rectangle(double x, double y, double width, double height,
                 std::string_view cssClass, std::string_view title = {});
  void line(double x1, double y1, double x2, double y2,
            std::string_view cssClass);
  void path(const std::string &data, std::string_view cssClass);
  void open(std::string_view cssClass, std::string_view id = {},
            std::string_view title = {});
  void close() { text += "</g>\n"; }
};

} // namespace harmony::planner

#endif // COMPILER_PLANNER_SVG_H
