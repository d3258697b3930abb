// SPDX-License-Identifier: Apache-2.0
#include "node.h"

#include <algorithm>
#include <iterator>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "call/convert.h"
#include "call/describe_tensor.h"
#include "call/error.h"
#include "call/value.h"
#include "kernels/kernel_ref.h"
#include "kernels/packaged.h"
#include "observe/watch.h"
#include "ort/dtype.h"
#include "parse_program.h"

namespace graphffi_onnxruntime {

using graphffi::Error;

namespace {

/// The text of a node's call. \throws Error(ValueError) if it has none
std::string ReadCall(const Op& op, const ort::Api* api, const ort::KernelInfo* info) {
  if (std::optional<std::string> text = StringOf(api, info, kCall)) return *std::move(text);
  throw Error("ValueError", op.subject() + ": attribute '" + kCall +
                                "': expected the text of the call, got none; export the model "
                                "with graphffi_onnxruntime");
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

/// Calls that nodes share. Thread-safe; leaked, since sessions may end at exit.
class KnownCalls {
 public:
  static KnownCalls& Global() {
    static auto* known = new KnownCalls;
    return *known;
  }

  /// NULL where there is none.
  std::shared_ptr<const NodeCall> Find(const std::string& key) {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = calls_.find(key);
    return found == calls_.end() ? nullptr : found->second.lock();
  }

  /// The call, or the one that another thread added before.
  std::shared_ptr<const NodeCall> Add(const std::string& key,
                                      const std::shared_ptr<const NodeCall>& call) {
    std::lock_guard<std::mutex> lock(mutex_);
    for (auto each = calls_.begin(); each != calls_.end();) {
      each = each->second.expired() ? calls_.erase(each) : std::next(each);
    }
    std::weak_ptr<const NodeCall>& known = calls_[key];
    if (std::shared_ptr<const NodeCall> other = known.lock()) return other;
    known = call;
    return call;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<std::string, std::weak_ptr<const NodeCall>> calls_;
};

}  // namespace

Node::Node(const Op& op, const ort::Api* api, const ort::KernelInfo* info)
    : call(NodeCall::Get(op, api, info)), allocator(SessionAllocator::Of(api, info)) {
  call->CheckTensors(info);
}

std::shared_ptr<const NodeCall> NodeCall::Get(const Op& op, const ort::Api* api,
                                              const ort::KernelInfo* info) {
  const std::string text = ReadCall(op, api, info);
  NodeText parsed = NodeText::Parse(text);
  CheckDefinition(op, parsed);
  Attributes attributes = Attributes::Read(parsed, api, info);
  const std::string key =
      std::to_string(reinterpret_cast<uintptr_t>(&op)) + "\n" + attributes.key + "\n" + text;
  if (std::shared_ptr<const NodeCall> known = KnownCalls::Global().Find(key)) return known;
  // Unlocked: finding the kernel may wait for the GIL.
  const std::shared_ptr<const NodeCall> made(
      new NodeCall(op, api, std::move(parsed), std::move(attributes)));
  return KnownCalls::Global().Add(key, made);
}

NodeCall::NodeCall(const Op& op, const ort::Api* api, NodeText text, Attributes attributes)
    : api_(api), text_(std::move(text)), attributes_(std::move(attributes)) {
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
  const ort::Api* api = api_;
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

}  // namespace graphffi_onnxruntime
