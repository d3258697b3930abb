// SPDX-License-Identifier: Apache-2.0
// Integers that do not fit 64 bits: little-endian words of two's complement.
#include <cstring>

#include "any.h"
#include "error.h"
#include "type_registry.h"

namespace graphffi::runtime {
namespace {

struct BigIntObject {
  TVMFFIObject header;
  int64_t num_words;
};

using Word = uint64_t;

Word LoadWord(std::string_view bytes, size_t index) {
  Word word;
  std::memcpy(&word, bytes.data() + index * sizeof(word), sizeof(word));
  return word;
}

/// Without the last words that only repeat the sign; at least one word.
std::string_view StripSign(std::string_view bytes) {
  for (size_t last = bytes.size() / sizeof(Word) - 1; last > 0; --last) {
    bool next_is_negative = static_cast<int64_t>(LoadWord(bytes, last - 1)) < 0;
    if (LoadWord(bytes, last) != (next_is_negative ? ~Word{0} : Word{0})) break;
    bytes.remove_suffix(sizeof(Word));
  }
  return bytes;
}

Any MakeBigInt(std::string_view bytes) {
  if (bytes.size() % sizeof(Word) != 0) {
    Throw("ValueError", "graphffi: big integer: expected whole 64-bit words, got ", bytes.size(),
          " bytes");
  }
  if (bytes.empty()) return Any::Int(0);
  bytes = StripSign(bytes);
  size_t num_words = bytes.size() / sizeof(Word);
  if (num_words == 1) return Any::Int(static_cast<int64_t>(LoadWord(bytes, 0)));
  auto object =
      MakeObject<BigIntObject>(kTVMFFIBigInt, bytes.size(), static_cast<int64_t>(num_words));
  std::memcpy(object.get() + 1, bytes.data(), bytes.size());
  return Any::Object(std::move(object));
}

std::string_view BigIntContent(const TVMFFIAny& value) {
  auto* object = reinterpret_cast<const BigIntObject*>(value.v_obj);
  return {reinterpret_cast<const char*>(object + 1), static_cast<size_t>(object->num_words) * 8};
}

// As map keys, big integers are equal if their numbers are. Libraries call these through pointers.
TVMFFIAny HashContent(const TVMFFIAny* value) {
  uint64_t hash = 0;
  std::string_view content = BigIntContent(*value);
  for (size_t i = 0; i < content.size() / sizeof(Word); ++i) {
    hash = hash * 1099511628211ULL + LoadWord(content, i);
  }
  return Any::Int(static_cast<int64_t>(hash)).Release();
}

TVMFFIAny ContentsEqual(const TVMFFIAny* a, const TVMFFIAny* b) {
  return Any::Bool(BigIntContent(*a) == BigIntContent(*b)).Release();
}

[[maybe_unused]] const bool attributes_are_registered = [] {
  RegisterFunctionAttr(kTVMFFIBigInt, "__any_hash__", HashContent);
  RegisterFunctionAttr(kTVMFFIBigInt, "__any_equal__", ContentsEqual);
  return true;
}();

}  // namespace
}  // namespace graphffi::runtime

using namespace graphffi::runtime;

int TVMFFIBigIntFromByteArray(const TVMFFIByteArray* input, TVMFFIAny* out) {
  return Guard([&] { *out = MakeBigInt(View(*input)).Release(); });
}

TVMFFIByteArray TVMFFIBigIntGetContentByteArray(const TVMFFIAny* value) {
  if (value->type_index != kTVMFFIBigInt) return {value->v_bytes, sizeof(value->v_bytes)};
  std::string_view content = BigIntContent(*value);
  return {content.data(), content.size()};
}
