// SPDX-License-Identifier: Apache-2.0
// Errors of generated loops: what no exception may leave keeps the first one.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <type_traits>

namespace graphffi_standalone {

/// The error of a parallel region. Lives on the stack of the thread that begins it.
class LoopError {
 public:
  /// The rest of the region's iterations do nothing then.
  bool is_set() const { return is_set_.load(std::memory_order_relaxed); }
  /// In a handler of exceptions, on any thread of the region.
  void Keep() noexcept {
    if (!is_set_.exchange(true)) error_ = std::current_exception();
  }
  /// After the region. \throws the first error
  void Throw() const {
    if (error_ != nullptr) std::rethrow_exception(error_);
  }

 private:
  std::atomic<bool> is_set_{false};
  std::exception_ptr error_;
};

/// \throws Error(IndexError). The size is -1 where the code does not look at it. The note is behind
/// the index in the error.
[[noreturn]] void FailIndex(int64_t index, int64_t size, const char* note = "");

/// For the first index of a vector that is none of a dimension of `size` elements. `given` is what
/// it was before sizes were added to negative ones. \throws Error(IndexError)
template <typename Index, typename Given>
[[noreturn]] void FailIndex(const Index& index, const Given& given, int64_t size) {
  if constexpr (std::is_arithmetic_v<Given>) {
    FailIndex(static_cast<int64_t>(given), size);
  } else {
    typename Index::value_type values[Index::size()];
    index.store(values);
    int i = 0;
    while (i + 1 < Index::size() && values[i] >= 0 && (size < 0 || values[i] < size)) ++i;
    // The code has added the size to negative ones, if it lets these count from the end.
    const char* note = values[i] < 0 ? ", counted from the first element" : "";
    FailIndex(static_cast<int64_t>(values[i]), size, note);
  }
}

}  // namespace graphffi_standalone
