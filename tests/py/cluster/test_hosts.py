"""Nodes that were started by hand (`skate node`), with and without what can go wrong: each error is
one sentence, and comes within 10 s."""

import contextlib
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
import skate
from patience import eventually
from procs import family, wait_gone
from skate import _skate
from skate.engine import hosts

SECRET = "a secret of the tests' nodes"


@pytest.fixture(autouse=True)
def secret(monkeypatch):
    monkeypatch.setenv("SKATE_SECRET", SECRET)
    monkeypatch.setenv("SKATE_NUM_CPUS", "1")
    monkeypatch.setenv("PYTHONPATH", os.path.dirname(os.path.dirname(skate.__file__)))
    monkeypatch.setenv("SKATE_OBJECT_STORE_MEMORY", str(100 << 20))
    skate.shutdown()
    yield
    skate.shutdown()


@pytest.fixture
def start():
    """start(*arguments of `skate node`) -> its process, whose `mark` its tasks see."""
    marks = map(str, itertools.count())
    with contextlib.ExitStack() as ended:

        def start(*how, **env):
            mark = next(marks)
            p = subprocess.Popen(
                [sys.executable, "-m", "skate", "node", *how],
                env={**os.environ, "MARK": mark, **env},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            p.mark = mark
            ended.callback(end, p)
            return p

        yield start


def end(p):
    p.kill()
    p.communicate()


def listening(start, *how, **env):
    """A node at a free port: (its process, "HOST:PORT")."""
    p = start("--listen", "127.0.0.1:0", *how, **env)
    line = p.stdout.readline()
    assert line.startswith("skate node: listens at "), p.stderr.read()
    return p, line.split()[-1]


def over(p, seconds=20):
    """(exit status, last line of stderr) of a node."""
    _, err = p.communicate(timeout=seconds)
    return p.returncode, err.strip().rpartition("\n")[2]


def refused(address):
    """The error of init(), which has to come within 10 s."""
    start = time.monotonic()
    with pytest.raises((ConnectionError, ValueError)) as e:
        skate.init(address)
    assert time.monotonic() - start < 10 and not skate.is_initialized()
    return str(e.value)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


@skate.remote
def where():
    return os.environ["MARK"]


def test_nodes_that_listen(start):
    (one, at), (two, at_2), (three, at_3) = (
        listening(start),
        listening(start, "--resources", '{"disk": 2}'),
        listening(start),
    )
    skate.init(f"skate://{at},{at_2}")
    assert skate.cluster_resources()["CPU"] == 2 and skate.cluster_resources()["disk"] == 2
    assert [n["NodeManagerAddress"] for n in skate.nodes()] == [at, at_2]
    assert skate.get(where.options(resources={"disk": 1}).remote()) == two.mark
    numbers = skate.data.range(1000, override_num_blocks=8).map_batches(lambda b: b)
    assert numbers.sum("id") == 499_500
    skate.engine._nodes.add(at_3)
    assert skate.cluster_resources()["CPU"] == 3
    assert set(skate.get([where.remote() for _ in range(300)])) <= {one.mark, two.mark, three.mark}
    skate.shutdown()
    assert [over(p) for p in (one, two, three)] == [(0, "")] * 3


def test_nodes_that_connect(start):
    port = free_port()
    nodes = [start("--connect", f"127.0.0.1:{port}") for _ in range(2)]
    skate.init(f"skate://127.0.0.1:{port}?nodes=2")
    assert skate.cluster_resources()["CPU"] == 2
    assert set(skate.get([where.remote() for _ in range(300)])) <= {p.mark for p in nodes}
    skate.shutdown()
    assert [over(p) for p in nodes] == [(0, "")] * 2


def test_the_secret_of_a_file(start, tmp_path, monkeypatch):
    (tmp_path / "secret").write_text("the text of a file\n")
    monkeypatch.delenv("SKATE_SECRET")
    node, at = listening(start, "--secret-file", str(tmp_path / "secret"))
    monkeypatch.setenv("SKATE_SECRET_FILE", str(tmp_path / "secret"))
    skate.init(f"skate://{at}")
    assert skate.get(where.remote()) == node.mark


def test_workers_do_not_know_the_secret(start):
    _, at = listening(start)
    skate.init(f"skate://{at}")
    assert skate.get(skate.remote(lambda: os.environ.get("SKATE_SECRET")).remote()) is None


# ---- what cannot work


def test_nobody_is_there():
    at = f"127.0.0.1:{free_port()}"
    assert f"there is no node at {at} (" in refused(f"skate://{at}")


def test_a_port_that_is_filtered(monkeypatch):
    """The kernel drops what comes to a listener whose backlog is full."""
    monkeypatch.setattr(hosts, "CONNECT_S", 1.0)
    with socket.socket() as full, contextlib.ExitStack() as clients:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        host, port = full.getsockname()
        for _ in range(3):
            c = clients.enter_context(socket.socket())
            c.setblocking(False)
            c.connect_ex((host, port))
        said = refused(f"skate://{host}:{port}")
    assert f"there is no node at {host}:{port} (no answer within 1 s)" in said


def other_side(said):
    """Listens. Sends `said` to the first peer that connects, then reads until the peer closes.
    Returns (the address, the listening socket, which the caller closes)."""
    s = socket.create_server(("127.0.0.1", 0))

    def serve():
        with contextlib.suppress(OSError):
            conn, _ = s.accept()
            conn.sendall(said)
            while conn.recv(1000):
                pass

    threading.Thread(target=serve, daemon=True).start()
    return f"127.0.0.1:{s.getsockname()[1]}", s


def frame(**said):
    body = json.dumps(said).encode()
    return len(body).to_bytes(4, "big") + body


GOOD = {"skate": skate.__version__, "python": "{}.{}".format(*sys.version_info), "nonce": "00"}


@pytest.mark.parametrize(
    "said, error",
    [
        (b"", "no answer within 1 s"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "what it says is nothing of skate's"),
        (b"\0\0\0\7[[[[[[[", "what it says is nothing of skate's"),
        (b"\0\0\3\0" + b"[" * 768, "what it says is nothing of skate's"),
        (b"\0\0\0\2[]", "what it says is nothing of skate's"),
        (frame(**{**GOOD, "skate": "0.0.1"}), "it has skate 0.0.1 and Python"),
        (frame(**{**GOOD, "python": "2.7"}), "and Python 2.7; this is skate"),
        (frame(**{**GOOD, "python": [{}]}), "and Python [{}]; this is skate"),
        (frame(**GOOD) + frame(proof="00"), "it has another secret"),
        (frame(**GOOD) + frame(why="it does not want to"), "it does not want to"),
    ],
)
def test_what_listens_is_no_node_of_this_program(said, error, monkeypatch):
    monkeypatch.setattr(hosts, "CONNECT_S", 1.0)
    at, closes = other_side(said)
    with closes:
        text = refused(f"skate://{at}")
    assert f"the node at {at}: " in text and error in text, text


def test_another_secret(start, monkeypatch):
    node, at = listening(start, SKATE_SECRET="another secret than the driver's")
    assert f"the node at {at}: it has another secret" in refused(f"skate://{at}")
    monkeypatch.setenv("SKATE_SECRET", "another secret than the driver's")
    skate.init(f"skate://{at}")  # the node was not disturbed
    assert skate.get(where.remote()) == node.mark


def test_what_strangers_say_does_not_disturb_a_node(start):
    node, at = listening(start)
    host, _, port = at.rpartition(":")
    for said in (
        b"",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\xff" * 4,
        b"\0\0\0\2{}",
        frame(nonce="0", proof=1),
    ):
        with (
            socket.create_connection((host, int(port))) as s,
            contextlib.suppress(ConnectionResetError),
        ):
            s.sendall(said)
            s.shutdown(socket.SHUT_WR)
            while s.recv(1000):
                pass
    skate.init(f"skate://{at}")
    assert skate.get(where.remote()) == node.mark


@pytest.mark.parametrize("value, error", [("", "is missing"), ("short", "has 5 characters")])
def test_no_secret(start, monkeypatch, value, error):
    monkeypatch.setenv("SKATE_SECRET", value)
    assert f"the secret of the nodes {error}" in refused("skate://127.0.0.1:1")
    status, said = over(start("--listen", "127.0.0.1:0"))
    assert status == 1 and f"skate node: the secret of the nodes {error}" in said


def test_a_node_that_is_started_twice(start):
    _, at = listening(start)
    status, said = over(start("--listen", at))
    assert status == 1 and said == f"skate node: cannot listen at {at}: Address already in use"


def test_a_node_serves_one_program(start):
    _, at = listening(start)
    skate.init(f"skate://{at}")
    with pytest.raises(subprocess.CalledProcessError) as e:
        subprocess.run(
            [sys.executable, "-c", f"import skate; skate.init('skate://{at}')"],
            check=True,
            capture_output=True,
            text=True,
            timeout=20,
        )
    assert f"there is no node at {at} (" in e.value.stderr
    assert "a node serves one program, and ends with it" in e.value.stderr
    assert skate.get(where.remote())


def test_a_driver_that_gives_up_leaves_the_node_as_it_was(start):
    """The second node is not there; the first waits for the next driver."""
    node, at = listening(start)
    missing = f"127.0.0.1:{free_port()}"
    assert f"there is no node at {missing}" in refused(f"skate://{at},{missing}")
    skate.init(f"skate://{at}")
    assert skate.get(where.remote()) == node.mark


def test_nobody_connects(start, monkeypatch):
    monkeypatch.setattr(hosts, "COME_S", 0.5)
    at = f"127.0.0.1:{free_port()}"
    said = refused(f"skate://{at}?nodes=2")
    assert f"0 of 2 nodes have come to {at} within 0.5 s" in said
    status, said = over(start("--connect", at, "--wait", "0.5"))
    assert status == 1 and f"skate node: there is no driver at {at}: " in said
    status, said = over(start("--listen", at, "--wait", "0.5"))
    assert (status, said) == (1, f"skate node: no driver has come to {at}")


@pytest.mark.parametrize(
    "address, error",
    [
        ("skate://", '"HOST:PORT" is wanted, not'),
        ("skate://here", '"HOST:PORT" is wanted, not'),
        ("skate://a:1,b", '"HOST:PORT" is wanted, not'),
        ("skate://a:99999", '"HOST:PORT" is wanted, not'),
        ("skate://a:1,a:1", "a node is named twice"),
        ("skate://a:1?nodes=0", "at least one node"),
        ("skate://a:1,b:1?nodes=2", "one place to listen at"),
        ("skate://a:1?nodes=two", "invalid literal"),
    ],
)
def test_addresses_that_are_none(address, error):
    assert error in refused(address)


# ---- what ends


def test_nodes_end_with_a_driver_that_is_killed(start):
    node, at = listening(start)
    program = f"""
import skate, os, time
skate.init("skate://{at}")
@skate.remote
def f():
    print("runs", flush=True)
    time.sleep(1000)
skate.get([f.remote(), f.remote()])
"""
    driver = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert driver.stdout.readline().endswith(b"runs\n")
    all_of_it = family(node.pid)
    assert len(all_of_it) > 1
    driver.kill()
    killed = time.monotonic()
    driver.communicate()
    status, said = over(node)
    assert time.monotonic() - killed < 5 and not wait_gone(all_of_it, 5)
    assert status == 1 and said.startswith("skate node: the driver is gone (")


def test_a_node_that_is_killed(start):
    """The others go on."""
    (one, at), (two, at_2) = listening(start), listening(start)
    skate.init(f"skate://{at},{at_2}")
    eventually(lambda: set(skate.get([where.remote() for _ in range(200)])) == {one.mark, two.mark})
    one.send_signal(signal.SIGKILL)
    assert set(skate.get([where.remote() for _ in range(50)])) == {two.mark}
    skate.shutdown()
    assert over(two) == (0, "")


def test_a_launchers_thread_opens_no_engine_after_the_end():
    """A node that comes, or is drained, while the program's engine ends."""
    for late in (
        lambda: _skate.node_join("127.0.0.1:9"),
        lambda: _skate.node_drain(1, 0.0),
        lambda: _skate.node_give_up("the head is gone"),
    ):
        with pytest.raises(skate.exceptions.RaySystemError, match="skate is shut down"):
            late()
        assert not skate.is_initialized()
