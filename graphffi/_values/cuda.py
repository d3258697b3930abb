# SPDX-License-Identifier: Apache-2.0
"""Modules of CUDA kernels from PTX or a cubin, through CUDA's driver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .describe import describe
from .module import Module
from .registry import get_global_func


def cuda_module(image: str | bytes, kernels: Mapping[str, Sequence[str]]) -> Module:
    """Make a module of kernels that a compiler of one's own, nvcc or nvrtc produced.

    A function of the module takes the kernel's parameters and then the launch: grid x, y, z, block
    x, y, z (in blocks and threads) and dynamic shared memory (in bytes). It launches on the env's
    stream of the tensors' device and does not wait; with a grid of no blocks it does nothing. Each
    device loads the image when something is first launched there. CUDA's driver is needed from
    then on, not before.

    Args:
        image: PTX text, or the content of a cubin or fatbin.
        kernels: for each kernel (``extern "C"``, else its mangled name) the types of its
            parameters: ``tensor`` (its data pointer), ``bool``, ``int8`` to ``int64``, ``uint8``
            to ``uint64``, ``float32``, ``float64``.

    Returns:
        The module, of kind ``graphffi_cuda``: other modules can import it, and `export_library`
        packs it.

    Raises:
        TypeError: for an image or kernels of another kind.
        ValueError: for an unknown type of parameter, and for an image that is empty or was cut off.

    Example:
        >>> types = ["tensor", "tensor", "float32", "int64"]
        >>> module = cuda_module(ptx, {"scale": types})  # doctest: +SKIP
        >>> module.scale(x, out, 2.0, n, (n + 255) // 256, 1, 1, 256, 1, 1, 0)  # doctest: +SKIP
    """
    if not isinstance(image, (str, bytes, bytearray, memoryview)):
        raise TypeError(
            f"graphffi.cpp: cuda_module: image: expected str or bytes, got {describe(image)}"
        )
    if not isinstance(kernels, Mapping):
        raise TypeError(
            "graphffi.cpp: cuda_module: kernels: expected types of parameters by name, got "
            f"{describe(kernels)}"
        )
    signatures = "\n".join(f"{name}({', '.join(types)})" for name, types in kernels.items())
    content = image.encode() if isinstance(image, str) else bytes(image)
    module: Module = get_global_func("graphffi.make_cuda_module")(content, signatures)
    return module
