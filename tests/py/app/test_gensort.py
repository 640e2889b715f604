"""gensort and valsort compared with the published generator, written with Python's integers, with
zlib's CRC-32, and with published checksums."""

import os
import resource
import struct
import subprocess
import zlib
from pathlib import Path

import pytest

BIN = Path(__file__).resolve().parents[3] / "build" / "dev" / "bin"
SIZE, KEY, MASK = 100, 10, (1 << 128) - 1
A, C = 0x2360ED051FC65DA44385DF649FCCF645, 0x4A696D47726179524950202020202001


def run(*args, code=0, **more):
    done = subprocess.run(
        [BIN / args[0], *map(str, args[1:])], capture_output=True, timeout=120, **more
    )
    assert done.returncode == code, done.stderr
    return done.stderr.decode()


def state(n):
    """x(n + 1) for x(0) = 0, x(i + 1) = A x(i) + C: single steps from the nearest power of two."""
    a, c, x = A, C, C
    while n:
        if n & 1:
            x = (a * x + c) & MASK
        a, c, n = a * a & MASK, (a * c + c) & MASK, n >> 1
    return x


def record(n, ascii):
    x = state(n)
    number = b"%032X" % n
    if ascii:
        key, half = bytearray(), x >> 64
        for i in range(KEY):
            if i == 8:
                half = x & (MASK >> 64)
            key.append(32 + half % 95)
            half //= 95
        digits = b"%013X" % (x & ((1 << 52) - 1))
        return (
            bytes(key) + b"  " + number + b"  " + b"".join(bytes([d]) * 4 for d in digits) + b"\r\n"
        )
    digits = b"%012X" % (x & ((1 << 48) - 1))
    fill = b"".join(bytes([d]) * 4 for d in digits)
    return (
        (x >> 48).to_bytes(KEY, "big")
        + b"\0\x11"
        + number
        + b"\x88\x99\xaa\xbb"
        + fill
        + b"\xcc\xdd\xee\xff"
    )


def checksum(records):
    return sum(zlib.crc32(r) for r in records)


def cut(data):
    return [data[i : i + SIZE] for i in range(0, len(data), SIZE)]


@pytest.mark.parametrize("ascii", [False, True])
@pytest.mark.parametrize("first", [0, 1, 999_999, 10**12, (1 << 64) - 3, 10**30])
def test_records_are_those_of_the_published_generator(tmp_path, ascii, first):
    out = run("gensort", *(["-a"] if ascii else []), "-c", f"-b{first}", 7, tmp_path / "out")
    want = [record(first + i, ascii) for i in range(7)]
    assert (tmp_path / "out").read_bytes() == b"".join(want)
    assert out == f"{checksum(want):x}\n"


def test_checksums_that_others_published(tmp_path):
    assert run("gensort", "-c", 1_000_000, tmp_path / "out,buf") == "7a27e2d0d55de\n"
    assert run("gensort", "-c", "-a", 163_840, tmp_path / "out") == "1400fed7bb2c2\n"
    assert run("gensort", "-c", 0, tmp_path / "none") == "0\n"
    assert (tmp_path / "none").read_bytes() == b""


def test_parts_are_the_whole(tmp_path):
    run("gensort", 700_000, tmp_path / "whole")
    run("gensort", "-t1", 300_001, tmp_path / "a")
    run("gensort", "-b300001", "-t2", 399_999, tmp_path / "b,trans=4m,buf")
    assert (tmp_path / "a").read_bytes() + (tmp_path / "b").read_bytes() == (
        tmp_path / "whole"
    ).read_bytes()
    piped = subprocess.run(
        [BIN / "gensort", "1000", "/dev/stdout"], capture_output=True, check=True
    ).stdout
    assert piped == (tmp_path / "whole").read_bytes()[: 1000 * SIZE]


def test_valsort_checks_order_duplicates_and_sum(tmp_path):
    path = tmp_path / "f"
    run("gensort", 5000, path)
    rows = sorted(cut(path.read_bytes()))
    rows[1001:1003] = [rows[1000][:KEY] + r[KEY:] for r in rows[1001:1003]]
    path.write_bytes(b"".join(rows))
    sums = f"Records: 5000\nChecksum: {checksum(rows):x}\n"
    assert run("valsort", path) == sums + "Duplicate keys: 2\nSUCCESS - all records are in order\n"
    assert run("valsort", "-q", path) == ""
    rows[700], rows[701] = rows[701], rows[700]
    rows[4000], rows[4001] = rows[4001], rows[4000]
    path.write_bytes(b"".join(rows))
    assert (
        run("valsort", path, code=1)
        == "First unordered record is record 701\n"
        + sums
        + "ERROR - there are 2 unordered records\n"
    )
    assert run("valsort", "-q", path, code=1) == ""


def test_ignoring_case(tmp_path):
    rows = [key + b"x" * (SIZE - KEY) for key in (b"aaaaaaaaaa", b"AAAAAAAAAB", b"aaaaaaaaab")]
    (tmp_path / "f").write_bytes(b"".join(rows))
    assert "ERROR - there are 1 " in run("valsort", tmp_path / "f", code=1)
    assert "Duplicate keys: 1\n" in run("valsort", "-i", tmp_path / "f")


@pytest.mark.parametrize("swap", [None, 10, 333, 334, 999])
def test_summaries_of_parts_say_what_the_whole_says(tmp_path, swap):
    run("gensort", 1000, tmp_path / "in")
    rows = sorted(cut((tmp_path / "in").read_bytes()))
    rows[334] = rows[333][:KEY] + rows[334][KEY:]  # the keys on both sides of the cut are equal
    if swap:
        rows[swap - 1], rows[swap] = rows[swap], rows[swap - 1]
    (tmp_path / "whole").write_bytes(b"".join(rows))
    for i, part in enumerate([rows[:334], rows[334:335], rows[335:]]):
        (tmp_path / f"part{i}").write_bytes(b"".join(part))
        bad = any(x[:KEY] > y[:KEY] for x, y in zip(part, part[1:]))
        run("valsort", "-o", tmp_path / f"sum{i}", tmp_path / f"part{i}", code=int(bad))
    (tmp_path / "sums").write_bytes(b"".join((tmp_path / f"sum{i}").read_bytes() for i in range(3)))
    bad = any(x[:KEY] > y[:KEY] for x, y in zip(rows, rows[1:]))
    whole = run("valsort", "-o", tmp_path / "sum", tmp_path / "whole", code=int(bad))
    assert (
        run("valsort", "-s", "-o", tmp_path / "joined", tmp_path / "sums", code=int(bad)) == whole
    )
    assert (tmp_path / "joined").read_bytes() == (tmp_path / "sum").read_bytes()
    numbers = struct.unpack(
        "=10Q", (tmp_path / "sum").read_bytes()[:80]
    )  # the layout of the original program: high and low words, then two records
    unordered = sum(x[:KEY] > y[:KEY] for x, y in zip(rows, rows[1:]))
    same = sum(x[:KEY] == y[:KEY] for x, y in zip(rows, rows[1:]))
    first = next((i + 1 for i, (x, y) in enumerate(zip(rows, rows[1:])) if x[:KEY] > y[:KEY]), 0)
    assert numbers == (0, first, 0, unordered, 0, 1000, 0, same, 0, checksum(rows))
    assert (tmp_path / "sum").read_bytes()[80:] == rows[0] + rows[-1]


def test_a_large_file_is_the_same_on_any_number_of_cpus(tmp_path):
    run("gensort", 700_000, tmp_path / "f")
    one = run("valsort", "-t1", "-o", tmp_path / "s1", tmp_path / "f", code=1)
    assert run("valsort", "-t4", "-o", tmp_path / "s4", tmp_path / "f", code=1) == one
    assert (tmp_path / "s1").read_bytes() == (tmp_path / "s4").read_bytes()


def test_damaged_files(tmp_path):
    path = tmp_path / "f"
    run("gensort", 100, path)
    path.write_bytes(path.read_bytes()[:-1])
    assert "partial record found at end: 9999 bytes are 99 records of 100 and 99 bytes more" in run(
        "valsort", path, code=1
    )
    path.write_bytes(b"")
    assert "at least one record" in run("valsort", path, code=1)
    assert "at least one record" in run("valsort", "-s", path, code=1)
    path.write_bytes(b"\1" * 280)
    assert "is no summary" in run("valsort", "-s", path, code=1)
    path.write_bytes(b"\0" * 281)
    assert "no summary" in run("valsort", "-s", path, code=1)
    run("gensort", 1, tmp_path / "one")
    run("valsort", "-o", path, tmp_path / "one")
    path.write_bytes(path.read_bytes() + b"x")
    assert "partial partition summary" in run("valsort", "-s", path, code=1)
    assert "No such file" in run("valsort", tmp_path / "nothing", code=1)
    assert "not a regular file" in run("valsort", tmp_path, code=1)


@pytest.fixture
def small_disk(tmp_path):
    """A folder on a disk of 20 MB; if nothing can be mounted, the machine's own files may grow to
    this size."""
    at = tmp_path / "disk"
    at.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=20m", "tmpfs", at], capture_output=True
    ).returncode:
        pytest.skip("mounts nothing here")
    yield at
    subprocess.run(["umount", "-l", at], check=True)


@pytest.mark.parametrize("threads", ["-t1", "-t2"])
def test_a_full_disk_is_one_message_and_leaves_no_file(small_disk, threads):
    out = run("gensort", threads, 1_000_000, small_disk / "f", code=1)
    assert out == f"gensort: {small_disk}/f: No space left on device\n"
    assert list(small_disk.iterdir()) == []


def test_a_file_that_may_not_grow_is_one_message_and_none_is_left(tmp_path):
    def limited():
        resource.setrlimit(resource.RLIMIT_FSIZE, (20 << 20, 20 << 20))

    for threads in "-t1", "-t2":  # with two threads there is no room for the engine's memory either
        out = run("gensort", threads, 1_000_000, tmp_path / "f", code=1, preexec_fn=limited)
        assert "File too large" in out and out.count("\n") == 1
        assert not (tmp_path / "f").exists()
    assert "No space left on device" in run("gensort", 1000, "/dev/full", code=1)
    run("gensort", 10, tmp_path / "g")
    assert "No space left on device" in run("valsort", "-o", "/dev/full", tmp_path / "g", code=1)
    assert os.path.exists("/dev/full")


@pytest.mark.parametrize(
    "args",
    [
        [],
        ["-x", 1, "f"],
        [1],
        ["one", "f"],
        ["-b-1", 1, "f"],
        ["-t0", 1, "f"],
        ["-s", 1, "f"],
        [-1, "f"],
        ["9" * 30, "f"],
    ],
)
def test_wrong_arguments_of_gensort(args, tmp_path):
    assert run("gensort", *args, code=1, cwd=tmp_path)
    assert list(tmp_path.iterdir()) == []
