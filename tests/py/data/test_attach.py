"""Trainers that skate has not started: they attach to ranks of a streaming_split, are killed, and go on (python/skate/data/ranks.py)."""

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
import skate.data as sd

TRAINER = """
import json, sys
import skate, skate.data as sd
epochs, batch = int(sys.argv[1]), int(sys.argv[2])
it = sd.attach()
assert not skate.is_initialized()
for e in range(epochs):
    for b in it.iter_batches(batch_size=batch):
        assert (b["x"] == b["id"][:, None]).all()
        print(json.dumps([e, b["id"].tolist(), it.state_dict()]), flush=True)
        if sys.stdin.readline() != "go\\n":
            break
assert not skate.is_initialized()
print("end", flush=True)
"""


class Trainer:
    def __init__(self, ranks, rank, epochs=1, batch=10):
        environ = {**ranks.environ(), "RANK": str(rank)}
        args = [sys.executable, "-c", TRAINER, str(epochs), str(batch)]
        self.p = subprocess.Popen(args, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def step(self):
        """The next batch, at which it stops: [epoch, ids, state]; None at the end."""
        line = self.p.stdout.readline()
        if not line:
            raise RuntimeError(self.p.stderr.read())
        return None if line == "end\n" else json.loads(line)

    def go(self):
        self.p.stdin.write("go\n")
        self.p.stdin.flush()

    def rest(self):
        out = []
        while (got := self.step()) is not None:
            out.append(got)
            self.go()
        self.end()
        return out

    def kill(self):
        os.kill(self.p.pid, signal.SIGKILL)
        self.end(-signal.SIGKILL)

    def end(self, code=0):
        assert self.p.wait(60) == code, self.p.stderr.read()
        for f in (self.p.stdin, self.p.stdout, self.p.stderr):
            f.close()


@pytest.fixture(scope="module")
def ds():
    """Blocks of about 800 KB, and the last ones so small that they do not lie in the store."""
    big = sd.range(200, override_num_blocks=3).map_batches(
        lambda b: {"id": b["id"], "x": np.repeat(b["id"][:, None], 2000, 1)}, batch_size=None
    )
    return big.materialize()


def test_ranks_in_processes_of_their_own_get_all_rows_each_epoch(ds):
    with sd.serve_ranks(ds.streaming_split(2, equal=True, batch_size=10)) as ranks:
        trainers = [Trainer(ranks, i, epochs=2) for i in range(2)]
        for epoch in range(2):
            seen = []
            for _ in range(10):
                got = [t.step() for t in trainers]
                assert [g[0] for g in got] == [epoch, epoch] and got[0][2] == got[1][2]
                seen += [i for g in got for i in g[1]]
                for t in trainers:
                    t.go()
            assert seen == list(range(200))
        assert [t.rest() for t in trainers] == [[], []]


def test_a_trainer_that_is_killed_is_replaced_and_no_row_is_lost_or_comes_twice(ds):
    with sd.serve_ranks(ds.streaming_split(2, equal=True, batch_size=10)) as ranks:
        a, b = Trainer(ranks, 0), Trainer(ranks, 1)
        first = []
        for k in range(4):
            first += [a.step()[1], b.step()[1]]
            b.go()
            if k < 3:
                a.go()
        a.kill()  # with its fourth batch in hand
        again = Trainer(ranks, 0)
        state = again.step()
        assert state[1] == first[-2], "which comes again"
        again.go()
        rest = [g[1] for t in (again, b) for g in t.rest()]
        seen = [i for g in first + rest for i in g]
        assert sorted(seen) == list(range(200))


def test_who_may_not_attach_hears_why(ds):
    with sd.serve_ranks(ds.streaming_split(1, batch_size=10)) as ranks:
        it = sd.attach(ranks.address, 0)
        with pytest.raises(RuntimeError, match="rank 0 is taken by process"):
            sd.attach(ranks.address, 0)
        with pytest.raises(RuntimeError, match="there is no rank 5"):
            sd.attach(ranks.address, 5)
        assert len(it) == 20
        assert sum(len(b["id"]) for b in it.iter_batches(batch_size=10)) == 200
        with pytest.raises(TypeError, match="attach"):
            it.__reduce__()
        assert os.stat(os.path.dirname(ranks.address)).st_mode & 0o777 == 0o700
    with pytest.raises(ConnectionError, match="driver has ended"):
        list(it.iter_batches(batch_size=10))
    it.close()
    with pytest.raises(ConnectionError, match="nobody serves"):
        sd.attach(ranks.address, 0)
    with pytest.raises(RuntimeError, match="no address"):
        sd.attach(None, 0)
    with pytest.raises(ValueError, match="all iterators"):
        sd.serve_ranks(ds.streaming_split(2)[:1])


def test_blocks_are_let_go_when_the_arrays_over_them_are_gone(ds):
    its = ds.streaming_split(1, batch_size=10)
    with sd.serve_ranks(its) as ranks:
        it = sd.attach(ranks.address, 0)
        kept = None
        for k, b in enumerate(it.iter_batches(batch_size=10)):
            if k == 3:
                kept = b["x"]
            assert len(ranks._seats[0].pins) <= 80
        del b
        before = kept.copy()
        it._send(had=200)
        assert sum(len(x["id"]) for x in it.iter_batches(batch_size=10)) == 200
        assert (kept == before).all() and (kept[:, 0] == np.arange(30, 40)).all()
        it.close()


def test_tensors_of_a_rank_lie_over_the_store_and_may_be_written(ds):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    with sd.serve_ranks(ds.streaming_split(1, batch_size=10)) as ranks:
        it = sd.attach(ranks.address, 0)
        for _ in range(2):
            for b in it.iter_torch_batches(batch_size=10):
                assert torch.equal(b["x"], b["id"][:, None].expand(-1, 2000))
                b["x"].zero_()
        it.close()
    assert all((b["x"] == b["id"][:, None]).all() for b in ds.iter_batches(batch_size=None))
