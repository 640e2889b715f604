"""The return values of readers: the source of the rows, and the facts known about them.
dataset.reads() makes a Dataset of them without reading anything."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from skate.data.read.options import BlockOptions, ReadOptions

from skate.data.values import unify


class Facts(NamedTuple):
    """The facts known about a Dataset without running it. schema: a function that returns a
    pyarrow.Schema or None."""

    rows: int | None = None
    schema: Callable[[], Any] | None = None
    files: list[str] = []
    bytes: int | None = None

    def known_schema(self) -> Any:
        """The pyarrow.Schema, or None if it is not known."""
        return self.schema() if self.schema is not None else None

    def check_columns(self, names: list[str], what: str) -> None:
        """Raises MissingColumn for a name that is not in the schema, if the schema is known."""
        if self.schema is not None:
            have = self.schema().names
            for n in names:
                if n not in have:
                    raise unify.MissingColumn(
                        f"{what}: there is no column {n!r}; {unify.columns_are(n, have)}"
                    )


class Source(NamedTuple):
    """Units that tasks read.

    label: text for people. params: parameters of the format's run(). units: (bytes for the task,
    rows or -1, bytes or -1) each. each_run: a function from the number of a run to the fields that
    differ in that run, for units that are drawn anew.
    """

    label: str
    params: dict[str, Any]
    units: list[tuple[bytes, int, int]]
    options: ReadOptions  # resources of the tasks; for files also on_error
    facts: Facts
    each_run: Callable[[int], dict[str, Any]] | None = None


class InMemory(NamedTuple):
    """Record batches of this process. They are put into the store when a run needs them. frames:
    they were DataFrames; dtypes: pandas' own dtypes of their columns, as frames.noted() writes
    them."""

    batches: list[Any]
    label: str
    frames: bool = False
    dtypes: dict[str, str] | None = None


def min_units() -> int:
    """The minimum number of units: fewer would leave cores idle for a small source. It depends on
    the machine and not on the engine's settings, so that the same input always has the same
    blocks."""
    return 2 * (os.cpu_count() or 1)


def asked_blocks(options: BlockOptions) -> int | None:
    """The number of read tasks that the user asks for; None: no particular number. ValueError: the
    number is impossible."""
    n, older = options.get("override_num_blocks"), options.get("parallelism", -1)
    return check_num_blocks(n) if n is not None else older if older > 0 else None


def check_num_blocks(n: Any) -> int:
    if not isinstance(n, int) or isinstance(n, bool) or n < 1:
        raise ValueError(f"override_num_blocks must be a positive int, not {n!r}")
    return n
