//===- harmonyc.cpp - The compiler driver ---------------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Driver/Driver.h"

int main(int argc, char **argv) { return harmony::runDriver(argc, argv); }
