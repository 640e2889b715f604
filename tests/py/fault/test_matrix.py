"""{tasks, actors, generators, borrowing, spilling} x {none, SIGKILL of workers, SIGSTOP of workers,
a full disk, damaged spill files}: every result equals that of the same work in plain Python. A
campaign also keeps all CPUs busy.

The store is smaller than the values of each kind of work, so that all of them spill; with a full
disk it is large enough for all rows but the last. A fault happens at random points of the work,
never after a time. Each check says which results may be lost: objects that were put or came from an
actor's call, if their bytes on disk were damaged; with a full disk, objects for which there was no
room."""

import os
import random
import resource
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import rounds
import skate
from procs import children, spill_files
from skate import _skate
from skate.exceptions import ObjectLostError, ObjectStoreFullError, OutOfDiskError

KIB, MIB = 1 << 10, 1 << 20
STORE = 8 * MIB
PATIENCE = 120  # seconds; a deadline for tests that hang
BURN = "import os\np = os.getppid()\nwhile os.getppid() == p:\n    for _ in range(100_000): pass"


@pytest.fixture(scope="module", autouse=True)
def load():
    """In a campaign, runs as many busy processes as there are CPUs, besides the engine's own."""
    burners = [
        subprocess.Popen([sys.executable, "-c", BURN])
        for _ in range(os.cpu_count() or 1 if rounds.FACTOR > 1 else 0)
    ]
    yield
    for b in burners:
        b.kill()
        b.wait()


# ---- the work, in plain Python
# ------------------------------------------------------------------------------------------------------------


def block(seed, n):
    return np.random.default_rng(seed).integers(0, 1 << 60, n // 8, dtype=np.int64)


def join(a, b):
    return a[::-1] ^ b


def pieces(seed, n, size):
    for i in range(n):
        yield block(seed * 1000 + i, size)


# ---- faults
# -------------------------------------------------------------------------------------------------------------------------------


def workers():
    return [w for server in children(os.getpid()) for w in children(server)]


class Cell:
    """One cell of the matrix: an engine, a fault, and the points of the work at which the fault
    happens."""

    def __init__(self, fault, seed, path):
        self.fault, self.path, self.rnd = fault, path, random.Random(seed)
        self.n_checks = self.n_faults = self.n_kills = 0
        self.points = set()
        self.lost, self.full = [], []
        self.small = skate.remote(num_cpus=1)(lambda x: x + 1)

    def plan(self, n):
        """The fault happens before three of the n results that are checked (a full disk: from the
        first one on)."""
        self.points = set(self.rnd.sample(range(n), min(3, n)))

    def strike(self):
        self.n_faults += 1
        if self.fault == "kill" and (pids := workers()):
            try:
                os.kill(self.rnd.choice(pids), signal.SIGKILL)
                self.n_kills += 1
            except ProcessLookupError:
                pass
        elif self.fault == "stop" and (pids := workers()):
            self.stop(self.rnd.choice(pids))
        elif self.fault == "corrupt":
            for f in spill_files(self.path):
                n = os.stat(f).st_size
                with open(f, "r+b", buffering=0) as x:
                    for _ in range(5):
                        x.seek(self.rnd.randrange(max(n, 1)))
                        x.write(self.rnd.randbytes(3000))
                    if self.rnd.random() < 0.3:
                        x.truncate(n // 2)

    def stop(self, pid):
        """Other work continues while one worker is stopped; tasks in that worker's queue wait."""
        try:
            os.kill(pid, signal.SIGSTOP)
        except ProcessLookupError:
            return
        try:
            refs = [self.small.remote(i) for i in range(8)]
            assert skate.get(refs, timeout=PATIENCE) == list(range(1, 9))
        finally:
            os.kill(pid, signal.SIGCONT)

    def check(self, ref, want, may_be_lost=False):
        if self.n_checks in self.points:
            self.strike()
        self.n_checks += 1
        try:
            got = skate.get(ref, timeout=PATIENCE)
        except (OutOfDiskError, ObjectStoreFullError) as e:
            assert self.fault == "full", e
            self.full.append(e)
        except ObjectLostError as e:
            assert self.fault == "corrupt" and may_be_lost, e
            self.lost.append(e)
        else:
            assert np.array_equal(got, want)


# ---- rows
# ---------------------------------------------------------------------------------------------------------------------------------


def tasks(cell):
    """Three layers: blocks, joins of neighbours, joins of distant joins."""
    n, size = 20, 300 * KIB
    make = skate.remote(max_retries=-1)(block)
    both = skate.remote(max_retries=-1)(join)
    cell.plan(3 * n)
    a = [make.remote(i, size) for i in range(n)]
    b = [both.remote(a[i], a[(i + 1) % n]) for i in range(n)]
    c = [both.remote(b[i], a[(i + 7) % n]) for i in range(n)]
    wa = [block(i, size) for i in range(n)]
    wb = [join(wa[i], wa[(i + 1) % n]) for i in range(n)]
    wc = [join(wb[i], wa[(i + 7) % n]) for i in range(n)]
    for refs, want in ((c, wc), (a, wa), (b, wb)):
        for i in cell.rnd.sample(range(n), n):
            cell.check(refs[i], want[i])


def actors(cell):
    """Calls in order on each of three actors, whose results become arguments of calls of the
    others."""

    @skate.remote(max_restarts=-1, max_task_retries=-1, num_cpus=0)
    class Maker:
        def __init__(self, base):
            self.base = base

        def make(self, i, size):
            return block(self.base + i, size)

        def join(self, a, b):
            return join(a, b)

    n, size = 12, 300 * KIB
    cell.plan(6 * n)
    handles = [Maker.remote(100 * k) for k in range(3)]
    made = [[h.make.remote(i, size) for i in range(n)] for h in handles]
    joined = [
        [handles[k].join.remote(made[k][i], made[(k + 1) % 3][i]) for i in range(n)]
        for k in range(3)
    ]
    want = [[block(100 * k + i, size) for i in range(n)] for k in range(3)]
    for i in range(n):
        for k in range(3):
            # its arguments may be lost, too, since they came from actors' calls, which are not run
            # again
            cell.check(joined[k][i], join(want[k][i], want[(k + 1) % 3][i]), may_be_lost=True)
            cell.check(made[k][i], want[k][i], may_be_lost=True)


def generators(cell):
    """The driver reads streams in turn; each block is also an argument of a task."""
    n, size = 14, 300 * KIB
    stream = skate.remote(num_returns="streaming", max_retries=-1)(pieces)
    both = skate.remote(max_retries=-1)(join)
    cell.plan(4 * n)
    readers = [stream.remote(s, n, size) for s in (1, 2)]
    want = [list(pieces(s, n, size)) for s in (1, 2)]
    kept = []
    for i in range(n):
        x, y = (next(r) for r in readers)
        kept.append((x, y, both.remote(x, y)))
        cell.check(kept[i // 2][0], want[0][i // 2])
    for i, (x, y, z) in enumerate(kept):
        cell.check(z, join(want[0][i], want[1][i]))
        cell.check(x, want[0][i])
        cell.check(y, want[1][i])
    for r in readers:
        with pytest.raises(StopIteration):
            next(r)


def borrowing(cell):
    """References inside values: tasks pass them on and an actor holds them after their maker has
    released its own."""
    n, size = 20, 300 * KIB
    make = skate.remote(max_retries=-1)(block)

    @skate.remote(max_retries=-1)
    def wrap(refs):
        return {"inner": refs, "new": [make.remote(777, size)]}

    @skate.remote(max_retries=-1)
    def open_all(box):
        return sum(int(skate.get(r)[5]) for r in box["inner"] + box["new"])

    @skate.remote(num_cpus=0)
    class Keeper:
        def __init__(self):
            self.kept = {}

        def keep(self, i, refs):
            self.kept[i] = refs[0]
            return i

        def value(self, i):
            return int(skate.get(self.kept[i])[7])

    keeper = Keeper.options(max_restarts=0).remote()
    del keeper  # an actor that ends now must take no object with it
    want = [block(i, size) for i in range(n)]
    new = block(777, size)
    cell.plan(3 * n)
    refs = [make.remote(i, size) for i in range(n)]
    boxes = [wrap.remote([refs[i], refs[(i + 1) % n]]) for i in range(n)]
    sums = [open_all.remote(b) for b in boxes]
    # references that a killed actor held are gone with it
    keepers = [] if cell.fault == "kill" else [Keeper.remote()]
    for k in keepers:
        assert skate.get([k.keep.remote(i, [refs[i]]) for i in range(n)], timeout=PATIENCE) == list(
            range(n)
        )
    del refs
    for i in cell.rnd.sample(range(n), n):
        inner = skate.get(boxes[i], timeout=PATIENCE)
        cell.check(inner["inner"][1], want[(i + 1) % n])
        cell.check(sums[i], int(want[i][5] + want[(i + 1) % n][5] + new[5]))
        for k in keepers:
            cell.check(k.value.remote(i), int(want[i][7]))
        cell.check(inner["new"][0], new)


def spilling(cell):
    """Puts and results of several sizes, three times the size of the store, read in any order."""
    make = skate.remote(max_retries=-1)(block)
    sizes = [10 * KIB] * 30 + [100 * KIB] * 30 + [MIB] * 12 + [2 * MIB] * 4
    cell.rnd.shuffle(sizes)
    put, want = {}, {}
    for i, size in enumerate(sizes):
        want[i] = block(i, size)
        if i % 2:
            put[i] = make.remote(i, size)
            continue
        try:
            put[i] = skate.put(want[i])
        except (OutOfDiskError, ObjectStoreFullError) as e:
            assert cell.fault == "full", e
            cell.full.append(e)
            if len(cell.full) == 2:
                break  # the disk stays full
    cell.plan(len(put))
    for i in cell.rnd.sample(sorted(put), len(put)):
        cell.check(put[i], want[i], may_be_lost=i % 2 == 0)


ROWS = [tasks, actors, generators, borrowing, spilling]


@pytest.mark.parametrize("fault", ["none", "kill", "stop", "full", "corrupt"])
@pytest.mark.parametrize("row", ROWS, ids=[r.__name__ for r in ROWS])
@rounds.campaign(600)
def test_matrix(row, fault, tmp_path):
    seed = rounds.seed()
    for i in range(rounds.rounds(1)):
        square(row, fault, seed + i, tmp_path)


def square(row, fault, seed, tmp_path):
    small = fault != "full" or row is spilling
    skate.shutdown()
    conf = {
        "preload": "numpy,light_pytest",
        **({"overflow_bytes": 0} if fault == "full" else {}),
    }  # a limit of files' sizes, as below, does not apply to mapped memory
    skate.init(
        num_cpus=2,
        object_store_memory=STORE if small else 256 * MIB,
        object_spilling_directory=str(tmp_path),
        _system_config=conf,
    )
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        cell = Cell(fault, seed, tmp_path)
        if fault == "full":
            # the disk takes 5 MiB, and no more
            resource.setrlimit(resource.RLIMIT_FSIZE, (5 * MIB, before[1]))
        row(cell)
        status = _skate.status()
        if small:
            assert status["spilled_objects"] > 0
        if fault in ("kill", "stop", "corrupt"):
            assert cell.n_faults == 3
        if fault == "kill":
            assert cell.n_kills > 0
            deadline = time.monotonic() + PATIENCE
            # the last death may not be reported yet
            while not _skate.status()["worker_deaths"]:
                assert skate.get(cell.small.remote(1), timeout=PATIENCE) == 2
                assert time.monotonic() < deadline
        if fault == "full":
            assert bool(cell.full) == (row is spilling)
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        # the engine still works: more bytes than fit, all intact
        refs = [skate.put(block(i, MIB)) for i in range(16)]
        assert all(np.array_equal(skate.get(r), block(i, MIB)) for i, r in enumerate(refs))
        assert skate.get([cell.small.remote(i) for i in range(20)], timeout=PATIENCE) == list(
            range(1, 21)
        )
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        skate.shutdown()
    assert not os.listdir(tmp_path)
