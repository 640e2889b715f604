#!/usr/bin/env python3
"""gensort and valsort for the sort programs, whose own come from a web page: 100-byte records with
a key of 10 bytes.

    gensort [-s] -c -b<first record> <records> <file>[,buf]   writes them; the sum of their CRCs
    goes to stderr, hexadecimal. -s: skewed keys
    valsort -o <summary> <file>[,buf]                          checks the order of a file; its
    summary holds the ends, the count and the sum
    valsort -s <summaries>                                     checks the order of files by their
    summaries, one behind the other; "Checksum: <sum>" to stderr

It is called by the name under which it lies. Exit status 1: the order is wrong."""

import os
import struct
import sys
import zlib

import numpy as np

RECORD, KEY = 100, 10
SUMMARY = struct.Struct(f"<{KEY}s{KEY}sQQ")


def checksum(data):
    return sum(zlib.crc32(data[i : i + RECORD]) for i in range(0, len(data), RECORD))


def keys_of(data):
    """(first 8 bytes, last 2) of each key, as numbers in the order of the bytes."""
    rows = np.frombuffer(data, np.uint8).reshape(-1, RECORD)
    return rows[:, :8].copy().view(">u8").ravel(), rows[:, 8:KEY].copy().view(">u2").ravel()


def gensort(args):
    skewed = "-s" in args
    first = int(next(a[2:] for a in args if a.startswith("-b")))
    n, path = [a for a in args if not a.startswith("-")]
    rows = np.random.default_rng(first).integers(0, 256, (int(n), RECORD), dtype=np.uint8)
    if skewed:
        rows[:, 0] = rows[:, 0].astype(np.uint16) ** 2 >> 8
    data = rows.tobytes()
    with open(path.removesuffix(",buf"), "wb") as f:
        f.write(data)
    print(f"{checksum(memoryview(data)):x}", file=sys.stderr)


def wrong(what):
    sys.exit(f"valsort: {what}")


def valsort(args):
    if args[0] == "-s":
        with open(args[1], "rb") as f:
            parts = list(SUMMARY.iter_unpack(f.read()))
        for (_, last, _, _), (first, _, _, _) in zip(parts, parts[1:]):
            if first < last:
                wrong(f"a file begins with {first.hex()}, the one before it ends with {last.hex()}")
        print(
            f"Records: {sum(p[2] for p in parts)}\nChecksum: {sum(p[3] for p in parts):x}",
            file=sys.stderr,
        )
        return
    _, out, path = args
    with open(path.removesuffix(",buf"), "rb") as f:
        data = f.read()
    if len(data) % RECORD:
        wrong(f"{path} has {len(data)} bytes, which are no whole records")
    if not data:
        open(out, "wb").close()
        return
    high, low = keys_of(data)
    unsorted = np.flatnonzero(
        (high[1:] < high[:-1]) | ((high[1:] == high[:-1]) & (low[1:] < low[:-1]))
    )
    if len(unsorted):
        wrong(f"{path}: record {unsorted[0] + 1} comes before the one in front of it")
    with open(out, "wb") as f:
        f.write(
            SUMMARY.pack(
                data[:KEY], data[-RECORD : KEY - RECORD], len(high), checksum(memoryview(data))
            )
        )


if __name__ == "__main__":
    {"gensort": gensort, "valsort": valsort}[os.path.basename(sys.argv[0])](sys.argv[1:])
