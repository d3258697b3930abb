// SPDX-License-Identifier: Apache-2.0
// Where records are written: pairs of files in a folder, of which the oldest are removed.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>

namespace graphffi {

/// One pair: lines of text, and the bytes of tensors. What was written is in the kernel's hands:
/// it survives the end of the process.
class RecordFile {
 public:
  /// `stem` is the path without ending. Begins with the line `header`. \throws Error(RuntimeError)
  RecordFile(std::string stem, const std::string& header);
  ~RecordFile();
  RecordFile(const RecordFile&) = delete;
  RecordFile& operator=(const RecordFile&) = delete;

  /// Gives where the bytes begin. \throws Error(RuntimeError)
  int64_t PutBytes(const void* data, size_t count);
  /// `line` ends with a newline. \throws Error(RuntimeError)
  void PutLine(const std::string& line);
  void Remove() const;

  int64_t size() const { return text_size_ + bytes_size_; }
  int num_calls = 0;  ///< under way: what a crash is to leave behind

 private:
  void Write(int file, const void* data, size_t count, const char* ending) const;

  const std::string stem_;
  int text_ = -1, bytes_ = -1;
  int64_t text_size_ = 0, bytes_size_ = 0;
};

/// The files of one process. Not thread-safe.
class RecordFiles {
 public:
  /// Keeps to some `limit` bytes. Makes the folder. \throws Error(RuntimeError)
  RecordFiles(std::string folder, std::string name, std::string header, int64_t limit);

  /// The file for a call with so many bytes of contents. \throws Error(RuntimeError)
  std::shared_ptr<RecordFile> ForCall(int64_t num_bytes);
  /// The bytes of contents that one call may have where files have `limit` bytes.
  static int64_t MostOfCall(int64_t limit) { return limit / kParts; }

 private:
  static constexpr int64_t kParts = 4;
  void Open();

  const std::string folder_, name_, header_;
  const int64_t limit_;
  int64_t num_opened_ = 0;
  std::deque<std::shared_ptr<RecordFile>> files_;  // the last is written to
};

}  // namespace graphffi
