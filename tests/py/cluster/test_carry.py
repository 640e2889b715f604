"""Connections of a cluster by carriers (engine/carry.py): by TLS, and as bytes in calls. The nodes
are processes of this machine; the test itself runs the carriers of all of them."""

import asyncio
import contextlib
import os
import socket
import ssl
import threading
import types

import numpy as np
import pytest
import skate
import skate.data
import skate.engine
import trustme
from engine.waits import wait_until
from skate.engine import carry, nodes


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


@pytest.fixture
def certificates(authority, tmp_path, monkeypatch):
    """The files that Ray's variables name, for this machine."""
    cert = authority.issue_cert("127.0.0.1")
    for name, pem in zip(
        carry.TLS_FILES,
        (cert.cert_chain_pems[0], cert.private_key_pem, authority.cert_pem),
        strict=True,
    ):
        pem.write_to_path(str(tmp_path / name))
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("RAY_USE_TLS", "1")


class Carried(nodes.Here):
    """Two nodes, of which each listens for its carrier only."""

    running: "list[carry.Running]"

    def __init__(self, wanted):
        self.running = []
        super().__init__(wanted._replace(conf={**wanted.conf, "nodes": 2}))
        self.conf["carrier"] = self.begin(0)
        self.reach()

    def _given(self, *about):
        given = super()._given(*about)
        return given._replace(carrier=carry.name_of(self._wanted.number, given.place))

    def begin(self, place):
        carrier = self.make()
        self.running.append(carry.Running(carrier))
        self.running[-1].call(carrier.begin(carry.name_of(self._wanted.number, place)))
        return carry.name_of(self._wanted.number, place)

    def close(self, *patience):
        super().close(*patience)
        for r in self.running:
            r.close()


class ByTls(Carried):
    def make(self):
        return carry.Tls()

    def reach(self):
        for k, address in enumerate(self.conf["addresses"]):
            self.begin(1 + k)
            r = self.running[-1]
            port = r.call(r.carrier.serve("127.0.0.1", carry.split(address)))
            self.conf["addresses"][k] = f"@127.0.0.1:{port}"


class Actor:
    """A carrier of another thread as an actor of Ray is called: actor.method.remote(...).future()."""

    def __init__(self, running):
        self.running, self.made = running, 0

    def __getattr__(self, name):
        method = getattr(self.running.carrier, name)

        class Method:
            @staticmethod
            def remote(*args):
                self.made += 1
                done = asyncio.run_coroutine_threadsafe(method(*args), self.running._loop)

                class Ref:
                    @staticmethod
                    def future():
                        return done

                return Ref

        return Method


class ByCalls(Carried):
    actors: "dict[str, Actor]"
    own = None

    def make(self):
        return carry.Calls(self.own)

    def reach(self):
        ByCalls.actors = {}
        for k, address in enumerate(self.conf["addresses"]):
            self.own = address
            self.begin(1 + k)
            ByCalls.actors[address] = Actor(self.running[-1])
        for r in self.running:
            r.call(r.carrier.know(ByCalls.actors))
        self.conf["addresses"] = [f"@{a}" for a in ByCalls.actors]


def init(by):
    skate.shutdown()
    name = f"{__name__}:{by.__name__}"
    skate.engine.STARTERS[name] = name
    skate.init(num_cpus=2, object_store_memory=200 << 20, _engine=name)


@pytest.mark.parametrize("by", [ByTls, ByCalls])
def test_a_cluster_behind_carriers(by, certificates):
    init(by)
    try:
        assert skate.cluster_resources()["CPU"] == 2

        @skate.remote
        def of(x, k=1):
            return np.asarray(x) * k

        large = np.arange(1_000_000)
        a = [of.remote(large, k) for k in range(4)]
        b = [of.remote(x, 2) for x in a]  # some of them on the other node
        for k, ref in enumerate(b):
            assert (skate.get(ref) == large * 2 * k).all()
        ds = skate.data.range(20_000, override_num_blocks=8).random_shuffle(seed=1).sort("id")
        assert [r["id"] for r in ds.iter_rows()] == list(range(20_000))
        if by is ByCalls:
            assert all(actor.made > 10 for actor in by.actors.values())
    finally:
        skate.shutdown()


def test_a_connection_that_breaks_loses_its_node(certificates):
    init(ByTls)
    try:
        assert skate.get(skate.remote(lambda: 1).remote()) == 1
        skate.engine._nodes.running.pop(1).close()
        wait_until(lambda: sum(n["Alive"] for n in skate.nodes()) == 1)
        assert skate.get([skate.remote(lambda: 1).remote() for _ in range(8)]) == [1] * 8
    finally:
        skate.shutdown()


def test_tls_refuses_strangers(certificates, authority, tmp_path):
    """A peer without a certificate of the authority gets no byte through, nor does one that takes
    another authority's certificate for the carrier's."""
    heard = socket.create_server(("127.0.0.1", 0))
    heard.settimeout(0.2)
    tls = carry.Tls()
    running = carry.Running(tls)
    try:
        port = running.call(tls.serve("127.0.0.1", heard.getsockname()))
        anonymous, other = ssl.create_default_context(), ssl.create_default_context()
        authority.configure_trust(anonymous)
        trustme.CA().configure_trust(other)
        for context in (anonymous, other):
            with (
                pytest.raises((ssl.SSLError, ConnectionError)),
                socket.create_connection(("127.0.0.1", port)) as plain,
                context.wrap_socket(plain, server_hostname="127.0.0.1") as s,
            ):
                s.sendall(b"x")
                if not s.recv(1):  # TLS 1.3 tells the refusal after the handshake
                    raise ConnectionError
        with pytest.raises(TimeoutError):
            heard.accept()
    finally:
        running.close()
        heard.close()


def test_what_tls_needs(certificates, tmp_path, monkeypatch):
    (tmp_path / "RAY_TLS_CA_CERT").write_text("no certificate")
    with pytest.raises(RuntimeError, match="RAY_TLS_CA_CERT="):
        carry.Tls()
    monkeypatch.delenv("RAY_TLS_SERVER_KEY")
    with pytest.raises(RuntimeError, match="RAY_USE_TLS is set, but RAY_TLS_SERVER_KEY is not"):
        carry.Tls()


def test_addresses_that_cannot_be_reached():
    with socket.create_server(("127.0.0.1", 0)) as there:
        good = carry.joined(*there.getsockname())
        with socket.socket() as bound:  # nobody listens
            bound.bind(("127.0.0.1", 0))
            bad = carry.joined(*bound.getsockname())
            assert carry.unreachable([good, bad]) == [bad]
    assert carry.split("[::1]:7") == ("::1", 7) and carry.joined("::1", 7) == "[::1]:7"


def test_a_carrier_serves_its_own_user(monkeypatch):
    tls_like = carry.Carrier()
    running = carry.Running(tls_like)
    name = carry.name_of(os.getpid(), 9)
    running.call(tls_like.begin(name))
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with socket.socket(socket.AF_UNIX) as s:
        s.connect("\0" + name)
        assert s.recv(1) == b""
    running.close()


def test_connections_wait_for_a_carrier_that_is_busy():
    """More of them than asyncio would let wait: a cluster connects to all its nodes at once."""
    running = carry.Running(carry.Calls())
    name, begun, go_on = f"skate-test-{os.getpid()}", threading.Event(), threading.Event()
    running.call(running.carrier.begin(name))

    def busy():
        begun.set()
        go_on.wait()

    running._loop.call_soon_threadsafe(busy)
    begun.wait()
    with contextlib.ExitStack() as all_:
        all_.callback(running.close)
        all_.callback(go_on.set)
        for _ in range(300):
            s = all_.enter_context(socket.socket(socket.AF_UNIX))
            s.setblocking(False)
            s.connect("\0" + name)


class RayOf:
    """Ray, as RayCalls uses it: actors of which some are lost."""

    def __init__(self):
        self.lost = set()

    def remote(self, of):
        return self

    def options(self, **how):
        return types.SimpleNamespace(
            remote=lambda own: types.SimpleNamespace(
                begin=types.SimpleNamespace(remote=lambda name: own),
                know=types.SimpleNamespace(remote=lambda peers: own),
            )
        )

    def get(self, refs, timeout):
        if self.lost.intersection(refs):
            raise RuntimeError("the actor died")
        return refs

    def wait(self, refs, num_returns, timeout):
        return refs, []


def test_a_node_joins_while_another_is_lost():
    ray = RayOf()
    calls = carry.RayCalls(ray, f"skate-test-{os.getpid()}")
    given = types.SimpleNamespace(listen="127.0.0.1", carrier="c")
    try:
        calls.add({"10.0.0.1:1": (None, given)})
        ray.lost.add("127.0.0.1:1")  # nobody has noticed yet
        calls.add({"10.0.0.2:2": (None, given)})
        assert set(calls._here._peers) == {"10.0.0.1:1", "10.0.0.2:2"}
    finally:
        calls.close()
