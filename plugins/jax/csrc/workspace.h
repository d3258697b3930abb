// SPDX-License-Identifier: Apache-2.0
// Declared workspaces: a hidden result of a custom call, from which the env's allocator serves.
#pragma once

#include <tvm/ffi/extra/c_env_api.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "env/allocation.h"
#include "scratch_block.h"

namespace graphffi_jax {

/// Memory of the WorkspaceScope that is open on this thread, valid until that closes; on the CPU, a
/// heap block where none is.
int AllocateForCall(DLTensor* prototype, DLManagedTensorVersioned** out, void* error_context,
                    graphffi::SetAllocationError set_error);

/// An allocator that calls on the CPU leave in place, as they do AllocateForCall: the process's
/// shared one, which asks for memory of the open WorkspaceScope first.
inline DLPackManagedTensorAllocator shared_allocator = &AllocateForCall;
/// Has the shared allocator do so. Comes before any call. \throws Error
void JoinSharedAllocator();

/// The workspace of one call: what AllocateForCall hands out on this thread while it is open,
/// like a stack, 64-byte aligned: what the kernel releases is used again once all that came after
/// it is released too. On the CPU, what does not fit comes from the heap, so that the call can tell
/// how much it needs.
class WorkspaceScope {
 public:
  WorkspaceScope(void* data, int64_t capacity, DLDevice device);
  ~WorkspaceScope();
  WorkspaceScope(const WorkspaceScope&) = delete;
  WorkspaceScope& operator=(const WorkspaceScope&) = delete;

  /// How many tensors the kernel still holds, which are dangling now.
  int Close();
  /// The most bytes that the tensors took together, alignment included.
  int64_t peak() const { return peak_; }
  int64_t capacity() const { return capacity_; }

 private:
  friend class NoWorkspaceScope;
  friend int AllocateForCall(DLTensor*, DLManagedTensorVersioned**, void*,
                             graphffi::SetAllocationError);
  friend bool TryAllocateForCall(DLTensor*, DLManagedTensorVersioned**, void*,
                                 graphffi::SetAllocationError, int*);
  /// Stands for a call that has none.
  static WorkspaceScope* None() { return reinterpret_cast<WorkspaceScope*>(&none_); }
  DLManagedTensorVersioned* Allocate(const DLTensor& prototype);
  void Pop();
  void* TakeData(int64_t begin, size_t num_bytes, bool* is_heap) const;

  char* data_;
  int64_t capacity_, used_ = 0, peak_ = 0;
  DLDevice device_;
  WorkspaceScope* outer_;
  ScratchBlock* blocks_ = nullptr;

  static inline char none_;
  // NULL outside of calls on the CPU. Each call sets it: a call of the loader to find it would take
  // 5 of a call's 95 ns.
  [[gnu::tls_model("initial-exec")]] static inline thread_local WorkspaceScope* current_ = nullptr;
};

/// A call on the CPU without a workspace, which may come from a kernel that has one.
class NoWorkspaceScope {
 public:
  NoWorkspaceScope() : outer_(WorkspaceScope::current_) {
    WorkspaceScope::current_ = WorkspaceScope::None();
  }
  ~NoWorkspaceScope() { WorkspaceScope::current_ = outer_; }
  NoWorkspaceScope(const NoWorkspaceScope&) = delete;
  NoWorkspaceScope& operator=(const NoWorkspaceScope&) = delete;

 private:
  WorkspaceScope* outer_;
};

/// The most bytes that calls took of their workspace: subject, peak, capacity.
using WorkspaceUse = std::tuple<std::string, int64_t, int64_t>;

/// Keeps the largest for each subject, of the last kKeptPeaks subjects.
void RecordWorkspacePeak(const std::string& subject, int64_t peak, int64_t capacity);
std::vector<WorkspaceUse> WorkspacePeaks();
constexpr size_t kKeptPeaks = 1024;

/// Bytes that the last call with a workspace took, in any thread; 0 before there was one.
inline std::atomic<int64_t> last_workspace_peak{0};

}  // namespace graphffi_jax
