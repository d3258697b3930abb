# SPDX-License-Identifier: Apache-2.0
"""Runs sharded programs on four devices and prints, as JSON, what came of each; see test_sharding.

Of a program: the collectives in its compiled text, and whether the result is split as expected. Of
an error: its class and text.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Callable
from typing import Any

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import graphffi
import graphffi_jax

COLLECTIVES = ("all-gather", "all-to-all", "all-reduce", "collective-permute")
X = np.arange(8 * 4 * 12, dtype=np.float32).reshape(8, 4, 12)
LIBRARY = sys.argv[1]
LINE = jax.sharding.Mesh(np.array(jax.devices()), ("i",))
GRID = jax.sharding.Mesh(np.array(jax.devices()).reshape(2, 2), ("i", "j"))
results: dict[str, Any] = {}


def define(name: str, kernel: str, dims: str, **options: Any) -> Any:
    options = {"schema": "(Tensor x) -> Tensor", "infer": graphffi.like} | options
    return graphffi.define_op(
        f"jaxsharding::{name}", kernel=f"{LIBRARY}::{kernel}", dims=dims, **options
    )


def put(x: Any, *spec: Any, mesh: Any = LINE) -> Any:
    return jax.device_put(x, NamedSharding(mesh, P(*spec)))


def run(
    name: str, f: Callable[..., Any], *arrays: Any, expected: Any, spec: Any, mesh: Any = LINE
) -> None:
    compiled = jax.jit(f).lower(*arrays).compile()
    text = compiled.as_text()
    y = jax.tree.leaves(jax.jit(f)(*arrays))[0]
    np.testing.assert_array_equal(y, expected)
    alike = y.sharding.is_equivalent_to(NamedSharding(mesh, P(*spec)), y.ndim)
    results[name] = {"moved": [c for c in COLLECTIVES if c in text], "alike": alike}


def refuse(name: str, f: Callable[..., Any], *arrays: Any) -> None:
    for kind, call in (("jit", jax.jit(f)), ("eager", f)):
        try:
            call(*arrays)
        except Exception as error:
            is_xla = isinstance(error, jax.errors.JaxRuntimeError)
            results[f"{name} {kind}"] = ["XLA" if is_xla else type(error).__name__, str(error)]
        else:
            results[f"{name} {kind}"] = ["nothing", ""]


add = define("add", "add_one", "b s [h] -> b s [h]")
transposed = define("inner", "add_one", "[h] b _ -> [h] b _")
leading = define("leading", "add_one", "... [h] -> ... [h]", vmap="broadcast")
looped = define("looped", "add_one", "b [h] -> b [h]", vmap="sequential")
nameless = define("nameless", "add_one", "")
axpy = define(
    "axpy",
    "axpy",
    "b s h, b s h -> b s h",
    schema="(Tensor x, Tensor y, float a=1.0) -> Tensor",
    infer=lambda x, y, a: graphffi.like(x),
    plan="a, x, out, y",
)
sized = define(
    "sized",
    "axpy",
    "b s h, b s h -> b s h",
    schema="(Tensor x, Tensor y) -> Tensor",
    infer=lambda x, y: graphffi.like(x),
    plan="2 * x.shape[0], x, out, y",
)
weighted = define(
    "weighted",
    "scale_transposed",
    "b s [h], s -> s b [h]",
    schema="(Tensor x, Tensor w) -> Tensor",
    infer=lambda x, w: graphffi.like(x, shape=(x.shape[1], x.shape[0], x.shape[2])),
)
total = define(
    "total",
    "sum_list",
    "b s [h] -> b s [h]",
    schema="(Tensor[] xs) -> Tensor",
    infer=lambda xs: graphffi.like(xs[0]),
)
increment = define("increment", "increment", "b [s h]", schema="(Tensor(a!) x) -> ()", infer=None)
scratch = define("scratch", "scratch", "b s [h] -> b s [h]", workspace=4096)
loops = define("loops", "add_one", "[h] -> [h]", vmap="sequential")
copies = define("copies", "copy_bytes", "[h] -> [h]", vmap="sequential")
pairs = define(
    "pairs",
    "axpy",
    "h, h -> h",
    schema="(Tensor x, Tensor y, float a=1.0) -> Tensor",
    infer=lambda x, y, a: graphffi.like(x),
    plan="a, x, out, y",
    vmap="sequential",
)
append = define(
    "append",
    "append",
    "",
    schema="(Tensor row, Tensor(a!) cache, int position) -> Tensor",
    plan="row, cache, position, out",
    infer=lambda row, cache, position: graphffi.empty((), row.dtype),
    workspace=64,
    vmap="sequential",
)
added = define(
    "added",
    "axpy",
    "",
    schema="(Tensor x, Tensor y, float a=1.0) -> Tensor",
    infer=lambda x, y, a: graphffi.like(x),
    plan="a, x, out, y",
    vmap="broadcast",
)
bumped = define(
    "bumped", "increment", "", schema="(Tensor(a!) x) -> ()", infer=None, vmap="broadcast"
)


def write_one_hot(x: Any, n: int, out: Any) -> None:
    np.from_dlpack(out)[...] = np.arange(np.from_dlpack(out).shape[1]) == np.from_dlpack(x)[:, None]


one_hot = graphffi.define_op(
    "jaxsharding::one_hot",
    schema="(Tensor x, int n) -> Tensor",
    kernel=write_one_hot,
    dims="b -> b n",
    infer=lambda x, n: graphffi.empty((x.shape[0], n), "float32"),
)
logged = define("logged", "add_one", "b s [h] -> b s [h]", has_side_effect=True)


def replicate(x: Any) -> Any:
    return jax.lax.with_sharding_constraint(x, NamedSharding(LINE, P()))


def run_automatic() -> None:
    first, second, last = put(X, "i"), put(X, None, "i"), put(X, None, None, "i")
    run("outer", lambda x: add(x) * 2, first, expected=2 * (X + 1), spec=("i",))
    run("inner", lambda x: add(x) * 2, second, expected=2 * (X + 1), spec=(None, "i"))
    run("behind", transposed, second, expected=X + 1, spec=(None, "i"))
    run("last", axpy, last, last, expected=2 * X, spec=(None, None, "i"))
    run("leading", leading, first, expected=X + 1, spec=("i",))
    run("no split", nameless, put(X), expected=X + 1, spec=())
    run("two operands", axpy, first, first, expected=2 * X, spec=("i",))
    run("one of two", axpy, first, put(X), expected=2 * X, spec=("i",))
    run("sizes", sized, first, first, expected=5 * X, spec=("i",))  # two rows for each device
    run("list", lambda x: total([x, x]), first, expected=2 * X, spec=("i",))
    run("updated", increment, first, expected=X + 1, spec=("i",))
    run("workspace", scratch, first, expected=X, spec=("i",))
    run("side effect", logged, first, expected=X + 1, spec=("i",))
    run("vmap", jax.vmap(leading), first, expected=X + 1, spec=("i",))
    run("vmap inside", jax.vmap(looped), second, expected=X + 1, spec=(None, "i"))
    run("added", jax.vmap(added, (0, None)), first, put(X[0]), expected=X + X[0], spec=("i",))
    run("bumped", jax.vmap(bumped), first, expected=X + 1, spec=("i",))
    x = put(X, "i", "j", mesh=GRID)
    squares = jax.vmap(jax.vmap(lambda x: added(x, x)))
    run("added twice", squares, x, expected=2 * X, spec=("i", "j"), mesh=GRID)
    w = np.arange(4, dtype=np.float32)
    scaled = (X * w[:, None]).transpose(1, 0, 2)
    run("moved", weighted, first, put(w), expected=scaled, spec=(None, "i"))
    run("weight", weighted, put(X), put(w, "i"), expected=scaled, spec=("i",))
    for name, spec in {"grid": ("i", "j"), "swapped": ("j", "i"), "both": (("i", "j"),)}.items():
        x = put(X, *spec, mesh=GRID)
        run(name, add, x, expected=X + 1, spec=spec, mesh=GRID)
    mixed = (put(X, "i", mesh=GRID), put(X, None, "j", mesh=GRID))
    run("two axes", axpy, *mixed, expected=2 * X, spec=("i", "j"), mesh=GRID)
    run("gathered", lambda x: add(replicate(x)), last, expected=X + 1, spec=())
    table, rows = np.arange(8, dtype=np.float32)[:, None], np.array([0, 3, 5, 7], np.int32)
    picked = lambda x, table: one_hot(x, 8) @ table  # noqa: E731 - asks for parts of the result
    run("one hot", picked, put(rows), put(table, "i"), expected=table[rows], spec=())

    def constrained(x: Any) -> Any:
        return jax.lax.with_sharding_constraint(add(x), NamedSharding(LINE, P(None, None, "i")))

    run("result", constrained, put(X), expected=X + 1, spec=(None, None, "i"))
    refuse("whole", lambda x: add(x) * 2, last)
    refuse("nameless", lambda x: nameless(x) * 2, first)
    refuse("alike", lambda x: added(x, x), first)  # as a batched call, but for that
    refuse("listed", lambda x: total([x, x]), last)
    refuse("updated", increment, second)
    refuse("unequal", jax.jit(lambda x: add(x[1:])), first)  # eagerly, x[1:] is gathered
    refuse("devices", axpy, *(jax.device_put(X, device) for device in jax.devices()[:2]))
    shape = jax.ShapeDtypeStruct(X.shape, X.dtype)
    by_hand = jax.ffi.ffi_call(graphffi_jax.inspect().targets[0], shape)
    for name, dims in {"lost": "x(a b c) -> out(d e f)", "short": "x(a b) -> out(a b)"}.items():
        text = f"tvm_ffi.call 2\nkernel {LIBRARY}::add_one\narrays {dims}"
        refuse(name, lambda x, t=text: by_hand(x, call=t), first)
    refuse("raw", lambda x: graphffi_jax.call(f"{LIBRARY}::add_one", x, out=x), first)
    try:
        with graphffi_jax.errors():
            add(last)
    except ValueError as error:
        results["original"] = [type(error).__name__, str(error)]


def run_loops() -> None:
    first, second = put(X, "i"), put(X, None, "i")
    twice = jax.vmap(jax.vmap(loops))
    run("loop", lambda x: jax.vmap(looped)(x) * 2, first, expected=2 * (X + 1), spec=("i",))
    run("loop in loop", lambda x: twice(x) * 2, second, expected=2 * (X + 1), spec=(None, "i"))
    # An operand of which nothing is known when shardings are propagated, another in one loop only.
    crossed = jax.vmap(lambda x: jax.vmap(lambda y: pairs(x, y))(jnp.asarray(X[0, :3])))
    expected = X[:, 0, None] + X[0, :3]
    run("crossed loops", crossed, put(X[:, 0], "i"), expected=expected, spec=("i",))
    split = jax.vmap(pairs, in_axes=(0, None))
    run("loop inside", split, put(X[:, 0], None, "i"), put(X[0, 0], "i"),
        expected=X[:, 0] + X[0, 0], spec=(None, "i"))  # fmt: skip
    updated = X.copy()
    updated[:, 2] = X[:, 1]

    def update(rows: Any, caches: Any) -> Any:
        return jax.vmap(lambda row, cache: append(row, cache, 2)[1])(rows, caches)

    run("loop of updates", update, put(X[:, 1], "i"), first, expected=updated, spec=("i",))
    empty = put(X[:0], None, "i")
    run("no loop", lambda x: twice(x)[:, 0], empty, expected=X[:0, 0], spec=())
    for dtype in (jnp.bool_, jnp.int4, jnp.bfloat16, jnp.complex64, jnp.float8_e5m2):
        items = jnp.asarray(X[:, 0] > 3, dtype)
        name = f"loop of {np.dtype(dtype)}"
        run(name, jax.vmap(copies), put(items, "i"), expected=np.asarray(items), spec=("i",))
    refuse("loop", jax.vmap(looped), put(X, None, None, "i"))


def run_shard_map() -> None:
    last = put(X, None, None, "i")
    spec = P(None, None, "i")
    local = jax.shard_map(add, mesh=LINE, in_specs=spec, out_specs=spec)
    run("shard_map", local, last, expected=X + 1, spec=spec)
    results["local"] = "@tvm_ffi.local_call(" in jax.jit(local).lower(last).as_text()
    loop = jax.shard_map(jax.vmap(looped), mesh=GRID, in_specs=P("i"), out_specs=P("i"))
    run("loop in shard_map", loop, put(X, "i", mesh=GRID), expected=X + 1, spec=("i",), mesh=GRID)
    partial = jax.shard_map(
        jax.vmap(looped), mesh=GRID, in_specs=P("i"), out_specs=P("i"), axis_names={"i"}
    )
    split = P("i", "j")
    run("loop in part", partial, put(X, *split, mesh=GRID), expected=X + 1, spec=split, mesh=GRID)
    partial = jax.shard_map(add, mesh=GRID, in_specs=spec, out_specs=spec, axis_names={"i"})
    split = P("j", None, "i")
    run("partial", partial, put(X, *split, mesh=GRID), expected=X + 1, spec=split, mesh=GRID)
    weights = np.ones(X.shape, np.float32)
    both = jax.shard_map(axpy, mesh=LINE, in_specs=(spec, P()), out_specs=spec)
    run("varying", lambda x: both(x, weights[..., :3]), last, expected=X + 1, spec=spec)

    if hasattr(jax.lax, "pcast"):

        def unreduced(x: Any) -> Any:
            return axpy(x, jax.lax.pcast(x, "i", to="unreduced"))

        local = jax.shard_map(unreduced, mesh=LINE, in_specs=spec, out_specs=spec)
        refuse("terms", jax.jit(local), last)

    def gradient(f: Callable[..., Any]) -> Any:
        def loss(x: Any, w: Any) -> Any:
            return jax.lax.psum((f(x, w) ** 2).sum(), "i")

        summed = jax.shard_map(loss, mesh=LINE, in_specs=(spec, P()), out_specs=P())
        return jax.grad(summed, argnums=(0, 1))(last, weights[..., :3])

    axpy.register_vjp(lambda saved, grad: (grad, grad))
    expected = gradient(lambda x, w: x + w)
    for actual, wanted in zip(gradient(axpy), expected, strict=True):
        np.testing.assert_allclose(actual, wanted)
    results["gradient"] = True


def run_explicit() -> None:
    from jax.sharding import AxisType

    line = jax.make_mesh((4,), ("i",), axis_types=(AxisType.Explicit,))
    grid = jax.make_mesh((2, 2), ("i", "j"), axis_types=(AxisType.Explicit, AxisType.Auto))

    def terms(x: Any) -> Any:
        return jnp.einsum("ij,kj->ik", x, x, out_sharding=P(None, None, unreduced={"i"}))

    def typed(f: Callable[..., Any], expected: str) -> Callable[..., Any]:
        def call(*arrays: Any) -> Any:
            y = f(*arrays)
            assert str(jax.typeof(y)) == expected, jax.typeof(y)
            return y

        return call

    with jax.set_mesh(line):
        second, last = put(X, None, "i", mesh=line), put(X, None, None, "i", mesh=line)
        outer = typed(lambda x: add(x) * 2, "float32[8,4@i,12]")
        run("explicit", outer, second, expected=2 * (X + 1), spec=(None, "i"), mesh=line)
        one = typed(axpy, "float32[8,4,12@i]")
        run(
            "explicit one",
            one,
            last,
            put(X, mesh=line),
            expected=2 * X,
            spec=(None, None, "i"),
            mesh=line,
        )
        mapped = typed(jax.vmap(leading), "float32[8,4@i,12]")
        run("explicit vmap", mapped, second, expected=X + 1, spec=(None, "i"), mesh=line)
        loop = typed(jax.vmap(looped), "float32[8,4@i,12]")
        run("explicit inside", loop, second, expected=X + 1, spec=(None, "i"), mesh=line)
        loop = typed(jax.vmap(looped), "float32[8@i,4,12]")
        first = put(X, "i", mesh=line)
        pairs = typed(jax.vmap(lambda x: added(x, x)), "float32[8@i,4,12]")
        whole = put(X[0], mesh=line)
        kept = typed(jax.vmap(lambda x: added(whole, whole)), "float32[8@i,4,12]")
        expected = np.broadcast_to(2 * X[0], X.shape)
        run("explicit whole", kept, first, expected=expected, spec=("i",), mesh=line)
        run("explicit added", pairs, first, expected=2 * X, spec=("i",), mesh=line)
        run("explicit loop", loop, first, expected=X + 1, spec=("i",), mesh=line)
        gathered = typed(lambda x: add(jax.sharding.reshard(x, P())), "float32[8,4,12]")
        run("explicit gathered", gathered, last, expected=X + 1, spec=(), mesh=line)
        refuse("explicit", add, last)
        refuse("two ways", axpy, put(X, "i", mesh=line), second)
        if hasattr(jax.lax, "pcast"):
            rows = put(X[0], None, "i", mesh=line)
            refuse("explicit terms", lambda x: looped(terms(x)), rows)
        refuse("two meshes", axpy, put(X, "i", mesh=line), put(X, "i", mesh=grid))
        differentiate_batches(first, put(X[0], mesh=line))
    with jax.set_mesh(grid):
        mixed = typed(add, "float32[8@i,4,12]")
        spec = ("i", "j")
        run("mixed", mixed, put(X, *spec, mesh=grid), expected=X + 1, spec=spec, mesh=grid)
    both = jax.make_mesh((2, 2), ("i", "j"), axis_types=(AxisType.Explicit, AxisType.Explicit))
    with jax.set_mesh(both):
        x, named = put(X, *spec, mesh=both), define("named", "add_one", "b i [h] -> b i [h]")
        run("explicit names", named, x, expected=X + 1, spec=spec, mesh=both)
    devices = jax.devices()[:1]
    single = jax.make_mesh((1,), ("i",), axis_types=(AxisType.Explicit,), devices=devices)
    with jax.set_mesh(single):
        x, loop = put(X, "i", mesh=single), typed(jax.vmap(looped), "float32[8@i,4,12]")
        run("explicit single", loop, x, expected=X + 1, spec=("i",), mesh=single)


def differentiate_batches(x: Any, y: Any) -> None:
    """A batch that is split along an explicit axis, with an operand that is not batched."""
    added.register_vjp(lambda saved, grad: (grad, grad))
    added.register_jvp(lambda saved, x, y: x + y)

    def derivatives(f: Callable[..., Any]) -> list[Any]:
        batch = jax.vmap(f, (0, None))
        found = [
            jax.jvp(batch, (x, y), (x, y)),
            jax.linearize(batch, x, y)[1](x, y),
            jax.grad(lambda x, y: (batch(x, y) ** 2).sum(), (0, 1))(x, y),
        ]
        return jax.tree.leaves(found)

    for actual, wanted in zip(derivatives(added), derivatives(jnp.add), strict=True):
        np.testing.assert_allclose(actual, wanted)
        assert jax.typeof(actual) == jax.typeof(wanted)
    results["explicit derivatives"] = True


def run_exported() -> None:
    from jax import export

    checks = graphffi_jax.export_checks()
    rows = export.symbolic_shape("4*n")[0]
    f = jax.jit(lambda x: jax.vmap(looped)(add(x) * 2), in_shardings=NamedSharding(LINE, P("i")))
    for name, size in {"exported": 8, "exported symbolic": rows}.items():
        shape = jax.ShapeDtypeStruct((size, *X.shape[1:]), X.dtype)
        try:
            program = export.export(f, disabled_checks=checks)(shape)
        except NotImplementedError as error:  # older versions, of symbolic sizes
            results["too old"] = str(error)
            continue
        call = export.deserialize(program.serialize()).call
        run(name, call, put(X, "i"), expected=2 * X + 3, spec=("i",))


def run_large() -> None:
    """Sizes of more than 31 bits are only compiled."""
    op = define("large", "scratch", "b s [h] -> b s [h]", workspace=1 << 33)
    f = jax.jit(op, in_shardings=NamedSharding(LINE, P("i")))
    text = f.lower(jax.ShapeDtypeStruct((1 << 33, 1, 1), X.dtype)).compile().as_text()
    results["large"] = {"moved": [c for c in COLLECTIVES if c in text], "alike": True}


run_large()
run_automatic()
run_loops()
if hasattr(jax, "shard_map"):
    run_shard_map()
if hasattr(jax, "set_mesh"):
    run_explicit()
if importlib.util.find_spec("flatbuffers"):
    run_exported()
print(json.dumps(results))
