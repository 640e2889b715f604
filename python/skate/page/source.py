"""What a page shows, and where it is from."""

from __future__ import annotations

from typing import Any, Protocol


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
