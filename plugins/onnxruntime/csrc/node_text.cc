// SPDX-License-Identifier: Apache-2.0
#include "node_text.h"

#include <algorithm>
#include <utility>

#include "call/describe_tensor.h"
#include "call/error.h"
#include "call/text_lines.h"

namespace graphffi_onnxruntime {

using graphffi::FailInText;
using graphffi::ReadTextNumber;

namespace {

constexpr std::string_view kCallFormat = "graphffi.onnx 1";
constexpr int32_t kMostDims = 64;  // NumPy's and torch's

/// The next word of a value, which is gone from it.
std::string_view TakeWord(std::string_view* text) {
  const std::string_view word = text->substr(0, text->find(' '));
  text->remove_prefix(std::min(word.size() + 1, text->size()));
  return word;
}

int32_t ReadIndex(std::string_view part, std::string_view text) {
  const auto number = ReadTextNumber<int64_t>(part, text);
  if (number < -1 || number > INT32_MAX) FailInText(part, "an index", std::string(text));
  return static_cast<int32_t>(number);
}

NodeText::Input ReadInput(std::string_view text) {
  if (text == "-" || text == "!") return {NodeText::Role::kAbsent, text == "!", -1, {}, 0};
  const std::string_view place = TakeWord(&text);
  if (place.size() < 2 || (place[0] != 'i' && place[0] != 'o')) {
    FailInText("input", "i0, o0, - or !", std::string(place));
  }
  const bool is_updated = place[0] == 'o';
  const DLDataType dtype = graphffi::DTypeFromName(TakeWord(&text));
  const int32_t ndim = ReadIndex("input", text);
  if (ndim < 0 || ndim > kMostDims) FailInText("input", "0 to 64 dimensions", std::string(text));
  return {is_updated ? NodeText::Role::kUpdated : NodeText::Role::kRead, is_updated,
          ReadIndex("input", place.substr(1)), dtype, ndim};
}

NodeText::Attribute ReadAttribute(std::string_view text) {
  static constexpr std::pair<std::string_view, NodeText::Class> kClasses[] = {
      {"int", NodeText::Class::kInt},
      {"bool", NodeText::Class::kBool},
      {"float", NodeText::Class::kFloat},
      {"str", NodeText::Class::kStr}};
  const std::string_view type = TakeWord(&text);
  const int32_t count = ReadIndex("attribute", TakeWord(&text));
  for (const auto& [name, known] : kClasses) {
    if (name == type) return {known, count, std::string(text)};
  }
  FailInText("attribute", "int, bool, float or str", std::string(type));
}

NodeText::Value ReadValue(std::string_view text) {
  const std::string_view place = TakeWord(&text);
  if (place.size() < 2) FailInText("value", "n0, f0 or s0", std::string(place));
  return {place[0], ReadIndex("value", place.substr(1)), std::string(text)};
}

void ReadWayLine(const graphffi::TextLine& line, NodeText::Way* way) {
  if (line.name == "library") {
    way->library = line.value;
  } else if (line.name == "plan") {
    way->plan = line.value;
  } else if (line.name == "owning") {
    way->is_owning = true;
  } else if (line.name == "program") {
    way->program = line.value;
  } else {
    FailInText("line", "a known name", std::string(line.name));
  }
}

/// The tensors have to be those that are named, each once.
void CheckCounts(const NodeText& text) {
  std::vector<bool> read(static_cast<size_t>(text.num_read)),
      updated(static_cast<size_t>(text.num_updated));
  bool is_right = text.names->inputs.size() == read.size() && text.num_results() >= 0;
  for (const NodeText::Input& input : text.inputs) {
    if (input.role == NodeText::Role::kAbsent) continue;
    const bool is_read = input.role == NodeText::Role::kRead;
    std::vector<bool>& seen = is_read ? read : updated;
    const auto place = static_cast<size_t>(input.slot - (is_read ? 0 : text.num_results()));
    is_right = is_right && place < seen.size() && !seen[place];
    if (is_right) seen[place] = true;
  }
  if (!is_right) FailInText("input", "each tensor once", text.subject());
  if (text.ways.empty()) FailInText("kernel", "the reference of a kernel", "");
}

}  // namespace

NodeText NodeText::Parse(std::string_view text) {
  NodeText node;
  std::string subject, names;
  for (graphffi::TextLine& line : graphffi::ReadTextLines(text, kCallFormat)) {
    if (line.name == "kernel") {
      node.ways.emplace_back().kernel = std::move(line.value);
    } else if (!node.ways.empty()) {
      ReadWayLine(line, &node.ways.back());
    } else if (line.name == "subject") {
      subject = std::move(line.value);
    } else if (line.name == "digest") {
      node.digest = std::move(line.value);
    } else if (line.name == "names") {
      names = std::move(line.value);
    } else if (line.name == "device") {
      node.device = graphffi::DeviceFromName(line.value);
    } else if (line.name == "input") {
      node.inputs.push_back(ReadInput(line.value));
      node.num_read += node.inputs.back().role == Role::kRead ? 1 : 0;
      node.num_updated += node.inputs.back().role == Role::kUpdated ? 1 : 0;
    } else if (line.name == "attribute") {
      node.attributes.push_back(ReadAttribute(line.value));
    } else if (line.name == "exact" || line.name == "fixed") {
      (line.name == "exact" ? node.exact : node.fixed).push_back(ReadValue(line.value));
    } else {
      FailInText("line", "a known name", std::string(line.name));
    }
  }
  node.names = graphffi::TensorNames::Parse(std::move(subject), names);
  CheckCounts(node);
  return node;
}

size_t NodeText::num_node_outputs() const {
  const auto is_output = [](const Input& input) { return input.is_output; };
  return static_cast<size_t>(num_results() +
                             std::count_if(inputs.begin(), inputs.end(), is_output));
}

graphffi::CallValues NodeText::ValuesOf(const TVMFFIAny* read, const TVMFFIAny* written,
                                        const std::vector<TVMFFIAny>& ints) const {
  return {{read, nullptr, num_read},
          {written, nullptr, static_cast<int32_t>(names->outputs.size())},
          {ints.data(), nullptr, static_cast<int32_t>(ints.size())}};
}

std::string NodeText::NameOf(const Input& input) const {
  const bool is_read = input.role == Role::kRead;
  return names->NameOf(is_read ? graphffi::Plan::Op::kInput : graphffi::Plan::Op::kOutput,
                       static_cast<size_t>(input.slot));
}

}  // namespace graphffi_onnxruntime
