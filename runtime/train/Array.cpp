//===- Array.cpp - Arrays and the files that hold them --------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/train/Array.h"

#include "runtime/engine/Blob.h"
#include "runtime/hal/Error.h"
#include "runtime/train/FileMapping.h"
#include "runtime/train/Safetensors.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <new>
#include <set>
#include <zip.h>

namespace harmony::runtime {

static std::string describeShape(const std::vector<int64_t> &shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

std::string describe(unsigned type, const std::vector<int64_t> &shape) {
  return std::string(typeName(type)) + " " + describeShape(shape);
}

int64_t arrayBytes(unsigned type, const std::vector<int64_t> &shape) {
  int64_t bytes = typeBytes(type);
  for (int64_t extent : shape)
    if (extent < 0 || __builtin_mul_overflow(bytes, extent, &bytes))
      return -1;
  return bytes;
}

int64_t readInteger(unsigned type, const char *from) {
  auto read = [&](auto value) {
    std::memcpy(&value, from, sizeof(value));
    return static_cast<int64_t>(value);
  };
  switch (type) {
  case HM_I64:
    return read(int64_t());
  case HM_I32:
    return read(int32_t());
  case HM_I8:
    return read(int8_t());
  default:
    return read(uint8_t());
  }
}

namespace {

bool endsWith(const std::string &text, const char *suffix) {
  size_t n = strlen(suffix);
  return text.size() >= n && text.compare(text.size() - n, n, suffix) == 0;
}

/// The header of a .npy file is a Python dictionary of three known keys.
class NpyHeader {
public:
  NpyHeader(const std::string &where, const char *begin, const char *end)
      : where(where), p(begin), end(end) {
    parse();
  }

  std::string descr;
  bool fortran = false;
  std::vector<int64_t> shape;

private:
  [[noreturn]] void fail(const std::string &what) const {
    throw Error(ExitCode::Data, where + "bad .npy header: " + what);
  }

  void skipSpace() {
    while (p < end && strchr(" \t\n", *p))
      ++p;
  }

  bool accept(char c) {
    skipSpace();
    if (p == end || *p != c)
      return false;
    ++p;
    return true;
  }

  void expect(char c) {
    if (!accept(c))
      fail(std::string("'") + c + "' expected");
  }

  bool acceptWord(const char *word) {
    skipSpace();
    size_t n = strlen(word);
    if (static_cast<size_t>(end - p) < n || strncmp(p, word, n) != 0)
      return false;
    p += n;
    return true;
  }

  std::string parseString() {
    skipSpace();
    if (p == end || (*p != '\'' && *p != '"'))
      fail("string expected (arrays of structures are not read)");
    char quote = *p++;
    const char *begin = p;
    while (p < end && *p != quote)
      ++p;
    if (p == end)
      fail("unterminated string");
    return std::string(begin, p++);
  }

  int64_t parseInteger() {
    skipSpace();
    int64_t value = 0;
    const char *begin = p;
    for (; p < end && *p >= '0' && *p <= '9'; ++p)
      if (__builtin_mul_overflow(value, int64_t(10), &value) ||
          __builtin_add_overflow(value, int64_t(*p - '0'), &value))
        fail("extent out of range");
    if (p == begin)
      fail("integer expected");
    return value;
  }

  void parse() {
    bool haveDescr = false, haveOrder = false, haveShape = false;
    expect('{');
    while (!accept('}')) {
      std::string key = parseString();
      expect(':');
      if (key == "descr" && !haveDescr) {
        descr = parseString();
        haveDescr = true;
      } else if (key == "fortran_order" && !haveOrder) {
        fortran = acceptWord("True");
        if (!fortran && !acceptWord("False"))
          fail("fortran_order is neither True nor False");
        haveOrder = true;
      } else if (key == "shape" && !haveShape) {
        expect('(');
        while (!accept(')')) {
          shape.push_back(parseInteger());
          if (shape.size() > 32)
            fail("more than 32 dimensions");
          if (!accept(',') && (skipSpace(), p == end || *p != ')'))
            fail("',' or ')' expected in the shape");
        }
        haveShape = true;
      } else {
        fail("unexpected or repeated key '" + key + "'");
      }
      if (!accept(',') && (skipSpace(), p == end || *p != '}'))
        fail("',' or '}' expected");
    }
    skipSpace();
    if (p != end)
      fail("text after the dictionary");
    if (!haveDescr || !haveOrder || !haveShape)
      fail("descr, fortran_order or shape is missing");
  }

  const std::string where;
  const char *p;
  const char *const end;
};

/// How the elements of a .npy file become those of an Array.
struct NpyElement {
  HmType type;  ///< that the array gets
  int bytes;    ///< of one element in the file
  bool swapped; ///< big-endian
  char kind;    ///< numpy's letter: f, i, u or b
  /// Whether its bytes are those of the array's element, whatever they hold.
  bool isDirect() const {
    return !swapped && bytes == typeBytes(type) && (kind != 'u' || bytes < 8);
  }
};

NpyElement npyElement(const std::string &where, const std::string &descr) {
  static constexpr struct {
    const char *descr;
    HmType type;
  } table[] = {{"f4", HM_F32}, {"f8", HM_F64}, {"f2", HM_F16}, {"i8", HM_I64},
               {"i4", HM_I32}, {"i2", HM_I32}, {"i1", HM_I8},  {"u8", HM_I64},
               {"u4", HM_I64}, {"u2", HM_I32}, {"u1", HM_U8},  {"b1", HM_BOOL}};
  bool hasOrder = !descr.empty() && strchr("<>|=", descr[0]);
  std::string kind = hasOrder ? descr.substr(1) : descr;
  for (auto &row : table)
    if (hasOrder && kind == row.descr)
      return {row.type, kind[1] - '0', descr[0] == '>', kind[0]};
  std::string what = where + "dtype '" + descr + "' is not read; ";
  switch (kind.empty() ? ' ' : kind[0]) {
  case 'O':
    what += "these are Python objects (rows of unequal length make them): "
            "save numpy.stack of arrays of one shape";
    break;
  case 'U':
  case 'S':
    what += "these are strings: turn them into numbers first";
    break;
  default:
    what += "accepted are float32, float64, float16, signed and unsigned "
            "integers, bool";
  }
  throw Error(ExitCode::Data, what);
}

/// One element of a .npy file as an integer of 64 bits. `index`: for messages.
int64_t readNpyInteger(const std::string &where, const NpyElement &element,
                       const char *from, int64_t index) {
  uint64_t value = 0;
  for (int i = 0; i < element.bytes; ++i)
    value |= static_cast<uint64_t>(static_cast<unsigned char>(
                 from[element.swapped ? element.bytes - 1 - i : i]))
             << 8 * i;
  int unused = 64 - 8 * element.bytes;
  if (element.kind == 'i')
    return static_cast<int64_t>(value << unused) >> unused;
  if (value > static_cast<uint64_t>(INT64_MAX))
    throw Error(ExitCode::Data, where + "element " + std::to_string(index) +
                                    " is " + std::to_string(value) +
                                    ", which int64 does not hold");
  return static_cast<int64_t>(value);
}

/// Copies a .npy array that is big-endian, of a width that Array does not have,
/// or in Fortran order.
void convertNpy(const std::string &where, const NpyElement &element,
                bool fortran, const char *from, Array &array) {
  std::shared_ptr<char> copy(new (std::nothrow) char[array.bytes + 1],
                             std::default_delete<char[]>());
  if (!copy)
    throw Error(ExitCode::NoDevice, where + std::to_string(array.bytes) +
                                        " bytes do not fit in memory");
  int64_t width = typeBytes(array.type), count = array.bytes / width;
  size_t rank = count ? array.shape.size() : 0;
  // Where the element at each place of the result lies in the file, counted in
  // elements: advanced like an odometer.
  std::vector<int64_t> strides(rank, 1), at(rank, 0);
  for (size_t i = 1; i < rank; ++i) {
    if (fortran)
      strides[i] = strides[i - 1] * array.shape[i - 1];
    else
      strides[rank - 1 - i] = strides[rank - i] * array.shape[rank - i];
  }
  int64_t source = 0;
  for (int64_t index = 0; index < count; ++index) {
    const char *place = from + source * element.bytes;
    char *to = copy.get() + index * width;
    if (element.isDirect()) {
      std::memcpy(to, place, width);
    } else if (element.kind == 'i' || element.kind == 'u') {
      // Little-endian: the low bytes come first.
      int64_t value = readNpyInteger(where, element, place, index);
      std::memcpy(to, &value, width);
    } else {
      std::reverse_copy(place, place + width, to);
    }
    for (size_t axis = rank; axis-- > 0;) {
      source += strides[axis];
      if (++at[axis] < array.shape[axis])
        break;
      source -= strides[axis] * at[axis];
      at[axis] = 0;
    }
  }
  array.data = copy.get();
  array.owner = copy;
}

class NpySource final : public ArraySource {
public:
  NpySource(std::string name, const std::string &path)
      : name(std::move(name)), path(path),
        mapping(std::make_shared<FileMapping>(path, ExitCode::Data)) {}

  const std::string &file() const override { return path; }
  std::vector<std::string> names() const override { return {name}; }
  Array load(const std::string &) const override {
    return parseNpy(path, name, mapping->data(), mapping->size(), mapping);
  }

private:
  std::string name, path;
  std::shared_ptr<FileMapping> mapping;
};

/// A zip archive of .npy files, stored or deflated, read through libzip.
class NpzSource final : public ArraySource {
public:
  explicit NpzSource(const std::string &path) : path(path) {
    int code = 0;
    archive = zip_open(path.c_str(), ZIP_RDONLY, &code);
    if (!archive) {
      zip_error_t error;
      zip_error_init_with_code(&error, code);
      std::string what = zip_error_strerror(&error);
      zip_error_fini(&error);
      throw Error(ExitCode::Data,
                  path + ": not a readable .npz file: " + what +
                      (code == ZIP_ER_NOZIP || code == ZIP_ER_INCONS
                           ? "; its directory is at the end: was it cut off, "
                             "or saved by something else than numpy.savez?"
                           : ""));
    }
    std::error_code ignored; // the size is then the largest number
    fileBytes = std::filesystem::file_size(path, ignored);
    std::set<std::string> seen;
    for (zip_int64_t i = 0; i < zip_get_num_entries(archive, 0); ++i) {
      const char *name = zip_get_name(archive, i, ZIP_FL_ENC_RAW);
      std::string key = name ? name : "";
      if (endsWith(key, ".npy"))
        key.resize(key.size() - 4);
      if (!seen.insert(key).second) {
        zip_discard(archive);
        throw Error(ExitCode::Data, path + ": key '" + key + "' occurs twice");
      }
      keys.push_back(key);
    }
  }

  ~NpzSource() override { zip_discard(archive); }

  const std::string &file() const override { return path; }
  std::vector<std::string> names() const override { return keys; }

  Array load(const std::string &name) const override {
    zip_uint64_t index = 0;
    while (keys[index] != name)
      ++index;
    zip_stat_t status;
    if (zip_stat_index(archive, index, 0, &status) ||
        !(status.valid & ZIP_STAT_SIZE))
      fail(name, "no size");
    // Nothing is reserved for what the file cannot hold: deflate makes at most
    // 1032 bytes of one (zlib, "Maximum Compression Factor").
    constexpr uint64_t mostBytesOfOne = 1032;
    if (status.size / mostBytesOfOne > fileBytes)
      fail(name, std::to_string(status.size) + " bytes are said to be in a " +
                     "file of " + std::to_string(fileBytes) +
                     "; was it damaged?");
    std::shared_ptr<char> bytes(new (std::nothrow) char[status.size + 1],
                                std::default_delete<char[]>());
    if (!bytes)
      fail(name, std::to_string(status.size) + " bytes do not fit in memory");
    zip_file_t *file = zip_fopen_index(archive, index, 0);
    if (!file)
      fail(name, zip_strerror(archive));
    zip_uint64_t done = 0;
    std::string problem;
    // One byte more than there should be: the checksum is compared at the very
    // end.
    while (problem.empty()) {
      zip_int64_t n =
          zip_fread(file, bytes.get() + done, status.size + 1 - done);
      if (n < 0)
        problem = zip_file_strerror(file);
      else if (n == 0)
        break;
      else
        done += n;
    }
    zip_fclose(file);
    if (problem.empty() && done != status.size)
      problem = "truncated: " + std::to_string(done) + " of " +
                std::to_string(status.size) + " bytes";
    if (!problem.empty())
      fail(name, problem);
    return parseNpy(path, name, bytes.get(), status.size, bytes);
  }

private:
  [[noreturn]] void fail(const std::string &key,
                         const std::string &what) const {
    throw Error(ExitCode::Data, path + ": '" + key + "': " + what);
  }

  std::string path;
  zip_t *archive;
  uint64_t fileBytes = 0;
  std::vector<std::string> keys;
};

class SafetensorsSource final : public ArraySource {
public:
  explicit SafetensorsSource(const std::string &path) : contents(path) {}
  const std::string &file() const override { return contents.path(); }
  std::vector<std::string> names() const override { return contents.names(); }
  Array load(const std::string &name) const override {
    return *contents.find(name);
  }

private:
  SafetensorsFile contents;
};

} // namespace

Array parseNpy(const std::string &file, const std::string &key,
               const char *bytes, size_t size,
               std::shared_ptr<const void> owner) {
  std::string where = file + ": '" + key + "': ";
  static constexpr char magic[] = "\x93NUMPY";
  if (size < 10 || std::memcmp(bytes, magic, 6) != 0)
    throw Error(ExitCode::Data, where + "not a .npy array");
  unsigned version = static_cast<unsigned char>(bytes[6]);
  if (version < 1 || version > 3)
    throw Error(ExitCode::Data, where + ".npy format version " +
                                    std::to_string(version) +
                                    ", accepted are 1 to 3");
  size_t lengthBytes = version == 1 ? 2 : 4;
  size_t headerLength = 0;
  if (size < 8 + lengthBytes)
    throw Error(ExitCode::Data, where + "truncated in its header");
  for (size_t i = 0; i < lengthBytes; ++i)
    headerLength |=
        static_cast<size_t>(static_cast<unsigned char>(bytes[8 + i])) << 8 * i;
  size_t begin = 8 + lengthBytes + headerLength;
  if (begin > size)
    throw Error(ExitCode::Data, where + "truncated in its header");
  NpyHeader header(where, bytes + 8 + lengthBytes, bytes + begin);

  Array array;
  array.file = file;
  array.key = key;
  NpyElement element = npyElement(where, header.descr);
  array.type = element.type;
  array.shape = header.shape;
  array.bytes = arrayBytes(array.type, array.shape);
  int64_t fileBytes = array.bytes / typeBytes(array.type) * element.bytes;
  if (array.bytes < 0 || static_cast<size_t>(fileBytes) != size - begin)
    throw Error(
        ExitCode::Data,
        where + "'" + header.descr + "' " + describeShape(array.shape) +
            " needs " +
            (array.bytes < 0 ? "more than 2^63" : std::to_string(fileBytes)) +
            " bytes, found " + std::to_string(size - begin));
  bool fortran = header.fortran && header.shape.size() > 1;
  if (fortran || !element.isDirect()) {
    convertNpy(where, element, fortran, bytes + begin, array);
    return array;
  }
  array.data = bytes + begin;
  array.owner = std::move(owner);
  return array;
}

std::unique_ptr<ArraySource> openSource(const std::string &source) {
  size_t equals = source.find('=');
  if (endsWith(source, ".npy")) {
    if (equals == std::string::npos || equals == 0)
      throw Error(ExitCode::Data,
                  source + ": a .npy file has no name in it; write NAME=" +
                      source + ", NAME being the model's input");
    return std::make_unique<NpySource>(source.substr(0, equals),
                                       source.substr(equals + 1));
  }
  if (endsWith(source, ".npz"))
    return std::make_unique<NpzSource>(source);
  if (endsWith(source, ".safetensors"))
    return std::make_unique<SafetensorsSource>(source);
  throw Error(ExitCode::Data,
              source +
                  ": accepted are FILE.npz, FILE.safetensors and "
                  "NAME=FILE.npy" +
                  (endsWith(source, ".pt") || endsWith(source, ".pth")
                       ? "; in PyTorch, save tensors with "
                         "safetensors.torch.save_file"
                       : ""));
}

} // namespace harmony::runtime
