//===- Model.cpp - Names of tasks -----------------------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Tasks/Model.h"

using namespace harmony;

std::string harmony::forwardTaskName(const std::string &function,
                                     int64_t microbatch) {
  return function + ".u" + std::to_string(microbatch);
}

std::string harmony::recomputeTaskName(const std::string &function,
                                       int64_t microbatch, int level) {
  return function + ".again" + (level > 0 ? std::to_string(level) : "") + ".u" +
         std::to_string(microbatch);
}

std::string harmony::backwardTaskName(const std::string &function,
                                      int64_t microbatch,
                                      const std::vector<int> &accumulate) {
  std::string name = function + ".bwd.u" + std::to_string(microbatch);
  for (int argument : accumulate)
    name += ".add" + std::to_string(argument);
  return name;
}

std::string harmony::updateTaskName(const std::string &function, int uses) {
  std::string name = "update." + function;
  return uses == 1 ? name : name + ".uses" + std::to_string(uses);
}

std::string harmony::contributionTaskName(const std::string &function,
                                          int uses) {
  std::string name = "contribution." + function;
  return uses == 1 ? name : name + ".uses" + std::to_string(uses);
}
