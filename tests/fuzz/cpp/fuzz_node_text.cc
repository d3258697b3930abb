// SPDX-License-Identifier: Apache-2.0
// Texts of nodes of ONNX models, and the programs and plans in them.
#include "call/error.h"
#include "call/signature.h"
#include "call/value.h"
#include "node_text.h"
#include "parse_program.h"
#include "raised.h"

using graphffi::Error;
using graphffi_onnxruntime::NodeText;

namespace {

/// What a node of the text may have, its lists cut.
std::vector<TVMFFIAny> IntsOf(const NodeText& text) {
  std::vector<TVMFFIAny> ints;
  for (const NodeText::Attribute& attribute : text.attributes) {
    if (attribute.type != NodeText::Class::kInt) continue;
    const int32_t count = attribute.count == graphffi::Slot::kSingle ? 1 : attribute.count % 4;
    for (int32_t i = 0; i < count; ++i) ints.push_back(graphffi::ToAny(int64_t{i}));
  }
  return ints;
}

template <typename Run>
void Try(const Run& run) {
  try {
    run();
  } catch (const Error& error) {
    const std::string& kind = error.kind();
    Require(kind == "ValueError" || kind == "TypeError" || kind == "InternalError");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Try([&] {
    const NodeText text = NodeText::Parse({reinterpret_cast<const char*>(data), size});
    std::vector<bool> seen(text.num_tensors());
    for (const NodeText::Input& input : text.inputs) {
      if (input.role == NodeText::Role::kAbsent) continue;
      Require(!seen.at(text.PlaceOf(input)));
      seen[text.PlaceOf(input)] = true;
      Require(!text.NameOf(input).empty());
    }
    const std::vector<TVMFFIAny> ints = IntsOf(text);
    const graphffi::Counts counts{text.num_read, text.num_results() + text.num_updated,
                                  static_cast<int32_t>(ints.size()), 1, 1};
    for (const NodeText::Way& way : text.ways) {
      Try([&] {
        const auto program = graphffi_onnxruntime::ParseProgram(way.program, text, ints);
        Require(program.num_results() == text.num_results());
      });
      Try([&] { graphffi::Signature::Parse(way.plan, text.names, counts); });
    }
  });
  return 0;
}
