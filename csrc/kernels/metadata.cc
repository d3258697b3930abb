// SPDX-License-Identifier: Apache-2.0
#include "kernels/metadata.h"

#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/map.h>
#include <tvm/ffi/optional.h>
#include <tvm/ffi/string.h>

#include "call/convert.h"
#include "call/error.h"
#include "call/global_function.h"
#include "call/value.h"

namespace graphffi {
namespace {

using tvm::ffi::Any;
using List = tvm::ffi::Array<Any>;
using Dict = tvm::ffi::Map<Any, Any>;

/// None for text that is no JSON.
Any ParseJson(std::string_view text) {
  const Any argument = MakeString(text);
  const TVMFFIAny args[] = {ToAny(argument)};
  try {
    return CallGlobal("ffi.json.Parse", args, 1);
  } catch (const Error& error) {
    if (error.kind() != "ValueError") throw;
    return nullptr;
  }
}

/// None where `value` is no object that has it.
Any MemberOf(const Any& value, const char* key) {
  const auto dict = value.as<Dict>();
  if (!dict.has_value()) return nullptr;
  return dict->Get(tvm::ffi::String(key)).value_or(nullptr);
}

/// Whether a type, or one that it is made of, is an owning tensor.
bool HoldsTensor(const Any& type) {
  const auto name = MemberOf(type, "type").as<tvm::ffi::String>();
  if (name.has_value() && *name == "ffi.Tensor") return true;
  const auto args = MemberOf(type, "args").as<List>();
  if (!args.has_value()) return false;
  for (const Any& arg : *args) {
    if (HoldsTensor(arg)) return true;
  }
  return false;
}

}  // namespace

bool TakesTensors(std::string_view metadata) {
  const auto text = MemberOf(ParseJson(metadata), "type_schema").as<tvm::ffi::String>();
  if (!text.has_value()) return false;
  const Any schema = ParseJson({text->data(), text->size()});
  // Releases differ: named, or positions of which the first is what the function returns.
  const auto named = MemberOf(MemberOf(schema, "named_args"), "params").as<List>();
  const auto positions = MemberOf(schema, "args").as<List>();
  const List params = named.has_value() ? *named : positions.value_or(List());
  for (size_t i = named.has_value() ? 0 : 1; i < params.size(); ++i) {
    if (HoldsTensor(params[static_cast<int64_t>(i)])) return true;
  }
  return false;
}

}  // namespace graphffi
