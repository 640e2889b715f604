"""Damaged messages of trainers, pickles of other jobs and answers of an object store: each is read
or refused, and nothing of it runs."""

import random
import subprocess
import sys
from pathlib import Path

import pytest
import rounds

HERE = Path(__file__).resolve().parent


@pytest.mark.slow
@rounds.campaign()
@pytest.mark.parametrize("target, usual", [("messages", 5_000), ("pickles", 1_000)])
def test_damaged(target, usual, tmp_path):
    args = [HERE / "outside_bytes.py", target, rounds.rounds(usual), rounds.seed()]
    r = subprocess.run(
        [sys.executable, *map(str, args)], cwd=tmp_path, capture_output=True, text=True
    )
    assert r.returncode == 0, r.stderr[-3000:]
    read, refused = map(int, r.stdout.split()[-2:])
    assert read > usual // 100 and refused > usual // 10


@pytest.mark.slow
@rounds.campaign()
def test_answers_of_an_object_store(tmp_path):
    """cloudsort before a server that answers damaged XML, headers and bodies: it ends with one
    message, or with the right output."""
    sys.path.insert(0, str(HERE.parent / "app"))
    import range_server
    from test_cloudsort_s3 import BIN, no_s3

    if no_s3:
        pytest.skip("built without libcurl")
    subprocess.run([BIN / "gensort", "2000", tmp_path / "in"], check=True)
    data = (tmp_path / "in").read_bytes()
    want = b"".join(sorted(data[i : i + 100] for i in range(0, len(data), 100)))
    rng = random.Random(rounds.seed())
    odd = [b"<", b"&lt;", b"<UploadId>", b"<Upload>" * 50, b"\0", b"x" * 70_000, b"<Key>", b""]

    damaged = []

    class Damaged(range_server.Handler):
        def answer(self, status, body=b"", declared=None, **headers):
            if rng.random() < 0.3 and not status == 206:
                damaged.append(self.command)
                if self.command != "HEAD":  # a size that is a lie cannot be found out
                    at = rng.randrange(len(body) + 1)
                    body, declared = body[:at] + rng.choice(odd) + body[at:], None
                if rng.random() < 0.5:
                    headers["ETag"] = rng.choice(["", '"', "x" * 5000, '"a" b', "&<>"])
            super().answer(status, body, declared, **headers)

    for _ in range(rounds.rounds(3)):
        server = range_server.Server(range_server.Store(seed=rng.randrange(1 << 30)))
        server.RequestHandlerClass = Damaged
        server.store.objects["in"] = data
        r = subprocess.run(
            [BIN / "cloudsort", "-s", "16m", "s3://bucket/out", "s3://bucket/in"],
            env=server.env(), capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        server.close()
        out = server.store.objects
        got = b"".join(out[k] for k in sorted(out) if k.startswith("out/part-"))
        assert r.returncode in (0, 1), (r.returncode, r.stderr[-2000:])
        if r.returncode == 0:
            assert got == want, (r.stderr, sorted(out), server.store.log)
        else:
            assert r.stderr.strip(), server.store.log
    assert damaged
