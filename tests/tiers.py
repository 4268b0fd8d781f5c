"""Which tests are slow, and which cases run with `make test-all` only: they repeat others with more of the same.

The fast tests have to end within five minutes, and with the slow ones within the time of a run of CI. What is left
out here is run before a release, and after wide changes.

A test of several parameters does not run with all combinations of their values, but with so many that each value
of each parameter occurs (`that_cover_all_values`). Where the combinations matter, the test loops over one of them
itself. The lists below leave out more: of tests of one parameter with many values, and of those that take long.
"""

from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

# The files that take longest come first, so that no process is left with one of them when all others are done.
LONGEST = (
    "test_examples",
    "test_documentation",
    "test_palm",
    "test_pages",
    "test_checkpoint",
    "test_factorize_methods",
    "test_coding",
    "test_estimators",
    "test_samples",
    "test_experiments",
    "test_transforms",
    "test_dictionary",
    "test_fast_dictionary",
    "test_distributed",
    "test_constraints",
    "test_cli",
    "test_tradeoff",
    "test_constraints_invariance",
    "test_operators",
    "test_hierarchical",
    "test_report",
    "test_threads",
    "test_kernel_cache",
)

# Of these, any process may run any case: they share nothing, and together they take longer than a process's share.
APART = ("test_examples", "test_pages")

# Slow tests beside those that are marked, or those of their cases whose names contain one of the words: they take
# more than a second or two each, with the kernels that only they need, and fast tests use the same code otherwise.
SLOW = {
    "test_butterfly_ranks": {"test_factorize_finds_them_in_a_matrix": ("complex64",)},
    "test_campaigns": {"test_a_few_cases_of_each_kind_run": ("commands",)},
    "test_candidates": {"test_the_plan_is_about_what_the_search_takes": ()},
    "test_checkpoint": {
        "test_a_run_that_is_killed_anywhere_goes_on_to_the_same_bits": (),
        "test_a_run_that_is_killed_again_and_again_comes_to_an_end": (),
    },
    "test_cli": {
        "test_a_matrix_is_factorized_described_drawn_applied_and_measured": (),
        "test_every_method_learns_what_its_estimator_learns": ("sparse-ksvd",),
        "test_a_traceback_is_shown_on_wish_only": (),
        "test_a_reader_that_goes_away_is_no_error_to_speak_of": (),
        "test_a_dictionary_is_learned_and_used": (),
        "test_what_cannot_be_is_refused_in_one_line_before_any_work": (),
    },
    "test_cli_large": {
        "test_a_cluster_that_runs_gives_the_same": (),
        "test_a_file_and_a_folder_of_shards_give_what_the_estimator_learns_from_the_array": (),
        "test_a_stopped_run_keeps_its_checkpoint_and_goes_on_from_it": (),
        "test_a_result_that_cannot_be_written_is_kept_in_the_checkpoint": (),
    },
    "test_cli_terminal": {
        "test_ctrl_c_and_sigterm_keep_the_dictionary_so_far": (),
        "test_sigterm_ends_a_command_that_keeps_nothing": (),
    },
    "test_curves": {
        "test_low_rank_in_blocks_has_far_fewer_entries_than_in_the_whole": (),
        "test_large_matrices_have_only_their_leading_singular_vectors": (),
    },
    "test_dictionary": {
        "test_sparse_ksvd_is_no_worse_than_the_papers_on_rand": (),
        "test_ksvd_beats_the_papers_ksvd_on_rand": (),
    },
    "test_distributed": {
        "test_files_give_the_same_bits_on_a_cluster": (),
        "test_dask_arrays_give_the_same_bits_on_a_cluster": (),
        "test_a_checkpoint_goes_on_with_a_cluster_and_without_one": (),
        "test_a_worker_that_comes_late_is_waited_for": (),
    },
    "test_experiments": {
        "test_a_stopped_run_goes_on_and_gives_the_same_table": (),
        "test_hadamard_matrices_come_out_exact_and_the_steps_are_drawn": (),
        "test_the_figure_of_the_dft_writes_out_every_power": (),
        "test_the_record_of_a_run_has_neither_paths_nor_the_name_of_the_machine": (),
        "test_the_result_does_not_depend_on_the_threads_of_the_caller": (),
        "test_a_tiny_run_writes_its_tables_and_figures_and_what_they_depend_on": ("hadamard", "dft"),
    },
    "test_factorize": {"test_the_unit_of_the_data_does_not_matter": ()},
    "test_factorize_methods": {
        "test_a_search_is_far_better_than_the_hierarchical_strategy_alone": (),
        "test_complexity_is_kept_and_the_attempts_say_what_was_found": ("permuted DFT",),
        "test_max_error_takes_the_first_rank_that_reaches_it": (),
        "test_a_number_of_factors_is_kept_with_every_target": ("4-knee",),
    },
    "test_fast_dictionary": {
        "test_refinement_repeats_bit_for_bit": (),
        "test_refinement_lowers_the_error_within_the_same_entries": (),
        "test_a_redundant_dictionary_is_learned": ("True",),
    },
    "test_from_products": {
        "test_neighbours_lower_the_error_in_the_plane": (),
        "test_an_operator_without_structure_ends_soon": (),
        "test_the_inverse_of_a_laplacian_in_natural_order": (),
    },
    "test_grouping": {"test_a_dictionary_in_blocks_resumes_with_the_same_result": ("global", "split")},
    "test_hierarchical": {
        "test_the_figure_of_an_outside_implementation_comes_out": (),
        "test_all_factors_at_once_fail_where_the_hierarchy_succeeds": (),
        "test_dtype_is_kept_and_complex_targets_work": ("complex64",),
    },
    "test_images": {
        "test_a_dictionary_learned_from_the_noisy_image_removes_more_than_the_dct": (),
        "test_a_callback_sees_all_of_the_work_and_may_end_it": (),
    },
    "test_kernel_cache": {
        "test_an_edit_of_one_file_changes_the_kernels_of_another": (),
        "test_a_full_disk_is_no_error": (),
    },
    "test_kronecker": {
        "test_errors_of_smooth_kernels_are_the_tails_of_singular_values": (),
        "test_products_of_any_shapes_are_found": (),
    },
    "test_large_experiment": {
        "test_there_is_a_row_for_each_dictionary_in_order": (),
        "test_a_stopped_run_goes_on_and_learns_nothing_twice": (),
    },
    "test_meg_experiment": {"test_there_is_a_row_for_each_case_in_order": ()},
    "test_nested": {
        "test_a_tradeoff_of_a_kernel_is_nearly_as_good_as_single_fits": (),
        "test_the_error_is_met_with_few_entries_and_without_a_target_both_are_low": (),
    },
    "test_nonnegative": {"test_ties_duplicates_zeros_and_dependent_atoms": ()},
    "test_pages": {"test_the_python_blocks_of_a_page_run": ()},
    "test_plot": {"test_a_tradeoff_of_factorizations_over_orders_of_magnitude_is_logarithmic": ()},
    "test_report": {
        "test_large_results_stay_below_two_megabytes": (),
        "test_what_is_not_finite_is_left_out_of_diagrams": (),
        "test_learn_writes_a_page_on_wish": (),
        "test_diagrams_of_any_errors_can_be_drawn": ("errors1", "errors3", "errors4"),
        "test_names_from_outside_are_text_and_never_elements": (),
    },
    "test_reproduce": {"test_a_tiny_run_says_how_long_it_takes_and_shows_its_claims_and_files": ()},
    "test_samples": {
        "test_other_chunks_of_a_dask_array_learn_as_well": ("fast",),
        "test_a_fast_dictionary_has_the_same_bits_from_memory_maps_files_and_arrays": (),
        "test_the_number_of_threads_changes_no_bit": ("fast",),
        "test_inputs_are_never_changed": ("fast",),
        "test_a_dask_array_with_the_same_borders_gives_the_same_bits": ("fast",),
    },
    "test_seconds_experiment": {"test_there_is_a_row_for_each_dictionary_in_order": ()},
    "test_speedup": {
        "test_blocks_are_what_the_hierarchical_strategy_makes": (),
        "test_the_result_is_the_best_of_all_that_are_fast_enough": ("smooth",),
    },
    "test_threads": {
        "test_eight_python_threads_work_on_every_threading_layer_of_numba": (),
        "test_forked_processes_apply_large_blocks": (),
        "test_a_large_block_is_applied_at_interpreter_shutdown": (),
        "test_a_forked_process_compiles_while_its_parent_does": (),
    },
    "test_tradeoff": {
        "test_the_command_writes_what_the_function_finds": (),
        "test_the_sweep_does_not_depend_on_the_unit_and_repeats": (),
        "test_a_sweep_that_is_stopped_returns_the_points_so_far": ("matrix",),
        "test_the_callback_hears_which_point_it_is_and_how_much_is_done": ("matrix",),
        "test_the_command_learns_from_samples_where_atoms_are_named": (),
        "test_a_matrix_is_approximated_better_the_more_entries_it_may_have": (),
    },
    "test_from_entries": {
        "test_points_in_the_plane": (),
        "test_complexity_is_kept": ("inverse distance",),
    },
}

# Of tests with many cases, one in so many stays; the first one always does.
ONE_OF = {
    "test_coding": {"test_codes_are_those_of_a_plain_loop_whatever_the_way": 2},
    "test_convolutions": {
        "test_convolution_matrices_of_each_dtype_are_found_exactly": 4,
        "test_rounding_and_noise_are_averaged_out": 4,
        "test_one_changed_entry_is_noticed": 3,
    },
    "test_curves": {
        "test_no_simple_candidate_is_better_with_as_many_entries": 3,
        "test_a_sum_of_sparse_and_low_rank_is_found": 2,
        "test_domains_tell_their_errors": 3,
    },
    # Each of scikit-learn's checks comes with one of the four estimators.
    "test_estimators": {"test_scikit_learns_own_checks_pass_with_defaults": 4},
    "test_experiments": {"test_a_stopped_run_goes_on_and_gives_the_same_table": 2},
    "test_factorize_methods": {
        "test_max_error_is_kept_with_the_fewest_entries_of_all_attempts": 3,
        "test_the_number_of_factors_holds_for_every_matrix": 3,
        "test_without_a_target_nothing_is_worse_than_the_matrix_itself": 2,
    },
    "test_kernels": {"test_steps_of_the_kernel_are_the_general_ones": 3},
    "test_known_transforms": {"test_transforms_are_recognised_in_any_order_with_any_scales": 3},
    "test_from_entries": {"test_the_error_is_met": 3, "test_complexity_is_kept": 2},
}

# Tests that are left out, or those of their cases whose names contain one of the words.
LEFT_OUT = {
    "test_campaigns": {
        "test_a_case_that_takes_too_much_memory_is_ended_and_told": (),
        "test_a_case_is_repeated_exactly": (),
        "test_after_a_crash_the_next_case_runs": (),
        "test_interrupted_runs_end_as_others_do": (),
        "test_many_random_cases_find_nothing": (
            "calls",
            "commands",
            "disks",
            "checkpoints",
            "pursuit",
            "products",
        ),
        "test_a_hang_is_ended_and_told": (),
    },
    "test_checkpoint": {
        "test_a_run_that_is_killed_anywhere_goes_on_to_the_same_bits": ("fast",),
        "test_a_process_that_is_killed_goes_on_to_the_same_bits": ("pass 2",),
        "test_runs_in_single_precision_go_on_too": ("fast",),
        "test_a_run_that_a_callback_stopped_keeps_its_checkpoint_and_goes_on": (),
    },
    "test_cli": {
        "test_the_demo_says_what_is_gained_and_last_where_the_figures_are": (),
    },
    "test_cli_large": {
        "test_a_small_disk_that_is_full_loses_no_result": (),
        "test_a_page_that_cannot_be_written_leaves_the_checkpoint_too": (),
        "test_no_message_promises_a_result_that_the_checkpoint_does_not_hold": (),
    },
    "test_cli_terminal": {
        "test_a_log_gets_no_bar": (),
    },
    "test_dictionary": {
        "test_sparse_ksvd_is_no_worse_than_the_papers_on_rand": ("[10]",),
        "test_ksvd_beats_the_papers_ksvd_on_rand": ("[10]",),
    },
    "test_distributed": {
        "test_files_give_the_same_bits_on_a_cluster": ("online", "ksvd"),
        "test_dask_arrays_give_the_same_bits_on_a_cluster": ("online", "ksvd"),
        "test_a_worker_that_is_killed_in_a_pass_changes_nothing": ("dask",),
        "test_processes_give_the_same_bits": ("online", "ksvd"),
    },
    "test_estimators": {
        "test_the_error_falls_as_complexity_grows": (),
    },
    "test_examples": {
        "test_the_example_of_the_demo_works_as_pasted": (),
        "test_the_examples_in_the_help_work_as_pasted": ("tradeoff",),
    },
    "test_experiments": {
        "test_a_tiny_run_writes_its_tables_and_figures_and_what_they_depend_on": (
            "meg",
            "seconds",
            "recovery",
            "large",
            "phase",
        ),
        "test_the_result_does_not_depend_on_the_number_of_processes": (),
        "test_more_trials_can_be_added_and_fewer_lose_nothing": (),
        "test_draws_repeat_to_the_last_bit_whatever_was_done_before": (),
    },
    "test_hierarchical": {
        "test_hadamard_comes_out_exact_with_two_entries_a_line_in_log_n_factors": ("[1024]",),
    },
    "test_kernel_cache": {
        "test_processes_that_compile_at_the_same_time_do_not_disturb_each_other": (),
    },
    "test_kernels": {
        "test_kernels_from_the_cache_give_the_bits_of_kernels_just_compiled": (),
    },
    "test_nonnegative": {
        "test_thousands_of_codes_are_those_of_a_plain_loop": ("float32",),
    },
    "test_report": {
        "test_the_demo_writes_a_page_on_wish": (),
        "test_factorize_and_tradeoff_write_a_page_on_wish": (),
    },
    "test_reproduce": {
        "test_a_killed_run_goes_on_and_gives_the_same_table": (),
        "test_ctrl_c_keeps_what_is_finished_and_says_how_to_go_on": ("[2]",),
    },
    "test_speedup": {
        "test_a_product_that_was_slow_for_a_moment_is_the_result_all_the_same": (),
    },
    "test_streams": {
        "test_a_window_follows_data_that_drift": ("fast",),
        "test_each_batch_lowers_the_error_of_what_comes_next": ("fast",),
        "test_a_stream_of_any_pieces_is_learned_from_as_the_same_mini_batches": ("fast",),
        "test_a_mini_batch_may_be_overwritten_once_it_was_learned_from": ("fast",),
        "test_a_producer_may_use_its_memory_again": ("fast",),
        "test_streams_go_on_from_a_fit_of_large_data": ("fast",),
        "test_a_batch_of_another_width_is_refused_and_what_was_learned_stays": ("fast",),
        "test_an_empty_stream_after_a_fit_changes_nothing": ("fast",),
        "test_a_batch_with_nan_is_refused_and_what_was_learned_stays": ("fast",),
        "test_a_stream_is_read_as_it_comes_and_not_held": ("fast",),
    },
    "test_tradeoff": {
        "test_a_sweep_takes_less_than_half_the_work_of_separate_fits_and_is_as_good": (),
    },
    "test_tradeoff_times": {
        "test_the_page_of_the_command_measures_nothing_again": (),
        "test_the_command_leaves_out_what_cannot_be_measured": (),
        "test_points_that_are_not_finite_keep_the_times_of_the_others": (),
    },
}


def values_of(item: Any) -> frozenset[Any]:
    """The values of a case's parameters, which are known by where they are; those of one mark count as one."""
    params, marks = item.callspec.params, item.iter_markers("parametrize")
    axes = [
        mark.args[0].replace(" ", "").split(",") if isinstance(mark.args[0], str) else mark.args[0]
        for mark in marks
    ]
    axes += [[name] for name in params if not any(name in names for names in axes)]  # of fixtures
    return frozenset(tuple((name, id(params[name])) for name in names if name in params) for names in axes)


def that_cover_all_values(cases: Sequence[frozenset[Any]]) -> list[int]:
    """The places of as few cases as are needed for each value of each parameter, or nearly.

    Those with the most values that no other case has had go first.
    """
    kept: list[int] = []
    seen: set[Any] = set()
    for new in range(max(map(len, cases), default=0), 0, -1):
        for place, values in enumerate(cases):
            if len(values - seen) >= new:
                kept.append(place)
                seen |= values
    return kept


def turn_of(file: str) -> int:
    """The place of a file among those that take longest; the others share the last one."""
    return LONGEST.index(file) if file in LONGEST else len(LONGEST)


def is_apart(path: str) -> bool:
    """Whether the cases of a file are shared among processes."""
    return PurePath(path).stem in APART


def is_slow(file: str, function: str, case: str) -> bool:
    """Whether a case is slow without a mark of its own."""
    words = SLOW.get(file, {}).get(function)
    return words is not None and (not words or any(word in case for word in words))


def is_left_out(file: str, function: str, case: str, place: int) -> bool:
    """Whether a case, the ``place``-th of its function, runs with `make test-all` only."""
    words = LEFT_OUT.get(file, {}).get(function)
    if words is not None and (not words or any(word in case for word in words)):
        return True
    return place % ONE_OF.get(file, {}).get(function, 1) != 0


def unknown_names(file: str, module: object) -> list[str]:
    """Names above that a module of tests does not have."""
    names = [*SLOW.get(file, {}), *ONE_OF.get(file, {}), *LEFT_OUT.get(file, {})]
    return [name for name in names if not hasattr(module, name)]
