// SPDX-License-Identifier: Apache-2.0
// The runs of nodes.
#include <string>
#include <vector>

#include "call/describe_tensor.h"
#include "call/error.h"
#include "call/value.h"
#include "env/env_scope.h"
#include "node.h"
#include "ort/device_copy.h"
#include "ort/dtype.h"

namespace graphffi_onnxruntime {

using graphffi::Error;
using graphffi::ResultShapes;

/// Memory for one call; what is taken of `dims` is gone.
struct NodeCall::Room {
  TVMFFIAny* values;
  DLTensor* tensors;  ///< those that are read, results, those that are updated
  int64_t* dims;

  int64_t* TakeDims(size_t count) {
    int64_t* taken = dims;
    dims += count;
    return taken;
  }
};

namespace {

/// \throws Error(RuntimeError) for a status of a call that is made often.
inline void Ensure(const ort::Api* api, ort::Status* opt_status) {
  if (__builtin_expect(opt_status != nullptr, 0)) FailWith(api, opt_status);
}

/// Row-major strides; of at most one dimension without memory.
inline void SetStrides(DLTensor* tensor, int64_t* opt_room) {
  static constexpr int64_t kOneStride = 1;
  tensor->strides = const_cast<int64_t*>(&kOneStride);
  if (tensor->ndim <= 1) return;
  tensor->strides = opt_room;
  graphffi::FillCompactStrides(tensor->shape, tensor->ndim, opt_room);
}

}  // namespace

void NodeCall::LoadInputs(const ort::KernelContext* context, Room* room) const {
  const ort::Api* api = api_;
  for (size_t k = 0; k < text_.inputs.size(); ++k) {
    const NodeText::Input& input = text_.inputs[k];
    if (input.role == NodeText::Role::kAbsent) continue;
    const ort::Value* value = nullptr;
    Ensure(api, ort::GetInput::Call(api, context, k, &value));
    if (value == nullptr) FailNoInput(input);
    DLTensor& tensor = room->tensors[text_.PlaceOf(input)];
    int type = 0;
    size_t rank = 0;
    const int64_t* dims = nullptr;
    Ensure(api, ort::GetTypeAndShape::Call(api, value, &type, &dims, &rank));
    Ensure(api, ort::GetTensorData::Call(api, const_cast<ort::Value*>(value), &tensor.data));
    tensor.device = text_.device;
    tensor.ndim = static_cast<int32_t>(rank);
    tensor.dtype = ToDLPack(type);
    tensor.shape = const_cast<int64_t*>(dims);
    tensor.byte_offset = 0;
    if (tensor.ndim == input.ndim) SetStrides(&tensor, room->TakeDims(rank));
  }
}

void NodeCall::FailNoInput(const NodeText::Input& input) const {
  throw Error("TypeError", text_.subject() + ": operand '" + text_.NameOf(input) +
                               "': expected a tensor, as in the call by which the model was "
                               "exported, got none");
}

graphffi::CallValues NodeCall::Place(const NodeWay& way, const Room& room) const {
  const graphffi::Layout& layout = way.call.layout;
  TVMFFIAny* input = room.values + layout.inputs.begin;
  TVMFFIAny* output = room.values + layout.outputs.begin;
  for (int32_t i = 0; i < text_.num_read; ++i) graphffi::PutView(&room.tensors[i], input++);
  for (int32_t i = text_.num_read; i < num_tensors_; ++i)
    graphffi::PutView(&room.tensors[i], output++);
  return text_.ValuesOf(room.values + layout.inputs.begin, room.values + layout.outputs.begin,
                        attributes_.ints);
}

const NodeWay& NodeCall::ChooseWay(const Room& room, ResultShapes* results) const {
  for (const auto& way : ways_) {
    if (way->program.Run(Place(*way, room), results)) return *way;
  }
  FailToChoose(room);
}

void NodeCall::FailToChoose(const Room& room) const {
  std::string problems;
  for (const NodeText::Input& input : text_.inputs) {
    if (input.role == NodeText::Role::kAbsent) continue;
    const DLTensor& tensor = room.tensors[text_.PlaceOf(input)];
    if (tensor.ndim == input.ndim) continue;
    problems += (problems.empty() ? "operand '" : "; operand '") + text_.NameOf(input) +
                "': expected " + graphffi::Counted(input.ndim, "dimension") +
                " as in the exported program, got " + std::to_string(tensor.ndim);
  }
  if (!problems.empty()) throw Error("ValueError", text_.subject() + ": " + problems);
  const NodeWay& way = *ways_.front();
  if (const auto broken = way.program.FindBroken(Place(way, room))) {
    throw Error(broken->kind, broken->message);
  }
  throw Error("ValueError", text_.subject() +
                                ": expected sizes of which 64 bits hold what the op's rules "
                                "compute, got others; export again with such sizes");
}

void NodeCall::MakeOutputs(ort::KernelContext* context, const ResultShapes& results, void* stream,
                           Room* room) const {
  const ort::Api* api = api_;
  const auto make = [&](size_t index, const DLTensor& like) {
    ort::Value* value = nullptr;
    void* data = nullptr;
    Ensure(api, ort::GetOutput::Call(api, context, index, like.shape,
                                     static_cast<size_t>(like.ndim), &value));
    if (value == nullptr) {
      throw Error("ValueError", text_.subject() + ": output " + std::to_string(index) +
                                    ": expected one in the model, got none");
    }
    Ensure(api, ort::GetTensorData::Call(api, value, &data));
    return data;
  };
  DLTensor* result = room->tensors + text_.num_read;
  for (int32_t j = 0; j < results.size(); ++j, ++result) {
    *result = results[j];
    result->data = make(static_cast<size_t>(j), *result);
    SetStrides(result, room->TakeDims(static_cast<size_t>(result->ndim)));
  }
  auto index = static_cast<size_t>(results.size());
  for (const NodeText::Input& input : text_.inputs) {
    if (!input.is_output) continue;
    if (input.role != NodeText::Role::kAbsent) {
      DLTensor& tensor = room->tensors[text_.PlaceOf(input)];
      void* data = make(index, tensor);
      if (data != tensor.data) CopyOnDevice(tensor, data, stream);
      tensor.data = data;
    }
    ++index;
  }
}

/// The number of the device that a node's tensors are on.
int32_t NodeCall::DeviceOf(const ort::KernelContext* context) const {
  const ort::Api* api = api_;
  for (size_t k = 0; k < text_.inputs.size(); ++k) {
    if (text_.inputs[k].role == NodeText::Role::kAbsent) continue;
    const ort::Value* value = nullptr;
    const ort::MemoryInfo* memory = nullptr;
    int id = 0;
    Ensure(api, ort::GetInput::Call(api, context, k, &value));
    Ensure(api, ort::GetTensorMemoryInfo::Call(api, value, &memory));
    Ensure(api, ort::MemoryInfoGetId::Call(api, memory, &id));
    return id;
  }
  return 0;
}

void NodeCall::Run(ort::KernelContext* context, const std::shared_ptr<SessionAllocator>& allocator,
                   Room* room) const {
  ResultShapes results;
  graphffi::CallPlace place{text_.device};
  LoadInputs(context, room);
  const NodeWay& way = ChooseWay(*room, &results);
  const bool is_on_cpu = text_.device.device_type == kDLCPU;
  if (!is_on_cpu) {
    Ensure(api_, ort::GetComputeStream::Call(api_, context, &place.stream));
    place.device.device_id = DeviceOf(context);
  }
  MakeOutputs(context, results, place.stream, room);
  if (!is_on_cpu) {
    for (int32_t i = 0; i < num_tensors_; ++i) room->tensors[i].device = place.device;
  }
  if (results.workspace_bytes >= 0) place.workspace = graphffi::ToAny(results.workspace_bytes);
  const SessionMemoryScope memory(allocator);
  const graphffi::EnvScope env(place.device, place.stream, &AllocateInSession,
                               graphffi::AllocatorScope::kOwn);
  const graphffi::KernelSlot::Use kernel(*way.kernel);
  way.call.Call(way.signature, kernel.kernel(), way.kernel->reference().c_str(), place,
                room->values);
}

void NodeCall::Compute(ort::KernelContext* context,
                       const std::shared_ptr<SessionAllocator>& allocator) const {
  constexpr int32_t kInlineTensors = 32, kInlineValues = 64, kInlineDims = 128;
  if (num_tensors_ <= kInlineTensors && num_values_ <= kInlineValues && num_dims_ <= kInlineDims) {
    TVMFFIAny values[kInlineValues];
    DLTensor tensors[kInlineTensors];
    int64_t dims[kInlineDims];
    Room room{values, tensors, dims};
    return Run(context, allocator, &room);
  }
  std::vector<TVMFFIAny> values(static_cast<size_t>(num_values_));
  std::vector<DLTensor> tensors(static_cast<size_t>(num_tensors_));
  std::vector<int64_t> dims(static_cast<size_t>(num_dims_));
  Room room{values.data(), tensors.data(), dims.data()};
  Run(context, allocator, &room);
}

}  // namespace graphffi_onnxruntime
