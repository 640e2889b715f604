"""Nodes of skate on a Dask cluster, as an example of an engine.Starter: what a launcher of nodes has
to do, without a change to skate.

    import dask_nodes, skate
    skate.init(address="tcp://SCHEDULER:8786", _engine="dask")

Dask says which machines there are, and each of its workers starts one node: a process of its own,
which serves this program and ends with it. Tasks, events and blocks go over skate's connections.
Workers need the same skate and Python as the program; each node takes as many CPUs as its worker has
threads, and as much memory as the worker may use, so leave Dask idle meanwhile.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from typing import Any

import skate
import skate.engine
from distributed import Client
from skate import _skate
from skate.calls import ambient_environment, by_value
from skate.engine import node

CONNECT_S = 8.0  # so that an error comes within 10 s
END_S = 10.0


def _actor_class() -> Any:
    """The class of the Dask actor of a node. It is made in a function, so that it is pickled by
    value: workers have no file dask_nodes.py."""

    class DaskNode:
        process: Any = None

        def open(self, version: str, python: tuple[int, int], given: bytes) -> tuple[str, str]:
            """Starts the node's process. Returns (its port, "") or ("", why it cannot work)."""
            import subprocess
            import sys
            import time

            try:
                import skate
            except ImportError as e:
                return "", f"has no skate ({e}): install it there, as here (skate {version})"
            if (skate.__version__, sys.version_info[:2]) != (version, python):
                return "", f"has skate {skate.__version__} and Python {sys.version}"
            from skate.engine import local, node

            told, tell = os.pipe()
            self.process = subprocess.Popen(
                local.python_program(f"from skate.engine.node import main; main({tell})"),
                stdin=subprocess.PIPE,
                pass_fds=(tell,),
            )
            os.close(tell)
            with self.process.stdin as to:
                to.write(given)
            said = node.read_line(told, time.monotonic() + 30)
            os.close(told)
            return (said, "") if said.isdigit() else ("", said or "says nothing: see its log")

        def wait(self, seconds: float) -> None:
            """Waits for the end of the node's process, which is killed if it does not end."""
            import subprocess

            if self.process is not None:
                try:
                    self.process.wait(seconds)
                except subprocess.TimeoutExpired:
                    self.process.kill()
                    self.process.wait()

    return DaskNode


class Nodes:
    """The nodes on a Dask cluster (engine.Starter).

    Raises:
        ConnectionError: There is no scheduler at the address, or it has no workers.
        RuntimeError: A node could not be started.
    """

    def __init__(self, wanted: node.Wanted):
        # The program's sys.path is sent with functions: it may mean nothing on other machines.
        ambient_environment.begin([], None)
        self._wanted = wanted
        self._actors: dict[str, Any] = {}
        try:
            self._client = Client(wanted.address, timeout=CONNECT_S, set_as_default=False)
        except (OSError, TimeoutError) as e:
            raise ConnectionError(f"there is no Dask scheduler at {wanted.address}: {e}") from None
        try:
            addresses = self._start()
            if not self._actors:
                raise ConnectionError(f"the Dask scheduler at {wanted.address} has no workers")
        except BaseException:
            self.close(0)
            raise
        self.conf: dict[str, Any] = {"addresses": addresses, "resources": {}}

    def add(self) -> list[int]:
        """Starts nodes on the workers that have joined since, and returns the nodes' numbers."""
        return [_skate.node_join(address) for address in self._start()]

    def _start(self) -> list[str]:
        """Starts a node on each worker that has none. Returns where they listen."""
        there = self._client.scheduler_info(n_workers=-1)["workers"]
        asked: list[tuple[str, str, Any]] = []
        for at, has in there.items():
            if at in self._actors:
                continue
            host = at.partition("://")[2].rpartition(":")[0]
            memory = int(has["memory_limit"] or 0) or int(self._wanted.conf["memory"])
            knobs = {
                "num_cpus": self._wanted.cpus(has["nthreads"]),
                "num_gpus": 0,
                "memory": memory * 7 // 10,
                "object_store_memory": memory * 3 // 10,
            }
            how = {"actor": True, "workers": [at], "allow_other_workers": False, "pure": False}
            with self._client.as_current():  # calls of the actor go by it
                actor = self._client.submit(_actor_class(), **how).result(timeout=CONNECT_S)
            self._actors[at] = actor
            settings = node.settings(self._wanted.conf)
            given = self._wanted.given(
                len(self._actors), host, str(has["name"]), {**settings, **knobs}, {}
            )
            python = sys.version_info[:2]
            frame = by_value.dumps(given, protocol=5)  # pyright: ignore[reportUnknownMemberType]
            asked.append((at, host, actor.open(_skate.__version__, python, frame)))
        out: list[str] = []
        for at, host, answer in asked:
            port, why = answer.result(timeout=CONNECT_S)
            if why:
                raise RuntimeError(f"worker {at} of the Dask cluster {why}")
            out.append(f"{host}:{port}")
        return out

    def close(self, patience_s: float = END_S) -> None:
        """Waits for the nodes, which end with the driver's engine, and leaves the cluster."""
        until = time.monotonic() + patience_s
        ends: list[Any] = []
        # Where a worker has ended, so has its node.
        for actor in self._actors.values():
            with contextlib.suppress(RuntimeError):
                ends.append(actor.wait(patience_s))
        for end in ends:
            with contextlib.suppress(RuntimeError, OSError):
                end.result(timeout=max(until - time.monotonic(), 0) + 1)
        self._actors.clear()
        self._client.close()


skate.engine.STARTERS["dask"] = "dask_nodes:Nodes"
