// SPDX-License-Identifier: Apache-2.0
// Values of calls as JSON: what docs/recording.md describes.
#pragma once

#include <tvm/ffi/c_api.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace graphffi {

/// Appends a string. Bytes that are not ASCII go as {"utf8": "hexadecimal"}.
void AppendText(std::string_view text, std::string* json);

/// Appends `"key": `, after a comma where one is due.
void AppendKey(const char* key, std::string* json);

/// A tensor among the values of a call.
struct RecordedTensor {
  std::string place;  ///< of the argument, as "2" or, in arrays, "2.0"
  const DLTensor* tensor;
};

/// Writes values.
class RecordText {
 public:
  /// Appends what a tensor holds to its object, as members, each after a comma.
  using DescribeContents = std::function<void(const DLTensor& tensor, std::string* json)>;

  /// `opt_tensors`, which is borrowed, gets the tensors that are met.
  RecordText(DescribeContents describe_contents, std::vector<RecordedTensor>* opt_tensors)
      : describe_contents_(std::move(describe_contents)), opt_tensors_(opt_tensors) {}

  /// Takes no lock but the runtime's own: calls wait for the recorder with the GIL and without.
  /// \throws Error where the runtime can't name a data type
  void Append(const TVMFFIAny& value, const std::string& place, std::string* json);
  void AppendTensor(const DLTensor& tensor, std::string* json);

 private:
  void AppendObject(const TVMFFIAny& value, const std::string& place, std::string* json);

  DescribeContents describe_contents_;
  std::vector<RecordedTensor>* opt_tensors_;
};

/// Smallest and largest element, and how many are no numbers.
struct ElementRange {
  double least = 0, most = 0;
  int64_t num_nan = 0, num_infinite = 0;
  bool is_known = false;  ///< of this data type, and there is an element
};

/// The smallest and largest of `count` elements at `data`.
ElementRange RangeOf(DLDataType dtype, const char* data, int64_t count);
void AppendFloat(double value, std::string* json);

bool IsOnHost(const DLTensor& tensor);
/// Copies the elements of a tensor that is not compact, row by row; false where they are parts of
/// bytes, or more than memory can hold.
bool Gather(const DLTensor& tensor, std::string* bytes);

}  // namespace graphffi
