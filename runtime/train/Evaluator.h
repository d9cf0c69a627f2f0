//===- Evaluator.h - Loss and metric on held-back samples -------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef RUNTIME_TRAIN_EVALUATOR_H
#define RUNTIME_TRAIN_EVALUATOR_H

#include "runtime/train/DataSet.h"
#include "runtime/train/Log.h"
#include "runtime/train/Session.h"

#include <memory>
#include <vector>

namespace harmony::runtime {

/// Runs the evaluation program over --val, in order. The last batch is filled
/// up with copies of the first sample; metric and outputs leave these out, and
/// the loss, in which they cannot be told apart, is that of whole batches.
/// Where the model combines samples (HmProgram::combines) only these are
/// evaluated.
class Evaluator {
public:
  /// Opens the data and checks that metric and outputs can be made. Throws Data
  /// or Usage.
  Evaluator(const Blob &blob, Session &session, const Options &options);

  /// The host store must be current. Leaves the devices without the training
  /// state. Writes --outputs where asked for. loss = sum over terms of scale *
  /// (numerators of all batches) / (denominators of all batches).
  EvaluationRecord run();

  /// Samples at the end of --val that are not evaluated, since they are no
  /// whole batch of a model that combines samples.
  int64_t leftOut() const { return data.samples() - evaluated; }

private:
  /// Where the classes of the output and the labels lie.
  struct Accuracy {
    const HmOutput *output = nullptr;
    const HmInput *input = nullptr;
    const Array *labels = nullptr;
    int64_t classes = 0;
    int64_t inner = 1; // positions after the class axis
  };

  void prepareAccuracy();
  void countCorrect(EvaluationRecord &record, int64_t firstSample,
                    int64_t rows) const;
  void writeOutputs(const std::vector<std::vector<char>> &bytes,
                    int64_t batches) const;

  const Blob &blob;
  Session &session;
  const Options &options;
  DataSet data;
  int64_t evaluated = 0; // samples
  BatchFiller filler;
  Mapping batchSpace;
  Accuracy accuracy;
};

} // namespace harmony::runtime

#endif // RUNTIME_TRAIN_EVALUATOR_H
