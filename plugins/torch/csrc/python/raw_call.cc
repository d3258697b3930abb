// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_cpu_dispatch.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/Device.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/autograd/python_variable.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "autograd/tangent.h"
#include "call/plan.h"
#include "gil/gil.h"
#include "python/attribute_value.h"
#include "python/define.h"
#include "python/plain_tensor.h"
#include "python/raise.h"
#include "sites/site_cache.h"

namespace py = pybind11;

namespace graphffi_torch {
namespace {

using c10::DispatchKey;

/// The plan and the values of a call. Steps give false where the call is not plain.
class RawCall {
 public:
  explicit RawCall(Py_ssize_t num_results) : num_results_(num_results) {}

  /// `args` and `mutates`: tuples.
  bool AddAll(PyObject* args, PyObject* mutates) {
    const Py_ssize_t count = PyTuple_GET_SIZE(args), num_mutated = PyTuple_GET_SIZE(mutates);
    c10::SmallVector<bool, 16> is_mutated(static_cast<size_t>(count), false);
    for (Py_ssize_t k = 0; k < num_mutated; ++k) {
      PyObject* position = PyTuple_GET_ITEM(mutates, k);
      if (!PyLong_CheckExact(position)) return false;
      const Py_ssize_t i = PyLong_AsSsize_t(position);
      if (PyErr_Occurred() != nullptr) PyErr_Clear();
      if (i < 0 || i >= count) return false;
      is_mutated[static_cast<size_t>(i)] = true;
    }
    for (Py_ssize_t i = 0; i < count; ++i) {
      if (!Add(PyTuple_GET_ITEM(args, i), is_mutated[static_cast<size_t>(i)])) return false;
    }
    for (Py_ssize_t i = 0; i < num_results_; ++i) Name("o", static_cast<size_t>(i));
    return !inputs_.empty() || !mutated_.empty();
  }

  /// The device of results that name none.
  c10::Device device() const { return (inputs_.empty() ? mutated_ : inputs_)[0]->device(); }
  bool has_outputs() const { return num_results_ > 0 || !mutated_.empty(); }

  void Run(std::string_view reference, const std::vector<at::Tensor>& results) {
    const graphffi::Counts counts{
        static_cast<int32_t>(inputs_.size()),
        static_cast<int32_t>(results.size() + mutated_.size()), static_cast<int32_t>(ints_.size()),
        static_cast<int32_t>(floats_.size()), static_cast<int32_t>(strs_.size())};
    const auto site = SiteCache::Global().Get({reference, plan_, ""}, counts);
    c10::SmallVector<const at::Tensor*, 16> tensors(inputs_.begin(), inputs_.end());
    for (const at::Tensor& tensor : results) tensors.push_back(&tensor);
    tensors.append(mutated_.begin(), mutated_.end());
    ints_.append(floats_.begin(), floats_.end());
    ints_.append(strs_.begin(), strs_.end());
    site->Run(tensors.data(), ints_.data(), results.size());
  }

  void BumpVersions() {
    for (const at::Tensor* tensor : mutated_) {
      if (!tensor->is_inference()) tensor->unsafeGetTensorImpl()->bump_version();
    }
  }

  /// Results, then what was updated: one object, a tuple of several, or None. *New reference.*
  PyObject* Pack(std::vector<at::Tensor>* results) const {
    std::vector<py::object> objects;
    for (at::Tensor& result : *results) {
      PyObject* wrapped = THPVariable_Wrap(std::move(result));
      if (wrapped == nullptr) throw py::error_already_set();
      objects.push_back(py::reinterpret_steal<py::object>(wrapped));
    }
    objects.insert(objects.end(), updated_.begin(), updated_.end());
    if (objects.size() == 1) return objects[0].release().ptr();
    py::tuple tuple(objects.size());
    for (size_t i = 0; i < objects.size(); ++i) tuple[i] = std::move(objects[i]);
    return tuple.release().ptr();
  }

 private:
  /// An item of the plan.
  void Append(std::string_view text) {
    if (!plan_.empty() && plan_.back() != '(') plan_ += ", ";
    plan_ += text;
  }
  void Name(const char* kind, size_t number) { Append(kind + std::to_string(number)); }

  bool Add(PyObject* value, bool is_mutated) {
    if (THPVariable_CheckExact(value)) return AddTensor(value, is_mutated);
    if (is_mutated) return false;
    if (PyBool_Check(value)) {
      Append("bool(n" + std::to_string(ints_.size()) + ")");
      ints_.push_back(graphffi::ToAny(value == Py_True ? 1 : 0));
      return true;
    }
    if (PyFloat_CheckExact(value)) {
      Name("f", floats_.size());
      floats_.push_back(graphffi::ToAny(PyFloat_AS_DOUBLE(value)));
      return true;
    }
    if (value == Py_None) {
      Append("None");
      return true;
    }
    return PyLong_CheckExact(value)      ? AddInt(value)
           : PyUnicode_CheckExact(value) ? AddText(value)
                                         : AddList(value);
  }

  bool AddInt(PyObject* value) {
    TVMFFIAny converted{};
    if (!ToAttribute(Kind::kInt, value, &converted)) return false;
    Name("n", ints_.size());
    ints_.push_back(converted);
    return true;
  }

  bool AddText(PyObject* value) {
    TVMFFIAny converted{};
    if (!ToAttribute(Kind::kStr, value, &converted)) return false;
    Name("s", strs_.size());
    strs_.push_back(converted);
    return true;
  }

  bool AddList(PyObject* value) {
    if (!PyTuple_CheckExact(value) && !PyList_CheckExact(value)) return false;
    if (depth_ == graphffi::kMaxArrayDepth) return false;  // a list may contain itself
    ++depth_;
    PyObject* tuple = PySequence_Tuple(value);  // a list may change while the GIL is released
    if (tuple == nullptr) throw py::error_already_set();
    frozen_.push_back(py::reinterpret_steal<py::object>(tuple));
    Append("(");
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
      if (!Add(PyTuple_GET_ITEM(tuple, i), false)) return false;
    }
    plan_ += ')';
    --depth_;
    return true;
  }

  bool AddTensor(PyObject* value, bool is_mutated) {
    const at::Tensor& tensor = THPVariable_Unpack(value);
    if (!IsWithin(tensor.key_set(), kPlainTensor)) return false;
    if (HasTangent(tensor)) return false;
    if (tensor.requires_grad() && c10::GradMode::is_enabled()) return false;
    if (!is_mutated) {
      Name("i", inputs_.size());
      inputs_.push_back(&tensor);
      return true;
    }
    if (tensor.is_inference() && !c10::InferenceMode::is_enabled()) return false;
    Name("o", static_cast<size_t>(num_results_) + mutated_.size());
    mutated_.push_back(&tensor);
    updated_.push_back(py::reinterpret_borrow<py::object>(value));
    return true;
  }

  const Py_ssize_t num_results_;
  int depth_ = 0;  // lists around the value
  std::string plan_;
  c10::SmallVector<const at::Tensor*, 8> inputs_, mutated_;  // kept alive by the arguments
  c10::SmallVector<TVMFFIAny, 8> ints_, floats_, strs_;      // texts likewise
  std::vector<py::object> updated_, frozen_;
};

/// The results to allocate.
class RawResults {
 public:
  /// False where `out` is more than None, a TensorSpec, or a list of them.
  bool Read(PyObject* spec_type, PyObject* out) {
    if (out == Py_None) return true;
    if (reinterpret_cast<PyObject*>(Py_TYPE(out)) == spec_type) {
      specs_.push_back(out);
      return true;
    }
    if (!PyTuple_CheckExact(out) && !PyList_CheckExact(out)) return false;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(out); ++i) {
      PyObject* spec = PySequence_Fast_GET_ITEM(out, i);
      if (reinterpret_cast<PyObject*>(Py_TYPE(spec)) != spec_type) return false;
      specs_.push_back(spec);
    }
    return true;
  }

  Py_ssize_t size() const { return static_cast<Py_ssize_t>(specs_.size()); }

  /// False where a spec says something unusual.
  bool Allocate(c10::Device device, std::vector<at::Tensor>* results) const {
    for (PyObject* spec : specs_) {
      std::optional<at::Tensor> result = AllocateOne(spec, device);
      if (!result) return false;
      results->push_back(std::move(*result));
    }
    return true;
  }

 private:
  static py::object Get(PyObject* spec, PyObject* name) {
    return py::reinterpret_steal<py::object>(PyObject_GetAttr(spec, name));
  }

  static std::optional<at::Tensor> AllocateOne(PyObject* spec, c10::Device device) {
    static PyObject* const names[] = {PyUnicode_InternFromString("shape"),
                                      PyUnicode_InternFromString("dtype"),
                                      PyUnicode_InternFromString("device")};
    const py::object shape = Get(spec, names[0]), dtype = Get(spec, names[1]),
                     where = Get(spec, names[2]);
    if (!shape || !dtype || !where) throw py::error_already_set();
    // Names go the other way.
    if (!THPDtype_Check(dtype.ptr())) return std::nullopt;
    if (!where.is_none() && !THPDevice_Check(where.ptr())) return std::nullopt;
    if (!where.is_none()) device = reinterpret_cast<THPDevice*>(where.ptr())->device;
    c10::SmallVector<int64_t, 8> sizes;
    if (!ReadSizes(shape.ptr(), &sizes)) return std::nullopt;
    const at::TensorOptions options(reinterpret_cast<THPDtype*>(dtype.ptr())->scalar_type);
    return device.is_cpu() ? at::cpu::empty(sizes, options)
                           : at::empty(sizes, options.device(device));
  }

  static bool ReadSizes(PyObject* shape, c10::SmallVectorImpl<int64_t>* sizes) {
    if (!PyTuple_CheckExact(shape)) return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(shape); ++i) {
      TVMFFIAny size{};
      PyObject* item = PyTuple_GET_ITEM(shape, i);
      if (!PyLong_CheckExact(item) || !ToAttribute(Kind::kInt, item, &size)) return false;
      if (size.v_int64 < 0) return false;
      sizes->push_back(size.v_int64);
    }
    return true;
  }

  c10::SmallVector<PyObject*, 4> specs_;  // kept alive by `out`
};

/// *New reference.* \throws what Translated translates
PyObject* CallPlain(PyObject* const* args, const c10::impl::LocalDispatchKeySet& thread) {
  PyObject *const reference = args[1], *const mutates = args[4];
  RawResults fresh;
  if (!PyUnicode_CheckExact(reference) || !PyTuple_CheckExact(args[2]) ||
      !PyTuple_CheckExact(mutates) || !fresh.Read(args[0], args[3])) {
    return Py_NewRef(Py_NotImplemented);
  }
  RawCall call(fresh.size());
  std::vector<at::Tensor> results;
  if (!call.AddAll(args[2], mutates) || !call.has_outputs() ||
      !fresh.Allocate(call.device(), &results)) {
    return Py_NewRef(Py_NotImplemented);
  }
  Py_ssize_t size = 0;
  const char* text = PyUnicode_AsUTF8AndSize(reference, &size);
  if (text == nullptr) throw py::error_already_set();
  {
    const graphffi::GilRelease no_gil(true);
    // As the dispatcher does, also where the kernel fails.
    if (!thread.excluded_.has(DispatchKey::ADInplaceOrView)) call.BumpVersions();
    call.Run({text, static_cast<size_t>(size)}, results);
  }
  return call.Pack(&results);
}

PyObject* CallRaw(PyObject*, PyObject* const* args, Py_ssize_t num_args) {
  if (num_args != 5) {
    PyErr_SetString(PyExc_TypeError, "graphffi_torch: call_raw: expected 5 arguments");
    return nullptr;
  }
  const c10::impl::LocalDispatchKeySet thread = c10::impl::tls_local_dispatch_key_set();
  if (!IsPlainThread(thread)) return Py_NewRef(Py_NotImplemented);
  return TranslatedOrNull([&] { return CallPlain(args, thread); });
}

}  // namespace

void AddRawCall(py::module_& module) {
  static PyMethodDef method = {
      "call_raw", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(&CallRaw)), METH_FASTCALL,
      "Makes a plain call of graphffi.call_tvm_ffi, or returns NotImplemented."};
  PyObject* function = PyCFunction_New(&method, nullptr);
  if (function == nullptr) throw py::error_already_set();
  module.add_object("call_raw", function);
  Py_DECREF(function);
}

}  // namespace graphffi_torch
