"""A pytest plugin: `-p on_nodes` runs tests that were written for the local engine over the engine
`cluster` of two nodes on this machine. Tests that cannot run there are skipped with a reason."""

import fnmatch
import os

import pytest

NESTED = "references and actors inside values, arguments and tasks do not travel yet"
STATE = "it reads numbers or rows of state, which nodes do not tell the driver"
SHARE = "it wants all CPUs or all memory on one node, or an error that names their sum"
DRIVER = "values that the driver puts stay in its own memory, not in a store with a limit"
LOCAL = "it is about the processes of the local engine: their memory, descriptors and ports"
GROUPS = "there are no placement groups over nodes"
LABELS = "labels of nodes are not handed on"
IDS = "ids of tasks and actors differ between a task and the driver"
TERMINAL = "a task of a node has no terminal for its debugger"
CHANNELS = "a compiled graph is called from its driver only"

# Names of tests (of one file, or all its tests) with shell wildcards.
LEFT_OUT = {
    "test_actors.py::test_a_constructor_that_raises*": IDS,
    "test_actors.py::test_actors_that_want_a_worker_get_one_in_the_order*": SHARE,
    "test_actors.py::test_an_actor_made_in_a_task_lives_with_its_handle*": NESTED,
    "test_actors.py::test_arguments_of_the_constructor*": NESTED,
    "test_actors.py::test_handles_in_tasks_and_actors*": NESTED,
    "test_actors.py::test_methods_return_their_own_arguments*": NESTED,
    "test_actors.py::test_resources_of_actors*": SHARE,
    "test_ambient_environment.py::test_another_list_for_sys_path*": SHARE,
    "test_await.py::test_callers_do_not_wait_for_each_others_arguments*": NESTED,
    "test_await.py::test_max_pending_calls_is_exact*": NESTED,
    "test_await.py::test_reference_counts*": STATE,
    "test_await.py::test_what_a_dead_worker_put_stays*": NESTED,
    "test_breakpoint.py::*": TERMINAL,
    "test_compiled.py::test_executed_from_several_processes*": CHANNELS,
    "test_compiled.py::test_results_are_passed_on*": NESTED,
    "test_dag.py::test_a_graph_that_was_changed_after_bind*": NESTED,
    "test_dag.py::test_nodes_inside_of_values*": NESTED,
    "test_dag.py::test_random_graphs_are_plain_calls*": NESTED,
    "test_empty.py::test_a_task_that_fails_after_a_result*": STATE,
    "test_empty.py::test_an_actor_keeps_what_it_returned*": NESTED,
    "test_empty.py::test_dropped_unsealed*": STATE,
    "test_empty.py::test_full_store*": DRIVER,
    "test_empty.py::test_killed_while_it_writes*": STATE,
    "test_empty.py::test_larger_than_the_store*": STATE,
    "test_empty.py::test_nothing_stays_pinned*": STATE,
    "test_empty.py::test_spilled_and_read_back*": STATE,
    "test_empty.py::test_the_object_is_the_memory*": STATE,
    "test_first_touch.py::test_put*": DRIVER,
    "test_guest.py::test_nodes_are_those_of_the_engine*": LOCAL,
    "test_knobs.py::test_every_knob_is_tried": "the tests of some knobs are left out",
    "test_knobs.py::test_lineage_bytes": STATE,
    "test_knobs.py::test_max_workers_and_idle_reap": STATE,
    "test_knobs.py::test_page": STATE,
    "test_knobs.py::test_preload_and_spin": LOCAL,
    "test_knobs.py::test_spilling": STATE,
    "test_knobs.py::test_trace*": STATE,
    "test_knobs.py::test_what_there_is*": STATE,
    "test_labels.py::test_a_fallback*": LABELS,
    "test_labels.py::test_labels_of_the_node*": LABELS,
    "test_labels.py::test_operators*": LABELS,
    "test_labels.py::test_over_a_cluster": LABELS,
    "test_labels.py::test_placement_groups*": LABELS,
    "test_labels.py::test_tasks_and_actors*": LABELS,
    "test_light.py::test_no_port_and_no_name": LOCAL,
    "test_like_ray.py::test_a_cancelled_parent_hears_that_first*": NESTED,
    "test_like_ray.py::test_cancel_from_who_was_given_the_ref*": NESTED,
    "test_like_ray.py::test_dynamic_generator_runs_again*": NESTED,
    "test_like_ray.py::test_memory_is_whole_bytes*": SHARE,
    "test_memory.py::test_a_little_that_is_free_in_the_store_keeps_no_process*": LOCAL,
    "test_memory.py::test_arrow_gives_back*": LOCAL,
    "test_memory.py::test_flat_over_jobs*": LOCAL,
    "test_memory.py::test_memory_of_init_is_a_budget*": LOCAL,
    "test_memory.py::test_objects_make_room_for_heaps*": LOCAL,
    "test_memory.py::test_off_and_retries*": LOCAL,
    "test_memory.py::test_the_message_names_who_and_how_much*": LOCAL,
    "test_memory.py::test_together_too_much_alone_enough*": LOCAL,
    "test_memory.py::test_usage_and_summary*": LOCAL,
    "test_memory.py::test_what_was_asked_for_is_the_share*": LOCAL,
    "test_placement_groups.py::test_a_group*": GROUPS,
    "test_placement_groups.py::test_capture_reaches_all_that_comes_of_it*": GROUPS,
    "test_placement_groups.py::test_children_are_captured*": GROUPS,
    "test_placement_groups.py::test_many_custom_resources*": GROUPS,
    "test_placement_groups.py::test_names_of_groups*": GROUPS,
    "test_placement_groups.py::test_other_devices*": GROUPS,
    "test_placement_groups.py::test_what_waits_and_what_is_removed*": GROUPS,
    "test_placement_groups.py::test_wrong_uses*": GROUPS,
    "test_ray_names.py::test_cluster": STATE,
    "test_ray_names.py::test_context*": IDS,
    "test_ray_names.py::test_dynamic_and_fixed_generators*": NESTED,
    "test_ray_names.py::test_free*": STATE,
    "test_ray_names.py::test_methods_travel_with_their_signature*": NESTED,
    "test_ray_names.py::test_names_of_ray_inside*": STATE,
    "test_ray_names.py::test_ref_belongs_to_its_task*": IDS,
    "test_ray_names.py::test_resources_and_labels*": LABELS,
    "test_ray_names.py::test_weak_handles*": NESTED,
    "test_side_by_side.py::test_async_calls": IDS,
    "test_side_by_side.py::test_names": NESTED,
    "test_side_by_side.py::test_threads": NESTED,
    "test_spill.py::test_a_dataset_larger_than_the_store": STATE,
    "test_spill.py::test_a_full_directory_is_passed_over": DRIVER,
    "test_spill.py::test_a_put_that_waits_can_be_interrupted": DRIVER,
    "test_spill.py::test_a_task_whose_arguments_are_all_of_the_store*": SHARE,
    "test_spill.py::test_actors": NESTED,
    "test_spill.py::test_after_a_refusal_of_the_disk_tasks_run": DRIVER,
    "test_spill.py::test_directories_in_turn": DRIVER,
    "test_spill.py::test_disk_follows_what_is_alive": STATE,
    "test_spill.py::test_files_that_somebody_cut": DRIVER,
    "test_spill.py::test_puts_come_back": STATE,
    "test_spill.py::test_quota_is_one_error_soon": DRIVER,
    "test_spill.py::test_results_arguments_and_streams": STATE,
    "test_spill.py::test_small_objects_lists_and_references_inside": STATE,
    "test_spill.py::test_summary_in_the_words_of_ray": STATE,
    "test_spill.py::test_wait_counts_what_is_on_disk": STATE,
    "test_spill.py::test_without_spilling_a_full_store_is_an_error": DRIVER,
    "test_state.py::test_a_method_goes_by_its_own_class*": STATE,
    "test_state.py::test_a_worker_that_died*": STATE,
    "test_state.py::test_actors*": STATE,
    "test_state.py::test_all_custom_resources_are_told*": STATE,
    "test_state.py::test_each_attempt_is_a_row*": STATE,
    "test_state.py::test_get_task_of_a_ref*": STATE,
    "test_state.py::test_many*": STATE,
    "test_state.py::test_memory_summary*": STATE,
    "test_state.py::test_objects*": STATE,
    "test_state.py::test_other_lists*": STATE,
    "test_state.py::test_tasks_that_ended*": STATE,
    "test_state.py::test_tasks_under_way*": STATE,
    "test_state.py::test_the_task_of_a_ref_from_another_process*": STATE,
    "test_state.py::test_timeline*": STATE,
    "test_state.py::test_workers_that_have_ended*": STATE,
    "test_tasks.py::test_a_long_error_arrives_whole*": NESTED,
    "test_tasks.py::test_resources_that_can_never_be_had*": SHARE,
    "test_usage.py::test_lineage_bytes_bounds_what_is_kept*": STATE,
    "test_user_metrics.py::test_slots_are_taken_over*": SHARE,
    "test_util.py::test_bars_of_workers": NESTED,
    "test_util.py::test_dask": NESTED,
    "test_util.py::test_object_locations": STATE,
    "test_util.py::test_queue": NESTED,
    "test_values.py::test_a_reference_as_result*": NESTED,
    "test_values.py::test_references_*": NESTED,
    "test_values.py::test_store_full*": DRIVER,
    "test_view.py::test_counts_*": STATE,
    "test_view.py::test_keeps_the_last_runs_and_the_last_errors*": STATE,
    "test_view.py::test_long_plans_say_how_much_is_left_out*": STATE,
    "test_view.py::test_shows_*": STATE,
    "test_view.py::test_the_timeline_of_an_engine_that_goes_on*": STATE,
}


def leave_out(items, left_out, plugin):
    """Skips the tests that are named in left_out. If whole folders run, it is an error that a name
    of these files matches nothing."""
    used = set()
    for item in items:
        name = f"{item.path.name}::{item.name}"
        for pattern, why in left_out.items():
            if fnmatch.fnmatchcase(name, pattern):
                used.add(pattern)
                item.add_marker(pytest.mark.skip(reason=why))
    files = {item.path.name for item in items}
    if len(files) > 1 and (
        old := [p for p in left_out if p.partition("::")[0] in files and p not in used]
    ):
        raise pytest.UsageError(f"{plugin} leaves out what is not there: {old}")


def pytest_collection_modifyitems(items):
    leave_out(items, LEFT_OUT, "on_nodes.py")


def pytest_configure(config):
    os.environ["SKATE_NODES"] = "2"
