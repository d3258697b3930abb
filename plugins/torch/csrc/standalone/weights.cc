// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "callframe/error.h"
#include "graph.h"
#include "kernels/artifact.h"
#include "memory.h"

namespace graphffi_standalone {
namespace {

char* MapFile(const Weights& weights) {
  const std::string path = graphffi::FolderOf(&weights) + "/" + weights.opt_file_name;
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat facts{};
  if (file < 0 || fstat(file, &facts) != 0) {
    if (file >= 0) close(file);
    throw graphffi::Error("RuntimeError",
                          "graphffi: cannot read '" + path +
                              "', the weights of the library beside it: " + std::strerror(errno));
  }
  const auto size = static_cast<size_t>(facts.st_size);
  void* memory = size == weights.bytes
                     ? mmap(nullptr, weights.bytes, PROT_READ, MAP_PRIVATE, file, 0)
                     : MAP_FAILED;
  close(file);
  if (memory == MAP_FAILED) {
    throw graphffi::Error("RuntimeError", "graphffi: weights '" + path + "': expected " +
                                              std::to_string(weights.bytes) + " bytes, got " +
                                              std::to_string(size));
  }
  return static_cast<char*>(memory);
}

}  // namespace

char* WeightsBegin(const Weights& weights) {
  // Never written: the graph's code takes pointers that are not const.
  if (weights.opt_file_name == nullptr) return const_cast<char*>(weights.embedded_begin);
  static std::mutex mutex;
  static char* mapped = nullptr;
  const std::lock_guard<std::mutex> lock(mutex);
  if (mapped == nullptr) mapped = MapFile(weights);
  return mapped;
}

char* UpdatedBuffer(const Weights& weights, size_t offset, size_t bytes) {
  static std::mutex mutex;
  static auto* buffers = new std::map<size_t, char*>();  // never freed: calls may run at exit
  const char* initial = WeightsBegin(weights) + offset;
  const std::lock_guard<std::mutex> lock(mutex);
  char*& buffer = (*buffers)[offset];
  if (buffer == nullptr) {
    buffer = static_cast<char*>(TakeMemory(bytes));
    std::memcpy(buffer, initial, bytes);
  }
  return buffer;
}

}  // namespace graphffi_standalone
