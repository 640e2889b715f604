"""End-to-end tests of skate.data: the local engine with 2 CPUs, shared by the tests of a module."""

import pytest


@pytest.fixture(scope="module", autouse=True)
def engine():
    import skate

    if skate.is_initialized():
        skate.shutdown()
    # modules that the tests import, which workers need for the tests' functions
    skate.init(
        num_cpus=2, object_store_memory=1 << 30, _system_config={"preload": "numpy,light_pytest"}
    )
    yield
    skate.shutdown()
