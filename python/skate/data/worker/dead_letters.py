"""The dead letters of one task: rows whose function raises, and lines and files that cannot be read
(on_error.py).

Dead letters leave the task as blocks beside its output (_skate.BlockOut(batch, bad=n)). If a task
is retried, the engine drops the blocks that it has received already, so each dead letter arrives
once.

Cost without errors: a try statement for each row or batch. With errors: a function over batches is
called again with halves of the batch until single rows fail: about 2 * log2(n) calls for one bad
row among n rows; 2n if all rows are bad.
"""

from __future__ import annotations

import functools
import os
import traceback
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from skate._deps import pa
from skate.data.on_error import is_fatal
from skate.data.values.unify import merge

if TYPE_CHECKING:
    from skate.data.op import Operator

# the most dead letters, and bytes of these, that a task collects before it yields them
FLUSH_ROWS, FLUSH_BYTES = 256, 1 << 20
TRACEBACK_CHARS = 8000

_HERE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep


class Letters:
    """Collects the dead letters of one task."""

    def __init__(self, task: int | None):
        self.task = task
        self.letters: list[tuple[dict[str, Any], pa.RecordBatch | None]] = []
        self.skipped: dict[tuple[str, str], dict[str, Any]] = {}
        self.bytes = 0
        self.some = False  # whether there are dead letters for take()

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
        """Adds one bad record. params: of the operator that failed; e: the error; rb: a batch with
        the bad row as the operator got it; number: the number of the row in the task's input;
        source, source_row: the file, and the number of the row in the file; raw: the record's bytes
        as read; line: the number of the line in a text file, from 1."""
        self.some = True
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
            seen = self.skipped.setdefault(
                (label, kind), {**where, "input_row": number, "count": 0}
            )
            seen["count"] += 1
            return
        text = _trace(e)
        self.letters.append(({**where, "input_row": number, "traceback": text, "raw": raw}, rb))
        self.bytes += 500 + len(text) + len(raw or b"") + (rb.nbytes if rb is not None else 0)

    def full(self) -> bool:
        return len(self.letters) >= FLUSH_ROWS or self.bytes >= FLUSH_BYTES

    def take(self, last: bool) -> Iterator[tuple[pa.RecordBatch, int]]:
        """Yields (block of dead letters, number of rows that it stands for) for what was added
        since the last call. last: the task has ended; only then does it yield the counts of skipped
        rows."""
        groups: list[tuple[Any, list[tuple[dict[str, Any], Any]]]] = []
        for letter in self.letters:
            rb = letter[1]
            key = None if rb is None else rb.schema
            if (
                not groups
                or groups[-1][1][0][0]["operator"] != letter[0]["operator"]
                or groups[-1][0] != key
            ):
                groups.append((key, []))
            groups[-1][1].append(letter)
        for key, group in groups:
            yield _block(key, group), len(group)
        self.letters, self.bytes = [], 0
        if last and self.skipped:
            rows = list(self.skipped.values())
            yield _table([*_FIELDS, ("count", "int64")], rows, None), sum(r["count"] for r in rows)
            self.skipped = {}
        self.some = bool(self.skipped)


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
    """The traceback of e from the first frame of user code on; only its end if it is long."""
    tb = e.__traceback__
    while (
        tb is not None
        and tb.tb_next is not None
        and tb.tb_frame.f_code.co_filename.startswith(_HERE)
    ):
        tb = tb.tb_next
    text = "".join(traceback.format_exception(type(e), e, tb))
    return text if len(text) <= TRACEBACK_CHARS else "..." + text[-TRACEBACK_CHARS:]


def _table(fields: list[tuple[str, str]], rows: list[dict[str, Any]], row: Any) -> pa.RecordBatch:
    cols = [pa.array([_clean(r[n]) for r in rows], getattr(pa, t)()) for n, t in fields]
    names = [n for n, _ in fields]
    if row is not None:
        cols.append(row)
        names.append("row")
    return pa.RecordBatch.from_arrays(cols, names=names)


def _clean(v: Any) -> Any:
    """Replaces characters of a message that UTF-8 cannot encode (lone surrogates)."""
    return v.encode("utf-8", "backslashreplace").decode() if isinstance(v, str) else v


def _block(schema: pa.Schema | None, group: list[tuple[dict[str, Any], Any]]) -> pa.RecordBatch:
    if schema is None or not len(schema):
        row: Any = pa.nulls(len(group))
    else:
        rb = merge([rb for _, rb in group])
        row = pa.StructArray.from_arrays(rb.columns, fields=list(rb.schema))
    return _table(_LETTER, [r for r, _ in group], row)


def empty() -> pa.RecordBatch:
    """A batch without rows that has the columns of dead letters."""
    return _block(None, [])


class Trail:
    """Records from where the rows of a task come: the batches of its reader, and the rows that its
    operators have dropped. It knows the origin of a row only as long as the operators keep the
    order in which rows were read."""

    def __init__(self, ops: tuple[Operator, ...]):
        # (first row, rows, source or list of sources, row in the source) of each batch read
        self.read: list[tuple[int, int, Any, int | None]] = []
        self.rows = 0
        self.dropped: list[list[int]] = [[] for _ in ops]
        self.known = _rows_known(ops)
        self.reads = bool(ops) and ops[0].source

    def follow(self, batches: Iterator[pa.RecordBatch], task: Any) -> Iterator[pa.RecordBatch]:
        """Passes the reader's batches on and records each."""
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
        """Returns (source, number of the row in the source) of the input row `row` of operator
        number `at`; None in place of what is unknown."""
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
def _rows_known(ops: tuple[Operator, ...]) -> list[bool]:
    """For each operator of a stage: whether its input rows are the rows that were read, in order,
    except rows that earlier operators have dropped."""
    return [
        bool(ops) and ops[0].source and all(o.one_to_one for o in ops[1:i]) for i in range(len(ops))
    ]


def isolate(
    first: BaseException,
    rb: pa.RecordBatch,
    row: int,
    work: Callable[[pa.RecordBatch], list[pa.RecordBatch]],
    bad: Callable[[BaseException, Any, int], None],
) -> Iterator[pa.RecordBatch]:
    """Finds the bad rows of a batch, after work() has raised `first` for the whole batch rb: tries
    halves of it again and again, and passes single rows that fail to bad(). Yields the results of
    work() for the good rows, in order. row: the number of rb's first row in the task's input."""
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
