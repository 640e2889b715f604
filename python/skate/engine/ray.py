"""skate over a Ray cluster, by Ray's public API: skate.init("HOST:PORT"), or skate.init(address,
_engine="ray") with "auto", "local" (starts one) or a Ray that is initialised already.

Each task of skate is one task of Ray. A block is a value that the Ray task yields or returns, never
a put, so Ray can make it again, and frees it with its last reference. Each block is preceded by a
note with its node and size; the driver reads only notes for scheduling, never blocks. One thread
waits with ray.wait() for all running tasks. docs/design/ray_engine.md lists the parts of the
engine's contract that Ray cannot serve. Cost: that of Ray, about 1 ms for each task and 0.3 ms for
each block.
"""

from __future__ import annotations

import atexit
import importlib
import socket
import sys
import threading
import time
from pickle import PickleBuffer
from typing import Any

from skate.engine import worker

OLDEST = (2, 50)
PATIENCE_S = 10.0  # seconds to wait for answers that arrive at once unless something is wrong
# the most seconds for joining a cluster and checking all its nodes, so that an error comes within
# 10 s
CONNECT_S = 8.0
NO_VALUE = -1  # stands for a size where no value follows; a value may have 0 bytes
SPILLS = 1 << 62  # the disk limit of a node: Ray spills as much as fits on the disk


# ---- Functions that run in processes of Ray; they are pickled by reference.


def _node() -> str:
    return importlib.import_module("ray").get_runtime_context().get_node_id()


def _args(inline: list[Any], refs: tuple[Any, ...]) -> list[Any]:
    """The arguments in order; each None in `inline` stands for the next value that Ray has
    fetched."""
    fetched = iter(refs)
    return [next(fetched) if v is None else v for v in inline]


def _stream(
    job: bytes, task: dict[str, Any], definition: bytes, inline: list[Any], *refs: Any
) -> Any:
    """Yields alternately (note, node, size of the value that follows, seconds since the start) and
    (kind, buffer); the last note has NO_VALUE as the size."""
    worker.begin(job)
    node, start = _node(), time.perf_counter()
    for values in worker.stream(task, definition, _args(inline, refs)):
        for i, (kind, data) in enumerate(values):
            if kind == worker.NOTE:
                size = memoryview(values[i + 1][1]).nbytes if i + 1 < len(values) else NO_VALUE
                yield bytes(data), node, size, time.perf_counter() - start
            else:
                yield kind, PickleBuffer(data)


def _call(
    job: bytes, task: dict[str, Any], definition: bytes, inline: list[Any], *refs: Any
) -> Any:
    """Runs a task. Returns (report, value, ...); the report is (error as (kind, bytes) or None,
    node, sizes, seconds)."""
    worker.begin(job)
    n, start = task["n_returns"], time.perf_counter()
    out: list[Any] = []
    failed = None
    try:
        for values in worker.stream(task, definition, _args(inline, refs)):
            out += values
    except worker.TaskFailed as e:
        if task["retry_exceptions"]:
            raise  # Ray retries the task; the last error arrives as an exception
        out, failed = [(0, b"")] * n, (e.kind, e.data)
    said = (
        failed,
        _node(),
        [memoryview(data).nbytes for _, data in out],
        time.perf_counter() - start,
    )
    return (said, *((kind, PickleBuffer(data)) for kind, data in out)) if n else said


class _Actor:
    """The Ray actor that is one of skate's actors. It stores the error of its constructor, because
    Ray would report another error to its calls."""

    def __init__(self, *first: Any):
        self._said = _call(*first)[0]

    def ready(self) -> Any:
        return self._said

    def call(self, *what: Any) -> Any:
        return _call(*what)

    def stream(self, *what: Any) -> Any:
        yield from _stream(*what)


# ---- Joining and starting a cluster.


def _ray() -> Any:
    try:
        ray: Any = importlib.import_module("ray")
    except ImportError as e:
        raise ImportError(
            f'this engine needs Ray, which is not installed ({e}): pip install "skate[ray]"'
        ) from None
    version = getattr(ray, "__version__", "")
    if getattr(ray, "__file__", None) is None or "skate" in (
        getattr(ray.init, "__module__", "") or ""
    ):
        raise RuntimeError(
            "`ray` is skate itself in this process (skate.as_ray); the engine over a Ray cluster needs Ray's own package"
        )
    if tuple(int(x) for x in version.split(".")[:2]) < OLDEST:
        raise RuntimeError(
            f"Ray {version} is too old for this engine: {'.'.join(map(str, OLDEST))} or newer"
        )
    return ray


def _within(seconds: float, what: str, call: Any) -> Any:
    """Runs call() on a new thread, since it may hang. (On the main thread ray.init() would replace
    signal handlers.)"""
    out: list[Any] = []

    def run() -> None:
        try:
            out.append((True, call()))
        except BaseException as e:
            out.append((False, e))

    t = threading.Thread(target=run, daemon=True, name="skate-ray")
    t.start()
    t.join(seconds)
    if not out:
        raise ConnectionError(f"{what}: no answer within {seconds:.0f} s")
    good, value = out[0]
    if not good:
        raise value
    return value


def _connect(ray: Any, conf: dict[str, Any], until: float) -> bool:
    """Joins or starts a cluster. Returns whether this call did so, in which case the engine has to
    leave the cluster at its end. until: the deadline (time.monotonic()) for joining an existing
    cluster; starting a cluster has no deadline."""
    address = conf.get("address")
    quiet = {"log_to_driver": False, "logging_level": "ERROR"}
    if ray.is_initialized():
        return False
    if address is None:
        raise ConnectionError(
            'there is no Ray in this process: ray.init() first, or say the address ("auto", "local", "HOST:PORT")'
        )
    if address == "local":
        how = {
            "num_cpus": conf["num_cpus"],
            "object_store_memory": int(conf["object_store_memory"]),
            "include_dashboard": False,
        }
        _within(
            6 * PATIENCE_S, "Ray on this machine", lambda: ray.init(address="local", **how, **quiet)
        )
        return True
    if address != "auto":
        host, _, port = address.rpartition(":")
        try:  # ray.init() waits for minutes if there is no cluster
            socket.create_connection((host, int(port)), CONNECT_S / 2).close()
        except (OSError, ValueError) as e:
            raise ConnectionError(f"there is no Ray cluster at {address}: {e}") from None
    _within(
        until - time.monotonic(),
        f"the Ray cluster at {address}",
        lambda: ray.init(address=address, **quiet),
    )
    return True


def _check_nodes(ray: Any, until: float) -> Any:
    """Checks that each node has this version of skate, and a Python that can read the driver's
    pickles. Returns a reference to a small value."""
    mine = sys.modules["skate"].__version__
    at = importlib.import_module("ray.util.scheduling_strategies").NodeAffinitySchedulingStrategy

    def look(package: str) -> Any:  # pickled by value: the node may lack skate
        try:
            version = importlib.import_module(package).__version__
        except ImportError as e:
            return None, sys.version_info[:2], str(e)
        return version, sys.version_info[:2], ""

    nodes = [n for n in ray.nodes() if n["Alive"]]
    task = ray.remote(num_cpus=0, max_retries=0)(look)
    asked = [
        task.options(scheduling_strategy=at(n["NodeID"], soft=False)).remote("skate") for n in nodes
    ]
    _, late = ray.wait(asked, num_returns=len(asked), timeout=max(0, until - time.monotonic()))
    for node, ref in zip(nodes, asked, strict=True):
        name = node["NodeManagerAddress"]
        if ref in late:
            raise ConnectionError(
                f"node {name} of the Ray cluster does not answer within {CONNECT_S:g} s"
            )
        version, python, why = ray.get(ref)
        if version is None:
            raise RuntimeError(
                f"node {name} of the Ray cluster has no skate ({why}): install it there, as here (skate {mine})"
            )
        if version != mine:
            raise RuntimeError(
                f"node {name} of the Ray cluster has skate {version}, and this is {mine}"
            )
        if tuple(python) != sys.version_info[:2]:
            raise RuntimeError(
                f"node {name} of the Ray cluster runs Python {python[0]}.{python[1]}, and this is {sys.version.split()[0]}"
            )
    return asked[0]


class _Running:
    """A task in Ray: a generator, or the references of the report and of the values."""

    __slots__ = (
        "gen",
        "name",
        "node",
        "of_actor",
        "refs",
        "said",
        "seconds",
        "size",
        "task",
        "turn",
        "until",
        "waited",
    )

    def __init__(self, task: dict[str, Any], gen: Any, said: Any, refs: list[Any]):
        self.task, self.name, self.of_actor = task["task"], task["name"], bool(task["actor"])
        self.gen, self.said, self.refs = gen, said, refs
        self.waited = said if gen is None else gen
        self.turn = "note"
        self.node = self.size = 0
        self.seconds = 0.0
        # for a cancelled stream: the time after which it counts as ended, whatever Ray reports
        self.until = 0.0


class Ray:
    """See skate.engine.Engine."""

    def __init__(self, conf: dict[str, Any]):
        self._ray = ray = _ray()
        self._job: bytes = conf["job"]
        until = time.monotonic() + CONNECT_S
        self._ours = _connect(ray, conf, until)
        # Registered after Ray's exit handler, so it runs before it; after Ray's handler no task
        # could be ended.
        atexit.register(self._at_exit)
        if conf.get("address") == "local":
            # the cluster has to start its first worker first
            until = time.monotonic() + 3 * CONNECT_S
        try:
            self._small = _check_nodes(ray, until)
        except BaseException:
            atexit.unregister(self._at_exit)
            if self._ours:
                ray.shutdown()
            raise
        self._at = importlib.import_module(
            "ray.util.scheduling_strategies"
        ).NodeAffinitySchedulingStrategy
        self._numbers: dict[str, int] = {}  # the numbers of nodes, by their id
        self._definitions: dict[int, bytes] = {}
        self._running: dict[int, _Running] = {}
        self._by_ref: dict[Any, _Running] = {}
        self._actors: dict[int, Any] = {}
        self._functions: dict[tuple[bool, int, int], Any] = {}
        self._events: list[dict[str, Any]] = []
        # By reference: (the Future of a value that is being fetched, the time of the last request
        # for it).
        self._coming: dict[Any, Any] = {}

    def _at_exit(self) -> None:
        sys.modules["skate"].shutdown()

    def begin(self, wake: Any) -> None:
        pass  # wake is not used: poll() asks Ray, and Ray does not call back

    def nodes(self) -> list[dict[str, Any]]:
        late = time.monotonic() - PATIENCE_S
        for handle in [h for h, (_, asked) in self._coming.copy().items() if asked < late]:
            self._coming.pop(handle, None)  # no caller waits for the value any more
        out = []
        for n in self._ray.nodes():
            has = n["Resources"]
            out.append(
                {
                    "number": self._number(n["NodeID"]),
                    "name": n["NodeManagerAddress"],
                    "alive": n["Alive"],
                    "num_cpus": has.get("CPU", 0.0),
                    "num_gpus": has.get("GPU", 0.0),
                    "memory": has.get("memory", 0.0),
                    "object_store_memory": int(has.get("object_store_memory", 0)),
                    "disk_limit": SPILLS,
                }
            )
        return out

    def _number(self, node: str) -> int:
        return self._numbers.setdefault(node, len(self._numbers) + 1)

    def define(self, fn: int, name: str, definition: bytes) -> None:
        self._definitions[fn] = definition

    # ---- Values; the handle of a value is Ray's ObjectRef.

    def put(self, kind: int, data: bytes) -> Any:
        return self._ray.put((kind, PickleBuffer(data)))

    def get(self, handle: Any, timeout: float | None) -> tuple[int, Any]:
        """Gets a value. If a get() of Ray's times out, Ray drops what it has fetched; so a value
        that takes longer than one slice of the wait is fetched through a future."""
        coming, _ = self._coming.pop(handle, (None, 0))
        try:
            if coming is None:
                return self._ray.get(handle, timeout=timeout)
            return coming.result(timeout)
        except (self._ray.exceptions.GetTimeoutError, TimeoutError) as e:
            self._coming[handle] = coming or handle.future(), time.monotonic()
            raise TimeoutError(str(e)) from None
        except self._ray.exceptions.RayError as e:
            raise LookupError(f"{type(e).__name__}: {e}") from None

    # ---- Starting and ending tasks and actors.

    def submit(self, task: dict[str, Any]) -> None:
        args = task.pop("args")
        inline = [(kind, data) if handle is None else None for handle, kind, data in args]
        what = (
            self._job,
            task,
            self._definitions[task["fn"]],
            inline,
            *(handle for handle, _, _ in args if handle is not None),
        )
        n = task["n_returns"]
        if task["is_init"]:
            self._actors[task["actor"]] = actor = (
                self._ray.remote(_Actor).options(**self._for_life(task)).remote(*what)
            )
            made = actor.ready.remote()
        elif task["actor"]:
            actor = self._actors[task["actor"]]
            method = actor.stream if n is None else actor.call
            tries = {
                "max_task_retries": task["max_retries"],
                "retry_exceptions": task["retry_exceptions"],
            }
            made = method.options(num_returns="streaming" if n is None else 1 + n, **tries).remote(
                *what
            )
        else:
            need = task["need"]
            how = {
                "num_cpus": need.get("CPU", 0),
                "num_gpus": need.get("GPU", 0),
                "memory": need.get("memory") or None,
            }
            how |= self._where(task) | {
                "name": task["name"],
                "max_retries": task["max_retries"],
                "retry_exceptions": task["retry_exceptions"],
            }
            made = (
                self._function(task)
                .options(num_returns="streaming" if n is None else 1 + n, **how)
                .remote(*what)
            )
        if n is None:
            r = _Running(task, made, None, [])
        else:
            refs = made if isinstance(made, list) else [made]
            r = _Running(task, None, refs[0], refs[1:])
        self._running[r.task] = r
        self._by_ref[r.waited] = r

    def _function(self, task: dict[str, Any]) -> Any:
        """The remote function of a task. Ray counts runs for max_calls by the function that
        ray.remote() has made, and accepts max_calls only there; so each function with max_calls has
        its own remote function."""
        streams, calls = task["n_returns"] is None, task["max_calls"]
        key = streams, calls, task["fn"] if calls else 0
        if key not in self._functions:
            remote = self._ray.remote(max_calls=calls) if calls else self._ray.remote
            self._functions[key] = remote(_stream if streams else _call)
        return self._functions[key]

    def _for_life(self, task: dict[str, Any]) -> dict[str, Any]:
        """The options of an actor. Its CPUs are counted by skate for each running call; it holds
        its other resources as long as it lives."""
        need = task["need"]
        return self._where(task) | {
            "num_cpus": 0,
            "num_gpus": need.get("GPU", 0),
            "memory": need.get("memory") or None,
            "max_restarts": task["max_retries"],
            # A call waits while the actor restarts; with 0 Ray would fail the call then. skate's
            # number of retries is passed with each call.
            "max_task_retries": -1,
            "name": None,
        }

    def _where(self, task: dict[str, Any]) -> dict[str, Any]:
        if not task["node"]:
            return {}
        node = next(node for node, number in self._numbers.items() if number == task["node"])
        return {"scheduling_strategy": self._at(node, soft=not task["node_only"])}

    def cancel(self, task: int, force: bool) -> None:
        r = self._running.get(task)
        if r is None or r.until:
            return
        # The values that the generator has yielded are not needed, and is_finished() could block
        # for ever now.
        if r.gen is not None:
            del self._by_ref[r.waited]
            r.waited, r.until = r.gen.completed(), time.monotonic() + PATIENCE_S / 2
            self._by_ref[r.waited] = r
        self._on_rays_thread(
            lambda: self._ray.cancel(r.gen or r.said, force=force and not r.of_actor)
        )

    def _on_rays_thread(self, call: Any) -> None:
        """Runs call() on the thread on which Ray handles the ends of tasks. On any other thread
        ray.cancel() aborts the process if the task ends, or is handed on, at the same time (Ray
        2.60: "Tried to complete task that was not pending"; tests/py/cluster/test_ray.py:
        test_limits_that_cancel)."""
        us, here = threading.get_ident(), [True]

        def then(_: Any) -> None:
            here[0] = threading.get_ident() == us
            if not here[0]:
                call()

        while here[0]:  # the value arrived before the callback was set: try again
            future = self._small.future()
            here[0] = False
            future.add_done_callback(then)

    def actor_end(self, actor: int, restart: bool) -> None:
        handle = self._actors.get(actor) if restart else self._actors.pop(actor, None)
        if handle is not None:
            self._ray.kill(handle, no_restart=not restart)

    # ---- Events for skate's engine.

    def poll(self) -> list[dict[str, Any]]:
        now = time.monotonic()
        if self._by_ref:
            waited = list(self._by_ref)
            ready, _ = self._ray.wait(waited, num_returns=len(waited), timeout=0, fetch_local=False)
            for ref in ready:
                r = self._by_ref[ref]
                if r.gen is None:
                    self._returned(r)
                elif not r.until:
                    self._read(r)
                else:
                    r.until = now
            for r in [r for r in self._by_ref.values() if 0 < r.until <= now]:
                self._over(r, "failed", code="SK_ECANCEL", text=f"{r.name} was cancelled")
        out, self._events = self._events, []
        return out

    def _tell(self, r: _Running, kind: str, *values: Any, **more: Any) -> None:
        self._events.append(
            {"kind": kind, "task": r.task, "node": r.node, "values": list(values), **more}
        )

    def _over(self, r: _Running, kind: str, *values: Any, **more: Any) -> None:
        self._tell(r, kind, *values, run_s=r.seconds, **more)
        del self._running[r.task]
        del self._by_ref[r.waited]

    def _returned(self, r: _Running) -> None:
        try:
            failed, node, sizes, r.seconds = self._ray.get(r.said, timeout=PATIENCE_S)
        except self._ray.exceptions.RayError as e:
            self._failed(r, e)
            return
        r.node = self._number(node)
        if failed:
            self._over(r, "failed", (None, *failed))
        else:  # a constructor: its result is in the report, and skate gets None
            values = [(ref, 0, size) for ref, size in zip(r.refs, sizes, strict=False)] or [
                (None, 1, b"")
            ] * len(sizes)
            self._over(r, "done", *values)

    def _read(self, r: _Running) -> None:
        """Takes the values of a generator that are ready."""
        try:
            while r.gen.is_finished() or r.gen.next_ready():
                ref = next(r.gen)
                if r.turn == "value":
                    r.turn = "note"
                    self._tell(r, "yielded", (ref, 0, r.size))
                else:
                    note, node, r.size, r.seconds = self._ray.get(ref, timeout=PATIENCE_S)
                    r.node = self._number(node)
                    r.turn = "note" if r.size == NO_VALUE else "value"
                    self._tell(r, "yielded", (None, worker.NOTE, note))
        except StopIteration:
            try:
                self._ray.get(r.gen.completed(), timeout=PATIENCE_S)
            except self._ray.exceptions.RayError as e:
                self._failed(r, e)
            else:
                self._over(r, "done")
        except self._ray.exceptions.RayError as e:
            self._failed(r, e)

    def _failed(self, r: _Running, e: Exception) -> None:
        x = self._ray.exceptions
        cause = getattr(e, "cause", None)
        if isinstance(cause, worker.TaskFailed):
            self._over(r, "failed", (None, cause.kind, cause.data))
            return
        codes = (
            (x.TaskCancelledError, "SK_ECANCEL"),
            (x.RayActorError, "SK_EACTOR"),
            ((x.WorkerCrashedError, x.NodeDiedError), "SK_EDEAD"),
            (x.OutOfMemoryError, "SK_EOOM"),
            ((x.ObjectLostError, x.OwnerDiedError), "SK_ELOST"),
            (x.TaskUnschedulableError, "SK_EINFEASIBLE"),
        )
        code = next((c for kind, c in codes if isinstance(e, kind)), "SK_EIO")
        self._over(
            r,
            "failed",
            code=code,
            text=f"{r.name}: {type(e).__name__}: {str(e).strip().splitlines()[0] if str(e).strip() else ''}",
        )

    def close(self) -> None:
        atexit.unregister(self._at_exit)
        if self._ray.is_initialized():  # the program may have shut Ray down already
            for number in list(self._running):
                self.cancel(number, False)
            cancelled = threading.Event()
            self._on_rays_thread(cancelled.set)
            cancelled.wait(PATIENCE_S)
            for actor in self._actors.values():
                self._ray.kill(actor)
        self._running.clear()
        self._by_ref.clear()
        self._actors.clear()
        if self._ours:
            self._ray.shutdown()
