# SPDX-License-Identifier: Apache-2.0
"""The C++ code that makes a function of TVM FFI of a model that AOTInductor generated."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from graphffi import dtype
from graphffi.plugin import c_string
from graphffi_torch._standalone.edits import edit
from graphffi_torch._standalone.kernels import edit_kernels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphffi_torch._standalone.signature import Node, Signature
    from graphffi_torch._standalone.weights import Constant

# The check of a kernel's result, which runs on request: what follows reads it with these strides.
# Torch 2.15 gives it the data type, too.
_LAYOUT: Final = (
    r"if \(_check_aoti_runtime_check_inputs_env\(\)\) \{ "
    r"assert_size_stride\((\w+), (\{[^}]*\}), (\{[^}]*\}), (\"torch\.ops\.[^\"]*\")[^;]*\); \}"
)
_LAY_OUT: Final = r"AOTI_TORCH_ERROR_CODE_CHECK(graphffi_standalone::LayOut(&\1, \2, \3, \4));"
# Where a kernel for CUDA is loaded.
_LOAD: Final = r"if \((kernels_\.\w+) == nullptr\) \{\s*\1 = (loadKernel\(.*\)); *\s*\}"
_LOADED: Final = r"graphffi_standalone::LoadOnce(&\1, [&] { return \2; });"
# In torch's header: a note of a division by zero (2.13 to 2.15), and its error (all).
_NOTE: Final = "inline std::atomic<int>* inductor_cpu_integer_div_error_flag "
_ZERO: Final = 'TORCH_CHECK(false, "Zero'
_DEVICES: Final = {"cpu": 1, "cuda": 2}  # DLPack's


def method_code(
    signature: Signature,
    model: str,
    device: str,
    code: str,
    constants: Sequence[Constant],
) -> str:
    """The text of a file that exports the method.

    Args:
        signature: Of the method.
        model: The end of the class's name.
        device: Where it runs: ``"cpu"`` or ``"cuda"``.
        code: What AOTInductor wrote.
        constants: Where the model's weights are.
    """
    code = edit_kernels(code, model)
    results = re.findall(r'assert_size_stride\([^;]*"torch\.ops\.', code)
    code = edit(code, "layouts of results", _LAYOUT, _LAY_OUT, places=len(results))
    loads = re.findall(r"=\s*loadKernel\(", code)  # the code declares the function, too
    code = edit(code, "loads of kernels", _LOAD, _LOADED, places=len(loads))
    operands: list[str] = []
    dims: list[str] = []
    for operand in signature.operands:
        kind = dtype(operand.dtype)
        rows = ", ".join(f"{{{s}, {m}, {o}}}" for s, m, o in operand.dims)
        dims.append(f"const Dim kDims{len(dims)}[] = {{{rows or '{-1, 1, 0}'}}};")
        operands.append(
            f"{{{_literal(operand.name)}, {kind.code}, {kind.bits}, {len(operand.dims)}, "
            f"kDims{len(dims) - 1}, {str(operand.is_updated).lower()}, {_DEVICES[operand.device]}}}"
        )
    symbols = [f"{{{_literal(name)}, {low}, {high}}}" for name, low, high in signature.symbols]
    conditions = f"ParseConditions({_literal(signature.conditions)})"
    places = [
        f"{{{'kNowhere' if constant.opt_offset is None else constant.opt_offset}, {constant.size}, "
        f"{str(constant.is_updated).lower()}}}"
        for constant in constants
    ]
    return (
        "#include <graphffi_standalone/laid_out.h>\n#include <graphffi_standalone/load_once.h>\n"
        "#include <graphffi_standalone/loop_error.h>\n"
        + code
        + _ENTRY.format(
            dims="\n".join(dims),
            operands=", ".join(operands) or '{"", 0, 0, 0, nullptr, false, 1}',
            num_operands=len(operands),
            symbols=", ".join(symbols) or '{"", 0, 0}',
            num_symbols=len(symbols),
            conditions=conditions if signature.conditions else "nullptr",
            num_results=len(signature.results),
            ordinals=", ".join(["-1"] * len(signature.results)) or "-1",
            places=", ".join(places) or "{0, 0, false}",
            nodes=_nodes_code("Input", signature.input_nodes)
            + _nodes_code("Result", signature.result_nodes),
            model=model,
            name=signature.name,
            device=device,
            device_type=_DEVICES[device],
            metadata=_literal(_metadata(signature)),
        )
        + _description(signature)
    )


def prefix_code(text: str) -> str:
    """Torch's header of what generated code calls, with a note of its errors for each thread.

    The error has torch's text, without the place in the header that raises it.
    """
    places = re.findall(r"\w+ std::atomic<int>\* inductor_cpu_integer_div_error_flag\b", text)
    text = edit(
        text,
        "notes of divisions by zero",
        re.escape(_NOTE),
        _NOTE.replace("inline", "inline thread_local"),
        places=len(places),
    )
    return edit(
        text,
        "errors of divisions by zero",
        re.escape(_ZERO),
        'throw std::runtime_error("Zero',
        places=text.count('"ZeroDivision'),
    )


def _metadata(signature: Signature) -> str:
    """TVM FFI's metadata of the function, with names of parameters beside what TVM FFI defines."""
    names = signature.input_nodes[0].keys
    return json.dumps({} if names is None else {"parameters": names})


def _description(signature: Signature) -> str:
    text = signature.op_text()
    return "" if text is None else text_code(f"op_{signature.name}", text)


def _nodes_code(kind: str, nodes: Sequence[Node]) -> str:
    keys, rows = [], []
    for i, node in enumerate(nodes):
        name = "nullptr" if node.keys is None else f"k{kind}Keys{i}"
        if node.keys is not None:
            texts = ", ".join(map(_literal, node.keys)) or "nullptr"
            keys.append(f"const char* const {name}[] = {{{texts}}};\n")
        rows.append(f"{{{node.count}, {name}}}")
    return f"{''.join(keys)}const Node k{kind}Nodes[] = {{{', '.join(rows)}}};\n"


_ENTRY: Final = """
#include <graphffi_standalone/graph.h>

extern const graphffi_standalone::Weights graphffi_weights;

namespace {{
namespace {model}_entry {{
using namespace graphffi_standalone;
using Model = torch::aot_inductor::AOTInductorModel{model};

{dims}
const Operand kOperands[] = {{{operands}}};
const Symbol kSymbols[] = {{{symbols}}};
const graphffi::Conditions* const kConditions = {conditions};
{nodes}constexpr size_t kNowhere = SIZE_MAX;  // of a weight that no code reads
struct Place {{
  size_t offset, bytes;
  bool is_updated;
}};
const Place kPlaces[] = {{{places}}};
int32_t ordinals[] = {{{ordinals}}};

Model* NewModel(DLDevice device) {{
  const KeptMemory kept;
  auto constants = std::make_shared<std::vector<torch::aot_inductor::ConstantHandle>>();
  const std::string name = "{device}:" + std::to_string(device.device_id);
  auto model = std::make_unique<Model>(nullptr, std::move(constants), name, std::nullopt);
  model->SetConstants([&](size_t i, int32_t device_type) {{
    const Place& place = kPlaces[i];
    if (place.offset == kNowhere) return static_cast<char*>(nullptr);
    const DLDevice on = device_type == kDLCPU ? DLDevice{{kDLCPU, 0}} : device;
    return ConstantOn(on, graphffi_weights, place.offset, place.bytes, place.is_updated);
  }});
  return model.release();  // lives as long as the library, which is never unloaded
}}

Model* ModelOn(DLDevice device) {{
  static auto* models = new PerDevice<Model>();
  return models->Get(device, NewModel);
}}

void Prepare(DLDevice device) {{ ModelOn(device); }}

void Run(DLDevice device, void* stream, TVMFFIObjectHandle* inputs, TVMFFIObjectHandle* results) {{
  ModelOn(device)->run_impl(
      reinterpret_cast<AtenTensorHandle*>(inputs), reinterpret_cast<AtenTensorHandle*>(results),
      static_cast<torch::aot_inductor::DeviceStreamType>(stream), nullptr);
}}

const Method kMethod = {{"{name}", {device_type}, kOperands, {num_operands}, kSymbols,
                        {num_symbols}, kConditions, {num_results}, kInputNodes, kResultNodes,
                        ordinals, &Prepare, &Run}};
}}  // namespace {model}_entry
}}  // namespace

extern "C" __attribute__((visibility("default"))) int __tvm_ffi_{name}(
    void*, const TVMFFIAny* args, int32_t num_args, TVMFFIAny* result) {{
  return graphffi_standalone::RunMethod({model}_entry::kMethod, args, num_args, result);
}}

extern "C" __attribute__((visibility("default"))) int __tvm_ffi__metadata_{name}(
    void*, const TVMFFIAny*, int32_t, TVMFFIAny* result) {{
  return graphffi_standalone::DescribeMethod({metadata}, result);
}}

extern "C" __attribute__((visibility("default"))) int __tvm_ffi_{name}_into(
    void*, const TVMFFIAny* args, int32_t num_args, TVMFFIAny*) {{
  return graphffi_standalone::RunMethodInto({model}_entry::kMethod, args, num_args);
}}

extern "C" __attribute__((visibility("default"))) int __tvm_ffi_{name}_within(
    void*, const TVMFFIAny* args, int32_t num_args, TVMFFIAny* result) {{
  return graphffi_standalone::RunMethodWithin({model}_entry::kMethod, args, num_args, result);
}}
"""


def text_code(name: str, text: str) -> str:
    """C++ of a text that is read from the library's file."""
    return f"""
extern "C" __attribute__((visibility("default"))) const char __graphffi_{name}[];
extern "C" const char __graphffi_{name}[] = {_literal(text)};
"""


def _literal(text: str) -> str:
    return c_string(text.encode())
