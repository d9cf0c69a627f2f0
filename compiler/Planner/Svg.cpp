//===- Svg.cpp - Elements of an SVG document ------------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Planner/Svg.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace harmony::planner {

std::string svgNumber(double value) {
  long tenths = std::lround(value * 10);
  char text[32];
  if (tenths % 10 == 0)
    std::snprintf(text, sizeof text, "%ld", tenths / 10);
  else
    std::snprintf(text, sizeof text, "%.1f", static_cast<double>(tenths) / 10);
  return text;
}

std::string svgEscape(std::string_view text) {
  std::string result;
  for (char c : text) {
    switch (c) {
    case '&':
      result += "&amp;";
      break;
    case '<':
      result += "&lt;";
      break;
    case '>':
      result += "&gt;";
      break;
    case '"':
      result += "&quot;";
      break;
    default:
      if (static_cast<unsigned char>(c) >= 0x20)
        result += c;
    }
  }
  return result;
}

double svgTextWidth(std::string_view text, double fontSize) {
  double width = 0; // in units of the font's size
  for (char c : text) {
    if (std::string_view("il.,:;|'!()[]fjrt /-").find(c) !=
        std::string_view::npos)
      width += 0.38;
    else if ((c >= 'A' && c <= 'Z') || c == 'm' || c == 'w' || c == '%')
      width += 0.82;
    else
      width += 0.62;
  }
  return width * fontSize;
}

static void attribute(std::string &text, const char *name, double value) {
  text += std::string(" ") + name + "=\"" + svgNumber(value) + "\"";
}

static void attribute(std::string &text, const char *name,
                      std::string_view value) {
  text += std::string(" ") + name + "=\"" + svgEscape(value) + "\"";
}

void Svg::label(double x, double y, std::string_view what,
                std::string_view cssClass, std::string_view anchor) {
  text += "<text";
  attribute(text, "x", x);
  attribute(text, "y", y);
  attribute(text, "class", cssClass);
  if (anchor != "start")
    attribute(text, "text-anchor", anchor);
  text += ">" + svgEscape(what) + "</text>\n";
}

void Svg::rectangle(double x, double y, double width, double height,
                    std::string_view cssClass, std::string_view title) {
  text += "<rect";
  attribute(text, "x", x);
  attribute(text, "y", y);
  attribute(text, "width", width);
  attribute(text, "height", height);
  attribute(text, "class", cssClass);
  text += title.empty() ? "/>\n"
                        : "><title>" + svgEscape(title) + "</title></rect>\n";
}

void Svg::line(double x1, double y1, double x2, double y2,
               std::string_view cssClass) {
  text += "<line";
  attribute(text, "x1", x1);
  attribute(text, "y1", y1);
  attribute(text, "x2", x2);
  attribute(text, "y2", y2);
  attribute(text, "class", cssClass);
  text += "/>\n";
}

void Svg::path(const std::string &data, std::string_view cssClass) {
  text += "<path d=\"" + data + "\"";
  attribute(text, "class", cssClass);
  text += "/>\n";
}

void Svg::open(std::string_view cssClass, std::string_view id,
               std::string_view title) {
  text += "<g";
  if (!cssClass.empty())
    attribute(text, "class", cssClass);
  if (!id.empty())
    attribute(text, "id", id);
  text += ">";
  if (!title.empty())
    text += "<title>" + svgEscape(title) + "</title>";
  text += "\n";
}

} // namespace harmony::planner
