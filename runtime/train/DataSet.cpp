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
#include <cmath>
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
  constexpr size_t limit = 20;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), limit); ++i)
    text += (i ? ", " : "") + names[i];
  if (names.size() > limit)
    text += " and " + std::to_string(names.size() - limit) + " more";
  return text.empty() ? "nothing" : text;
}

bool isInteger(unsigned type) {
  return type == HM_I64 || type == HM_I32 || type == HM_I8 || type == HM_U8;
}

/// Whether every value of `from` is one of `to`, or is refused where it is not.
bool convertsTo(unsigned from, unsigned to) {
  switch (to) {
  case HM_F32:
    return from == HM_F16 || from == HM_BF16 || from == HM_I8 ||
           from == HM_U8 || from == HM_BOOL;
  case HM_F64:
    return from == HM_F32 || from == HM_F16 || from == HM_BF16 ||
           from == HM_I32 || from == HM_I8 || from == HM_U8 || from == HM_BOOL;
  case HM_I64:
  case HM_I32:
    return isInteger(from) || from == HM_BOOL;
  default:
    return false;
  }
}

float halfToFloat(uint16_t bits) {
  int exponent = bits >> 10 & 31, fraction = bits & 1023;
  float magnitude =
      exponent == 31 ? (fraction ? NAN : INFINITY)
      : exponent == 0
          ? std::ldexp(static_cast<float>(fraction), -24)
          : std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
  return bits >> 15 ? -magnitude : magnitude;
}

template <typename T>
T readAs(const char *from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

double readNumber(unsigned type, const char *from) {
  switch (type) {
  case HM_F64:
    return readAs<double>(from);
  case HM_F32:
    return static_cast<double>(readAs<float>(from));
  case HM_F16:
    return static_cast<double>(halfToFloat(readAs<uint16_t>(from)));
  case HM_BF16: {
    uint32_t bits = static_cast<uint32_t>(readAs<uint16_t>(from)) << 16;
    float value;
    std::memcpy(&value, &bits, sizeof(value));
    return static_cast<double>(value);
  }
  default:
    return static_cast<double>(readInteger(type, from));
  }
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
  std::vector<std::string> missing;
  std::string problems;
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
    if (place == places.end()) {
      missing.push_back("'" + name + "' " + expectedShape(blob, input));
      continue;
    }
    std::string problem = match(blob, i, place->second->load(name));
    if (!problem.empty())
      problems += (problems.empty() ? "" : "; ") + problem;
    places.erase(place);
  }
  if (!missing.empty()) {
    bool unnamed =
        std::find(present.begin(), present.end(), "arr_0") != present.end();
    std::string text = "no array for the model's input" +
                       std::string(missing.size() == 1 ? " " : "s ") +
                       join(missing) + " in " + join(sources) +
                       "; found: " + join(present);
    if (unnamed)
      text += "; name arrays by numpy.savez(FILE, NAME=array)";
    problems = text + (problems.empty() ? "" : "; ") + problems;
  }
  if (!problems.empty())
    throw Error(ExitCode::Data, problems);
  for (const std::string &name : present)
    if (places.count(name))
      ignoredNames.push_back(name);
  if (sampleCount < 0)
    sampleCount = 0;
}

std::string DataSet::match(const Blob &blob, size_t index, Array array) {
  const HmInput &input = blob.inputs()[index];
  bool typeFits =
      array.type == input.type || convertsTo(array.type, input.type);
  Span<int64_t> dims = blob.dims(input.dims, input.rank);
  bool shapeFits = array.shape.size() == dims.size();
  for (size_t d = input.perStep ? 0 : 1; shapeFits && d < dims.size(); ++d)
    shapeFits = array.shape[d] == dims[d];
  if (!typeFits || !shapeFits) {
    std::string hint;
    static const char *const numpyNames[] = {"float32", "float64", "int64",
                                             "int32",   "int8",    "uint8",
                                             "bool",    "float16"};
    if (!typeFits && input.type <= HM_F16)
      hint = std::string("; it would lose values: convert it with "
                         "array.astype(numpy.") +
             numpyNames[input.type] + ") if that is meant";
    return nameOf(array) + " is " + describe(array.type, array.shape) +
           ", expected " + expectedShape(blob, input) + hint;
  }
  if (!input.perStep) {
    if (sampleCount >= 0 && array.shape[0] != sampleCount)
      return nameOf(array) + " has " + std::to_string(array.shape[0]) +
             " samples, " + countedBy + " has " + std::to_string(sampleCount);
    sampleCount = array.shape[0];
    countedBy = nameOf(array);
  }
  if (array.type != input.type)
    converted.push_back("'" + array.key + "' from " + typeName(array.type) +
                        " to " + typeName(input.type));
  arrays[index] = std::move(array);
  return "";
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
      parts.push_back(
          {&input, data.array(i),
           readsArray(input, program) && data.array(i)->type != input.type});
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
    int64_t fileBytes =
        bytes / typeBytes(input.type) * typeBytes(part.array->type);
    for (int64_t i = 0; i < (input.perStep ? 1 : batchSize); ++i) {
      int64_t sample = input.perStep ? 0 : indices[i];
      const char *from = part.array->data + sample * fileBytes;
      char *to = batchSpace + input.offset + i * bytes;
      if (part.convert)
        convertSample(part, from, to, sample);
      else
        std::memcpy(to, from, bytes);
      if (input.checked)
        checkValues(part, to, bytes, sample);
    }
  }
}

void BatchFiller::convertSample(const Part &part, const char *from, char *to,
                                int64_t sample) const {
  unsigned type = part.array->type, wanted = part.input->type;
  int64_t width = typeBytes(type), wantedWidth = typeBytes(wanted);
  int64_t count = part.input->sampleBytes / wantedWidth;
  for (int64_t i = 0; i < count; ++i, from += width, to += wantedWidth) {
    auto put = [&](auto value) { std::memcpy(to, &value, sizeof(value)); };
    if (wanted == HM_F32) {
      put(static_cast<float>(readNumber(type, from)));
    } else if (wanted == HM_F64) {
      put(readNumber(type, from));
    } else {
      int64_t value = readInteger(type, from);
      if (wanted == HM_I64) {
        put(value);
        continue;
      }
      if (value != static_cast<int32_t>(value))
        throw Error(ExitCode::Data,
                    nameOf(*part.array) + " sample " + std::to_string(sample) +
                        " element " + std::to_string(i) + " is " +
                        std::to_string(value) +
                        ", which the model's int32 does not hold");
      put(static_cast<int32_t>(value));
    }
  }
}

std::string BatchFiller::findNonFinite(const char *batchSpace,
                                       const int64_t *indices) const {
  for (const Part &part : parts) {
    const HmInput &input = *part.input;
    if (input.type != HM_F32 && input.type != HM_F64)
      continue;
    int64_t width = typeBytes(input.type);
    for (int64_t i = 0; i < (input.perStep ? 1 : batchSize); ++i)
      for (int64_t at = 0; at < input.sampleBytes; at += width) {
        double value = readNumber(input.type, batchSpace + input.offset +
                                                  i * input.sampleBytes + at);
        if (std::isfinite(value))
          continue;
        return nameOf(*part.array) + " sample " +
               std::to_string(input.perStep ? 0 : indices[i]) + " element " +
               std::to_string(at / width) + " is " +
               (std::isnan(value) ? "NaN"
                : value > 0       ? "inf"
                                  : "-inf");
      }
  }
  return "";
}

void BatchFiller::checkValues(const Part &part, const char *values,
                              int64_t bytes, int64_t sample) const {
  const HmInput &input = *part.input;
  int64_t width = typeBytes(input.type);
  for (int64_t at = 0; at < bytes; at += width) {
    int64_t value = readInteger(input.type, values + at);
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
