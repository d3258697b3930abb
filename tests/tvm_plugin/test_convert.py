# SPDX-License-Identifier: Apache-2.0
"""Ops of exported programs in Relax modules: equal to eager code, or refused by name."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tvm import relax
from tvm.relax.frontend.torch import from_exported_program

import graphffi
import graphffi_tvm
from tests.families import computed
from tests.tvm_plugin.relax_modules import Module, convert, export, run, runner

DYNAMIC = torch.export.Dim.DYNAMIC
FORMS = pytest.mark.parametrize(
    "form", [{"functional": True}, {"functional": False}], ids=["functional", "as exported"]
)


def check(function: Callable[..., Any], *args: Any, **options: Any) -> None:
    """The results of a program, against eager code."""
    got = run(function, *args, **options)
    expected = function(*[x.clone() for x in args])
    expected = list(expected) if isinstance(expected, tuple) else [expected]
    torch.testing.assert_close(got, expected, rtol=0, atol=0)


def matrix(rows: int) -> torch.Tensor:
    return torch.arange(3.0 * rows).reshape(rows, 3)


def test_a_plan_that_ends_in_the_results_calls_the_kernel_itself(ops: Any, library: str) -> None:
    module = convert(export(ops.twice, [matrix(2)]))
    assert graphffi_tvm.function_names(module) == [f'graphffi:["{library}::twice"]']
    check(ops.twice, matrix(2))


def test_another_plan_calls_the_kernel_in_its_order(ops: Any, library: str) -> None:
    (name,) = graphffi_tvm.function_names(convert(export(ops.thrice, [matrix(2)])))
    assert name.startswith(f'graphffi:["{library}::thrice", "o0, i0"')
    check(ops.thrice, matrix(2))


@FORMS
def test_symbolic_sizes(ops: Any, form: Any) -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> Any:
        joined = torch.cat([x, y])
        return ops.twice(x), ops.thrice(joined), ops.split(joined)[1]

    program = export(function, [matrix(4), matrix(5)], [{0: DYNAMIC}, {0: DYNAMIC}])
    call = runner(convert(program, **form))
    for rows in (4, 7, 1, 0):
        args = matrix(rows), matrix(2)
        torch.testing.assert_close(call(*args), list(function(*args)), rtol=0, atol=0)


def test_sizes_that_are_computed(ops: Any) -> None:
    def function(x: torch.Tensor) -> Any:
        half, double = x[: x.shape[0] // 2], torch.cat([x, x])
        return ops.twice(half), ops.thrice(double), ops.fill(x, x.shape[0] % 3)

    program = export(function, [matrix(4)], [{0: DYNAMIC}])
    call = runner(convert(program))
    for rows in (4, 7, 11):
        torch.testing.assert_close(call(matrix(rows)), list(function(matrix(rows))))


def test_several_results_of_which_some_are_unused(ops: Any) -> None:
    check(ops.split, matrix(2))
    check(lambda x: ops.split(x)[1], matrix(2))


def test_optional_operands(ops: Any) -> None:
    check(ops.add_maybe, matrix(2))
    check(lambda x, y: ops.add_maybe(x, bias=y), matrix(2), torch.tensor([7.0]))


@pytest.mark.parametrize("count", [1, 3])
def test_lists_of_operands(ops: Any, count: int) -> None:
    check(lambda *xs: ops.total(list(xs)), *[matrix(2) + i for i in range(count)])


def test_numbers_and_texts(ops: Any) -> None:
    def function(x: torch.Tensor) -> Any:
        ints, floats = (0, -1, 2**63 - 1, -(2**63)), (0.0, -0.0, math.inf, math.nan, 1e-300)
        rest = {"b": False, "s": '"\n\\ü', "t": torch.float64, "ns": [3, 4]}
        return tuple(ops.numbers(x, n, f, **rest) for n in ints for f in floats)

    check(function, matrix(1))


def test_numbers_that_are_left_out(ops: Any) -> None:
    check(lambda x: ops.numbers(x, 3), matrix(1))


def test_a_symbolic_number(ops: Any) -> None:
    def function(x: torch.Tensor) -> Any:
        return ops.fill(x, x.shape[0] + 1)

    call = runner(convert(export(function, [matrix(4)], [{0: DYNAMIC}])))
    torch.testing.assert_close(call(matrix(9)), [function(matrix(9))])


def test_a_workspace(ops: Any) -> None:
    program = export(ops.through_scratch, [matrix(4)], [{0: DYNAMIC}])
    call = runner(convert(program))
    torch.testing.assert_close(call(matrix(9)), [matrix(9) + 5])


def test_a_plan_computes_ints_of_the_sizes_of_each_run() -> None:
    op, texts = computed.define("relax", 30)
    program = export(op, [matrix(4), matrix(5)], [{0: DYNAMIC}, {0: DYNAMIC}])
    call = runner(convert(program))
    for rows in (4, 7, 1):
        args = matrix(rows), matrix(2)
        assert call(*args)[0].tolist() == computed.expected(texts, *args).tolist()


def test_a_kernel_that_returns_its_result() -> None:
    @graphffi.register_global_func("relax_tests.returns", override=True)
    def returns(x: Any) -> Any:
        import numpy as np

        return graphffi.from_dlpack(np.from_dlpack(x) + 1)

    op = graphffi.define_op(
        "relax_tests::returns",
        schema="(Tensor x) -> Tensor",
        kernel="relax_tests.returns",
        plan="x",
        infer=graphffi.like,
    )
    check(op, matrix(2))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.int64, torch.bool])
def test_data_types(dtype: torch.dtype) -> None:
    @graphffi.register_global_func("relax_tests.copy", override=True)
    def copy(x: Any, out: Any) -> None:
        torch.from_dlpack(out).copy_(torch.from_dlpack(x))

    op = graphffi.define_op(
        "relax_tests::copy",
        schema="(Tensor x) -> Tensor",
        kernel="relax_tests.copy",
        infer=graphffi.like,
    )
    check(op, matrix(2).to(dtype))


@FORMS
class TestUpdates:
    """Ops that update operands, in torch's functional form of a program and as it is exported."""

    def test_of_a_new_tensor(self, ops: Any, form: Any) -> None:
        def function(x: torch.Tensor) -> Any:
            y = x + 1
            ops.scale(y, 3.0)
            ops.scale(y)
            return y, ops.twice(y), x

        check(function, matrix(2), **form)

    def test_of_a_clone(self, ops: Any, form: Any) -> None:
        def function(x: torch.Tensor) -> Any:
            first = x * 1
            second = first.clone()
            ops.scale(second)
            third = second.clone()
            ops.scale(third)
            return first, second + first, ops.thrice(third), x + 0

        check(function, matrix(2), **form)

    def test_of_two_operands(self, ops: Any, form: Any) -> None:
        def function(x: torch.Tensor) -> Any:
            a, b = x + 1, x + 2
            ops.swap(a, b)
            return a, b

        check(function, matrix(2), **form)

    def test_of_one_tensor_twice_is_refused(self, ops: Any, form: Any) -> None:
        def function(x: torch.Tensor) -> Any:
            y = x + 1
            ops.swap(y, y)
            return y

        with pytest.raises(NotImplementedError, match=r"relax_tests::swap: .*memory of its own"):
            convert(export(function, [matrix(2)]), **form)

    @pytest.mark.parametrize("read", [lambda y: y, lambda y: y[:]], ids=["itself", "a view of it"])
    def test_of_a_tensor_that_is_read_too_is_refused(self, ops: Any, form: Any, read: Any) -> None:
        def function(x: torch.Tensor) -> Any:
            y = x + 1
            ops.twice_into(read(y), y)
            return y

        with pytest.raises(ValueError, match="memory shared with operand 'x'"):
            function(matrix(2))
        expected = r"relax_tests::twice_into: .*memory shared with another operand"
        with pytest.raises(NotImplementedError, match=expected):
            convert(export(function, [matrix(2)]), **form)

    def test_with_symbolic_sizes(self, ops: Any, form: Any) -> None:
        def function(x: torch.Tensor) -> Any:
            y = x.clone()
            ops.scale(y)
            return y + x

        call = runner(convert(export(function, [matrix(4)], [{0: DYNAMIC}]), **form))
        for rows in (4, 7, 1, 0):
            x = matrix(rows)
            torch.testing.assert_close(call(x), [x * 3])

    def test_of_the_callers_tensor_is_refused(self, ops: Any, form: Any) -> None:
        def function(x: torch.Tensor) -> Any:
            ops.scale(x)
            return x + 1

        with pytest.raises(
            NotImplementedError, match=r"relax_tests::scale: .*a new tensor.*'x|arg"
        ):
            convert(export(function, [matrix(2)]), **form)

    def test_of_a_part_of_the_callers_tensor_is_refused(self, ops: Any, form: Any) -> None:
        def function(x: torch.Tensor) -> Any:
            ops.scale(x[0])
            return x + 1

        with pytest.raises(
            NotImplementedError, match=r"relax_tests::scale: graphffi_tvm: expected"
        ):
            convert(export(function, [matrix(2)]), **form)

    def test_of_a_buffer_is_refused(self, ops: Any, form: Any) -> None:
        class WithBuffer(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.register_buffer("count", torch.zeros(3))

            def forward(self, x: torch.Tensor) -> Any:
                ops.scale(self.count)
                return x + self.count

        with pytest.raises(NotImplementedError, match=r"relax_tests::scale: .*count.*TVM drops"):
            convert(export(WithBuffer(), [matrix(2)]), **form)

    def test_of_a_view_is_refused(self, ops: Any, form: Any) -> None:
        def function(x: torch.Tensor) -> Any:
            y = x + 1
            ops.scale(y[1])
            return y

        with pytest.raises(
            NotImplementedError, match=r"relax_tests::scale: graphffi_tvm: expected"
        ):
            convert(export(function, [matrix(2)]), **form)


def test_an_update_of_a_tensor_with_views_needs_the_functional_form(ops: Any) -> None:
    def function(x: torch.Tensor) -> Any:
        y = x + 1
        row = y[0]
        ops.scale(y)
        return row + 1

    program = export(function, [matrix(2)])
    with pytest.raises(NotImplementedError, match=r"memory of its own .*run_ep_decomposition=True"):
        convert(program)
    call = runner(convert(program, functional=True))
    torch.testing.assert_close(call(matrix(2)), [function(matrix(2))])


@pytest.mark.parametrize("decomposed", [False, True])
def test_updates_by_torchs_operators_are_refused_with_the_program(decomposed: bool) -> None:
    program = export(lambda x: x.add_(1) * 2, [matrix(2)])
    program = program.run_decompositions() if decomposed else program
    with pytest.raises(NotImplementedError, match=r"expected a new tensor where a call updates"):
        graphffi_tvm.convert_map(program)


def test_ops_of_one_name_in_two_namespaces_are_told_apart(ops: Any, library: str) -> None:
    other = graphffi.define_op(
        "relax_others::twice",
        schema="(Tensor x) -> Tensor",
        kernel=f"{library}::thrice",
        plan="out, x",
        infer=graphffi.like,
    )
    check(lambda x: (ops.twice(x), other(x)), matrix(2))


def test_an_op_with_the_name_of_torchs_operator_leaves_that_alone(library: str) -> None:
    relu = graphffi.define_op(
        "relax_tests::relu",
        schema="(Tensor x) -> Tensor",
        kernel=f"{library}::twice",
        infer=graphffi.like,
    )
    check(lambda x: (torch.relu(x - 2), relu(x - 2)), matrix(2))


def test_another_librarys_operator_of_an_ops_name_is_refused(ops: Any) -> None:
    @torch.library.custom_op("relax_library::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    twice.register_fake(torch.empty_like)
    with pytest.raises(NotImplementedError, match=r"relax_library\.twice.*without namespace"):
        run(lambda x: (twice(x), ops.twice(x)), matrix(2))


def test_another_librarys_update_is_refused() -> None:
    @torch.library.custom_op("relax_library::update", mutates_args=("x",))
    def update(x: torch.Tensor) -> None:
        x.add_(1)

    def function(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        update(y)
        return y

    with pytest.raises(NotImplementedError, match=r"relax_library\.update.*an op of graphffi's"):
        run(function, matrix(2), functional=True)


def test_a_call_in_a_branch_is_refused(ops: Any) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, ops.twice, lambda x: x + 1, (x,))

    with pytest.raises(NotImplementedError, match=r"relax_tests::twice: .*outside of torch\.cond"):
        run(function, matrix(2))


def test_side_effects_are_refused(library: str) -> None:
    op = graphffi.define_op(
        "relax_tests::effect",
        schema="(Tensor x) -> Tensor",
        kernel=f"{library}::twice",
        infer=graphffi.like,
        has_side_effect=True,
    )
    with pytest.raises(NotImplementedError, match=r"relax_tests::effect: .*without side effects"):
        run(op, matrix(2))


def test_a_call_that_only_the_reference_serves_is_refused() -> None:
    op = graphffi.define_op(
        "relax_tests::with_reference",
        schema="(Tensor x) -> Tensor",
        infer=graphffi.like,
        fallback="reference",
    )
    op.set_reference(lambda xp, x: x * 2)
    with pytest.raises(NotImplementedError, match=r"relax_tests::with_reference: .*a kernel"):
        run(op, matrix(2))


def test_a_size_that_elements_decide_is_refused(ops: Any) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        n = x.sum().to(torch.int64).item()
        torch._check(n >= 2)
        torch._check(n < 100)
        return ops.fill(x, n)

    with pytest.raises(
        NotImplementedError, match=r"relax_tests::fill: .*inputs' sizes give, got u0"
    ):
        run(function, matrix(2))


def test_a_data_type_that_tvm_lacks_is_refused(library: str) -> None:
    op = graphffi.define_op(
        "relax_tests::complex",
        schema="(Tensor x) -> Tensor",
        kernel=f"{library}::twice",
        infer=lambda x: graphffi.empty(x.shape, "complex64"),
    )
    with pytest.raises(NotImplementedError, match=r"relax_tests::complex: .*got complex64"):
        run(op, matrix(2))


def test_an_operand_of_another_data_type_than_torchs_is_refused(ops: Any) -> None:
    def wrong(node: torch.fx.Node, importer: Any) -> Any:
        return importer.block_builder.emit(relax.op.astype(importer.env[node.args[0]], "int32"))

    converters = {**graphffi_tvm.convert_map(), "neg.default": wrong}
    program = export(lambda x: ops.twice(-x), [matrix(2)])
    with pytest.raises(NotImplementedError, match=r"relax_tests::twice: .*float32 of 2 dim.*int32"):
        from_exported_program(program, custom_convert_map=converters, run_ep_decomposition=False)


def test_sizes_that_the_export_took_for_granted_are_checked(ops: Any) -> None:
    rows = torch.export.Dim("rows", min=4, max=9)
    call = runner(convert(export(ops.four, [matrix(5)], [{0: rows}])))
    torch.testing.assert_close(call(matrix(9)), [matrix(9) * 2])
    with pytest.raises(
        ValueError, match=r"relax_tests::four: operand 'x': expected size 4 or more"
    ):
        call(matrix(3))
    with pytest.raises(
        ValueError, match=r"relax_tests::four: operand 'x': expected size 9 or less"
    ):
        call(matrix(10))


def test_a_kernels_error_arrives(ops: Any) -> None:
    with pytest.raises(IndexError, match=r"no such row"):
        run(ops.fail, matrix(2))


def test_a_program_without_ops_is_converted_as_before() -> None:
    program = export(Module(lambda x: torch.relu(x) * 2), [matrix(2)])
    module = from_exported_program(program, custom_convert_map=graphffi_tvm.convert_map(program))
    torch.testing.assert_close(runner(module)(matrix(2)), [matrix(2) * 2])
