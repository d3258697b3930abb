# SPDX-License-Identifier: Apache-2.0
"""Exported programs and AOTInductor packages, made here and run by processes that know no op."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

import graphffi
import graphffi_torch
from tests import warm_python
from tests.torch_release import IS_TORCH_2_10

X = torch.arange(6.0).reshape(2, 3)
ROWS = torch.export.Dim("rows", min=2, max=64)


class Model(torch.nn.Module):
    """Uses every kind of op: results, several results, updates, lists, attributes, sizes."""

    def __init__(self, ops: Any) -> None:
        super().__init__()
        self.ops = ops
        self.register_buffer("bias", torch.ones(3))

    def forward(self, x: torch.Tensor, state: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ops = self.ops
        y = ops.add(x * 2, 3.0)
        ops.increment(y, 2.0)
        ops.increment(state)
        pair = ops.split(y + self.bias)
        total = ops.total_of([pair.small, pair.large], x)
        return ops.attributes(total, n=x.shape[0], s='a"?'), ops.masked(x.T), pair.large


def expected(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = x * 2 + 6
    return 2 * y + x.shape[0] + 2 + 100 + 3 + 16 + 1000 + 3, x.T, y + 1


@pytest.fixture(scope="module")
def exported(ops: Any) -> torch.export.ExportedProgram:
    """The model, with any number of rows."""
    with torch.no_grad():
        return torch.export.export(
            Model(ops), (X, torch.zeros(1)), dynamic_shapes={"x": {0: ROWS}, "state": None}
        )


@pytest.fixture(scope="module")
def packaged(
    exported: torch.export.ExportedProgram, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Its package."""
    path = tmp_path_factory.mktemp("package") / "model.pt2"
    with torch.no_grad():
        assert graphffi_torch.package(exported, path) == str(path)
    return path


PROGRAM = """
import sys
import torch
import graphffi_torch

{load}
x, state = torch.arange(15.0).reshape(5, 3), torch.zeros(1)
for result in model(x, state):
    print(result.flatten().tolist())
print(state.tolist())
assert "graphffi.cpp" not in sys.modules
"""


def start_elsewhere(load: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A process that has only imported graphffi_torch, loads the model and runs it."""
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM.format(load=load)]
    return warm_python.run(command, env=os.environ | environment, modules=warm_python.TORCH)


def run_elsewhere(load: str, **environment: str) -> list[Any]:
    """What such a process gets from the model."""
    done = start_elsewhere(load, **environment)
    assert done.returncode == 0, done.stderr
    return [eval(line) for line in done.stdout.splitlines()]


def expected_elsewhere() -> list[Any]:
    results = expected(torch.arange(15.0).reshape(5, 3))
    return [*(r.flatten().tolist() for r in results), [1.0]]


def test_decomposed_programs_hold_the_primitive_only(
    exported: torch.export.ExportedProgram,
) -> None:
    program = graphffi_torch.decompose(exported)
    targets = {str(node.target) for node in program.graph.nodes if node.op == "call_function"}
    assert "tvm_ffi.call.default" in targets
    assert not any(target.startswith("mytest") for target in targets)
    state = torch.zeros(1)
    torch.testing.assert_close(program.module()(X, state), expected(X))
    assert state.item() == 1
    torch.testing.assert_close(exported.module()(X, state), expected(X))
    functional = program.run_decompositions()
    torch.testing.assert_close(functional.module()(X, state), expected(X))


def test_a_functionalized_update_is_refused(exported: torch.export.ExportedProgram) -> None:
    with pytest.raises(ValueError, match="decompose: expected a program before run_decompositions"):
        graphffi_torch.decompose(exported.run_decompositions())


def test_what_is_no_program_is_refused(exported: torch.export.ExportedProgram) -> None:
    module: Any = torch.nn.ReLU()
    for function in (graphffi_torch.decompose, lambda m: graphffi_torch.package(m, "m.pt2")):
        with pytest.raises(TypeError, match=r"expected a torch.export.ExportedProgram, got ReLU"):
            function(module)
    with pytest.raises(ValueError, match=r"expected a path that ends in '\.pt2', got 'm\.so'"):
        graphffi_torch.package(exported, "m.so")


@pytest.mark.slow
def test_a_saved_program_runs_in_a_process_that_knows_no_op(
    exported: torch.export.ExportedProgram, tmp_path: Path
) -> None:
    path = str(tmp_path / "program.pt2")
    torch.export.save(graphffi_torch.decompose(exported), path)
    load = f"model = torch.export.load({path!r}).module()"
    assert run_elsewhere(load) == expected_elsewhere()


@pytest.mark.slow
def test_libraries_are_searched_for_references_without_a_folder(
    exported: torch.export.ExportedProgram, kernels: Any, tmp_path: Path
) -> None:
    program = graphffi_torch.decompose(exported)
    library = Path(kernels.add.reference.partition("::")[0])
    for node in program.graph.nodes:
        if node.target is torch.ops.tvm_ffi.call.default:
            node.args = (node.args[0].replace(f"{library.parent}/", ""), *node.args[1:])
    path = str(tmp_path / "program.pt2")
    torch.export.save(program, path)
    load = f"model = torch.export.load({path!r}).module()"
    folders = f"/nowhere:{library.parent}"
    assert run_elsewhere(load, GRAPHFFI_LIBRARY_PATH=folders) == expected_elsewhere()


def test_a_package_runs_in_a_process_that_knows_no_op(packaged: Path, tmp_path: Path) -> None:
    load = f"model = graphffi_torch.load_package({str(packaged)!r}, trust=True)"
    # The temporary copies of libraries are gone when they have been loaded.
    assert run_elsewhere(load, TMPDIR=str(tmp_path)) == expected_elsewhere()
    assert not list(tmp_path.glob("graphffi-*"))


def test_packages_call_kernels_without_the_proxy_executor(packaged: Path) -> None:
    with zipfile.ZipFile(packaged) as archive:
        (code,) = (n for n in archive.namelist() if n.endswith(".wrapper.cpp"))
        text = archive.read(code).decode()
    assert "graphffi_call(graphffi_site_" in text
    assert "aoti_torch_proxy_executor_call_function(" not in text


def test_packages_ask_for_trust(packaged: Path) -> None:
    with pytest.raises(ValueError, match="expected trust=True or the trusted hashes") as raised:
        graphffi_torch.load_package(packaged)
    (digest,) = re.findall("sha256 ([0-9a-f]{64})", str(raised.value))
    with pytest.raises(ValueError, match=f"expected a trusted sha256, got {digest}"):
        graphffi_torch.load_package(packaged, trust={"0" * 64})
    model = graphffi_torch.load_package(packaged, trust={digest})
    torch.testing.assert_close(tuple(model(X, torch.zeros(1))), expected(X))


@pytest.mark.parametrize(
    "damage",
    ["flipped", "inputs", "library", "manifest", "missing", "older", "slash", "text", "truncated"],
)
def test_damaged_packages_are_refused(packaged: Path, tmp_path: Path, damage: str) -> None:
    path = tmp_path / "model.pt2"
    message = _damage(packaged, path, damage)
    with pytest.raises(ValueError, match=message):
        graphffi_torch.load_package(path, trust=True)


def _damage(source: Path, target: Path, damage: str) -> str:
    content = source.read_bytes()
    if damage == "text":
        target.write_text("nothing")
        return "expected a whole archive, got a damaged one: File is not a zip file"
    if damage == "truncated":
        target.write_bytes(content[:-1000])
        return "expected a whole archive, got a damaged one"
    if damage == "flipped":  # in the model, which no hash of a library covers
        place = content.index(b"\x7fELF") + 5000
        target.write_bytes(content[:place] + b"?!?!" + content[place + 4 :])
        return r"expected a whole archive, got a damaged one: Bad CRC-32 for file '.*/model/.*\.so'"
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            is_library = "/graphffi/" in name and name.endswith(".so")
            is_manifest = name.endswith("libraries.sha256")
            if (is_library and damage == "missing") or (is_manifest and damage == "manifest"):
                continue
            if is_library and damage == "library":
                content = content[:-1] + b"?"
            if is_manifest and damage == "slash":
                content = content.replace(b"  ", b"  ../")
            if name.endswith("inputs.json") and damage == "inputs":
                content = content.replace(b'"sizes"', b'"lengths"')
            if name.endswith("inputs.json") and damage == "older":
                content = b"[[], {}]"
            new.writestr(name, content)
    return {
        "inputs": "expected a description of inputs that this graphffi reads, got another one: Key",
        "older": "expected a package of this version of graphffi, got one that another version",
        "library": "expected sha256 [0-9a-f]{64}, got [0-9a-f]{64}; the package is damaged",
        "manifest": "expected one that graphffi_torch.package wrote",
        "missing": "expected it in the package, found none",
        "slash": "expected a name without slashes",
    }[damage]


def test_a_package_for_other_calls_names_their_version(
    packaged: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "model.pt2"
    with zipfile.ZipFile(packaged) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            new.writestr(name, content.replace(b"graphffi_call_v2", b"graphffi_call_v0"))
    model = graphffi_torch.load_package(path, trust=True)
    text = "expected libgraphffi_torch.so with calls of version 2 in the process, got none; import"
    with pytest.raises(RuntimeError) as raised:
        model(X, torch.zeros(1))
    assert text in (str(raised.value) if has_texts() else capfd.readouterr().err)


def test_a_missing_package_is_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"none\.pt2"):
        graphffi_torch.load_package(tmp_path / "none.pt2", trust=True)


class Mixed(torch.nn.Module):
    """Calls a kernel of a library and a global function."""

    def __init__(self, ops: Any) -> None:
        super().__init__()
        self.ops = ops

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.ops.add(x)
        return graphffi.call_tvm_ffi("mytest.packaged_double", y, out=graphffi.like(y))


DOUBLE = """
import graphffi
import torch
def double(x, y): torch.from_dlpack(y).copy_(torch.from_dlpack(x) * 2)
graphffi.register_global_func("mytest.packaged_double", double)
"""
CATCH = """
def load():
    return graphffi_torch.load_package({path!r}, trust=True)
try:
    load()
except KeyError as error:
    print([error.args[0]])
exec({double!r})
print(load()(torch.zeros(3)).tolist())
raise SystemExit
"""


@pytest.mark.slow
def test_packages_name_the_functions_that_they_do_not_hold(
    ops: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    exported = torch.export.export(Mixed(ops), (X[0],))
    path = graphffi_torch.package(exported, tmp_path / "model.pt2")
    assert "does not hold the global functions 'mytest.packaged_double'; a process" in caplog.text
    ([message], result) = run_elsewhere(CATCH.format(path=path, double=DOUBLE))
    assert message == (
        f"graphffi_torch: package '{path}': expected the global functions "
        "'mytest.packaged_double' in this process, got none; register them, or load the library "
        "that does, before the package"
    )
    assert result == [2.0] * 3


@pytest.mark.slow
def test_libraries_are_found_beside_the_artifact(ops: Any, kernels: Any, tmp_path: Path) -> None:
    program = graphffi_torch.decompose(torch.export.export(Add(ops), (X[0],)))
    library = Path(kernels.add.reference.partition("::")[0])
    for node in program.graph.nodes:
        if node.target is torch.ops.tvm_ffi.call.default:
            node.args = (node.args[0].replace(f"{library.parent}/", ""), *node.args[1:])
    path = torch._inductor.aoti_compile_and_package(
        program, package_path=str(tmp_path / "model.pt2")
    )
    load = (
        "import torch._inductor.codecache  # which torch 2.10 needs here\n"
        f"print(torch._inductor.aoti_load_package({path!r})(torch.zeros(3)).tolist())\n"
        "raise SystemExit"
    )
    # Torch 2.10 prints the reason and raises an error without it.
    reason = f"graphffi: cannot load '{library.name}': expected it in "
    assert reason in start_elsewhere(load).stderr
    with zipfile.ZipFile(path) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        # Torch 2.10 takes the last library of a package for the model.
        (model,) = (name for name in contents if name.endswith(".wrapper.so"))
        archive.write(library, f"{model.rpartition('/')[0]}/{library.name}")
        for name, content in contents.items():
            archive.writestr(name, content)
    assert run_elsewhere(load) == [[1.0] * 3]


class Add(Mixed):
    """Calls a kernel of a library."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.ops.add(x)


class Failing(torch.nn.Module):
    """Raises what it is told."""

    def __init__(self, ops: Any) -> None:
        super().__init__()
        self.ops = ops

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.ops.fail(x, "IndexError")


def test_packages_raise_what_eager_calls_raise(ops: Any, tmp_path: Path) -> None:
    exported = torch.export.export(Failing(ops), (X,))
    path = graphffi_torch.package(exported, tmp_path / "model.pt2")
    model = graphffi_torch.load_package(path, trust=True)
    with pytest.raises(IndexError) as eager:
        ops.fail(X, "IndexError")
    for _ in range(2):
        with pytest.raises(IndexError) as raised:
            model(X)
        assert str(raised.value) == str(eager.value)
    plain = torch._inductor.aoti_load_package(path)
    with pytest.raises(IndexError, match="luck") as raised, graphffi_torch.errors():
        plain(X)
    assert isinstance(raised.value.__cause__, RuntimeError)
    assert str(raised.value) == str(eager.value)

    def fail_otherwise() -> None:
        with contextlib.suppress(RuntimeError):
            plain(X)
        raise RuntimeError("torch's own")

    with pytest.raises(RuntimeError, match="torch's own"), graphffi_torch.errors():
        fail_otherwise()
    with pytest.raises(RuntimeError, match="IndexError: " if has_texts() else "failed"):
        plain(X)

    def other(_: torch.Tensor) -> None:
        raise RuntimeError("torch's own")

    with pytest.raises(RuntimeError, match="torch's own"):
        graphffi_torch.Package(other)(X)


class Sized(torch.nn.Module):
    """Ops whose operands share dimensions: by name, in an update, by the shape rule alone."""

    def __init__(self, kernels: Any) -> None:
        super().__init__()

        @graphffi.op("sized::named", kernel=kernels.total, plan="xs, out", dims="b [h], [h] -> b")
        def named(xs: list[graphffi.Tensor], y: graphffi.Tensor) -> graphffi.Tensor:
            return graphffi.empty((xs[0].size(0),), "float32")

        @graphffi.op(
            "sized::updated", kernel=kernels.total, plan="xs, y", dims="b h, b h", mutates="y"
        )
        def updated(xs: list[graphffi.Tensor], y: graphffi.Tensor) -> None:
            return None

        @graphffi.op("sized::ruled", kernel=kernels.total, plan="xs, out")
        def ruled(xs: list[graphffi.Tensor], y: graphffi.Tensor) -> graphffi.Tensor:
            graphffi.check(xs[0].shape == y.shape, "operands: expected one shape")
            return graphffi.like(y)

        self.named, self.updated, self.ruled = named, updated, ruled

    def forward(
        self, x: torch.Tensor, y: torch.Tensor, out: torch.Tensor, z: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        return self.updated([x], out), self.named([x], y), self.ruled([x], z)


@pytest.mark.slow
def test_packages_compare_what_they_are_given_with_what_they_were_made_for(
    kernels: Any, tmp_path: Path
) -> None:
    model = Sized(kernels)
    shapes: dict[str, tuple[int, ...]] = {"x": (4, 6), "y": (6,), "out": (4, 6), "z": (4, 6)}

    def arguments(**changed: Any) -> dict[str, torch.Tensor]:
        return {k: torch.ones(shape) for k, shape in shapes.items()} | changed

    b, h = torch.export.Dim("b"), torch.export.Dim("h")
    for dims in ({0: b, 1: h}, None):
        dynamic = dims and {"x": dims, "y": {0: h}, "out": dims, "z": dims}
        exported = torch.export.export(model, (), kwargs=arguments(), dynamic_shapes=dynamic)
        path = graphffi_torch.package(exported, tmp_path / f"{dims is None}.pt2")
        packaged = graphffi_torch.load_package(path, trust=True)
        packaged(**arguments())
        for wrong in ({"y": torch.ones(5)}, {"out": torch.ones(4, 5)}, {"out": torch.ones(3, 6)}):
            with pytest.raises(ValueError, match="sized::") as eager:
                model(**arguments(**wrong))
            with pytest.raises(ValueError, match="sized::") as raised:
                packaged(**arguments(**wrong))
            assert str(raised.value) == str(eager.value)
        told = "the exported program" if dims is None else r"operand 'xs\[0\]'"
        ruled = f"sized::ruled: operand 'y': expected size 6 of dimension 1 as in {told}, got 5"
        for wrong, kind, text in (
            ({"z": torch.ones(4, 5)}, ValueError, ruled),
            ({"x": torch.ones(4, 6).double()}, TypeError, r"operand 'xs\[0\]': expected float32"),
        ):
            with pytest.raises(kind, match=text):
                packaged(**arguments(**wrong))
    both = {"x": torch.ones(3, 6), "out": torch.ones(3, 6)}
    with pytest.raises(ValueError, match=r"'xs\[0\]': expected size 4 of 'b' as in the exported"):
        packaged(**arguments(**both))


def has_texts() -> bool:
    """Whether torch's models say why they failed; 2.10's do not."""
    return not IS_TORCH_2_10
