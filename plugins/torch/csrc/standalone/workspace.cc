// SPDX-License-Identifier: Apache-2.0
#include "workspace.h"

#include <atomic>
#include <string>

#include "call/error.h"
#include "graph.h"
#include "tensor.h"

namespace graphffi_standalone {

namespace {

std::atomic<uint64_t> next_id{1};

}  // namespace

thread_local Workspace* Workspace::current_ = nullptr;

Workspace::Workspace(const DLTensor* opt_memory)
    : id_(next_id.fetch_add(1, std::memory_order_relaxed)),
      is_counting_(opt_memory == nullptr),
      opt_begin_(is_counting_ ? nullptr : DataOf(*opt_memory)),
      capacity_(is_counting_ ? 0 : SpanBytes(*opt_memory)) {
  const size_t skipped = -reinterpret_cast<uintptr_t>(opt_begin_) % kAlignment;
  opt_begin_ += skipped;
  capacity_ -= skipped < capacity_ ? skipped : capacity_;
  current_ = this;
}

void* Workspace::Take(size_t bytes) {
  const SizeClass size = SizeClass::Of(bytes);
  if (size.index >= kNumSizeClasses) FailAllocation(bytes);
  if (is_counting()) {
    void* memory = TakeMemory(bytes);
    ++num_taken_;
    if (num_free_[size.index] > 0) {
      --num_free_[size.index];
    } else {
      used_ += size.bytes;
    }
    return memory;
  }
  void* memory = opt_free_[size.index];
  if (memory != nullptr) {
    opt_free_[size.index] = opt_free_[size.index]->opt_next;
  } else {
    if (size.bytes > capacity_ - used_) {
      throw graphffi::Error("MemoryError", "graphffi: workspace: expected room for " +
                                               std::to_string(size.bytes) + " bytes more, got " +
                                               std::to_string(capacity_ - used_) +
                                               "; pass None for it to learn how many are needed");
    }
    memory = opt_begin_ + used_;
    used_ += size.bytes;
  }
  ++num_taken_;
  return memory;
}

void Workspace::Give(void* memory, size_t bytes) {
  const SizeClass size = SizeClass::Of(bytes);
  --num_taken_;
  if (is_counting()) {
    ++num_free_[size.index];
    GiveMemory(memory, bytes);
    return;
  }
  auto* block = static_cast<FreeBlock*>(memory);
  block->opt_next = opt_free_[size.index];
  opt_free_[size.index] = block;
}

KeptMemory::KeptMemory() : opt_workspace_(Workspace::OptExchange(nullptr)) {}
KeptMemory::~KeptMemory() { Workspace::OptExchange(opt_workspace_); }

}  // namespace graphffi_standalone
