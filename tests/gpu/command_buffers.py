# SPDX-License-Identifier: Apache-2.0
"""Compiles a chain of eight calls for a GPU, run as `python -m`, with a library and a chain's name.

XLA's log says whether it records them in a command buffer.
"""

from __future__ import annotations

import sys
from typing import Any

import jax

import graphffi
from tests.gpu.gpu_topology import describe_gpus, operand_on

CHAINS: dict[str, dict[str, Any]] = {
    "recordable": {"allow_cuda_graph": True},
    "workspace": {"allow_cuda_graph": True, "workspace": 1 << 16},
    "other": {},
}


def main(library: str, chain: str) -> None:
    op = graphffi.define_op(
        f"gpu::{chain}",
        schema="(Tensor x, float factor=2.0) -> Tensor",
        kernel=f"{library}::scale" + ("_through" if chain == "workspace" else ""),
        plan="x, workspace, out, factor" if chain == "workspace" else "x, out, factor",
        infer=lambda x, factor: graphffi.like(x),
        **CHAINS[chain],
    )

    def eight_calls(x: Any) -> Any:
        for _ in range(8):
            x = op(x)
        return x

    x = operand_on(describe_gpus()[0], (1024,))
    jax.jit(eight_calls).lower(x).compile({"xla_gpu_graph_min_graph_size": 1})


if __name__ == "__main__":
    main(*sys.argv[1:])
