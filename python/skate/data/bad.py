"""Bad records: rows whose function raises, lines and files that cannot be read. on_error says what becomes of them.

Three parts. Policies and what counts as a bad record. `Letters`, in the worker: dead letters of one task, which leave it as blocks beside its output
(_skate.BlockOut(batch, bad=n)), so that the engine's replay of a retried task gives each exactly once. `Errors`, in the driver: what a run has received.

A bad record is an Exception of the user's code, or data that a reader cannot understand. Never: an I/O error (with an errno, or of a remote store),
MemoryError, a cancelled task, the constructor of a class: these end the run whatever on_error says.

Cost without errors: a try statement a row or batch. With errors: a function over batches is called again with halves until single rows fail:
about 2 * log2(n) calls for one bad row among n; 2n when all are.
"""

from __future__ import annotations

import functools
import os
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from skate import _skate
from skate.data.values.unify import merge, unify
from skate.exceptions import RayError, TaskCancelledError

if TYPE_CHECKING:
    import pyarrow as pa

POLICIES = ("raise", "skip", "quarantine")
OPS = ("read", "map", "map_batches", "flat_map", "filter", "add_column", "project", "project_numbered")  # those that know what to do
FLUSH_ROWS, FLUSH_BYTES = 256, 1 << 20  # dead letters that a task holds at most before they go out
TRACEBACK_CHARS = 8000
FIRST = 5  # causes in messages

_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def check_policy(v: Any) -> Any:
    """v, or ValueError."""
    if v is not None and v not in POLICIES:
        raise ValueError(f"on_error must be 'raise', 'skip' or 'quarantine', not {v!r}")
    return v


def limit(v: Any) -> tuple[int, float | None]:
    """max_errors as (rows, -1 for any number; share or None). ValueError for what is neither."""
    if v is None:
        return -1, None
    if isinstance(v, bool) or not isinstance(v, (int, float)) or v < 0:
        raise ValueError(f"max_errors must be a number of rows, a share between 0.0 and 1.0, or None, not {v!r}")
    if isinstance(v, int):
        return v, None
    if v > 1:
        raise ValueError(f"max_errors is a share when it is a float, so between 0.0 and 1.0, not {v!r}; give an int for a number of rows")
    return -1, v


def is_io(e: BaseException) -> bool:
    """An error of a disk, a network or a store: the data may be good."""
    if not isinstance(e, OSError):
        return False
    return e.errno is not None or any(t in str(e) for t in ("AWS Error", "curl", "HTTP", "google::cloud", "timed out"))


def is_fatal(e: BaseException, reading: bool = False) -> bool:
    """Not a bad record."""
    return not isinstance(e, Exception) or isinstance(e, (MemoryError, TaskCancelledError)) or (reading and is_io(e))


# ---- in the worker


class Letters:
    """Dead letters of one task."""

    def __init__(self, task: int | None):
        self.task = task
        self.letters: list[tuple[dict[str, Any], pa.RecordBatch | None]] = []
        self.skipped: dict[tuple[str, str], dict[str, Any]] = {}
        self.bytes = 0

    def add(
        self,
        params: dict[str, Any],
        e: BaseException,
        rb: pa.RecordBatch | None,
        number: int | None,
        source: str | None,
        source_row: int | None,
        raw: bytes | None = None,
        line: int | None = None,
    ) -> None:
        """One bad record. params: of its operator; rb: the row as the operator got it; number: of the row in the task's input; raw: bytes as read; line: of a text file, from
        1."""
        label, kind = params["label"], type(e).__name__
        where = {
            "operator": label,
            "error": kind,
            "message": str(e),
            "source": source,
            "source_row": source_row,
            "line": line,
            "task": self.task,
        }
        if params["on_error"] == "skip":
            seen = self.skipped.setdefault((label, kind), {**where, "input_row": number, "count": 0})
            seen["count"] += 1
            return
        text = _trace(e)
        self.letters.append(({**where, "input_row": number, "traceback": text, "raw": raw}, rb))
        self.bytes += 500 + len(text) + len(raw or b"") + (rb.nbytes if rb is not None else 0)

    def full(self) -> bool:
        return len(self.letters) >= FLUSH_ROWS or self.bytes >= FLUSH_BYTES

    def take(self, last: bool) -> Iterator[tuple[pa.RecordBatch, int]]:
        """(block, rows that it stands for) of what was added since; the counts of skipped rows only at the end of the task."""
        groups: list[tuple[Any, list[tuple[dict[str, Any], Any]]]] = []
        for letter in self.letters:
            rb = letter[1]
            key = None if rb is None else rb.schema
            if not groups or groups[-1][1][0][0]["operator"] != letter[0]["operator"] or groups[-1][0] != key:
                groups.append((key, []))
            groups[-1][1].append(letter)
        for key, group in groups:
            yield _block(key, group), len(group)
        self.letters, self.bytes = [], 0
        if last and self.skipped:
            rows = list(self.skipped.values())
            yield _table([*_FIELDS, ("count", "int64")], rows, None), sum(r["count"] for r in rows)
            self.skipped = {}


_FIELDS = [
    ("operator", "string"),
    ("error", "string"),
    ("message", "string"),
    ("source", "string"),
    ("source_row", "int64"),
    ("line", "int64"),
    ("task", "int64"),
    ("input_row", "int64"),
]
_LETTER = [*_FIELDS, ("traceback", "string"), ("raw", "binary")]


def _trace(e: BaseException) -> str:
    """The traceback from where the user's code begins; its end, when it is long."""
    tb = e.__traceback__
    while tb is not None and tb.tb_next is not None and tb.tb_frame.f_code.co_filename.startswith(_HERE):
        tb = tb.tb_next
    text = "".join(traceback.format_exception(type(e), e, tb))
    return text if len(text) <= TRACEBACK_CHARS else "..." + text[-TRACEBACK_CHARS:]


def _table(fields: list[tuple[str, str]], rows: list[dict[str, Any]], row: Any) -> pa.RecordBatch:
    import pyarrow as pa

    cols = [pa.array([_clean(r[n]) for r in rows], getattr(pa, t)()) for n, t in fields]
    names = [n for n, _ in fields]
    if row is not None:
        cols.append(row)
        names.append("row")
    return pa.RecordBatch.from_arrays(cols, names=names)


def _clean(v: Any) -> Any:
    """Messages may hold what is no text (lone surrogates)."""
    return v.encode("utf-8", "backslashreplace").decode() if isinstance(v, str) else v


def _block(schema: pa.Schema | None, group: list[tuple[dict[str, Any], Any]]) -> pa.RecordBatch:
    import pyarrow as pa

    if schema is None or not len(schema):
        row: Any = pa.nulls(len(group))
    else:
        rb = merge([rb for _, rb in group])
        row = pa.StructArray.from_arrays(rb.columns, fields=list(rb.schema))
    return _table(_LETTER, [r for r, _ in group], row)


def empty() -> pa.RecordBatch:
    """Dead letters of a run without any."""
    return _block(None, [])


class Trail:
    """Where the rows of a task come from: what its reader gave, and which rows its operators have dropped. For operators whose rows still have the places
    that they had when read."""

    def __init__(self, ops: tuple[str, ...]):
        self.read: list[tuple[int, int, Any, int | None]] = []  # first row, rows, source or list of sources, row in the source
        self.rows = 0
        self.dropped: list[list[int]] = [[] for _ in ops]
        self.known = _rows_known(ops)
        self.reads = bool(ops) and ops[0] == "read"

    def follow(self, batches: Iterator[pa.RecordBatch], task: Any) -> Iterator[pa.RecordBatch]:
        """The reader's batches, written down."""
        for rb in batches:
            of = task.rows_of
            task.rows_of = None
            if of is not None and len(of) == rb.num_rows:
                self.read.append((self.rows, rb.num_rows, of, None))
            else:
                self.read.append((self.rows, rb.num_rows, task.source, task.source_row))
            self.rows += rb.num_rows
            yield rb
            task.reads()

    def origin(self, at: int, row: int | None) -> tuple[str | None, int | None]:
        """(source, row in it) of the input row of operator `at`; what is not known is None."""
        if not self.reads or not self.read:
            return None, None
        if row is not None and self.known[at]:
            for k in range(at - 1, 0, -1):
                for d in self.dropped[k]:
                    if d > row:
                        break
                    row += 1
            for first, n, source, at_row in reversed(self.read):
                if first <= row < first + n:
                    if isinstance(source, list):
                        return source[row - first], None
                    return source or None, None if at_row is None else at_row + row - first
        said = {s for _, _, of, _ in self.read for s in (of if isinstance(of, list) else [of])}
        return (said.pop() or None, None) if len(said) == 1 else (None, None)


@functools.cache
def _rows_known(ops: tuple[str, ...]) -> list[bool]:
    """Of each operator of a stage: whether its input rows are those that were read, without what the ones before have dropped."""
    return [bool(ops) and ops[0] == "read" and all(o in _KEEP_ROWS for o in ops[1:i]) for i in range(len(ops))]


_KEEP_ROWS = {"map", "add_column", "project", "project_numbered", "select_columns", "drop_columns", "rename_columns"}


def isolate(
    first: BaseException,
    rb: pa.RecordBatch,
    row: int,
    work: Callable[[pa.RecordBatch], list[pa.RecordBatch]],
    bad: Callable[[BaseException, Any, int], None],
) -> Iterator[pa.RecordBatch]:
    """What work() gives for rb, in order, after it has raised `first` for all of rb: halves are tried, and single rows that fail go to bad(). row: number of rb's first."""
    todo: list[tuple[int, pa.RecordBatch]] = []

    def failed(e: BaseException, part: pa.RecordBatch, at: int) -> None:
        if is_fatal(e):
            raise e
        n = part.num_rows
        if n <= 1:
            bad(e, part, at)
        else:
            todo.extend([(at + n // 2, part.slice(n // 2)), (at, part.slice(0, n // 2))])

    failed(first, rb, row)
    while todo:
        at, part = todo.pop()
        try:
            out = work(part)
        except BaseException as e:
            failed(e, part, at)
            continue
        yield from out


# ---- in the driver


class TooManyErrors(RayError):
    """More bad records than DataContext.max_errors allows. `errors`: the Errors of the run, with those that came until then."""

    errors: Any = None


class Errors:
    """What one run has received beside its output. Thread-safe."""

    def __init__(self, x: Any):
        self.x = x
        self.lock = threading.Lock()
        self.blocks: list[tuple[tuple[int, int], Any]] = []  # order; (ObjectRef, 0, rows, bytes)
        self.counts: dict[str, dict[str, int]] = {}  # operator -> error -> rows
        self.skipped = self.kept = self.dropped = 0
        self.first: list[str] = []

    def __getstate__(self) -> dict[str, Any]:
        """Of a run that is over."""
        return {k: v for k, v in self.__dict__.items() if k not in ("x", "lock")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, x=None, lock=threading.Lock())

    def drain(self, log: Any = None, more: int = 0) -> None:
        """Takes what has come. log: where tasks that were left out are told of; more: how many may still fail (-1: any number)."""
        with self.lock:
            for stage, bad, ref, message in self.x.sides() if self.x is not None else ():
                if bad:
                    self._letters(stage, ref)
                else:
                    self.dropped += 1
                    if log is not None:
                        self._tell(log, ref, message, more)

    def end(self) -> None:
        """The run is over and stopped: takes the last ones, and lets go of it."""
        self.drain()
        self.x = None

    def _letters(self, stage: int, ref: Any) -> None:
        rb = _skate.get(ref)
        counted = "count" in rb.schema.names
        n = rb.column("count").to_pylist() if counted else [1] * rb.num_rows
        cols = [rb.column(c).to_pylist() for c in ("operator", "error", "message", "source", "source_row")]
        for op, kind, message, source, row, k in zip(*cols, n, strict=True):
            by = self.counts.setdefault(op, {})
            by[kind] = by.get(kind, 0) + k
            if len(self.first) < FIRST:
                where = f" ({source}{'' if row is None else f', row {row}'})" if source else ""
                self.first.append(f"{op}{where}: {kind}: {message.splitlines()[0] if message else ''}"[:400])
        if counted:
            self.skipped += sum(n)
        else:
            self.kept += rb.num_rows
            task = rb.column("task")[0].as_py()
            self.blocks.append(((stage, -1 if task is None else task), (ref, 0, rb.num_rows, rb.nbytes)))

    def _tell(self, log: Any, ref: Any, message: str, more: int) -> None:
        if ref is not None:
            try:
                _skate.get(ref)
            except Exception as e:
                message = f"{message}: {e}"
        left = "any number" if more < 0 else str(max(0, more - self.dropped))
        log.error(
            "A task failed and the run goes on without the rest of its output; %s more may fail (DataContext.max_errored_blocks). %s",
            left,
            message,
        )

    @property
    def total(self) -> int:
        return self.skipped + self.kept

    def what(self) -> str:
        """Counts by operator and error, in words."""
        return "; ".join(f"{op}: " + ", ".join(f"{n:,} {k}" for k, n in by.items()) for op, by in self.counts.items())

    def too_many(self, allowed: str) -> TooManyErrors:
        """The error of a run with too many bad records."""
        lines = "".join(f"\n  {t}" for t in self.first)
        e = TooManyErrors(f"{self.total:,} rows failed, more than {allowed} (DataContext.max_errors). {self.what()}. The first:{lines}")
        e.errors = self
        return e

    def check_share(self, share: float | None, stats: dict[str, Any]) -> None:
        """At the end of a run: TooManyErrors when more than this share of the rows that came in was bad."""
        if share is None or not self.total:
            return
        rows = self._rows_in(stats)
        if self.total > share * rows:
            raise self.too_many(f"the share {share:g} of {rows:,} rows that came in")

    def _rows_in(self, stats: dict[str, Any]) -> int:
        """Rows read or given by the stages that bring data in, those that could not be read included."""
        rows = 0
        for o in stats.get("ops") or []:
            fused = o.get("fused") or []
            if o["kind"] in ("tasks", "actors") and not o["rows_in"] and fused:
                rows += fused[0]["rows_out"]
            elif o["kind"] == "blocks":
                rows += o["rows_out"]
        return rows + sum(n for op, by in self.counts.items() if op.startswith("Read") for n in by.values())

    def letters(self, operator: str | None = None) -> tuple[list[Any], Any]:
        """Blocks of the dead letters that have come until now (of one operator), and their schema; batches, where operators have columns of one name that go together with no other, and
        None."""
        self.drain()
        with self.lock:
            blocks = [b for _, b in sorted(self.blocks, key=lambda b: b[0])]
        if operator is not None:
            blocks = [b for b in blocks if _skate.get(b[0]).column("operator")[0].as_py() == operator]
        rbs = [_skate.get(b[0]) for b in blocks]
        try:
            return blocks, unify([rb.schema for rb in rbs]) if rbs else None
        except TypeError:
            return [_rows_as_objects(rb) for rb in rbs], None


def _rows_as_objects(rb: Any) -> Any:
    """Dead letters whose `row` is a Python dict."""
    import pyarrow as pa

    from skate.data.values.from_arrow import to_objects
    from skate.data.values.types import python_objects

    i = rb.schema.get_field_index("row")
    rows = python_objects(to_objects("row", rb.column(i)))
    return rb.set_column(i, pa.field("row", rows.type), rows)
