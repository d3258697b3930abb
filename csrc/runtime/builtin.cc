// SPDX-License-Identifier: Apache-2.0
// How built-in functions are called and read their arguments.
#include "builtin.h"

#include "error.h"
#include "function.h"
#include "string_value.h"
#include "type_registry.h"

namespace graphffi::runtime {
namespace {

int CallBuiltin(void* self, const TVMFFIAny* args, int32_t num_args, TVMFFIAny* result) {
  return Guard([&] {
    const auto* builtin = static_cast<const Builtin*>(self);
    BuiltinArgs view(builtin->name, args, num_args);
    if (builtin->num_args >= 0) view.ExpectSize(builtin->num_args, builtin->num_args);
    *result = builtin->body(view).Release();
  });
}

}  // namespace

ObjectPtr<> MakeBuiltin(const Builtin& builtin) {
  return MakeFunction(const_cast<Builtin*>(&builtin), CallBuiltin, nullptr);
}

void BuiltinArgs::ExpectSize(int32_t at_least, int32_t at_most) const {
  if (size_ >= at_least && size_ <= at_most) return;
  std::string range = at_least == at_most ? Concat(at_least) : Concat(at_least, " to ", at_most);
  Throw("TypeError", function_, ": arguments: expected ", range, ", got ", size_);
}

void BuiltinArgs::ThrowMismatch(int32_t index, std::string_view expected) const {
  Throw("TypeError", function_, ": argument ", index, ": expected ", expected, ", got ",
        TypeKey(args_[index].type_index));
}

int64_t BuiltinArgs::Int(int32_t index) const {
  const TVMFFIAny& value = args_[index];
  if (value.type_index == kTVMFFIInt || value.type_index == kTVMFFIBool) return value.v_int64;
  ThrowMismatch(index, "int");
}

bool BuiltinArgs::Bool(int32_t index) const { return Int(index) != 0; }

std::string_view BuiltinArgs::Text(int32_t index) const {
  if (auto text = TryText(args_[index])) return *text;
  ThrowMismatch(index, "str");
}

TVMFFIObject* BuiltinArgs::Object(int32_t index, int32_t type_index) const {
  const TVMFFIAny& value = args_[index];
  TVMFFIObject* object = nullptr;
  if (HoldsObject(value)) object = value.v_obj;
  if (value.type_index == kTVMFFIObjectRValueRef) {
    object = *static_cast<TVMFFIObject**>(value.v_ptr);
  }
  if (object == nullptr || !IsInstance(object->type_index, type_index)) {
    ThrowMismatch(index, TypeKey(type_index));
  }
  return object;
}

}  // namespace graphffi::runtime
