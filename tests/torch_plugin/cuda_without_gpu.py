# SPDX-License-Identifier: Apache-2.0
"""Makes libraries of programs on CUDA where there is no GPU, and torch is built for the CPU.

Torch exports with fake tensors, whose device is only a name; Inductor is told of a GPU, and its
kernels are compiled by Triton, which needs none for that. Nothing is tuned: the first choice for
each kernel is taken. The kernels' text, for a process that interprets them, is written beside a
library.

    python cuda_without_gpu.py FOLDER

writes the libraries of `PROGRAMS`. Written for the private parts of torch 2.13.
"""

from __future__ import annotations

import contextlib
import json
import sys
import threading
import types
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import torch
import triton.runtime
from cuda_programs import PROGRAMS
from torch._dynamo import device_interface
from torch._guards import detect_fake_mode
from torch._inductor import graph, select_algorithm
from torch._inductor.codecache import CudaKernelParamCache
from torch._inductor.codegen.wrapper import PythonWrapperCodegen
from torch._inductor.fx_passes import joint_graph, post_grad
from torch._inductor.graph import GraphLowering
from torch._inductor.runtime import triton_helpers, triton_heuristics
from torch._subclasses.fake_tensor import FakeTensor
from torch.export.passes import move_to_device_pass
from torch.utils import cpp_extension
from torch.utils._pytree import tree_map
from triton.backends.compiler import GPUTarget

import graphffi_torch

GPU: Final = types.SimpleNamespace(
    name="an H100 that is not there",
    major=9,
    minor=0,
    multi_processor_count=132,
    total_memory=80 << 30,
    warp_size=32,
    max_threads_per_multi_processor=2048,
    max_threads_per_block=1024,
    regs_per_multiprocessor=65536,
    shared_memory_per_block=49152,
    shared_memory_per_block_optin=232448,
    shared_memory_per_multiprocessor=233472,
    L2_cache_size=50 << 20,
    clock_rate=1980000,
    memory_clock_rate=2619000,
    memory_bus_width=5120,
    gcnArchName="",
)


class Driver:
    """Triton's view of the GPU: kernels are compiled, and never loaded or launched."""

    class utils:
        @staticmethod
        def load_binary(*_: Any) -> tuple[int, int, int, int, int]:
            return 1, 1, 32, 0, 1024

        @staticmethod
        def unload_module(*_: Any) -> None:
            pass

        @staticmethod
        def get_device_properties(_: int) -> dict[str, int]:
            return {"max_shared_mem": 232448, "multiprocessor_count": 132, "warpSize": 32}

    class launcher_cls:
        def __init__(self, *_: Any) -> None:
            pass

        def __call__(self, *_: Any) -> None:
            pass

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", 90, 32)

    def get_current_device(self) -> int:
        return 0

    def set_current_device(self, _: int) -> None:
        pass

    def get_current_stream(self, _: int) -> int:
        return 0

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cuda", 0)

    def get_device_interface(self) -> Any:
        return Interface


class Interface(device_interface.CudaInterface):
    """Torch's view of the GPU."""

    class Worker:
        set_device = staticmethod(lambda _: None)
        current_device = staticmethod(lambda: 0)
        get_device_properties = staticmethod(lambda _=None: GPU)

    current_device = staticmethod(lambda: 0)
    set_device = staticmethod(lambda _: None)
    device_count = staticmethod(lambda: 1)
    get_raw_stream = staticmethod(lambda _: 0)
    synchronize = staticmethod(lambda _=None: None)
    exchange_device = staticmethod(lambda _: 0)
    maybe_exchange_device = staticmethod(lambda _: 0)
    is_available = staticmethod(lambda: True)
    get_device_properties = staticmethod(lambda _=None: GPU)
    get_compute_capability = staticmethod(lambda _=None: 90)
    is_triton_capable = staticmethod(lambda _=None: True)
    raise_if_triton_unavailable = staticmethod(lambda _=None: None)
    is_bf16_supported = staticmethod(lambda including_emulation=False: True)
    memory_allocated = staticmethod(lambda _=None: 0)


def pretend() -> None:
    """Tells torch of a GPU, for this process."""
    triton.runtime.driver.set_active(Driver())
    device_interface.init_device_reg()
    for name in ("cuda", "cuda:0"):
        device_interface.register_interface_for_device(name, Interface)
    torch.cuda.get_device_properties = lambda _=None: GPU
    torch.cuda.get_device_capability = lambda _=None: (GPU.major, GPU.minor)
    torch.cuda.current_device = lambda: 0
    torch.cuda.device_count = lambda: 1
    torch.cuda.set_device = lambda _: None
    torch.cuda.synchronize = lambda _=None: None
    torch.cuda._lazy_init = lambda: None
    cpp_extension.CUDA_HOME = "/usr/local/cuda"
    # Patterns are traced on the program's device: on the CPU instead.
    for module in (joint_graph, post_grad):
        trace = module.lazy_init
        module.lazy_init = lambda _=None, trace=trace: trace(torch.device("cpu"))
    choose = select_algorithm.AlgorithmSelectorCache
    choose.make_precompile_fn = lambda *_, **__: lambda: None
    choose.benchmark_in_current_process = classmethod(
        lambda _, choices, *__, **___: {choice: float(i) for i, choice in enumerate(choices)}
    )
    tuner = triton_heuristics.CachingAutotuner
    tuner.benchmark_all_configs = lambda self, *_, **__: {
        launcher: float(i) for i, launcher in enumerate(self.launchers)
    }
    triton_helpers.set_driver_to_gpu = lambda: None
    graph.is_same_tensor = lambda a, b: a is b  # not by its address, which fake ones lack
    PythonWrapperCodegen.generate_and_run_autotune_block = compile_kernels


KERNELS: Final[dict[str, Any]] = {}


def compile_kernels(self: PythonWrapperCodegen) -> None:
    """What tunes kernels, on tensors of the CPU: it only compiles them."""
    text = (
        f"{self.kernel_autotune_defs.getvalue()}\nasync_compile.wait(globals())\n"
        f"{self.kernel_autotune_calls.getvalue()}"
    )
    for gpu, cpu in {
        "from torch._C import _cuda_getCurrentRawStream as get_raw_stream": "get_raw_stream = int",
        "'cuda:0'": "'cpu'",
        "torch.cuda._DeviceGuard(0)": "__import__('contextlib').nullcontext()",
    }.items():
        text = text.replace(gpu, cpu)
    scope: dict[str, Any] = {}
    exec(text, scope)
    for name, value in scope.items():
        if isinstance(value, triton_heuristics.CachingAutotuner):
            facts: Any = CudaKernelParamCache.get(name)
            KERNELS[facts["mangled_name"]] = {
                "source": value.fn.src,
                "function": value.fn.__name__,
                "signature": dict(facts["triton_meta"]["signature"]),
                "constants": {
                    **{str(k): v for k, v in facts["triton_meta"]["constants"].items()},
                    **{k: v for k, v in facts["config"].items() if k.isupper()},
                },
            }


class Constants:
    """Gives constants of programs, which are fake, the bytes of real ones."""

    def __init__(self, real: Mapping[str, torch.Tensor]) -> None:
        self._real = {name.replace(".", "_"): tensor for name, tensor in real.items()}
        self._thread = threading.local()

    @contextlib.contextmanager
    def used(self) -> Iterator[None]:
        original = GraphLowering.get_original_value_of_constant
        cpu = torch.UntypedStorage.cpu

        def value_of(graph: GraphLowering, name: str) -> torch.Tensor:
            self._thread.name = graph.allocated_constant_name[name].replace(".", "_")
            return original(graph, name)

        def bytes_of(storage: torch.UntypedStorage) -> torch.UntypedStorage:
            if storage.device.type == "cpu":
                return cpu(storage)
            return self._real[self._thread.name].untyped_storage()

        GraphLowering.get_original_value_of_constant = value_of
        torch.UntypedStorage.cpu = bytes_of
        try:
            yield
        finally:
            GraphLowering.get_original_value_of_constant = original
            torch.UntypedStorage.cpu = cpu


def on_cuda(
    exported: torch.export.ExportedProgram,
    memory: dict[torch.UntypedStorage, torch.UntypedStorage],
    on_cpu: Sequence[str] = (),
) -> torch.export.ExportedProgram:
    """The program with fake tensors on CUDA, but for operands of some names.

    Args:
        exported: The program.
        memory: Of real tensors, with the fake one. Programs that share buffers share it.
        on_cpu: The names.
    """
    values = [node.meta["val"] for node in exported.graph.nodes if "val" in node.meta]
    mode: Any = detect_fake_mode(values)
    real = dict(exported.state_dict)

    def fake(value: Any) -> Any:
        return (
            mode.from_tensor(value, static_shapes=True)
            if isinstance(value, torch.Tensor)
            else value
        )

    exported._state_dict = {name: fake(value) for name, value in exported.state_dict.items()}
    exported._constants = {name: fake(value) for name, value in exported.constants.items()}
    exported._example_inputs = tree_map(fake, exported.example_inputs)
    moved = move_to_device_pass(exported, "cuda:0")
    nodes = {node.name: node for node in moved.graph.find_nodes(op="placeholder")}
    inputs = list(moved.example_inputs[0])
    for i, name in enumerate(moved.graph_signature.user_inputs):
        if name in on_cpu:
            nodes[name].meta["val"] = nodes[name].meta["val"].to("cpu")
            inputs[i] = inputs[i].to("cpu")
    moved._example_inputs = tuple(inputs), {}
    for name in moved.graph_signature.buffers:
        tensor = moved.state_dict[name]
        storage = memory.setdefault(real[name].untyped_storage(), tensor.untyped_storage())
        meta = torch.empty(0, dtype=tensor.dtype, device="meta")
        meta.set_(storage, tensor.storage_offset(), tensor.shape, tensor.stride())
        moved.state_dict[name] = FakeTensor(mode, meta, torch.device("cuda:0"))
    return moved


def build(name: str, folder: Path) -> None:
    program = PROGRAMS[name]
    KERNELS.clear()
    weights: dict[str, torch.Tensor] = {}
    memory: dict[torch.UntypedStorage, torch.UntypedStorage] = {}
    exported = {}
    for method, model in program.methods().items():
        weights.update(model.state_dict())
        exported[method] = on_cuda(
            torch.export.export(
                model.requires_grad_(False),  # gradients would be on the GPU's streams
                program.inputs()[method],
                dynamic_shapes=program.dynamic_shapes.get(method),
            ),
            memory,
            program.on_cpu,
        )
    with Constants(weights).used():
        graphffi_torch.to_library(
            exported,
            folder / f"{name}.so",
            weights=program.weights,
            # Torch's own launcher is not in builds for the CPU, and nothing can be measured.
            options={
                "use_static_cuda_launcher": False,
                "benchmark_epilogue_fusion": False,
                "compile_threads": 1,
            },
        )
    (folder / f"{name}.json").write_text(json.dumps(KERNELS))


if __name__ == "__main__":
    pretend()
    for each in sys.argv[2:] or PROGRAMS:
        build(each, Path(sys.argv[1]))
