# SPDX-License-Identifier: Apache-2.0
"""`graphffi.testing` finds seeded faults, and nothing in correct ops."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import graphffi

pytest.importorskip("numpy")

import numpy as np

from graphffi.testing import _steps, check, find
from graphffi.testing._case import Case, View, numpy_view
from graphffi.testing._compare import difference
from graphffi.testing._examine import Examination, Options
from graphffi.testing._generate import given_cases
from graphffi.testing._guarded import Outcome
from graphffi.testing._parent import _Check
from graphffi.testing._report import Finding, Report
from graphffi.testing._worker import find_op

HERE = Path(__file__).resolve().parent

# What is wrong with each op, and the kinds of findings of which one has to be there.
FAULTS = {
    "unwritten_tail": {"unwritten"},
    "unwritten_vector_tail": {"unwritten"},
    "unwritten_row": {"unwritten"},
    "reads_result": {"unwritten"},
    "writes_after": {"out of bounds"},
    "writes_before": {"out of bounds"},
    "writes_padding": {"out of bounds"},
    "wrong_dtype": {"out of bounds"},
    "wrong_small_dtype": {"unwritten"},
    # It reads what lies behind its operand.
    "wrong_large_shape": {"unwritten", "dims", "crash", "not deterministic", "out of bounds"},
    "wrong_small_shape": {"out of bounds"},
    "wrong_empty_shape": {"unwritten"},
    "wrong_transposed": {"dims"},
    "writes_operand": {"undeclared write"},
    "normalizes_operand": {"undeclared write"},
    "undeclared_append": {"undeclared write"},
    "writes_after_operand": {"out of bounds"},
    "keeps_operand": {"kept view", "leak"},
    "keeps_result": {"kept view"},
    "counts": {"not deterministic", "paths differ"},
    "random": {"not deterministic"},
    "address_dependent": {"not deterministic", "paths differ"},
    "first_size": {"state", "dims"},
    "caches_factor": {"attribute ignored"},
    "shared_scratch": {"threads"},
    "shared_sum": {"threads"},
    "ignores_factor": {"attribute ignored"},
    "ignores_flag": {"attribute ignored"},
    "ignores_beta": {"attribute ignored"},
    "crashes_on_empty": {"crash"},
    "crashes_on_large": {"crash"},
    "wrong_on_large": {"dims"},
    "wrong_on_odd": {"dims"},
    "ignores_strides": {"layout", "out of bounds"},
    "ignores_inner_stride": {"layout"},
    "mixes_rows": {"dims"},
    "mixes_batch": {"dims"},
    "aborts": {"crash"},
    "throws": {"no input"},
    "breaks_inside": {"internal error"},
    "exits": {"crash"},
    "wrong_free_dim": {"dims", "unwritten", "crash", "not deterministic"},
    "shifts_after_error": {"unclean error"},
    "writes_then_throws": {"unclean error"},
    "counts_errors": {"unclean error"},
    "leaks_memory": {"leak"},
    "leaks_tensor": {"leak"},
    "returns_cached": {"threads"},
    "returns_other": {"dims"},
    "returns_short": {"no input"},
    "returns_double": {"no input"},
    "shared_buffer": {"threads", "crash"},
    "hangs_on_seven": {"hang"},
    "crashes_on_negative": {"crash"},
    "ignores_dtype": {"unwritten"},
    "softmax_over_all": {"dims"},
    "softmax_in_place": {"undeclared write"},
    "matmul_transposed": {"dims"},
    "matmul_accumulates": {"unwritten"},
    "cumulative_sum": {"dims"},
    "argmax_of_int32": {"unwritten"},
    "split_beyond": {"out of bounds"},
    "gather_wide_index": {"dims"},
    "concat_of_first": {"unwritten"},
    "add_absent_bias": {"crash"},
    "clamp_low": {"attribute ignored"},
    "scatter_add_beyond": {"out of bounds"},
    "rotate_writes_angle": {"undeclared write"},
    "dequantize_blocks": {"unwritten"},
    "gather_wide_alternative": {"dims"},
    "bool_tail": {"unwritten"},
    "complex_tail": {"unwritten"},
    "float8_tail": {"unwritten"},
    "float8_scale_tail": {"unwritten"},
    "uint16_tail": {"unwritten"},
}
# Of ops that Python defines.
PYTHON_FAULTS = {
    "python_keeps": {"kept view"},
    "python_updates": {"undeclared write"},
    "python_shuffles": {"not deterministic"},
    "python_grows": {"leak"},
    "python_is_killed": {"crash"},
    "unsteady_rule": {"not deterministic"},
    "column_major": {"error"},
}
# Of ops that are right in NumPy, and on which paths of each framework it shows.
FRAMEWORK_FAULTS = {
    "wrong_gradient": ("gradient", "grad"),
    "negative_gradient": ("gradient", "grad"),
    "ignored_gradient": ("gradient", "grad"),
    "failing_gradient": ("gradient", "grad"),
    "mul_gradient": ("gradient", "grad"),
    "wrong_tangent": ("tangent", "jvp"),
    "failing_tangent": ("tangent", "jvp"),
    "wrong_batch": ("paths differ", "vmap"),
    "first_batch": ("error", "vmap"),
    "mixed_batch": ("paths differ", "vmap"),
}
# Those whose definitions differ in what frameworks make of them are checked there, too.
GOOD = ["twice", "add", "softmax", "matmul"]
GOOD_EVERYWHERE = ["scale", "row_sum", "append", "gather", "strided", "copy_float8_e3m4"]


@pytest.fixture(scope="module")
def library() -> str:
    return graphffi.cpp.build("fault_ops", [HERE / "faults.cc"], extra_cflags=["-O1"])


def found(library: str, name: str, **options: Any) -> Any:
    return find({"op": f"faults::{name}", "library": library}, **options)


class Found(Exception):
    """A finding of a kind that is looked for."""


class Search(_Check):
    """A check that ends at the first finding of some kinds: the last steps take longest."""

    def __init__(self, target: dict[str, Any], kinds: set[str]) -> None:
        patience = 3 if "hang" in kinds else 20
        options = {"cases": None, "seed": 0, "frameworks": [], "device": "cpu"}
        super().__init__(target, {**options, "patience": patience}, 60.0, lambda _: None)
        self._kinds = kinds

    def _follow(self, process: subprocess.Popen[bytes]) -> dict[str, Any] | None:
        try:
            return super()._follow(process)
        except Found:
            process.kill()
            raise

    def _add(self, event: dict[str, Any]) -> None:
        super()._add(event)
        if event["kind"] in self._kinds:
            raise Found


def assert_found(target: dict[str, Any], kinds: set[str]) -> None:
    with pytest.raises(Found):
        pytest.fail(str(Search(target, kinds).run()))


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_a_seeded_fault_is_found(library: str, name: str) -> None:
    assert_found({"op": f"faults::{name}", "library": library}, FAULTS[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", GOOD + GOOD_EVERYWHERE)
def test_nothing_is_found_in_a_correct_op(library: str, name: str) -> None:
    frameworks = ("torch", "jax") if name == "scale" else ()
    report = found(library, f"good_{name}", budget=180, frameworks=frameworks)
    assert not report.findings, str(report)
    assert report.num_cases > 5


@pytest.mark.slow
@pytest.mark.parametrize("name", PYTHON_FAULTS)
def test_a_seeded_fault_of_a_python_kernel_is_found(name: str) -> None:
    assert_found(_python_op(name), PYTHON_FAULTS[name])


def of_frameworks(target: dict[str, str], *frameworks: str, only: str = "") -> dict[str, set[str]]:
    """Findings by path of the frameworks' steps, or one of them, in this process, where they are
    imported.
    """
    for framework in frameworks:
        pytest.importorskip(framework)
    found: dict[str, set[str]] = {}

    def say(event: str, **what: Any) -> None:
        if event == "begin":
            found.setdefault(json.loads(what["key"])[0], set())
        elif event == "finding":
            found[what["path"]].add(what["kind"])

    examination = Examination(find_op(target), Options(frameworks=frameworks), say, None)
    for name, step in examination._framework_steps(examination.cases()):
        if only in ("", name):
            step()
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", GOOD_EVERYWHERE)
def test_nothing_is_found_in_a_correct_op_of_frameworks(library: str, name: str) -> None:
    target = {"op": f"faults::good_{name}", "library": library}
    found = of_frameworks(target, "torch", "jax")
    assert not any(found.values()), found
    # torch lacks the type of one
    assert ("AOTInductor" in found) != name.startswith("copy_")
    assert {"numpy", "jax.jit"} <= found.keys()


@pytest.mark.slow
@pytest.mark.parametrize("framework", ["torch", "jax"])
@pytest.mark.parametrize("name", FRAMEWORK_FAULTS)
def test_a_wrong_rule_is_found_in_every_framework(name: str, framework: str) -> None:
    kind, way = FRAMEWORK_FAULTS[name]
    path = f"{framework}.{way}"
    assert kind in of_frameworks(_python_op(name), framework, only=path)[path]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "ways"), [("right_rules", {"grad", "jvp", "vmap"}), ("optional_batch", {"vmap"})]
)
def test_nothing_is_found_in_a_right_rule(name: str, ways: set[str]) -> None:
    found = of_frameworks(_python_op(name), "torch", "jax")
    assert not any(found.values()), found
    expected = {f"{framework}.{way}" for framework in ("torch", "jax") for way in ways}
    assert expected | {"AOTInductor"} <= found.keys()


@pytest.mark.slow
def test_results_other_than_the_reference_gives_are_found() -> None:
    pytest.importorskip("array_api_compat")
    report = find(_python_op("wrong_reference"), frameworks=())
    assert {finding.kind for finding in report.findings} == {"reference"}, str(report)
    report = find(_python_op("int_sum"), frameworks=())
    assert {finding.kind for finding in report.findings} == {"reference"}, str(report)
    report = find(_python_op("right_reference"), frameworks=())
    assert not report.findings, str(report)


@pytest.mark.slow
def test_a_reference_of_a_narrow_type_computes_in_float32() -> None:
    pytest.importorskip("array_api_compat")
    pytest.importorskip("ml_dtypes")
    report = find(_python_op("float8_reference"), frameworks=())
    assert not report.findings, str(report)
    report = find(_python_op("wrong_float8_reference"), frameworks=())
    assert {finding.kind for finding in report.findings} == {"reference"}, str(report)


def test_results_of_narrow_types_may_be_neighbours() -> None:
    kinds = pytest.importorskip("ml_dtypes")

    def differ(kind: str, one: float, other: float) -> bool:
        arrays = (np.array([x, 0.0]).astype(getattr(kinds, kind)) for x in (one, other))
        return bool(difference(*([a] for a in arrays), names=["y"]))

    assert not differ("float8_e4m3fn", 1.0, 1.125)
    assert differ("float8_e4m3fn", 1.0, 1.25)
    assert not differ("float8_e5m2", float("nan"), -float("nan"))
    assert differ("float8_e8m0fnu", 1.0, 2.0)


def test_bytes_that_are_no_bool_differ() -> None:
    one, other = (np.uint8([n]).view("bool") for n in (0xA5, 0x5A))
    assert difference([one], [other], ["y"]) == "y: expected 165 at [0], got 90; 1 of 1"


def test_nothing_is_found_in_a_correct_op_without_operands() -> None:
    report = find(_python_op("numbered"), frameworks=())
    assert (report.findings, report.num_cases > 1) == ([], True), str(report)


@pytest.mark.parametrize("frameworks", [(), pytest.param(("torch",), marks=pytest.mark.slow)])
def test_elements_that_an_op_refuses_are_no_finding(
    frameworks: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(HERE)
    case = {"x": ((2,), "float32"), "offsets": ((3,), "int32", 20)}
    seeds = (n for n in range(100) if _ascends(case, n) and not _ascends(case, n + 1))
    options = {"frameworks": frameworks, "cases": [case], "seed": next(seeds)}
    report = find(_python_op("segment_sums"), **options)
    assert (report.num_cases, report.findings) == (1, []), str(report)


def _ascends(case: dict[str, Any], seed: int) -> bool:
    from framework_ops import segment_sums

    (made,) = given_cases(segment_sums.definition, [case], seed)
    return bool((np.diff(made.build(numpy_view)[1]) >= 0).all())


def test_reads_beside_an_operand_are_out_of_bounds() -> None:
    report = find(_python_op("reads_after"), frameworks=())
    assert [finding.kind for finding in report.findings] == ["out of bounds"], str(report)
    assert "it reads outside of them" in report.findings[0].text


@pytest.mark.parametrize(("strides", "kind"), [(None, "unwritten"), ((1, 2), "not deterministic")])
def test_only_results_that_were_filled_are_unwritten(
    monkeypatch: pytest.MonkeyPatch, strides: Any, kind: str
) -> None:
    op = graphffi.define_op(
        "faults_py::any", schema="(Tensor x) -> Tensor", kernel=print, infer=graphffi.like
    )
    case = Case((View("float32", (2, 3), strides),), ())
    outcomes = [Outcome([np.float32([n])], ["result 'out'"], []) for n in (1, 1, 2)]
    first = outcomes.pop(0)
    monkeypatch.setattr(_steps, "guarded_call", lambda *_, **__: outcomes.pop(0))
    assert [problem for problem, _ in _steps.repeat(op, case, {case: first})] == [kind]


def test_a_case_that_ends_the_process_is_counted() -> None:
    report = Report("op", [Finding("crash", "numpy", "it ended")], num_cases=1)
    assert str(report).startswith("op: 1 finding in 1 case, 0.0 s")
    assert str(Report("op", num_cases=2)) == "op: 0 findings in 2 cases, 0.0 s"
    assert str(Report("op")) == "op: 0 findings, no case, 0.0 s"
    report = find(_python_op("python_is_killed"), frameworks=())
    assert (bool(report.findings), report.num_cases > 0) == (True, True), str(report)


def test_no_framework_is_imported_when_the_budget_is_spent() -> None:
    pytest.importorskip("torch")
    report = find(_python_op("right_reference"), frameworks=["torch"], budget=3)
    assert any("the budget was spent" in note for note in report.notes), report.notes


@pytest.mark.slow
def test_data_types_and_devices_are_given_as_such() -> None:
    report = find(_python_op("of_kinds"), frameworks=())
    assert not report.findings, str(report)
    cases = [{"x": ((2,), "float32"), "kinds": ["int8", "bfloat16"], "device": "cpu"}]
    report = find(_python_op("of_kinds"), frameworks=(), cases=cases)
    assert (report.num_cases, report.findings) == (1, [])


@pytest.mark.slow
def test_lists_of_other_lengths_are_tried() -> None:
    report = find(_python_op("weighted_by_some"), frameworks=())
    assert [finding.kind for finding in report.findings] == ["crash"], str(report)
    assert "weights=[]" in report.findings[0].arguments


def _python_op(name: str) -> dict[str, str]:
    file = str(HERE / "framework_ops.py")
    return {"op": f"faults_py::{name}", "module": "framework_ops", "file": file}


@pytest.mark.parametrize(
    "name",
    ["unwritten_tail"]
    + [
        pytest.param(one, marks=pytest.mark.slow)
        for one in (
            "first_size",
            "clamp_low",
            "shifts_after_error",
            "leaks_memory",
            "keeps_operand",
        )
    ],
)
def test_a_finding_has_a_script_that_shows_it_again(library: str, name: str) -> None:
    report = found(library, name, frameworks=())
    findings = [finding for finding in report.findings if finding.kind in FAULTS[name]]
    assert findings, str(report)
    for finding in findings:
        command = [sys.executable, "-c", finding.script]
        result = subprocess.run(command, capture_output=True, text=True)
        expected = f"{finding.kind} ({finding.path}): {finding.text[:15]}"
        assert expected in result.stdout, result.stderr
        assert name != "unwritten_tail" or finding.arguments == "x=float32[1]"


def test_check_raises_with_the_report(library: str) -> None:
    with pytest.raises(AssertionError, match=r"(?s)faults::writes_after: 1 finding.*out of bounds"):
        check({"op": "faults::writes_after", "library": library}, frameworks=())


@pytest.mark.slow
def test_compilers_are_left_out_where_something_was_found() -> None:
    pytest.importorskip("torch")
    pytest.importorskip("jax")
    report = find(_python_op("wrong_gradient"), frameworks=["jax", "torch"])
    assert {(finding.kind, finding.path) for finding in report.findings} == {
        ("gradient", "jax.grad")
    }
    assert report.notes == [
        "torch.compile, torch.compile(dynamic=True), torch.export, AOTInductor: not run, because "
        "of the findings"
    ]


def test_cases_of_the_user_are_taken(library: str) -> None:
    cases = [{"table": ((4, 3), "float32"), "index": ((5,), "int32", 4)}]
    report = found(library, "good_gather", frameworks=(), cases=cases)
    assert (report.num_cases, report.findings) == (1, [])
    cases[0]["index"] = ((5,), "int64", 4)
    report = found(library, "good_gather", frameworks=(), cases=cases)
    assert report.findings[0].kind == "no input"
    with pytest.raises(ValueError, match="faults::good_gather: cases: expected names of index, t"):
        found(library, "good_gather", frameworks=(), cases=[{**cases[0], "unknown": 3}])


def test_attributes_that_are_lists_are_varied() -> None:
    report = find(_python_op("weighted"), frameworks=())
    assert not report.findings, str(report)
    assert report.num_cases > 5


@pytest.mark.slow
@pytest.mark.parametrize("number", range(6))
def test_nothing_is_found_in_the_family_of_random_ops(number: int) -> None:
    pytest.importorskip("ml_dtypes")
    target = {"op": f"family_check::member{number}", "module": "family_ops"}
    report = find({**target, "file": str(HERE / "family_ops.py")}, frameworks=())
    assert not report.findings, str(report)


def test_the_command_checks_ops_of_a_library(library: str) -> None:
    command = [sys.executable, "-m", "graphffi", "check", "--json", "--frameworks", ""]
    options = ["--namespace", "faults"]
    target = f"{library}:good_twice"
    result = subprocess.run([*command, *options, target], capture_output=True, text=True)
    (report,) = json.loads(result.stdout)
    assert (result.returncode, report["op"], report["findings"]) == (0, "faults::good_twice", [])
    result = subprocess.run([*command, *options, f"{library}:none"], capture_output=True, text=True)
    assert result.returncode == 1
    assert (
        "expected an op of faults::aborts, faults::add_absent_bias, "
        in json.loads(result.stderr)["error"]
    )
