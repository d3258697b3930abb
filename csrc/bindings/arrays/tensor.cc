// SPDX-License-Identifier: Apache-2.0
#include "bindings/arrays/tensor.h"

#include <pybind11/stl.h>
#include <tvm/ffi/extra/c_env_api.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "bindings/arrays/dlpack_capsule.h"
#include "bindings/define.h"
#include "bindings/dtype_device.h"
#include "bindings/framework.h"
#include "bindings/raised.h"
#include "call/call_frame.h"
#include "call/describe_tensor.h"
#include "env/allocation.h"
#include "env/env_scope.h"
#include "env/overlap.h"
#include "hooks/plugin_call.h"
#include "modules/cuda_stream.h"

namespace graphffi::bindings {

namespace {

PyTypeObject* tensor_type = nullptr;

const DLTensor& Metadata(py::handle self) {
  return *TVMFFITensorGetDLTensorPtr(HandleOf(self, tensor_type));
}

py::tuple Dims(const int64_t* dims, int32_t ndim) {
  py::tuple result(static_cast<size_t>(ndim));
  for (int32_t i = 0; i < ndim; ++i) result[static_cast<size_t>(i)] = py::int_(dims[i]);
  return result;
}

py::object Shape(py::handle self) {
  static const py::handle type = ImportImmortal("graphffi._values.shape", "Shape");
  const DLTensor& tensor = Metadata(self);
  return type(Dims(tensor.shape, tensor.ndim));
}

py::tuple Strides(py::handle self) {
  const DLTensor& tensor = Metadata(self);
  if (tensor.strides != nullptr) return Dims(tensor.strides, tensor.ndim);
  std::vector<int64_t> strides(static_cast<size_t>(tensor.ndim));
  FillCompactStrides(tensor.shape, tensor.ndim, strides.data());
  return Dims(strides.data(), tensor.ndim);
}

std::string ReprTensor(py::handle self) {
  return "<graphffi.Tensor " + DescribeTensor(Metadata(self)) + ">";
}

/// A managed tensor whose shape and strides follow it in one block.
struct OwnBlock {
  DLManagedTensorVersioned managed;
  void* owner;
  void (*opt_release)(void* owner);
  int64_t dims[];
};

void DeleteBlock(DLManagedTensorVersioned* managed) {
  auto* block = reinterpret_cast<OwnBlock*>(managed);
  if (block->opt_release != nullptr) block->opt_release(block->owner);
  std::free(block);
}

/// A block without owner. \throws std::bad_alloc
OwnBlock* MakeBlock(const DLTensor& source) {
  const auto ndim = static_cast<size_t>(source.ndim);
  auto* block =
      static_cast<OwnBlock*>(std::calloc(1, sizeof(OwnBlock) + 2 * ndim * sizeof(int64_t)));
  if (block == nullptr) throw std::bad_alloc();
  DLManagedTensorVersioned& managed = block->managed;
  managed.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
  managed.deleter = &DeleteBlock;
  managed.dl_tensor = source;
  managed.dl_tensor.shape = block->dims;
  managed.dl_tensor.strides = block->dims + ndim;
  CopyDims(source, block->dims);
  return block;
}

py::object Empty(std::vector<int64_t> shape, py::handle dtype, py::handle device) {
  DLTensor tensor{};
  tensor.device = ToForeignDevice(device.ptr());
  if (tensor.device.device_type != kDLCPU) {
    Fail(PyExc_NotImplementedError, "graphffi: empty: expected the device cpu, got " +
                                        py::str(device).cast<std::string>() +
                                        "; pass a tensor of a framework that allocates there");
  }
  tensor.ndim = static_cast<int32_t>(shape.size());
  tensor.dtype = ToForeignDType(dtype.ptr());
  tensor.shape = shape.data();
  const AllocatorScope on_heap(&AllocateOnHeap);
  TVMFFIObjectHandle made = nullptr;
  CheckRc(TVMFFIEnvTensorAlloc(&tensor, &made));
  return py::reinterpret_steal<py::object>(WrapObject(ObjectRef(made)));
}

py::object FromDLPack(py::object value) {
  if (PyObject_TypeCheck(value.ptr(), tensor_type) != 0) return value;
  TypeEntry& type = FindType(Py_TYPE(value.ptr()));
  ObjectRef tensor;
  if (type.kind == ArgumentKind::kExchange) {
    tensor = ImportExchanged(value.ptr(), type);
  } else if (type.kind == ArgumentKind::kForeignObject) {
    tensor = RetainForeign(value);
  } else if (type.kind == ArgumentKind::kDLPack) {
    tensor = ImportProduced(value.ptr());
  }
  if (!tensor || TVMFFIObjectGetTypeIndex(tensor.get()) != kTVMFFITensor) {
    Fail(PyExc_TypeError, std::string("graphffi: from_dlpack: expected a tensor, got ") +
                              Py_TYPE(value.ptr())->tp_name);
  }
  return py::reinterpret_steal<py::object>(WrapObject(std::move(tensor)));
}

/// A tensor of the same memory, as elements of another data type of the same width.
py::object Reinterpret(py::handle self, py::handle dtype) {
  DLTensor prototype = Metadata(self);
  const DLDataType wanted = ToForeignDType(dtype.ptr());
  if (wanted.bits * wanted.lanes != prototype.dtype.bits * prototype.dtype.lanes) {
    Fail(PyExc_ValueError, "graphffi: reinterpret: expected a data type of the same width, got " +
                               py::str(dtype).cast<std::string>());
  }
  prototype.dtype = wanted;
  TVMFFIObjectHandle view = nullptr;
  CheckRc(TVMFFITensorCreateUnsafeView(HandleOf(self, tensor_type), &prototype, &view));
  return py::reinterpret_steal<py::object>(WrapObject(ObjectRef(view)));
}

py::tuple DevicePair(py::handle self) {
  const DLDevice device = Metadata(self).device;
  return py::make_tuple(static_cast<int32_t>(device.device_type), device.device_id);
}

/// The stream that a consumer names, as the driver knows it. \throws PythonError (BufferError)
void* ConsumerStream(py::handle opt_stream) {
  constexpr intptr_t kLegacy = 1;  // what no stream means
  const py::object number = py::reinterpret_steal<py::object>(
      opt_stream.is_none() ? PyLong_FromSsize_t(kLegacy) : Check(PyNumber_Index(opt_stream.ptr())));
  void* stream = PyLong_AsVoidPtr(number.ptr());
  if (PyErr_Occurred() != nullptr) throw PythonError();
  if (stream == nullptr) {
    Fail(PyExc_BufferError,
         "graphffi.Tensor: __dlpack__: expected a stream: None, -1, 1, 2 or an address, got 0");
  }
  return stream == reinterpret_cast<void*>(kLegacy) ? nullptr : stream;
}

/// Has the consumer's stream wait for the kernels that write the tensor, which may still run.
void OrderForConsumer(const DLDevice& device, py::handle opt_stream) {
  if (device.device_type != kDLCUDA) return;
  if (opt_stream.equal(py::int_(-1))) return;  // the consumer needs no order
  void* later = ConsumerStream(opt_stream);
  void* earlier = TVMFFIEnvGetStream(device.device_type, device.device_id);
  if (later != earlier) modules::OrderCudaStreams(device.device_id, earlier, later);
}

py::object ToCapsule(py::handle self, py::object stream, py::object max_version,
                     py::object dl_device, py::object copy) {
  if (!dl_device.is_none() && !dl_device.equal(DevicePair(self))) {
    Fail(PyExc_BufferError, "graphffi.Tensor: __dlpack__: expected its own device, got " +
                                py::str(dl_device).cast<std::string>());
  }
  if (!copy.is_none() && copy.cast<bool>()) {
    Fail(PyExc_BufferError,
         "graphffi.Tensor: __dlpack__: expected copy=False, got True; copy the result");
  }
  const bool versioned =
      !max_version.is_none() && py::tuple(max_version)[0].cast<int>() >= DLPACK_MAJOR_VERSION;
  OrderForConsumer(Metadata(self).device, stream);
  return MakeCapsule(HandleOf(self, tensor_type), versioned);
}

/// For NumPy, which asks by this name where it is not told to use DLPack.
py::object ToNumPy(py::handle self, py::handle dtype, py::handle copy) {
  return py::module_::import("graphffi._values.tensor").attr("array_of")(self, dtype, copy);
}

void SetTensorViewer(py::capsule exchange, py::capsule capsule) {
  const DLPackExchangeAPI* table = ExchangeTable(exchange.ptr());
  if (table == nullptr) {
    Fail(PyExc_TypeError,
         "graphffi: register_tensor_viewer: expected a __dlpack_c_exchange_api__ "
         "of DLPack 1, got another capsule");
  }
  auto* viewer =
      static_cast<TensorViewer*>(PyCapsule_GetPointer(capsule.ptr(), TensorViewer::kName));
  if (viewer == nullptr) throw py::error_already_set();
  SetViewer(*table, *viewer);
}

PyType_Slot tensor_slots[] = {
    {Py_tp_doc, const_cast<char*>("A tensor of the runtime. It speaks DLPack.")},
    {0, nullptr},
};

PyType_Spec tensor_spec = {"graphffi.Tensor", sizeof(PyObjectRef), 0, Py_TPFLAGS_DEFAULT,
                           tensor_slots};

void DefineProperties() {
  DefineProperty(tensor_type, "shape", &Shape, "Its dimensions, outermost first.");
  DefineProperty(tensor_type, "strides", &Strides, "Elements between neighbours, by dimension.");
  DefineProperty(
      tensor_type, "ndim", [](py::handle self) { return Metadata(self).ndim; },
      "Number of dimensions.");
  DefineProperty(
      tensor_type, "dtype",
      [](py::handle self) {
        return py::reinterpret_steal<py::object>(FromDType(Metadata(self).dtype));
      },
      "Data type of its elements.");
  DefineProperty(
      tensor_type, "device",
      [](py::handle self) {
        return py::reinterpret_steal<py::object>(FromDevice(Metadata(self).device));
      },
      "Where its memory is.");
  DefineProperty(
      tensor_type, "data_ptr",
      [](py::handle self) {
        const DLTensor& tensor = Metadata(self);
        return reinterpret_cast<uintptr_t>(tensor.data) + tensor.byte_offset;
      },
      "Address of its first element.");
}

void DefineMethods() {
  DefineMethod(tensor_type, "__dlpack__", &ToCapsule, py::kw_only(), py::arg("stream") = py::none(),
               py::arg("max_version") = py::none(), py::arg("dl_device") = py::none(),
               py::arg("copy") = py::none(),
               "Return a DLPack capsule. `stream`, the consumer's, waits for the thread's own.");
  DefineMethod(tensor_type, "__dlpack_device__", &DevicePair, "Return (device_type, device_id).");
  DefineMethod(tensor_type, "__array__", &ToNumPy, py::arg("dtype") = py::none(),
               py::arg("copy") = py::none(), "Return an array of NumPy with the same memory.");
  DefineMethod(tensor_type, "__repr__", &ReprTensor);
}

}  // namespace

ObjectRef ImportExchanged(PyObject* value, const TypeEntry& type) {
  // A view into memory that was given back has a pointer that is not NULL: only the viewer knows.
  DLTensor seen{};
  if (type.opt_viewer != nullptr && type.opt_viewer->view(value, &seen) != 0) throw PythonError();
  DLManagedTensorVersioned* managed = nullptr;
  if (type.opt_exchange->managed_tensor_from_py_object_no_sync(value, &managed) != 0)
    throw PythonError();
  TVMFFIObjectHandle tensor = nullptr;
  if (const int rc = TVMFFITensorFromDLPackVersioned(managed, 0, 0, &tensor)) {
    if (managed->deleter != nullptr) managed->deleter(managed);
    throw Error::TakeRaised(rc);
  }
  ObjectRef owner(tensor);
  CheckPlain(value, type, *TVMFFITensorGetDLTensorPtr(tensor));
  return owner;
}

PyObject* ExportTensor(TVMFFIObjectHandle tensor, const DLPackExchangeAPI& exchange) {
  DLManagedTensorVersioned* managed = nullptr;
  CheckRc(TVMFFITensorToDLPackVersioned(tensor, &managed));
  void* result = nullptr;
  if (exchange.managed_tensor_to_py_object_no_sync(managed, &result) != 0) throw PythonError();
  return static_cast<PyObject*>(result);
}

ObjectRef MakeTensor(const DLTensor& source, void* owner, void (*opt_release)(void* owner)) {
  OwnBlock* block = nullptr;
  try {
    block = MakeBlock(source);
  } catch (...) {
    if (opt_release != nullptr) opt_release(owner);
    throw;
  }
  block->owner = owner;
  block->opt_release = opt_release;
  TVMFFIObjectHandle tensor = nullptr;
  if (const int rc = TVMFFITensorFromDLPackVersioned(&block->managed, 0, 0, &tensor)) {
    DeleteBlock(&block->managed);
    throw Error::TakeRaised(rc);
  }
  return ObjectRef(tensor);
}

PyTypeObject* TensorType() { return tensor_type; }

void DefineTensor(py::module_& module) {
  tensor_type = MakeObjectSubtype(&tensor_spec);
  const py::handle type(reinterpret_cast<PyObject*>(tensor_type));
  module.attr("Tensor") = type;
  module.attr("register_class")(static_cast<int32_t>(kTVMFFITensor), type);
  DefineProperties();
  DefineMethods();
  type.attr("__dlpack_c_exchange_api__") = OwnExchangeTable();
  module.def("from_dlpack", &FromDLPack, py::arg("value"),
             "Return a graphffi.Tensor of any tensor.");
  module.def("set_tensor_viewer", &SetTensorViewer, py::arg("exchange"), py::arg("viewer"),
             "Read tensors of the types with an exchange table by a capsule of a TensorViewer.");
  module.def("reinterpret", &Reinterpret, py::arg("tensor"), py::arg("dtype"),
             "Return the same memory as elements of another data type of the same width.");
  module.def(
      "overlaps_itself",
      [](py::handle tensor) { return graphffi::OverlapsItself(Metadata(tensor)); },
      py::arg("tensor"), "Return whether elements of a tensor share memory with one another.");
  module.def(
      "share_memory",
      [](py::handle a, py::handle b) { return ShareMemory(Metadata(a), Metadata(b)); },
      py::arg("a"), py::arg("b"), "Return whether elements of two tensors share memory.");
  module.def("empty", &Empty, py::arg("shape"), py::arg("dtype"), py::arg("device") = "cpu",
             "Return an uninitialized CPU tensor, row-major.");
}

}  // namespace graphffi::bindings
