"""Runs the same tests over every engine. `ray` is skate with an engine of 4 CPUs, which the tests
of a module share; `fresh` starts an engine with options."""

import os

import pytest

ENGINES = ["inline", "local"]
PRELOAD = {
    "preload": "numpy,light_pytest"
}  # modules that the tests import, and the workers with them


@pytest.fixture(scope="module", params=ENGINES)
def engine(request):
    import skate

    skate.shutdown()
    skate.init(
        num_cpus=4,
        num_gpus=0,
        object_store_memory=256 << 20,
        resources={"widget": 2},
        _system_config={"engine": request.param, **PRELOAD},
    )
    yield request.param
    skate.shutdown()


@pytest.fixture
def ray(engine):
    import skate

    if not skate.is_initialized():  # a test has shut it down
        skate.init(
            num_cpus=4,
            num_gpus=0,
            object_store_memory=256 << 20,
            resources={"widget": 2},
            _system_config={"engine": engine, **PRELOAD},
        )
    return skate


class Gate:
    """Holds tasks until the test releases them. A task waits by open(path, "rb", 0).read(1), with
    the gate's `path`."""

    def __init__(self, folder):
        self.path = str(folder / "gate")
        os.mkfifo(self.path)
        self.fd = os.open(self.path, os.O_RDWR)

    def let_go(self, n=1):
        os.write(self.fd, b"g" * n)


@pytest.fixture
def gate(tmp_path):
    g = Gate(tmp_path)
    yield g
    g.let_go(100)
    os.close(g.fd)


@pytest.fixture(params=ENGINES)
def fresh(request):
    """fresh(**options of init) -> skate, which is shut down after the test."""
    import skate

    def start(**kw):
        skate.shutdown()
        conf = {"engine": request.param, **PRELOAD, **kw.pop("_system_config", {})}
        skate.init(**{"num_cpus": 2, "object_store_memory": 128 << 20, **kw}, _system_config=conf)
        return skate

    start.engine = request.param
    yield start
    skate.shutdown()
