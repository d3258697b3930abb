// SPDX-License-Identifier: Apache-2.0
// A backend of two devices whose memory is the host's: PrivateUse1's, or CUDA's, of which torch has
// none then. Streams are numbers: stream s of device d has the native handle 0x1000 * (d + 1) + s,
// and the default stream the handle NULL.
#include <ATen/EmptyTensor.h>
#include <c10/core/Allocator.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <cstdlib>

#ifndef FAKE_TYPE
#define FAKE_TYPE PrivateUse1
#endif

namespace {

constexpr c10::DeviceType kType = c10::DeviceType::FAKE_TYPE;
constexpr c10::DeviceIndex kNumDevices = 2;
thread_local c10::DeviceIndex current_device = 0;
thread_local c10::StreamId current_streams[kNumDevices] = {0, 0};
c10::StreamId allocated_for = 0;

struct FakeGuard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kType; }
  c10::Device exchangeDevice(c10::Device device) const override {
    c10::Device old = getDevice();
    current_device = device.index();
    return old;
  }
  c10::Device getDevice() const override { return {kType, current_device}; }
  void setDevice(c10::Device device) const override { current_device = device.index(); }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    current_device = device.index();
  }
  c10::Stream getStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::UNSAFE, device, current_streams[device.index()]);
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::DEFAULT, device);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    c10::Stream old = getStream(stream.device());
    current_streams[stream.device_index()] = stream.id();
    return old;
  }
  void* getStreamNativeHandle(const c10::Stream stream) const override {
    if (stream.id() == 0) return nullptr;
    return reinterpret_cast<void*>(0x1000 * (stream.device_index() + 1) + stream.id());
  }
  c10::DeviceIndex deviceCount() const noexcept override { return kNumDevices; }
};
C10_REGISTER_GUARD_IMPL(FAKE_TYPE, FakeGuard);

struct FakeAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t size) override {
    void* memory = std::calloc(size + 1, 1);
    return {memory, memory, &std::free, c10::Device(kType, current_device)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &std::free; }
  void copy_data(void* target, const void* source, std::size_t size) const override {
    default_copy_data(target, source, size);
  }
};

at::Tensor Empty(c10::SymIntArrayRef size, std::optional<at::ScalarType> dtype,
                 std::optional<at::Layout>, std::optional<at::Device> device, std::optional<bool>,
                 std::optional<at::MemoryFormat> format) {
  static FakeAllocator allocator;
  const c10::DeviceGuard guard(device.value_or(c10::Device(kType, current_device)));
  allocated_for = current_streams[current_device];
  return at::detail::empty_generic(C10_AS_INTARRAYREF_SLOW(size), &allocator,
                                   c10::DispatchKeySet(c10::DispatchKey::FAKE_TYPE),
                                   dtype.value_or(at::kFloat), format);
}

TORCH_LIBRARY_IMPL(aten, FAKE_TYPE, library) { library.impl("empty.memory_format", &Empty); }

}  // namespace

extern "C" {

void fake_set_stream(int device, int stream) { current_streams[device] = stream; }
int fake_current_stream(int device) { return static_cast<int>(current_streams[device]); }
int fake_current_device() { return current_device; }
/// The stream of the last allocation.
int fake_allocated_for() { return static_cast<int>(allocated_for); }

// AOTInductor's functions of CUDA's libtorch.
int32_t aoti_torch_get_current_cuda_stream(int32_t device, void** stream) {
  *stream = FakeGuard().getStreamNativeHandle(
      c10::Stream(c10::Stream::UNSAFE, {kType, static_cast<c10::DeviceIndex>(device)},
                  current_streams[device]));
  return 0;
}
int32_t aoti_torch_create_cuda_stream_guard(void* stream, int32_t device, void** guard) {
  const c10::Device on(kType, static_cast<c10::DeviceIndex>(device));
  *guard = new c10::StreamGuard(
      c10::Stream(c10::Stream::UNSAFE, on, reinterpret_cast<intptr_t>(stream) & 0xfff));
  return 0;
}
int32_t aoti_torch_delete_cuda_stream_guard(void* guard) {
  delete static_cast<c10::StreamGuard*>(guard);
  return 0;
}

}  // extern "C"
