"""Every knob of skate in one table. Order of precedence: an argument of init(), init(_system_config={name: value}), the environment, the default.

Not here: what the knobs do (the meaning column says where). A default that depends on the machine is a function."""

import os


def _cgroup(*names):
    for name in names:
        try:
            with open("/sys/fs/cgroup/" + name) as f:
                return f.read().split()
        except OSError:
            continue
    return None


def cpus():
    """CPUs that this process may use (affinity, cgroup quota)."""
    n = len(os.sched_getaffinity(0))
    quota = _cgroup("cpu.max")
    if quota and quota[0] != "max":
        n = min(n, max(1, int(quota[0]) // int(quota[1])))
    return n


def memory_bytes():
    """Memory of this machine or of its cgroup, whichever is less."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = _cgroup("memory.max", "memory/memory.limit_in_bytes")
    if limit and limit[0] != "max":
        total = min(total, int(limit[0]))
    return total


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


# name: (default, environment variable, meaning)
KNOBS = {
    "engine": ("local", "SKATE_ENGINE", "local: worker processes; inline: tasks run in the caller (debugging)"),
    "num_cpus": (cpus, "SKATE_NUM_CPUS", "CPUs to give to tasks"),
    "num_gpus": (gpus, "SKATE_NUM_GPUS", "GPUs to give to tasks"),
    "memory": (task_memory_bytes, "SKATE_MEMORY", "bytes that tasks may ask for with memory="),
    "object_store_memory": (store_bytes, "SKATE_OBJECT_STORE_MEMORY", "limit of the object store in bytes"),
    "max_workers": (0, "SKATE_MAX_WORKERS", "most worker processes; 0: chosen by the engine"),
    "spin_us": (-1, "SKATE_SPIN_US", "how long a waiter spins before it sleeps; -1: chosen by the engine"),
    "idle_reap_s": (0, "SKATE_IDLE_REAP_S", "idle workers beyond the CPUs end after so many seconds; 0: chosen by the engine"),
    "seed": (0, "SKATE_SEED", "inline engine: random order of tasks from this seed; 0: order of submission"),
    "preload": ("", "SKATE_PRELOAD", "modules that the fork server imports before the first worker, comma-separated"),
    "max_retries": (3, "SKATE_MAX_RETRIES", "default of max_retries: how often a task is run again when its worker died"),
}


def _cast(name, default, text):
    if callable(default):
        default = 0.0
    try:
        return text if isinstance(default, str) else int(text) if float(text).is_integer() else float(text)
    except ValueError:
        raise ValueError(f"{KNOBS[name][1]}={text!r}: a number is wanted ({KNOBS[name][2]})") from None


def resolve(given):
    """The value of each knob; `given` holds what the caller set (None: not set).

    Names that are none of ours are Ray's internals, which its programs and fixtures set: left aside with a note in the log. One that is nearly
    one of ours is a slip: ValueError."""
    unknown = [k for k in given if k not in KNOBS]
    if unknown:
        import difflib
        import logging

        for k in unknown:
            near = [n for n in difflib.get_close_matches(str(k), KNOBS, 1, 0.85) if abs(len(n) - len(k)) <= 2]
            if near:
                raise ValueError(f"unknown configuration {k!r}: did you mean {near[0]!r}? known: {', '.join(KNOBS)}")
        logging.getLogger("skate").info("_system_config: %s mean nothing to skate", ", ".join(map(str, unknown)))
    out = {}
    for name, (default, env, _) in KNOBS.items():
        value = given.get(name)
        if value is None and env in os.environ:
            value = _cast(name, default, os.environ[env])
        out[name] = value if value is not None else default() if callable(default) else default
    return out
