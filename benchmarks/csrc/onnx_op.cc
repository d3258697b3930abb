// SPDX-License-Identifier: Apache-2.0
// The op bench_hand::twice of ONNX Runtime, written by hand against its C API.
#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "../../plugins/onnxruntime/csrc/ort/ort_api.h"

namespace ort = graphffi_onnxruntime::ort;

namespace {

const ort::Api* api = nullptr;

ort::Status* Create(const ort::CustomOp*, const ort::Api*, const ort::KernelInfo*, void** kernel) {
  *kernel = const_cast<ort::Api**>(&api);
  return nullptr;
}

ort::Status* Compute(void*, ort::KernelContext* context) {
  const ort::Value* input = nullptr;
  ort::Value* output = nullptr;
  int type = 0;
  const int64_t* dims = nullptr;
  size_t rank = 0;
  void *from = nullptr, *to = nullptr;
  if (auto* status = ort::GetInput::Call(api, context, 0, &input)) return status;
  if (auto* status = ort::GetTypeAndShape::Call(api, input, &type, &dims, &rank)) return status;
  if (auto* status = ort::GetTensorData::Call(api, const_cast<ort::Value*>(input), &from)) {
    return status;
  }
  if (auto* status = ort::GetOutput::Call(api, context, 0, dims, rank, &output)) return status;
  if (auto* status = ort::GetTensorData::Call(api, output, &to)) return status;
  int64_t count = 1;
  for (size_t i = 0; i < rank; ++i) count *= dims[i];
  for (int64_t i = 0; i < count; ++i) {
    static_cast<float*>(to)[i] = 2 * static_cast<const float*>(from)[i];
  }
  return nullptr;
}

/// The result is like the operand.
ort::Status* InferShapes(const ort::CustomOp*, ort::ShapeInferContext* context) {
  ort::TensorInfo* info = nullptr;
  if (auto* status = ort::GetInputTypeShape::Call(api, context, 0, &info)) return status;
  return ort::SetOutputTypeShape::Call(api, context, 0, info);
}

constexpr ort::CustomOp MakeOp() {
  using ort::CustomOp;
  constexpr int kFloat = 1;
  CustomOp op{};
  op.version = 17;
  op.get_name = [](const CustomOp*) { return "twice"; };
  op.get_provider = [](const CustomOp*) -> const char* { return nullptr; };
  op.get_input_type = op.get_output_type = [](const CustomOp*, size_t) { return kFloat; };
  op.get_input_count = op.get_output_count = [](const CustomOp*) -> size_t { return 1; };
  op.destroy_kernel = [](void*) {};
  op.get_input_characteristic =
      op.get_output_characteristic = [](const CustomOp*, size_t) { return 0; };
  op.get_input_memory = [](const CustomOp*, size_t) { return 0; };
  op.create_kernel_2 = &Create;
  op.compute_2 = &Compute;
  op.infer_shapes = &InferShapes;
  op.get_start_version = [](const CustomOp*) { return 1; };
  op.get_end_version = [](const CustomOp*) { return INT32_MAX; };
  return op;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) ort::Status* RegisterCustomOps(
    ort::SessionOptions* options, const ort::ApiBase* base) {
  static constexpr ort::CustomOp kOp = MakeOp();
  api = base->get_api(ort::kOldestApi);
  ort::CustomOpDomain* domain = nullptr;
  if (auto* status = ort::CreateCustomOpDomain::Call(api, "bench_hand", &domain)) return status;
  if (auto* status = ort::AddToDomain::Call(api, domain, &kOp)) return status;
  return ort::AddDomain::Call(api, options, domain);
}
