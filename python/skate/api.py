"""The functions of Ray Core that skate has, under Ray's names. Everything here is thin: parse, call _skate, convert."""

import atexit
import os
import sys

from skate import _skate, actor, config, ids, options, serialize
from skate.actor import ActorClass, ActorHandle, get_actor, method  # noqa: F401
from skate.remote_function import RemoteFunction
from skate.runtime_context import RuntimeContext, get_runtime_context  # noqa: F401

ObjectRef = _skate.ObjectRef
ObjectRefGenerator = _skate.ObjectRefGenerator
get = _skate.get
put = _skate.put

_context = None
_job = None  # what the workers know of the job: see job()


class Context(dict):
    """What init() returns: a dict of addresses, and a context manager that shuts down."""

    dashboard_url = ""
    python_version = ".".join(map(str, sys.version_info[:3]))
    ray_version = skate_version = "0.1.0"
    ray_commit = skate_commit = ""

    @property
    def address_info(self):
        return dict(self)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        shutdown()

    def disconnect(self):
        shutdown()


_IGNORED = {
    "_cluster_id",
    "_driver_object_store_memory",
    "_enable_object_reconstruction",
    "_metrics_export_port",
    "_node_ip_address",
    "_node_name",
    "_plasma_directory",
    "_redis_max_memory",
    "_redis_password",
    "_redis_username",
    "_skip_env_hook",
    "_temp_dir",
    "_tracing_startup_hook",
    "_proxy_server_url",
    "cgroup_path",
}
_QUIET = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMEXPR_NUM_THREADS": "1",
    "VECLIB_MAXIMUM_THREADS": "1",
}


def _worker_env(runtime_env, job):
    """The whole environment of the workers; that of this process stays as it is."""
    import json

    env = {**_QUIET, **os.environ, **(runtime_env.get("env_vars") or {}), "SKATE_JOB": json.dumps(job)}
    env["SKATE_GPUS"] = "1" if job["gpus"] else ""
    return [f"{k}={v}" for k, v in env.items()]


def _worker_argv():
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return [sys.executable, "-c", f"import sys; sys.path.insert(0, {root!r}); from skate._worker_main import main; main()"]


def _first_note(wanted, runtime_env):
    from skate.runtime_env import module_path

    modules = ["cloudpickle"] + [m for m in ("numpy", "pyarrow", "pandas") if m in sys.modules]
    if "skate.data" in sys.modules:
        modules.append("skate.data.stage")  # with pyarrow: imported while the program builds its plan
    modules += [m for m in wanted.split(",") if m]
    path = [os.getcwd() if p == "" else p for p in sys.path]
    where = runtime_env.get("working_dir")
    path = ([where] if where else []) + [module_path(m) for m in runtime_env.get("py_modules") or []] + path
    return serialize.preload_note(modules, path, where or os.getcwd(), runtime_env.get("worker_process_setup_hook"))


def _resources_of_environment():
    """RAY_OVERRIDE_RESOURCES: JSON, e.g. {"CPU": 3, "custom": 1}: wins over what init() is given, as in Ray."""
    text = os.environ.get("RAY_OVERRIDE_RESOURCES")
    if not text:
        return {}
    import json

    try:
        given = json.loads(text)
        return {k: float(v) for k, v in given.items()}
    except (ValueError, AttributeError, TypeError) as e:
        raise ValueError(f"RAY_OVERRIDE_RESOURCES={text!r}: a JSON object of numbers is wanted ({e})") from None


def init(
    address=None,
    *,
    num_cpus=None,
    num_gpus=None,
    resources=None,
    labels=None,
    object_store_memory=None,
    local_mode=False,
    ignore_reinit_error=False,
    include_dashboard=None,
    dashboard_host=None,
    dashboard_port=None,
    job_config=None,
    configure_logging=True,
    logging_level=None,
    logging_format=None,
    logging_config=None,
    log_to_driver=None,
    namespace=None,
    runtime_env=None,
    enable_resource_isolation=False,
    system_reserved_cpu=None,
    system_reserved_memory=None,
    object_spilling_directory=None,
    _object_spilling_directory=None,
    _system_config=None,
    _memory=None,
    **kwargs,
):
    """Starts skate in this process. Called by itself at the first use of anything that needs it.

    num_cpus, num_gpus, resources: what tasks can ask for (default: what the machine has). object_store_memory, _memory: bytes. namespace:
    of named actors. runtime_env: env_vars, working_dir, py_modules of the workers. job_config: a JobConfig with defaults for the same. labels
    of the node. logging_config: a LoggingConfig. What concerns Ray's servers (dashboard, log files, address) is taken and has no meaning here. RuntimeError when skate runs
    already, unless ignore_reinit_error; ConnectionError for an address that is not this process's.

    Objects that do not fit into object_store_memory (bytes) are written to nameless files in object_spilling_directory (a path, or a list of them
    that are used in turn; default: the system's temporary directory, $SKATE_SPILL_DIR) and read back when needed. One that is larger than the store,
    or finds it full of what is in use, lies there, too, mapped. OutOfDiskError or ObjectStoreFullError come when that ends. With local_mode nothing is spilled. All knobs: skate/config.py."""
    global _context, _job
    unknown = [k for k in kwargs if k not in _IGNORED]
    if unknown:
        from skate import _near

        known = [*init.__kwdefaults__, *config.KNOBS]
        near = "; ".join(_near.meant(k, known) for k in unknown if _near.nearest(k, known))
        raise RuntimeError(f"Unknown keyword argument(s): {', '.join(unknown)}{near and '; ' + near.strip('; ')}")
    if address not in (None, "local", "auto"):
        raise ConnectionError(f"skate.init(address={address!r}): skate runs on this machine only; leave address out")
    if _skate.in_worker():
        return _context
    if _skate.is_initialized():
        if ignore_reinit_error:
            return _context
        raise RuntimeError(
            "skate.init: the engine of this process runs already; pass ignore_reinit_error=True to go on with it, or end it with "
            "skate.shutdown() first"
        )
    for name, v in (("num_cpus", num_cpus), ("num_gpus", num_gpus), ("object_store_memory", object_store_memory), ("_memory", _memory)):
        if v is not None:
            options._number(name, v)
    if resources is not None:
        options._resources("resources", resources)
    if namespace is not None:
        options._name("namespace", namespace)
    from skate import runtime_env as envs
    from skate.job_config import JobConfig

    job_config = job_config or JobConfig()
    runtime_env = envs.check(envs.merge(job_config.runtime_env or {}, runtime_env or {}))
    custom = {**(resources or {}), **_resources_of_environment()}
    num_cpus, num_gpus, _memory = custom.pop("CPU", num_cpus), custom.pop("GPU", num_gpus), custom.pop("memory", _memory)
    given = config.from_ray(_system_config or {})
    spill = object_spilling_directory or _object_spilling_directory
    for name, v in (
        ("num_cpus", num_cpus),
        ("num_gpus", num_gpus),
        ("memory", _memory),
        ("object_store_memory", custom.pop("object_store_memory", object_store_memory)),
        ("engine", "inline" if local_mode else None),
        ("spill_dir", config.directories("object_spilling_directory", spill) if spill else None),
    ):
        if v is not None:
            given[name] = v
    conf = config.resolve(given)
    conf["resources"] = {k: float(v) for k, v in custom.items() if v}
    import uuid

    session = f"session_{uuid.uuid4().hex}"
    job = {
        "namespace": namespace or job_config.ray_namespace or str(uuid.uuid4()),
        "lifetime": job_config._default_actor_lifetime,
        "session": session,
        "labels": _labels(labels),
        "custom": list(conf["resources"]),
        "store": int(conf["object_store_memory"]),
        "gpus": conf["num_gpus"],
        "metadata": job_config.metadata,
        "runtime_env": {k: v for k, v in runtime_env.items() if k != "worker_process_setup_hook"},
    }
    logging_config = logging_config or job_config.py_logging_config
    if logging_config:
        job["logging"] = vars(logging_config)
    conf["argv"] = _worker_argv()
    conf["env"] = _worker_env(runtime_env, job)
    conf["preload"] = _first_note(conf["preload"], runtime_env)
    _skate.init(conf)
    _skate.stack_install(True)  # Ctrl-\, and `skate stack` from another terminal
    _job = job
    if logging_config:
        logging_config._apply()
    serialize.install_hint()
    _context = Context(
        address="local",
        node_ip_address="127.0.0.1",
        node_id=ids.NODE.hex(),
        session_dir=session,
        session_name=session,
        webui_url="",
        engine=conf["engine"],
    )
    return _context


def _labels(given):
    given = dict(given or {})
    if os.environ.get("RAY_OVERRIDE_LABELS"):
        import json

        given.update(json.loads(os.environ["RAY_OVERRIDE_LABELS"]))
    for k, v in given.items():
        if not isinstance(k, str) or not isinstance(v, str):
            raise ValueError(f"labels: names and values must be str, not {k!r}: {v!r}")
    return given


def _auto_init():
    init()


def job():
    """What every process of the job knows of it: namespace, lifetime (default of actors), session, labels, names of custom resources, runtime_env."""
    global _job
    if _job is None and _skate.in_worker():
        import json

        _job = json.loads(os.environ["SKATE_JOB"])
    return _job or {}


def namespace():
    """Where names without a namespace are."""
    if _job is None and not _skate.is_initialized():
        init()
    return job().get("namespace", "")


def default_lifetime():
    """Of actors whose options do not say: "non_detached" or "detached"."""
    return job().get("lifetime", "non_detached")


def session():
    """Name of this life of the engine."""
    return job().get("session", "")


def shutdown(_exiting_interpreter=False):
    """Ends all workers and frees all objects. Refs that are left are dead."""
    global _job
    if _skate.in_worker():
        return
    _skate.shutdown()
    actor._here.clear()
    timeline = sys.modules.get("skate._private.timeline")
    if timeline is not None:
        timeline.past.clear()
        timeline.running.clear()
    _job = None


def is_initialized():
    """Whether skate runs in this process."""
    return _skate.is_initialized()


def remote(*args, **kwargs):
    """Decorator: a function becomes a RemoteFunction, a class an ActorClass. With or without options."""
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
        if callable(target) and hasattr(target, "__name__") and hasattr(target, "__qualname__"):  # built-in functions
            return RemoteFunction(target, options.check(options.TASK, given, "remote functions"))
        raise TypeError(f"skate.remote: takes a function or a class, not {type(target)}")
    return RemoteFunction(target, options.check(options.TASK, given, "remote functions"))


def wait(ray_waitables, *, num_returns=1, timeout=None, fetch_local=True):
    """(ready, not ready): returns when num_returns of the refs are ready, or after timeout seconds. A generator is ready when its next ref is.

    fetch_local has no effect: an object on this machine's disk is there, counts as ready either way, and is read back by who gets it."""
    if isinstance(ray_waitables, (ObjectRef, ObjectRefGenerator)):
        raise TypeError("wait: takes a list; for one ref: wait([ref])")
    if not isinstance(ray_waitables, list):
        raise TypeError(f"wait: takes a list of ObjectRefs and ObjectRefGenerators, not {type(ray_waitables)}")
    if timeout is not None and timeout < 0:
        raise ValueError(f"wait: timeout={timeout}: seconds from 0 on, or None to wait for as long as it takes")
    if not ray_waitables:
        return [], []
    for w in ray_waitables:
        if type(w) is ObjectRefGenerator:
            return _wait_mixed(ray_waitables, num_returns, timeout)
    return _skate.wait(ray_waitables, num_returns, timeout)


def _wait_mixed(items, num_returns, timeout):
    """wait() with generators among the refs."""
    import time

    if len(set(map(id, items))) != len(items):
        raise ValueError("wait: a ref is in the list more than once")
    if not 0 < num_returns <= len(items):
        raise ValueError(f"wait: num_returns={num_returns}: 1 to {len(items)}, the length of the list")
    end = None if timeout is None else time.monotonic() + timeout
    refs = [x for x in items if type(x) is ObjectRef]
    ready = {id(x) for x in items if type(x) is ObjectRefGenerator and x.peek(0)}
    if refs:
        ready |= {id(r) for r in _skate.wait(refs, len(refs), 0)[0]}
    if len(ready) < num_returns and (end is None or timeout > 0):
        watcher = _skate.Watcher()
        try:
            for x in items:
                if id(x) not in ready and watcher.add(x, None):
                    ready.add(id(x))
            while len(ready) < num_returns and watcher.wait(None if end is None else end - time.monotonic()):
                ready |= {id(x) for x, _ in watcher.take()}
        finally:
            watcher.close()
    taken = [x for x in items if id(x) in ready][:num_returns]
    chosen = set(map(id, taken))
    return taken, [x for x in items if id(x) not in chosen]


def empty(shape, dtype=float):
    """A numpy array of this shape, not initialised, whose memory is in the object store: to be filled, then handed over without a copy.

    shape: int or tuple of them. dtype: a plain number type of this machine's byte order (TypeError else). Handing over the whole array (put(a), f.remote(a), a
    task's return or yield; not inside of a list or another object) seals it: the object is this memory, every reader maps it, and the array is
    read-only for its writer from then on (ValueError; write to a new one). Views of it that were made before stay writable, but what is written through them is
    seen by them alone. Putting it again is the same object. What is dropped unsealed is free again.

    Memory is taken now: ObjectStoreFullError or OutOfDiskError as of put(); arrays up to 8 KiB, and with local_mode, are copied as any other.

    >>> a = ray.empty((1000, 1000)); numpy.multiply(x, y, out=a); ref = ray.put(a)"""
    import math

    import numpy as np

    dtype = np.dtype(dtype)
    if dtype.char not in "?bBhHiIlLqQefdgFDG" or not dtype.isnative:
        raise TypeError(
            f"empty(dtype={dtype}): a plain number type of this machine's byte order is wanted; arrays of others go into put() as they are"
        )
    shape = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
    if any(d < 0 for d in shape):
        raise ValueError(f"empty(shape={shape}): negative dimensions are not allowed")
    return np.ndarray(shape, dtype, buffer=_skate.room(math.prod(shape) * dtype.itemsize, len(shape)))


def kill(actor, *, no_restart=True):
    """Ends an actor at once, in the middle of what it does."""
    if not isinstance(actor, ActorHandle):
        raise ValueError(f"kill: takes the handle of an actor, not {type(actor)}; a task is ended by cancel(ref)")
    if not actor._token.alive:
        from skate.exceptions import ActorHandleNotFoundError

        raise ActorHandleNotFoundError(
            f"ActorHandle objects are not valid across Ray sessions: {actor!r} is of an engine that was shut down; make the actor again"
        )
    _skate.actor_kill(actor._token, no_restart)


def cancel(ray_waitable, *, force=False, recursive=True):
    """Cancels a task that has not ended; getting its result raises TaskCancelledError. One that runs gets KeyboardInterrupt (a coroutine
    asyncio.CancelledError); force=True ends its process. recursive: the tasks that it has submitted, too. Methods of actors: not with force."""
    if not isinstance(ray_waitable, (ObjectRef, ObjectRefGenerator)):
        raise TypeError(f"cancel: takes an ObjectRef of a task, not {type(ray_waitable)}; an actor is ended by kill(handle)")
    _skate.cancel(ray_waitable, force, recursive)


def _resources(which):
    j = job()
    out = _skate.resources(j.get("custom", []))[which]
    store = j.get("store", 0)
    if which and not _skate.in_worker():  # a worker does not know how full the store is
        store -= min(store, _skate.status().get("store_sealed_bytes", 0))
    out["object_store_memory"] = float(store)
    out["node:127.0.0.1"] = out["node:__internal_head__"] = 1.0
    return {k: v for k, v in out.items() if v}


def cluster_resources():
    """Everything this machine gives to tasks: {"CPU": 4.0, ...}; what there is none of is left out."""
    if not _skate.is_initialized():
        init()
    return _resources(0)


def available_resources():
    """What of it is free now; what there is none of is left out."""
    if not _skate.is_initialized():
        init()
    return _resources(1)


def nodes():
    """This machine, in the form of Ray's list of nodes."""
    import platform

    resources = cluster_resources()
    return [
        {
            "NodeID": ids.NODE.hex(),
            "Alive": True,
            "NodeManagerAddress": "127.0.0.1",
            "NodeManagerHostname": platform.node(),
            "NodeName": "127.0.0.1",
            "alive": True,
            "Resources": resources,
            "Labels": {"ray.io/node-id": ids.NODE.hex(), **job().get("labels", {})},
        }
    ]


def get_gpu_ids():
    """GPUs that this process may use: numbers, or the names that CUDA_VISIBLE_DEVICES gave them."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    return [int(v) if v.isdigit() else v for v in visible.split(",") if v]


serialize.install()


def _named(space, name):
    """A worker has made the actor through which it asks this process to run its Datasets."""
    from skate.data import home

    if (space, name) == (home.SPACE, home.NAME):
        home.serve()


_skate.set_hooks(auto_init=_auto_init, named=_named)
atexit.register(shutdown)
os.register_at_fork(after_in_child=_skate._forget)
