# SPDX-License-Identifier: Apache-2.0
"""The texts of values and names in error messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from .._frameworks.tracing import as_constant, is_known, is_proxy

if TYPE_CHECKING:
    from collections.abc import Iterable

NUMBERS: Final = (bool, int, float)


def is_tensor(value: Any) -> bool:
    """True if `value` is an array of some framework, traced or not, or a spec of one."""
    if type(value) in NUMBERS:  # torch.compile cannot ask symbols for their attributes
        return False
    try:
        has_shape = hasattr(value, "shape")
    except RuntimeError:  # of a list of tensors that has no one shape, which plugins refuse
        has_shape = True
    has_both = has_shape and hasattr(value, "dtype") and not isinstance(value, type)
    return has_both and not is_masked(value)


def is_masked(value: Any) -> bool:
    """True if some elements of an array may count as missing, which no kernel is told."""
    return type(value).__module__ in ("numpy.ma", "numpy.ma.core")


def is_numpy_scalar(value: Any) -> bool:
    """True if `value` is a number of NumPy, which is also an array without dimensions."""
    # torch.compile traces this, and knows no base classes of types.
    is_numpys = type(value).__module__ in ("numpy", "ml_dtypes")
    # There, arrays and numbers differ by their dimensions only.
    is_number = is_numpys and not hasattr(value, "__array_finalize__")
    return is_number and hasattr(value, "dtype") and getattr(value, "ndim", None) == 0


def plain_text(value: Any) -> str:
    """The content of a string, or the text of another value."""
    if type(value) is str:
        return value
    # A subclass of str may have another text. Dynamo makes a plain string of it in no other way, in
    # torch 2.10 not even so.
    return "".join((value,)) if isinstance(value, str) else str(value)


def is_symbolic_size(value: Any) -> bool:
    """True if `value` is a size that an exported JAX program learns when it is called."""
    return hasattr(type(value), "dimension_as_value") and not is_tensor(value)


def dtype_name(value: Any) -> str:
    """Give `float32` for torch.float32, numpy.dtype("float32"), jnp.float32."""
    name = getattr(value, "name", None)
    return name if isinstance(name, str) else str(value).rpartition(".")[2]


def counted(count: int, noun: str) -> str:
    """A number of things in words, such as ``1 result`` and ``2 results``."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def describe(value: Any) -> str:
    """``float32[2, 3] on cuda:0`` for tensors; kind and value for the rest."""
    if is_tensor(value) and not is_proxy(value):
        sizes = ", ".join(str(as_constant(size)) for size in value.shape)
        device = getattr(value, "device", None)
        place = f" on {device}" if device is not None and not callable(device) else ""
        return f"{dtype_name(value.dtype)}[{sizes}]{place}"
    if value is None:
        return "None"
    if type(value).__name__ == "_Missing":
        return "nothing"
    if is_masked(value) or (type(value) in NUMBERS and not is_known(value)):
        return type(value).__name__
    if isinstance(value, (list, tuple)):
        if any(is_tensor(item) for item in value):
            return f"a {type(value).__name__} of {len(value)}"
    if is_symbolic_size(value):
        return f"symbolic size {value}"
    try:
        text = repr(as_constant(value))
    # Anything may be wrong with it: that of an int ends at 4300 digits.
    except Exception as error:
        return f"{type(value).__name__} (its repr raises {type(error).__name__})"
    return f"{type(value).__name__} {text if len(text) <= 60 else text[:57] + '...'}"


def near_names(name: str, known: Iterable[str]) -> str:
    """The end of an error text: all known names if few, else those that look alike."""
    names = sorted(set(known))
    if 0 < len(names) <= 8:
        return f"; known: {', '.join(names)}"
    from difflib import get_close_matches

    near = get_close_matches(name, names, n=3, cutoff=0.6)
    return f"; near: {', '.join(near)}" if near else ""
