//===- Mutator.h - One series of changes of a model -------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TEST_FUZZ_MUTATOR_H
#define TEST_FUZZ_MUTATOR_H

#include "onnx/onnx_pb.h"
#include "test/fuzz/Random.h"

#include <string>

namespace harmony::fuzz {

template <typename List>
void eraseAt(List &list, size_t index) {
  list.DeleteSubrange(static_cast<int>(index), 1);
}

/// Each function makes one change that its name and the random numbers tell.
class Mutator {
public:
  Mutator(onnx::ModelProto &model, uint64_t seed)
      : model(model), random(seed) {}

  void mutate();
  void join(const onnx::ModelProto &other);

private:
  template <typename T, size_t n>
  const T &pick(const T (&list)[n]) {
    return list[random.below(n)];
  }
  std::string pickName(const onnx::GraphProto &graph);
  int pickElementType();

  void changeNode(onnx::GraphProto &graph);
  void changeEdges(onnx::GraphProto &graph, onnx::NodeProto &node);
  void changeAttribute(onnx::NodeProto &node);
  void addAttribute(onnx::NodeProto &node);
  void fillAttribute(onnx::AttributeProto &attribute, int kind);
  void changeType(onnx::TypeProto &type);
  void changeValues(onnx::GraphProto &graph);
  void changeTensors(onnx::GraphProto &graph);
  void changeTensor(onnx::TensorProto &tensor);
  void changeNumbers(onnx::TensorProto &tensor);
  void makeExternal(onnx::TensorProto &tensor);
  void addTensor(onnx::GraphProto &graph);
  void changeModel();
  void makeFunction(onnx::GraphProto &graph);
  void changeTraining();
  onnx::GraphProto &pickGraph();

  onnx::ModelProto &model;
  Random random;
};

} // namespace harmony::fuzz

#endif // TEST_FUZZ_MUTATOR_H
