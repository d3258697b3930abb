# SPDX-License-Identifier: Apache-2.0
"""What the built libraries export, import and link: either runtime must be able to serve them."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sysconfig
from importlib import metadata
from pathlib import Path

import pytest


def release_of(package: str) -> str:
    """``2.13`` of ``2.13.0+cpu``, or an empty text."""
    try:
        return ".".join(metadata.version(package).split(".")[:2])
    except metadata.PackageNotFoundError:
        return ""


ROOT = Path(__file__).resolve().parents[2]
SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")
RUNTIME = ROOT / "graphffi/_lib/libtvm_ffi.so"
CORE = ROOT / f"graphffi/_core{SUFFIX}"
TORCH_BUILD = ROOT / f"plugins/torch/graphffi_torch/lib/torch-{release_of('torch')}"
TORCH = TORCH_BUILD / "libgraphffi_torch.so"
TORCH_PYTHON = TORCH_BUILD / f"_C{SUFFIX}"
JAX = ROOT / "plugins/jax/graphffi_jax/lib/libgraphffi_jax.so"
ONNXRUNTIME = ROOT / "plugins/onnxruntime/graphffi_onnxruntime/lib/libgraphffi_onnxruntime.so"
CALLERS = [CORE, TORCH, TORCH_PYTHON, JAX, ONNXRUNTIME]
PYTHON_FREE = [RUNTIME, TORCH, JAX, ONNXRUNTIME]
EXPORTED = Path(__file__).with_name("exported_symbols.txt")
MAX_RUNTIME_BYTES = 620_000


def built(path: Path) -> Path:
    """`path`, or a skip where that part was not built."""
    if not path.exists():
        pytest.skip(f"{path.name} was not built")
    return path


def symbols(path: Path, *, defined: bool) -> set[str]:
    """Names in the dynamic symbol table, without their versions."""
    option = "--defined-only" if defined else "--undefined-only"
    command = ["nm", "-D", "-P", option, str(path)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return {re.sub(r"@.*", "", line.split()[0]) for line in lines}


def exported(path: Path) -> set[str]:
    """What a library exports; the C++ between the torch plugin's libraries as one name."""
    command = ["nm", "-D", "-C", "--defined-only", str(path)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    names = {re.sub(r"[@(].*", "", line.split(maxsplit=2)[2]) for line in lines}
    return {
        re.sub(r"^((typeinfo|vtable)\b.* )?graphffi_torch::.*", "graphffi_torch::*", name)
        for name in names
    }


def allowed_exports(path: Path) -> set[str]:
    """What `exported_symbols.txt` lists of the library."""
    sections = re.split(r"^\[(.+)\]$", EXPORTED.read_text(), flags=re.MULTILINE)
    lists = dict(zip(sections[1::2], sections[2::2], strict=True))
    return set(lists[path.name.replace(SUFFIX, ".so")].strip().splitlines())


def dynamic(path: Path, tag: str) -> list[str]:
    """The values of one tag of the dynamic section."""
    command = ["readelf", "--dynamic", "--wide", str(path)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return re.findall(rf"\({tag}\)[^\[\n]*\[([^\]]*)\]", text)


def declared_functions() -> set[str]:
    """The C functions that the ABI headers declare."""
    include = ROOT / "csrc/include/tvm/ffi"
    text = "".join((include / f).read_text() for f in ("c_api.h", "extra/c_env_api.h"))
    return set(re.findall(r"^TVM_FFI_DLL\s[^;(]*?\b(TVMFFI\w+)\(", text, re.MULTILINE))


def installed_runtime() -> Path:
    """The library of apache-tvm-ffi, or a skip."""
    spec = importlib.util.find_spec("tvm_ffi")
    if spec is None or spec.origin is None:
        pytest.skip("apache-tvm-ffi is not installed")
    return Path(spec.origin).parent / "lib/libtvm_ffi.so"


def is_cpp_of_tvm_ffi(name: str) -> bool:
    """Whether a mangled name is of namespace tvm::ffi itself: two runtimes would share it."""
    inline_namespace = re.search(r"3tvm3ffi\d+graphffi", name) is not None
    return name.startswith("_Z") and "3tvm3ffi" in name and not inline_namespace


def caller_violations(undefined: set[str], needed: list[str], served: set[str]) -> list[str]:
    """Why a library that calls kernels would not run on every runtime."""
    found = [f"imports {name}, a C++ symbol" for name in undefined if is_cpp_of_tvm_ffi(name)]
    ours = {name for name in undefined if name.startswith("TVMFFI")}
    found += [f"imports {name}, which no runtime has to have" for name in ours - served]
    if "libtvm_ffi.so" not in needed:
        found.append("does not need libtvm_ffi.so")
    return found


@pytest.mark.parametrize("path", [RUNTIME, *CALLERS], ids=lambda p: p.name)
def test_a_library_exports_what_is_listed(path: Path) -> None:
    assert exported(built(path)) == allowed_exports(path), f"if it is meant so: {EXPORTED.name}"


def test_headers_declare_the_functions_that_the_runtime_exports() -> None:
    listed = {name for name in allowed_exports(RUNTIME) if name.startswith("TVMFFI")}
    assert listed == declared_functions()


def test_headers_declare_the_functions_of_the_installed_runtime() -> None:
    exported = symbols(installed_runtime(), defined=True)
    assert declared_functions() == {name for name in exported if name.startswith("TVMFFI")}


def test_runtime_is_called_as_kernels_expect_it() -> None:
    assert dynamic(built(RUNTIME), "SONAME") == ["libtvm_ffi.so"]


def test_runtime_binds_to_itself() -> None:
    command = ["readelf", "--dynamic", "--wide", str(built(RUNTIME))]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "SYMBOLIC" in text


def test_runtime_is_small(tmp_path: Path) -> None:
    stripped = tmp_path / "libtvm_ffi.so"
    subprocess.run(["strip", "-o", str(stripped), str(built(RUNTIME))], check=True)
    assert stripped.stat().st_size <= MAX_RUNTIME_BYTES


@pytest.mark.parametrize("path", CALLERS, ids=lambda p: p.name)
def test_callers_run_on_any_runtime(path: Path) -> None:
    undefined = symbols(built(path), defined=False)
    assert not caller_violations(undefined, dynamic(path, "NEEDED"), declared_functions())


@pytest.mark.parametrize("path", [RUNTIME, *CALLERS], ids=lambda p: p.name)
def test_no_library_finds_others_by_path(path: Path) -> None:
    # Hosts without Python have the runtime beside it; where one is loaded, the loader takes that.
    own = ["$ORIGIN:$ORIGIN/../../graphffi/_lib"] if path == ONNXRUNTIME else []
    assert dynamic(built(path), "RPATH") + dynamic(path, "RUNPATH") == own


@pytest.mark.parametrize("path", PYTHON_FREE, ids=lambda p: p.name)
def test_python_free_libraries_are(path: Path) -> None:
    undefined = symbols(built(path), defined=False)
    assert not {name for name in undefined if re.match(r"_?Py[A-Z]", name)}
    assert not [name for name in dynamic(path, "NEEDED") if "python" in name]


@pytest.mark.parametrize("path", [RUNTIME, CORE, JAX, ONNXRUNTIME], ids=lambda p: p.name)
def test_libraries_without_torch_are(path: Path) -> None:
    assert not [n for n in dynamic(built(path), "NEEDED") if "torch" in n or n.startswith("libc10")]


@pytest.mark.parametrize("path", [RUNTIME, *CALLERS], ids=lambda p: p.name)
def test_no_library_holds_a_path_of_the_build_machine(path: Path) -> None:
    assert str(ROOT).encode() not in built(path).read_bytes()


def test_the_guard_sees_what_ties_a_caller_to_a_runtime() -> None:
    served = {"TVMFFIFunctionCall"}
    needed = ["libtvm_ffi.so", "libc.so.6"]
    assert not caller_violations({"TVMFFIFunctionCall", "malloc"}, needed, served)
    assert caller_violations({"TVMFFIFunctionCall"}, ["libc.so.6"], served)
    assert caller_violations({"TVMFFINew"}, needed, served)
    assert caller_violations({"_ZN3tvm3ffi5ErrorC1Ev"}, needed, served)


def test_the_guard_reads_libraries() -> None:
    library = built(RUNTIME)
    assert "TVMFFIFunctionCall" in symbols(library, defined=True)
    assert any(name.startswith("libc.so") for name in dynamic(library, "NEEDED"))
