# SPDX-License-Identifier: Apache-2.0
"""Calls the op that TVM compiles, on TVM's runtime; prints results, and how many kernels were made.

With an argument, the name of a folder, it also makes a kernel ahead of time, there.
"""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

import jax
import numpy as np
import torch

if len(sys.argv) > 1:
    import tvm  # noqa: F401

import graphffi
from examples.jit_kernels.ops import scaled

made: list[str] = []


class Notes(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        made.append(record.getMessage())


def call(x: Any) -> Any:
    return scaled(x)


def main() -> None:
    log = logging.getLogger("graphffi.kernels")
    log.addHandler(Notes())
    log.setLevel(logging.INFO)
    if len(sys.argv) > 1:
        graphffi.prebuild(scaled, [("float32", (2, 3))], sys.argv[1])
    x = np.ones((2, 3), np.float32)
    t = torch.from_numpy(x)
    results = [scaled(x), scaled(t), torch.compile(call)(t), jax.jit(call)(x)]
    values = sorted({float(v) for result in results for v in np.asarray(result).flat})
    count = sum("making" in text for text in made)
    print(json.dumps({"values": values, "made": count, "tvm": "tvm" in sys.modules}))


if __name__ == "__main__":
    main()
