// SPDX-License-Identifier: Apache-2.0
#include "callframe/lent_tensor.h"

#include <cstdlib>
#include <cstring>
#include <new>

#include "callframe/call_frame.h"

namespace graphffi {

namespace {
constexpr uint64_t kUniqueCount = 1 | (uint64_t{1} << 32);
constexpr int kPoolCapacity = 64;

/// False once this thread's pool is gone; trivially destructible, so that it can still be read
/// then.
thread_local bool pool_alive = false;
}  // namespace

struct LentTensorPool {
  LentTensor* head = nullptr;
  int size = 0;
  LentTensorPool() { pool_alive = true; }
  ~LentTensorPool() {
    pool_alive = false;
    while (head != nullptr) {
      LentTensor* next = head->next();
      std::free(head);
      head = next;
    }
  }
};

LentTensorPool& LentTensor::ThreadPool() {
  thread_local LentTensorPool pool;
  return pool;
}

LentTensor* LentTensor::Make(const DLTensor& source, LentTensorPool& pool) {
  LentTensor* self = pool.head;
  if (self != nullptr) {
    pool.head = self->next_;
    --pool.size;
  } else {
    self = static_cast<LentTensor*>(std::malloc(sizeof(LentTensor)));
    if (self == nullptr) throw std::bad_alloc();
  }
  self->header_.combined_ref_count = kUniqueCount;
  self->header_.type_index = kTVMFFITensor;
  self->header_.__padding = 0;
  self->header_.deleter = &LentTensor::Delete;
  self->tensor_ = source;
  self->source_ = &source;
  self->next_ = nullptr;
  self->opt_release_ = nullptr;
  self->opt_heap_dims_ = nullptr;

  const int32_t ndim = source.ndim;
  int64_t* dims = self->inline_dims_;
  if (ndim > kInlineDims) {
    dims = static_cast<int64_t*>(std::malloc(sizeof(int64_t) * 2 * static_cast<size_t>(ndim)));
    if (dims == nullptr) {
      std::free(self);
      throw std::bad_alloc();
    }
    self->opt_heap_dims_ = dims;
  }
  for (int32_t i = 0; i < ndim; ++i) dims[i] = source.shape[i];
  if (source.strides != nullptr) {
    for (int32_t i = 0; i < ndim; ++i) dims[ndim + i] = source.strides[i];
  } else {
    FillCompactStrides(source.shape, ndim, dims + ndim);
  }
  self->tensor_.shape = dims;
  self->tensor_.strides = dims + ndim;
  return self;
}

bool LentTensor::IsUnique() const {
  return __atomic_load_n(&header_.combined_ref_count, __ATOMIC_ACQUIRE) == kUniqueCount;
}

void LentTensor::Retain(void* token, void (*release)(void* token)) {
  token_ = token;
  opt_release_ = release;
}

void LentTensor::Drop(LentTensorPool& pool) {
  if (IsUnique()) {
    Clear();
    Free(&pool);
  } else {
    TVMFFIObjectDecRef(this);
  }
}

void LentTensor::Clear() {
  if (opt_release_ != nullptr) opt_release_(token_);
  opt_release_ = nullptr;
}

void LentTensor::Delete(void* handle, int flags) {
  auto* self = static_cast<LentTensor*>(handle);
  if ((flags & kTVMFFIObjectDeleterFlagBitMaskStrong) != 0) self->Clear();
  if ((flags & kTVMFFIObjectDeleterFlagBitMaskWeak) == 0) return;
  self->Free(pool_alive ? &ThreadPool() : nullptr);
}

void LentTensor::Free(LentTensorPool* opt_pool) {
  if (opt_heap_dims_ != nullptr) std::free(opt_heap_dims_);
  if (opt_pool == nullptr || opt_pool->size >= kPoolCapacity) return std::free(this);
  next_ = opt_pool->head;
  opt_pool->head = this;
  ++opt_pool->size;
}

}  // namespace graphffi
