"""Runs a plan, and takes blocks, batches and aggregates out of it.

A run lowers the nodes that it needs into a new _skate.Plan and drives a _skate.Exec, so nothing of
a finished run stays, and Datasets of different sources can be united. All scheduling is in C.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Sequence
from typing import Any

import skate
from skate import _skate, page
from skate._deps import load, pa
from skate.data.aggregate import takes
from skate.data.context import DataContext
from skate.data.on_error import check_policy, error_limit
from skate.data.op.aggregate import states_of
from skate.data.plan.lower import lower, warn_few_inputs
from skate.data.plan.node import Block, Node, below
from skate.data.run import join_sizing, remote, unions
from skate.data.run.answers import Answers, Own
from skate.data.run.blocks import cast, fetch, join
from skate.data.run.conflict import by_files, of_files
from skate.data.run.dead_letters import Errors
from skate.data.run.engine import ensure_engine
from skate.data.run.errors import in_front, of_user_code
from skate.data.run.progress import Progress
from skate.data.run.request import RunRequest, RunResult
from skate.data.run.stats import DatasetStats
from skate.data.values import batch, marks
from skate.data.values.unify import ADVICE, Widening, retold, unify
from skate.data.worker import stage
from skate.exceptions import GetTimeoutError, RayError, RayTaskError

# What is called before each run that this process begins: `skate explain` shows the plan then.
before_run: Callable[[RunRequest], None] | None = None
# The runs of this process that go on.
running: set[Any] = set()


def conf(context: DataContext) -> dict[str, Any]:
    """The configuration of a run, for _skate.Exec."""
    target = context.target_max_block_size or 1 << 40
    options = context.execution_options
    limits = options.resource_limits
    out: dict[str, Any] = {
        "policy": context.scheduling_policy,
        "target_max_bytes": int(target),
        "target_min_bytes": int(context.target_min_block_size),
        "preserve_order": True
        if context.execution_options.preserve_order is None
        else bool(context.execution_options.preserve_order),
        "run_stage": stage.run_stage,
        "stage_init": stage.stage_init,
        "stage_call": stage.Chain.stage_call,  # a method of the Chain that stage_init returns
        "max_bad_rows": error_limit(context.max_errors)[0],
        "max_errored_blocks": int(context.max_errored_blocks),
    }
    if limits.object_store_memory != float("inf"):
        out["memory_bytes"] = int(limits.object_store_memory)
    options.validate()
    less = options.exclude_resources
    if not less.is_zero() or limits.cpu != float("inf") or limits.gpu != float("inf"):
        has = skate.cluster_resources()
        for key, most, without, n in (
            ("cpu", limits.cpu, less.cpu, has.get("CPU", 0)),
            ("gpu", limits.gpu, less.gpu, has.get("GPU", 0)),
        ):
            if min(most, n - without) < n:
                # The engine takes a limit of 0 as "no limit", so the smallest limit is 1
                out[f"most_{key}_e4"] = max(1, round(min(most, n - without) * 1e4))
        if less.object_store_memory:
            out["memory_bytes"] = max(
                1, int((has.get("object_store_memory", 0) - less.object_store_memory) / 2)
            )
    return out


def run(
    request: RunRequest, schemas: list[int] | None = None, live: list[Any] | None = None
) -> Generator[Any, None, None]:
    """Runs the plan of a request and yields its blocks in order. Closing the iterator stops the
    run. In a worker, the driver runs the plan (remote.py).

    Args:
        request: The plan and its settings.
        schemas: Receives a checksum of the schema of each block that tasks of this run have made,
            before the block is given out.
        live: Receives a function that stops the run from another thread, once the run has begun.
    """
    node, context = request.node, request.context
    if node.blocks is not None:
        request.tell()
        yield from node.blocks
        return
    ensure_engine(node)
    if before_run is not None:
        before_run(request)
    if _skate.in_worker():
        # Only a worker imports `remote`, because it imports asyncio and ssl, which would take a
        # tenth of the time to the first rows.
        yield from remote.run(request)
        return
    before: list[Any] = []  # stats of runs that this run depended on
    if node.operator.blocking:
        request.tell()
        blocks = _rearranged(node.this_run(), context, before)
        said = f"{node.label}: {sum(b[2] for b in blocks):,} rows in {len(blocks):,} blocks"
        request.tell(stats=DatasetStats({}, {"rearranged": said, "before": before}))
        yield from blocks
        return
    if context.page:
        page.driver.begin(context.page)
    check_policy(context.on_error)
    share = error_limit(context.max_errors)[1]
    # References to captured values of the user's functions, which must live as long as the run.
    held: list[Any] | None = [] if _skate.engine() == "local" else None
    found: list[str] = []
    with by_files(node):
        plan, root, rules, own = lower(
            unions.conformed(node, lambda n: _seen(n, context), found),
            context,
            held,
            lambda n: _rearranged(n, context, before),
            sized=lambda root, rules: join_sizing.decided(
                root, context, lambda n: input_blocks(n, context, before), rules
            ),
        )
    rules = [*found, *rules]
    how = conf(context)
    if request.skip is not None:
        how["skip_units"] = request.skip
    answers = Answers([Own(*o) for o in own])
    x = _skate.Exec(plan, root, how)
    answers.begin(x)
    if live is not None:
        live.append(x.stop)
    warn_few_inputs(node)
    running.add(x)
    errors = Errors(x)
    request.tell(errors)
    log = logging.getLogger("ray.data")
    bar = Progress(x, context)
    # The driver needs this module, pyarrow and NumPy for the blocks, and imports them while the
    # workers start.
    load(batch)
    try:
        wait = context.wait_for_min_actors_s
        if wait > 0 and not x.await_actors(wait):
            raise GetTimeoutError(
                f"Timed out while starting actors: not all have within DataContext.wait_for_min_actors_s = {wait} s. Their constructors take longer, or "
                "others hold the CPUs, GPUs or memory that they need: give them more time, or ask for fewer actors"
            )
        while True:
            item = bar.next()
            errors.drain(log, context.max_errored_blocks)
            if item is None:
                errors.check_share(share, x.stats())
                break
            if schemas is not None:
                schemas.append(x.schema())
            yield item if request.skip is None else (*item, x.origin())
    except RayError as e:
        if answers.error is not None:
            raise answers.error from None
        most = context.max_errors
        if isinstance(e, RayTaskError) and isinstance(most, int) and x.stats()["bad_rows"] > most:
            errors.drain()
            raise in_front(errors.too_many(f"the {most:,} allowed"), context) from None
        raise in_front(of_user_code(of_files(e, node), context), context) from None
    finally:
        errors.drain(log, context.max_errored_blocks)
        stats = DatasetStats(
            x.stats(),
            {"errors": errors, "before": before, "rules": rules, "samples": x.samples()},
        )
        request.tell(errors, stats)
        stats.log(context)
        bar.close()
        running.discard(x)
        x.stop()
        answers.end()
        if held:
            held.clear()
        errors.end()


def first_schema(request: RunRequest, most: Callable[[int], Node] | None = None) -> Any:
    """The schema of the first rows of the plan, which is run for this; None: there are no rows.

    Args:
        request: The plan and its settings.
        most: A function from a number n to a node that gives the first n rows; None: the plan gets
            a limit.
    """
    tolerant = any(
        (n.params.get("on_error") or request.context.on_error) != "raise"
        for n in below(request.node)
        if n.operator.on_error
    )
    schema = None
    # If a column is null in the first row, this row shows no type for it, and the first row may be
    # bad: then the first 1,024 rows are read.
    for n in (1024,) if tolerant else (1, 1024):
        schema, fit = None, Widening(request.node.label)
        node = most(n) if most else Node("limit", f"limit={n}", {}, (request.node,), limit=n)
        for rb in batches(request.over(node)):
            schema = fit(rb).schema
        if schema is None or not any(pa.types.is_null(t) for t in schema.types):
            break
    return schema


def _seen(node: Node, context: Any) -> Any:
    """The schema of a node's first rows, found before the run of the nodes above it. Runs as little
    of the plan as possible."""
    quiet = context.copy()
    quiet.enable_progress_bars = False
    part = RunRequest(node, quiet)
    schema = first_schema(part, lambda n: unions.sampled(node, n))
    # The first rows of its inputs gave no output row: run the node on all of its input.
    if schema is None and any(unions.needs_all(n) for n in below(node)):
        schema = first_schema(part)
    return schema


def input_blocks(node: Node, context: Any, before: list[Any] | None = None) -> list[Block]:
    """Runs a node and returns its blocks without the empty ones; if all are empty, returns one, for
    its columns. before: the stats of the run are appended to it."""
    if node.blocks is not None:
        found = list(node.blocks)
    else:
        told: list[RunResult] = []
        found = list(run(RunRequest(node, context, back=told.append)))
        if before is not None:
            before.append(told[-1].stats)
    return [b for b in found if b[2]] or found[:1]


def _rearranged(node: Node, context: Any, before: list[Any]) -> list[Block]:
    """Runs the input of a node that rearranges whole inputs (repartition, block order), and returns
    the node's blocks."""
    given = input_blocks(node.inputs[0], context, before)
    parts, empty = node.operator.arranged(node.params, given), given[0] if given else None
    given.clear()
    with by_files(node):
        return join(parts, empty)


def batches(request: RunRequest, blocks: Any = None) -> Generator[Any, None, None]:
    """Runs the plan of a request and yields its record batches, empty ones included. blocks: the
    blocks of a run that has begun already; None: starts a run."""
    it = run(request) if blocks is None else blocks
    trusted = request.context.trust_pickled_columns
    try:
        for block in it:
            yield marks.trust(fetch(block)) if trusted else fetch(block)
    finally:
        it.close()


def in_one_schema(
    request: RunRequest, first: Node | None = None, blocks: Any = None
) -> Generator[Any, None, None]:
    """Yields batches() in one schema: the known one, or one that can hold all batches so far
    (values/unify.py: Widening). After a run of all rows the schema is stored in the request.

    Args:
        request: The plan and its settings.
        first: A node that gives only the first rows, which is run instead of the request's node.
        blocks: See batches().
    """
    known = request.facts.known_schema()
    earlier = request.seen if known is None else known
    if request.context.trust_pickled_columns:
        earlier = marks.trust(earlier)
    fit = Widening(request.node.label, earlier, known is not None)
    it = batches(request.over(first) if first else request, blocks)
    try:
        for rb in it:
            try:
                rb = fit(rb)
            except TypeError as e:
                raise of_files(e, first or request.node) from None
            yield rb
        if first is None and known is None and fit.schema is not None:
            request.tell(schema=fit.schema)
    finally:
        it.close()


def conformed(node: Node, blocks: list[Block], keys: list[int]) -> tuple[list[Block], Any]:
    """Brings the blocks of a run to one schema. Returns (the blocks, cast where their schema was
    another one; the common schema). keys: the checksums of the blocks' schemas from run(); fewer
    than `blocks` if blocks existed before or come from another process."""
    if len(keys) != len(blocks):
        # Without checksums (the blocks existed before, or come from another process) the schema of
        # each block is read.
        keys = list(range(-len(blocks), 0))
    first: dict[int, int] = {}
    for i, (key, b) in enumerate(zip(keys, blocks, strict=True)):
        if b[2] or len(blocks) == 1:
            first.setdefault(key or -1 - len(blocks) - i, i)
    seen = {key: fetch(blocks[i]).schema for key, i in first.items()}
    if not seen:
        return blocks, None
    found = list(seen.values())
    if all(s.equals(found[0]) for s in found[1:]):
        return blocks, found[0]
    starts, row = [], 0
    for b in blocks:
        starts.append(row)
        row += b[2]
    try:
        whole = unify(found, [f"what came from row {starts[i]:,} on" for i in first.values()])
    except TypeError as e:
        raise of_files(retold(e, f"{node.label}: ", f": {ADVICE}"), node) from None
    other = {key for key, s in seen.items() if not s.equals(whole)}
    at = [
        i for i, key in enumerate(keys) if blocks[i][2] and (key or -1 - len(blocks) - i) in other
    ]
    for i, b in zip(at, cast([blocks[i] for i in at], whole), strict=True):
        blocks[i] = b
    return blocks, whole


def aggregate(
    request: RunRequest, fns: Sequence[Any], names: Sequence[str], what: str
) -> list[Any] | None:
    """Computes aggregates over all rows. Returns one value for each aggregate; None if there are no
    rows. Tasks compute partial states (op/aggregate.py), which are merged here in the order of the
    data."""
    label = f"Aggregate({what})"
    params = {
        "by": [],
        "fns": list(fns),
        "names": list(names),
        "builtin": takes(fns, names),
        "one_key": False,
        "label": label,
    }
    held = states_of(params, wide=True)
    for states in batches(request.over(Node("aggregate", label, params, (request.node,)))):
        held.add(states)
    return held.values()
