// SPDX-License-Identifier: Apache-2.0
#include "text_value.h"

#include <mutex>
#include <unordered_map>

#include "callframe/owned_values.h"
#include "callframe/value.h"

namespace graphffi_torch {
namespace {

TVMFFIAny KeptValue(const std::string& text) {
  static auto* mutex = new std::mutex();
  static auto* kept = new std::unordered_map<std::string, TVMFFIAny>();
  std::lock_guard<std::mutex> lock(*mutex);
  auto found = kept->find(text);
  if (found == kept->end()) found = kept->emplace(text, graphffi::MakeString(text)).first;
  return found->second;
}

}  // namespace

TVMFFIAny TextValue(const std::string& text) {
  if (text.find('\0') != std::string::npos) return KeptValue(text);
  return graphffi::MakeRawStr(text.c_str());
}

std::string TextOfCode(const char* code) {
  std::string text = code;
  for (size_t at = 0; (at = text.find("\xC0\x80", at)) != std::string::npos; ++at) {
    text.replace(at, 2, 1, '\0');
  }
  return text;
}

}  // namespace graphffi_torch
