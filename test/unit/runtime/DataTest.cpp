//===- DataTest.cpp - Arrays, data sets and weights -----------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/hal/Error.h"
#include "runtime/train/DataSet.h"
#include "runtime/train/Loader.h"
#include "runtime/train/Safetensors.h"
#include "runtime/train/Shuffle.h"
#include "test/unit/runtime/BlobBuilder.h"
#include "test/unit/runtime/TemporaryFolder.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <numeric>
#include <set>
#include <sys/resource.h>
#include <zip.h>

namespace harmony::runtime {
namespace {

using namespace test;

template <typename T>
std::string bytesOf(const std::vector<T> &values) {
  return {reinterpret_cast<const char *>(values.data()),
          values.size() * sizeof(T)};
}

std::string npy(const std::string &descr, const std::string &shape,
                const std::string &body, const char *order = "False",
                int version = 1) {
  std::string header = "{'descr': '" + descr + "', 'fortran_order': " + order +
                       ", 'shape': " + shape + ", }";
  size_t prefix = version == 1 ? 10 : 12;
  while ((prefix + header.size() + 1) % 64)
    header += ' ';
  header += '\n';
  std::string out = "\x93NUMPY";
  out += static_cast<char>(version);
  out += '\0';
  for (size_t i = 0; i < prefix - 8; ++i)
    out += static_cast<char>(header.size() >> 8 * i);
  return out + header + body;
}

void writeZip(const std::string &path,
              const std::vector<std::pair<std::string, std::string>> &files,
              zip_int32_t method) {
  int error = 0;
  zip_t *archive = zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &error);
  for (auto &[name, body] : files) {
    zip_source_t *source =
        zip_source_buffer(archive, body.data(), body.size(), 0);
    zip_int64_t index = zip_file_add(archive, name.c_str(), source, 0);
    zip_set_file_compression(archive, index, method, 0);
  }
  ASSERT_EQ(zip_close(archive), 0);
}

template <typename Body>
std::string dataError(Body body) {
  try {
    body();
    return "";
  } catch (const Error &error) {
    EXPECT_EQ(error.exitCode(), ExitCode::Data);
    return error.what();
  }
}

bool contains(const std::string &text, const std::string &part) {
  if (text.find(part) != std::string::npos)
    return true;
  ADD_FAILURE() << "'" << text << "' does not contain '" << part << "'";
  return false;
}

Array parse(const std::string &bytes) {
  return parseNpy("f.npy", "x", bytes.data(), bytes.size(), nullptr);
}

TEST(Npy, ReadsEveryVersionAndShape) {
  std::string body = bytesOf<float>({1, 2, 3, 4, 5, 6});
  for (int version : {1, 2, 3}) {
    std::string bytes = npy("<f4", "(2, 3)", body, "False", version);
    Array a = parse(bytes);
    EXPECT_EQ(a.type, HM_F32);
    EXPECT_EQ(a.shape, (std::vector<int64_t>{2, 3}));
    EXPECT_EQ(std::memcmp(a.data, body.data(), body.size()), 0);
  }
  EXPECT_TRUE(parse(npy("<i8", "()", std::string(8, 0))).shape.empty());
  EXPECT_EQ(parse(npy("|b1", "(3,)", "abc")).shape, (std::vector<int64_t>{3}));
  EXPECT_EQ(parse(npy("<f4", "(0, 3)", "")).bytes, 0);
  EXPECT_EQ(parse(npy("<f4", "(6,)", body, "True")).bytes,
            24); // one axis has no order
}

template <typename T>
std::vector<T> valuesOf(const Array &a) {
  std::vector<T> values(a.bytes / sizeof(T));
  std::memcpy(values.data(), a.data, a.bytes);
  return values;
}

/// `bytes` with the bytes of each element of `width` turned round.
std::string swapped(std::string bytes, size_t width) {
  for (size_t at = 0; at < bytes.size(); at += width)
    std::reverse(bytes.begin() + at, bytes.begin() + at + width);
  return bytes;
}

TEST(Npy, FortranOrderIsTransposed) {
  // [[[0, 1], [2, 3]], [[4, 5], [6, 7]], [[8, 9], [10, 11]]], first axis
  // fastest.
  std::string body = bytesOf<float>({0, 4, 8, 2, 6, 10, 1, 5, 9, 3, 7, 11});
  Array a = parse(npy("<f4", "(3, 2, 2)", body, "True"));
  std::vector<float> expected(12);
  std::iota(expected.begin(), expected.end(), 0.0f);
  EXPECT_EQ(valuesOf<float>(a), expected);
  EXPECT_EQ(a.shape, (std::vector<int64_t>{3, 2, 2}));
  a = parse(npy(">f4", "(3, 2, 2)", swapped(body, 4), "True"));
  EXPECT_EQ(valuesOf<float>(a), expected);
  EXPECT_EQ(parse(npy("<f4", "(3, 0, 5)", "", "True")).bytes, 0);
}

TEST(Npy, ForeignBytesAndWidthsAreConverted) {
  Array a = parse(npy(">f8", "(2,)", swapped(bytesOf<double>({1.5, -2}), 8)));
  EXPECT_EQ(a.type, HM_F64);
  EXPECT_EQ(valuesOf<double>(a), (std::vector<double>{1.5, -2}));
  a = parse(npy(">i8", "(2,)", swapped(bytesOf<int64_t>({-3, 1ll << 40}), 8)));
  EXPECT_EQ(valuesOf<int64_t>(a), (std::vector<int64_t>{-3, 1ll << 40}));
  a = parse(npy("<i2", "(3,)", bytesOf<int16_t>({-3, 4, -32768})));
  EXPECT_EQ(a.type, HM_I32);
  EXPECT_EQ(valuesOf<int32_t>(a), (std::vector<int32_t>{-3, 4, -32768}));
  a = parse(npy(">u2", "(2,)", swapped(bytesOf<uint16_t>({3, 65535}), 2)));
  EXPECT_EQ(valuesOf<int32_t>(a), (std::vector<int32_t>{3, 65535}));
  a = parse(npy("<u4", "(2,)", bytesOf<uint32_t>({3, 4294967295u})));
  EXPECT_EQ(a.type, HM_I64);
  EXPECT_EQ(valuesOf<int64_t>(a), (std::vector<int64_t>{3, 4294967295}));
  a = parse(npy("<u8", "(1,)", bytesOf<uint64_t>({5})));
  EXPECT_EQ(valuesOf<int64_t>(a), std::vector<int64_t>{5});
}

TEST(Npy, RefusesWithFileKeyExpectedAndFound) {
  std::string body = bytesOf<float>({1, 2, 3, 4, 5, 6});
  auto error = [&](const std::string &bytes) {
    return dataError([&] { parse(bytes); });
  };
  EXPECT_EQ(error(npy("<f4", "(2, 3)", body.substr(1))),
            "f.npy: 'x': '<f4' [2, 3] needs 24 bytes, found 23");
  EXPECT_EQ(error(npy("<u2", "(2, 3)", body)),
            "f.npy: 'x': '<u2' [2, 3] needs 12 bytes, found 24");
  EXPECT_TRUE(contains(error(npy("|O", "(3,)", body)),
                       "these are Python objects (rows of unequal length make "
                       "them): save numpy.stack"));
  EXPECT_TRUE(contains(error(npy("<U5", "(3,)", body)), "these are strings"));
  EXPECT_TRUE(contains(error(npy("", "(3,)", body)), "dtype '' is not read"));
  EXPECT_EQ(error(npy("<u8", "(2,)", bytesOf<uint64_t>({1, 1ull << 63}))),
            "f.npy: 'x': element 1 is 9223372036854775808, which int64 does "
            "not hold");
  EXPECT_TRUE(
      contains(error(npy("<c8", "(3,)", body)), "accepted are float32"));
  EXPECT_TRUE(contains(error("PK"), "not a .npy array"));
  EXPECT_TRUE(contains(error(npy("<f4", "(2, 3)", body).substr(0, 40)),
                       "truncated in its header"));
  EXPECT_TRUE(contains(error(npy("<f4", "(9223372036854775807, 9)", body)),
                       "needs more than 2^63 bytes"));
  EXPECT_TRUE(contains(error(npy("<f4", "(99999999999999999999,)", body)),
                       "extent out of range"));
  EXPECT_TRUE(contains(error(npy("<f4', 'descr': '<f4", "(6,)", body)),
                       "repeated key"));
}

TEST(Npy, SurvivesRandomDamage) {
  std::string good = npy("<f4", "(2, 3)", bytesOf<float>({1, 2, 3, 4, 5, 6}));
  SplitMix random(3);
  for (int i = 0; i < 20000; ++i) {
    std::string bad = good.substr(0, 1 + random.below(good.size()));
    for (int n = 0; n < 2; ++n)
      bad[random.below(std::min<size_t>(bad.size(), 90))] =
          static_cast<char>(random.next());
    try {
      Array a = parse(bad);
      // Integers of 16 and 32 bits become wider ones.
      EXPECT_LE(static_cast<size_t>(a.bytes), 2 * bad.size());
    } catch (const Error &) {
    }
  }
}

TEST(Npz, ReadsStoredAndDeflated) {
  TemporaryFolder folder;
  std::string body = bytesOf<int64_t>({7, 8, 9, 10});
  for (zip_int32_t method : {ZIP_CM_STORE, ZIP_CM_DEFLATE}) {
    writeZip(folder / "d.npz",
             {{"x.npy", npy("<i8", "(4,)", body)},
              {"y.npy", npy("<f4", "(1,)", "abcd")}},
             method);
    auto source = openSource(folder / "d.npz");
    EXPECT_EQ(source->names(), (std::vector<std::string>{"x", "y"}));
    Array a = source->load("x");
    source.reset(); // the array keeps its bytes
    EXPECT_EQ(std::string(a.data, a.bytes), body);
  }
}

TEST(Npz, RefusesDamage) {
  TemporaryFolder folder;
  std::string path = folder / "d.npz";
  writeZip(path, {{"x.npy", npy("<i8", "(400,)", std::string(3200, 'z'))}},
           ZIP_CM_STORE);
  std::string good = readFile(path);
  writeFile(path, good.substr(0, good.size() / 2));
  EXPECT_TRUE(contains(dataError([&] { openSource(path); }),
                       "d.npz: not a readable .npz file"));
  std::string bad = good;
  bad[2000] ^= 1;
  writeFile(path, bad);
  EXPECT_TRUE(contains(dataError([&] { openSource(path)->load("x"); }),
                       "d.npz: 'x': "));
  // The uncompressed size in the central directory, 24 bytes into its entry.
  bad = good;
  bad[bad.find("PK\x01\x02") + 27] = '\x70';
  writeFile(path, bad);
  EXPECT_TRUE(
      contains(dataError([&] { openSource(path)->load("x"); }),
               "d.npz: 'x': 1879051520 bytes are said to be in a file"));
  EXPECT_TRUE(contains(dataError([&] { openSource(folder / "none.npz"); }),
                       "none.npz: "));
  EXPECT_TRUE(contains(dataError([&] { openSource(folder / "d.csv"); }),
                       "accepted are FILE.npz"));
  EXPECT_TRUE(contains(dataError([&] { openSource(folder / "d.npy"); }),
                       "write NAME="));
}

// ---- safetensors
// --------------------------------------------------------------

std::string safetensors(const std::string &header, const std::string &body) {
  std::string out;
  for (int i = 0; i < 8; ++i)
    out += static_cast<char>(header.size() >> 8 * i);
  return out + header + body;
}

TEST(Safetensors, WritesWhatItReads) {
  TemporaryFolder folder;
  std::vector<float> values = {1, 2, 3, 4, 5, 6};
  Array a, empty;
  a.key = "layer.weight";
  a.shape = {2, 3};
  a.data = reinterpret_cast<const char *>(values.data());
  a.bytes = 24;
  empty.key = "none";
  empty.shape = {0, 4};
  empty.type = HM_I64;
  empty.data = a.data;
  writeSafetensors(folder / "w.safetensors", {a, empty},
                   {{"fingerprint", "12"}});
  SafetensorsFile file(folder / "w.safetensors");
  EXPECT_EQ(file.metadata().at("fingerprint"), "12");
  ASSERT_TRUE(file.find("layer.weight"));
  EXPECT_EQ(std::memcmp(file.find("layer.weight")->data, values.data(), 24), 0);
  EXPECT_EQ(file.find("none")->shape, empty.shape);
  EXPECT_EQ(file.find("other"), nullptr);
  EXPECT_EQ(folder.list(), std::vector<std::string>{"w.safetensors"});
}

TEST(Safetensors, RefusesWhatTheFormatDoesNotAllow) {
  TemporaryFolder folder;
  std::string path = folder / "w.safetensors";
  auto error = [&](const std::string &header, const std::string &body) {
    writeFile(path, safetensors(header, body));
    return dataError([&] { SafetensorsFile file(path); });
  };
  const std::string a =
      R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
  const std::string eight(8, 'x'), twelve(12, 'x'), sixteen(16, 'x');
  EXPECT_EQ(error("{" + a + "}", eight), "");
  EXPECT_TRUE(
      contains(error("{" + a + "," + a + "}", eight), "key 'a' occurs twice"));
  EXPECT_TRUE(contains(error("{" + a + "}", eight.substr(1)),
                       "'a': data_offsets [0, 8) exceed the 7 bytes of data"));
  EXPECT_TRUE(
      contains(error("{" + a + "}", twelve), "4 bytes after the last tensor"));
  EXPECT_TRUE(contains(
      error("{" + a +
                R"(,"b":{"dtype":"U8","shape":[8],"data_offsets":[4,12]}})",
            twelve),
      "'b': the bytes overlap those of 'a'"));
  EXPECT_TRUE(contains(
      error("{" + a +
                R"(,"b":{"dtype":"U8","shape":[4],"data_offsets":[12,16]}})",
            sixteen),
      "'b': the bytes leave a gap after 'a'"));
  EXPECT_TRUE(contains(
      error(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", eight),
      "'a': f32 [3] needs 12 bytes, data_offsets give 8"));
  EXPECT_TRUE(contains(
      error(R"({"a":{"dtype":"F4","shape":[2],"data_offsets":[0,8]}})", eight),
      "'a': dtype \"F4\", accepted are F32"));
  EXPECT_TRUE(contains(
      error(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})",
            eight),
      "expected a non-negative integer"));
  EXPECT_TRUE(contains(
      error(
          R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,8]}})",
          eight),
      "needs -1 bytes"));
  EXPECT_TRUE(contains(error(R"({"a":[]})", ""),
                       "expected dtype, shape and data_offsets"));
  EXPECT_TRUE(contains(error("[]", ""), "does not begin with '{'"));
  EXPECT_TRUE(contains(error("{\"a\":", ""), "the header is not JSON"));
  EXPECT_TRUE(contains(error(R"({"__metadata__":{"x":1}})", ""),
                       "'x' is not a string"));
  writeFile(path, std::string(8, '\xff') + "{}");
  EXPECT_TRUE(contains(dataError([&] { SafetensorsFile file(path); }),
                       "header length"));
  writeFile(path, "abc");
  EXPECT_TRUE(
      contains(dataError([&] { SafetensorsFile file(path); }), "too short"));
  writeFile(path, std::string("PK\3\4") + std::string(100, '\0'));
  EXPECT_TRUE(contains(dataError([&] { SafetensorsFile file(path); }),
                       "is a ZIP archive, as .npz files and PyTorch's"));
}

TEST(Safetensors, AFullDiskLeavesTheOldFile) {
  TemporaryFolder folder;
  std::string path = folder / "w.safetensors";
  writeFile(path, "old");
  std::vector<char> big(1 << 20);
  Array a;
  a.key = "a";
  a.type = HM_U8;
  a.shape = {1 << 20};
  a.data = big.data();
  a.bytes = 1 << 20;
  rlimit before, small;
  getrlimit(RLIMIT_FSIZE, &before);
  small = before;
  small.rlim_cur = 4096;
  signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  EXPECT_THROW(writeSafetensors(path, {a}, {}), Error);
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, SIG_DFL);
  EXPECT_EQ(readFile(path), "old");
  EXPECT_EQ(folder.list(), std::vector<std::string>{"w.safetensors"});
}

// ---- data sets
// ------------------------------------------------------------------

class DataSetTest : public testing::Test {
protected:
  void SetUp() override {
    builder.device(64);
    builder.input("x", HM_F32, {0, 2}, 0, 1u << HM_PROGRAM_STEP);
    HmInput &labels =
        builder.input("labels", HM_I64, {0}, 64, 1u << HM_PROGRAM_STEP);
    labels.checked = 1;
    labels.high = 10;
    labels.hasIgnored = 1;
    labels.ignored = -100;
    builder.input("mask", HM_F32, {0, 5}, 0, 1u << HM_PROGRAM_EVALUATE);
    builder.input("keys", HM_I64, {0, 3}, 16, 1u << HM_PROGRAM_STEP).source =
        HM_INPUT_KEYS;
    builder.header.batchBytes = 128;
    builder.program(HM_PROGRAM_STEP, 2);
    bytes = builder.finish();
    blob = std::make_unique<Blob>(bytes.data.get(), bytes.size, 0);
    path = folder / "d.npz";
  }

  void write(const std::vector<std::pair<std::string, std::string>> &arrays) {
    std::vector<std::pair<std::string, std::string>> files;
    for (auto &[name, body] : arrays)
      files.push_back({name + ".npy", body});
    writeZip(path, files, ZIP_CM_STORE);
  }
  DataSet load() { return DataSet({path}, *blob, HM_PROGRAM_STEP); }
  std::string error() {
    return dataError([&] { load(); });
  }

  const std::string x =
      npy("<f4", "(3, 2)", bytesOf<float>({1, 2, 3, 4, 5, 6}));
  const std::string y = npy("<i8", "(3,)", bytesOf<int64_t>({7, 8, 9}));
  TemporaryFolder folder;
  std::string path;
  BlobBuilder builder;
  BlobBuilder::Bytes bytes;
  std::unique_ptr<Blob> blob;
};

TEST_F(DataSetTest, LaysBatchesOutAndWidensInt32) {
  for (bool narrow : {false, true}) {
    write({{"x", x},
           {"labels", narrow
                          ? npy("<i4", "(3,)", bytesOf<int32_t>({7, -100, 9}))
                          : npy("<i8", "(3,)", bytesOf<int64_t>({7, -100, 9}))},
           {"spare", x}});
    DataSet data = load();
    EXPECT_EQ(data.samples(), 3);
    EXPECT_EQ(data.ignored(), std::vector<std::string>{"spare"});
    BatchFiller filler(*blob, data, HM_PROGRAM_STEP);
    std::vector<char> batch(128);
    int64_t indices[] = {2, 1};
    filler.fill(batch.data(), indices);
    auto *values = reinterpret_cast<float *>(batch.data());
    EXPECT_EQ(std::vector<float>(values, values + 4),
              (std::vector<float>{5, 6, 3, 4}));
    int64_t labels[2];
    std::memcpy(labels, batch.data() + 64, sizeof(labels));
    EXPECT_EQ(labels[0], 9);
    EXPECT_EQ(labels[1], -100);
  }
}

TEST_F(DataSetTest, RefusesWithFileKeyExpectedAndFound) {
  write({{"x", x}});
  EXPECT_TRUE(contains(
      error(), "no array for the model's input 'labels' i64 [samples] in "));
  EXPECT_TRUE(contains(error(), "; found: x"));
  write({{"arr_0", x}, {"arr_1", y}});
  EXPECT_TRUE(contains(error(),
                       "no array for the model's inputs 'x' f32 [samples, 2], "
                       "'labels' i64 [samples] in "));
  EXPECT_TRUE(contains(error(), "; found: arr_0, arr_1; name arrays by "
                                "numpy.savez(FILE, NAME=array)"));
  // All of it at once.
  write({{"x", npy("<f4", "(3, 3)", std::string(36, 0))}});
  EXPECT_TRUE(contains(error(), "'labels' i64 [samples] in "));
  EXPECT_TRUE(
      contains(error(), "'x' is f32 [3, 3], expected f32 [samples, 2]"));
  write({{"x", npy("<f8", "(1, 2)", std::string(16, 0))}, {"labels", y}});
  EXPECT_TRUE(contains(
      error(),
      "d.npz: 'x' is f64 [1, 2], expected f32 [samples, 2]; it would lose "
      "values: convert it with array.astype(numpy.float32) if that is meant"));
  write({{"x", npy("<f4", "(3, 3)", std::string(36, 0))}, {"labels", y}});
  EXPECT_TRUE(
      contains(error(), "'x' is f32 [3, 3], expected f32 [samples, 2]"));
  write({{"x", npy("<f4", "(6,)", std::string(24, 0))}, {"labels", y}});
  EXPECT_TRUE(contains(error(), "'x' is f32 [6], expected f32 [samples, 2]"));
  write({{"x", x}, {"labels", npy("<i8", "(2,)", std::string(16, 0))}});
  EXPECT_TRUE(contains(error(), "'labels' has 2 samples, "));
  write({{"x", x}, {"labels", npy("<f4", "(3,)", std::string(12, 0))}});
  EXPECT_TRUE(contains(
      error(),
      "it would lose values: convert it with array.astype(numpy.int64)"));
  write({{"x", x}, {"labels", y}});
  EXPECT_TRUE(contains(
      dataError([&] { DataSet({path, path}, *blob, HM_PROGRAM_STEP); }),
      "is in " + path + " and in " + path));
}

TEST_F(DataSetTest, ConvertsWhatLosesNoValue) {
  struct Row {
    const char *descr;
    std::string x, name;
    float values[2];
  };
  // 0x3e00 and 0xc400 are 1.5 and -4 in half precision, 1 is 2^-24.
  for (const Row &row :
       {Row{"|u1", std::string("\xff\x07", 2), "u8", {255, 7}},
        Row{"|i1", std::string("\xff\x07", 2), "i8", {-1, 7}},
        Row{"|b1", std::string("\x01\x00", 2), "bool", {1, 0}},
        Row{"<f2", bytesOf<uint16_t>({0x3e00, 0xc400}), "f16", {1.5, -4}},
        Row{"<f2",
            bytesOf<uint16_t>({1, 0xfc00}),
            "f16",
            {0x1p-24f, -INFINITY}}}) {
    write({{"x", npy(row.descr, "(1, 2)", row.x)},
           {"labels", npy("|u1", "(1,)", "\x09")}});
    DataSet data = load();
    EXPECT_EQ(data.conversions(),
              (std::vector<std::string>{"'x' from " + row.name + " to f32",
                                        "'labels' from u8 to i64"}));
    BatchFiller filler(*blob, data, HM_PROGRAM_STEP);
    std::vector<char> batch(128);
    int64_t indices[] = {0, 0};
    filler.fill(batch.data(), indices);
    auto *values = reinterpret_cast<float *>(batch.data());
    EXPECT_EQ(values[0], row.values[0]) << row.descr;
    EXPECT_EQ(values[1], row.values[1]) << row.descr;
    int64_t label;
    std::memcpy(&label, batch.data() + 64, sizeof(label));
    EXPECT_EQ(label, 9);
  }
}

TEST_F(DataSetTest, NamesTheFirstNumberThatIsNotFinite) {
  write({{"x", npy("<f4", "(3, 2)", bytesOf<float>({1, 2, 3, NAN, 5, 6}))},
         {"labels", y}});
  DataSet data = load();
  BatchFiller filler(*blob, data, HM_PROGRAM_STEP);
  std::vector<char> batch(128);
  int64_t bad[] = {2, 1}, good[] = {2, 0};
  filler.fill(batch.data(), bad);
  EXPECT_EQ(filler.findNonFinite(batch.data(), bad),
            path + ": 'x' sample 1 element 1 is NaN");
  filler.fill(batch.data(), good);
  EXPECT_EQ(filler.findNonFinite(batch.data(), good), "");
}

TEST_F(DataSetTest, ChecksIndicesAsTheyAreLoaded) {
  write(
      {{"x", x}, {"labels", npy("<i8", "(3,)", bytesOf<int64_t>({7, 8, 10}))}});
  DataSet data = load();
  BatchFiller filler(*blob, data, HM_PROGRAM_STEP);
  std::vector<char> batch(128);
  int64_t good[] = {0, 1}, bad[] = {0, 2};
  filler.fill(batch.data(), good);
  EXPECT_EQ(dataError([&] { filler.fill(batch.data(), bad); }),
            path + ": 'labels' sample 2 element 0 is 10, accepted range is [0, "
                   "10) and -100");
}

TEST_F(DataSetTest, TheLoaderGoesThroughEpochsInOrder) {
  write({{"x", x}, {"labels", y}});
  DataSet data = load();
  BatchFiller filler(*blob, data, HM_PROGRAM_STEP);
  std::vector<char> a(128), b(128);
  for (bool shuffle : {false, true}) {
    Loader loader(filler, 3, shuffle, 5, {a.data(), b.data()});
    for (uint64_t epoch = 0; epoch < 20; ++epoch) {
      std::vector<int64_t> order(3);
      sampleOrder(order, shuffle, 5, epoch);
      auto *values = reinterpret_cast<float *>(loader.acquire());
      EXPECT_EQ(values[0], static_cast<float>(1 + 2 * order[0]));
      EXPECT_EQ(values[2], static_cast<float>(1 + 2 * order[1]));
      EXPECT_EQ(loader.samples()[0], order[0]);
      EXPECT_EQ(loader.samples()[1], order[1]);
      loader.release();
    }
  }
}

TEST_F(DataSetTest, KeysOfRandomNumbersCountSamplesAndSteps) {
  write({{"x", x}, {"labels", y}});
  DataSet data = load();
  EXPECT_EQ(data.array(3), nullptr);
  BatchFiller filler(*blob, data, HM_PROGRAM_STEP);
  std::vector<char> a(128), b(128);
  auto keys = [](const char *batch) {
    std::vector<int64_t> values(6);
    std::memcpy(values.data(), batch + 16, 48);
    return values;
  };
  constexpr uint64_t seed = ~uint64_t(0) - 4;
  Loader loader(filler, 3, true, seed, {a.data(), b.data()});
  for (int64_t step = 1; step < 5; ++step) {
    EXPECT_EQ(keys(loader.acquire()),
              (std::vector<int64_t>{0, step, -5, 1, step, -5}));
    loader.release();
  }
  int64_t indices[] = {2, 1};
  filler.fill(a.data(), indices);
  EXPECT_EQ(keys(a.data()), (std::vector<int64_t>{0, 0, 0, 1, 0, 0}));
}

TEST_F(DataSetTest, SyntheticValuesAreInRange) {
  DataSet data = DataSet::synthetic(*blob, HM_PROGRAM_STEP, 50, 1);
  const Array *labels = data.array(1);
  std::set<int64_t> seen;
  for (int64_t i = 0; i < 50; ++i) {
    int64_t value;
    std::memcpy(&value, labels->data + 8 * i, 8);
    EXPECT_TRUE(value >= 0 && value < 10);
    seen.insert(value);
  }
  EXPECT_GT(seen.size(), 5u);
  EXPECT_EQ(data.array(2), nullptr);
}

} // namespace
} // namespace harmony::runtime
