"""The piece of work that this process is at: for sources, writers and operators, and for what
errors say of where they are.

A user's exception leaves a worker as it is, with one note that says operator, input and row; what
ends the process finds the same where the message about its death looks for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from skate import _skate
from skate._deps import pa
from skate.data.context import DataContext
from skate.data.on_error import is_fatal
from skate.data.worker import replay
from skate.data.worker.dead_letters import Letters, Trail

ROWS = "input rows"
BATCH = "the batch of input rows"


class Part(NamedTuple):
    """A part of a pack, or a sample, or bounds, as an exchange gets it (src/shuffle/pack.h)."""

    blocks: Any  # a buffer with whole blocks
    rows: int  # 0: none of them are wanted
    side: int  # number of the stage's input
    run: int
    row: int
    lengths: bytes = b""  # of a pack that is merged: of its parts (uint32, in units of 64 bytes)


class Exchange(NamedTuple):
    """The input of a task of an exchange: of the one that cuts, of one that merges packs of
    partitions [first, end), or of one that makes partitions [first, end) of n, or a share of them,
    or what shares leave (src/shuffle/pack.h)."""

    phase: int  # _skate.PHASE_...
    first: int
    end: int
    n: int
    parts: list[Part]
    bounds: Any  # a buffer with a block; None: there are none
    shared: int  # 1 + the input that several tasks of these partitions may share; 0: none
    told: list[Any]  # what each share told: a buffer with a block


class Task:
    """The piece of work that this process is at."""

    # number of the task in its stage: the same on every run; None: started ahead of its turn
    seq: Any = 0
    unit: bytes = b""  # parameters of a source's unit
    about: Any = None  # what who put several units into one task says of it
    reader: str = ""  # label of the operator that reads
    # it was begun before, and the process died: what functions get is kept beforehand
    careful: bool = False
    kept: str | None = None  # the name of such a file
    source_row: int | None = None  # row in it at which the batch that the reader gives begins
    rows_of: list[str] | None = None  # instead: the file of each row of that batch
    letters: Letters  # bad records of this task
    trail: Trail
    cap: int = -1  # a task may stop after so many output rows
    target: int = 16 << 20
    nbytes: Callable[[pa.RecordBatch], int] = staticmethod(lambda rb: rb.nbytes)
    values: int = 1  # in how many its packs are to be
    exchange: Exchange  # of a stage that begins with one
    sides: list[int]  # of each input block: the number of the stage's input that it is of
    turn: int = 0  # how many tasks this process has begun
    # of each operator: rows that its quicker way refused (images that Pillow decoded)
    aside: list[int]
    _source: str = ""

    def __init__(self) -> None:
        self.letters, self.trail = Letters(0), Trail(())

    @property
    def source(self) -> str:
        """What is being read, for error notes: a file."""
        return self._source

    @source.setter
    def source(self, path: str) -> None:
        self._source = path
        self.reads()

    def reads(self) -> None:
        """It reads from now on: said where the message about this process's death finds it."""
        if self._source:
            _skate.doing(self.reader, "reading " + self._source)

    # ---- where it is

    def note(
        self,
        e: BaseException,
        params: dict[str, Any],
        where: str,
        row: int | None = None,
        rb: pa.RecordBatch | None = None,
    ) -> None:
        """Says once, at the innermost operator, where a user function failed. row: the first input
        row in question; rb: what the function had, to be kept for `skate replay`."""
        if not getattr(e, "__skate_noted__", False):
            try:
                e.__skate_noted__ = True  # type: ignore[attr-defined]
            except AttributeError:
                pass
            origin = self.origin(params, row)
            e.add_note(
                f"in {params['label']}: {where}{origin}{self.number()}"
                + _kept(e, params, rb, where + origin)
            )

    def origin(self, params: dict[str, Any], row: int | None) -> str:
        """Where an input row of an operator comes from, in words."""
        source, at = self.trail.origin(params.get("at", 0), row)
        return (
            f", row {at} of {source}"
            if at is not None
            else f" of {source or self.source}"
            if source or self.source
            else ""
        )

    def number(self) -> str:
        """Its number, in words."""
        return f" (task {self.seq})" if self.seq is not None else ""

    def at_hand(self, params: dict[str, Any], what: str, row: int, rb: pa.RecordBatch) -> str:
        """A function is about to be called with rb, whose first row is `row`: said where the
        message about this process's death finds it. After such a death rb is kept for `skate
        replay` first. What is said behind the place."""
        last = row + rb.num_rows - 1
        if self.careful:
            return self._at_hand_again(
                params, f"{what} {row}..{last}{self.origin(params, row)}", rb
            )
        source, at = self.trail.origin(params.get("at", 0), row)
        _skate.doing(params["label"], what, row, last, source or self._source, at, self.seq)
        return ""

    def _at_hand_again(self, params: dict[str, Any], where: str, rb: pa.RecordBatch) -> str:
        again = ""
        if not params.get("large"):
            most = DataContext.get_current().replay_bytes
            try:
                kept = replay.keep(params, rb, where, most) if most > 0 else None
            # a function that cannot be pickled again, a full disk: there is no such file, then
            except Exception:
                kept = None
            self.let_go()
            self.kept = kept
            again = f"; `skate replay {kept}` runs it again" if kept else ""
        _skate.doing(params["label"], where + self.number() + again)
        return again

    def let_go(self) -> None:
        """What was kept beforehand has not ended the process."""
        if self.kept is not None:
            replay.drop(self.kept)
            self.kept = None

    # ---- rows that fail

    def bad_row(
        self, params: dict[str, Any], e: BaseException, rb: pa.RecordBatch | None, row: int
    ) -> None:
        """The input row `row` of an operator has failed: it goes to the dead letters, and out of
        the output."""
        at = params.get("at", 0)
        source, source_row = self.trail.origin(at, row)
        self.letters.add(params, e, rb, row, source, source_row)
        if at < len(self.trail.dropped):
            self.trail.dropped[at].append(row)


task = Task()


def tolerates(params: dict[str, Any]) -> bool:
    """Whether bad records are not the end of it."""
    return (params.get("on_error") or "raise") != "raise"


def _kept(e: BaseException, params: dict[str, Any], rb: pa.RecordBatch | None, where: str) -> str:
    most = DataContext.get_current().replay_bytes
    if rb is None or most <= 0 or is_fatal(e) or not _skate.in_worker():
        return ""
    if params.get("large"):
        return "; not kept for `skate replay`: what the function takes along is large"
    try:
        name = replay.keep(params, rb, where, most)
    # a function that cannot be pickled again, a full disk: the user's error is what matters
    except Exception as why:
        return f"; not kept for `skate replay`: {str(why).splitlines()[0] if str(why) else type(why).__name__}"
    return f"; `skate replay {name}` runs it again under pdb" if name else ""
