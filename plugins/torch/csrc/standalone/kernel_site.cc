// SPDX-License-Identifier: Apache-2.0
// Calls of kernels: what libgraphffi_torch.so does for graphs that torch runs.
#include <graphffi_torch/aoti_entry.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "call/call_frame.h"
#include "call/placed_call.h"
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

/// A kernel returns the outputs before the first one that the plan passes. It fills all, and need
/// not return anything, where the plan passes the first one, or where there are none.
graphffi::PlacedCall CallOf(const graphffi::Signature& signature, const GraphffiCallV2& call) {
  const int32_t first_passed = signature.plan().first_output();
  const int32_t num_returned =
      first_passed == 0 ? call.num_outputs : std::min(first_passed, call.num_outputs);
  auto made = graphffi::PlacedCall::Of(signature, call.num_inputs, call.num_outputs, num_returned,
                                       /*lends=*/false);
  made.num_fresh = 0;  // what outputs hold before may matter
  return made;
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
  static constexpr size_t kInline = 64;  // values

  /// The tensor as the kernel takes it: itself, or a compact copy that `copies` keeps.
  TVMFFIObjectHandle Place(graphffi::Plan::Op op, int32_t index, TVMFFIObjectHandle tensor,
                           TVMFFIAny* place, std::vector<ObjectRef>* copies) const;

  const graphffi::KernelSlot kernel_;
  const graphffi::Signature signature_;
  const graphffi::PlacedCall call_;
};

KernelSite::KernelSite(const GraphffiCallV2& call)
    : kernel_(call.func, graphffi::FolderOf(&call)),
      signature_(graphffi::Signature::Parse(call.plan,
                                            graphffi::TensorNames::Parse(SubjectOf(call), ""),
                                            graphffi::CountsOf(call))
                     .Fold(graphffi::AttributesOf(call))),
      call_(CallOf(signature_, call)) {}

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
  const auto num_values = static_cast<size_t>(call_.num_values);
  if (num_values > kInline) {
    more_values.resize(num_values);
    values = more_values.data();
  }
  std::vector<ObjectRef> copies;
  std::vector<std::pair<TVMFFIObjectHandle, TVMFFIObjectHandle>> updated;  // copy, original
  const graphffi::Layout& layout = call_.layout;
  const graphffi::Bank inputs{values + layout.inputs.begin, nullptr, call_.num_inputs};
  const graphffi::Bank outputs{values + layout.outputs.begin, nullptr, call_.num_outputs};
  for (int32_t i = 0; i < call_.num_inputs; ++i) {
    Place(graphffi::Plan::Op::kInput, i, tensors[i], values + layout.inputs.begin + i, &copies);
  }
  for (int32_t i = 0; i < call_.num_outputs; ++i) {
    void* tensor = tensors[call_.num_inputs + i];
    TVMFFIObjectHandle given =
        Place(graphffi::Plan::Op::kOutput, i, tensor, values + layout.outputs.begin + i, &copies);
    if (given != tensor) updated.emplace_back(given, tensor);
  }
  for (int32_t i = 0; i < layout.attributes.capacity; ++i) {
    values[layout.attributes.begin + i] = graphffi::ToAny(open_ints[i]);
  }
  const graphffi::KernelSlot::Use function(kernel_);
  const auto place =
      call_.needs_frame ? graphffi::PlaceOf({inputs, outputs}) : graphffi::CallPlace{};
  call_.Call(signature_, function.kernel(), kernel_.reference().c_str(), place, values);
  for (const auto& [copy, original] : updated) {
    CopyElements(*TVMFFITensorGetDLTensorPtr(copy), *TVMFFITensorGetDLTensorPtr(original));
  }
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
