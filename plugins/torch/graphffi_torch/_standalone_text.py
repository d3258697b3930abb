# SPDX-License-Identifier: Apache-2.0
"""Texts by which libraries describe themselves."""

from __future__ import annotations

import json


def text_code(name: str, text: str) -> str:
    """C++ of a text that is read from the library's file.

    Args:
        name: Of the symbol, behind ``__graphffi_``.
        text: The text.
    """
    return f"""
extern "C" __attribute__((visibility("default"))) const char __graphffi_{name}[];
extern "C" const char __graphffi_{name}[] = {json.dumps(text)};
"""
