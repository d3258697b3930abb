// SPDX-License-Identifier: Apache-2.0
// Calls of kernels: what libgraphffi_torch.so does for graphs that torch runs.
#include <graphffi_torch/aoti_entry.h>
#include <tvm/ffi/extra/c_env_api.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "call/call_frame.h"
#include "call/returned.h"
#include "call/signature.h"
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

  void Invoke(void* const* tensors, TVMFFIAny* values) const;
  /// The tensor as the kernel takes it: itself, or a compact copy that `copies` keeps.
  TVMFFIObjectHandle Place(graphffi::Plan::Op op, int32_t index, TVMFFIObjectHandle tensor,
                           TVMFFIAny* place, std::vector<ObjectRef>* copies) const;

  const graphffi::KernelSlot kernel_;
  const graphffi::Signature signature_;
  const graphffi::Layout layout_;  // of the signature's values
  std::vector<TVMFFIAny> room_;    // with the constants in their places
};

KernelSite::KernelSite(const GraphffiCallV2& call)
    : kernel_(call.func, graphffi::FolderOf(&call)),
      signature_(graphffi::Signature::Parse(call.plan,
                                            graphffi::TensorNames::Parse(SubjectOf(call), ""),
                                            graphffi::CountsOf(call))
                     .Fold(graphffi::AttributesOf(call))),
      layout_(signature_.ExactLayout(call.num_inputs, call.num_outputs)) {
  size_t size = static_cast<size_t>(layout_.num_args);
  for (const Range& range : {layout_.inputs, layout_.outputs, layout_.attributes}) {
    size = std::max(size, static_cast<size_t>(range.begin + range.capacity));
  }
  room_.resize(size);
  layout_.PutConstants(room_.data());
}

TVMFFIObjectHandle KernelSite::Place(graphffi::Plan::Op op, int32_t index,
                                     TVMFFIObjectHandle tensor, TVMFFIAny* place,
                                     std::vector<ObjectRef>* copies) const {
  *place = TVMFFIAny{};
  if (tensor == nullptr) return nullptr;
  const DLTensor& view = *TVMFFITensorGetDLTensorPtr(tensor);
  if (!graphffi::IsCompact(view) && !signature_.plan().is_strided(op, index)) {
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
  for (int32_t i = 0; i < layout_.attributes.capacity; ++i) {
    values[layout_.attributes.begin + i] = graphffi::ToAny(open_ints[i]);
  }
  Invoke(tensors, values);
  for (const auto& [copy, original] : updated) {
    CopyElements(*TVMFFITensorGetDLTensorPtr(copy), *TVMFFITensorGetDLTensorPtr(original));
  }
}

void KernelSite::Invoke(void* const* tensors, TVMFFIAny* values) const {
  const graphffi::Bank inputs{values + layout_.inputs.begin, nullptr, layout_.inputs.capacity};
  const graphffi::Bank outputs{values + layout_.outputs.begin, nullptr, layout_.outputs.capacity};
  const int32_t first_passed = signature_.plan().first_output();
  const bool is_filled = first_passed == 0 || outputs.size == 0;
  const auto results = [&] {
    return graphffi::Results{
        graphffi::DeclaredTensors::Of(signature_, inputs, outputs, 0, kernel_.reference().c_str()),
        std::min(first_passed, outputs.size), is_filled};
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
  frame.PushPlan(signature_, {inputs, outputs, attributes, stream, {}, device});
  graphffi::CallForResults(function.kernel(), is_filled, results, &frame);
}

}  // namespace
}  // namespace graphffi_standalone

int32_t aoti_torch_graphffi_call_v2(GraphffiCallV2* call, void* const* tensors,
                                    const int64_t* open_ints) {
  using namespace graphffi_standalone;  // NOLINT: C functions live outside
  const auto make = [&] { return std::make_unique<const KernelSite>(*call); };
  const auto run = [&] { graphffi::SiteOf<KernelSite>(call, make).Run(tensors, open_ints); };
  return Guard(run) == 0 ? 0 : -1;
}

const char* aoti_torch_graphffi_error_v2(void) { return graphffi_standalone::Run::ErrorText(); }

int32_t aoti_torch_graphffi_set_pending_v2(void) { return 0; }
