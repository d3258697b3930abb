// SPDX-License-Identifier: Apache-2.0
#include "graphffi_torch/aoti_entry.h"

#include <memory>
#include <utility>

#include "aot_error.h"
#include "call_site.h"
#include "kernels/artifact.h"

namespace graphffi_torch {
namespace {

/// The error of a thread's last failed call. Leaked: it may refer to objects of Python.
std::unique_ptr<graphffi::Error>& LastError() {
  static thread_local auto* error = new std::unique_ptr<graphffi::Error>();
  return *error;
}

const BoundSite* MakeSite(GraphffiCallV2* call) {
  SiteArguments arguments{call->func,
                          call->num_inputs,
                          call->num_outputs,
                          call->plan,
                          {call->ints, call->ints + call->num_ints},
                          {call->floats, call->floats + call->num_floats},
                          {},
                          call->digest};
  for (int32_t i = 0; i < call->num_open_ints; ++i) {
    arguments.ints[static_cast<size_t>(call->open_ints[i])].reset();
  }
  for (int32_t i = 0; i < call->num_strs; ++i)
    arguments.strs.push_back(graphffi::TextOfCode(call->strs[i]));
  auto made = std::make_unique<BoundSite>(arguments, call->num_fresh, graphffi::FolderOf(call));
  void* none = nullptr;
  if (__atomic_compare_exchange_n(&call->site, &none, made.get(), false, __ATOMIC_ACQ_REL,
                                  __ATOMIC_ACQUIRE)) {
    return made.release();
  }
  return static_cast<const BoundSite*>(none);  // another thread was faster
}

void RunCall(GraphffiCallV2* call, void* const* tensors, const int64_t* open_ints) {
  const auto* site = static_cast<const BoundSite*>(__atomic_load_n(&call->site, __ATOMIC_ACQUIRE));
  if (site == nullptr) site = MakeSite(call);
  static const at::Tensor* const undefined = new at::Tensor();
  c10::SmallVector<const at::Tensor*, 16> unpacked;
  for (int32_t i = 0; i < site->num_tensors(); ++i) {
    // An AtenTensorHandle is an at::Tensor*.
    unpacked.push_back(tensors[i] == nullptr ? undefined
                                             : static_cast<const at::Tensor*>(tensors[i]));
  }
  site->Run(unpacked.data(), open_ints);
}

int32_t Keep(graphffi::Error error) {
  LastError() = std::make_unique<graphffi::Error>(std::move(error));
  return -1;
}

}  // namespace

std::unique_ptr<graphffi::Error> TakeAotError() { return std::move(LastError()); }

}  // namespace graphffi_torch

int32_t aoti_torch_graphffi_call_v2(GraphffiCallV2* call, void* const* tensors,
                                    const int64_t* open_ints) {
  using namespace graphffi_torch;  // NOLINT: C functions live outside
  try {
    RunCall(call, tensors, open_ints);
    return 0;
  } catch (const graphffi::Error& error) {
    return Keep(error);
  } catch (const c10::Error& error) {
    return Keep({"RuntimeError", error.what_without_backtrace()});
  } catch (const std::exception& error) {
    return Keep({"RuntimeError", error.what()});
  }
}

const char* aoti_torch_graphffi_error_v2(void) {
  const auto& error = graphffi_torch::LastError();
  return error == nullptr ? "" : error->what();
}

int32_t aoti_torch_graphffi_set_pending_v2(void) {
  auto& error = graphffi_torch::LastError();
  if (error == nullptr || !graphffi_torch::SetPendingError(*error)) return 0;
  error.reset();
  return 1;
}
