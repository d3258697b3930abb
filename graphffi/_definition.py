# SPDX-License-Identifier: Apache-2.0
"""The definition of an op, framework-free: operands, attributes, results, plan, shape rule."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from . import _core
from ._binding import BoundCall as BoundCall
from ._binding import bind
from ._cached import cached_property
from ._describe import describe
from ._digest import digest_of, parts_of, traced_digest
from ._dims import Dims, parse_dims
from ._dtypes import DTypes, parse_dtypes
from ._kernel_signature import check_kernel_signature
from ._nested import flat, for_rule, structure_of
from ._op_kernel import OpKernel, choose_kernel, reference_kernel
from ._parameter import MISSING as MISSING
from ._parameter import Attribute as Attribute
from ._parameter import Operand as Operand
from ._parameter import is_name
from ._plan import CanonicalCall, PlanTemplate, SideEffect, plan_tokens
from ._rule_text import RuleText, read_rule
from ._shape_rule import infer, workspace_bytes
from ._tracing import report_to_tracer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ._derivatives import Jvp, Vjp
    from ._reference import Reference
    from ._spec import TensorSpec
    from ._tuning import TunedCall


_MOST_TEMPLATES: Final = 1024


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
            signature order; returns the specs of the results.
        result_type: A NamedTuple class for several results, or None.
        doc: What the op computes.
        has_side_effect: Whether calls count for more than their results.
        recompute: Whether a call may be made again for a gradient, in place of keeping its results.
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
    vmap: str | Callable[..., Any] | None = None
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
    recompute: bool = True
    _templates: dict[Any, PlanTemplate] = field(default_factory=dict, repr=False)
    _made: list[OpKernel] = field(default_factory=list, init=False, repr=False)

    def __post_init__(self) -> None:
        namespace, separator, base = str(self.name).partition("::")
        if not (separator and is_name(namespace) and is_name(base)):
            raise ValueError(f"graphffi: op name: expected 'namespace::name', got {self.name!r}")
        seen: set[str] = set()
        for name in (*(p.name for p in self.parameters), *self.results):
            if not is_name(name) or name.startswith("graphffi_"):
                raise ValueError(
                    f"{self.name}: expected names of ASCII letters, digits and _ that neither "
                    f"Python nor graphffi reserves, got {name!r}"
                )
            if name in seen:
                raise ValueError(
                    f"{self.name}: expected distinct names of parameters and results, got {name!r} "
                    f"twice; a single result is 'out', several are 'out0', 'out1', …, unless named"
                )
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
            ValueError: For a wrong workspace or plan, and for text that can't be printed.
            TypeError: For a plan that passes what the kernel does not take; for a name or plan that
                is no text.
        """
        for option, text in (("name", kernel.name), ("plan", kernel.plan)):
            if not isinstance(text, str):
                raise TypeError(f"{self.name}: {option}: expected a str, got {describe(text)}")
            if not "".join(text.split()).isprintable():
                raise ValueError(f"{self.name}: {option}: expected printable text, got {text!r}")
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
            if p.by_name and "*" not in parts:
                parts.append("*")
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
        """The way back through a call: the rule that is given, or that of the reference."""
        if self.vjp is not None or not self.gradient or self.reference is None:
            return self.vjp
        from ._reference_rules import reference_vjp  # which few ops need

        return reference_vjp(self)

    @cached_property
    def forward_rule(self) -> Jvp | None:
        """The rule of forward mode: the one that is given, or that of the reference."""
        if self.jvp is not None or not self.gradient or self.reference is None:
            return self.jvp
        from ._reference_rules import reference_jvp

        return reference_jvp(self)

    @property
    def runs_reference(self) -> bool:
        """True if calls may run the reference, so that what is compiled depends on it."""
        return any(kernel.is_reference for kernel in self.candidates)

    @cached_property
    def has_choice(self) -> bool:
        """True if calls may run several kernels, or none."""
        return bool(self.tuning) or not (self.candidates and self.candidates[0].is_for_all)

    @cached_property
    def is_looked_at(self) -> bool:
        """True if a call has to be looked at to know its kernel, or the size of its workspace."""
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
        """The number of a kernel among the candidates and, behind these, those that were made."""
        if kernel.key is None:
            return self.candidates.index(kernel)
        if kernel not in self._made:
            self._made.append(kernel)
        return len(self.candidates) + self._made.index(kernel)

    def made_kernel(self, number: int) -> tuple[int, str]:
        """The number of the factory that made a kernel, and the kernel's reference."""
        made = self._made[number - len(self.candidates)]
        factories = [kernel.factory for kernel in self.candidates]
        return factories.index(made.factory), made.reference

    def takes_ruled_workspace(self, kernel: OpKernel) -> bool:
        """True if a kernel's plan passes a workspace whose size follows a rule."""
        names = {*(p.name for p in self.parameters), *self.results}
        if not callable(kernel.workspace) or "workspace" in names:
            return False
        return "workspace" in plan_tokens(kernel.plan)

    @property
    def parts(self) -> tuple[Any, ...]:
        """All that tells it from another one."""
        return parts_of(self)

    @cached_property
    def identity(self) -> RuleText:
        """Equal for definitions that do the same, by values as they were at the first use."""
        return read_rule(self.parts, self.name)

    @cached_property
    def digest(self) -> str:
        """Changes when anything of the definition does, its rules included."""
        return digest_of((self.identity.text,))

    def traced_digest(self) -> str:
        """The digest for a call in a graph that is traced now: see `graphffi._digest`."""
        return traced_digest(self)

    @property
    def added_rules(self) -> tuple[Any, ...]:
        """Functions that the op was given after its definition; None for what it was not."""
        uses_reference = self.reference and (self.gradient or self.runs_reference)
        return (
            self.vjp and self.vjp.function,
            self.jvp and self.jvp.function,
            self.reference.function if self.reference and uses_reference else None,
        )

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

    def in_order(self, operands: Sequence[Any], attributes: Sequence[Any]) -> list[Any]:
        """One value per parameter, in signature order, for a rule."""
        tensors, values = iter(operands), iter(attributes)
        ordered = (next(tensors if isinstance(p, Operand) else values) for p in self.parameters)
        return [for_rule(value) for value in ordered]

    def split(self, values: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """One value per operand and one per attribute, of one per parameter."""
        pairs = list(zip(self.parameters, values, strict=True))
        return (
            [value for p, value in pairs if isinstance(p, Operand)],
            [value for p, value in pairs if isinstance(p, Attribute)],
        )

    def read(self, operands: Sequence[Any]) -> list[Any]:
        """The tensors among the operands that the op only reads, lists flattened."""
        pairs = zip(self.operands, operands, strict=True)
        return flat([value for operand, value in pairs if not operand.mutated])

    def updated(self, operands: Sequence[Any]) -> list[Any]:
        """The tensors among the operands that the op updates, lists flattened."""
        pairs = zip(self.operands, operands, strict=True)
        return flat([value for operand, value in pairs if operand.mutated])

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
        return infer(self, operands, attributes)

    def workspace_bytes(
        self, kernel: OpKernel, operands: Sequence[Any], attributes: Sequence[Any]
    ) -> Any:
        """The size of a call's workspace.

        Returns:
            Bytes: an int or a framework's symbolic one; None if the kernel declares no workspace.

        Raises:
            ValueError: If the rule gives a negative number.
            TypeError: If it gives something else.
        """
        return workspace_bytes(self, kernel, operands, attributes)

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
            (the NamedTuple of the annotation if only results are returned).
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
