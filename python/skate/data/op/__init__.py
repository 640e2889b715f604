"""The operators, one file each. op/<name>.py gives the facts about its operator as data, for the
plan, for runs and for workers, and has the code that processes rows.

Each file defines `operator`, an instance of a subclass of Operator. Facts that hold for each node
of the operator are attributes; facts that depend on a node's parameters are methods. Nothing
outside the file compares the operator's name: rules (plan/optimise.py, src/plan/rule_*.c), runs and
workers read the facts. The driver imports these files, too, so third-party packages come from
_deps.py. Operators call into data/worker and data/values.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from skate import _deps

Batches = Iterator[Any]  # of pyarrow.RecordBatch
Params = dict[str, Any]


class Columns(NamedTuple):
    """What an operator does to columns. needs: the columns that the operator reads itself (None: it
    may read all). makes: the columns that it adds or replaces, so that they differ from those of
    the input. keeps: the columns of the input that it hands on (None: all). renamed: {new name:
    name in the input} of columns that it hands on."""

    needs: frozenset[str] | None = frozenset()
    makes: frozenset[str] = frozenset()
    keeps: frozenset[str] | None = None
    renamed: dict[str, str] = {}  # noqa: RUF012  read only


class Phase(NamedTuple):
    """The tasks of an operator that moves rows between blocks: the maps of one input, or the
    reduces that make its blocks."""

    op: str  # name of the operator that the tasks run: exchange_map, exchange_reduce or another
    label: str
    params: Params
    what: bytes = b""  # made by _skate.exchange_what: what the tasks do to blocks
    options: dict[str, Any] = {}  # noqa: RUF012  of its node; of the reduce: "exchange", see plan/optimise.py


class Phases(NamedTuple):
    """The tasks into which an operator that moves rows between blocks is lowered. maps: one for
    each input. merge: the operator that merges packs of several maps, between maps and reduces, and
    its params."""

    maps: tuple[Phase, ...]
    reduce: Phase
    merge: tuple[str, Params] = ("exchange_merge", {})


ALL = Columns(needs=None)
ITS_OWN = frozenset[str]()  # value of Columns.keeps: the operator hands on no column


class Operator:
    """The facts about an operator. The facts from `source` to `exchange` go to the plan in C
    (SK_OP_* in src/plan/plan.h defines each)."""

    name: str  # the name of its file

    source = False  # the operator has no input, but units or blocks
    one_to_one = False  # yields as many rows as it gets, in the same order
    no_more = False  # yields at most as many rows as it gets
    by_row = False  # each output row depends on a single input row only
    first_rows = False  # yields only the first rows of its input (limit); it has no tasks
    writes = False  # writes to files or other targets; the output rows are reports
    alone = False  # is never fused into the task of another operator
    numbered = False  # the output depends on the number of the task, Task.seq
    concatenates = False  # has several inputs, whose rows follow one another
    joins = False  # has several inputs, whose rows are put side by side, or in turns
    packs = False  # the output blocks are packs, for an exchange
    # the operator reads packs of all its inputs, and needs all of them before it yields a block;
    # the option "exchange" of its node has the details
    exchange = False
    # the operator merges packs into fewer packs; the strategy of the exchange decides how many
    # packs one task merges
    merge = False
    # A merge that gives fewer rows than its packs have. The costs of the strategy `auto` do not know
    # of that, so it does without.
    combines = False

    mixes = False  # has several inputs, whose rows come in turns; they get one schema
    # moves rows between blocks: lower() turns the operator into maps and an exchange (see phases)
    moves_rows = False
    blocking = False  # needs all blocks of its input before it yields one (see arranged)
    # the operator is run in one of several ways, by the size of one of its inputs, which is run
    # first (run/join_sizing.py)
    sizes_first = False
    # the output may be much smaller than the input, for another reason than no_more or first_rows
    fewer = False
    makes_blocks = False  # each batch that the operator yields becomes one block
    counts = False  # only the number of output rows matters
    on_error = False  # handles failing rows by the policy on_error (data/on_error.py)
    predicates = (
        # whether a predicate on the output may be applied to the input of the operator instead, if
        # the predicate reads only columns that the operator hands on
        False
    )

    @property
    def by_task(self) -> bool:
        """Whether each task, or block, of the operator belongs to one task, or block, of its
        input."""
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
        """The facts that are true, as a dict of their names, for the plan in C."""
        return {k: True for k in _OF_PLAN if getattr(self, k)}

    # ---- Facts that depend on a node's parameters.

    def columns(self, params: Params) -> Columns:
        """Returns which columns a node of this operator reads, makes and hands on."""
        return ALL

    def sure(self, params: Params) -> bool:
        """Whether the operator never raises for a row, so that the number of its rows can be known
        without running it. An operator with a user function may raise, and so may an operator that
        computes or casts."""
        return False

    def looks(self, params: Params) -> bool:
        """Whether the operator's result depends on which columns its input has."""
        c = self.columns(params)
        return c.needs is None or bool(c.needs) or c.keeps is not None

    def schema(self, params: Params, given: Any) -> Any:
        """The Arrow schema of the operator's rows; None: the schema is known only after a run.
        given: the schema of its input."""
        return None

    def predicate(self, params: Params) -> Any:
        """An expression that is true for all rows that the operator yields; None: there is none."""
        return None

    def modules(self, params: Params) -> tuple[str, ...]:
        """The modules that a worker imports for the operator besides the operator's own file."""
        if params.get("batch_format") != "pandas":
            return ()
        _deps.need("pandas")
        return ("pandas",)

    def whole_blocks(self, params: Params) -> bool:
        """Whether each batch that the operator gets must be a whole input block, uncut."""
        return False

    def frames(self, params: Params) -> bool:
        """Whether the user's function returned DataFrames, so that batch_format=None means
        pandas."""
        return False

    def encoded(self, params: Params) -> bool:
        """Whether the operator can read dictionary-encoded strings and yield them
        (values/encoded_text.py)."""
        return False

    def decodes(self, params: Params) -> bool:
        """Whether the operator can read dictionary-encoded strings in the task that makes them, but
        yields plain strings."""
        return False

    def phases(self, params: Params) -> Phases:
        """The maps and reduces of an operator that moves rows between blocks."""
        raise NotImplementedError(self.name)

    # ---- Changes that the optimiser makes to a node.

    def narrowed(self, params: Params, columns: set[str]) -> Params | None:
        """New parameters with which the node yields only the columns `columns` of its output; None:
        the node cannot leave columns out."""
        return None

    def filtered(self, params: Params, tests: list[tuple[Any, set[str]]]) -> Params | None:
        """New parameters with which a source leaves out rows for which one of the tests is false;
        None: the source cannot leave out rows. The tests are stored in the parameter "pushed".
        tests: expressions, each with the columns that it reads."""
        return None

    def units_with(
        self, params: Params, units: list[Any], tests: list[tuple[Any, set[str]]]
    ) -> tuple[list[Any], str] | None:
        """For a source: Returns (the units, or parts of units, that may have rows for which the
        tests hold; a text about the units left out); None: no unit is left out."""
        return None

    def first(self, params: Params, rows: int) -> Params | None:
        """New parameters for a node of which only the first `rows` rows of output are needed; None:
        the node makes no use of this."""
        return None

    # ---- Processing rows.

    def run(self, params: Params, batches: Any, task: Any) -> Batches:
        """Runs in a worker over the batches of one task (None for a source) and yields each batch
        as soon as it is ready. A user's exception is raised unchanged, with one note that names
        operator, input and row. task: worker/task.py."""
        raise NotImplementedError(self.name)

    def arranged(self, params: Params, blocks: list[Any]) -> list[list[Any]]:
        """For a blocking operator, in the driver: returns for each output block the slices of input
        blocks that it consists of. No rows are copied."""
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
    """The operator of op/<name>.py; ValueError if there is no such file."""
    try:
        found: Operator = importlib.import_module(f"{__name__}.{name}").operator
    except ModuleNotFoundError as e:
        if e.name != f"{__name__}.{name}":
            raise
        raise ValueError(f'there is no operator "{name}"') from None
    found.name = name
    return found
