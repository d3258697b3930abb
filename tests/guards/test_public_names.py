# SPDX-License-Identifier: Apache-2.0
"""`graphffi` has few names, for users; what plugins need of it is in `graphffi.plugin`."""

from __future__ import annotations

import types

import graphffi
import graphffi.cpp
import graphffi.plugin

MOST_NAMES = 33
NAMES = """
    Device Error Function Module Object Op Shape Tensor TensorSpec call_tvm_ffi check cpp declare
    define_op dtype empty from_dlpack get_global_func like list_global_func_names load_module
    load_ops op prebuild record register_error register_global_func remove_global_func
    runtime_info tune use_prebuilt use_stream use_tuning
"""


def public_names(module: types.ModuleType) -> set[str]:
    return {name for name in vars(module) if not name.startswith("_")} - {"annotations"}


def test_users_have_these_names_and_no_others() -> None:
    names = set(NAMES.split())
    assert public_names(graphffi) - {"plugin", "testing"} == names
    assert len(names) <= MOST_NAMES


def test_a_star_imports_what_users_have() -> None:
    assert set(graphffi.__all__) == set(NAMES.split())


def test_names_for_plugins_are_not_names_for_users() -> None:
    assert not public_names(graphffi.plugin) & public_names(graphffi)
