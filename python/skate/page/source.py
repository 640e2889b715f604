"""What a page shows, and where it is from."""

from __future__ import annotations

import json
import os
from typing import Any, Protocol

from skate._private import stack, timeline, view
from skate._private.prometheus import prometheus_text

STACK_SECONDS = 2.0  # a process that has not told its stack by then is stopped, or is in C


class Source(Protocol):
    """Where a page reads. Threads of the page call it, which may be at once."""

    def snapshot(self) -> dict[str, Any]:
        """The state of the engine, as skate._private.view has it. LookupError: the engine has
        ended."""
        ...

    def stack(self, pid: int) -> str:
        """The Python stacks of a process of the engine. LookupError: it is no such process, or the
        engine has ended."""
        ...

    def trace(self) -> bytes:
        """The timeline, as JSON that ui.perfetto.dev opens. LookupError: there is none."""
        ...

    def metrics(self, snapshot: dict[str, Any]) -> str:
        """A snapshot as text for Prometheus."""
        ...


class Engine:
    """An engine of this user, or the record of one.

    Args:
        where: The pid of any process of an engine, the path of a record, or None: the engine of this
            process.
    """

    def __init__(self, where: int | str | os.PathLike[str] | None):
        self._where = where
        self._first: dict[str, Any] | None = None
        self._first = self.snapshot()

    def snapshot(self) -> dict[str, Any]:
        out = view.own() if self._where is None else view.snapshot(self._where)
        if self._first is not None and out["started"] != self._first["started"]:
            raise LookupError("the engine has ended, and another one has its number")
        return out

    def stack(self, pid: int) -> str:
        now = self.snapshot()
        if not now["live"]:
            raise LookupError("the engine has ended, and its processes with it")
        homes = {0} if pid == now["pid"] else {w["node"] for w in now["workers"] if w["pid"] == pid}
        if not homes:
            raise LookupError(f"process {pid} is none of this engine")
        # a process of this machine may have the number of one of another machine
        if homes != {0} and (len(homes) > 1 or not stack.is_of_a_node(pid, now["pid"])):
            names = ", ".join(n["name"] for n in now["nodes"] if n["number"] in homes)
            return f"(process {pid} is on node {names}: `skate stack {pid}` shows it there)"
        return stack.stacks([pid], STACK_SECONDS)[pid]

    def trace(self) -> bytes:
        found = timeline.events() if self._where is None else timeline.events_of(self._where)
        return json.dumps(found).encode()

    def metrics(self, snapshot: dict[str, Any]) -> str:
        try:
            return prometheus_text(snapshot).decode()
        except ModuleNotFoundError as e:  # prometheus-client
            raise LookupError(str(e)) from None
