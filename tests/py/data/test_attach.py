"""Trainers that skate has not started: they attach to ranks of a streaming_split, are killed, and
others continue (python/skate/data/trainers/ranks.py)."""

import json
import os
import signal
import socket
import subprocess
import sys
from random import Random

import numpy as np
import pytest
import rounds
import skate.data as sd
from cases import case

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
        self.p = subprocess.Popen(
            args,
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def step(self):
        """Runs the trainer to its next batch, where it stops: [epoch, ids, state]; None at the
        end."""
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
    """A Dataset with blocks of about 800 KB; the last blocks are so small that they are not in the
    store."""
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
        a.kill()  # its fourth batch is in progress
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


# ---- messages that no trainer sends


def said(ranks, *messages):
    """Attaches, sends these messages (bytes, or values that become JSON), is disconnected, and
    returns the text of the last error from the driver."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
        s.settimeout(30)
        s.connect(ranks.address)
        for m in messages:
            s.send(m if isinstance(m, bytes) else json.dumps(m).encode() + b"\n")
        answer = None
        while message := s.recv(1 << 17):
            answer = message
        return json.loads(answer.partition(b"\n")[0]).get("error") if answer else None


WRONG = [
    (b"\xff\xfe\n", "no JSON"),
    (b"{", "no JSON"),
    (b"[" * 60_000, "no JSON"),
    ([1], "list, not an object"),
    ({}, "there is no 'had'"),
    (
        {"do": "begin", "named": [0]},
        "'named' is [0], not null, or the number of an epoch and a row",
    ),
    ({"do": "begin", "named": "xx"}, "'named' is 'xx'"),
    ({"do": "begin", "named": [0, -1]}, "'named' is [0, -1]"),
    ({"do": "begin", "named": [0, 0.5]}, "'named' is [0, 0.5]"),
    ({"do": "begin", "named": [True, 0]}, "'named' is [True, 0]"),
    ({"do": "begin", "named": [10**40, 0]}, "'named' is [1000"),
    ({"do": "begin", "named": None, "rows": 3}, "there is no field 'rows'"),
    ({"do": "next", "free": 5}, "'free' is 5, not a list"),
    ({"do": "next", "free": ["0"]}, "'free' is ['0']"),
    ({"do": "next"}, "no epoch has begun"),
    ({"do": ["next"]}, "'do' is ['next'], not begin, next or leave"),
    ({"do": "rank", "rank": 0}, "'do' is 'rank'"),
    ({"do": None}, "'do' is None"),
    ({"had": "7"}, "'had' is '7'"),
    ({"had": 7}, "it is 7 rows, and this rank has got 0"),
]


def test_what_no_trainer_says_is_refused_and_nobody_else_notices(ds):
    with sd.serve_ranks(ds.streaming_split(2, equal=True, batch_size=10)) as ranks:
        for hello in (
            {"rank": "0"},
            {"rank": True},
            {"rank": -1},
            {"rank": None},
            {},
            {"rank": 0, "x": 1},
            {"do": "next"},
            [0],
            b"null",
        ):
            with case(hello):
                assert "does not understand" in said(ranks, hello)
        assert "there is no rank 2" in said(ranks, {"rank": 2})
        honest = Trainer(ranks, 0)
        for wrong, words in WRONG:
            with case(wrong):
                assert words in said(ranks, {"rank": 1}, wrong)
        other = Trainer(ranks, 1)
        first = [t.step() for t in (honest, other)]
        assert sorted(i for g in first for i in g[1]) == list(range(20))
        # in the middle of an epoch, which the next trainers do not receive any more of
        other.kill()
        for wrong in ({"do": "begin", "named": [0]}, {"had": 10**9}, b"\x00"):
            with case(wrong):
                assert "does not understand" in said(ranks, {"rank": 1}, wrong)
        other = Trainer(ranks, 1)
        assert other.step()[1] == first[1][1]
        for t in (honest, other):
            t.go()
        assert sorted(i for g in to_the_end(honest, other) for i in g[1]) == list(range(20, 200))


def to_the_end(*trainers):
    """The remaining batches of trainers, which take turns, since none may get far ahead of the
    others."""
    out, left = [], list(trainers)
    while left:
        for t in list(left):
            got = t.step()
            if got is None:
                t.end()
                left.remove(t)
            else:
                out.append(got)
                t.go()
    return out


@rounds.campaign()
def test_random_changes_of_messages(ds):
    """In messages that trainers send, one thing is changed at random. A message that this test's
    own table accepts is not sent; all others must be refused, and an honest rank must finish."""
    random = Random(rounds.seed())
    with sd.serve_ranks(ds.streaming_split(1, batch_size=10)) as ranks:
        for _ in range(rounds.rounds(100)):
            message = random.choice(
                [
                    {"do": "begin", "named": [random.randrange(3), random.randrange(200)]},
                    {"do": "next", "free": [1, 2]},
                    {"do": "leave"},
                    {"had": 10},
                ]
            )
            data = changed(random, message)
            if data and not is_valid(data):
                with case(data):
                    assert "does not understand" in said(ranks, {"rank": 0}, data)
        it = sd.attach(ranks.address, 0)
        assert sum(len(b["id"]) for b in it.iter_batches(batch_size=10)) == 200
        it.close()


def changed(random, message):
    """A message with one change: a byte, a value or a field."""
    data = bytearray(json.dumps(message).encode() + b"\n")
    how = random.randrange(4)
    if how == 0:
        data[random.randrange(len(data))] = random.randrange(256)
        return bytes(data)
    if how == 1:
        return bytes(data[: random.randrange(len(data))])
    odd = random.choice(
        [
            None,
            True,
            -1,
            0.5,
            1 << 70,
            "x",
            "",
            [],
            [0],
            [0, 0, 0],
            [[0, 0]],
            {},
            {"a": 1},
            "begin",
            [None, 0],
            float("nan"),
        ]
    )
    name = random.choice([*message, "free", "do", "named", "had", "x"])
    return json.dumps({**message, name: odd}).encode() + b"\n"


def is_valid(data):
    """Whether data is a message that may be sent (also one without effect here), decided by other
    code than the driver's."""
    try:
        m = json.loads(data)
    except (ValueError, RecursionError):
        return False
    whole = lambda v: isinstance(v, int) and not isinstance(v, bool) and 0 <= v < 1 << 62  # noqa: E731
    if not isinstance(m, dict) or not all(
        map(whole, m["free"] if isinstance(m.get("free", []), list) and "free" in m else [])
    ):
        return False
    if "free" in m and not isinstance(m["free"], list):
        return False
    rest = {k: v for k, v in m.items() if k != "free"}
    if rest.keys() == {"had"}:
        # "had" must not exceed the number of rows that were sent
        return rest["had"] == 0 and whole(rest["had"])
    if rest == {"do": "leave"}:
        return True
    named = rest.get("named")
    pair = named is None or isinstance(named, list) and len(named) == 2 and all(map(whole, named))
    return rest.get("do") == "begin" and rest.keys() <= {"do", "named"} and pair
