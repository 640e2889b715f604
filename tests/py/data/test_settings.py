"""Each setting of DataContext has an effect on a run. The settings that no other test checks are
checked here; a table names the tests of the others."""

import copy
import logging
import os

import pyarrow as pa
import pytest
import skate
import skate.data as sd
from fsspec.implementations.local import LocalFileSystem
from skate.data.context import _SETTINGS, DataContext

TRIED = {  # setting -> where it is tested; "here" means in this file
    "target_max_block_size": "data/test_e2e_stats.py",
    "target_min_block_size": "data/test_shuffle.py",
    "read_block_size": "here",
    "read_op_min_num_blocks": "here",
    "enable_progress_bars": "data/test_e2e_stats.py",
    "execution_options": "data/test_asks.py",
    "scheduling_policy": "data/test_e2e_stats.py",
    "scheduling_strategy": "data/test_as_in_ray.py",
    "shuffle_strategy": "data/test_shuffle.py",
    "max_errored_blocks": "data/test_bad_records.py",
    "on_error": "data/test_bad_records.py",
    "max_errors": "data/test_bad_records.py",
    "broadcast_join_bytes": "data/test_join_sizes.py",
    "replay_bytes": "here",
    "arrays_in_store": "data/test_arrays_in_store.py",
    "checkpoint_config": "data/test_resume.py",
    "enable_auto_log_stats": "here",
    "verbose_stats_logs": "here",
    "max_tasks_in_flight_per_actor": "data/test_pools.py",
    "retried_io_errors": "here",
    "raise_original_map_exception": "here",
    "log_internal_stack_trace_to_stdout": "here",
    "enable_fallback_to_arrow_object_ext_type": "data/test_as_in_ray.py",
    "arrow_fixed_shape_tensor_format": "data/test_extensions.py",
    "wait_for_min_actors_s": "data/test_pools.py",
    "actor_task_retry_on_errors": "data/test_as_in_ray.py",
    "actor_init_retry_on_errors": "data/test_as_in_ray.py",
    "actor_init_max_retries": "here",
    "enable_pandas_block": "data/test_as_in_ray.py",
    "enable_tensor_extension_casting": "data/test_extensions.py",
    "trust_pickled_columns": "data/test_untrusted_bytes.py",
    "page": "page/test_engine.py",
}


@pytest.fixture
def context():
    mine = DataContext.get_current()
    DataContext._set_current(mine.copy())
    yield DataContext.get_current()
    DataContext._set_current(mine)


def test_every_setting_is_tried():
    assert TRIED.keys() == _SETTINGS.keys(), "a new setting needs a test that it is heard"
    tests = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for name, where in TRIED.items():
        path = __file__ if where == "here" else os.path.join(tests, where)
        with open(path) as f:
            text = f.read()
        assert f"context.{name} = " in text if where == "here" else name in text, (
            f"{where} does not try {name}"
        )


def test_read_block_size(context):
    context.read_block_size = 8 * 1000
    assert sd.range(10_000).materialize().num_blocks() == 10
    assert sd.from_items(list(range(10))).materialize().num_blocks() > 1
    context.read_block_size = 80 << 20
    assert sd.range(10_000).materialize().num_blocks() < 10


class Asked(sd.Datasource):
    def __init__(self, heard):
        self.heard = heard

    def estimate_inmemory_data_size(self):
        return 1

    def get_read_tasks(self, parallelism, *args, **kwargs):
        self.heard.append(parallelism)
        return [sd.ReadTask(lambda: [pa.table({"a": [1]})], sd.block.BlockMetadata(1, 8))]


def test_read_op_min_num_blocks(context):
    heard: list[int] = []
    context.read_op_min_num_blocks = 37
    assert sd.read_datasource(Asked(heard)).count() == 1
    assert heard == [37]


@pytest.mark.parametrize("verbose", [False, True])
def test_statistics_in_the_log(context, caplog, verbose):
    def logged():
        with caplog.at_level(logging.INFO, "ray.data"):
            assert sd.range(10).map(lambda r: r).count() == 10
        return [r.getMessage() for r in caplog.records if r.name == "ray.data"]

    assert not any("Bottleneck" in text for text in logged())
    context.enable_auto_log_stats = True
    context.verbose_stats_logs = verbose
    (text,) = (text for text in logged() if "Bottleneck" in text)
    assert "ReadRange" in text and ('"bottleneck_label"' in text) is verbose


class Own(Exception):
    pass


def _raises(row):
    raise Own("mine")


def _error():
    with pytest.raises(Own) as e:
        sd.range(1).map(_raises).take_all()
    return e.value


def test_the_original_exception(context):
    assert isinstance(_error(), skate.exceptions.UserCodeException)
    context.raise_original_map_exception = True
    assert type(_error()) is Own


def test_frames_of_skate_in_errors(context):
    def frames(e):
        tb, files = e.__traceback__, []
        while tb is not None:
            files.append(tb.tb_frame.f_code.co_filename)
            tb = tb.tb_next
        return [f for f in files if f"{os.sep}skate{os.sep}" in f]

    assert not frames(_error())
    context.log_internal_stack_trace_to_stdout = True
    assert frames(_error())


def test_replay_bytes(context):
    assert "skate replay" in str(_error())
    context.replay_bytes = 0
    assert "skate replay" not in str(_error())


class Flaky(LocalFileSystem):
    """Refuses to open a file at the first attempt."""

    protocol = "flaky"

    def _open(self, path, mode="rb", **kwargs):
        if mode == "rb":
            try:
                os.close(os.open(f"{path}.asked", os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                pass
            else:
                raise OSError("the quota of this second is used up")
        return super()._open(path, mode, **kwargs)


def test_retried_io_errors(context, tmp_path):
    for name in "ab":
        (tmp_path / name).write_text("1\n2\n")

    def read(name):
        return sd.read_text(
            str(tmp_path / name), filesystem=Flaky(skip_instance_cache=True)
        ).take_all()

    with pytest.raises(OSError, match="quota of this second"):
        read("a")
    context.retried_io_errors = ["quota of this second"]
    assert read("b") == [{"text": "1"}, {"text": "2"}]


@skate.remote
class Tries:
    def __init__(self):
        self.n = 0

    def next(self):
        self.n += 1
        return self.n


@pytest.mark.parametrize("most, made", [(0, 1), (2, 3)])
def test_actor_init_max_retries(context, most, made):
    tries = Tries.remote()

    class Fails:
        def __init__(self):
            skate.get(tries.next.remote())
            raise ValueError("not today")

        def __call__(self, batch):
            return batch

    context.actor_init_retry_on_errors = True
    context.actor_init_max_retries = most
    with pytest.raises(skate.exceptions.RayError, match="not today"):
        sd.range(1).map_batches(Fails, concurrency=1).materialize()
    assert skate.get(tries.next.remote()) == made + 1


def test_a_task_in_the_driver_leaves_the_process_its_settings():
    """The inline engine runs tasks in the driver, with the settings of their Dataset."""
    ctx = DataContext.get_current()
    own = ctx.target_max_block_size

    def looks(b):
        return {**b, f"size{len(b)}": [DataContext.get_current().target_max_block_size] * 10}

    class Looks:
        def __call__(self, b):
            return looks(b)

    skate.shutdown()
    skate.init(num_cpus=2, _engine="inline")
    try:
        with DataContext.current(copy.deepcopy(ctx)):
            DataContext.get_current().target_max_block_size = 12345
            ds = sd.range(20, override_num_blocks=2).map_batches(Looks, concurrency=1)
            ds = ds.map_batches(looks)
        n = 0
        for row in ds.iter_rows():
            assert (row["size1"], row["size2"]) == (12345, 12345)
            assert DataContext.get_current() is ctx and ctx.target_max_block_size == own
            n += 1
        assert n == 20 and DataContext.get_current() is ctx
    finally:
        skate.shutdown()
        skate.init(num_cpus=2)
