// SPDX-License-Identifier: Apache-2.0
// Traits of fields and methods that registrations take: defaults, flags, metadata.
#pragma once

#include <tvm/ffi/function.h>

#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace tvm::ffi {
inline namespace graphffi_v1 {
namespace reflection {

/// Keys of the JSON metadata and their values: int, float, bool, str or None.
using _MetadataType = std::vector<std::pair<String, Any>>;

/// A field or method on its way into the runtime, which copies it.
struct FieldInfoBuilder : TVMFFIFieldInfo {
  _MetadataType metadata_;
};
struct MethodInfoBuilder : TVMFFIMethodInfo {
  _MetadataType metadata_;
};

/// Base of what registrations take after the name and the function or field. It has an
/// `Apply(FieldInfoBuilder*)`, an `Apply(MethodInfoBuilder*)` or both.
struct InfoTrait {};

/// The value of a field that is not given.
class default_value : public InfoTrait {
 public:
  explicit default_value(Any value) : value_(std::move(value)) {}
  void Apply(TVMFFIFieldInfo* info) const {
    info->default_value_or_factory = AnyView(value_).CopyToTVMFFIAny();
    info->flags |= kTVMFFIFieldFlagBitMaskHasDefault;
  }

 private:
  Any value_;
};
using DefaultValue = default_value;

/// Makes the value of a field that is not given.
class default_factory : public InfoTrait {
 public:
  explicit default_factory(Function factory) : factory_(std::move(factory)) {}
  void Apply(TVMFFIFieldInfo* info) const {
    info->default_value_or_factory = AnyView(factory_).CopyToTVMFFIAny();
    info->flags |= kTVMFFIFieldFlagBitMaskHasDefault | kTVMFFIFieldFlagBitMaskDefaultFromFactory;
  }

 private:
  Function factory_;
};

using DefaultFactory = default_factory;

/// Flags of a field.
class AttachFieldFlag : public InfoTrait {
 public:
  explicit AttachFieldFlag(int64_t flag) : flag_(flag) {}
  static AttachFieldFlag SEqHashIgnore() {
    return AttachFieldFlag(kTVMFFIFieldFlagBitMaskSEqHashIgnore);
  }
  static AttachFieldFlag SEqHashDef() { return SEqHashDefPattern(); }
  static AttachFieldFlag SEqHashDefPattern() {
    return AttachFieldFlag(kTVMFFIFieldFlagBitMaskSEqHashDefPattern);
  }
  static AttachFieldFlag SEqHashDefSimple() {
    return AttachFieldFlag(kTVMFFIFieldFlagBitMaskSEqHashDefSimple);
  }
  void Apply(TVMFFIFieldInfo* info) const { info->flags |= flag_; }

 private:
  int64_t flag_;
};

/// A named bit of a field, off unless asked for: `repr(false)`, `kw_only(true)`, …
template <int64_t kFlag, bool kSetWhen>
struct FieldBit : InfoTrait {
  explicit FieldBit(bool value) : value(value) {}
  void Apply(TVMFFIFieldInfo* info) const {
    if (value == kSetWhen) info->flags |= kFlag;
  }
  bool value;
};
using repr = FieldBit<kTVMFFIFieldFlagBitMaskReprOff, false>;
using compare = FieldBit<kTVMFFIFieldFlagBitMaskCompareOff, false>;
using hash = FieldBit<kTVMFFIFieldFlagBitMaskHashOff, false>;
using kw_only = FieldBit<kTVMFFIFieldFlagBitMaskKwOnly, true>;

/// Additional keys in the JSON metadata.
class Metadata : public InfoTrait {
 public:
  Metadata(std::initializer_list<std::pair<String, Any>> entries) : entries_(entries) {}
  void Apply(FieldInfoBuilder* info) const { AppendTo(&info->metadata_); }
  void Apply(MethodInfoBuilder* info) const { AppendTo(&info->metadata_); }

 private:
  void AppendTo(_MetadataType* metadata) const {
    metadata->insert(metadata->end(), entries_.begin(), entries_.end());
  }
  _MetadataType entries_;
};

namespace detail {

/// A registration's extra argument: a trait, or a documentation text.
template <typename Info, typename Extra>
void ApplyExtra(Info* info, const Extra& extra) {
  if constexpr (std::is_base_of_v<InfoTrait, Extra>) {
    extra.Apply(info);
  } else if constexpr (std::is_convertible_v<const Extra&, const char*>) {
    info->doc = ToByteArray(static_cast<const char*>(extra));
  } else if constexpr (std::is_convertible_v<const Extra&, std::string_view>) {
    info->doc = ToByteArray(extra);
  }
}

/// A value of the metadata as JSON. \throws Error(TypeError) for other kinds of values
inline std::string MetadataValueJSON(const Any& value) {
  if (auto flag = value.as<bool>()) return *flag ? "true" : "false";
  if (auto number = value.as<int64_t>()) return std::to_string(*number);
  if (auto number = value.as<double>()) return std::to_string(*number);
  if (auto text = value.as<String>()) return EscapeStringJSON(*text);
  if (value == nullptr) return "null";
  TVM_FFI_THROW(TypeError) << "metadata cannot hold a " << value.GetTypeKey();
  TVM_FFI_UNREACHABLE();
}

inline std::string MetadataJSON(const _MetadataType& metadata) {
  std::string text = "{";
  for (const auto& [key, value] : metadata) {
    if (text.size() > 1) text += ',';
    text.append(EscapeStringJSON(key)).append(":").append(MetadataValueJSON(value));
  }
  return text + "}";
}

}  // namespace detail
}  // namespace reflection
}  // namespace graphffi_v1
}  // namespace tvm::ffi
