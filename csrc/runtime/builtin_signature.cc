// SPDX-License-Identifier: Apache-2.0
// The metadata of built-in functions, out of short texts of their signatures.
#include <algorithm>

#include "builtin.h"

namespace graphffi::runtime {
namespace {

/// Reads `Optional[int](ffi.Array[Any],int)`: a type, or a function with its result and parameters.
class SignatureReader {
 public:
  explicit SignatureReader(std::string_view text) : rest_(text) {}

  std::string Type() {
    size_t end = std::min(rest_.find_first_of("[](),"), rest_.size());
    std::string node = Quoted("type") + ":" + Quoted(rest_.substr(0, end));
    rest_.remove_prefix(end);
    if (Take('[')) node += "," + Quoted("args") + ":[" + List(']') + "]";
    node = "{" + node + "}";
    if (!Take('(')) return node;
    std::string parts = Quoted("return") + ":[" + node + "]," + Quoted("params") + ":[";
    return "{" + Quoted("type") + ":" + Quoted("ffi.Function") + "," + Quoted("named_args") + ":{" +
           parts + List(')') + "]}}";
  }

 private:
  std::string List(char end) {
    std::string items;
    while (!rest_.empty() && !Take(end)) items += Take(',') ? "," : Type();
    return items;
  }
  bool Take(char expected) {
    if (rest_.empty() || rest_.front() != expected) return false;
    rest_.remove_prefix(1);
    return true;
  }
  /// Quoted for a text that is itself a JSON string.
  static std::string Quoted(std::string_view text) { return "\\\"" + std::string(text) + "\\\""; }

  std::string_view rest_;
};

}  // namespace

std::string MetadataOfSignature(std::string_view signature) {
  return "{\"type_schema\":\"" + SignatureReader(signature).Type() + "\"}";
}

}  // namespace graphffi::runtime
