# SPDX-License-Identifier: Apache-2.0
"""Makes libraries of other packages' models and compares what they compute with torch.

    python tests/library_models.py [--folder build/models] [--write docs/standalone.md] [name ...]

Needs torchvision, timm and transformers (`pip install --no-deps --target build/models/packages …`
beside the torch that is there). Models are built from small configurations with random weights:
nothing is downloaded. Each runs in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from sections import write_section

ROOT = Path(__file__).resolve().parents[1]
HEAD = """## Other packages' models

`python tests/library_models.py` writes this table. Models are built from small configurations with
random weights, exported on a batch of one, and called with NumPy arrays; the difference is the
greatest one from torch's result, relative to its greatest element.

| model | from | library | difference |
|---|---|---|---|
"""
# Of timm: what its functions take besides.
IMAGES: dict[str, dict[str, Any]] = {
    "convnext_atto": {"depths": (1, 1, 1, 1), "dims": (16, 32, 48, 64)},
    "mobilenetv3_small_050": {},
    "vit_tiny_patch16_224": {"img_size": 64, "depth": 2},
    "mixer_s32_224": {"img_size": 64},
    "swin_tiny_patch4_window7_224": {"img_size": 56, "depths": (1, 1), "num_heads": (2, 4)},
    "regnetx_002": {},
    "densenet121": {"block_config": (1, 1, 1)},
}
SMALL = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 99}
DECODER = {**SMALL, "intermediate_size": 96, "num_key_value_heads": 2, "use_cache": False}
# Of transformers: a configuration's class, the model's, and the configuration.
TEXTS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "BERT": ("BertConfig", "BertModel", {**SMALL, "intermediate_size": 96}),
    "DistilBERT": (
        "DistilBertConfig",
        "DistilBertModel",
        {"dim": 64, "n_layers": 2, "n_heads": 4, "hidden_dim": 96, "vocab_size": 99},
    ),
    "GPT-2": (
        "GPT2Config",
        "GPT2LMHeadModel",
        {"n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 99, "use_cache": False},
    ),
    "Llama": ("LlamaConfig", "LlamaForCausalLM", DECODER),
    "Qwen3": ("Qwen3Config", "Qwen3ForCausalLM", {**DECODER, "head_dim": 16}),
    "Mixtral": (
        "MixtralConfig",
        "MixtralForCausalLM",
        {**DECODER, "num_local_experts": 4, "num_experts_per_tok": 2},
    ),
    "T5 encoder": (
        "T5Config",
        "T5EncoderModel",
        {"d_model": 64, "d_kv": 16, "d_ff": 96, "num_layers": 2, "num_heads": 4, "vocab_size": 99},
    ),
}
CHILD = """
import sys
sys.path[:0] = {paths!r}
from library_models import run
run({name!r}, {folder!r})
"""


def model_of(name: str) -> tuple[str, Any, Any]:
    """Where the model is from, the model, and its input."""
    import torch

    # The library of torchvision's wheel needs a torch for CUDA; its Python needs operators' names.
    for operator in ("nms", "qnms"):
        schema = "(Tensor boxes, Tensor scores, float iou) -> Tensor"
        torch.library.define(f"torchvision::{operator}", schema)
    if name in IMAGES:
        import timm

        options = IMAGES[name]
        size = options.get("img_size", 64)
        model = timm.create_model(name, pretrained=False, num_classes=10, **options)
        return "timm", model, torch.rand(1, 3, size, size)
    if name == "resnet18":
        import torchvision

        return "torchvision", torchvision.models.resnet18(num_classes=10), torch.rand(1, 3, 64, 64)
    import transformers

    config, kind, options = TEXTS[name]
    made = getattr(transformers, config)(**options)

    class First(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = getattr(transformers, kind)(made)

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            return self.inner(input_ids=tokens, return_dict=False)[0]

    return "transformers", First(), torch.randint(0, 99, (1, 12))


def run(name: str, folder: str) -> None:
    """Makes the library and prints a row of the table, as JSON."""
    import numpy as np
    import torch

    import graphffi
    import graphffi_torch

    torch.manual_seed(0)
    package, model, x = model_of(name)
    model = model.eval().requires_grad_(False)
    row = {"model": name, "from": package, "difference": ""}
    try:
        exported = torch.export.export(model, (x,))
        path = graphffi_torch.to_library(exported, Path(folder) / f"{name.replace(' ', '_')}.so")
        result = np.from_dlpack(graphffi.load_module(path).main(x.numpy()))
        expected = model(x).numpy()
        difference = np.abs(result - expected).max() / np.abs(expected).max()
        row["difference"] = f"{difference:.0e}"
        row["library"] = "works" if difference < 1e-4 else "wrong"
    except Exception as error:  # each kind is a row of the table
        text = f"{type(error).__name__}: {error}".split("\n", 1)[0]
        row["library"] = text.replace("|", "/")[:200]
    print("\n" + json.dumps(row))


def row_of(name: str, folder: Path) -> dict[str, str]:
    """Runs a model in a process of its own."""
    paths = [str(ROOT / "tests"), str(folder / "packages")]
    script = CHILD.format(paths=paths, name=name, folder=str(folder))
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor")}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    lines = done.stdout.strip().splitlines()
    if done.returncode != 0 or not lines:
        reason = (done.stderr.strip().splitlines() or ["no output"])[-1]
        row = {"model": name, "library": f"exit {done.returncode}: {reason}"}
        return {"from": "", "difference": "", **row}
    return dict(json.loads(lines[-1]))


def main() -> None:
    """Prints the table, or writes it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=ROOT / "build/models")
    parser.add_argument("--write", type=Path)
    parser.add_argument("models", nargs="*")
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for name in arguments.models or ["resnet18", *IMAGES, *TEXTS]:
        row = row_of(name, folder)
        rows.append("| {model} | {from} | {library} | {difference} |".format(**row))
        print(rows[-1], flush=True)
    if arguments.write is not None:
        write_section(arguments.write, HEAD + "\n".join(rows))


if __name__ == "__main__":
    main()
