//===- DataSet.h - The samples of a run -------------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef RUNTIME_TRAIN_DATASET_H
#define RUNTIME_TRAIN_DATASET_H

#include "runtime/engine/Blob.h"
#include "runtime/train/Array.h"

#include <cstdint>
#include <string>
#include <vector>

namespace harmony::runtime {

/// One array for each input that a program reads, matched by name and checked
/// for dtype and shape. Conversions that keep every value are made: integers to
/// another width (values that do not fit are refused where they are read),
/// integers of at most 16 bits, booleans and half-precision numbers to f32, f32
/// to f64. Nothing else is converted.
class DataSet {
public:
  /// `program`: whose inputs are needed. `extra`: names of arrays wanted beside
  /// these (labels of a metric); they must be among the model's inputs. Throws
  /// Data naming all arrays that are missing or do not fit, with file, key,
  /// expected and found.
  DataSet(const std::vector<std::string> &sources, const Blob &blob,
          HmProgramKind program, const std::vector<std::string> &extra = {});

  /// Random values in the accepted ranges, `samples` of them.
  static DataSet synthetic(const Blob &blob, HmProgramKind program,
                           int64_t samples, uint64_t seed);

  int64_t samples() const { return sampleCount; }

  /// The array for input number `index` of the blob; null when it is not
  /// needed.
  const Array *array(size_t index) const {
    return arrays[index].data || arrays[index].owner ? &arrays[index] : nullptr;
  }

  /// Names in the files that are no inputs of the model.
  const std::vector<std::string> &ignored() const { return ignoredNames; }

  /// "'x' from u8 to f32" for every array that is converted.
  const std::vector<std::string> &conversions() const { return converted; }

private:
  DataSet() = default;
  /// Returns what does not fit; empty if all is well.
  std::string match(const Blob &blob, size_t index, Array array);

  std::vector<Array> arrays; // one for each input of the blob
  int64_t sampleCount = -1;
  std::string countedBy; // file and key that gave sampleCount
  std::vector<std::string> ignoredNames, converted;
};

/// What random numbers depend on beside sample, element and operator.
struct RandomKey {
  int64_t step = 0; ///< counted from 1; 0 where nothing is random
  uint64_t seed = 0;
};

/// Lays batches out as the program reads them.
class BatchFiller {
public:
  /// References stay valid as long as blob and data.
  BatchFiller(const Blob &blob, const DataSet &data, HmProgramKind program);

  /// Writes the samples `indices[0, batch)` to a batch space. Allocates nothing
  /// unless it throws Data: a value outside of its input's range, with file,
  /// key and sample.
  void fill(char *batchSpace, const int64_t *indices, RandomKey key = {}) const;

  /// The first number of a filled batch space that is not finite: file, key,
  /// sample, element and value. Empty if there is none.
  std::string findNonFinite(const char *batchSpace,
                            const int64_t *indices) const;

  int64_t batch() const { return batchSize; }

private:
  struct Part {
    const HmInput *input;
    const Array *array; // null: keys
    bool convert;       // the array's type is not the input's
  };

  void checkValues(const Part &part, const char *values, int64_t bytes,
                   int64_t sample) const;
  void convertSample(const Part &part, const char *from, char *to,
                     int64_t sample) const;

  int64_t batchSize;
  std::vector<Part> parts;
};

} // namespace harmony::runtime

#endif // RUNTIME_TRAIN_DATASET_H
