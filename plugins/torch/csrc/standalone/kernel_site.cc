// SPDX-License-Identifier: Apache-2.0
// Calls of kernels: what libgraphffi_torch.so does for graphs that torch runs.
#include <graphffi_torch/aoti_entry.h>
#include <tvm/ffi/extra/c_env_api.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "call/call_frame.h"
#include "call/convert.h"
#include "call/layout.h"
#include "call/plan.h"
#include "call/returned.h"
#include "call/value.h"
#include "kernels/artifact.h"
#include "kernels/kernel_slot.h"
#include "run.h"

namespace graphffi_standalone {
namespace {

/// The op's name in a digest `ns::op(x -> out) 0123456789abcdef`, else the kernel's.
std::string SubjectOf(const GraphffiCallV2& call) {
  const std::string digest = call.digest;
  const size_t open = digest.find('(');
  return open == std::string::npos ? call.func : digest.substr(0, open);
}

/// The first tensor's that is on a GPU, else the CPU.
DLDevice DeviceOf(void* const* tensors, int32_t count) {
  for (int32_t i = 0; i < count; ++i) {
    if (tensors[i] == nullptr) continue;
    const DLDevice device = TVMFFITensorGetDLTensorPtr(tensors[i])->device;
    if (device.device_type != kDLCPU) return device;
  }
  return {kDLCPU, 0};
}

/// A call of a graph, prepared once. Immutable; runs on any thread.
class KernelSite {
 public:
  explicit KernelSite(const GraphffiCallV2& call);
  KernelSite(const KernelSite&) = delete;
  KernelSite& operator=(const KernelSite&) = delete;

  /// `tensors` are Tensor objects or NULL: inputs, then outputs.
  void Run(void* const* tensors, const int64_t* open_ints) const;

 private:
  static constexpr size_t kInline = 64;
  using Range = graphffi::Layout::Range;

  void AddAttributes(const GraphffiCallV2& call);
  void Invoke(void* const* tensors, TVMFFIAny* values) const;
  /// The tensor as the kernel takes it: itself, or a compact copy that `copies` keeps.
  TVMFFIObjectHandle Place(graphffi::Plan::Op op, int32_t index, TVMFFIObjectHandle tensor,
                           TVMFFIAny* place, std::vector<ObjectRef>* copies) const;

  const graphffi::KernelSlot kernel_;
  const std::string subject_;
  const graphffi::Plan plan_;
  graphffi::Layout layout_;  // of the plan's values
  std::vector<tvm::ffi::Any> strs_;
  std::vector<TVMFFIAny> room_;  // the values that are always the same, where they belong
  std::vector<int32_t> open_ints_;
};

KernelSite::KernelSite(const GraphffiCallV2& call)
    : kernel_(call.func, graphffi::FolderOf(&call)),
      subject_(SubjectOf(call)),
      plan_(graphffi::Plan::Parse(
          call.plan,
          graphffi::PlanNames::Raw(call.num_inputs, call.num_outputs, call.num_ints,
                                   call.num_floats, call.num_strs),
          subject_)) {
  const int32_t num_attributes = call.num_ints + call.num_floats + call.num_strs;
  layout_ = graphffi::Layout::Of(plan_, call.num_inputs, call.num_outputs, num_attributes);
  if (!layout_.is_in_order()) {
    layout_.inputs = {0, call.num_inputs};
    layout_.outputs = {call.num_inputs, call.num_outputs};
    layout_.attributes = {call.num_inputs + call.num_outputs, num_attributes};
  }
  size_t size = static_cast<size_t>(layout_.num_args);
  for (const Range& range : {layout_.inputs, layout_.outputs, layout_.attributes}) {
    size = std::max(size, static_cast<size_t>(range.begin + range.capacity));
  }
  room_.resize(size);
  if (layout_.is_in_order()) layout_.PutConstants(room_.data());
  AddAttributes(call);
}

void KernelSite::AddAttributes(const GraphffiCallV2& call) {
  TVMFFIAny* place = room_.data() + layout_.attributes.begin;
  for (int32_t i = 0; i < call.num_open_ints; ++i) {
    open_ints_.push_back(layout_.attributes.begin + call.open_ints[i]);
  }
  for (int32_t i = 0; i < call.num_ints; ++i) *place++ = graphffi::ToAny(call.ints[i]);
  for (int32_t i = 0; i < call.num_floats; ++i) *place++ = graphffi::ToAny(call.floats[i]);
  for (int32_t i = 0; i < call.num_strs; ++i) {
    const std::string text = graphffi::TextOfCode(call.strs[i]);
    *place++ = graphffi::ToAny(strs_.emplace_back(graphffi::MakeString(text)));
  }
}

TVMFFIObjectHandle KernelSite::Place(graphffi::Plan::Op op, int32_t index,
                                     TVMFFIObjectHandle tensor, TVMFFIAny* place,
                                     std::vector<ObjectRef>* copies) const {
  *place = TVMFFIAny{};
  if (tensor == nullptr) return nullptr;
  const DLTensor& view = *TVMFFITensorGetDLTensorPtr(tensor);
  if (!graphffi::IsCompact(view) && !plan_.is_strided(op, index)) {
    copies->emplace_back(CompactCopy(view)->handle());
    tensor = copies->back().get();
  }
  place->type_index = kTVMFFITensor;
  place->v_obj = static_cast<TVMFFIObject*>(tensor);
  return tensor;
}

void KernelSite::Run(void* const* tensors, const int64_t* open_ints) const {
  TVMFFIAny inline_values[kInline];
  std::vector<TVMFFIAny> more_values;
  TVMFFIAny* values = inline_values;
  if (room_.size() > kInline) {
    more_values.resize(room_.size());
    values = more_values.data();
  }
  std::copy(room_.begin(), room_.end(), values);
  std::vector<ObjectRef> copies;
  std::vector<std::pair<TVMFFIObjectHandle, TVMFFIObjectHandle>> updated;  // copy, original
  const int32_t num_inputs = layout_.inputs.capacity;
  for (int32_t i = 0; i < num_inputs; ++i) {
    Place(graphffi::Plan::Op::kInput, i, tensors[i], values + layout_.inputs.begin + i, &copies);
  }
  for (int32_t i = 0; i < layout_.outputs.capacity; ++i) {
    void* tensor = tensors[num_inputs + i];
    TVMFFIObjectHandle given =
        Place(graphffi::Plan::Op::kOutput, i, tensor, values + layout_.outputs.begin + i, &copies);
    if (given != tensor) updated.emplace_back(given, tensor);
  }
  for (size_t i = 0; i < open_ints_.size(); ++i) {
    values[open_ints_[i]] = graphffi::ToAny(open_ints[i]);
  }
  Invoke(tensors, values);
  for (const auto& [copy, original] : updated) {
    CopyElements(*TVMFFITensorGetDLTensorPtr(copy), *TVMFFITensorGetDLTensorPtr(original));
  }
}

void KernelSite::Invoke(void* const* tensors, TVMFFIAny* values) const {
  const graphffi::Bank inputs{values + layout_.inputs.begin, nullptr, layout_.inputs.capacity};
  const graphffi::Bank outputs{values + layout_.outputs.begin, nullptr, layout_.outputs.capacity};
  const int32_t first_passed = plan_.first_output();
  const bool is_filled = first_passed == 0 || outputs.size == 0;
  const auto results = [&] {
    const graphffi::DeclaredTensors declared{
        inputs, outputs, 0, nullptr, nullptr, subject_.c_str(), kernel_.reference().c_str()};
    return graphffi::Results{declared, std::min(first_passed, outputs.size), is_filled};
  };
  const graphffi::KernelSlot::Use function(kernel_);
  if (layout_.is_in_order()) {
    return graphffi::CallForResults(function.kernel(), values, layout_.num_args, is_filled,
                                    results);
  }
  graphffi::CallFrame frame;
  const graphffi::Bank attributes{values + layout_.attributes.begin, nullptr,
                                  layout_.attributes.capacity};
  const DLDevice device = DeviceOf(tensors, inputs.size + outputs.size);
  void* stream = device.device_type == kDLCPU
                     ? nullptr
                     : TVMFFIEnvGetStream(device.device_type, device.device_id);
  frame.PushPlan(plan_, {inputs, outputs, attributes, stream, {}, device});
  graphffi::CallForResults(function.kernel(), is_filled, results, &frame);
}

const KernelSite* SiteOf(GraphffiCallV2* call) {
  const void* known = __atomic_load_n(&call->site, __ATOMIC_ACQUIRE);
  if (known != nullptr) return static_cast<const KernelSite*>(known);
  auto made = std::make_unique<KernelSite>(*call);
  void* none = nullptr;
  if (__atomic_compare_exchange_n(&call->site, &none, made.get(), false, __ATOMIC_ACQ_REL,
                                  __ATOMIC_ACQUIRE)) {
    return made.release();
  }
  return static_cast<const KernelSite*>(none);  // another thread was faster
}

}  // namespace
}  // namespace graphffi_standalone

int32_t aoti_torch_graphffi_call_v2(GraphffiCallV2* call, void* const* tensors,
                                    const int64_t* open_ints) {
  using namespace graphffi_standalone;  // NOLINT: C functions live outside
  return Guard([&] { SiteOf(call)->Run(tensors, open_ints); }) == 0 ? 0 : -1;
}

const char* aoti_torch_graphffi_error_v2(void) { return graphffi_standalone::Run::ErrorText(); }

int32_t aoti_torch_graphffi_set_pending_v2(void) { return 0; }
