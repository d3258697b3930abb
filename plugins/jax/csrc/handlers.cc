// SPDX-License-Identifier: Apache-2.0
// The handlers of the custom-call targets tvm_ffi.call and tvm_ffi.call_graph, and what Python asks
// of this library.
#include <tvm/ffi/c_api.h>

#include <algorithm>
#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include "allocator.h"
#include "attributes.h"
#include "callframe/allocation.h"
#include "callframe/env_scope.h"
#include "callframe/error.h"
#include "callframe/returned.h"
#include "error_ring.h"
#include "exit_gate.h"
#include "site.h"
#include "tensors.h"
#include "xla_api.h"

namespace graphffi {
namespace {

/// What a handler is registered for.
struct Target {
  DLDeviceType device_type;
  bool graph;  ///< may be recorded into a command buffer
};

Error InternalError(const std::string& what) {
  return Error("InternalError",
               "graphffi: " + what + "; this is a bug in graphffi or in jaxlib, please report it");
}

/// \throws Error for a call that these handlers can't read.
void CheckCall(const xla::CallFrame& call, xla::Stage stage) {
  if (call.struct_size < sizeof(xla::CallFrame)) {
    throw InternalError("expected a call frame of " + std::to_string(sizeof(xla::CallFrame)) +
                        " bytes, got " + std::to_string(call.struct_size));
  }
  if (call.stage != stage) {
    throw InternalError("expected execution stage " + std::to_string(stage) + ", got " +
                        std::to_string(call.stage));
  }
}

/// Everything around a handler's own work: metadata, foreign versions, exceptions.
template <typename Work>
xla::Status* Guarded(const xla::CallFrame* call, xla::Stage stage, uint32_t traits, Work&& work) {
  for (auto* extension = call->extension; extension != nullptr; extension = extension->next) {
    if (extension->type != xla::kMetadataExtension) continue;
    return xla::ReplyMetadata(*call, static_cast<const xla::MetadataExtension&>(*extension),
                              traits);
  }
  const xla::Api* api = call->api;
  if (api->version.major != xla::kNewestMajor) {
    return xla::MakeStatus(api, xla::kUnimplemented,
                           "graphffi: expected XLA FFI API version 0.x, got " +
                               std::to_string(api->version.major) + "." +
                               std::to_string(api->version.minor) + "; install a newer graphffi");
  }
  try {
    CheckCall(*call, stage);
    return work();
  } catch (const Error& error) {
    return Report(api, error, "");
  } catch (const std::exception& error) {
    return Report(api, InternalError(error.what()), "");
  } catch (...) {
    return Report(api, InternalError("an exception of unknown type"), "");
  }
}

xla::Status* Instantiate(const xla::CallFrame* call, uint32_t traits) {
  return Guarded(call, xla::kInstantiate, traits, [&]() -> xla::Status* {
    CallAttributes attributes = CallAttributes::Decode(call->attributes);
    std::string subject = attributes.subject;
    try {
      Site* site = Site::Get(std::move(attributes));
      xla::Status* status = xla::SetState(*call, site);
      if (status != nullptr) site->Release();
      return status;
    } catch (const Error& error) {
      return Report(call->api, error, subject);
    }
  });
}

/// The kernel's call, in an env that is set. \throws Error
void CallKernel(const Site& site, const CallValues& values) {
  // Without retain: XLA takes its buffers back when the call returns.
  static constexpr Lending kLending;
  CallFrame frame(site.lends() ? &kLending : nullptr);
  frame.PushPlan(site.plan(), values);
  Results results;
  results.outputs = values.outputs;
  results.count = values.outputs.size - static_cast<int32_t>(site.mutated());
  results.is_passed = site.PassesResults(results.count);
  CallForResults(site.kernel(), results, &frame);
}

CallValues ValuesOf(const xla::CallFrame& call, const Site& site, const Tensors& tensors) {
  int64_t num_inputs = call.args.size - site.mutated();
  if (num_inputs < 0 || call.rets.size < site.mutated()) {
    throw Error("ValueError", "attribute 'mutated': expected at most " +
                                  std::to_string(std::min(call.args.size, call.rets.size)) +
                                  ", got " + std::to_string(site.mutated()));
  }
  CallValues values;
  values.inputs = {tensors.values(), nullptr, static_cast<int32_t>(num_inputs)};
  values.outputs = {tensors.values() + call.args.size, nullptr,
                    static_cast<int32_t>(call.rets.size)};
  values.attributes = site.attributes();
  return values;
}

void ExecuteOnCpu(const xla::CallFrame& call, const Site& site) {
  constexpr DLDevice kDevice = {kDLCPU, 0};
  Tensors tensors(call, kDevice);
  EnvScope env(kDevice, nullptr, &AllocateOnHeap);
  CallKernel(site, ValuesOf(call, site, tensors));
}

void ExecuteOnGpu(const xla::CallFrame& call, const Site& site, Target target) {
  DLDevice device = {target.device_type, xla::GetDeviceOrdinal(call)};
  Tensors tensors(call, device);
  CallValues values = ValuesOf(call, site, tensors);
  values.stream = xla::GetStream(call);
  EnvScope env(device, values.stream, target.graph ? &RefuseUnderCapture : &AllocateScratch);
  ScratchScope scratch(call);
  CallKernel(site, values);
  if (int held = scratch.Close()) {
    throw Error("RuntimeError", "graphffi: the kernel kept " + std::to_string(held) +
                                    " of the tensors that it allocated; XLA's scratch memory lives "
                                    "as long as the call");
  }
}

xla::Status* Execute(const xla::CallFrame* call, Target target, uint32_t traits) {
  return Guarded(call, xla::kExecute, traits, [&]() -> xla::Status* {
    void* state = nullptr;
    if (xla::Status* status = xla::GetState(*call, &state)) return status;
    auto& site = *static_cast<const Site*>(state);
    GatedCall gate(site.gated());
    if (!gate.admitted()) {
      return xla::MakeStatus(call->api, xla::kCancelled,
                             site.subject() + ": the process is ending");
    }
    try {
      if (target.device_type == kDLCPU) {
        ExecuteOnCpu(*call, site);
      } else {
        ExecuteOnGpu(*call, site, target);
      }
      return nullptr;
    } catch (const Error& error) {
      return Report(call->api, error, site.subject());
    }
  });
}

template <DLDeviceType kDeviceType, bool kGraph>
struct Handlers {
  static constexpr uint32_t kTraits = kGraph ? uint32_t{xla::kCommandBufferCompatible} : 0;
  static xla::Status* Instantiate(xla::CallFrame* call) {
    return graphffi::Instantiate(call, kTraits);
  }
  static xla::Status* Execute(xla::CallFrame* call) {
    return graphffi::Execute(call, Target{kDeviceType, kGraph}, kTraits);
  }
};

template <DLDeviceType kDeviceType>
xla::Handler* Find(std::string_view target, std::string_view stage) {
  using Plain = Handlers<kDeviceType, false>;
  using Graph = Handlers<kDeviceType, true>;
  if (target == "tvm_ffi.call") return stage == "execute" ? Plain::Execute : Plain::Instantiate;
  if (target == "tvm_ffi.call_graph")
    return stage == "execute" ? Graph::Execute : Graph::Instantiate;
  return nullptr;
}

/// The function graphffi_jax.raise_error(number): raises the kept error, or returns None.
int RaiseError(void*, const TVMFFIAny* args, int32_t num_args, TVMFFIAny*) {
  if (num_args != 1 || args[0].type_index != kTVMFFIInt) {
    return SetRaised("TypeError", "graphffi_jax.raise_error: expected an int");
  }
  return RaiseKept(args[0].v_int64) ? -1 : 0;
}

}  // namespace
}  // namespace graphffi

extern "C" {

/// The handler that Python registers with XLA; NULL for an unknown target, platform or stage.
TVM_FFI_DLL_EXPORT void* graphffi_jax_handler(const char* target, const char* platform,
                                              const char* stage) {
  using namespace graphffi;
  std::string_view name(platform), at(stage);
  if (at != "instantiate" && at != "execute") return nullptr;
  xla::Handler* handler = nullptr;
  if (name == "cpu") handler = Find<kDLCPU>(target, at);
  if (name == "CUDA") handler = Find<kDLCUDA>(target, at);
  if (name == "ROCM") handler = Find<kDLROCM>(target, at);
  return reinterpret_cast<void*>(handler);
}

/// Registers this library's functions with the runtime. 0, or -1 with the error in this thread's
/// slot.
TVM_FFI_DLL_EXPORT int graphffi_jax_register_functions() {
  constexpr std::string_view kName = "graphffi_jax.raise_error";
  TVMFFIByteArray name = {kName.data(), kName.size()};
  TVMFFIObjectHandle function = nullptr;
  if (int rc = TVMFFIFunctionCreate(nullptr, &graphffi::RaiseError, nullptr, &function)) return rc;
  int rc = TVMFFIFunctionSetGlobal(&name, function, /*allow_override=*/1);
  TVMFFIObjectDecRef(function);
  return rc;
}

/// Ends calls that may enter Python; 1 if none is in flight any more.
TVM_FFI_DLL_EXPORT int graphffi_jax_close_gate(int timeout_ms) {
  return graphffi::CloseExitGate(timeout_ms) ? 1 : 0;
}
TVM_FFI_DLL_EXPORT void graphffi_jax_open_gate() { graphffi::OpenExitGate(); }

}  // extern "C"
