# SPDX-License-Identifier: Apache-2.0
"""Compiles FlashInfer's kernels with graphffi's headers: ``python -m examples.flashinfer.build``.

The sources are those of the package flashinfer-python 0.7.2, which is read and never imported: the
folder ``flashinfer`` of its wheel, named by ``FLASHINFER_SOURCE``, or of the installed package.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import graphffi

from .config import HEAD_DIM

FOLDER: Final = Path(__file__).resolve().parents[2] / "build" / "flashinfer"
SOURCES: Final = {
    "page": ["page.cu", "flashinfer_page_binding.cu"],
    "activation": [],
    "decode": ["batch_decode.cu", "batch_decode_jit_binding.cu"],
    "rope": ["rope.cu", "flashinfer_rope_binding.cu"],
    "norm": ["norm.cu", "flashinfer_norm_binding.cu"],
    "sampling": ["sampling.cu", "renorm.cu", "flashinfer_sampling_binding.cu"],
}
_INCLUDED: Final = (
    *("cccl/cub", "cccl/libcudacxx/include", "cccl/thrust", "include", "csrc"),
    *("cutlass/include", "spdlog/include"),
)
# The model computes in float16 only: each other type doubles the time of the compiler.
_FLAGS: Final = (
    *("-DFLASHINFER_ENABLE_F16", "-DNDEBUG", "-use_fast_math"),
    *("--expt-relaxed-constexpr", "--split-compile=0"),
)
_OWN_FLAGS: Final = {
    "decode": ["-static-global-template-stub=false"],  # two files share kernels; nvcc 12.8 or newer
    "norm": ["-DENABLE_BF16", "-DENABLE_FP8"],
}
_DECODE: Final = {
    "variant_decl": "#include <flashinfer/attention/variants.cuh>",
    "variant_name": "DefaultAttention<false, false, false, false>",
    "dtype_q": "half",
    "dtype_kv": "half",
    "dtype_o": "half",
    "idtype": "int32_t",
    "head_dim_qk": str(HEAD_DIM),
    "head_dim_vo": str(HEAD_DIM),
    "pos_encoding_mode": "PosEncodingMode::kNone",
    "use_sliding_window": "false",
    "use_logits_soft_cap": "false",
    "additional_params_decl": "float* maybe_alibi_slopes; double logits_soft_cap, sm_scale;",
    "additional_func_params": ", Optional<ffi::Tensor> maybe_alibi_slopes, "
    "double logits_soft_cap, double sm_scale",
    "additional_params_setter": "params.maybe_alibi_slopes = nullptr; "
    "params.logits_soft_cap = logits_soft_cap; params.sm_scale = sm_scale;",
}


def find_source() -> Path | None:
    """The folder of FlashInfer's package, or None."""
    named = os.environ.get("FLASHINFER_SOURCE")
    if named:
        return Path(named).absolute()
    spec = importlib.util.find_spec("flashinfer")
    places = spec.submodule_search_locations if spec else None
    return Path(next(iter(places))) if places else None


def build(names: Sequence[str], source: Path, arch: str, folder: Path = FOLDER) -> list[str]:
    """Compiles libraries ``flashinfer_<name>.so`` into a folder; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor() as pool:
        return list(pool.map(lambda name: _build(name, source, arch, folder), names))


def _build(name: str, source: Path, arch: str, folder: Path) -> str:
    csrc, generated = source / "data" / "csrc", folder / name
    generated.mkdir(exist_ok=True)
    sources = [csrc / file for file in SOURCES[name]]
    if name == "activation":
        sources.append(_write(generated / "silu_and_mul.cu", _activation(source)))
    if name == "decode":
        _fill(csrc / "batch_decode_customize_config.jinja", generated / "batch_decode_config.inc")
        template = csrc / "batch_decode_kernel_inst.jinja"
        sources.append(_fill(template, generated / "batch_decode_kernel.cu"))
    begin = time.monotonic()
    path = graphffi.cpp.build(
        f"flashinfer_{name}",
        sources,
        extra_cuda_cflags=[f"-arch={arch}", *_FLAGS, *_OWN_FLAGS.get(name, ())],
        extra_include_paths=[
            generated,
            *(source / "data" / part for part in _INCLUDED),
            *_wheels(),
        ],
        build_directory=folder,
    )
    print(f"{path}: {time.monotonic() - begin:.0f} s", flush=True)
    return path


def _wheels() -> list[Path]:
    """Headers that norm.cu includes and a toolkit may lack: those of NVIDIA's wheels."""
    spec = importlib.util.find_spec("nvidia")
    roots = [Path(root) for root in (spec and spec.submodule_search_locations) or ()]
    names = ("cublasLt.h", "curand_kernel.h")
    files = (file for root in roots for name in names for file in root.glob(f"*/include/{name}"))
    return list(dict.fromkeys(file.parent for file in files))


def _fill(template: Path, path: Path) -> Path:
    """Writes one of FlashInfer's templates with the values of this model."""
    return _write(path, _filled(template.read_text(), _DECODE))


def _activation(source: Path) -> str:
    """The source of silu_and_mul, of which FlashInfer keeps the text in its module of Python."""
    module = (source / "jit" / "activation.py").read_text()
    texts = dict(re.findall(r'^(\w+) = r"""\n(.*?)"""', module, re.DOTALL | re.MULTILINE))
    values = {"act_func_name": "silu", "func_name": "silu_and_mul"}
    template = re.sub(r"{%.*?%}", "", texts["activation_templ"])
    return _filled(template, {**values, "act_func_def": texts["silu_def_cu_str"]})


def _filled(template: str, values: dict[str, str]) -> str:
    return re.sub(r"{{ (\w+) }}", lambda found: values[found[1]], template)


def _write(path: Path, text: str) -> Path:
    """Writes what has changed only: a newer file would be compiled again."""
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
    return path


def main() -> None:
    """Compiles all libraries, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(SOURCES))
    parser.add_argument("--arch", default="native", help="of nvcc, such as sm_90a")
    chosen = parser.parse_args()
    source = find_source()
    if source is None:
        raise SystemExit("flashinfer: expected its sources, got none; set FLASHINFER_SOURCE")
    build(chosen.names, source, chosen.arch)


if __name__ == "__main__":
    main()
