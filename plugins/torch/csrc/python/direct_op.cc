// SPDX-License-Identifier: Apache-2.0
#include "python/direct_op.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace graphffi_torch {

Kind KindOf(const std::string& name) {
  static const std::unordered_map<std::string, Kind> kinds = {
      {"tensor", Kind::kTensor}, {"optional", Kind::kOptional}, {"list", Kind::kTensors},
      {"int", Kind::kInt},       {"float", Kind::kFloat},       {"bool", Kind::kBool},
      {"str", Kind::kStr},       {"dtype", Kind::kDType},       {"device", Kind::kDevice}};
  const auto found = kinds.find(name);
  return found == kinds.end() ? Kind::kOther : found->second;
}

DirectOp::DirectOp(const OpCall& op_call, std::vector<Parameter> of_schema, PyObject* opt_type,
                   bool releases_gil)
    : call(&op_call),
      parameters(std::move(of_schema)),
      num_parameters(static_cast<Py_ssize_t>(parameters.size())),
      num_by_position(std::count_if(parameters.begin(), parameters.end(),
                                    [](const Parameter& p) { return !p.is_by_name; })),
      opt_result_type(opt_type),
      release_gil(releases_gil),
      opt_only_updated(FindOnlyUpdated()),
      may_record(MayRecord()) {}

/// Writes are not recorded, and are refused elsewhere. Data types and devices travel by name.
bool DirectOp::MayRecord() const {
  for (const Parameter& parameter : parameters) {
    if (parameter.is_mutated || parameter.kind > Kind::kStr) return false;
  }
  return true;
}

int DirectOp::FindOnlyUpdated() const {
  int found = -1;
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (!parameters[i].is_mutated) continue;
    if (found >= 0 || parameters[i].kind == Kind::kTensors) return -1;
    found = static_cast<int>(i);
  }
  return call->num_results() == 0 ? found : -1;
}

}  // namespace graphffi_torch
