// SPDX-License-Identifier: Apache-2.0
#include "attributes.h"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <utility>

#include "call/convert.h"
#include "call/describe_tensor.h"
#include "call/error.h"
#include "call/text_lines.h"
#include "call/value.h"

namespace graphffi_onnxruntime {

using graphffi::Error;
using tvm::ffi::Any;

namespace {

const char* NameOf(NodeText::Class type) {
  static constexpr const char* kNames[] = {"int", "bool", "float", "str"};
  return kNames[static_cast<int>(type)];
}

[[noreturn]] void Fail(const NodeText& text, const std::string& name, const std::string& expected,
                       const std::string& got) {
  throw Error("ValueError", text.subject() + ": attribute '" + name + "': expected " + expected +
                                ", got " + got + "; export again");
}

/// Reads the attributes of a node, one by one.
class Reader {
 public:
  Reader(const NodeText& text, const ort::Api* api, const ort::KernelInfo* info)
      : text_(text), api_(api), info_(info) {}

  void Read(const NodeText::Attribute& attribute) {
    using Class = NodeText::Class;
    const int32_t count = attribute.count;
    const bool is_list = count != graphffi::Slot::kSingle;
    if (count == 0) return;
    if (attribute.type == Class::kStr) {
      is_list ? ReadStrings(attribute) : ReadString(attribute);
    } else if (attribute.type == Class::kFloat) {
      for (const float value : ReadNumbers<float, ort::GetAttributeFloat, ort::GetAttributeFloats>(
               attribute, is_list)) {
        Add(&floats_, attribute, static_cast<double>(value));
      }
    } else {
      for (const int64_t value :
           ReadNumbers<int64_t, ort::GetAttributeInt, ort::GetAttributeInts>(attribute, is_list)) {
        Add(&ints_, attribute, value);
        if (attribute.type == Class::kInt) given_.push_back(graphffi::ToAny(value));
      }
    }
  }

  void Complete(const NodeText::Value& value) {
    Item& item = ItemOf(value);
    // An attribute that was edited since is the one that counts.
    if (value.bank == 's') {
      if (TextOf(item.value) == value.text.c_str()) item.value = graphffi::MakeString(value.text);
      return;
    }
    const auto exact = graphffi::ReadTextNumber<double>("exact", value.text);
    const auto found = item.value.cast<double>();
    if (static_cast<float>(exact) == static_cast<float>(found) &&
        std::signbit(exact) == std::signbit(found)) {
      item.value = exact;
    }
  }

  void CheckFixed(const NodeText::Value& value) {
    const Item& item = ItemOf(value);
    const std::string found = TextOf(item.value);
    bool is_as_exported = found == value.text;
    if (value.bank == 'f') {  // whose text is rounded
      const auto expected = graphffi::ReadTextNumber<double>("fixed", value.text);
      const auto number = item.value.cast<double>();
      is_as_exported = number == expected || (std::isnan(number) && std::isnan(expected));
    }
    if (is_as_exported) return;
    Fail(text_, *item.name, "'" + value.text + "', as in the call by which the model was exported",
         "'" + found + "'");
  }

  Attributes Finish() {
    Attributes attributes;
    for (std::vector<Item>* bank : {&ints_, &floats_, &strs_}) {
      for (Item& item : *bank) {
        attributes.key += KeyOf(item.value);
        attributes.values.push_back(std::move(item.value));
      }
    }
    attributes.ints = std::move(given_);
    attributes.counts.ints = static_cast<int32_t>(ints_.size());
    attributes.counts.floats = static_cast<int32_t>(floats_.size());
    attributes.counts.strs = static_cast<int32_t>(strs_.size());
    return attributes;
  }

 private:
  struct Item {
    Any value;
    const std::string* name;
  };

  /// Its bytes, and how many these are.
  static std::string KeyOf(const Any& value) {
    const TVMFFIAny view = graphffi::ToAny(value);
    std::string bytes(reinterpret_cast<const char*>(&view.v_int64), sizeof(view.v_int64));
    if (const auto text = graphffi::TextOf(view)) bytes = *text;
    return std::to_string(bytes.size()) + ":" + bytes;
  }

  static std::string TextOf(const Any& value) {
    const TVMFFIAny view = graphffi::ToAny(value);
    if (const auto text = graphffi::TextOf(view)) return std::string(*text);
    if (view.type_index == kTVMFFIInt) return std::to_string(view.v_int64);
    char digits[32];
    std::snprintf(digits, sizeof(digits), "%.9g", view.v_float64);  // ONNX has floats of 32 bits
    return digits;
  }

  void Add(std::vector<Item>* bank, const NodeText::Attribute& attribute, Any value) {
    bank->push_back({std::move(value), &attribute.name});
  }

  Item& ItemOf(const NodeText::Value& value) {
    std::vector<Item>& bank = value.bank == 'n' ? ints_ : value.bank == 'f' ? floats_ : strs_;
    const auto index = static_cast<size_t>(value.index);
    if (index >= bank.size()) graphffi::FailInText("value", "one of an attribute", value.text);
    return bank[index];
  }

  /// Releases a status; false if it is one.
  bool IsDone(ort::Status* opt_status) const {
    if (opt_status != nullptr) ort::ReleaseStatus::Call(api_, opt_status);
    return opt_status == nullptr;
  }

  [[noreturn]] void FailAbsent(const NodeText::Attribute& attribute) const {
    const std::string type = NameOf(attribute.type);
    const bool is_list = attribute.count != graphffi::Slot::kSingle;
    const std::string expected = is_list         ? "a list of " + type + "s"
                                 : type == "int" ? "an int"
                                                 : "a " + type;
    Fail(text_, attribute.name, expected, "none, or one of another kind");
  }

  void CheckCount(const NodeText::Attribute& attribute, size_t found) const {
    if (found == static_cast<size_t>(attribute.count)) return;
    Fail(text_, attribute.name,
         graphffi::Counted(attribute.count, "item") + ", as in the exported model",
         std::to_string(found));
  }

  template <typename T, typename One, typename Many>
  std::vector<T> ReadNumbers(const NodeText::Attribute& attribute, bool is_list) const {
    const char* name = attribute.name.c_str();
    size_t count = 1;
    if (is_list) {
      const bool is_there = IsDone(Many::Call(api_, info_, name, nullptr, &count));
      if (!is_there) FailAbsent(attribute);
      CheckCount(attribute, count);
    }
    std::vector<T> values(count);
    const bool is_read = IsDone(is_list ? Many::Call(api_, info_, name, values.data(), &count)
                                        : One::Call(api_, info_, name, values.data()));
    if (!is_read) FailAbsent(attribute);
    return values;
  }

  void ReadString(const NodeText::Attribute& attribute) {
    const std::optional<std::string> value = StringOf(api_, info_, attribute.name);
    if (!value) FailAbsent(attribute);
    Add(&strs_, attribute, graphffi::MakeString(*value));
  }

  void ReadStrings(const NodeText::Attribute& attribute) {
    ort::Allocator* allocator = nullptr;
    Call<ort::GetDefaultAllocator>(api_, &allocator);
    char** items = nullptr;
    size_t count = 0;
    if (!IsDone(ort::GetAttributeStrings::Call(api_, info_, attribute.name.c_str(), allocator,
                                               &items, &count))) {
      FailAbsent(attribute);
    }
    for (size_t i = 0; i < count; ++i) {
      Add(&strs_, attribute, graphffi::MakeString(items[i]));
      IsDone(ort::AllocatorFree::Call(api_, allocator, items[i]));
    }
    IsDone(ort::AllocatorFree::Call(api_, allocator, items));
    CheckCount(attribute, count);
  }

  const NodeText& text_;
  const ort::Api* api_;
  const ort::KernelInfo* info_;
  std::vector<Item> ints_, floats_, strs_;
  std::vector<TVMFFIAny> given_;
};

}  // namespace

std::optional<std::string> StringOf(const ort::Api* api, const ort::KernelInfo* info,
                                    const std::string& name) {
  size_t size = 0;
  if (auto* status = ort::GetAttributeString::Call(api, info, name.c_str(), nullptr, &size)) {
    ort::ReleaseStatus::Call(api, status);
    return std::nullopt;
  }
  std::string text(size, '\0');
  Call<ort::GetAttributeString>(api, info, name.c_str(), text.data(), &size);
  text.resize(size - 1);  // without the NUL
  return text;
}

std::string BytesOf(const ort::Api* api, const ort::ShapeInferContext* context,
                    const std::string& name, int kind) {
  const ort::OpAttribute* attribute = nullptr;
  Call<ort::GetShapeAttribute>(api, context, name.c_str(), &attribute);
  size_t size = 0;
  ort::Status* too_small = ort::ReadOpAttribute::Call(api, attribute, kind, nullptr, 0, &size);
  if (too_small != nullptr) ort::ReleaseStatus::Call(api, too_small);
  std::string bytes(size, '\0');
  Call<ort::ReadOpAttribute>(api, attribute, kind, bytes.data(), size, &size);
  return bytes;
}

Attributes Attributes::Read(const NodeText& text, const ort::Api* api,
                            const ort::KernelInfo* info) {
  Reader reader(text, api, info);
  for (const NodeText::Attribute& attribute : text.attributes) reader.Read(attribute);
  for (const NodeText::Value& value : text.exact) reader.Complete(value);
  for (const NodeText::Value& value : text.fixed) reader.CheckFixed(value);
  return reader.Finish();
}

std::vector<TVMFFIAny> Attributes::ReadInts(const NodeText& text, const ort::Api* api,
                                            const ort::ShapeInferContext* context) {
  std::vector<TVMFFIAny> found;
  for (const NodeText::Attribute& attribute : text.attributes) {
    if (attribute.type != NodeText::Class::kInt || attribute.count == 0) continue;
    const bool is_list = attribute.count != graphffi::Slot::kSingle;
    const size_t count = is_list ? static_cast<size_t>(attribute.count) : 1;
    const std::string bytes =
        BytesOf(api, context, attribute.name, is_list ? ort::kIntsAttribute : ort::kIntAttribute);
    if (bytes.size() != count * sizeof(int64_t)) {
      Fail(text, attribute.name, std::to_string(count) + " items, as in the exported model",
           std::to_string(bytes.size() / sizeof(int64_t)));
    }
    std::vector<int64_t> values(count);
    std::memcpy(values.data(), bytes.data(), bytes.size());
    for (const int64_t value : values) found.push_back(graphffi::ToAny(value));
  }
  return found;
}

}  // namespace graphffi_onnxruntime
