"""A pytest plugin: `-p on_ray` runs tests that were written for the local engine over a Ray of two
raylets with one CPU each. Tests that cannot run there are skipped with a reason."""

import os

from on_nodes import LEFT_OUT as OVER_NODES
from on_nodes import NESTED, leave_out

PROGRAM = "it starts a program of its own, which has no Ray in it"
SPLIT = "streaming_split wants concurrency within an actor"
WHO_DIED = "it wants the signal, exit code or rows of a dead worker, which Ray does not tell"
STORE = "it reads the status or rows of state of the local engine"
PACKAGES = "its packages are not in build/ray"

# Besides those that are left out over nodes in general (on_nodes.py), since the engine is the same:
# names of tests (of one file, or all its tests) with shell wildcards. docs/design/ray_engine.md
# gives the same list in words.
LEFT_OUT = OVER_NODES | {
    "test_api_memory.py::*": STORE,
    "test_as_in_ray.py::test_constructors_and_calls_are_tried_again": NESTED,
    "test_as_in_ray.py::test_limits_of_cpus_hold[[]limit[]]": NESTED,
    "test_as_in_ray.py::test_limits_of_cpus_hold[[]exclude[]]": "it leaves no CPU of two",
    "test_as_in_ray.py::test_placement_groups_and_environments": "Ray's are not handed on",
    "test_asks.py::test_24_*": PROGRAM,
    "test_asks.py::test_25_quiet*": PROGRAM,
    "test_asks.py::test_26_ten_planted_bottlenecks": "it wants two CPUs on one node",
    "test_asks.py::test_4_what_killed_the_worker*": WHO_DIED,
    "test_asks.py::test_5_a_slow_consumer_throttles*": STORE,
    "test_asks.py::test_8_same_seed_same_sequence": STORE,
    "test_e2e_errors.py::test_a_batch_that_ends_its_actor_does_so_four_times_at_most": WHO_DIED,
    "test_e2e_errors.py::test_a_death_*": WHO_DIED,
    "test_e2e_errors.py::test_exceptions_of_any_class_are_caught_by_it*": SPLIT,
    "test_e2e_ops.py::test_a_cancel_does_not_interrupt_what_closes_a_reader": "it wants a task of two CPUs",
    "test_e2e_ops.py::test_a_description_stays_small_and_what_is_carried_goes_with_the_run": "captures go with the stage",
    "test_e2e_ops.py::test_arguments_of_functions_and_classes_are_shared_too": "captures are loaded once a stage, not once a worker",
    "test_e2e_ops.py::test_what_a_function_captures_is_loaded_once_a_worker_and_shared": "captures are loaded once a stage, not once a worker",
    "test_e2e_stats.py::test_a_stall_is_named_within_five_seconds": "nobody says when a task began, so it is told as launched",
    "test_e2e_stats.py::test_stats_name_the_bottleneck": "the pool is told as the bottleneck",
    "test_e2e_stats.py::test_the_timeline_has_an_arrow_for_each_block_that_a_task_took": STORE,
    "test_e2e_stats.py::test_what_workers_print_comes_above_the_line": PROGRAM,
    "test_examples.py::*": PROGRAM,
    "test_formats.py::test_a_write_that_is_terminated_leaves_nothing": PROGRAM,
    "test_gpu_turns.py::test_a_pool_larger_than_the_machine_is_refused_with_the_arithmetic": "there is no GPU",
    "test_gpu_turns.py::test_two_pools_and_a_task_stage_on_one_gpu": "there is no GPU",
    "test_groupby.py::test_classes_run_in_actors*": "it wants two CPUs on one node",
    "test_in_workers.py::*": NESTED,
    "test_libraries.py::test_dask": PACKAGES,
    "test_libraries.py::test_duckdb": PACKAGES,
    "test_libraries.py::test_huggingface": PACKAGES,
    "test_libraries.py::test_polars": PACKAGES,
    "test_long_and_wide.py::test_a_chain_goes_to_another_process": NESTED,
    "test_lookups.py::test_lookups*": NESTED,
    "test_one_schema.py::test_one_type_in_parts_and_references": "a reference inside a value",
    "test_pools.py::test_the_wait_for_actors": SPLIT,
    "test_resume.py::test_driver_killed_at_random_steps*": PROGRAM,
    "test_resume.py::test_only_what_is_missing_is_done": PROGRAM,
    "test_s3.py::*": PACKAGES,
    "test_splits.py::test_streaming_split_in_other_processes*": SPLIT,
    "test_splits.py::test_streaming_split_leaves_out_a_remainder_and_passes_errors_on": SPLIT,
    "test_worker_start.py::*": PROGRAM,
}


def pytest_collection_modifyitems(items):
    leave_out(items, LEFT_OUT, "on_ray.py")


def pytest_configure(config):
    import ray
    from test_ray import raylets

    config.skate_raylets = raylets(1)
    ray.init(address=config.skate_raylets.address, log_to_driver=False)
    os.environ["SKATE_ENGINE"] = "ray"


def pytest_unconfigure(config):
    import ray

    ray.shutdown()
    config.skate_raylets.shutdown()
