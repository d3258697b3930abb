// SPDX-License-Identifier: Apache-2.0
#include "call/call_frame.h"

#include <tvm/ffi/container/tensor_detail.h>
#include <tvm/ffi/extra/c_env_api.h>

#include <climits>
#include <cstdlib>
#include <cstring>
#include <new>
#include <optional>
#include <string>

#include "call/convert.h"
#include "call/describe_tensor.h"
#include "call/error.h"
#include "call/signature.h"
#include "call/value.h"

namespace graphffi {

namespace {

/// Stands in args_ where an ffi.Array begins, until EndArray replaces it.
constexpr int32_t kArrayMarker = INT_MIN;

/// Doubles `*buffer`, which is `inline_buffer` or from malloc.
template <typename T>
void Grow(T** buffer, const T* inline_buffer, int32_t* capacity) {
  const size_t bytes = sizeof(T) * static_cast<size_t>(*capacity);
  T* grown = static_cast<T*>(std::malloc(2 * bytes));
  if (grown == nullptr) throw std::bad_alloc();
  std::memcpy(static_cast<void*>(grown), *buffer, bytes);
  if (*buffer != inline_buffer) std::free(*buffer);
  *buffer = grown;
  *capacity *= 2;
}

}  // namespace

void CallFrame::FailMissing(const char* what, int32_t index, int32_t size) {
  throw PlanError("ValueError", "expected at least " + std::to_string(index + 1) + " " + what +
                                    ", got " + std::to_string(size));
}

void CallFrame::Clear() {
  ReleaseOwned();
  if (capacity_ > kInline) std::free(args_);
  if (owned_ != inline_owned_) std::free(owned_);
}

void CallFrame::ReleaseOwned() {
  while (num_owned_ > 0) TVMFFIObjectDecRef(owned_[--num_owned_]);
}

void CallFrame::GrowArguments() {
  Grow(&args_, inline_args_, &capacity_);
  has_grown_ = true;
}

void CallFrame::PushLent(const TVMFFIAny& view) {
  Append(loans_.Lend(static_cast<const DLTensor*>(view.v_ptr)));
}

void CallFrame::PushOwned(TVMFFIAny value) {
  if (value.type_index >= kTVMFFIStaticObjectBegin) {
    if (num_owned_ == owned_capacity_) {
      Grow(&owned_, inline_owned_, &owned_capacity_);
      has_grown_ = true;
    }
    owned_[num_owned_++] = value.v_obj;
  }
  Append(value);
}

void CallFrame::BeginArray() {
  Append(TVMFFIAny{kArrayMarker, {0}, {0}});
  ++array_depth_;
}

void CallFrame::EndArray() {
  int32_t marker = size_ - 1;
  while (args_[marker].type_index != kArrayMarker) --marker;
  const TVMFFIAny array = MakeArray(args_ + marker + 1, size_ - marker - 1);
  size_ = marker;
  --array_depth_;
  PushOwned(array);
}

void CallFrame::PushSlot(const Bank& bank, int32_t index, const char* what) {
  if (index >= bank.size) FailMissing(what, index, bank.size);
  if (bank.opt_slots == nullptr) return Push(bank.values[index]);
  const Slot& slot = bank.opt_slots[index];
  if (slot.count == Slot::kSingle) return Push(bank.values[slot.begin]);
  BeginArray();
  for (int32_t i = 0; i < slot.count; ++i) Push(bank.values[slot.begin + i]);
  EndArray();
}

void CallFrame::PushAttribute(const Plan::Item& item, const Bank& bank) {
  if (item.conversion == Plan::Conversion::kNone) return PushSlot(bank, item.index, "attributes");
  if (item.index >= bank.size) FailMissing("attributes", item.index, bank.size);
  Append(ConvertAttribute(bank.values[bank.slot(item.index).begin], item.conversion));
}

const TVMFFIAny& CallFrame::WorkspaceSize(const Plan& plan, const Plan::Item& item,
                                          const CallValues& values) {
  if (item.conversion == Plan::Conversion::kInt) {
    return plan.constants()[static_cast<size_t>(item.index)];
  }
  const Bank& bank = values.attributes;
  if (item.index >= bank.size) FailMissing("attributes", item.index, bank.size);
  return bank.values[bank.slot(item.index).begin];
}

void CallFrame::PushWorkspace(const Plan& plan, const Plan::Item& item, const CallValues& values) {
  const bool has_size = values.workspace.type_index == kTVMFFIInt;
  if (!has_size && values.workspace.type_index != kTVMFFINone) return Push(values.workspace);
  if (!has_size && item.index == Plan::kNoSize) {
    throw PlanError("ValueError",
                    "expected a workspace, got a call without one; declare workspace= as a number "
                    "of bytes, or let the kernel allocate");
  }
  const TVMFFIAny& size = has_size ? values.workspace : WorkspaceSize(plan, item, values);
  if (size.type_index != kTVMFFIInt || size.v_int64 < 0) {
    throw PlanError("ValueError", "workspace: expected a size in bytes of 0 or more");
  }
  int64_t dim = size.v_int64;
  DLTensor prototype{};
  prototype.device = values.device;
  prototype.ndim = 1;
  prototype.dtype = {kDLUInt, 8, 1};
  prototype.shape = &dim;
  TVMFFIObjectHandle tensor = nullptr;
  CheckRc(TVMFFIEnvTensorAlloc(&prototype, &tensor));
  PushOwned(ToAny(kTVMFFITensor, tensor));
}

namespace {

/// Nothing where the tensor does not have it.
std::optional<int64_t> Read(const Plan::Size& size, const DLTensor& tensor) {
  if (size.dim == Plan::Size::kNDim) return tensor.ndim;
  if (size.dim != Plan::Size::kNumel) {
    const int64_t dim = size.dim < 0 ? int64_t{size.dim} + tensor.ndim : size.dim;
    if (dim < 0 || dim >= tensor.ndim) return std::nullopt;
    return tensor.shape[dim];
  }
  int64_t numel = 1;
  bool overflows = false;
  for (int32_t i = 0; i < tensor.ndim; ++i) {
    if (tensor.shape[i] == 0) return 0;
    overflows |= __builtin_mul_overflow(numel, tensor.shape[i], &numel);
  }
  if (overflows) return std::nullopt;
  return numel;
}

/// "'x': expected a dimension -2 for the plan, got float32[3]"
[[noreturn, gnu::cold]] void FailSize(const Plan::Size& size, const DLTensor* opt_tensor,
                                      const Signature& signature) {
  const bool is_dim = size.dim != Plan::Size::kNDim && size.dim != Plan::Size::kNumel;
  throw Error("ValueError",
              signature.subject() + ": operand '" +
                  signature.names().NameOf(size.bank, static_cast<size_t>(size.slot)) +
                  "': expected " +
                  (is_dim ? "a dimension " + std::to_string(size.dim) : "a number of elements") +
                  " for the plan, got " + (opt_tensor ? DescribeTensor(*opt_tensor) : "no tensor"));
}

/// Of the operations that can fail, in the order of Arithmetic.
constexpr const char* kSigns[] = {" + ", " - ", " * ", " // ", " % "};

}  // namespace

void CallFrame::PushSize(const Plan::Size& size, const CallValues& values,
                         const Signature& signature) {
  const bool is_input = size.bank == Plan::Op::kInput;
  const Bank& bank = is_input ? values.inputs : values.outputs;
  if (size.slot >= bank.size) {
    FailMissing(is_input ? "inputs" : "outputs", size.slot, bank.size);
  }
  const Slot slot = bank.slot(size.slot);
  const DLTensor* opt_tensor =
      slot.count == Slot::kSingle ? TensorOf(bank.values[slot.begin]) : nullptr;
  const auto found = opt_tensor == nullptr ? std::nullopt : Read(size, *opt_tensor);
  if (!found) FailSize(size, opt_tensor, signature);
  Append(ToAny(*found));
}

void CallFrame::Combine(Arithmetic operation) {
  const TVMFFIAny &a = args_[size_ - 2], &b = args_[size_ - 1];
  for (const TVMFFIAny* value : {&a, &b}) {
    if (value->type_index != kTVMFFIInt && value->type_index != kTVMFFIBool) {
      throw PlanError("TypeError", "expected arithmetic of ints, got a value of another type");
    }
  }
  int64_t value = 0;
  if (!Compute(operation, a.v_int64, b.v_int64, &value)) {
    throw PlanError("ValueError", "expected an int of 64 bits, got " + std::to_string(a.v_int64) +
                                      kSigns[static_cast<size_t>(operation)] +
                                      std::to_string(b.v_int64));
  }
  args_[--size_ - 1] = ToAny(value);
}

void CallFrame::PushPlan(const Signature& signature, const CallValues& values) try {
  const Plan& plan = signature.plan();
  for (const Plan::Item& item : plan.items()) {
    switch (item.op) {
      case Plan::Op::kInput:
        PushSlot(values.inputs, item.index, "inputs");
        break;
      case Plan::Op::kOutput:
        PushSlot(values.outputs, item.index, "outputs");
        break;
      case Plan::Op::kAttribute:
        PushAttribute(item, values.attributes);
        break;
      case Plan::Op::kConstant:
        Append(plan.constants()[static_cast<size_t>(item.index)]);
        break;
      case Plan::Op::kBeginArray:
        BeginArray();
        break;
      case Plan::Op::kEndArray:
        EndArray();
        break;
      case Plan::Op::kAllInputs:
        for (int32_t i = 0; i < values.inputs.size; ++i) PushSlot(values.inputs, i, "inputs");
        break;
      case Plan::Op::kAllOutputs:
        for (int32_t i = 0; i < values.outputs.size; ++i) PushSlot(values.outputs, i, "outputs");
        break;
      case Plan::Op::kStream: {
        const bool as_int = item.conversion == Plan::Conversion::kInt;
        TVMFFIAny stream{};
        stream.type_index = as_int ? kTVMFFIInt : kTVMFFIOpaquePtr;
        stream.v_ptr = values.stream;
        Append(stream);
        break;
      }
      case Plan::Op::kWorkspace:
        PushWorkspace(plan, item, values);
        break;
      case Plan::Op::kSize:
        PushSize(plan.sizes()[static_cast<size_t>(item.index)], values, signature);
        break;
      case Plan::Op::kArithmetic:
        Combine(static_cast<Arithmetic>(item.index));
        break;
    }
  }
} catch (const PlanError& error) {
  throw error.Of(signature.subject());
}

/// Cleans up after a failure.
int PlacedFrame::SettleFailed(int rc, TVMFFIAny* result) {
  if (rc == 0) rc = -1;  // the loans' own error
  ReleaseValue(result);
  if (loans_.empty()) return rc;
  // With an error in the slot, that is the one to report.
  TVMFFIObjectHandle raised = nullptr;
  TVMFFIErrorMoveFromRaised(&raised);
  loans_.Settle();
  if (raised != nullptr) {
    TVMFFIErrorSetRaised(raised);
    TVMFFIObjectDecRef(raised);
  }
  return rc;
}

bool IsCompact(const DLTensor& tensor) { return tvm::ffi::IsContiguous(tensor); }

int CallFrame::Call(const Kernel& kernel, TVMFFIAny* result) {
  return Settle(Invoke(kernel, result), result);
}

}  // namespace graphffi
