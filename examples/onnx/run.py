# SPDX-License-Identifier: Apache-2.0
"""Runs the exported model in Python; needs no PyTorch.

Run it with `python -m examples.onnx.run deployed/model.onnx`, from the root of the repository.
"""

from __future__ import annotations

import argparse

import numpy as np
import onnxruntime

import graphffi_onnxruntime


def run(path: str) -> list[list[float]]:
    """The results of two calls, of which the second gets the total of the first."""
    options = onnxruntime.SessionOptions()
    graphffi_onnxruntime.register(options, path)
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    first, total = session.run(None, {"x": x})
    second, _ = session.run(None, {"x": x[:1], "total": total})
    return [first.ravel().tolist(), second.ravel().tolist()]


def main() -> None:
    """Prints the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    for values in run(parser.parse_args().model):
        print(*(f"{value:.6f}" for value in values))


if __name__ == "__main__":
    main()
