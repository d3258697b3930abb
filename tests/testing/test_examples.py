# SPDX-License-Identifier: Apache-2.0
"""`graphffi.testing` finds nothing in the ops of the examples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("numpy")
pytest.importorskip("array_api_compat")

from graphffi.testing import find

ROOT = Path(__file__).resolve().parents[2]
# Ops whose operands fit each other in ways that a check finds out by itself.
GENERATED = {
    "digits": ["attention", "rms_norm", "swish", "swish_backward"],
    "llama_block": ["rms_norm", "silu_and_mul"],
    "quickstart": ["add_one", "scale"],
}
QUERY, CACHE = ((1, 3, 4, 8), "float32"), ((1, 2, 5, 8), "float32")
KEY, TABLE, POSITIONS = ((1, 3, 2, 8), "float32"), ((5, 4), "float32"), ((3,), "int32", 5)
ROWS, ROW, EACH = ((2, 4), "float32"), ((4,), "float32"), ((2,), "float32")
TOKENS, SCORES = ((3, 2, 4), "float32"), ((2, 3), "float32")
# Inputs of the others.
GIVEN: dict[tuple[str, str], dict[str, Any]] = {
    ("digits", "rms_norm_backward"): {
        **{"grad": ROWS, "grad_inverse": EACH, "x": ROWS, "weight": ROW, "inverse": EACH},
    },
    ("digits", "attention_backward"): {
        **{"grad": TOKENS, "grad_logsumexp": SCORES, "qkv": ((3, 3, 2, 4), "float32")},
        **{"attended": TOKENS, "logsumexp": SCORES, "scale": 0.5},
    },
    ("llama_block", "rope"): {
        **{"q": QUERY, "k": KEY, "cos": TABLE, "sin": TABLE, "positions": POSITIONS},
    },
    ("llama_block", "kv_cache_append"): {
        **{"cache_k": CACHE, "cache_v": CACHE, "k": KEY, "v": KEY, "positions": POSITIONS},
    },
    ("llama_block", "decode_attention"): {
        **{"q": QUERY, "k_cache": CACHE, "v_cache": CACHE, "length": ((1,), "int32", 5)},
        "mask": ((3, 5), "bool"),
    },
}


def found(example: str, op: str, **options: Any) -> Any:
    file = "quickstart" if example == "quickstart" else "ops"
    target = {
        "op": f"{example.removesuffix('_block')}::{op}",
        "module": f"examples.{example}.{file}",
        "file": str(ROOT / "examples" / example / f"{file}.py"),
    }
    return find(target, frameworks=(), budget=300, **options)


@pytest.mark.slow
@pytest.mark.parametrize(("example", "op"), GIVEN)
def test_nothing_is_found_with_inputs_that_a_user_gives(example: str, op: str) -> None:
    report = found(example, op, cases=[GIVEN[example, op]])
    assert (report.findings, report.num_cases) == ([], 1), str(report)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("example", "op"), [(example, op) for example, ops in GENERATED.items() for op in ops]
)
def test_nothing_is_found_in_an_op_of_an_example(example: str, op: str) -> None:
    report = found(example, op)
    assert not report.findings, str(report)
    assert report.num_cases > 5
