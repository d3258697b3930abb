# SPDX-License-Identifier: Apache-2.0
"""Ops whose factories the tests give."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import graphffi

HERE = Path(__file__).resolve().parent
SOURCE = HERE / "filling.c"
numbers = itertools.count()


def define(name: str = "") -> graphffi.Op:
    return graphffi.define_op(
        name or f"add_factory::op{next(numbers)}",
        schema="(Tensor x, int n=0, str mode='a', float f=0.5) -> Tensor",
        infer=lambda x, n, mode, f: graphffi.like(x),
    )


def filling(value: float) -> Callable[[Any, Any], None]:
    def kernel(x: Any, out: Any) -> None:
        np.from_dlpack(out)[...] = value

    return kernel


def by_width(op: graphffi.Op, make: Callable[..., Any], **options: Any) -> None:
    options = {"key": lambda x, n, mode, f: x.shape[-1], "plan": "x, out"} | options
    op.add_factory(**options)(make)


class Recorder:
    """A factory that notes its keys, and gives what each key is to give."""

    __name__ = "recorded"

    def __init__(self, made: Callable[..., Any] = filling) -> None:
        self.keys: list[Any] = []
        self.made = made

    def __call__(self, *key: Any) -> Any:
        self.keys.append(key)
        return self.made(*key)


def narrow(x: Any) -> None:
    pass


def build_filling(size: int) -> str:
    return graphffi.cpp.build("fill", [SOURCE], extra_cflags=[f"-DVALUE={size}"])
