// SPDX-License-Identifier: Apache-2.0
#include "nested.h"

#include <algorithm>

#include "callframe/convert.h"
#include "callframe/error.h"
#include "callframe/global_function.h"
#include "callframe/value.h"

namespace graphffi_standalone {
namespace {

bool IsNested(const TVMFFIAny& value) {
  return value.type_index == kTVMFFIArray || value.type_index == kTVMFFIMap;
}

TVMFFIAny Release(ObjectRef* tensor) {
  return graphffi::MakeObject(kTVMFFITensor, tensor->release());
}

/// The values of a dict's keys, as many as it has of them.
graphffi::OwnedValues ItemsOf(const Node& node, const TVMFFIAny& map) {
  graphffi::OwnedValues keys, items;
  for (int32_t i = 0; i < node.count; ++i) {
    keys.Add(graphffi::MakeString(node.opt_keys[i]));
    const TVMFFIAny args[] = {map, keys.data()[i]};
    if (graphffi::CallGlobal("ffi.MapCount", args, 2).v_int64 == 0) break;
    items.Add(graphffi::CallGlobal("ffi.MapGetItem", args, 2));
  }
  return items;
}

std::string Describe(const Node& node) {
  if (node.opt_keys == nullptr) return "a list of " + std::to_string(node.count);
  if (node.count == 0) return "an empty dict";
  std::string keys;
  for (int32_t i = 0; i < node.count; ++i) {
    keys += (i == 0 ? "'" : ", '") + std::string(node.opt_keys[i]) + "'";
  }
  return "a dict with the keys " + keys;
}

int64_t SizeOf(const TVMFFIAny& value) {
  const bool is_list = value.type_index == kTVMFFIArray;
  return graphffi::CallGlobal(is_list ? "ffi.ArraySize" : "ffi.MapSize", &value, 1).v_int64;
}

std::string Describe(const TVMFFIAny& value) {
  if (!IsNested(value)) return "another value";
  const bool is_list = value.type_index == kTVMFFIArray;
  return (is_list ? "a list of " : "a dict of ") + std::to_string(SizeOf(value));
}

/// The value of `*node` and of what is in it; moves both on.
TVMFFIAny Nest(const Node** node, ObjectRef** result) {
  const Node& self = *(*node)++;
  if (self.count < 0) return Release((*result)++);
  graphffi::OwnedValues values;
  for (int32_t i = 0; i < self.count; ++i) {
    if (self.opt_keys != nullptr) values.Add(graphffi::MakeString(self.opt_keys[i]));
    values.Add(Nest(node, result));
  }
  if (self.opt_keys == nullptr) return graphffi::MakeArray(values.data(), values.size());
  return graphffi::CallGlobal("ffi.Map", values.data(), values.size());
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
    Fail("TypeError", "expected " + std::to_string(count) + " nested arguments, got " +
                          std::to_string(num_args));
  }
  const Node* node = method_.input_nodes + 1;
  for (int32_t i = 0; i < count; ++i) node = Add(node, args[i], "argument " + std::to_string(i));
  return count;
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
  containers_.push_back(is_dict ? ItemsOf(self, value) : graphffi::ElementsOf(value));
  const graphffi::OwnedValues& elements = containers_.back();
  const bool lacks_any = elements.size() < self.count;
  // A list's elements are all there; of a dict's, those of the keys that are asked for.
  if (lacks_any || (is_dict ? SizeOf(value) : elements.size()) != self.count) {
    const std::string lack = is_dict && lacks_any
                                 ? " without '" + std::string(self.opt_keys[elements.size()]) + "'"
                                 : "";
    Fail("ValueError", path + ": expected " + Describe(self) + ", got " + Describe(value) + lack);
  }
  for (int32_t i = 0; i < self.count; ++i) {
    const std::string key = is_dict ? "'" + std::string(self.opt_keys[i]) + "'" : std::to_string(i);
    node = Add(node, elements.data()[i], path + "[" + key + "]");
  }
  return node;
}

void Arguments::Fail(const char* kind, const std::string& text) const {
  throw graphffi::Error(kind, std::string(method_.name) + ": " + text);
}

TVMFFIAny NestResults(const Method& method, BoundedList<ObjectRef>* results) {
  const Node* node = method.result_nodes;
  ObjectRef* result = results->data();
  return Nest(&node, &result);
}

}  // namespace graphffi_standalone
