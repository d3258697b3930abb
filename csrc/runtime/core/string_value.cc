// SPDX-License-Identifier: Apache-2.0
// String and Bytes: up to 7 bytes in the value itself, with unused bytes zero because hashes read
// the whole word.
#include "string_value.h"

#include <cstring>

#include "error.h"

namespace graphffi::runtime {
namespace {

constexpr size_t kSmallStringCapacity = 7;

struct BytesObject {
  TVMFFIObject header;
  TVMFFIByteArray content;
};

Any MakeBytesLike(std::string_view content, TVMFFITypeIndex small_index,
                  TVMFFITypeIndex object_index) {
  if (content.size() <= kSmallStringCapacity) {
    TVMFFIAny value = {small_index, {0}, {0}};
    value.small_str_len = static_cast<uint32_t>(content.size());
    if (!content.empty()) std::memcpy(value.v_bytes, content.data(), content.size());
    return Any::Steal(value);
  }
  auto object = MakeObject<BytesObject>(object_index, content.size() + 1, TVMFFIByteArray{});
  char* data = reinterpret_cast<char*>(object.get() + 1);
  std::memcpy(data, content.data(), content.size());
  data[content.size()] = '\0';
  object->content = {data, content.size()};
  return Any::Object(std::move(object));
}

std::string_view Content(const TVMFFIAny& value) {
  if (HoldsObject(value)) return View(*TVMFFIBytesGetByteArrayPtr(value.v_obj));
  return std::string_view(value.v_bytes, value.small_str_len);
}

}  // namespace

Any MakeString(std::string_view text) { return MakeBytesLike(text, kTVMFFISmallStr, kTVMFFIStr); }

Any MakeBytes(std::string_view bytes) {
  return MakeBytesLike(bytes, kTVMFFISmallBytes, kTVMFFIBytes);
}

std::optional<std::string_view> TryText(const TVMFFIAny& value) {
  switch (value.type_index) {
    case kTVMFFIRawStr:
      return std::string_view(value.v_c_str);
    case kTVMFFISmallStr:
    case kTVMFFIStr:
      return Content(value);
    default:
      return std::nullopt;
  }
}

}  // namespace graphffi::runtime

using namespace graphffi::runtime;

int TVMFFIStringFromByteArray(const TVMFFIByteArray* input, TVMFFIAny* out) {
  return Guard([&] { *out = MakeString(View(*input)).Release(); });
}

int TVMFFIBytesFromByteArray(const TVMFFIByteArray* input, TVMFFIAny* out) {
  return Guard([&] { *out = MakeBytes(View(*input)).Release(); });
}
