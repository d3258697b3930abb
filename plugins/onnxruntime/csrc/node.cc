// SPDX-License-Identifier: Apache-2.0
#include "node.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "call/convert.h"
#include "call/describe_tensor.h"
#include "call/error.h"
#include "call/value.h"
#include "device_copy.h"
#include "dtype.h"
#include "env/env_scope.h"
#include "kernels/kernel_ref.h"
#include "kernels/packaged.h"
#include "observe/watch.h"
#include "parse_program.h"

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

/// Field by field: as a whole, it would be made on the stack first, and its parts read from there.
inline void Put(DLTensor* tensor, TVMFFIAny* value) {
  value->type_index = kTVMFFIDLTensorPtr;
  value->zero_padding = 0;
  value->v_ptr = tensor;
}

/// Row-major strides; of at most one dimension without memory.
inline void SetStrides(DLTensor* tensor, int64_t* opt_room) {
  static constexpr int64_t kOneStride = 1;
  tensor->strides = const_cast<int64_t*>(&kOneStride);
  if (tensor->ndim <= 1) return;
  tensor->strides = opt_room;
  graphffi::FillCompactStrides(tensor->shape, tensor->ndim, opt_room);
}

/// The text of a node's call. \throws Error(ValueError) if it has none
std::string ReadCall(const Op& op, const ort::Api* api, const ort::KernelInfo* info) {
  size_t size = 0;
  if (ort::Status* status = ort::GetAttributeString::Call(api, info, kCall, nullptr, &size)) {
    ort::ReleaseStatus::Call(api, status);
    throw Error("ValueError", op.domain + "::" + op.name + ": attribute '" + kCall +
                                  "': expected the text of the call, got none; export the model "
                                  "with graphffi_onnxruntime");
  }
  std::string text(size, '\0');
  Call<ort::GetAttributeString>(api, info, kCall, text.data(), &size);
  text.resize(size - 1);  // without the NUL
  return text;
}

/// Refuses a node of another definition than the op that was registered.
void CheckDefinition(const Op& op, const NodeText& text) {
  const std::string name = op.domain + "::" + op.name;
  if (text.subject() != name) {
    throw Error("ValueError",
                name + ": expected the text of its call, got that of " + text.subject());
  }
  if (op.digest != "-" && op.digest != text.digest) {
    throw Error("ValueError", name + ": expected the definition " + text.digest +
                                  ", with which the model was exported, got " + op.digest +
                                  "; register the ops of the model, or export again");
  }
  const char* provider = ProviderOf(text.device.device_type);
  const std::string expected = provider == nullptr ? "" : provider,
                    got = op.provider == nullptr ? "" : op.provider;
  if (expected != got) {
    throw Error("ValueError", name + ": expected to run on " + graphffi::DeviceToName(text.device) +
                                  ", got " + (got.empty() ? "the CPU" : got) +
                                  "; export again there");
  }
}

void CheckCount(const NodeText& text, const char* what, size_t expected, size_t got) {
  if (expected == got) return;
  throw Error("TypeError", text.subject() + ": " + what + ": expected " + std::to_string(expected) +
                               ", as in the call by which the model was exported, got " +
                               std::to_string(got));
}

using GetTypeInfo = ort::Status*(const ort::KernelInfo*, size_t, ort::TypeInfo**);

/// The data type of a node's tensor; 0 where there is none.
template <typename Slot>
int TypeOf(const ort::Api* api, const ort::KernelInfo* info, size_t index) {
  ort::TypeInfo* owned = nullptr;
  Call<Slot>(api, info, index, &owned);
  const ort::TensorInfo* opt_tensor = nullptr;
  int type = 0;
  ort::Status* status = ort::CastToTensorInfo::Call(api, owned, &opt_tensor);
  if (status == nullptr && opt_tensor != nullptr) {
    status = ort::GetElementType::Call(api, opt_tensor, &type);
  }
  ort::ReleaseTypeInfo::Call(api, owned);
  Check(api, status);
  return type;
}

}  // namespace

Node::Node(const Op& op, const ort::Api* api, const ort::KernelInfo* info)
    : call(NodeCall::Get(op, api, info)),
      allocator(SessionAllocator::Of(api, op.runtime.release, info)) {
  call->CheckTensors(info);
}

std::shared_ptr<const NodeCall> NodeCall::Get(const Op& op, const ort::Api* api,
                                              const ort::KernelInfo* info) {
  static auto* mutex = new std::mutex;
  static auto* calls = new std::unordered_map<std::string, std::weak_ptr<const NodeCall>>;
  const Runtime runtime{api, op.runtime.release};
  const std::string text = ReadCall(op, api, info);
  NodeText parsed = NodeText::Parse(text);
  CheckDefinition(op, parsed);
  Attributes attributes = Attributes::Read(parsed, runtime, info);
  const std::string key =
      std::to_string(reinterpret_cast<uintptr_t>(&op)) + "\n" + attributes.key + "\n" + text;
  std::lock_guard<std::mutex> lock(*mutex);
  std::weak_ptr<const NodeCall>& known = (*calls)[key];
  std::shared_ptr<const NodeCall> call = known.lock();
  if (call == nullptr) {
    call.reset(new NodeCall(op, runtime, std::move(parsed), std::move(attributes)));
    known = call;
  }
  return call;
}

NodeCall::NodeCall(const Op& op, const Runtime& runtime, NodeText text, Attributes attributes)
    : runtime_(runtime), text_(std::move(text)), attributes_(std::move(attributes)) {
  for (const NodeText::Way& way : text_.ways) AddWay(way, op);
  num_tensors_ = static_cast<int32_t>(text_.num_tensors());
  for (const NodeText::Input& input : text_.inputs) num_dims_ += 2 * input.ndim;
  int32_t most = 0;
  for (const auto& way : ways_) {
    most = std::max(most, way->program.num_dims());
    num_values_ = std::max(num_values_, way->call.num_values);
  }
  num_dims_ += most;
}

void NodeCall::AddWay(const NodeText::Way& way, const Op& op) {
  graphffi::ShapeProgram program = ParseProgram(way.program, text_, attributes_.ints);
  graphffi::Counts counts = attributes_.counts;
  counts.inputs = text_.num_read;
  counts.outputs = text_.num_results() + text_.num_updated;
  graphffi::KnownAttributes known{attributes_.values, {}};
  if (program.gives_workspace()) {
    // The last of n0, n1, …; each call has its own.
    known.values.insert(known.values.begin() + counts.ints, tvm::ffi::Any(int64_t{0}));
    ++counts.ints;
  }
  graphffi::Signature signature(text_.names);
  if (!way.plan.empty()) {
    signature = graphffi::Signature::Parse(way.plan, text_.names, counts).Fold(known);
  }
  const std::string reference =
      way.library.empty() ? way.kernel
                          : graphffi::FindPackagedKernel(way.kernel, way.library, op.folder);
  const graphffi::KernelFacts facts = graphffi::FactsOf(reference);
  // Functions registered by name may be Python's, which need tensors that own.
  const bool lends =
      way.is_owning || !facts.in_library || facts.takes_tensors || graphffi::IsDebugging();
  graphffi::PlacedCall call = graphffi::PlacedCall::Of(signature, counts.inputs, counts.outputs,
                                                       text_.num_results(), lends);
  ways_.push_back(std::make_unique<NodeWay>(
      NodeWay{std::move(program), std::move(signature),
              std::make_unique<graphffi::KernelSlot>(reference), std::move(call)}));
}

void NodeCall::CheckTensors(const ort::KernelInfo* info) const {
  const ort::Api* api = runtime_.api;
  size_t num_inputs = 0, num_outputs = 0;
  Call<ort::GetNodeInputCount>(api, info, &num_inputs);
  Call<ort::GetNodeOutputCount>(api, info, &num_outputs);
  size_t expected = text_.inputs.size();
  const auto is_absent = [&](size_t k) { return text_.inputs[k].role == NodeText::Role::kAbsent; };
  while (expected > num_inputs && is_absent(expected - 1)) --expected;
  CheckCount(text_, "inputs", expected, num_inputs);
  std::string problems;
  for (size_t k = 0; k < expected; ++k) {
    const NodeText::Input& input = text_.inputs[k];
    if (is_absent(k)) continue;
    const int type = TypeOf<ort::GetInputTypeInfo>(api, info, k);
    if (ToDLPack(type) == input.dtype) continue;
    problems += (problems.empty() ? "operand '" : "; operand '") + text_.NameOf(input) +
                "': expected " + graphffi::DTypeName(input.dtype) +
                " as in the exported program, got " + DataTypeName(type);
  }
  if (!problems.empty()) throw Error("TypeError", text_.subject() + ": " + problems);
  CheckCount(text_, "outputs", text_.num_node_outputs(), num_outputs);
  for (int32_t j = 0; j < text_.num_results(); ++j) {
    const DLDataType dtype = ways_.front()->program.ResultType(j);
    const int type = TypeOf<ort::GetOutputTypeInfo>(api, info, static_cast<size_t>(j));
    if (ToDLPack(type) == dtype) continue;
    throw Error("TypeError", text_.subject() + ": result '" +
                                 text_.names->outputs[static_cast<size_t>(j)] + "': expected " +
                                 graphffi::DTypeName(dtype) + " in the model, got " +
                                 DataTypeName(type));
  }
}

void NodeCall::LoadInputs(const ort::KernelContext* context, Room* room) const {
  const ort::Api* api = runtime_.api;
  const bool has_reference = ort::GetTypeAndShape::IsIn(runtime_.release);
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
    if (__builtin_expect(has_reference, 1)) {
      Ensure(api, ort::GetTypeAndShape::Call(api, value, &type, &dims, &rank));
    } else {
      rank = ReadShape(value, static_cast<size_t>(input.ndim), &type, room->dims);
      dims = room->TakeDims(static_cast<size_t>(input.ndim));
    }
    Ensure(api, ort::GetTensorData::Call(api, const_cast<ort::Value*>(value), &tensor.data));
    tensor.device = text_.device;
    tensor.ndim = static_cast<int32_t>(rank);
    tensor.dtype = ToDLPack(type);
    tensor.shape = const_cast<int64_t*>(dims);
    tensor.byte_offset = 0;
    if (tensor.ndim == input.ndim) SetStrides(&tensor, room->TakeDims(rank));
  }
}

/// Releases before 1.24: the rank, and the sizes if that is the expected one.
size_t NodeCall::ReadShape(const ort::Value* value, size_t expected, int* type,
                           int64_t* dims) const {
  const ort::Api* api = runtime_.api;
  ort::TensorInfo* owned = nullptr;
  Ensure(api, ort::GetTensorInfo::Call(api, value, &owned));
  size_t rank = 0;
  ort::Status* status = ort::GetElementType::Call(api, owned, type);
  if (status == nullptr) status = ort::GetDimensionsCount::Call(api, owned, &rank);
  if (status == nullptr && rank == expected) {
    status = ort::GetDimensions::Call(api, owned, dims, rank);
  }
  ort::ReleaseTensorInfo::Call(api, owned);
  Ensure(api, status);
  return rank;
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
  for (int32_t i = 0; i < text_.num_read; ++i) Put(&room.tensors[i], input++);
  for (int32_t i = text_.num_read; i < num_tensors_; ++i) Put(&room.tensors[i], output++);
  graphffi::CallValues call = text_.ValuesOf(room.values, attributes_.ints);
  call.inputs.values = room.values + layout.inputs.begin;
  call.outputs.values = room.values + layout.outputs.begin;
  return call;
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
                "': expected " + std::to_string(input.ndim) +
                " dimensions as in the exported program, got " + std::to_string(tensor.ndim);
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
  const ort::Api* api = runtime_.api;
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
  const ort::Api* api = runtime_.api;
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
    Ensure(runtime_.api, ort::GetComputeStream::Call(runtime_.api, context, &place.stream));
    place.device.device_id = DeviceOf(context);
  }
  MakeOutputs(context, results, place.stream, room);
  if (!is_on_cpu) {
    for (int32_t i = 0; i < num_tensors_; ++i) room->tensors[i].device = place.device;
  }
  if (results.workspace_bytes >= 0) place.workspace = graphffi::ToAny(results.workspace_bytes);
  const SessionMemoryScope memory(allocator);
  const graphffi::EnvScope env(place.device, place.stream, &AllocateInSession);
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
