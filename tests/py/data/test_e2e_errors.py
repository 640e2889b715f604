"""What users see after an error: their own exception, once, with the operator and the place."""

import os
import time

import pytest
import skate
import skate.data as sd
from skate.data.aggregate import Max


class MyError(Exception):
    pass


def fail_at_70(r):
    if r["id"] == 70:
        raise MyError("seventy")
    return r


@pytest.mark.parametrize("how", ["rows", "batches", "actor"])
def test_the_users_own_exception(how):
    def batch(b):
        if 70 in b["id"]:
            raise MyError("seventy")
        return b

    class Model:
        def __call__(self, b):
            return batch(b)

    ds = sd.range(1000, override_num_blocks=4)
    ds = {
        "rows": lambda: ds.map(fail_at_70),
        "batches": lambda: ds.map_batches(batch),
        "actor": lambda: ds.map_batches(Model, concurrency=1),
    }[how]()
    with pytest.raises(MyError) as e:
        ds.take_all()
    text = str(e.value)
    assert "seventy" in text.splitlines()[0]
    assert "input row" in text + "".join(getattr(e.value, "__notes__", []))
    assert {
        "rows": "Map(fail_at_70)",
        "batches": "MapBatches(batch)",
        "actor": "MapBatches(Model)",
    }[how] in text + "".join(getattr(e.value, "__notes__", []))
    assert sd.range(3).map_batches(lambda b: b).count() == 3, "the engine goes on"


def test_constructor_error():
    class Bad:
        def __init__(self):
            raise LookupError("no model")

        def __call__(self, b):
            return b

    from skate.exceptions import ActorDiedError, UserCodeException

    with pytest.raises(LookupError, match="^LookupError: 'no model'|^LookupError: no model") as e:
        sd.range(10).map_batches(Bad, concurrency=1).take_all()
    # caught by Ray's class, and by the class for errors of functions
    assert isinstance(e.value, ActorDiedError) and isinstance(e.value, UserCodeException)
    assert "in MapBatches(Bad): constructing Bad" in str(e.value) and "stage_init" not in str(
        e.value
    )


class Two(Exception):
    def __init__(self, a, b):
        super().__init__(f"{a} and {b}")
        self.a, self.b = a, b


class Locked(OSError):
    def __init__(self, path, *, why):
        import threading

        super().__init__(5, why, path)
        self.why, self.lock = why, threading.Lock()


class Raises(sd.Datasource):
    def __init__(self, make):
        self.make = make

    def estimate_inmemory_data_size(self):
        return 1

    def get_read_tasks(self, parallelism, *args, **kwargs):
        make = self.make

        def read():
            raise make()

        return [sd.ReadTask(read, sd.block.BlockMetadata(1, 1))]


@pytest.mark.parametrize("what", ["two arguments", "a lock inside"])
def test_exceptions_of_any_class_are_caught_by_it(what, tmp_path):
    make, attributes = {
        "two arguments": (lambda: Two(1, 2), {"a": 1, "b": 2}),
        "a lock inside": (
            lambda: Locked("/p", why="bad"),
            {"why": "bad", "errno": 5, "filename": "/p"},
        ),
    }[what]

    def fail(x):
        raise make()

    class Model:
        def __init__(self):
            fail(0)

        def __call__(self, b):
            return b

    class Sink(sd.Datasink):
        def write(self, blocks, context):
            fail(0)

    ds = sd.range(2, override_num_blocks=1)
    for run in (
        lambda: skate.get(skate.remote(fail).remote(1)),
        lambda: ds.map(fail).take_all(),
        lambda: ds.map_batches(fail).write_parquet(str(tmp_path / "out")),
        lambda: ds.map_batches(Model, concurrency=1).take_all(),
        lambda: sd.read_datasource(Raises(make)).take_all(),
        lambda: ds.write_datasink(Sink()),
        lambda: list(ds.map(fail).streaming_split(1)[0].iter_batches()),
    ):
        with pytest.raises(type(make())) as e:
            run()
        assert {n: getattr(e.value, n) for n in attributes} == attributes
        assert str(make()) in str(e.value) and isinstance(e.value, skate.exceptions.RayTaskError)


@pytest.mark.parametrize("how", ["map", "map_batches", "pool"])
def test_a_death_says_operator_file_and_rows_and_can_be_replayed(how, tmp_path, monkeypatch):
    from skate.data.worker import replay
    from skate.exceptions import ActorDiedError, WorkerCrashedError

    for i in range(2):
        (tmp_path / f"f{i}.csv").write_text("x\n" + "".join(f"{100 * i + k}\n" for k in range(100)))

    def row(r):
        if r["x"] == 142:
            os._exit(3)
        return r

    def batch(b):
        if 142 in b["x"]:
            os._exit(3)
        return b

    class Model:
        def __call__(self, b):
            return batch(b)

    ds = sd.read_csv(str(tmp_path), override_num_blocks=2)
    ds = {
        "map": lambda: ds.map(row),
        "map_batches": lambda: ds.map_batches(batch, batch_size=10),
        "pool": lambda: ds.map_batches(Model, batch_size=10, concurrency=1, max_task_retries=1),
    }[how]()
    with pytest.raises(
        ActorDiedError if how == "pool" else WorkerCrashedError, match="exited with code 3"
    ) as e:
        ds.take_all()
    at, line = {
        "map": ("Map(row)", f"input row 42, row 42 of {tmp_path}/f1.csv (task 1)"),
        "map_batches": (
            "MapBatches(batch)",
            f"the batch of input rows 40..49, row 40 of {tmp_path}/f1.csv (task 1)",
        ),
        "pool": ("MapBatches(Model)", "the batch of input rows "),
    }[how]
    (said,) = [t for t in str(e.value).splitlines() if t.startswith("in ")]
    assert said.startswith(f"in {at}: {line}")
    kept = replay.load(said.split("`skate replay ")[1].split("`")[0])
    assert kept["params"]["label"] == at and len(str(e.value).splitlines()) <= 12


def test_a_batch_that_ends_its_actor_does_so_four_times_at_most(tmp_path):
    class Dies:
        def __call__(self, b):
            with open(tmp_path / "log", "a") as f:
                f.write("x")
            os._exit(1)

    with pytest.raises(
        skate.exceptions.ActorDiedError, match="in MapBatches.Dies.: the batch of input rows 0..0"
    ):
        sd.range(1).map_batches(Dies, concurrency=1).take_all()
    assert (tmp_path / "log").read_text() == "xxxx"


def test_a_death_in_a_reader_names_the_file(tmp_path):
    def make():
        def read():
            yield __import__("pyarrow").table({"a": [1]})
            os._exit(4)

        return read

    class Src(Raises):
        def get_read_tasks(self, parallelism, *args, **kwargs):
            return [sd.ReadTask(make(), sd.block.BlockMetadata(1, 1))]

    with pytest.raises(skate.exceptions.WorkerCrashedError, match="exited with code 4") as e:
        sd.read_datasource(Src(None), ray_remote_args={"max_retries": 0}).map(
            lambda r: r
        ).take_all()
    assert "\nin ReadSrc" in str(e.value)


def test_errors_of_readers_are_of_their_classes(tmp_path):
    import PIL

    (tmp_path / "a.png").write_bytes(b"no picture")
    with pytest.raises(PIL.UnidentifiedImageError, match="a.png") as e:
        sd.read_images(str(tmp_path)).take_all()
    assert isinstance(e.value, ValueError)  # the class that Ray raises
    assert "UnidentifiedImageError: read_images" in str(e.value) and "BytesIO" not in str(e.value)
    ds = sd.read_images(str(tmp_path), on_error="skip")
    ds.count()
    assert "ReadImage: 1 UnidentifiedImageError" in ds.stats()
    for read, text in (
        (sd.read_csv, b"a\n1\n"),
        (sd.read_text, b"x\n"),
        (sd.read_binary_files, b"x"),
    ):
        path = tmp_path / "gone"
        path.write_bytes(text)
        ds = read(str(path))
        path.unlink()
        with pytest.raises(FileNotFoundError, match="gone") as e:
            ds.take_all()
        assert e.value.errno == 2


def test_wrong_returns():
    for fn, words in (
        (lambda b: None, "returned None"),
        (lambda b: {"a": [1], "b": [1, 2]}, "different lengths"),
        (lambda b: {"a": 5}, "one value per row"),
    ):
        with pytest.raises((TypeError, ValueError), match=words):
            sd.range(10).map_batches(fn).take_all()


def test_what_cannot_be_sent():
    import threading

    lock = threading.Lock()
    with pytest.raises(TypeError, match="[Ll]ock"):
        sd.range(3).map(lambda r: lock and r).take_all()


def test_a_killed_worker_is_replaced(tmp_path):
    """Tasks have no effects outside, so they are run again, and the rows are the same."""

    def die_once(b):
        if 500 in b["id"] and not (tmp_path / "died").exists():
            (tmp_path / "died").touch()
            os.kill(os.getpid(), 9)
        return b

    assert [
        r["id"] for r in sd.range(1000, override_num_blocks=10).map_batches(die_once).take_all()
    ] == list(range(1000))
    assert (tmp_path / "died").exists()


def test_a_request_that_cannot_be_met_fails_before_it_starts():
    with pytest.raises(Exception, match="99|infeasible|resources"):
        sd.range(10).map_batches(lambda b: b, num_cpus=99).take_all()


def test_missing_inputs():
    with pytest.raises(FileNotFoundError, match="/no/such"):
        sd.read_parquet("/no/such")
    with pytest.raises(FileNotFoundError, match="/no/such"):
        sd.read_binary_files("/no/such")


def test_bad_arguments():
    ds = sd.range(3)
    for call in (
        lambda: ds.map_batches(5),
        lambda: ds.map_batches(len, batch_size=0),
        lambda: ds.map_batches(len, batch_format="x"),
        lambda: ds.map_batches(len, concurrency=(1, 2)),
        lambda: ds.map_batches(len, foo=1),
        lambda: ds.filter(),
        lambda: ds.limit(-1),
        lambda: sd.range(-1),
        lambda: sd.range(3, override_num_blocks=0),
        lambda: ds.select_columns("zz"),
        lambda: ds.iter_batches(batch_size=0),
        lambda: ds.map_batches(len, fn_constructor_args=(1,)),
    ):
        with pytest.raises((TypeError, ValueError, KeyError)):
            call()


def test_quiet(capfd):
    sd.range(1000).map_batches(lambda b: b).map(lambda r: r).take_all()
    out = capfd.readouterr()
    assert out.out == "" and out.err == ""


def test_engine_is_still_there():
    assert skate.is_initialized()


class DiesOften:
    """Ends the process in every fourth batch, at the first attempt."""

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, batch):
        mark = os.path.join(self.folder, str(batch["id"][0]))
        if batch["id"][0] % 40 == 0 and not os.path.exists(mark):
            os.close(os.open(mark, os.O_CREAT))
            os._exit(1)
        return batch


def test_a_pool_that_dies_often_ends(tmp_path):
    """Without a batch size each block is one call: calls that ended before a death are not run
    again."""
    ds = sd.range(400, override_num_blocks=40).map_batches(
        DiesOften, fn_constructor_args=(str(tmp_path),), concurrency=2, num_cpus=0.5
    )
    assert [r["id"] for r in ds.take_all()] == list(range(400))
    assert len(list(tmp_path.iterdir())) == 10


def frames_of(call):
    import traceback

    try:
        call()
    except BaseException as e:
        return e, [f.filename for f in traceback.extract_tb(e.__traceback__)]
    raise AssertionError("it did not raise")


def interrupted(ds):
    import signal
    import threading

    begun = threading.Event()

    def kill():
        if begun.wait(60):
            os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=kill, daemon=True).start()
    for row in ds.iter_rows():
        begun.set()
        while True:
            time.sleep(0.001)


def test_what_is_told_has_no_frames_of_skate():
    import threading

    lock, ds = threading.Lock(), sd.range(4)
    for call, kind, words in (
        (
            lambda: ds.map(lambda r: r, num_gpus=1).take_all(),
            skate.exceptions.TaskUnschedulableError,
            "1 GPU, but this machine was given 0 GPU",
        ),
        (
            lambda: ds.map(lambda r: r, memory=1e12).take_all(),
            skate.exceptions.TaskUnschedulableError,
            "asks for 931.3 GiB of memory",
        ),
        (
            lambda: ds.map(lambda r: lock).take_all(),
            TypeError,
            "closure variable lock: threading.Lock cannot be sent",
        ),
        (lambda: skate.remote(lambda: lock).remote(), TypeError, "threading.Lock cannot be sent"),
        (lambda: skate.put(lock), TypeError, "threading.Lock cannot be sent"),
        (lambda: skate.remote(lambda: 1).remote(5), TypeError, "too many positional arguments"),
        (lambda: ds.map_batches(5), TypeError, "fn must be"),
        (lambda: ds.errors(), ValueError, "has not been run"),
        (lambda: ds.map(lambda r: 5).take_all(), ValueError, "returned a value of type int"),
        (lambda: ds.map_batches(lambda b: None).take_all(), ValueError, "returned None"),
        (lambda: interrupted(ds), KeyboardInterrupt, ""),
    ):
        e, files = frames_of(call)
        assert isinstance(e, kind) and words in str(e), repr(e)
        assert set(files) == {__file__} and os.path.dirname(skate.__file__) not in str(e), (
            files,
            str(e),
        )
        assert len(str(e).splitlines()) <= 12


def test_an_error_deep_in_a_function_has_twelve_lines_and_all_of_them_where_asked():
    def deep(n):
        if n:
            return deep(n - 1)
        try:
            {}["first"]
        except KeyError as e:
            raise MyError("below") from e

    def at_the_top(r):
        return [deep(i) for i in (20 + i for i in range(1))][0]

    with pytest.raises(MyError) as e:
        sd.range(1).map(at_the_top).take_all()
    lines = str(e.value).splitlines()
    assert (
        len(lines) <= 12
        and lines[0].endswith("MyError: below")
        and lines[1].startswith("in Map(at_the_top): input row 0")
    )
    assert (
        "in deep" in str(e.value)
        and 'raise MyError("below") from e' in str(e.value)
        and "more frames" in str(e.value)
    )
    whole = e.value.traceback_str
    assert (
        "repeated 17 more times" in whole
        and "in at_the_top" in whole
        and "KeyError: 'first'" in whole
    )


@pytest.mark.parametrize(
    "call, kind, words",
    [
        (
            lambda: sd.range(1).map_batches(len, batchsize=3),
            TypeError,
            "unexpected keyword argument 'batchsize'; did you mean 'batch_size'?",
        ),
        (lambda: sd.range(1).map(len, num_cpu=3), TypeError, "'num_cpu'; did you mean 'num_cpus'?"),
        (
            lambda: sd.read_parqet,
            AttributeError,
            "has no attribute 'read_parqet'; did you mean 'read_parquet'?",
        ),
        (lambda: skate.is_initialised, AttributeError, "did you mean 'is_initialized'?"),
        (
            lambda: skate.remote(num_cpu=1)(len),
            ValueError,
            "Invalid option keyword num_cpu for .*Did you mean 'num_cpus'?",
        ),
    ],
)
def test_a_wrong_name_is_answered_with_the_nearest(call, kind, words):
    with pytest.raises(kind, match=words.replace("?", ".")):
        call()


def test_what_is_wrong_inside_of_skate_keeps_its_frames(monkeypatch):
    from skate.data.run import execute

    monkeypatch.setattr(execute, "lower", None)
    e, files = frames_of(lambda: sd.range(1).map(lambda r: r).take_all())
    assert isinstance(e, TypeError) and files[-1] == execute.__file__


@pytest.mark.parametrize("make", [lambda: Max(), lambda: Max(lambda r: r), lambda: Max("no")])
def test_an_aggregate_without_its_column_is_a_value_error(make):
    with pytest.raises(ValueError, match=r"name of a column|no column"):
        sd.range(10).aggregate(make())
    assert sd.range(10).aggregate(Max("id")) == {"max(id)": 9}
