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

#include "call/error.h"
#include "device.h"
#include "graph.h"
#include "kernels/artifact.h"
#include "memory.h"

namespace graphffi_standalone {
namespace {

[[noreturn]] void FailFile(const std::string& path, const std::string& text) {
  throw graphffi::Error("RuntimeError", "graphffi: weights '" + path + "': " + text);
}

/// The weights of a file, behind which their digest is.
char* MapFile(const Weights& weights) {
  const std::string path = graphffi::FolderOf(&weights) + "/" + weights.opt_file_name;
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    FailFile(path, std::string("expected a file beside the library, got: ") + std::strerror(errno));
  }
  struct stat facts{};
  const size_t expected = weights.bytes + std::strlen(weights.opt_digest);
  const size_t size = fstat(file, &facts) == 0 ? static_cast<size_t>(facts.st_size) : 0;
  void* memory =
      size == expected ? mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0) : MAP_FAILED;
  close(file);
  if (size != expected) {
    FailFile(path, "expected " + std::to_string(expected) + " bytes, got " + std::to_string(size) +
                       "; copy the file whole");
  }
  if (memory == MAP_FAILED) FailFile(path, "cannot map it into memory");
  auto* begin = static_cast<char*>(memory);
  if (std::memcmp(begin + weights.bytes, weights.opt_digest, expected - weights.bytes) != 0) {
    munmap(memory, size);
    FailFile(path, "expected this library's weights, got another library's");
  }
  return begin;
}

/// On the CPU.
char* WeightsBegin(const Weights& weights) {
  // Never written: the graph's code takes pointers that are not const.
  if (weights.opt_file_name == nullptr) return const_cast<char*>(weights.embedded_begin);
  static std::mutex mutex;
  static char* mapped = nullptr;
  const std::lock_guard<std::mutex> lock(mutex);
  if (mapped == nullptr) mapped = MapFile(weights);
  return mapped;
}

/// On a GPU: all in one block, also those that models update.
char* WeightsOn(DLDevice device, const Weights& weights) {
  static auto* copies = new PerDevice<char>();  // never freed: calls may run at exit
  return copies->Get(device, [&](DLDevice) {
    return static_cast<char*>(
        kOptDeviceKind->upload(device.device_id, WeightsBegin(weights), weights.bytes));
  });
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

}  // namespace

char* ConstantOn(DLDevice device, const Weights& weights, size_t offset, size_t bytes,
                 bool is_updated) {
  if (device.device_type != kDLCPU) return WeightsOn(device, weights) + offset;
  return is_updated ? UpdatedBuffer(weights, offset, bytes) : WeightsBegin(weights) + offset;
}

}  // namespace graphffi_standalone
