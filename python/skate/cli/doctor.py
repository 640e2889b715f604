"""`skate doctor`: whether this machine suits skate, and what to change.

Each check is a function below CHECKS; it returns what it has found as one Finding, or as several."""

import argparse
import os
import resource
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from skate import _did_you_mean, _skate, config
from skate._deps import (
    importlib,
    importlib_metadata,
    logging,
    packaging_requirements,
    platform,
    re,
    shutil,
    tempfile,
)
from skate.cli import child, out
from skate.terminal import words

EXAMPLES = """
skate doctor
skate doctor --quick           # without the tests of the disk and of the engine
skate doctor --json | jq '.checks[] | select(.verdict != "ok")'
"""

OK, BETTER, WRONG = "ok", "could be better", "wrong"
MIB = 1 << 20
WRITES = 256 * MIB  # bytes that the test of the disk writes
ENGINE_S = 60  # seconds that the engine may take to start


class Finding(NamedTuple):
    """The outcome of a check.

    Args:
        name: What was looked at.
        verdict: OK, BETTER or WRONG.
        found: What there is.
        why: Why it matters; "" where all is well.
        change: What to change; "" where all is well.
    """

    name: str
    verdict: str
    found: str
    why: str = ""
    change: str = ""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Looks at what skate needs of this machine: the kernel, limits, the cgroup, huge pages, "
        "/dev/shm, the disk for spilled objects, Python and its packages, and starts an engine. For "
        "each it says whether it is ok, could be better or is wrong, why, and what to change. The "
        "exit status is 1 only if something is wrong."
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="do not write to the disk, and start no engine",
    )
    out.add_json(parser)


def run(args: argparse.Namespace) -> int:
    logging.disable()  # of settings that mean nothing: _settings says it
    checks = [c for c in CHECKS if not (args.quick and c in (_disk, _engine))]
    found = [f for check in checks for f in _findings(check())]
    wrong = any(f.verdict == WRONG for f in found)
    if args.json:
        out.as_json({"checks": [f._asdict() for f in found], "wrong": wrong})
        return int(wrong)
    console = out.console()
    colours = {OK: "green", BETTER: "yellow", WRONG: "bold red"}
    made = out.table(["<check", "<verdict", "<found"], [])
    for f in found:
        made.add_row(
            out.plain(f.name),
            f"[{colours[f.verdict]}]{f.verdict}[/]",
            out.plain(f.found),
        )
    console.print(made)
    for f in found:
        if f.verdict != OK:
            colour = colours[f.verdict]
            console.print(f"\n[{colour}]{out.plain(f.name)}: {f.verdict}[/]. {out.plain(f.found)}")
            console.print(out.plain(f.why))
            console.print("Change: " + out.plain(f.change))
    return int(wrong)


def _findings(given: "Finding | Iterable[Finding]") -> list[Finding]:
    return [given] if isinstance(given, Finding) else list(given)


def _judged(name: str, good: bool, found: str, why: str, change: str) -> Finding:
    return Finding(name, OK, found) if good else Finding(name, BETTER, found, why, change)


def _text(path: str) -> str:
    """The text of a file of the kernel; "" if it cannot be read."""
    try:
        with open(path) as f:
            return f.read().strip()
    except OSError:
        return ""


def _kernel() -> Finding:
    release = os.uname().release
    at = re.match(r"(\d+)\.(\d+)", release)
    version = [int(x) for x in at.groups()] if at else [0, 0]
    said = ("kernel", f"Linux {release}, {os.uname().machine}")
    if version < [5, 3]:
        why = "The fork server watches processes by pidfds, which came with Linux 5.3."
        return Finding(said[0], WRONG, said[1], why, "use Linux 5.3 or later")
    if version < [6, 1]:
        why = "Linux 6.1 can give the store huge pages (MADV_COLLAPSE), so its memory is written the first time at two to three times the speed."
        return Finding(said[0], BETTER, said[1], why, "use Linux 6.1 or later")
    return Finding(said[0], OK, said[1])


def _processor() -> Finding:
    lines = _text("/proc/cpuinfo").splitlines()
    flags = next((x for x in lines if x.startswith(("flags", "Features"))), "").split()
    model = next((x.partition(":")[2].strip() for x in lines if x.startswith("model name")), "?")
    if platform.machine() != "x86_64":
        return Finding("processor", OK, f"{platform.machine()}, {model}")
    has = [x for x in ("avx2", "fma", "avx512f") if x in flags]
    found = f"{model}; {', '.join(has) or 'no AVX2'}"
    if "avx2" not in flags or "fma" not in flags:
        why = "Sums of floats and the scaling of images have loops for AVX2; without it the plain ones run, with the same results."
        return Finding("processor", BETTER, found, why, "let the virtual machine pass AVX2 on")
    return Finding("processor", OK, found)


def _cpus() -> Finding:
    quota, visible = _skate.machine()["cpus"], len(os.sched_getaffinity(0))
    found = f"{visible} of {os.cpu_count()} may be used"
    if not quota:
        return Finding("CPUs", OK, found)
    found += f"; quota of the cgroup: {quota:g}"
    if quota < 1 or quota != int(quota):
        why = "A quota that is no whole number stops all processes for a part of each period (100 ms), in the middle of tasks."
        change = "give the container whole CPUs (docker run --cpuset-cpus, or --cpus 2)"
        return Finding("CPUs", BETTER, found, why, change)
    return Finding("CPUs", OK, found)


def _memory() -> Finding:
    m = _skate.machine()
    limit, used = m["memory_bytes"], m["used_bytes"]
    found = f"{words.nbytes(limit)} (limit of {m['where']}), {words.nbytes(used)} in use; {words.nbytes(config.store_bytes())} for objects"
    if limit < 512 * MIB:
        why = (
            "A worker with NumPy and pyarrow has 60 MiB of its own, and blocks have up to 128 MiB."
        )
        return Finding("memory", BETTER, found, why, "give the container 1 GiB or more")
    if used > 0.9 * limit:
        why = "Tasks are held back, and some are stopped, when memory is short."
        return Finding("memory", BETTER, found, why, "end other programs, or raise the limit")
    return Finding("memory", OK, found)


def _limits() -> Iterator[Finding]:
    def soft(what: int) -> float:
        n = resource.getrlimit(what)[0]
        return float("inf") if n == resource.RLIM_INFINITY else n

    def said(n: float) -> str:
        return "unlimited" if n == float("inf") else f"{n:,.0f}"

    cpus = config.cpus()
    files, least = soft(resource.RLIMIT_NOFILE), 256 + 16 * cpus
    why = "The driver has a few pipes for each worker, and a file for each one that spills."
    change = f"ulimit -n {max(4096, least)}"
    yield _judged("open files", files >= least, f"ulimit -n is {said(files)}", why, change)
    n, least = soft(resource.RLIMIT_NPROC), 64 + 8 * cpus
    why = "Each worker is a process, and each library in it may start a thread for each CPU."
    change = "raise ulimit -u, or the pids limit of the container"
    yield _judged("processes", n >= least, f"ulimit -u is {said(n)}", why, change)
    space, size = soft(resource.RLIMIT_AS), soft(resource.RLIMIT_FSIZE)
    if min(space, size) < 4 * config.store_bytes():
        yield Finding(
            "address space, size of files",
            BETTER,
            f"ulimit -v is {said(space)} bytes, ulimit -f {said(size)} bytes",
            "The store and what overflows it are mapped whole, and are used as far as they are needed.",
            "ulimit -v unlimited; ulimit -f unlimited",
        )
    locked = soft(resource.RLIMIT_MEMLOCK)
    yield Finding(
        "locked memory", OK, f"ulimit -l is {said(locked)} bytes; skate locks none of its own"
    )


def _overcommit() -> Finding:
    mode = _text("/proc/sys/vm/overcommit_memory")
    name = {"0": "as the kernel guesses", "1": "always", "2": "never"}.get(mode, "?")
    if mode == "2":
        why = "The store is mapped whole and filled as it is needed; without overcommit the whole of it counts from the start."
        change = "sysctl vm.overcommit_memory=0, or a smaller object_store_memory"
        return Finding("overcommit", BETTER, name, why, change)
    return Finding("overcommit", OK, name)


def _huge_pages() -> Finding:
    at = "/sys/kernel/mm/transparent_hugepage/"
    heap, shared = _text(at + "enabled"), _text(at + "shmem_enabled")
    found = f"heaps: {_chosen(heap)}; shared memory: {_chosen(shared)}"
    if not heap or _chosen(heap) == "never":
        why = "Kernels ask for huge pages for their scratch memory: a third of a sort was the first touch of small ones."
        change = f"echo madvise > {at}enabled (as root)"
        return Finding("huge pages", BETTER, found, why, change)
    return Finding("huge pages", OK, found)


def _chosen(text: str) -> str:
    """The word in brackets: of "always [madvise] never", madvise."""
    at = re.search(r"\[(\w+)\]", text)
    return at[1] if at else "not there"


def _shm() -> Finding:
    try:
        size = shutil.disk_usage("/dev/shm").total
    except OSError:
        return Finding("/dev/shm", OK, "not there; skate does not use it")
    return Finding(
        "/dev/shm", OK, f"{words.nbytes(size)}; skate does not use it (its memory has no name)"
    )


def _settings() -> Iterator[Finding]:
    known = {env: name for name, (_, env, _) in config.KNOBS.items()}
    given = {k: v for k, v in os.environ.items() if k.startswith("SKATE_")}
    try:
        config.resolve({})
    except (ValueError, TypeError) as e:
        yield Finding("settings", WRONG, str(e), "No engine starts with it.", "set it right")
        return
    strange = [k for k in given if k not in {*known, *config._OWN_ENV}]
    for k in strange:
        near = _did_you_mean.guess(k, known)
        why = "skate has no setting of this name, so it changes nothing."
        yield Finding("settings", BETTER, f"{k}={given[k]}", why, f"take it out{near}")
    if not strange:
        names = ", ".join(f"{k}={v}" for k, v in sorted(given.items()) if k in known)
        yield Finding("settings", OK, names or "none in the environment")


def _disk() -> Iterator[Finding]:
    try:
        folders = config.resolve({})["spill_dir"]
    except (ValueError, TypeError):
        return  # the settings are wrong: see there
    if not folders:
        why = "Objects that do not fit into the store are then an error."
        change = "SKATE_SPILL_DIR=DIR, on a fast disk with free space"
        yield Finding("disk for objects", BETTER, "none", why, change)
    for folder in folders:
        yield _disk_of(folder)


def _disk_of(folder: str) -> Finding:
    name = f"disk for objects: {folder}"
    kind = _filesystem(folder)
    try:
        free = shutil.disk_usage(folder).free
        speed = _write_speed(folder, min(WRITES, free // 16))
    except OSError as e:
        why, change = "Objects that do not fit into the store go there.", "set SKATE_SPILL_DIR"
        return Finding(name, WRONG, f"it cannot be written to: {e.strerror}", why, change)
    found = f"{kind}, {words.nbytes(free)} free, written at {words.nbytes(speed)}/s"
    if kind in ("tmpfs", "ramfs"):
        why = "That is memory: objects that are written there to make room take as much as before."
        return Finding(name, BETTER, found, why, "set SKATE_SPILL_DIR to a folder on a disk")
    if kind.startswith(("nfs", "cifs", "smb", "fuse", "9p")):
        why = "A disk behind a network is slow and may be lost while a program runs."
        return Finding(name, BETTER, found, why, "set SKATE_SPILL_DIR to a folder on a local disk")
    if free < config.store_bytes():
        why = f"A sort or a shuffle of more than memory needs as much disk as its data; the store alone has {words.nbytes(config.store_bytes())}."
        change = "make room, or set SKATE_SPILL_DIR to another disk (a list is used in turn)"
        return Finding(name, BETTER, found, why, change)
    if speed < 200 * MIB:
        why = "Sorts and shuffles of more than memory run at the speed of this disk, written once and read once."
        return Finding(name, BETTER, found, why, "set SKATE_SPILL_DIR to a faster disk")
    return Finding(name, OK, found)


def _filesystem(folder: str) -> str:
    """The type of the file system of a folder."""
    best = ("", "?")
    for line in _text("/proc/mounts").splitlines():
        _, at, kind, *_ = line.split(" ")
        inside = folder == at or folder.startswith(at.rstrip("/") + "/")
        if inside and len(at) >= len(best[0]):
            best = (at, kind)
    return best[1]


def _write_speed(folder: str, n: int) -> float:
    """Bytes per second at which a new file of n bytes is written and is on the disk."""
    block = os.urandom(4 * MIB)
    with tempfile.TemporaryFile(dir=folder, buffering=0) as f:
        t = time.perf_counter()
        for _ in range(max(1, n // len(block))):
            f.write(block)
        os.fdatasync(f.fileno())
        return max(len(block), n) / (time.perf_counter() - t)


def _python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    debug = hasattr(sys, "gettotalrefcount")
    found = f"{platform.python_implementation()} {version}, {'with' if gil else 'without'} the GIL"
    if debug:
        why = "A debug build runs Python code two to five times slower."
        return Finding("Python", BETTER, found + ", a debug build", why, "use a release build")
    return Finding("Python", OK, found)


# What skate works with where it is there; what it needs is in its metadata.
OPTIONAL = ("pandas", "torch", "polars", "duckdb", "pillow", "ray", "matplotlib", "jax", "fsspec")
NEEDED = ("numpy", "pyarrow", "cloudpickle", "rich")


def _packages() -> Iterator[Finding]:
    ranges = {}
    try:
        for text in importlib_metadata.requires("skate") or ():
            if "extra ==" not in text:
                ranges[re.split(r"[^\w.-]", text)[0]] = text
    except importlib_metadata.PackageNotFoundError:
        pass  # run from its source
    for name in NEEDED:
        yield _needed(name, ranges.get(name))
    there = []
    for name in OPTIONAL:
        try:
            there.append(f"{name} {importlib_metadata.version(name)}")
        except importlib_metadata.PackageNotFoundError:
            pass
    yield Finding("packages that skate works with", OK, ", ".join(there) or "none")


def _needed(name: str, wanted: str | None) -> Finding:
    try:
        version = importlib_metadata.version(name)
        importlib.import_module(name)
    except Exception as e:  # whatever a broken installation raises
        why = "skate does not run without it."
        return Finding(name, WRONG, f"{type(e).__name__}: {e}", why, f"pip install -U {name}")
    if wanted is not None:
        try:
            fits = packaging_requirements.Requirement(wanted).specifier.contains(
                version, prereleases=True
            )
        except ModuleNotFoundError:
            fits = True  # the package that compares versions is not here
        if not fits:
            why = f"skate is tested with {wanted}."
            return Finding(name, BETTER, version, why, f"pip install '{wanted}'")
    return Finding(name, OK, version)


_TRY = """
import time; t = time.perf_counter()
import skate.data; t1 = time.perf_counter()
n = skate.data.range(1000, override_num_blocks=4).map_batches(lambda b: b).materialize().count()
print(n, t1 - t, time.perf_counter() - t1)
"""


def _engine() -> Finding:
    p = child.run("-c", _TRY, seconds=ENGINE_S)
    if p is None:
        why = "A new engine ran no task in this time."
        change = "run `skate stack` in another terminal meanwhile, and report what it shows"
        return Finding("an engine", WRONG, f"no answer within {ENGINE_S} s", why, change)
    if p.returncode or not p.stdout.startswith("1000 "):
        why = "A new engine could not run a small Dataset."
        change = "see the other checks, then report this line"
        return Finding("an engine", WRONG, child.why(p), why, change)
    _, load, first = map(float, p.stdout.split())
    found = f"imported in {load:.2f} s, first rows of a Dataset {first:.2f} s later"
    return Finding("an engine", OK, found)


CHECKS: list[Any] = [
    _kernel,
    _processor,
    _cpus,
    _memory,
    _limits,
    _overcommit,
    _huge_pages,
    _shm,
    _disk,
    _settings,
    _python,
    _packages,
    _engine,
]
