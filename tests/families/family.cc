// SPDX-License-Identifier: Apache-2.0
// One kernel for every op of the family, one for all gradients, and one for theirs. The first
// argument of `family` says what the others are, a letter each:
//   i an input or None, f an input that is a factor, I a list of inputs,
//   u an updated tensor or None, U a list of them, o a result, a an attribute
// base[k] is the sum of all inputs and old updated tensors, read round and round and weighted by
// their number, of the attributes likewise, and of the product of the factors, also read round and
// round, if none is empty. Result j gets base + j, an updated tensor u becomes 0.5 * u + base.
#include <string>
#include <vector>

#include "element.h"

namespace ffi = tvm::ffi;
using family::Elements;
using family::Number;

namespace {

double Value(const ffi::AnyView& value) {
  if (value.type_index() == kTVMFFINone) return 0.5;
  if (value.type_index() == kTVMFFIBool) return value.cast<bool>() ? 1 : 0;
  if (auto number = value.as<int64_t>()) return static_cast<double>(*number);
  if (auto number = value.as<double>()) return *number;
  if (auto text = value.try_cast<ffi::String>()) return static_cast<double>(text->size());
  if (auto dtype = value.as<DLDataType>()) return dtype->bits;
  if (auto device = value.as<DLDevice>()) return device->device_type;
  double sum = 0;
  int64_t place = 0;
  for (const ffi::Any& item : value.cast<ffi::Array<ffi::Any>>()) sum += ++place * Value(item);
  return sum;
}

void AddTensors(const ffi::AnyView& argument, std::vector<Elements>* tensors) {
  if (argument.type_index() == kTVMFFINone) return;
  if (auto list = argument.as<ffi::Array<ffi::Tensor>>()) {
    for (const ffi::Tensor& tensor : *list) tensors->push_back({tensor.GetDLTensorPtr()});
  } else {
    tensors->push_back({argument.cast<DLTensor*>()});
  }
}

struct Arguments {
  std::vector<Elements> sources, factors, updated, results;
  double attributes = 0;

  explicit Arguments(const ffi::PackedArgs& args) {
    std::string kinds = args[0].cast<ffi::String>();
    TVM_FFI_CHECK(static_cast<int32_t>(kinds.size()) + 1 == args.size(), TypeError)
        << "family: expected " << kinds.size() << " arguments, got " << args.size() - 1;
    int num_attributes = 0;
    for (int32_t k = 1; k < args.size(); ++k) {
      const char kind = kinds[k - 1];
      if (kind == 'a') attributes += ++num_attributes * Value(args[k]);
      if (std::string("ifIuU").find(kind) != std::string::npos) AddTensors(args[k], &sources);
      if (kind == 'f') AddTensors(args[k], &factors);
      if (kind == 'u' || kind == 'U') AddTensors(args[k], &updated);
      if (kind == 'o') AddTensors(args[k], &results);
    }
  }
};

/// base[0] to base[size - 1].
std::vector<Number> Base(const Arguments& arguments, int64_t size) {
  std::vector<Number> base(static_cast<size_t>(size), arguments.attributes);
  int number = 0;
  for (const Elements& source : arguments.sources) {
    ++number;
    const int64_t count = source.size();
    for (int64_t i = 0; count > 0 && i < size; ++i) {
      base[i] += static_cast<double>(number) * source.Get(i % count);
    }
  }
  bool is_product = !arguments.factors.empty();
  for (const Elements& factor : arguments.factors) is_product = is_product && factor.size() > 0;
  for (int64_t i = 0; is_product && i < size; ++i) {
    Number product = 1;
    for (const Elements& factor : arguments.factors) product *= factor.Get(i % factor.size());
    base[i] += product;
  }
  return base;
}

void Family(ffi::PackedArgs args, ffi::Any*) {
  const Arguments arguments(args);
  int64_t size = 0;
  for (const auto* tensors : {&arguments.results, &arguments.updated}) {
    for (const Elements& tensor : *tensors) size = std::max(size, tensor.size());
  }
  const std::vector<Number> base = Base(arguments, size);
  double number = 0;
  for (const Elements& result : arguments.results) {
    for (int64_t i = 0; i < result.size(); ++i) result.Set(i, base[i] + number);
    ++number;
  }
  for (const Elements& tensor : arguments.updated) {
    for (int64_t i = 0; i < tensor.size(); ++i) tensor.Set(i, 0.5 * tensor.Get(i) + base[i]);
  }
}

/// The gradient of an input that has a weight and maybe another factor beside it.
void Gradient(ffi::Optional<ffi::Tensor> other, ffi::Array<ffi::Tensor> cotangents, int64_t weight,
              ffi::Tensor gradient) {
  const Elements to{gradient.GetDLTensorPtr()};
  const int64_t size = to.size();
  std::vector<Number> sums(static_cast<size_t>(size), 0);
  const Elements factor{other.has_value() ? other.value().GetDLTensorPtr() : nullptr};
  const int64_t num_factors = other.has_value() ? factor.size() : 0;
  for (const ffi::Tensor& tensor : cotangents) {
    const Elements cotangent{tensor.GetDLTensorPtr()};
    for (int64_t i = 0; size > 0 && i < cotangent.size(); ++i) {
      Number slope = static_cast<double>(weight);
      if (num_factors > 0) slope += factor.Get(i % num_factors);
      sums[i % size] += slope * cotangent.Get(i);
    }
  }
  for (int64_t i = 0; i < size; ++i) to.Set(i, sums[i]);
}

/// The gradient of `gradient` with respect to a cotangent: `grad` read round and round, scaled.
void Spread(ffi::Optional<ffi::Tensor> other, ffi::Tensor grad, int64_t weight, ffi::Tensor out) {
  const Elements from{grad.GetDLTensorPtr()}, to{out.GetDLTensorPtr()};
  const Elements factor{other.has_value() ? other.value().GetDLTensorPtr() : nullptr};
  const int64_t size = from.size(), num_factors = other.has_value() ? factor.size() : 0;
  for (int64_t i = 0; i < to.size(); ++i) {
    Number slope = static_cast<double>(weight);
    if (num_factors > 0) slope += factor.Get(i % num_factors);
    to.Set(i, size > 0 ? slope * from.Get(i % size) : Number(0));
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

TVM_FFI_DLL_EXPORT_TYPED_FUNC(gradient, Gradient);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(spread, Spread);
