// SPDX-License-Identifier: Apache-2.0
#include "observe/record_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "call/error.h"

namespace graphffi {
namespace {

constexpr char kText[] = ".jsonl", kBytes[] = ".bin";

[[noreturn]] void Fail(const std::string& path) {
  const std::string reason = std::strerror(errno);
  throw Error("RuntimeError",
              "graphffi: record: cannot write '" + path + "': " + reason + "; give another folder");
}

int OpenNew(const std::string& path) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (file < 0) Fail(path);
  return file;
}

void MakeFolder(const std::string& path) {
  for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    if (mkdir(part.c_str(), 0755) != 0 && errno != EEXIST && access(part.c_str(), F_OK) != 0) {
      Fail(part);
    }
    if (end == std::string::npos) return;
  }
}

}  // namespace

RecordFile::RecordFile(std::string stem, const std::string& header) : stem_(std::move(stem)) {
  text_ = OpenNew(stem_ + kText);
  try {
    bytes_ = OpenNew(stem_ + kBytes);
    PutLine(header);
  } catch (...) {
    close(text_);
    if (bytes_ >= 0) close(bytes_);
    throw;
  }
}

RecordFile::~RecordFile() {
  close(text_);
  close(bytes_);
}

void RecordFile::Write(int file, const void* data, size_t count, const char* ending) const {
  const auto* rest = static_cast<const char*>(data);
  while (count > 0) {
    const ssize_t written = write(file, rest, count);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) Fail(stem_ + ending);
    rest += written;
    count -= static_cast<size_t>(written);
  }
}

int64_t RecordFile::PutBytes(const void* data, size_t count) {
  const int64_t begin = bytes_size_;
  Write(bytes_, data, count, kBytes);
  bytes_size_ += static_cast<int64_t>(count);
  return begin;
}

void RecordFile::PutLine(const std::string& line) {
  Write(text_, line.data(), line.size(), kText);
  text_size_ += static_cast<int64_t>(line.size());
}

void RecordFile::Remove() const {
  unlink((stem_ + kText).c_str());
  unlink((stem_ + kBytes).c_str());
}

RecordFiles::RecordFiles(std::string folder, std::string name, std::string header, int64_t limit)
    : folder_(std::move(folder)),
      name_(std::move(name)),
      header_(std::move(header)),
      limit_(limit) {
  MakeFolder(folder_);
  Open();
}

void RecordFiles::Open() {
  const std::string stem = folder_ + "/" + name_ + "." + std::to_string(num_opened_++);
  files_.push_back(std::make_shared<RecordFile>(stem, header_));
}

std::shared_ptr<RecordFile> RecordFiles::ForCall(int64_t num_bytes) {
  const int64_t part = MostOfCall(limit_);
  if (files_.back()->size() + num_bytes > part) Open();
  int64_t size = num_bytes;
  for (const auto& file : files_) size += file->size();
  for (auto file = files_.begin(); file + 1 != files_.end() && size > limit_ - part;) {
    if ((*file)->num_calls != 0) {
      ++file;
      continue;
    }
    size -= (*file)->size();
    (*file)->Remove();
    file = files_.erase(file);
  }
  return files_.back();
}

}  // namespace graphffi
