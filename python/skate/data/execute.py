"""From a Dataset's nodes to a running plan, and blocks out of it.

A Dataset points at a Node: one operator, its parameters and inputs, never changed. Running lowers the nodes it needs into a fresh _skate.Plan (so
nothing is kept of runs that are over, and Datasets of different sources can be united) and drives a _skate.Exec. All scheduling is in C.
"""

from __future__ import annotations

import logging
import pickle
import warnings
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field
from typing import Any

from skate.data import bad
from skate.data.context import DataContext
from skate.exceptions import ActorDiedError, GetTimeoutError, RayError, RayTaskError, UserCodeException


@dataclass(frozen=True)
class Facts:
    """What is known of a Dataset without running it. schema: a function that gives a pyarrow.Schema, or None."""

    rows: int | None = None
    schema: Callable[[], Any] | None = None
    files: list[str] = field(default_factory=list)
    bytes: int | None = None


@dataclass(frozen=True)
class ReadOptions:
    """Resources of read tasks."""

    concurrency: int | None = None
    num_cpus: float | None = None
    num_gpus: float | None = None
    memory: float | None = None
    ray_remote_args: dict[str, Any] | None = None
    on_error: str | None = None


Block = tuple[Any, int, int, int]  # ObjectRef (or a RecordBatch of this process), first row, rows, bytes


class Node:
    """One operator of the logical plan. options: keyword arguments of _skate.Plan.add beyond the first four.

    each_run: a function from the number of a run (0, 1, ...) to options and, under "params", parameters that differ in it: what is drawn anew each time.
    blocks_of: of a node with op "late": a function from its context and inputs to blocks, called when a run needs them (see late.py).
    """

    __slots__ = ("op", "label", "params", "inputs", "options", "each_run", "blocks_of", "counter")

    def __init__(
        self,
        op: str,
        label: str,
        params: dict[str, Any],
        inputs: tuple[Node, ...] = (),
        *,
        each_run: Callable[[int], dict[str, Any]] | None = None,
        blocks_of: Callable[[Any, tuple[Node, ...]], list[Block]] | None = None,
        **options: Any,
    ):
        self.op, self.label, self.params, self.inputs, self.options = op, label, params, inputs, options
        self.each_run, self.blocks_of = each_run, blocks_of
        self.counter = [0]  # of the runs that began; one for a node and all that replace it

    @property
    def runs(self) -> int:
        """How many runs began that draw something anew."""
        return self.counter[0]

    @runs.setter
    def runs(self, n: int) -> None:
        self.counter[0] = n

    def __reduce__(self) -> Any:
        """The nodes below it as a flat list: a chain of thousands is deeper than pickle goes."""
        nodes = below(self)
        number = {id(n): i for i, n in enumerate(nodes)}
        rows = [(n.op, n.label, n.params, [number[id(i)] for i in n.inputs], n.each_run, n.blocks_of, n.runs, n.options) for n in nodes]
        return _of_rows, (rows,)

    def this_run(self) -> Node:
        """The node as the run that begins now has it."""
        if self.each_run is None:
            return self
        different = self.each_run(self.runs)
        self.runs += 1
        params = {**self.params, **different.pop("params", {})}
        return Node(self.op, self.label, params, self.inputs, **{"blocks_of": self.blocks_of, **self.options, **different})

    def replaced(
        self, *, params: dict[str, Any] | None = None, inputs: tuple[Node, ...] | None = None, options: dict[str, Any] | None = None
    ) -> Node:
        """The same operator with other parameters, inputs or options (None: as they are). Its runs count as runs of this one, and the other way round."""
        new = Node(
            self.op,
            self.label,
            self.params if params is None else params,
            self.inputs if inputs is None else inputs,
            each_run=self.each_run,
            blocks_of=self.blocks_of,
            **(self.options if options is None else options),
        )
        new.counter = self.counter
        return new

    def beside(self, options: dict[str, Any]) -> Node:
        """Of a reader that asks for nothing: the same in the placement group of its consumer, which may be all that there is."""
        own = self.options.keys() & {"num_cpus", "num_gpus", "memory", "resources", "group", "env"}
        if "group" not in options or self.op != "read" or own:
            return self
        more = {**self.options, "group": options["group"], "bundle": options["bundle"]}
        return self.replaced(options=more)

    def dump(self, context: DataContext, hold: list[Any] | None) -> bytes:
        """Parameters for the workers; functions of users bring the settings of the Dataset along. hold: see carried.py."""
        if not self.params:
            return b""
        code = next((k for k in ("fn", "expr", "exprs", "fns", "code") if self.params.get(k) is not None), None)
        if code is None and self.params.get("format") != "custom":
            return pickle.dumps(self.params, 5)
        own = self.params.get("fn") is not None or self.params.get("format") == "custom"
        from skate.data import carried

        try:
            return carried.dump({**self.params, "context": context} if own else self.params, self.label, hold)
        except RayError:
            raise
        except Exception as e:
            if code is None:
                raise
            from skate.serialize import unpicklable

            what = self.params if code == "code" else self.params[code]
            raise TypeError(f"{self.label}: {unpicklable(what, e)}") from None


def _of_rows(rows: list[Any]) -> Node:
    """What Node.__reduce__ made rows of."""
    made: dict[int, Node] = {}
    todo = [0]
    while todo:
        i = todo[-1]
        op, label, params, inputs, each_run, blocks_of, runs, options = rows[i]
        missing = [k for k in inputs if k not in made]
        if missing:
            todo += missing
            continue
        todo.pop()
        if i not in made:
            made[i] = Node(op, label, params, tuple(made[k] for k in inputs), each_run=each_run, blocks_of=blocks_of, **options)
            made[i].runs = runs
    return made[0]


def source(
    label: str, params: dict[str, Any], units: list[tuple[bytes, int, int]], options: ReadOptions, facts: Facts, each_run: Any = None
) -> Any:
    """A Dataset that reads units. each_run: a function from the number of a run to what is different in its options (see Node)."""
    from skate.data.dataset import Dataset

    n = options.concurrency
    if n is not None and (not isinstance(n, int) or n < 1):
        raise ValueError(f"concurrency of a read must be a positive int, not {n!r}")
    more = dict(options.ray_remote_args or {})
    pool = {"pool": more.pop("pool")} if "pool" in more else {}
    if bad.check_policy(options.on_error) is not None:
        params = {**params, "on_error": options.on_error}
    node = Node(
        "read",
        label,
        params,
        (),
        units=units,
        each_run=each_run,
        max_tasks=n or 0,
        **pool,
        **resources({"num_cpus": options.num_cpus, "num_gpus": options.num_gpus, "memory": options.memory, **more}),
    )
    return Dataset(node, facts)


def local_source(batches: list[Any], label: str, frames: bool = False) -> Any:
    """A Dataset over record batches of this process. They go to the store when something runs on them. frames: they were DataFrames."""
    from skate.data.dataset import MaterializedDataset
    from skate.data.schema import cast_batch, unify

    if batches:
        schema = unify([b.schema for b in batches], [f"part {i} of what {label} was given" for i in range(1, len(batches) + 1)])
        batches = [cast_batch(b, schema) for b in batches]
    size = sum(b.nbytes for b in batches)
    return MaterializedDataset(
        Node("blocks", label, {"pandas": True} if frames else {}, (), blocks=[(b, 0, b.num_rows, b.nbytes) for b in batches]),
        Facts(sum(b.num_rows for b in batches), (lambda: schema) if batches else None, [], size),
    )


def resources(given: dict[str, Any]) -> dict[str, Any]:
    """Keyword arguments of Plan.add from Ray's names; ValueError or TypeError for what is not understood."""
    out: dict[str, Any] = {}
    for k, v in given.items():
        if v is None:
            continue
        if k in ("num_cpus", "num_gpus"):
            if v < 0:
                raise ValueError(f"{k} must be 0 or more, not {v}")
            out[k] = float(v)
        elif k == "memory":
            out[k] = int(v)
        elif k == "resources":
            out[k] = {str(n): float(x) for n, x in v.items()}
        elif k in ("max_restarts", "max_task_retries", "max_retries", "max_calls"):
            if not isinstance(v, int) or isinstance(v, bool) or v < (0 if k == "max_calls" else -1):
                raise ValueError(f"{k} must be an int, {'0 (no limit)' if k == 'max_calls' else '-1 (for ever)'} or more, not {v!r}")
            out[k] = v
        elif k == "runtime_env":
            if v:
                from skate.runtime_env import check

                out["env"] = pickle.dumps(check(v), 5)
        elif k not in (
            "scheduling_strategy",
            "max_concurrency",
            "accelerator_type",
            "retry_exceptions",
            "num_returns",
            "placement_group",
            "placement_group_bundle_index",
            "placement_group_capture_child_tasks",
            "label_selector",
            "_generator_backpressure_num_objects",
        ):
            raise TypeError(f"unexpected keyword argument {k!r}{_meant(k)}")
    return {**out, **_group(given)}


def _meant(keyword: str) -> str:
    """For a keyword that no method takes: the nearest that one does."""
    import inspect

    from skate import _near
    from skate.data.dataset import Dataset

    methods: list[Any] = [Dataset.map_batches, Dataset.map, Dataset.add_column]
    known = {p for m in methods for p in inspect.signature(m).parameters} - {"self", "fn", "col", "ray_remote_args"}
    return _near.guess(
        keyword, sorted(known | {"max_retries", "max_restarts", "max_task_retries", "max_calls", "resources", "runtime_env"})
    )


def _group(given: dict[str, Any]) -> dict[str, Any]:
    """The placement group that tasks run in, as Plan.add takes it."""
    from skate.options import group_of

    g = group_of({k: v for k, v in given.items() if v is not None}, 1, "a stage")
    why = g["unfit"]() if "unfit" in g else None
    if why is not None:
        from skate.exceptions import TaskUnschedulableError

        raise TaskUnschedulableError(why)
    return {"group": g["pg"], "bundle": g["bundle"]} if "pg" in g else {}


def lower(root: Node, context: DataContext | None = None, hold: list[Any] | None = None) -> tuple[Any, int]:
    """(_skate.Plan, node id of root) for one run; context None: for people to read only, nothing is run for it. hold: see carried.py."""
    from skate import _skate
    from skate.data.pushdown import push

    plan = _skate.Plan()
    root = push(root)
    ids: dict[int, int] = {}
    strategy = context.scheduling_strategy if context is not None else None
    everywhere = _group({"scheduling_strategy": strategy}) if not isinstance(strategy, str) else {}
    stack = [root]
    while stack:
        node = stack[-1]
        if id(node) in ids:
            stack.pop()
            continue
        todo = [i for i in node.inputs if id(i) not in ids] if node.op != "late" or context is None else []
        if todo:
            stack += reversed(todo)
            continue
        this = node.this_run() if context is not None else node
        if this.op == "late" and context is not None:
            this = Node("blocks", this.label, {}, (), blocks=this.blocks_of(context, this.inputs))  # type: ignore[misc]
        elif this.op == "late":
            this = Node("blocks", f"{this.label} (BLOCKING: all of its input first, {expected(this.inputs)})", {}, (), blocks=[])
        if context is not None and context.on_error != "raise" and this.op in bad.OPS and this.params.get("on_error") is None:
            this = this.replaced(params={**this.params, "on_error": context.on_error})
        options = {**everywhere, **this.options}
        if "blocks" in options:
            options = {
                **options,
                "blocks": [(r if isinstance(r, _skate.ObjectRef) else _skate.put_block(r), *more) for r, *more in options["blocks"]],
            }
        params = this.dump(context, hold) if context is not None else b""
        ids[id(node)] = plan.add(this.op, this.label, params, tuple(ids[id(i)] for i in this.inputs), **options)
        stack.pop()
    return plan, ids[id(root)]


def below(root: Node) -> list[Node]:
    """The nodes that root is made of, itself first, each once."""
    out: dict[int, Node] = {}
    todo = [root]
    while todo:
        n = todo.pop()
        if id(n) not in out:
            out[id(n)] = n
            todo += reversed(n.inputs)
    return list(out.values())


def expected(roots: tuple[Node, ...]) -> str:
    """How much comes into what these nodes are made of, in words."""
    from skate.data.stats import nbytes

    rows = size = 0
    for n in {id(n): n for r in roots for n in below(r)}.values():
        for part in n.options.get("units", n.options.get("blocks", ())):
            r, b = (part[1], part[2]) if n.op == "read" else (part[2], part[3])
            rows, size = (rows + r if rows >= 0 and r >= 0 else -1), (size + b if size >= 0 and b >= 0 else -1)
    return f"of {nbytes(size) if size >= 0 else 'unknown size'} read{f' ({rows:,} rows)' if rows >= 0 else ''}"


def explain(root: Node) -> str:
    """The plan of root, and below it the plans of what its blocking operators wait for."""
    plan, at = lower(root)
    text: str = plan.explain(at)
    todo, seen = [root], set()
    while todo:
        n = todo.pop()
        if id(n) in seen:
            continue
        seen.add(id(n))
        if n.op != "late":
            todo += reversed(n.inputs)
            continue
        for i in n.inputs:
            text += f"\nfirst, for {n.label}\n" + "\n".join("  " + line if line else line for line in explain(i).splitlines())
    return text.rstrip("\n")


def ensure_engine(node: Node | None = None) -> None:
    """Starts the engine if there is none, and lets the fork server import what the stages of node need while we go on."""
    import skate
    from skate import _skate

    if not skate.is_initialized():
        skate.init()
    if not _skate.in_worker():
        modules, seen, todo = set[str](_STAGES), set(), [node] if node is not None else []
        while todo:
            n = todo.pop()
            if id(n) in seen:
                continue
            seen.add(id(n))
            if n.op in ("aggregate", "project", "project_numbered") or "expr" in n.params:
                modules.add("pyarrow.compute")
            if n.params.get("batch_format") == "pandas":
                modules.add("pandas")
            if n.op in ("read", "write"):
                modules.add(f"skate.data.{n.op}.{n.params['format']}")
            todo += n.inputs
        _preload(modules)


_STAGES = ("skate.data.stage", "skate.data.execute", "numpy.ma")  # numpy.ma is what numpy imports when it first looks for masked arrays


def _preload(modules: Iterable[str]) -> None:
    from skate import _skate, serialize

    _skate.preload(serialize.preload_note(sorted(modules)))


def expect(fmt: str) -> None:
    """A reader of this format is at work: where there is an engine, its fork server imports meanwhile what the read will need."""
    import skate
    from skate import _skate

    if skate.is_initialized() and not _skate.in_worker():
        _preload({*_STAGES, f"skate.data.read.{fmt}"})


def conf(context: DataContext) -> dict[str, Any]:
    """The configuration of a run."""
    target = context.target_max_block_size or 1 << 40
    options = context.execution_options
    limits = options.resource_limits
    out: dict[str, Any] = {
        "policy": context.scheduling_policy,
        "target_max_bytes": int(target),
        "target_min_bytes": int(context.target_min_block_size),
        "preserve_order": True if context.execution_options.preserve_order is None else bool(context.execution_options.preserve_order),
        "run_stage": run_stage,
        "stage_init": stage_init,
        "stage_call": stage_call,
        "max_bad_rows": bad.limit(context.max_errors)[0],
        "max_errored_blocks": int(context.max_errored_blocks),
    }
    if limits.object_store_memory != float("inf"):
        out["memory_bytes"] = int(limits.object_store_memory)
    options.validate()
    less = options.exclude_resources
    if not less.is_zero() or limits.cpu != float("inf") or limits.gpu != float("inf"):
        import skate

        has = skate.cluster_resources()
        for key, most, without, n in (("cpu", limits.cpu, less.cpu, has.get("CPU", 0)), ("gpu", limits.gpu, less.gpu, has.get("GPU", 0))):
            if min(most, n - without) < n:
                out[f"most_{key}_e4"] = max(1, round(min(most, n - without) * 1e4))  # 0 would be all of it
        if less.object_store_memory:
            out["memory_bytes"] = max(1, int((has.get("object_store_memory", 0) - less.object_store_memory) / 2))
    return out


# What runs a stage in a worker, by name: the driver itself need not import stage.py with pyarrow before the run is on its way.


def run_stage(stage: Any, exec_args: Any, *blocks: Any) -> Any:
    from skate.data.stage import run_stage as run

    return run(stage, exec_args, *blocks)


def stage_init(stage: Any) -> Any:
    from skate.data.stage import stage_init as init

    return init(stage)


def stage_call(chain: Any, exec_args: Any, *blocks: Any) -> Any:  # called by its name on what stage_init returned
    return chain.stage_call(exec_args, *blocks)


def run(ds: Any, node: Any = None, skip: bytes | None = None, schemas: list[int] | None = None) -> Generator[Any, None, None]:
    """Runs ds (or another node of its context) and yields its blocks in order. Closing the iterator stops the run.

    schemas: gets a checksum of the schema of each block that tasks of this run have made, before the block is given out.

    In a worker the driver runs it (home.py). skip: a byte for each unit of its only source, not 0 if it is left out; units are kept apart then, and blocks have the number of theirs as a fifth item.
    """
    from skate._private import timeline
    from skate.data.progress import Progress
    from skate.data.stats import DatasetStats

    node = node or ds._node
    if ds._errors is None:
        ds._errors = bad.Errors(None)
    if node.op == "blocks":
        yield from node.options["blocks"]
        return
    ensure_engine(node)
    from skate import _skate

    if _skate.in_worker():
        from skate.data import home

        yield from home.run(ds, node, skip)
        return
    from skate.data.late import below

    if node.op == "late":
        token = below.set(before := [])
        try:
            blocks = node.this_run().blocks_of(ds.context, node.inputs)
        finally:
            below.reset(token)
        ds._stats = DatasetStats(
            {}, {"late": f"{node.label}: {sum(b[2] for b in blocks):,} rows in {len(blocks):,} blocks", "before": before}
        )
        yield from blocks
        return
    bad.check_policy(ds.context.on_error)
    share = bad.limit(ds.context.max_errors)[1]
    token = below.set(before := [])
    held: list[Any] | None = None if _skate.status().get("engine") == "inline" else []  # what the functions carry, as long as the run lives
    try:
        plan, root = lower(node, ds.context, held)
    finally:
        below.reset(token)
    how = conf(ds.context)
    if skip is not None:
        how["skip_units"] = skip
    x = _skate.Exec(plan, root, how)
    warn_few_inputs(node)
    timeline.running.add(x)
    errors = ds._errors = bad.Errors(x)
    log = logging.getLogger("ray.data")
    bar = Progress(x, ds.context, node)
    from skate.data import batch  # noqa: F401  pyarrow and numpy, which the blocks need here too: while the workers start

    try:
        wait = ds.context.wait_for_min_actors_s
        if wait > 0 and not x.await_actors(wait):
            raise GetTimeoutError(
                f"Timed out while starting actors: not all have within DataContext.wait_for_min_actors_s = {wait} s. Their constructors take longer, or "
                "others hold the CPUs, GPUs or memory that they need: give them more time, or ask for fewer actors"
            )
        while True:
            item = bar.next()
            errors.drain(log, ds.context.max_errored_blocks)
            if item is None:
                errors.check_share(share, x.stats())
                break
            if schemas is not None:
                schemas.append(x.schema())
            yield item if skip is None else (*item, x.origin())
    except RayError as e:
        most = ds.context.max_errors
        if isinstance(e, RayTaskError) and isinstance(most, int) and x.stats()["bad_rows"] > most:
            errors.drain()
            raise in_front(errors.too_many(f"the {most:,} allowed"), ds.context) from None
        raise in_front(of_user_code(e, ds.context), ds.context) from None
    finally:
        errors.drain(log, ds.context.max_errored_blocks)
        ds._stats = DatasetStats(x.stats(), {**(ds._stats.extra if ds._stats else {}), "errors": errors, "before": before})
        ds._stats.log()
        bar.close()
        timeline.ended(x)
        x.stop()
        if held:
            held.clear()
        errors.end()


def warn_few_inputs(node: Node) -> None:
    """Warns of a function that is to run in more places at once than its input has parts."""
    todo, seen = [node], set()
    while todo:
        n = todo.pop()
        if id(n) in seen:
            continue
        seen.add(id(n))
        todo += n.inputs
        most = n.options["pool"][0] if n.options.get("pool") else n.options.get("max_tasks") or 0
        if most > 1 and "fn" in n.params and len(n.inputs) == 1:
            below = n.inputs[0]
            while (
                below.op in ("map", "map_batches", "filter", "flat_map", "project", "select_columns", "rename_columns")
                and len(below.inputs) == 1
            ):
                below = below.inputs[0]
            parts = below.options.get("units", below.options.get("blocks"))
            if parts is not None and 0 < len(parts) < most:
                warnings.warn(
                    f"{n.label} can launch at most {len(parts)} task{'s' if len(parts) > 1 else ''}, as its input has {len(parts)} part"
                    f"{'s' if len(parts) > 1 else ''}, and is to run {most} at once; raise override_num_blocks of what reads it",
                    UserWarning,
                    stacklevel=4,
                )


def in_front(e: BaseException, context: DataContext) -> BaseException:
    """e, marked to be shown without frames of skate (py_front.c); DataContext.log_internal_stack_trace_to_stdout keeps them."""
    try:
        e._skate_front = not context.log_internal_stack_trace_to_stdout  # type: ignore[attr-defined]
    except AttributeError:  # a class of the user's without room for it: shown with all frames
        pass
    return e


LINES = 12  # of an error of a function


_HEAD = "Traceback (most recent call last):"
_LINKS = ("The above exception was the direct cause", "During handling of the above exception")


def brief(text: str) -> str:
    """The text of an error of a function in LINES lines, where it has more of its tracebacks: of exceptions that came before it only what they say, of the last
    traceback the first frame and those next to where it was raised. RayTaskError.traceback_str keeps all."""
    lines = text.splitlines()
    heads = [i for i, line in enumerate(lines) if line == _HEAD]
    if len(lines) <= LINES or not heads:
        return text
    first, last = heads[0], heads[-1]
    said = [line for line in lines[first:last] if line and line[0] != " " and line != _HEAD and not line.startswith(_LINKS)]
    frames: list[list[str]] = []
    at = last + 1
    while at < len(lines) and lines[at].startswith("  "):
        if lines[at].startswith('  File "') or not frames:
            frames.append([])
        frames[-1].append(lines[at])
        at += 1
    before = lines[:first] + [f"after: {line}" for line in said]
    room = LINES - len(before) - (len(lines) - at) - 2  # a head, and what is left out
    kept = frames[-1:]
    left = sum(map(len, frames[:1])) + sum(map(len, kept)) <= room and len(frames) > 1  # is there room for the user's function itself
    room -= sum(map(len, kept)) + (len(frames[0]) if left else 0)
    for f in reversed(frames[1:-1]):
        room -= len(f)
        if room < 0:
            break
        kept.insert(0, f)
    n = len(frames) - len(kept) - left
    more = [f"  ... {n} more frame{'s' if n > 1 else ''}: traceback_str of this error has them"] if n else []
    shown = [line for f in (frames[:1] if left else []) for line in f] + more + [line for f in kept for line in f]
    return "\n".join([*before, *([_HEAD] if frames else []), *shown, *lines[at:]])


def of_user_code(e: BaseException, context: DataContext) -> BaseException:
    """The error of a function of the user as a UserCodeException too; other errors as they are. That of a constructor of the user's is caught by its own class, as those of
    calls are, and stays an ActorDiedError. It is said in the log as well where the program has set one up: where it has none, logging would write it to stderr, and the
    exception says it."""
    also: tuple[type, ...] = (UserCodeException,)
    cause: Any
    if isinstance(e, ActorDiedError) and e.actor_init_failed and e.cause is not None:
        e, also = RayTaskError("__init__", e.told, e.cause).as_instanceof_cause(), (UserCodeException, ActorDiedError)
        e.actor_init_failed = True  # pyright: ignore[reportAttributeAccessIssue]
    if not isinstance(e, RayTaskError):
        return e
    cause = vars(e).get("raised", e.cause)
    if not any(str(n).startswith("in ") for n in getattr(cause, "__notes__", ())) or isinstance(e, UserCodeException):
        return e
    if context.raise_original_map_exception:
        return cause
    log = logging.getLogger("ray.data")
    if not context.log_internal_stack_trace_to_stdout and log.hasHandlers():
        log.error("Exception occurred in user code; its own frames follow.")
    if log.hasHandlers():
        log.error("Full stack trace:\n%s", e, extra={"hide": not context.log_internal_stack_trace_to_stdout})
    if not context.log_internal_stack_trace_to_stdout:
        e.text = brief(e.text)
    name = type(e).__name__
    key = (type(e), *also)
    if key not in _user_classes:
        _user_classes[key] = type(name, key, {"__module__": type(e).__module__, "__qualname__": name})
    try:
        e.__class__ = _user_classes[key]
    except TypeError:  # a class of the user's with a layout of its own
        pass
    return e


_user_classes: dict[tuple[type, ...], type] = {}


def fetch(block: Block) -> Any:
    """The pyarrow.RecordBatch of a block."""
    return _fetch(block)[1]


def reference(block: Block) -> Any:
    """A reference to a batch of exactly the block's rows: its own, or, where it is some rows of a larger one or a batch of this process, a new one."""
    from skate import _skate

    whole, rb = _fetch(block)
    return block[0] if whole is rb and not hasattr(block[0], "num_rows") else _skate.put(rb)


def _fetch(block: Block) -> tuple[Any, Any]:
    """The batch that the block is in, and the block."""
    ref, row0, rows, _ = block
    if hasattr(ref, "num_rows"):
        rb = ref  # a batch of this process
    else:
        from skate import _skate

        rb = _skate.get(ref)
    return rb, rb if row0 == 0 and rows == rb.num_rows else rb.slice(row0, rows)


def batches(ds: Any, node: Node | None = None) -> Generator[Any, None, None]:
    """Runs ds and yields its record batches, empty ones included."""
    it = run(ds, node)
    try:
        for block in it:
            yield fetch(block)
    finally:
        it.close()


def in_one_schema(ds: Any, node: Node | None = None) -> Generator[Any, None, None]:
    """batches(), brought to one schema: the known one, or what all of them have been so far (schema.Widening). A whole run tells ds the schema."""
    from skate.data.schema import Schema, Widening

    known = ds._facts.schema
    earlier = known() if known else ds._schema.arrow if ds._schema is not None else None
    fit = Widening(ds._node.label, earlier, known is not None)
    it = batches(ds, node)
    try:
        for rb in it:
            yield fit(rb)
        if node is None and known is None and fit.schema is not None:
            ds._schema = Schema(fit.schema, pandas=ds._frames())
    finally:
        it.close()  # type: ignore[attr-defined]


def conformed(what: str, blocks: list[Block], keys: list[int]) -> tuple[list[Block], Any]:
    """(the blocks of a run, those cast whose schema is not that of all; the schema of all). keys: what run() said of the schemas of all its blocks, if it did."""
    from skate.data import late
    from skate.data.schema import ADVICE, unify

    if len(keys) != len(blocks):
        keys = list(range(-len(blocks), 0))  # they existed, or came from another process: each is looked at
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
        raise TypeError(f"{what}: {e}: {ADVICE}") from None
    other = {key for key, s in seen.items() if not s.equals(whole)}
    at = [i for i, key in enumerate(keys) if blocks[i][2] and (key or -1 - len(blocks) - i) in other]
    for i, b in zip(at, late.cast([blocks[i] for i in at], whole), strict=True):
        blocks[i] = b
    return blocks, whole


def combine(ds: Any, aggs: list[tuple[str, str | None, bool, int]], what: str) -> list[Any]:
    """Runs aggregates over ds; one value each."""
    from skate.data import combine as c

    node = Node("aggregate", f"Aggregate({what})", {"aggs": aggs}, (ds._node,))
    states: list[Any] = [None] * len(aggs)
    for rb in batches(ds, node):
        for data in rb.column(0).to_pylist():
            for i, s in enumerate(pickle.loads(data)):
                if s is not None:
                    states[i] = c.merge(aggs[i][0], states[i], s)
    return [c.final(a, s) for a, s in zip(aggs, states, strict=True)]


def combine_fns(ds: Any, fns: list[Any]) -> list[Any] | None:
    """Runs aggregates of users (aggregate.py) over ds; one value each, None when there are no rows."""
    node = Node("aggregate", f"Aggregate({', '.join(f.name for f in fns)})", {"fns": fns}, (ds._node,))
    states: list[Any] | None = None
    for rb in batches(ds, node):
        for data in rb.column(0).to_pylist():
            new = pickle.loads(data)
            states = new if states is None else [f.merge(a, b) for f, a, b in zip(fns, states, new, strict=True)]
    return None if states is None else [f.finalize(s) for f, s in zip(fns, states, strict=True)]
