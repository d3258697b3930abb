// SPDX-License-Identifier: Apache-2.0
// Makes a map of `argv[1]` keys of all kinds and reads it from its memory alone.
#define main unused_main
#include "abi.h"
#undef main

struct Body {
  TVMFFIObject header;
  char* data;
  uint64_t size;
  uint64_t slots;
  void (*data_deleter)(void*);
  uint32_t fib_shift;
  uint64_t first;
  uint64_t last;
};
constexpr uint64_t kSmallBit = uint64_t{1} << 63;

static TVMFFIAny* DenseItem(const Body* body, uint64_t slot) {
  return reinterpret_cast<TVMFFIAny*>(body->data + slot / 16 * 784 + 16 + slot % 16 * 48);
}
static uint8_t Meta(const Body* body, uint64_t slot) {
  return static_cast<uint8_t>(body->data[slot / 16 * 784 + slot % 16]);
}

static std::string_view Content(const TVMFFIAny& key) {
  if (key.type_index == kTVMFFISmallStr) return {key.v_bytes, key.small_str_len};
  TVMFFIByteArray* bytes = TVMFFIBytesGetByteArrayPtr(key.v_obj);
  return {bytes->data, bytes->size};
}

static uint64_t Hash(const TVMFFIAny& key) {
  uint64_t type = key.type_index;
  uint64_t hash = key.v_uint64;
  if (key.type_index == kTVMFFISmallStr || key.type_index == kTVMFFIStr) {
    type = kTVMFFIStr;
    hash = 0;
    std::string text(Content(key));
    text.resize((text.size() + 7) / 8 * 8);
    for (size_t i = 0; i < text.size(); i += 8) {
      uint64_t word = 0;
      std::memcpy(&word, &text[i], 8);
      hash = (hash * 1099511628211ULL + word) % 2147483647;
    }
  }
  return type ^ (hash + 0x9e3779b9 + (type << 6) + (type >> 2));
}

static bool Equal(const TVMFFIAny& a, const TVMFFIAny& b) {
  if (a.type_index != b.type_index) return false;
  return a.type_index == kTVMFFIStr ? Content(a) == Content(b)
                                    : a.v_uint64 == b.v_uint64 && a.zero_padding == b.zero_padding;
}

static uint64_t Jump(int code) {
  static const uint64_t larger[] = {8515, 19110, 42778, 96141, 216153, 486591};
  if (code < 16) return code;
  if (code >= 83) return larger[code - 83];
  return uint64_t(code - 10) * (code - 9) / 2;
}

static const TVMFFIAny* Find(const Body* body, const TVMFFIAny& key) {
  uint64_t slot = (11400714819323198485ULL * Hash(key)) >> body->fib_shift;
  if (Meta(body, slot) & 0x80) return nullptr;
  while (!Equal(DenseItem(body, slot)[0], key)) {
    int code = Meta(body, slot) & 0x7F;
    if (code == 0) return nullptr;
    slot = (slot + Jump(code)) & (body->slots - 1);
  }
  return &DenseItem(body, slot)[1];
}

int main(int, char** argv) {
  int64_t size = std::atoi(argv[1]);
  std::vector<Value> keys;
  std::vector<TVMFFIAny> args;
  for (int64_t i = 0; i < size; ++i) {
    std::string text = (i % 3 == 1 ? "k" : "a longer key of number ") + std::to_string(i);
    keys.push_back(i % 3 == 0 ? Value(Int(i * 1024)) : i % 7 == 6 ? Value(Float(i)) : Str(text));
    args.push_back(keys.back().value);
    args.push_back(Int(i));
  }
  Value map = Call("ffi.Map", args);
  auto* body = static_cast<const Body*>(map.object());
  CHECK_EQ(body->size, uint64_t(size));
  if (body->slots & kSmallBit) {
    CHECK(size <= 4 && uint64_t(size) <= (body->slots & ~kSmallBit));
    auto* items = reinterpret_cast<TVMFFIAny*>(body->data);
    for (int64_t i = 0; i < size; ++i) {
      CHECK(Equal(items[2 * i], keys[i].value));
      CHECK_EQ(items[2 * i + 1].v_int64, i);
    }
    return 0;
  }
  CHECK(body->slots == uint64_t{1} << (64 - body->fib_shift));
  uint64_t slot = body->first;
  uint64_t previous = ~uint64_t{0};
  for (int64_t i = 0; i < size; ++i) {
    CHECK(Equal(DenseItem(body, slot)[0], keys[i].value));
    CHECK_EQ(DenseItem(body, slot)[1].v_int64, i);
    const TVMFFIAny* found = Find(body, keys[i].value);
    CHECK(found != nullptr && found->v_int64 == i);
    auto* links = reinterpret_cast<uint64_t*>(DenseItem(body, slot) + 2);
    CHECK_EQ(links[0], previous);
    previous = std::exchange(slot, links[1]);
  }
  CHECK_EQ(slot, ~uint64_t{0});
  CHECK_EQ(body->last, previous);
  CHECK(Find(body, Int(-12345)) == nullptr);
  return 0;
}
