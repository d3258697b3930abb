// SPDX-License-Identifier: Apache-2.0
#include "graphffi_torch/aoti_entry.h"

#include <memory>
#include <utility>

#include "call/value.h"
#include "call_site.h"
#include "errors.h"
#include "kernels/artifact.h"

namespace graphffi_torch {
namespace {

/// The error of a thread's last failed call. Leaked: it may refer to objects of Python.
std::unique_ptr<graphffi::Error>& LastError() {
  static thread_local auto* error = new std::unique_ptr<graphffi::Error>();
  return *error;
}

void RunCall(GraphffiCallV2* call, void* const* tensors, const int64_t* open_ints) {
  const CallSite& site = graphffi::SiteOf<CallSite>(call, [&] {
    const graphffi::KnownAttributes attributes = graphffi::AttributesOf(*call);
    return std::make_unique<const CallSite>(call->func, call->plan, graphffi::CountsOf(*call),
                                            call->digest, &attributes, graphffi::FolderOf(call));
  });
  c10::SmallVector<TVMFFIAny, 16> ints;
  for (int32_t i = 0; i < site.num_attributes(); ++i) ints.push_back(graphffi::ToAny(open_ints[i]));
  // An AtenTensorHandle is an at::Tensor*.
  site.RunGenerated(reinterpret_cast<const at::Tensor* const*>(tensors), ints.data(),
                    static_cast<size_t>(call->num_fresh));
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
