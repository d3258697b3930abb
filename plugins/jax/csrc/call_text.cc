// SPDX-License-Identifier: Apache-2.0
#include "call_text.h"

#include <algorithm>
#include <cctype>
#include <map>

#include "call/error.h"
#include "call/text_lines.h"

namespace graphffi_jax {

using graphffi::Error;
using graphffi::FailInText;
using graphffi::KernelSlot;
using graphffi::ReadTextNumber;
using graphffi::TextLine;
using tvm::ffi::Any;
using tvm::ffi::Function;

namespace {

constexpr std::string_view kFormat = "tvm_ffi.call 2";

/// The lines of a text, without those of values.
struct Lines {
  std::map<std::string, std::string, std::less<>> texts;
  std::vector<Any> ints, floats, strs;  ///< n0, n1, …, f0, f1, …, s0, s1, … of the plan
  std::vector<std::string> attributes;  ///< of a target: names of n0, n1, …

  bool Has(std::string_view name) const { return texts.find(name) != texts.end(); }
  std::string Get(std::string_view name) const {
    const auto found = texts.find(name);
    return found == texts.end() ? "" : found->second;
  }
};

void ReadLine(const TextLine& line, Lines* to) {
  static constexpr std::string_view kKnown[] = {"arrays",  "digest",  "kernel",      "library",
                                                "ordered", "owning",  "side_effect", "plan",
                                                "subject", "updated", "workspace"};
  const auto& [name, value] = line;
  if (name == "int") {
    to->ints.emplace_back(ReadTextNumber<int64_t>(name, value));
  } else if (name == "float") {
    to->floats.emplace_back(ReadTextNumber<double>(name, value));
  } else if (name == "str") {
    to->strs.emplace_back(tvm::ffi::String(value));
  } else if (name == "attribute") {
    to->attributes.push_back(value);
  } else if (std::find(std::begin(kKnown), std::end(kKnown), name) != std::end(kKnown)) {
    // Packages are checked by a reader in Python, which must not see another one of two.
    if (!to->texts.emplace(name, value).second)
      FailInText("line", "one " + std::string(name), value);
  } else {
    FailInText("line", "a known name", std::string(name) + (value.empty() ? "" : " ") + value);
  }
}

Lines ReadLines(std::string_view text) {
  Lines lines;
  for (const TextLine& line : graphffi::ReadTextLines(text, kFormat)) ReadLine(line, &lines);
  return lines;
}

/// The names of arrays: `x(@0 b [h]), y -> out` says `x, y -> out`.
std::string NamesOf(const std::string& arrays) {
  std::string names;
  bool is_inside = false;
  for (const char c : arrays) {
    // Loops are gone where XLA has split the call.
    if (is_inside && c == '@') FailInText("arrays", "no loops, since XLA splits the call", arrays);
    if (c == '(' || c == ')') {
      is_inside = c == '(';
    } else if (!is_inside) {
      names += c;
    }
  }
  return names;
}

/// The names that `text` picks from one bank: how many operands there are is known at execution
/// only, where the call frame checks the indices.
int32_t CountNames(std::string_view text, char prefix) {
  auto is_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  constexpr int32_t kLimit = 1 << 16;
  int32_t count = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != prefix || (i > 0 && is_word(text[i - 1]))) continue;
    int32_t index = 0;
    size_t end = i + 1;
    for (; end < text.size() && std::isdigit(static_cast<unsigned char>(text[end])); ++end) {
      index = std::min(kLimit, index * 10 + (text[end] - '0'));
    }
    bool name = end > i + 1 && (end == text.size() || !is_word(text[end]));
    if (name && index < kLimit) count = std::max(count, index + 1);
  }
  return count;
}

/// A plan that is there and empty passes nothing.
graphffi::Signature SignatureOf(const Lines& lines, const std::string& subject) {
  auto names = graphffi::TensorNames::Parse(subject, NamesOf(lines.Get("arrays")));
  const std::string plan = lines.Get("plan");
  if (plan.empty() && lines.Has("plan")) return graphffi::Signature(std::move(names));
  const graphffi::Counts counts{CountNames(plan, 'i'), CountNames(plan, 'o'),
                                static_cast<int32_t>(lines.ints.size() + lines.attributes.size()),
                                static_cast<int32_t>(lines.floats.size()),
                                static_cast<int32_t>(lines.strs.size())};
  return graphffi::Signature::Parse(plan, std::move(names), counts);
}

/// All but the kernel.
void Fill(const Lines& lines, SiteParts* to) {
  to->signature = SignatureOf(lines, to->subject());
  for (const std::vector<Any>* values : {&lines.ints, &lines.floats, &lines.strs}) {
    to->attributes.insert(to->attributes.end(), values->begin(), values->end());
  }
  if (lines.Has("updated")) to->mutated = ReadTextNumber<int64_t>("updated", lines.Get("updated"));
  if (to->mutated < 0) FailInText("updated", "0 or more", std::to_string(to->mutated));
  to->is_ordered = lines.Has("ordered");
  to->pass_owning_tensor = lines.Has("owning");
  to->has_workspace = lines.Has("workspace");
}

/// \throws Error(ValueError) if the library that a kernel names has other content by now.
void CheckLibrary(const std::string& kernel, const std::string& library) {
  const auto find_name = Function::GetGlobal("graphffi_jax.packaged_name");
  if (!find_name.has_value()) return;
  const std::string found = (*find_name)(kernel).cast<std::string>();
  if (found.empty() || found == library) return;
  throw Error("ValueError", "graphffi: kernel '" + kernel +
                                "': expected the library of the export, " + library + ", got " +
                                found + "; make the program again, or load it from its package");
}

/// The reference of a kernel, or of the same one in the library of a package that was loaded.
std::string ReferenceOf(const std::string& kernel, const std::string& library) {
  if (library.empty() || !graphffi::IsLibraryReference(kernel)) return kernel;
  if (graphffi::IsProvided(library)) return library + kernel.substr(kernel.rfind("::"));
  CheckLibrary(kernel, library);
  return kernel;
}

void SetKernel(const std::string& reference, SiteParts* to) {
  to->facts = graphffi::FactsOf(reference);
  to->kernel = std::make_shared<KernelSlot>(reference);
  const KernelSlot::Use bound(*to->kernel);  // Python may give the name up before the first call
}

}  // namespace

std::string_view CallTextOf(const xla::Attributes& attributes) {
  std::string got = attributes.size == 0 ? "nothing" : "other attributes";
  for (int64_t i = 0; i < attributes.size; ++i) {
    const std::string_view name(attributes.names[i]->data, attributes.names[i]->size);
    if (name == "func") got = "a program made by graphffi 0.1; export again";
    if (name != "call" || attributes.size > 1 || attributes.tags[i] != xla::kString) continue;
    auto* text = static_cast<const xla::ByteSpan*>(attributes.values[i]);
    return {text->data, text->size};
  }
  throw Error("TypeError",
              "tvm_ffi.call: attribute 'call': expected the text of a call alone, got " + got);
}

void ReadCallText(std::string_view text, SiteParts* to) {
  to->SetSubject("tvm_ffi.call");
  const Lines lines = ReadLines(text);
  const std::string kernel = lines.Get("kernel");
  if (lines.Has("subject") || !kernel.empty()) {
    to->SetSubject(lines.Has("subject") ? lines.Get("subject") : kernel);
  }
  if (kernel.empty()) FailInText("kernel", "the reference of a kernel", "");
  if (!lines.attributes.empty()) FailInText("attribute", "a value", lines.attributes[0]);
  Fill(lines, to);
  const std::string reference = ReferenceOf(kernel, lines.Get("library"));
  SetKernel(reference, to);
  to->key = std::string(text) + "\n" + reference;
}

void ReadTargetText(std::string_view text, const tvm::ffi::Optional<Function>& function,
                    SiteParts* to, std::vector<std::string>* attributes) {
  Lines lines = ReadLines(text);
  to->SetSubject(lines.Get("subject"));
  to->is_named = true;
  Fill(lines, to);
  *attributes = std::move(lines.attributes);
  if (!function.has_value()) return SetKernel(lines.Get("kernel"), to);
  const TVMFFIObjectHandle handle = HandleOf(function.value());
  TVMFFIObjectIncRef(handle);
  to->kernel = std::make_shared<KernelSlot>(handle);
}

}  // namespace graphffi_jax
