// SPDX-License-Identifier: Apache-2.0
#include "shapes/conditions.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "call/describe_tensor.h"

namespace graphffi {
Conditions Conditions::Parse(std::string_view text) {
  Conditions conditions;
  ProgramText words(text);
  for (std::string_view word = words.Word(); !word.empty(); word = words.Word()) {
    if (word == "check") {
      const int32_t value = conditions.instructions_.ReadValue(&words);
      conditions.are_comparisons_ &= conditions.AddComparison(value);
      std::string kind(words.Word());
      conditions.checks_.push_back({value, std::move(kind), std::string(words.RestOfLine())});
    } else if (!conditions.instructions_.Read(word, &words)) {
      words.Fail();
    }
  }
  return conditions;
}

namespace {

using Op = Instructions::Op;

int64_t NumberOf(const DLDataType& dtype) {
  return (int64_t{dtype.code} << 24) + (int64_t{dtype.bits} << 16) + dtype.lanes;
}

int64_t Load(const Instructions::Instruction& load, const DLTensor* const* tensors, int32_t count) {
  const DLTensor* opt_tensor = load.a < count ? tensors[load.a] : nullptr;
  if (opt_tensor == nullptr) return load.op == Op::kDType ? -1 : Instructions::kMissing;
  const DLTensor& tensor = *opt_tensor;
  if (load.op == Op::kNDim) return tensor.ndim;
  if (load.op == Op::kDType) return NumberOf(tensor.dtype);
  const int64_t* opt_numbers = load.op == Op::kSize ? tensor.shape : tensor.strides;
  const bool is_missing = opt_numbers == nullptr || load.b >= tensor.ndim;
  return is_missing ? Instructions::kMissing : opt_numbers[load.b];
}

}  // namespace

std::optional<Conditions::Broken> Conditions::FindBroken(const DLTensor* const* tensors,
                                                         int32_t count,
                                                         const Describe& describe) const {
  if (AllHold(tensors, count)) return std::nullopt;
  Instructions::Room room(instructions_);
  int64_t* values = room.values();
  instructions_.RunAll(
      values, [&](const Instructions::Instruction& load) { return Load(load, tensors, count); });
  for (const Check& check : checks_) {
    const int64_t found = values[check.value];
    if (found == 0 || found == Instructions::kFailed) {
      return Broken{check.kind, Write(check, values, tensors, count, describe)};
    }
  }
  return std::nullopt;
}

/// Whether checks so far say that a tensor has a dimension.
bool Conditions::HasDim(const Instructions::Instruction& load) const {
  const auto tensor = static_cast<size_t>(load.a);
  return load.op == Op::kSize && tensor < kinds_.size() && load.b < kinds_[tensor].opt_ndim;
}

/// Notes a check; false for one that compares anything else.
bool Conditions::AddComparison(int32_t value) {
  const Instructions::Instruction& check = instructions_[value];
  const bool is_limit = check.op == Op::kGe;
  if (check.has_floats || (check.op != Op::kEq && !is_limit)) return false;
  const Instructions::Instruction &left = instructions_[check.a], &right = instructions_[check.b];
  const bool is_number = right.op == Op::kConst;
  if (HasDim(left) && (is_number || HasDim(right))) {
    const int32_t opt_other = is_number ? -1 : right.a;
    comparisons_.push_back({is_limit, left.a, left.b, opt_other, right.b, right.constant});
    return true;
  }
  const bool is_dtype = left.op == Op::kDType;
  if ((!is_dtype && left.op != Op::kNDim) || !is_number || right.constant < 0) return false;
  if (left.a >= instructions_.num_values()) return false;  // the list stays as short as the text
  kinds_.resize(std::max(kinds_.size(), static_cast<size_t>(left.a) + 1));
  Kind& kind = kinds_[static_cast<size_t>(left.a)];
  if (is_limit) return is_dtype && right.constant == 0;  // is a tensor
  int64_t& expected = is_dtype ? kind.opt_dtype : kind.opt_ndim;
  return std::exchange(expected, right.constant) == -1;
}

/// True if the checks hold, as far as that takes no values.
bool Conditions::AllHold(const DLTensor* const* tensors, int32_t count) const {
  if (!are_comparisons_ || kinds_.size() > static_cast<size_t>(count)) return false;
  for (const Kind& kind : kinds_) {
    const DLTensor* opt_tensor = tensors[&kind - kinds_.data()];
    if (opt_tensor == nullptr) return false;
    const bool has_dtype = kind.opt_dtype < 0 || kind.opt_dtype == NumberOf(opt_tensor->dtype);
    if (!has_dtype || (kind.opt_ndim >= 0 && kind.opt_ndim != opt_tensor->ndim)) return false;
  }
  for (const Comparison& each : comparisons_) {
    const int64_t left = tensors[each.tensor]->shape[each.dim];
    const int64_t right =
        each.opt_other < 0 ? each.number : tensors[each.opt_other]->shape[each.other_dim];
    if (left != right && !(each.is_limit && left > right)) return false;
  }
  return true;
}

std::string Conditions::Write(const Check& check, const int64_t* values,
                              const DLTensor* const* tensors, int32_t count,
                              const Describe& describe) const {
  return FillPlaces(check.message, [&](std::string_view place) -> std::optional<std::string> {
    const bool is_tensor = !place.empty() && (place.front() == 't' || place.front() == 'd');
    if (!is_tensor) return instructions_.Write(place, values);
    int32_t number = -1;
    std::from_chars(place.data() + 1, place.data() + place.size(), number);
    if (number < 0 || number >= count) return std::nullopt;
    if (place.front() == 't') return describe(number);
    return tensors[number] == nullptr ? "None" : DTypeName(tensors[number]->dtype);
  });
}

}  // namespace graphffi
