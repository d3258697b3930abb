# SPDX-License-Identifier: Apache-2.0
"""Train the network on C++ kernels and the plain one, in PyTorch and in JAX.

Run it with `python -m examples.digits.run`, from the root of the repository.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import time


def main() -> None:
    """Print the test accuracy and the time of each training."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    for framework in ("torch", "jax"):
        if importlib.util.find_spec(framework) is None:
            print(f"{framework} is not installed")
            continue
        training = importlib.import_module(f".train_{framework}", __package__)
        for operations in (f"reference_{framework}", "ops"):
            chosen = importlib.import_module(f".{operations}", __package__)
            begin = time.perf_counter()
            accuracy = training.train(chosen, epochs=arguments.epochs, seed=arguments.seed)
            seconds = time.perf_counter() - begin
            print(f"{framework:6} {operations:16} accuracy {accuracy:.3f}  {seconds:5.1f} s")


if __name__ == "__main__":
    main()
