# SPDX-License-Identifier: Apache-2.0
"""Calls of the plugin's handlers by the imitated XLA of fake_xla.cc."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

LIBRARIES = Path(__file__).parents[2] / "plugins" / "jax" / "graphffi_jax" / "lib"


class Options(ctypes.Structure):
    """Of `fake_xla_run`."""

    _fields_ = (
        ("major", ctypes.c_int32),
        ("minor", ctypes.c_int32),
        ("instantiate", ctypes.c_void_p),
        ("execute", ctypes.c_void_p),
        ("func", ctypes.c_char_p),
        ("plan", ctypes.c_char_p),
        ("execute_stage", ctypes.c_int32),
        ("frame_size", ctypes.c_int32),
        ("token", ctypes.c_int32),
    )


class ImitatedXla:
    """An XLA of any API version."""

    def __init__(self, fake: ctypes.CDLL) -> None:
        """Use the library that fake_xla.cc makes; after graphffi was imported."""
        self._fake = fake
        self._fake.fake_xla_run.restype = ctypes.c_char_p
        plugin = ctypes.CDLL(str(LIBRARIES / "libgraphffi_jax.so"))
        self._handler: Any = plugin.graphffi_jax_handler
        self._handler.restype = ctypes.c_void_p
        self._handler.argtypes = [ctypes.c_char_p] * 3

    def run(
        self,
        func: str,
        *,
        version: tuple[int, int] = (0, 3),
        plan: str = "",
        target: str = "tvm_ffi.call",
        platform: str = "cpu",
        stage: int = 3,
        frame_size: int = 0,
        token: bool = False,
    ) -> str:
        """Call a kernel; return what happened."""
        handlers = [
            self._handler(target.encode(), platform.encode(), stage_name)
            for stage_name in (b"instantiate", b"execute")
        ]
        options = Options(
            *version, *handlers, func.encode(), plan.encode(), stage, frame_size, token
        )
        text: bytes = self._fake.fake_xla_run(ctypes.byref(options))
        return text.decode()
