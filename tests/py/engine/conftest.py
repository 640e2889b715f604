"""The same tests over every engine. `ray` is skate with an engine of 4 CPUs that the tests of a module share; `fresh` starts one with options."""

import pytest

ENGINES = ["inline", "local"]


@pytest.fixture(scope="module", params=ENGINES)
def engine(request):
    import skate

    skate.shutdown()
    skate.init(num_cpus=4, num_gpus=0, object_store_memory=256 << 20, resources={"widget": 2}, _system_config={"engine": request.param})
    yield request.param
    skate.shutdown()


@pytest.fixture
def ray(engine):
    import skate

    if not skate.is_initialized():  # a test shut it down
        skate.init(num_cpus=4, num_gpus=0, object_store_memory=256 << 20, resources={"widget": 2}, _system_config={"engine": engine})
    return skate


@pytest.fixture(params=ENGINES)
def fresh(request):
    """fresh(**options of init) -> skate; shut down after the test."""
    import skate

    def start(**kw):
        skate.shutdown()
        conf = {"engine": request.param, **kw.pop("_system_config", {})}
        skate.init(**{"num_cpus": 2, "object_store_memory": 128 << 20, **kw}, _system_config=conf)
        return skate

    start.engine = request.param
    yield start
    skate.shutdown()
