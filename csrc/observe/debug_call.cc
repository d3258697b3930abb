// SPDX-License-Identifier: Apache-2.0
#include "observe/debug_call.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "call/describe_tensor.h"
#include "call/error.h"
#include "call/value.h"

namespace graphffi {

namespace {

constexpr size_t kZone = 4096;  // bytes of a guard zone, a multiple of any vector's size
constexpr unsigned char kZoneByte = 0xC3;
constexpr unsigned char kPoison = 0xA5;  // of what is no floating-point number
constexpr unsigned char kNaN = 0xFF;     // all bits set are NaN in every type that has one

unsigned char PoisonOf(DLDataType dtype) {
  return dtype.code == kDLInt || dtype.code == kDLUInt || dtype.code == kDLBool ? kPoison : kNaN;
}

uint64_t HashBytes(const char* bytes, size_t count, uint64_t hash) {
  constexpr uint64_t kPrime = 0x100000001B3;
  for (; count >= sizeof(uint64_t); bytes += sizeof(uint64_t), count -= sizeof(uint64_t)) {
    uint64_t word;
    std::memcpy(&word, bytes, sizeof(word));
    hash = (hash ^ word) * kPrime;
    hash ^= hash >> 29;
  }
  for (; count > 0; ++bytes, --count) {
    hash = (hash ^ static_cast<unsigned char>(*bytes)) * kPrime;
  }
  return hash;
}

uint64_t Hash(const DLTensor& tensor) {
  uint64_t hash = 0xCBF29CE484222325;
  if (IsCompact(tensor)) return HashBytes(DataOf(tensor), BytesOf(tensor), hash);
  const int bits = tensor.dtype.bits * tensor.dtype.lanes;
  if (bits % 8 != 0) return 0;  // elements of parts of bytes have no strides
  VisitElements(tensor, [&](const char* element) {
    hash = HashBytes(element, static_cast<size_t>(bits) / 8, hash);
  });
  return hash;
}

std::string Bytes(size_t count) { return Counted(static_cast<int64_t>(count), "byte"); }

}  // namespace

/// A tensor whose data is elsewhere during the call.
struct DebugChecks::Guarded {
  Guarded(DLTensor* guarded, std::string its_name, bool is_its_output)
      : tensor(guarded),
        name(std::move(its_name)),
        is_output(is_its_output),
        own_data(guarded->data),
        own_offset(guarded->byte_offset),
        size(BytesOf(*guarded)) {
    const size_t whole = (2 * kZone + size + kZone - 1) / kZone * kZone;
    block = static_cast<unsigned char*>(std::aligned_alloc(kZone, whole));
    if (block == nullptr) throw std::bad_alloc();
    std::memset(block, kZoneByte, whole);
    tensor->data = block + kZone;
    tensor->byte_offset = 0;
  }
  ~Guarded() {
    if (is_leaked) return;  // a view of it that the kernel keeps
    std::free(block);
  }

  void GiveBack() {
    tensor->data = own_data;
    tensor->byte_offset = own_offset;
    if (is_output && size != 0) std::memcpy(DataOf(*tensor), block + kZone, size);
  }
  /// Where the kernel wrote outside; nothing if it did not.
  std::string FindWrites() const {
    const unsigned char *begin = block + kZone, *end = begin + size;
    const auto is_written = [](unsigned char byte) { return byte != kZoneByte; };
    const unsigned char* first = std::find_if<const unsigned char*>(block, begin, is_written);
    const unsigned char* last = end + kZone;
    while (last != end && !is_written(last[-1])) --last;
    std::string found;
    if (first != begin) {
      found = "from " + Bytes(static_cast<size_t>(begin - first)) + " before its beginning";
    }
    if (last != end) {
      found += (found.empty() ? "" : " and ") +
               ("up to " + Bytes(static_cast<size_t>(last - end)) + " after its end");
    }
    return found;
  }

  DLTensor* const tensor;
  const std::string name;
  const bool is_output;
  void* const own_data;
  const uint64_t own_offset;
  const size_t size;
  unsigned char* block;
  bool is_leaked = false;
};

template <typename Visit>
void DebugChecks::ForEach(Plan::Op op, Visit&& visit) {
  const bool are_inputs = op == Plan::Op::kInput;
  const Bank& bank = are_inputs ? declared_.inputs : declared_.outputs;
  for (int32_t k = 0; k < bank.size; ++k) {
    const std::string name = (!are_inputs && k < declared_.num_fresh ? "result '" : "operand '") +
                             declared_.opt_names->NameOf(op, static_cast<size_t>(k));
    const Slot slot = bank.slot(k);
    const bool is_list = slot.count != Slot::kSingle;
    for (int32_t i = 0; i < slot.num_values(); ++i) {
      const TVMFFIAny& value = bank.values[slot.begin + i];
      if (value.type_index != kTVMFFITensor) continue;  // None
      visit(value, name + (is_list ? "[" + std::to_string(i) + "]" : "") + "'", k);
    }
  }
}

DebugChecks::DebugChecks(const PlacedFrame& frame, const DeclaredTensors& declared)
    : declared_(declared), loans_(frame.loans()) {
  std::vector<const DLTensor*> known;
  ForEach(Plan::Op::kInput, [&](const TVMFFIAny& value, std::string name, int32_t) {
    const DLTensor* tensor = TensorOf(value);
    known.push_back(tensor);
    if (tensor->device.device_type != kDLCPU) return;
    read_.push_back({tensor, std::move(name), Hash(*tensor)});
  });
  ForEach(Plan::Op::kOutput, [&](const TVMFFIAny& value, std::string name, int32_t k) {
    auto* tensor = const_cast<DLTensor*>(TensorOf(value));
    known.push_back(tensor);
    const bool is_fresh = k < declared.num_fresh;
    // Others may see an object that is not lent for this call.
    if (!is_fresh && !loans_.Have(value)) return;
    Guard(tensor, std::move(name), is_fresh, true);
  });
  for (int32_t i = 0; i < frame.num_args(); ++i) {
    const TVMFFIAny& argument = frame.args()[i];
    const DLTensor* tensor = TensorOf(argument);
    if (tensor == nullptr || std::count(known.begin(), known.end(), tensor) != 0) continue;
    GuardWorkspace(argument);
  }
}

DebugChecks::~DebugChecks() = default;

void DebugChecks::Guard(DLTensor* tensor, std::string name, bool is_fresh, bool is_output) {
  if (tensor->device.device_type != kDLCPU || !IsCompact(*tensor)) return;
  const char* own = DataOf(*tensor);
  guarded_.push_back(std::make_unique<Guarded>(tensor, std::move(name), is_output));
  Guarded& guarded = *guarded_.back();
  if (is_fresh) {
    std::memset(tensor->data, PoisonOf(tensor->dtype), guarded.size);
  } else if (guarded.size != 0) {
    std::memcpy(tensor->data, own, guarded.size);
  }
}

/// The only tensor of a plan that is no operand and no result.
void DebugChecks::GuardWorkspace(const TVMFFIAny& value) {
  // Which the frame may give up before Finish.
  if (IsObject(value)) workspaces_.push_back(ObjectRef::Retain(value.v_obj));
  Guard(const_cast<DLTensor*>(TensorOf(value)), "workspace", true, false);
}

void DebugChecks::Add(const std::string& problem) {
  problems_ += (problems_.empty() ? "" : "; ") + problem;
}

void DebugChecks::CheckKept(const TVMFFIAny& value, const std::string& name,
                            const TVMFFIAny& returned) {
  if (!loans_.Have(value) || LentTensor::Of(value)->IsUnique()) return;
  const auto is_it = [&](const TVMFFIAny& other) {
    return other.type_index == kTVMFFITensor && other.v_obj == value.v_obj;
  };
  if (is_it(returned)) return;
  if (returned.type_index == kTVMFFIArray) {
    const Elements elements(returned);
    if (std::any_of(elements.begin(), elements.end(), is_it)) return;
  }
  has_kept_ = true;
  Add(name +
      ": expected no view of it after the call, got one that the kernel keeps; copy the data");
}

int DebugChecks::Finish(int rc, const TVMFFIAny& returned) {
  for (const Read& read : read_) {
    if (Hash(*read.tensor) == read.hash) continue;
    Add(read.name +
        ": expected the call to leave it unchanged, got other contents; name it in mutates=, or "
        "let the kernel write into a copy");
  }
  for (const auto& guarded : guarded_) {
    guarded->GiveBack();
    const std::string writes = guarded->FindWrites();
    if (writes.empty()) continue;
    Add(guarded->name + ": expected writes within its " + Bytes(guarded->size) + ", got some " +
        writes + "; mend the kernel, or the shape rule");
  }
  if (rc == 0) {
    for (const Plan::Op op : {Plan::Op::kInput, Plan::Op::kOutput}) {
      ForEach(op, [&](const TVMFFIAny& value, const std::string& name, int32_t) {
        CheckKept(value, name, returned);
      });
    }
  }
  // Views that are kept may refer to the blocks: leaked rather than freed under them.
  for (const auto& guarded : guarded_) guarded->is_leaked = has_kept_ || rc != 0;
  if (rc != 0 || problems_.empty()) return rc;
  const std::string subject = declared_.subject;
  return SetRaised("RuntimeError", (subject.empty() ? "" : subject + ": ") + problems_);
}

}  // namespace graphffi
