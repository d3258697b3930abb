// SPDX-License-Identifier: Apache-2.0
// What the fuzz targets demand.
#pragma once

#include <tvm/ffi/c_api.h>

#include <cstdio>
#include <initializer_list>
#include <string>

#define Require(condition)                                                               \
  do {                                                                                   \
    if (!(condition)) {                                                                  \
      std::fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
      __builtin_trap();                                                                  \
    }                                                                                    \
  } while (false)

/// Takes the error out of this thread's slot: there is one, of one of the kinds, with a message.
inline void CheckRaised(std::initializer_list<std::string> kinds) {
  TVMFFIObjectHandle error = nullptr;
  TVMFFIErrorMoveFromRaised(&error);
  Require(error != nullptr);
  const TVMFFIErrorCell* cell = TVMFFIErrorGetCellPtr(error);
  const std::string got(cell->kind.data, cell->kind.size);
  bool expected = false;
  for (const std::string& kind : kinds) expected |= got == kind;
  if (!expected) std::fprintf(stderr, "%s: %s\n", got.c_str(), cell->message.data);
  Require(expected);
  Require(cell->message.size != 0);
  TVMFFIObjectDecRef(error);
}
