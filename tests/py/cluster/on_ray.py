"""A pytest plugin: `-p on_ray` runs tests that were written for the local engine over a Ray of two
raylets with one CPU each. Tests that cannot run there are skipped with a reason."""

import os

from on_nodes import LEFT_OUT as OVER_NODES
from on_nodes import leave_out

PROGRAM = "it starts a program of its own, which has no Ray in it"
WHO_DIED = "it wants the signal, exit code or rows of a dead worker, which Ray does not tell"
PACKAGES = "its packages are not in build/ray"

# Besides those that are left out over nodes in general (on_nodes.py), since the engine is the same:
# names of tests (of one file, or all its tests) with shell wildcards.
LEFT_OUT = OVER_NODES | {
    "test_asks.py::test_24_*": PROGRAM,
    "test_asks.py::test_25_quiet*": PROGRAM,
    "test_asks.py::test_26_ten_planted_bottlenecks": "it wants two CPUs on one node",
    "test_asks.py::test_4_what_killed_the_worker*": WHO_DIED,
    "test_e2e_errors.py::test_a_batch_that_ends_its_actor_does_so_four_times_at_most": WHO_DIED,
    "test_e2e_errors.py::test_a_death_*": WHO_DIED,
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
