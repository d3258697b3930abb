// SPDX-License-Identifier: Apache-2.0
// The functions of this library that Python calls through the runtime, which carries errors.
#include <tvm/ffi/c_api.h>

#include <algorithm>
#include <exception>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "attributes.h"
#include "callframe/convert.h"
#include "callframe/error.h"
#include "kernels/packaged.h"
#include "error_ring.h"
#include "exit_gate.h"
#include "named_target.h"
#include "workspace.h"
#include "xla_api.h"

namespace graphffi_jax {

using graphffi::Error;
using graphffi::Kernel;
using graphffi::KernelFacts;
using graphffi::LoadPackagedLibraries;
using graphffi::MakeArray;
using graphffi::MakeInt;
using graphffi::MakeString;
using graphffi::OwnedValues;
using graphffi::ReadManifest;
using graphffi::ResolveKernel;
using graphffi::SetRaised;

namespace {

/// The arguments of a call, checked as they are read.
class Arguments {
 public:
  Arguments(const char* function, const TVMFFIAny* args, int32_t size, int32_t expected)
      : function_(function), args_(args) {
    if (size != expected) {
      throw Error("TypeError", function_ + ": expected " + std::to_string(expected) +
                                   " arguments, got " + std::to_string(size));
    }
  }

  int64_t Int(int32_t i) const {
    if (args_[i].type_index != kTVMFFIInt && args_[i].type_index != kTVMFFIBool) Fail(i, "an int");
    return args_[i].v_int64;
  }

  bool IsText(int32_t i) const {
    const int32_t type = args_[i].type_index;
    return type == kTVMFFIRawStr || type == kTVMFFISmallStr || type == kTVMFFIStr;
  }

  std::string Text(int32_t i) const {
    if (!IsText(i)) Fail(i, "a str");
    if (args_[i].type_index == kTVMFFIRawStr) return args_[i].v_c_str;
    return Content(args_[i], kTVMFFISmallStr);
  }

  std::string Bytes(int32_t i) const {
    const int32_t type = args_[i].type_index;
    if (type != kTVMFFISmallBytes && type != kTVMFFIBytes) Fail(i, "bytes");
    return Content(args_[i], kTVMFFISmallBytes);
  }

  bool IsNone(int32_t i) const { return args_[i].type_index == kTVMFFINone; }

  /// A function, or the reference of one.
  ObjectRef Function(int32_t i, KernelFacts* facts) const {
    if (IsText(i)) return ObjectRef(ResolveKernel(Text(i), {}, facts));
    if (args_[i].type_index != kTVMFFIFunction) Fail(i, "a function");
    TVMFFIObjectIncRef(args_[i].v_obj);
    *facts = {Kernel::FromFunction(args_[i].v_obj)};
    return ObjectRef(args_[i].v_obj);
  }

 private:
  static std::string Content(const TVMFFIAny& value, int32_t small_type) {
    const TVMFFIByteArray bytes = value.type_index == small_type
                                      ? TVMFFISmallBytesGetContentByteArray(&value)
                                      : *TVMFFIBytesGetByteArrayPtr(value.v_obj);
    return std::string(bytes.data, bytes.size);
  }

  [[noreturn]] void Fail(int32_t i, const char* expected) const {
    throw Error("TypeError",
                function_ + ": argument " + std::to_string(i) + ": expected " + expected);
  }

  std::string function_;
  const TVMFFIAny* args_;
};

template <typename Body>
int Guarded(Body&& body) {
  try {
    body();
    return 0;
  } catch (const Error& error) {
    return SetRaised(error.kind(), error.message());
  } catch (const std::exception& error) {
    return SetRaised("InternalError", error.what());
  }
}

/// graphffi_jax.raise_error(number): raises the kept error, or returns None.
int RaiseError(void*, const TVMFFIAny* args, int32_t num_args, TVMFFIAny*) {
  bool raised = false;
  const int rc = Guarded(
      [&] { raised = RaiseKept(Arguments("graphffi_jax.raise_error", args, num_args, 1).Int(0)); });
  return raised ? -1 : rc;
}

/// graphffi_jax.keep_error(kind, message): the number of an error that is kept from now on.
int KeepError(void*, const TVMFFIAny* args, int32_t num_args, TVMFFIAny* result) {
  return Guarded([&] {
    Arguments arguments("graphffi_jax.keep_error", args, num_args, 2);
    *result = MakeInt(KeepInRing(Error(arguments.Text(0), arguments.Text(1))));
  });
}

/// graphffi_jax.new_target(function, name, plan, attributes, owning, workspace, graph): the address
/// of a NamedTarget. `attributes` are parts of the form `<length>:<bytes>`.
int NewTarget(void*, const TVMFFIAny* args, int32_t num_args, TVMFFIAny* result) {
  return Guarded([&] {
    Arguments arguments("graphffi_jax.new_target", args, num_args, 7);
    auto target = std::make_unique<NamedTarget>();
    target->function = arguments.Function(0, &target->facts);
    target->name = arguments.Text(1);
    target->plan = arguments.Text(2);
    if (!SplitStrings(arguments.Text(3), &target->attributes)) {
      throw Error("ValueError", "graphffi_jax.new_target: attributes: expected strings");
    }
    ParseSitePlan(target->plan, target->AttributeNames(), target->name);
    target->pass_owning_tensor = arguments.Int(4) != 0;
    target->has_workspace = arguments.Int(5) != 0;
    target->graph = arguments.Int(6) != 0;
    *result = MakeInt(reinterpret_cast<int64_t>(target.release()));
  });
}

/// graphffi_jax.load_libraries(subject, manifest, trusted, name, content, …): what
/// LoadPackagedLibraries does, with the trusted hashes apart by spaces, or None.
int LoadLibraries(void*, const TVMFFIAny* args, int32_t num_args, TVMFFIAny*) {
  return Guarded([&] {
    const int32_t num_libraries = std::max(num_args - 3, 0) / 2;
    Arguments arguments("graphffi_jax.load_libraries", args, num_args, 3 + 2 * num_libraries);
    const std::string subject = arguments.Text(0);
    std::map<std::string, int32_t> places;
    for (int32_t i = 3; i < num_args; i += 2) places[arguments.Text(i)] = i + 1;
    auto read = [&](const std::string& name) -> std::optional<std::string> {
      const auto found = places.find(name);
      if (found == places.end()) return std::nullopt;
      return arguments.Bytes(found->second);
    };
    const bool trusts_all = arguments.IsNone(2);
    std::istringstream words(trusts_all ? "" : arguments.Text(2));
    const std::vector<std::string> trusted{std::istream_iterator<std::string>(words), {}};
    LoadPackagedLibraries(subject, ReadManifest(subject, arguments.Text(1)), read,
                          trusts_all ? nullptr : &trusted);
  });
}

/// graphffi_jax.workspace_peaks(): [subject, peak, capacity, subject, …].
int GetWorkspacePeaks(void*, const TVMFFIAny*, int32_t, TVMFFIAny* result) {
  return Guarded([&] {
    OwnedValues values;
    for (const WorkspaceUse& use : WorkspacePeaks()) {
      values.Add(MakeString(use.subject));
      values.Add(MakeInt(use.peak));
      values.Add(MakeInt(use.capacity));
    }
    *result = MakeArray(values.data(), values.size());
  });
}

/// graphffi_jax.last_workspace_peak(): an int.
int GetLastWorkspacePeak(void*, const TVMFFIAny*, int32_t, TVMFFIAny* result) {
  return Guarded([&] { *result = MakeInt(last_workspace_peak.load(std::memory_order_relaxed)); });
}

/// graphffi_jax.replace_function(name): that global function was registered anew.
int ReplaceFunction(void*, const TVMFFIAny* args, int32_t num_args, TVMFFIAny*) {
  return Guarded([&] {
    Site::ReplaceGlobal(Arguments("graphffi_jax.replace_function", args, num_args, 1).Text(0));
  });
}

/// graphffi_jax.cpu_ordinal(): the CPU device whose program called the kernel on this thread; None
/// outside of kernels that are no library's, or on another kind of device.
int CpuOrdinal(void*, const TVMFFIAny*, int32_t, TVMFFIAny* result) {
  return Guarded([&] {
    const xla::CallFrame* opt_call = GatedCall::opt_current_on_cpu();
    if (opt_call != nullptr) *result = MakeInt(xla::GetDeviceOrdinal(*opt_call));
  });
}

int Register(std::string_view text, TVMFFISafeCallType body) {
  const TVMFFIByteArray name = {text.data(), text.size()};
  TVMFFIObjectHandle function = nullptr;
  if (const int rc = TVMFFIFunctionCreate(nullptr, body, nullptr, &function)) return rc;
  const int rc = TVMFFIFunctionSetGlobal(&name, function, /*allow_override=*/1);
  TVMFFIObjectDecRef(function);
  return rc;
}

}  // namespace
}  // namespace graphffi_jax

/// Registers this library's functions with the runtime, and its allocator for threads and processes
/// without one. 0, or an error in this thread's slot. Comes before any call.
extern "C" TVM_FFI_DLL_EXPORT int graphffi_jax_register_functions() {
  using namespace graphffi_jax;
  if (const int rc = Guarded(&JoinSharedAllocator)) return rc;
  if (const int rc = Register("graphffi_jax.raise_error", &RaiseError)) return rc;
  if (const int rc = Register("graphffi_jax.keep_error", &KeepError)) return rc;
  if (const int rc = Register("graphffi_jax.new_target", &NewTarget)) return rc;
  if (const int rc = Register("graphffi_jax.load_libraries", &LoadLibraries)) return rc;
  if (const int rc = Register("graphffi_jax.replace_function", &ReplaceFunction)) return rc;
  if (const int rc = Register("graphffi_jax.last_workspace_peak", &GetLastWorkspacePeak)) return rc;
  if (const int rc = Register("graphffi_jax.cpu_ordinal", &CpuOrdinal)) return rc;
  return Register("graphffi_jax.workspace_peaks", &GetWorkspacePeaks);
}
