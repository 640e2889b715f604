"""Reads from and writes to an unreliable store: moto's S3 server in this process, with 503s and
stalls that a list of rules inserts."""

import re
import threading
import time
import zlib

import numpy as np
import pyarrow as pa
import pytest
import skate.data as sd
from pyarrow import fs as pafs
from skate.data.files import retry


class Faults:
    """A WSGI application in front of moto's: which requests fail depends on their method and path,
    and on how often they were made, not on chance."""

    def __init__(self, app):
        self.app, self.lock = app, threading.Lock()
        self.seen, self.refused, self.stalled, self.share, self.stall_share, self.always = (
            {},
            0,
            0,
            0.0,
            0.0,
            "",
        )
        # the workers' file system itself tries 3 times: its own settings for this are not pickled
        self.times = 4
        self.stop = threading.Event()

    def __call__(self, environ, start_response):
        path = environ["PATH_INFO"]
        key = (environ["REQUEST_METHOD"], path, environ.get("HTTP_RANGE", ""))
        with self.lock:
            n = self.seen[key] = self.seen.get(key, 0) + 1
            h = (
                zlib.crc32(re.sub("[0-9a-f]{32}_", "", repr(key[:2])).encode()) / 2**32
            )  # without the write's id, which differs in each write
            refuse = (self.always and self.always in path) or (
                "." in path and n <= self.times and h < self.share
            )
            stall = not refuse and n == 1 and h > 1 - self.stall_share
            self.refused += bool(refuse)
            self.stalled += bool(stall)
        if refuse:
            body = b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
            start_response(
                "503 Slow Down",
                [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))],
            )
            return [b"" if environ["REQUEST_METHOD"] == "HEAD" else body]
        if stall:
            self.stop.wait(20)  # longer than a client waits
        return self.app(environ, start_response)


@pytest.fixture(scope="module")
def server():
    from moto.moto_server import werkzeug_app as moto_app
    from werkzeug.serving import make_server

    app = Faults(moto_app.DomainDispatcherApplication(moto_app.create_backend_app))
    s = make_server("127.0.0.1", 0, app, threaded=True)
    t = threading.Thread(target=s.serve_forever, daemon=True)
    t.start()
    yield app, s.server_port
    app.stop.set()
    s.shutdown()
    t.join()


def client(port, seconds):
    """A file system without the SDK's own retries, which waits `seconds` for an answer."""
    return pafs.S3FileSystem(
        access_key="k",
        secret_key="s",
        region="us-east-1",
        scheme="http",
        endpoint_override=f"127.0.0.1:{port}",
        allow_bucket_creation=True,
        connect_timeout=seconds,
        request_timeout=seconds,
        retry_strategy=pafs.AwsStandardS3RetryStrategy(max_attempts=1),
    )


@pytest.fixture
def store(server, monkeypatch):
    """Returns (faults, file system, bucket)."""
    app, port = server
    app.seen.clear()
    app.refused = app.stalled = 0
    app.share = app.stall_share = 0.0
    app.always = ""
    fs = client(port, 60)  # on a loaded machine an answer may take seconds
    fs.create_dir("bucket")
    yield app, fs, "bucket"
    app.share = app.stall_share = 0.0
    app.always = ""
    fs.delete_dir_contents("bucket")


def parts(n, rows):
    return [
        pa.table(
            {
                "i": np.arange(k * rows, (k + 1) * rows),
                "s": [f"{v:x}" for v in range(k * rows, (k + 1) * rows)],
            }
        )
        for k in range(n)
    ]


@pytest.mark.parametrize("fmt", ["parquet", "csv"])
def test_a_throttled_store_is_read_and_written(store, fmt):
    app, fs, bucket = store
    want = pa.concat_tables(parts(4, 500))
    app.share = 0.15
    getattr(sd.from_blocks(parts(4, 500)), f"write_{fmt}")(
        f"{bucket}/{fmt}", filesystem=fs, concurrency=2, max_rows_per_file=750
    )
    assert app.refused > 0
    ds = getattr(sd, f"read_{fmt}")(
        f"{bucket}/{fmt}", filesystem=fs, override_num_blocks=3
    ).map_batches(lambda b: b)
    app.seen.clear()  # requests that the listing had to retry fail for the workers, too
    written = app.refused
    ds = ds.materialize()
    got = ds.to_arrow()
    assert got.sort_by("i").select(["i"]).equals(want.select(["i"])) and got.num_rows == 2000
    assert app.refused > written
    assert ds.stats_dict()["io_retries"] > 0 and "tried again" in ds.stats()


def test_a_write_that_was_killed_goes_on(store, tmp_path):
    """The store is unreliable during the resumed write as well."""
    import skate
    from skate import _skate

    app, fs, bucket = store
    sd.range(1200, override_num_blocks=6).write_csv(str(tmp_path / "in"))
    seen = str(tmp_path / "seen")

    class Torn:
        """The log of a driver that dies after three units."""

        def __init__(self, path):
            self.log, self.left = real(path), 3

        def unit(self, *args):
            self.left -= 1
            if self.left < 0:
                raise OSError("killed")
            self.log.unit(*args)

        def __getattr__(self, name):
            return getattr(self.log, name)

    def write():
        def look(b):
            with open(seen, "a") as f:
                f.write(f"{b['id'].min()}\n")
            return b

        ds = sd.read_csv(str(tmp_path / "in"), override_num_blocks=6).map_batches(look)
        ds.write_parquet(f"{bucket}/resumed", filesystem=fs, resume=str(tmp_path / "logs"))

    app.share = 0.15
    real, _skate.JobLog = _skate.JobLog, Torn
    try:
        with pytest.raises(OSError, match="killed"):
            write()
    finally:
        _skate.JobLog = real
    skate.shutdown()  # this ends tasks that were still working
    first = len(open(seen).readlines())
    write()
    assert len(open(seen).readlines()) == first + 3 and app.refused > 0
    app.share = 0.0
    assert sorted(sd.read_parquet(f"{bucket}/resumed", filesystem=fs).to_pandas()["id"]) == list(
        range(1200)
    )


def test_a_read_that_stalls_goes_on(server, store):
    app, fs, bucket = store
    sd.from_blocks(parts(4, 100)).write_parquet(
        f"{bucket}/stall", filesystem=fs, max_rows_per_file=100
    )
    ds = sd.read_parquet(f"{bucket}/stall", filesystem=client(server[1], 3), override_num_blocks=4)
    app.seen.clear()
    app.stall_share = 0.2
    begin = time.monotonic()
    assert ds.materialize().count() == 400
    assert app.stalled > 0 and time.monotonic() - begin < 60


def test_what_stays_wrong_is_said_at_once_and_what_does_not_end_ends(store, monkeypatch):
    app, fs, bucket = store
    before = retry.counts.tries
    with pytest.raises(FileNotFoundError):
        sd.read_parquet(f"{bucket}/nothing.parquet", filesystem=fs)
    assert retry.counts.tries == before
    sd.from_items([1]).write_csv(f"{bucket}/down", filesystem=fs)
    monkeypatch.setattr(retry, "LONGEST_S", 0.01)
    app.always = "down"
    with pytest.raises(OSError) as e:
        sd.read_csv(f"{bucket}/down", filesystem=fs)
    assert (
        f"tried {retry.ATTEMPTS} times" in " ".join(e.value.__notes__)
        and retry.counts.tries == before + retry.ATTEMPTS - 1
    )
