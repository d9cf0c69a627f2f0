//===- Picture.h - A plan as a picture --------------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_PLANNER_PICTURE_H
#define COMPILER_PLANNER_PICTURE_H

#include "compiler/Planner/Search.h"

namespace harmony::planner {

/// One iteration in steady state as an SVG document: a row for each queue of
/// every device, by what it does; the phases above each compute queue; below
/// each device its memory over time; the host's queues last. What belongs to
/// the iteration before or after is pale. Rows have the class "row", the
/// memory of device d the id "memory<d>", whose polyline of class "highest" is
/// the highest address in use. Under 2 MB for 8 devices, however many events.
/// `model`, in UTF-8, is named in the title if it is not empty.
std::string drawPlan(const Planned &planned, const Problem &problem,
                     const Machine &machine, const std::string &model = "");

} // namespace harmony::planner

#endif // COMPILER_PLANNER_PICTURE_H
