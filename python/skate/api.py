"""The functions of Ray Core that skate has, under Ray's names. Everything here is thin: parse, call _skate, convert."""

import atexit
import os
import sys

from skate import _skate, actor, config, options, serialize
from skate.actor import ActorClass, ActorHandle, get_actor, method  # noqa: F401
from skate.remote_function import RemoteFunction

ObjectRef = _skate.ObjectRef
ObjectRefGenerator = _skate.ObjectRefGenerator
put = _skate.put
get = _skate.get

_custom = []  # names of custom resources, in the engine's order
_context = None
_namespace = None


class Context(dict):
    """What init() returns: a dict of addresses, and a context manager that shuts down."""

    dashboard_url = ""

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
    "_enable_object_reconstruction",
    "_redis_max_memory",
    "_plasma_directory",
    "_node_ip_address",
    "_driver_object_store_memory",
    "_redis_username",
    "_redis_password",
    "_temp_dir",
    "_metrics_export_port",
    "_tracing_startup_hook",
    "_node_name",
    "_skip_env_hook",
}
_QUIET = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMEXPR_NUM_THREADS": "1",
    "VECLIB_MAXIMUM_THREADS": "1",
}


def _worker_env(runtime_env):
    """The whole environment of the workers; that of this process stays as it is."""
    env = {**_QUIET, **os.environ}
    runtime_env = dict(runtime_env or {})
    given = runtime_env.pop("env_vars", None) or {}
    known = {k for k, v in runtime_env.items() if v and k not in ("config",)}
    if known:
        from skate.exceptions import RuntimeEnvSetupError

        raise RuntimeEnvSetupError(f"runtime_env: only env_vars is supported, not {', '.join(sorted(known))}")
    for k, v in given.items():
        if not isinstance(k, str) or not isinstance(v, str):
            raise TypeError(f"runtime_env env_vars: names and values must be str, not {k!r}: {v!r}")
        env[k] = v
    return [f"{k}={v}" for k, v in env.items()]


def _worker_argv():
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return [sys.executable, "-c", f"import sys; sys.path.insert(0, {root!r}); from skate._worker_main import main; main()"]


def _first_note(wanted):
    modules = ["cloudpickle"] + [m for m in ("numpy", "pyarrow", "pandas") if m in sys.modules]
    if "skate.data" in sys.modules:
        modules.append("skate.data.stage")  # with pyarrow: imported while the program builds its plan
    modules += [m for m in wanted.split(",") if m]
    path = [os.getcwd() if p == "" else p for p in sys.path]
    return serialize.preload_note(modules, path, os.getcwd())


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

    Objects that do not fit into object_store_memory (bytes) are written to nameless files in object_spilling_directory (default: the system's
    temporary directory, $SKATE_SPILL_DIR) and read back when needed; the OutOfDiskError or ObjectStoreFullError comes when that ends. All knobs:
    skate/config.py."""
    global _context, _namespace
    unknown = [k for k in kwargs if k not in _IGNORED]
    if unknown:
        raise RuntimeError(f"Unknown keyword argument(s): {', '.join(unknown)}")
    if address not in (None, "local", "auto"):
        raise ConnectionError(f"skate.init(address={address!r}): skate runs on this machine only; leave address out")
    if _skate.in_worker():
        return _context
    if _skate.is_initialized():
        if ignore_reinit_error:
            return _context
        raise RuntimeError(
            "Maybe you called skate.init twice by accident? This error can be suppressed by passing in 'ignore_reinit_error=True' "
            "or by calling 'skate.shutdown()' prior to 'skate.init()'."
        )
    for name, v in (("num_cpus", num_cpus), ("num_gpus", num_gpus), ("object_store_memory", object_store_memory), ("_memory", _memory)):
        if v is not None:
            options._number(name, v)
    if resources is not None:
        options._resources("resources", resources)
    given = config.from_ray(_system_config or {})
    spill = object_spilling_directory or _object_spilling_directory
    for name, v in (
        ("num_cpus", num_cpus),
        ("num_gpus", num_gpus),
        ("memory", _memory),
        ("object_store_memory", object_store_memory),
        ("engine", "inline" if local_mode else None),
        ("spill_dir", config.directory("object_spilling_directory", spill) if spill else None),
    ):
        if v is not None:
            given[name] = v
    conf = config.resolve(given)
    conf["resources"] = {k: float(v) for k, v in (resources or {}).items() if v}
    conf["argv"] = _worker_argv()
    conf["env"] = _worker_env(runtime_env)
    conf["preload"] = _first_note(conf["preload"])
    _skate.init(conf)
    _custom[:] = conf["resources"]
    _namespace = namespace
    _context = Context(
        address="local", node_ip_address="127.0.0.1", node_id="0" * 55 + "1", session_dir="", webui_url="", engine=conf["engine"]
    )
    return _context


def _auto_init():
    init()


def shutdown(_exiting_interpreter=False):
    """Ends all workers and frees all objects. Refs that are left are dead."""
    actor.forget_names()
    _skate.shutdown()


def is_initialized():
    return _skate.is_initialized()


def remote(*args, **kwargs):
    """Decorator: a function becomes a RemoteFunction, a class an ActorClass. With or without options."""
    if len(args) == 1 and not kwargs and callable(args[0]):
        return _make(args[0], {})
    if args or not kwargs:
        raise AssertionError(
            "The @skate.remote decorator must be applied using no arguments and no parentheses, for example '@skate.remote', or "
            "some of the arguments in the list ['num_returns', 'num_cpus', 'num_gpus', 'memory', 'resources', ...], for example "
            "'@skate.remote(num_returns=2)'."
        )
    return lambda target: _make(target, kwargs)


def _make(target, given):
    if isinstance(target, type):
        return ActorClass(target, options.check(options.ACTOR, given, "actors"))
    if isinstance(target, (RemoteFunction, ActorClass)):
        raise TypeError(f"{target!r} is remote already; use .options(...)")
    if not hasattr(target, "__code__"):
        if callable(target) and hasattr(target, "__name__") and hasattr(target, "__qualname__"):  # built-in functions
            return RemoteFunction(target, options.check(options.TASK, given, "remote functions"))
        raise TypeError("The @skate.remote decorator must be applied to either a function or a class.")
    return RemoteFunction(target, options.check(options.TASK, given, "remote functions"))


def wait(ray_waitables, *, num_returns=1, timeout=None, fetch_local=True):
    """(ready, not ready): returns when num_returns of the refs are ready, or after timeout seconds."""
    if isinstance(ray_waitables, ObjectRef):
        raise TypeError("wait() expected a list of ObjectRefs, got a single ObjectRef")
    if not isinstance(ray_waitables, list):
        raise TypeError(f"wait() expected a list of ObjectRefs, got {type(ray_waitables)}")
    if timeout is not None and timeout < 0:
        raise ValueError(f"The 'timeout' argument must be nonnegative. Received {timeout}")
    if not ray_waitables:
        return [], []
    return _skate.wait(ray_waitables, num_returns, timeout)


def kill(handle, *, no_restart=True):
    """Ends an actor at once, in the middle of what it does."""
    if not isinstance(handle, ActorHandle):
        raise ValueError(f"skate.kill() only supported for actors. For tasks, try skate.cancel(). Got: {type(handle)}.")
    if no_restart:
        actor.forget_handle(handle)
    _skate.actor_kill(handle._token, no_restart)


def cancel(ref, *, force=False, recursive=True):
    """Cancels a task that has not ended; getting its result raises TaskCancelledError."""
    _skate.cancel(ref, force, recursive)


def cluster_resources():
    """Everything this machine gives to tasks."""
    return _skate.resources(_custom)[0]


def available_resources():
    """What of it is free now."""
    return _skate.resources(_custom)[1]


def nodes():
    """This machine, in the form of Ray's list of nodes."""
    import platform

    return [
        {
            "NodeID": "0" * 55 + "1",
            "Alive": True,
            "NodeManagerAddress": "127.0.0.1",
            "NodeManagerHostname": platform.node(),
            "alive": True,
            "Resources": cluster_resources(),
            "Labels": {},
        }
    ]


class RuntimeContext:
    """Where this code runs."""

    namespace = property(lambda self: _namespace or "")
    gcs_address = "local"

    def get_task_id(self):
        t = _skate.current_task()
        return f"{t[0]:048x}" if t else None

    def get_task_name(self):
        t = _skate.current_task()
        return t[2] if t else None

    def get_actor_id(self):
        t = _skate.current_task()
        return f"{t[1]:032x}" if t and t[1] else None

    def get_job_id(self):
        return "01000000"

    def get_node_id(self):
        return "0" * 55 + "1"

    def get_worker_id(self):
        return f"{os.getpid():056x}"

    def get_runtime_env_string(self):
        return "{}"

    def get_assigned_resources(self):
        return {}

    @property
    def was_current_actor_reconstructed(self):
        t = _skate.current_task()
        return bool(t and t[1] and t[3] > 0)


_runtime_context = RuntimeContext()


def get_runtime_context():
    return _runtime_context


def get_gpu_ids():
    """GPUs that this process may use."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    return [int(v) if v.isdigit() else v for v in visible.split(",") if v]


serialize.install()
_skate.set_hooks(auto_init=_auto_init)
atexit.register(shutdown)
os.register_at_fork(after_in_child=_skate._forget)
