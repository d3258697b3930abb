// SPDX-License-Identifier: Apache-2.0
#include "operands.h"

#include <algorithm>

#include "call/call_frame.h"
#include "call/describe_tensor.h"
#include "call/error.h"
#include "call/lent_tensor.h"
#include "call/value.h"
#include "shapes/conditions.h"

namespace graphffi_standalone {

void FailCount(const Method& method, const char* suffix, const std::string& expected,
               const std::string& got) {
  std::string names;
  for (int32_t i = 0; i < method.num_operands; ++i) {
    names += (i == 0 ? "; operands: " : ", ") + std::string(method.operands[i].name);
  }
  throw graphffi::Error("TypeError", std::string(method.name) + suffix + ": expected " + expected +
                                         ", got " + got + names);
}

Operands::Operands(const Method& method, const TVMFFIAny* args, int32_t num_args)
    : method_(method),
      args_(args),
      device_{static_cast<DLDeviceType>(method.device_type), method.device_type == kDLCPU ? 0 : -1},
      sizes_(method.num_symbols, -1),
      views_(method.num_operands),
      taken_(method.num_operands),
      lent_(method.num_operands) {
  if (num_args != method.num_operands) {
    FailCount(method, "", graphffi::Counted(method.num_operands, "operand"),
              std::to_string(num_args));
  }
  for (int32_t i = 0; i < num_args; ++i) Check(method.operands[i], args[i]);
  if (!problems_.empty()) {
    throw graphffi::Error(is_type_error_ ? "TypeError" : "ValueError",
                          std::string(method.name) + ": " + problems_);
  }
  if (device_.device_id < 0) device_.device_id = 0;
  scope_.emplace(device_);
  for (int32_t i = 0; i < num_args; ++i) Take(method.operands[i], args[i]);
  CheckConditions();
  for (int32_t i = 0; i < num_args; ++i) {
    if (method.operands[i].is_updated) CheckMemory(i, args);
  }
}

const graphffi::Conditions* ParseConditions(const char* text) {
  return new graphffi::Conditions(graphffi::Conditions::Parse(text));
}

void Operands::CheckConditions() const {
  if (method_.opt_conditions == nullptr) return;
  BoundedList<const DLTensor*> tensors(views_.size());
  for (const DLTensor& view : views_) tensors.Add(&view);
  const auto describe = [this](int32_t i) { return graphffi::DescribeTensor(views_[i]); };
  const auto broken = method_.opt_conditions->FindBroken(tensors.data(), tensors.size(), describe);
  if (!broken.has_value()) return;
  throw graphffi::Error(broken->kind, std::string(method_.name) + ": " + broken->message);
}

/// The code reads and writes operands in any order. A copy of an operand does not see updates.
void Operands::CheckMemory(int32_t updated, const TVMFFIAny* args) const {
  for (int32_t i = 0; i < views_.size(); ++i) {
    if (i == updated || !Overlap(views_[updated], *graphffi::TensorOf(args[i]))) continue;
    throw graphffi::Error(
        "ValueError", std::string(method_.name) + ": operand '" + method_.operands[updated].name +
                          "': expected memory of its own, since the model updates it, got "
                          "memory shared with operand '" +
                          method_.operands[i].name + "'; pass a copy");
  }
}

void Operands::Expect(const Operand& operand, const std::string& got, bool is_value) {
  if (!problems_.empty()) problems_ += "; ";
  problems_ +=
      std::string("operand '") + operand.name + "': expected " + Describe(operand) + ", got " + got;
  is_type_error_ = is_type_error_ || !is_value;
}

void Operands::Check(const Operand& operand, const TVMFFIAny& arg) {
  const DLTensor* view = graphffi::TensorOf(arg);
  if (view == nullptr) {
    return Expect(operand, graphffi::TypeKeyOf(arg.type_index), /*is_value=*/false);
  }
  const bool has_dtype = view->dtype.code == operand.dtype_code &&
                         view->dtype.bits == operand.dtype_bits && view->dtype.lanes == 1;
  if (!has_dtype) return Expect(operand, graphffi::DescribeTensor(*view), /*is_value=*/false);
  if (!HasDevice(operand, *view) || view->ndim != operand.ndim) {
    return Expect(operand, graphffi::DescribeTensor(*view), /*is_value=*/true);
  }
  CheckSizes(operand, *view);
}

bool Operands::HasDevice(const Operand& operand, const DLTensor& view) {
  if (view.device.device_type != operand.device_type) return false;
  if (operand.device_type == kDLCPU) return true;
  if (device_.device_id < 0) device_.device_id = view.device.device_id;
  return view.device.device_id == device_.device_id;
}

/// Torch exports programs for sizes of 2 or more.
constexpr const char* kSmallSize = "; export a program with this size";

/// The first operand that has a symbol's size decides it.
void Operands::CheckSizes(const Operand& operand, const DLTensor& view) {
  bool fits = true;
  const char* advice = "";
  for (int32_t i = 0; i < operand.ndim && fits; ++i) {
    const Dim& dim = operand.dims[i];
    const int64_t size = view.shape[i];
    if (dim.symbol < 0) {
      fits = dim.offset == -1 || size == dim.offset;
      continue;
    }
    const Symbol& symbol = method_.symbols[dim.symbol];
    int64_t& known = sizes_[dim.symbol];
    const int64_t value = (size - dim.offset) / dim.multiple;
    fits = value * dim.multiple + dim.offset == size && value >= symbol.min &&
           value <= symbol.max && (known == -1 || known == value);
    if (fits) known = value;
    if (size < 2 && value < symbol.min) advice = kSmallSize;
  }
  if (!fits) Expect(operand, graphffi::DescribeTensor(view) + advice, /*is_value=*/true);
}

/// "float32[batch=4, 64] on cpu", as far as the call's sizes are known.
std::string Operands::Describe(const Operand& operand) const {
  const DLDataType dtype{operand.dtype_code, operand.dtype_bits, 1};
  std::string text = graphffi::DTypeName(dtype) + "[";
  for (int32_t i = 0; i < operand.ndim; ++i) {
    const Dim& dim = operand.dims[i];
    if (i != 0) text += ", ";
    if (dim.symbol < 0) {
      text += dim.offset == -1 ? "?" : std::to_string(dim.offset);
      continue;
    }
    const Symbol& symbol = method_.symbols[dim.symbol];
    if (dim.multiple != 1) text += std::to_string(dim.multiple) + "*";
    text += symbol.name;
    if (dim.offset != 0) text += (dim.offset > 0 ? "+" : "") + std::to_string(dim.offset);
    const bool is_symbol = dim.multiple == 1 && dim.offset == 0;
    const int64_t known = sizes_[dim.symbol];
    text += known != -1 ? "=" + std::to_string(dim.multiple * known + dim.offset)
                        : (is_symbol ? " (" : " (" + std::string(symbol.name) + ": ") +
                              std::to_string(symbol.min) + " to " +
                              (symbol.max == INT64_MAX ? "any" : std::to_string(symbol.max)) + ")";
  }
  text += "] on ";
  if (operand.device_type == kDLCPU) return text + "cpu";
  return text + (device_.device_id < 0 ? kOptDeviceKind->name : graphffi::DeviceToName(device_));
}

void Operands::Take(const Operand& operand, const TVMFFIAny& arg) {
  const DLTensor& view = *graphffi::TensorOf(arg);
  const bool is_compact = graphffi::IsCompact(view);
  if (!is_compact && operand.is_updated) {
    throw graphffi::Error("ValueError",
                          std::string(method_.name) + ": operand '" + operand.name +
                              "': expected a contiguous tensor, since the model updates it, got "
                              "one with other strides; pass a contiguous one");
  }
  if (!is_compact) {
    taken_.Add(CompactCopy(view)->handle());
  } else if (arg.type_index == kTVMFFITensor && view.strides != nullptr) {
    TVMFFIObjectIncRef(arg.v_obj);
    taken_.Add(arg.v_obj);
  } else {
    const bool is_owned = arg.type_index == kTVMFFITensor;
    DLTensor compact = view;
    compact.strides = nullptr;
    Tensor* own = Tensor::View(DataOf(view), compact, is_owned ? arg.v_obj : nullptr);
    taken_.Add(own->handle());
    if (!is_owned) {
      TVMFFIObjectIncRef(own->handle());
      lent_.Add(own->handle());
    }
  }
  views_.Add(*TVMFFITensorGetDLTensorPtr(taken_[taken_.size() - 1].get()));
}

bool Operands::Have(TVMFFIObjectHandle tensor) const {
  Tensor* opt_own = Tensor::OptOf(tensor);
  const TVMFFIObjectHandle root = opt_own == nullptr ? tensor : opt_own->root();
  const DLTensor& view = *TVMFFITensorGetDLTensorPtr(tensor);
  for (int32_t i = 0; i < views_.size(); ++i) {
    const bool is_object = args_[i].type_index == kTVMFFITensor;
    if (is_object && args_[i].v_obj == root) return true;  // also one without elements
    if (Overlap(view, *graphffi::TensorOf(args_[i]))) return true;
  }
  return false;
}

void Operands::Release(BoundedList<TVMFFIObjectHandle>* handles) {
  for (ObjectRef& ref : taken_) handles->Add(ref.release());
}

/// False if a kernel kept one.
bool Operands::TakeEach() {
  bool are_back = true;
  for (const ObjectRef& ref : lent_) {
    auto* header = static_cast<TVMFFIObject*>(ref.get());
    const uint64_t count = __atomic_load_n(&header->combined_ref_count, __ATOMIC_ACQUIRE);
    if ((count & 0xffffffffU) == 1) continue;
    are_back = false;
    DLTensor* view = TVMFFITensorGetDLTensorPtr(ref.get());
    view->data = nullptr;
    view->ndim = std::max(view->ndim, 1);  // one without dimensions has an element
    for (int32_t i = 0; i < view->ndim; ++i) view->shape[i] = 0;
  }
  return are_back;
}

void Operands::TakeBack() {
  if (TakeEach()) return;
  throw graphffi::Error("RuntimeError", graphffi::kKeptTensor);
}

}  // namespace graphffi_standalone
