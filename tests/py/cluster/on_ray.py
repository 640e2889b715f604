"""A plugin of pytest: `-p on_ray` runs tests that were written for the local engine over a Ray of two raylets, of one CPU each."""

import os


def pytest_configure(config):
    import ray
    from test_ray import raylets

    config.skate_raylets = raylets()
    ray.init(address=config.skate_raylets.address, log_to_driver=False)
    os.environ["SKATE_ENGINE"] = "ray"


def pytest_unconfigure(config):
    import ray

    ray.shutdown()
    config.skate_raylets.shutdown()
