# SPDX-License-Identifier: Apache-2.0
"""``graphffi generate``: definitions of a library's ops as a Python file."""

from __future__ import annotations

import ast
import importlib.util
import itertools
import json
from pathlib import Path
from typing import Any

import pytest

import graphffi
from graphffi._command.command import main
from graphffi._definition.define_text import define_text
from graphffi._definition.stub_text import stub_text

from .conftest import HERE

np = pytest.importorskip("numpy")

KERNELS = r"""
void scale(tvm::ffi::TensorView x, double factor, tvm::ffi::TensorView out) {}
tvm::ffi::Tensor same(tvm::ffi::Tensor x) { return x; }
int64_t add(int64_t a, int64_t b) { return a + b; }
void odd(tvm::ffi::Array<tvm::ffi::Tensor> xs, tvm::ffi::Function f) {}
"""
numbers = itertools.count()


@pytest.fixture(scope="module")
def plain() -> str:
    functions = {"scale": "Scales.", "same": "", "add": "", "odd": ""}
    return graphffi.cpp.build("plain_kernels", cpp_sources=KERNELS, functions=functions)


def generate(*arguments: Any, capsys: Any = None) -> tuple[int, Any]:
    status = main(["generate", "--json", *map(str, arguments)])
    return status, json.loads(capsys.readouterr().out) if capsys is not None else None


def imported(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(f"generated_{next(numbers)}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_ops_that_a_library_describes_need_no_edit(tmp_path: Path, capsys: Any) -> None:
    library = graphffi.cpp.build("op_library", [HERE / "op_library.cc"], extra_cflags=["-O1"])
    output = tmp_path / "ops.py"
    status, facts = generate(library, "-o", output, "--namespace", "made", capsys=capsys)
    assert (status, facts["todo"], facts["kept"]) == (0, [], [])
    ops = imported(output)
    x = np.ones((2, 3), "float32")
    np.testing.assert_allclose(ops.rms_norm(x, x[0]), x, rtol=1e-5)
    assert [half.shape for half in ops.halves(x[0])] == [(1,), (2,)]
    assert ops.scratch(x, 5)[0] == 15
    assert ops.doubled(x[0]).tolist() == [2, 2, 2]  # by a kernel of another name
    assert ops.rms_norm.__doc__ == "Root-mean-square norm.\n\nOver the last dimension."
    before = output.read_text()
    with output.open() as read_meanwhile:
        generate(library, "-o", output, "--namespace", "other", capsys=capsys)
        assert read_meanwhile.read() == before  # it was replaced, not written over
    assert output.read_text() != before


def test_what_metadata_does_not_say_is_refused_by_name(
    plain: str, tmp_path: Path, capsys: Any
) -> None:
    output = tmp_path / "ops.py"
    _, facts = generate(plain, "-o", output, "--namespace", "plain", capsys=capsys)
    assert facts["todo"] == ["odd", "same", "scale"]
    assert facts["left_out"] == {"add": "it takes no tensor"}
    with pytest.raises(ValueError, match=r"plain::odd: schema: expected a type of .*'TODO arg1'"):
        imported(output)
    text = output.read_text()
    assert 'schema="(Tensor arg0, float arg1, Tensor arg2) -> TODO"' in text
    assert '"(Tensor arg0) -> Tensor"' in text
    assert 'doc="Scales."' in text
    assert "# scale(DLTensor*, float, DLTensor*) -> None\n" in text


def test_a_new_run_keeps_edits_and_gives_no_difference(
    plain: str, tmp_path: Path, capsys: Any
) -> None:
    output = tmp_path / "ops.py"
    generate(plain, "-o", output, "--namespace", "plain", capsys=capsys)
    assert generate(plain, "-o", output, "--namespace", "plain", "--check", capsys=capsys)[0] == 0
    edited = output.read_text().replace("float arg1, Tensor arg2) -> TODO", "float f) -> Tensor")
    output.write_text(f"{edited}\n\ndef mine() -> None:\n    pass\n")
    status, facts = generate(plain, "-o", output, "--namespace", "plain", capsys=capsys)
    assert (status, facts["state"], facts["kept"]) == (0, "up to date", ["scale"])
    assert "(Tensor arg0, float f) -> Tensor" in output.read_text()
    assert "def mine()" in output.read_text()


def test_check_says_what_is_out_of_date(plain: str, tmp_path: Path, capsys: Any) -> None:
    output = tmp_path / "ops.py"
    status, facts = generate(plain, "-o", output, "--check", capsys=capsys)
    assert (status, facts["state"]) == (1, "out of date")
    assert not output.exists()


def test_stubs_have_the_parameters_of_a_librarys_ops(
    plain: str, tmp_path: Path, capsys: Any
) -> None:
    library = graphffi.cpp.build("op_library", [HERE / "op_library.cc"], extra_cflags=["-O1"])
    output = tmp_path / "ops.pyi"
    _, facts = generate("--stubs", library, "-o", output, "--namespace", "made", capsys=capsys)
    assert (facts["state"], facts["left_out"]) == ("written", {})
    text = output.read_text()
    assert (
        '@graphffi.op("made::rms_norm")\n'
        "def rms_norm(x: graphffi.Tensor, weight: graphffi.Tensor, eps: float = 1e-06)"
        " -> graphffi.Tensor:\n"
        '    """Root-mean-square norm.\n\n    Over the last dimension.\n    """\n'
    ) in text
    assert (
        "def accumulate(sum: graphffi.Tensor, xs: list[graphffi.Tensor], "
        "bias: graphffi.Tensor | None = None) -> graphffi.Tensor: ...\n"
    ) in text
    assert "-> tuple[graphffi.Tensor, graphffi.Tensor]: ..." in text
    again = ("--stubs", library, "-o", output, "--namespace", "made", "--check")
    assert generate(*again, capsys=capsys)[0] == 0
    _, facts = generate("--stubs", plain, "-o", output, capsys=capsys)
    assert facts["written"] == ["same"]
    assert facts["left_out"]["scale"] == "the library does not say what it takes and returns"
    assert main(["generate", "--stubs", plain, "-o", str(tmp_path / "ops.py")]) == 1
    assert "--stubs: expected -o with a file <name>.pyi, got" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("schema", "doc", "text"),
    [
        (
            "(Tensor x, *, dtype kind='int8', Device? at=None, float f=1e999, int[] sizes=[1, 2])"
            " -> ()",
            "",
            "(x: graphffi.Tensor, *, kind: graphffi.dtype = ..., at: graphffi.Device | None = None,"
            " f: float = ..., sizes: list[int] = ...) -> None: ...",
        ),
        (
            "(Tensor x, str s='a\"b', bool b=True) -> Tensor",
            'Says "\\".',
            "(x: graphffi.Tensor, s: str = 'a\"b', b: bool = True) -> graphffi.Tensor:\n"
            '    "Says \\"\\\\\\"."',
        ),
    ],
)
def test_stubs_hold_what_python_can_write(schema: str, doc: str, text: str) -> None:
    written = stub_text("made::op", {"schema": schema, "doc": doc})
    ast.parse(written)
    assert written == f'@graphffi.op("made::op")\ndef op{text}\n'


DEFINITION = {
    "name": "fused_add_norm",
    "op_type": "rmsnorm",
    "description": "Adds, then norms.",
    "axes": {"batch": {"type": "var"}, "hidden": {"type": "const", "value": 4}},
    "inputs": {
        "x": {"shape": ["batch", "hidden"], "dtype": "float32"},
        "weight": {"shape": ["hidden"], "dtype": "float32"},
        "eps": {"shape": None, "dtype": "float32"},
    },
    "outputs": {"y": {"shape": ["batch", "hidden"], "dtype": "float32"}},
    "reference": "def run(x, weight, eps):\n    return x * weight + eps",
}


def test_definitions_of_flashinfer_bench_become_ops(tmp_path: Path, capsys: Any) -> None:
    source, output = tmp_path / "norm.json", tmp_path / "ops.py"
    source.write_text(json.dumps(DEFINITION))
    _, facts = generate(source, "-o", output, "--namespace", "trace", capsys=capsys)
    assert facts["todo"] == ["fused_add_norm"]
    with pytest.raises(TypeError, match="trace::fused_add_norm: kernel: expected a "):
        imported(output)
    text = output.read_text()
    output.write_text(text.replace("kernel=...", "kernel=lambda x, w, eps, y: None"))
    ops = imported(output)
    x = np.ones((3, 4), "float32")
    assert ops.fused_add_norm(x, x[0], 0.5).shape == (3, 4)
    assert ops.reference_of_fused_add_norm()(2, 3, 1) == 7
    with pytest.raises(ValueError, match="trace::fused_add_norm: operand 'x': expected size 4 of"):
        ops.fused_add_norm(np.ones((3, 5), "float32"), x[0], 0.5)


def test_kinds_of_attributes_and_sizes_of_results_alone(tmp_path: Path, capsys: Any) -> None:
    source, output = tmp_path / "split.json", tmp_path / "ops.py"
    axes = {"n": {"type": "var"}, "k": {"type": "var"}, "half": {"type": "const", "value": 2}}
    inputs = {"x": {"shape": ["n"], "dtype": "float32"}}
    for name, dtype in (("causal", "bool"), ("window", "int64"), ("eps", "float32")):
        inputs[name] = {"shape": None, "dtype": dtype}
    outputs = {
        "of_two": {"shape": ["n", "half"], "dtype": "float32"},
        "of_any": {"shape": ["n", "k"], "dtype": "float32"},
    }
    made = {"name": "split", "axes": axes, "inputs": inputs, "outputs": outputs}
    source.write_text(json.dumps(made))
    generate(source, "-o", output, "--namespace", "trace", capsys=capsys)
    text = output.read_text()
    parameters, results = "Tensor x, bool causal, int window, float eps", "of_two, Tensor of_any"
    assert f'schema="({parameters}) -> (Tensor {results})",' in text
    assert "infer=None,  # TODO: the shape rule" in text
    del outputs["of_any"]  # no operand has its size
    source.write_text(json.dumps(made))
    generate(source, "-o", output, "--namespace", "trace", capsys=capsys)
    rule = "lambda x, causal, window, eps: graphffi.empty([x.shape[-1], 2], 'float32')"
    assert f"infer={rule}," in output.read_text()


def test_a_missing_folder_is_named(tmp_path: Path, capsys: Any) -> None:
    source, output = tmp_path / "norm.json", tmp_path / "none" / "ops.py"
    source.write_text(json.dumps(DEFINITION))
    assert main(["generate", str(source), "-o", str(output)]) == 1
    expected = f"graphffi generate: {output}: No such file or directory\n"
    assert capsys.readouterr().err == expected


def test_other_json_is_refused(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "other.json").write_text("{}")
    assert main(["generate", str(tmp_path / "other.json"), "-o", str(tmp_path / "ops.py")]) == 1
    assert "expected a definition with name, axes, inputs and outputs" in capsys.readouterr().err


def test_names_that_python_has_not_are_refused(tmp_path: Path, capsys: Any) -> None:
    source, output = tmp_path / "norm.json", tmp_path / "ops.py"
    source.write_text(json.dumps({**DEFINITION, "name": "fused-norm"}))
    assert main(["generate", str(source), "-o", str(output)]) == 1
    assert "norm.json: name: expected an identifier of Python, got" in capsys.readouterr().err
    assert main(["generate", str(source), "-o", str(output), "--namespace", "a b"]) == 1
    assert "namespace: expected an identifier, got 'a b'; pass" in capsys.readouterr().err
    assert not output.exists()


def test_a_function_whose_name_is_a_keyword_is_left_out(tmp_path: Path, capsys: Any) -> None:
    text = "int64_t f(int64_t a) { return a; }\nTVM_FFI_DLL_EXPORT_TYPED_FUNC(lambda, f);"
    library = graphffi.cpp.build("keyword_kernels", cpp_sources=text)
    _, facts = generate(library, "-o", tmp_path / "ops.py", capsys=capsys)
    assert facts["left_out"] == {"lambda": "its name is no identifier of Python"}


@pytest.mark.parametrize("name", ["graphffi", "max"])
def test_a_function_whose_name_the_file_uses_is_left_out(
    tmp_path: Path, capsys: Any, name: str
) -> None:
    text = f"void f(tvm::ffi::TensorView) {{}}\nTVM_FFI_DLL_EXPORT_TYPED_FUNC({name}, f);"
    library = graphffi.cpp.build(f"{name}_kernels", cpp_sources=text)
    _, facts = generate(library, "-o", tmp_path / "ops.py", capsys=capsys)
    assert facts["left_out"] == {name: "its name is one that the file itself uses"}


def test_texts_of_any_language_stay_as_they_are() -> None:
    schema = '(Tensor x, str s="\U0001f600") -> Tensor'
    text = define_text("a::b", "", {"schema": schema, "shape": "like(x)"})
    (literal,) = (line for line in text.splitlines() if "schema=" in line)
    assert ast.literal_eval(literal.strip().removeprefix("schema=").rstrip(",")) == schema


def test_what_views_write_needs_no_todo(tmp_path: Path) -> None:
    text = """
    #include <graphffi/view.h>
    using graphffi::View;
    void norm(View<const float, 2> x, tvm::ffi::Optional<View<const float>> w, View<float> out) {}
    void update(View<float> cache, View<const int64_t> index, int64_t n) {}
    void mixed(View<float> cache, tvm::ffi::TensorView x) {}
    """
    source = tmp_path / "views.cc"
    exports = "".join(
        f"TVM_FFI_DLL_EXPORT_TYPED_FUNC({n}, {n});" for n in ("norm", "update", "mixed")
    )
    source.write_text(text + exports)
    library = graphffi.cpp.build("generated_views", sources=[source])
    assert main(["generate", str(library), "-o", str(tmp_path / "ops.py")]) == 0
    written = (tmp_path / "ops.py").read_text()
    assert '"(Tensor arg0, Tensor? arg1) -> Tensor"' in written
    assert '"(Tensor(a!) arg0, Tensor arg1, int arg2) -> ()"' in written
    assert '"(Tensor(a!) arg0, Tensor arg1) -> TODO"' in written
