"""A pytest plugin: `-p on_nodes` runs tests that were written for the local engine over the engine
`cluster` of two nodes on this machine. Tests that cannot run there are skipped with a reason."""

import fnmatch
import os

import pytest

PEAKS = "an object that two nodes use is in both stores, and their peaks are added up"
MOVES = "a run does not count on disks of nodes, which do not tell it what they write there"
FAULTS = "it sets a fault in the driver's process, not in that of a node"
OWN = "a task sees the engine of its node, not the driver's"
SHARE = "it wants all CPUs or all memory on one node, or an error that names their sum"
DRIVER = "values that the driver puts or takes are in its own memory, not in a store with a limit"
LOCAL = "it is about the processes of the local engine: their memory, descriptors and ports"
CUSTOM = "nodes have only the first custom resources"
TERMINAL = "a task of a node has no terminal for its debugger"
CAPTURES = "what functions capture goes with each stage, not by the store"

# Names of tests (of one file, or all its tests) with shell wildcards.
LEFT_OUT = {
    # tests/py/data
    "test_api_memory.py::test_memory_of[[]ds.repartition(4).take(1)-*": PEAKS,
    "test_api_memory.py::test_memory_of[[]ds.take_all()-*": DRIVER,
    "test_api_memory.py::test_memory_of[[]ds.to_arrow()-*": DRIVER,
    "test_api_memory.py::test_memory_of[[]ds.to_arrow_refs()-*": DRIVER,
    "test_api_memory.py::test_memory_of[[]ds.to_numpy_refs()-*": DRIVER,
    "test_api_memory.py::test_memory_of[[]ds.to_pandas()-*": DRIVER,
    "test_api_memory.py::test_memory_of[[]for b in ds.repartition(target_num_rows*": PEAKS,
    "test_as_in_ray.py::test_limits_of_cpus_hold[[]*": SHARE,
    "test_as_in_ray.py::test_placement_groups_and_environments": SHARE,
    "test_e2e_ops.py::test_a_cancel_does_not_interrupt_what_closes_a_reader": SHARE,
    "test_e2e_ops.py::test_arguments_of_functions_and_classes_are_shared_too": CAPTURES,
    "test_e2e_ops.py::test_what_a_function_captures_is_loaded_once_a_worker_and_shared": CAPTURES,
    "test_error_texts.py::test_without_cloudpickle_the_package_is_named": LOCAL,
    "test_examples.py::test_docstrings": SHARE,
    "test_examples.py::test_of_the_gallery[[]large_sort*": MOVES,
    "test_groupby.py::test_classes_run_in_actors*": SHARE,
    "test_images.py::test_bad_files_and_their_paths": "which of two errors comes first differs",
    "test_own_strategy.py::test_what_a_strategy_is_told_and_one_copy_for_each_input": MOVES,
    "test_streaming_shuffle.py::test_a_pack_or_a_state_that_is_lost_is_made_again": FAULTS,
    "test_worker_start.py::test_workers_import_nothing_that_the_fork_server_could": LOCAL,
    # tests/py/engine
    "test_actors.py::test_actors_that_want_a_worker_get_one_in_the_order*": SHARE,
    "test_actors.py::test_resources_of_actors*": SHARE,
    "test_ambient_environment.py::test_another_list_for_sys_path*": SHARE,
    "test_breakpoint.py::*": TERMINAL,
    "test_empty.py::test_dropped_unsealed*": DRIVER,
    "test_empty.py::test_full_store*": DRIVER,
    "test_empty.py::test_spilled_and_read_back*": DRIVER,
    "test_empty.py::test_the_object_is_the_memory*": DRIVER,
    "test_first_touch.py::test_put*": DRIVER,
    "test_guest.py::test_nodes_are_those_of_the_engine[[]local*": "it counts one node",
    "test_knobs.py::test_every_knob_is_tried": "the tests of some knobs are left out",
    "test_knobs.py::test_preload_and_spin": LOCAL,
    "test_knobs.py::test_spilling": DRIVER,
    "test_knobs.py::test_what_there_is*": LOCAL,
    "test_light.py::test_no_port_and_no_name": LOCAL,
    "test_like_ray.py::test_memory_is_whole_bytes*": SHARE,
    "test_memory.py::test_a_little_that_is_free_in_the_store_keeps_no_process*": LOCAL,
    "test_memory.py::test_objects_make_room_for_heaps*": LOCAL,
    "test_memory.py::test_the_message_names_who_and_how_much*": LOCAL,
    "test_memory.py::test_together_too_much_alone_enough*": LOCAL,
    "test_memory.py::test_usage_and_summary*": LOCAL,
    "test_placement_groups.py::test_capture_reaches_all_that_comes_of_it*": SHARE,
    "test_placement_groups.py::test_children_are_captured*": SHARE,
    "test_placement_groups.py::test_many_custom_resources*": CUSTOM,
    "test_placement_groups.py::test_what_waits_and_what_is_removed*": SHARE,
    "test_ray_names.py::test_resources_and_labels*": SHARE,
    "test_spill.py::test_a_full_directory_is_passed_over": DRIVER,
    "test_spill.py::test_a_put_that_waits_can_be_interrupted": DRIVER,
    "test_spill.py::test_after_a_refusal_of_the_disk_tasks_run": DRIVER,
    "test_spill.py::test_directories_in_turn": DRIVER,
    "test_spill.py::test_disk_follows_what_is_alive": DRIVER,
    "test_spill.py::test_files_that_somebody_cut": DRIVER,
    "test_spill.py::test_puts_come_back": DRIVER,
    "test_spill.py::test_quota_is_one_error_soon": DRIVER,
    "test_spill.py::test_small_objects_lists_and_references_inside": DRIVER,
    "test_spill.py::test_summary_in_the_words_of_ray": DRIVER,
    "test_spill.py::test_without_spilling_a_full_store_is_an_error": DRIVER,
    "test_state.py::test_all_custom_resources_are_told*": "nodes have at most 13 custom resources",
    "test_state.py::test_memory_summary*": DRIVER,
    "test_tasks.py::test_resources_that_can_never_be_had*": SHARE,
    "test_user_metrics.py::test_slots_are_taken_over*": SHARE,
    "test_values.py::test_store_full*": DRIVER,
    "test_view.py::test_counts_values_of_a_program_without_tasks": DRIVER,
    "test_view.py::test_a_task_sees_the_engine_of_its_driver*": OWN,
}


def leave_out(items, left_out, plugin):
    """Skips the tests that are named in left_out, except over the inline engine, which has no
    nodes. If whole folders run, it is an error that a name of these files matches nothing."""
    used = set()
    for item in items:
        if item.name.partition("[")[2].startswith("inline"):
            continue
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
