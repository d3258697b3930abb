// SPDX-License-Identifier: Apache-2.0
// The functions of this library that Python calls through the runtime, which carries errors.
#include <tvm/ffi/container/map.h>
#include <tvm/ffi/extra/stl.h>
#include <tvm/ffi/function.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "call/error.h"
#include "call_text.h"
#include "error_ring.h"
#include "exit_gate.h"
#include "kernels/kernel_ref.h"
#include "kernels/packaged.h"
#include "named_target.h"
#include "workspace.h"
#include "xla_api.h"

namespace graphffi_jax {

using tvm::ffi::Function;

namespace {

/// Raises the kept error that XLA reports; does nothing if it is no longer kept.
void RaiseError(const std::string& report) {
  if (std::optional<tvm::ffi::Error> error = TakeFromRing(report)) throw *error;
}

/// Keeps an error, whose message XLA will report.
void KeepError(std::string kind, const std::string& message) {
  KeepInRing(graphffi::Error(std::move(kind), message), message);
}

/// The address of a NamedTarget; see ReadTargetText.
int64_t NewTarget(const std::string& text, const tvm::ffi::Optional<Function>& function,
                  bool graph) {
  auto target = std::make_unique<NamedTarget>();
  ReadTargetText(text, function, &target->parts, &target->attributes);
  target->graph = graph;
  return reinterpret_cast<int64_t>(target.release());
}

/// Loads the libraries of a package; without opt_trusted, all are trusted.
void LoadLibraries(const std::string& subject, const std::string& manifest,
                   const std::optional<std::vector<std::string>>& opt_trusted,
                   const tvm::ffi::Map<tvm::ffi::String, tvm::ffi::Bytes>& contents) {
  const auto read = [&](const std::string& name) -> std::optional<std::string> {
    const auto content = contents.Get(name);
    return content.has_value() ? std::optional<std::string>(content.value()) : std::nullopt;
  };
  graphffi::LoadPackagedLibraries(subject, graphffi::ReadManifest(subject, manifest), read,
                                  opt_trusted.has_value() ? &*opt_trusted : nullptr);
}

int64_t LastWorkspacePeak() { return last_workspace_peak.load(std::memory_order_relaxed); }

template <typename R, typename... Args>
void Register(const char* name, R (*body)(Args...)) {
  auto function = [body](Args... args) -> R {
    try {
      return body(std::forward<Args>(args)...);
    } catch (const graphffi::Error& error) {
      throw ToTvmFfi(error);
    }
  };
  Function::SetGlobal(name, Function::FromTyped(function, name), /*override=*/true);
}

}  // namespace
}  // namespace graphffi_jax

/// Registers this library's functions with the runtime, and its allocator for threads and processes
/// without one. 0, or an error in this thread's slot. Comes before any call.
extern "C" TVM_FFI_DLL_EXPORT int graphffi_jax_register_functions() {
  using namespace graphffi_jax;
  TVM_FFI_SAFE_CALL_BEGIN();
  JoinSharedAllocator();
  Register("graphffi_jax.raise_error", &RaiseError);
  Register("graphffi_jax.keep_error", &KeepError);
  Register("graphffi_jax.clear_frames_by", &ClearFramesBy);
  Register("graphffi_jax.new_target", &NewTarget);
  Register("graphffi_jax.load_libraries", &LoadLibraries);
  Register("graphffi_jax.use_library", &graphffi::RenewKernels);
  Register("graphffi_jax.last_workspace_peak", &LastWorkspacePeak);
  Register("graphffi_jax.workspace_peaks", &WorkspacePeaks);
  Register("graphffi_jax.is_in_cpu_program", &GatedCall::is_current_on_cpu);
  TVM_FFI_SAFE_CALL_END();
}
