// SPDX-License-Identifier: Apache-2.0
// A Tensor object made for one call around memory that a framework owns.
#pragma once

#include <tvm/ffi/c_api.h>

namespace graphffi {

/// How tensors that a framework owns are passed as owning Tensor objects: the object is *lent* for
/// the call, and what the kernel still holds when it returns either becomes an owner (`retain`) or
/// is an error.
struct Lending {
  /// Makes the memory of `source` outlive the call; gives a token for `release`. NULL: the
  /// framework can't.
  void* (*opt_retain)(const void* source) = nullptr;
  /// Runs on any thread, once the kernel's last reference is gone.
  void (*opt_release)(void* token) = nullptr;
};
/// The error for a tensor that a kernel still holds where it must not. The first words are those
/// that programs written for jax-tvm-ffi look for.
inline constexpr char kKeptTensor[] =
    "Leaked temp owned tensors: a kernel retained or returned a tensor that is only lent for the "
    "call; let it copy the data or write into an output";
/// For memory that ends with the call.
inline constexpr Lending kWithoutRetaining{};

/// Laid out like any Tensor object. Made and settled by one thread; a kernel may take and drop
/// references on any. Shape and strides are its own copies, so that they live as long as it does.
class alignas(64) LentTensor {
 public:
  TVMFFIAny AsAny() {
    TVMFFIAny value{};
    Put(&value);
    return value;
  }
  /// AsAny, field by field: as a whole, it would be made on the stack first.
  void Put(TVMFFIAny* value) {
    value->type_index = kTVMFFITensor;
    value->zero_padding = 0;
    value->v_obj = &header_;
  }

  /// The tensor of a `value` from AsAny.
  static const LentTensor* Of(const TVMFFIAny& value) {
    return reinterpret_cast<const LentTensor*>(value.v_obj);  // which begins with its header
  }
  static LentTensor* Of(TVMFFIAny* value) { return reinterpret_cast<LentTensor*>(value->v_obj); }
  /// The argument of Loans::Take.
  const void* source() const { return source_; }

  /// Where the memory begins that tensors may share, if whoever took this says so.
  const void* memory() const { return memory_; }
  void SetMemory(const void* memory) { memory_ = memory; }

  /// Nobody but the maker holds a strong or weak reference.
  bool IsUnique() const {
    return __atomic_load_n(&header_.combined_ref_count, __ATOMIC_ACQUIRE) == kUniqueCount;
  }

  /// Lends `source` instead, with as many dimensions, for which view() is to be filled in anew.
  void Replace(const void* source) { source_ = source; }

  /// To be filled in by whoever took it from Loans, who calls CopyDims then.
  DLTensor* view() { return &tensor_; }
  /// Makes copies of the shape and strides that view() points to; NULL strides are compact ones.
  /// \throws std::bad_alloc
  void CopyDims() {
    const int32_t ndim = tensor_.ndim;
    if (ndim > kInlineDims || tensor_.strides == nullptr) return CopyAnyDims();
    const int64_t *shape = tensor_.shape, *strides = tensor_.strides;
    tensor_.shape = inline_dims_;
    tensor_.strides = inline_dims_ + kInlineDims;
    for (int32_t i = 0; i < ndim; ++i) {
      inline_dims_[i] = shape[i];
      inline_dims_[kInlineDims + i] = strides[i];
    }
  }

 private:
  friend class Loans;
  friend struct LentTensorPool;
  static constexpr int32_t kInlineDims = 8;
  static constexpr uint64_t kUniqueCount = 1 | (uint64_t{1} << 32);

  static void Delete(void* self, int flags);
  void CopyAnyDims();
  void Clear();
  void Empty();
  // A Tensor object begins with these two. While it is pooled, the header says unique.
  TVMFFIObject header_;
  DLTensor tensor_;
  const void *source_, *memory_;
  LentTensor* next_;       // of the call's, or the pool's
  int64_t* opt_own_dims_;  // more than fit inline; NULL while pooled
  void (*opt_release_)(void* token);
  void* token_;
  int64_t inline_dims_[2 * kInlineDims];
};

/// A thread's blocks of tensors that nobody refers to, kept for its next calls.
struct LentTensorPool {
  static constexpr int32_t kCapacity = 256;
  LentTensor* first;
  int32_t size;    ///< with those that calls have now
  bool is_closed;  ///< the thread is ending

  static LentTensorPool& OfThread();
  LentTensor* Allocate();
  void Put(LentTensor* lent);
  /// Frees some until `most` are left, as far as calls don't have them.
  void Trim(int32_t most);
  void TrimOver() {
    if (is_closed || size > kCapacity) Trim(is_closed ? 0 : kCapacity);
  }
};

/// The tensors that are lent to one call. Lives on the stack of the calling thread.
class Loans {
 public:
  /// `lending` is borrowed.
  explicit Loans(const Lending& lending) : lending_(lending) {}
  ~Loans() {
    if (first_ != nullptr) Drop();
  }
  Loans(const Loans&) = delete;
  Loans& operator=(const Loans&) = delete;

  bool empty() const { return first_ == nullptr; }
  /// Whether `value` is one of them.
  bool Have(const TVMFFIAny& value) const {
    const LentTensor* lent = first_;
    while (lent != nullptr && &lent->header_ != value.v_obj) lent = lent->next_;
    return lent != nullptr;
  }

  /// A tensor with one reference, whose view is to be filled in; `source` is what Lending gets.
  /// \throws std::bad_alloc
  LentTensor* Take(const void* source) {
    if (pool_ == nullptr) pool_ = &LentTensorPool::OfThread();
    LentTensor* lent = pool_->first;
    if (lent != nullptr) {
      pool_->first = lent->next_;
    } else {
      lent = pool_->Allocate();
    }
    lent->source_ = source;
    lent->next_ = first_;
    first_ = lent;
    return lent;
  }
  /// A tensor like `source`. \throws std::bad_alloc
  TVMFFIAny Lend(const DLTensor* source) {
    LentTensor* lent = Take(source);
    *lent->view() = *source;
    lent->CopyDims();
    return lent->AsAny();
  }

  /// After the call: takes back what nobody holds and lets the rest outlive the call. 0, or -1
  /// with an error raised where that is not possible.
  int Settle() { return TakeBack() ? 0 : SettleEach(); }

 private:
  /// All of them, where none is held by anybody else nor has more than its block.
  bool TakeBack() {
    if (first_ == nullptr) return true;
    LentTensor* last = nullptr;
    for (LentTensor* lent = first_; lent != nullptr; lent = lent->next_) {
      if (!lent->IsUnique() || lent->opt_own_dims_ != nullptr) return false;
      last = lent;
    }
    last->next_ = pool_->first;
    pool_->first = first_;
    first_ = nullptr;
    pool_->TrimOver();
    return true;
  }
  int SettleEach();
  bool LetGo(LentTensor* lent, bool retains);
  bool LetGoEach(bool retains);
  void Drop();

  const Lending& lending_;
  LentTensorPool* pool_ = nullptr;  // this thread's, once something is lent
  LentTensor* first_ = nullptr;
};

}  // namespace graphffi
