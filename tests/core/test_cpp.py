# SPDX-License-Identifier: Apache-2.0
"""Compiling kernels from Python."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import graphffi
from graphffi._build import objects as _objects

TWICE = "int twice(int x) { return 2 * x; }"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("GRAPHFFI_CACHE_DIR", str(folder))
    return folder


def test_text_becomes_a_module() -> None:
    mod = graphffi.cpp.load_inline("demo", cpp_sources=TWICE, functions="twice")
    assert mod.twice(4) == 8


def test_files_of_the_cache_that_a_power_failure_left_empty_are_made_anew(cache: Path) -> None:
    first = graphffi.cpp.build("demo", cpp_sources=TWICE, functions=["twice"])
    for file in cache.rglob("*"):
        if file.is_file():
            file.write_bytes(b"")
    assert graphffi.cpp.build("demo", cpp_sources=TWICE, functions=["twice"]) == first
    assert graphffi.load_module(first).twice(4) == 8


@pytest.mark.slow
def test_several_texts_and_documented_functions() -> None:
    mod = graphffi.cpp.load_inline(
        "demo",
        cpp_sources=["static int two() { return 2; }", "int f() { return two(); }"],
        functions={"f": 'The "two" of \\ ünï??/.'},
    )
    assert mod.f() == 2
    assert mod.f.doc == 'The "two" of \\ ünï??/.'


def test_files_become_a_module(tmp_path: Path) -> None:
    source = tmp_path / "with space.cc"
    (tmp_path / "two.h").write_text("#define TWO 2\n")
    source.write_text(
        '#include <tvm/ffi/tvm_ffi.h>\n#include "two.h"\n'
        "int F() { return TWO; }\nTVM_FFI_DLL_EXPORT_TYPED_FUNC(f, F);\n"
    )
    assert graphffi.cpp.load("files", [source]).f() == 2


def test_same_library_is_found_again() -> None:
    first = graphffi.cpp.build("demo", cpp_sources=TWICE, functions=["twice"])
    stamp = os.stat(first).st_mtime_ns
    assert graphffi.cpp.build("demo", cpp_sources=TWICE, functions=["twice"]) == first
    assert os.stat(first).st_mtime_ns == stamp


@pytest.mark.slow
def test_changed_source_flags_or_header_build_anew(tmp_path: Path) -> None:
    header, source = tmp_path / "n.h", tmp_path / "k.cc"
    source.write_text(
        '#include <tvm/ffi/tvm_ffi.h>\n#include "n.h"\n'
        "int F() { return N; }\nTVM_FFI_DLL_EXPORT_TYPED_FUNC(f, F);\n"
    )
    paths = []
    for number in (1, 2, 1):
        header.write_text(f"#define N {number}\n")
        paths.append(graphffi.cpp.build("k", [source]))
        assert graphffi.load_module(paths[-1]).f() == number
    assert paths[0] == paths[2] != paths[1]
    assert graphffi.cpp.build("k", [source], extra_cflags=["-DUNUSED_NAME"]) != paths[0]


PLAIN = """#include <tvm/ffi/c_api.h>
extern "C" __attribute__((visibility("default"))) int __tvm_ffi_number(
    void*, const TVMFFIAny*, int32_t, TVMFFIAny* result) {
  result->type_index = kTVMFFIInt;
  result->v_int64 = NUMBER;
  return 0;
}
"""


@pytest.mark.parametrize("name", ["dol$lar", "back\\slash", "hash # and space", "co:lon", "ünï"])
def test_a_changed_header_is_seen_in_a_folder_of_any_name(tmp_path: Path, name: str) -> None:
    source = tmp_path / name / "k.cc"
    source.parent.mkdir()
    source.write_text(f'#include "number.h"\n{PLAIN}')
    for number in (1, 2):
        (source.parent / "number.h").write_text(f"#define NUMBER {number}\n")
        assert graphffi.cpp.load("k", [source]).number() == number


@pytest.mark.slow
@pytest.mark.parametrize(
    "flags",
    [
        *(["-Iinclude"], ["-I", "include"], ["-isystem", "include"], ["-Wp,-Iinclude"]),
        *(["--include-directory=include"], ["@flags"], []),
    ],
    ids=str,
)
def test_a_relative_include_path_is_one_of_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: list[str]
) -> None:
    for number in (1, 2):
        folder = tmp_path / str(number)
        (folder / "include").mkdir(parents=True)
        (folder / "include" / "number.h").write_text(f"#define NUMBER {number}\n")
        (folder / "flags").write_text("-Iinclude")
        monkeypatch.chdir(folder)
        if not flags:
            monkeypatch.setenv("CPATH", "include")
        text = f'#include "number.h"\n{PLAIN}'
        module = graphffi.cpp.load_inline("k", cpp_sources=text, extra_cflags=flags)
        assert module.number() == number


@pytest.mark.slow
@pytest.mark.parametrize("new", ["first/number.h", "second/in/number.h", "named/number.h"])
def test_a_header_that_takes_the_place_of_another_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, new: str
) -> None:
    for folder in ("first", "second/in", "named"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "second/in/includer.h").write_text('#include "number.h"\n')
    monkeypatch.setenv("CPATH", f"{tmp_path / 'named'}:{tmp_path / 'last'}")
    (tmp_path / "last").mkdir()
    (tmp_path / "last/number.h").write_text("#define NUMBER 1\n")
    text = f'#include "in/includer.h"\n{PLAIN}'
    folders = [tmp_path / "first", tmp_path / "second"]
    for number in (1, 2):
        module = graphffi.cpp.load_inline("k", cpp_sources=text, extra_include_paths=folders)
        assert module.number() == number
        (tmp_path / new).write_text("#define NUMBER 2\n")


@pytest.mark.slow
def test_a_header_behind_a_link_is_seen(tmp_path: Path) -> None:
    (tmp_path / "elsewhere/below").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere/below")
    for number in (1, 2):
        (tmp_path / "elsewhere/number.h").write_text(f"#define NUMBER {number}\n")
        module = graphffi.cpp.load_inline(
            "k",
            cpp_sources=f'#include "number.h"\n{PLAIN}',
            extra_include_paths=[tmp_path / "link/.."],
        )
        assert module.number() == number


def test_flags_for_rules_of_make_are_refused() -> None:
    with pytest.raises(ValueError, match=r"expected no flag for rules of make, .*, got '-MMD'"):
        graphffi.cpp.build("k", cpp_sources=PLAIN, extra_cflags=["-MMD"])


def test_absolute_include_paths_mean_the_same_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for folder in ("first", "second"):
        (tmp_path / folder).mkdir()
        monkeypatch.chdir(tmp_path / folder)
        flags = ["-isystem", str(tmp_path), f"-I{tmp_path}"]
        graphffi.cpp.build(
            "k", cpp_sources=f"#define NUMBER 1\n{PLAIN}", extra_cflags=flags, verbose=True
        )
    assert capfd.readouterr().err.count("k.cc -o") == 1


@pytest.mark.parametrize(
    "flags",
    [
        *(["{}/libn.a"], ["-L{}", "-ln"], ["-L", "{}", "-l", "n"], ["-Wl,{}/libn.a"]),
        *(["-L{}", "-l:libn.a"], ["@{}/flags"], ["-Wl,--library-path={},--library=n"]),
    ],
)
def test_a_changed_library_is_linked_anew(tmp_path: Path, flags: list[str]) -> None:
    source = tmp_path / "k.cc"
    source.write_text(f'extern "C" int n();\n#define NUMBER n()\n{PLAIN}')
    flags = [flag.format(tmp_path) for flag in flags]
    (tmp_path / "flags").write_text(f"{tmp_path}/libn.a")
    for number in (1, 2):
        (tmp_path / "n.c").write_text(f"int n(void) {{ return {number}; }}\n")
        subprocess.run(["gcc", "-fPIC", "-c", "n.c"], cwd=tmp_path, check=True)
        (tmp_path / "libn.a").unlink(missing_ok=True)
        subprocess.run(["ar", "rc", "libn.a", "n.o"], cwd=tmp_path, check=True)
        assert graphffi.cpp.load("k", [source], extra_ldflags=flags).number() == number


def test_errors_may_quote_text_of_any_encoding(tmp_path: Path) -> None:
    source = tmp_path / "k.cc"
    source.write_bytes('int x = "größer";\n'.encode("latin-1"))
    with pytest.raises(RuntimeError, match=r"gr\\xf6\\xdfer"):
        graphffi.cpp.build("k", [source])


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"sources": "k.cc"}, "sources: expected a list of paths, got 'k.cc'"),
        ({"extra_cflags": "-O3"}, "extra_cflags: expected a list of texts, got '-O3'"),
        ({"extra_ldflags": [3]}, r"extra_ldflags: expected a list of texts, got \[3\]"),
        ({"extra_include_paths": "/include"}, "extra_include_paths: expected a list of paths, got"),
        ({"cpp_sources": b"int x;"}, "cpp_sources: expected a list of texts, got b'int x;'"),
        ({"functions": [None]}, r"functions: expected a list of texts, got \[None\]"),
    ],
)
def test_a_text_is_no_list(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(TypeError, match=f"graphffi.cpp: demo: {problem}"):
        graphffi.cpp.build("demo", **{"cpp_sources": TWICE, **options})


def write_files(folder: Path, numbers: dict[str, int]) -> list[Path]:
    """Sources with one function each, named as the file, and the header `two.h` for all."""
    folder.mkdir(exist_ok=True)
    (folder / "two.h").write_text("#include <tvm/ffi/tvm_ffi.h>\n#define TWO 2\n")
    for name, number in numbers.items():
        (folder / f"{name}.cc").write_text(
            f'#include "two.h"\nstatic int F() {{ return TWO * {number}; }}\n'
            f"TVM_FFI_DLL_EXPORT_TYPED_FUNC({name}, F);\n"
        )
    return [folder / f"{name}.cc" for name in numbers]


@pytest.mark.slow
def test_a_changed_file_is_compiled_alone(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    graphffi.cpp.build("k", write_files(tmp_path / "s", {"a": 1, "b": 2}), verbose=True)
    first = capfd.readouterr().err
    assert "2 of 2 files compiled" in first
    assert [f"{name}.cc -o" in first for name in "ab"] == [True, True]
    changed = write_files(tmp_path / "s", {"a": 1, "b": 3})
    module = graphffi.cpp.load("k", changed, verbose=True)
    second = capfd.readouterr().err
    assert (module.a(), module.b()) == (2, 6)
    assert [f"{name}.cc -o" in second for name in "ab"] == [False, True]
    graphffi.cpp.build("k", changed, verbose=True)
    assert capfd.readouterr().err == ""


@pytest.mark.slow
def test_libraries_share_objects(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    a, b = write_files(tmp_path / "s", {"a": 1, "b": 2})
    graphffi.cpp.build("one", [a])
    module = graphffi.cpp.load("two", [a, b], verbose=True)
    assert "a.cc -o" not in capfd.readouterr().err
    assert (module.a(), module.b()) == (2, 4)


def check_machines(told: Path, source: Path, machines: tuple[str, str], **flags: Any) -> None:
    """Builds for a machine, another one and the first again, of which a file tells the compiler."""
    made = []
    for machine in (*machines, machines[0]):
        told.write_text(machine)
        _objects._native_code.cache_clear()
        made.append(Path(graphffi.cpp.build("n", [source], **flags)).read_bytes())
    assert made[0] == made[2] != made[1]


def test_code_for_this_processor_is_not_taken_for_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    processor, compiler = tmp_path / "processor", tmp_path / "c++"
    compiler.write_text(f'#!/bin/sh\nexec g++ "$@" $(cat {processor})\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    (tmp_path / "a.cc").write_text("extern const char* kName;\nconst char* kName = SHOWN;\n")
    one, two = (f'-D__PROCESSOR__={name} -DSHOWN="{name}"' for name in ("one", "two"))
    check_machines(processor, tmp_path / "a.cc", (one, two), extra_cflags=["-march=native"])


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
def test_code_for_this_gpu_is_not_taken_for_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu, compiler = tmp_path / "gpu", tmp_path / "nvcc"
    compiler.write_text(f'#!/bin/sh\nexec nvcc $(echo "$@" | sed "s/native/$(cat {gpu})/")\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("NVCC", str(compiler))
    (tmp_path / "a.cu").write_text("__global__ void Kernel(int* x) { *x = 1; }\n")
    flags = {"extra_cuda_cflags": ["-arch=native"]}
    check_machines(gpu, tmp_path / "a.cu", ("sm_80", "sm_90"), **flags)
    gpu.write_text("sm_1")
    _objects._native_code.cache_clear()
    with pytest.raises(RuntimeError, match="expected the macros of this machine, which the flags"):
        graphffi.cpp.build("n", [tmp_path / "a.cu"], **flags)


def test_threads_compile_one_file_at_once(tmp_path: Path) -> None:
    (tmp_path / "a.cc").write_text("int number;\n")
    (tmp_path / "g++").write_text('#!/bin/sh\nexec g++ "$@"\n')
    (tmp_path / "g++").chmod(0o755)

    def make(_: int) -> Path:
        def run(command: Sequence[str]) -> None:
            barrier.wait()
            subprocess.run(command, check=True)
            barrier.wait()

        return _objects.object_of(tmp_path / "a.cc", [str(tmp_path / "g++")], run)

    barrier = threading.Barrier(8)
    with ThreadPoolExecutor(8) as pool:
        made = set(pool.map(make, range(8)))
    assert len(made) == 1
    assert made.pop().is_file()


def test_a_cache_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numpy = pytest.importorskip("numpy")
    (tmp_path / "file").touch()
    monkeypatch.setenv("GRAPHFFI_CACHE_DIR", str(tmp_path / "file" / "cache"))
    text = "expected a folder to write to, got 'Not a directory'; set GRAPHFFI_CACHE_DIR to one"
    with pytest.raises(RuntimeError, match=f"graphffi: cache '.*/file/cache.*': {text}"):
        graphffi.cpp.build("demo", cpp_sources=TWICE, functions=["twice"])
    op = graphffi.define_op("cache::unwritable", schema="(Tensor x) -> Tensor", infer=graphffi.like)
    op.add_factory(key=lambda x: ())(lambda key: "never")
    with pytest.raises(RuntimeError, match=text):
        op(numpy.ones(1, "float32"))


@pytest.mark.slow
def test_warnings_are_shown_where_asked(capfd: pytest.CaptureFixture[str]) -> None:
    code = "static int unused() { return 1; }\nint f() { return 2; }"
    graphffi.cpp.build("w", cpp_sources=code, functions="f", extra_cflags=["-Wall"], verbose=True)
    assert "w.cc:1" in capfd.readouterr().err
    other = code.replace("2", "3")
    graphffi.cpp.build("w", cpp_sources=other, functions="f", extra_cflags=["-Wall"])
    assert capfd.readouterr().err == ""


@pytest.mark.slow
def test_the_first_error_of_several_files_is_reported(tmp_path: Path) -> None:
    sources = write_files(tmp_path / "s", {"a": 1, "b": 2, "c": 3})
    sources[1].write_text("int broken() { return nothing; }\n")
    with pytest.raises(RuntimeError, match=r"graphffi.cpp: k: .* failed with status 1") as caught:
        graphffi.cpp.build("k", sources)
    assert "b.cc" in str(caught.value)


def test_a_type_that_no_kernel_can_take_is_one_error() -> None:
    code = "struct Own {};\nint f(int x, Own own) { return x; }"
    with pytest.raises(RuntimeError, match=r"TVM FFI passes no values of this type") as caught:
        graphffi.cpp.build("own", cpp_sources=code, functions="f")
    assert "Own" in str(caught.value)
    assert str(caught.value).count(" error: ") == 1


@pytest.mark.slow
def test_c_is_compiled_as_c(tmp_path: Path) -> None:
    (tmp_path / "answer.c").write_text(
        "#include <tvm/ffi/c_api.h>\n"
        "int __tvm_ffi_answer(void* handle, const TVMFFIAny* args, int32_t num_args,\n"
        "                     TVMFFIAny* result) {\n"
        "  int32_t new = num_args;  /* no name in C++ */\n"
        "  (void)handle, (void)args;\n"
        "  result->type_index = kTVMFFIInt;\n"
        "  result->v_int64 = new + NUMBER;\n"
        "  return 0;\n"
        "}\n"
    )
    (tmp_path / "twice.cc").write_text(
        f"#include <tvm/ffi/tvm_ffi.h>\n{TWICE}\nTVM_FFI_DLL_EXPORT_TYPED_FUNC(twice, twice);\n"
    )
    sources = [tmp_path / "answer.c", tmp_path / "twice.cc"]
    module = graphffi.cpp.load("c", sources, extra_cflags=["-DNUMBER=40"])
    assert module.answer(None, None) == 42
    assert module.twice(2) == 4


def test_a_library_without_functions_says_so(tmp_path: Path) -> None:
    (tmp_path / "mangled.cc").write_text("int __tvm_ffi_answer() { return 42; }\n")
    module = graphffi.cpp.load("mangled", [tmp_path / "mangled.cc"])
    with pytest.raises(AttributeError, match=r"exports none; is __tvm_ffi_answer extern \"C\""):
        _ = module.answer


@pytest.mark.slow
def test_library_goes_where_it_is_asked_for(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    path = graphffi.cpp.build("demo", cpp_sources=TWICE, functions="twice", build_directory=folder)
    assert path == str(folder / "demo.so")
    assert os.listdir(folder) == ["demo.so"]
    assert graphffi.load_module(path).twice(2) == 4


def test_library_is_bound_to_no_runtime() -> None:
    code = "void f() { TVM_FFI_THROW(ValueError) << 1; }"
    path = graphffi.cpp.build("demo", cpp_sources=code, functions="f")
    listing = subprocess.run(["readelf", "-dW", path], capture_output=True, text=True).stdout
    assert "[libtvm_ffi.so]" in listing
    assert "PATH" not in listing
    exported = subprocess.run(["nm", "-D", "--defined-only", path], capture_output=True, text=True)
    names = {line.split()[-1] for line in exported.stdout.splitlines()}
    # Its headers make the standard library's templates visible; gcc 16 emits some of std::string's.
    assert not {n for n in names if not re.match("__tvm_ffi_|_ZN?K?St|_(init|fini)$", n)}


def test_compile_error_names_the_users_line() -> None:
    text = "int f() {\n  return nothing;\n}"
    with pytest.raises(RuntimeError, match=r"graphffi.cpp: bad: .* failed with status 1") as caught:
        graphffi.cpp.build("bad", cpp_sources=text, functions="f")
    assert "bad.cc:2" in str(caught.value)
    assert "nothing" in str(caught.value)


def test_nothing_is_left_of_a_failed_build(cache: Path) -> None:
    with pytest.raises(RuntimeError):
        graphffi.cpp.build("bad", cpp_sources="error")
    assert [file for file in cache.rglob("*") if file.is_file() and file.suffix != ".lock"] == []


@pytest.mark.parametrize("name", ["", "a/b", "../up", "-o", ".hidden", "sp ace", None])
def test_bad_name_is_refused(name: Any) -> None:
    with pytest.raises(ValueError, match=r"name: expected a file name of letters, .*, got"):
        graphffi.cpp.build(name, cpp_sources=TWICE)


def test_no_source_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"demo: expected sources, got none"):
        graphffi.cpp.build("demo")
    with pytest.raises(ValueError, match=r"demo: expected a source file, got '.*none.cc'"):
        graphffi.cpp.build("demo", [tmp_path / "none.cc"])


def test_missing_compiler_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(RuntimeError, match=r"expected a C\+\+ compiler, got CXX=no-such-compiler"):
        graphffi.cpp.build("demo", cpp_sources=TWICE)
    (tmp_path / "garbage").write_text("garbage")
    (tmp_path / "garbage").chmod(0o755)
    monkeypatch.setenv("CXX", str(tmp_path / "garbage"))
    with pytest.raises(RuntimeError, match=r"cannot run '.*garbage': Exec format error"):
        graphffi.cpp.build("demo", cpp_sources=TWICE)
    monkeypatch.setenv("CXX", "g++")
    monkeypatch.setenv("NVCC", "/no/nvcc")
    with pytest.raises(RuntimeError, match=r"expected the CUDA compiler, got NVCC=/no/nvcc"):
        graphffi.cpp.build("demo", cuda_sources=TWICE)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
@pytest.mark.parametrize(
    "text",
    ["", "int answer();\nvoid fill_with(tvm::ffi::TensorView x, float value);"],
    ids=["alone", "with C++"],
)
def test_cuda_text_is_compiled(text: str) -> None:
    code = """
__global__ void fill(float* x, float value) { x[threadIdx.x] = value; }
void fill_with(tvm::ffi::TensorView x, float value) {
  fill<<<1, 32>>>(static_cast<float*>(x.data_ptr()), value);
}
int answer() { return 42; }
"""
    functions = ["fill_with", "answer"]
    module = graphffi.cpp.load_inline(
        "demo", cpp_sources=text, cuda_sources=code, functions=functions
    )
    assert (module.answer(), module.function_names()) == (42, sorted(functions))


@pytest.mark.slow
def test_compiler_may_have_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "g++ -DTWO=2")
    code = "int f() { return TWO; }"
    assert graphffi.cpp.load_inline("demo", cpp_sources=code, functions="f").f() == 2


BUILD_TWICE = """
import sys
import graphffi
print(graphffi.cpp.build("demo", cpp_sources=sys.argv[1], functions=["twice"]))
"""


@pytest.mark.slow
def test_processes_share_one_build(cache: Path) -> None:
    command = [sys.executable, "-c", BUILD_TWICE, TWICE]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    paths = {process.communicate()[0] for process in processes}
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert len(paths) == 1
    libraries = [name for name in os.listdir(cache) if re.fullmatch("demo-[0-9a-f]{16}", name)]
    assert len(libraries) == 1


def test_include_path_has_the_headers() -> None:
    for header in ("tvm/ffi/tvm_ffi.h", "tvm/ffi/c_api.h", "dlpack/dlpack.h"):
        assert Path(graphffi.cpp.include_path(), header).is_file()


def test_import_without_cpp_does_not_load_it(run_python: Any) -> None:
    code = "import sys, graphffi; assert 'graphffi.cpp' not in sys.modules; graphffi.cpp.build"
    assert run_python(code) == (0, "")
