// SPDX-License-Identifier: Apache-2.0
#include "shapes/shape_program.h"

#include <tvm/ffi/device.h>
#include <tvm/ffi/dtype.h>

#include <utility>

#include "call/error.h"
#include "call/value.h"

namespace graphffi {

ShapeProgram::Lengths::Lengths(const Bank& bank) {
  for (int32_t k = 0; k < bank.size; ++k) {
    counts.push_back(bank.slot(k).count);
    has_lists = has_lists || counts.back() != Slot::kSingle;
  }
}

bool ShapeProgram::Lengths::Fit(const Bank& bank) const {
  if (static_cast<size_t>(bank.size) != counts.size()) return false;
  if (bank.opt_slots == nullptr && !has_lists) return true;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] != bank.slot(static_cast<int32_t>(i)).count) return false;
  }
  return true;
}

void ResultShapes::Reset(int32_t num_results, int32_t num_dims) {
  size_ = num_results;
  workspace_bytes = -1;
  kernel = 0;
  results_ = inline_results_;
  dims_ = inline_dims_;
  if (num_results > kInlineResults) {
    more_results_.resize(static_cast<size_t>(num_results));
    results_ = more_results_.data();
  }
  if (num_dims > kInlineDims) {
    more_dims_.resize(static_cast<size_t>(num_dims));
    dims_ = more_dims_.data();
  }
}

/// Reads lines of instructions.
class ShapeProgramParser {
 public:
  ShapeProgramParser(std::string_view text, ShapeProgram* program)
      : text_(text), program_(program) {}

  void Run() {
    for (std::string_view word = text_.Word(); !word.empty(); word = text_.Word()) {
      if (word == "true" || word == "false") {
        program_->guards_.push_back({Value(), word == "true", {}, {}});
      } else if (word == "error") {
        if (program_->guards_.empty()) text_.Fail();
        program_->guards_.back().kind = text_.Word();
        program_->guards_.back().message = text_.RestOfLine();
      } else if (word == "same") {
        ParseSame();
      } else if (word == "result") {
        ParseResult();
      } else if (word == "workspace") {
        program_->workspace_ = Value();
      } else if (word == "kernel") {
        program_->kernel_ = text_.Count();
      } else if (!program_->instructions_.Read(word, &text_)) {
        text_.Fail();
      }
    }
  }

 private:
  int32_t Value() { return program_->instructions_.ReadValue(&text_); }

  void ParseSame() {
    const auto index = static_cast<size_t>(text_.Count());
    if (index >= program_->attributes_.size()) text_.Fail();
    program_->attributes_[index].is_fixed = true;
  }

  void ParseResult() {
    ShapeProgram::Result result{};
    result.dtype.code = static_cast<uint8_t>(text_.Number());
    result.dtype.bits = static_cast<uint8_t>(text_.Number());
    result.dtype.lanes = static_cast<uint16_t>(text_.Number());
    result.device.device_type = static_cast<DLDeviceType>(text_.Number());
    result.device.device_id = static_cast<int32_t>(text_.Number());
    for (int64_t ndim = text_.Number(); ndim > 0; --ndim) result.dims.push_back(Value());
    program_->num_dims_ += static_cast<int32_t>(result.dims.size());
    program_->results_.push_back(std::move(result));
  }

  ProgramText text_;
  ShapeProgram* program_;
};

ShapeProgram ShapeProgram::Parse(std::string_view text, const CallValues& traced) {
  ShapeProgram program;
  program.NoteStructure(traced);
  ShapeProgramParser(text, &program).Run();
  return program;
}

void ShapeProgram::NoteStructure(const CallValues& traced) {
  int32_t num_loaded = 0;
  inputs_ = Lengths(traced.inputs);
  outputs_ = Lengths(traced.outputs);
  attribute_slots_ = Lengths(traced.attributes);
  for (const Bank* bank : {&traced.inputs, &traced.outputs}) {
    for (int32_t i = 0; i < bank->num_values(); ++i) {
      const DLTensor* tensor = TensorOf(bank->values[i]);
      operands_.push_back(tensor == nullptr ? Operand{-1, {}, {}}
                                            : Operand{tensor->ndim, tensor->dtype, tensor->device});
      if (tensor != nullptr) num_loaded += tensor->ndim;
    }
  }
  for (int32_t i = 0; i < traced.attributes.num_values(); ++i) {
    const TVMFFIAny& value = traced.attributes.values[i];
    Attribute attribute{value.type_index, false, value.v_int64, {}};
    if (const auto text = TextOf(value)) attribute.text = *text;
    if (value.type_index == kTVMFFIInt) ++num_loaded;
    attributes_.push_back(std::move(attribute));
  }
  instructions_ = Instructions(num_loaded);
}

bool ShapeProgram::LoadTensors(const Bank& bank, int32_t first, size_t* operand,
                               int64_t** next) const {
  const int32_t count = bank.num_values();
  for (int32_t i = first; i < count; ++i) {
    const Operand& expected = operands_[(*operand)++];
    const DLTensor* tensor = TensorOf(bank.values[i]);
    if (tensor == nullptr) {
      if (expected.ndim != -1) return false;
      continue;
    }
    if (tensor->ndim != expected.ndim || tensor->dtype != expected.dtype ||
        tensor->device != expected.device) {
      return false;
    }
    for (int32_t d = 0; d < tensor->ndim; ++d) *(*next)++ = tensor->shape[d];
  }
  return true;
}

bool ShapeProgram::LoadAttributes(const Bank& bank, int64_t** next) const {
  for (size_t i = 0; i < attributes_.size(); ++i) {
    const Attribute& expected = attributes_[i];
    const TVMFFIAny& value = bank.values[i];
    if (value.type_index != expected.type_index) return false;
    if (value.type_index == kTVMFFIInt) {
      *(*next)++ = value.v_int64;
    } else if (expected.is_fixed) {
      const auto text = TextOf(value);
      const bool same =
          text.has_value() ? *text == expected.text : value.v_int64 == expected.payload;
      if (!same) return false;
    }
  }
  return true;
}

bool ShapeProgram::Compute(int64_t* values) const {
  if (!instructions_.Run(values)) return false;
  for (const Guard& guard : guards_) {
    if ((values[guard.value] != 0) != guard.expected) return false;
  }
  return true;
}

bool ShapeProgram::Fill(const int64_t* values, ResultShapes* results) const {
  results->Reset(static_cast<int32_t>(results_.size()), num_dims_);
  results->kernel = kernel_;
  int64_t* dims = results->dims();
  for (size_t i = 0; i < results_.size(); ++i) {
    const Result& result = results_[i];
    results->results()[i] = DLTensor{nullptr,
                                     result.device,
                                     static_cast<int32_t>(result.dims.size()),
                                     result.dtype,
                                     dims,
                                     nullptr,
                                     0};
    for (const int32_t dim : result.dims) {
      if (values[dim] < 0) return false;
      *dims++ = values[dim];
    }
  }
  if (workspace_ < 0) return true;
  results->workspace_bytes = values[workspace_];
  return results->workspace_bytes >= 0;
}

bool ShapeProgram::HasStructure(const CallValues& call) const {
  return inputs_.Fit(call.inputs) && outputs_.Fit(call.outputs) &&
         attribute_slots_.Fit(call.attributes);
}

bool ShapeProgram::Load(const CallValues& call, int64_t* values) const {
  if (!HasStructure(call)) return false;
  size_t operand = 0;
  const auto num_results = static_cast<int32_t>(results_.size());
  if (!LoadTensors(call.inputs, 0, &operand, &values)) return false;
  operand += results_.size();
  return LoadTensors(call.outputs, num_results, &operand, &values) &&
         LoadAttributes(call.attributes, &values);
}

bool ShapeProgram::Run(const CallValues& call, ResultShapes* results) const {
  Instructions::Room room(instructions_);
  int64_t* values = room.values();
  return Load(call, values) && Compute(values) && Fill(values, results);
}

std::vector<int64_t> ShapeProgram::Infer(std::vector<int64_t> given) const {
  if (static_cast<int32_t>(given.size()) != instructions_.num_given()) {
    throw Error("InternalError", "graphffi: a shape program gets values of another call");
  }
  given.resize(static_cast<size_t>(instructions_.num_values()));
  instructions_.RunAll(given.data(), [](const auto&) { return Instructions::kMissing; });
  return given;
}

std::optional<ShapeProgram::Broken> ShapeProgram::FindBroken(const CallValues& call) const {
  Instructions::Room room(instructions_);
  int64_t* values = room.values();
  if (!Load(call, values)) return std::nullopt;
  instructions_.RunAll(values, [](const auto&) { return Instructions::kMissing; });
  for (const Guard& guard : guards_) {
    const int64_t found = values[guard.value];
    const bool holds = found > Instructions::kMissing && (found != 0) == guard.expected;
    if (holds || guard.kind.empty()) continue;
    return Broken{guard.kind, FillPlaces(guard.message, [&](std::string_view place) {
                    return instructions_.Write(place, values);
                  })};
  }
  return std::nullopt;
}

}  // namespace graphffi
