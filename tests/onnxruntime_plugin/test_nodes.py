# SPDX-License-Identifier: Apache-2.0
"""Nodes of models that are made by hand."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnxruntime.capi import onnxruntime_pybind11_state as states

import graphffi
import graphffi_onnxruntime
from graphffi import TensorSpec
from graphffi._command.record import read_record
from graphffi_onnxruntime._node_text import CALL, node_attributes, node_text
from tests.families import computed
from tests.onnxruntime_plugin.models import model_of, node_of, run, session_for, session_of

ERRORS = (states.InvalidArgument, states.RuntimeException, states.NotImplemented, states.Fail)


def floats(*shape: int) -> Any:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape) + 1


@pytest.fixture(scope="module")
def scale(library: str) -> graphffi.Op:
    return graphffi.define_op(
        "onnx_nodes::scale",
        schema="(Tensor x, Tensor? bias=None, float factor=2.1) -> Tensor out",
        kernel=f"{library}::scale",
        infer=lambda x, bias, factor: graphffi.like(x),
        dims="m n, m n -> m n",
        dtypes="T, T -> T; T: float32",
    )


@pytest.fixture(scope="module")
def increment(library: str) -> graphffi.Op:
    return graphffi.define_op(
        "onnx_nodes::increment",
        schema="(Tensor(a!) x) -> Tensor was_kept",
        kernel=f"{library}::increment",
        infer=lambda x: graphffi.empty((), "int64"),
    )


def test_a_node_gives_what_an_eager_call_does(scale: graphffi.Op) -> None:
    run = session_for(scale, floats(2, 3), floats(2, 3))
    for m in (0, 1, 4):
        x, bias = floats(m, 3), floats(m, 3)
        np.testing.assert_array_equal(run(x, bias)[0], scale(x, bias))


def test_calls_of_nodes_are_recorded(scale: graphffi.Op, tmp_path: Path) -> None:
    run = session_for(scale, floats(2, 3), floats(2, 3))
    with graphffi.record(tmp_path, level=2):
        run(floats(2, 3), floats(2, 3))
    (call,) = read_record(tmp_path).calls
    assert call.begin["op"] == "onnx_nodes::scale"
    assert call.begin["args"][0]["shape"] == [2, 3]
    assert call.end is not None
    assert "error" not in call.end


def test_an_operand_may_be_absent(scale: graphffi.Op) -> None:
    run = session_for(scale, floats(2, 3))
    np.testing.assert_array_equal(run(floats(5, 2))[0], scale(floats(5, 2)))


def test_an_attribute_has_all_its_digits(scale: graphffi.Op) -> None:
    factor = 0.1 + 2.0**-40
    run = session_for(scale, floats(2, 3), factor=factor)
    np.testing.assert_array_equal(run(floats(2, 3))[0], scale(floats(2, 3), factor=factor))
    node, tensors, outputs = node_of(scale, floats(2, 3), factor=factor)
    attribute = next(each for each in node.attribute if each.name == "factor")
    attribute.f = 3.0  # of a model that was edited since
    session = session_of(model_of([node], tensors, outputs), scale)
    x = floats(2, 3)
    np.testing.assert_array_equal(session.run(None, {"t0": x})[0], scale(x, factor=3.0))


@pytest.mark.parametrize("value", [-0.0, 1e300, float("inf"), float("-inf"), 1e-300])
def test_an_attribute_is_any_float(scale: graphffi.Op, value: float) -> None:
    run = session_for(scale, floats(2, 3), factor=value)
    got = run(floats(2, 3))[0]
    assert got.tobytes() == scale(floats(2, 3), factor=value).tobytes()


def test_sizes_of_results_are_known_to_the_session(scale: graphffi.Op) -> None:
    node, tensors, outputs = node_of(scale, floats(2, 3))
    model = model_of([node], tensors, outputs)
    assert session_of(model, scale).get_outputs()[0].shape == ["t0_0", "t0_1"]
    dims = model.graph.input[0].type.tensor_type.shape.dim
    dims[0].dim_value = 7
    assert session_of(model, scale).get_outputs()[0].shape == [7, "t0_1"]


def test_sizes_that_rules_compute_have_names_of_their_own(library: str) -> None:
    op = graphffi.define_op(
        "onnx_nodes::longer",
        schema="(Tensor x, int by) -> (Tensor a, Tensor b)",
        kernel=f"{library}::scale",
        infer=lambda x, by: (
            graphffi.like(x, shape=(x.shape[0] + by,)),
            graphffi.like(x, shape=(3 * by,)),
        ),
    )
    node, tensors, outputs = node_of(op, floats(2), by=4)
    first, second = session_of(model_of([node], tensors, outputs), op).get_outputs()
    assert first.shape[0].startswith("graphffi_")
    assert second.shape == [12]


def test_attributes_of_all_kinds_reach_the_kernel(library: str) -> None:
    op = graphffi.define_op(
        "onnx_nodes::describe",
        schema="(Tensor x, str text, bool flag, int[] sizes, float[] weights, str[] names, "
        "dtype kind) -> Tensor",
        kernel=f"{library}::describe",
        plan="out, text, flag, sizes, weights, names, kind",
        infer=lambda x, *_: graphffi.empty((16,), "float64"),
    )
    named: dict[str, Any] = {
        "text": "h\u00e9", "flag": True, "sizes": [3, -1], "weights": [0.1, 2.0],
        "names": ["a\0b", "", "\U0001f600"], "kind": "bfloat16",
    }  # fmt: skip
    got = session_for(op, floats(1), **named)(floats(1))[0]
    np.testing.assert_array_equal(got[:11], [3, 1, 2, 3, -1, 0.1, 2.0, 3, 0, 4, 16])
    empty = {**named, "sizes": [], "weights": [], "names": [], "text": ""}
    got = session_for(op, floats(1), **empty)(floats(1))[0]
    np.testing.assert_array_equal(got[:4], [0, 1, 0, 16])


def test_updated_operands_are_results(library: str) -> None:
    op = graphffi.define_op(
        "onnx_nodes::accumulate",
        schema="(Tensor x, Tensor(a!) total) -> (Tensor first, Tensor second)",
        kernel=f"{library}::accumulate",
        plan="x, total, first, second",
        infer=lambda x, total: (
            graphffi.like(total, shape=(total.shape[0] // 2,)),
            graphffi.like(total, shape=(total.shape[0] - total.shape[0] // 2,)),
        ),
    )
    run = session_for(op, floats(5), floats(5))
    x, total = floats(7), 10 * floats(7)
    first, second, new = run(x, total)
    np.testing.assert_array_equal(first, total[:3])
    np.testing.assert_array_equal(second, total[3:])
    np.testing.assert_array_equal(new, 11 * floats(7))
    np.testing.assert_array_equal(total, 10 * floats(7))


def test_a_python_kernel_may_give_the_operand_back_that_it_updates() -> None:
    def double(x: Any) -> Any:
        np.from_dlpack(x)[...] *= 2
        return x

    op = graphffi.define_op("onnx_nodes::double", schema="(Tensor(a!) x) -> ()", kernel=double)
    (doubled,) = session_for(op, floats(2, 3))(floats(2, 3))
    np.testing.assert_array_equal(doubled, 2 * floats(2, 3))


def test_an_operand_that_dies_is_updated_in_place(increment: graphffi.Op) -> None:
    """Nodes in a chain get one buffer; the model's own input and result are copied."""
    nodes = []
    for i in range(4):
        node, tensors, _ = node_of(increment, floats(8))
        node.input[:] = ["t0" if i == 0 else f"x{i}"]
        node.output[:] = [f"kept{i}", f"x{i + 1}"]
        nodes.append(node)
    model = model_of(nodes, tensors, ["x4", *(f"kept{i}" for i in range(4))])
    session = session_of(model, increment)
    x = floats(8)
    result, *kept = session.run(None, {"t0": x})
    np.testing.assert_array_equal(result, x + 4)
    np.testing.assert_array_equal(x, floats(8))
    assert [int(each) for each in kept[1:3]] == [1, 1]


def test_an_operand_that_is_used_again_is_copied(increment: graphffi.Op) -> None:
    node, tensors, _ = node_of(increment, floats(8))
    copy = onnx.helper.make_node("Neg", ["t0"], ["x"])
    node.input[:] = ["x"]
    node.output[:] = ["kept", "new"]
    double = onnx.helper.make_node("Add", ["x", "new"], ["sum"])
    session = session_of(model_of([copy, node, double], tensors, ["sum"]), increment)
    np.testing.assert_array_equal(session.run(None, {"t0": floats(8)})[0], -2 * floats(8) + 1)


@pytest.mark.parametrize("workspace", [None, 48, "rule"])
def test_kernels_get_memory_of_the_session(library: str, workspace: Any) -> None:
    rule: Any = (lambda x: 4 * x.shape[0] + 1) if workspace == "rule" else workspace
    passed = "None" if workspace is None else "workspace"
    op = graphffi.define_op(
        f"onnx_nodes::use_memory_{workspace}",
        schema="(Tensor x) -> Tensor out",
        kernel=f"{library}::use_memory",
        plan=f"x, {passed}, out",
        workspace=rule,
        infer=graphffi.like,
    )
    run = session_for(op, floats(3))
    for n in (0, 1, 5):
        x = floats(n)
        np.testing.assert_array_equal(run(x)[0], op(x))


def test_a_plan_computes_ints_of_the_sizes_of_each_run() -> None:
    op, texts = computed.define("onnx", 20)
    run = session_for(op, floats(4, 6), floats(2, 5))
    for x, y in ((floats(4, 6), floats(2, 5)), (floats(0, 9), floats(1, 0))):
        np.testing.assert_array_equal(run(x, y)[0], computed.expected(texts, x, y))
    wrong = graphffi.define_op(
        "onnx_nodes::divided",
        schema="(Tensor x) -> Tensor",
        kernel=lambda n, out: None,
        plan="6 // x.shape[0], out",
        infer=graphffi.like,
    )
    with pytest.raises(ERRORS, match="onnx_nodes::divided: plan: expected an int of 64 bits, got"):
        session_for(wrong, floats(3))(floats(0))


@pytest.mark.parametrize("owning", [False, True])
def test_a_kernel_may_return_its_result(library: str, owning: bool) -> None:
    op = graphffi.define_op(
        f"onnx_nodes::returned_{owning}",
        schema="(Tensor x) -> Tensor",
        kernel=f"{library}::returned",
        plan="x",
        infer=graphffi.like,
        pass_owning_tensor=owning,
    )
    np.testing.assert_array_equal(session_for(op, floats(3))(floats(4))[0], -floats(4))


def test_a_function_of_python_is_a_kernel() -> None:
    def negate(x: Any, out: Any) -> None:
        np.from_dlpack(out)[...] = -np.from_dlpack(x)

    op = graphffi.define_op(
        "onnx_nodes::negate", schema="(Tensor x) -> Tensor", kernel=negate, infer=graphffi.like
    )
    np.testing.assert_array_equal(session_for(op, floats(3))(floats(4))[0], -floats(4))


def test_threads_share_a_session(scale: graphffi.Op) -> None:
    node, tensors, outputs = node_of(scale, floats(2, 3), floats(2, 3))
    session = session_of(model_of([node], tensors, outputs), scale)
    given = [floats(rows, 3) + rows for rows in range(8)]
    expected = [scale(x, x) for x in given]
    wrong: list[int] = []

    def work(seed: int) -> None:
        for i in range(200):
            rows = (seed + i) % 8
            got = session.run(None, {"t0": given[rows], "t1": given[rows]})[0]
            if not np.array_equal(got, expected[rows]):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def error_of(call: Callable[[], Any]) -> str:
    """The text of a status, without ONNX Runtime's beginning."""
    with pytest.raises(ERRORS) as caught:
        call()
    return str(caught.value)


def test_rules_say_their_errors(scale: graphffi.Op) -> None:
    run = session_for(scale, floats(2, 3), floats(2, 3))
    with pytest.raises(ValueError, match="expected size 3 of 'n' as in operand 'x'") as eager:
        scale(floats(2, 3), floats(2, 4))
    text = error_of(lambda: run(floats(2, 3), floats(2, 4)))
    assert text.endswith(f"ValueError: {eager.value}")


def test_what_rules_decide_is_refused_by_its_condition(library: str) -> None:
    def infer(x: Any, by: int) -> Any:
        graphffi.check(
            by < x.shape[0], f"operand 'x': expected more than {by} rows, got {x.shape[0]}"
        )
        if x.shape[0] > 4:
            return graphffi.like(x)
        return graphffi.like(x, shape=(1,))

    op = graphffi.define_op(
        "onnx_nodes::decides",
        schema="(Tensor x, int by) -> Tensor",
        kernel=f"{library}::returned",
        plan="x",
        infer=infer,
    )
    run = session_for(op, floats(8), by=2)
    np.testing.assert_array_equal(run(floats(5))[0], -floats(5))
    text = error_of(lambda: run(floats(2)))
    assert text.endswith(
        "ValueError: onnx_nodes::decides: operand 'x': expected more than 2 rows, got 2"
    )
    text = error_of(lambda: run(floats(3)))
    assert text.endswith(
        "ValueError: onnx_nodes::decides: expected x.shape[0] > 4, as in the call by which the "
        "model was exported, got x.shape[0] = 3; export again with such sizes"
    )


def test_a_node_may_serve_several_ways(library: str) -> None:
    op = graphffi.define_op(
        "onnx_nodes::ways",
        schema="(Tensor x) -> Tensor",
        kernel=f"{library}::returned",
        plan="x",
        infer=lambda x: graphffi.like(x, shape=(0,) if x.shape[0] == 0 else (x.shape[0],)),
    )
    definition = op.definition
    node, tensors, outputs = node_of(op, floats(3))
    first, empty = (
        [TensorSpec((n,), graphffi.dtype("float32"), graphffi.Device("cpu"))] for n in (3, 0)
    )
    text = node_text(definition, first, [], others=[(empty, empty)])
    node.attribute[0].s = text.encode()
    session = session_of(model_of([node], tensors, outputs), op)
    for n in (0, 3):
        np.testing.assert_array_equal(session.run(None, {"t0": floats(n)})[0], -floats(n))


@pytest.mark.parametrize(
    ("kind", "raised"),
    [
        ("ValueError", states.InvalidArgument),
        ("NotImplementedError", states.NotImplemented),
        ("RuntimeError", states.RuntimeException),
        ("MyError", states.RuntimeException),
    ],
)
def test_a_kernels_error_has_kind_and_text(library: str, kind: str, raised: Any) -> None:
    op = graphffi.define_op(
        "onnx_nodes::fail",
        schema="(Tensor x, str kind) -> Tensor",
        kernel=f"{library}::fail",
        infer=lambda x, kind: graphffi.like(x),
    )
    run = session_for(op, floats(2), kind=kind)
    with pytest.raises(raised) as caught:
        run(floats(2))
    assert str(caught.value).endswith(
        f"{kind}: onnx_nodes::fail: test::fail: expected no call, got one"
    )


def test_another_rank_is_refused(scale: graphffi.Op) -> None:
    node, tensors, outputs = node_of(scale, floats(2, 3), floats(2, 3))
    model = model_of([node], tensors, outputs)
    for each in model.graph.input:
        each.type.tensor_type.ClearField("shape")
    session = session_of(model, scale)
    text = error_of(lambda: run(session, [floats(2, 3, 1), floats(3)]))
    assert text.endswith(
        "ValueError: onnx_nodes::scale: operand 'x': expected 2 dimensions as in the exported "
        "program, got 3; operand 'bias': expected 2 dimensions as in the exported program, got 1"
    )


def test_another_data_type_is_refused_when_the_session_is_made(scale: graphffi.Op) -> None:
    node, tensors, outputs = node_of(scale, floats(2, 3), floats(2, 3))
    wrong = [(name, array.astype("float64")) for name, array in tensors]
    text = error_of(lambda: session_of(model_of([node], wrong, outputs), scale))
    assert (
        "TypeError: onnx_nodes::scale: operand 'x': expected float32 as in the exported program, "
        "got float64; operand 'bias': expected float32 as in the exported program, got float64"
    ) in text


def test_another_definition_is_refused_when_the_session_is_made(
    scale: graphffi.Op, library: str
) -> None:
    node, tensors, outputs = node_of(scale, floats(2, 3))
    other = graphffi.define_op(
        "onnx_nodes::scale",
        schema="(Tensor x, Tensor? bias=None, float factor=2.1) -> Tensor out",
        kernel=f"{library}::scale",
        infer=lambda x, bias, factor: graphffi.like(x),
        override=True,
    )
    text = error_of(lambda: session_of(model_of([node], tensors, outputs), other))
    assert "ValueError: onnx_nodes::scale: expected the definition " in text
    assert f"with which the model was exported, got {other.definition.digest}; " in text


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("lost", "attribute 'by': expected an int, got none, or one of another kind"),
        ("kind", "attribute 'by': expected an int, got none, or one of another kind"),
        ("mode", "attribute 'mode': expected 'fast', as in the call by which the model was "
         "exported, got 'slow'; export again"),
        ("float", "attribute 'eps': expected '0.000123', as in the call by which the model was "
         "exported, got '0.0001231"),
        ("items", "attribute 'sizes': expected 2 items, as in the exported model, got 1"),
        ("text", "attribute 'graphffi_call': expected the text of the call, got none; export the "
         "model with graphffi_onnxruntime"),
        ("format", "the text of the call: expected the format 'graphffi.onnx 1', got 'other'"),
        ("results", "onnx_nodes::edited: results of the program: expected 1, got 2"),
        ("rank", "the text of the call: input: expected 0 to 64 dimensions, got '65'"),
    ],
)  # fmt: skip
def test_an_edited_node_is_refused_by_name(library: str, change: str, expected: str) -> None:
    op = graphffi.define_op(
        "onnx_nodes::edited",
        schema="(Tensor x, int by, str mode, float eps, int[] sizes) -> Tensor",
        kernel=f"{library}::returned",
        plan="x",
        infer=lambda x, by, mode, eps, sizes: graphffi.like(
            x, shape=(by if mode == "fast" and eps < 0.00012305 else 1,)
        ),
    )
    node, tensors, outputs = node_of(op, floats(3), by=3, mode="fast", eps=0.000123, sizes=[1, 2])
    attributes = {each.name: each for each in node.attribute}
    if change == "lost":
        node.attribute.remove(attributes["by"])
    elif change == "text":
        node.attribute.remove(attributes[CALL])
    elif change == "kind":
        attributes["by"].CopyFrom(onnx.helper.make_attribute("by", 3.0))
    elif change == "mode":
        attributes["mode"].s = b"slow"
    elif change == "float":
        attributes["eps"].f = 0.0001231
    elif change == "items":
        attributes["sizes"].ints[:] = [1]
    elif change == "results":  # more than a call makes room for
        attributes[CALL].s += b"\nprogram result 2 32 1 1 0 1 0\\nresult 2 32 1 1 0 1 0"
    elif change == "rank":
        attributes[CALL].s = attributes[CALL].s.replace(b"float32 1", b"float32 65")
    else:
        attributes[CALL].s = b"other"
    # ONNX Runtime takes no result of an unknown type.
    model = model_of([node], tensors, outputs)
    model.graph.output[0].type.tensor_type.elem_type = 1
    assert expected in error_of(lambda: session_of(model, op))


def test_a_namespace_is_registered_once(scale: graphffi.Op) -> None:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    graphffi_onnxruntime.register(options, scale)
    text = error_of(lambda: graphffi_onnxruntime.register(options, scale))
    assert "graphffi: domain 'onnx_nodes': expected ops that are registered once" in text


def test_register_takes_ops_or_a_path(tmp_path: Any) -> None:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    with pytest.raises(TypeError, match="register: expected ops or a path, got 1"):
        graphffi_onnxruntime.register(options, [1])  # type: ignore[list-item]
    with pytest.raises(FileNotFoundError, match=r"none\.onnx\.ops"):
        graphffi_onnxruntime.register(options, tmp_path / "none.onnx")


def test_a_list_before_another_operand_is_refused(library: str) -> None:
    op = graphffi.define_op(
        "onnx_nodes::list_first",
        schema="(Tensor[] xs, Tensor y) -> Tensor",
        kernel=f"{library}::scale",
        infer=lambda xs, y: graphffi.like(y),
    )
    with pytest.raises(NotImplementedError, match="operand 'xs': expected a list of tensors as"):
        node_of(op, [floats(1)], floats(1))


def test_the_name_of_an_operator_of_onnx_is_refused(library: str) -> None:
    op = graphffi.define_op(
        "onnx_nodes::Identity",
        schema="(Tensor x) -> Tensor",
        kernel=f"{library}::returned",
        plan="x",
        infer=graphffi.like,
    )
    with pytest.raises(NotImplementedError, match=r"onnx_nodes::Identity: .*; rename the op"):
        graphffi_onnxruntime.model_op(op).node(["x"], ["y"], floats(1))


def test_attributes_are_those_of_onnx(scale: graphffi.Op) -> None:
    assert node_attributes(scale.definition, [0.5]) == {"factor": 0.5}
