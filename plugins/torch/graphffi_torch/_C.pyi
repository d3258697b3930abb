# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable, Sequence
from typing import Any

import torch

def define_op(
    *,
    schema: str,
    out_schema: str,
    effect_schema: str,
    results: list[str],
    conversions: dict[str, str],
    kernel: str,
    plan: str,
    digest: str,
    answer: Callable[..., str] | None,
    parameters: list[tuple[str, str, str, Any]],
    result_type: Any,
    release_gil: bool,
    allow_cuda_graph: bool,
    has_vmap_rule: bool,
    replace: bool,
) -> Any: ...
def make_tensor_viewer(exchange: Any) -> Any: ...
def register_reraise_last_error(name: str) -> None: ...
def set_reraise(function: Any) -> None: ...
def set_gradient_rule(
    *,
    op: str,
    saved_arguments: list[bool],
    saved_results: list[bool],
    backward: Callable[..., Sequence[torch.Tensor | None]],
) -> None: ...
def remove_gradient_rule(op: str) -> None: ...
def forget_call_sites() -> None: ...
def call_site_v2(
    func: str,
    plan: str,
    digest: str,
    num_inputs: int,
    num_outputs: int,
    num_fresh: int,
    ints: Sequence[int | None],
    floats: Sequence[float],
    strs: Sequence[str],
    release_gil: bool = ...,
) -> Callable[..., None]: ...
def clear_aot_error() -> None: ...
def raise_aot_error() -> None: ...
def package_libraries(path: str) -> list[tuple[str, str]]: ...
def load_package_libraries(path: str, trusted: list[str] | None) -> None: ...
