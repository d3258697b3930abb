// SPDX-License-Identifier: Apache-2.0
// GlobalDef registers functions under global names.
#pragma once

#include <tvm/ffi/function.h>

#include <string>
#include <type_traits>
#include <utility>

namespace tvm {
namespace ffi {
inline namespace graphffi_v1 {
namespace reflection {

/// Base of what registrations take after the function: it applies itself to the record being registered.
struct InfoTrait {};

namespace detail {

using ::tvm::ffi::detail::FunctionInfo;

/// Text that ends up in a registration record, kept until the record has been copied.
struct MethodRecord {
  TVMFFIMethodInfo info{};
  std::string metadata;
};

inline void ApplyTrait(TVMFFIMethodInfo* info, const char* doc) { info->doc = ToByteArray(doc); }
template <typename Trait,
          typename = std::enable_if_t<std::is_base_of_v<InfoTrait, std::decay_t<Trait>>>>
void ApplyTrait(TVMFFIMethodInfo* info, const Trait& trait) {
  trait.Apply(info);
}

/// A callable from a member function: its first parameter is the object, as pointer or reference type.
template <typename Class, typename R, typename Base, typename... Args>
auto BindMethod(R (Base::*method)(Args...)) {
  if constexpr (std::is_base_of_v<ObjectRef, Class>) {
    return [method](Class self, Args... args) -> R {
      return (self.*method)(std::forward<Args>(args)...);
    };
  } else {
    return [method](const Class* self, Args... args) -> R {
      return (const_cast<Class*>(self)->*method)(std::forward<Args>(args)...);
    };
  }
}
template <typename Class, typename R, typename Base, typename... Args>
auto BindMethod(R (Base::*method)(Args...) const) {
  if constexpr (std::is_base_of_v<ObjectRef, Class>) {
    return [method](const Class& self, Args... args) -> R {
      return (self.*method)(std::forward<Args>(args)...);
    };
  } else {
    return [method](const Class* self, Args... args) -> R {
      return (self->*method)(std::forward<Args>(args)...);
    };
  }
}
template <typename Class, typename F, typename = std::enable_if_t<!std::is_member_pointer_v<F>>>
F BindMethod(F function) {
  return function;
}

template <typename>
struct MemberClass;
template <typename R, typename Class, typename... Args>
struct MemberClass<R (Class::*)(Args...)> {
  using Type = Class;
};
template <typename R, typename Class, typename... Args>
struct MemberClass<R (Class::*)(Args...) const> {
  using Type = Class;
};

}  // namespace detail

/// Registers global functions, usually in a TVM_FFI_STATIC_INIT_BLOCK:
/// `GlobalDef().def("my.add", [](int a, int b) { return a + b; }, "Adds.")`.
class GlobalDef {
 public:
  /// \throws Error(RuntimeError) if the name is taken
  template <typename F, typename... Extra>
  GlobalDef& def(const char* name, F&& function, Extra&&... extra) {
    using Info = detail::FunctionInfo<std::decay_t<F>>;
    Register(name, Function::FromTyped(std::decay_t<F>(std::forward<F>(function)), name),
             Info::TypeSchema(), std::forward<Extra>(extra)...);
    return *this;
  }
  /// From `void(PackedArgs, Any*)`.
  template <typename F, typename... Extra>
  GlobalDef& def_packed(const char* name, F function, Extra&&... extra) {
    Register(name, Function::FromPacked(std::move(function)), "{\"type\":\"ffi.Function\"}",
             std::forward<Extra>(extra)...);
    return *this;
  }
  /// From a member function: the object comes as the first argument.
  template <typename F, typename... Extra>
  GlobalDef& def_method(const char* name, F method, Extra&&... extra) {
    if constexpr (std::is_member_function_pointer_v<F>) {
      using Class = typename detail::MemberClass<F>::Type;
      return def(name, detail::BindMethod<Class>(method), std::forward<Extra>(extra)...);
    } else {
      return def(name, std::move(method), std::forward<Extra>(extra)...);
    }
  }

 private:
  template <typename... Extra>
  static void Register(const char* name, Function function, const std::string& schema,
                       const Extra&... extra) {
    std::string metadata = ::tvm::ffi::detail::MetadataOf(schema);
    TVMFFIMethodInfo info{};
    info.name = ToByteArray(name);
    info.doc = ToByteArray("");
    info.metadata = ToByteArray(metadata);
    info.flags = kTVMFFIFieldFlagBitMaskIsStaticMethod;
    info.method = AnyView(function).CopyToTVMFFIAny();
    (detail::ApplyTrait(&info, extra), ...);
    TVM_FFI_CHECK_SAFE_CALL(TVMFFIFunctionSetGlobalFromMethodInfo(&info, 0));
  }
};

}  // namespace reflection
}  // namespace graphffi_v1
}  // namespace ffi
}  // namespace tvm
