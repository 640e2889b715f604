"""A node of the engine `cluster`: a process with a local engine, which serves one driver and ends
with it. nodes.py starts such processes on this machine, ray.py does so on the nodes of a Ray
cluster, and hosts.py lets others start them."""

from __future__ import annotations

import _pickle as pickle  # without re and struct
import os
import select
import signal
import sys
import time
from typing import Any, NamedTuple

from skate import _job, _labels, _skate, config
from skate.engine import local
from skate.terminal import prints

KNOBS = config.KNOBS
PLACES = 1023  # SK_ID_PLACES of engine/foreign.h
LOOK_S = 0.5  # how often a node looks whether the process that started it still exists


class Given(NamedTuple):
    """What a node has to know, from the driver."""

    number: int  # of the job
    secret: bytes  # 32 bytes that only the processes of the job know
    listen: str  # the address of this machine at which the node listens
    name: str  # of the node, for messages
    job: bytes  # the facts about the job (_job.py), pickled
    runtime_env: dict[str, Any]
    knobs: dict[str, Any]  # (config.py)
    # Custom resources of this node. All nodes name the same ones in the same order, since messages
    # have their numbers.
    resources: dict[str, float]
    # 1 to 1,023, another for each node that the job ever has: the part of all ids (engine/foreign.h)
    # that this node's engine takes its ids from. The driver's are below. It is also the node's number
    # in the driver, since nodes join in the order of their places.
    place: int = 1
    path: list[str] | None = None  # sys.path of the driver, if it is on the same machine
    labels: dict[str, str] | None = None  # of this node, besides those of its devices
    carrier: str = ""  # the name of its carrier (carry.py); "": it has none


class Wanted(NamedTuple):
    """What whoever starts nodes is given (engine.Starter).

    Attributes:
        conf: The configuration of the engine (config.py).
        job: The facts about the job (_job.py), pickled.
        runtime_env: The environment of the workers.
        address: What init() was given; None: nothing.
        num_cpus: The CPUs to take of each node. None: all that the node has.
        number: Of the job.
        secret: 32 bytes that only the processes of the job know.
    """

    conf: dict[str, Any]
    job: bytes
    runtime_env: dict[str, Any]
    address: str | None
    num_cpus: float | None
    number: int
    secret: bytes

    def given(
        self,
        place: int,
        listen: str,
        name: str,
        knobs: dict[str, Any],
        resources: dict[str, float],
        **more: Any,
    ) -> Given:
        """What one of the nodes has to know."""
        return Given(
            self.number,
            self.secret,
            listen,
            name,
            self.job,
            self.runtime_env,
            knobs,
            resources,
            place,
            **more,
        )

    def cpus(self, there: float) -> float:
        """The CPUs to take of a node that has so many."""
        return min(self.num_cpus or there, there)


def id_base(place: int) -> int:
    """The number below all ids of the engine of a node."""
    if not 1 <= place <= PLACES:
        raise RuntimeError(f"a job has at most {PLACES} nodes, also one after another")
    return place << 53


def open_node(given: Given) -> int:
    """Opens the local engine of this process, and serves the driver of the job. Returns the port at
    which the node listens."""
    if given.path is not None:
        sys.path[:] = given.path
    conf = config.resolve({**given.knobs, "engine": "local", "nodes": 0})
    job = pickle.loads(given.job)
    conf |= {
        "resources": given.resources,
        "prints": True,
        "program": f"a node of skate: {given.name}",
        "id_base": id_base(given.place),
    }
    job |= {
        "custom": list(given.resources),
        "store": int(conf["object_store_memory"]),
        "gpus": conf["num_gpus"],
        "on_node": True,
        "node": given.place,
    }
    devices = _labels.of_devices() if conf["num_gpus"] else {}
    job["labels"] = {**devices, **(given.labels or {})}
    local.prepare(conf, given.runtime_env, job)
    _job.hand(given.job)
    _job.tell(job)
    _skate.init(conf)
    labels = bool(conf["print_labels"])
    prints.start(labels, _skate.node_prints)  # the driver shows them, until the node ends
    return _skate.node_open(
        {
            "listen": given.listen,
            "name": given.name,
            "job_secret": given.secret,
            "job_number": given.number,
            "object_store_memory": int(conf["object_store_memory"]),
            "id_base": conf["id_base"],
            "print_labels": labels,
            "carrier": given.carrier,
            "node_labels": _labels.told({_labels.ID: _labels.node_id().hex(), **job["labels"]}),
        }
    )


def settings(conf: dict[str, Any]) -> dict[str, Any]:
    """The driver's knobs that do not depend on its machine."""
    own = ("trace", "page", "spill_dir")
    return {
        name: conf[name]
        for name, (default, _, _) in KNOBS.items()
        if not callable(default) and name not in own
    }


def serve(with_parent: bool = True) -> str:
    """Serves the driver until it has ended, then ends the engine. Returns "", or what happened to
    the driver. with_parent: it ends with the process that has started it, too."""
    parent = os.getppid()
    while (said := _skate.node_wait(LOOK_S)) is None:
        if with_parent and os.getppid() != parent:
            said = "the process that started this node has ended"
            break
    _skate.shutdown()
    prints.stop()
    return said


def read_line(fd: int, until: float) -> str:
    """Reads a line from a pipe. "": its other end was closed, or the time is over."""
    line = b""
    while not line.endswith(b"\n"):
        ready, _, _ = select.select([fd], [], [], max(until - time.monotonic(), 0.0))
        more = os.read(fd, 4096) if ready else b""
        if not more:
            return ""
        line += more
    return line.decode().strip()


def main(tell: int) -> None:
    """The program of a node that nodes.py has started: reads Given from stdin, and tells its port,
    or why there is none, by the pipe `tell`."""
    # Ctrl-C and Ctrl-\\ are for the driver, which ends its nodes.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGQUIT, signal.SIG_IGN)
    try:
        port = open_node(pickle.load(sys.stdin.buffer))
    except Exception as e:
        os.write(tell, f"{type(e).__name__}: {' '.join(str(e).split())}\n".encode())
        sys.exit(1)  # the driver raises it
    os.write(tell, b"%d\n" % port)
    os.close(tell)
    sys.exit(1 if serve() else 0)
