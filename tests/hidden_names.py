# SPDX-License-Identifier: Apache-2.0
"""The torch plugin as it is where torch lacks private names."""

from __future__ import annotations

import os

import pytest

from graphffi.plugin import when_imported

#: `make matrix` has a row for this.
HIDES_ALL = os.environ.get("GRAPHFFI_HIDE_PRIVATE_NAMES") == "1"
#: Tests, without ``test_``, of what private names give: the code that Inductor generates, types of
#: exceptions, and programs that torch's own compilers fail on or change.
NEED_NAMES = {
    "test_aliasing.py": (
        "clones_of_what_is_updated_are_kept",
        "exported_programs_read_what_they_are_given[True]",
        "inputs_of_one_memory_are_two_of_a_call_that_writes",
        "inputs_of_one_memory_may_be_of_two_in_a_later_call",
        "tensors_of_any_layout_are_updated_in_place[input-0-d-dynamic]",
        "tensors_of_any_layout_are_updated_in_place[intermediate-0-d-dynamic]",
        "views_within_a_graph_are_one_tensor_though_inputs_share_memory",
    ),
    "test_cuda_graphs.py": (
        "calls_in_inductors_graphs_say_it_too",
        "each_kernel_of_an_op_says_it_for_itself",
        "no_part_is_recorded_that_only_allocates",
        "recorded_parts_and_the_calls_between_them_have_sites_of_their_own",
    ),
    "test_direct_calls.py": (
        "a_call_is_right_in_every_mode",
        "a_call_on_what_requires_a_gradient_is_one_error",
        "a_function_that_is_marked_as_constant_may_give_modules_and_functions",
        "another_function_is_another_graph",
        "arguments_may_have_the_names_that_the_library_exports",
        "arguments_of_all_kinds_arrive",
        "artifacts_call_functions",
        "one_tensor_twice_is_one_tensor_of_the_call",
        "other_aliases_are_refused_by_name",
        "parts_of_a_tensor_and_of_its_detached_alias_are_refused",
        "random_programs_are_right_or_refused",
        "symbolic_sizes_are_one_graph_with_one_node_a_call",
        "two_inputs_that_are_one_tensor_are_one_tensor_of_the_call",
        "views_of_one_base_are_written",
        "views_of_the_same_elements_are_one_tensor_of_the_call",
        "what_a_function_returns_is_not_lost_in_silence",
        "what_no_graph_can_hold_is_refused_or_breaks_it",
    ),
    "test_effects.py": (
        "artifacts_keep_every_kind_of_call",
        "every_kind_of_call_is_kept[cpp]",
        "every_kind_of_call_is_kept[inductor]",
        "torch_still_loses_calls_in_branches_and_loops[InBranch]",
        "torch_still_loses_calls_in_branches_and_loops[InLoop]",
    ),
    "test_errors.py": (
        "arrays_beside_tensors_are_refused_in_traced_code",
        "a_plan_that_is_wrong_is_the_error_of_eager_code[cpp]",
        "numbers_of_numpy_break_the_graph_which_would_make_tensors_of_them",
        "outputs_that_share_memory_are_refused[0-aot]",
        "outputs_that_share_memory_are_refused[0-inductor]",
        "outputs_that_share_memory_are_refused[1-aot]",
        "outputs_that_share_memory_are_refused[1-inductor]",
        "outputs_that_share_memory_are_refused[2-aot]",
        "outputs_that_share_memory_are_refused[2-inductor]",
        "outputs_that_share_memory_are_refused[3-aot]",
        "outputs_that_share_memory_are_refused[3-inductor]",
        "refused_transformations_are_one_error[jvp-compiled]",
        "refused_transformations_are_one_error[vmap-compiled]",
        "too_many_parameters_are_refused_by_torch_alone[compiled]",
        "traced_code_catches_errors_where_the_graph_may_break",
        "wrong_arguments_are_reported",
    ),
    "test_export.py": (
        "a_package_for_other_calls_names_their_version",
        "libraries_are_found_beside_the_artifact",
        "packages_call_kernels_without_the_proxy_executor",
        "packages_compare_what_they_are_given_with_what_they_were_made_for",
        "packages_raise_what_eager_calls_raise",
    ),
    "test_export_programs.py": (
        "a_view_of_an_intermediate_is_updated_in_its_place[True]",
        "branches_of_cond_are_packaged",
        "what_a_shape_rule_raises_ends_an_export[True]",
    ),
    "test_family.py": (
        "compiled[dynamic-0]",
        "compiled[dynamic-4]",
        "compiled[static-0]",
        "compiled[static-4]",
        "packaged",
    ),
    "test_gradients.py": (
        "writing_what_is_recorded_is_the_same_error_when_compiled[a leaf-True-aot_eager]",
        "writing_what_is_recorded_is_the_same_error_when_compiled[a leaf-True-eager]",
        "writing_what_is_recorded_is_the_same_error_when_compiled[a leaf-True-inductor]",
        "writing_what_is_recorded_is_the_same_error_when_compiled[by name-True-aot_eager]",
        "writing_what_is_recorded_is_the_same_error_when_compiled[by name-True-eager]",
        "writing_what_is_recorded_is_the_same_error_when_compiled[by name-True-inductor]",
        "writing_what_is_recorded_is_the_same_error_when_compiled[one operand-True-aot_eager]",
        "writing_what_is_recorded_is_the_same_error_when_compiled[one operand-True-eager]",
        "writing_what_is_recorded_is_the_same_error_when_compiled[one operand-True-inductor]",
        "writing_what_is_recorded_is_the_same_error_when_compiled[with a result-True-aot_eager]",
        "writing_what_is_recorded_is_the_same_error_when_compiled[with a result-True-eager]",
        "writing_what_is_recorded_is_the_same_error_when_compiled[with a result-True-inductor]",
    ),
    "test_inductor.py": (
        "calls_keep_the_gil_where_their_kernel_says_so",
        "calls_on_elements_are_refused_by_name",
        "cpp_code_raises_the_exceptions_of_callbacks",
        "errors_are_those_of_eager_calls[cpp]",
        "only_outputs_that_nothing_else_can_see_go_unchecked",
        "ops_are_called_directly",
        "results_are_buffers_that_inductor_plans",
        "results_may_have_sizes_that_only_the_call_before_tells",
        "results_without_dimensions_are_not_filled_first",
        "shared_memory_is_refused_in_compiled_graphs",
        "texts_with_nul_are_whole",
        "the_cpp_wrapper_calls_the_packed_entry",
        "the_primitive_is_called_directly",
    ),
    "test_jvp.py": ("what_is_not_given_names_what_to_register[compiled]",),
    "test_library_buffers.py": ("copies_of_a_buffer_keep_the_values_from_before_an_update",),
    "test_library_description.py": (
        "a_kernel_library_that_was_built_anew_is_refused",
        "a_kernel_that_is_named_without_a_folder_may_move",
    ),
    "test_mutation.py": (
        "a_row_of_an_input_is_updated_in_a_package",
        "updates_are_seen_where_torch_would_see_them[copies_that_change_no_value-dynamic]",
        "updates_are_seen_where_torch_would_see_them[copies_that_change_no_value-inductor]",
        "an_operand_to_update_may_be_absent[dynamic]",
        "an_operand_to_update_may_be_absent[inductor]",
        "lists_are_updated[3-dynamic]",
        "updates_of_types_that_inductor_lacks[dynamic]",
        "updates_of_types_that_inductor_lacks[inductor]",
        "views_of_another_type_are_updated",
    ),
    "test_odd_tensors.py": (
        "artifacts_read_conjugates_and_negatives",
        "compiled_code_refuses_them_alike",
        "inductor_refuses_inputs_that_are_negated",
        "kernels_read_conjugates_and_negatives[inductor-primitive]",
        "ops_with_results_update_several_that_are_conjugated_or_negated[inductor]",
        "results_of_data_types_that_torch_lacks_are_refused_by_name",
        "updates_of_inputs_that_are_negated_are_right_or_refused[inductor]",
    ),
    "test_package_in_cpp.py": ("kernels_get_memory_and_their_errors_name_the_kind",),
    "test_package_inputs.py": ("other_inputs_than_the_exports_are_refused[of an op]",),
    "test_plan_text.py": ("packages_and_libraries_compute_for_their_sizes",),
    "test_private_names.py": (
        "a_hidden_name_is_missed_by_its_features_alone",
        "an_untested_torch_is_used_without_private_names",
    ),
    "test_raw_call.py": ("a_device_without_memory_is_one_error",),
    "test_recompute.py": (
        "gradient_rules_may_call_what_may_not_run_again",
        "partitioners_save_results",
        "partitioners_save_results_of_checkpoints",
        "two_calls_are_not_merged",
    ),
    "test_replaced_functions.py": ("threads_call_while_others_change_the_registry[package]",),
    "test_size_guards.py": (
        "inputs_are_found_where_they_are_nested",
        "inputs_in_other_containers_are_no_obstacle",
        "other_sizes_are_refused",
        "sizes_that_fit_together_are_taken",
        "too_few_dimensions_are_the_inputs_own_error",
        "what_inductor_takes_for_equal_is_expected_of_inputs",
    ),
    "test_traced_attributes.py": (
        "a_float_that_is_an_element_is_named",
        "a_tensor_of_any_size_is_described",
        "a_wrong_element_is_described_without_its_value",
        "arrays_of_numpy_beside_tensors_are_one_error",
        "zeros_keep_their_sign",
    ),
    "test_traced_modules.py": (
        "a_function_is_looked_up_while_a_call_is_traced",
        "a_name_that_is_none_is_the_error_of_eager_code",
        "another_function_is_another_graph_though_none_is_called",
        "another_module_is_another_graph",
        "looking_a_global_function_up_breaks_the_graph",
    ),
    "test_vjp.py": ("errors_of_rules_reach_the_caller",),
    "test_workarounds.py": (
        "branches_are_not_searched_for_lists_that_they_write",
        "calls_with_side_effects_do_not_tell_cuda_graphs_what_they_call",
        "inductor_leaves_updates_of_complex_tensors_unprepared",
        "inductors_scheduler_forgets_the_order_of_calls_with_side_effects[True]",
        "the_only_result_is_taken_from_a_tuple_where_nothing_is_updated[True]",
    ),
    "test_workspace.py": (
        "a_negative_number_is_refused[aot]",
        "a_negative_number_is_refused[inductor]",
        "what_is_no_number_of_bytes_is_refused",
    ),
}


def skip_tests_of_names(items: list[pytest.Item]) -> None:
    """Skips the tests that need private names."""
    for item in items:
        names = {item.name, item.name.partition("[")[0]}
        needed = NEED_NAMES.get(item.path.name, ())
        if not names.isdisjoint(f"test_{name}" for name in needed):
            item.add_marker(pytest.mark.skip(reason="tests what private names give"))


def hide_features(*features: str) -> None:
    """Has the plugin miss the names of these features, or of all; before its first import."""

    def hide() -> None:
        from graphffi_torch import _private_names

        original = _private_names.why_without

        def why_without(feature: str) -> str | None:
            is_hidden = not features or feature in features
            return "private names are hidden" if is_hidden else original(feature)

        _private_names.why_without = why_without

    when_imported("graphffi_torch._private_names", hide)
