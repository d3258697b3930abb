# SPDX-License-Identifier: Apache-2.0
"""Nodes of ONNX models, against an op that is written by hand and one of ONNX Runtime's own."""

from __future__ import annotations

from typing import Any

import native
import numpy as np
import onnx
import onnxruntime
from onnx import helper
from timing import Case, Contender, chain

import graphffi
import graphffi_onnxruntime

LONG = 100
X = np.ones(4, np.float32)


def cases() -> list[Case]:
    """A node in a chain, without the time of the run around it."""
    library = graphffi.cpp.build("benchmark_onnx", sources=[native.source("onnx_kernel.cc")])
    twice = graphffi.define_op(
        "bench_onnx::twice",
        schema="(Tensor x) -> Tensor",
        kernel=f"{library}::twice",
        infer=graphffi.like,
    )
    by_hand = native.compile_library("onnx_op.cc")
    ours = graphffi_onnxruntime.model_op(twice)
    contenders = (
        ("graphffi", lambda x, y: ours.node([x], [y], X), twice),
        ("by hand, C API", _other("twice", "bench_hand"), by_hand),
        ("ONNX Runtime's Neg", _other("Neg", ""), None),
    )
    return [
        Case(
            "a node of an ONNX model, 4 floats",
            [Contender(name, _measure(make, ops)) for name, make, ops in contenders],
        )
    ]


def _other(op_type: str, domain: str) -> Any:
    return lambda x, y: helper.make_node(op_type, [x], [y], domain=domain)


def _measure(make_node: Any, ops: Any) -> Any:
    def build(length: int) -> Any:
        session, bound = _session(make_node, ops, length)
        return lambda: session.run_with_iobinding(bound)

    return chain(build, 1, LONG)


def _session(make_node: Any, ops: Any, length: int) -> tuple[Any, Any]:
    """A session of a chain, whose input and result are bound."""
    nodes = [make_node(f"x{i}", f"x{i + 1}") for i in range(length)]
    given = helper.make_tensor_value_info("x0", onnx.TensorProto.FLOAT, ["n"])
    made = onnx.ValueInfoProto(name=f"x{length}")
    graph = helper.make_graph(nodes, "chain", [given], [made])
    domains = {node.domain for node in nodes if node.domain}
    opsets = [helper.make_opsetid("", 17), *(helper.make_opsetid(d, 1) for d in domains)]
    options: Any = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    if isinstance(ops, graphffi.Op):
        graphffi_onnxruntime.register(options, ops)
    elif ops is not None:
        options.register_custom_ops_library(str(ops))
    text = helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()
    session: Any = onnxruntime.InferenceSession(text, options, providers=["CPUExecutionProvider"])
    bound = session.io_binding()
    bound.bind_cpu_input("x0", X)
    bound.bind_output(f"x{length}")
    session.run_with_iobinding(bound)
    return session, bound
