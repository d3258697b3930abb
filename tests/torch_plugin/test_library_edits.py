# SPDX-License-Identifier: Apache-2.0
"""Generated code of another shape than known: what is not found in it is refused, not left."""

from __future__ import annotations

import re

import pytest
import torch

from graphffi_torch._standalone.code import prefix_code
from graphffi_torch._standalone.kernels import PREFIX, edit_kernels
from graphffi_torch._standalone.weights import WeightFile

pytestmark = pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec:FutureWarning")
CHECK = 'AOTI_TORCH_CHECK((0 <= tmp7) & (tmp7 < ks0), "index out of bounds: 0 <= tmp7 < ks0");'
LOOP = f"""#pragma omp for collapse(2)
for(int x0=0; x0<4; x0++)
{{
    for(int x1=0; x1<4; x1++)
    {{
        auto tmp0 = in_ptr0[x0];
        auto tmp4 = tmp0 < 0;
        auto tmp5 = tmp4 ? tmp3 : tmp0;
        auto tmp6 = tmp5;
        auto tmp7 = c10::convert<int64_t>(tmp6);
        {CHECK}
        AOTI_TORCH_CHECK(tmp9, "a text with {{");
    }}
}}
"""


def kernel(region: str) -> str:
    return (
        f'#include <{PREFIX}>\nextern "C"  void  cpp_fused_0(const int64_t* in_ptr0)\n{{\n'
        f"#pragma omp parallel\n{{\nint tid = omp_get_thread_num();\n{region}}}\n}}\n"
    )


def test_loops_that_check_keep_their_errors() -> None:
    code = edit_kernels(kernel(LOOP), "model")
    assert "void  model_cpp_fused_0(" in code
    assert "if (!(" in code
    assert "graphffi_standalone::FailIndex(tmp7, tmp0, ks0);" in code
    before, _, after = code.partition("if (!loop_error.is_set()) try {")
    assert before.rstrip().endswith("x1++)\n    {") or before.rstrip().endswith(
        "x1<4; x1++)\n    {"
    )
    assert re.search(r"\} catch \(\.\.\.\) \{ loop_error\.Keep\(\); \}", after)
    assert after.index("loop_error.Throw();") > after.index("loop_error.Keep();")


def test_code_without_checks_is_as_it_was() -> None:
    assert "loop_error" not in edit_kernels(kernel("tmp0 = 1;\n"), "model")


@pytest.mark.parametrize(
    ("code", "what"),
    [
        (kernel(CHECK), "checks"),
        (
            kernel(LOOP.replace("index out of bounds: 0 <= tmp7", "index out of bounds for 0")),
            "checks of indices",
        ),
        (kernel("#pragma omp for\nwhile (x0) { " + CHECK + " }"), "parallel loops"),
        (kernel("#pragma omp parallel\n{\n" + LOOP + "}"), "parallel loops"),
        (kernel("int64_t num_thread = omp_get_max_threads();"), "numbers of threads"),
        (kernel("").replace("void", "void INLINE"), "kernels"),
        (
            kernel("inductor_cpu_integer_div_error_flag = &error;").replace("int tid", "auto tid"),
            "beginnings of threads",
        ),
    ],
)
def test_kernels_of_another_shape_are_refused(code: str, what: str) -> None:
    with pytest.raises(NotImplementedError, match=f"to_library: {what} in the code that torch"):
        edit_kernels(code, "model")


def test_a_header_with_another_note_of_divisions_is_refused() -> None:
    text = "inline std::atomic<int>* inductor_cpu_integer_div_error_flag = nullptr;"
    assert prefix_code(text) == text.replace("inline", "inline thread_local")
    with pytest.raises(NotImplementedError, match="notes of divisions by zero in the code that"):
        prefix_code(text.replace("inline", "static"))


class Scaled(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", torch.ones(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.scale


CONSTANT = """Model::Model() : AOTInductorModelBase(1, 1, 1, device_str, cubin_dir, false) {
    constants_info_[0].name = "scale";
    constants_info_[0].data_size = 64;
    constants_info_[0].from_folded = false;
    constants_info_[0].type = static_cast<int32_t>(torch::aot_inductor::ConstantType::Buffer);
    constants_info_[0].shape = {2};
    constants_info_[0].original_fqn = "scale";
}
void Model::run_impl() {
    auto& scale = constants_->at(0);
    use(scale);
}
"""


def test_weights_are_found_in_generated_code() -> None:
    program = torch.export.export(Scaled(), (torch.ones(2),))
    kept = WeightFile([])
    (constant,) = kept.add("main", CONSTANT, bytes(range(64)), program)
    assert (constant.opt_offset, constant.size, constant.is_updated) == (0, 64, False)
    (unread,) = kept.add("main", CONSTANT.replace("use(scale);", ""), bytes(64), program)
    assert unread.opt_offset is None
    assert bytes(kept.content) == bytes(range(64))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("(1, 1, 1,", "(1, 1, 2,"),
        ("(1, 1, 1,", "(1, 1, num_constants,"),
        (".data_size =", ".size ="),
        ("data_size = 64", "data_size = 32"),
        ("from_folded = false", "from_folded = true"),
        ("auto& scale = constants_->at(0)", "auto& scale = constants_->data()[0]"),
        ("auto& scale =", "auto& other ="),
        ('original_fqn = "scale"', 'original_fqn = "scale_"'),
    ],
)
def test_weights_that_are_described_otherwise_are_refused(old: str, new: str) -> None:
    program = torch.export.export(Scaled(), (torch.ones(2),))
    code = CONSTANT.replace(old, new)
    assert code != CONSTANT
    with pytest.raises(
        NotImplementedError, match=r"main: .* in the code that torch .* generates: expected"
    ):
        WeightFile([]).add("main", code, bytes(64), program)


def test_code_that_reads_a_copy_of_what_methods_update_is_refused() -> None:
    from graphffi_torch._export.updates import Memory

    model = Scaled()
    program = torch.export.export(model, (torch.ones(2),))
    copied = CONSTANT.replace("(1, 1, 1,", "(1, 1, 2,").replace(
        "}\nvoid",
        """    constants_info_[1].name = "constant1";
    constants_info_[1].data_size = 64;
    constants_info_[1].type = static_cast<int32_t>(torch::aot_inductor::ConstantType::Unknown);
    constants_info_[1].shape = {2};
    constants_info_[1].original_fqn = "constant1";
}
void""",
    )
    copied = copied.replace("use(scale);", "auto& constant1 = constants_->at(1); use(constant1);")
    updated = [Memory.of(model.get_buffer("scale"))]
    with pytest.raises(
        ValueError, match="main: buffer 'scale': expected code that reads it, since"
    ):
        WeightFile(updated).add("main", copied, bytes(128), program)
