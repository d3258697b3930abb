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
    kernels: list[tuple[str, str]],
    answer: Callable[..., str] | None,
    parameters: list[tuple[str, str, str, Any]],
    result_type: Any,
    release_gil: bool,
    allow_cuda_graph: bool,
    has_vmap_rule: bool,
    may_run_again: bool,
) -> Any: ...
def check_data_type(tensor: str, dtype: torch.dtype) -> None: ...
def make_tensor_viewer(exchange: Any) -> Any: ...
def register_reraise_last_error(name: str) -> None: ...
def set_raisers(
    reraise_last: Any,
    trace_ender: Any,
    own_raiser: Any,
    repetition_refuser: Any,
    preparer: Callable[[], None],
) -> None: ...
def set_gradient_rule(
    *,
    op: str,
    parameters: list[tuple[str, bool, bool]],
    results: list[tuple[str, bool, bool]],
    run: Callable[[dict[str, Any], tuple[torch.Tensor | None, ...]], Any],
    check: Callable[[list[Any], Any], Sequence[torch.Tensor | None]],
) -> None: ...
def set_forward_rule(
    *,
    op: str,
    run: Callable[[list[Any], list[Any], list[torch.Tensor]], Sequence[torch.Tensor | None]] | None,
) -> None: ...
def remove_gradient_rule(op: str) -> None: ...
def use_library(path: str) -> None: ...
def call_raw(
    spec_type: type, reference: str, args: tuple[Any, ...], out: Any, mutates: Any, /
) -> Any: ...
def call_site_v4(
    func: str,
    plan: str,
    digest: str,
    counts: Sequence[int],
    attributes: list[int | float | str | None],
    num_fresh: int = ...,
    release_gil: bool = ...,
) -> Callable[..., None]: ...

class Conditions:
    def __init__(self, text: str) -> None: ...
    def find_broken(
        self, tensors: Sequence[torch.Tensor], describe: Callable[[torch.Tensor], str]
    ) -> str: ...

def find_overlap(tensors: list[torch.Tensor], updated: list[int]) -> tuple[int, int] | None: ...
def clear_aot_error() -> None: ...
def raise_aot_error() -> None: ...
def package_libraries(path: str) -> list[tuple[str, str]]: ...
def load_package_libraries(path: str, trusted: list[str] | None) -> None: ...
