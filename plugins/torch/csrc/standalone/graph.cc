// SPDX-License-Identifier: Apache-2.0
#include "graph.h"

#include <algorithm>
#include <string>

#include "bounded_list.h"
#include "call/call_frame.h"
#include "call/convert.h"
#include "call/describe_tensor.h"
#include "call/lent_tensor.h"
#include "call/value.h"
#include "device.h"
#include "env/allocation.h"
#include "env/env_scope.h"
#include "nested.h"
#include "operands.h"
#include "results.h"
#include "run.h"
#include "workspace.h"

namespace graphffi_standalone {
namespace {

/// For graphs on GPUs, and kernels that allocate: what the host has set, else one of the library's.
DLPackManagedTensorAllocator AllocatorOf(DLPackManagedTensorAllocator opt_host) {
  if (opt_host != nullptr) return opt_host;
  return kOptDeviceKind == nullptr ? &graphffi::AllocateOnHeap : kOptDeviceKind->allocate;
}

/// Adds what the model returns to `results`. \throws graphffi::Error of a kernel or
/// of the model.
void RunModel(const Method& method, Operands* operands, BoundedList<ObjectRef>* results) {
  const DLDevice device = operands->device();
  void* stream = device.device_type == kDLCPU
                     ? nullptr
                     : TVMFFIEnvGetStream(device.device_type, device.device_id);
  method.prepare(device);
  BoundedList<TVMFFIObjectHandle> inputs(method.num_operands), made(method.num_results, nullptr);
  operands->Release(&inputs);
  const auto own = [&] {
    for (auto handle = made.begin(); handle != made.end(); ++handle) {
      // A tensor that is two results has one reference for both.
      const bool is_again = std::find(made.begin(), handle, *handle) != handle;
      if (is_again && *handle != nullptr) TVMFFIObjectIncRef(*handle);
      results->Add(*handle);
    }
  };
  try {
    method.run(device, stream, inputs.data(), made.data());
  } catch (const graphffi::Error&) {
    throw;
  } catch (const std::exception& error) {
    own();
    throw Run::TakeError(error.what());
  }
  own();
  // Generated code does not look at whether scattering failed, nor at whether copies of weights
  // that it returns could be made (torch 2.10 to 2.15).
  if (Run::has_error() || std::find(made.begin(), made.end(), nullptr) != made.end()) {
    throw Run::TakeError("graphffi: the model did not make a result");
  }
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

/// NULL for None. \throws Error(TypeError, ValueError, NotImplementedError)
const DLTensor* OptWorkspace(const Method& method, const TVMFFIAny* args, int32_t num_args) {
  if (method.device_type != kDLCPU) {
    throw graphffi::Error("NotImplementedError", std::string(method.name) +
                                                     "_within: expected a program on cpu, got one "
                                                     "on " +
                                                     kOptDeviceKind->name + "; call " +
                                                     method.name + "_into");
  }
  if (num_args > 0 && args[0].type_index == kTVMFFINone) return nullptr;
  const DLTensor* opt_memory = num_args == 0 ? nullptr : graphffi::TensorOf(args[0]);
  const std::string name = std::string(method.name) + "_within: workspace: expected ";
  if (opt_memory == nullptr)
    throw graphffi::Error("TypeError", name + "a tensor or None, got another value");
  if (opt_memory->device.device_type != kDLCPU || !graphffi::IsCompact(*opt_memory)) {
    throw graphffi::Error("ValueError", name + "a contiguous tensor on cpu, got " +
                                            graphffi::DescribeTensor(*opt_memory));
  }
  return opt_memory;
}

/// \throws Error(ValueError) if the workspace is memory of an argument
void CheckWorkspace(const Method& method, const DLTensor& workspace, const Arguments& arguments) {
  for (int32_t i = 0; i < arguments.size(); ++i) {
    const DLTensor* opt_tensor = graphffi::TensorOf(arguments.data()[i]);
    if (opt_tensor != nullptr && Overlap(workspace, *opt_tensor)) {
      throw graphffi::Error("ValueError", std::string(method.name) +
                                              "_within: workspace: expected memory of its own, got "
                                              "that of argument " +
                                              std::to_string(i));
    }
  }
}

/// Runs a method whose results, behind the operands, the caller passes, with memory of its own.
/// The name of the function that is called is the method's and `suffix`.
void RunInto(const Method& method, const char* suffix, const TVMFFIAny* args, int32_t num_args,
             const DLTensor* opt_workspace) {
  CheckProcessorOnce();
  const graphffi::AllocatorScope scope(AllocatorOf(TVMFFIEnvGetDLPackManagedTensorAllocator()));
  const Arguments arguments(method, args, num_args, /*has_results=*/true);
  if (arguments.size() != method.num_operands + method.num_results) {
    FailCount(method, suffix,
              graphffi::Counted(method.num_operands, "operand") + " and " +
                  graphffi::Counted(method.num_results, "result"),
              graphffi::Counted(arguments.size(), "argument"));
  }
  Operands operands(method, arguments.data(), method.num_operands);
  Destinations destinations(method, suffix, arguments.data() + method.num_operands, operands);
  if (opt_workspace != nullptr) CheckWorkspace(method, *opt_workspace, arguments);
  const Run run(method, &destinations);
  {
    BoundedList<ObjectRef> results(method.num_results);  // operands may be among them
    RunModel(method, &operands, &results);
    destinations.Fill(results);
  }
  operands.TakeBack();
}

constexpr char kModelError[] = "RuntimeError";  // the kind of a model's exceptions

}  // namespace

int RunMethod(const Method& method, const TVMFFIAny* args, int32_t num_args, TVMFFIAny* result) {
  return graphffi::RaiseErrors(kModelError, [&] {
    CheckProcessorOnce();
    const KeptMemory kept;
    const DLPackManagedTensorAllocator opt_host = TVMFFIEnvGetDLPackManagedTensorAllocator();
    const graphffi::AllocatorScope scope(AllocatorOf(opt_host));
    const Arguments arguments(method, args, num_args, /*has_results=*/false);
    Operands operands(method, arguments.data(), arguments.size());
    HostResults host(method, opt_host != nullptr);
    const Run run(method, &host);
    BoundedList<ObjectRef> results(method.num_results);
    RunModel(method, &operands, &results);
    for (int32_t i = 0; i < results.size(); ++i) host.Finish(i, &results, operands);
    operands.TakeBack();
    if (!results.empty()) *result = graphffi::ReleaseAny(NestResults(method, &results));
  });
}

int DescribeMethod(const char* text, TVMFFIAny* result) {
  return graphffi::RaiseErrors(kModelError,
                               [&] { *result = graphffi::ReleaseAny(graphffi::MakeString(text)); });
}

int RunMethodInto(const Method& method, const TVMFFIAny* args, int32_t num_args) {
  return graphffi::RaiseErrors(kModelError, [&] {
    const KeptMemory kept;
    RunInto(method, "_into", args, num_args, nullptr);
  });
}

int RunMethodWithin(const Method& method, const TVMFFIAny* args, int32_t num_args,
                    TVMFFIAny* result) {
  return graphffi::RaiseErrors(kModelError, [&] {
    const KeptMemory kept;
    const DLTensor* opt_memory = OptWorkspace(method, args, num_args);
    size_t bytes = 0;
    bool is_in_use = false;
    {
      Workspace workspace(opt_memory);
      RunInto(method, "_within", args + 1, num_args - 1, opt_memory);
      bytes = workspace.bytes();
      is_in_use = workspace.is_in_use();
    }
    if (is_in_use) throw graphffi::Error("RuntimeError", graphffi::kKeptTensor);
    result->type_index = kTVMFFIInt;
    result->v_int64 = static_cast<int64_t>(bytes);
  });
}

}  // namespace graphffi_standalone
