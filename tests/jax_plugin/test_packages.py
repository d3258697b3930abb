# SPDX-License-Identifier: Apache-2.0
"""Packages of exported programs with their kernel libraries, and what is wrong with some."""

from __future__ import annotations

import os
import re
import resource
import shutil
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphffi
import graphffi_jax

pytestmark = pytest.mark.needs("flatbuffers")

X = jnp.arange(6, dtype=jnp.float32).reshape(2, 3)
FILL = """
#include <tvm/ffi/c_api.h>
extern "C" TVM_FFI_DLL_EXPORT int __tvm_ffi_fill(void*, const TVMFFIAny* args, int32_t,
                                                  TVMFFIAny*) {
  auto* out = static_cast<DLTensor*>(args[1].v_ptr);
  for (int i = 0; i < 6; ++i) static_cast<float*>(out->data)[i] = VALUE;
  return 0;
}
"""


def exported(f: Callable[..., Any], *arrays: Any) -> Any:
    from jax import export

    return export.export(jax.jit(f), disabled_checks=graphffi_jax.export_checks())(*arrays)


def add_one(kernel: str) -> Callable[..., Any]:
    return lambda x: graphffi_jax.call(kernel, x, out=x)


@pytest.fixture(scope="module")
def packaged(library: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package whose kernels are nowhere else."""
    folder = tmp_path_factory.mktemp("package")
    kernels = folder / "kernels.so"
    shutil.copy(library, kernels)
    op = graphffi.define_op(
        "jaxpackage::add_one",
        schema="(Tensor x) -> Tensor",
        kernel=f"{kernels}::add_one",
        infer=graphffi.like,
    )
    path = folder / "model.zip"
    raw = add_one(f"{kernels}::add_one")
    assert graphffi_jax.package(exported(lambda x: raw(op(x)), X), path) == str(path)
    kernels.unlink()
    return path


def test_a_package_runs_in_a_process_that_knows_no_op(
    packaged: Path, run_script: Callable[..., Any]
) -> None:
    script = """
import sys
import numpy as np
import graphffi_jax
program = graphffi_jax.load_package(sys.argv[1], trust=True)
print(np.asarray(program.call(np.arange(6, dtype=np.float32).reshape(2, 3))).tolist())
"""
    result = run_script(script, packaged)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == str((np.asarray(X) + 2).tolist())


def test_packages_ask_for_trust(packaged: Path) -> None:
    with pytest.raises(ValueError, match="expected trust=True or the trusted hashes") as raised:
        graphffi_jax.load_package(packaged)
    (digest,) = re.findall("sha256 ([0-9a-f]{64})", str(raised.value))
    for trust in ({"0" * 64}, []):
        with pytest.raises(ValueError, match=f"expected a trusted sha256, got {digest}"):
            graphffi_jax.load_package(packaged, trust=trust)
    for wrong in (None, 1, digest, [1]):
        with pytest.raises(TypeError, match="trust: expected True, False or a list of SHA-256 h"):
            graphffi_jax.load_package(packaged, trust=wrong)  # type: ignore[arg-type]
    program = graphffi_jax.load_package(packaged, trust={digest.upper()})
    np.testing.assert_array_equal(jax.jit(program.call)(X), X + 2)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("library", "expected sha256 [0-9a-f]{64}, got [0-9a-f]{64}; the package is damaged"),
        ("manifest", "expected one that graphffi_jax.package wrote, got another archive"),
        ("program", "expected one that graphffi_jax.package wrote, got another archive"),
        ("missing", r"library 'kernels-\w+.so': expected it in the package, found none"),
        ("above", "expected a name without slashes or a leading dot, got one"),
        ("dots", r"library '\.\.': expected a name without slashes or a leading dot, got one"),
        ("no archive", "expected a whole archive, got a damaged one: File is not a zip file"),
        ("truncated", "expected a whole archive, got a damaged one"),
        ("flipped", "expected a whole archive, got a damaged one: Bad CRC-32"),
    ],
)
def test_damaged_packages_are_refused(
    packaged: Path, tmp_path: Path, damage: str, message: str
) -> None:
    path = tmp_path / "model.zip"
    _damage(packaged, path, damage)
    with pytest.raises(ValueError, match=message) as raised:
        graphffi_jax.load_package(path, trust=True)
    assert str(raised.value).startswith(f"graphffi_jax: package '{path}': ")


def _damage(source: Path, target: Path, damage: str) -> None:
    content = source.read_bytes()
    if damage == "no archive":
        target.write_bytes(b"nothing")
    elif damage == "truncated":
        target.write_bytes(content[: len(content) // 2])
    elif damage == "flipped":
        place = content.index(b"\x7fELF") + 5000
        target.write_bytes(content[:place] + b"?!?!" + content[place + 4 :])
    else:
        with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
            for name in old.namelist():
                if (record := _damaged(name, old.read(name), damage)) is not None:
                    new.writestr(name, record)


def _damaged(name: str, content: bytes, damage: str) -> bytes | None:
    """The record in the damaged package, None to leave it out."""
    if name.endswith(".so"):
        return None if damage == "missing" else content + b"?" * (damage == "library")
    if name.endswith(".sha256"):
        above = content.replace(b"  ", b"  ../")
        dots = content + content.split()[0] + b"  ..\n"
        changed = {"manifest": None, "dots": dots, "above": content + above}
        return changed.get(damage, content)
    return None if damage == "program" else content


def _forge(source: Path, target: Path, **records: bytes) -> Path:
    """A package with other records: of a program, of the list of libraries."""
    names = {"program": "program.jax_export", "libraries": "graphffi/libraries.sha256"}
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as new:
        forged = {names[key]: content for key, content in records.items()}
        for name in old.namelist():
            new.writestr(name, forged.get(name, old.read(name)))
    return target


@pytest.mark.parametrize("trust", [True, []])
def test_kernels_of_files_outside_of_the_package_are_refused(
    packaged: Path, library: str, tmp_path: Path, trust: Any
) -> None:
    program = bytes(exported(add_one(f"{library}::add_one"), X).serialize())
    path = _forge(packaged, tmp_path / "model.zip", program=program, libraries=b"")
    with pytest.raises(ValueError, match=r"kernel '.*::add_one': expected its library in the pack"):
        graphffi_jax.load_package(path, trust=trust)


@pytest.mark.parametrize("text", [None, "tvm_ffi.call 1"])
def test_programs_of_another_release_are_refused(
    packaged: Path, tmp_path: Path, text: str | None
) -> None:
    shape, target = jax.ShapeDtypeStruct(X.shape, X.dtype), graphffi_jax.inspect().targets[0]
    attributes = {"func": "f"} if text is None else {"call": text}
    old = exported(lambda x: jax.ffi.ffi_call(target, shape)(x, **attributes), X)
    path = _forge(packaged, tmp_path / "model.zip", program=bytes(old.serialize()))
    got = "a program made by graphffi 0.1" if text is None else f"'{text}'"
    with pytest.raises(ValueError, match=f"of the format 'tvm_ffi.call 2', got {got}; export ag"):
        graphffi_jax.load_package(path, trust=True)


def test_functions_of_the_runtime_need_all_trust(tmp_path: Path) -> None:
    program = exported(add_one("ffi.ModuleLoadFromFile"), X)
    path = graphffi_jax.package(program, tmp_path / "model.zip")
    graphffi_jax.load_package(path, trust=True)
    with pytest.raises(ValueError, match=r"ModuleLoadFromFile': expected a kernel, got a function"):
        graphffi_jax.load_package(path, trust=[])


@pytest.mark.parametrize("damage", ["empty", "text", "code"])
def test_damaged_programs_are_refused(packaged: Path, tmp_path: Path, damage: str) -> None:
    content = {"empty": b"", "text": b"?" * 100}.get(damage)
    if content is None:
        with zipfile.ZipFile(packaged) as archive:
            content = archive.read("program.jax_export").replace(b"ML\xefR", b"ML\xef?")
    path = _forge(packaged, tmp_path / "model.zip", program=content)
    with pytest.raises(
        ValueError, match=r"expected a program that jax\.export wrote, got a damaged"
    ):
        graphffi_jax.load_package(path, trust=True)


def test_nothing_but_the_list_is_read_before_there_is_trust(packaged: Path, tmp_path: Path) -> None:
    path = _forge(packaged, tmp_path / "model.zip", program=bytes(1 << 28))
    tracemalloc.start()
    with pytest.raises(ValueError, match="expected trust=True"):
        graphffi_jax.load_package(path)
    assert tracemalloc.get_traced_memory()[1] < 1 << 24
    tracemalloc.stop()
    path = _forge(packaged, tmp_path / "list.zip", libraries=bytes(1 << 28))
    with pytest.raises(ValueError, match="expected a list of libraries of 1048576 bytes"):
        graphffi_jax.load_package(path)


def test_libraries_of_a_package_are_mapped_once(packaged: Path) -> None:
    def mapped() -> int:
        return Path("/proc/self/maps").read_text().count(".so")

    graphffi_jax.load_package(packaged, trust=True)
    before = mapped()
    for _ in range(3):
        program = graphffi_jax.load_package(packaged, trust=True)
    assert mapped() == before
    np.testing.assert_array_equal(program.call(X), X + 2)


def test_so_is_one_that_is_loaded_without_python(packaged: Path) -> None:
    graphffi_jax.load_package(packaged, trust=True)
    load = graphffi.get_global_func("graphffi_jax.load_libraries")
    with zipfile.ZipFile(packaged) as archive:
        manifest = archive.read("graphffi/libraries.sha256").decode()
        names = manifest.split()[1::2]
        contents = {name: archive.read(f"graphffi/{name}") for name in names}
    before = Path("/proc/self/maps").read_text().count(".so")
    load("test", manifest, None, contents)
    assert Path("/proc/self/maps").read_text().count(".so") == before


def test_only_exported_programs_are_packaged(tmp_path: Path) -> None:
    text = "graphffi_jax: package: expected a program of jax.export.export, got PjitFunction"
    with pytest.raises(TypeError, match=text):
        graphffi_jax.package(jax.jit(lambda x: x), tmp_path / "model.zip")  # type: ignore[arg-type]


def test_a_package_that_cannot_be_written_leaves_the_one_before(
    library: str, tmp_path: Path
) -> None:
    path = tmp_path / "model.zip"
    path.write_text("before")
    program = exported(add_one(f"{library}::add_one"), X)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))  # as if the disk were full
    try:
        with pytest.raises(OSError, match=re.escape(f"File too large: '{path}'")):
            graphffi_jax.package(program, path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (path.read_text(), os.listdir(tmp_path)) == ("before", ["model.zip"])


def test_a_missing_archive_is_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        graphffi_jax.load_package(tmp_path / "model.zip", trust=True)


def test_packages_of_two_builds_of_a_library_run_side_by_side(tmp_path: Path) -> None:
    source = tmp_path / "fill.cc"
    source.write_text(FILL)
    kernels = tmp_path / "fill.so"
    for value in (1, 2):
        flags = [f"-DVALUE={value}"]
        built = graphffi.cpp.build("fill", sources=[str(source)], extra_cflags=flags)
        shutil.copy(built, tmp_path / "new.so")
        (tmp_path / "new.so").replace(kernels)
        fill = add_one(f"{kernels}::fill")
        graphffi_jax.package(exported(fill, X), tmp_path / f"{value}.zip")
    for value in (1, 2):
        program = graphffi_jax.load_package(tmp_path / f"{value}.zip", trust=True)
        np.testing.assert_array_equal(program.call(X), np.full(X.shape, value))


def test_libraries_have_to_be_those_of_the_export(library: str, tmp_path: Path) -> None:
    kernels = tmp_path / "kernels.so"
    shutil.copy(library, kernels)
    program = exported(add_one(f"{kernels}::add_one"), X)
    with kernels.open("ab") as file:
        file.write(b"\0")
    with pytest.raises(ValueError, match=r"expected the library with which the program was export"):
        graphffi_jax.package(program, tmp_path / "model.zip")
    kernels.unlink()
    with pytest.raises(FileNotFoundError, match=r"expected the kernel library '.*kernels.so'"):
        graphffi_jax.package(program, tmp_path / "model.zip")
    assert not (tmp_path / "model.zip").exists()


def test_global_functions_are_named_where_they_are_missing(tmp_path: Path) -> None:
    graphffi.register_global_func("jaxpackage.copy", lambda x, y: None)
    program = exported(add_one("jaxpackage.copy"), X)
    path = graphffi_jax.package(program, tmp_path / "model.zip")
    assert graphffi_jax.load_package(path, trust=True).call(X).shape == X.shape
    graphffi.remove_global_func("jaxpackage.copy")
    with pytest.raises(KeyError, match=r"expected the global functions of its .*'jaxpackage.copy'"):
        graphffi_jax.load_package(path, trust=True)


def test_gradients_travel_along(library: str, tmp_path: Path) -> None:
    kernels = tmp_path / "backward.so"
    shutil.copy(library, kernels)
    options: Any = {"schema": "(Tensor x) -> Tensor", "infer": graphffi.like}
    forward = graphffi.define_op("jaxpackage::f", kernel=f"{library}::add_one", **options)
    backward = graphffi.define_op("jaxpackage::b", kernel=f"{kernels}::add_one", **options)
    forward.register_vjp(lambda saved, grad: backward(grad))
    path = graphffi_jax.package(exported(forward, X), tmp_path / "model.zip", vjp_order=1)
    kernels.unlink()
    program = graphffi_jax.load_package(path, trust=True)
    np.testing.assert_array_equal(program.vjp().call(X, X)[0], X + 1)
