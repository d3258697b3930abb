# SPDX-License-Identifier: Apache-2.0
"""Models of one node, made by hand, and calls of them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes  # noqa: F401 - makes bfloat16 known to NumPy
import numpy as np
import onnx
import onnxruntime
from onnx import helper

import graphffi
import graphffi_onnxruntime
from graphffi.plugin import flat
from graphffi_onnxruntime._node_text import DTYPES

NUMPY = {number: np.dtype(name) for name, number in DTYPES.items() if name[:6] != "float8"}


def model_of(nodes: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[str]) -> Any:
    """A model; inputs are arrays by name, of which only the ranks are fixed."""
    domains = {node.domain for node in nodes if node.domain}
    opsets = [helper.make_opsetid("", 17), *(helper.make_opsetid(d, 1) for d in sorted(domains))]
    given = [
        helper.make_tensor_value_info(
            name, DTYPES[str(array.dtype)], [f"{name}_{i}" for i in range(array.ndim)]
        )
        for name, array in inputs
    ]
    made = [onnx.ValueInfoProto(name=name) for name in outputs]
    graph = helper.make_graph(list(nodes), "graph", given, made)
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def session_of(model: Any, ops: Any, **entries: str) -> Any:
    """A session of a model, with ops or a path."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    for name, value in entries.items():
        options.add_session_config_entry(name, value)
    graphffi_onnxruntime.register(options, ops)
    text = model if isinstance(model, str) else model.SerializeToString()
    return onnxruntime.InferenceSession(text, options, providers=["CPUExecutionProvider"])


def run(session: Any, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Runs a session with arrays of any of its data types."""
    names = [each.name for each in session.get_inputs()]
    values = {
        name: onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(
            np.array(array, order="C"), DTYPES[str(array.dtype)]
        )
        for name, array in zip(names, arrays, strict=True)
    }
    found = session.run_with_ort_values([each.name for each in session.get_outputs()], values)
    return [_array(value) for value in found]


def _array(value: Any) -> np.ndarray:
    made = np.empty(value.shape(), NUMPY[value.element_type()])
    ctypes.memmove(made.ctypes.data, value.data_ptr(), made.nbytes)
    return made


def node_of(op: graphffi.Op, *args: Any, **named: Any) -> tuple[Any, list[Any], list[str]]:
    """A node for a call, its inputs as arrays by name, and its outputs."""
    definition = op.definition
    bound = definition.bind(args, named)
    tensors = [(f"t{i}", array) for i, array in enumerate(flat(bound.operands))]
    outputs = list(definition.results)
    for operand, value in zip(definition.operands, bound.operands, strict=True):
        if operand.mutated:
            is_list = isinstance(value, (list, tuple))
            names = (
                [f"{operand.name}_{i}" for i in range(len(value))] if is_list else [operand.name]
            )
            outputs += ["" if value is None else f"new_{name}" for name in names]
    node = graphffi_onnxruntime.model_op(op).node([n for n, _ in tensors], outputs, *args, **named)
    return node, tensors, [name for name in outputs if name]


def session_for(op: graphffi.Op, *args: Any, **named: Any) -> Callable[..., list[np.ndarray]]:
    """A function that runs a model of one node, with the tensors of a call like this one."""
    node, tensors, outputs = node_of(op, *args, **named)
    session = session_of(model_of([node], tensors, outputs), op)

    def call(*arrays: Any) -> list[np.ndarray]:
        return run(session, flat(list(arrays)))

    return call
