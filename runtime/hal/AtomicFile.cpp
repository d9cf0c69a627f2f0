//===- AtomicFile.cpp - Files that appear when they are complete ----------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/hal/AtomicFile.h"

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace harmony::runtime {

/// Where links lead, for a file that exists.
static std::string resolve(const std::string &path) {
  char resolved[PATH_MAX];
  return realpath(path.c_str(), resolved) ? resolved : path;
}

std::string AtomicFile::temporaryOf(const std::string &path) {
  return resolve(path) + ".tmp-" + std::to_string(getpid());
}

AtomicFile::AtomicFile(const std::string &path, mode_t mode)
    : path(path), target(resolve(path)) {
  struct stat status;
  if (!stat(target.c_str(), &status)) {
    if (S_ISDIR(status.st_mode))
      throw Error(ExitCode::Failure, path + ": is a folder, expected a file");
    isRegular = S_ISREG(status.st_mode);
  }
  if (isRegular)
    temporary = temporaryOf(path);
  file = open(isRegular ? temporary.c_str() : target.c_str(),
              O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
  if (file < 0)
    fail("cannot be written");
}

AtomicFile::~AtomicFile() {
  if (file >= 0)
    close(file);
  if (!temporary.empty())
    unlink(temporary.c_str());
}

void AtomicFile::write(const char *data, size_t bytes) {
  while (bytes) {
    ssize_t written = ::write(file, data, bytes);
    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0)
      fail("writing failed");
    data += written;
    bytes -= static_cast<size_t>(written);
  }
}

void AtomicFile::finish() {
  if (file < 0)
    return;
  if (isRegular && fsync(file))
    fail("syncing failed");
  if (close(std::exchange(file, -1)))
    fail("closing failed");
}

void AtomicFile::commit() {
  finish();
  if (!isRegular)
    return;
  if (rename(temporary.c_str(), target.c_str()))
    fail("renaming failed");
  temporary.clear();
  size_t slash = target.rfind('/');
  std::string folder =
      slash == std::string::npos ? "." : target.substr(0, slash + 1);
  int directory = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory >= 0) {
    // Some file systems cannot sync a folder; the file itself is safe by now.
    (void)fsync(directory);
    close(directory);
  }
}

void AtomicFile::fail(const char *what) const {
  std::string reason = strerror(errno);
  struct stat status;
  bool keeps = isRegular && !stat(target.c_str(), &status);
  throw Error(ExitCode::Failure,
              path + ": " + what + ": " + reason +
                  (keeps ? "; what was there before is unchanged" : ""));
}

void checkWritable(const std::string &path) {
  AtomicFile attempt(path); // gone without commit
}

bool isSameFile(const std::string &a, const std::string &b) {
  std::error_code failure;
  if (std::filesystem::equivalent(a, b, failure))
    return true;
  auto left = std::filesystem::weakly_canonical(a, failure);
  auto right = std::filesystem::weakly_canonical(b, failure);
  return !failure && left == right;
}

void writeAtomically(const std::string &path, const std::string &text) {
  AtomicFile file(path);
  file.write(text.data(), text.size());
  file.commit();
}

} // namespace harmony::runtime
