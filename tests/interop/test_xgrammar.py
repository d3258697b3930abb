# SPDX-License-Identifier: Apache-2.0
"""The library of xgrammar, which apache-tvm-ffi's headers were compiled into, and its functions."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphffi


@pytest.fixture(scope="module")
def function(xgrammar_library: Path) -> Callable[[str], graphffi.Function]:
    """Functions by name."""
    graphffi.load_module(xgrammar_library)
    return lambda name: graphffi.get_global_func(f"xgrammar.tvm_ffi_binding.{name}")


Lookup = Callable[[str], Any]


def test_numbers_pass_both_ways(function: Lookup) -> None:
    depth = function("config.get_max_recursion_depth")()
    function("config.set_max_recursion_depth")(depth + 5)
    assert function("config.get_max_recursion_depth")() == depth + 5
    function("config.set_max_recursion_depth")(depth)
    assert isinstance(function("config.get_serialization_version")(), str)


def test_text_passes_both_ways(function: Lookup) -> None:
    assert function("testing._regex_to_ebnf")("[a-c]+x", True).startswith("root ::=")
    number = re.compile(function("testing._generate_range_regex")(1, 30))
    assert [n for n in range(100) if number.match(str(n))] == list(range(1, 31))
    schema = '{"type": "object", "properties": {"n": {"type": "integer"}}}'
    arguments = (schema, True, None, None, True, None, "json", False)
    assert '"\\"n\\""' in function("testing._json_schema_to_ebnf")(*arguments)


def test_objects_and_their_text(function: Lookup) -> None:
    text = 'root ::= "a" rule\nrule ::= "b" | "c"\n'
    grammar = function("testing._ebnf_to_grammar_no_normalization")(text, "root")
    assert isinstance(grammar, graphffi.Object)
    assert grammar.type_key.startswith("xgrammar.")
    normal = function("testing.grammar_functor.structure_normalizer")(grammar)
    assert normal.type_key == grammar.type_key


def test_error_of_the_library_arrives(function: Lookup) -> None:
    with pytest.raises(RuntimeError, match=r"EBNF"):
        function("testing._ebnf_to_grammar_no_normalization")("root ::= (", "root")
    with pytest.raises(TypeError, match=r"Cannot convert from type `ffi.SmallStr` to `int`"):
        function("testing._generate_range_regex")("one", 2)
    assert function("testing._regex_to_ebnf")("a", False)


def test_bitmask_is_applied_in_place(function: Lookup) -> None:
    logits = np.arange(64, dtype=np.float32).reshape(1, 64)
    bitmask = np.array([[0b1011, 1 << 31]], np.uint32).view(np.int32)
    pointers = (logits.ctypes.data, (1, 64), (64, 1), bitmask.ctypes.data, (1, 2), (2, 1))
    function("kernels.apply_token_bitmask_inplace_cpu")(*pointers, 64, None, "float32")
    assert np.flatnonzero(np.isfinite(logits[0])).tolist() == [0, 1, 3, 63]
    masked = function("testing._get_masked_tokens_from_bitmask")(bitmask.ctypes.data, [1, 2], 64, 0)
    assert list(masked) == [i for i in range(64) if i not in (0, 1, 3, 63)]
