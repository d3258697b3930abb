// SPDX-License-Identifier: Apache-2.0
#include "shapes/conditions.h"

#include <charconv>

namespace graphffi {
Conditions Conditions::Parse(std::string_view text) {
  Conditions conditions;
  ProgramText words(text);
  for (std::string_view word = words.Word(); !word.empty(); word = words.Word()) {
    if (word == "check") {
      const int32_t value = conditions.instructions_.ReadValue(&words);
      conditions.checks_.push_back({value, std::string(words.RestOfLine())});
    } else if (!conditions.instructions_.Read(word, &words)) {
      words.Fail();
    }
  }
  return conditions;
}

std::string Conditions::FindBroken(const DLTensor* tensors, int32_t count,
                                   const Describe& describe) const {
  Instructions::Room room(instructions_);
  int64_t* values = room.values();
  instructions_.RunAll(values, [&](const Instructions::Instruction& load) {
    if (load.a >= count || load.b >= tensors[load.a].ndim) return Instructions::kMissing;
    const DLTensor& tensor = tensors[load.a];
    const int64_t* opt_numbers = load.op == Instructions::Op::kSize ? tensor.shape : tensor.strides;
    return opt_numbers == nullptr ? Instructions::kMissing : opt_numbers[load.b];
  });
  for (const Check& check : checks_) {
    const int64_t found = values[check.value];
    if (found == 0 || found == Instructions::kFailed) return Write(check, values, describe);
  }
  return "";
}

std::string Conditions::Write(const Check& check, const int64_t* values,
                              const Describe& describe) const {
  const std::string_view message = check.message;
  std::string text;
  for (size_t begin = 0; begin < message.size();) {
    const size_t open = message.find('{', begin), close = message.find('}', open);
    text += message.substr(begin, open - begin);
    if (close == std::string_view::npos) break;
    const bool is_tensor = message[open + 1] == 't';
    int32_t number = -1;
    std::from_chars(message.data() + open + (is_tensor ? 2 : 1), message.data() + close, number);
    if (is_tensor) {
      text += describe(number);
    } else if (number >= 0 && number < instructions_.num_values()) {
      const bool is_known = values[number] > Instructions::kMissing;
      text += is_known ? std::to_string(values[number]) : "?";
    }
    begin = close + 1;
  }
  return text;
}

}  // namespace graphffi
