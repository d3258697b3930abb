// SPDX-License-Identifier: Apache-2.0
// A function of the module takes the kernel's parameters, then the launch: grid x, y, z, block x,
// y, z and bytes of dynamic shared memory. It launches on the env's stream of the tensors' device.
#include "modules/cuda_module.h"

#include <elf.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/extra/module.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "modules/cuda_driver.h"
#include "modules/cuda_signature.h"

namespace graphffi::modules {

namespace ffi = tvm::ffi;

namespace {

constexpr char kKind[] = "graphffi_cuda";
constexpr int kMaxDevices = 64;
constexpr int kLaunchParameters = 7;
constexpr int kMaxParameters = 128;
constexpr int64_t kMaxLaunchNumber = 0x7fffffff;
constexpr unsigned int kSharedMemoryWithoutAsking = 48 * 1024;

/// The first bytes of a fatbin.
struct FatbinHeader {
  static constexpr uint32_t kMagic = 0xba55ed50;
  uint32_t magic;
  uint16_t version;
  uint16_t header_size;
  uint64_t content_size;
};

template <typename Header>
bool ReadHeader(const ffi::Bytes& image, Header* header) {
  if (image.size() < sizeof(*header)) return false;
  std::memcpy(header, image.data(), sizeof(*header));
  return true;
}

/// The bytes that an image says it has; 0 for PTX, which does not.
uint64_t SizeOfImage(const ffi::Bytes& image) {
  FatbinHeader fatbin;
  if (ReadHeader(image, &fatbin) && fatbin.magic == FatbinHeader::kMagic) {
    return fatbin.header_size + fatbin.content_size;
  }
  Elf64_Ehdr cubin;
  if (image.size() < SELFMAG || std::memcmp(image.data(), ELFMAG, SELFMAG) != 0) return 0;
  if (!ReadHeader(image, &cubin)) return sizeof(cubin);
  // Both tables are behind all sections.
  return std::max(cubin.e_shoff + uint64_t{cubin.e_shnum} * cubin.e_shentsize,
                  cubin.e_phoff + uint64_t{cubin.e_phnum} * cubin.e_phentsize);
}

/// The driver gets no size: it would read behind the end of an image that was cut off.
void CheckImage(const ffi::Bytes& image) {
  const uint64_t size = SizeOfImage(image);
  if (image.size() != 0 && size <= image.size()) return;
  TVM_FFI_THROW(ValueError) << "graphffi: a CUDA module: expected "
                            << (size == 0 ? "PTX, a cubin or a fatbin"
                                          : "an image of " + std::to_string(size) + " bytes")
                            << ", got " << image.size() << " bytes";
}

/// The image on one device, for good: captured graphs launch its kernels again.
struct LoadedImage {
  CudaContext context;
  CudaModule module;
};

/// One kernel; its functions on the devices are looked up when first launched there.
struct Kernel {
  CudaSignature signature;
  std::array<std::atomic<CudaFunction>, kMaxDevices> functions{};
  std::array<std::atomic<unsigned int>, kMaxDevices> shared_bytes{};
};

class CudaModuleObj : public ffi::ModuleObj {
 public:
  // PTX is text that must end with a null character, as a std::string does; a cubin may have one.
  CudaModuleObj(const ffi::Bytes& image, ffi::String signatures)
      : image_(image.data(), image.size()), signatures_(std::move(signatures)) {
    CheckImage(image);
    for (CudaSignature& signature : ParseCudaSignatures({signatures_.data(), signatures_.size()})) {
      if (signature.parameters.size() > kMaxParameters) {
        TVM_FFI_THROW(ValueError) << signature.name << ": expected at most " << kMaxParameters
                                  << " parameters, got " << signature.parameters.size();
      }
      kernels_.push_back(std::make_unique<Kernel>());
      kernels_.back()->signature = std::move(signature);
    }
  }

  const char* kind() const final { return kKind; }
  int GetPropertyMask() const final {
    return ffi::Module::kBinarySerializable | ffi::Module::kRunnable;
  }

  ffi::Optional<ffi::Function> GetFunction(const ffi::String& name) final {
    Kernel* kernel = Find(name);
    if (kernel == nullptr) return ffi::Function(nullptr);
    ffi::Module self = ffi::GetRef<ffi::Module>(this);
    return ffi::Function::FromPacked(
        [this, self, kernel](ffi::PackedArgs args, ffi::Any*) { Launch(kernel, args); });
  }

  ffi::Optional<ffi::String> GetFunctionMetadata(const ffi::String& name) final {
    Kernel* kernel = Find(name);
    if (kernel == nullptr) return std::nullopt;
    return ffi::String(kernel->signature.Metadata());
  }

  ffi::Bytes SaveToBytes() const final {
    const uint64_t size = signatures_.size();
    std::string saved(sizeof(size), '\0');
    std::memcpy(saved.data(), &size, sizeof(size));
    saved.append(signatures_.data(), signatures_.size()).append(image_);
    return ffi::Bytes(std::move(saved));
  }

  ffi::String InspectSource(const ffi::String&) const final {
    const bool is_text = image_.find('\0') == std::string::npos;
    return is_text ? ffi::String(image_) : ffi::String();
  }

 private:
  Kernel* Find(const ffi::String& name) {
    const std::string_view wanted(name.data(), name.size());
    for (const auto& kernel : kernels_) {
      if (kernel->signature.name == wanted) return kernel.get();
    }
    return nullptr;
  }

  void Launch(Kernel* kernel, ffi::PackedArgs args) {
    const CudaSignature& signature = kernel->signature;
    const int num_parameters = static_cast<int>(signature.parameters.size());
    if (args.size() != num_parameters + kLaunchParameters) {
      TVM_FFI_THROW(TypeError) << signature.name << ": arguments: expected "
                               << num_parameters + kLaunchParameters << ", got " << args.size()
                               << "; after the kernel's own come grid x, y, z, block x, y, z and "
                                  "bytes of shared memory";
    }
    CudaSlot slots[kMaxParameters];
    void* parameters[kMaxParameters];
    std::optional<int> tensors_device;
    for (int i = 0; i < num_parameters; ++i) {
      slots[i] = PackCudaArgument(signature, i, args[i], &tensors_device);
      parameters[i] = &slots[i];
    }
    unsigned int launch[kLaunchParameters];
    for (int i = 0; i < kLaunchParameters; ++i) {
      launch[i] = LaunchNumber(signature, num_parameters + i, args[num_parameters + i]);
    }
    const CudaDim3 grid{launch[0], launch[1], launch[2]};
    if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;  // such as for empty tensors
    const int device_id = tensors_device.value_or(0);
    const CudaDriver& driver = CudaDriver::Get();
    CudaFunction function = FunctionOn(driver, kernel, device_id);
    const CudaContextScope scope(driver, images_[device_id].context);
    AllowSharedMemory(driver, kernel, device_id, function, launch[6]);
    void* stream = TVMFFIEnvGetStream(kDLCUDA, device_id);
    driver.Launch(function, grid, {launch[3], launch[4], launch[5]}, launch[6], stream, parameters);
  }

  static unsigned int LaunchNumber(const CudaSignature& signature, int index, ffi::AnyView value) {
    const auto number = value.try_cast<int64_t>();
    if (number.has_value() && *number >= 0 && *number <= kMaxLaunchNumber) {
      return static_cast<unsigned int>(*number);
    }
    TVM_FFI_THROW(ValueError) << signature.name << ": argument " << index
                              << ": expected a size of the launch, got "
                              << (number.has_value() ? std::to_string(*number)
                                                     : std::string(value.GetTypeKey()));
  }

  CudaFunction FunctionOn(const CudaDriver& driver, Kernel* kernel, int device_id) {
    if (device_id < 0 || device_id >= kMaxDevices) {
      TVM_FFI_THROW(ValueError) << kernel->signature.name << ": expected a device below "
                                << kMaxDevices << ", got cuda:" << device_id;
    }
    std::atomic<CudaFunction>& slot = kernel->functions[device_id];
    if (CudaFunction known = slot.load(std::memory_order_acquire)) return known;
    std::lock_guard<std::mutex> lock(mutex_);
    LoadedImage& image = images_[device_id];
    if (image.module == nullptr) {
      image.context = driver.PrimaryContext(device_id);
      const CudaContextScope scope(driver, image.context);
      image.module = driver.LoadModule(image_.c_str());
    }
    const CudaContextScope scope(driver, image.context);
    CudaFunction function = driver.FindFunction(image.module, kernel->signature.name.c_str());
    if (function == nullptr) {
      TVM_FFI_THROW(RuntimeError) << "graphffi: a CUDA module: expected a kernel '"
                                  << kernel->signature.name << "' in the image, found none";
    }
    slot.store(function, std::memory_order_release);
    return function;
  }

  void AllowSharedMemory(const CudaDriver& driver, Kernel* kernel, int device_id,
                         CudaFunction function, unsigned int bytes) {
    if (bytes <= kSharedMemoryWithoutAsking) return;
    std::atomic<unsigned int>& allowed = kernel->shared_bytes[device_id];
    if (bytes <= allowed.load(std::memory_order_acquire)) return;
    std::lock_guard<std::mutex> lock(mutex_);
    if (bytes <= allowed.load(std::memory_order_relaxed)) return;
    driver.AllowSharedMemory(function, bytes);
    allowed.store(bytes, std::memory_order_release);
  }

  std::string image_;
  ffi::String signatures_;
  std::vector<std::unique_ptr<Kernel>> kernels_;
  std::mutex mutex_;
  std::array<LoadedImage, kMaxDevices> images_{};
};

ffi::Module Make(const ffi::Bytes& image, ffi::String signatures) {
  return ffi::Module(ffi::make_object<CudaModuleObj>(image, std::move(signatures)));
}

ffi::Module Load(const ffi::Bytes& saved) {
  uint64_t size = 0;
  if (saved.size() >= sizeof(size)) std::memcpy(&size, saved.data(), sizeof(size));
  if (saved.size() < sizeof(size) || size > saved.size() - sizeof(size)) {
    TVM_FFI_THROW(ValueError) << "graphffi: a CUDA module: expected a saved CUDA module, got "
                              << saved.size() << " other bytes";
  }
  const char* signatures = saved.data() + sizeof(size);
  return Make(ffi::Bytes(signatures + size, saved.size() - sizeof(size) - size),
              ffi::String(signatures, size));
}

template <typename F>
void Register(const std::string& name, F function) {
  if (ffi::Function::GetGlobal(name).has_value()) return;
  ffi::Function::SetGlobal(name, ffi::Function::FromTyped(function, name));
}

}  // namespace

void RegisterCudaModule() {
  Register("graphffi.make_cuda_module", Make);
  Register(std::string("ffi.Module.load_from_bytes.") + kKind, Load);
}

}  // namespace graphffi::modules
