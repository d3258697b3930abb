# SPDX-License-Identifier: Apache-2.0
"""Ops: one definition for every framework, and the table of all ops."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import inspect
import os
import threading
from typing import TYPE_CHECKING, Any, Final, Generic

from .. import _core
from .._contract.spec import described
from .._contract.traits import checked_traits
from .._frameworks.framework import framework_of, frameworks, refuse_trace_without_plugin
from .._kernels.add_factory import FactoriesOfOp
from .._kernels.choice import explain_choice
from .._kernels.kernel import complete_kernel, forget_function, named_kernel
from .._kernels.library import use_library_of
from .._kernels.op_kernel import OpKernel, call_device, checked_device, checked_dtypes, checked_when
from .._rules.op_rules import RulesOfOp
from .._tuning.tuning import tuned
from .._values.describe import describe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from typing_extensions import ParamSpec, TypeVar

    from .._frameworks.framework import Framework
    from .defined_op import DefinedOp
    from .definition import Definition

    # `Op` alone is an op of any signature.
    P = ParamSpec("P", default=...)
    R_co = TypeVar("R_co", covariant=True, default=Any)
else:
    from typing import ParamSpec, TypeVar

    P, R_co = ParamSpec("P"), TypeVar("R_co", covariant=True)

lock: Final = threading.RLock()
ops: Final[dict[str, Op]] = {}


class _SignatureOfOp:
    """`__signature__` of ops, not of their class: `inspect.signature(Op)` is that of `__init__`."""

    def __get__(self, op: Op | None, owner: type[Op]) -> inspect.Signature:
        if op is None:
            raise AttributeError("__signature__")
        from .python_signature import python_signature

        return python_signature(op.definition)


class Op(RulesOfOp, FactoriesOfOp, Generic[P, R_co]):
    """A callable op, run by the framework of its operands: eagerly, traced or exported.

    For type checkers it has the parameters and the result of the function that defines it; tensors
    are those of any framework.

    Calls that no plugin takes over in C run `call_eagerly`; what tracers of Python code follow is
    `__call__`.

    Attributes:
        defined: The definition without what was added later: kernels, rules of gradients.
    """

    __signature__ = _SignatureOfOp()

    def __init__(self, definition: Definition) -> None:
        """Not for users: see `op` and `define_op`."""
        self.is_traced = None
        self._blocks: dict[object, str] = {}  # of `use_kernel`, with their kernels
        self.defined = definition
        self._redefine(tuned(definition))

    def _redefine(self, definition: Definition) -> None:
        self.definition = definition
        self.__name__ = definition.name.partition("::")[2]
        self.__qualname__ = self.__name__
        home = getattr(definition.rule, "__module__", None) or __name__
        if home.partition(".")[0] == "graphffi":  # such as `infer=graphffi.like`
            home = vars(self).get("__module__") or _calling_module()
        self.__module__ = home
        kernels = ", ".join(kernel.reference for kernel in definition.kernels) or "of none yet"
        self.__doc__ = definition.doc or f"Calls the kernel {kernels}."

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Calls the op.

        Args:
            *args: Operands and attributes in signature order.
            **kwargs: The same by name.

        Returns:
            The results, then the operands that the op updates in place: one object, or a tuple of
            several.

        Raises:
            TypeError: For missing, unknown or wrong-typed arguments.
            ValueError: If a check of the shape rule fails.
        """
        if self.is_traced is not None and self.is_traced():
            traced: R_co = self.traced_call(*args, **kwargs)
            return traced
        refuse_trace_without_plugin(self.name)  # only tracers come here
        result: R_co = self.call_eagerly(*args, **kwargs)
        return result

    def call_eagerly(self, /, *args: Any, **kwargs: Any) -> Any:
        """Calls the op where no tracer follows: see `__call__`."""
        while True:
            definition = self.definition
            bound = definition.bind(args, kwargs)
            framework = framework_of(definition.name, bound.tensors())
            if self.definition is definition:  # it was not replaced meanwhile
                return framework.call_op(self, definition, bound)

    def add_kernel(
        self,
        kernel: Any,
        *,
        name: str = "",
        device: str = "",
        dtypes: Mapping[str, Any] | None = None,
        when: Callable[..., Any] | None = None,
        plan: str = "",
        workspace: int | Callable[..., Any] | None = None,
        pass_owning_tensor: bool = False,
        allow_cuda_graph: bool = False,
        override: bool = False,
    ) -> None:
        """Gives the op one more kernel: a call runs the first one that fits it.

        Args:
            kernel: As for `op`, like the plan, the workspace and the traits.
            name: By which errors tell it from others. Default: that of the function, behind the
                device if one is given, such as ``"cuda.rms_norm"``.
            device: Type of the devices that it is for, such as ``"cuda"``. Default: that which its
                parameters state, or all.
            dtypes: The data types that it takes, by operand: ``{"x": ("float32", "bfloat16")}``.
                Default: those that its parameters state, or all.
            when: A condition on a call: gets what the shape rule gets. It is run once for each
                structure of calls, as the shape rule is; in a graph, decisions on symbolic sizes
                are guards.
            plan: What it receives.
            workspace: Scratch memory that it needs.
            pass_owning_tensor: It takes `Tensor` parameters.
            allow_cuda_graph: It may be recorded into CUDA graphs.
            override: Replaces the kernel of that name, if the op has one: in its place in the
                order, and in what is compiled.

        Raises:
            TypeError: If `kernel`, `when` or `dtypes` are of another kind.
            ValueError: If the op has another kernel of that name and `override` is not given, a
                name is unknown, or a framework cannot have the kernel where it has the op.

        Example:
            >>> norm.add_kernel(  # doctest: +SKIP
            ...     cuda.norm8, name="vec8", device="cuda", when=lambda x: x.shape[-1] % 8 == 0
            ... )
        """
        subject = f"{self.name}: add_kernel"
        operands = [operand.name for operand in self.definition.operands]
        options = OpKernel(
            "",
            plan=plan,
            workspace=workspace,
            traits=checked_traits(
                subject, pass_owning_tensor, allow_cuda_graph, self.definition.has_side_effect
            ),
            device=checked_device(subject, device),
            dtypes=checked_dtypes(subject, operands, dtypes),
            when=checked_when(subject, when),
            name=name,
        )
        named = named_kernel(options, kernel)
        complete = complete_kernel(self.definition, named, kernel, named.name)
        self._take(complete.restricted(operands), override)

    def _take(self, kernel: OpKernel, override: bool) -> None:
        with lock:
            _add_kernel(self, kernel, override)

    def explain(self, /, *args: Any, **kwargs: Any) -> str:
        """Says which kernel a call runs, and of each other one, why not.

        Args:
            *args: Of the call, which is not made.
            **kwargs: Likewise.

        Returns:
            A line for each kernel.

        Raises:
            TypeError: If the call is wrong.
            ValueError: Likewise.
        """
        bound = self.definition.bind(args, kwargs)
        operands = [described(operand) for operand in bound.operands]
        specs = self.definition.infer(operands, bound.attributes)
        device = call_device(operands, specs)
        return explain_choice(self.definition, operands, bound.attributes, device)

    @contextlib.contextmanager
    def use_kernel(self, name: str) -> Iterator[None]:
        """Makes all calls of the op run one kernel, in all threads, until the block ends.

        ``GRAPHFFI_KERNELS="mylib::norm=vec8,mylib::other=plain"`` does it for a process. Where the
        kernel does not fit, calls are a `NotImplementedError`. What was compiled is compiled anew.

        Args:
            name: Of the kernel; ``"reference"`` is what `set_reference` gave.

        Raises:
            ValueError: If the op has none of that name.
        """
        known = [kernel.name for kernel in self.definition.known_kernels]
        if name not in known:
            raise ValueError(
                f"{self.name}: use_kernel: expected one of {', '.join(map(repr, known)) or 'none'},"
                f" got {name!r}"
            )
        block = object()
        try:
            with lock:
                self._blocks[block] = name
                self._force()
            yield
        finally:
            with lock:
                self._blocks.pop(block, None)
                self._force()

    def _force(self) -> None:
        """Makes calls run the kernel of the block that began last, of those that have not ended."""
        name = next(reversed(self._blocks.values()), self.defined.forced)
        if name != self.definition.forced:
            replace_definition(self, dataclasses.replace(self.definition, forced=name))

    def _extend(
        self,
        change: Callable[[Definition], Definition],
        tell: Callable[[Framework, DefinedOp, Definition], None],
    ) -> None:
        with lock:
            former, definition = self.definition, change(self.definition)
            if definition is former:
                return
            self._redefine(definition)
            for framework in frameworks():
                tell(framework, self, former)

    def __reduce__(self) -> tuple[Callable[[str, str], Op], tuple[str, str]]:
        """Copies are the op itself; elsewhere it is found by name, as functions are."""
        return _unpickled, (self.name, self.__module__)

    def __repr__(self) -> str:
        return f"<graphffi.Op {self.name}{self.definition.signature}>"


_core.enable_vectorcall(Op)


def _calling_module() -> str:
    """The module whose code called graphffi."""
    frame = inspect.currentframe()
    module = __name__
    while frame is not None and module.partition(".")[0] == "graphffi":
        module = frame.f_globals.get("__name__", module)
        frame = frame.f_back
    return module


def replace_definition(op: Op, definition: Definition) -> None:
    """Makes an op, in every framework, what another definition of it says."""
    former = op.definition.kernels
    op._redefine(definition)
    for framework in frameworks():
        framework.replace_op(op)
    # Programs of other frameworks may call the former kernels.
    if all(framework.__module__ == "graphffi._frameworks.host" for framework in frameworks()):
        names = {kernel.reference for kernel in definition.kernels}
        for kernel in former:
            if kernel.function is not None and kernel.reference not in names:
                forget_function(kernel.reference)


def define_anew(op: Op, definition: Definition) -> None:
    """Makes an op another one: what it was given after its definition goes."""
    op.defined = definition
    op._blocks.clear()  # they name kernels of the former definition
    replace_definition(op, tuned(definition))


def check_replacement(op: Op, definition: Definition) -> None:
    """Lets frameworks refuse another definition of an op, before anything is changed."""
    for framework in frameworks():
        framework.check_replacement(op, definition)


def _add_kernel(op: Op, kernel: OpKernel, override: bool) -> None:
    definition = op.definition
    kernels = list(definition.kernels)
    known = next((known for known in kernels if known.name == kernel.name), None)
    if known is None:
        kernels.append(kernel)
    else:
        parts = known.parts(), kernel.parts()
        other = [name for name, part in parts[0].items() if parts[1][name] != part]
        if not other and known.handle == kernel.handle:
            return
        if not override:
            raise ValueError(
                f"{op.name}: add_kernel: expected the kernel {known.name!r} that the op has, got "
                f"one with another {', '.join(other or ['kernel'])}; pass another name=, or "
                "override=True to replace it"
            )
        kernels[kernels.index(known)] = kernel
    extended = dataclasses.replace(definition, kernels=tuple(kernels))
    check_replacement(op, extended)
    use_library_of(op.name, kernel.reference, renews=override)
    kernel.install()
    replace_definition(op, extended)


# A child process has the thread that forks only: one that defines an op has to end before.
os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)


def get_op(name: str) -> Op:
    """The op of that name.

    Raises:
        KeyError: If there is none.
    """
    try:
        return ops[name]
    except KeyError:
        raise KeyError(
            f"graphffi: op {name!r}: expected a defined op, got an unknown name"
        ) from None


def _unpickled(name: str, module: str) -> Op:
    """The op of that name, of a module that defines it once it is imported."""
    if name not in ops:
        importlib.import_module(module)
    if name not in ops:
        raise KeyError(
            f"graphffi: op {name!r}: expected a defined op, got an unknown name; define it at the "
            f"top level of module {module!r}, which unpickling imports"
        )
    return ops[name]


def check_op(subject: str, op: object) -> None:
    """Refuses what is no op, such as its kernel.

    Raises:
        TypeError: If it is none.
    """
    if not isinstance(op, Op):
        raise TypeError(f"{subject}: expected an op, got {describe(op)}")
