# SPDX-License-Identifier: Apache-2.0
"""The definition of an op, framework-free: interface, kernels, rules, and the digest of all."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from .._cached import cached_property
from .._contract.plan import CanonicalCall, PlanTemplate
from .._contract.rule_text import RuleText, read_rule
from .._contract.shape_rule import infer, workspace_bytes
from .._kernels.choice import OpWithKernels
from .._kernels.kernel_signature import check_kernel
from .._kernels.op_kernel import kernel_parts
from .._values.nested import structure_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .._kernels.op_kernel import OpKernel
    from .._rules.derivatives import Jvp, Vjp


_MOST_TEMPLATES: Final = 1024


@dataclass(frozen=True, eq=False)
class Definition(OpWithKernels):
    """One op as graph compilers see it.

    Names, shapes and gradients are the op's; plan, workspace and traits are each kernel's.

    Args:
        recompute: Whether a call may be made again for a gradient, in place of keeping its results.
        vmap: Batching rule, or None.
        vjp: Gradient rule, or None.
        jvp: Forward-mode rule, or None.
        gradient: "reference", of which rules are derived that are not given, or nothing.
    """

    vmap: str | Callable[..., Any] | None = None
    vjp: Vjp | None = None
    jvp: Jvp | None = None
    gradient: str = ""
    recompute: bool = True
    _templates: dict[Any, PlanTemplate] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        for kernel in self.kernels:
            check_kernel(self, kernel)

    @property
    def runs_reference(self) -> bool:
        """True if calls may run the reference, so that what is compiled depends on it."""
        return any(kernel.is_reference for kernel in self.candidates)

    @property
    def parts(self) -> tuple[Any, ...]:
        """All that tells it from another one: texts, and functions or None."""
        method = self.vmap
        saved = [rule.save if rule else () for rule in (self.vjp, self.jvp)]
        kernels = [(*kernel.texts.values(), *kernel.rules.values()) for kernel in self.kernels]
        return (
            self.name,
            self.signature,
            repr(self.has_side_effect),
            self.dims_text,
            self.dtypes_text,
            self.strided,
            self.forced,
            self.fallback,
            self.gradient,
            repr(self.tuning),
            repr(self.recompute),
            self.rule,
            *kernels,
            method,
            *saved,
            *self.added_rules,
        )

    @cached_property
    def identity(self) -> RuleText:
        """Equal for definitions that do the same, by values as they were at the first use."""
        return read_rule(self.parts, self.name)

    @cached_property
    def digest(self) -> str:
        """Changes when anything of the definition does, its rules included."""
        return _digest_of((self.identity.text,))

    def traced_digest(self) -> str:
        """The digest for a call in a graph that is traced now.

        It covers the values that rules refer to, and what factories' libraries include, as they
        are now. Where no text tells them, it is another one each time, so that no compile cache
        serves the graph later.
        """
        rules: list[Any] = [self.rule, self.vmap, *self.added_rules]
        for kernel in self.kernels:
            rules += (kernel.workspace, kernel.when, kernel.factory and kernel.factory.key)
        read = read_rule(tuple(rules), self.name)
        texts = [
            kernel.factory.traced_text(is_prebuilt=bool(kernel.prebuilt))
            for kernel in self.kernels
            if kernel.factory is not None
        ]
        if read.unknown or None in texts:
            return os.urandom(8).hex()
        return _digest_of((self.digest, read.text, *(text or "" for text in texts)))

    def differences(self, other: Definition) -> list[str]:
        """Names of the parts in which another one differs; "kernel" if nothing else does."""
        parts: dict[str, tuple[Any, Any]] = {
            "signature": (self.signature, other.signature),
            "has_side_effect": (self.has_side_effect, other.has_side_effect),
            **kernel_parts(self.kernels, other.kernels),
            "shape rule": (read_rule(self.rule), read_rule(other.rule)),
            "dims": (self.dims_text, other.dims_text),
            "dtypes": (self.dtypes_text, other.dtypes_text),
            "strided": (self.strided, other.strided),
            "fallback": (self.fallback, other.fallback),
            "gradient": (self.gradient, other.gradient),
            "recompute": (self.recompute, other.recompute),
            "vmap": (read_rule(self.vmap), read_rule(other.vmap)),
        }
        return [name for name, (mine, its) in parts.items() if mine != its] or ["kernel"]

    @property
    def added_rules(self) -> tuple[Any, ...]:
        """Functions that the op was given after its definition; None for what it was not."""
        uses_reference = self.reference and (self.gradient or self.runs_reference)
        return (
            self.vjp and self.vjp.function,
            self.jvp and self.jvp.function,
            self.reference.function if self.reference and uses_reference else None,
        )

    infer = infer
    workspace_bytes = workspace_bytes

    def canonical(
        self,
        kernel: OpKernel,
        operands: Sequence[Any],
        attributes: Sequence[Any],
        workspace: Any = 0,
    ) -> CanonicalCall:
        """The call in the form that every framework's primitive takes.

        Args:
            kernel: That the call runs.
            operands: One object, None or list per operand: tensors, specs or graph nodes; only
                None and lists are looked at.
            attributes: One converted value per attribute.
            workspace: What `workspace_bytes` gave, where the call itself has to know: if the
                kernel takes a workspace, the framework does not bring it, and its size follows a
                rule.
        """
        key = (
            kernel,
            tuple(map(structure_of, operands)),
            tuple(map(structure_of, attributes)),
        )
        template = self._templates.get(key)
        if template is None:
            template = PlanTemplate.make(self, *key)
            if len(self._templates) >= _MOST_TEMPLATES:  # of lists of so many lengths
                self._templates.clear()
            self._templates[key] = template
        return template.fill(self, kernel, operands, attributes, workspace, self.digest)


def _digest_of(texts: tuple[str, ...]) -> str:
    """16 hex digits over texts."""
    return hashlib.sha256(repr(texts).encode()).hexdigest()[:16]
