// SPDX-License-Identifier: Apache-2.0
#include "graph.h"

#include <algorithm>
#include <list>
#include <string>
#include <vector>

#include "callframe/convert.h"
#include "callframe/owned_values.h"
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

/// \throws Error(RuntimeError) on a processor that has not what the code was made for.
void CheckProcessor() {
  std::string missing;
  for (const Instructions* each = kInstructions; each->opt_name != nullptr; ++each) {
    if (!each->are_known()) missing += (missing.empty() ? "" : ", ") + std::string(each->opt_name);
  }
  if (!missing.empty()) {
    throw graphffi::Error(
        "RuntimeError",
        "graphffi: expected a processor with the instructions that the library was "
        "made for, got one without " +
            missing + "; make the library with isa='avx2', or on this machine");
  }
}

void CheckProcessorOnce() {
  static const bool is_checked = (CheckProcessor(), true);
  static_cast<void>(is_checked);
}

/// The arguments of a call, of which lists stand for their elements.
class Arguments {
 public:
  Arguments(const TVMFFIAny* args, int32_t num_args) : args_(args), num_args_(num_args) {
    if (std::none_of(args, args + num_args, &IsList)) return;
    Add(args, num_args);
    args_ = values_.data();
    num_args_ = static_cast<int32_t>(values_.size());
  }

  const TVMFFIAny* data() const { return args_; }
  int32_t size() const { return num_args_; }

 private:
  static bool IsList(const TVMFFIAny& value) { return value.type_index == kTVMFFIArray; }

  void Add(const TVMFFIAny* values, int32_t count) {
    for (int32_t i = 0; i < count; ++i) {
      if (!IsList(values[i])) {
        values_.push_back(values[i]);
        continue;
      }
      lists_.push_back(graphffi::ElementsOf(values[i]));
      Add(lists_.back().data(), lists_.back().size());
    }
  }

  const TVMFFIAny* args_;
  int32_t num_args_;
  std::vector<TVMFFIAny> values_;
  std::list<graphffi::OwnedValues> lists_;  // own what the values refer to
};

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
    CheckProcessorOnce();
    const Arguments arguments(args, num_args);
    Operands operands(method, arguments.data(), arguments.size());
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
    CheckProcessorOnce();
    const Arguments arguments(args, num_args);
    if (arguments.size() != method.num_operands + method.num_results) {
      throw graphffi::Error("TypeError", std::string(method.name) + "_into: expected " +
                                             std::to_string(method.num_operands) +
                                             " operands and " + std::to_string(method.num_results) +
                                             " results, got " + std::to_string(arguments.size()) +
                                             " arguments");
    }
    Operands operands(method, arguments.data(), method.num_operands);
    Destinations destinations(method, arguments.data() + method.num_operands, operands);
    const Run run(method, &destinations);
    destinations.Fill(RunModel(method, &operands));
    operands.TakeBack();
  });
}

}  // namespace graphffi_standalone
