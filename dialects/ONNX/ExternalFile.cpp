//===- ExternalFile.cpp - Files that hold a model's tensors ---------------===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/ONNX/ExternalFile.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace harmony::onnx {
namespace {

constexpr const char *accepted = "; accepted is a regular file in the folder "
                                 "of the model or below, by a relative path "
                                 "without \"..\" and without symbolic links";

/// Splits `name` at slashes, leaving out empty and "." components. Fails on
/// what leads out of the folder.
bool splitName(const std::string &name, std::vector<std::string> &components,
               std::string &error) {
  std::string quoted = "external file \"" + name + "\"";
  if (name.empty()) {
    error = "external data without a file name";
    return false;
  }
  if (name[0] == '/') {
    error = quoted + " is an absolute path" + accepted;
    return false;
  }
  if (name.find('\0') != std::string::npos) {
    error = "the name of an external file contains a zero byte";
    return false;
  }
  for (size_t begin = 0; begin <= name.size();) {
    size_t end = std::min(name.find('/', begin), name.size());
    std::string component = name.substr(begin, end - begin);
    if (component == "..") {
      error = quoted + " leads out of the folder of the model" + accepted;
      return false;
    }
    if (!component.empty() && component != ".")
      components.push_back(component);
    begin = end + 1;
  }
  if (components.empty()) {
    error = quoted + " is not a file" + accepted;
    return false;
  }
  return true;
}

} // namespace

int openExternalFile(const std::string &folder, const std::string &name,
                     uint64_t &size, std::string &error) {
  std::vector<std::string> components;
  if (!splitName(name, components, error))
    return -1;
  std::string quoted = "external file \"" + name + "\"";
  int current = open(folder.empty() ? "." : folder.c_str(),
                     O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (current < 0) {
    error = "cannot open folder \"" + folder + "\": " + std::strerror(errno);
    return -1;
  }
  for (size_t i = 0; i < components.size(); ++i) {
    bool last = i + 1 == components.size();
    // O_NONBLOCK: a pipe of that name must not hang the compiler.
    int next = openat(current, components[i].c_str(),
                      O_RDONLY | O_NOFOLLOW | O_CLOEXEC |
                          (last ? O_NONBLOCK : O_DIRECTORY));
    int code = errno;
    struct stat status;
    bool link = next < 0 &&
                fstatat(current, components[i].c_str(), &status,
                        AT_SYMLINK_NOFOLLOW) == 0 &&
                S_ISLNK(status.st_mode);
    close(current);
    if (next < 0) {
      if (link)
        error = quoted + ": \"" + components[i] + "\" is a symbolic link" +
                accepted;
      else
        error = quoted + ": " + std::strerror(code);
      return -1;
    }
    current = next;
  }
  struct stat status;
  if (fstat(current, &status) != 0 || !S_ISREG(status.st_mode)) {
    close(current);
    error = quoted + " is not a regular file" + accepted;
    return -1;
  }
  size = static_cast<uint64_t>(status.st_size);
  return current;
}

std::string checkExternalRange(uint64_t offset, uint64_t length,
                               uint64_t size) {
  if (offset <= size && length <= size - offset)
    return "";
  return "bytes from " + std::to_string(offset) + ", " +
         std::to_string(length) + " long, are wanted of a file of " +
         std::to_string(size) + " bytes";
}

ExternalFiles::~ExternalFiles() {
  for (auto &[name, mapping] : mappings)
    if (mapping.size)
      munmap(const_cast<char *>(mapping.data), mapping.size);
}

const char *ExternalFiles::map(const std::string &name, uint64_t offset,
                               uint64_t length, std::string &error) {
  auto it = mappings.find(name);
  if (it == mappings.end()) {
    Mapping mapping;
    int file = openExternalFile(folder, name, mapping.size, error);
    if (file < 0)
      return nullptr;
    if (mapping.size) {
      void *data = mmap(nullptr, mapping.size, PROT_READ, MAP_PRIVATE, file, 0);
      if (data == MAP_FAILED) {
        error = "cannot map external file \"" + name +
                "\": " + std::strerror(errno);
        close(file);
        return nullptr;
      }
      mapping.data = static_cast<const char *>(data);
    } else {
      mapping.data = "";
    }
    close(file);
    it = mappings.emplace(name, mapping).first;
  }
  std::string problem = checkExternalRange(offset, length, it->second.size);
  if (!problem.empty()) {
    error = "external file \"" + name + "\": " + problem;
    return nullptr;
  }
  return it->second.data + offset;
}

} // namespace harmony::onnx
