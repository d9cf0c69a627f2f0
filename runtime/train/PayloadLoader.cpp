//===- PayloadLoader.cpp - Finds the program of this executable -----------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/train/PayloadLoader.h"

#include "runtime/hal/Error.h"
#include "runtime/train/FileMapping.h"
#include "runtime/train/Payload.h"

#include <cstring>
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

namespace harmony::runtime {

namespace {

[[noreturn]] void fail(const std::string &path, const std::string &what) {
  throw Error(ExitCode::Failure,
              path + ": the payload cannot be loaded: " + what);
}

void *loadFromMemory(const std::string &path, const char *bytes,
                     uint64_t size) {
  int file = memfd_create("harmony-payload", MFD_CLOEXEC);
  if (file < 0)
    fail(path, std::string("memfd_create: ") + strerror(errno));
  for (uint64_t done = 0; done < size;) {
    ssize_t written = write(file, bytes + done, size - done);
    if (written <= 0) {
      int error = errno;
      close(file);
      fail(path, std::string("copying to memory: ") + strerror(error));
    }
    done += written;
  }
  std::string name = "/proc/self/fd/" + std::to_string(file);
  void *library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  std::string error = library ? "" : dlerror();
  close(file);
  if (!library)
    fail(path, error);
  return library;
}

} // namespace

Payload loadPayload(const std::string &path) {
  FileMapping file(path, ExitCode::Failure);
  HmPayloadTrailer trailer;
  if (file.size() >= sizeof(trailer))
    std::memcpy(&trailer, file.data() + file.size() - sizeof(trailer),
                sizeof(trailer));
  if (file.size() < sizeof(trailer) ||
      std::memcmp(trailer.magic, HM_PAYLOAD_MAGIC, 8))
    throw Error(ExitCode::Usage,
                path + " is the runtime alone and carries no program to train; "
                       "make a training "
                       "executable with 'harmonyc compile MODEL.onnx -o EXE'");
  uint64_t end = file.size() - sizeof(trailer);
  if (trailer.offset > end || trailer.size != end - trailer.offset)
    fail(path, "the trailer says " + std::to_string(trailer.size) +
                   " bytes at " + std::to_string(trailer.offset) +
                   ", the file ends at " + std::to_string(end) +
                   "; was it truncated?");
  void *library =
      loadFromMemory(path, file.data() + trailer.offset, trailer.size);

  auto symbol = [&](const char *name) {
    void *address = dlsym(library, name);
    if (!address)
      fail(path, std::string("symbol ") + name + " is missing");
    return address;
  };
  Payload payload;
  payload.program = symbol(HM_SYMBOL_PROGRAM);
  payload.programSize =
      *static_cast<const uint64_t *>(symbol(HM_SYMBOL_PROGRAM_SIZE));
  payload.functions =
      static_cast<const HmRangeFunction *>(symbol(HM_SYMBOL_KERNELS));
  payload.executable = path;

  Dl_info info;
  const ElfW(Sym) *entry = nullptr;
  auto entryOf = [&](const void *address) {
    void *found = nullptr;
    if (dladdr1(address, &info, &found, RTLD_DL_SYMENT))
      entry = static_cast<const ElfW(Sym) *>(found);
    return entry && info.dli_saddr == address;
  };
  if (!entryOf(payload.functions))
    fail(path, "the size of " HM_SYMBOL_KERNELS " is not known");
  payload.functionCount = entry->st_size / sizeof(HmRangeFunction);
  if (!entryOf(payload.program) || entry->st_size < payload.programSize)
    fail(path,
         HM_SYMBOL_PROGRAM " is smaller than " HM_SYMBOL_PROGRAM_SIZE " says");
  return payload;
}

} // namespace harmony::runtime
