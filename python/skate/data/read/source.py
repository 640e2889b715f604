"""The return values of readers: the source of the rows, and the facts known about them.
dataset.reads() makes a Dataset from them without reading any rows."""

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

    label: text for users. params: parameters of the format's run(). units: (bytes for the task,
    rows or -1, bytes or -1) for each unit. each_run: a function from the number of a run to the
    fields that differ in that run, for units that are drawn anew.
    """

    label: str
    params: dict[str, Any]
    units: list[tuple[bytes, int, int]]
    options: ReadOptions  # resources of the tasks; for files, on_error as well
    facts: Facts
    each_run: Callable[[int], dict[str, Any]] | None = None


class InMemory(NamedTuple):
    """Record batches of this process, which are put into the store when a run needs them. frames:
    whether they were DataFrames; dtypes: pandas' own dtypes of their columns, in the form of
    frames.noted()."""

    batches: list[Any]
    label: str
    frames: bool = False
    dtypes: dict[str, str] | None = None


def min_units() -> int:
    """The least number of units: fewer units would leave CPUs idle for a small source. It depends
    on the machine, not on the engine's settings, so that the same input always has the same
    blocks."""
    return 2 * (os.cpu_count() or 1)


def asked_blocks(options: BlockOptions) -> int | None:
    """The number of read tasks that the user asks for; None: the user gave no number. ValueError:
    the number is invalid."""
    n, older = options.get("override_num_blocks"), options.get("parallelism", -1)
    return check_num_blocks(n) if n is not None else older if older > 0 else None


def check_num_blocks(n: Any) -> int:
    if not isinstance(n, int) or isinstance(n, bool) or n < 1:
        raise ValueError(f"override_num_blocks must be a positive int, not {n!r}")
    return n
