// SPDX-License-Identifier: Apache-2.0
#include "extern_kernel.h"

#include <algorithm>
#include <string>
#include <vector>

#include "call/call_frame.h"
#include "call/describe_tensor.h"
#include "call/value.h"
#include "kernels/artifact.h"
#include "kernels/kernel_slot.h"
#include "observe/watched_call.h"
#include "run.h"

namespace graphffi_standalone {
namespace {

/// The arguments of a call.
class ExternArguments {
 public:
  explicit ExternArguments(const std::vector<ExternArgument>& arguments) {
    for (const ExternArgument& argument : arguments) Push(argument);
  }
  graphffi::CallFrame& frame() { return frame_; }
  const std::vector<const DLTensor*>& tensors() const { return tensors_; }

 private:
  void Push(const ExternArgument& argument);
  void PushTensor(AtenTensorHandle opt_tensor);

  graphffi::CallFrame frame_;
  std::vector<ObjectRef> copies_;
  std::vector<const DLTensor*> tensors_;
};

void ExternArguments::Push(const ExternArgument& argument) {
  if (argument.value.type_index == kTVMFFITensor) {
    return PushTensor(reinterpret_cast<AtenTensorHandle>(argument.value.v_obj));
  }
  if (argument.opt_list == nullptr && argument.opt_tensors == nullptr &&
      argument.opt_handles == nullptr) {
    return frame_.Push(argument.value);
  }
  frame_.BeginArray();
  for (int64_t i = 0; i < argument.count; ++i) {
    if (argument.opt_list != nullptr) {
      frame_.Push(graphffi::ToAny(argument.opt_list[i]));
    } else if (argument.opt_handles != nullptr) {
      PushTensor(argument.opt_handles[i]);
    } else {
      const AtenTensorHandle* opt_tensor = argument.opt_tensors[i];
      PushTensor(opt_tensor == nullptr ? nullptr : *opt_tensor);
    }
  }
  frame_.EndArray();
}

void ExternArguments::PushTensor(AtenTensorHandle opt_tensor) {
  if (opt_tensor == nullptr) return frame_.Push(TVMFFIAny{});
  TVMFFIObjectHandle tensor = opt_tensor;
  tensors_.push_back(&ViewOf(opt_tensor));
  if (!graphffi::IsCompact(ViewOf(opt_tensor))) {
    tensor = copies_.emplace_back(CompactCopy(ViewOf(opt_tensor))->handle()).get();
  }
  frame_.Push(graphffi::ToAny(kTVMFFITensor, tensor));
}

int CallKernel(const graphffi::Kernel& kernel, const std::string& reference,
               graphffi::CallFrame* frame, TVMFFIAny* returned) {
  if (!graphffi::IsWatched()) return frame->Call(kernel, returned);
  graphffi::DeclaredTensors declared;
  declared.kernel = reference.c_str();
  return frame->Settle(graphffi::InvokeWatched(kernel, declared, frame, returned), returned);
}

void Fill(const DLTensor& from, const DLTensor& to, const std::string& subject) {
  if (!AreAlike(from, to)) {
    throw graphffi::Error("ValueError", subject + ": result: expected " +
                                            graphffi::DescribeTensor(to) + ", got " +
                                            graphffi::DescribeTensor(from));
  }
  CopyElements(from, to);
}

/// Generated code reads a result's strides, and may write its memory: `others`, to which the result
/// is added, are tensors that keep theirs.
void Take(const TVMFFIAny& value, const ExternResult& result, const std::string& subject,
          std::vector<const DLTensor*>* others) {
  if (value.type_index != kTVMFFITensor) {
    throw graphffi::Error("TypeError", subject + ": result: expected a tensor, got another value");
  }
  const DLTensor& view = *TVMFFITensorGetDLTensorPtr(value.v_obj);
  if (result.opt_filled != nullptr) {
    return Fill(view, *TVMFFITensorGetDLTensorPtr(result.opt_filled), subject);
  }
  const auto shares = [&](const DLTensor* other) { return Overlap(view, *other); };
  Tensor* tensor = std::any_of(others->begin(), others->end(), shares)
                       ? CompactCopy(view)
                       : Tensor::View(DataOf(view), view, value.v_obj);
  others->push_back(&tensor->view());
  *result.opt_new = static_cast<AtenTensorHandle>(tensor->handle());
}

}  // namespace

ExternKernel::ExternKernel(const char* reference)
    : name_(reference),
      slot_(new graphffi::KernelSlot(graphffi::TextOfCode(reference),
                                     graphffi::FolderOf(reference))) {}

ExternKernel::ExternKernel(const char* name, TVMFFIObjectHandle (*make)())
    : name_(name), slot_(new graphffi::KernelSlot(make())) {}

int32_t ExternKernel::Call(std::initializer_list<ExternArgument> arguments,
                           std::initializer_list<ExternResult> results) const {
  return Guard([&] { Run(arguments, results); });
}

void ExternKernel::Run(const std::vector<ExternArgument>& arguments,
                       const std::vector<ExternResult>& results) const {
  ExternArguments pushed(arguments);
  TVMFFIAny returned{};
  {
    const graphffi::KernelSlot::Use function(*slot_);
    graphffi::CheckRc(CallKernel(function.kernel(), name_, &pushed.frame(), &returned));
  }
  const tvm::ffi::Any owned = graphffi::TakeAny(returned);
  std::vector<const DLTensor*> others = pushed.tensors();
  if (returned.type_index != kTVMFFIArray) {
    if (results.size() != 1) {
      throw graphffi::Error("TypeError", std::string(name_) + ": expected an array of " +
                                             std::to_string(results.size()) +
                                             " tensors, got another value");
    }
    return Take(returned, results.front(), name_, &others);
  }
  const graphffi::Elements elements(returned);
  if (static_cast<size_t>(elements.size) != results.size()) {
    throw graphffi::Error("ValueError", std::string(name_) + ": expected " +
                                            std::to_string(results.size()) + " tensors, got " +
                                            std::to_string(elements.size));
  }
  for (size_t i = 0; i < results.size(); ++i) {
    Take(elements[i], results[i], name_, &others);
  }
}

}  // namespace graphffi_standalone
