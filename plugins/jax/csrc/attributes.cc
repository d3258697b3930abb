// SPDX-License-Identifier: Apache-2.0
#include "attributes.h"

#include <tvm/ffi/function.h>

#include <charconv>
#include <cstring>
#include <functional>
#include <string_view>

#include "call/error.h"
#include "dtype.h"

namespace graphffi_jax {

using graphffi::Error;

namespace {

using Tag = xla::AttributeTag;

/// An attribute that a call may have. `read` is false for values of another type.
struct Field {
  const char* name;
  std::string expected;
  std::function<bool(Tag, const void*)> read;
};

bool ReadString(Tag tag, const void* value, std::string* out) {
  if (tag != xla::kString) return false;
  auto* span = static_cast<const xla::ByteSpan*>(value);
  out->assign(span->data, span->size);
  return true;
}

Field String(const char* name, std::string* out) {
  return {name, "a string",
          [out](Tag tag, const void* value) { return ReadString(tag, value, out); }};
}

template <typename T>
Field Array(const char* name, xla::DataType dtype, std::vector<T>* out) {
  const auto read = [dtype, out](Tag tag, const void* value) {
    if (tag != xla::kArray) return false;
    auto* array = static_cast<const xla::Array*>(value);
    if (array->dtype != dtype) return false;
    out->resize(array->size);
    if (array->size != 0) std::memcpy(out->data(), array->data, array->size * sizeof(T));
    return true;
  };
  return {name, "an array of " + DataTypeName(dtype), read};
}

template <typename T>
Field Scalar(const char* name, xla::DataType dtype, T* out) {
  const auto read = [dtype, out](Tag tag, const void* value) {
    if (tag != xla::kScalar) return false;
    auto* scalar = static_cast<const xla::Scalar*>(value);
    if (scalar->dtype != dtype) return false;
    std::memcpy(out, scalar->value, sizeof(T));
    return true;
  };
  return {name, "a scalar of " + DataTypeName(dtype), read};
}

std::vector<Field> Fields(CallAttributes* to, std::string* packed_strs) {
  return {
      String("digest", &to->digest),
      // Written by the plugin's Python part for itself, for when XLA splits the call. Loops (@0)
      // are gone then.
      {"dims", "a string without loops, since XLA splits the call",
       [](Tag tag, const void* value) {
         std::string dims;
         return ReadString(tag, value, &dims) && dims.find('@') == std::string::npos;
       }},
      Array("floats", xla::kF64, &to->floats),
      String("func", &to->func),
      {"has_side_effect", "a scalar of bool",
       [](Tag tag, const void*) { return tag == xla::kScalar; }},
      Array("ints", xla::kS64, &to->ints),
      String("library", &to->library),
      Scalar("mutated", xla::kS64, &to->mutated),
      String("names", &to->names),
      Scalar("ordered", xla::kPred, &to->ordered),
      Scalar("pass_owning_tensor", xla::kPred, &to->pass_owning_tensor),
      String("plan", &to->plan),
      String("strs", packed_strs),
      String("subject", &to->subject),
      Scalar("workspace", xla::kPred, &to->workspace),
  };
}

void ReadAll(const xla::Attributes& attributes, const std::vector<Field>& fields,
             Problems* problems) {
  for (int64_t i = 0; i < attributes.size; ++i) {
    std::string_view name(attributes.names[i]->data, attributes.names[i]->size);
    const Field* field = nullptr;
    for (const Field& candidate : fields) {
      if (name == candidate.name) field = &candidate;
    }
    std::string quoted = "attribute '" + std::string(name) + "': ";
    if (field == nullptr) {
      std::string known;
      for (const Field& candidate : fields) {
        known += (known.empty() ? "" : ", ") + std::string(candidate.name);
      }
      problems->Add("TypeError", quoted + "expected a known attribute (" + known + "), got " +
                                     DescribeAttribute(attributes.tags[i], attributes.values[i]));
    } else if (!field->read(attributes.tags[i], attributes.values[i])) {
      problems->Add("TypeError", quoted + "expected " + field->expected + ", got " +
                                     DescribeAttribute(attributes.tags[i], attributes.values[i]));
    }
  }
}

}  // namespace

std::string DescribeAttribute(xla::AttributeTag tag, const void* value) {
  switch (tag) {
    case xla::kString:
      return "a string";
    case xla::kScalar:
      return "a scalar of " + DataTypeName(static_cast<const xla::Scalar*>(value)->dtype);
    case xla::kArray:
      return "an array of " + DataTypeName(static_cast<const xla::Array*>(value)->dtype);
    case xla::kDictionary:
      return "a dictionary";
  }
  return "an attribute of unknown type " + std::to_string(tag);
}

void Problems::Add(const std::string& kind, const std::string& text) {
  if (text_.empty()) kind_ = kind;
  text_ += (text_.empty() ? "" : "; ") + text;
}

void Problems::ThrowIfAny(const std::string& subject) const {
  if (!text_.empty()) throw Error(kind_, subject + ": " + text_);
}

void AppendToKey(std::string_view bytes, std::string* key) {
  key->append(std::to_string(bytes.size())).append(":").append(bytes);
}

bool SplitStrings(std::string_view text, std::vector<std::string>* out) {
  while (!text.empty()) {
    size_t length;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), length);
    if (error != std::errc() || end == text.data() + text.size() || *end != ':') return false;
    text.remove_prefix(end + 1 - text.data());
    if (length > text.size()) return false;
    out->emplace_back(text.substr(0, length));
    text.remove_prefix(length);
  }
  return true;
}

CallAttributes CallAttributes::Decode(const xla::Attributes& attributes) {
  CallAttributes result;
  std::string packed_strs;
  Problems problems;
  ReadAll(attributes, Fields(&result, &packed_strs), &problems);
  if (result.func.empty()) {
    problems.Add("TypeError", "attribute 'func': expected the reference of a kernel, got nothing");
  }
  if (!SplitStrings(packed_strs, &result.strs)) {
    problems.Add("ValueError",
                 "attribute 'strs': expected parts of the form '<length>:<bytes>', got '" +
                     packed_strs.substr(0, 64) + "'");
  }
  if (result.mutated < 0) {
    problems.Add("ValueError",
                 "attribute 'mutated': expected 0 or more, got " + std::to_string(result.mutated));
  }
  if (result.subject.empty()) result.subject = result.func.empty() ? "tvm_ffi.call" : result.func;
  problems.ThrowIfAny(result.subject);
  return result;
}

std::string CallAttributes::Key() const {
  std::string key;
  for (const std::string* text : {&func, &library, &plan, &digest, &subject, &names})
    AppendToKey(*text, &key);
  auto append_all = [&key](const auto& values) {
    AppendToKey({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(values[0])},
                &key);
  };
  append_all(ints);
  append_all(floats);
  for (const std::string& text : strs) AppendToKey(text, &key);
  return key;
}

std::string CallAttributes::Reference() const {
  if (library.empty() || !graphffi::IsLibraryReference(func)) return func;
  if (graphffi::IsProvided(library)) return library + func.substr(func.rfind("::"));
  CheckLibrary();
  return func;
}

void CallAttributes::CheckLibrary() const {
  const auto find_name = tvm::ffi::Function::GetGlobal("graphffi_jax.packaged_name");
  if (!find_name.has_value()) return;
  const std::string found = (*find_name)(func).cast<std::string>();
  if (found.empty() || found == library) return;
  throw Error("ValueError", "graphffi: kernel '" + func +
                                "': expected the library of the export, " + library + ", got " +
                                found + "; make the program again, or load it from its package");
}

SiteParts CallAttributes::Resolve() const {
  SiteParts parts;
  parts.key = Key();
  const std::string reference = Reference();
  parts.facts = graphffi::FactsOf(reference);
  parts.kernel = std::make_shared<graphffi::KernelSlot>(reference);
  parts.subject = subject;
  parts.names = graphffi::TensorNames::Parse(names);
  parts.plan = plan;
  parts.attribute_names = graphffi::PlanNames::Raw(0, 0, static_cast<int32_t>(ints.size()),
                                                   static_cast<int32_t>(floats.size()),
                                                   static_cast<int32_t>(strs.size()))
                              .attributes;
  for (int64_t value : ints) parts.attributes.emplace_back(value);
  for (double value : floats) parts.attributes.emplace_back(value);
  for (const std::string& value : strs) parts.attributes.emplace_back(tvm::ffi::String(value));
  parts.mutated = mutated;
  parts.pass_owning_tensor = pass_owning_tensor;
  parts.is_ordered = ordered;
  parts.has_workspace = workspace;
  return parts;
}

}  // namespace graphffi_jax
