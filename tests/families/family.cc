// SPDX-License-Identifier: Apache-2.0
// One kernel for every op of the family. Its first argument says what the others are, a letter
// each:
//   i an input or None, I a list of inputs, u an updated tensor or None, U a list of them,
//   o a result, a an attribute
// base[k] is the sum of all inputs and old updated tensors, read round and round and weighted by
// their number, and of the attributes likewise. Result j gets base + j, an updated tensor u becomes
// 0.5 * u + base.
#include <tvm/ffi/tvm_ffi.h>

#include <cmath>
#include <string>
#include <vector>

namespace ffi = tvm::ffi;

namespace {

struct Strided {
  const DLTensor* tensor;

  int64_t size() const {
    int64_t size = 1;
    for (int32_t d = 0; d < tensor->ndim; ++d) size *= tensor->shape[d];
    return size;
  }
  /// Where element `i` in row-major order lies.
  template <typename T>
  T* At(int64_t i) const {
    int64_t offset = 0, compact = 1;
    for (int32_t d = tensor->ndim - 1; d >= 0; --d) {
      int64_t stride = tensor->strides == nullptr ? compact : tensor->strides[d];
      offset += i % tensor->shape[d] * stride;
      i /= tensor->shape[d];
      compact *= tensor->shape[d];
    }
    return reinterpret_cast<T*>(static_cast<char*>(tensor->data) + tensor->byte_offset) + offset;
  }
  double Get(int64_t i) const {
    switch (tensor->dtype.code * 100 + tensor->dtype.bits) {
      case kDLFloat * 100 + 32:
        return *At<float>(i);
      case kDLFloat * 100 + 64:
        return *At<double>(i);
      case kDLInt * 100 + 16:
        return *At<int16_t>(i);
      case kDLInt * 100 + 32:
        return *At<int32_t>(i);
    }
    TVM_FFI_THROW(TypeError) << "family: unexpected dtype";
  }
  void Set(int64_t i, double value) const {
    switch (tensor->dtype.code * 100 + tensor->dtype.bits) {
      case kDLFloat * 100 + 32:
        *At<float>(i) = static_cast<float>(value);
        return;
      case kDLFloat * 100 + 64:
        *At<double>(i) = value;
        return;
      case kDLInt * 100 + 16:
        *At<int16_t>(i) = static_cast<int16_t>(value);
        return;
      case kDLInt * 100 + 32:
        *At<int32_t>(i) = static_cast<int32_t>(value);
        return;
    }
    TVM_FFI_THROW(TypeError) << "family: unexpected dtype";
  }
};

double Number(const ffi::AnyView& value) {
  if (value.type_index() == kTVMFFINone) return 0.5;
  if (value.type_index() == kTVMFFIBool) return value.cast<bool>() ? 1 : 0;
  if (auto number = value.as<int64_t>()) return static_cast<double>(*number);
  if (auto number = value.as<double>()) return *number;
  if (auto text = value.try_cast<ffi::String>()) return static_cast<double>(text->size());
  if (auto dtype = value.as<DLDataType>()) return dtype->bits;
  if (auto device = value.as<DLDevice>()) return device->device_type;
  double sum = 0;
  int64_t place = 0;
  for (const ffi::Any& item : value.cast<ffi::Array<ffi::Any>>()) sum += ++place * Number(item);
  return sum;
}

void AddTensors(const ffi::AnyView& argument, std::vector<Strided>* tensors) {
  if (argument.type_index() == kTVMFFINone) return;
  if (auto list = argument.as<ffi::Array<ffi::Tensor>>()) {
    for (const ffi::Tensor& tensor : *list) tensors->push_back({tensor.GetDLTensorPtr()});
  } else {
    tensors->push_back({argument.cast<DLTensor*>()});
  }
}

struct Arguments {
  std::vector<Strided> sources, updated, results;
  double attributes = 0;

  explicit Arguments(const ffi::PackedArgs& args) {
    std::string kinds = args[0].cast<ffi::String>();
    TVM_FFI_CHECK(static_cast<int32_t>(kinds.size()) + 1 == args.size(), TypeError)
        << "family: expected " << kinds.size() << " arguments, got " << args.size() - 1;
    int num_attributes = 0;
    for (int32_t k = 1; k < args.size(); ++k) {
      switch (kinds[k - 1]) {
        case 'i':
        case 'I':
          AddTensors(args[k], &sources);
          break;
        case 'u':
        case 'U':
          AddTensors(args[k], &sources);
          AddTensors(args[k], &updated);
          break;
        case 'o':
          AddTensors(args[k], &results);
          break;
        default:
          attributes += ++num_attributes * Number(args[k]);
      }
    }
  }
};

/// base[0] to base[size - 1].
std::vector<double> Base(const Arguments& arguments, int64_t size) {
  std::vector<double> base(static_cast<size_t>(size), arguments.attributes);
  int number = 0;
  for (const Strided& source : arguments.sources) {
    ++number;
    int64_t count = source.size();
    for (int64_t i = 0; count > 0 && i < size; ++i) base[i] += number * source.Get(i % count);
  }
  return base;
}

void Family(ffi::PackedArgs args, ffi::Any*) {
  const Arguments arguments(args);
  int64_t size = 0;
  for (const auto* tensors : {&arguments.results, &arguments.updated}) {
    for (const Strided& tensor : *tensors) size = std::max(size, tensor.size());
  }
  const std::vector<double> base = Base(arguments, size);
  int number = 0;
  for (const Strided& result : arguments.results) {
    for (int64_t i = 0; i < result.size(); ++i) result.Set(i, base[i] + number);
    ++number;
  }
  for (const Strided& tensor : arguments.updated) {
    for (int64_t i = 0; i < tensor.size(); ++i) tensor.Set(i, 0.5 * tensor.Get(i) + base[i]);
  }
}

}  // namespace

extern "C" TVM_FFI_DLL_EXPORT int __tvm_ffi_family(void*, const TVMFFIAny* args, int32_t num_args,
                                                   TVMFFIAny* result) {
  TVM_FFI_SAFE_CALL_BEGIN();
  Family(ffi::PackedArgs(reinterpret_cast<const ffi::AnyView*>(args), num_args),
         reinterpret_cast<ffi::Any*>(result));
  TVM_FFI_SAFE_CALL_END();
}
