"""A pytest plugin: `-p on_ray` runs tests that were written for the local engine over a Ray of two
raylets with one CPU each. Tests that cannot run there are skipped with a reason."""

import os

from on_nodes import LEFT_OUT as OVER_NODES
from on_nodes import leave_out

PROGRAM = "it starts a program of its own, which has no Ray in it"
WHO_DIED = "it wants the signal, exit code or rows of a dead worker, which Ray does not tell"
PACKAGES = "its packages are not in build/ray"
GPU = "the raylets have no GPU, and init() adds none"
CPUS = "it wants more CPUs than the raylets have"
SPILL = "where nodes spill is said on their machines"
STORE = "nodes have the stores of the raylets, which are larger than it wants"
ITSELF = "`ray` is Ray itself in this process"

# Besides those that are left out over nodes in general (on_nodes.py), since the engine is the same:
# names of tests (of one file, or all its tests) with shell wildcards.
LEFT_OUT = OVER_NODES | {
    # tests/py/data
    "test_asks.py::test_24_*": PROGRAM,
    "test_asks.py::test_25_quiet*": PROGRAM,
    "test_asks.py::test_26_ten_planted_bottlenecks": "it wants two CPUs on one node",
    "test_asks.py::test_4_what_killed_the_worker*": WHO_DIED,
    "test_e2e_errors.py::test_a_batch_that_ends_its_actor_does_so_four_times_at_most": WHO_DIED,
    "test_e2e_errors.py::test_a_death_*": WHO_DIED,
    "test_e2e_ops.py::test_a_description_stays_small_and_what_is_carried_goes_with_the_run": "variables that Ray sets go along",
    "test_e2e_stats.py::test_stats_name_the_bottleneck": "the pool is told as the bottleneck",
    "test_e2e_stats.py::test_what_workers_print_comes_above_the_line": PROGRAM,
    "test_examples.py::*": PROGRAM,
    "test_formats.py::test_a_write_that_is_terminated_leaves_nothing": PROGRAM,
    "test_gpu_turns.py::test_a_pool_larger_than_the_machine_is_refused_with_the_arithmetic": "there is no GPU",
    "test_gpu_turns.py::test_two_pools_and_a_task_stage_on_one_gpu": "there is no GPU",
    "test_libraries.py::test_dask": PACKAGES,
    "test_libraries.py::test_duckdb": PACKAGES,
    "test_libraries.py::test_huggingface": PACKAGES,
    "test_libraries.py::test_polars": PACKAGES,
    "test_resume.py::test_driver_killed_at_random_steps*": PROGRAM,
    "test_resume.py::test_only_what_is_missing_is_done": PROGRAM,
    "test_s3.py::*": PACKAGES,
    "test_worker_start.py::*": PROGRAM,
    # tests/py/engine
    "test_ambient_environment.py::test_the_working_directory_goes*": "the program's folder means nothing on other machines",
    "test_as_ray.py::test_absent_are_absent": PACKAGES,
    "test_as_ray.py::test_module_and_code": PROGRAM,
    "test_as_ray.py::test_script": PROGRAM,
    "test_as_ray.py::test_the_first_thing_a_program_says": PROGRAM,
    "test_as_ray.py::test_too_late": ITSELF,
    "test_knobs.py::test_address": "it is about other addresses",
    "test_knobs.py::test_nodes*": "Ray says which nodes there are",
    "test_light.py::test_workers_end_with_the_engine": "Ray has processes, too",
    "test_placement_groups.py::test_gpus*": GPU,
    "test_prints.py::test_a_forked_driver_has_prints_of_its_own": PROGRAM,
    "test_prints.py::test_a_program_that_nobody_reads_loses_nothing": PROGRAM,
    "test_prints.py::test_few_descriptors": PROGRAM,
    "test_prints.py::test_lines_of_workers_do_not_mix": PROGRAM,
    "test_prints.py::test_nothing_is_lost_at_the_end_of_the_program": PROGRAM,
    "test_prints.py::test_settings": PROGRAM,
    "test_ray_names.py::test_cluster": GPU,
    "test_ray_names.py::test_logging_config*": PROGRAM,
    "test_ray_names.py::test_the_read_only_hint_in_the_driver": PROGRAM,
    "test_side_by_side.py::test_cancel_interrupts": CPUS,
    "test_spill.py::test_a_dataset_larger_than_the_store": STORE,
    "test_spill.py::test_a_killed_driver_leaves_no_bytes": PROGRAM,
    "test_spill.py::test_directories_that_cannot_be": SPILL,
    "test_spill.py::test_results_arguments_and_streams": STORE,
    "test_tasks.py::test_younger_tasks_do_not_keep_one_of_another_kind_waiting[[]gpu]": GPU,
    "test_usage.py::test_auto_init_and_main_functions": PROGRAM,
    "test_usage.py::test_auto_init_by_many_threads_at_once": PROGRAM,
    "test_usage.py::test_ctrl_c_in_get": PROGRAM,
    "test_usage.py::test_environment_of_workers": PROGRAM,
    "test_usage.py::test_exit_with_everything_alive": PROGRAM,
    "test_usage.py::test_fork_by_the_user": PROGRAM,
    "test_usage.py::test_output_of_workers_is_shown": PROGRAM,
    "test_usage.py::test_what_the_machine_lacks_is_said": PROGRAM,
    "test_usage.py::test_workers_differ_in_random_numbers": PROGRAM,
    "test_util.py::test_pool": CPUS,
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
