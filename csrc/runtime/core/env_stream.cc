// SPDX-License-Identifier: Apache-2.0
// The current stream of each device, per thread. Hot: no lock, and no allocation for up to 8
// devices.
#include <tvm/ffi/extra/c_env_api.h>

#include <vector>

#include "error.h"

namespace graphffi::runtime {
namespace {

constexpr int kInlineDevices = 8;

struct DeviceStream {
  int32_t device_type;
  int32_t device_id;
  TVMFFIStreamHandle stream;
};

// Trivial, so that access needs no check for first use.
struct InlineStreams {
  int size;
  DeviceStream entries[kInlineDevices];
};

thread_local InlineStreams inline_streams;
thread_local std::vector<DeviceStream> more_streams;

bool Matches(const DeviceStream& entry, int32_t device_type, int32_t device_id) {
  return entry.device_id == device_id && entry.device_type == device_type;
}

/// NULL if the thread has never set a stream of the device.
DeviceStream* Find(int32_t device_type, int32_t device_id) {
  InlineStreams& streams = inline_streams;
  for (int i = 0; i < streams.size; ++i) {
    if (Matches(streams.entries[i], device_type, device_id)) return &streams.entries[i];
  }
  if (streams.size < kInlineDevices) return nullptr;
  for (DeviceStream& entry : more_streams) {
    if (Matches(entry, device_type, device_id)) return &entry;
  }
  return nullptr;
}

DeviceStream* Add(int32_t device_type, int32_t device_id) {
  DeviceStream entry = {device_type, device_id, nullptr};
  InlineStreams& streams = inline_streams;
  if (streams.size == kInlineDevices) return &more_streams.emplace_back(entry);
  streams.entries[streams.size] = entry;
  return &streams.entries[streams.size++];
}

}  // namespace
}  // namespace graphffi::runtime

using namespace graphffi::runtime;

int TVMFFIEnvSetStream(int32_t device_type, int32_t device_id, TVMFFIStreamHandle stream,
                       TVMFFIStreamHandle* opt_out_original_stream) {
  return Guard([&] {
    DeviceStream* entry = Find(device_type, device_id);
    if (entry == nullptr) entry = Add(device_type, device_id);
    if (opt_out_original_stream != nullptr) *opt_out_original_stream = entry->stream;
    entry->stream = stream;
  });
}

TVMFFIStreamHandle TVMFFIEnvGetStream(int32_t device_type, int32_t device_id) {
  const DeviceStream* entry = Find(device_type, device_id);
  return entry == nullptr ? nullptr : entry->stream;
}
