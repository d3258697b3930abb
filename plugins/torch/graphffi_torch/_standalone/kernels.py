# SPDX-License-Identifier: Apache-2.0
"""Kernels for the CPU that Inductor generates: errors leave their parallel loops."""

from __future__ import annotations

import re
from typing import Final

from graphffi_torch._standalone.edits import edit, end_of_block, refuse_code

PREFIX: Final = "torch/csrc/inductor/cpp_prefix.h"
_INCLUDE: Final = f"#include <{PREFIX}>\n"
_KERNEL: Final = re.compile(r'extern "C"\s+void\s+(\w+)\s*\(')
# Where a kernel notes that it divided integers by zero. Torch (2.13 to 2.15) has one place for all
# threads, which may be another call's.
_NOTE: Final = "inductor_cpu_integer_div_error_flag"
_CHECK: Final = "AOTI_TORCH_CHECK("
_INDEX: Final = r'AOTI_TORCH_CHECK\((.*), "index out of bounds: (?:(\S+) <= )?(.+?)(?: < (.+))?"\);'
_PARALLEL: Final = re.compile(r"^[ \t]*#[ \t]*pragma omp parallel\b([^\n]*)\n", re.MULTILINE)
_SHARED: Final = re.compile(r"^[ \t]*#[ \t]*pragma omp (?:for|single)\b([^\n]*)\n", re.MULTILINE)
_SPACE: Final = re.compile(r"\s*")
_LOOP: Final = re.compile(r"(?:\s|\{|#pragma GCC[^\n]*\n)*?for\s*(?=\()")
_WHAT: Final = "parallel loops"


def edit_kernels(code: str, model: str) -> str:
    """The code with kernels of names of their own, whose errors reach whoever calls them.

    Args:
        code: Of a model: that which calls kernels, then each kernel behind an include of `PREFIX`.
        model: A name of its own.
    """
    names = _KERNEL.findall(code)
    if len(re.findall(r'extern "C"\s+void\b', code)) != len(names):
        refuse_code("kernels", "declarations and definitions that graphffi knows", "others")
    for name in sorted(set(names), key=len, reverse=True):
        code = re.sub(rf"\b{name}\b", f"{model}_{name}", code)  # another model has such, too
    callers, *kernels = code.split(_INCLUDE)
    # Flex attention has a buffer for each thread of the machine that compiles (torch 2.13).
    kernels = [
        edit(
            kernel,
            "numbers of threads",
            r"int64_t num_thread = \d+;",
            "int64_t num_thread = at::get_num_threads();",
            places=len(re.findall(r"\bnum_thread =", kernel)),
        )
        for kernel in kernels
    ]
    return callers + "".join(map(_with_errors, map(_with_notes, kernels)))


def _with_notes(kernel: str) -> str:
    """Notes divisions by zero for each thread."""
    if f"{_NOTE} = &" not in kernel:
        return kernel
    return edit(
        kernel,
        "beginnings of threads",
        r"int tid = omp_get_thread_num\(\);",
        rf"\g<0> {_NOTE} = &inductor_cpu_integer_div_error;",
        places=len(_PARALLEL.findall(kernel)),
    )


def _with_errors(kernel: str) -> str:
    """Carries errors of checks out of parallel loops, which no exception may leave."""
    if _CHECK not in kernel:
        return kernel
    parts, done = [], 0
    for match in _PARALLEL.finditer(kernel):
        if match.start() < done:
            refuse_code(_WHAT, "none within others", "one")
        if match[1].lstrip().startswith("for"):
            begin, end = _loop(kernel, match.end(), match[1])
            block = kernel[match.end() : begin] + _caught(kernel[begin:end])
        else:
            begin = _SPACE.match(kernel, match.end()).end()  # type: ignore[union-attr]
            end = end_of_block(_WHAT, kernel, begin)
            block = _with_caught(kernel[begin:end])
        parts += [kernel[done : match.start()], "{ graphffi_standalone::LoopError loop_error;\n"]
        parts += [match[0], block, "\nloop_error.Throw(); }"]
        done = end
    parts.append(kernel[done:])
    places = kernel.count('"index out of bounds')
    return edit("".join(parts), "checks of indices", _INDEX, _checked_index, places=places)


def _with_caught(region: str) -> str:
    """A parallel region whose loops keep their errors."""
    parts, done = [], 0
    for match in _SHARED.finditer(region):
        begin, end = _loop(region, match.end(), match[1])
        # Vector loops of OpenMP's, which no exception may leave either.
        pragma = re.sub(r" simd\b( simdlen\(\d+\))?", "", match[0])
        parts += [region[done : match.start()], pragma, region[match.end() : begin]]
        parts.append(_caught(region[begin:end]))
        done = end
    parts.append(region[done:])
    if any(_CHECK in part for part in parts[0::4]):
        refuse_code("checks", "none outside of loops of parallel regions", "one")
    return "".join(parts)


def _loop(code: str, start: int, clauses: str) -> tuple[int, int]:
    """The begin and end of the block of the loops behind a directive, or of `single`."""
    opt_collapsed = re.search(r"collapse\((\d+)\)", clauses)
    for _ in range(int(opt_collapsed[1]) if opt_collapsed else 1):
        opt_loop = _LOOP.match(code, start)
        start = start if opt_loop is None else end_of_block(_WHAT, code, opt_loop.end())
    opt_begin = re.compile(r"\s*(?=\{)").match(code, start)
    if opt_begin is None:
        refuse_code(_WHAT, "a block", "none")
    return opt_begin.end(), end_of_block(_WHAT, code, opt_begin.end())


def _caught(block: str) -> str:
    block = re.sub(r"#pragma omp simd[^\n]*\n", "\n", block)
    return f"{{ if (!loop_error.is_set()) try {block} catch (...) {{ loop_error.Keep(); }} }}"


def _checked_index(match: re.Match[str]) -> str:
    condition, _, index, opt_size = match.groups()
    # Torch (2.13) applies ~ to a bool, which is true of both: no index is checked under such masks.
    condition = re.sub(r"\| ~\(\((\w+)\)\.all_masked\(\)\)$", r"|| (\1).all_zero()", condition)
    if not condition.endswith(".all_masked()"):
        condition = re.sub(r"\| ~\((\w+)\)$", r"|| !(\1)", condition)
    given = _given(index, match.string[: match.start()])
    size = -1 if opt_size is None else opt_size
    return f"if (!({condition})) graphffi_standalone::FailIndex({index}, {given}, {size});"


def _given(index: str, before: str) -> str:
    """The variable that holds an index as it was before a size was added to negative ones."""
    defined = dict(re.findall(r"\bauto (\w+) = (.+);\n", before))
    name = index
    while True:
        value = defined.get(name, "")
        opt_other = re.fullmatch(r"(?:c10::convert<\w+>\()?(\w+)\)?", value)
        opt_choice = re.fullmatch(r"(\w+) \? \w+ : (\w+)", value)
        if opt_choice and defined.get(opt_choice[1]) == f"{opt_choice[2]} < 0":
            return opt_choice[2]
        if opt_other is None or opt_other[1] not in defined:
            return index
        name = opt_other[1]
