// SPDX-License-Identifier: Apache-2.0
// The peer with nanobind: a function that takes arrays of any framework by DLPack.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

namespace {

using Array = nanobind::ndarray<float, nanobind::c_contig, nanobind::device::cpu>;

void Write(const Array& x, const Array& out) { *out.data() = *x.data(); }

}  // namespace

NB_MODULE(nanobind_function, module) {
  module.def("write", &Write, nanobind::call_guard<nanobind::gil_scoped_release>());
}
