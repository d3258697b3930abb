// SPDX-License-Identifier: Apache-2.0
#include "workspace.h"

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <mutex>

#include "call/describe_tensor.h"
#include "call/error.h"
#include "env/shared_allocator.h"

namespace graphffi_jax {

using graphffi::DeviceToName;
using graphffi::Error;
using graphffi::kTensorAlignment;
using graphffi::SetAllocationError;
using graphffi::SharedAllocator;

namespace {

/// Never destroyed: XLA's threads may still report at exit.
struct Peaks {
  std::mutex mutex;
  std::deque<WorkspaceUse> uses;  // the oldest subject first
};
Peaks& GetPeaks() {
  static Peaks* peaks = new Peaks;
  return *peaks;
}

/// `offset` such that `base` + it is aligned.
int64_t Align(const char* base, int64_t offset) {
  constexpr uintptr_t kMask = kTensorAlignment - 1;
  uintptr_t address = reinterpret_cast<uintptr_t>(base) + static_cast<uintptr_t>(offset);
  return offset + static_cast<int64_t>(((address + kMask) & ~kMask) - address);
}

}  // namespace

int AllocateForCall(DLTensor* prototype, DLManagedTensorVersioned** out, void* error_context,
                    SetAllocationError set_error) {
  WorkspaceScope* scope = WorkspaceScope::current_;
  if (scope == nullptr || scope == WorkspaceScope::None()) {
    return graphffi::AllocateOnHeap(prototype, out, error_context, set_error);
  }
  return graphffi::RunAllocator(error_context, set_error,
                                [&] { *out = scope->Allocate(*prototype); });
}

/// A SharedAllocator::TryAllocate: for calls on the CPU.
bool TryAllocateForCall(DLTensor* prototype, DLManagedTensorVersioned** out, void* error_context,
                        SetAllocationError set_error, int* result) {
  if (WorkspaceScope::current_ == nullptr) return false;
  *result = AllocateForCall(prototype, out, error_context, set_error);
  return true;
}

void JoinSharedAllocator() {
  SharedAllocator& shared = SharedAllocator::Get();
  shared.opt_in_call.store(&TryAllocateForCall, std::memory_order_release);
  shared_allocator = shared.allocate;
}

WorkspaceScope::WorkspaceScope(void* data, int64_t capacity, DLDevice device)
    : data_(static_cast<char*>(data)), capacity_(capacity), device_(device), outer_(current_) {
  current_ = this;
}

WorkspaceScope::~WorkspaceScope() {
  Close();
  current_ = outer_;
}

void* WorkspaceScope::TakeData(int64_t begin, size_t num_bytes, bool* is_heap) const {
  *is_heap = begin + static_cast<int64_t>(num_bytes) > capacity_;
  if (!*is_heap) return data_ + begin;
  const std::string needed = std::to_string(begin + static_cast<int64_t>(num_bytes));
  if (device_.device_type != kDLCPU) {
    throw Error("MemoryError", "workspace: expected at least " + needed + " bytes, got " +
                                   std::to_string(capacity_) + "; declare a larger workspace=");
  }
  void* data = std::aligned_alloc(
      kTensorAlignment, (num_bytes + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment);
  if (data == nullptr) {
    throw Error("MemoryError", "graphffi: cannot allocate " + std::to_string(num_bytes) + " bytes");
  }
  return data;
}

void WorkspaceScope::Pop() {
  ScratchBlock* block = blocks_;
  blocks_ = block->next;
  used_ = block->offset;
  if (block->is_heap) std::free(block->managed.dl_tensor.data);
  block->Release();
}

DLManagedTensorVersioned* WorkspaceScope::Allocate(const DLTensor& prototype) {
  if (prototype.device.device_type != device_.device_type ||
      prototype.device.device_id != device_.device_id) {
    throw Error("ValueError", "workspace: expected a tensor on " + DeviceToName(device_) +
                                  ", got one on " + DeviceToName(prototype.device));
  }
  while (blocks_ != nullptr && blocks_->IsReleased()) Pop();
  const size_t num_bytes = graphffi::NumBytes(prototype);
  const int64_t begin = Align(data_, used_);
  bool is_heap = false;
  void* data = TakeData(begin, num_bytes, &is_heap);
  ScratchBlock* block = nullptr;
  try {
    block = ScratchBlock::Make(prototype, data, num_bytes);
  } catch (...) {
    if (is_heap) std::free(data);
    throw;
  }
  block->offset = used_;
  block->is_heap = is_heap;
  block->next = blocks_;
  blocks_ = block;
  used_ = begin + static_cast<int64_t>(num_bytes);
  peak_ = std::max(peak_, used_);
  return &block->managed;
}

int WorkspaceScope::Close() {
  int held = 0;
  while (blocks_ != nullptr) {
    held += blocks_->IsReleased() ? 0 : 1;
    Pop();
  }
  return held;
}

void RecordWorkspacePeak(const std::string& subject, int64_t peak, int64_t capacity) {
  Peaks& peaks = GetPeaks();
  std::lock_guard<std::mutex> lock(peaks.mutex);
  for (auto& [known, most, size] : peaks.uses) {
    if (known != subject) continue;
    if (peak > most) std::tie(most, size) = std::tie(peak, capacity);
    return;
  }
  if (peaks.uses.size() == kKeptPeaks) peaks.uses.pop_front();
  peaks.uses.emplace_back(subject, peak, capacity);
}

std::vector<WorkspaceUse> WorkspacePeaks() {
  Peaks& peaks = GetPeaks();
  std::lock_guard<std::mutex> lock(peaks.mutex);
  return {peaks.uses.begin(), peaks.uses.end()};
}

}  // namespace graphffi_jax
