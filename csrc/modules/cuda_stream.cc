// SPDX-License-Identifier: Apache-2.0
#include "modules/cuda_stream.h"

#include "modules/cuda_driver.h"

namespace graphffi::modules {

namespace {

using CudaEvent = struct CudaEventState*;

struct StreamFunctions {
  StreamFunctions() {
    const CudaDriver& driver = CudaDriver::Get();
    driver.Find("cuEventCreate", &create);
    driver.Find("cuEventRecord", &record);
    driver.Find("cuEventDestroy_v2", &destroy);
    driver.Find("cuStreamWaitEvent", &wait);
    driver.Find("cuStreamSynchronize", &synchronize);
  }

  int (*create)(CudaEvent* event, unsigned int flags);
  int (*record)(CudaEvent event, void* stream);
  int (*destroy)(CudaEvent event);
  int (*wait)(void* stream, CudaEvent event, unsigned int flags);
  int (*synchronize)(void* stream);
};

const StreamFunctions& Functions() {
  static const auto* functions = new StreamFunctions();
  return *functions;
}

class Event {
 public:
  Event() {
    constexpr unsigned int kDisableTiming = 2;
    CudaDriver::Get().Check(Functions().create(&event_, kDisableTiming), "make an event");
  }
  ~Event() { Functions().destroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  CudaEvent get() const { return event_; }

 private:
  CudaEvent event_ = nullptr;
};

}  // namespace

void OrderCudaStreams(int device_id, void* earlier, void* later) {
  if (!CudaDriver::IsOpen()) return;
  const CudaDriver& driver = CudaDriver::Get();
  const CudaContextScope scope(driver, driver.PrimaryContext(device_id));
  const Event event;
  driver.Check(Functions().record(event.get(), earlier), "record an event");
  driver.Check(Functions().wait(later, event.get(), 0), "have a stream wait");
}

void AwaitCudaStream(int device_id, void* stream) {
  if (!CudaDriver::IsOpen()) return;
  const CudaDriver& driver = CudaDriver::Get();
  const CudaContextScope scope(driver, driver.PrimaryContext(device_id));
  driver.Check(Functions().synchronize(stream), "wait for a stream");
}

}  // namespace graphffi::modules
