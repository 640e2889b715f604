"""Damages bytes that Python code of skate takes from outside, and lets it read them; run by
test_outside_bytes.py in a process of its own: python outside_bytes.py TARGET ROUNDS SEED.

An audit hook ends the process if anything that is read opens a file for writing, starts a process,
runs code or makes a connection. The last line says how many inputs were read and refused."""

import base64
import json
import os
import pickle
import random
import resource
import sys

import numpy as np
import skate.data
from skate.data import preprocessors
from skate.data.exceptions import UntrustedPickleError
from skate.data.preprocessor import Preprocessor
from skate.data.trainers import ranks

ODD = [b"\x00", b"\xff", b"R", b"c", b"\x93", b"b", b".", b"}", b"]", b'"', b"\\u0000", b"1e999"]
CALLS = (
    "os.system",
    "subprocess.Popen",
    "os.exec",
    "os.fork",
    "os.posix_spawn",
    "exec",
    "socket.connect",
)
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def damaged(data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    out = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        at = rng.randrange(len(out) + 1)
        kind = rng.randrange(6)
        if kind == 0 and out:
            out[at % len(out)] ^= 1 << rng.randrange(8)
        elif kind == 1 and out:
            out[at % len(out)] = rng.randrange(256)
        elif kind == 2:
            out[at:at] = rng.choice(ODD)
        elif kind == 3:
            del out[at : at + rng.randrange(1, 9)]
        elif kind == 4:
            other = rng.choice(others)
            start = rng.randrange(len(other))
            out[at:at] = other[start : start + rng.randrange(1, 40)]
        else:
            del out[at:]
    return bytes(out)


class Runs:
    """What a pickle must not do."""

    def __reduce__(self):
        return open, ("/tmp/skate-outside-bytes", "w")


def messages():
    """Messages of trainers to the driver (serve_ranks)."""
    good = [
        {"rank": 1},
        {"do": "begin", "named": [0, 10], "free": [1, 2]},
        {"do": "next", "free": [5]},
        {"do": "leave"},
        {"had": 7, "free": []},
    ]
    corpus = [json.dumps(m).encode() + b"\n" for m in good] + [b"[" * 5000, b'{"do": {}}']

    def read(data):
        said = ranks.understood(data, first=b"rank" in data)
        assert said["do"] in ranks.SAYS

    return corpus, read, (ranks.Refused,)


def pickles():
    """Serialized preprocessors of other jobs, of which only data is read."""
    ds = skate.data.from_items([{"a": float(i), "b": str(i % 3)} for i in range(6)])
    fitted = [
        preprocessors.StandardScaler(["a"]).fit(ds),
        preprocessors.OrdinalEncoder(["b"]).fit(ds),
        preprocessors.Chain(preprocessors.MinMaxScaler(["a"]), preprocessors.OneHotEncoder(["b"])).fit(ds),
    ]  # fmt: skip
    # pickled here, without the job's signature: as if another job had sent them
    corpus = [pickle.dumps(p, protocol) for p in fitted for protocol in (2, 4, 5)]
    corpus += [pickle.dumps({"x": np.arange(5)}), pickle.dumps(Runs()), pickle.dumps([Runs()])]

    def read(data):
        Preprocessor.deserialize(base64.b64encode(data))

    return corpus, read, (Exception,)


def main(target: str, rounds: int, seed: int) -> None:
    rng, counts = random.Random(seed), {"read": 0, "refused": 0}
    corpus, read, refusals = {"messages": messages, "pickles": pickles}[target]()
    skate.shutdown()
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
    armed = False

    def hook(event, args):
        writes = event == "open" and ("w" in str(args[1]) or args[2] & WRITES)
        if armed and (event in CALLS or writes):
            sys.stderr.write(f"reading the input did {event} {args!r:.200}\n")
            sys.stderr.flush()
            os._exit(3)

    sys.addaudithook(hook)
    for data in corpus:
        try:
            read(data)
        except refusals:
            pass
    for _ in range(rounds):
        data = damaged(rng.choice(corpus), rng, corpus)
        armed = True
        try:
            read(data)
            counts["read"] += 1
        except refusals as e:
            assert not isinstance(e, AssertionError), data
            counts["refused"] += 1
        armed = False
    try:
        read(pickle.dumps(Runs()))
        raise AssertionError("a pickle that opens a file was read")
    except (UntrustedPickleError, ranks.Refused):
        pass
    print(counts["read"], counts["refused"])


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
