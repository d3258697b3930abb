// SPDX-License-Identifier: Apache-2.0
#include "ort/status.h"

#include <tvm/ffi/error.h>

#include <string_view>

namespace graphffi_onnxruntime {

using graphffi::Error;

namespace {

ort::ErrorCode CodeOf(std::string_view kind) {
  if (kind == "NotImplementedError") return ort::kNotImplemented;
  const bool is_argument = kind == "TypeError" || kind == "ValueError" || kind == "IndexError";
  return is_argument ? ort::kInvalidArgument : ort::kRuntimeException;
}

ort::Status* StatusOf(const ort::Api* api, const Error& error, const std::string& subject) {
  const std::string text = graphffi::TextOf(error, subject);
  return ort::CreateStatus::Call(api, CodeOf(error.kind()), text.c_str());
}

}  // namespace

void FailWith(const ort::Api* api, ort::Status* status) {
  const std::string text = ort::GetErrorMessage::Call(api, status);
  ort::ReleaseStatus::Call(api, status);
  throw Error("RuntimeError", "ONNX Runtime: " + text);
}

ort::Status* StatusOfCaught(const ort::Api* api, const std::string& subject) noexcept {
  try {
    throw;
  } catch (const Error& error) {
    return StatusOf(api, error, subject);
  } catch (const tvm::ffi::Error& error) {
    return StatusOf(api, Error(error.kind(), error.message()), subject);
  } catch (const std::exception& error) {
    const std::string what = std::string("graphffi: ") + error.what();
    return StatusOf(api, Error("InternalError", what), subject);
  } catch (...) {
    return StatusOf(api, Error("InternalError", "graphffi: an exception of unknown type"), subject);
  }
}

}  // namespace graphffi_onnxruntime
