"""The operators: one file each, found by its name. op/<name>.py says of its operator what the plan,
a run and a worker have to know (facts, as data), and does to rows what it does.

The file defines `operator`, an instance of a subclass of Operator. Facts that hold for each node of
it are attributes; what depends on a node's parameters are methods of them. Nothing outside the file
compares its name: rules (plan/optimise.py, src/plan/rule_*.c), runs and workers read facts. The
driver imports these files, too, so packages
of others come from _deps.py. Calls: worker, values.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterator
from typing import Any, NamedTuple

Batches = Iterator[Any]  # of pyarrow.RecordBatch
Params = dict[str, Any]


class Columns(NamedTuple):
    """What an operator does to columns. needs: those that it reads itself (None: it may read all).
    makes: those that it makes or replaces, so that they are not its input's. keeps: those of its
    input that it hands on (None: all). renamed: {new name: name in the input} of what it hands
    on."""

    needs: frozenset[str] | None = frozenset()
    makes: frozenset[str] = frozenset()
    keeps: frozenset[str] | None = None
    renamed: dict[str, str] = {}  # noqa: RUF012  read only


class Phase(NamedTuple):
    """Tasks of an operator that moves rows between blocks: those of one of its inputs, or those
    that make its blocks."""

    op: str  # the operator that they run: exchange_map, exchange_reduce, or one that does more
    label: str
    params: Params
    what: bytes = b""  # of _skate.exchange_what: what its tasks do to blocks
    options: dict[str, Any] = {}  # noqa: RUF012  of its node; of the reduce: "exchange", see plan/optimise.py


class Phases(NamedTuple):
    """What an operator that moves rows between blocks becomes. maps: one for each of its inputs.
    merges: whether packs of several maps may be merged between."""

    maps: tuple[Phase, ...]
    reduce: Phase
    merges: bool = True


ALL = Columns(needs=None)
ITS_OWN = frozenset[str]()  # Columns.keeps of what hands on no column of its input


class Operator:
    """What is known of an operator. The facts up to `exchange` are for the plan in C (SK_OP_* in
    src/plan/plan.h says what each promises)."""

    name: str  # of its file

    source = False  # it has no input, but units or blocks
    one_to_one = False  # as many rows out as in, in the same order
    no_more = False  # at most as many rows out as in
    by_row = False  # its output depends on single rows only
    first_rows = False  # it takes the first rows; no task of it runs
    writes = False  # it has effects outside, and its rows are reports
    alone = False  # it runs in no task of another operator
    numbered = False  # its output depends on the number of its task
    concatenates = False  # it has several inputs, one after another
    joins = False  # it has several inputs, side by side
    packs = False  # its blocks are packs, for an exchange
    # it takes packs of all its inputs, all of them before it gives a block; a node's option
    # "exchange" says more
    exchange = False
    # it takes packs and gives fewer, as many a task as the strategy of the exchange says
    merge = False

    moves_rows = False  # between blocks: lower() makes a map and an exchange of it (see phases)
    blocking = False  # it needs all blocks of its input before it gives one (see arranged)
    # how it runs depends on the size of one of its inputs, which runs before it
    # (run/join_sizing.py)
    sizes_first = False
    # much less may come of it than comes to it, beside what no_more and first_rows say
    fewer = False
    makes_blocks = False  # the batches that it gives are blocks as they are
    counts = False  # its rows are counted, and nothing else about them matters
    on_error = False  # it knows what to do with rows that fail
    predicates = (
        # a row that a predicate above it drops may be dropped below it, as far as the predicate is
        # about columns that it hands on
        False
    )

    @property
    def by_task(self) -> bool:
        """Whether what it gives comes from as many tasks, or blocks, as its input."""
        return not (
            self.source
            or self.first_rows
            or self.alone
            or self.concatenates
            or self.joins
            or self.moves_rows
            or self.blocking
        )

    def plan_facts(self) -> dict[str, bool]:
        """The facts that the plan in C is told: those that are true."""
        return {k: True for k in _OF_PLAN if getattr(self, k)}

    # ---- facts of a node

    def columns(self, params: Params) -> Columns:
        """What it does to columns."""
        return ALL

    def sure(self, params: Params) -> bool:
        """Whether it raises for no row, so that how many rows come of it may be told without
        running it. One with a function of the user is not, nor is one that computes or casts."""
        return False

    def looks(self, params: Params) -> bool:
        """Whether it makes a difference to it which columns a batch has."""
        c = self.columns(params)
        return c.needs is None or bool(c.needs) or c.keeps is not None

    def schema(self, params: Params, given: Any) -> Any:
        """The Arrow schema of its rows, from that of its input's; None: only a run shows it."""
        return None

    def predicate(self, params: Params) -> Any:
        """The expression that all rows fulfil which it gives, or None."""
        return None

    def modules(self, params: Params) -> tuple[str, ...]:
        """What a worker imports for it beside its own file."""
        return ("pandas",) if params.get("batch_format") == "pandas" else ()

    def whole_blocks(self, params: Params) -> bool:
        """Whether it is to see whole blocks, however they are made."""
        return False

    def frames(self, params: Params) -> bool:
        """Whether its rows come as DataFrames."""
        return False

    def encoded(self, params: Params) -> bool:
        """Whether strings may come to it and leave it dictionary-encoded
        (values/encoded_text.py)."""
        return False

    def decodes(self, params: Params) -> bool:
        """Whether strings may come dictionary-encoded to it, in the task that reads them, and never
        leave it so."""
        return False

    def phases(self, params: Params) -> Phases:
        """Of one that moves rows between blocks: the tasks that do it."""
        raise NotImplementedError(self.name)

    # ---- what rules do with a node of it

    def narrowed(self, params: Params, columns: set[str]) -> Params | None:
        """The parameters of the same that gives only these of its columns; None: it stays as it
        is."""
        return None

    def filtered(self, params: Params, tests: list[tuple[Any, set[str]]]) -> Params | None:
        """The parameters of a source that skips rows for which one of these tests does not hold,
        "pushed" among them; None: it skips none. tests: expressions, with the columns of each."""
        return None

    def units_with(
        self, params: Params, units: list[Any], tests: list[tuple[Any, set[str]]]
    ) -> tuple[list[Any], str] | None:
        """Of a source: (those of its units, or parts of them, that may have rows for which these
        tests hold; what was left out, in words); None: none is left out."""
        return None

    def first(self, params: Params, rows: int) -> Params | None:
        """The parameters of the same of whose output only the first rows are wanted; None: it stays
        as it is."""
        return None

    # ---- what it does

    def run(self, params: Params, batches: Any, task: Any) -> Batches:
        """In a worker, over the batches of one task (None for a source): each batch as soon as it
        is there. A user's exception leaves as it is, with one note that says operator, input
        and row. task: worker/task.py."""
        raise NotImplementedError(self.name)

    def arranged(self, params: Params, blocks: list[Any]) -> list[list[Any]]:
        """Of a blocking operator, in the driver: of which pieces of the blocks each of its own
        blocks is. Nothing is copied."""
        raise NotImplementedError(self.name)


_OF_PLAN = (
    "source",
    "one_to_one",
    "no_more",
    "by_row",
    "first_rows",
    "writes",
    "alone",
    "numbered",
    "concatenates",
    "joins",
    "packs",
    "exchange",
    "merge",
)


@functools.cache
def find(name: str) -> Operator:
    """The operator of op/<name>.py; ValueError where there is none."""
    try:
        found: Operator = importlib.import_module(f"{__name__}.{name}").operator
    except ModuleNotFoundError as e:
        if e.name != f"{__name__}.{name}":
            raise
        raise ValueError(f'there is no operator "{name}"') from None
    found.name = name
    return found
