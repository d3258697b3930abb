// SPDX-License-Identifier: Apache-2.0
// Ops as ONNX Runtime calls them, made of the lines of a list of ops.
#pragma once

#include <dlpack/dlpack.h>

#include <string>
#include <string_view>
#include <vector>

#include "ort/ort_api.h"
#include "ort/status.h"

namespace graphffi_onnxruntime {

/// The execution provider for a type of devices; NULL: the CPU's.
/// \throws Error(NotImplementedError) where there is none
const char* ProviderOf(DLDeviceType type);

/// An op of a list. Lives as long as the process, as sessions may.
struct Op : ort::CustomOp {
  struct Operand {
    ort::Characteristic characteristic;
    bool is_updated;
  };

  /// Of a line `mylib::add 0123456789abcdef cpu tensor optional list! -> 1`.
  /// \throws Error(ValueError)
  Op(std::string_view line, std::string folder, const ort::Api* api);

  std::string domain, name;
  std::string digest;    ///< "-": any definition
  const char* provider;  ///< of the device; NULL for the CPU's
  std::vector<Operand> operands;
  std::vector<ort::Characteristic> outputs;  ///< results, then what is updated
  std::string folder;                        ///< of the list, where kernel libraries are looked for
  const ort::Api* api;

  std::string subject() const { return domain + "::" + name; }
  static const Op& From(const ort::CustomOp* op) { return *static_cast<const Op*>(op); }
};

}  // namespace graphffi_onnxruntime
