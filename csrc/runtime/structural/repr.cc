// SPDX-License-Identifier: Apache-2.0
// ffi.ReprPrint: values as Python would print them.
#include <tvm/ffi/big_int.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/device.h>
#include <tvm/ffi/dtype.h>
#include <tvm/ffi/enum.h>
#include <tvm/ffi/reflection/access_path.h>
#include <tvm/ffi/reflection/registry.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "structural.h"

namespace graphffi::runtime {
namespace {

/// The text of the markers for no value and for the begin of keywords; null for other objects.
const char* MarkerText(const Object* object) {
  static const Any missing = ffi::Function::GetGlobalRequired("ffi.GetInvalidObject")();
  static const Any keywords = ffi::Function::GetGlobalRequired("ffi.GetKwargsObject")();
  if (object == missing.as<Object>()) return "<MISSING>";
  return object == keywords.as<Object>() ? "<KWARGS>" : nullptr;
}

class Printer {
 public:
  void Print(const Any& value) {
    switch (value.type_index()) {
      case kTVMFFINone:
        out_ += "None";
        return;
      case kTVMFFIBool:
        out_ += value.cast<bool>() ? "True" : "False";
        return;
      case kTVMFFIInt:
        out_ += std::to_string(value.cast<int64_t>());
        return;
      case kTVMFFIFloat:
        return PrintStreamed(value.cast<double>());
      case kTVMFFIDataType:
        out_ += ffi::DLDataTypeToString(value.cast<DLDataType>());
        return;
      case kTVMFFIDevice:
        return PrintStreamed(value.cast<DLDevice>());
      case kTVMFFISmallStr:
      case kTVMFFIStr:
        out_ += ffi::EscapedStringPy(value.cast<ffi::String>());
        return;
      case kTVMFFISmallBytes:
      case kTVMFFIBytes:
        return PrintBytes(value.cast<ffi::Bytes>());
      default:
        break;
    }
    if (const auto* object = value.as<Object>()) return PrintObject(value, object);
    out_ += value.GetTypeKey();
  }
  std::string Text() && { return std::move(out_); }

 private:
  template <typename T>
  void PrintStreamed(const T& value) {
    std::ostringstream os;
    os << value;
    out_ += os.str();
  }

  void PrintBytes(const ffi::Bytes& bytes) {
    out_ += "b\"";
    for (char c : std::string_view(bytes)) {
      auto byte = static_cast<unsigned char>(c);
      if (c == '"' || c == '\\' || byte < 0x20 || byte >= 0x7F) {
        ffi::detail::AppendFormatted(&out_, "\\x%02x", static_cast<unsigned>(byte));
      } else {
        out_ += c;
      }
    }
    out_ += '"';
  }

  /// An object inside itself is printed as three dots.
  void PrintObject(const Any& value, const Object* object) {
    if (std::find(open_.begin(), open_.end(), object) != open_.end()) {
      out_ += "...";
      PrintAddress(object);
      return;
    }
    StackGuard guard(&depth_);
    open_.push_back(object);
    PrintContent(value, object);
    open_.pop_back();
  }

  void PrintAddress(const Object* object) {
    if (with_address_) ffi::detail::AppendFormatted(&out_, "@%p", static_cast<const void*>(object));
  }

  void PrintContent(const Any& value, const Object* object) {
    switch (value.type_index()) {
      case kTVMFFIArray:
        PrintItems("(", Items(value), Items(value).size() == 1 ? ",)" : ")");
        return PrintAddress(object);
      case kTVMFFIList:
        PrintItems("[", Items(value), "]");
        return PrintAddress(object);
      case kTVMFFIMap:
      case kTVMFFIDict:
        PrintEntries(Entries(value));
        return PrintAddress(object);
      case kTVMFFIShape:
        return PrintItems("Shape(", ffi::ShapeView(value.cast<ffi::Shape>()), ")");
      case kTVMFFIBigInt:
        return PrintStreamed(value.cast<ffi::BigInt>());
      case kTVMFFITensor:
        PrintTensor(*value.cast<ffi::Tensor>().get());
        return PrintAddress(object);
      default:
        if (const char* marker = MarkerText(object)) {
          out_ += marker;
          return;
        }
        return PrintFields(object);
    }
  }

  template <typename Sequence>
  void PrintItems(const char* begin, const Sequence& items, const char* end) {
    out_ += begin;
    const char* separator = "";
    for (const auto& item : items) {
      out_ += separator;
      separator = ", ";
      Print(item);
    }
    out_ += end;
  }

  void PrintEntries(Entries entries) {
    out_ += '{';
    const char* separator = "";
    for (const auto& [key, value] : entries) {
      out_ += separator;
      separator = ", ";
      Print(key);
      out_ += ": ";
      Print(value);
    }
    out_ += '}';
  }

  /// `float32[2, 3]@cpu:0`
  void PrintTensor(const DLTensor& tensor) {
    out_ += ffi::DLDataTypeToString(tensor.dtype);
    PrintItems("[", ffi::ShapeView(tensor.shape, static_cast<size_t>(tensor.ndim)), "]@");
    PrintStreamed(tensor.device);
  }

  void PrintFields(const Object* object) {
    int32_t index = object->type_index();
    if (auto own = OwnFunction(ffi::type_attr::kRepr.name, index)) {
      auto print = ffi::Function::FromTyped([this](AnyView value) {
        std::string before;
        std::swap(out_, before);
        Print(value);
        std::swap(out_, before);
        return ffi::String(std::move(before));
      });
      out_ += (*own)(object, print).cast<ffi::String>();
      return;
    }
    const TVMFFITypeInfo* type = TVMFFIGetTypeInfo(index);
    out_ += ffi::TypeIndexToTypeKey(index);
    if (const auto* member = AnyView(object).as<ffi::EnumObj>()) {
      out_.append(".").append(member->_str_index);
      return PrintAddress(object);
    }
    PrintAddress(object);
    const char* separator = "(";
    refl::ForEachFieldInfo(type, [&](const TVMFFIFieldInfo* field) {
      if ((field->flags & kTVMFFIFieldFlagBitMaskReprOff) != 0) return;
      out_.append(separator).append(field->name.data, field->name.size).append("=");
      separator = ", ";
      Print(refl::FieldGetter(field)(object));
    });
    if (*separator == ',') out_ += ')';
  }

  static bool IsSet(const char* variable) {
    const char* setting = std::getenv(variable);
    return setting != nullptr && std::string_view(setting) == "1";
  }

  const bool with_address_ = IsSet("TVM_FFI_REPR_WITH_ADDR");
  std::string out_;
  std::vector<const Object*> open_;
  int depth_ = 0;
};

/// `<root>.body[2]["key"]`; what is missing is in angle brackets.
ffi::String PrintAccessPath(const refl::AccessPathObj* path, const ffi::Function& print) {
  std::string text = "<root>";
  for (const refl::AccessStep& step : path->ToSteps()) {
    bool is_missing = step->kind >= refl::AccessKind::kAttrMissing;
    if (step->kind == refl::AccessKind::kAttr) {
      text.append(".").append(step->key.cast<ffi::String>());
    } else {
      text.append(is_missing ? "[<missing:" : "[").append(print(step->key).cast<ffi::String>());
      text += is_missing ? ">]" : "]";
    }
  }
  return text;
}

TVM_FFI_STATIC_INIT_BLOCK() {
  refl::GlobalDef().def("ffi.ReprPrint", [](const Any& value) {
    Printer printer;
    printer.Print(value);
    return ffi::String(std::move(printer).Text());
  });
  refl::TypeAttrDef<refl::AccessPathObj>().def(ffi::type_attr::kRepr.name, PrintAccessPath);
}

}  // namespace
}  // namespace graphffi::runtime
