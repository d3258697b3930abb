// SPDX-License-Identifier: Apache-2.0
#include "bindings/dtype_device.h"

#include <cstdint>
#include <unordered_map>

#include "bindings/object.h"

namespace graphffi::bindings {

namespace {

/// graphffi's own class; kept for the rest of the process.
py::handle DTypeClass() {
  static const py::handle type = ImportImmortal("graphffi._values.dtype", "dtype");
  return type;
}

py::handle DeviceClass() {
  static const py::handle type = ImportImmortal("graphffi._values.device", "Device");
  return type;
}

constexpr size_t kMostCached = 1024;  // devices have any number
using Cache = std::unordered_map<uint64_t, py::object>;

template <typename Make>
PyObject* Cached(uint64_t key, Cache* cache, Make&& make) {
  const auto found = cache->find(key);
  if (found != cache->end()) return Py_NewRef(found->second.ptr());
  py::object value = make();
  if (cache->size() >= kMostCached) cache->clear();
  (*cache)[key] = value;
  return value.release().ptr();
}

}  // namespace

DLDataType ToDType(PyObject* value) {
  const py::handle dtype(value);
  return {dtype.attr("code").cast<uint8_t>(), dtype.attr("bits").cast<uint8_t>(),
          dtype.attr("lanes").cast<uint16_t>()};
}

DLDataType ToForeignDType(PyObject* value) {
  const py::object dtype = DTypeClass()(py::handle(value));
  return ToDType(dtype.ptr());
}

DLDevice ToDevice(PyObject* value) {
  const py::handle device(value);
  return {static_cast<DLDeviceType>(device.attr("dlpack_type").cast<int32_t>()),
          device.attr("index").cast<int32_t>()};
}

DLDevice ToForeignDevice(PyObject* value) {
  const py::object device = DeviceClass()(py::handle(value));
  return ToDevice(device.ptr());
}

PyObject* FromDType(DLDataType dtype) {
  static auto* cache = new Cache;
  const uint64_t key = dtype.code | (dtype.bits << 8) | (static_cast<uint64_t>(dtype.lanes) << 16);
  return Cached(key, cache, [&] {
    return DTypeClass().attr("from_dlpack_type")(dtype.code, dtype.bits, dtype.lanes);
  });
}

PyObject* FromDevice(DLDevice device) {
  static auto* cache = new Cache;
  const uint64_t key =
      (static_cast<uint64_t>(device.device_type) << 32) | static_cast<uint32_t>(device.device_id);
  return Cached(key, cache, [&] {
    return DeviceClass()(
        py::make_tuple(static_cast<int32_t>(device.device_type), device.device_id));
  });
}

}  // namespace graphffi::bindings
