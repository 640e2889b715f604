"""Starts nodes of the engine `cluster` as processes on this machine: skate.init(_system_config={
"nodes": 2}), or SKATE_NODES=2. A node is a process of node.py with workers of its own."""

from __future__ import annotations

import _pickle as pickle  # without re and struct
import os
import subprocess
import sys
import threading
import time

from skate import _skate, config
from skate.calls import ambient_environment, by_value
from skate.engine import local, node
from skate.terminal import prints

TYPE_CHECKING = False  # typing is slow to import
if TYPE_CHECKING:
    from typing import IO, Any

ADDRESS = "127.0.0.1"
START_S = 60.0  # a node that has said nothing after this time is an error
END_S = 10.0  # a node that has not ended after this time is killed


class Here:
    """Nodes on this machine, which share what the engine was given: CPUs, GPUs and memory."""

    def __init__(self, wanted: node.Wanted):
        conf = wanted.conf
        n = min(int(conf["nodes"]), int(conf["num_cpus"]))  # each has a CPU
        if int(conf["nodes"]) < 1:
            raise ValueError(
                "the engine cluster needs nodes: say how many to start on this machine by SKATE_NODES or _system_config={'nodes': N}"
            )
        labels = node_labels(conf["node_labels"], n)
        self._wanted = wanted
        # Workers begin with the sys.path and the folder of the program, as those of a local engine.
        self._path = ambient_environment.path_now()
        ambient_environment.begin(self._path, os.getcwd())
        self._n = 0  # nodes that were started so far
        self._started: list[tuple[subprocess.Popen[bytes], int]] = []
        self._shown: list[threading.Thread] = []
        self._shows = bool(conf["prints"])
        self.conf: dict[str, Any] = {}
        try:
            for i in range(n):
                custom = {name: 0.0 if i else x for name, x in conf["resources"].items()}
                share = _share(conf, i, n)
                self._start(self._given(share, custom, labels[i]), _gpus(conf, i, n))
            until = time.monotonic() + START_S
            self.conf["addresses"] = [self._address(*x, until) for x in self._started]
        except BaseException:
            self.close(0)
            raise

    def add(self, num_cpus: int = 1, labels: dict[str, str] | None = None) -> int:
        """Starts one more node while the engine is open: with so many CPUs, these labels besides
        those of init(), and the memory of the smallest share. Returns its number."""
        conf = self._wanted.conf
        share = _share(conf, 0, max(int(conf["nodes"]), 1)) | {"num_cpus": num_cpus, "num_gpus": 0}
        self._start(self._given(share, dict.fromkeys(conf["resources"], 0.0), labels or {}))
        address = self._address(*self._started[-1], time.monotonic() + START_S)
        return _skate.node_join(address)

    def _given(
        self, share: dict[str, Any], custom: dict[str, float], labels: dict[str, str]
    ) -> node.Given:
        self._n += 1
        return self._wanted.given(
            self._n,
            ADDRESS,
            f"node-{self._n}",
            share,
            custom,
            path=self._path,
            labels={**pickle.loads(self._wanted.job)["labels"], **labels},
        )

    def _start(self, given: node.Given, gpus: dict[str, str] | None = None) -> None:
        told, tell = os.pipe()
        try:
            process = subprocess.Popen(
                local.python_program(f"from skate.engine.node import main; main({tell})"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=(tell,),
                env={**os.environ, **(gpus or {})},
            )
        except BaseException:
            os.close(told)
            raise
        finally:
            os.close(tell)
        self._started.append((process, told))
        assert process.stdin is not None
        for stream, name in ((process.stdout, "stdout"), (process.stderr, "stderr")):
            show = threading.Thread(target=self._show, args=(stream, name), daemon=True)
            show.start()
            self._shown.append(show)
        with process.stdin as to:
            to.write(by_value.dumps(given, protocol=5))

    def _show(self, lines: IO[bytes], stream: str) -> None:
        """Shows what a node itself writes on the present sys.stdout or sys.stderr of this process,
        until the node ends. What its tasks print comes with its messages."""
        with lines:
            for line in lines:
                if self._shows or stream == "stderr":
                    prints.write(getattr(sys, stream), line.decode("utf-8", "backslashreplace"))

    def _address(self, process: subprocess.Popen[bytes], told: int, until: float) -> str:
        """What a node says: where it listens, or why it does not."""
        said = node.read_line(told, until)
        if not said.isdigit():
            what = said or f"it ended with {process.wait(END_S)}, and its stderr says why"
            raise RuntimeError(f"a node of the engine cluster did not start: {what}")
        return f"{ADDRESS}:{said}"

    def close(self, patience_s: float = END_S) -> None:
        """Waits for the nodes, which end with their driver's engine; kills those that do not."""
        until = time.monotonic() + patience_s
        for process, told in self._started:
            os.close(told)
            try:
                process.wait(max(until - time.monotonic(), 0.0))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for show in self._shown:
            show.join(END_S)
        self._started.clear()


def node_labels(said: str, n: int) -> list[dict[str, str]]:
    """The labels of each of n nodes that the knob node_labels says: "a=1,b=2;a=3". ValueError for
    anything else, and for more nodes than there are."""
    out: list[dict[str, str]] = []
    for one in said.split(";") if said else []:
        pairs = [pair.strip().partition("=") for pair in one.split(",") if pair.strip()]
        if bad := next((k for k, equals, _ in pairs if not k or not equals), None):
            raise ValueError(
                f"node_labels={said!r}: {bad!r} is no label=value; labels of a node are separated by commas, nodes by semicolons"
            )
        out.append({k: v for k, _, v in pairs})
    if len(out) > n:
        raise ValueError(f"node_labels={said!r} has labels of {len(out)} nodes, and there are {n}")
    return out + [{}] * (n - len(out))


def _gpus(conf: dict[str, Any], i: int, n: int) -> dict[str, str]:
    """What tells node i of n which GPUs of this machine are its own."""
    of = [int(_share(conf, k, n)["num_gpus"]) for k in range(i + 1)]
    if not conf["num_gpus"]:
        return {}
    seen = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = [x.strip() for x in seen.split(",")] if seen else [str(k) for k in range(sum(of))]
    return {"CUDA_VISIBLE_DEVICES": ",".join(names[sum(of[:i]) : sum(of)])}


def _share(conf: dict[str, Any], i: int, n: int) -> dict[str, Any]:
    """The knobs of node i of n: equal shares, in whole CPUs and GPUs; what is left over goes to the
    first nodes. Custom resources are the first node's."""
    out = {name: conf[name] for name in config.KNOBS} | {
        "trace": "",
        "page": 0,
        "preload": ",".join(local.modules(conf["preload"])),
    }
    for name in ("num_cpus", "num_gpus"):
        out[name] = conf[name] // n + (i < conf[name] % n)
    for name in ("memory", "object_store_memory", "memory_limit"):
        out[name] = int(conf[name]) // n
    return out
