# SPDX-License-Identifier: Apache-2.0
"""Kernels that speak the TVM FFI ABI, called from graph compilers."""

from __future__ import annotations

from ._device import Device as Device
from ._dtype import dtype as dtype
