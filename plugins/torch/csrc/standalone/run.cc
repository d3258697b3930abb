// SPDX-License-Identifier: Apache-2.0
#include "run.h"

#include <dlfcn.h>
#include <pthread.h>

#include <memory>
#include <new>
#include <string>
#include <utility>

#include "loop_error.h"
#include "workspace.h"

extern "C" int omp_get_max_threads();

namespace graphffi_standalone {
namespace {

/// OpenMP's name of a function that libgomp has from GCC 9 on, and its argument `omp_pause_soft`.
constexpr char kPause[] = "omp_pause_resource_all";
constexpr int kSoftly = 1;

thread_local bool has_run = false;
int (*opt_pause)(int) = nullptr;

/// Ends the threads that run parallel loops for a thread that forks. Its child has none of them,
/// and libgomp would wait for them forever. Both processes start others.
void EndTeam() {
  if (has_run && opt_pause != nullptr && omp_get_max_threads() > 1) opt_pause(kSoftly);
}

[[gnu::constructor]] void WatchForks() {
  opt_pause = reinterpret_cast<int (*)(int)>(dlsym(RTLD_DEFAULT, kPause));
  pthread_atfork(&EndTeam, nullptr, nullptr);
}

}  // namespace

thread_local Run* Run::current_ = nullptr;
thread_local graphffi::Error* Run::error_ = nullptr;

Run::Run(const Method& method, ResultMemory* memory)
    : memory_(memory),
      ordinals_(method.num_results),
      opt_outer_(current_),
      opt_outer_error_(std::exchange(error_, nullptr)) {
  // Runs in a workspace take what was counted, whatever has been learnt of the results since.
  const bool is_counted = Workspace::OptCurrent() != nullptr;
  for (int32_t i = 0; i < method.num_results && !is_counted; ++i) {
    ordinals_.Add(__atomic_load_n(&method.ordinals[i], __ATOMIC_RELAXED));
  }
  current_ = this;
  has_run = true;
}

Run::~Run() {
  current_ = opt_outer_;
  delete std::exchange(error_, opt_outer_error_);
}

Tensor* Run::Allocate(const DLTensor& prototype) {
  Run* run = current_;
  if (run == nullptr) return Tensor::Allocate(prototype);
  const int32_t ordinal = run->num_allocated_++;
  Tensor* tensor = nullptr;
  for (int32_t i = 0; i < run->ordinals_.size() && tensor == nullptr; ++i) {
    if (run->ordinals_[i] == ordinal) tensor = run->memory_->OptTake(i, prototype);
  }
  if (tensor == nullptr) tensor = Tensor::Allocate(prototype);
  tensor->set_ordinal(ordinal);
  return tensor;
}

int32_t Run::Fail(graphffi::Error error) {
  delete std::exchange(error_, nullptr);
  error_ = new graphffi::Error(std::move(error));
  return 1;
}

graphffi::Error Run::TakeError(const char* what) {
  const std::unique_ptr<graphffi::Error> kept(std::exchange(error_, nullptr));
  return kept == nullptr ? graphffi::Error("RuntimeError", what) : *kept;
}

void Fail(const char* kind, const char* message) { throw graphffi::Error(kind, message); }

void FailIndex(int64_t index, int64_t size, const char* note) {
  const std::string expected =
      size < 0 ? "of 0 or more" : "into " + std::to_string(size) + " elements";
  throw graphffi::Error("IndexError", "graphffi: a model's index: expected one " + expected +
                                          ", got " + std::to_string(index) + note);
}

int32_t KeepCaught() {
  try {
    throw;
  } catch (const graphffi::Error& error) {
    return Run::Fail(error);
  } catch (const std::bad_alloc&) {
    return Run::Fail({"MemoryError", "graphffi: out of memory"});
  } catch (const std::exception& error) {
    return Run::Fail({"RuntimeError", error.what()});
  }
}

const char* Run::ErrorText() { return error_ == nullptr ? "" : error_->what(); }

}  // namespace graphffi_standalone
