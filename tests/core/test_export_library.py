# SPDX-License-Identifier: Apache-2.0
"""Modules with their imports as one library, read back on this runtime and in a fresh process."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import graphffi
from graphffi import _core

ROOT_LIBRARY = """
#include <tvm/ffi/extra/c_env_api.h>
TVM_FFI_DLL_EXPORT void* __tvm_ffi__library_ctx = nullptr;
int AddOne(int x) { return x + 1; }
// Calls `name` of what the module imports.
int CallImport(tvm::ffi::String name, int x) {
  TVMFFIObjectHandle function = nullptr;
  TVM_FFI_CHECK_SAFE_CALL(
      TVMFFIEnvModLookupFromImports(__tvm_ffi__library_ctx, name.c_str(), &function));
  TVMFFIAny arg{};
  arg.type_index = kTVMFFIInt;
  arg.v_int64 = x;
  TVMFFIAny result{};
  TVM_FFI_CHECK_SAFE_CALL(TVMFFIFunctionCall(function, &arg, 1, &result));
  return static_cast<int>(result.v_int64);
}
"""

# A kind of module written in C++ with graphffi's headers: `plus` adds what it was made with.
PLUS_KIND = """
#include <fstream>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/reflection/registry.h>
namespace ffi = tvm::ffi;
class PlusModule : public ffi::ModuleObj {
 public:
  explicit PlusModule(ffi::Bytes text) : text_(std::move(text)) {}
  const char* kind() const final { return "core_tests_plus"; }
  int GetPropertyMask() const final { return 3; }
  ffi::Optional<ffi::Function> GetFunction(const ffi::String& name) final {
    if (name != "plus") return ffi::Function(nullptr);
    int64_t number = std::stoll(std::string(text_.data(), text_.size()));
    return ffi::Function::FromTyped([number](int64_t x) { return x + number; });
  }
  ffi::Optional<ffi::String> GetFunctionDoc(const ffi::String&) final {
    return ffi::String("Adds a number.");
  }
  ffi::Bytes SaveToBytes() const final { return text_; }
  ffi::String InspectSource(const ffi::String&) const final {
    return ffi::String(text_.data(), text_.size());
  }

 private:
  ffi::Bytes text_;
};
class FixedModule : public ffi::ModuleObj {
 public:
  const char* kind() const final { return "core_tests_fixed"; }
  int GetPropertyMask() const final { return 2; }
  ffi::Optional<ffi::Function> GetFunction(const ffi::String&) final {
    return ffi::Function(nullptr);
  }
};
// What compilers return: an object file, which is linked.
class CompiledModule : public ffi::ModuleObj {
 public:
  explicit CompiledModule(ffi::Bytes object) : object_(std::move(object)) {}
  const char* kind() const final { return "core_tests_compiled"; }
  int GetPropertyMask() const final { return 4; }
  ffi::Optional<ffi::Function> GetFunction(const ffi::String&) final {
    return ffi::Function(nullptr);
  }
  ffi::Array<ffi::String> GetWriteFormats() const final { return {"o"}; }
  void WriteToFile(const ffi::String& name, const ffi::String&) const final {
    std::ofstream(name.c_str(), std::ios::binary).write(object_.data(), object_.size());
  }

 private:
  ffi::Bytes object_;
};
ffi::Module MakePlus(ffi::Bytes text) {
  return ffi::Module(ffi::make_object<PlusModule>(std::move(text)));
}
ffi::Module MakeFixed() { return ffi::Module(ffi::make_object<FixedModule>()); }
ffi::Module MakeCompiled(ffi::Bytes object) {
  return ffi::Module(ffi::make_object<CompiledModule>(std::move(object)));
}
static const int kRegistered = [] {
  ffi::reflection::GlobalDef().def("ffi.Module.load_from_bytes.core_tests_plus", MakePlus);
  return 0;
}();
"""
OTHER_LIBRARY = "int times_two(int x) { return 2 * x; }"


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("parts")

    def build(name: str, text: str, functions: Any) -> str:
        return graphffi.cpp.build(
            name, cpp_sources=text, functions=functions, build_directory=folder
        )

    functions = {"add_one": "Adds one.", "call_import": ""}
    root = ROOT_LIBRARY + "int add_one(int x) { return AddOne(x); }\n"
    root += "int call_import(tvm::ffi::String f, int x) { return CallImport(f, x); }\n"
    kinds = PLUS_KIND + "ffi::Module make_plus(ffi::Bytes text) { return MakePlus(text); }\n"
    kinds += "ffi::Module make_fixed() { return MakeFixed(); }\n"
    kinds += "ffi::Module make_compiled(ffi::Bytes object) { return MakeCompiled(object); }\n"
    return {
        "root": build("root", root, functions),
        "kinds": build("kinds", kinds, ["make_plus", "make_fixed", "make_compiled"]),
        "other": build("other", OTHER_LIBRARY, ["times_two"]),
    }


@pytest.fixture
def root(paths: dict[str, str]) -> Iterator[graphffi.Module]:
    module = graphffi.load_module(paths["root"])
    yield module
    module.clear_imports()


@pytest.fixture
def kinds(paths: dict[str, str]) -> graphffi.Module:
    return graphffi.load_module(paths["kinds"])


def test_custom_kind_is_used_from_python(kinds: Any) -> None:
    module = kinds.make_plus(b"42")
    assert isinstance(module, graphffi.Module)
    assert (module.kind, module.property_mask, module.path) == ("core_tests_plus", 3, None)
    assert module.plus(1) == 43
    assert module.get_function_doc("plus") == module.plus.doc == "Adds a number."
    assert module.save_to_bytes() == b"42"
    assert module.inspect_source() == "42"
    assert module.write_formats == []
    assert not module.implements_function("minus")
    with pytest.raises(RuntimeError, match=r"WriteToFile"):
        module.write_to_file("file", "o")
    with pytest.raises(RuntimeError, match=r"SaveToBytes|cannot be saved"):
        kinds.make_fixed().save_to_bytes()


def make_tree(root: Any, kinds: Any, paths: dict[str, str]) -> None:
    """root imports a library and a module, which imports one of its kind."""
    root.import_module(graphffi.load_module(paths["other"]))
    plus = kinds.make_plus(b"100")
    plus.import_module(kinds.make_plus(b"1000"))
    root.import_module(plus)


USE = """
import sys, graphffi
module = graphffi.load_module(sys.argv[1])
print(module.add_one(1), module.add_one.doc)
print(module.call_import("times_two", 21), module.call_import("plus", 1))
print(module.get_function("plus", query_imports=True)(2))
print(module.get_function_metadata("times_two", query_imports=True) is not None)
print(module.get_function("times_two", query_imports=True).metadata is not None)
print([imported.kind for imported in module.imports])
print(module.imports[1].imports[0].plus(5))
"""
USED = "2 Adds one.\n42 101\n102\nTrue\nTrue\n['library', 'core_tests_plus']\n1005\n"


@pytest.mark.parametrize("runtime", ["bundled", "apache"])
def test_tree_comes_back_in_a_fresh_process(
    root: Any, kinds: Any, paths: dict[str, str], tmp_path: Path, runtime: str
) -> None:
    if runtime == "apache" and importlib.util.find_spec("tvm_ffi") is None:
        pytest.skip("needs apache-tvm-ffi")
    make_tree(root, kinds, paths)
    exported = tmp_path / "folder" / "exported.so"
    graphffi.cpp.export_library(root, exported)
    assert [p.name for p in exported.parent.iterdir()] == ["exported.so"]
    code = USE.replace("graphffi\n", f"graphffi\ngraphffi.load_module({paths['kinds']!r})\n", 1)
    environment = {**__import__("os").environ, "GRAPHFFI_RUNTIME": runtime, "TMPDIR": str(tmp_path)}
    result = subprocess.run(
        [sys.executable, "-c", code, str(exported)], env=environment, capture_output=True, text=True
    )
    assert (result.stdout, result.stderr) == (USED, "")
    assert [p.name for p in tmp_path.iterdir()] == ["folder"]


def test_exported_library_is_exported_again(
    root: Any, kinds: Any, paths: dict[str, str], tmp_path: Path
) -> None:
    make_tree(root, kinds, paths)
    graphffi.cpp.export_library(root, tmp_path / "one.so")
    one = graphffi.load_module(tmp_path / "one.so")
    graphffi.cpp.export_library(one, tmp_path / "two.so")
    two = graphffi.load_module(tmp_path / "two.so")
    assert two != one
    assert [imported.kind for imported in two.imports] == ["library", "core_tests_plus"]
    assert two.call_import("plus", 1) == 101
    assert _core.resolve_kernel(f"{tmp_path}/two.so::times_two")(4) == 8
    assert two.function_names() == ["add_one", "call_import", "times_two"]


def test_shared_import_stays_one_module(kinds: Any, tmp_path: Path) -> None:
    top, left, right, shared = (kinds.make_plus(text) for text in (b"1", b"2", b"3", b"4"))
    left.import_module(shared)
    right.import_module(shared)
    top.import_module(left)
    top.import_module(right)
    graphffi.cpp.export_library(top, tmp_path / "diamond.so")
    read = graphffi.load_module(tmp_path / "diamond.so")
    assert read.kind == "core_tests_plus"
    assert read.imports[0].imports[0] == read.imports[1].imports[0]
    assert read.imports[1].imports[0].plus(0) == 4


def test_unknown_kind_is_refused_by_name(kinds: Any, tmp_path: Path, run_python: Any) -> None:
    graphffi.cpp.export_library(kinds.make_plus(b"1"), tmp_path / "plus.so")
    code = f"import graphffi; graphffi.load_module({str(tmp_path / 'plus.so')!r})"
    status, output = run_python(code, GRAPHFFI_RUNTIME=graphffi.runtime_info().path)
    assert status == 1
    assert f"cannot load '{tmp_path}/plus.so': " in output
    assert "core_tests_plus" in output


def compiled(kinds: Any, folder: Path, name: str, number: int) -> Any:
    """A module of an object file with a function that returns a number."""
    source = f"""
#include <tvm/ffi/c_api.h>
int __tvm_ffi_{name}(void* self, const TVMFFIAny* args, int32_t num_args, TVMFFIAny* result) {{
  result->type_index = kTVMFFIInt;
  result->v_int64 = {number};
  return 0;
}}
"""
    target = folder / f"{name}.o"
    command = ["cc", "-fPIC", f"-I{graphffi.cpp.include_path()}", "-x", "c", "-", "-c", "-o"]
    subprocess.run([*command, str(target)], input=source, text=True, check=True)
    return kinds.make_compiled(target.read_bytes())


def test_compiled_modules_are_linked(kinds: Any, tmp_path: Path) -> None:
    top, below, plus = kinds.make_plus(b"1"), kinds.make_plus(b"2"), kinds.make_plus(b"3")
    one, two = compiled(kinds, tmp_path, "one", 1), compiled(kinds, tmp_path, "two", 2)
    top.import_module(one)
    one.import_module(two)
    one.import_module(below)
    two.import_module(plus)
    graphffi.cpp.export_library(top, tmp_path / "linked.so")
    (library,) = graphffi.load_module(tmp_path / "linked.so").imports
    assert (library.kind, library.one(), library.two()) == ("library", 1, 2)
    assert [imported.plus(0) for imported in library.imports] == [2, 3]


def test_a_compiled_module_below_one_that_is_not(kinds: Any, tmp_path: Path) -> None:
    one, plus = compiled(kinds, tmp_path, "one", 1), kinds.make_plus(b"1")
    one.import_module(plus)
    plus.import_module(compiled(kinds, tmp_path, "two", 2))
    text = (
        "^graphffi.cpp.export_library: expected compiled modules below no module that is not "
        "compiled, got one; one library has all compiled modules in one place of its tree$"
    )
    with pytest.raises(ValueError, match=text):
        graphffi.cpp.export_library(one, tmp_path / "x.so")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["one.o", "two.o"]


def test_kind_that_cannot_be_saved_is_refused(kinds: Any, tmp_path: Path) -> None:
    text = r"module of kind 'core_tests_fixed': expected one that was loaded from a file, or can"
    with pytest.raises(TypeError, match=text):
        graphffi.cpp.export_library(kinds.make_fixed(), tmp_path / "x.so")
    assert list(tmp_path.iterdir()) == []


def test_export_takes_modules_only(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"expected a module, got int"):
        graphffi.cpp.export_library(3, tmp_path / "x.so")  # type: ignore[arg-type]


def test_failing_compiler_is_shown(
    kinds: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", "false")
    with pytest.raises(RuntimeError, match=r"export_library: false failed with status 1\nfalse "):
        graphffi.cpp.export_library(kinds.make_plus(b"1"), tmp_path / "x.so")
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(RuntimeError, match=r"expected a C compiler, got CC=no-such-compiler"):
        graphffi.cpp.export_library(kinds.make_plus(b"1"), tmp_path / "x.so")


def test_loader_compiles_without_warnings(tmp_path: Path) -> None:
    source = Path(graphffi.__file__).parent / "_build" / "embedded_library.c"
    flags = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-c", "-o", "/dev/null"]
    subprocess.run(["cc", *flags, f"-I{graphffi.cpp.include_path()}", str(source)], check=True)


@pytest.mark.parametrize("is_loaded", [False, True])
def test_a_library_that_was_built_anew_since_is_not_packed(tmp_path: Path, is_loaded: bool) -> None:
    def build(number: int) -> str:
        text = f"int number() {{ return {number}; }}"
        return graphffi.cpp.build(
            "anew", cpp_sources=text, functions="number", build_directory=tmp_path
        )

    module = graphffi.load_module(build(1))
    build(2)
    if is_loaded:
        graphffi.load_module(tmp_path / "anew.so")
    with pytest.raises(RuntimeError, match="expected the file that the module was loaded from, go"):
        graphffi.cpp.export_library(module, tmp_path / "packed.so")
    module = graphffi.load_module(tmp_path / "anew.so")
    graphffi.cpp.export_library(module, tmp_path / "packed.so")
    assert graphffi.load_module(tmp_path / "packed.so").number() == 2


def test_a_tree_that_was_exported_anew_is_read_anew(
    root: Any, paths: dict[str, str], tmp_path: Path
) -> None:
    """The dynamic linker gives the first file that was at a path."""
    text = "int times_three(int x) { return 3 * x; }"
    three = graphffi.cpp.build("three", cpp_sources=text, functions="times_three")
    for name, path in (("times_two", paths["other"]), ("times_three", three)):
        root.clear_imports()
        root.import_module(graphffi.load_module(path))
        graphffi.cpp.export_library(root, tmp_path / "tree.so")
        tree = graphffi.load_module(tmp_path / "tree.so")
        part = tmp_path / f"part_{name}.so"
        graphffi.cpp.export_library(tree.imports[0], part)
        assert graphffi.load_module(part).function_names() == [name]
