// SPDX-License-Identifier: Apache-2.0
#include "size_check.h"

#include <c10/util/SmallVector.h>
#include <tvm/ffi/dtype.h>

#include <cctype>
#include <charconv>
#include <map>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>

#include "call/describe_tensor.h"
#include "call/error.h"

namespace graphffi_torch {
namespace {

/// Bits 0 for any.
DLDataType DTypeOf(const std::string& name) {
  return name == "_" ? DLDataType{0, 0, 0} : graphffi::DTypeFromName(name);
}

/// \throws graphffi::Error(ValueError)
int64_t SizeOf(std::string_view text) {
  int64_t size = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, size);
  if (error == std::errc() && stop == end && size >= 0) return size;
  throw graphffi::Error("ValueError", "graphffi: digest: expected the size of a dimension, got '" +
                                          std::string(text) + "'");
}

bool IsDigit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

}  // namespace

SizeCheck::SizeCheck(const std::vector<std::string>& inputs,
                     const std::vector<std::string>& outputs) {
  int32_t position = 0;
  for (const std::string& text : inputs) Add(text, false, position++);
  // As eager code meets them: operands first.
  for (const char updated : {'!', '\0'}) {
    position = 0;
    for (const std::string& text : outputs) {
      if ((text.c_str()[0] == '!') == (updated == '!')) Add(text, true, position);
      ++position;
    }
  }
  CompareNames();
  CompareSizes();
}

/// `float32[b h=6 n>=2]`; `!` before it if the call updates the tensor.
void SizeCheck::Add(const std::string& description, bool is_output, int32_t position) {
  const size_t open = description.find('['), close = description.rfind(']');
  if (open == std::string::npos || close == std::string::npos || open > close) return;
  const size_t begin = description[0] == '!' ? 1 : 0;
  Tensor tensor{is_output, begin == 1, position, DTypeOf(description.substr(begin, open - begin)),
                {},        {},         {}};
  std::istringstream dims(description.substr(open + 1, close - open - 1));
  for (std::string dim; dims >> dim;) {
    const size_t equals = dim.find('=');
    const bool is_limit = equals != std::string::npos && equals > 0 && dim[equals - 1] == '>';
    tensor.names.push_back(dim.substr(0, is_limit ? equals - 1 : equals));
    const int64_t size =
        equals == std::string::npos ? -1 : SizeOf(std::string_view(dim).substr(equals + 1));
    tensor.sizes.push_back(is_limit ? -1 : size);
    tensor.limits.push_back(is_limit ? size : 0);
  }
  tensors_.push_back(std::move(tensor));
}

/// Compares with the op's dims: sizes that are numbers there, and names that occur twice.
void SizeCheck::CompareNames() {
  std::map<std::string, std::pair<int32_t, int32_t>> seen;
  for (int32_t i = 0; i < static_cast<int32_t>(tensors_.size()); ++i) {
    const std::vector<std::string>& names = tensors_[static_cast<size_t>(i)].names;
    for (int32_t dim = 0; dim < static_cast<int32_t>(names.size()); ++dim) {
      const std::string& name = names[static_cast<size_t>(dim)];
      if (name == "_") continue;
      if (IsDigit(name[0])) {
        comparisons_.push_back({i, dim, -1, -1, SizeOf(name)});
        continue;
      }
      const auto [place, is_new] = seen.try_emplace(name, i, dim);
      if (!is_new) comparisons_.push_back({i, dim, place->second.first, place->second.second, -1});
    }
  }
}

/// Compares with the sizes that the program was made for.
void SizeCheck::CompareSizes() {
  for (int32_t i = 0; i < static_cast<int32_t>(tensors_.size()); ++i) {
    const std::vector<int64_t>& sizes = tensors_[static_cast<size_t>(i)].sizes;
    for (int32_t dim = 0; dim < static_cast<int32_t>(sizes.size()); ++dim) {
      const int64_t size = sizes[static_cast<size_t>(dim)];
      if (size >= 0) comparisons_.push_back({i, dim, -1, -1, size});
      const int64_t limit = tensors_[static_cast<size_t>(i)].limits[static_cast<size_t>(dim)];
      if (limit > 0) comparisons_.push_back({i, dim, -1, -1, limit, true});
    }
  }
}

void SizeCheck::Run(const Names& names, const graphffi::Bank& inputs,
                    const graphffi::Bank& outputs) const {
  c10::SmallVector<const DLTensor*, 8> tensors;
  for (const Tensor& tensor : tensors_) {
    const graphffi::Bank& bank = tensor.is_output ? outputs : inputs;
    const TVMFFIAny& value = bank.values[tensor.position];
    const bool is_none = value.type_index == kTVMFFINone;
    tensors.push_back(is_none ? nullptr : TVMFFITensorGetDLTensorPtr(value.v_obj));
  }
  CheckKinds(names, tensors.data());
  for (const Comparison& comparison : comparisons_) {
    const int64_t expected =
        comparison.first < 0
            ? comparison.size
            : tensors[static_cast<size_t>(comparison.first)]->shape[comparison.first_dim];
    const int64_t got = tensors[static_cast<size_t>(comparison.tensor)]->shape[comparison.dim];
    const bool fits = comparison.is_limit ? got >= expected : got == expected;
    if (!fits) Fail(names, comparison, tensors.data());
  }
}

void SizeCheck::CheckKinds(const Names& names, const DLTensor* const* tensors) const {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const Tensor& tensor = tensors_[i];
    const DLTensor* opt_got = tensors[i];
    const bool is_any = tensor.dtype.bits == 0;
    const bool is_same = opt_got != nullptr && (is_any || tensor.dtype == opt_got->dtype);
    const auto ndim = static_cast<int32_t>(tensor.sizes.size());
    if (is_same && opt_got->ndim == ndim) continue;
    const std::string subject = names.subject + ": " + Describe(names, static_cast<int32_t>(i));
    if (!is_same) {
      throw graphffi::Error(
          "TypeError", subject + ": expected " +
                           (is_any ? "a tensor" : graphffi::DTypeName(tensor.dtype)) +
                           " as in the exported program, got " +
                           (opt_got == nullptr ? "None" : graphffi::DTypeName(opt_got->dtype)));
    }
    throw graphffi::Error("ValueError", subject + ": expected " + std::to_string(ndim) +
                                            " dimensions as in the exported program, got " +
                                            std::to_string(opt_got->ndim));
  }
}

std::string SizeCheck::Describe(const Names& names, int32_t tensor) const {
  const Tensor& found = tensors_[static_cast<size_t>(tensor)];
  const auto position = static_cast<size_t>(found.position);
  if (!found.is_output) return "operand '" + names.inputs[position] + "'";
  return (found.is_updated ? "operand '" : "output '") + names.outputs[position] + "'";
}

void SizeCheck::Fail(const Names& names, const Comparison& comparison,
                     const DLTensor* const* tensors) const {
  const auto tensor = static_cast<size_t>(comparison.tensor);
  const std::string& name = tensors_[tensor].names[static_cast<size_t>(comparison.dim)];
  const bool is_numbered = name == "_" || name[0] == '.' || IsDigit(name[0]);
  const std::string where = comparison.first >= 0 ? Describe(names, comparison.first)
                            : IsDigit(name[0])    ? "dims"
                                                  : "the exported program";
  const int64_t expected =
      comparison.first < 0
          ? comparison.size
          : tensors[static_cast<size_t>(comparison.first)]->shape[comparison.first_dim];
  throw graphffi::Error(
      "ValueError",
      names.subject + ": " + Describe(names, comparison.tensor) + ": expected size " +
          std::to_string(expected) + (comparison.is_limit ? " or more of " : " of ") +
          (is_numbered ? "dimension " + std::to_string(comparison.dim) : "'" + name + "'") +
          " as in " + where + ", got " + std::to_string(tensors[tensor]->shape[comparison.dim]));
}

}  // namespace graphffi_torch
