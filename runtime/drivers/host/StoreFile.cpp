//===- StoreFile.cpp - The file behind a host store -----------------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/drivers/host/StoreFile.h"

#include "runtime/hal/Error.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

namespace harmony::runtime {

StoreFile::StoreFile(const std::string &folder, int64_t bytes, Access access)
    : path(folder) {
  std::string name = folder + "/harmony-store-XXXXXX";
  file = mkostemp(name.data(), O_CLOEXEC);
  if (file < 0)
    throw Error(ExitCode::Failure,
                "--disk-path " + folder +
                    ": no file can be made there: " + strerror(errno));
  unlink(name.c_str());
  if (int error = bytes ? posix_fallocate(file, 0, bytes) : 0) {
    close(file);
    throw Error(ExitCode::NoDevice,
                "--disk-path " + folder + ": the host store needs a file of " +
                    std::to_string(bytes) + " bytes: " + strerror(error));
  }
  // Not every file system has it; what is written is then dropped from the
  // cache right away.
  if (access == Access::Direct)
    isDirect = fcntl(file, F_SETFL, O_DIRECT) == 0;
}

StoreFile::~StoreFile() { close(file); }

void StoreFile::fail(const char *what, int64_t offset, int64_t bytes,
                     int error) const {
  throw Error(ExitCode::Failure,
              "--disk-path " + path + ": " + what + " " +
                  std::to_string(bytes) + " bytes at " +
                  std::to_string(offset) + " of the host store: " +
                  (error ? strerror(error) : "the file ends before"));
}

void StoreFile::read(int64_t offset, char *to, int64_t bytes) const {
  for (int64_t done = 0; done < bytes;) {
    ssize_t n = pread(file, to + done, bytes - done, offset + done);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      fail("reading", offset, bytes, n < 0 ? errno : 0);
    done += n;
  }
  if (!isDirect)
    posix_fadvise(file, offset, bytes, POSIX_FADV_DONTNEED);
}

void StoreFile::write(int64_t offset, const char *from, int64_t bytes) const {
  for (int64_t done = 0; done < bytes;) {
    ssize_t n = pwrite(file, from + done, bytes - done, offset + done);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      fail("writing", offset, bytes, n < 0 ? errno : ENOSPC);
    done += n;
  }
  if (!isDirect) {
    sync_file_range(file, offset, bytes,
                    SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
                        SYNC_FILE_RANGE_WAIT_AFTER);
    posix_fadvise(file, offset, bytes, POSIX_FADV_DONTNEED);
  }
}

} // namespace harmony::runtime
