// SPDX-License-Identifier: Apache-2.0
#include "op.h"

#include <algorithm>
#include <iterator>
#include <sstream>
#include <utility>

#include "call/describe_tensor.h"
#include "call/error.h"
#include "call/text_lines.h"
#include "infer.h"
#include "inplace.h"
#include "node.h"

namespace graphffi_onnxruntime {

using graphffi::Error;

namespace {

Op::Operand OperandOf(std::string word) {
  const bool is_updated = word.back() == '!';
  if (is_updated) word.pop_back();
  if (word == "tensor") return {ort::kRequired, is_updated};
  if (word == "optional") return {ort::kOptional, is_updated};
  if (word == "list") return {ort::kVariadic, is_updated};
  graphffi::FailInText("op", "tensor, optional or list", word);
}

ort::Status* CreateNode(const ort::CustomOp* self, const ort::Api* api, const ort::KernelInfo* info,
                        void** kernel) {
  const Op& op = Op::From(self);
  return Guard(api, op.subject(), [&] { *kernel = new Node(op, api, info); });
}

ort::Status* Compute(void* kernel, ort::KernelContext* context) {
  const auto& node = *static_cast<const Node*>(kernel);
  return Guard(node.call->api(), node.call->subject(), [&] { node.Compute(context); });
}

ort::Status* InferShapes(const ort::CustomOp* self, ort::ShapeInferContext* context) {
  const Op& op = Op::From(self);
  return Guard(op.api, op.subject(), [&] { InferOutputs(op, context); });
}

/// The functions that all ops share.
constexpr ort::CustomOp MakeTable() {
  using ort::CustomOp;
  CustomOp table{};
  table.get_name = [](const CustomOp* op) { return Op::From(op).name.c_str(); };
  table.get_provider = [](const CustomOp* op) { return Op::From(op).provider; };
  table.get_input_type = [](const CustomOp*, size_t) { return ort::kAnyType; };
  table.get_input_count = [](const CustomOp* op) { return Op::From(op).operands.size(); };
  table.get_output_type = table.get_input_type;
  table.get_output_count = [](const CustomOp* op) { return Op::From(op).outputs.size(); };
  table.destroy_kernel = [](void* kernel) { delete static_cast<Node*>(kernel); };
  table.get_input_characteristic = [](const CustomOp* op, size_t index) {
    return static_cast<int>(Op::From(op).operands[index].characteristic);
  };
  table.get_output_characteristic = [](const CustomOp* op, size_t index) {
    return static_cast<int>(Op::From(op).outputs[index]);
  };
  table.get_input_memory = [](const CustomOp*, size_t) { return 0; };
  const auto none = [](const CustomOp*) { return 0; };
  table.get_min_inputs = table.get_min_outputs = none;
  table.are_inputs_alike = table.are_outputs_alike = none;
  table.create_kernel_2 = &CreateNode;
  table.compute_2 = &Compute;
  table.infer_shapes = &InferShapes;
  table.get_start_version = [](const CustomOp*) { return 1; };
  table.get_end_version = [](const CustomOp*) { return INT32_MAX; };
  return table;
}

}  // namespace

const char* ProviderOf(DLDeviceType type) {
  switch (type) {
    case kDLCPU:
      return nullptr;
    case kDLCUDA:
      return "CUDAExecutionProvider";
    case kDLROCM:
      return "ROCMExecutionProvider";
    default:
      throw Error("NotImplementedError",
                  "graphffi: expected tensors on cpu, cuda or rocm in ONNX "
                  "Runtime, got " +
                      graphffi::DeviceToName({type, 0}));
  }
}

Op::Op(std::string_view line, std::string in_folder, const ort::Api* of)
    : ort::CustomOp(MakeTable()), folder(std::move(in_folder)), api(of) {
  std::istringstream in{std::string(line)};
  const std::vector<std::string> words{std::istream_iterator<std::string>(in), {}};
  const auto arrow = std::find(words.begin(), words.end(), "->");
  const size_t colons = words.empty() ? std::string::npos : words[0].rfind("::");
  if (arrow - words.begin() < 3 || words.end() - arrow != 2 || colons == std::string::npos) {
    graphffi::FailInText("op", "ns::name digest device operands -> results", std::string(line));
  }
  domain = words[0].substr(0, colons);
  name = words[0].substr(colons + 2);
  digest = words[1];
  provider = ProviderOf(graphffi::DeviceFromName(words[2]).device_type);
  for (auto word = words.begin() + 3; word != arrow; ++word) operands.push_back(OperandOf(*word));
  const auto num_results = graphffi::ReadTextNumber<int64_t>("op", words.back());
  outputs.resize(static_cast<size_t>(std::clamp<int64_t>(num_results, 0, 1 << 16)), ort::kRequired);
  std::vector<MemoryPair> pairs;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (!operands[i].is_updated) continue;
    // One item of a list may share memory as well as not: pairs say nothing of others.
    pairs.push_back({static_cast<int>(i), static_cast<int>(outputs.size())});
    outputs.push_back(operands[i].characteristic);
  }
  version = CustomOp::kVersion;
  SetMayInplace(pairs, this);
}

}  // namespace graphffi_onnxruntime
