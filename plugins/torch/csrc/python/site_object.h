// SPDX-License-Identifier: Apache-2.0
// A call site as a Python callable, for the Python code that Inductor generates.
#pragma once

#include <pybind11/pybind11.h>

namespace graphffi_torch {

/// Adds `SiteArguments` and `call_site_v3` to the module. Generated code is cached: a change here
/// takes a new name.
void AddSiteObject(pybind11::module_& module);

}  // namespace graphffi_torch
