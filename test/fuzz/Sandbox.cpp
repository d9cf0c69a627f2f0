//===- Sandbox.cpp - The folder that a target reads from ------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/fuzz/Sandbox.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sys/stat.h>
#include <unistd.h>

namespace fs = std::filesystem;

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
/// MLIR's libraries are not instrumented: they do not know what their own
/// allocators, inlined into code that is, have poisoned, and what they own is
/// not seen to be reachable.
extern "C" const char *__asan_default_options() {
  return "allow_user_poisoning=0:detect_leaks=0:allocator_may_return_null=1";
}
#endif
#endif

namespace harmony::fuzz {

void fail(const std::string &what) {
  std::fprintf(stderr, "fuzz: %s\n", what.c_str());
  std::abort();
}

Sandbox::Sandbox() {
  fs::path parent = "/dev/shm";
  if (access(parent.c_str(), W_OK) != 0)
    parent = fs::temp_directory_path();
  folder = (parent / "harmony-fuzz-XXXXXX").string();
  if (!mkdtemp(folder.data()))
    fail("no folder can be made in " + parent.string());
  std::string bytes;
  for (int i = 0; i < 64; ++i)
    bytes += static_cast<char>(i);
  write("data.bin", bytes.data(), bytes.size());
  write("empty.bin", "", 0);
  fs::create_directory(path("sub"));
  write("sub/data.bin", bytes.data(), bytes.size());
  fs::create_symlink("data.bin", path("link.bin"));
  fs::create_symlink("/", path("out"));
  if (mkfifo(path("pipe").c_str(), 0600) != 0)
    fail("no pipe can be made in " + folder);
}

Sandbox::~Sandbox() {
  std::error_code ignored;
  fs::remove_all(folder, ignored);
}

std::string Sandbox::write(const std::string &name, const void *data,
                           size_t size) const {
  std::string file = path(name);
  std::ofstream stream(file, std::ios::binary | std::ios::trunc);
  stream.write(static_cast<const char *>(data),
               static_cast<std::streamsize>(size));
  stream.close();
  if (!stream)
    fail(file + " cannot be written");
  return file;
}

} // namespace harmony::fuzz
