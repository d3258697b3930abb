# SPDX-License-Identifier: Apache-2.0
"""Programs that leave the process: jax.export, serialized executables, the compilation cache."""

from __future__ import annotations

import functools
import pickle
import shutil
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphffi
import graphffi_jax

X = jnp.arange(6, dtype=jnp.float32).reshape(2, 3)
export = pytest.importorskip("jax.export")
serializes = pytest.mark.needs("flatbuffers")

RELOAD = """
import sys
import numpy as np
from jax import export
import graphffi_jax
program = export.deserialize(open(sys.argv[1], "rb").read())
x = np.arange(6, dtype=np.float32).reshape(2, 3)
print(np.asarray(program.call(x)).tolist())
"""


def exported(f: Callable[..., Any], *shapes: Any, **options: Any) -> Any:
    return export.export(jax.jit(f), disabled_checks=graphffi_jax.export_checks(), **options)(
        *shapes
    )


@serializes
@pytest.mark.parametrize("is_symbolic", [False, True])
def test_an_exported_program_runs_where_only_the_plugin_is_imported(
    ops: SimpleNamespace, run_script: Callable[..., Any], tmp_path: Path, is_symbolic: bool
) -> None:
    shape = export.symbolic_shape("n, m") if is_symbolic else X.shape
    program = exported(
        lambda x: ops.axpy(ops.scratch(x), x, a=2.0), jax.ShapeDtypeStruct(shape, X.dtype)
    )
    path = tmp_path / "program"
    path.write_bytes(program.serialize())
    result = run_script(RELOAD, path)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == str((3 * np.asarray(X)).tolist())


@serializes
def test_a_program_for_several_platforms(ops: SimpleNamespace) -> None:
    program = exported(
        ops.add_one, jax.ShapeDtypeStruct(X.shape, X.dtype), platforms=("cpu", "cuda")
    )
    assert program.platforms == ("cpu", "cuda")
    again = export.deserialize(program.serialize())
    np.testing.assert_array_equal(again.call(X), X + 1)


def test_without_the_checks_export_refuses(ops: SimpleNamespace) -> None:
    with pytest.raises(ValueError, match="Cannot serialize code with custom calls"):
        export.export(jax.jit(ops.add_one))(X)


def _one_row(x: Any) -> Any:
    return graphffi.like(x) if x.shape[0] > 4 else graphffi.empty((4,), x.dtype)


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (_one_row, "'n' > '4' is inconclusive"),
        # JAX takes such sizes for unequal.
        (lambda x: _like_unless(x, x.shape[0] == 4), "got 'n' == '4', which holds for some; give"),
        (lambda x: _like_unless(x, x.shape[0] != 4), "got 'n' == '4', which holds for some; give"),
        (lambda x: _like_unless(x, -x.shape[0] % 8), r"got 'mod\(.*\)' == '0', which holds for"),
        (lambda x: _like_unless(x, x.shape[0] in (0, 2)), "got 'n' == '2', which holds for some"),
        (lambda x: _like_unless(x, isinstance(x.shape[0], int) and x.shape[0] == 2), "'n' == '2'"),
        (lambda x: _like_unless(x, _or_false(lambda: x.shape[0] == 2)), "got 'n' == '2', which"),
        (lambda x: _like_unless(x, x.shape[0] in {2, 4}), "got a use of the value of 'n'; give"),
        (lambda x: _like_unless(x, str(x.shape[0]) == "2"), "got text of 'n'; give the sizes"),
        (lambda x: _like_unless(x, x.shape[0] == Decimal(2)), "got a use of the value of 'n'"),
        (lambda x: _like_unless(x, x.shape[0] > 1.5), "'n' > '1' is inconclusive"),
        (lambda x: graphffi.like(x, shape=(_rounded(x.shape[0]),)), "got a use of the value"),
        (lambda x: graphffi.like(x, shape=(int(x.shape[0] * 0.5),)), "got a use of the value"),
    ],
)
@pytest.mark.parametrize("kind", ["shape rule", "workspace"])
def test_a_rule_that_symbolic_sizes_do_not_decide_is_named(
    library: str, rule: Any, text: str, kind: str
) -> None:
    rules = {"infer": rule}
    if kind == "workspace":
        rules = {"infer": graphffi.like, "workspace": lambda x: rule(x).shape[0]}
    op = graphffi.define_op(
        "jaxexport::undecided",
        schema="(Tensor x) -> Tensor",
        kernel=f"{library}::add_one",
        override=True,
        **rules,
    )
    shape = jax.ShapeDtypeStruct(export.symbolic_shape("n"), X.dtype)
    with pytest.raises(Exception, match=rf"^jaxexport::undecided: {kind}: .*{text}"):
        exported(op, shape)


def _like_unless(x: Any, condition: Any) -> Any:
    return graphffi.empty((4,), x.dtype) if condition else graphffi.like(x)


def _or_false(condition: Callable[[], Any]) -> Any:
    try:
        return condition()
    except Exception:
        return False


@functools.cache
def _rounded(size: Any) -> Any:
    return -(-size // 8) * 8


@pytest.mark.parametrize(
    ("operation", "size"),
    [
        (lambda n: n**2, "n^2"),
        (lambda n: abs(n), "n"),  # noqa: PLW0108
        (lambda n: divmod(n * 4 + 1, 4)[0], "n"),
        (lambda n: +n << 1, "2*n"),
        (lambda n: (n * 8) >> 1, "4*n"),
        (lambda n: n * np.int64(2), "2*n"),
        (lambda n: n if n > 0.5 and n != 0.5 and n < float("inf") and n is not None else 0, "n"),
        (lambda n: f"{n}" and n, None),
        (lambda n: hash(n) and n, None),
        (lambda n: int(n / 2), None),
        (lambda n: n & 1, None),
    ],
)
def test_decisions_are_proved_whatever_came_before_them(
    library: str, operation: Any, size: str | None
) -> None:
    def define(rule: Any) -> Any:
        return graphffi.define_op(
            "jaxexport::decides_late",
            schema="(Tensor x, Tensor y) -> Tensor",
            kernel=f"{library}::add_one",
            plan="x, out",
            infer=rule,
            override=True,
        )

    def late(x: Any, y: Any) -> Any:
        operation(x.shape[0])
        return graphffi.like(x, shape=(1 if x.shape[0] == y.shape[0] else 2,))

    shapes = [jax.ShapeDtypeStruct((n,), X.dtype) for n in export.symbolic_shape("n, m")]
    with pytest.raises(Exception, match=r"'n' == 'm', which holds for some|of 'n'; give the sizes"):
        exported(define(late), *shapes)
    op = define(lambda x, y: graphffi.like(x, shape=(operation(x.shape[0]),)))
    if size is not None:
        (result,) = exported(op, *shapes).out_avals
        assert [str(n) for n in result.shape] == [size]


def test_rules_decide_what_holds_for_all_symbolic_sizes(library: str) -> None:
    def rule(x: Any) -> Any:
        rows, columns = x.shape
        graphffi.check(rows * 2 == rows + rows, "operand 'x': expected rows")
        graphffi.check(rows > 0, f"operand 'x': expected rows, got {rows} ({rows:,})")
        size = rows if rows and rows != 0 and columns == 8 else columns
        return graphffi.like(x, shape=(max(size, 1), -(-rows // 8) * 8))

    op = graphffi.define_op(
        "jaxexport::decided",
        schema="(Tensor x) -> Tensor",
        kernel=f"{library}::add_one",
        infer=rule,
    )
    shape = jax.ShapeDtypeStruct((*export.symbolic_shape("n"), 8), X.dtype)
    (result,) = exported(op, shape).out_avals
    assert result.shape[0] == shape.shape[0]
    assert "n" in str(result.shape[1])


@serializes
def test_a_missing_library_is_reported_by_name(
    library: str, run_script: Callable[..., Any], tmp_path: Path
) -> None:
    copy = tmp_path / "kernels.so"
    shutil.copy(library, copy)
    op = graphffi.define_op(
        f"jaxexport::missing_{tmp_path.name.replace('-', '_')}",
        schema="(Tensor x) -> Tensor",
        kernel=f"{copy}::add_one",
        infer=graphffi.like,
    )
    path = tmp_path / "program"
    path.write_bytes(exported(op, X).serialize())
    copy.unlink()
    result = run_script(RELOAD, path)
    assert result.returncode != 0
    assert "kernels.so" in result.stderr
    assert op.name in result.stderr


@serializes
def test_a_library_with_other_content_is_refused(
    library: str, run_script: Callable[..., Any], tmp_path: Path
) -> None:
    copy = tmp_path / "kernels.so"
    shutil.copy(library, copy)
    program = exported(lambda x: graphffi_jax.call(f"{copy}::add_one", x, out=x), X)
    path = tmp_path / "program"
    path.write_bytes(program.serialize())
    result = run_script(RELOAD, path)
    assert result.stdout.strip() == str((np.asarray(X) + 1).tolist())
    with copy.open("ab") as file:
        file.write(b"\0")
    result = run_script(RELOAD, path)
    assert result.returncode != 0
    assert "::add_one': expected the library of the export, k" in result.stderr


@serializes
def test_a_library_is_found_by_its_name_on_the_path(
    library: str, run_script: Callable[..., Any], tmp_path: Path
) -> None:
    folder = tmp_path / "libraries"
    folder.mkdir()
    shutil.copy(library, folder / "jaxexport_kernels.so")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRAPHFFI_LIBRARY_PATH", str(folder))
        program = exported(
            lambda x: graphffi_jax.call(
                "jaxexport_kernels.so::add_one", x, out=jax.ShapeDtypeStruct(x.shape, x.dtype)
            ),
            X,
        )
        path = tmp_path / "program"
        path.write_bytes(program.serialize())
        result = run_script(RELOAD, path)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == str((np.asarray(X) + 1).tolist())


def test_a_serialized_executable_is_loaded_and_runs(
    ops: SimpleNamespace, run_script: Callable[..., Any], tmp_path: Path
) -> None:
    serialization = pytest.importorskip("jax.experimental.serialize_executable")
    compiled = jax.jit(ops.add_one).lower(X).compile()
    payload = serialization.serialize(compiled)
    path = tmp_path / "executable"
    path.write_bytes(pickle.dumps(payload))
    script = """
import pickle, sys
import numpy as np
import graphffi_jax
from jax.experimental import serialize_executable
run = serialize_executable.deserialize_and_load(*pickle.load(open(sys.argv[1], "rb")))
print(np.asarray(run(np.arange(6, dtype=np.float32).reshape(2, 3))).tolist())
"""
    result = run_script(script, path)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == str((np.asarray(X) + 1).tolist())


CACHED = """
import sys
import jax, jax.numpy as jnp, numpy as np
import graphffi
from jax import monitoring
events = []
monitoring.register_event_listener(lambda name, **_: events.append(name))
jax.config.update("jax_compilation_cache_dir", sys.argv[2])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
factor = int(sys.argv[3])
op = graphffi.define_op(
    "jaxcache::f", schema="(Tensor x) -> Tensor", kernel=sys.argv[1],
    infer=lambda x: graphffi.empty((x.shape[0] * factor,), x.dtype),
)
y = jax.jit(op)(np.arange(4, dtype=np.float32))
hits = sum(name == "/jax/compilation_cache/cache_hits" for name in events)
print(hits, np.asarray(y)[:4].tolist(), y.shape[0])
"""


@pytest.mark.slow
def test_the_compilation_cache_hits_and_is_never_stale(
    library: str, run_script: Callable[..., Any], tmp_path: Path
) -> None:
    copy, cache = tmp_path / "kernels.so", tmp_path / "cache"
    shutil.copy(library, copy)

    def run(kernel: str, factor: int = 1) -> str:
        result = run_script(CACHED, f"{copy}::{kernel}", cache, factor)
        assert result.returncode == 0, result.stderr
        return str(result.stdout.strip())

    assert run("add_one") == "0 [1.0, 2.0, 3.0, 4.0] 4"
    assert run("add_one") == "1 [1.0, 2.0, 3.0, 4.0] 4"
    assert run("copy_bytes") == "0 [0.0, 1.0, 2.0, 3.0] 4"  # another kernel
    assert run("copy_bytes", 2).startswith("0 [0.0, 1.0, 2.0, 3.0] 8")  # another rule
    with copy.open("ab") as file:
        file.write(b"\0")  # another library in the same place
    assert run("add_one") == "0 [1.0, 2.0, 3.0, 4.0] 4"


REGISTERED = """
import sys
import numpy as np
import graphffi
value = float(sys.argv.pop())
def fill(x, out):
    np.from_dlpack(graphffi.from_dlpack(out))[:] = value
graphffi.register_global_func("jaxcache.fill", fill)
"""


def test_a_cached_program_calls_the_function_that_is_registered_now(
    run_script: Callable[..., Any], tmp_path: Path
) -> None:
    outputs = []
    for value in (2, 5):
        script = REGISTERED + CACHED
        result = run_script(script, "jaxcache.fill", tmp_path / "cache", 1, value)
        assert result.returncode == 0, result.stderr
        outputs.append(result.stdout.strip())
    assert outputs == ["0 [2.0, 2.0, 2.0, 2.0] 4", "1 [5.0, 5.0, 5.0, 5.0] 4"]
