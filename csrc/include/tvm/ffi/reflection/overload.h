// SPDX-License-Identifier: Apache-2.0
// OverloadObjectDef: an ObjectDef whose methods and constructors may be registered several times
// under one name; a call takes the first overload that its arguments convert to.
#pragma once

#include <tvm/ffi/any.h>
#include <tvm/ffi/container/map.h>
#include <tvm/ffi/container/variant.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/optional.h>
#include <tvm/ffi/reflection/accessor.h>
#include <tvm/ffi/reflection/registry.h>
#include <tvm/ffi/string.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tvm::ffi {
inline namespace graphffi_v1 {
namespace detail {

/// One of the functions behind a name.
class Overload {
 public:
  virtual ~Overload() = default;
  /// Calls the function if the arguments convert to its parameters.
  virtual bool TryCall(const AnyView* args, int32_t num_args, Any* result) = 0;
  /// Calls the function. \throws Error(TypeError) if the arguments don't convert
  virtual void Call(const std::string& name, const AnyView* args, int32_t num_args,
                    Any* result) = 0;
  /// Why the arguments don't convert.
  virtual void Explain(const std::string& name, const AnyView* args, int32_t num_args,
                       std::ostream& os) const = 0;
};

template <typename F>
class TypedOverload : public Overload {
  using Info = FunctionInfo<F>;
  static constexpr auto kCount = static_cast<int32_t>(Info::num_args);
  template <size_t I>
  using Param = RemoveCVRef<std::tuple_element_t<I, typename Info::ArgType>>;

 public:
  explicit TypedOverload(F function) : function_(std::move(function)) {}

  bool TryCall(const AnyView* args, int32_t num_args, Any* result) override {
    return num_args == kCount &&
           TryConverted(std::make_index_sequence<Info::num_args>(), args, result);
  }
  void Call(const std::string& name, const AnyView* args, int32_t num_args, Any* result) override {
    TVMFFIAny raw{};
    CallTyped(name.c_str(), function_, reinterpret_cast<const TVMFFIAny*>(args), num_args, &raw);
    *result = AnyUnsafe::MoveTVMFFIAnyToAny(&raw);
  }
  void Explain(const std::string& name, const AnyView* args, int32_t num_args,
               std::ostream& os) const override {
    if (num_args != kCount) {
      os << "Mismatched number of arguments when calling: `" << name << " " << Info::Sig()
         << "`. Expected " << kCount << " arguments";
      return;
    }
    ExplainTypes(std::make_index_sequence<Info::num_args>(), name, args, os);
  }

 private:
  template <size_t... Is>
  bool TryConverted(std::index_sequence<Is...>, [[maybe_unused]] const AnyView* args, Any* result) {
    std::tuple<std::optional<Param<Is>>...> values;
    if (!(Convert(args[Is], &std::get<Is>(values)) && ...)) return false;
    TVMFFIAny raw{};
    OrderedCall{function_, &raw,
                static_cast<std::tuple_element_t<Is, typename Info::ArgType>>(
                    *std::move(std::get<Is>(values)))...};
    *result = AnyUnsafe::MoveTVMFFIAnyToAny(&raw);
    return true;
  }
  template <typename T>
  static bool Convert(const AnyView& arg, std::optional<T>* value) {
    if (auto converted = arg.try_cast<T>()) value->emplace(*std::move(converted));
    return value->has_value();
  }
  template <size_t... Is>
  void ExplainTypes(std::index_sequence<Is...>, const std::string& name,
                    [[maybe_unused]] const AnyView* args, std::ostream& os) const {
    (void)(ExplainType<Param<Is>>(Is, name, args[Is], os) || ...);
  }
  /// Whether this is the argument that does not convert.
  template <typename T>
  static bool ExplainType(size_t index, const std::string& name, const AnyView& arg,
                          std::ostream& os) {
    if (arg.try_cast<T>().has_value()) return false;
    TVMFFIAny data = arg.CopyToTVMFFIAny();
    os << "Mismatched type on argument #" << index << " when calling: `" << name << " "
       << Info::Sig() << "`. Expected `" << Type2Str<T>::v() << "` but got `"
       << TypeTraits<T>::GetMismatchTypeInfo(&data) << "`";
    return true;
  }

  F function_;
};

/// All functions behind a name.
class OverloadSet {
 public:
  explicit OverloadSet(std::string name) : name_(std::move(name)) {}
  void Add(std::unique_ptr<Overload> overload) { overloads_.push_back(std::move(overload)); }

  void Call(const AnyView* args, int32_t num_args, Any* result) const {
    if (overloads_.size() == 1) return overloads_[0]->Call(name_, args, num_args, result);
    for (const auto& overload : overloads_) {
      if (overload->TryCall(args, num_args, result)) return;
    }
    ThrowNoMatch(args, num_args);
  }

 private:
  [[noreturn]] TVM_FFI_COLD_CODE void ThrowNoMatch(const AnyView* args, int32_t num_args) const {
    std::ostringstream reasons;
    for (size_t i = 0; i < overloads_.size(); ++i) {
      reasons << (i == 0 ? "" : "\n") << "Overload #" << i << ": ";
      overloads_[i]->Explain(name_, args, num_args, reasons);
    }
    TVM_FFI_THROW(TypeError) << "No matching overload found when calling: `" << name_ << "` with "
                             << num_args << " arguments:\n"
                             << reasons.str();
    TVM_FFI_UNREACHABLE();
  }

  std::string name_;
  std::vector<std::unique_ptr<Overload>> overloads_;
};

}  // namespace detail

namespace reflection {

template <typename Class>
class OverloadObjectDef : private ObjectDef<Class> {
 public:
  template <typename... Extra>
  explicit OverloadObjectDef(Extra&&... extra) : ObjectDef<Class>(std::forward<Extra>(extra)...) {}

  template <typename Base, typename T, typename... Extra>
  OverloadObjectDef& def_ro(const char* name, T Base::* field, Extra&&... extra) {
    ObjectDef<Class>::def_ro(name, field, std::forward<Extra>(extra)...);
    return *this;
  }
  template <typename Base, typename T, typename... Extra>
  OverloadObjectDef& def_rw(const char* name, T Base::* field, Extra&&... extra) {
    ObjectDef<Class>::def_rw(name, field, std::forward<Extra>(extra)...);
    return *this;
  }
  template <typename F, typename... Extra>
  OverloadObjectDef& def(const char* name, F&& method, Extra&&... extra) {
    Add(name, detail::BindMethod<Class>(std::decay_t<F>(method)), false, extra...);
    return *this;
  }
  template <typename F, typename... Extra>
  OverloadObjectDef& def_static(const char* name, F&& function, Extra&&... extra) {
    Add(name, std::decay_t<F>(function), true, extra...);
    return *this;
  }
  template <typename... Args, typename... Extra>
  OverloadObjectDef& def(init<Args...>, Extra&&... extra) {
    this->has_explicit_init_ = true;
    bool is_first = names_.count(type_attr::kInit.name) == 0;
    Add(type_attr::kInit.name, &init<Args...>::template execute<Class>, true, extra...);
    if (is_first) this->def_type_attr(type_attr::kInit.name, names_[type_attr::kInit.name].method);
    return *this;
  }

 private:
  struct Name {
    std::shared_ptr<::tvm::ffi::detail::OverloadSet> overloads;
    Function method;
  };

  template <typename F, typename... Extra>
  void Add(const char* name, F function, bool is_static, const Extra&... extra) {
    Name& entry = names_[name];
    if (entry.overloads == nullptr) {
      entry.overloads = std::make_shared<::tvm::ffi::detail::OverloadSet>(
          std::string(Class::_type_key) + "." + name);
      entry.method = Function::FromPacked(
          [overloads = entry.overloads](const AnyView* args, int32_t num_args, Any* result) {
            overloads->Call(args, num_args, result);
          });
    }
    std::string schema = detail::FunctionInfo<F>::TypeSchema();
    entry.overloads->Add(
        std::make_unique<::tvm::ffi::detail::TypedOverload<F>>(std::move(function)));
    this->SubmitMethod(name, entry.method, is_static, schema, extra...);
  }

  std::unordered_map<std::string, Name> names_;
};

}  // namespace reflection
}  // namespace graphffi_v1
}  // namespace tvm::ffi
