// SPDX-License-Identifier: Apache-2.0
// Facts about the code of a compiled graph: the texts of its calls, and where it was loaded from.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "call/convert.h"
#include "call/signature.h"

namespace graphffi {

/// Text of generated C++ code, where NUL is written as the two bytes C0 80, which UTF-8 lacks.
std::string TextOfCode(const char* code);

/// How many values a call in generated code has, which is a GraphffiCallV2.
template <typename Call>
Counts CountsOf(const Call& call) {
  return {call.num_inputs, call.num_outputs, call.num_ints, call.num_floats, call.num_strs};
}

/// The attributes of such a call: ints, of which some may be open, floats and texts.
template <typename Call>
KnownAttributes AttributesOf(const Call& call) {
  KnownAttributes attributes;
  attributes.values.assign(call.ints, call.ints + call.num_ints);
  attributes.open.assign(call.open_ints, call.open_ints + call.num_open_ints);
  for (int32_t i = 0; i < call.num_floats; ++i) attributes.values.emplace_back(call.floats[i]);
  for (int32_t i = 0; i < call.num_strs; ++i) {
    attributes.values.push_back(MakeString(TextOfCode(call.strs[i])));
  }
  return attributes;
}

/// The `Site` that the first run of such a call makes, kept for the life of the process.
template <typename Site, typename Call, typename Make>
const Site& SiteOf(Call* call, Make&& make) {
  void* kept = __atomic_load_n(&call->site, __ATOMIC_ACQUIRE);
  if (kept != nullptr) return *static_cast<const Site*>(kept);
  std::unique_ptr<const Site> made = make();
  if (__atomic_compare_exchange_n(&call->site, &kept, const_cast<Site*>(made.get()), false,
                                  __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
    return *made.release();
  }
  return *static_cast<const Site*>(kept);  // another thread was faster
}

/// The folder of the library that holds `address`; empty if it is not known.
std::string FolderOf(const void* address);

}  // namespace graphffi
