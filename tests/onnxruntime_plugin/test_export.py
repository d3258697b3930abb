# SPDX-License-Identifier: Apache-2.0
"""Programs of PyTorch as models."""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import graphffi
import graphffi_onnxruntime
from graphffi.plugin import read_lines
from graphffi_onnxruntime._node_text import CALL
from tests.onnxruntime_plugin.models import session_of

torch = pytest.importorskip("torch")
if importlib.util.find_spec("onnxscript") is None:
    pytest.skip("needs onnxscript", allow_module_level=True)

pytestmark = pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec:FutureWarning")
D = torch.export.Dim.DYNAMIC


@pytest.fixture(scope="module")
def ops(library: str) -> Any:
    """Ops of all kinds, by name."""

    def define(name: str, schema: str, **options: Any) -> graphffi.Op:
        options = {"kernel": f"{library}::{name}", **options}
        return graphffi.define_op(f"onnx_export::{name}", schema=schema, **options)

    class Ops:
        scale = define(
            "scale",
            "(Tensor x, Tensor? bias=None, float factor=2.1) -> Tensor",
            infer=lambda x, bias, factor: graphffi.like(x),
            dims="m n, m n -> m n",
        )
        increment = define(
            "increment",
            "(Tensor(a!) x) -> Tensor",
            infer=lambda x: graphffi.empty((), "int64"),
        )

    return Ops


class Program(torch.nn.Module):
    """A program with the state `total`, of a function that gets it as the first argument."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.eval()
        self.function = function
        self.register_buffer("total", torch.arange(3.0))
        self.register_buffer("shared", torch.arange(3.0))
        self.register_buffer("part", self.shared[:2])
        self.weight = torch.nn.Parameter(torch.ones(3), requires_grad=False)

    def forward(self, *args: Any) -> Any:
        return self.function(self, *args)


def export(
    function: Callable[..., Any], path: Path, *args: Any, shapes: Any = None, **options: Any
) -> str:
    """The path of the model of a function, whose arguments are called args_0, args_1, …."""
    exported = torch.export.export(Program(function), args, dynamic_shapes=shapes and (shapes,))
    return graphffi_onnxruntime.export(exported, path / "model.onnx", **options)


def run(path: str, **inputs: Any) -> dict[str, np.ndarray]:
    """The results of a model, by name and in order."""
    session = session_of(path, path)
    given = {name: x.numpy() for name, x in inputs.items()}
    names = [each.name for each in session.get_outputs()]
    return dict(zip(names, session.run(None, given), strict=True))


def text_of(path: str, name: str) -> list[tuple[str, str]]:
    """The lines of the call of an op."""
    nodes = [node for node in onnx.load(path).graph.node if node.op_type == name]
    texts = [a.s.decode() for node in nodes for a in node.attribute if a.name == CALL]
    return list(read_lines(texts[0])[1])


def test_a_model_gives_what_eager_code_gives(ops: Any, tmp_path: Path) -> None:
    def program(self: Any, x: Any, c: Any) -> Any:
        y = ops.scale(x, torch.cat([c, c]), factor=0.1)
        ops.increment(self.total)
        ops.increment(c[:, 1])
        c.mul_(2)
        return ops.scale(y * self.total + 1), c + 1

    x, c = torch.ones(4, 3), torch.ones(2, 3)
    path = export(program, tmp_path, x, c, shapes=({0: D}, {0: D}))
    session = session_of(path, path)
    assert [i.name for i in session.get_inputs()] == ["args_0", "args_1"]
    assert [i.name for i in session.get_overridable_initializers()] == ["total"]
    assert [o.name for o in session.get_outputs()][2:] == ["total_updated", "args_1_updated"]
    for half in (0, 1, 2, 5):
        x, c = torch.rand(2 * half, 3), torch.rand(half, 3)
        model, updated = Program(program), c.clone()
        results = model(x, updated)
        got = session.run(None, {"args_0": x.numpy(), "args_1": c.numpy()})
        for actual, wanted in zip(got, (*results, model.total, updated), strict=True):
            np.testing.assert_array_equal(actual, wanted.numpy())
    again = session.run(["total_updated"], {"args_0": got[0], "args_1": got[3], "total": got[2]})
    np.testing.assert_array_equal(again[0], got[2] + 1)


def test_calls_with_zeros_of_other_signs_stay_apart(ops: Any, tmp_path: Path) -> None:
    def program(self: Any, x: Any, zeros: Any) -> Any:
        return ops.scale(x, zeros, factor=0.0), ops.scale(x, zeros, factor=-0.0)

    given = torch.ones(2, 3), -torch.zeros(2, 3)
    path = export(program, tmp_path, *given)
    zeros = run(path, args_0=given[0], args_1=given[1]).values()
    assert [np.signbit(value).all() for value in zeros] == [False, True]


def test_equal_calls_that_may_differ_stay_two(tmp_path: Path) -> None:
    calls: list[int] = []

    def count(x: Any, out: Any) -> None:
        calls.append(1)
        np.from_dlpack(out)[...] = len(calls)

    op = graphffi.define_op(
        "onnx_export::count",
        schema="(Tensor x) -> Tensor",
        kernel=count,
        infer=graphffi.like,
        recompute=False,
    )
    path = export(lambda self, x: (op(x), op(x)), tmp_path, torch.ones(3))
    first, second = run(path, args_0=torch.ones(3)).values()
    assert sorted([first[0], second[0]]) == [1, 2]


def test_an_updated_input_may_be_returned_too(ops: Any, tmp_path: Path) -> None:
    path = export(lambda self, c: ops.increment(c)[1], tmp_path, torch.ones(3))
    got = run(path, args_0=torch.ones(3))
    assert [*got][1:] == ["args_0_updated"]
    for value in got.values():
        np.testing.assert_array_equal(value, [2, 2, 2])


def test_updates_of_torch_become_results(tmp_path: Path) -> None:
    path = export(lambda self, x: x.add_(1) * self.total.mul_(2), tmp_path, torch.ones(3))
    got = run(path, args_0=torch.ones(3))
    np.testing.assert_array_equal(got["args_0_updated"], [2, 2, 2])
    np.testing.assert_array_equal(got["total_updated"], [0, 2, 4])


def test_a_model_has_the_kernels_of_other_sizes(library: str, tmp_path: Path) -> None:
    op = graphffi.define_op(
        "onnx_export::choice",
        schema="(Tensor x, Tensor? bias=None, float factor=2.0) -> Tensor",
        infer=lambda x, bias, factor: graphffi.like(x),
    )
    op.add_kernel(f"{library}::scale", plan="x, bias, 3.0, out", when=_is_multiple_of_4)
    op.add_kernel(f"{library}::scale", name="other")
    path = export(lambda self, x: op(x), tmp_path, torch.ones(8), shapes=({0: D},))
    session = session_of(path, path)
    for n in (0, 1, 2, 3, 4, 6, 12, 64):
        got = session.run(None, {"args_0": np.ones(n, np.float32)})[0]
        np.testing.assert_array_equal(got, op(np.ones(n, np.float32)))


def test_sizes_whose_results_are_others_than_the_programs_are_refused(
    library: str, tmp_path: Path
) -> None:
    op = graphffi.define_op(
        "onnx_export::capped",
        schema="(Tensor x) -> Tensor",
        kernel=f"{library}::returned",
        plan="x",
        infer=_capped,
    )
    shapes = ({0: D},)
    path = export(
        lambda self, x: (op(x), x.new_ones(op(x).shape)), tmp_path, torch.ones(3), shapes=shapes
    )
    for n in (0, 1, 3):
        for value in run(path, args_0=-torch.ones(n)).values():
            np.testing.assert_array_equal(value, np.ones(n))
    for n in (4, 5):  # of 4, the result is as large as the program's
        with pytest.raises(Exception, match=r"onnx_export::capped: expected x.shape.0. < 4, as in"):
            run(path, args_0=torch.ones(n))


def _capped(x: Any) -> Any:
    return graphffi.like(x, shape=(4 if x.shape[0] >= 4 else x.shape[0],))


def _is_multiple_of_4(x: Any, *_: Any) -> Any:
    return x.shape[0] % 4 == 0


def test_kernels_are_those_of_the_device(library: str, tmp_path: Path) -> None:
    op = graphffi.define_op(
        "onnx_export::placed",
        schema="(Tensor x, Tensor? bias=None, float factor=2.0) -> Tensor",
        infer=lambda x, bias, factor: graphffi.like(x),
    )
    op.add_kernel(f"{library}::scale", device="cpu")
    op.add_kernel("onnx_export.on_gpu", device="cuda")
    path = export(lambda self, x: op(x), tmp_path, torch.ones(8), device="cuda")
    lines = dict(text_of(path, "placed"))
    assert (lines["device"], lines["kernel"]) == ("cuda", "onnx_export.on_gpu")
    assert "onnx_export::placed" in Path(f"{path}.ops").read_text()


def test_a_function_that_a_process_has_to_register_is_named(
    ops: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def kernel(x: Any, out: Any) -> None:
        np.from_dlpack(out)[...] = np.from_dlpack(x) + 1

    graphffi.register_global_func("onnx_export.python", kernel)
    op = graphffi.define_op(
        "onnx_export::python",
        schema="(Tensor x) -> Tensor",
        kernel="onnx_export.python",
        infer=graphffi.like,
    )
    with caplog.at_level(logging.WARNING, "graphffi_onnxruntime"):
        path = export(lambda self, x: op(x), tmp_path, torch.ones(3))
    assert "'onnx_export.python'" in caplog.text
    np.testing.assert_array_equal(next(iter(run(path, args_0=torch.ones(3)).values())), [2, 2, 2])


def test_torch_takes_the_table_of_translations(ops: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "own.onnx")
    table = graphffi_onnxruntime.translation_table()
    module = Program(lambda self, x: ops.scale(x, factor=3.0))
    x = torch.ones(2, 3)
    torch.onnx.export(module, (x,), path, dynamo=True, custom_translation_table=table)
    assert graphffi_onnxruntime.write_ops(path) == f"{path}.ops"
    assert len(list(tmp_path.glob("onnxruntime_kernels-*.so"))) == 1
    np.testing.assert_array_equal(next(iter(run(path, args_0=x).values())), 3 * x.numpy())


def test_a_model_of_other_definitions_gets_no_list(ops: Any, tmp_path: Path) -> None:
    path = export(lambda self, x: ops.scale(x), tmp_path, torch.ones(2, 3))
    model = onnx.load(path)
    text = next(a for a in model.graph.node[0].attribute if a.name == CALL)
    digest = ops.scale.definition.digest
    for change, expected in (
        (lambda: setattr(text, "s", text.s.replace(digest.encode(), b"0123456789abcdef")),
         f"onnx_export::scale: expected the definition .* 0123456789abcdef, got {digest}"),
        (lambda: setattr(model.graph.node[0], "op_type", "unknown"),
         "onnx_export::unknown: expected an op of this process, found none"),
    ):  # fmt: skip
        change()
        onnx.save(model, path)
        with pytest.raises((KeyError, ValueError), match=expected):
            graphffi_onnxruntime.write_ops(path)


def test_a_wrong_size_is_refused_with_the_text_of_eager_code(ops: Any, tmp_path: Path) -> None:
    x = torch.ones(2, 3)
    path = export(
        lambda self, x, bias: ops.scale(x, bias),
        tmp_path,
        x,
        x.clone(),
        shapes=({0: D, 1: D}, {0: D, 1: D}),
    )
    with pytest.raises(ValueError, match="onnx_export::scale") as eager:
        ops.scale(x.numpy(), np.ones((2, 4), np.float32))
    with pytest.raises(Exception, match="onnx_export::scale") as refused:
        run(path, args_0=x, args_1=torch.ones(2, 4))
    assert f"ValueError: {eager.value}" in str(refused.value)


REFUSED = {
    "side effect": (
        "(Tensor x) -> Tensor", {"has_side_effect": True}, lambda op, self, x: op(x),
        NotImplementedError, "export: expected an op without side effects, got has_side_effect=",
    ),
    "list": (
        "(Tensor[] xs, Tensor x) -> Tensor", {}, lambda op, self, x: op([x], x),
        NotImplementedError, "operand 'xs': expected a list of tensors as the last operand",
    ),
    "complex": (
        "(Tensor x) -> Tensor", {}, lambda op, self, x: op(x.to(torch.complex64)).real,
        NotImplementedError, "operand 'x': expected a data type .*, got complex64",
    ),
    "computed attribute": (
        "(Tensor x, int n) -> Tensor", {}, lambda op, self, x: op(x, x.shape[0]),
        NotImplementedError, "attribute 'n': expected a constant of the model, got a number",
    ),
    "computed item": (
        "(Tensor x, int[] n) -> Tensor", {}, lambda op, self, x: op(x, [1, x.shape[0]]),
        NotImplementedError, "attribute 'n': expected a constant of the model, got a number",
    ),
    "parameter": (
        "(Tensor x, Tensor(a!) y) -> Tensor", {}, lambda op, self, x: op(x, self.weight)[0],
        ValueError, "export: operand 'y': expected an input or a buffer .* parameter 'weight'",
    ),
    "shared buffer": (
        "(Tensor x, Tensor(a!) y) -> Tensor", {},
        lambda op, self, x: op(x, self.shared)[0] + self.part.sum(),
        ValueError, "export: operand 'y': expected memory of its own",
    ),
    "same tensor": (
        "(Tensor x, Tensor(a!) y) -> Tensor", {}, lambda op, self, x: op(x, x)[0],
        ValueError, "export: operand 'y': expected a tensor of its own, .* got that of operand 'x'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_no_model_can_hold_is_refused_by_name(case: str, tmp_path: Path) -> None:
    schema, options, call, kind, text = REFUSED[case]
    name = f"onnx_refused::{case.replace(' ', '_')}"
    infer = lambda *args: graphffi.like(args[1] if case == "list" else args[0])  # noqa: E731
    op = graphffi.define_op(name, schema=schema, kernel="onnx_refused.k", infer=infer, **options)
    with pytest.raises(kind, match=f"{name}: {text}"):
        export(lambda self, x: call(op, self, x), tmp_path, torch.ones(4, 3), shapes=({0: D},))
    assert not list(tmp_path.iterdir())


def test_a_complex_result_is_refused_by_name(library: str, tmp_path: Path) -> None:
    op = graphffi.define_op(
        "onnx_refused::complex_result",
        schema="(Tensor x) -> Tensor",
        kernel=f"{library}::scale",
        infer=lambda x: graphffi.like(x, dtype="complex64"),
    )
    expected = "onnx_refused::complex_result: result 'out': expected a data type .*, got complex64"
    with pytest.raises(NotImplementedError, match=expected):
        export(lambda self, x: op(x).real, tmp_path, torch.ones(3))


def test_updates_in_a_program_that_was_decomposed_are_refused(ops: Any, tmp_path: Path) -> None:
    module = Program(lambda self, x: ops.increment(x)[0])
    late = torch.export.export(module, (torch.ones(3),)).run_decompositions({})
    expected = "onnx_export::increment: export: expected a program before run_decompositions"
    with pytest.raises(ValueError, match=expected):
        graphffi_onnxruntime.export(late, tmp_path / "model.onnx")


@pytest.mark.slow
def test_ops_in_branches_are_nodes_of_subgraphs(ops: Any, tmp_path: Path) -> None:
    def program(self: Any, x: Any) -> Any:
        return torch.cond(x.sum() > 0, ops.scale, lambda x: ops.scale(x, x), (x,))

    path = export(program, tmp_path, torch.ones(2, 3), shapes=({0: D},))
    for x in (torch.ones(5, 3), -torch.ones(2, 3)):
        wanted = ops.scale(x) if x.sum() > 0 else ops.scale(x, x)
        got = next(iter(run(path, args_0=x).values()))
        np.testing.assert_array_equal(got, wanted.numpy())


def test_updates_in_branches(library: str, tmp_path: Path) -> None:
    op = graphffi.define_op(
        "onnx_export::scale_in_place",
        schema="(Tensor(a!) x, float factor) -> ()",
        kernel=f"{library}::scale",
        plan="x, None, factor, x",
    )

    def updated(x: Any) -> Any:
        y = x + 1
        op(y, 3.0)
        return y * x

    def program(self: Any, x: Any) -> Any:
        return torch.cond(x.sum() > 0, updated, lambda x: x - 1, (x,)) + x

    path = export(program, tmp_path, torch.ones(3))
    for x in (torch.ones(3), -torch.ones(3)):
        got = next(iter(run(path, args_0=x).values()))
        np.testing.assert_array_equal(got, program(None, x).numpy())


def test_a_kernel_that_a_factory_makes_of_python_is_refused(tmp_path: Path) -> None:
    op = graphffi.define_op(
        "onnx_refused::made", schema="(Tensor x) -> Tensor", infer=graphffi.like
    )
    op.add_factory(key=_size, name="python")(lambda size: lambda x, out: None)
    expected = "onnx_refused::made: model.onnx: expected kernels of libraries, got the function .*"
    with pytest.raises(ValueError, match=f"{expected} that a factory made"):
        export(lambda self, x: op(x), tmp_path, torch.ones(3))
    assert not list(tmp_path.iterdir())


def test_sizes_that_only_the_reference_serves_are_refused_in_calls(
    library: str, tmp_path: Path
) -> None:
    op = graphffi.define_op(
        "onnx_export::long",
        schema="(Tensor x, Tensor? bias=None, float factor=2.0) -> Tensor",
        infer=lambda x, bias, factor: graphffi.like(x),
        fallback="reference",
    )
    op.set_reference(lambda xp, x, bias, factor: x * factor)
    op.add_kernel(f"{library}::scale", when=_is_long)
    path = export(lambda self, x: op(x), tmp_path, torch.ones(8), shapes=({0: D},))
    np.testing.assert_array_equal(next(iter(run(path, args_0=torch.ones(4)).values())), [2] * 4)
    expected = "onnx_export::long: expected x.shape.0. >= 4, .* got x.shape.0. = 3; export again"
    with pytest.raises(Exception, match=expected):
        run(path, args_0=torch.ones(3))
    with pytest.raises(NotImplementedError, match=r"onnx_export::long: .* got the reference"):
        export(lambda self, x: op(x), tmp_path, torch.ones(3))


def _size(x: Any) -> Any:
    return x.shape[0]


def _is_long(x: Any, *_: Any) -> Any:
    return x.shape[0] >= 4


def test_new_values_have_names_that_are_free(tmp_path: Path) -> None:
    path = export(
        *(lambda self, x, y: x.add_(y), tmp_path, torch.ones(2), torch.ones(2)),
        input_names=["x", "x_updated"],
        output_names=["sum"],
    )
    got = run(path, x=torch.ones(2), x_updated=torch.ones(2))
    assert [*got] == ["sum", "x_updated_"]


def test_an_example_with_one_tensor_twice_is_refused(ops: Any, tmp_path: Path) -> None:
    x = torch.ones(2, 3)
    with pytest.raises(ValueError, match="export: inputs 'args_0' and 'args_1': expected a tensor"):
        export(lambda self, x, bias: ops.scale(x, bias), tmp_path, x, x)


def test_updated_operands_may_be_none_and_no_tensors(library: str, tmp_path: Path) -> None:
    op = graphffi.define_op(
        "onnx_export::optional_updates",
        schema="(Tensor x, Tensor(a!)? y, Tensor(b!)[] zs) -> Tensor",
        kernel=f"{library}::scale",
        plan="x, None, 2.0, out",
        infer=lambda x, y, zs: graphffi.like(x),
    )
    path = export(lambda self, x: op(x, None, [])[0] + op(x, x + 1, [])[0], tmp_path, torch.ones(2))
    np.testing.assert_array_equal(next(iter(run(path, args_0=torch.ones(2)).values())), [4, 4])
