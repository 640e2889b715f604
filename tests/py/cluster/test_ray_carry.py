"""Connections of a real Ray cluster of two raylets: by TLS with Ray's certificates, and as calls of
Ray's actors where ports are closed. `./dev test ray` runs this."""

import os
import socket
import subprocess
import sys

import pytest

ray = pytest.importorskip(
    "ray",
    reason="Ray is not installed here: ./dev test ray installs it into build/ray and runs these",
)
if not hasattr(ray, "cluster_utils") and not hasattr(ray, "remote"):
    pytest.skip("what is called ray here is not Ray", allow_module_level=True)
trustme = pytest.importorskip(
    "trustme", reason="trustme makes the certificates: ./dev test ray installs it"
)

import skate  # noqa: E402
from skate.engine import carry  # noqa: E402

PROGRAM = """
import sys
import numpy as np
import skate, skate.data
from ray.cluster_utils import Cluster
from skate.engine import carry

cluster = Cluster()
for _ in range(2):
    cluster.add_node(num_cpus=2, object_store_memory=150 << 20, include_dashboard=False)
cluster.wait_for_nodes()
how, closed = sys.argv[1:]
if closed:
    carry.unreachable = list
skate.init(address=cluster.address, num_cpus=1, _system_config={"connections": how})

@skate.remote
def times(x, k):
    return x * k

large = np.arange(500_000)
refs = [times.remote(times.remote(large, k), 2) for k in range(6)]
assert all((skate.get(ref) == large * k * 2).all() for k, ref in enumerate(refs))
ds = skate.data.range(10_000, override_num_blocks=8).random_shuffle(seed=1).sort("id")
assert [r["id"] for r in ds.iter_rows()] == list(range(10_000))
print("by", skate.engine._nodes.connections, skate.cluster_resources()["CPU"])
skate.shutdown()
cluster.shutdown()
"""


def run(how, closed="", **env):
    at = os.path.dirname(os.path.dirname(skate.__file__))
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, how, closed],
        env={**os.environ, "PYTHONPATH": at, **env},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_ports_that_are_closed():
    got = run("auto", "closed")
    assert "by calls 2.0" in got.stdout, got.stderr
    assert "connections are calls of Ray's actors, which are slower" in got.stderr


def test_calls_by_choice():
    got = run("calls")
    assert "by calls 2.0" in got.stdout, got.stderr


def test_tls_of_ray(tmp_path):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.connect(("192.0.2.1", 9))  # sends nothing: the address that Ray takes, too
        here = s.getsockname()[0]
    authority = trustme.CA()
    cert = authority.issue_cert("127.0.0.1", "localhost", here)
    files = dict(
        zip(
            carry.TLS_FILES,
            (cert.cert_chain_pems[0], cert.private_key_pem, authority.cert_pem),
            strict=True,
        )
    )
    for name, pem in files.items():
        pem.write_to_path(str(tmp_path / name))
    got = run("auto", RAY_USE_TLS="1", **{name: str(tmp_path / name) for name in files})
    assert "by TLS 2.0" in got.stdout, got.stderr


def test_connections_that_there_are_not():
    with pytest.raises(ValueError, match="connections='udp': one of auto, tcp, calls is wanted"):
        skate.init(address="auto", _engine="ray", _system_config={"connections": "udp"})
