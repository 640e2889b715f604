"""Every knob of skate in one table. Order of precedence: an argument of init(),
init(_system_config={name: value}), the environment, the default.

The code that a knob controls is elsewhere (the column "meaning" says where). A default that depends
on the machine is a function."""

import os

from skate import _did_you_mean, _skate
from skate._deps import json, logging
from skate.compat import without_effect


def cpus():
    """CPUs that this process may use (affinity, cgroup quota)."""
    n = len(os.sched_getaffinity(0))
    quota = _skate.machine()["cpus"]
    return min(n, max(1, int(quota))) if quota else n


def memory_bytes():
    """Memory of this machine or of its cgroup, whichever is less."""
    return _skate.machine()["memory_bytes"]


def gpus():
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return len([v for v in visible.split(",") if v.strip() not in ("", "-1")])
    try:
        return len(os.listdir("/proc/driver/nvidia/gpus"))
    except OSError:
        return 0


def store_bytes():
    return memory_bytes() * 30 // 100


def task_memory_bytes():
    return memory_bytes() * 70 // 100


def spill_dir():
    """The system's temporary directory: TMPDIR, TEMP or TMP, if files can be made in it; else /tmp
    or /var/tmp, or "" (nothing is spilled) if neither can be written to."""
    # the same variables as in tempfile, whose import takes 5 ms
    for name in ("TMPDIR", "TEMP", "TMP"):
        path = os.environ.get(name)
        if path:
            if os.path.isdir(path) and os.access(path, os.W_OK | os.X_OK):
                return os.path.abspath(path)
            why = (
                "is read-only, or not ours to write to"
                if os.path.isdir(path)
                else "is no directory"
            )
            raise ValueError(
                f"{name}={path!r} {why}, and what does not fit into memory is written there: set {name} or SKATE_SPILL_DIR to a directory that can be "
                "written to (SKATE_SPILL_DIR= for none)"
            )
    for path in ("/tmp", "/var/tmp"):
        if os.path.isdir(path) and os.access(path, os.W_OK | os.X_OK):
            return path
    return ""


# A smaller memory= of init() only limits what tasks may ask for, since no worker could run in less.
LEAST_MEMORY = 64 << 20

# name: (default, environment variable, meaning)
KNOBS = {
    "engine": (
        "local",
        "SKATE_ENGINE",
        "local: worker processes; inline: tasks run in the caller (debugging); cluster: nodes, each with worker processes; ray: a Ray cluster; "
        "module:Class: skate.engine",
    ),
    "nodes": (
        0,
        "SKATE_NODES",
        "node processes to start on this machine, which share its CPUs and memory, at most one a CPU; 0: none, the workers are this program's own",
    ),
    "node_labels": (
        "",
        "SKATE_NODE_LABELS",
        "labels of these nodes besides those of init(): label=value, by commas, for each node, by semicolons",
    ),
    "connections": (
        "auto",
        "SKATE_CONNECTIONS",
        "between the nodes of a Ray cluster: tcp, calls (of Ray's actors, slower, no open ports), or auto: tcp if all nodes reach each other by it; "
        "where Ray uses TLS (RAY_USE_TLS), so do they",
    ),
    "address": (
        "",
        "SKATE_ADDRESS",
        'HOST:PORT of a Ray cluster, or skate://HOST:PORT,... of nodes, for an init() that is given no address, or "auto"; none: this machine',
    ),
    "num_cpus": (cpus, "SKATE_NUM_CPUS", "CPUs to give to tasks"),
    "num_gpus": (gpus, "SKATE_NUM_GPUS", "GPUs to give to tasks"),
    "memory": (task_memory_bytes, "SKATE_MEMORY", "bytes that tasks may ask for with memory="),
    "object_store_memory": (
        store_bytes,
        "SKATE_OBJECT_STORE_MEMORY",
        "limit of the object store in bytes",
    ),
    "memory_limit": (
        0,
        "SKATE_MEMORY_LIMIT",
        "bytes for the object store and the heaps of the workers together; 0: memory + object_store_memory where memory was given, else what "
        "the machine or the cgroup has",
    ),
    "memory_usage_threshold": (
        0.95,
        "SKATE_MEMORY_USAGE_THRESHOLD",
        "part of the machine's or the cgroup's memory that may be used, by all",
    ),
    "memory_monitor_refresh_ms": (
        250,
        "SKATE_MEMORY_MONITOR_REFRESH_MS",
        "memory is looked at so often at least while something runs; 0: never, and no task is stopped for it",
    ),
    "task_oom_retries": (
        -1,
        "SKATE_TASK_OOM_RETRIES",
        "how often a task that was stopped for memory is run again, whatever its max_retries but 0; -1: until it has run alone",
    ),
    "spill_dir": (
        spill_dir,
        "SKATE_SPILL_DIR",
        "directories (a list; in the environment like PATH) for objects that do not fit into the store; none: a full store is an error",
    ),
    "spill_bytes": (
        -1,
        "SKATE_SPILL_BYTES",
        "most bytes of disk for them; -1: nine tenths of what is free there, asked anew when more is wanted; 0: none, as without a directory",
    ),
    "overflow_bytes": (
        -1,
        "SKATE_OVERFLOW_BYTES",
        "most bytes of disk, mapped behind the store, for what can neither be in it nor leave it, and for objects larger than the store; "
        "-1: four times the store, at least 4 GiB; 0: none, then it is an error",
    ),
    "max_workers": (0, "SKATE_MAX_WORKERS", "most worker processes; 0: chosen by the engine"),
    "spin_us": (
        -1,
        "SKATE_SPIN_US",
        "how long a waiter spins before it sleeps; -1: chosen by the engine",
    ),
    "idle_reap_s": (
        0,
        "SKATE_IDLE_REAP_S",
        "idle workers beyond the CPUs end after so many seconds; 0: chosen by the engine",
    ),
    "lineage_bytes": (
        0,
        "SKATE_LINEAGE_BYTES",
        "memory for finished tasks that could make lost objects again; 0: chosen by the engine (64 MiB)",
    ),
    "seed": (
        0,
        "SKATE_SEED",
        "inline engine: random order of tasks from this seed; 0: order of submission",
    ),
    "preload": (
        "",
        "SKATE_PRELOAD",
        "modules that the fork server imports before the first worker, comma-separated",
    ),
    "trace": (
        "",
        "SKATE_TRACE",
        "file to which a record of the engine is written at its end, also when the program is killed, for `skate timeline FILE` and `skate page FILE`; "
        "%p in it stands for the pid of the program",
    ),
    "print_labels": (
        1,
        "SKATE_PRINT_LABELS",
        "whether lines that tasks print begin with (name pid=N); 0: they are as they were printed",
    ),
    "page": (
        0,
        "SKATE_PAGE",
        "1: a page at 127.0.0.1 shows the program in a browser, at any free port; a larger number: at this port; 0: none",
    ),
    "max_retries": (
        3,
        "SKATE_MAX_RETRIES",
        "default of max_retries: how often a task is run again when its worker died",
    ),
}


def from_ray(given):
    """`_system_config` with Ray's names for spilling translated to skate's. ValueError for a kind
    of spilling that skate lacks."""
    tell_without_effect("_system_config", given, without_effect.SYSTEM_CONFIG)
    out = {k: v for k, v in given.items() if k not in without_effect.SYSTEM_CONFIG}
    if out.pop("automatic_object_spilling_enabled", True) is False:
        out["spill_dir"] = ""
    text = out.pop("object_spilling_config", None)
    if text:
        conf = json.loads(text) if isinstance(text, str) else text
        if conf.get("type") != "filesystem":
            raise ValueError(
                f"object_spilling_config: type must be 'filesystem', not {conf.get('type')!r}"
            )
        params = dict(conf.get("params", {}))
        path, size = params.pop("directory_path", None), params.pop("buffer_size", 0)
        if params or not isinstance(size, int):
            raise ValueError(
                f"object_spilling_config: params are directory_path and buffer_size (bytes, without effect here), not {conf['params']!r}"
            )
        out.setdefault("spill_dir", directories("object_spilling_config", path))
    return out


def directories(name, given):
    """A list of absolute paths, from one path or a list of paths. ValueError for anything else."""
    paths = given if isinstance(given, (list, tuple)) else [given]
    for path in paths or [given]:
        if not isinstance(path, (str, os.PathLike)) or not os.fspath(path):
            raise ValueError(f"{name}: a directory is wanted, not {path!r}")
    return [os.path.abspath(os.fspath(path)) for path in paths]


def _cast(name, default, text):
    if default is spill_dir:
        return list(filter(None, text.split(os.pathsep)))
    if callable(default):
        default = 0.0
    try:
        return (
            text
            if isinstance(default, str)
            else int(text)
            if float(text).is_integer()
            else float(text)
        )
    except ValueError:
        raise ValueError(
            f"{KNOBS[name][1]}={text!r}: a number is wanted ({KNOBS[name][2]})"
        ) from None


# Environment variables that are no knobs: skate's processes pass them to each other, tests and
# benchmarks set them, or they are secret.
_OWN_ENV = (
    "SKATE_CTL",
    "SKATE_DEVICES",
    "SKATE_DRIVER_PID",
    "SKATE_ASSERT_LOG",
    "SKATE_FAULT",
    "SKATE_FORK_FD",
    "SKATE_GPUS",
    "SKATE_LIVE_FD",
    "SKATE_MEASURE",
    "SKATE_SECRET",
    "SKATE_SECRET_FILE",
    "SKATE_VIEW",
)
_told = set()  # the names about which a warning was logged


def _tell(name, text):
    """Logs a warning, once for each name."""
    if name not in _told:
        _told.add(name)
        logging.getLogger("skate").warning(text)


def tell_without_effect(where, given, table):
    """Logs which names of `given` have no effect, and the reasons in `table`."""
    for name in given:
        if name in table:
            _tell(name, f"{where}: {name!r} is Ray's and has no effect in skate: {table[name]}")


def check_names(given):
    """Checks the names in `given` (_system_config). ValueError for a name that looks like a
    misspelt knob. Other unknown names are Ray's internals, which programs and fixtures of Ray set:
    they cause one warning. Unknown environment variables that begin with SKATE_ cause a warning
    with the nearest name."""
    unknown = [k for k in given if k not in KNOBS]
    strange = [
        k
        for k in os.environ
        if k.startswith("SKATE_") and k[6:].lower() not in KNOBS and not k.startswith("SKATE_TEST_")
    ]
    if not unknown and not strange:
        return
    for k in unknown:
        near = _did_you_mean.nearest(k, KNOBS, 0.8)
        if near:
            raise ValueError(
                f"unknown configuration {k!r}: did you mean {near!r}? known: {', '.join(KNOBS)}"
            )
        _tell(k, f"_system_config: {k!r} means nothing to skate")
    for k in strange:
        if k not in _OWN_ENV:
            near = _did_you_mean.nearest(k[6:], KNOBS)
            hint = (
                f"did you mean {KNOBS[near][1]}?"
                if near
                else f"known are {', '.join(env for _, env, _ in KNOBS.values())}"
            )
            _tell(k, f"the environment sets {k}, which means nothing to skate; {hint}")


def check_value(name, value, where):
    """The value of a knob in the form in which it is stored. TypeError, ValueError for a wrong type
    or range; `where` is the origin of the value, for the message."""
    default, _, meaning = KNOBS[name]
    if default is spill_dir:
        return value  # directories() checks it
    wanted = f"{where}={value!r}: what is wanted is"
    if isinstance(default, str):
        if not isinstance(value, str):
            raise TypeError(f"{wanted} a text ({meaning})")
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{wanted} a number ({meaning})")
    # -1 means no limit, or a value that the engine chooses.
    least = -1 if default == -1 or name == "max_retries" else 0
    if not value >= least:
        raise ValueError(f"{wanted} a number of {least} or more ({meaning})")
    return value


def _record(path):
    """The absolute path of the record that is written at the end; "": none. ValueError for a path
    where no file can be made, since the end of the program would be too late to say so."""
    if not path:
        return ""
    path = os.path.abspath(path.replace("%p", str(os.getpid())))
    folder = os.path.dirname(path)
    why = (
        "is a directory"
        if os.path.isdir(path)
        else f"there is no directory {folder}"
        if not os.path.isdir(folder)
        else f"no file can be made in {folder}"
        if not os.access(folder, os.W_OK | os.X_OK)
        else ""
    )
    if why:
        raise ValueError(f"trace={path!r} (SKATE_TRACE): {why}; name a file that can be written")
    return path


def asked(name, given):
    """The value of a knob that the caller (`given`) or the environment has set, cast but not
    checked; None if neither has."""
    default, env, _ = KNOBS[name]
    value = given.get(name)
    return _cast(name, default, os.environ[env]) if value is None and env in os.environ else value


def resolve(given):
    """The value of each knob. given: the values that the caller has set (None: not set). Raises the
    errors of check_names() and check_value()."""
    check_names(given)
    out = {}
    for name, (default, env, _) in KNOBS.items():
        value, where = given.get(name), name
        if value is None and env in os.environ:
            value, where = _cast(name, default, os.environ[env]), env
        if value is not None:
            value = check_value(name, value, where)
        out[name] = value if value is not None else default() if callable(default) else default
    if not 0 < out["memory_usage_threshold"] <= 1:
        raise ValueError(
            f"memory_usage_threshold={out['memory_usage_threshold']!r}: a part is wanted, above 0 and at most 1"
        )
    said = given.get("memory") is not None or KNOBS["memory"][1] in os.environ
    if not out["memory_limit"] and said and out["memory"] >= LEAST_MEMORY:
        out["memory_limit"] = int(out["memory"]) + int(out["object_store_memory"])
    out["trace"] = _record(out["trace"])
    if out["nodes"] and out["engine"] == "local":
        out["engine"] = "cluster"
    dirs = out["spill_dir"]
    out["spill_dir"] = directories("spill_dir", dirs) if dirs and out["spill_bytes"] != 0 else []
    return out
