// SPDX-License-Identifier: Apache-2.0
#include "observe/recorder.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "call/call_frame.h"
#include "call/error.h"
#include "call/value.h"
#include "observe/record_text.h"

namespace graphffi {
namespace {

constexpr char kExported[] = "__tvm_ffi_";

int64_t Now() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

int64_t WallClock() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

void AppendInt(const char* key, int64_t value, std::string* json) {
  AppendKey(key, json);
  *json += std::to_string(value);
}

std::string Header(int32_t level, int64_t unix_time) {
  std::string line = "{";
  AppendInt("graphffi_record", 1, &line);
  AppendKey("byte_order", &line);
  AppendText(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? "little" : "big", &line);
  AppendInt("level", level, &line);
  AppendInt("process", getpid(), &line);
  AppendInt("unix_time", unix_time, &line);
  return line + "}\n";
}

/// The kernel's reference and the file that holds its code, as far as the loader tells.
void AppendKernel(const CallFacts& facts, std::string* json) {
  std::string reference = facts.kernel;
  Dl_info found{};
  const bool is_found = dladdr(reinterpret_cast<void*>(facts.safe_call), &found) != 0;
  const std::string file = is_found && found.dli_fname != nullptr ? found.dli_fname : "";
  const std::string_view symbol = is_found && found.dli_sname != nullptr ? found.dli_sname : "";
  if (symbol.substr(0, sizeof(kExported) - 1) == kExported &&
      found.dli_saddr == reinterpret_cast<void*>(facts.safe_call)) {
    reference = file + "::" + std::string(symbol.substr(sizeof(kExported) - 1));
  }
  AppendKey("kernel", json);
  AppendText(reference, json);
  if (file.empty() || reference.substr(0, 1) == "/") return;
  AppendKey("library", json);
  AppendText(file, json);
}

/// Whether a reference is that of a function of the runtime, of graphffi or of a plugin, and so of
/// no kernel: Python's kernels have longer names, such as graphffi.kernel.mylib.scale.
bool IsOwn(std::string_view reference) {
  if (reference.find("::") != std::string_view::npos) return false;  // a library's
  const size_t end = std::min(reference.find('.'), reference.size());
  const std::string_view package = reference.substr(0, end);
  if (package == "ffi") return true;
  return (package == "graphffi" || package == "graphffi_jax" || package == "graphffi_torch") &&
         reference.find('.', end + 1) == std::string_view::npos;
}

std::vector<const DLTensor*> TensorsOf(const Bank& bank) {
  std::vector<const DLTensor*> tensors;
  for (int32_t i = 0; i < bank.num_values(); ++i) tensors.push_back(TensorOf(bank.values[i]));
  return tensors;
}

/// The text of this thread's error, which stays.
std::string PeekRaised() {
  TVMFFIObjectHandle raised = nullptr;
  TVMFFIErrorMoveFromRaised(&raised);
  if (raised == nullptr) return "";
  const TVMFFIErrorCell& cell = *TVMFFIErrorGetCellPtr(raised);
  std::string text(TextOf(cell.kind));
  text.append(": ").append(TextOf(cell.message));
  TVMFFIErrorSetRaised(raised);
  TVMFFIObjectDecRef(raised);
  return text;
}

bool Has(const std::vector<const DLTensor*>& tensors, const DLTensor* tensor) {
  return std::find(tensors.begin(), tensors.end(), tensor) != tensors.end();
}

}  // namespace

/// A call under way.
struct Recorder::Call {
  std::shared_ptr<RecordFile> file;
  pid_t process;  // a child that forked in the kernel writes nothing of it
  uint64_t number;
  int64_t begin;
  std::vector<RecordedTensor> written;
};

/// Writes contents as the level says.
class Recorder::Contents {
 public:
  /// Borrowed. `fresh` tensors hold nothing yet.
  Contents(RecordFile* file, int32_t level, int64_t most, std::vector<const DLTensor*> fresh)
      : file_(*file), level_(level), most_(most), left_(most), fresh_(std::move(fresh)) {}

  void operator()(const DLTensor& tensor, std::string* json) {
    if (Has(fresh_, &tensor)) {
      AppendKey("fresh", json);
      *json += "true";
      return;
    }
    if (level_ < kRanges || !IsOnHost(tensor) || tensor.data == nullptr) return;
    std::string gathered;
    const char* data = DataOf(tensor);
    if (!IsCompact(tensor)) {
      // One that was broadcast may have more elements than memory has room for.
      if (BytesOf(tensor) > static_cast<size_t>(most_)) return;
      if (!Gather(tensor, &gathered)) return;
      data = gathered.data();
    }
    const size_t num_bytes = BytesOf(tensor);
    DescribeRange(tensor, data, json);
    if (level_ < kContents) return;
    left_ -= static_cast<int64_t>(num_bytes);
    if (left_ < 0) return;  // more than the limit has room for
    AppendKey("contents", json);
    const int64_t begin = file_.PutBytes(data, num_bytes);
    *json += "[" + std::to_string(begin) + ", " + std::to_string(num_bytes) + "]";
  }

 private:
  static void DescribeRange(const DLTensor& tensor, const char* data, std::string* json) {
    int64_t count = 1;
    for (int32_t i = 0; i < tensor.ndim; ++i) count *= tensor.shape[i];
    const ElementRange range = RangeOf(tensor.dtype, data, count);
    if (range.is_known) {
      AppendKey("min", json);
      AppendFloat(range.least, json);
      AppendKey("max", json);
      AppendFloat(range.most, json);
    }
    if (range.num_nan != 0) AppendInt("nan", range.num_nan, json);
    if (range.num_infinite != 0) AppendInt("inf", range.num_infinite, json);
  }

  RecordFile& file_;
  const int32_t level_;
  const int64_t most_;
  int64_t left_;
  const std::vector<const DLTensor*> fresh_;
};

Recorder& Recorder::Get() {
  static auto* recorder = new Recorder;
  return *recorder;
}

/// A child of fork has the mutex free, and writes files of its own.
Recorder::Recorder() {
  pthread_atfork([] { Get().mutex_.lock(); }, [] { Get().mutex_.unlock(); },
                 [] {
                   Recorder& recorder = Get();
                   recorder.mutex_.unlock();
                   if (recorder.opt_files_ == nullptr) return;
                   recorder.opt_files_.reset();  // whose files stay the parent's
                   recorder.num_calls_ = 0;
                 });
}

void Recorder::OpenFiles() {
  const std::string name = std::to_string(getpid()) + "-" + std::to_string(WallClock());
  opt_files_ = std::make_unique<RecordFiles>(folder_, name, Header(level_, unix_time_), limit_);
}

void Recorder::Start(Watch* watch, const std::string& folder, int64_t level, int64_t limit) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (level < kNames || level > kContents) {
    throw Error("ValueError",
                "graphffi: record: level: expected 1, 2 or 3, got " + std::to_string(level));
  }
  if (watch->has(Watch::kRecord)) {
    throw Error("RuntimeError", "graphffi: record: expected no recording, got one in '" + folder_ +
                                    "'; end it first");
  }
  watch_ = watch;
  folder_ = folder;
  level_ = level;
  limit_ = limit;
  begin_ = Now();
  unix_time_ = WallClock();
  num_calls_ = 0;
  OpenFiles();
  watch->kinds |= Watch::kRecord;
}

void Recorder::GiveUp(const char* reason) {
  if (!watch_->has(Watch::kRecord)) return;  // said already
  std::fprintf(stderr, "%s; calls are no longer recorded\n", reason);
  watch_->kinds &= ~Watch::kRecord;
  opt_files_.reset();
}

Recorder::Call* Recorder::Begin(const CallFacts& facts) {
  if (IsOwn(facts.kernel)) return nullptr;
  if (opt_files_ == nullptr) OpenFiles();  // after fork
  const int64_t most = RecordFiles::MostOfCall(limit_);
  int64_t num_bytes = 0;
  if (level_ == kContents) {
    for (int32_t i = 0; i < facts.num_args; ++i) {
      const DLTensor* tensor = TensorOf(facts.args[i]);
      if (tensor == nullptr || !IsOnHost(*tensor)) continue;
      const size_t size = std::min(BytesOf(*tensor), static_cast<size_t>(most));
      num_bytes = std::min(most, num_bytes + 2 * static_cast<int64_t>(size));
    }
  }
  std::shared_ptr<RecordFile> file = opt_files_->ForCall(num_bytes);
  const std::vector<const DLTensor*> outputs =
      facts.opt_outputs == nullptr ? std::vector<const DLTensor*>() : TensorsOf(*facts.opt_outputs);
  std::vector<const DLTensor*> fresh = outputs;
  fresh.resize(std::min(outputs.size(), static_cast<size_t>(facts.num_fresh)));
  Contents contents(file.get(), level_, most, std::move(fresh));
  auto call = std::make_unique<Call>();
  call->process = getpid();
  call->number = num_calls_++;
  std::string line = "{";
  AppendInt("call", static_cast<int64_t>(call->number), &line);
  AppendInt("thread", syscall(SYS_gettid), &line);
  AppendInt("at", Now() - begin_, &line);
  AppendKey("op", &line);
  AppendText(facts.subject, &line);
  AppendKernel(facts, &line);
  AppendKey("args", &line);
  line += "[";
  RecordText text(std::ref(contents), &call->written);
  for (int32_t i = 0; i < facts.num_args; ++i) {
    if (i != 0) line += ", ";
    text.Append(facts.args[i], std::to_string(i), &line);
  }
  file->PutLine(line + "]}\n");
  if (facts.opt_outputs != nullptr) {
    auto& written = call->written;
    written.erase(
        std::remove_if(written.begin(), written.end(),
                       [&](const RecordedTensor& met) { return !Has(outputs, met.tensor); }),
        written.end());
  }
  ++file->num_calls;
  call->file = std::move(file);
  call->begin = Now();
  return call.release();
}

void Recorder::End(const Call& call, int rc, const TVMFFIAny& returned, int64_t nanoseconds) {
  std::string line = "{";
  AppendInt("end", static_cast<int64_t>(call.number), &line);
  AppendInt("nanoseconds", nanoseconds, &line);
  if (rc != 0) {
    AppendKey("error", &line);
    AppendText(PeekRaised(), &line);
  } else {
    Contents contents(call.file.get(), level_, RecordFiles::MostOfCall(limit_), {});
    RecordText text(std::ref(contents), nullptr);
    AppendKey("returned", &line);
    text.Append(returned, "", &line);
    AppendKey("written", &line);
    line += "{";
    for (const RecordedTensor& written : call.written) {
      if (level_ < kRanges) break;
      AppendKey(written.place.c_str(), &line);
      text.AppendTensor(*written.tensor, &line);
    }
    line += "}";
  }
  call.file->PutLine(line + "}\n");
}

void* Recorder::BeginCall(const CallFacts& facts) {
  Recorder& recorder = Get();
  const std::lock_guard<std::mutex> lock(recorder.mutex_);
  if (!recorder.watch_->has(Watch::kRecord)) return nullptr;  // since the call looked
  try {
    return recorder.Begin(facts);
  } catch (const std::exception& error) {
    recorder.GiveUp(error.what());
  }
  return nullptr;
}

void Recorder::EndCall(void* token, int rc, const TVMFFIAny& returned) {
  const int64_t now = Now();
  Recorder& recorder = Get();
  const std::lock_guard<std::mutex> lock(recorder.mutex_);
  const std::unique_ptr<Call> call(static_cast<Call*>(token));
  if (call->process != getpid()) return;
  try {
    recorder.End(*call, rc, returned, now - call->begin);
  } catch (const std::exception& error) {
    recorder.GiveUp(error.what());
  }
  --call->file->num_calls;
}

int Recorder::StartFor(const char* folder, int32_t level, int64_t limit) {
  return RaiseErrors("InternalError", [&] { Get().Start(Watch::Get(), folder, level, limit); });
}

void Recorder::Stop() {
  Recorder& recorder = Get();
  const std::lock_guard<std::mutex> lock(recorder.mutex_);
  if (recorder.watch_ == nullptr) return;
  recorder.watch_->kinds &= ~Watch::kRecord;
  recorder.opt_files_.reset();  // calls that are under way keep theirs
}

}  // namespace graphffi
