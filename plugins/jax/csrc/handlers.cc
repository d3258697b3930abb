// SPDX-License-Identifier: Apache-2.0
// The handlers of the custom-call targets tvm_ffi.call and tvm_ffi.call_graph, and what Python asks
// of this library.
#include <tvm/ffi/c_api.h>

#include <string>
#include <string_view>

#include "call_text.h"
#include "error_ring.h"
#include "execute.h"
#include "exit_gate.h"
#include "named_target.h"
#include "site.h"
#include "xla_api.h"

namespace graphffi_jax {
namespace {

/// XLA's error for a call that these handlers can't read.
[[gnu::cold]] xla::Status* RefuseCall(const xla::Call& call, xla::Stage stage) {
  const xla::Api* api = call.api;
  if (stage == xla::kInstantiate && !xla::IsKnown(api->version)) {
    return xla::MakeStatus(
        api, xla::kUnimplemented,
        "graphffi: expected XLA FFI API version " + std::to_string(xla::kNewestMajor) + "." +
            std::to_string(xla::kNewestMinor) + " or older, got " +
            std::to_string(api->version.major) + "." + std::to_string(api->version.minor) +
            "; install a newer graphffi, or an older jaxlib");
  }
  if (call.struct_size < sizeof(xla::Call)) {
    return Report(api,
                  InternalError("expected a call frame of " + std::to_string(sizeof(xla::Call)) +
                                " bytes, got " + std::to_string(call.struct_size)),
                  "");
  }
  return Report(api,
                InternalError("expected execution stage " + std::to_string(stage) + ", got " +
                              std::to_string(call.stage)),
                "");
}

/// Before a handler's own work, which throws nothing: metadata, foreign versions.
template <typename Work>
xla::Status* Checked(const xla::Call* call, xla::Stage stage, uint32_t traits, Work&& work) {
  static_assert(noexcept(work()));
  for (auto* extension = call->extension; extension != nullptr; extension = extension->next) {
    if (extension->type != xla::kMetadataExtension) continue;
    return xla::ReplyMetadata(*call, static_cast<const xla::MetadataExtension&>(*extension),
                              traits);
  }
  const bool is_known = stage != xla::kInstantiate || xla::IsKnown(call->api->version);
  if (!is_known || call->struct_size < sizeof(xla::Call) || call->stage != stage) {
    return RefuseCall(*call, stage);
  }
  return work();
}

/// Attaches what `decode` says to the call site.
template <typename Decode>
xla::Status* InstantiateSite(const xla::Call* call, uint32_t traits, Decode&& decode) {
  return Checked(call, xla::kInstantiate, traits, [&]() noexcept -> xla::Status* {
    SiteParts parts;
    try {
      decode(call->attributes, &parts);
      Site* site = Site::Get(parts);
      xla::Status* status = xla::SetState(*call, site);
      if (status != nullptr) site->Release();
      return status;
    } catch (...) {
      return ReportCaught(call->api, parts.subject());
    }
  });
}

xla::Status* Instantiate(const xla::Call* call, uint32_t traits) {
  return InstantiateSite(call, traits, [](const xla::Attributes& given, SiteParts* to) {
    ReadCallText(CallTextOf(given), to);
  });
}

template <DLDeviceType kDeviceType, bool kGraph>
struct Handlers {
  static constexpr uint32_t kTraits = kGraph ? uint32_t{xla::kCommandBufferCompatible} : 0;
  static xla::Status* Instantiate(xla::Call* call) {
    return graphffi_jax::Instantiate(call, kTraits);
  }
  static xla::Status* Execute(xla::Call* call) {
    return Checked(call, xla::kExecute, kTraits,
                   [call]() noexcept { return ExecuteCall(*call, Target{kDeviceType, kGraph}); });
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

}  // namespace
}  // namespace graphffi_jax

extern "C" {

/// The handler that Python registers with XLA; NULL for an unknown target, platform or stage.
TVM_FFI_DLL_EXPORT void* graphffi_jax_handler(const char* target, const char* platform,
                                              const char* stage) {
  using namespace graphffi_jax;
  std::string_view name(platform), at(stage);
  if (at != "instantiate" && at != "execute") return nullptr;
  xla::Handler* handler = nullptr;
  if (name == "cpu") handler = Find<kDLCPU>(target, at);
  if (name == "CUDA") handler = Find<kDLCUDA>(target, at);
  if (name == "ROCM") handler = Find<kDLROCM>(target, at);
  return reinterpret_cast<void*>(handler);
}

/// Handlers of named targets call this when XLA instantiates a call site: `target` is a
/// NamedTarget, `call` an xla::Call. Returns an xla::Status.
TVM_FFI_DLL_EXPORT void* graphffi_jax_instantiate_named(void* target, void* call) {
  using namespace graphffi_jax;
  auto& named = *static_cast<const NamedTarget*>(target);
  uint32_t traits = named.graph ? uint32_t{xla::kCommandBufferCompatible} : 0;
  return InstantiateSite(static_cast<const xla::Call*>(call), traits,
                         [&named](const xla::Attributes& given, SiteParts* to) {
                           to->SetSubject(named.parts.subject());
                           *to = named.Decode(given);
                         });
}

/// Ends calls that may enter Python; 1 if none is in flight any more.
TVM_FFI_DLL_EXPORT int graphffi_jax_close_gate(int timeout_ms) {
  return graphffi_jax::CloseExitGate(timeout_ms) ? 1 : 0;
}

}  // extern "C"
