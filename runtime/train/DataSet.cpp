//===- DataSet.cpp - The samples of a run ---------------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/train/DataSet.h"

#include "runtime/hal/Error.h"
#include "runtime/train/Shuffle.h"

#include <algorithm>
#include <cstring>
#include <map>

namespace harmony::runtime {

namespace {

std::string nameOf(const Array &array) {
  return array.file + ": '" + array.key + "'";
}

/// The shape that messages show: the sample axis as a word.
std::string expectedShape(const Blob &blob, const HmInput &input) {
  std::string text = std::string(typeName(input.type)) + " [";
  Span<int64_t> dims = blob.dims(input.dims, input.rank);
  for (size_t i = 0; i < dims.size(); ++i)
    text +=
        (i ? ", " : "") + (i == 0 && !input.perStep ? std::string("samples")
                                                    : std::to_string(dims[i]));
  return text + "]";
}

bool reads(const HmInput &input, HmProgramKind program) {
  return input.usedBy >> program & 1;
}

/// Whether an array is needed for it.
bool readsArray(const HmInput &input, HmProgramKind program) {
  return reads(input, program) && input.source == HM_INPUT_DATA;
}

std::string join(const std::vector<std::string> &names) {
  std::string text;
  for (const std::string &name : names)
    text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "nothing" : text;
}

void fillRandom(char *values, int64_t bytes, const HmInput &input,
                SplitMix &random) {
  int64_t width = typeBytes(input.type);
  for (int64_t at = 0; at < bytes; at += width) {
    auto put = [&](auto value) {
      std::memcpy(values + at, &value, sizeof(value));
    };
    int64_t integer =
        input.checked && input.high > input.low
            ? input.low +
                  static_cast<int64_t>(random.below(input.high - input.low))
            : 0;
    switch (input.type) {
    case HM_F32:
      put(static_cast<float>(random.symmetric()));
      break;
    case HM_F64:
      put(random.symmetric());
      break;
    case HM_I64:
      put(integer);
      break;
    case HM_I32:
      put(static_cast<int32_t>(integer));
      break;
    case HM_BOOL:
      put(static_cast<uint8_t>(random.next() & 1));
      break;
    default: // zeros
      break;
    }
  }
}

} // namespace

DataSet::DataSet(const std::vector<std::string> &sources, const Blob &blob,
                 HmProgramKind program, const std::vector<std::string> &extra) {
  std::vector<std::unique_ptr<ArraySource>> opened;
  std::map<std::string, const ArraySource *> places;
  std::vector<std::string> present;
  for (const std::string &source : sources) {
    opened.push_back(openSource(source));
    for (const std::string &name : opened.back()->names()) {
      auto [place, isNew] = places.emplace(name, opened.back().get());
      if (!isNew)
        throw Error(ExitCode::Data, "'" + name + "' is in " +
                                        place->second->file() + " and in " +
                                        opened.back()->file());
      present.push_back(name);
    }
  }

  arrays.resize(blob.inputs().size());
  for (size_t i = 0; i < blob.inputs().size(); ++i) {
    const HmInput &input = blob.inputs()[i];
    std::string name = blob.string(input.name);
    auto place = places.find(name);
    bool wanted = std::find(extra.begin(), extra.end(), name) != extra.end();
    if (!readsArray(input, program) && !wanted) {
      if (place != places.end())
        places.erase(place);
      continue;
    }
    if (place == places.end())
      throw Error(ExitCode::Data, "no array for the model's input '" + name +
                                      "', " + expectedShape(blob, input) +
                                      ", in " + join(sources) +
                                      "; found: " + join(present));
    match(blob, i, place->second->load(name));
    places.erase(place);
  }
  for (const std::string &name : present)
    if (places.count(name))
      ignoredNames.push_back(name);
  if (sampleCount < 0)
    sampleCount = 0;
}

void DataSet::match(const Blob &blob, size_t index, Array array) {
  const HmInput &input = blob.inputs()[index];
  bool typeFits = array.type == input.type ||
                  (array.type == HM_I32 && input.type == HM_I64);
  Span<int64_t> dims = blob.dims(input.dims, input.rank);
  bool shapeFits = array.shape.size() == dims.size();
  for (size_t d = input.perStep ? 0 : 1; shapeFits && d < dims.size(); ++d)
    shapeFits = array.shape[d] == dims[d];
  if (!typeFits || !shapeFits) {
    std::string hint;
    if (!typeFits && array.type == HM_F64 && input.type == HM_F32)
      hint = "; convert it with array.astype(numpy.float32)";
    else if (!typeFits)
      hint = "; only int32 is accepted for int64, nothing else is converted";
    throw Error(ExitCode::Data,
                nameOf(array) + " is " + describe(array.type, array.shape) +
                    ", expected " + expectedShape(blob, input) + hint);
  }
  if (!input.perStep) {
    if (sampleCount >= 0 && array.shape[0] != sampleCount)
      throw Error(ExitCode::Data, nameOf(array) + " has " +
                                      std::to_string(array.shape[0]) +
                                      " samples, " + countedBy + " has " +
                                      std::to_string(sampleCount));
    sampleCount = array.shape[0];
    countedBy = nameOf(array);
  }
  arrays[index] = std::move(array);
}

DataSet DataSet::synthetic(const Blob &blob, HmProgramKind program,
                           int64_t samples, uint64_t seed) {
  DataSet data;
  data.arrays.resize(blob.inputs().size());
  data.sampleCount = samples;
  for (size_t i = 0; i < blob.inputs().size(); ++i) {
    const HmInput &input = blob.inputs()[i];
    if (!readsArray(input, program))
      continue;
    Array &array = data.arrays[i];
    array.file = "synthetic data";
    array.key = blob.string(input.name);
    array.type = static_cast<HmType>(input.type);
    Span<int64_t> dims = blob.dims(input.dims, input.rank);
    array.shape.assign(dims.begin(), dims.end());
    if (!input.perStep)
      array.shape[0] = samples;
    array.bytes = input.sampleBytes * (input.perStep ? 1 : samples);
    std::shared_ptr<char> bytes(new char[array.bytes + 1](),
                                std::default_delete<char[]>());
    SplitMix random(SplitMix(seed).next() + i);
    fillRandom(bytes.get(), array.bytes, input, random);
    array.data = bytes.get();
    array.owner = bytes;
  }
  return data;
}

BatchFiller::BatchFiller(const Blob &blob, const DataSet &data,
                         HmProgramKind program)
    : batchSize(blob.header().programs[program].batch) {
  for (size_t i = 0; i < blob.inputs().size(); ++i) {
    const HmInput &input = blob.inputs()[i];
    if (reads(input, program))
      parts.push_back({&input, data.array(i),
                       readsArray(input, program) &&
                           data.array(i)->type == HM_I32 &&
                           input.type == HM_I64});
  }
}

void BatchFiller::fill(char *batchSpace, const int64_t *indices,
                       RandomKey key) const {
  for (const Part &part : parts) {
    const HmInput &input = *part.input;
    if (input.source == HM_INPUT_KEYS) {
      for (int64_t i = 0; i < batchSize; ++i) {
        const int64_t row[] = {i, key.step, static_cast<int64_t>(key.seed)};
        std::memcpy(batchSpace + input.offset + i * input.sampleBytes, row,
                    sizeof(row));
      }
      continue;
    }
    int64_t bytes = input.sampleBytes;
    int64_t fileBytes = part.widen ? bytes / 2 : bytes;
    for (int64_t i = 0; i < (input.perStep ? 1 : batchSize); ++i) {
      int64_t sample = input.perStep ? 0 : indices[i];
      const char *from = part.array->data + sample * fileBytes;
      char *to = batchSpace + input.offset + i * bytes;
      if (part.widen) {
        for (int64_t at = 0; at < fileBytes; at += sizeof(int32_t)) {
          int32_t narrow;
          std::memcpy(&narrow, from + at, sizeof(narrow));
          int64_t wide = narrow;
          std::memcpy(to + 2 * at, &wide, sizeof(wide));
        }
      } else {
        std::memcpy(to, from, bytes);
      }
      if (input.checked)
        checkValues(part, to, bytes, sample);
    }
  }
}

void BatchFiller::checkValues(const Part &part, const char *values,
                              int64_t bytes, int64_t sample) const {
  const HmInput &input = *part.input;
  int64_t width = typeBytes(input.type);
  for (int64_t at = 0; at < bytes; at += width) {
    int64_t value = 0;
    if (input.type == HM_I64) {
      std::memcpy(&value, values + at, sizeof(value));
    } else {
      int32_t narrow;
      std::memcpy(&narrow, values + at, sizeof(narrow));
      value = narrow;
    }
    if ((value >= input.low && value < input.high) ||
        (input.hasIgnored && value == input.ignored))
      continue;
    std::string what =
        nameOf(*part.array) + " sample " + std::to_string(sample) +
        " element " + std::to_string(at / width) + " is " +
        std::to_string(value) + ", accepted range is [" +
        std::to_string(input.low) + ", " + std::to_string(input.high) + ")";
    if (input.hasIgnored)
      what += " and " + std::to_string(input.ignored);
    throw Error(ExitCode::Data, what);
  }
}

} // namespace harmony::runtime
