// SPDX-License-Identifier: Apache-2.0
// GPUs of CUDA, by its driver.
#include <tvm/ffi/error.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>

#include "call/error.h"
#include "device.h"
#include "env/allocation.h"
#include "graph.h"
#include "modules/cuda_driver.h"

namespace graphffi_standalone {
namespace {

using graphffi::modules::CudaContext;
using graphffi::modules::CudaContextState;
using graphffi::modules::CudaDriver;

constexpr int kCapabilityMajor = 75;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
constexpr int kCapabilityMinor = 76;
constexpr int kUnified = 4;  // CU_MEMORYTYPE_UNIFIED: the pointer says what memory it is
constexpr int64_t kMaxPitch = INT32_MAX;

/// CUDA_MEMCPY2D.
struct Plane {
  size_t x = 0, y = 0;
  int kind = kUnified;
  const void* host = nullptr;
  const void* data;
  void* array = nullptr;
  size_t pitch;
};
struct PlaneCopy {
  Plane from, to;
  size_t width, height;
};

/// The functions for memory.
struct MemoryFunctions {
  MemoryFunctions() {
    const CudaDriver& driver = CudaDriver::Get();
    driver.Find("cuDeviceGet", &device_get);
    driver.Find("cuDeviceGetAttribute", &device_attribute);
    driver.Find("cuMemAllocAsync", &allocate);
    driver.Find("cuMemFreeAsync", &free);
    driver.Find("cuMemcpyAsync", &copy);
    driver.Find("cuMemcpy2DAsync_v2", &copy_plane);
    driver.Find("cuMemsetD8Async", &set);
    driver.Find("cuMemsetD2D8Async", &set_plane);
    driver.Find("cuStreamSynchronize", &wait);
  }

  int (*device_get)(int* device, int ordinal);
  int (*device_attribute)(int* value, int attribute, int device);
  int (*allocate)(void** data, size_t bytes, void* stream);
  int (*free)(void* data, void* stream);
  int (*copy)(void* to, const void* from, size_t bytes, void* stream);
  int (*copy_plane)(const PlaneCopy* copy, void* stream);
  int (*set)(void* to, unsigned char value, size_t bytes, void* stream);
  int (*set_plane)(void* to, size_t pitch, unsigned char value, size_t width, size_t height,
                   void* stream);
  int (*wait)(void* stream);
};

const MemoryFunctions& Functions() {
  static const auto* functions = new MemoryFunctions();
  return *functions;
}

/// Runs `body`, whose errors the driver's class throws.
template <typename Body>
auto Driven(Body&& body) {
  try {
    return body();
  } catch (const tvm::ffi::Error& error) {
    throw graphffi::Error(error.kind(), error.message());
  }
}

void Check(int status, const char* action) { CudaDriver::Get().Check(status, action); }

void* StreamOf(int32_t id) { return TVMFFIEnvGetStream(kDLCUDA, id); }

std::string NameOf(int capability) {
  return std::to_string(capability / 10) + "." + std::to_string(capability % 10);
}

/// Compiled kernels run on GPUs of the same major number, and the same or a greater minor one. From
/// 9.0 on, they are compiled for that GPU's own instructions (sm_90a), and run on it alone.
void CheckCapability(int32_t id) {
  if (kComputeCapability == 0) return;
  int device = 0, major = 0, minor = 0;
  Check(Functions().device_get(&device, id), "find the device");
  Check(Functions().device_attribute(&major, kCapabilityMajor, device), "ask for its capability");
  Check(Functions().device_attribute(&minor, kCapabilityMinor, device), "ask for its capability");
  const int capability = 10 * major + minor;
  const bool runs_on_later = kComputeCapability < 90 && major == kComputeCapability / 10;
  if (capability == kComputeCapability) return;
  if (runs_on_later && capability > kComputeCapability) return;
  throw graphffi::Error("RuntimeError", "graphffi: expected a GPU of compute capability " +
                                            NameOf(kComputeCapability) +
                                            ", which the library was made for, got one of " +
                                            NameOf(capability) +
                                            "; make the library on such a GPU");
}

CudaContext ContextOf(int32_t id) {
  static auto* contexts = new PerDevice<CudaContextState>();
  return contexts->Get({kDLCUDA, id}, [](DLDevice device) {
    CheckCapability(device.device_id);
    return CudaDriver::Get().PrimaryContext(device.device_id);
  });
}

void Enter(int32_t id) {
  Driven([&] { CudaDriver::Get().PushContext(ContextOf(id)); });
}

void Leave() { CudaDriver::Get().PopContext(); }

bool IsPlane(int64_t pitch, size_t bytes) {
  return pitch >= static_cast<int64_t>(bytes) && pitch <= kMaxPitch;
}

void Copy(int32_t id, const Pieces& pieces) {
  Driven([&] {
    const MemoryFunctions& functions = Functions();
    void* stream = StreamOf(id);
    const char* action = "copy memory";
    if (pieces.count > 1 && IsPlane(pieces.read, pieces.bytes) &&
        IsPlane(pieces.written, pieces.bytes)) {
      PlaneCopy copy{};
      copy.from.data = pieces.from;
      copy.from.pitch = static_cast<size_t>(pieces.read);
      copy.to.data = pieces.to;
      copy.to.pitch = static_cast<size_t>(pieces.written);
      copy.width = pieces.bytes;
      copy.height = static_cast<size_t>(pieces.count);
      return Check(functions.copy_plane(&copy, stream), action);
    }
    for (int64_t i = 0; i < pieces.count && pieces.bytes != 0; ++i) {
      Check(functions.copy(pieces.to + i * pieces.written, pieces.from + i * pieces.read,
                           pieces.bytes, stream),
            action);
    }
  });
}

void Clear(int32_t id, const Pieces& pieces) {
  Driven([&] {
    const MemoryFunctions& functions = Functions();
    void* stream = StreamOf(id);
    const char* action = "clear memory";
    if (pieces.count > 1 && IsPlane(pieces.written, pieces.bytes)) {
      return Check(functions.set_plane(pieces.to, static_cast<size_t>(pieces.written), 0,
                                       pieces.bytes, static_cast<size_t>(pieces.count), stream),
                   action);
    }
    for (int64_t i = 0; i < pieces.count && pieces.bytes != 0; ++i) {
      Check(functions.set(pieces.to + i * pieces.written, 0, pieces.bytes, stream), action);
    }
  });
}

void Wait(int32_t id) {
  Driven([&] { Check(Functions().wait(StreamOf(id)), "finish the work of the stream"); });
}

void* Upload(int32_t id, const void* from, size_t bytes) {
  return Driven([&] {
    const MemoryFunctions& functions = Functions();
    void* stream = StreamOf(id);
    void* data = nullptr;
    Check(functions.allocate(&data, std::max<size_t>(bytes, 1), stream), "allocate memory");
    int status = bytes == 0 ? 0 : functions.copy(data, from, bytes, stream);
    if (status == 0) status = functions.wait(stream);
    if (status != 0) functions.free(data, stream);
    Check(status, "copy weights to the device");
    return data;
  });
}

/// A tensor's memory, which the stream that it was allocated for frees. Then come the dimensions.
struct Block {
  DLManagedTensorVersioned managed;
  void* stream;
};

void FreeTensor(DLManagedTensorVersioned* managed) {
  auto* block = static_cast<Block*>(managed->manager_ctx);
  try {
    const DeviceScope scope(managed->dl_tensor.device);
    if (managed->dl_tensor.data != nullptr) {
      Functions().free(managed->dl_tensor.data, block->stream);
    }
  } catch (const std::exception&) {  // the driver has ended before: so has its memory
  }
  std::free(block);
}

void* NewData(const DLTensor& prototype, void* stream) {
  const size_t bytes = graphffi::NumBytes(prototype);
  void* data = nullptr;
  if (bytes != 0) Check(Functions().allocate(&data, bytes, stream), "allocate memory");
  return data;
}

int Allocate(DLTensor* prototype, DLManagedTensorVersioned** out, void* error_context,
             graphffi::SetAllocationError set_error) {
  if (prototype->device.device_type == kDLCPU) {
    return graphffi::AllocateOnHeap(prototype, out, error_context, set_error);
  }
  return graphffi::RunAllocator(error_context, set_error, [&] {
    const DeviceScope scope(prototype->device);
    void* stream = StreamOf(prototype->device.device_id);
    const size_t dims = 2 * static_cast<size_t>(prototype->ndim) * sizeof(int64_t);
    std::unique_ptr<Block, void (*)(void*)> block(
        static_cast<Block*>(std::calloc(1, sizeof(Block) + dims)), &std::free);
    if (block == nullptr) throw std::bad_alloc();
    void* data = Driven([&] { return NewData(*prototype, stream); });
    block->managed.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
    block->managed.manager_ctx = block.get();
    block->managed.deleter = &FreeTensor;
    block->stream = stream;
    graphffi::DescribeAllocated(*prototype, data, reinterpret_cast<int64_t*>(block.get() + 1),
                                &block->managed.dl_tensor);
    *out = &block.release()->managed;
  });
}

}  // namespace

extern const DeviceKind kCuda = {kDLCUDA, "cuda", &Enter,  &Leave,   &Copy,
                                 &Clear,  &Wait,  &Upload, &Allocate};

}  // namespace graphffi_standalone
