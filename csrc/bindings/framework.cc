// SPDX-License-Identifier: Apache-2.0
#include "bindings/framework.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <unordered_map>

#include "bindings/object.h"
#include "bindings/raised.h"

namespace graphffi::bindings {

namespace {

constexpr char kHolderMethod[] = "__tvm_ffi_object__";

using Entries = std::unordered_map<PyTypeObject*, std::unique_ptr<TypeEntry>>;

/// Guarded by the GIL; never destroyed, since types die late.
Entries& AllEntries() {
  static auto* entries = new Entries;
  return *entries;
}

using Viewers = std::unordered_map<const DLPackExchangeAPI*, const TensorViewer*>;

/// Viewers of frameworks' plugins, by the table that types inherit. Guarded by the GIL.
Viewers& AllViewers() {
  static auto* viewers = new Viewers;
  return *viewers;
}

/// Has tensors of a type read by the viewer of its table, if that has one.
void UseViewer(TypeEntry* entry) {
  const auto found = AllViewers().find(entry->opt_exchange);
  if (entry->kind != ArgumentKind::kExchange || found == AllViewers().end()) return;
  entry->opt_viewer = found->second;
  entry->opt_view = found->second->view;
  entry->as_good_allocator = found->second->allocator;
}

void Forget(PyTypeObject* type) {
  if (last_entry != nullptr && last_entry->type == type) last_entry = nullptr;
  const auto found = AllEntries().find(type);
  if (found == AllEntries().end()) return;
  Py_XDECREF(found->second->opt_importer);
  AllEntries().erase(found);
}

/// An entry lives as long as its type: whose address another type may get later.
void ForgetWithType(PyTypeObject* type) {
  auto forget = [type](py::handle weak_reference) {
    Forget(type);
    weak_reference.dec_ref();
  };
  py::weakref(py::handle(reinterpret_cast<PyObject*>(type)), py::cpp_function(forget)).release();
}

py::object Attribute(PyTypeObject* type, const char* name) {
  return OptAttribute(reinterpret_cast<PyObject*>(type), name);
}

bool IsNamed(PyTypeObject* type, const char* module, const char* name) {
  const char* dot = std::strrchr(type->tp_name, '.');
  if (std::strcmp(dot == nullptr ? type->tp_name : dot + 1, name) != 0) return false;
  const py::object actual = Attribute(type, "__module__");
  return actual && py::isinstance<py::str>(actual) && actual.cast<std::string>() == module;
}

bool HasBase(PyTypeObject* type, const char* module, const char* name) {
  for (py::handle base : py::reinterpret_borrow<py::tuple>(type->tp_mro)) {
    if (IsNamed(reinterpret_cast<PyTypeObject*>(base.ptr()), module, name)) return true;
  }
  return false;
}

bool IsSubtype(PyTypeObject* type, const char* module, const char* name) {
  const py::object base = py::module_::import(module).attr(name);
  return PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(base.ptr())) != 0;
}

ArgumentKind BuiltinKind(PyTypeObject* type) {
  if (type == Py_TYPE(Py_None)) return ArgumentKind::kNone;
  if (type == &PyBool_Type) return ArgumentKind::kBool;
  if (PyType_FastSubclass(type, Py_TPFLAGS_LONG_SUBCLASS)) return ArgumentKind::kInt;
  if (PyType_IsSubtype(type, &PyFloat_Type) != 0) return ArgumentKind::kFloat;
  if (PyType_FastSubclass(type, Py_TPFLAGS_UNICODE_SUBCLASS)) {
    if (IsSubtype(type, "graphffi._values.dtype", "dtype")) return ArgumentKind::kDType;
    // tvm_ffi.dtype is a str, too.
    return HasProtocol(type, "from_dlpack_data_type") ? ArgumentKind::kForeignDType
                                                      : ArgumentKind::kStr;
  }
  if (PyType_FastSubclass(type, Py_TPFLAGS_BYTES_SUBCLASS)) return ArgumentKind::kBytes;
  if (PyType_IsSubtype(type, &PyByteArray_Type) != 0) return ArgumentKind::kByteArray;
  if (PyType_FastSubclass(type, Py_TPFLAGS_TUPLE_SUBCLASS)) {
    return IsSubtype(type, "graphffi._values.shape", "Shape") ? ArgumentKind::kShape
                                                              : ArgumentKind::kSequence;
  }
  if (PyType_FastSubclass(type, Py_TPFLAGS_LIST_SUBCLASS)) return ArgumentKind::kSequence;
  if (PyType_FastSubclass(type, Py_TPFLAGS_DICT_SUBCLASS)) return ArgumentKind::kMapping;
  if (PyType_FastSubclass(type, Py_TPFLAGS_TYPE_SUBCLASS)) return ArgumentKind::kClass;
  return ArgumentKind::kUnknown;
}

ArgumentKind OwnKind(PyTypeObject* type) {
  if (IsSubtype(type, "graphffi._values.device", "Device")) return ArgumentKind::kDevice;
  if (IsSubtype(type, "graphffi._values.map", "Map")) return ArgumentKind::kMapping;
  return ArgumentKind::kUnknown;
}

struct KindByMethod {
  const char* method;
  ArgumentKind kind;
};

ArgumentKind FirstKind(PyTypeObject* type, std::initializer_list<KindByMethod> methods) {
  for (const KindByMethod& candidate : methods) {
    if (HasProtocol(type, candidate.method)) return candidate.kind;
  }
  return ArgumentKind::kUnknown;
}

/// No kernel is told which elements of a masked array count: they are of no kind.
bool IsMaskedArray(PyTypeObject* type) {
  return HasBase(type, "numpy.ma", "MaskedArray") || HasBase(type, "numpy.ma.core", "MaskedArray");
}

/// True for scalars of NumPy that float() takes, but that are no real numbers.
bool IsNumpyWithoutNumber(PyTypeObject* type) {
  return HasBase(type, "numpy", "complexfloating") || HasBase(type, "numpy", "datetime64") ||
         HasBase(type, "numpy", "timedelta64") || HasBase(type, "numpy", "void");
}

/// Protocols that count more than that a type is derived from int, str or another one of Python's.
ArgumentKind ProtocolKind(PyTypeObject* type) {
  return FirstKind(type, {{"__chandle__", ArgumentKind::kForeignObject},
                          {kHolderMethod, ArgumentKind::kHolder},
                          {"__cuda_stream__", ArgumentKind::kStream},
                          {"__dlpack__", ArgumentKind::kDLPack}});
}

/// Types of libraries, by protocol where there is one, else by name. The order of tvm-ffi's
/// protocols is that of apache-tvm-ffi.
ArgumentKind ForeignKind(PyTypeObject* type) {
  if (IsNamed(type, "torch", "SymInt") || IsNamed(type, "torch", "SymFloat") ||
      IsNamed(type, "torch", "SymBool") || IsNamed(type, "torch.fx.proxy", "Proxy")) {
    return ArgumentKind::kSymbol;
  }
  if (IsNamed(type, "torch", "dtype") || HasBase(type, "numpy", "dtype")) {
    return ArgumentKind::kForeignDType;
  }
  if (IsNamed(type, "torch", "device") || HasBase(type, "tvm_ffi.core", "Device")) {
    return ArgumentKind::kForeignDevice;
  }
  if (HasBase(type, "numpy", "bool") || HasBase(type, "numpy", "bool_")) return ArgumentKind::kBool;
  if (IsNamed(type, "ctypes", "c_void_p")) return ArgumentKind::kPointer;
  if (HasProtocol(type, "__tvm_ffi_opaque_ptr__")) return ArgumentKind::kAddress;
  if (type->tp_call == nullptr) {
    const ArgumentKind kind =
        FirstKind(type, {{"__dlpack_data_type__", ArgumentKind::kForeignDType},
                         {"__dlpack_device__", ArgumentKind::kForeignDevice},
                         {"__tvm_ffi_int__", ArgumentKind::kAsInt},
                         {"__tvm_ffi_float__", ArgumentKind::kAsFloat},
                         {"__tvm_ffi_value__", ArgumentKind::kAsValue}});
    if (kind != ArgumentKind::kUnknown) return kind;
  }
  const PyNumberMethods* number = type->tp_as_number;
  if (number != nullptr && number->nb_index != nullptr) return ArgumentKind::kIndex;
  if (number != nullptr && number->nb_float != nullptr && !IsNumpyWithoutNumber(type)) {
    return ArgumentKind::kFloat;
  }
  return type->tp_call != nullptr ? ArgumentKind::kCallable : ArgumentKind::kUnknown;
}

/// A subclass of torch.Tensor that handles operators itself keeps its elements elsewhere, or
/// nowhere.
bool WrapsTensors(PyTypeObject* type) {
  const py::object own = Attribute(type, "__torch_dispatch__");
  if (!own) return false;
  for (py::handle base : py::reinterpret_borrow<py::tuple>(type->tp_mro)) {
    auto* base_type = reinterpret_cast<PyTypeObject*>(base.ptr());
    if (IsNamed(base_type, "torch", "Tensor")) {
      return !own.is(Attribute(base_type, "__torch_dispatch__"));
    }
  }
  return false;
}

void UseExchange(PyTypeObject* type, TypeEntry* entry) {
  entry->kind = WrapsTensors(type) ? ArgumentKind::kNoMemory : ArgumentKind::kExchange;
  entry->opt_view = entry->opt_exchange->dltensor_from_py_object_no_sync;
  entry->as_good_allocator = entry->opt_exchange->managed_tensor_allocator;
  entry->has_lazy_bits = HasProtocol(type, "is_conj") && HasProtocol(type, "is_neg");
  UseViewer(entry);
}

/// The kind of a type whose tensors have no exchange table.
ArgumentKind KindOf(PyTypeObject* type) {
  for (auto* find : {&ProtocolKind, &BuiltinKind, &OwnKind, &ForeignKind}) {
    const ArgumentKind kind = find(type);
    if (kind != ArgumentKind::kUnknown) return kind;
  }
  return ArgumentKind::kUnknown;
}

void Classify(PyTypeObject* type, TypeEntry* entry) {
  entry->type = type;
  if (PyType_IsSubtype(type, ObjectType()) != 0) {
    entry->kind = ArgumentKind::kObject;
    return;
  }
  if (IsMaskedArray(type)) return;
  const bool holds = HasProtocol(type, kHolderMethod) && !HasProtocol(type, "__chandle__");
  const py::object capsule = Attribute(type, "__dlpack_c_exchange_api__");
  entry->opt_exchange = capsule && !holds ? ExchangeTable(capsule.ptr()) : nullptr;
  if (entry->opt_exchange != nullptr) {
    UseExchange(type, entry);
    return;
  }
  entry->kind = KindOf(type);
  if (entry->kind == ArgumentKind::kDLPack) entry->opt_array_view = FindArrayView(type);
}

}  // namespace

TypeEntry* last_entry = nullptr;

TypeEntry& FindOtherType(PyTypeObject* type) {
  const auto found = AllEntries().find(type);
  if (found != AllEntries().end()) return *(last_entry = found->second.get());
  // Classifying runs Python code, which may come here again: the entry goes in when it is complete.
  auto entry = std::make_unique<TypeEntry>();
  Classify(type, entry.get());
  const auto [place, inserted] = AllEntries().try_emplace(type, std::move(entry));
  if (inserted) ForgetWithType(type);
  return *(last_entry = place->second.get());
}

PyObject* ImporterOf(Framework framework) {
  if (framework->opt_importer == nullptr) {
    framework->opt_importer =
        py::module_::import("graphffi._values.tensor")
            .attr("importer_of")(py::handle(reinterpret_cast<PyObject*>(framework->type)))
            .release()
            .ptr();
  }
  return framework->opt_importer;
}

void CheckPlainSlow(PyObject* value, const DLTensor& dltensor) {
  int64_t* const end = dltensor.shape + dltensor.ndim;
  if (dltensor.data == nullptr && std::find(dltensor.shape, end, 0) == end) {
    Fail(PyExc_BufferError, "it has no memory");
  }
  const py::handle tensor(value);
  const bool conjugate = tensor.attr("is_conj")().cast<bool>();
  if (conjugate || tensor.attr("is_neg")().cast<bool>()) {
    Fail(PyExc_BufferError, conjugate ? "its memory holds the conjugate; pass x.resolve_conj()"
                                      : "its memory holds the negative; pass x.resolve_neg()");
  }
}

void SetViewer(const DLPackExchangeAPI& exchange, const TensorViewer& viewer) {
  AllViewers()[&exchange] = &viewer;
  for (const auto& [type, entry] : AllEntries()) UseViewer(entry.get());
}

bool HasProtocol(PyTypeObject* type, const char* name) {
  const py::object value = Attribute(type, name);
  return value && !value.is_none();
}

bool IsNumPyArray(PyTypeObject* type) { return HasBase(type, "numpy", "ndarray"); }

const DLPackExchangeAPI* ExchangeTable(PyObject* capsule) {
  static constexpr char kName[] = "dlpack_exchange_api";
  if (PyCapsule_IsValid(capsule, kName) == 0) return nullptr;
  auto* header = static_cast<const DLPackExchangeAPIHeader*>(PyCapsule_GetPointer(capsule, kName));
  while (header != nullptr && header->version.major != DLPACK_MAJOR_VERSION) {
    header = header->prev_api;
  }
  return reinterpret_cast<const DLPackExchangeAPI*>(header);
}

}  // namespace graphffi::bindings
