"""cloudsort from S3 to S3: with moto's server, and with a small server that answers 500, stalls,
truncates, and checks signatures."""

import os
import re
import signal
import subprocess
from pathlib import Path

import psutil
import pytest
import range_server
import rounds

BIN = Path(__file__).resolve().parents[3] / "build" / "dev" / "bin"
SIZE, KEY = 100, 10

# not asked of the program, which would look for a server for 15 s
no_s3 = (
    "libcurl"
    not in subprocess.run(
        ["ldd", BIN / "cloudsort"], capture_output=True, text=True, timeout=60
    ).stdout
)
pytestmark = pytest.mark.skipif(no_s3, reason="built without libcurl")


def run(env, *args, code=0):
    done = subprocess.run(
        [BIN / "cloudsort", *map(str, args)], capture_output=True, text=True, timeout=200, env=env
    )
    assert done.returncode == code, done.stderr
    return done.stderr if code else done.stdout


def twin(*inputs):
    rows = [data[i : i + SIZE] for data in inputs for i in range(0, len(data), SIZE)]
    return b"".join(sorted(rows, key=lambda r: r[:KEY]))


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    at = tmp_path_factory.mktemp("in") / "f"
    made = []
    for first, n in (0, 380_001), (380_001, 20_000):
        subprocess.run([BIN / "gensort", f"-b{first}", str(n), at], check=True)
        made.append(at.read_bytes())
    return made, twin(*made)


@pytest.fixture
def server(request):
    made = []

    def start(**faults):
        made.append(range_server.Server(range_server.Store(**faults)))
        return made[-1]

    yield start
    for s in made:
        s.close()


def parts(objects):
    return b"".join(objects[k] for k in sorted(objects) if k.startswith("o u+t/part-"))


URLS = "s3://bucket/o u+t", "s3://bucket/in/a=1&b", "s3://bucket/in/b"


def filled(s, made):
    s.store.objects.update({"in/a=1&b": made[0], "in/b": made[1]})
    return s.env()


def test_moto(inputs, tmp_path):
    import logging

    import boto3
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    made, want = inputs
    moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    try:
        host, port = moto.get_host_and_port()
        url = f"http://{host}:{port}"
        client = boto3.client(
            "s3",
            endpoint_url=url,
            aws_access_key_id="x",
            aws_secret_access_key="y",
            region_name="us-east-1",
        )
        client.create_bucket(Bucket="bucket")
        for key, data in zip(("in/a=1&b", "in/b"), made):
            client.put_object(Bucket="bucket", Key=key, Body=data)
        stale = client.create_multipart_upload(Bucket="bucket", Key="out/part-00001")
        other = client.create_multipart_upload(Bucket="bucket", Key="other/part-00001")
        env = {
            **os.environ,
            "AWS_ENDPOINT_URL": url,
            "AWS_ACCESS_KEY_ID": "x",
            "AWS_SECRET_ACCESS_KEY": "y",
        }
        told = run(env, "-p", "20m", "-m", "20m", "s3://bucket/out", *URLS[1:])
        listed = client.list_objects_v2(Bucket="bucket", Prefix="out/")["Contents"]
        assert [o["Key"] for o in listed] == ["out/part-00000"]
        assert client.get_object(Bucket="bucket", Key="out/part-00000")["Body"].read() == want
        left = [
            u["UploadId"] for u in client.list_multipart_uploads(Bucket="bucket").get("Uploads", [])
        ]
        assert left == [other["UploadId"]] != [stale["UploadId"]]
        gets, puts = map(int, re.search(r"\((\d+) GET, (\d+) PUT\)", told).groups())
        assert gets >= 2 + 256 + 4  # sizes, sample, ranges
        assert puts == 1 + 1 + 3 + 1  # the stale upload, begin, three parts, end
        assert "NoSuchKey" in run(
            env, "s3://bucket/x", "s3://bucket/nothing", code=1
        ) or "404" in run(env, "s3://bucket/x", "s3://bucket/nothing", code=1)
    finally:
        moto.stop()


@pytest.mark.parametrize("options", ["", "-m 3m -p 2m", "-m 2m -p 1m -f 4 -s 30m", "-p 100m"])
def test_ranges_and_parts(server, inputs, options):
    made, want = inputs
    s = server()
    told = run(filled(s, made), *options.split(), *URLS)
    assert parts(s.store.objects) == want
    assert not s.store.uploads
    log = s.store.log
    asked = [list(map(int, r.removeprefix("bytes=").split("-"))) for _, _, r, _ in log if r]
    assert max(last - first + 1 for first, last in asked) <= 16 << 20
    assert max(n for _, _, _, n in log) <= 16 << 20
    writes = sum(method in ("PUT", "POST", "DELETE") for method, _, _, _ in log)
    assert f"({len(log) - writes} GET, {writes} PUT)" in told


@rounds.campaign(seconds=400)
def test_a_bad_day(server, inputs):
    made, want = inputs
    for _ in range(rounds.rounds(1)):
        s = server(seed=rounds.seed(), error=0.05, busy=0.05, cut=0.05, stall=0.05, late=0.2)
        run(filled(s, made), "-m", "2m", "-p", "9m", *URLS)
        assert parts(s.store.objects) == want
        assert s.store.counts["error"] and s.store.counts["busy"] and s.store.counts["cut"]
        assert not s.store.uploads


@rounds.campaign(seconds=400)
def test_workers_and_the_controller_are_killed(server, inputs, tmp_path):
    made, want = inputs
    for i in range(rounds.rounds(1)):
        s = server(seed=rounds.seed(), error=0.02)
        env = filled(s, made)
        command = [
            BIN / "cloudsort",
            "-m",
            "2m",
            "-p",
            "18m",
            "-j",
            tmp_path / f"journal{i}",
            *URLS,
        ]
        p = subprocess.Popen(command, env=env, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
        # an output is being written
        range_server.wait_for(lambda p=p, s=s: s.store.uploads or p.poll() is not None)
        if p.poll() is None:
            for worker in psutil.Process(p.pid).children(recursive=True)[1:2]:
                worker.kill()
        range_server.wait_for(
            lambda p=p, s=s: "o u+t/part-00000" in s.store.objects or p.poll() is not None
        )
        p.send_signal(signal.SIGKILL)
        p.wait(60)
        subprocess.run(
            command, env=env, check=True, capture_output=True, timeout=200
        ) if p.returncode else None
        assert parts(s.store.objects) == want
        assert not s.store.uploads
        s.store.objects = {}


def test_errors(server, inputs):
    made, _ = inputs
    s = server()
    env = filled(s, made)
    assert "s3://bucket/nothing: size: HTTP status 404" in run(
        env, "s3://bucket/out", "s3://bucket/nothing", code=1
    )
    wrong = {**env, "AWS_SECRET_ACCESS_KEY": "another"}
    assert "HTTP status 403" in run(wrong, *URLS, code=1)
    s.store.objects["cut"] = b"x" * 250
    assert "250 bytes are no whole records" in run(
        env, "s3://bucket/out", "s3://bucket/cut", code=1
    )
    s.store.objects["o u+t/part-00000"] = b""
    assert "the output of another run" in run(env, *URLS, code=1)
