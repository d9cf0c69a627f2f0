//===- Json.h - Problem, machine and plan as text ---------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every document has "schema" and "version". Reading is strict: an unknown key,
// a missing one or a wrong type is an Error with the path of the key, the value
// and what is accepted.
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_PLANNER_JSON_H
#define COMPILER_PLANNER_JSON_H

#include "compiler/Planner/Search.h"

#include <nlohmann/json_fwd.hpp>

namespace harmony::planner {

inline constexpr int schemaVersion = 1;

nlohmann::json toJson(const Problem &problem); ///< "harmony.profile"
nlohmann::json toJson(const Machine &machine); ///< "harmony.machine"
nlohmann::json toJson(const Plan &plan);       ///< "harmony.plan"

/// The same plan as text, a line for each member, with `summary` as a further
/// one. Without a tree of its hundred thousand members, so much faster.
std::string jsonText(const Plan &plan, const nlohmann::json *summary = nullptr);

/// The results are linked and checked (problem, machine) but a plan is not
/// verified. `where` (a file name) begins the messages.
Problem problemFromJson(const nlohmann::json &json, const std::string &where);
Machine machineFromJson(const nlohmann::json &json, const std::string &where);
Plan planFromJson(const nlohmann::json &json, const std::string &where);

/// Parses text; Error with line and column on malformed JSON, and on a key that
/// an object has twice or values nested over 64 levels deep.
nlohmann::json parseJson(const std::string &text, const std::string &where);

/// The same of a file's text; Error too if it cannot be read.
nlohmann::json readJson(const std::string &path);

/// What a document of this schema is, and which flag or command takes it; empty
/// for a schema that nobody reads.
std::string useOfSchema(const std::string &schema);

/// The "summary" object of `harmonyc plan --plan-out`, but for "numerics_key",
/// which the compiler adds.
nlohmann::json summaryJson(const Planned &planned, const Problem &problem);

} // namespace harmony::planner

#endif // COMPILER_PLANNER_JSON_H
