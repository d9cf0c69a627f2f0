//===- Evaluator.cpp - Loss and metric on held-back samples ---------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/train/Evaluator.h"

#include "runtime/train/Safetensors.h"

#include <algorithm>
#include <cstring>

namespace harmony::runtime {

static std::vector<std::string> labelNames(const Options &options) {
  return options.metricLabels.empty()
             ? std::vector<std::string>()
             : std::vector<std::string>{options.metricLabels};
}

Evaluator::Evaluator(const Blob &blob, Session &session, const Options &options)
    : blob(blob), session(session), options(options),
      data(options.validation, blob, HM_PROGRAM_EVALUATE, labelNames(options)),
      filler(blob, data, HM_PROGRAM_EVALUATE),
      batchSpace(blob.header().batchBytes, "batch") {
  if (data.samples() < 1)
    throw Error(ExitCode::Data, "--val has no samples");
  evaluated = data.samples();
  if (blob.header().programs[HM_PROGRAM_EVALUATE].combines) {
    evaluated -= evaluated % filler.batch();
    if (evaluated == 0)
      throw Error(ExitCode::Data,
                  "--val has " + std::to_string(data.samples()) +
                      " samples; the model combines samples and is compiled "
                      "for batches of " +
                      std::to_string(filler.batch()));
  }
  if (!options.outputs.empty() && blob.outputs().empty())
    throw Error(ExitCode::Usage,
                "--outputs: this executable has no outputs beside the loss");
  if (!options.metricOutput.empty())
    prepareAccuracy();
}

void Evaluator::prepareAccuracy() {
  std::string names;
  for (const HmOutput &output : blob.outputs()) {
    names += std::string(names.empty() ? "" : ", ") + blob.string(output.name);
    if (blob.string(output.name) == options.metricOutput)
      accuracy.output = &output;
  }
  for (size_t i = 0; i < blob.inputs().size(); ++i)
    if (blob.string(blob.inputs()[i].name) == options.metricLabels) {
      accuracy.input = &blob.inputs()[i];
      accuracy.labels = data.array(i);
    }
  auto refuse = [&](const std::string &what) {
    throw Error(ExitCode::Usage, "--metric accuracy:" + options.metricOutput +
                                     "," + options.metricLabels + ": " + what);
  };
  if (!accuracy.output)
    refuse("no output '" + options.metricOutput +
           "'; outputs: " + (names.empty() ? "none" : names));
  if (!accuracy.input || !accuracy.labels)
    refuse("no input '" + options.metricLabels + "'");
  Span<int64_t> out = blob.dims(accuracy.output->dims, accuracy.output->rank);
  Span<int64_t> in = blob.dims(accuracy.input->dims, accuracy.input->rank);
  bool isInteger =
      accuracy.input->type == HM_I64 || accuracy.input->type == HM_I32;
  if (accuracy.output->type != HM_F32 || accuracy.output->perStep ||
      !isInteger || accuracy.input->perStep || out.size() != in.size() + 1)
    refuse("the output must be f32 with one axis more than the integer labels");
  // Classes on the last axis, as language models have them, or on axis 1, as
  // ONNX does.
  if (std::equal(in.begin() + 1, in.end(), out.begin() + 1)) {
    accuracy.classes = out[out.size() - 1];
  } else if (std::equal(in.begin() + 1, in.end(), out.begin() + 2)) {
    accuracy.classes = out[1];
    for (size_t i = 2; i < out.size(); ++i)
      accuracy.inner *= out[i];
  } else {
    refuse("the shapes of output and labels do not match");
  }
  if (accuracy.classes < 1)
    refuse("the output has no classes");
}

void Evaluator::countCorrect(EvaluationRecord &record, int64_t firstSample,
                             int64_t rows) const {
  const int64_t classes = accuracy.classes, inner = accuracy.inner;
  const int64_t values =
      accuracy.output->sampleBytes / static_cast<int64_t>(sizeof(float));
  const int64_t labels = values / classes;
  const int64_t width = typeBytes(accuracy.labels->type);
  std::vector<char> sample(accuracy.output->sampleBytes);
  for (int64_t row = 0; row < rows; ++row) {
    session.readHost(accuracy.output->home + row * accuracy.output->sampleBytes,
                     sample.data(), accuracy.output->sampleBytes);
    const char *scores = sample.data();
    for (int64_t i = 0; i < labels; ++i) {
      int64_t at = (firstSample + row) * labels + i;
      int64_t label = readInteger(accuracy.labels->type,
                                  accuracy.labels->data + at * width);
      if (accuracy.input->hasIgnored && label == accuracy.input->ignored)
        continue;
      int64_t best = 0;
      float highest = 0;
      for (int64_t c = 0; c < classes; ++c) {
        float score;
        int64_t index = (i / inner * classes + c) * inner + i % inner;
        std::memcpy(&score, scores + index * sizeof(float), sizeof(score));
        if (c == 0 || score > highest) {
          highest = score;
          best = c;
        }
      }
      ++record.counted;
      record.correct += best == label;
    }
  }
}

EvaluationRecord Evaluator::run() {
  const int64_t batch = filler.batch(), samples = evaluated;
  const int64_t batches = (samples + batch - 1) / batch;
  Span<HmLossTerm> terms = blob.lossTerms();
  std::vector<double> numerators(terms.size()), denominators(terms.size());
  std::vector<std::vector<char>> kept(
      options.outputs.empty() ? 0 : blob.outputs().size());
  std::vector<int64_t> indices(batch);
  EvaluationRecord record;
  record.samples = samples;
  record.hasAccuracy = accuracy.output != nullptr;
  session.setBatch(batchSpace.data());
  for (int64_t b = 0; b < batches; ++b) {
    int64_t rows = std::min(batch, samples - b * batch);
    for (int64_t i = 0; i < batch; ++i)
      indices[i] = i < rows ? b * batch + i : 0;
    filler.fill(batchSpace.data(), indices.data());
    session.run(HM_PROGRAM_EVALUATE);
    for (size_t t = 0; t < terms.size(); ++t) {
      if (terms[t].program != HM_PROGRAM_EVALUATE || rows < batch)
        continue;
      record.hasLoss = true;
      numerators[t] += session.hostFloat(terms[t].numerator);
      denominators[t] += session.hostFloat(terms[t].denominator);
    }
    record.lossSamples += rows == batch ? batch : 0;
    if (record.hasAccuracy)
      countCorrect(record, b * batch, rows);
    for (size_t i = 0; i < kept.size(); ++i) {
      const HmOutput &output = blob.outputs()[i];
      int64_t bytes = output.sampleBytes * (output.perStep ? 1 : rows);
      kept[i].resize(kept[i].size() + bytes);
      session.readHost(output.home, kept[i].data() + kept[i].size() - bytes,
                       bytes);
    }
  }
  for (size_t t = 0; t < terms.size(); ++t)
    if (terms[t].program == HM_PROGRAM_EVALUATE && record.hasLoss)
      record.loss +=
          static_cast<double>(terms[t].scale) * numerators[t] / denominators[t];
  if (!options.outputs.empty())
    writeOutputs(kept, batches);
  return record;
}

void Evaluator::writeOutputs(const std::vector<std::vector<char>> &bytes,
                             int64_t batches) const {
  std::vector<Array> arrays;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const HmOutput &output = blob.outputs()[i];
    Span<int64_t> dims = blob.dims(output.dims, output.rank);
    Array array;
    array.key = blob.string(output.name);
    array.type = static_cast<HmType>(output.type);
    array.shape.assign(dims.begin(), dims.end());
    if (output.perStep)
      array.shape.insert(array.shape.begin(), batches);
    else
      array.shape[0] = evaluated;
    array.data = bytes[i].data();
    array.bytes = static_cast<int64_t>(bytes[i].size());
    arrays.push_back(array);
  }
  writeSafetensors(options.outputs, arrays, {});
}

} // namespace harmony::runtime
