"""A stage in the worker: a chain of fused operators over the input of one task, with the output cut
into blocks.

The engine runs the generator run_stage() as a streaming task; it yields one _skate.BlockOut(batch)
for each block. For an actor, stage_init() makes the instances of callable classes in the actor's
constructor, and stage_call() runs a task. Nothing is scheduled here, and at most one pending block
is in memory.

Invariant: the output is a pure function of the arguments. Cuts depend on bytes and rows only, so a
retried task gives the same blocks. A row is never split. Cost: about 60 us for each task and for
each block, besides the operators themselves.
"""

from __future__ import annotations

import gc
import pickle
from collections.abc import Generator, Iterator
from time import perf_counter_ns
from typing import Any

from skate import _skate
from skate._deps import load, pa
from skate.data import settings
from skate.data.context import DataContext
from skate.data.expr.numbering import numbering
from skate.data.files import retry
from skate.data.op import Operator, find
from skate.data.values import batch, marks, types
from skate.data.values.unify import merge
from skate.data.worker import captured
from skate.data.worker.dead_letters import Letters, Trail
from skate.data.worker.task import Exchange, Part, task

# the fork server imports these for all workers; the module `batch` registers skate's Arrow types
WORKERS_IMPORT = (
    "numpy",
    "pyarrow",
    *(
        f"skate.data.values.{name}"
        for name in ("batch", "row_dicts", "numpy_batch", "selection", "types", "tensor_types")
    ),
)

_skate.set_hooks(merge=merge)

_chains: dict[Any, Chain] = {}  # the decoded stages of this worker, the newest last
_CHAINS_MAX = 64


class Chain:
    """A decoded stage: its operators and their parameters."""

    def __init__(self, stage: list[_skate.StageNode], actor: bool = False):
        load(batch)  # registers skate's types with Arrow before anything is read
        self.ops: list[tuple[Operator, dict[str, Any]]] = []
        self.context: DataContext | None = None
        self.objects: set[int] = set()  # ids of objects in the store to which parameters refer
        for name, label, data, what in stage:
            params, number = captured.load(data) if data else ({}, 0)
            if number:
                self.objects.add(number)
                params["large"] = True
            params.setdefault("label", label)
            params["at"], params["op"] = len(self.ops), name
            if what:
                params["what"] = what
            if "context" in params:
                self.context = context = params.pop("context")
                DataContext._set_current(context)
            if "ctor" in params:
                if not actor:
                    raise RuntimeError(f"{label}: a class function runs in an actor stage only")
                try:
                    params["fn"] = _constructed(params["fn"], *params["ctor"])
                except BaseException as e:
                    e.add_note(
                        f"in {label}: constructing {getattr(params['fn'], '__name__', params['fn'])}"
                    )
                    raise
                if not callable(params["fn"]):
                    raise TypeError(
                        f"{label}: instances of {type(params['fn']).__name__} cannot be called; define __call__(self, batch)"
                    )
            self.ops.append((find(name), params))
        self.operators = tuple(operator for operator, _ in self.ops)
        self.labels = [params["label"] for _, params in self.ops] + [""]
        for (_, params), (after, ap) in zip(self.ops, self.ops[1:], strict=False):
            params["whole"] = after.whole_blocks(ap)
        self.ops[-1][1]["last"] = True
        for _, params in self.ops:
            params.setdefault("last", False)

    def stage_call(self, told: _skate.StageTask, *blocks: pa.RecordBatch) -> Iterator[Any]:
        """Runs one task of the stage in an actor that stage_init() has made."""
        again = _retried(DataContext.get_current().actor_task_retry_on_errors)
        steps = self._tried(again, told, blocks) if again else self.run(told, blocks)
        return steps if _skate.in_worker() else _lent(steps)

    def _tried(
        self,
        again: tuple[type[BaseException], ...],
        told: _skate.StageTask,
        blocks: tuple[pa.RecordBatch, ...],
    ) -> Generator[Any, None, None]:
        """Runs the task. After an error of one of the classes `again` it runs the task once more,
        unless the task has yielded output already."""
        for left in range(TRIES, -1, -1):
            given = False
            try:
                for out in self.run(told, blocks):
                    given = True
                    yield out
                return
            except again:
                if given or not left:
                    raise

    def run(
        self, told: _skate.StageTask, blocks: tuple[pa.RecordBatch, ...]
    ) -> Generator[Any, None, None]:
        target = told.target
        # The settings are set for each task, because a stage with other settings may have run in
        # this process before.
        if self.context is not None and settings.current is not self.context:
            DataContext._set_current(self.context)
        elif self.context is None and settings.current is not None and _skate.in_worker():
            # The settings of another Dataset must not apply to this stage, which has the defaults.
            settings.current = None
        t = task
        running = _skate.current_task()
        t.reader, t.careful, t.kept = self.labels[0], bool(running and running[3]), None
        t.seq, t.unit, t.cap, t.target, t.table, t.values = (
            told.seq,
            told.unit,
            told.cap,
            target,
            told.table,
            told.values,
        )
        t._source = ""  # no file has been opened yet
        t.nbytes = _skate.block_nbytes
        t.sides = [b.side for b in told.blocks]
        numbering.begin(told.seq)
        t.source_row, t.rows_of = None, None
        t.letters = letters = Letters(told.seq)
        t.trail = Trail(self.operators)
        ops = self.ops
        if told.exchange:
            t.exchange = _exchange(told.exchange, told.blocks, blocks)
            blocks = ()
            if t.exchange.phase == _skate.PHASE_CUT:
                # operators that are fused behind an exchange operator get no rows in this task
                ops = ops[:1]
        n = len(ops)
        ns, rows, tries = [0] * n, [0] * n, [0] * n
        t.fallbacks = [0] * n
        t.turn += 1
        arrays = _skate.arrays_counts()
        retry.begin()
        it: Any = _inputs(blocks, told.blocks) if blocks else None
        if ops[0][1].get("pieces"):
            it = self._chained(
                ops[-1:], n - 1, self._pieces(ops[:-1], t, ns, rows, tries), t, ns, rows, tries
            )
        else:
            first = self._chained(ops[:1], 0, it, t, ns, rows, tries)
            if told.exchange and t.exchange.phase == _skate.PHASE_SPLIT_REDUCE:
                # the first output of a split reduce is its match report, which is not passed to the
                # operators that are fused behind the reduce
                yield next(first)
            it = self._chained(ops[1:], 1, first, t, ns, rows, tries)
        last = ops[-1][0]
        if last.makes_blocks:
            target = 0  # each batch becomes one block: batches are neither joined nor cut here
        for block in (
            it if last.packs or last.exchange else cut(it, target, told.cap, _skate.BlockOut)
        ):
            yield block
            if letters.some and letters.full():
                for rows_of, bad in letters.take(last=False):
                    yield _skate.BlockOut(rows_of, bad)
        _skate.task_closing()
        it.close()
        if t.kept is not None:
            t.let_go()
        if letters.some:
            for rows_of, bad in letters.take(last=True):
                yield _skate.BlockOut(rows_of, bad)
        if n > 1 and tries[-1]:
            tries[-1] -= tries[0]  # the count of a writer includes the reader's
        now = _skate.arrays_counts()
        in_place, no_room = (
            [0] * (n - 1) + [now[1] - arrays[1]],
            [0] * (n - 1) + [now[2] - arrays[2]],
        )
        own = [ns[i] - (ns[i - 1] if i else 0) for i in range(n)]
        _skate.task_note(list(zip(rows, own, tries, t.fallbacks, in_place, no_room, strict=True)))

    def _pieces(
        self, ops: Any, t: Any, ns: list[int], rows: list[int], tries: list[int]
    ) -> Iterator[pa.RecordBatch]:
        """Yields the output of the operators for each unit of a task with several units
        (run/partial.py), as if each unit were a task of its own."""
        t.about, units = pickle.loads(t.unit)
        for seq, unit in units:
            t.seq, t.unit = seq, unit
            numbering.begin(seq)
            yield from self._chained(ops, 0, None, t, ns, rows, tries)

    def _chained(
        self,
        ops: Any,
        first: int,
        it: Any,
        t: Any,
        ns: list[int],
        rows: list[int],
        tries: list[int],
    ) -> Any:
        """Passes batches through operators; ops[0] is number `first` of the stage. it: the batches;
        None: ops[0] reads its own. The time, rows and retries of each operator are added to the
        lists ns, rows and tries."""
        for i, (operator, params) in enumerate(ops, first):
            it = operator.run(params, it if it is not None or i == 0 else iter(()), t)
            if i == 0 and t.trail.reads:
                it = t.trail.follow(_marked(it, params, t), t)
            if operator.source or operator.writes:
                it = _tried(it, tries, i)
            it = _timed(it, ns, rows, i, self.labels[i + 1])
        return it


# the most retries of one call of an actor, if the user has set
# DataContext.actor_task_retry_on_errors
TRIES = 16


def _retried(on: Any) -> tuple[type[BaseException], ...]:
    """The classes of errors after which a call is retried, from the user's setting; True means
    all."""
    return (Exception,) if on is True else tuple(on or ())


def _constructed(cls: Any, args: Any, kwargs: Any) -> Any:
    context = DataContext.get_current()
    again, left = _retried(context.actor_init_retry_on_errors), context.actor_init_max_retries
    while True:
        try:
            return cls(*args, **kwargs)
        except again:
            if left == 0:
                raise
            left -= 1  # a negative number never reaches 0, so it means retries without end


_tuned = False


def _tune() -> None:
    """Tunes the garbage collector of a worker before its first stage. Rows are many small,
    short-lived dicts: searching for cycles after every 700 of them takes a third of the time of a
    flat_map."""
    global _tuned
    _tuned = True
    gc.freeze()
    if 0 < gc.get_threshold()[0] < 20000:
        gc.set_threshold(20000, 10, 10)


def _exchange(
    x: _skate.StageExchange, rows: list[_skate.StageBlock], blocks: tuple[Any, ...]
) -> Exchange:
    """The input of a task of an exchange (src/shuffle/pack.h)."""
    parts, reports, bounds = [], [], None
    for whole, b in zip(blocks, rows, strict=True):
        piece = memoryview(whole)[b.row0 : b.row0 + b.length]
        if b.side == _skate.SIDE_BOUNDS:
            bounds = piece
        elif b.side == _skate.SIDE_REPORTS:
            reports.append(piece)
        else:
            parts.append(Part(piece, b.rows, b.side, b.run, b.row, b.lengths))
    return Exchange(x.phase, x.first, x.end, x.n, parts, bounds, x.shared, reports)


def _inputs(
    blocks: tuple[pa.RecordBatch, ...], rows: list[_skate.StageBlock]
) -> Iterator[pa.RecordBatch]:
    for rb, b in zip(blocks, rows, strict=True):
        yield rb if b.row0 == 0 and b.rows == rb.num_rows else rb.slice(b.row0, b.rows)


def _marked(
    it: Iterator[pa.RecordBatch], params: dict[str, Any], t: Any
) -> Iterator[pa.RecordBatch]:
    """Marks pickled objects in a reader's batches as untrusted, unless the user trusts them
    (values/marks.py)."""
    trusted = (
        params.get("trust_pickled_columns")
        or settings.current is not None
        and settings.current.trust_pickled_columns
    )
    for rb in it:
        if types.foreign_seen:
            rb = marks.trust(rb) if trusted else marks.came_from(rb, t.source)
        yield rb


def _timed(
    it: Iterator[pa.RecordBatch], ns: list[int], rows: list[int], i: int, then: str
) -> Iterator[pa.RecordBatch]:
    """Counts the rows that `it` gives, and the time inside it, which includes the operators that
    feed it: the difference of two neighbours is the time of one operator. then: the label of the
    consumer of the batches. Cost: 0.4 us a batch."""
    now, spent, n, doing = perf_counter_ns, 0, 0, _skate.doing
    try:
        t = now()
        for rb in it:
            spent += now() - t
            n += rb.num_rows
            doing(then)
            yield rb
            t = now()
        spent += now() - t
    finally:
        ns[i] += spent
        rows[i] += n


def _tried(it: Iterator[pa.RecordBatch], tries: list[int], i: int) -> Iterator[pa.RecordBatch]:
    """Counts the retried reads and writes inside `it`, for operators that read or write."""
    counts, n = retry.counts, 0
    try:
        before = counts.tries
        for rb in it:
            n += counts.tries - before
            yield rb
            before = counts.tries
        n += counts.tries - before
    finally:
        tries[i] += n


def cut(batches: Iterator[pa.RecordBatch], target: int, cap: int, out: Any) -> Iterator[Any]:
    """Cuts batches into blocks of about `target` bytes (0: each batch is a block). Neighbours are
    joined up to that size, and a larger batch is sliced evenly by rows. The first block has a 16th
    of that size and each following block twice the size of the one before, so that consumers can
    start early. Stops after `cap` rows (-1: never). If there are no rows at all, yields one empty
    batch, which carries the schema. out: _skate.BlockOut, which measures a batch once and joins
    batches without a copy."""
    held: list[Any] = []
    held_bytes = 0
    schema = empty = None
    left = cap
    none = True
    soon = max(target // 16, 1)
    for rb in batches:
        n = rb.num_rows
        if n == 0:
            empty = rb
            continue
        if cap >= 0:
            if n > left:
                rb, n = rb.slice(0, left), left
            left -= n
            if n == 0:
                empty = rb
                break
        none = False
        piece = out(rb)
        if target == 0:
            yield piece
            if left == 0:
                break
            continue
        size = piece.nbytes
        if held and (held_bytes + size > target or not rb.schema.equals(schema)):
            yield out.join(held)
            held, held_bytes = [], 0
        if size > target and n > 1:
            k = -(-n // max(1, n * target // size))  # even slices: slice i ends at row i * n // k
            for i in range(k):
                a, b = i * n // k, (i + 1) * n // k
                yield out(rb.slice(a, b - a))
        elif 4 * (held_bytes + size) >= 3 * soon:
            held.append(piece)
            yield out.join(held)
            held, held_bytes = [], 0
            soon = min(2 * soon, target)
        else:
            if not held:
                schema = rb.schema
            held.append(piece)
            held_bytes += size
        if left == 0:
            break
    if held:
        yield out.join(held)
    elif none and empty is not None:
        yield out(empty.slice(0, 0))


def _chain(stage: list[_skate.StageNode]) -> Chain:
    key = tuple(stage)
    c = _chains.get(key)
    if c is None:
        if not _tuned and _skate.in_worker():
            _tune()
        forget()
        while len(_chains) >= _CHAINS_MAX:
            del _chains[next(iter(_chains))]
        c = _chains[key] = Chain(stage)
    return c


def forget() -> None:
    """Drops the stages of finished runs if they keep objects of the store alive."""
    over = [
        key for key, c in _chains.items() if c.objects and not all(map(_skate.exists, c.objects))
    ]
    for key in over:
        del _chains[key]
    if over:
        gc.collect()  # frees objects in reference cycles: recursive functions, classes


def run_stage(
    stage: list[_skate.StageNode], told: _skate.StageTask, *blocks: pa.RecordBatch
) -> Iterator[Any]:
    """Runs one task of a stage, as a streaming task of the engine."""
    if _skate.in_worker():
        return _chain(stage).run(told, blocks)
    own = settings.current
    try:
        chain = _chain(stage)  # decoding a stage may set the settings, which belong to this task
    finally:
        settings.current = own
    return _lent(chain.run(told, blocks))


def stage_init(stage: list[_skate.StageNode]) -> Chain:
    """The constructor of an actor that runs tasks of a stage."""
    if not _tuned and _skate.in_worker():
        _tune()
    if _skate.in_worker():
        return Chain(stage, actor=True)
    own = settings.current
    try:
        return Chain(stage, actor=True)
    finally:
        settings.current = own


def _lent(steps: Generator[Any, None, None]) -> Iterator[Any]:
    """Runs a task in a process that has settings of its own: the driver, with the inline engine.
    The task's settings are in force during its steps only; between and after the steps the process
    has its own settings."""
    own = of_task = settings.current
    try:
        while True:
            own, settings.current = settings.current, of_task
            try:
                out = next(steps)
            except StopIteration:
                return
            finally:
                of_task, settings.current = settings.current, own
            yield out
    finally:
        steps.close()
