// SPDX-License-Identifier: Apache-2.0
#include "call/lent_tensor.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "call/call_frame.h"
#include "call/error.h"

namespace graphffi {

namespace {

/// Constant-initialized and trivially destructible: readable at any time, at little cost.
thread_local LentTensorPool thread_pool{nullptr, 0, false};

/// Frees the blocks of a thread that ends.
struct PoolCloser {
  void Touch() {}
  ~PoolCloser() {
    LentTensorPool& pool = LentTensorPool::OfThread();
    pool.is_closed = true;
    pool.Trim(0);
  }
};
thread_local PoolCloser pool_closer;

}  // namespace

LentTensorPool& LentTensorPool::OfThread() { return thread_pool; }

void LentTensorPool::Trim(int32_t most) {
  while (size > most && first != nullptr) {
    LentTensor* lent = first;
    first = lent->next_;
    --size;
    std::free(lent);
  }
}

LentTensor* LentTensorPool::Allocate() {
  pool_closer.Touch();
  void* memory = std::aligned_alloc(alignof(LentTensor), sizeof(LentTensor));
  if (memory == nullptr) throw std::bad_alloc();
  auto* self = static_cast<LentTensor*>(std::memset(memory, 0, sizeof(LentTensor)));
  self->header_.combined_ref_count = LentTensor::kUniqueCount;
  self->header_.type_index = kTVMFFITensor;
  self->header_.deleter = &LentTensor::Delete;
  ++size;
  return self;
}

void LentTensor::CopyAnyDims() {
  const auto ndim = static_cast<size_t>(tensor_.ndim);
  int64_t* dims = inline_dims_;
  if (opt_own_dims_ != nullptr) {
    dims = opt_own_dims_;  // of what was lent before, with as many dimensions
  } else if (ndim > kInlineDims) {
    dims = static_cast<int64_t*>(std::malloc(2 * ndim * sizeof(int64_t)));
    if (dims == nullptr) throw std::bad_alloc();
    opt_own_dims_ = dims;
  }
  graphffi::CopyDims(tensor_, dims);
  tensor_.shape = dims;
  tensor_.strides = dims + ndim;
}

/// Leaves a tensor without elements to whoever kept it.
void LentTensor::Empty() {
  tensor_.data = nullptr;
  tensor_.ndim = std::max(tensor_.ndim, 1);  // one without dimensions has an element
  for (int32_t i = 0; i < tensor_.ndim; ++i) tensor_.shape[i] = 0;
}

/// Once the last strong reference is gone.
void LentTensor::Clear() {
  if (opt_release_ != nullptr) opt_release_(token_);
  opt_release_ = nullptr;
}

void LentTensor::Delete(void* handle, int flags) {
  auto* self = static_cast<LentTensor*>(handle);
  if ((flags & kTVMFFIObjectDeleterFlagBitMaskStrong) != 0) self->Clear();
  if ((flags & kTVMFFIObjectDeleterFlagBitMaskWeak) != 0) LentTensorPool::OfThread().Put(self);
}

/// Takes a tensor that nobody refers to and no pool counts. Called by the thread that ended it.
void LentTensorPool::Put(LentTensor* lent) {
  std::free(lent->opt_own_dims_);
  if (is_closed || size >= kCapacity) return std::free(lent);
  lent->opt_own_dims_ = nullptr;
  lent->header_.combined_ref_count = LentTensor::kUniqueCount;
  pool_closer.Touch();
  lent->next_ = first;
  first = lent;
  ++size;
}

/// False for a tensor that somebody holds and whose memory ends with the call: it is made empty.
/// Without `retains`, the framework is not asked to keep the memory.
bool Loans::LetGo(LentTensor* lent, bool retains) {
  --pool_->size;
  if (lent->IsUnique()) {
    pool_->Put(lent);
    return true;
  }
  const bool can_retain = retains && lending_.opt_retain != nullptr;
  void* token = can_retain ? lending_.opt_retain(lent->source_) : nullptr;
  if (token != nullptr) {
    lent->token_ = token;
    lent->opt_release_ = lending_.opt_release;
  } else {
    lent->Empty();  // the memory is going away
  }
  TVMFFIObjectDecRef(lent);
  return token != nullptr;
}

bool Loans::LetGoEach(bool retains) {
  bool are_fine = true;
  while (first_ != nullptr) {
    LentTensor* lent = std::exchange(first_, first_->next_);
    are_fine = LetGo(lent, retains) && are_fine;
  }
  return are_fine;
}

int Loans::SettleEach() {
  return LetGoEach(/*retains=*/true) ? 0 : SetRaised("RuntimeError", kKeptTensor);
}

/// Ends the loans of a call that was not made.
void Loans::Drop() {
  if (!TakeBack()) LetGoEach(/*retains=*/false);
}

}  // namespace graphffi
