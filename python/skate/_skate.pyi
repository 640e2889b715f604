"""The C extension: this process's engine, values in and out, plans and runs. Everything public in
skate is built on these calls.

This file is the contract between src/py (C) and python/skate (Python). A process has one engine: in
the driver the one that init() opened, in a worker a link to that of the driver.
"""

from asyncio import Future as AsyncFuture
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Sequence
from concurrent.futures import Future
from typing import Any, Generic, NamedTuple, TypeVar, overload

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
F = TypeVar("F", bound=Callable[..., Any])

__version__: str  # SKATE_VERSION of skate.h
POLICIES: tuple[str, ...]  # names of the scheduling policies
SHUFFLES: dict[str, bool]  # names of the strategies of exchanges, and whether each may merge packs
PARTITIONS: int  # the number of partitions of an exchange if the user gives none
MAP_BLOCKS: int  # the bytes of blocks that one map of an exchange reads at a time
SIDE_BOUNDS: int  # exec.h defines this and the constants below
SIDE_REPORTS: int
PHASE_CUT: int
PHASE_MERGE: int
PHASE_REDUCE: int
PHASE_SPLIT_REDUCE: int
PHASE_UNMATCHED: int

def front(function: F) -> F: ...  # wraps a method so that its errors show only the user's frames

class ObjectRef(Generic[T_co]):
    """A reference to an immutable object. Each live ObjectRef of this process counts as one
    reference. ObjectRef(28 bytes) belongs to no engine: it can be compared, printed and pickled.
    as_future, task_id, job_id, nil, from_random and size come from skate/ref.py."""
    def __init__(self, id: bytes) -> None: ...
    def hex(self) -> str: ...  # 56 hex digits as in Ray, our 64-bit id at the end
    def binary(self) -> bytes: ...  # 28 bytes
    def is_nil(self) -> bool: ...
    def _number(
        self,
    ) -> int: ...  # the object's number in its engine; 0: the reference was made from bytes
    # the number of the task that makes the object; 0 if this process does not know the task
    def _task_number(self) -> int: ...
    def __await__(self) -> Generator[Any, None, T_co]: ...
    def future(self) -> Future[T_co]: ...
    def as_future(self) -> AsyncFuture[T_co]: ...
    def _on_completed(self, callback: Callable[[Any], Any]) -> None: ...
    def task_id(self) -> Any: ...
    def job_id(self) -> Any: ...
    @staticmethod
    def size() -> int: ...
    @staticmethod
    def nil() -> ObjectRef[Any]: ...
    @staticmethod
    def from_random() -> ObjectRef[Any]: ...

class ObjectRefGenerator(Generic[T_co]):
    """An iterator over the ObjectRefs that a streaming task yields. Closing or dropping it cancels
    the rest. A failure of the task comes as a last reference, and getting that raises the error."""
    def __iter__(self) -> Iterator[ObjectRef[T_co]]: ...
    def __next__(self) -> ObjectRef[T_co]: ...
    def __aiter__(self) -> AsyncIterator[ObjectRef[T_co]]: ...
    async def __anext__(self) -> ObjectRef[T_co]: ...
    def _next_sync(self, timeout_s: float | None = None) -> ObjectRef[T_co]: ...
    def next_ready(self) -> bool: ...
    def completed(self) -> ObjectRef[Any]: ...
    def _generator_ref(self) -> ObjectRef[Any]: ...
    def next_within(self, timeout: float) -> ObjectRef[T_co]: ...  # GetTimeoutError, StopIteration
    # Whether next() need not wait. The call takes the item out of the stream, so the item counts as
    # read for the window.
    def peek(self, seconds: float) -> bool: ...
    def is_finished(self) -> bool: ...  # whether all items were taken, including a failure
    def task_id(self) -> int: ...
    def close(self) -> None: ...

# --- engine of this process
def init(conf: dict[str, Any]) -> None:
    """Opens the engine of this process. Keys of the configuration: engine ("local" | "inline"),
    guest (the object that is the engine: skate.engine), num_cpus, num_gpus (float), memory (bytes),
    resources ({name: float}), object_store_memory (bytes), max_workers, spin_us, idle_reap_s, argv
    (list[str], the fork server's command), env (list["NAME=value"], the whole
    environment of the workers, or None: inherit), preload (bytes: first note to the fork server), seed, lineage_bytes, memory_limit,
    memory_usage_threshold, memory_monitor_refresh_ms, task_oom_retries. Raises RuntimeError when one is open."""

def shutdown() -> (
    None
): ...  # idempotent; frees all objects; old references then raise RaySystemError
def is_initialized() -> bool: ...
def in_worker() -> bool: ...
def engine() -> str | None: ...  # "local", "inline", "guest", "cluster"; None: no engine is open
def guest_worker() -> (
    None
): ...  # from now on this process runs tasks of a guest engine (skate.engine)

class GuestTask:
    """Runs a task of a guest engine step by step: an iterator over lists of (kind, buffer), one for
    each yield or return."""

    failed: tuple[int, bytes] | None  # the error after the last values
    def __init__(
        self,
        fn: int,
        name: str,
        definition: bytes,
        args: list[Any],
        *,
        task: int = 0,
        actor: int = 0,
        n_returns: int | None = None,
        attempt: int = 0,
        is_init: bool = False,
    ) -> None: ...
    def __iter__(self) -> GuestTask: ...
    def __next__(self) -> list[tuple[int, Any]]: ...

def resources(
    custom_names: list[str],
) -> tuple[
    dict[str, float], dict[str, float]
]: ...  # (total, available); names in the order of init
def nodes(
    custom_names: list[str],
) -> list[
    tuple[int, str, bool, dict[str, float], int, bytes]
]: ...  # for each node: number, name, whether the node is alive, its resources, bytes for objects
def status() -> dict[str, int | str]: ...
def references() -> (
    dict[int, tuple[int, int]]
): ...  # of all objects: ObjectRefs of this process, other holders; NotImplementedError outside of the driver
def unpin(ref: ObjectRef) -> None: ...  # drops the reference that pickling ref by hand has added
def workers() -> list[tuple[int, int, str, int]]: ...  # pid, number, state, tasks done

# "tasks", "actors", "objects", "workers": see src/py/call/listing.c
def state(what: str, custom_names: list[str]) -> tuple[list[tuple[Any, ...]], int, int, int]: ...

# the exception for an error in a row of state(), which is (kind, value)
def state_error(kind: int, value: bytes) -> BaseException: ...
def monotonic_ns() -> int: ...  # the present time by the clock of the times in rows of state()

# makes this process write its stacks when it receives the signal of `skate stack`
def stack_install(driver: bool) -> None: ...
def stack_signal() -> int: ...
def stack_ask(
    pidfd: int, fd: int
) -> None: ...  # asks another process to write its stacks to a pipe of this process; OSError
def stack_become(
    uid: int, gid: int
) -> None: ...  # changes the user of this process, which is root, to that user; OSError
def stack_look(
    path: str,
) -> tuple[
    int, str, list[tuple[int, int, int, str]]
]: ...  # the contents of a control segment: driver, what the driver waits for, workers

# the view of an engine, or a record: see skate/_private/view.py. RaySystemError, ValueError
def view_read(path: str) -> dict[str, Any]: ...
def view_tasks(
    path: str,
) -> tuple[
    list[tuple[int, int, int, int, int, int, str, int, int, int, int, int, int]],
    list[tuple[int, int, int]],
]: ...  # ended tasks: id, parent, actor, submitted, started, ended (ns), name, pid, attempt, worker, kind, failed, node; flow of blocks: block, task, ns
def preload(note: bytes) -> None: ...
def node_open(conf: dict[str, Any], /) -> int: ...
def node_prints() -> None: ...
def node_join(address: str, /) -> int: ...
def node_drain(number: int, seconds: float, /) -> None: ...
def node_give_up(why: str, /) -> None: ...
def node_wait(seconds: float, /) -> str | None: ...
def machine() -> (
    dict[str, Any]
): ...  # memory_bytes (least of all limits), limit_bytes, used_bytes, where; cpus (quota of the cgroup, 0.0: none)
def memory() -> dict[str, Any]: ...  # in bytes: see skate.memory.usage
def mem_bytes() -> int: ...  # C heap in use by skate in this process

# --- values in and out of the store
def set_hooks(**hooks: Callable[..., Any]) -> None:
    """Python helpers that C calls for what it does not do itself (set by skate._hooks.install and skate.api):
    dumps(obj) -> (bytes, list[buffer])       cloudpickle; called after the plain C pickler failed or its pickle names __main__
    dumps_error(exc, function_name, attempt) -> bytes  the user's exception with its traceback text, at most SK_ERROR_VALUE_MAX bytes
    load_error(kind, bytes) -> BaseException  for errors of user code (0xE1: task, 0xE2: constructor of an actor)
    load_block(schema_capsule, array_capsule) -> pyarrow.RecordBatch
    merge(batches) -> pyarrow.RecordBatch     one batch of all rows, where blocks cannot be joined by their buffers (set by skate.data.worker.stage)
    dump_function(fn) -> bytes                cloudpickle, with the three-line error for what cannot be sent
    load_function(bytes) -> callable
    check_call(func, skip, args, kwargs)      raises the TypeError of a call that does not fit its function
    run_coroutine(coro) -> Any                result of an `async def` task or method
    ref_await(ref), ref_future(ref)           behind ObjectRef.__await__ and .future()
    auto_init()                               opens the default engine at the first use of one
    after_fork()                              in a fresh worker
    named(space, name)                        in the driver, on a thread of its own: an actor of a namespace that begins with "_" was made (skate._job.SERVED)
    idle()                                    in a worker that has had nothing to do for a second
    prints() -> None                          in the driver: what workers have printed is shown
    task_over() -> None                       in a worker: a task ended that had called tidy_later(), or had begun a line
    note(bytes) -> None                       in the fork server: imports, sys.path, cwd (bytes made by skate._hooks.preload_note)
    """

def put(value: T) -> ObjectRef[T]: ...
def room(n_bytes: int, n_axes: int) -> Any:
    """Writable memory (buffer protocol) for an array of skate.empty(): in the store when it is larger than what travels in messages."""

@overload
def get(refs: ObjectRef[T], timeout: float | None = None) -> T: ...
@overload
def get(refs: Sequence[ObjectRef[T]], timeout: float | None = None) -> list[T]: ...
@overload
def get(refs: Any, timeout: float | None = None) -> Any: ...
def get_each(
    refs: Sequence[ObjectRef[Any]],
) -> list[tuple[bool, Any]]: ...  # (True, value) or (False, exception)
def wait(refs: list[T], num_returns: int, timeout: float | None) -> tuple[list[T], list[T]]: ...
def cancel(ref: ObjectRef[Any] | ObjectRefGenerator[Any], force: bool, recursive: bool) -> None: ...
def borrowed(number: int) -> Any:
    """In a worker: the value of an object that another process holds a reference to;
    ObjectLostError if no process does. number: ObjectRef._number()."""

def exists(number: int) -> bool: ...  # in a worker: whether any process holds the object
def own(data: Any) -> Any:
    """The bytes of an object (a buffer from get()) as memory that this process may write: pages are
    copied when they are written."""

# Like own(), but only for bytes in the store. None: the bytes are not in the store, or the engine's
# store cannot be mapped a second time.
def own_pages(data: Any) -> Any: ...
def raw(
    ref: ObjectRef[Any], /
) -> (
    Any
): ...  # the bytes of a block; in the store they stay where they are as long as somebody has them

# (the descriptor of the file of the store that has these bytes, their offset in the file); None: no
# file of the store has them.
def file_of(data: Any, /) -> tuple[int, int] | None: ...
def block(
    data: Any, owner: Any, /
) -> Any: ...  # the batch that lies in these bytes; `owner` keeps them in place
def pages(
    n: int, /
) -> Any: ...  # writable memory of this process that begins at a page; it is used again when the last array over it is gone
def pages_counts() -> tuple[
    int, int
]: ...  # (pieces of such memory that are in use, pieces that are kept for later pages())
def gather(
    batches: list[Any], places: Any, /
) -> Any: ...  # the batch of the rows at pairs of uint32 (batch, row)
def rows_begin(
    window: int, seed: int, epoch: int, start: int, /
) -> int: ...  # the first row of the stream that a Rows with these arguments needs

class Rows:
    """The rows of a stream of batches in batches of other sizes, in order, or shuffled in windows
    of `window` rows by (seed, epoch). start: the number of rows given out before; the stream then
    begins at row rows_begin(...). One thread at a time (ValueError)."""

    ready: int  # the number of rows that can be taken now
    def __init__(self, window: int = 0, seed: int = 0, epoch: int = 0, start: int = 0) -> None: ...
    def add(self, batch: Any) -> None: ...  # ValueError: the batch has another schema
    def end(self) -> None: ...  # no more batches follow
    # whether more batches must be added before n rows can be taken
    def wants(self, n: int) -> bool: ...
    def plan(self, n: int) -> Any:
        """The next n rows, or those that are ready, to be gathered by any thread; None: none is ready. It has num_rows, and write(alloc=None) gathers them: (the block, in memory of
        alloc(bytes), else of pages(); for each column (the offset of its values in the block, their
        bytes), or None for a column that has nulls or whose type is neither a number nor a list of
        numbers)."""

    def cast(
        self, function: Callable[[Any], Any]
    ) -> None: ...  # replaces each batch that is held by function(batch)

class Watcher:
    """A file descriptor that tells when objects become ready, or generators have an item."""

    fd: int
    def add(
        self, what: ObjectRef[Any] | ObjectRefGenerator[Any], tag: Any
    ) -> bool: ...  # True: the object is ready already, and is not watched
    # whether something became ready within the time
    def wait(self, seconds: float | None) -> bool: ...
    # the objects and generators that are ready, each with its tag
    def take(self) -> list[tuple[Any, Any]]: ...
    def close(self) -> None: ...

def put_block(batch: Any) -> ObjectRef[Any]:
    """A pyarrow.RecordBatch (anything with __arrow_c_array__) as a block object."""

def block_nbytes(batch: Any) -> int: ...
def crc32c(data: Any) -> int: ...
def text_objects(
    out: Any, binary: bool, wide: bool, at: int, valid: Any, offsets: Any, data: Any
) -> None:
    """Fills a list or object array of None with the str (bytes) of an Arrow column that begins at row `at` of its buffers; wide: 8-byte offsets."""

def arrays_begin(least: int, task: int) -> Any: ...
def arrays_end(before: Any) -> None: ...
def arrays_counts() -> tuple[int, int, int, int]: ...
def image_use_jpeg(object: str) -> str | None: ...
def image_use_png(object: str) -> str | None: ...
def image_read(file: Any, make: Any, want: tuple[Any, ...]) -> Any: ...
def coded_objects(out: Any, values: Any, codes: Any) -> None: ...
def same_coded(a: Any, values: Any, codes: Any) -> bool: ...
def same_objects(a: Any, b: Any) -> bool:
    """Whether two object arrays hold the very same objects in the same order."""

class BlockOut:
    """BlockOut(batch, bad=0): a streaming task yields it to have a batch sealed as a block, with
    its note. The BlockOuts of a Work may be packs (exec.h)."""

    nbytes: int
    # rows of the block; for a pack, rows of all its partitions; for a match report, 0
    num_rows: int
    note: bytes
    def batch(self) -> Any: ...
    def written(self) -> Any: ...
    def __init__(self, batch: Any, bad: int = 0) -> None: ...
    @classmethod
    def join(cls, parts: list[BlockOut]) -> BlockOut: ...

class Work:
    """The output of a task of an exchange, an iterator of BlockOuts (src/shuffle/work.h)."""

    def __iter__(self) -> Work: ...
    def __next__(self) -> BlockOut: ...

def join_columns(
    what: bytes, left: list[str], right: list[str], /
) -> list[tuple[int, int, str, int]]:
    """The columns of the result of a join (src/shuffle/work.h: sk_join_columns), by the names of
    the columns of both sides: side, column of that side, name, index in the key or -1."""

def groups(batch: Any, sorted: bool, /) -> tuple[bytes, bytes | None]:
    """The groups of rows of equal keys; all columns are the key: (the first row of each key, in the
    order of the rows; for each row the number of its key), as uint32. sorted: the rows are in the
    order of the keys; then the second is None."""

def bloom_bytes(keys: int, /) -> int: ...
def bloom_add(filter: bytearray, batch: Any, /) -> None: ...
def bloom_select(filter: Any, batch: Any, /) -> bytes: ...
def join_rules(kind: str, /) -> tuple[tuple[bool, bool], tuple[bool, bool], int]:
    """The rules of a kind of join (src/shuffle/join_sizing.h): whether blocks of the left, the
    right side may be joined one by one with the whole other side; whether unmatched rows of the
    left, the right side may be left out; the sides (1: left, 2: right) whose split reduces have to
    give match reports."""

def join_first(kind: str, parted: bool, limit: int, sides: tuple[tuple[int, bool], ...], /) -> int:
    """The side to measure before the run; -1: none. sides: for both sides (the expected bytes, -1
    if unknown; whether the join is its only consumer)."""

def join_use(
    facts: tuple[str, bool, int, tuple[tuple[int, bool], ...]],
    side: int,
    measured: tuple[int, int, bool],
    /,
) -> str:
    """The use of a side of a join that was measured: it is moved, broadcast, or made into a filter.
    measured: rows, bytes, whether it has columns."""

def exchange_what(
    kind: str,
    *,
    keys: list[tuple[str, bool, bool]] = ...,  # name, descending, nulls first
    partitions: int = 0,
    groups: bool = False,
    one_block: bool = False,
    sorted: bool = False,
    own_reduce: bool = False,
    firsts: bool = False,
    whole_groups: bool = False,
    seed: int = 0,
    limit: int = 0,
    aggs: list[tuple[str, int, bool, bool, int, float, int, bytes, str, str]] = ...,
    join: tuple[str, list[str], str, str] = ...,  # kind, right keys, suffixes
) -> bytes:
    """aggs: (kind, column or -1 for rows, ignores nulls, NaN is null, ddof, q, k, quantiles as bytes of doubles, name, name of values in the result)."""

def exchange_map(
    what: bytes, batch: Any, seq: int, row0: int, bounds: Any, values: int = 1, /
) -> Work: ...
def exchange_merge(
    what: bytes,
    packs: list[tuple[Any, bytes]],
    first: int,
    partitions: int,
    values: int,
    target: int,
    /,
) -> Work | None:
    """Merges packs of an exchange. Returns None if the packs have different schemas. A pack: (bytes
    of blocks or a list of batches, lengths of its parts as uint32); partitions 0: they are runs."""

def exchange_cut(what: bytes, samples: list[Any], n: int, /) -> Work | None:
    """Computes where an exchange cuts its key range. Returns None if the samples have different
    schemas. A sample: bytes of a block, or a list of one batch."""

def exchange_reduce(
    what: bytes,
    slices: Sequence[tuple[Any, int, bool, int] | tuple[Any, int, bool, int, int]],
    first: int,
    end: int,
    n: int,
    target: int,
    beside: list[Any],
    phase: int = ...,
    shared: int = 0,
    /,
) -> Work | None:
    """Reduces the slices of an exchange. Returns None if the slices have different schemas, or keys
    that do not fit. A slice: (bytes of blocks or a list of batches, run, whether its rows are
    wanted, its first partition, the side of a join). beside: the bounds, or match reports of a join. phase,
    shared: as in struct sk_pack_task (src/shuffle/pack.h), for a join."""

class States:
    """States of aggregates by group (src/shuffle/work.h)."""

    rows: int
    nbytes: int  # bytes of memory
    # the rows that were looked at are so few that they should be added in any case
    few: bool
    def judge(self, batch: Any, /) -> bool:
        """Looks at the keys of a batch of rows without adding them. True: the rows looked at so far
        have at most a quarter as many groups, so that they, and all that follow, are worth adding."""

    def add(self, batch: Any, /) -> None: ...
    def batch(self) -> Any: ...
    def results(self, as_seen: bool = False, /) -> Any:
        """The results of the states, in the order of the keys or (as_seen) in the order of the
        states."""

def online_unit(pieces: int, slots: int, at: int, /) -> tuple[int, bool, bool]:
    """The unit of an online aggregation (src/shuffle/online.h) that begins after `at` pieces: the
    number of its pieces, whether a result follows the unit, whether the unit's products are
    wanted."""

def online_products(
    pieces: int, columns: tuple[Any, ...], /
) -> tuple[bytes, ...]: ...  # here and below: the bytes are columns of doubles
def online_totals(
    seen: tuple[int, int, int, float], columns: tuple[Any, Any], /
) -> tuple[bytes, bytes]:
    """(estimates for all rows, error bounds). seen: the number of all pieces, of pieces seen so
    far, of units that the seen pieces formed, and the confidence level."""

def online_ratios(
    seen: tuple[int, int, int, float], columns: tuple[Any, Any, Any, Any, Any], /
) -> tuple[bytes]: ...

# Makes an aggregation for rows or states with the schema of the batch
def group_states(what: bytes, batch: Any, /) -> States: ...
def arrow_schema(format: str, /) -> Any: ...
def aggregates() -> dict[str, tuple[str, int]]:
    """The built-in aggregates: {name: (what their states are: "plain", "typed" by the column, a
    "list" of values, or "pairs" of a value and a count; the types that they take, TAKES_* or-ed)}."""

TAKES_DECIMALS: int
TAKES_DECIMALS_256: int
TAKES_ORDERED: int

def blocks(slice: Any, /) -> list[Any]:
    """The batches of a slice; they share the memory of its bytes."""

def task_note(ops: list[tuple[int, int, int, int, int, int]]) -> None:
    """Inside a stage task: (rows_out, ns) per fused operator, for the DONE event."""

def task_closing() -> None: ...
def task_skip() -> int:
    """Inside a streaming task: the number of yields at the beginning whose values exist from an
    earlier attempt (they are skipped, not sealed again)."""

# --- functions and actors
def ambient_of(
    path: list[str], environ: dict[Any, Any]
) -> None: ...  # functions are sent again when the size of one of these has changed

# sets the number of the ambient environment (ambient_environment.py) that is in force in this
# process; arrives: the environment came with the definition of a function
def ambient_is(content: int, arrives: bool) -> None: ...

class Graph:
    """A compiled graph: its channels, in the process that compiled it. nodes: the actor of each
    node; len(actors) stands for the process that executes, len(actors) + 1 for the one that gets
    the results."""
    def __init__(
        self,
        *,
        actors: list[ActorToken],
        nodes: list[int],
        edges: list[tuple[int, int]],
        outputs: list[int],
        cells: int,
        buffers: int,
        overlap: bool = False,
    ) -> None: ...
    dead: tuple[int, str] | None
    broke: tuple[int, int, str] | None
    def plan(self, index: int) -> tuple[Any, ...]: ...
    def fail(self, index: int, why: str) -> None: ...
    def lost(self, seconds: float) -> list[int] | None: ...
    def write(self, values: tuple[Any, ...], seconds: float) -> None: ...
    def read(self, seconds: float, output: int) -> tuple[int, Any, bool]: ...
    def ready(self) -> bool: ...
    def close(self) -> None: ...
    def join(self, seconds: float) -> bool: ...
    @classmethod
    def results(cls, of: type) -> None: ...
    @classmethod
    def possible(cls) -> bool: ...
    @classmethod
    def living(cls) -> int: ...

def promise() -> ObjectRef[Any]: ...
def keep(ref: ObjectRef[Any], value: Any, name: str = ..., /) -> None: ...
def graph_begin(plan: tuple[Any, ...], retries: int, state: bytes | None) -> bool: ...
def graph_run(
    instance: Any,
    plan: tuple[Any, ...],
    saves: Callable[[Any], bytes] | None,
    restores: Callable[[Any, bytes], None] | None,
) -> None: ...

class Template:
    """The parts of a remote function (or of a method of an actor) that do not change between calls.
    kind "task": target is the Python function (pickled at the first submit); "actor": the class;
    "method": (ActorToken, method name). If target is another Template of the same kind, they share
    its definition (options). func: the function whose signature calls are checked against."""
    def __init__(
        self,
        kind: str,
        target: Any,
        name: str,
        *,
        num_returns: int | str | None = None,
        num_cpus: float | None = None,
        num_gpus: float | None = None,
        memory: float | None = None,
        resources: dict[str, float] | None = None,
        max_retries: int = 0,
        retry_exceptions: bool = False,
        stream_window: int = 0,
        max_restarts: int = 0,
        max_task_retries: int = 0,
        max_pending: int = 0,
        func: Any = None,
        **more: Any,
    ) -> None: ...
    fid: int  # the number of the function's definition in the open engine
    def submit(self, *args: Any, **kwargs: Any) -> Any:
        """ObjectRef[Any], list of them (num_returns > 1), None (0) or ObjectRefGenerator; for "actor": ActorToken."""

class ActorToken:
    """A counted handle of an actor in this process. It can be pickled wherever references can."""

    id: int
    # an object that becomes None when the constructor has run, or the constructor's error
    ready: ObjectRef[Any]

def actor_kill(token: ActorToken, no_restart: bool) -> None: ...
def actor_find(
    name: str, space: str | None
) -> tuple[ActorToken, bytes] | None: ...  # None: no living actor has that name
def actor_names() -> list[tuple[str, str]]: ...  # (space, name) of all living actors that have one
def actor_exit() -> (
    None
): ...  # the actor ends with the running call, which must raise; TypeError outside of actors

# --- placement groups
def pg_create(
    bundles: list[dict[str, float]],
    strategy: str,
    name: str | None,
    space: str,
    nodes: list[bytes],
) -> tuple[int, ObjectRef[Any]]: ...
def pg_remove(number: int) -> bool: ...  # False: the group was removed already
def pg_table(custom_names: list[str]) -> list[tuple[Any, ...]]: ...

# --- plans and runs (skate.data)
class Plan:
    """A growing DAG of operators. limit, fusion: whether these rules apply to it."""
    def __init__(self, *, limit: bool = True, fusion: bool = True) -> None: ...
    def add(
        self,
        op: str,
        label: str,
        params: bytes,
        inputs: tuple[int, ...],
        *,
        num_cpus: float = 1.0,
        num_gpus: float = 0.0,
        resources: dict[str, float] | None = None,
        memory: int = 0,
        pool: tuple[int, int] | None = None,
        max_in_flight: int = 0,
        max_tasks: int = 0,
        limit: int = -1,
        batch_rows: int = 0,
        units: list[tuple[bytes, int, int]] | None = None,
        blocks: list[tuple[ObjectRef[Any], int, int, int]] | None = None,
        max_restarts: int = ...,  # the most restarts of actors; not given: no limit
        # retries of an actor's call after a death; not given: 3, or 0 when max_restarts is 0
        max_task_retries: int = ...,
        max_retries: int = ...,  # the most retries of tasks; not given: 3
        max_calls: int = 0,  # of tasks
        group: int = 0,  # number of a placement group
        bundle: int = -1,  # number of a bundle of that group; -1: any
        env: bytes = ...,  # a checked runtime_env, pickled
        where: bytes = ...,  # nodes that may run it (src/engine/cluster/wheres.h)
        strategy: str | Told = ...,  # the strategy of an exchange; not given: "auto"
        parts: list[int] = ...,  # of joins, for each input its rows in a round; not given: 1
        shortest: bool = False,  # of joins with parts: the first input that ends ends the operator
        source: bool = False,  # this and the following are facts of the operator (skate/data/op)
        one_to_one: bool = False,
        no_more: bool = False,
        by_row: bool = False,
        first_rows: bool = False,
        writes: bool = False,
        alone: bool = False,
        numbered: bool = False,
        concatenates: bool = False,
        joins: bool = False,
    ) -> int: ...
    def stages(
        self, root: int
    ) -> list[tuple[int, ...]]: ...  # the nodes of each stage, the output last
    def explain(self, root: int) -> str: ...

class Told:
    """Told(name): the strategy of one exchange of one run, in Python: a thread answers the
    questions of the run (src/shuffle/told.h)."""

    def __init__(self, name: str) -> None: ...
    def next(
        self, exec: Exec
    ) -> tuple[str, int, tuple[Any, ...], tuple[int, int, int, int]] | None:
        """(kind of the question, input, sizes, pack): the next question of the run, the earliest
        first; waits until there is a question. None: no more questions will come."""
    def close(self) -> None: ...  # ends the strategy: its run is over, and asks no more questions
    def say(self, exec: Exec, what: str, input: int, a: int = 0, b: int = 0, /) -> Any:
        """Gives an answer; returns (bytes held, group). None: the answer is not wanted any more;
        False: there is no such group."""

class Exec:
    """Exec(plan, root, conf): starts the run. conf keys: policy, memory_bytes, target_max_bytes, target_min_bytes, consumer_blocks, preserve_order,
    run_stage, stage_init, stage_call (the three Python functions that run stages; see skate/data/worker/entry.py)."""
    def __init__(self, plan: Plan, root: int, conf: dict[str, Any]) -> None: ...
    def next(self, timeout: float | None = None) -> tuple[ObjectRef[Any], int, int, int] | None:
        """(block, first row, rows, bytes), None at the end; raises GetTimeoutError, or the job's failure (the user's own exception first)."""
    def samples(
        self,
    ) -> (
        dict[str, Any] | None
    ): ...  # the run's numbers over time, as in skate/_private/view.py; None after the end
    def await_actors(self, seconds: float) -> bool:
        """Whether the constructors of all actors that began with the run ended within the time."""
    def stats(self) -> dict[str, Any]: ...
    def quiet(
        self,
    ) -> tuple[float, str]: ...  # seconds without movement, and which operator waits for what
    def schema(self) -> int: ...  # a checksum of the schema of the last block of next(); 0: unknown
    def origin(
        self,
    ) -> (
        int
    ): ...  # unit of the source that the last block of next() stems from; of runs with skip_units
    # failures since the last call that did not end the run: (stage, bad rows, ObjectRef or None,
    # message)
    def failures(self) -> list[tuple[Any, ...]]: ...
    def stop(self) -> None: ...

class JobLog:
    """JobLog(path): opens the log of a resumable job; this process is its only owner meanwhile."""
    def __init__(self, path: str) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

def job_move(
    source: str, target: str, replace: bool = True
) -> bool: ...  # False: there is no source, or no folder for the target
def job_sync_dir(path: str) -> None: ...  # syncs a folder, so that the names in it are durable

# --- calls for worker processes
def current_task() -> tuple[int, int, str, int] | None: ...  # task, actor or 0, name, attempt
def current_need(
    custom_names: list[str],
) -> tuple[Any, ...] | None: ...  # resources, placement group, bundle, environment, GPUs, capture
def task_cancelled() -> bool: ...  # whether the running task was cancelled
def task_end_flags(
    flags: int,
) -> None: ...  # bits: 1: the running task is not retried after a failure; 4: its process runs no more tasks
def on_interrupt(*args: Any) -> None: ...  # handler of SIGINT in workers

# starts the actor calls that may start now; False: the process must end
def async_step(group: int) -> bool: ...
def async_done(call: Any, result: Any, exception: BaseException | None) -> None: ...
def async_yield(call: Any, value: Any) -> bool: ...  # False: the consumer takes no more values
def fault(text: str | None) -> None: ...  # sets fault points of this process, for tests
def current_function() -> (
    Any
): ...  # the function of the current task; for a method (class, name); None outside of tasks
def weak_token(
    actor: int,
) -> ActorToken: ...  # a token that does not keep the actor alive (of get_actor() and current_actor); `ready` is None

# sets the text about the present work of this process, for the message in case it dies: "label:
# what first..last, row ... of source (task ...)"
def doing(
    label: str,
    what: str = "",
    first: int = 0,
    last: int = -1,
    source: str = "",
    row: int | None = None,
    task: int | None = None,
    /,
) -> None: ...
def prints_wait(
    pause_ms: int,
) -> bool: ...  # in the driver, on a thread of its own: until workers have printed something; False: it is over
def prints_take(last: bool, labels: bool) -> list[tuple[int, bytes]]: ...  # (1 or 2, whole lines)
def prints_end() -> (
    bool
): ...  # False: the thread cannot be woken, because the program has closed its descriptors
def prints_close() -> None: ...
def prints_begin(labels: bool) -> None: ...  # in a fresh worker
def say(to: int, data: Any) -> int: ...  # prints bytes to descriptor 1 or 2, line by line
def say_now(to: int) -> None: ...  # also prints a line that has no end yet
def tidy_later() -> None: ...  # the task_over hook is called when this task ends
def plain(
    fd: int,
) -> int: ...  # in a worker: a descriptor of the driver's descriptor 1 or 2; -1: the worker's own descriptor is the same
def terminal(
    take: bool, wait: bool
) -> (
    int
): ...  # 0: this process has it now, or has released it; else the pid of the process that has it
def crash_fd() -> int: ...  # where a crash handler may write in a worker; -1 elsewhere
def serve() -> bool:
    """Runs the fork server or a worker, as the first call of skate._worker_main. Returns False when
    this process is neither."""

# The arguments of a stage's tasks (src/exec/args.h): list[StageNode], StageTask, then blocks as pyarrow.RecordBatch, or as bytes of an exchange's parts.
class StageNode(NamedTuple):
    op: str
    label: str
    params: bytes
    what: bytes  # the bytes of exchange_what(), for an operator of an exchange

class StageBlock(NamedTuple):
    row0: int
    rows: int
    side: int
    length: int  # this and the following are for an exchange (src/shuffle/pack.h)
    run: int
    row: int
    lengths: bytes

class StageExchange(NamedTuple):
    phase: int
    first: int
    end: int
    n: int
    shared: int

class StageTask(NamedTuple):
    seq: int | None  # None: the task was started before its turn
    cap: int
    target: int
    table: int
    unit: bytes
    values: int
    blocks: list[StageBlock]
    exchange: StageExchange | None
