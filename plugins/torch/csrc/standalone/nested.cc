// SPDX-License-Identifier: Apache-2.0
#include "nested.h"

#include <tvm/ffi/container/map_base.h>

#include <algorithm>

#include "call/convert.h"
#include "call/describe_tensor.h"
#include "call/error.h"
#include "call/value.h"
#include "kernels/artifact.h"

namespace graphffi_standalone {
namespace {

using tvm::ffi::Any;
using tvm::ffi::MapBaseObj;

bool IsNested(const TVMFFIAny& value) {
  return value.type_index == kTVMFFIArray || value.type_index == kTVMFFIMap;
}

const MapBaseObj& MapOf(const TVMFFIAny& value) {
  return *static_cast<const MapBaseObj*>(reinterpret_cast<const tvm::ffi::Object*>(value.v_obj));
}

/// A key of a dict.
std::string KeyOf(const Node& node, int32_t i) { return graphffi::TextOfCode(node.opt_keys[i]); }

/// The values of a list; or of a dict's keys, as many as it has of them. Borrows from `value`.
std::vector<TVMFFIAny> ItemsOf(const Node& node, const TVMFFIAny& value) {
  if (node.opt_keys == nullptr) {
    const graphffi::Elements elements(value);
    return {elements.begin(), elements.end()};
  }
  std::vector<TVMFFIAny> items;
  for (int32_t i = 0; i < node.count; ++i) {
    const auto found = MapOf(value).find(graphffi::MakeString(KeyOf(node, i)));
    if (found == MapOf(value).end()) break;
    items.push_back(graphffi::ToAny(found->second));
  }
  return items;
}

std::string Describe(const Node& node) {
  if (node.opt_keys == nullptr) return "a list of " + std::to_string(node.count);
  if (node.count == 0) return "an empty dict";
  std::string keys;
  for (int32_t i = 0; i < node.count; ++i) {
    keys += (i == 0 ? "'" : ", '") + KeyOf(node, i) + "'";
  }
  return "a dict with the keys " + keys;
}

int64_t SizeOf(const TVMFFIAny& value) {
  if (value.type_index == kTVMFFIArray) return graphffi::Elements(value).size;
  return static_cast<int64_t>(MapOf(value).size());
}

std::string Describe(const TVMFFIAny& value) {
  if (!IsNested(value)) return "another value";
  const bool is_list = value.type_index == kTVMFFIArray;
  return (is_list ? "a list of " : "a dict of ") + std::to_string(SizeOf(value));
}

/// The value of `*node` and of what is in it; moves both on.
Any Nest(const Node** node, ObjectRef** result) {
  const Node& self = *(*node)++;
  if (self.count < 0) {
    return graphffi::TakeAny(graphffi::ToAny(kTVMFFITensor, (*result)++->release()));
  }
  std::vector<Any> values;
  for (int32_t i = 0; i < self.count; ++i) {
    if (self.opt_keys != nullptr) values.push_back(graphffi::MakeString(KeyOf(self, i)));
    values.push_back(Nest(node, result));
  }
  return self.opt_keys == nullptr ? graphffi::MakeArray(values) : graphffi::MakeMap(values);
}

}  // namespace

Arguments::Arguments(const Method& method, const TVMFFIAny* args, int32_t num_args,
                     bool has_results)
    : method_(method), args_(args), num_args_(num_args) {
  if (std::none_of(args, args + num_args, &IsNested)) return;
  const int32_t rest = AddOperands(args, num_args, has_results);
  if (num_args - rest == 1 && IsNested(args[rest])) {
    Add(method.result_nodes, args[rest], "results");
  } else {
    values_.insert(values_.end(), args + rest, args + num_args);
  }
  args_ = values_.data();
  num_args_ = static_cast<int32_t>(values_.size());
}

/// Returns where results begin.
int32_t Arguments::AddOperands(const TVMFFIAny* args, int32_t num_args, bool has_results) {
  const int32_t count = method_.input_nodes->count;
  if (std::none_of(args, args + std::min(count, num_args), &IsNested)) {
    const int32_t num_flat = has_results ? std::min(method_.num_operands, num_args) : num_args;
    values_.assign(args, args + num_flat);
    return num_flat;
  }
  if (num_args < count || (num_args > count && !has_results)) {
    const char* const* opt_names = method_.input_nodes->opt_keys;
    std::string names;
    for (int32_t i = 0; opt_names != nullptr && i < count; ++i) {
      names += (i == 0 ? "; arguments: " : ", ") + std::string(opt_names[i]);
    }
    Fail("TypeError", "expected " + graphffi::Counted(count, "argument") + ", got " +
                          std::to_string(num_args) + names);
  }
  const Node* node = method_.input_nodes + 1;
  for (int32_t i = 0; i < count; ++i) {
    node = Add(node, args[i], "argument " + NameOf(i));
  }
  return count;
}

/// The name of an argument in the program, or its position.
std::string Arguments::NameOf(int32_t i) const {
  const char* const* opt_names = method_.input_nodes->opt_keys;
  return opt_names == nullptr ? std::to_string(i) : "'" + std::string(opt_names[i]) + "'";
}

/// Returns the node behind.
const Node* Arguments::Add(const Node* node, const TVMFFIAny& value, const std::string& path) {
  const Node& self = *node++;
  if (self.count < 0) {
    values_.push_back(value);
    return node;
  }
  const bool is_dict = self.opt_keys != nullptr;
  if (value.type_index != (is_dict ? kTVMFFIMap : kTVMFFIArray)) {
    Fail("TypeError", path + ": expected " + Describe(self) + ", got " + Describe(value));
  }
  const std::vector<TVMFFIAny> items = ItemsOf(self, value);
  const bool lacks_any = static_cast<int32_t>(items.size()) < self.count;
  if (lacks_any || SizeOf(value) != self.count) {
    const std::string lack =
        is_dict && lacks_any ? " without '" + KeyOf(self, static_cast<int32_t>(items.size())) + "'"
                             : "";
    Fail("ValueError", path + ": expected " + Describe(self) + ", got " + Describe(value) + lack);
  }
  for (int32_t i = 0; i < self.count; ++i) {
    const std::string key = is_dict ? "'" + KeyOf(self, i) + "'" : std::to_string(i);
    node = Add(node, items[static_cast<size_t>(i)], path + "[" + key + "]");
  }
  return node;
}

void Arguments::Fail(const char* kind, const std::string& text) const {
  throw graphffi::Error(kind, std::string(method_.name) + ": " + text);
}

tvm::ffi::Any NestResults(const Method& method, BoundedList<ObjectRef>* results) {
  const Node* node = method.result_nodes;
  ObjectRef* result = results->data();
  return Nest(&node, &result);
}

}  // namespace graphffi_standalone
