# SPDX-License-Identifier: Apache-2.0
"""The definition of an op, framework-free: operands, attributes, results, plan, shape rule."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from . import _core
from ._binding import BoundCall as BoundCall
from ._binding import bind
from ._digest import definition_digest, extended_digest
from ._dims import Dims, parse_dims
from ._dtypes import DTypes, parse_dtypes
from ._kernel_signature import check_kernel_signature
from ._op_kernel import OpKernel, choose_kernel, kernel_parts, reference_kernel
from ._parameter import MISSING as MISSING
from ._parameter import Attribute as Attribute
from ._parameter import Operand as Operand
from ._plan import CanonicalCall, PlanTemplate, SideEffect, plan_tokens
from ._rule_text import digesting, known_rule_text, rule_text
from ._spec import CheckError, CheckTypeError, TensorSpec, checked_bytes, checked_result
from ._tracing import report_to_tracer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ._jvp import Jvp
    from ._reference import Reference
    from ._tuning import TunedCall
    from ._vjp import Vjp
    from ._vmap import VmapRule


# What Python raises where a rule itself is wrong: its text names neither op nor rule.
_MISTAKES: Final = (
    *(TypeError, AttributeError, IndexError, KeyError, ZeroDivisionError, OverflowError),
)


@dataclass(frozen=True, eq=False)
class Definition:
    """One op as graph compilers see it.

    Names, shapes and gradients are the op's; plan, workspace and traits are each kernel's.

    Args:
        name: ``namespace::op``.
        parameters: `Operand` and `Attribute` in signature order.
        results: Names of the results that the op allocates; mutated operands are returned after
            them.
        kernels: What calls run: the first that fits.
        rule: Gets one `TensorSpec` (None, list) per operand and one value per attribute, in
            signature order;
            returns the specs of the results.
        result_type: A NamedTuple class for several results, or None.
        doc: What the op computes.
        has_side_effect: Whether calls count for more than their results.
        vmap: Batching rule, or None.
        vjp: Gradient rule, or None.
        dims_text: Names of dimensions, or nothing.
        dtypes_text: The data types that the op takes and gives, or nothing.
        strided: Operands that kernels take with any strides; others are row-major for them.
        forced: The name of the only kernel that calls may run; "" if they choose.
        reference: What the op computes, or None.
        fallback: "reference", which runs where no kernel fits, or nothing.
        jvp: Forward-mode rule, or None.
        gradient: "reference", of which rules are derived that are not given, or nothing.
        tuning: Calls of which the fastest kernel is known.
    """

    name: str
    parameters: tuple[Operand | Attribute, ...]
    results: tuple[str, ...]
    kernels: tuple[OpKernel, ...]
    rule: Callable[..., Any] | None
    result_type: Any = None
    doc: str = ""
    has_side_effect: SideEffect = False
    vmap: VmapRule | None = None
    vjp: Vjp | None = None
    dims_text: str = ""
    dtypes_text: str = ""
    strided: tuple[str, ...] = ()
    forced: str = ""
    reference: Reference | None = None
    fallback: str = ""
    jvp: Jvp | None = None
    gradient: str = ""
    tuning: tuple[TunedCall, ...] = ()
    _templates: dict[Any, PlanTemplate] = field(default_factory=dict, repr=False)
    _made: list[OpKernel] = field(default_factory=list, init=False, repr=False)

    def __post_init__(self) -> None:
        namespace, separator, base = self.name.partition("::")
        if not (separator and namespace.isidentifier() and base.isidentifier()):
            raise ValueError(f"graphffi: op name: expected 'namespace::name', got {self.name!r}")
        seen: set[str] = set()
        for name in (*(p.name for p in self.parameters), *self.results):
            if name in seen:
                raise ValueError(f"{self.name}: expected distinct names, got {name!r} twice")
            seen.add(name)
        if unknown := set(self.strided) - {o.name for o in self.operands}:
            raise ValueError(
                f"{self.name}: strided: expected names of operands, got {min(unknown)!r}; "
                f"operands: {', '.join(o.name for o in self.operands)}"
            )
        _ = self.dims, self.dtypes  # which raise if the text is wrong
        for kernel in self.kernels:
            self.check_kernel(kernel)

    def check_kernel(self, kernel: OpKernel) -> None:
        """Refuses a kernel that the op can't have.

        Raises:
            ValueError: For a wrong workspace or plan.
            TypeError: For a plan that passes what the kernel does not take.
        """
        size = kernel.workspace
        is_size = isinstance(size, int) and not isinstance(size, bool) and 0 <= size < 1 << 63
        if not (is_size or size is None or callable(size)):
            raise ValueError(
                f"{self.name}: workspace: expected bytes (an int from 0 to 2**63 - 1) or a "
                f"callable, got {size!r}"
            )
        # A plan that does not parse shows where the kernel is given: lists are empty here.
        structures = (
            tuple(0 if o.kind == "list" else -1 for o in self.operands),
            tuple(0 if a.is_list else -1 for a in self.attributes),
        )
        template = PlanTemplate.make(self, kernel, *structures)
        key = (kernel, *structures)
        self._templates[key] = template
        _core.check_plan(template.plan, template.counts, self.name)
        check_kernel_signature(self, kernel, template.plan)

    @cached_property
    def operands(self) -> tuple[Operand, ...]:
        """The tensor parameters, in signature order."""
        return tuple(p for p in self.parameters if isinstance(p, Operand))

    @cached_property
    def attributes(self) -> tuple[Attribute, ...]:
        """The other parameters, in signature order."""
        return tuple(p for p in self.parameters if isinstance(p, Attribute))

    @cached_property
    def signature(self) -> str:
        """``(x, weight, eps=1e-06) -> out`` for messages and digests."""
        parts = []
        for p in self.parameters:
            if isinstance(p, Operand):
                default = "" if p.required else " = None"
                parts.append(f"{p.name}: {p.kind}{'!' if p.mutated else ''}{default}")
            else:
                default = "" if p.default is MISSING else f" = {p.default!r}"
                parts.append(f"{p.name}: {p.expected}{default}")
        return f"({', '.join(parts)}) -> ({', '.join(self.results)})"

    @cached_property
    def dims(self) -> Dims | None:
        """The named dimensions of operands and results, if the op has names for them."""
        if not self.dims_text:
            return None
        return parse_dims(self.name, self.dims_text, self.operands, self.results)

    @cached_property
    def dtypes(self) -> DTypes | None:
        """The data types of operands and results, if the op says what they are."""
        if not self.dtypes_text:
            return None
        return parse_dtypes(self.name, self.dtypes_text, self.operands, self.results)

    @property
    def kernel(self) -> str:
        """The reference of the first kernel; "" if there is none."""
        return self.kernels[0].reference if self.kernels else ""

    @cached_property
    def candidates(self) -> tuple[OpKernel, ...]:
        """The kernels that calls may run."""
        if not self.forced:
            return self.known_kernels if self.fallback else self.kernels
        return tuple(kernel for kernel in self.known_kernels if kernel.name == self.forced)

    @cached_property
    def known_kernels(self) -> tuple[OpKernel, ...]:
        """All kernels; the reference is the last."""
        if self.reference is None:
            return self.kernels
        return (*self.kernels, reference_kernel(self.name))

    @cached_property
    def backward_rule(self) -> Vjp | None:
        """How to go back through a call: the rule that is given, or that of the reference."""
        if self.vjp is not None or not self.gradient or self.reference is None:
            return self.vjp
        from ._reference_rules import reference_vjp  # which few ops need

        return reference_vjp(self)

    @cached_property
    def forward_rule(self) -> Jvp | None:
        """How to go forward: the rule that is given, or that of the reference."""
        if self.jvp is not None or not self.gradient or self.reference is None:
            return self.jvp
        from ._reference_rules import reference_jvp

        return reference_jvp(self)

    @property
    def runs_reference(self) -> bool:
        """Whether calls may run the reference, so that what is compiled depends on it."""
        return any(kernel.is_reference for kernel in self.candidates)

    @cached_property
    def has_choice(self) -> bool:
        """Whether calls may run several kernels, or none."""
        return bool(self.tuning) or not (self.candidates and self.candidates[0].is_for_all)

    @cached_property
    def is_looked_at(self) -> bool:
        """Whether a call has to be looked at to know its kernel, or the size of its workspace."""
        return self.has_choice or self.takes_ruled_workspace(self.candidates[0])

    def choose(self, operands: Sequence[Any], attributes: Sequence[Any], device: str) -> OpKernel:
        """The kernel that a call runs: the first that fits, made if a factory has to.

        Args:
            operands: One `TensorSpec`, None or list of specs per operand. Decisions on symbolic
                sizes are made by these; see `decidable`.
            attributes: One value per attribute.
            device: Type of the device: see `call_device`.

        Raises:
            NotImplementedError: If none fits, which says why.
            FactoryError: If a factory fails.
        """
        return self.select(operands, attributes, device).made(self)

    def select(self, operands: Sequence[Any], attributes: Sequence[Any], device: str) -> OpKernel:
        """The same kernel, which a factory may still have to make."""
        if not self.has_choice:
            return self.candidates[0]
        return choose_kernel(self, operands, attributes, device)

    def kernel_number(self, kernel: OpKernel) -> int:
        """That of a kernel: among the candidates, or, behind these, of those that were made."""
        if kernel.key is None:
            return self.candidates.index(kernel)
        if kernel not in self._made:
            self._made.append(kernel)
        return len(self.candidates) + self._made.index(kernel)

    def made_kernel(self, number: int) -> tuple[int, str]:
        """Of a kernel that was made: the number of its factory, and its reference."""
        made = self._made[number - len(self.candidates)]
        factories = [kernel.factory for kernel in self.candidates]
        return factories.index(made.factory), made.reference

    def takes_ruled_workspace(self, kernel: OpKernel) -> bool:
        """Whether a kernel's plan passes a workspace whose size follows a rule."""
        names = {*(p.name for p in self.parameters), *self.results}
        if not callable(kernel.workspace) or "workspace" in names:
            return False
        return "workspace" in plan_tokens(kernel.plan)

    @cached_property
    def base_digest(self) -> str:
        """Changes when signature, shape rule or anything of the kernels does."""
        texts = [
            self.name,
            self.signature,
            repr(self.has_side_effect),
            self.dims_text,
            self.dtypes_text,
            repr(self.strided),
            self.forced,
            self.fallback,
            self.gradient,
            repr(self.tuning),
        ]
        rules = [self.rule]
        for kernel in self.kernels:
            texts += kernel.texts.values()
            rules += kernel.rules.values()
        with digesting(self.name):
            return definition_digest(tuple(texts), tuple(rules))

    @cached_property
    def digest(self) -> str:
        """Changes when anything of the definition does, its rules included."""
        method = None if self.vmap is None else self.vmap.method
        if method is None and self.vjp is None and self.jvp is None and self.reference is None:
            return self.base_digest
        texts = [method if isinstance(method, str) else ""]
        for rule in (self.vjp, self.jvp):
            texts += rule.save if rule else ()
        return extended_digest(self.base_digest, tuple(texts), (method, *self.added_rules))

    @property
    def added_rules(self) -> tuple[Any, ...]:
        """Functions that the op was given after its definition; None for what it was not."""
        uses_reference = self.reference and (self.gradient or self.runs_reference)
        return (
            self.vjp and self.vjp.backward,
            self.jvp and self.jvp.forward,
            self.reference.function if self.reference and uses_reference else None,
        )

    def traced_digest(self) -> str:
        """The digest for a call in a graph that is traced now.

        It covers the values that rules refer to, and what factories' libraries include, as they
        are now. Where no text tells them, it is another one each time, so that no compile cache
        serves the graph later.
        """
        method = None if self.vmap is None else self.vmap.method
        rules: list[Any] = [self.rule, method, *self.added_rules]
        for kernel in self.kernels:
            rules += (kernel.workspace, kernel.when, kernel.factory and kernel.factory.key)
        texts = [known_rule_text(rule) for rule in rules if callable(rule)]
        texts += [
            kernel.factory.traced_text(is_prebuilt=bool(kernel.prebuilt))
            for kernel in self.kernels
            if kernel.factory is not None
        ]
        if None in texts:
            return os.urandom(8).hex()
        return extended_digest(self.digest, tuple(text or "" for text in texts), ())

    def differences(self, other: Definition) -> list[str]:
        """Names of the parts in which two definitions differ; "kernel" if nothing else does."""
        parts: dict[str, tuple[Any, Any]] = {
            "signature": (self.signature, other.signature),
            **kernel_parts(self.kernels, other.kernels),
            "shape rule": (rule_text(self.rule), rule_text(other.rule)),
            "dims": (self.dims_text, other.dims_text),
            "dtypes": (self.dtypes_text, other.dtypes_text),
            "strided": (self.strided, other.strided),
            "fallback": (self.fallback, other.fallback),
            "gradient": (self.gradient, other.gradient),
            "vmap": (_vmap_text(self), _vmap_text(other)),
        }
        return [name for name, (mine, its) in parts.items() if mine != its] or ["kernel"]

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> BoundCall:
        """Matches arguments with parameters.

        Raises:
            TypeError: For missing, unknown, surplus or wrong-typed arguments; all of them in one
                message.
            ValueError: If all that is wrong are values of attributes.
        """
        try:
            return bind(self.name, self.parameters, args, kwargs)
        except (TypeError, ValueError) as error:
            report_to_tracer(type(error).__name__, error.args[0])
            raise

    def infer(self, operands: Sequence[Any], attributes: Sequence[Any]) -> tuple[TensorSpec, ...]:
        """Runs the shape rule.

        Args:
            operands: One `TensorSpec`, None or list of specs per operand.
            attributes: One value per attribute.

        Returns:
            One spec per result that the op allocates; dtypes are `graphffi.dtype`, devices
            `graphffi.Device` or None.

        Raises:
            ValueError: If a `check` of the rule fails, or sizes are not as `dims` says.
            TypeError: If data types are not as `dtypes` says, or the rule returns something else
                than the declared results.
        """
        try:
            return self._infer(operands, attributes)
        except CheckError as error:
            raise ValueError(f"{self.name}: {error}") from None
        except CheckTypeError as error:
            raise TypeError(f"{self.name}: {error}") from None

    def _infer(self, operands: Sequence[Any], attributes: Sequence[Any]) -> tuple[TensorSpec, ...]:
        if self.dtypes is not None:
            self.dtypes.check(self.operands, operands, {})
        if self.dims is not None:
            self.dims.check(self.operands, operands)
        specs = () if self.rule is None else self._run_rule(operands, attributes)
        if self.dims is not None and len(specs) == len(self.results):
            results = dict(zip(self.results, specs, strict=True))
            self.dims.check_results(self.operands, operands, results)
        if len(specs) != len(self.results):
            raise TypeError(
                f"{self.name}: shape rule: expected {len(self.results)} results, got {len(specs)}"
            )
        default_device = next((s.device for s in BoundCall(tuple(operands), ()).tensors()), None)
        checked = {
            name: checked_result(f"{self.name}: shape rule: result {name!r}", spec, default_device)
            for name, spec in zip(self.results, specs, strict=True)
        }
        if self.dtypes is not None:
            self.dtypes.check(self.operands, operands, checked)
        return tuple(checked.values())

    def workspace_bytes(
        self, kernel: OpKernel, operands: Sequence[Any], attributes: Sequence[Any]
    ) -> Any:
        """The size of the call's workspace.

        Args:
            kernel: Of the call.
            operands: As for `infer`.
            attributes: As for `infer`.

        Returns:
            Bytes: an int or a framework's symbolic one; None if the kernel declares no workspace.

        Raises:
            ValueError: If the rule gives a negative number.
            TypeError: If it gives something else.
        """
        if not callable(kernel.workspace):
            return kernel.workspace
        size = self.call_rule(kernel.workspace, operands, attributes)
        return checked_bytes(f"{self.name}: workspace", size)

    def call_rule(
        self,
        rule: Callable[..., Any],
        operands: Sequence[Any],
        attributes: Sequence[Any],
        kind: str = "",
    ) -> Any:
        """Passes the parameters in order, but for those that the rule takes by name only.

        Args:
            rule: Of the op, or of one of its kernels.
            operands: As for `infer`.
            attributes: As for `infer`.
            kind: What errors call a rule that decides about kernels.
        """
        tensors, values = iter(operands), iter(attributes)
        arguments = [next(tensors if isinstance(p, Operand) else values) for p in self.parameters]
        by_name = dict(zip((p.name for p in self.parameters), arguments, strict=True))
        keywords = {name: by_name.pop(name) for name in keyword_only(rule) if name in by_name}
        try:
            return rule(*by_name.values(), **keywords)
        except Exception as error:
            is_plain = type(error).__module__ == "builtins" if kind else type(error) in _MISTAKES
            kind = kind or ("shape rule" if rule is self.rule else "workspace")
            text = str(error.args[0]) if error.args else ""
            if is_plain and not text.startswith((self.name, "graphffi")):
                error.args = (f"{self.name}: {kind}: {text}", *error.args[1:])
            raise

    def _run_rule(self, operands: Sequence[Any], attributes: Sequence[Any]) -> tuple[Any, ...]:
        assert self.rule is not None
        returned = self.call_rule(self.rule, operands, attributes)
        if returned is None and not self.results:
            return ()
        return tuple(returned) if isinstance(returned, (tuple, list)) else (returned,)

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
            None and lists
                are looked at.
            attributes: One converted value per attribute.
            workspace: What `workspace_bytes` gave, where the call itself has to know: if the
                kernel takes a workspace, the framework does not bring it, and its size follows a
                rule.
        """
        key = (
            kernel,
            tuple(_structure(o) for o in operands),
            tuple(_structure(a) for a in attributes),
        )
        template = self._templates.get(key)
        if template is None:
            template = PlanTemplate.make(self, *key)
            self._templates[key] = template
        return template.fill(self, kernel, operands, attributes, workspace)

    def pack_results(
        self, operands: Sequence[Any], fresh: Sequence[Any], mutated: Sequence[Any]
    ) -> Any:
        """Packs the results of a call.

        Args:
            operands: As given to `canonical`.
            fresh: One tensor per result that the op allocates.
            mutated: The updated tensors, flat, in the order of `CanonicalCall.mutated`.

        Returns:
            The results, then the mutated operands: one object if there is one, a tuple otherwise
            (the NamedTuple
            of the annotation if only results are returned).
        """
        updated = iter(mutated)
        values = list(fresh)
        for operand, value in zip(self.operands, operands, strict=True):
            if not operand.mutated:
                continue
            if isinstance(value, (list, tuple)):
                values.append([next(updated) for _ in value])
            else:
                values.append(None if value is None else next(updated))
        if self.result_type is not None and len(values) == len(self.results):
            return self.result_type(*values)
        if not values:
            return None
        return values[0] if len(values) == 1 else tuple(values)


def _structure(value: Any) -> int | None:
    """None for None, -1 for one value, the length of a list."""
    if value is None:
        return None
    return len(value) if isinstance(value, (list, tuple)) else -1


def _vmap_text(definition: Definition) -> str:
    return rule_text(definition.vmap and definition.vmap.method)


def keyword_only(rule: Callable[..., Any] | None) -> tuple[str, ...]:
    """The parameters of a function that it takes by name only."""
    code = getattr(rule, "__code__", None)
    if code is None:
        return ()
    end = code.co_argcount + code.co_kwonlyargcount
    names: tuple[str, ...] = code.co_varnames[code.co_argcount : end]
    return names
