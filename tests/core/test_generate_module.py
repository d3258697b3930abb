# SPDX-License-Identifier: Apache-2.0
"""``graphffi generate`` of a module with templates of ops, such as FlashInfer's."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import graphffi
from graphffi._command.command import main
from graphffi._command.trace_sizes import solved

from .test_generate import generate, imported

np = pytest.importorskip("numpy")

CLASSES = """
class Axis:
    def __init__(self, value=None):
        self.value = value

class Tensor:
    def __init__(self, *dim_names, dtype=None, param=None, optional=False, dtype_from=None):
        self.dim_names, self.dtype, self.param = list(dim_names), dtype, param
        self.optional, self.dtype_from = optional, dtype_from

class Scalar:
    def __init__(self, dtype, optional=False):
        self.dtype, self.optional = dtype, optional

class Template:
    def __init__(self, axes, inputs, outputs, constraints=(), reference=None, description=""):
        self.op_type, self.axes, self.inputs, self.outputs = "made", axes, inputs, outputs
        self.constraints, self.reference, self.description = constraints, reference, description
"""

TEMPLATES = """
from . import Axis, Scalar, Template, Tensor

norm_trace = Template(
    {"n": Axis(), "h": Axis()},
    {"x": Tensor("n", "h", param="input"), "w": Tensor("h"), "eps": Scalar("float32")},
    {"y": Tensor("n", "h", dtype_from="input", param="out")},
    reference=lambda x, w, eps: x * w + eps,
    description="Norms.",
)
halve_trace = Template(
    {"n": Axis(), "h": Axis(), "half": Axis(), "four": Axis(4)},
    {"x": Tensor("n", "h"), "scale": Tensor("four", dtype="float32", optional=True)},
    {"y": Tensor("n", "half"), "z": Tensor("n", "four", dtype="int32")},
    constraints=["h == 2 * half", "n > 0"],
)
add_trace = Template(
    {"n": Axis()},
    {"x": Tensor("n", param="input"), "r": Tensor("n"), "buffer": Tensor("n", optional=True)},
    {"sum": Tensor("n", param="input"), "r": Tensor("n"), "buffer": Tensor("n", dtype="int8")},
)
# A parameter may be several operands, such as a pair; which one a result is, its name says.
pair_trace = Template(
    {"n": Axis()},
    {"x": Tensor("n"), "k": Tensor("n", param="caches"), "v": Tensor("n", param="caches")},
    {"k": Tensor("n", param="caches"), "v": Tensor("n", param="caches")},
)
append_trace = Template(
    {"n": Axis(), "pages": Axis()},
    {"x": Tensor("n"), "cache": Tensor("pages", optional=True), "mode": Scalar("string"),
     "kind": Scalar("dtype", optional=True), "causal": Scalar("bool")},
    {"cache": Tensor("pages")},
)
top_k_trace = Template(
    {"n": Axis(), "k": Axis()},
    {"x": Tensor("n"), "k": Scalar("int32")},
    {"values": Tensor("k", dtype_from="x"), "best": Tensor("1", dtype="int64")},
)
# Not said: the size of a result, a result that may be absent or is a number, any result at all.
open_trace = Template({"n": Axis()}, {"x": Tensor("n")}, {"y": Tensor("m")})
maybe_trace = Template({"n": Axis()}, {"x": Tensor("n")}, {"y": Tensor("n", optional=True)})
count_trace = Template({"n": Axis()}, {"x": Tensor("n")}, {"count": Scalar("int32")})
half_of_pair_trace = Template(
    {"n": Axis()},
    {"k": Tensor("n", param="caches"), "v": Tensor("n", param="caches")},
    {"cache": Tensor("n", param="caches"), "y": Tensor("n")},
)
plan_trace = Template({"n": Axis()}, {"x": Tensor("n")}, {})
cast_trace = Template(
    {"n": Axis()},
    {"x": Tensor("n"), "like": Tensor("n", optional=True), "odd": Scalar("complex")},
    {"y": Tensor("n", dtype_from="like")},
)
max_trace = norm_copy_trace = Template({"n": Axis()}, {"x": Tensor("n")}, {"y": Tensor("n")})
lambda_trace = Template({"n": Axis()}, {"x": Tensor("n")}, {"y": Tensor("n")})
locals()["lambda"] = Template({"n": Axis()}, {"x": Tensor("n")}, {"y": Tensor("n")})
"""

KERNELS = r"""
#include <graphffi/view.h>
using graphffi::View;
void norm(View<const float, 2> x, View<const float, 1> w, double eps, View<float, 2> y) {
  for (int64_t i = 0; i < x.size(0) * x.size(1); ++i) {
    y.data()[i] = x.data()[i] * w.data()[i % x.size(1)] + eps;
  }
}
void halve(tvm::ffi::TensorView x, tvm::ffi::TensorView y) {}
void append(tvm::ffi::TensorView x) {}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(norm, norm);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(halve, halve);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(top_k, append);
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package with templates in a module, and one module that cannot be imported."""
    name = f"templates_{tmp_path.name}"
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text(CLASSES)
    (tmp_path / name / "below.py").write_text(TEMPLATES)
    (tmp_path / name / "broken.py").write_text("import no_such_module\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    return name


def filled(path: Path) -> str:
    return path.read_text().replace("kernel=...,", "kernel=lambda *values: None,")


def block(text: str, name: str) -> str:
    return text.partition(f"# generated: {name} ")[2].partition("# end: ")[0]


def test_templates_become_ops(package: str, tmp_path: Path, capsys: Any) -> None:
    output = tmp_path / "ops.py"
    _, facts = generate(package, "-o", output, "--namespace", "mod", capsys=capsys)
    assert facts["lacking"] == {"kernel": 12, "infer": 6, "schema": 5}
    assert facts["left_out"] == {
        f"{package}.broken": "a module that cannot be imported: No module named 'no_such_module'",
        "lambda_trace": "its name is no identifier of Python",
        "lambda": "its name is no identifier of Python",
        "max": "its name is one that the file itself uses",
    }
    text = filled(output)
    schemas = {
        "norm": "(Tensor x, Tensor w, float eps) -> (Tensor y)",
        "halve": "(Tensor x, Tensor? scale) -> (Tensor y, Tensor z)",
        "add": "(Tensor(a!) x, Tensor(a!) r) -> (Tensor buffer)",
        "pair": "(Tensor x, Tensor(a!) k, Tensor(a!) v) -> ()",
        "half_of_pair": "(Tensor k, Tensor v) -> TODO",
        "append": "(Tensor x, Tensor(a!)? cache, str mode, dtype? kind, bool causal) -> ()",
        "top_k": "(Tensor x, int k) -> (Tensor values, Tensor best)",
        "maybe": "(Tensor x) -> TODO",
        "count": "(Tensor x) -> TODO",
        "plan": "(Tensor x) -> TODO",
        "cast": "(Tensor x, Tensor? like, TODO odd) -> (Tensor y)",
    }
    for name, schema in schemas.items():
        assert f'schema="{schema}"' in block(text, name)
    assert 'dtypes="T, _ -> T"' in block(text, "norm")
    assert 'dims="[n] [h], 4 -> [n] [half], [n] 4"' in block(text, "halve")
    assert 'dtypes="_, _ -> int8"' in block(text, "add")
    for name in ("open", "maybe", "count", "plan", "cast"):
        assert "infer=None,  # TODO" in block(text, name)


def test_ops_of_templates_are_complete_but_for_the_kernel(
    package: str, tmp_path: Path, capsys: Any
) -> None:
    output = tmp_path / "ops.py"
    generate(package, "-o", output, "--namespace", "mod2", capsys=capsys)
    text = filled(output)
    complete = [block(text, name) for name in ("norm", "halve", "add", "append", "top_k")]
    lines = ("\n".join(part.splitlines()[1:]) for part in complete)
    (tmp_path / "made.py").write_text("import graphffi\n" + "\n".join(lines))
    ops = imported(tmp_path / "made.py")
    x = np.ones((3, 6), "float16")
    assert ops.norm(x, x[0], 0.5).shape == (3, 6)
    assert ops.norm.__doc__ == "Norms."
    assert ops.reference_of_norm()(2, 3, 1) == 7
    y, z = ops.halve(x, None)
    assert (y.shape, y.dtype, z.shape, z.dtype) == ((3, 3), "float16", (3, 4), "int32")
    made, *updated = ops.add(x[0].copy(), x[0].copy())
    assert (made.dtype, len(updated)) == ("int8", 2)
    assert ops.top_k(x[0], 2)[0].shape == (2,)
    with pytest.raises(ValueError, match="mod2::norm: operand 'w': expected size 6 of 'h' as in"):
        ops.norm(x, x[0, :3], 0.5)


def test_edits_stay_and_check_compares(package: str, tmp_path: Path, capsys: Any) -> None:
    output = tmp_path / "ops.py"
    arguments = (package, "-o", output, "--namespace", "mod3")
    assert generate(*arguments, "--check", capsys=capsys)[0] == 1
    generate(*arguments, capsys=capsys)
    assert generate(*arguments, "--check", capsys=capsys)[0] == 0
    edited = output.read_text().replace('"Norms."', '"Mine."')
    output.write_text(edited)
    status, facts = generate(*arguments, capsys=capsys)
    assert (status, facts["kept"], output.read_text()) == (0, ["norm"], edited)
    assert main(["generate", *map(str, arguments)]) == 0
    out = capsys.readouterr().out
    assert "complete: 0 of 12; to fill in: kernel 12, infer 6, schema 5" in out


def test_kernels_of_libraries_get_plans_where_their_types_say_it(
    package: str, tmp_path: Path, capsys: Any
) -> None:
    source, output = tmp_path / "kernels.cc", tmp_path / "ops.py"
    source.write_text(KERNELS)
    library = graphffi.cpp.build("template_kernels", sources=[source])
    _, facts = generate(package, library, "-o", output, "--namespace", "mod4", capsys=capsys)
    assert facts["lacking"] == {"kernel": 9, "infer": 6, "schema": 5, "plan": 2}
    assert "norm" not in facts["todo"]
    text = output.read_text()
    assert 'plan="x, w, eps, y"' in block(text, "norm")
    assert 'plan="TODO"' in block(text, "halve")  # the function takes no scale and one result
    assert "# halve(DLTensor*, DLTensor*) -> None" in block(text, "halve")
    start = text.partition("# generated")[0]
    norm = "\n".join(block(text, "norm").splitlines()[1:])
    (tmp_path / "made.py").write_text(start + norm)
    x = np.full((2, 3), 2, "float32")
    np.testing.assert_array_equal(imported(tmp_path / "made.py").norm(x, x[0], 1.0), 2 * x + 1)


def test_modules_without_templates_are_refused(tmp_path: Path, capsys: Any) -> None:
    output = str(tmp_path / "ops.py")
    for source, text in (
        ("json.decoder", "got a module without"),
        ("no_such_module.at_all", "got a module that cannot be imported: No module named"),
    ):
        assert main(["generate", source, "-o", output]) == 1
        assert f"graphffi generate: {source}: expected a " in (error := capsys.readouterr().err)
        assert text in error
    assert main(["generate", "missing.so", "other.so", "-o", output]) == 1
    assert "expected a library, .json files, or a module with" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("constraints", "expected"),
    [
        (["h == 2 * m"], {"m": "(h // 2)"}),
        (["m * 2 == h"], {"m": "(h // 2)"}),
        (["m == (h + 127) // 128 * 128"], {"m": "((h + 127) // 128 * 128)"}),
        (["p == h + 1", "m == p // 2"], {"m": "((h + 1) // 2)"}),
        (["m == min(h, 4)"], {"m": "(min(h, 4))"}),
        (["one == 1", "m == one"], {"m": "(1)"}),
        (["m >= h"], {}),
        (["m == h == 2"], {}),
        (["m == unknown"], {}),
        (["m == m + 0"], {}),
        (["m == x.shape[0]"], {}),
        (["m == open('f')"], {}),
        (["m == h ** 2"], {}),
        (["h == m + m"], {}),
        (["not Python"], {}),
    ],
)
def test_sizes_of_results_follow_from_equations(
    constraints: list[str], expected: dict[str, str]
) -> None:
    assert solved({"m"}, {"h"}, constraints) == expected


@pytest.mark.slow
def test_templates_of_flashinfer_become_ops(tmp_path: Path) -> None:
    if importlib.util.find_spec("flashinfer") is None:
        pytest.skip("needs flashinfer-python")
    output = tmp_path / "ops.py"
    command = [sys.executable, "-m", "graphffi", "generate", "flashinfer.trace", "--json"]
    made = subprocess.run([*command, "-o", str(output)], capture_output=True, text=True, check=True)
    facts = json.loads(made.stdout[made.stdout.index("{") :])
    assert len(facts["written"]) > 200
    assert facts["lacking"]["infer"] < len(facts["written"]) // 4
    text = filled(output)
    complete = {n: block(text, n) for n in facts["written"] if "TODO:" not in _unfilled(text, n)}
    assert len(complete) > 150
    lines = ("\n".join(part.splitlines()[1:]) for part in complete.values())
    (tmp_path / "made.py").write_text("import graphffi\n" + "\n".join(lines))
    ops = imported(tmp_path / "made.py")
    gate = np.ones((2, 6), "float32")
    assert ops.silu_and_mul(gate).shape == (2, 3)


def _unfilled(text: str, name: str) -> str:
    return block(text, name).replace("# TODO: a kernel reference", "")
