// SPDX-License-Identifier: Apache-2.0
// An op probe::probe(x, opt, z) -> y that calls each slot of ort_api.h and prints it.
#include <cstdio>
#include <cstring>
#include <string>

#include "ort_api.h"

namespace ort = graphffi_onnxruntime::ort;

namespace {

const ort::Api* api = nullptr;

template <typename S>
struct IndexOf;
template <size_t kIndex, typename F>
struct IndexOf<ort::Slot<kIndex, F>> {
  static constexpr size_t kValue = kIndex;
};

/// Notes that a slot was called; says "wrong" unless it did what it should.
template <typename S>
void Note(bool is_right) {
  std::printf("slot %zu%s\n", IndexOf<S>::kValue, is_right ? "" : " wrong");
}

template <typename S, typename... Args>
bool Call(Args... args) {
  ort::Status* status = S::Call(api, args...);
  if (status == nullptr) return true;
  std::printf("%s\n", ort::GetErrorMessage::Call(api, status));
  ort::ReleaseStatus::Call(api, status);
  return false;
}

void ProbeAttributes(const ort::KernelInfo* info) {
  float f = 0;
  int64_t i = 0;
  Note<ort::GetAttributeFloat>(Call<ort::GetAttributeFloat>(info, "f", &f) && f == 1.5F);
  Note<ort::GetAttributeInt>(Call<ort::GetAttributeInt>(info, "i", &i) && i == -3);
  size_t size = 0;
  char text[16] = {};
  bool is_right = Call<ort::GetAttributeString>(info, "s", static_cast<char*>(nullptr), &size);
  is_right = is_right && size == 7 && Call<ort::GetAttributeString>(info, "s", text, &size);
  Note<ort::GetAttributeString>(is_right && std::strcmp(text, "te\xc3\xa9xt") == 0);
  float fs[2] = {};
  is_right = Call<ort::GetAttributeFloats>(info, "fs", static_cast<float*>(nullptr), &size);
  is_right = is_right && size == 2 && Call<ort::GetAttributeFloats>(info, "fs", fs, &size);
  Note<ort::GetAttributeFloats>(is_right && fs[0] == 0.5F && fs[1] == 2);
  int64_t is[3] = {};
  is_right = Call<ort::GetAttributeInts>(info, "is_", static_cast<int64_t*>(nullptr), &size);
  is_right = is_right && size == 3 && Call<ort::GetAttributeInts>(info, "is_", is, &size);
  Note<ort::GetAttributeInts>(is_right && is[2] == 9);
  ort::Allocator* allocator = nullptr;
  Note<ort::GetDefaultAllocator>(Call<ort::GetDefaultAllocator>(&allocator));
  char** ss = nullptr;
  is_right = Call<ort::GetAttributeStrings>(info, "ss", allocator, &ss, &size) && size == 2;
  Note<ort::GetAttributeStrings>(is_right && std::strcmp(ss[1], "bc") == 0);
  is_right = Call<ort::AllocatorFree>(allocator, static_cast<void*>(ss[0])) &&
             Call<ort::AllocatorFree>(allocator, static_cast<void*>(ss[1])) &&
             Call<ort::AllocatorFree>(allocator, static_cast<void*>(ss));
  Note<ort::AllocatorFree>(is_right);
}

void ProbeNode(const ort::KernelInfo* info) {
  size_t count = 0;
  Note<ort::GetNodeInputCount>(Call<ort::GetNodeInputCount>(info, &count) && count == 3);
  Note<ort::GetNodeOutputCount>(Call<ort::GetNodeOutputCount>(info, &count) && count == 1);
  ort::TypeInfo* type = nullptr;
  const ort::TensorInfo* tensor = nullptr;
  int element = 0;
  Note<ort::GetInputTypeInfo>(Call<ort::GetInputTypeInfo>(info, size_t{2}, &type));
  Note<ort::CastToTensorInfo>(Call<ort::CastToTensorInfo>(type, &tensor) && tensor != nullptr);
  Note<ort::GetElementType>(Call<ort::GetElementType>(tensor, &element) && element == 1);
  ort::ReleaseTypeInfo::Call(api, type);
  Note<ort::ReleaseTypeInfo>(true);
  Note<ort::GetOutputTypeInfo>(Call<ort::GetOutputTypeInfo>(info, size_t{0}, &type));
  ort::ReleaseTypeInfo::Call(api, type);
  ort::Allocator* allocator = nullptr;
  void* data = nullptr;
  Note<ort::GetNodeAllocator>(Call<ort::GetNodeAllocator>(info, 0, &allocator));
  const bool is_right = Call<ort::AllocatorAlloc>(allocator, size_t{100}, &data);
  Note<ort::AllocatorAlloc>(is_right && reinterpret_cast<uintptr_t>(data) % 64 == 0);
  Call<ort::AllocatorFree>(allocator, data);
  ort::ReleaseAllocator::Call(api, allocator);
  Note<ort::ReleaseAllocator>(true);
}

ort::Status* Create(const ort::CustomOp*, const ort::Api*, const ort::KernelInfo* info,
                    void** kernel) {
  int64_t i = 0;
  Call<ort::GetAttributeInt>(info, "i", &i);
  if (i == -4)
    return ort::CreateStatus::Call(api, ort::kInvalidArgument, "the probe refuses the node");
  Note<ort::CreateStatus>(true);
  ort::Status* missing = ort::GetAttributeInt::Call(api, info, "missing", &i);
  Note<ort::GetErrorMessage>(std::strlen(ort::GetErrorMessage::Call(api, missing)) > 0);
  ort::ReleaseStatus::Call(api, missing);
  Note<ort::ReleaseStatus>(missing != nullptr);
  ProbeAttributes(info);
  ProbeNode(info);
  *kernel = const_cast<ort::Api**>(&api);
  return nullptr;
}

ort::Status* Compute(void*, ort::KernelContext* context) {
  size_t rank = 0;
  const ort::Value *x = nullptr, *absent = nullptr;
  Note<ort::GetInput>(Call<ort::GetInput>(context, size_t{0}, &x) &&
                      Call<ort::GetInput>(context, size_t{1}, &absent) && absent == nullptr);
  int type = 0;
  const int64_t* dims = nullptr;
  Note<ort::GetTypeAndShape>(Call<ort::GetTypeAndShape>(x, &type, &dims, &rank) && type == 1 &&
                             rank == 2 && dims[0] == 2);
  const ort::MemoryInfo* memory = nullptr;
  int id = -1;
  Note<ort::GetTensorMemoryInfo>(Call<ort::GetTensorMemoryInfo>(x, &memory));
  Note<ort::MemoryInfoGetId>(Call<ort::MemoryInfoGetId>(memory, &id) && id == 0);
  void* stream = &id;
  Note<ort::GetComputeStream>(Call<ort::GetComputeStream>(context, &stream) && stream == nullptr);
  ort::Value* y = nullptr;
  void *from = nullptr, *to = nullptr;
  Note<ort::GetOutput>(Call<ort::GetOutput>(context, size_t{0}, dims, rank, &y));
  Note<ort::GetTensorData>(Call<ort::GetTensorData>(const_cast<ort::Value*>(x), &from) &&
                           Call<ort::GetTensorData>(y, &to));
  std::memcpy(to, from, 6 * sizeof(float));
  return nullptr;
}

ort::Status* Infer(const ort::CustomOp*, ort::ShapeInferContext* context) {
  size_t size = 0;
  ort::TensorInfo *x = nullptr, *y = nullptr;
  Note<ort::GetInputTypeShape>(Call<ort::GetInputTypeShape>(context, size_t{0}, &x));
  const char* names[2] = {};
  Note<ort::GetSymbols>(Call<ort::GetSymbols>(x, names, size_t{2}) &&
                        std::strcmp(names[0], "n") == 0 && names[1][0] == '\0');
  const ort::OpAttribute* attribute = nullptr;
  int64_t i = 0;
  Note<ort::GetShapeAttribute>(Call<ort::GetShapeAttribute>(context, "i", &attribute));
  Note<ort::ReadOpAttribute>(Call<ort::ReadOpAttribute>(attribute, ort::kIntAttribute,
                                                        static_cast<void*>(&i), sizeof(i), &size) &&
                             size == sizeof(i) && i < 0);
  const int64_t dims[2] = {-1, 3};
  Note<ort::CreateTensorInfo>(Call<ort::CreateTensorInfo>(&y));
  Note<ort::SetElementType>(Call<ort::SetElementType>(y, 1));
  Note<ort::SetDimensions>(Call<ort::SetDimensions>(y, dims, size_t{2}));
  size_t rank = 0;
  int64_t found[2] = {};
  Note<ort::GetDimensionsCount>(Call<ort::GetDimensionsCount>(y, &rank) && rank == 2);
  Note<ort::GetDimensions>(Call<ort::GetDimensions>(y, found, rank) && found[1] == 3);
  Note<ort::SetSymbols>(Call<ort::SetSymbols>(y, names, size_t{2}));
  Note<ort::SetOutputTypeShape>(Call<ort::SetOutputTypeShape>(context, size_t{0}, y));
  ort::ReleaseTensorInfo::Call(api, y);
  Note<ort::ReleaseTensorInfo>(true);
  return nullptr;
}

size_t GetPairs(int** inputs, int** outputs) {
  static int input = 0, output = 0;
  *inputs = &input;
  *outputs = &output;
  return 1;
}

constexpr ort::CustomOp MakeOp() {
  using ort::CustomOp;
  CustomOp op{};
  op.version = CustomOp::kVersion;
  op.get_name = [](const CustomOp*) { return "probe"; };
  op.get_provider = [](const CustomOp*) -> const char* { return nullptr; };
  op.get_input_type = op.get_output_type = [](const CustomOp*, size_t) { return ort::kAnyType; };
  op.get_input_count = [](const CustomOp*) -> size_t { return 3; };
  op.get_output_count = [](const CustomOp*) -> size_t { return 1; };
  op.destroy_kernel = [](void*) {};
  op.get_input_characteristic = [](const CustomOp*, size_t index) {
    return static_cast<int>(index == 0 ? ort::kRequired : ort::kOptional);
  };
  op.get_output_characteristic = [](const CustomOp*, size_t) { return 0; };
  op.get_input_memory = [](const CustomOp*, size_t) { return 0; };
  op.create_kernel_2 = &Create;
  op.compute_2 = &Compute;
  op.infer_shapes = &Infer;
  op.get_start_version = [](const CustomOp*) { return 1; };
  op.get_end_version = [](const CustomOp*) { return INT32_MAX; };
  op.get_may_inplace = &GetPairs;
  op.release_may_inplace = [](int*, int*) {};
  return op;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) ort::Status* RegisterCustomOps(
    ort::SessionOptions* options, const ort::ApiBase* base) {
  static constexpr ort::CustomOp kOp = MakeOp();
  api = base->get_api(ort::kOldestApi);
  std::setvbuf(stdout, nullptr, _IONBF, 0);  // the test reads it while the process goes on
  std::printf("%s\n", base->get_version_string());
  int has = 0;
  size_t size = 0;
  char value[16] = {};
  if (Call<ort::HasConfigEntry>(options, "probe.entry", &has) && has == 1) {
    Note<ort::HasConfigEntry>(true);
    const bool is_sized =
        Call<ort::GetConfigEntry>(options, "probe.entry", static_cast<char*>(nullptr), &size) &&
        size == sizeof("a value") &&
        Call<ort::GetConfigEntry>(options, "probe.entry", value, &size);
    Note<ort::GetConfigEntry>(is_sized && std::strcmp(value, "a value") == 0);
  }
  Note<ort::AddConfigEntry>(Call<ort::AddConfigEntry>(options, "probe.made", "1") &&
                            Call<ort::HasConfigEntry>(options, "probe.made", &has) && has == 1);
  ort::CustomOpDomain* domain = nullptr;
  Note<ort::CreateCustomOpDomain>(Call<ort::CreateCustomOpDomain>("probe", &domain));
  Note<ort::AddToDomain>(Call<ort::AddToDomain>(domain, &kOp));
  Note<ort::AddDomain>(Call<ort::AddDomain>(options, domain));
  return nullptr;
}
