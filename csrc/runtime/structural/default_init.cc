// SPDX-License-Identifier: Apache-2.0
// ffi._RegisterFFIInit: constructors made out of the fields that a type registered.
#include <tvm/ffi/cast.h>
#include <tvm/ffi/reflection/creator.h>
#include <tvm/ffi/reflection/registry.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/containers/on_headers.h"
#include "runtime/core/find_type.h"

namespace graphffi::runtime {
namespace {

using ffi::Function;

bool HasFlag(const TVMFFIFieldInfo* field, int64_t flag) { return (field->flags & flag) != 0; }

/// Takes positions, or positions, the object that stands for keywords, and names with values.
class DefaultInit {
 public:
  explicit DefaultInit(const TVMFFITypeInfo* type) : type_(type) {
    refl::ForEachFieldInfo(type, [this](const TVMFFIFieldInfo* field) {
      fields_.push_back(field);
      bool positional =
          !HasFlag(field, int64_t{kTVMFFIFieldFlagBitMaskInitOff} | kTVMFFIFieldFlagBitMaskKwOnly);
      if (positional) positional_.push_back(fields_.size() - 1);
    });
    // As in Python, fields with a default come last.
    std::stable_partition(positional_.begin(), positional_.end(), [this](size_t index) {
      return !HasFlag(fields_[index], kTVMFFIFieldFlagBitMaskHasDefault);
    });
  }

  ffi::ObjectRef operator()(ffi::PackedArgs args) const {
    ffi::ObjectPtr<Object> object = ffi::CreateEmptyObject(type_);
    std::vector<bool> is_set(fields_.size());
    int32_t num_positions = 0;
    while (num_positions < args.size() && !IsKeywords(args[num_positions])) ++num_positions;
    if (static_cast<size_t>(num_positions) > positional_.size()) {
      TVM_FFI_THROW(TypeError) << Name() << " takes at most " << positional_.size()
                               << " positional argument(s), but " << num_positions << " were given";
    }
    for (int32_t i = 0; i < num_positions; ++i) {
      Set(object.get(), positional_[i], args[i]);
      is_set[positional_[i]] = true;
    }
    if (num_positions < args.size() && (args.size() - num_positions) % 2 == 0) {
      TVM_FFI_THROW(TypeError) << Name()
                               << " KWARGS requires an even number of key-value arguments";
    }
    for (int32_t i = num_positions + 1; i < args.size(); i += 2) {
      size_t index = Find(args[i].cast<ffi::String>());
      if (is_set[index]) {
        TVM_FFI_THROW(TypeError) << Name() << " got multiple values for argument '"
                                 << FieldName(index) << "'";
      }
      Set(object.get(), index, args[i + 1]);
      is_set[index] = true;
    }
    for (size_t i = 0; i < fields_.size(); ++i) {
      if (!is_set[i]) SetDefault(object.get(), i);
    }
    return ffi::ObjectRef(std::move(object));
  }

 private:
  std::string Name() const {
    return std::string(type_->type_key.data, type_->type_key.size) + ".__ffi_init__()";
  }
  std::string_view FieldName(size_t index) const {
    return {fields_[index]->name.data, fields_[index]->name.size};
  }
  static bool IsKeywords(AnyView value) {
    static const ffi::Any keywords = Function::GetGlobalRequired("ffi.GetKwargsObject")();
    return value.type_index() >= kTVMFFIStaticObjectBegin &&
           value.CopyToTVMFFIAny().v_obj == AnyView(keywords).CopyToTVMFFIAny().v_obj;
  }
  size_t Find(const ffi::String& name) const {
    for (size_t i = 0; i < fields_.size(); ++i) {
      bool is_parameter = !HasFlag(fields_[i], kTVMFFIFieldFlagBitMaskInitOff);
      if (is_parameter && FieldName(i) == std::string_view(name.data(), name.size())) return i;
    }
    TVM_FFI_THROW(TypeError) << Name() << " got an unexpected keyword argument '" << name << "'";
    TVM_FFI_UNREACHABLE();
  }
  static void* Address(Object* object, const TVMFFIFieldInfo* field) {
    return reinterpret_cast<char*>(object) + field->offset;
  }
  void Set(Object* object, size_t index, AnyView value) const {
    TVMFFIAny view = value.CopyToTVMFFIAny();
    const TVMFFIFieldInfo* field = fields_[index];
    RunFor("field", index, [&] {
      TVM_FFI_CHECK_SAFE_CALL(refl::CallFieldSetter(field, Address(object, field), &view));
    });
  }
  /// Runs body. What it throws says which field it is about.
  template <typename Body>
  void RunFor(const char* what, size_t index, Body&& body) const {
    try {
      body();
    } catch (const ffi::Error& error) {
      std::string text = Name() + " " + what + " '" + std::string(FieldName(index)) + "':\n  ";
      std::string message = error.message();
      for (char c : message) {
        text += c;
        if (c == '\n') text += "  ";
      }
      throw ffi::Error(error.kind(), text, error.backtrace());
    }
  }
  /// A field that is no parameter and has no default keeps the value that the creator gave it.
  void SetDefault(Object* object, size_t index) const {
    const TVMFFIFieldInfo* field = fields_[index];
    if (HasFlag(field, kTVMFFIFieldFlagBitMaskHasDefault)) {
      RunFor("default for field", index,
             [&] { refl::SetFieldToDefault(field, Address(object, field)); });
    } else if (!HasFlag(field, kTVMFFIFieldFlagBitMaskInitOff)) {
      bool keyword_only = HasFlag(field, kTVMFFIFieldFlagBitMaskKwOnly);
      TVM_FFI_THROW(TypeError) << Name() << " missing required "
                               << (keyword_only ? "keyword-only " : "") << "argument: '"
                               << FieldName(index) << "'";
    }
  }

  const TVMFFITypeInfo* type_;
  std::vector<const TVMFFIFieldInfo*> fields_;
  /// Indices of those that positions set, in their order.
  std::vector<size_t> positional_;
};

void RegisterDefaultInit(int32_t type_index) {
  const TVMFFITypeInfo* type = FindType(type_index);
  if (type == nullptr) {
    TVM_FFI_THROW(ValueError) << "ffi._RegisterFFIInit: expected the index of a type, got "
                              << type_index;
  }
  Function init = Function::FromPacked(
      [make = DefaultInit(type)](ffi::PackedArgs args, ffi::Any* result) { *result = make(args); });
  TVMFFIByteArray name = refl::AsByteArray(ffi::type_attr::kInit.name);
  TVMFFIAny view = AnyView(init).CopyToTVMFFIAny();
  TVM_FFI_CHECK_SAFE_CALL(TVMFFITypeRegisterAttr(type_index, &name, &view));
}

TVM_FFI_STATIC_INIT_BLOCK() { refl::GlobalDef().def("ffi._RegisterFFIInit", &RegisterDefaultInit); }

}  // namespace
}  // namespace graphffi::runtime
