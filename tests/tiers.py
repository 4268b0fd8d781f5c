"""Which cases of the tests run with `make test-all` only: they repeat others with more cases, sizes or processes.

The fast tests and the slow ones together have to end within the time of a run of CI. What is left out here is run
before a release, and after wide changes.

A test of several parameters does not run with all combinations of their values, but with so many that each value
of each parameter occurs (`that_cover_all_values`). Where the combinations matter, the test loops over one of them
itself. The lists below leave out more: of tests of one parameter with many values, and of those that take long.
"""

from collections.abc import Sequence
from typing import Any

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
    "test_kernels": {"test_compiled_iterations_are_the_general_ones": 3},
    "test_known_transforms": {"test_transforms_are_recognised_in_any_order_with_any_scales": 3},
    "test_nonnegative_chain": {"test_scikit_learns_own_checks_pass_with_the_divergence": 3},
    "test_unstored": {"test_the_error_is_met": 3, "test_complexity_is_kept": 2},
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
    "test_checkpoint_contents": {
        "test_other_names_sizes_dtypes_and_numbers_are_refused": ("fast", "sparse ksvd"),
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
        "test_numbas_own_setting_comes_before_all_places": (),
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
        "test_memory_follows_data_that_drift": ("fast",),
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
    "test_treelets": {
        "test_planted_blocks_are_recovered_in_95_of_100_draws": (),
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


def is_left_out(file: str, function: str, case: str, place: int) -> bool:
    """Whether a case, the ``place``-th of its function, runs with `make test-all` only."""
    words = LEFT_OUT.get(file, {}).get(function)
    if words is not None and (not words or any(word in case for word in words)):
        return True
    return place % ONE_OF.get(file, {}).get(function, 1) != 0


def unknown_names(file: str, module: object) -> list[str]:
    """Names above that a module of tests does not have."""
    names = [*ONE_OF.get(file, {}), *LEFT_OUT.get(file, {})]
    return [name for name in names if not hasattr(module, name)]
