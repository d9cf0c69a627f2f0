//===- LibraryMessages.h - The ONNX library's messages, reworded  -*- C++
//-*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_IMPORT_LIBRARYMESSAGES_H
#define COMPILER_IMPORT_LIBRARYMESSAGES_H

#include "onnx/onnx_pb.h"

#include <map>
#include <string>
#include <vector>

namespace harmony {

/// Puts the ONNX library's message on one line per problem. The checker tells
/// the node in lines of its own; shape inference lists one line per node and
/// adds the nodes that only follow another's failure.
std::vector<std::string> splitMessage(const std::string &text);

/// The types that `graph` states by name.
std::map<std::string, ::onnx::TypeProto>
collectTypes(const ::onnx::GraphProto &graph);

/// Adds to each of `lines`, which splitMessage() gave, what types the inputs
/// of the node have that it names.
void addInputTypes(const ::onnx::GraphProto &graph,
                   std::vector<std::string> &lines);

} // namespace harmony

#endif // COMPILER_IMPORT_LIBRARYMESSAGES_H
