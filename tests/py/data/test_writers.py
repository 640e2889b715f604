"""Several writers of one folder: programs, threads, containers; what each mode does beside the
others, and what is left of writers that die."""

import glob
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import rounds
import skate.data as sd
from pyarrow import fs as pafs
from skate import _skate
from skate.data.datasource import BlockBasedFileDatasink, FilenameProvider
from skate.data.write import stage

HELD = """
import os, sys
import skate, skate.data as sd

out, mode, first, fmt, gate = sys.argv[1:]
skate.init(num_cpus=1, object_store_memory=64 << 20)

def f(b):
    print("staged" if b["id"][0] else "begun", flush=True)
    if b["id"][0]:  # the first file is staged
        with open(gate) as g:  # a pipe: waits for the test, or its end
            g.read()
    return {"id": b["id"] + int(first)}

getattr(sd.range(2, override_num_blocks=2).map_batches(f), f"write_{fmt}")(out, mode=mode)
print("ended", flush=True)
"""


class Held:
    """A program that writes two rows, `first` and the next, and waits between them until it is
    released."""

    def __init__(self, tmp_path, out, mode="append", first=0, fmt="parquet", before=()):
        self.gate = str(tmp_path / f"gate{first}")
        os.mkfifo(self.gate)
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        command = [*before, sys.executable, "-c", HELD, str(out), mode, str(first), fmt, self.gate]
        self.p = subprocess.Popen(
            command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for line in self.p.stdout:
            if "staged" in line:
                return
        raise AssertionError(self.p.communicate()[1])

    def go(self):
        """Releases it; returns (its exit status, its stderr)."""
        with open(self.gate, "w"):
            pass
        _, said = self.p.communicate(timeout=60)
        return self.p.returncode, said

    def kill(self):
        self.p.kill()
        self.p.communicate()  # its workers must end, too, since they hold the pipes open

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.p.poll() is None:
            self.p.kill()
            self.p.communicate()


def ids(folder, fmt="parquet"):
    return sorted(r["id"] for r in getattr(sd, f"read_{fmt}")(str(folder)).take_all())


def hidden(folder):
    return [n for n in os.listdir(folder) if n.startswith(".")]


FORMATS = ["parquet", "csv", "json", "numpy", "tfrecords", "webdataset", "feather", "orc"]


def rows_of(fmt, first):
    return sd.from_items([{"id": i} for i in range(first, first + 4)], override_num_blocks=2)


@pytest.mark.parametrize("where", ["local", "pyarrow", "fsspec"])
@pytest.mark.parametrize("fmt", FORMATS)
def test_threads_that_append_at_once_lose_nothing(tmp_path, fmt, where):
    at = {"local": None, "pyarrow": pafs.LocalFileSystem(), "fsspec": fsspec.filesystem("file")}[
        where
    ]
    out, wrong, together = str(tmp_path / "out"), [], threading.Barrier(3)
    args = {"column": "id"} if fmt == "numpy" else {}

    def write(first):
        try:
            ds = (
                rows_of(fmt, first).map(lambda r: {"id.cls": r["id"]})
                if fmt == "webdataset"
                else rows_of(fmt, first)
            )
            together.wait(30)
            getattr(ds, f"write_{fmt}")(out, filesystem=at, **args)
        except Exception as e:
            wrong.append(e)

    threads = [threading.Thread(target=write, args=(10 * i,)) for i in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
    got = getattr(sd, f"read_{'numpy' if fmt == 'numpy' else fmt}")(out).take_all()
    name = {"numpy": "data", "webdataset": "cls"}.get(fmt, "id")
    assert sorted(int(r.get(name, r.get("id.cls"))) for r in got) == [
        10 * i + j for i in range(3) for j in range(4)
    ]
    assert hidden(out) == []


def test_programs_that_append_at_once_lose_nothing(tmp_path):
    out = tmp_path / "out"
    with Held(tmp_path, out, first=0) as a, Held(tmp_path, out, first=2) as b:
        assert len(hidden(out)) == 2, "neither has removed what the other has staged"
        assert a.go()[0] == 0 and b.go()[0] == 0
    sd.range(2).map(lambda r: {"id": r["id"] + 4}).write_parquet(str(out))
    assert ids(out) == [0, 1, 2, 3, 4, 5] and hidden(out) == []


def test_names_sort_as_the_rows_and_the_writes_do(tmp_path):
    for first in (0, 100, 200):
        sd.range(50, override_num_blocks=5).map(
            lambda r, first=first: {"id": r["id"] + first}
        ).write_parquet(str(tmp_path), max_rows_per_file=4)
    assert [r["id"] for r in sd.read_parquet(str(tmp_path)).take_all()] == [
        first + i for first in (0, 100, 200) for i in range(50)
    ]


def test_bytes_are_the_same_each_time(tmp_path):
    def content(folder):
        return [
            (n.partition("_")[2], open(os.path.join(folder, n), "rb").read())
            for n in sorted(os.listdir(folder))
        ]

    for fmt in FORMATS:
        ds = sd.from_items([{"id.txt": str(i), "id": i} for i in range(8)], override_num_blocks=2)
        ds = ds.select_columns("id.txt" if fmt == "webdataset" else "id")
        for _ in range(2):  # appended files are unchanged
            getattr(ds, f"write_{fmt}")(
                str(tmp_path / fmt), **({"column": "id"} if fmt == "numpy" else {})
            )
        both = content(tmp_path / fmt)
        half = len(both) // 2
        assert half and both[:half] == both[half:], fmt


def test_mode_error_beside_another_writer(tmp_path):
    out = tmp_path / "out"
    with Held(tmp_path, out, "error", 0) as a, Held(tmp_path, out, "error", 2) as b:
        assert b.go()[0] == 0
        code, said = a.go()
        assert (
            code == 1
            and "ValueError: write: while this one ran, another write put files into" in said
            and "mode is 'error'" in said
        )
    assert ids(out) == [2, 3] and hidden(out) == []


def test_mode_ignore_beside_another_writer(tmp_path):
    out = tmp_path / "out"
    with Held(tmp_path, out, "ignore", 0) as a:
        sd.range(3).write_parquet(str(out), mode="ignore")
        assert a.go()[0] == 0
    assert ids(out) == [0, 1, 2] and hidden(out) == []


def test_mode_overwrite_beside_other_writers(tmp_path):
    """Files that were appended in the meantime stay; of two writers that overwrite, the folder has
    the files of the one that commits last."""
    out = tmp_path / "out"
    sd.range(1).map(lambda r: {"id": 90}).write_parquet(str(out))
    with Held(tmp_path, out, "overwrite", 0) as a, Held(tmp_path, out, "overwrite", 2) as b:
        sd.range(1).map(lambda r: {"id": 91}).write_parquet(str(out))
        assert b.go()[0] == 0
        assert ids(out) == [2, 3, 91]
        sd.range(1).map(lambda r: {"id": 92}).write_parquet(str(out), partition_cols=None)
        assert a.go()[0] == 0
    assert ids(out) == [0, 1, 91, 92] and hidden(out) == []
    sd.range(1).write_parquet(str(out), mode="overwrite")
    assert ids(out) == [0]


def test_overwrite_takes_folders_along_and_leaves_those_of_others(tmp_path):
    out = str(tmp_path)
    rows = sd.range(6).map(lambda r: {"id": r["id"], "k": r["id"] % 3})
    rows.write_parquet(out, partition_cols=["k"])
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "k=0")
    rows.filter(lambda r: r["k"] == 1).write_parquet(out, partition_cols=["k"], mode="overwrite")
    assert os.listdir(out) == ["k=1"] and ids(out) == [1, 4]


class Names(FilenameProvider):
    def get_filename_for_task(self, write_uuid, task_index):
        return f"part-{task_index}.csv"


class OneName(FilenameProvider):
    def get_filename_for_task(self, write_uuid, task_index):
        return "all.csv"


@pytest.mark.parametrize("where", ["local", "pyarrow", "subtree", "fsspec", "memory"])
def test_names_of_users_that_are_taken_are_an_error(tmp_path, where):
    out = str(tmp_path / "out")
    at = {
        "local": None,
        "pyarrow": pafs.LocalFileSystem(),
        "subtree": pafs.SubTreeFileSystem(str(tmp_path), pafs.LocalFileSystem()),
        "fsspec": fsspec.filesystem("file"),
        "memory": None,
    }[where]
    if where == "memory":
        pytest.importorskip("pyarrow", minversion="10")
        at = pafs.SubTreeFileSystem(
            str(tmp_path), pafs.PyFileSystem(pafs.FSSpecHandler(fsspec.filesystem("file")))
        )
    to = "out" if where in ("subtree", "memory") else out
    ds = sd.range(10, override_num_blocks=2)
    ds.write_csv(to, filename_provider=Names(), filesystem=at)
    before = {p: open(p).read() for p in glob.glob(f"{out}/*")}
    with pytest.raises(
        FileExistsError,
        match=r"a file of that name is there already, of another write.*write_uuid.*part-[01]\.csv",
    ):
        sd.range(30, override_num_blocks=2).write_csv(to, filename_provider=Names(), filesystem=at)
    assert {p: open(p).read() for p in glob.glob(f"{out}/*")} == before
    sd.range(3, override_num_blocks=1).write_csv(
        to, filename_provider=Names(), filesystem=at, mode="overwrite"
    )
    assert os.listdir(out) == ["part-0.csv"] and ids(out, "csv") == [0, 1, 2]


def test_nothing_of_a_write_stays_when_a_later_name_is_taken(tmp_path):
    (tmp_path / "part-1.csv").write_text("id\n5\n")
    with pytest.raises(FileExistsError, match="part-1.csv"):
        sd.range(10, override_num_blocks=2).write_csv(str(tmp_path), filename_provider=Names())
    assert (
        os.listdir(tmp_path) == ["part-1.csv"]
        and (tmp_path / "part-1.csv").read_text() == "id\n5\n"
    )


def test_one_name_for_two_files_of_a_write_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="'all.csv' to more than one file"):
        sd.range(10, override_num_blocks=2).write_csv(str(tmp_path), filename_provider=OneName())
    assert os.listdir(tmp_path) == []


class Dying(Names):
    """The first attempt of a task dies when its first file exists."""

    def __init__(self, out):
        super().__init__()
        self.out = out

    def get_filename_for_task(self, write_uuid, task_index):
        if os.path.exists(f"{self.out}/part-0.csv") and _skate.current_task()[3] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().get_filename_for_task(write_uuid, task_index)


def test_a_task_that_runs_again_replaces_its_own_remote_file(tmp_path):
    """The file's name is from the user, so the file might belong to another write."""
    ds = sd.range(2, override_num_blocks=1)
    ds.write_csv(
        str(tmp_path),
        filename_provider=Dying(str(tmp_path)),
        filesystem=pafs.LocalFileSystem(),
        max_rows_per_file=1,
    )
    assert ids(tmp_path, "csv") == [0, 1]


def test_an_overwriting_remote_write_that_fails_leaves_what_was_there(tmp_path):
    at = pafs.LocalFileSystem()
    sd.range(3).write_parquet(str(tmp_path), filesystem=at)

    def fail(b):
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        sd.range(3).map_batches(fail).write_parquet(str(tmp_path), filesystem=at, mode="overwrite")
    assert ids(tmp_path) == [0, 1, 2]


class Lines(BlockBasedFileDatasink):
    def write_block_to_file(self, block, file):
        file.write(f"{block.num_rows()}\n".encode())


def test_a_sink_of_files_that_overwrites_leaves_what_others_stage(tmp_path):
    out = tmp_path / "out"
    sd.range(3).write_csv(str(out / "sub"))
    with Held(tmp_path, out, fmt="csv") as a:
        sd.range(2, override_num_blocks=1).write_datasink(
            Lines(str(out), mode="overwrite", file_format="txt")
        )
        assert a.go()[0] == 0
    assert sorted(n.rpartition(".")[2] for n in os.listdir(out)) == ["csv", "csv", "txt"]


def test_a_commit_that_another_write_does_not_end_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(stage, "COMMIT_S", 0.05)
    with stage.alone(str(tmp_path)):
        for mode in ("append", "overwrite"):
            with pytest.raises(
                TimeoutError, match="another process has been committing a write into"
            ):
                sd.range(2).write_parquet(str(tmp_path), mode=mode)
    assert os.listdir(tmp_path) == []
    with stage.alone(str(tmp_path), sd.SaveMode.APPEND):  # appends do not wait for each other
        sd.range(2).write_parquet(str(tmp_path))


# ---- moves that do not replace


@pytest.mark.parametrize(
    "faults", ["", "job.noreplace:fail:0", "job.noreplace:fail:0,job.link:fail:0"]
)
def test_a_move_replaces_nothing_on_any_file_system(tmp_path, faults):
    """Also if renameat2() supports no flags, and if the file system has no links."""
    a, b = tmp_path / "a", tmp_path / "b"
    if faults:
        _skate.fault(faults)
    try:
        a.write_text("new")
        assert _skate.job_move(str(a), str(b), False) and b.read_text() == "new" and not a.exists()
        a.write_text("newer")
        with pytest.raises(FileExistsError, match="b"):
            _skate.job_move(str(a), str(b), False)
        assert b.read_text() == "new" and a.read_text() == "newer"
        assert not _skate.job_move(str(a), str(tmp_path / "none" / "b"), False)
        assert _skate.job_move(str(a), str(b)) and b.read_text() == "newer" and not a.exists()
        assert (
            not _skate.job_move(str(a), str(tmp_path / "c"), False)
            and not (tmp_path / "c").exists()
        )
        if faults.count(":") < 3:  # killed between the two steps of a move by links
            os.link(b, a)
            if faults:
                assert _skate.job_move(str(a), str(b), False) and not a.exists()
    finally:
        _skate.fault("job.noreplace:count,job.link:count")


# ---- which writers are alive


def test_what_a_killed_writer_has_staged_is_removed_at_once(tmp_path):
    out = tmp_path / "out"
    with Held(tmp_path, out) as a:
        (staged,) = hidden(out)
        sd.range(1).write_parquet(str(out))
        assert hidden(out) == [staged], "it lives"
        a.kill()
    sd.range(1).write_parquet(str(out))
    assert hidden(out) == [] and ids(out) == [0, 0]


UNSHARE = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]


@pytest.mark.skipif(
    subprocess.run([*UNSHARE, "true"], capture_output=True).returncode != 0,
    reason="no namespaces of processes are to be had here",
)
def test_a_writer_whose_process_is_not_seen_lives(tmp_path):
    """As in another container on the same volume, where the writer's process has another number, or
    is not visible."""
    out = tmp_path / "out"
    with (
        Held(tmp_path, out, first=0, before=UNSHARE) as a,
        Held(tmp_path, out, first=2, before=UNSHARE) as b,
    ):
        sd.range(1).map(lambda r: {"id": 9}).write_parquet(str(out))
        assert len(hidden(out)) == 2
        assert a.go()[0] == 0
        b.kill()
    sd.range(1).map(lambda r: {"id": 10}).write_parquet(str(out))
    assert ids(out) == [0, 1, 9, 10] and hidden(out) == []


@pytest.fixture
def elsewhere(monkeypatch):
    """Makes the file system look like one whose locks only this machine sees."""
    monkeypatch.setattr(stage, "seen_by_all", lambda path: False)


def aged(path, seconds):
    s = os.stat(path)
    os.utime(path, ns=(s.st_atime_ns, s.st_mtime_ns - int(seconds * 1e9)))


def test_where_locks_tell_nothing_the_lease_does(tmp_path, elsewhere):
    a = stage.Stage(str(tmp_path), "a" * 32)
    a.make()
    os.close(a.fd)  # the lock is released, as if this machine had never seen it
    a.fd = os.open(tmp_path / "other", os.O_CREAT | os.O_RDWR)
    sd.range(1).write_parquet(str(tmp_path))
    assert hidden(tmp_path) == [f".skate-{'a' * 32}"]
    aged(os.path.join(a.path, stage.LEASE), stage.LIMIT_S - 60)
    sd.range(1).write_parquet(str(tmp_path))
    assert hidden(tmp_path) == [f".skate-{'a' * 32}"]
    aged(os.path.join(a.path, stage.LEASE), 120)
    sd.range(1).write_parquet(str(tmp_path))
    assert hidden(tmp_path) == []
    a.over.set()
    os.close(a.fd)


def test_a_lock_that_is_held_is_life_whatever_the_lease_says(tmp_path, elsewhere):
    a = stage.Stage(str(tmp_path), "a" * 32)
    a.make()
    aged(os.path.join(a.path, stage.LEASE), 10 * stage.LIMIT_S)
    sd.range(1).write_parquet(str(tmp_path))
    assert hidden(tmp_path) == [f".skate-{'a' * 32}"]
    a.end()
    assert hidden(tmp_path) == []


def test_folders_without_a_lease_go_when_they_are_old(tmp_path):
    """Folders of versions of skate that had no leases."""
    (tmp_path / ".skate-999999-abcd").mkdir()
    sd.range(1).write_parquet(str(tmp_path))
    assert len(hidden(tmp_path)) == 1
    aged(tmp_path / ".skate-999999-abcd", stage.LIMIT_S + 60)
    sd.range(1).write_parquet(str(tmp_path))
    assert hidden(tmp_path) == []


def test_what_a_writer_leaves_that_is_killed_while_it_makes_its_folder(tmp_path, monkeypatch):
    new = tmp_path / f".skate-{'b' * 32}.new"

    def left():
        new.mkdir()
        (new / stage.LEASE).touch()

    left()
    with stage.alone(str(tmp_path), sd.SaveMode.APPEND):  # another process may be making the folder
        sd.range(1).write_parquet(str(tmp_path))
        assert hidden(tmp_path) == [new.name]
    sd.range(1).write_parquet(str(tmp_path))
    assert hidden(tmp_path) == []
    monkeypatch.setattr(stage, "seen_by_all", lambda path: False)
    left()
    sd.range(1).write_parquet(str(tmp_path))
    assert hidden(tmp_path) == [new.name]
    aged(new, stage.LIMIT_S + 60)
    sd.range(1).write_parquet(str(tmp_path))
    assert hidden(tmp_path) == []


def test_the_lease_is_renewed_while_the_write_lives(tmp_path, monkeypatch):
    monkeypatch.setattr(stage, "BEAT_S", 0.01)
    a = stage.Stage(str(tmp_path), "a" * 32)
    a.make()
    lease = os.path.join(a.path, stage.LEASE)
    aged(lease, 1000)
    old, until = os.stat(lease).st_mtime_ns, time.monotonic() + 60
    while os.stat(lease).st_mtime_ns < old + 900e9:
        assert time.monotonic() < until
        time.sleep(0.005)
    a.end()
    assert os.listdir(tmp_path) == []


def test_file_systems_are_told_apart():
    assert stage.seen_by_all("/proc") is False
    kinds = subprocess.run(["stat", "-f", "-c", "%T", "."], capture_output=True, text=True).stdout
    if kinds.strip() in ("ext2/ext3", "xfs", "btrfs", "tmpfs", "overlayfs"):
        assert stage.seen_by_all(".")


# ---- resumed jobs beside other writers


def resumable(folder, rows=8, files=4):
    os.makedirs(folder, exist_ok=True)
    pq.write_table(
        pa.table({"id": list(range(rows))}),
        os.path.join(folder, "f.parquet"),
        row_group_size=rows // files,
    )
    return sd.read_parquet(str(folder), override_num_blocks=files)


def test_a_resumable_write_leaves_what_was_appended_meanwhile(tmp_path):
    out = str(tmp_path / "out")
    sd.range(1).map(lambda r: {"id": 90}).write_parquet(out)

    def beside(b):
        if b["id"][0] == 0:  # from a worker: another program
            pq.write_table(pa.table({"id": [91]}), os.path.join(out, "theirs.parquet"))
        return b

    resumable(tmp_path / "in").map_batches(beside).write_parquet(out, mode="overwrite", resume=True)
    assert ids(out) == [*range(8), 91]
    assert os.listdir(os.path.join(out, ".skate-job")) == ["log"]


def test_the_same_job_twice_appends_twice(tmp_path):
    for logs in ("a", "b"):  # two machines, each with its own logs
        resumable(tmp_path / "in").write_parquet(str(tmp_path / "out"), resume=str(tmp_path / logs))
    assert ids(tmp_path / "out") == sorted([*range(8)] * 2)


def test_told_names_survive_odd_characters(tmp_path):
    b = stage.Stage(str(tmp_path), "b" * 32)
    b.make()
    name = os.fsdecode(b"k=\xff/x.parquet")
    stage.tell(str(tmp_path), "c" * 32, [name])
    assert stage.told(b.path) == {name} and json.loads(
        open(glob.glob(f"{b.path}/.told-*")[0]).read()
    ) == [name]
    b.end()


# ---- random combinations


CHANCE = """
import os, sys, random
import skate, skate.data as sd

base, me, seed, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
rnd = random.Random(seed)
log = os.open(base + "/log", os.O_WRONLY | os.O_APPEND)
skate.init(num_cpus=1, object_store_memory=32 << 20)
for step in range(steps):
    fmt, mode, w = rnd.choice(["parquet", "csv", "json"]), rnd.choice(["append", "append", "overwrite", "error"]), 1000 * me + step
    out = f"{base}/{fmt}-{step}-error" if mode == "error" else f"{base}/{fmt}"
    ds = sd.range(60, override_num_blocks=3).map_batches(lambda b: {"w": b["id"] * 0 + w, "i": b["id"]})
    os.write(log, f"begin {w} {mode} {out}\\n".encode())
    try:
        getattr(ds, f"write_{fmt}")(out, mode=mode)
        said = "done"
    except ValueError as e:
        said = "refused" if mode == "error" and "mode is 'error'" in str(e) else f"wrong {e!r}"
    except Exception as e:
        said = f"wrong {e!r}"
    os.write(log, f"{said} {w}\\n".replace("\\n", " ").strip().encode() + b"\\n")
"""


def chance(base, seed, steps=8):
    """Four programs write into the same folders, and some are killed; then checks everything that
    must hold for the folders. Returns the number of kills."""
    rnd = random.Random(seed)
    base.mkdir()
    (base / "log").touch()
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    ps = []
    for me in range(4):
        command = [
            sys.executable,
            "-c",
            CHANCE,
            str(base),
            str(me),
            str(rnd.randrange(1 << 30)),
            str(steps),
        ]
        ps.append(
            subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        )
    killed = set()
    for me in rnd.sample(range(4), rnd.randint(1, 3)):  # at one of its steps, or within a step
        want, until = f"begin {1000 * me + rnd.randrange(steps)} ", time.monotonic() + 120
        while want not in (base / "log").read_text() and ps[me].poll() is None:
            assert time.monotonic() < until
            time.sleep(0.002)
        try:
            ps[me].wait(rnd.uniform(0, 0.03))
        except subprocess.TimeoutExpired:
            ps[me].kill()
            killed.add(me)
    for me, p in enumerate(ps):
        _, said = p.communicate(timeout=200)
        assert p.returncode == 0 or me in killed and p.returncode == -9, (
            f"seed {seed}: {said.decode()}"
        )
    writes, at = {}, 0  # number: [mode, folder, start time, end time or None, how it ended]
    for at, line in enumerate((base / "log").read_text().splitlines()):
        what, w, *more = line.split(" ")
        assert what != "wrong", f"seed {seed}: {line}"
        if what == "begin":
            writes[int(w)] = [more[0], more[1], at, None, "killed"]
        else:
            writes[int(w)][3:] = [at, what]
    for folder in sorted({v[1] for v in writes.values()}):
        check(folder, {w: v for w, v in writes.items() if v[1] == folder}, seed)
    return sum(p.returncode == -9 for p in ps)


def check(folder, writes, seed):
    fmt = os.path.basename(folder).partition("-")[0]
    if os.path.isdir(folder):
        extra = sd.from_items([{"w": -1, "i": 0}])
        getattr(extra, f"write_{fmt}")(folder)
        assert hidden(folder) == [], (
            f"seed {seed}: what dead writers have staged is left in {folder}"
        )
    rows = (
        Counter((r["w"], r["i"]) for r in getattr(sd, f"read_{fmt}")(folder).take_all())
        if os.path.isdir(folder)
        else Counter()
    )
    assert max(rows.values(), default=1) == 1, f"seed {seed}: rows twice"
    there = Counter(w for w, _ in rows)
    over = {w: v for w, v in writes.items() if v[0] == "overwrite"}
    for w, (mode, _, began, ended, how) in writes.items():
        said = f"seed {seed}: write {w} ({mode}, {how}) has {there[w]} of 60 rows in {folder}"
        if how == "done":
            assert there[w] in (0, 60), said
            # writes that may have removed it
            later = [v for o, v in over.items() if o != w and (v[3] is None or v[3] > began)]
            assert there[w] == 60 or later, said
            assert not there[w] or not any(
                v[4] == "done" and v[2] > ended for v in over.values()
            ), said
        elif how == "refused":
            assert not there[w], said
    winners = [w for w, v in over.items() if v[4] == "done" and there[w]]
    assert len(winners) <= 1, f"seed {seed}: {winners} have all overwritten {folder}"
    if any(v[4] == "done" for v in over.values()):
        assert winners or any(v[4] == "killed" and there[w] == 60 for w, v in over.items()), (
            f"seed {seed}: nobody has overwritten {folder}"
        )
    assert sum(v[0] == "error" and v[4] == "done" for v in writes.values()) <= 1, (
        f"seed {seed}: {folder} was not there for more than one write"
    )


@rounds.campaign()
def test_writers_by_chance(tmp_path):
    """Four programs, three formats, three modes, and kills: what a write has reported as written is
    there once, and nothing of dead writers is left."""
    seed = rounds.seed()
    killed = sum(chance(tmp_path / str(i), seed + i) for i in range(rounds.rounds(1)))
    print(f"{killed} programs killed")


def test_the_verdict_on_a_writer():
    for free, seen, age_s, gone in (
        (False, True, 0, False),
        (False, True, 10 * stage.LIMIT_S, False),  # alive, but slow
        (False, False, 10 * stage.LIMIT_S, False),
        (True, True, 0, True),  # killed, on a file system of this machine
        (True, False, 0, False),  # another client may hold "the" lock
        (True, False, stage.LIMIT_S, True),
        (None, False, stage.LIMIT_S - 1, False),
        (None, False, stage.LIMIT_S, True),
    ):
        assert stage.is_gone(free, seen, age_s) is gone
    assert stage.LIMIT_S > 10 * stage.BEAT_S
