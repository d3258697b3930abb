# SPDX-License-Identifier: Apache-2.0
"""No argument crashes a call: of the package, of the bindings, of kernels, of the runtime."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

import graphffi

PROGRAM = Path(__file__).with_name("hostile_calls.py")
CALLS = 40_000
DESCRIBED = r"""
#include <tvm/ffi/tvm_ffi.h>
static std::string& Metadata() {
  static std::string* text = new std::string();
  return *text;
}
static void SetMetadata(tvm::ffi::Bytes text) { Metadata().assign(text.data(), text.size()); }
TVM_FFI_DLL_EXPORT_TYPED_FUNC(set_metadata, SetMetadata);
extern "C" TVM_FFI_DLL_EXPORT int __tvm_ffi_f(void*, const TVMFFIAny*, int32_t, TVMFFIAny*) {
  return 0;
}
extern "C" TVM_FFI_DLL_EXPORT int __tvm_ffi__metadata_f(void*, const TVMFFIAny*, int32_t,
                                                        TVMFFIAny* result) {
  TVMFFIByteArray bytes = {Metadata().data(), Metadata().size()};
  return TVMFFIStringFromByteArray(&bytes, result);
}
"""


def test_calls_with_arguments_of_any_kind_only_raise(kernels_path: str, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore", str(PROGRAM), kernels_path, str(CALLS), "1", "0"]
    beside = {**os.environ, "PYTHONSAFEPATH": ""}  # the program imports a module of its folder
    result = subprocess.run(command, cwd=tmp_path, env=beside, capture_output=True, text=True)
    assert result.returncode == 0, f"{tmp_path}\n{result.stdout}\n{result.stderr}"


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> graphffi.Module:
    """A library whose function `f` has the metadata that `set_metadata` says."""
    source = tmp_path_factory.mktemp("described") / "described.cc"
    source.write_text(DESCRIBED)
    return graphffi.load_module(graphffi.cpp.build("described", [source], extra_cflags=["-O1"]))


def test_both_forms_of_metadata_are_read(described: graphffi.Module) -> None:
    for schema in ({"type": "ffi.Function", "args": [{"type": "None"}]}, {"type": "ffi.Function"}):
        for form in (schema, json.dumps(schema)):
            described.set_metadata(json.dumps({"type_schema": form}).encode())
            assert described.get_function_metadata("f") == {"type_schema": schema}


@pytest.mark.parametrize(
    "text",
    [b"", b"[1]", b"{", b'"text"', b'{"type_schema": "{"}', b"\xff", b"[" * 100_000, b"null"],
    ids=["empty", "list", "open", "string", "schema", "utf8", "deep", "null"],
)
def test_metadata_that_is_no_object_is_refused(described: graphffi.Module, text: bytes) -> None:
    described.set_metadata(text)
    with pytest.raises(ValueError, match="metadata of function 'f': expected a JSON object, got"):
        described.get_function_metadata("f")


def test_mutated_metadata_is_read_or_refused(described: graphffi.Module) -> None:
    seed = json.dumps({"type_schema": json.dumps({"type": "ffi.Function", "args": [1, 2.5e3]})})
    chosen, refused = random.Random(1), 0
    for _ in range(3000):
        text = bytearray(seed.encode())
        for _ in range(chosen.randrange(1, 4)):
            place = chosen.randrange(len(text))
            text[place : place + chosen.randrange(3)] = chosen.randbytes(chosen.randrange(3))
        described.set_metadata(bytes(text))
        try:
            assert isinstance(described.get_function_metadata("f"), dict)
        except ValueError:
            refused += 1
    assert refused > 1000


@pytest.mark.parametrize("kind", [10**6, -5, 2**40, "no.such.type"])
def test_objects_of_unknown_types_are_refused(kind: object) -> None:
    if graphffi.runtime_info().kind != "bundled":
        pytest.skip("how other runtimes refuse them is theirs")
    make = graphffi.get_global_func("ffi.MakeObjectFromPackedArgs")
    with pytest.raises(ValueError, match=f"expected .* type.*, got {kind}"):
        make(kind)


def test_an_object_has_each_field_once() -> None:
    if graphffi.runtime_info().kind != "bundled":
        pytest.skip("how other runtimes refuse it is theirs")
    make = graphffi.get_global_func("ffi.MakeObjectFromPackedArgs")
    with pytest.raises(TypeError, match="expected each field once, got `kind` twice"):
        make("ffi.reflection.AccessStep", "kind", 1, "kind", 2)


@pytest.mark.parametrize("name", ["Visitor", "Mutator"])
def test_none_is_no_visitor(name: str) -> None:
    if graphffi.runtime_info().kind != "bundled":
        pytest.skip("how other runtimes refuse it is theirs")
    with pytest.raises(TypeError, match="but got `None`"):
        graphffi.get_global_func(f"ffi.Structural{name}DefRegionKind")(None)


@pytest.mark.parametrize("kind", [10**8, -7])
def test_walks_pass_over_functions_for_unknown_types(kind: int) -> None:
    if graphffi.runtime_info().kind != "bundled":
        pytest.skip("how other runtimes take them is theirs")
    walk = graphffi.get_global_func("ffi.StructuralWalk")
    assert walk([1, 2], [(kind, lambda value: 0)], [], 0) is None


@pytest.mark.parametrize("index", [0, 8, 11, -2, 10**6])
def test_fields_of_no_type_are_refused(index: int) -> None:
    if graphffi.runtime_info().kind != "bundled":
        pytest.skip("how other runtimes refuse them is theirs")
    with pytest.raises(ValueError, match=f"a field can have, got {index}"):
        graphffi.get_global_func("ffi.MakeFieldGetter")(index)
    with pytest.raises(ValueError, match=f"a field can have, got {index}"):
        graphffi.get_global_func("ffi.MakeFieldSetter")(index, 0, 1)


def test_setters_refuse_what_is_no_address() -> None:
    if graphffi.runtime_info().kind != "bundled":
        pytest.skip("how other runtimes refuse it is theirs")
    with pytest.raises(ValueError, match="expected the address of a function, got 0"):
        graphffi.get_global_func("ffi.MakeFieldSetter")(1, 0, 0)
    set_field = graphffi.get_global_func("ffi.MakeFieldSetter")(1, 0, 1)
    with pytest.raises(ValueError, match="expected the address of a field, got null"):
        set_field(None, 1)


@pytest.mark.parametrize(("index", "size"), [(71, 56), (10**6, 56), (-1, 56), (0, 24)])
def test_types_that_no_host_language_defines_are_refused(index: int, size: int) -> None:
    if graphffi.runtime_info().kind != "bundled":
        pytest.skip("how other runtimes refuse them is theirs")
    with pytest.raises(ValueError, match=f"a host language defines, got {index}"):
        graphffi.get_global_func("ffi._PyClassRegisterTypeAttrColumns")(index, size)


@pytest.mark.parametrize("index", [255, 10**6, -5])
def test_constructors_of_no_type_are_refused(index: int) -> None:
    if graphffi.runtime_info().kind != "bundled":
        pytest.skip("how other runtimes refuse them is theirs")
    with pytest.raises(ValueError, match=f"expected the index of a type, got {index}"):
        graphffi.get_global_func("ffi._RegisterFFIInit")(index)


def test_functions_of_the_runtime_have_metadata() -> None:
    names = graphffi.list_global_func_names()
    described = graphffi.get_global_func("ffi.GetGlobalFuncMetadata")
    for name in (name for name in names if name.startswith("ffi.") and "." not in name[4:]):
        schema = json.loads(json.loads(described(name))["type_schema"])
        assert schema["type"] == "ffi.Function", name
    schema = json.loads(json.loads(described("ffi.ListReplaceSlice"))["type_schema"])
    numbers = [{"type": "int"}] * 2
    items = {"type": "ffi.List", "args": [{"type": "Any"}]}
    assert schema["named_args"] == {
        "return": [{"type": "None"}],
        "params": [items, *numbers, items],
    }
