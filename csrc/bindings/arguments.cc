// SPDX-License-Identifier: Apache-2.0
#include "bindings/arguments.h"

#include <cstring>
#include <string>

#include "bindings/arrays/dlpack_capsule.h"
#include "bindings/arrays/tensor.h"
#include "bindings/callback.h"
#include "bindings/container.h"
#include "bindings/dtype_device.h"
#include "bindings/raised.h"
#include "call/convert.h"
#include "call/value.h"
#include "gil/gil.h"

// Runtimes of releases before 0.1.14 lack it.
extern "C" int TVMFFIBigIntFromByteArray(const TVMFFIByteArray* input, TVMFFIAny* out)
    __attribute__((weak));

namespace graphffi::bindings {

namespace {

constexpr char kAccepted[] =
    "None, a number, str, bytes, tensor, list, tuple, dict, dtype, device, function or module";

TVMFFIAny FromText(const char* text, Py_ssize_t size) {
  TVMFFIAny value{};
  if (size <= 7) {
    value.type_index = kTVMFFISmallStr;
    value.small_str_len = static_cast<uint32_t>(size);
    std::memcpy(value.v_bytes, text, static_cast<size_t>(size));
    return value;
  }
  return ReleaseAny(MakeString({text, static_cast<size_t>(size)}));
}

TVMFFIAny FromBytes(const char* text, Py_ssize_t size) {
  const TVMFFIByteArray content = {text, static_cast<size_t>(size)};
  TVMFFIAny value{};
  CheckRc(TVMFFIBytesFromByteArray(&content, &value));
  return value;
}

TVMFFIAny FromTruth(PyObject* value) {
  const int truth = PyObject_IsTrue(value);
  if (truth < 0) throw PythonError();
  return ToAny(truth != 0);
}

TVMFFIAny FromFloat(PyObject* value) {
  const double payload = PyFloat_AsDouble(value);
  if (payload == -1.0 && PyErr_Occurred() != nullptr) throw PythonError();
  return ToAny(payload);
}

TVMFFIAny FromPointerAttribute(PyObject* value) {
  const py::object address = py::handle(value).attr("value");  // None for NULL
  return ToAny(address.is_none() ? nullptr : reinterpret_cast<void*>(address.cast<uintptr_t>()));
}

bool IsDTypeClass(PyObject* type) {
  const py::object mro = py::handle(type).attr("__mro__");
  for (py::handle base : mro) {
    if (std::strcmp(reinterpret_cast<PyTypeObject*>(base.ptr())->tp_name, "numpy.generic") == 0) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::string SubjectText(PyObject* opt_subject) {
  return opt_subject == nullptr ? "graphffi" : py::str(opt_subject).cast<std::string>();
}

Arguments::~Arguments() {
  for (int i = 0; i < num_owned_; ++i) TVMFFIObjectDecRef(owned_[i]);
}

TVMFFIAny Arguments::View(PyObject* value) {
  if (PyLong_CheckExact(value)) {
    const TVMFFIAny number = FromInt(value);
    return number.type_index == kTVMFFIInt ? number : Keep(number);
  }
  if (PyFloat_CheckExact(value)) return ToAny(PyFloat_AS_DOUBLE(value));
  if (PyBool_Check(value)) return ToAny(value == Py_True);
  if (value == Py_None) return TVMFFIAny{};
  return ViewOther(value);
}

TVMFFIAny Arguments::ViewOther(PyObject* value) {
  TypeEntry& type = FindType(Py_TYPE(value));
  if (type.kind == ArgumentKind::kExchange && type.opt_view != nullptr) return Lend(value, type);
  if (type.kind == ArgumentKind::kObject) {
    return ObjectView(reinterpret_cast<PyObjectRef*>(value)->handle);
  }
  return type.opt_array_view != nullptr ? LendArray(value, type) : Keep(Own(value));
}

TVMFFIAny Arguments::LendArray(PyObject* value, TypeEntry& type) {
  LentTensor* lent = loans_.Take(value);
  if (type.opt_array_view(value, lent->view()) != 0) return Keep(OwnTensor(value, type));
  lent->CopyDims();
  if (framework_ == nullptr) framework_ = &type;
  return lent->AsAny();
}

TVMFFIAny Arguments::Keep(TVMFFIAny owned) {
  if (owned.type_index < kTVMFFIStaticObjectBegin) return owned;
  if (num_owned_ < kInline) {
    owned_[num_owned_++] = owned.v_obj;
  } else {
    more_owned_.emplace_back(owned.v_obj);
  }
  return owned;
}

TVMFFIAny Arguments::Lend(PyObject* value, TypeEntry& type) {
  LentTensor* lent = loans_.Take(value);
  if (type.opt_view(value, lent->view()) != 0) FailTensor(value);
  if (type.has_lazy_bits && type.opt_viewer == nullptr) {
    try {
      CheckPlain(value, type, *lent->view());
    } catch (const PythonError&) {
      FailTensor(value);
    }
  }
  NoteTensor(type, lent->view()->device);
  lent->CopyDims();
  return lent->AsAny();
}

void Arguments::NoteTensor(TypeEntry& type, DLDevice device) {
  if (framework_ == nullptr) framework_ = &type;
  if (type.opt_viewer != nullptr) opt_viewer_ = type.opt_viewer;
  const DLPackExchangeAPI* exchange = type.opt_exchange;
  if (exchange == nullptr) return;
  has_env_ = true;
  if (!has_allocator_) {
    has_allocator_ = true;
    env_.allocator = exchange->managed_tensor_allocator;
    env_.as_good = type.as_good_allocator;
  }
  if (device.device_type == kDLCPU || env_.device.device_type != kDLCPU) return;
  const DLPackCurrentWorkStream current =
      type.opt_viewer != nullptr ? type.opt_viewer->stream : exchange->current_work_stream;
  if (current == nullptr) return;
  if (current(device.device_type, device.device_id, &env_.stream) != 0) {
    throw PythonError();
  }
  env_.device = device;
}

TVMFFIAny Arguments::OwnTensor(PyObject* value, TypeEntry& type) {
  ObjectRef tensor;
  try {
    tensor = type.opt_exchange != nullptr ? ImportExchanged(value, type) : ImportProduced(value);
  } catch (const ProducerError&) {
    FailProducer(value);
  } catch (const PythonError&) {
    FailTensor(value);
  } catch (py::error_already_set& error) {
    error.restore();
    FailTensor(value);
  }
  const DLDevice device = TVMFFITensorGetDLTensorPtr(tensor.get())->device;
  NoteTensor(type, device);
  if (type.opt_exchange == nullptr && device.device_type != kDLCPU) NoteStream(value, device);
  return ObjectView(tensor.release());
}

TVMFFIAny Arguments::FromStr(PyObject* value) {
  Py_ssize_t size = 0;
  const char* text = PyUnicode_AsUTF8AndSize(value, &size);
  if (text == nullptr) {
    if (PyErr_ExceptionMatches(PyExc_UnicodeEncodeError) == 0) throw PythonError();
    PyErr_Clear();
    FailValue(PyExc_ValueError, "Unicode text", DescribeValue(value));
  }
  return FromText(text, size);
}

TVMFFIAny Arguments::FromInt(PyObject* value) {
  int overflow = 0;
  const int64_t payload = PyLong_AsLongLongAndOverflow(value, &overflow);
  if (overflow != 0) return FromBigInt(value);
  if (payload == -1 && PyErr_Occurred() != nullptr) throw PythonError();
  return ToAny(payload);
}

TVMFFIAny Arguments::FromSymbol(PyObject* value) {
  if (reports_traced_) throw TracedArgument();
  const PyNumberMethods* number = Py_TYPE(value)->tp_as_number;
  if (number == nullptr) FailValue(PyExc_TypeError, kAccepted, Py_TYPE(value)->tp_name);
  if (number->nb_index == nullptr) return FromFloat(value);
  return FromInt(py::reinterpret_steal<py::object>(Check(PyNumber_Index(value))).ptr());
}

TVMFFIAny Arguments::FromBigInt(PyObject* value) {
  if (!takes_big_ints_ || TVMFFIBigIntFromByteArray == nullptr) {
    FailValue(PyExc_OverflowError, "an int of 64 bits", DescribeValue(value));
  }
  const py::handle number(value);
  const auto num_words = number.attr("bit_length")().cast<size_t>() / 64 + 1;
  const py::object bytes =
      number.attr("to_bytes")(num_words * sizeof(uint64_t), "little", py::arg("signed") = true);
  const TVMFFIByteArray content = {PyBytes_AS_STRING(bytes.ptr()), num_words * sizeof(uint64_t)};
  TVMFFIAny made{};
  CheckRc(TVMFFIBigIntFromByteArray(&content, &made));
  return made;
}

TVMFFIAny Arguments::OwnSequence(PyObject* value) {
  const RecursionGuard guard;
  // A tuple of its own: elements run Python code, which may change a list.
  const py::object elements = py::reinterpret_steal<py::object>(Check(PySequence_Tuple(value)));
  std::vector<tvm::ffi::Any> values;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(elements.ptr()); ++i) {
    values.push_back(TakeAny(Own(PyTuple_GET_ITEM(elements.ptr(), i))));
  }
  return ReleaseAny(MakeArray(values));
}

TVMFFIAny Arguments::OwnMapping(PyObject* value) {
  const RecursionGuard guard;
  PyObject* const pairs = PyDict_Check(value) != 0 ? PyDict_Items(value) : PyMapping_Items(value);
  const py::object items = py::reinterpret_steal<py::object>(Check(pairs));
  std::vector<tvm::ffi::Any> values;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.ptr()); ++i) {
    PyObject* pair = PyList_GET_ITEM(items.ptr(), i);
    if (PyTuple_Check(pair) == 0 || PyTuple_GET_SIZE(pair) != 2) {
      FailValue(PyExc_TypeError, "a mapping whose items are pairs", Py_TYPE(value)->tp_name);
    }
    values.push_back(TakeAny(Own(PyTuple_GET_ITEM(pair, 0))));
    values.push_back(TakeAny(Own(PyTuple_GET_ITEM(pair, 1))));
  }
  return ReleaseAny(MakeMap(values));
}

TVMFFIAny Arguments::Own(PyObject* value) {
  TypeEntry& type = FindType(Py_TYPE(value));
  switch (type.kind) {
    case ArgumentKind::kNone:
      return TVMFFIAny{};
    case ArgumentKind::kBool:
      return FromTruth(value);
    case ArgumentKind::kInt:
      return FromInt(value);
    case ArgumentKind::kIndex:
      return FromInt(py::reinterpret_steal<py::object>(Check(PyNumber_Index(value))).ptr());
    case ArgumentKind::kFloat:
      return FromFloat(value);
    case ArgumentKind::kStr:
      return FromStr(value);
    case ArgumentKind::kBytes:
      return FromBytes(PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value));
    case ArgumentKind::kByteArray:
      return FromBytes(PyByteArray_AS_STRING(value), PyByteArray_GET_SIZE(value));
    case ArgumentKind::kDType:
      return ToAny(ToDType(value));
    case ArgumentKind::kForeignDType:
      return ToAny(ToForeignDType(value));
    case ArgumentKind::kDevice:
      return ToAny(ToDevice(value));
    case ArgumentKind::kForeignDevice:
      return ToAny(ToForeignDevice(value));
    case ArgumentKind::kShape:
      return MakeShape(value);
    case ArgumentKind::kSequence:
      return OwnSequence(value);
    case ArgumentKind::kMapping:
      return OwnMapping(value);
    case ArgumentKind::kObject:
      return ObjectView(ObjectRef::Retain(reinterpret_cast<PyObjectRef*>(value)->handle).release());
    case ArgumentKind::kForeignObject:
      return FromForeignObject(value);
    case ArgumentKind::kExchange:
    case ArgumentKind::kDLPack:
      return OwnTensor(value, type);
    case ArgumentKind::kPointer:
      return FromPointerAttribute(value);
    case ArgumentKind::kStream:
      return FromStream(value);
    case ArgumentKind::kHolder:
      return FromHolder(value);
    case ArgumentKind::kAddress:
      return FromAddress(Ask(value, "__tvm_ffi_opaque_ptr__"), "__tvm_ffi_opaque_ptr__");
    case ArgumentKind::kAsInt:
      return FromAsInt(value);
    case ArgumentKind::kAsFloat:
      return FromAsFloat(value);
    case ArgumentKind::kAsValue:
      return FromAsValue(value);
    case ArgumentKind::kClass:
      if (IsDTypeClass(value)) return ToAny(ToForeignDType(value));
      return ObjectView(MakeCallback(value).release());
    case ArgumentKind::kCallable:
      return ObjectView(MakeCallback(value).release());
    case ArgumentKind::kNoMemory:
      FailTraced(value);
    case ArgumentKind::kSymbol:
      return FromSymbol(value);
    case ArgumentKind::kUnknown:
      break;
  }
  FailValue(PyExc_TypeError, kAccepted, Py_TYPE(value)->tp_name);
}

std::string Arguments::Position() const {
  std::string text = SubjectText(opt_subject_) + ": " + bank_;
  return index_ < 0 ? text : text + std::to_string(index_);
}

void Arguments::FailValue(PyObject* type, const char* expected, const std::string& actual) {
  Fail(type, Position() + ": expected " + expected + ", got " + actual);
}

void Arguments::FailTraced(PyObject* value) {
  if (reports_traced_) throw TracedArgument();
  FailValue(PyExc_TypeError, "a tensor with memory of its own", Py_TYPE(value)->tp_name);
}

void Arguments::FailTensor(PyObject* value) {
  FailFromCurrent(PyExc_ValueError, Position() +
                                        ": expected a tensor that DLPack can describe, got a " +
                                        Py_TYPE(value)->tp_name + " that it can't");
}

// Runs after the kernel, without the GIL.
void* Arguments::Retain(const void* source) {
  const GilHold gil;
  if (!gil.ok()) return nullptr;
  const py::error_scope pending;  // what the kernel may have left
  auto* object = static_cast<PyObject*>(const_cast<void*>(source));
  const DLPackExchangeAPI* exchange = FindType(Py_TYPE(object)).opt_exchange;
  DLManagedTensorVersioned* managed = nullptr;
  if (exchange == nullptr) {
    managed = ManageArray(object);
  } else if (exchange->managed_tensor_from_py_object_no_sync(object, &managed) != 0) {
    PyErr_Clear();
    managed = nullptr;
  }
  return managed;
}

void Arguments::Release(void* token) {
  auto* managed = static_cast<DLManagedTensorVersioned*>(token);
  if (managed->deleter != nullptr) managed->deleter(managed);
}

}  // namespace graphffi::bindings
