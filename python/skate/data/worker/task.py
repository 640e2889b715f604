"""The task that this process runs, as sources, writers and operators see it, and its place in the
input, for the texts of errors.

A user's exception leaves a worker unchanged except for one note with operator, input and row. The
same text is also stored where the driver can read it if the process is killed.
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
    """A part of a pack, a sample, or the bounds, as a task of an exchange gets them
    (src/shuffle/pack.h)."""

    blocks: Any  # a buffer with whole blocks
    rows: int  # the number of rows of the part; 0: the task needs none of its rows
    side: int  # the number of the stage's input that the part belongs to
    run: int
    row: int
    # of a pack that is merged with others: the lengths of its parts (uint32, in units of 64 bytes)
    lengths: bytes = b""


class Exchange(NamedTuple):
    """The input of a task of an exchange (src/shuffle/pack.h). The task is a cut, a merge of packs
    of partitions [first, end), a reduce of partitions [first, end) of n, a split reduce, or the
    reduce of the rows that split reduces left unmatched."""

    phase: int  # _skate.PHASE_...
    first: int
    end: int
    n: int
    parts: list[Part]
    bounds: Any  # a buffer with a block of the bounds; None: there are none
    shared: int  # 1 + the number of the input that several split reduces may share; 0: none
    told: list[Any]  # the match report of each split reduce, each a buffer with a block


class Task:
    """The task that this process is running."""

    # The number of the task in its stage, the same in every run; None: the task was started before
    # its turn, so its number is not known.
    seq: Any = 0
    unit: bytes = b""  # parameters of a source's unit
    about: Any = None  # an opaque value set by the code that put several units into one task
    reader: str = ""  # label of the operator that reads
    # An earlier attempt of the task died: each batch is saved for `skate replay` before a function
    # gets it.
    careful: bool = False
    kept: str | None = None  # the name of the file with the batch that was saved
    source_row: int | None = None  # the row of the source at which the reader's batch begins
    # where one source_row does not fit the whole batch: the file of each row of the reader's batch
    rows_of: list[str] | None = None
    letters: Letters  # the dead letters of this task
    trail: Trail
    cap: int = -1  # the number of output rows after which a task may stop; -1: none
    target: int = 16 << 20
    table: int = 8 << 20  # bytes of memory that a table of the task may take
    nbytes: Callable[[pa.RecordBatch], int] = staticmethod(lambda rb: rb.nbytes)
    values: int = 1  # the number of values that the task writes its packs into
    exchange: Exchange  # the input of a stage that begins with an exchange
    sides: list[int]  # for each input block the number of the stage's input that it belongs to
    turn: int = 0  # how many tasks this process has begun
    # For each operator, the rows that went to its fallback (images that Pillow decoded).
    fallbacks: list[int]
    _source: str = ""

    def __init__(self) -> None:
        self.letters, self.trail = Letters(0), Trail(())

    @property
    def source(self) -> str:
        """The file that is being read, for the notes of errors."""
        return self._source

    @source.setter
    def source(self, path: str) -> None:
        self._source = path
        self.reads()

    def reads(self) -> None:
        """Records that the task begins to read, for the message in case this process dies."""
        if self._source:
            _skate.doing(self.reader, "reading " + self._source)

    # ---- The place in the input, for errors.

    def note(
        self,
        e: BaseException,
        params: dict[str, Any],
        where: str,
        row: int | None = None,
        rb: pa.RecordBatch | None = None,
    ) -> None:
        """Adds a note to e with the place where a user's function failed. Only the innermost
        operator adds one. row: the number of the first input row that may be at fault; rb: the
        batch that the function was called with, which is saved for `skate replay`."""
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
        """The number of the task as words for a message."""
        return f" (task {self.seq})" if self.seq is not None else ""

    def at_hand(self, params: dict[str, Any], what: str, row: int, rb: pa.RecordBatch) -> str:
        """Records that a function is about to be called with rb, whose first row is number `row`,
        for the message in case this process dies. If an earlier attempt died, first saves rb for
        `skate replay`. Returns the text that follows the place in the message."""
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
            # Nothing is saved if the function cannot be pickled again, or the disk is full.
            except Exception:
                kept = None
            self.let_go()
            self.kept = kept
            again = f"; `skate replay {kept}` runs it again" if kept else ""
        _skate.doing(params["label"], where + self.number() + again)
        return again

    def let_go(self) -> None:
        """Removes the batch that was saved before a call: the call did not end the process."""
        if self.kept is not None:
            replay.drop(self.kept)
            self.kept = None

    # ---- Rows that fail.

    def bad_row(
        self, params: dict[str, Any], e: BaseException, rb: pa.RecordBatch | None, row: int
    ) -> None:
        """Turns the input row `row` of an operator, which has failed, into a dead letter; the
        output has no row for it."""
        at = params.get("at", 0)
        source, source_row = self.trail.origin(at, row)
        self.letters.add(params, e, rb, row, source, source_row)
        if at < len(self.trail.dropped):
            self.trail.dropped[at].append(row)


task = Task()


def tolerates(params: dict[str, Any]) -> bool:
    """Whether an operator continues after bad records."""
    return (params.get("on_error") or "raise") != "raise"


def _kept(e: BaseException, params: dict[str, Any], rb: pa.RecordBatch | None, where: str) -> str:
    most = DataContext.get_current().replay_bytes
    if rb is None or most <= 0 or is_fatal(e) or not _skate.in_worker():
        return ""
    if params.get("large"):
        return "; not kept for `skate replay`: what the function takes along is large"
    try:
        name = replay.keep(params, rb, where, most)
    # The batch cannot be saved (its function cannot be pickled again, or the disk is full): the
    # user's error is reported all the same.
    except Exception as why:
        return f"; not kept for `skate replay`: {str(why).splitlines()[0] if str(why) else type(why).__name__}"
    return f"; `skate replay {name}` runs it again under pdb" if name else ""
