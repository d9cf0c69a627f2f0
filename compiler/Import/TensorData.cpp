//===- TensorData.cpp - The data of ONNX tensors --------------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Import/TensorData.h"

using ::onnx::TensorProto;

namespace harmony {

std::string describeUnsupportedType(int type) {
  return "element type " +
         (TensorProto::DataType_IsValid(type)
              ? TensorProto::DataType_Name(
                    static_cast<TensorProto::DataType>(type))
              : std::to_string(type)) +
         " is not supported; accepted are booleans, integers, floating point "
         "and complex numbers of whole bytes";
}

std::string readExternalReference(const TensorProto &tensor, std::string &file,
                                  uint64_t &offset, uint64_t &length) {
  offset = 0;
  for (const auto &entry : tensor.external_data()) {
    if (entry.key() == "location") {
      file = entry.value();
      continue;
    }
    if (entry.key() != "offset" && entry.key() != "length")
      continue;
    uint64_t value = 0;
    bool valid = !entry.value().empty();
    for (char c : entry.value()) {
      uint64_t next = value * 10 + static_cast<uint64_t>(c - '0');
      valid &= c >= '0' && c <= '9' && value <= (UINT64_MAX - 9) / 10;
      value = next;
    }
    if (!valid)
      return "external data with " + entry.key() + " \"" + entry.value() +
             "\"; accepted is a number of bytes below 2^64";
    (entry.key() == "offset" ? offset : length) = value;
  }
  return file.empty() ? "external data without a location" : "";
}

std::string getTensorSize(const TensorProto &tensor, uint64_t &bytes) {
  switch (tensor.data_type()) {
  case TensorProto::BOOL:
  case TensorProto::INT8:
  case TensorProto::UINT8:
  case TensorProto::FLOAT8E4M3FN:
  case TensorProto::FLOAT8E4M3FNUZ:
  case TensorProto::FLOAT8E5M2:
  case TensorProto::FLOAT8E5M2FNUZ:
  case TensorProto::FLOAT8E8M0:
    bytes = 1;
    break;
  case TensorProto::INT16:
  case TensorProto::UINT16:
  case TensorProto::FLOAT16:
  case TensorProto::BFLOAT16:
    bytes = 2;
    break;
  case TensorProto::FLOAT:
  case TensorProto::INT32:
  case TensorProto::UINT32:
    bytes = 4;
    break;
  case TensorProto::DOUBLE:
  case TensorProto::INT64:
  case TensorProto::UINT64:
  case TensorProto::COMPLEX64:
    bytes = 8;
    break;
  case TensorProto::COMPLEX128:
    bytes = 16;
    break;
  default:
    return describeUnsupportedType(tensor.data_type());
  }
  for (int64_t dim : tensor.dims()) {
    if (dim < 0)
      return "dimension " + std::to_string(dim) + " is negative";
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(dim), &bytes))
      return "its size overflows 64 bits";
  }
  return "";
}

std::vector<char> collectData(const TensorProto &tensor) {
  if (tensor.has_raw_data())
    return std::vector<char>(tensor.raw_data().begin(),
                             tensor.raw_data().end());
  std::vector<char> bytes;
  auto append = [&](const auto &values, size_t size) {
    for (const auto &value : values) {
      const char *data = reinterpret_cast<const char *>(&value);
      bytes.insert(bytes.end(), data, data + size);
    }
  };
  switch (tensor.data_type()) {
  case TensorProto::FLOAT:
  case TensorProto::COMPLEX64:
    append(tensor.float_data(), 4);
    break;
  case TensorProto::DOUBLE:
  case TensorProto::COMPLEX128:
    append(tensor.double_data(), 8);
    break;
  case TensorProto::INT64:
    append(tensor.int64_data(), 8);
    break;
  case TensorProto::UINT32:
    append(tensor.uint64_data(), 4);
    break;
  case TensorProto::UINT64:
    append(tensor.uint64_data(), 8);
    break;
  case TensorProto::INT32:
    append(tensor.int32_data(), 4);
    break;
  case TensorProto::INT16:
  case TensorProto::UINT16:
  case TensorProto::FLOAT16:
  case TensorProto::BFLOAT16:
    append(tensor.int32_data(), 2); // the low bytes, little-endian
    break;
  default:
    append(tensor.int32_data(), 1);
    break;
  }
  return bytes;
}

} // namespace harmony
