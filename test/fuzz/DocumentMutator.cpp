//===- DocumentMutator.cpp - Changes of a JSON document -------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/fuzz/DocumentMutator.h"

#include "test/fuzz/Random.h"

#include <iterator>
#include <nlohmann/json.hpp>
#include <vector>

using nlohmann::json;

namespace harmony::fuzz {
namespace {

void collect(json &value, std::vector<json *> &all) {
  all.push_back(&value);
  if (value.is_structured())
    for (json &element : value)
      collect(element, all);
}

void change(json &document, Random &random) {
  std::vector<json *> all;
  collect(document, all);
  json &value = *all[random.below(all.size())];
  if (value.is_structured() && !value.empty() && !random.oneIn(4)) {
    auto at = value.begin();
    std::advance(at, random.below(value.size()));
    auto other = value.begin();
    std::advance(other, random.below(value.size()));
    switch (random.below(4)) {
    case 0:
      value.erase(at);
      return;
    case 1:
      std::swap(*at, *other);
      return;
    case 2:
      *at = json(*other);
      return;
    default:
      if (value.is_array())
        value.push_back(json(*at));
      else
        value["more"] = json(*at);
      return;
    }
  }
  switch (random.below(value.is_number() ? 12 : 5)) {
  case 0: // a value from elsewhere
    value = json(*all[random.below(all.size())]);
    return;
  case 1:
    value = random.oneIn(2) ? json(nullptr) : json::array();
    return;
  case 2:
    value = random.oneIn(2) ? json(random.oneIn(2)) : json("text");
    return;
  case 3:
    value = random.oneIn(2) ? 1e300 : -0.5;
    return;
  case 4:
    value = random.integer();
    return;
  case 5:
  case 6:
  case 7: { // a little beside
    uint64_t moved = static_cast<uint64_t>(value.get<double>() < 9e18 &&
                                                   value.is_number_integer()
                                               ? value.get<int64_t>()
                                               : 0) +
                     random.below(5) - 2;
    value = static_cast<int64_t>(moved);
    return;
  }
  default:
    value = random.integer();
    return;
  }
}

} // namespace

std::string mutateDocument(const std::string &text, uint64_t seed) {
  json document = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (document.is_discarded())
    return "";
  Random random(seed);
  for (size_t n = 1 + random.below(3); n > 0; --n)
    change(document, random);
  return document.dump(-1, ' ', false, json::error_handler_t::replace);
}

} // namespace harmony::fuzz
