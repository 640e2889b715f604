"""The functions of Ray Core that skate has, under Ray's names. Each checks and converts its
arguments and calls _skate."""

from __future__ import annotations

# The modules re and struct are not imported here, because each import delays the start of workers
import _pickle as pickle
import atexit
import functools
import math
import os
import sys
import time
import types
from _thread import RLock  # threading is slow to import

from skate import (
    _did_you_mean,
    _forked,
    _hooks,
    _job,
    _labels,
    _skate,
    config,
    engine,
    ids,
    page,
)
from skate import job_config as _job_config
from skate import runtime_env as _runtime_env
from skate._deps import importlib, json, np, platform
from skate._private import metrics_board
from skate.actor import ActorClass, ActorHandle, get_actor, method  # noqa: F401
from skate.calls import in_actor, options
from skate.calls.user_errors import install_hint
from skate.compat import without_effect
from skate.engine import local
from skate.exceptions import ActorHandleNotFoundError
from skate.remote_function import RemoteFunction
from skate.runtime_context import RuntimeContext, get_gpu_ids, get_runtime_context  # noqa: F401
from skate.terminal import prints

TYPE_CHECKING = False  # typing is slow to import
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, ParamSpec, Protocol, TypeVar, Unpack, overload

    from skate.actor import ActorOptions
    from skate.remote_function import AnyRemoteFunction, NumReturns, TaskOptions

    P = ParamSpec("P")
    R = TypeVar("R")
    T = TypeVar("T")

ObjectRef = _skate.ObjectRef
ObjectRefGenerator = _skate.ObjectRefGenerator
get = _skate.get
put = _skate.put

_context: Any = None


class Context(dict):
    """The result of init(): a dict of addresses, and a context manager that shuts down."""

    dashboard_url = ""
    python_version = ".".join(map(str, sys.version_info[:3]))
    ray_version = skate_version = _skate.__version__
    ray_commit = skate_commit = ""

    @property
    def address_info(self):
        return dict(self)

    def __enter__(self) -> Context:
        return self

    def __exit__(self, *exc: object) -> None:
        shutdown()

    def disconnect(self) -> None:
        """Shuts the engine down."""
        shutdown()


def _resources_of_environment():
    """The resources in RAY_OVERRIDE_RESOURCES, as JSON, e.g. {"CPU": 3, "custom": 1}. As in Ray
    they take precedence over the arguments of init()."""
    text = os.environ.get("RAY_OVERRIDE_RESOURCES")
    if not text:
        return {}
    try:
        given = json.loads(text)
        return {k: float(v) for k, v in given.items()}
    except (ValueError, AttributeError, TypeError) as e:
        raise ValueError(
            f"RAY_OVERRIDE_RESOURCES={text!r}: a JSON object of numbers is wanted ({e})"
        ) from None


# One thread at a time opens an engine; a finalizer may call again on the same thread.
_opening = _forked.lock(RLock)


def _one_at_a_time(open_engine: Callable[P, R]) -> Callable[P, R]:
    @functools.wraps(open_engine)
    def in_turn(*args: P.args, **kwargs: P.kwargs) -> R:
        with _opening:
            return open_engine(*args, **kwargs)

    return in_turn


def _check_process() -> None:
    """Checks the requirements of the processes that skate starts. Raises FileNotFoundError,
    OSError."""
    try:
        os.getcwd()
    except FileNotFoundError as e:
        raise FileNotFoundError(
            e.errno,
            "skate.init: the current directory of this program was deleted, and its workers are to start there; os.chdir() to one that exists, then call "
            "init() again",
        ) from None
    try:
        os.close(os.open(os.devnull, os.O_RDWR))
    except OSError as e:
        raise type(e)(
            e.errno,
            f"skate.init: {os.devnull} cannot be opened ({e.strerror}), and processes need it; in a container or a chroot, mount or make its /dev",
        ) from None


@_one_at_a_time
def init(
    address: str | None = None,
    *,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    resources: dict[str, float] | None = None,
    labels: dict[str, str] | None = None,
    object_store_memory: int | None = None,
    local_mode: bool = False,
    ignore_reinit_error: bool = False,
    include_dashboard: bool | None = None,
    dashboard_host: str | None = None,
    dashboard_port: int | None = None,
    job_config: Any = None,
    configure_logging: bool = True,
    logging_level: Any = None,
    logging_format: str | None = None,
    logging_config: Any = None,
    log_to_driver: bool | None = None,
    namespace: str | None = None,
    runtime_env: dict[str, Any] | None = None,
    enable_resource_isolation: bool = False,
    system_reserved_cpu: float | None = None,
    system_reserved_memory: int | None = None,
    object_spilling_directory: str | os.PathLike[str] | list[str] | None = None,
    _object_spilling_directory: str | os.PathLike[str] | list[str] | None = None,
    _system_config: dict[str, Any] | None = None,
    _memory: float | None = None,
    _temp_dir: str | None = None,
    _engine: str | None = None,
    **kwargs: Any,
) -> Context:
    """Starts the engine of this process. The first call that needs the engine starts it with the
    defaults.

    Args:
        address: "local": this machine. "HOST:PORT": a Ray cluster, which needs `pip install
            "skate[ray]"`; see skate.engine.ray. "skate://HOST:PORT,HOST:PORT": nodes that listen
            there, or "skate://HOST:PORT?nodes=N": N nodes that connect to this process there; see
            `skate node`. None or "auto": $SKATE_ADDRESS, or this machine.
        num_cpus: CPUs that tasks can ask for. Default: those that this process may use (affinity,
            quota of the cgroup).
        num_gpus: GPUs that tasks can ask for. Default: those of CUDA_VISIBLE_DEVICES, or of the
            machine.
        resources: Amounts of resources of your own, {name: amount}.
        labels: Labels of this node, {name: value}, with which label_selector of tasks, actors and
            operators is compared, and which get_runtime_context() gives.
        object_store_memory: Bytes of memory for objects. Default: 30 % of the memory of the machine
            or of the cgroup. Objects that do not fit are written to disk.
        local_mode: Runs tasks in the caller, one after another, for a debugger; no object is
            written to disk then.
        ignore_reinit_error: True: an engine that runs already is used; False: it is an error.
        include_dashboard: Has no effect: there is no dashboard.
        dashboard_host: Has no effect.
        dashboard_port: Has no effect.
        job_config: A skate.job_config.JobConfig: defaults for namespace, runtime_env,
            logging_config and the lifetime of actors.
        configure_logging: Has no effect: skate does not change the logging of the program; see
            logging_config.
        logging_level: Has no effect; see logging_config.
        logging_format: Has no effect; see logging_config.
        logging_config: A skate.LoggingConfig, which is applied here and in the workers.
        log_to_driver: False: what workers print is not shown. Else each line is written to
            sys.stdout or sys.stderr of this process, with "(name pid=N)" in front
            (SKATE_PRINT_LABELS=0: without); the prints of tasks are shown before get() returns the
            tasks' values.
        namespace: The namespace of actors' names. Default: a namespace of this job alone.
        runtime_env: The environment of the workers: a dict with env_vars, working_dir, py_modules,
            ...; see skate.runtime_env.RuntimeEnv.
        enable_resource_isolation: Has no effect, like the next two: skate makes no cgroups.
        system_reserved_cpu: Has no effect.
        system_reserved_memory: Has no effect.
        object_spilling_directory: A directory, or a list of directories that are used in turn, for
            nameless files with objects that do not fit into the store. Default: $SKATE_SPILL_DIR,
            or _temp_dir.
        _object_spilling_directory: The same, under Ray's older name.
        _system_config: Knobs by name, {name: value}: skate/config.py has the table. Knobs that only
            Ray has are ignored, which the log says once.
        _memory: Bytes that tasks can ask for with memory=. Default: 70 % of the machine's.
        _temp_dir: The directory for files that no other setting places; it is made if it is
            missing. Default: $RAY_TMPDIR, or the system's.
        _engine: "local" (worker processes), "inline" (like local_mode), "ray" (a Ray cluster: that
            of this process, or the one at the address), or "module:Class", an engine written in
            Python (see skate.engine). Default: $SKATE_ENGINE, or "local".
        kwargs: Ray's keywords for its servers, which have no effect (the log says why, once);
            RuntimeError for others.

    Returns:
        A dict of addresses and the name of the session. It is also a context manager that shuts the
        engine down.

    Raises:
        RuntimeError: An engine runs already, or a keyword is unknown.
        ConnectionError: There is no cluster and no node at the address, or it does not answer.
        TypeError, ValueError: A value has a wrong type, or is out of its range.

    Example:
        >>> import skate
        >>> _ = skate.init(num_cpus=2, ignore_reinit_error=True)
        >>> skate.is_initialized()
        True
    """
    if address in (None, "auto") and _engine is None:
        address = str(config.asked("address", _system_config or {}) or "") or address
    said = {k: v for k, v in locals().items() if k != "kwargs"}
    _check_arguments(_temp_dir, kwargs)
    if address not in (None, "local", "auto"):
        said["_engine"] = engine.of_address(address, _engine)
    if _skate.in_worker() or (_skate.is_initialized() and ignore_reinit_error):
        return _context
    if _skate.is_initialized():
        raise RuntimeError(
            "skate.init: the engine of this process runs already; pass ignore_reinit_error=True to go on with it, or end it with "
            "skate.shutdown() first"
        )
    return _open(types.SimpleNamespace(**said), {**said, **kwargs})


def _check_arguments(temp_dir: str | None, kwargs: dict[str, Any]) -> None:
    """Raises an error for arguments that are wrong even if an engine runs already."""
    if temp_dir is not None and not os.path.isabs(temp_dir):
        raise ValueError(f"init: _temp_dir: an absolute path is wanted, not {temp_dir!r}")
    config.tell_without_effect("init", kwargs, without_effect.INIT)
    unknown = [k for k in kwargs if k not in without_effect.INIT]
    if unknown:
        known = [*init.__wrapped__.__kwdefaults__, *config.KNOBS]
        near = "; ".join(
            _did_you_mean.meant(k, known) for k in unknown if _did_you_mean.nearest(k, known)
        )
        raise RuntimeError(
            f"Unknown keyword argument(s): {', '.join(unknown)}{near and '; ' + near.strip('; ')}"
        )


def _open(a: Any, said: dict[str, Any]) -> Context:
    """Starts the engine. a: the arguments of init(), by name; said: the same as a dict, with the
    arguments that only Ray has."""
    global _context
    if not a._temp_dir and os.environ.get("RAY_TMPDIR"):
        # absolute, since a task may change its directory
        a._temp_dir = os.path.abspath(os.environ["RAY_TMPDIR"])
    conf = _conf(a, said)
    job_config = a.job_config or _job_config.JobConfig()
    runtime_env = _runtime_env.check(
        _runtime_env.merge(job_config.runtime_env or {}, a.runtime_env or {})
    )
    job = _job_facts(a, conf, job_config, runtime_env)
    _check_process()
    conf["prints"] = a.log_to_driver is None or bool(a.log_to_driver)
    conf["program"] = " ".join(sys.argv)[:200]
    elsewhere = engine.open_processes(conf, pickle.dumps(job), runtime_env, a.address, a.num_cpus)
    if not elsewhere:
        local.prepare(conf, runtime_env, job)
    job["custom"] = list(elsewhere.get("resources", conf["resources"]))
    _job.tell(job)  # before other threads can see the engine
    try:
        _skate.init({**conf, **elsewhere})
    except BaseException:
        _job.tell(None)
        engine.close_processes(engine.FAILED_S)
        metrics_board.close()
        raise
    if conf["prints"]:
        prints.start(bool(conf["print_labels"]))
    _skate.stack_install(True)  # Ctrl-\, and `skate stack` from another terminal
    logging = a.logging_config or job_config.py_logging_config
    if logging:
        logging._apply()
    if conf["page"]:
        _open_page(conf["page"])
    install_hint()
    _context = Context(
        address="local",
        node_ip_address="127.0.0.1",
        node_id=ids.NODE.hex(),
        session_dir=os.path.join(a._temp_dir or (conf["spill_dir"] or [""])[0], job["session"]),
        session_name=job["session"],
        webui_url="",
        engine=conf["engine"],
    )
    return _context


def _open_page(asked: int) -> None:
    """Opens the page of the engine that has just been opened; the engine ends if that fails."""
    try:
        page.driver.begin(asked)
    except BaseException:
        shutdown()
        raise


def _conf(a: Any, said: dict[str, Any]) -> dict[str, Any]:
    """The configuration of the engine, from the arguments of init(), the environment and the
    defaults."""
    for name, v in (
        ("num_cpus", a.num_cpus),
        ("num_gpus", a.num_gpus),
        ("object_store_memory", a.object_store_memory),
        ("_memory", a._memory),
    ):
        if v is not None:
            options._number(name, v)
    if a.resources is not None:
        options._type("resources", a.resources, dict)
        options.not_default(a.resources)
        options._resources("resources", a.resources)
    if a.namespace is not None:
        options._name("namespace", a.namespace)
    cluster = sys.modules.get("skate.cluster_utils") if a.address is not None else None
    custom = {
        **(cluster.given(said) if cluster else {}),
        **(a.resources or {}),
        **_resources_of_environment(),
    }
    given = config.from_ray(a._system_config or {})
    spill = a.object_spilling_directory or a._object_spilling_directory
    if a._temp_dir:
        os.makedirs(a._temp_dir, exist_ok=True)
        if not spill and "SKATE_SPILL_DIR" not in os.environ:
            given.setdefault("spill_dir", config.directories("_temp_dir", a._temp_dir))
    for name, v in (
        ("num_cpus", custom.pop("CPU", a.num_cpus)),
        ("num_gpus", custom.pop("GPU", a.num_gpus)),
        ("memory", custom.pop("memory", a._memory)),
        ("object_store_memory", custom.pop("object_store_memory", a.object_store_memory)),
        ("engine", "inline" if a.local_mode else a._engine),
        ("spill_dir", config.directories("object_spilling_directory", spill) if spill else None),
    ):
        if v is not None:
            given[name] = v
    conf = config.resolve(given)
    if custom.get("neuron_cores"):
        custom.setdefault("accelerator_type:aws-neuron-core", 1)
    conf["resources"] = {k: float(v) for k, v in custom.items() if v}
    return conf


def _job_facts(
    a: Any, conf: dict[str, Any], job_config: Any, runtime_env: dict[str, Any]
) -> dict[str, Any]:
    """The facts that every process of the job knows about it (_job.py)."""
    job: dict[str, Any] = {
        "namespace": a.namespace or job_config.ray_namespace or ids.random_uuid(),
        "lifetime": job_config._default_actor_lifetime,
        "session": f"session_{os.urandom(16).hex()}",
        "secret": _job.secret(),
        "labels": {**(_labels.of_devices() if conf["num_gpus"] else {}), **_given_labels(a.labels)},
        "custom": list(conf["resources"]),
        "store": int(conf["object_store_memory"]),
        "gpus": conf["num_gpus"],
        "max_retries": conf["max_retries"],
        "metadata": job_config.metadata,
        "temp_dir": a._temp_dir,
        "runtime_env": {k: v for k, v in runtime_env.items() if k != "worker_process_setup_hook"},
    }
    if conf["engine"] in engine.HERE:
        job["metrics"] = metrics_board.create()
        job["address"] = "127.0.0.1"
    logging = a.logging_config or job_config.py_logging_config
    if logging:
        job["logging"] = vars(logging)
    return job


def _given_labels(given):
    given = dict(given or {})
    if os.environ.get("RAY_OVERRIDE_LABELS"):
        given.update(json.loads(os.environ["RAY_OVERRIDE_LABELS"]))
    for k, v in given.items():
        if not isinstance(k, str) or not isinstance(v, str):
            raise ValueError(f"labels: names and values must be str, not {k!r}: {v!r}")
    return given


@_one_at_a_time
def _auto_init() -> None:
    if not _skate.is_initialized():  # no other thread has opened it in the meantime
        init()


def shutdown(_exiting_interpreter: bool = False) -> None:
    """Ends all workers and frees all objects. References become invalid: using one raises
    RaySystemError. Without an engine it does nothing.

    Args:
        _exiting_interpreter: Has no effect.
    """
    if _skate.in_worker():
        return
    driver = sys.modules.get("skate.page.driver")
    if driver is not None:
        driver.end()
    _skate.shutdown()
    engine.close_processes()
    metrics_board.close()
    prints.stop()
    in_actor.here.clear()
    _job.tell(None)


def is_initialized() -> bool:
    """Whether an engine runs in this process.

    Example:
        >>> import skate
        >>> _ = skate.init(ignore_reinit_error=True)
        >>> skate.is_initialized()
        True
    """
    return _skate.is_initialized()


if TYPE_CHECKING:

    class _RemoteOf(Protocol):
        """@remote(...) with options, but without num_returns."""

        @overload
        def __call__(self, target: type[T], /) -> ActorClass[T]: ...
        @overload
        def __call__(self, target: Callable[P, R], /) -> RemoteFunction[P, R]: ...

    class _RemoteOfSeveral(Protocol):
        """@remote(num_returns=..., ...)."""

        def __call__(self, target: Callable[P, Any], /) -> AnyRemoteFunction[P]: ...

    class _AllOptions(TaskOptions, ActorOptions, total=False):
        pass

    @overload
    def remote(target: type[T], /) -> ActorClass[T]: ...
    @overload
    def remote(target: Callable[P, R], /) -> RemoteFunction[P, R]: ...
    @overload
    def remote(*, num_returns: NumReturns, **options: Unpack[TaskOptions]) -> _RemoteOfSeveral: ...
    @overload
    def remote(**options: Unpack[_AllOptions]) -> _RemoteOf: ...


def remote(*args: Any, **kwargs: Any) -> Any:
    """Decorator: a function becomes a RemoteFunction, whose calls are tasks; a class becomes an
    ActorClass. Written @remote, or @remote(...) with options.

    Args:
        args: The function or the class, if there are no options.
        kwargs: Options of a task or an actor; any can be changed for one call by .options(...).

            For both: num_cpus (CPUs; a task takes 1, an idle actor 0), num_gpus, memory (bytes),
            resources ({name: amount}), accelerator_type, name, runtime_env, scheduling_strategy,
            label_selector, fallback_strategy, placement_group with its bundle index and
            capture_child_tasks.

            For tasks: num_returns (a number of values; "streaming": the values of a generator, one
            by one), max_retries (retries after the death of a worker; -1: no limit),
            retry_exceptions (True, or classes: also retry after such an exception of the function),
            max_calls (calls after which a process ends).

            For actors: max_restarts, max_task_retries (-1: no limit), max_concurrency and
            concurrency_groups (concurrent calls), max_pending_calls, namespace, get_if_exists,
            lifetime ("detached": the actor stays without a handle), allow_out_of_order_execution.

    Returns:
        A RemoteFunction, an ActorClass, or (with options) a decorator that makes one.

    Raises:
        ValueError, TypeError: An option is unknown, or its value wrong; the target is neither a
            function nor a class, or is an `async def`.

    Example:
        >>> import skate
        >>> @skate.remote
        ... def double(x: int) -> int:
        ...     return 2 * x
        >>> skate.get([double.remote(1), double.options(num_cpus=0.5).remote(2)])
        [2, 4]
    """
    if len(args) == 1 and not kwargs and callable(args[0]):
        return _make(args[0], {})
    if args or not kwargs:
        raise AssertionError(
            "skate.remote: write '@skate.remote' without parentheses, or give options as keywords, such as "
            "'@skate.remote(num_cpus=2, num_returns=2)'"
        )
    return lambda target: _make(target, kwargs)


def _make(target, given):
    if isinstance(target, type):
        return ActorClass(target, options.check(options.ACTOR, given, "actors"))
    if isinstance(target, (RemoteFunction, ActorClass)):
        raise TypeError(f"{target!r} is remote already; use .options(...)")
    if options.is_async(target) and not options.is_async_generator(target):
        raise ValueError(
            f"skate.remote: {target.__qualname__} is an 'async def', and a task has a process of its own. Wrap it: `def f(): return asyncio.run(g())`, or make "
            "it a method of an actor."
        )
    if not hasattr(target, "__code__"):
        # built-in functions have no __code__
        if callable(target) and hasattr(target, "__name__") and hasattr(target, "__qualname__"):
            return RemoteFunction(target, options.check(options.TASK, given, "remote functions"))
        raise TypeError(f"skate.remote: takes a function or a class, not {type(target)}")
    return RemoteFunction(target, options.check(options.TASK, given, "remote functions"))


def wait(
    ray_waitables: list[T],
    *,
    num_returns: int = 1,
    timeout: float | None = None,
    fetch_local: bool = True,
) -> tuple[list[T], list[T]]:
    """Waits until some of the objects are ready.

    Args:
        ray_waitables: A list of ObjectRefs and ObjectRefGenerators, each once. A generator is ready
            when its next reference is.
        num_returns: The number of objects to wait for, from 1 to the length of the list.
        timeout: The most seconds to wait; None: no limit.
        fetch_local: Has no effect: an object on this machine's disk counts as ready, and get()
            reads it from there.

    Returns:
        A tuple (ready, not ready) of two lists in the order of the given one; the first has at most
        num_returns items.

    Raises:
        TypeError: The argument is no list of references and generators.
        ValueError: A reference is in the list more than once, or a number is out of its range.

    Example:
        >>> import skate
        >>> refs = [skate.put(i) for i in range(3)]
        >>> ready, others = skate.wait(refs, num_returns=2, timeout=10)
        >>> len(ready), len(others)
        (2, 1)
    """
    if isinstance(ray_waitables, (ObjectRef, ObjectRefGenerator)):
        raise TypeError("wait: takes a list; for one ref: wait([ref])")
    if not isinstance(ray_waitables, list):
        raise TypeError(
            f"wait: takes a list of ObjectRefs and ObjectRefGenerators, not {type(ray_waitables)}"
        )
    if timeout is not None and timeout < 0:
        raise ValueError(
            f"wait: timeout={timeout}: seconds from 0 on, or None to wait for as long as it takes"
        )
    if not ray_waitables:
        return [], []
    for w in ray_waitables:
        t = type(w)
        if t is ObjectRef:
            continue
        if t is ObjectRefGenerator:
            return _wait_mixed(ray_waitables, num_returns, timeout)
        if hasattr(t, "__skate_get__"):
            return _wait_results(ray_waitables, num_returns, timeout)
    return _skate.wait(ray_waitables, num_returns, timeout)


def _wait_results(items: list[Any], num_returns, timeout):
    """wait() for a list that contains results of compiled graphs."""
    objects = [x._as_object() if hasattr(type(x), "__skate_get__") else x for x in items]
    ready = set(map(id, wait(objects, num_returns=num_returns, timeout=timeout)[0]))
    taken = [x for x, o in zip(items, objects, strict=True) if id(o) in ready]
    return taken, [x for x, o in zip(items, objects, strict=True) if id(o) not in ready]


def _wait_mixed(items, num_returns, timeout):
    """wait() for a list that contains generators."""
    if len(set(map(id, items))) != len(items):
        raise ValueError("wait: a ref is in the list more than once")
    if not 0 < num_returns <= len(items):
        raise ValueError(
            f"wait: num_returns={num_returns}: 1 to {len(items)}, the length of the list"
        )
    end = None if timeout is None else time.monotonic() + timeout
    refs = [x for x in items if type(x) is ObjectRef]
    ready = {id(x) for x in items if type(x) is ObjectRefGenerator and x.peek(0)}
    if refs:
        ready |= {id(r) for r in _skate.wait(refs, len(refs), 0)[0]}
    if len(ready) < num_returns and (timeout is None or timeout > 0):
        watcher = _skate.Watcher()
        try:
            for x in items:
                if id(x) not in ready and watcher.add(x, None):
                    ready.add(id(x))
            while len(ready) < num_returns and watcher.wait(
                None if end is None else end - time.monotonic()
            ):
                ready |= {id(x) for x, _ in watcher.take()}
        finally:
            watcher.close()
    taken = [x for x in items if id(x) in ready][:num_returns]
    chosen = set(map(id, taken))
    return taken, [x for x in items if id(x) not in chosen]


def empty(shape: int | tuple[int, ...], dtype: Any = float) -> np.ndarray[Any, Any]:
    """A NumPy array, not initialised, whose memory is in the object store. The caller fills it, and
    then hands it over without a copy.

    Handing over the whole array (put(a), f.remote(a), a task's return or yield; not inside a list
    or another object) seals it: the memory becomes the object, every reader maps it, and from then
    on the array is read-only for its writer (ValueError; write to a new array). Views of it that
    were made before stay writable, but what is written through them is not seen by others. Putting
    the array again gives the same object. The memory of an array that is dropped before it is
    sealed becomes free. Arrays of up to 8 KiB, and all arrays with local_mode, are copied like any
    other value.

    Args:
        shape: Lengths of the axes; one int for one axis.
        dtype: A plain number type in this machine's byte order.

    Raises:
        TypeError: The dtype is another one.
        ValueError: A length is negative.
        ObjectStoreFullError, OutOfDiskError: There is no room, as for put().

    Example:
        >>> import numpy, skate
        >>> a = skate.empty((2, 3), "int64")
        >>> a[:] = 7
        >>> int(skate.get(skate.put(a)).sum())
        42
    """
    dtype = np.dtype(dtype)
    if dtype.char not in "?bBhHiIlLqQefdgFDG" or not dtype.isnative:
        raise TypeError(
            f"empty(dtype={dtype}): a plain number type of this machine's byte order is wanted; arrays of others go into put() as they are"
        )
    shape = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
    if any(d < 0 for d in shape):
        raise ValueError(f"empty(shape={shape}): negative dimensions are not allowed")
    return np.ndarray(
        shape, dtype, buffer=_skate.room(math.prod(shape) * dtype.itemsize, len(shape))
    )


def kill(actor: ActorHandle[Any], *, no_restart: bool = True) -> None:
    """Ends an actor at once, even during a call. Its running and waiting calls end with
    ActorDiedError.

    Args:
        actor: The handle of the actor.
        no_restart: False: the actor starts again if its max_restarts allows.

    Raises:
        ValueError: The argument is no handle of an actor. For a task, use cancel().
        ActorHandleNotFoundError: The handle is of an engine that was shut down.

    Example:
        >>> import skate
        >>> @skate.remote
        ... class A:
        ...     def f(self):
        ...         return 1
        >>> a = A.remote()
        >>> skate.get(a.f.remote())
        1
        >>> skate.kill(a)
    """
    if not isinstance(actor, ActorHandle):
        raise ValueError(
            f"kill: takes the handle of an actor, not {type(actor)}; a task is ended by cancel(ref)"
        )
    if not actor._token.alive:
        raise ActorHandleNotFoundError(
            f"ActorHandle objects are not valid across Ray sessions: {actor!r} is of an engine that was shut down; make the actor again"
        )
    _skate.actor_kill(actor._token, no_restart)


def cancel(
    ray_waitable: ObjectRef[Any] | ObjectRefGenerator[Any],
    *,
    force: bool = False,
    recursive: bool = True,
) -> None:
    """Cancels a task that has not ended; getting its result raises TaskCancelledError. A running
    function gets KeyboardInterrupt, a coroutine asyncio.CancelledError.

    Args:
        ray_waitable: The reference of the task's result, or its generator.
        force: Ends the process of the task. Not for methods of actors (ValueError).
        recursive: Whether the tasks that the task has submitted are cancelled, too.

    Raises:
        TypeError: The argument is neither. For an actor, use kill().
    """
    if not isinstance(ray_waitable, (ObjectRef, ObjectRefGenerator)):
        raise TypeError(
            f"cancel: takes an ObjectRef of a task, not {type(ray_waitable)}; an actor is ended by kill(handle)"
        )
    _skate.cancel(ray_waitable, force, recursive)


def _resources(which):
    j = _job.facts()
    out = _skate.resources(j.get("custom", []))[which]
    store = j.get("store", 0)
    # Only the driver knows how full the store is; a worker does not.
    if which and not _skate.in_worker() and not _job.on_nodes():
        store -= min(store, _skate.status().get("store_sealed_bytes", 0))
    there = _skate.nodes([]) if _job.on_nodes() else []
    if there:
        store = sum(node[4] for node in there if node[2])
    out["object_store_memory"] = float(store)
    out |= {f"node:{name}": 1.0 for _, name, alive, *_ in there if alive} or {
        "node:127.0.0.1": 1.0,
        "node:__internal_head__": 1.0,
    }
    return {k: v for k, v in out.items() if v}


def cluster_resources() -> dict[str, float]:
    """All resources that this machine gives to tasks: {"CPU": 4.0, "memory": bytes, ...}; resources
    that it lacks are left out.

    Example:
        >>> import skate
        >>> skate.cluster_resources()["CPU"] > 0
        True
    """
    _auto_init()
    return _resources(0)


def available_resources() -> dict[str, float]:
    """The part of cluster_resources() that is free now, without resources of which nothing is free.

    Example:
        >>> import skate
        >>> skate.available_resources().keys() <= skate.cluster_resources().keys()
        True
    """
    _auto_init()
    return _resources(1)


def nodes() -> list[dict[str, Any]]:
    """This machine, in the form of Ray's list of nodes: NodeID, Alive, Resources, Labels and its
    addresses. Over a Ray cluster: the cluster's nodes.

    Example:
        >>> import skate
        >>> [n["Alive"] for n in skate.nodes()]
        [True]
    """
    resources = cluster_resources()
    if _job.on_nodes():
        custom = _job.facts().get("custom", [])
        return [_node_of_cluster(*node) for node in _skate.nodes(custom)]
    return [
        {
            "NodeID": ids.NODE.hex(),
            "Alive": True,
            "NodeManagerAddress": "127.0.0.1",
            "NodeManagerHostname": platform.node(),
            "NodeName": "127.0.0.1",
            "alive": True,
            "Resources": resources,
            "Labels": _labels.node(),
        }
    ]


def _node_of_cluster(
    number: int, name: str, alive: bool, has: dict[str, float], store: int, labels: bytes
) -> dict[str, Any]:
    own = ids.NodeID._of(number).hex()
    return {
        "NodeID": own,
        "Alive": alive,
        "NodeManagerAddress": _job.facts().get("address", name),
        "NodeManagerHostname": name,
        "NodeName": name,
        "alive": alive,
        "Resources": {
            k: v
            for k, v in {**has, "object_store_memory": float(store), f"node:{name}": 1.0}.items()
            if v
        }
        if alive
        else {},
        "Labels": {_labels.ID: own, **_labels.of(labels)},
    }


def _named(space: str, name: str) -> None:
    """Is called when a worker has made a service actor, through which workers ask this process to
    run their Datasets or to draw their progress bars."""
    if space.startswith(_job.SERVED):
        importlib.import_module(space.removeprefix(_job.SERVED)).serve()


_hooks.install()
_skate.set_hooks(auto_init=_auto_init, named=_named)
_job.opened_by(_auto_init)
atexit.register(shutdown)
