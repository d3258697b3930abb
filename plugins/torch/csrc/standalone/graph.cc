// SPDX-License-Identifier: Apache-2.0
#include "graph.h"

#include <string>
#include <vector>

#include "callframe/convert.h"
#include "callframe/value.h"
#include "env/allocation.h"
#include "env/env_scope.h"
#include "operands.h"
#include "results.h"
#include "run.h"

namespace graphffi_standalone {
namespace {

/// For kernels that allocate: what the host has set, else the heap.
class HeapScope {
 public:
  HeapScope()
      : scope_(&graphffi::AllocateOnHeap, TVMFFIEnvGetDLPackManagedTensorAllocator() == nullptr
                                              ? &graphffi::AllocateOnHeap
                                              : TVMFFIEnvGetDLPackManagedTensorAllocator()) {}

 private:
  graphffi::AllocatorScope scope_;
};

using Handles = std::vector<TVMFFIObjectHandle>;

/// References that a failed call gives up.
std::vector<Ref> Own(const Handles& handles) {
  std::vector<Ref> owned;
  owned.reserve(handles.size());
  for (TVMFFIObjectHandle handle : handles) owned.emplace_back(handle);
  return owned;
}

/// \throws graphffi::Error of the kernel or the model.
std::vector<Ref> RunModel(const Method& method, Operands* operands) {
  const HeapScope env;
  Handles inputs = operands->Release();
  Handles results(static_cast<size_t>(method.num_results), nullptr);
  try {
    method.run(inputs.data(), results.data());
  } catch (const graphffi::Error&) {
    throw;
  } catch (const std::exception& error) {
    const std::vector<Ref> given_up = Own(results);
    throw Run::TakeError(error.what());
  }
  return Own(results);
}

TVMFFIAny AsAny(Ref* tensor) {
  TVMFFIAny value{};
  value.type_index = kTVMFFITensor;
  value.v_obj = static_cast<TVMFFIObject*>(tensor->Release());
  return value;
}

TVMFFIAny AsArray(std::vector<Ref>* results) {
  std::vector<TVMFFIAny> values;
  for (Ref& result : *results) values.push_back(AsAny(&result));
  const std::vector<Ref> owned = [&] {
    std::vector<Ref> refs;
    for (const TVMFFIAny& value : values) refs.emplace_back(value.v_obj);
    return refs;
  }();
  return graphffi::MakeArray(values.data(), static_cast<int32_t>(values.size()));
}

/// The body of a function of TVM FFI: 0, or -1 with the error raised.
template <typename Body>
int RaiseErrors(Body&& body) {
  try {
    body();
    return 0;
  } catch (const graphffi::Error& error) {
    if (error.opt_object() == nullptr) return graphffi::SetRaised(error.kind(), error.message());
    TVMFFIErrorSetRaised(error.opt_object());
    return -1;
  } catch (const std::exception& error) {
    return graphffi::SetRaised("RuntimeError", error.what());
  }
}

}  // namespace

int RunMethod(const Method& method, const TVMFFIAny* args, int32_t num_args, TVMFFIAny* result) {
  return RaiseErrors([&] {
    Operands operands(method, args, num_args);
    HostResults host(method);
    const Run run(method, &host);
    std::vector<Ref> results = RunModel(method, &operands);
    for (size_t i = 0; i < results.size(); ++i) {
      results[i] = host.Finish(static_cast<int32_t>(i), std::move(results[i]));
    }
    operands.TakeBack();
    if (results.size() == 1) {
      *result = AsAny(&results.front());
    } else if (!results.empty()) {
      *result = AsArray(&results);
    }
  });
}

int RunMethodInto(const Method& method, const TVMFFIAny* args, int32_t num_args) {
  return RaiseErrors([&] {
    if (num_args != method.num_operands + method.num_results) {
      throw graphffi::Error("TypeError", std::string(method.name) + "_into: expected " +
                                             std::to_string(method.num_operands) +
                                             " operands and " + std::to_string(method.num_results) +
                                             " results, got " + std::to_string(num_args) +
                                             " arguments");
    }
    Operands operands(method, args, method.num_operands);
    Destinations destinations(method, args + method.num_operands, operands);
    const Run run(method, &destinations);
    destinations.Fill(RunModel(method, &operands));
    operands.TakeBack();
  });
}

}  // namespace graphffi_standalone
