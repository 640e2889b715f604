"""The dead letters of a run, in the driver: their blocks, counts and limits (on_error.py has the
policies)."""

from __future__ import annotations

from typing import Any

from skate import _forked, _skate
from skate._deps import pa
from skate.data.values import from_arrow
from skate.data.values import types as value_types
from skate.data.values.unify import unify
from skate.exceptions import RayError

FIRST = 5  # the most causes that an error message shows


class TooManyErrors(RayError):
    """A run has more bad records than DataContext.max_errors allows. `errors`: the Errors of the
    run, with all dead letters that arrived before the run was stopped."""

    errors: Any = None


class Errors:
    """The dead letters that one run has received beside its output. Thread-safe."""

    def __init__(self, x: Any):
        self.x = x
        self.lock = _forked.lock()
        # the blocks of dead letters: (order, block), where a block is (ObjectRef, 0, rows, bytes)
        self.blocks: list[tuple[tuple[int, int], Any]] = []
        self.counts: dict[str, dict[str, int]] = {}  # operator -> error -> rows
        self.skipped = self.kept = self.dropped = 0
        self.first: list[str] = []

    def __getstate__(self) -> dict[str, Any]:
        """Pickles the dead letters; the copy takes no further ones."""
        return {k: v for k, v in self.__dict__.items() if k not in ("x", "lock")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, x=None, lock=_forked.lock())

    def drain(self, log: Any = None, more: int = 0) -> None:
        """Takes the dead letters that have arrived since the last call. log: a logger for failed
        tasks whose output was left out; more: how many further tasks may fail (-1: any number)."""
        with self.lock:
            for stage, bad, ref, message in self.x.failures() if self.x is not None else ():
                if bad:
                    self._letters(stage, ref)
                else:
                    self.dropped += 1
                    if log is not None:
                        self._tell(log, ref, message, more)

    def end(self) -> None:
        """Takes the last dead letters of a stopped run, and releases the run object."""
        self.drain()
        self.x = None

    def _letters(self, stage: int, ref: Any) -> None:
        rb = _skate.get(ref)
        counted = "count" in rb.schema.names
        n = rb.column("count").to_pylist() if counted else [1] * rb.num_rows
        cols = [
            rb.column(c).to_pylist()
            for c in ("operator", "error", "message", "source", "source_row")
        ]
        for op, kind, message, source, row, k in zip(*cols, n, strict=True):
            by = self.counts.setdefault(op, {})
            by[kind] = by.get(kind, 0) + k
            if len(self.first) < FIRST:
                where = f" ({source}{'' if row is None else f', row {row}'})" if source else ""
                self.first.append(
                    f"{op}{where}: {kind}: {message.splitlines()[0] if message else ''}"[:400]
                )
        if counted:
            self.skipped += sum(n)
        else:
            self.kept += rb.num_rows
            task = rb.column("task")[0].as_py()
            self.blocks.append(
                ((stage, -1 if task is None else task), (ref, 0, rb.num_rows, rb.nbytes))
            )

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
        """The numbers of dead letters by operator and error, as text."""
        return "; ".join(
            f"{op}: " + ", ".join(f"{n:,} {k}" for k, n in by.items())
            for op, by in self.counts.items()
        )

    def too_many(self, allowed: str) -> TooManyErrors:
        """The error of a run with too many bad records."""
        lines = "".join(f"\n  {t}" for t in self.first)
        e = TooManyErrors(
            f"{self.total:,} rows failed, more than {allowed} (DataContext.max_errors). {self.what()}. The first:{lines}"
        )
        e.errors = self
        return e

    def check_share(self, share: float | None, stats: dict[str, Any]) -> None:
        """Checks a finished run: raises TooManyErrors if more than this share of its input rows was
        bad."""
        if share is None or not self.total:
            return
        rows = self._rows_in(stats)
        if self.total > share * rows:
            raise self.too_many(f"the share {share:g} of {rows:,} rows that came in")

    def _rows_in(self, stats: dict[str, Any]) -> int:
        """The number of input rows of the run: those that its sources gave, and those that could
        not be read."""
        rows = 0
        for o in stats.get("ops") or []:
            fused = o.get("fused") or []
            if o["kind"] in ("tasks", "actors") and not o["rows_in"] and fused:
                rows += fused[0]["rows_out"]
            elif o["kind"] == "blocks":
                rows += o["rows_out"]
        return rows + sum(
            n for op, by in self.counts.items() if op.startswith("Read") for n in by.values()
        )

    def letters(self, operator: str | None = None) -> tuple[list[Any], Any]:
        """Returns (blocks of the dead letters that have arrived, of one operator if it is named;
        their schema). If a column of two operators has the same name and types without a common
        type, returns (batches, None)."""
        self.drain()
        with self.lock:
            blocks = [b for _, b in sorted(self.blocks, key=lambda b: b[0])]
        if operator is not None:
            blocks = [
                b for b in blocks if _skate.get(b[0]).column("operator")[0].as_py() == operator
            ]
        rbs = [_skate.get(b[0]) for b in blocks]
        try:
            return blocks, unify([rb.schema for rb in rbs]) if rbs else None
        except TypeError:
            return [_rows_as_objects(rb) for rb in rbs], None


def _rows_as_objects(rb: Any) -> Any:
    """Dead letters whose column `row` has Python dicts."""
    i = rb.schema.get_field_index("row")
    rows = value_types.python_objects(from_arrow.to_objects("row", rb.column(i)))
    return rb.set_column(i, pa.field("row", rows.type), rows)
