"""Resumed writes: drivers are killed at every step, logs are refused or repaired, and each row is
written exactly once."""

import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import time

import forked
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import rounds
import skate
import skate.data as sd
from pyarrow import fs
from skate import _skate
from skate.data.checkpoint import CheckpointConfig, InvalidCheckpointingConfig
from skate.data.datasource import BlockBasedFileDatasink, FilenameProvider, RowBasedFileDatasink
from skate.data.write.unify_file_schemas import of_file

PROGRAM = """
import sys, os
import skate, skate.data as sd
kind, source, target, ran = sys.argv[1:]
if os.environ.get("SKATE_TEST_FAULT"):
    skate._skate.fault(os.environ["SKATE_TEST_FAULT"])
skate.init(num_cpus=2, object_store_memory=64 << 20)
def f(b):
    fd = os.open(ran, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(fd, b"%d\\n" % b["id"][0])
    os.close(fd)
    return {"id": b["id"], "part": b["id"] % 3, "y": b["id"] * 2}
class Model:
    def __call__(self, b):
        return f(b)
ds = sd.read_parquet(source, override_num_blocks=12)
ds.context.target_max_block_size, ds.context.target_min_block_size = 4000, 1000
if kind == "fused":
    ds.map_batches(f).write_parquet(target, resume=True)
elif kind == "actors":
    ds.map_batches(Model, concurrency=2, batch_size=40).filter(lambda r: r["id"] % 7 > 0).write_parquet(target, mode="overwrite", resume=True, max_rows_per_file=30)
elif kind == "typed":  # files whose types differ are written again before the commit
    ds.map_batches(lambda b: {**f(b), "x": b["id"] if b["id"][0] < 800 else b["id"] + 0.5}).write_parquet(target, resume=True)
elif kind == "csv":
    ds.map_batches(f).write_csv(target, mode="append", resume=True)
else:  # a file system that is not ours to rename in; what was there goes with the overwriting
    from pyarrow import fs
    there = fs.SubTreeFileSystem(target, fs.LocalFileSystem())
    ds.map_batches(Model, concurrency=2, batch_size=40).write_parquet("a/b", filesystem=there, mode="overwrite", resume=target + ".logs", max_rows_per_file=30)
"""
KINDS = ["fused", "actors", "csv", "typed", "remote"]
OLD = {"actors": ".", "remote": "a/b"}  # where the file that is to be removed is located
POINTS = [
    "joblog.before",
    "joblog.torn",
    "joblog.half",
    "joblog.written",
    "joblog.synced",
    "job.move",
    "job.moved",
    "job.synced",
    "joblog.cut",
]
N = 2400


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    for i in range(4):
        pq.write_table(
            pa.table({"id": list(range(i * N // 4, (i + 1) * N // 4))}),
            folder / f"{i}.parquet",
            row_group_size=N // 12,
        )
    return str(folder)


IMPORTS = "run.execute", "read.formats.parquet", "write.parquet", "write.csv", "write.resume"


def program(kind, source, target, ran, fault=None):
    forked.preload("pyarrow.parquet", "pyarrow.dataset", *(f"skate.data.{x}" for x in IMPORTS))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    env["SKATE_TEST_FAULT"] = fault or ""
    return forked.run(PROGRAM, kind, source, target, ran, env=env, errors=str(ran) + ".errors")


def files(folder):
    """{name without the job's id: path} of every visible file."""
    out = {}
    for at, dirs, names in os.walk(folder):
        dirs[:] = [d for d in dirs if not d.startswith(".")]
        for n in names:
            short = re.sub("[0-9a-f]{32}_?", "", os.path.relpath(os.path.join(at, n), folder))
            assert short not in out
            out[short] = os.path.join(at, n)
    return out


def content(folder):
    """{name without the job's id: bytes} of every visible file."""
    return {name: pathlib.Path(at).read_bytes() for name, at in files(folder).items()}


def kill(tmp_path, source, kind, kills, seed):
    """Kills drivers at random steps until `kills` have died; after each job the output equals that
    of an undisturbed one."""
    rand = random.Random(seed)
    want_dir = tmp_path / "want"
    if kind in OLD:
        (want_dir / OLD[kind]).mkdir(parents=True)
        (want_dir / OLD[kind] / "old.parquet").write_bytes(b"goes")
    r = program(kind, source, want_dir, tmp_path / "ran")
    assert r.returncode == 0, r.stderr
    want = content(want_dir)
    assert len(want) >= 12
    died = jobs = 0
    while died < kills:
        target = tmp_path / f"out{jobs}"
        jobs += 1
        if kind in OLD:
            (target / OLD[kind]).mkdir(parents=True)
            (target / OLD[kind] / "old.parquet").write_bytes(b"goes")
        while True:
            seen = content(target) if target.exists() and kind != "remote" else {}
            assert all(n in want and want[n] == b for n, b in seen.items() if n != "old.parquet"), (
                "no file that is partly there"
            )
            point = rand.choice(POINTS)
            r = program(
                kind,
                source,
                target,
                tmp_path / "ran2",
                f"{point}:kill:{1 if point == 'joblog.cut' else rand.randint(1, rand.choice([3, 12]))}",
            )
            if r.returncode == 0:
                break
            assert r.returncode == -9, r.stderr
            died += 1
        assert content(target) == want, f"seed {seed}, job {jobs}"
        assert kind == "remote" or sorted(os.listdir(target / ".skate-job")) == ["log"]
    return died


@rounds.campaign()
@pytest.mark.parametrize("kind", KINDS)
def test_driver_killed_at_random_steps(tmp_path, source, kind):
    kills = rounds.rounds(1)
    assert kill(tmp_path, source, kind, kills, rounds.seed()) >= kills


def test_only_what_is_missing_is_done(tmp_path, source):
    target, ran = tmp_path / "out", tmp_path / "ran"
    # the log has the head, and 8 of 12 units
    r = program("fused", source, target, ran, "joblog.written:kill:9")
    assert r.returncode == -9, r.stderr
    assert content(target) == {}, "nothing is seen before all is there"
    ran.unlink()
    r = program("fused", source, target, ran)
    assert r.returncode == 0, r.stderr
    assert len(ran.read_text().splitlines()) == 4
    assert sorted(pq.read_table(str(target)).column("id").to_pylist()) == list(range(N))
    ran.unlink()
    before = content(target)
    r = program("fused", source, target, ran)
    assert r.returncode == 0 and not ran.exists(), "all was there"
    assert content(target) == before


# ---- in this process


def job(source, target, add=1, **more):
    def f(b):
        return {"id": b["id"] + add}

    ds = sd.read_parquet(source, override_num_blocks=6).map_batches(f)
    ds.write_parquet(str(target), resume=more.pop("fold", True), **more)
    return ds


def broken_off(source, target, **more):
    """A job that fails half-way."""
    with pytest.raises(Exception, match="injected|cannot write"):
        job_failing(source, target, **more)


def job_failing(source, target, add=1, **more):
    real = _skate.JobLog

    class Failing:
        def __init__(self, path):
            self.log, self.left = real(path), 3

        def unit(self, *args):
            self.left -= 1
            if self.left < 0:
                raise OSError("injected")
            self.log.unit(*args)

        def __getattr__(self, name):
            return getattr(self.log, name)

    _skate.JobLog = Failing
    try:
        job(source, target, add, **more)
    finally:
        _skate.JobLog = real


def test_a_log_of_another_job_is_refused(tmp_path, source):
    target = tmp_path / "out"
    broken_off(source, target)
    with pytest.raises(ValueError, match=r"of another job.*MapBatches\(f\).*remove .*\.skate-job"):
        job(source, target, add=2)
    with pytest.raises(ValueError, match="'mode' is different"):
        job(source, target, mode="overwrite")
    with pytest.raises(ValueError, match="'write' is different"):
        job(source, target, compression="gzip")
    os.utime(os.path.join(source, "0.parquet"), ns=(1, 1))
    with pytest.raises(ValueError, match="input files' is different"):
        job(source, target)
    os.unlink(os.path.join(source, "0.parquet"))
    with pytest.raises(ValueError, match="of another job"):
        job(source, target)
    subprocess.run(
        ["rm", "-rf", target / ".skate-job"], check=True
    )  # a task of the failed run may still be removing its part (on Ray)
    job(source, target)
    assert sd.read_parquet(str(target)).count() == N * 3 // 4


def test_a_job_that_has_ended_says_so_and_does_nothing(tmp_path, caplog):
    for i in range(2):
        ds = skate.data.range(100).map_batches(lambda b: b)
        ds.write_parquet(tmp_path / "out", resume=True, mode="append")
        assert ("has ended before; nothing is done again" in caplog.text) == (i == 1)
        assert skate.data.read_parquet(tmp_path / "out").count() == 100


def test_a_job_that_has_ended_makes_room_for_another(tmp_path, source):
    target = tmp_path / "out"
    job(source, target)
    job(source, target)
    assert sd.read_parquet(str(target)).count() == N
    job(source, target, add=5)
    assert sd.read_parquet(str(target)).count() == 2 * N
    assert sorted(r["id"] for r in sd.read_parquet(str(target)).take_all()) == sorted(
        [*range(1, N + 1), *range(5, N + 5)]
    )


def test_files_that_are_gone_are_written_again(tmp_path, source, caplog):
    target = tmp_path / "out"
    job(source, target)
    before = content(target)
    os.unlink(files(target)[sorted(before)[2]])
    with open(files(target)[sorted(before)[4]], "ab") as f:
        f.write(b"more")
    job(source, target)
    assert content(target) == before


def test_damaged_logs(tmp_path, source):
    target = tmp_path / "out"
    broken_off(source, target)
    want = tmp_path / "want"
    job(source, want)
    path = target / ".skate-job" / "log"
    good = path.read_bytes()
    for at in (len(good) - 3, len(good) // 2, 40):
        again = tmp_path / f"again{at}"
        shutil.copytree(target, again)
        data = bytearray(good)
        data[at] ^= 4
        (again / ".skate-job" / "log").write_bytes(data)
        job(source, again)
        assert content(again) == content(want)
    path.write_bytes(b"something else, no log at all")
    with pytest.raises(Exception, match="no log of a job"):
        job(source, target)


def test_one_driver_at_a_time(tmp_path, source):
    target = tmp_path / "out"
    broken_off(source, target)
    log = _skate.JobLog(str(target / ".skate-job" / "log"))
    with pytest.raises(Exception, match="another process works on the job"):
        job(source, target)
    log.close()
    job(source, target)


def test_what_cannot_be_resumed(tmp_path, source):
    ds = sd.read_parquet(source)
    more = (
        ds.zip(sd.read_parquet(source).rename_columns({"id": "b"})),
        ds.repartition(3),
        ds.randomize_block_order(),
    )
    for other in (ds.limit(5), ds.union(ds), ds.materialize(), *more):
        with pytest.raises(ValueError, match="resume: .* is not possible"):
            other.write_parquet(str(tmp_path / "out"), resume=True)
    with pytest.raises(ValueError, match="min_rows_per_file"):
        ds.write_parquet(str(tmp_path / "out"), resume=True, min_rows_per_file=10)
    with pytest.raises(ValueError, match="mode is 'error'"):
        job(source, tmp_path, mode="error")
    with pytest.raises(ValueError, match="not local, and the log .* resume='/a/local/folder'"):
        ds.write_parquet(str(tmp_path / "out"), filesystem=fs.LocalFileSystem(), resume=True)
    assert not (tmp_path / "out").exists()


class Names(FilenameProvider):
    def __init__(self, same=False):
        super().__init__()
        self.same = same

    def get_filename_for_task(self, write_uuid, task_index):
        return "x.parquet" if self.same else f"mine-{write_uuid}-{task_index}.parquet"


def test_names_of_users(tmp_path, source):
    target, want = tmp_path / "out", tmp_path / "want"
    job(source, want, filename_provider=Names())
    assert len(content(want)) == 6 and all(n.startswith("mine-") for n in content(want))
    broken_off(source, target, filename_provider=Names())
    assert content(target) == {}
    job(source, target, filename_provider=Names())
    assert content(target) == content(want)
    with pytest.raises(ValueError, match="'x.parquet' to more than one file"):
        job(source, tmp_path / "same", filename_provider=Names(same=True), mode="overwrite")


def test_another_file_system(tmp_path, source):
    there = fs.SubTreeFileSystem(str(tmp_path / "store"), fs.LocalFileSystem())
    logs = str(tmp_path / "logs")
    (tmp_path / "store").mkdir()
    broken_off(source, "out", filesystem=there, fold=logs)
    assert len(os.listdir(logs)) == 1 and len(content(tmp_path / "store")) >= 3
    prefix = next(p.name for p in (tmp_path / "store" / "out").iterdir()).partition("_")[0]
    (tmp_path / "store" / "out" / f"{prefix}_000005_000009.parquet").write_bytes(
        b"of a run that was killed, and made more files of this unit"
    )
    job(source, "out", filesystem=there, fold=logs)
    assert sorted(sd.read_parquet("out", filesystem=there).to_pandas()["id"]) == list(
        range(1, N + 1)
    )
    before = content(tmp_path / "store")
    assert len(before) == 6
    os.unlink(files(tmp_path / "store")[sorted(before)[2]])
    job(source, "out", filesystem=there, fold=logs)
    assert content(tmp_path / "store") == before
    with pytest.raises(ValueError, match="of another job|mode is 'error'"):
        shutil.rmtree(logs)
        job(source, "out", filesystem=there, fold=logs, mode="error")
    ds = sd.read_parquet(source, override_num_blocks=6)
    ds.context.checkpoint_config = CheckpointConfig(checkpoint_path=logs)
    ds.write_parquet("out", filesystem=there)  # appended under other names
    assert sd.read_parquet("out", filesystem=there).count() == 2 * N and os.listdir(logs) == []


@pytest.mark.parametrize("where", ["local", "remote"])
@pytest.mark.parametrize("fmt", ["parquet", "feather", "orc"])
def test_one_schema_of_what_several_runs_have_written(tmp_path, source, where, fmt):
    """Types differ between runs, within a run, and within a unit that is done again."""
    at: dict = (
        {}
        if where == "local"
        else {"filesystem": fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())}
    )
    target = str(tmp_path / "out") if where == "local" else "out"
    logs = str(tmp_path / "logs")

    def write(stop):
        def typed(b):
            if (tmp_path / "stop").exists() and b["id"][0] >= stop:
                raise ValueError("stopped")
            return {
                "id": b["id"],
                "k": b["id"] % 2,
                "x": b["id"] if b["id"][0] < 600 else b["id"] + 0.5,
            } | ({"y": b["id"]} if b["id"][0] >= 1800 else {})

        ds = sd.read_parquet(source, override_num_blocks=6).map_batches(typed, batch_size=None)
        more: dict = {"partition_cols": ["k"]} if fmt == "parquet" else {}
        getattr(ds, f"write_{fmt}")(target, resume=logs, **at, **more)

    (tmp_path / "stop").touch()
    with pytest.raises(ValueError, match="stopped"):
        write(1200)
    (tmp_path / "stop").unlink()
    write(1200)
    files = [
        p for p in (tmp_path / "out").rglob("*.*") if p.is_file() and ".skate-job" not in str(p)
    ]
    schemas = {
        str(of_file({"format": "arrow" if fmt == "feather" else fmt, "fs": None}, str(p)))
        for p in files
    }
    assert len(files) >= 6 and len(schemas) == 1
    back = getattr(sd, f"read_{fmt}")(target, **at)
    assert dict(zip(back.schema().names, map(str, back.schema().types), strict=True)) | {
        "k": ""
    } == {
        "id": "int64",
        "x": "double",
        "y": "int64",
        "k": "",
    }
    assert sorted((r["id"], r["x"], r["y"]) for r in back.take_all() if r["id"] >= 1800) == [
        (i, i + 0.5, i) for i in range(1800, N)
    ]
    assert back.count() == N and back.sum("id") == N * (N - 1) // 2
    before = content(tmp_path / "out")
    write(1200)
    assert content(tmp_path / "out") == before, "the job has ended"


def test_empty_units_and_partitions(tmp_path, source):
    target = tmp_path / "out"
    ds = (
        sd.read_parquet(source, override_num_blocks=6)
        .filter(lambda r: r["id"] < 100)
        .map(lambda r: {"k": r["id"] % 2, "id": r["id"]})
    )
    ds.write_parquet(str(target), partition_cols=["k"], resume=True)
    assert sorted(os.listdir(target)) == [".skate-job", "k=0", "k=1"]
    assert sorted(r["id"] for r in sd.read_parquet(str(target)).take_all()) == list(range(100))
    assert ds.stats_dict()["write"]["rows"] == 100
    records = _skate.JobLog(str(target / ".skate-job" / "log")).records()
    assert [r[0] for r in records] == [1, *[2] * 6, 3, 4]


def test_random_samples_are_the_same(tmp_path, source):
    def sampled(target):
        sd.read_parquet(source, override_num_blocks=6).random_sample(0.5, seed=7).write_parquet(
            str(target), resume=True
        )

    sampled(tmp_path / "a")
    want = content(tmp_path / "a")
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    for n in sorted(want)[1:4]:
        os.unlink(files(tmp_path / "b")[n])
    sampled(tmp_path / "b")
    assert content(tmp_path / "b") == want


def test_rays_names(tmp_path, source):
    with pytest.raises(InvalidCheckpointingConfig):
        CheckpointConfig(id_column="id", checkpoint_path="s3://bucket/x")
    with pytest.raises(InvalidCheckpointingConfig):
        CheckpointConfig(id_column="")
    logs = tmp_path / "logs"
    ds = sd.read_parquet(source)
    ds.context.checkpoint_config = CheckpointConfig(id_column="id", checkpoint_path=str(logs))
    ds.write_parquet(str(tmp_path / "out"))
    assert os.listdir(logs) == [], "the log goes with success"
    assert (
        sd.read_parquet(str(tmp_path / "out")).count() == N
        and not (tmp_path / "out" / ".skate-job").exists()
    )
    ds.context.checkpoint_config = CheckpointConfig(
        checkpoint_path=str(logs), delete_checkpoint_on_success=False
    )
    for _ in range(2):
        ds.write_parquet(str(tmp_path / "out2"))
    assert len(os.listdir(logs)) == 1
    assert sd.read_parquet(str(tmp_path / "out2")).count() == N


def test_fingerprints_are_the_same_in_every_process(tmp_path):
    program = """
import functools
from skate.data.write.fingerprint import of
from skate.data.expressions import col
K = 3
class A:
    x = frozenset(["a", "b", "c"])
    def __init__(self, k): self.k = k
    def m(self, b): return b[self.k]
def g(b): return b + K
def f(b, *, c={"x", "y", "z"}): return g(b) in {"p", "q", "r"}
print([of(v).hex() for v in (f, functools.partial(f, 1), A, A(2).m, col("x") + 1, lambda r: K, {1.5: (None, b"x")})])
"""
    out = set()
    for seed in ("0", "1", "2"):
        env = {
            **os.environ,
            "PYTHONHASHSEED": seed,
            "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
        }
        r = subprocess.run(
            [sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=60
        )
        assert r.returncode == 0, r.stderr
        out.add(r.stdout)
    assert len(out) == 1
    changed = subprocess.run(
        [sys.executable, "-c", program.replace("b + K", "b - K")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        capture_output=True,
        text=True,
        timeout=60,
    ).stdout
    a, b = (eval(t) for t in (out.pop(), changed))
    assert [x == y for x, y in zip(a, b, strict=True)] == [
        False,
        False,
        True,
        True,
        True,
        True,
        True,
    ]
    assert skate.is_initialized()


def _fail(notes):
    """Fails when a task of this run has been recorded."""
    until = time.monotonic() + 30
    while not [
        n for n in notes.rglob("*.parquet") if n.stat().st_mtime_ns > notes.stat().st_mtime_ns
    ]:
        assert time.monotonic() < until, "nothing was noted"
        time.sleep(0.01)
    raise RuntimeError("after the writing")


class IdRows(RowBasedFileDatasink):
    """Writes a file for each row; a task with a row of `bad` fails after writing it."""

    def __init__(self, path, bad=(), notes=None, **args):
        super().__init__(path, file_format="txt", **args)
        self.bad, self.notes = set(bad), notes

    def write_row_to_file(self, row, file):
        file.write(f"{row['id']},{row['run']}".encode())

    def write(self, blocks, ctx):
        blocks = list(blocks)
        super().write(iter(blocks), ctx)
        if self.bad & {i for b in blocks for i in b.column("id").to_pylist()}:
            _fail(self.notes)


class IdBlocks(BlockBasedFileDatasink):
    """Writes a file for each task; else like IdRows."""

    def __init__(self, path, bad=(), notes=None, **args):
        super().__init__(path, file_format="csv", **args)
        self.bad, self.notes = set(bad), notes

    def write_block_to_file(self, block, file):
        rows = list(block.iter_rows(True))
        file.write("\n".join(f"{r['id']},{r['run']}" for r in rows).encode())
        if self.bad & {r["id"] for r in rows}:
            file.flush()
            _fail(self.notes)


def _sunk(folder):
    """{id: run} of the files in the folder; each id must occur once."""
    lines = [line.split(",") for p in folder.iterdir() for line in p.read_text().split("\n")]
    ids = [int(i) for i, _ in lines]
    assert len(set(ids)) == len(ids), "rows came twice"
    return {int(i): run for i, run in lines}


@pytest.mark.parametrize("sink", [IdRows, IdBlocks])
@pytest.mark.parametrize("forget", [True, False])
def test_a_sink_of_files_is_resumed_by_ids(tmp_path, sink, forget):
    logs, out = tmp_path / "logs", tmp_path / "out"

    def run(name, bad=()):
        ds = sd.range(200, override_num_blocks=20).map(
            lambda r, name=name: {"id": r["id"], "run": name}
        )
        ds.context.checkpoint_config = CheckpointConfig(
            id_column="id", checkpoint_path=str(logs), delete_checkpoint_on_success=forget
        )
        ds.context.target_min_block_size = 0  # one task for each block
        logs.mkdir(exist_ok=True)
        os.utime(logs)  # records made from now on are newer
        ds.write_datasink(sink(str(out), bad, logs), ray_remote_args={"max_retries": 0})

    with pytest.raises(RuntimeError, match="after the writing"):
        run("a", [150])
    with pytest.raises(RuntimeError, match="after the writing"):
        run("b", [190])
    run("c")
    got = _sunk(out)
    assert (
        sorted(got) == list(range(200)) and set(got.values()) == set("abc") and got[190] == "c"
    ), got
    (noted,) = list(logs.iterdir()) or [None]
    assert (noted is None) == forget
    run("d")  # if the records still exist, there is nothing to do; else the program writes again
    if forget:
        assert len([line for p in out.iterdir() for line in p.read_text().split("\n")]) == 400
    else:
        assert _sunk(out) == got


def test_what_a_sink_with_ids_refuses(tmp_path):
    class Own(FilenameProvider):
        def get_filename_for_row(self, row, write_uuid, task_index, block_index, row_index):
            return f"{write_uuid}-{row['id']}"

    class Fixed(FilenameProvider):
        def get_filename_for_task(self, write_uuid, task_index):
            return f"{task_index}.txt"

    ds = sd.range(10).map(lambda r: {"id": r["id"], "run": "a"})
    ds.context.checkpoint_config = CheckpointConfig(checkpoint_path=str(tmp_path / "logs"))
    with pytest.raises(InvalidCheckpointingConfig, match="id_column"):
        ds.write_datasink(IdRows(str(tmp_path / "out")))
    ds.context.checkpoint_config = CheckpointConfig(
        id_column="id", checkpoint_path=str(tmp_path / "logs")
    )
    for p in (Own(), Fixed()):
        with pytest.raises(ValueError, match="names must say"):
            ds.write_datasink(IdRows(str(tmp_path / "out"), filename_provider=p))
    ds.context.checkpoint_config = CheckpointConfig(
        id_column="key", checkpoint_path=str(tmp_path / "logs")
    )
    with pytest.raises(ValueError, match="'key' is not among the columns"):
        ds.write_datasink(IdRows(str(tmp_path / "out")))


def test_a_sink_that_overwrites_forgets_the_ids(tmp_path):
    for run in "ab":
        ds = sd.range(20, override_num_blocks=4).map(lambda r, run=run: {"id": r["id"], "run": run})
        ds.context.checkpoint_config = CheckpointConfig(
            "id", str(tmp_path / "logs"), delete_checkpoint_on_success=False
        )
        ds.write_datasink(IdRows(str(tmp_path / "out"), mode="overwrite"))
        assert _sunk(tmp_path / "out") == dict.fromkeys(range(20), run)
