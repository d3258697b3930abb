// SPDX-License-Identifier: Apache-2.0
#include "graph.h"

#include <algorithm>
#include <string>
#include <vector>

#include "callframe/call_frame.h"
#include "callframe/convert.h"
#include "callframe/describe_tensor.h"
#include "callframe/value.h"
#include "env/allocation.h"
#include "env/env_scope.h"
#include "operands.h"
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

/// A result that outlives the call.
Ref Kept(Ref result) {
  const Tensor* opt_own = Tensor::OptOf(result.get());
  if (opt_own == nullptr || !opt_own->is_lent()) return result;
  return Ref(CompactCopy(opt_own->view())->handle());
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

/// Where the caller wants the results.
class Destinations {
 public:
  Destinations(const Method& method, const TVMFFIAny* args, const Operands& operands);

  const std::vector<const DLTensor*>& tensors() const { return tensors_; }
  /// Puts those results there that are not yet, and learns which allocation each one was.
  void Fill(const std::vector<Ref>& results) const;

 private:
  [[noreturn]] void Fail(int32_t i, const std::string& expected, const std::string& got) const;
  void CheckMemory(int32_t i, const Operands& operands) const;

  const Method& method_;
  std::vector<const DLTensor*> tensors_;
};

Destinations::Destinations(const Method& method, const TVMFFIAny* args, const Operands& operands)
    : method_(method) {
  for (int32_t i = 0; i < method.num_results; ++i) {
    const DLTensor* tensor = graphffi::TensorOf(args[i]);
    if (tensor == nullptr) {
      throw graphffi::Error("TypeError", std::string(method.name) + "_into: result " +
                                             std::to_string(i) +
                                             ": expected a tensor, got another value");
    }
    tensors_.push_back(tensor);
    if (tensor->device.device_type != kDLCPU || !graphffi::IsCompact(*tensor)) {
      Fail(i, "a contiguous tensor on cpu", graphffi::DescribeTensor(*tensor));
    }
    CheckMemory(i, operands);
  }
}

void Destinations::Fail(int32_t i, const std::string& expected, const std::string& got) const {
  throw graphffi::Error("ValueError", std::string(method_.name) + "_into: result " +
                                          std::to_string(i) + ": expected " + expected + ", got " +
                                          got);
}

void Destinations::CheckMemory(int32_t i, const Operands& operands) const {
  const DLTensor& tensor = *tensors_[static_cast<size_t>(i)];
  for (size_t k = 0; k < operands.views().size(); ++k) {
    if (Overlap(tensor, operands.views()[k])) {
      Fail(i, "memory of its own",
           std::string("memory shared with operand '") + method_.operands[k].name + "'");
    }
  }
  for (int32_t k = 0; k < i; ++k) {
    if (Overlap(tensor, *tensors_[static_cast<size_t>(k)])) {
      Fail(i, "memory of its own", "memory shared with result " + std::to_string(k));
    }
  }
}

void Destinations::Fill(const std::vector<Ref>& results) const {
  std::vector<Ref> copies;
  std::vector<const DLTensor*> sources;
  for (size_t i = 0; i < results.size(); ++i) {
    const DLTensor& result = *TVMFFITensorGetDLTensorPtr(results[i].get());
    const DLTensor& to = *tensors_[i];
    const bool has_dtype = std::memcmp(&result.dtype, &to.dtype, sizeof(DLDataType)) == 0;
    if (!has_dtype || result.ndim != to.ndim ||
        !std::equal(result.shape, result.shape + result.ndim, to.shape)) {
      Fail(static_cast<int32_t>(i), graphffi::DescribeTensor(result), graphffi::DescribeTensor(to));
    }
    const bool is_there = DataOf(result) == DataOf(to) && graphffi::IsCompact(result);
    sources.push_back(is_there ? nullptr : &result);
    // In the memory of another destination, which may be filled before.
    const auto shares = [&](const DLTensor* other) { return Overlap(result, *other); };
    if (!is_there && std::any_of(tensors_.begin(), tensors_.end(), shares)) {
      copies.emplace_back(CompactCopy(result)->handle());
      sources.back() = TVMFFITensorGetDLTensorPtr(copies.back().get());
    }
    Tensor* opt_own = Tensor::OptOf(results[i].get());
    Tensor* opt_root = opt_own == nullptr ? nullptr : Tensor::OptOf(opt_own->root());
    if (opt_root != nullptr) {
      __atomic_store_n(&method_.ordinals[i], opt_root->ordinal(), __ATOMIC_RELAXED);
    }
  }
  for (size_t i = 0; i < sources.size(); ++i) {
    if (sources[i] != nullptr) CopyElements(*sources[i], *tensors_[i]);
  }
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
    std::vector<Ref> results = RunModel(method, &operands);
    for (Ref& each : results) each = Kept(std::move(each));
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
    const Destinations destinations(method, args + method.num_operands, operands);
    std::vector<int32_t> ordinals(static_cast<size_t>(method.num_results));
    for (size_t i = 0; i < ordinals.size(); ++i) {
      ordinals[i] = __atomic_load_n(&method.ordinals[i], __ATOMIC_RELAXED);
    }
    const Run run(destinations.tensors().data(), ordinals.data(), method.num_results);
    destinations.Fill(RunModel(method, &operands));
    operands.TakeBack();
  });
}

}  // namespace graphffi_standalone
