"""How the workers of a local engine begin: their command line, their environment, and the first note
to their fork server."""

from __future__ import annotations

import _pickle as pickle  # without re and struct
import os
import sys

from skate import _hooks
from skate import runtime_env as _runtime_env
from skate.calls import ambient_environment, options

TYPE_CHECKING = False  # typing is slow to import
if TYPE_CHECKING:
    from typing import Any

_QUIET = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMEXPR_NUM_THREADS": "1",
    "VECLIB_MAXIMUM_THREADS": "1",
}


def prepare(conf: dict[str, Any], runtime_env: dict[str, Any], job: dict[str, Any]) -> None:
    """Sets in the configuration of a local engine how its workers begin. job: the facts that they
    know about their job (_job.py)."""
    conf["argv"] = python_program("from skate._worker_main import main; main()")
    conf["env"] = _environment(runtime_env, job)
    conf["preload"] = _first_note(
        conf["preload"], runtime_env, pickle.dumps(job), bool(conf["print_labels"])
    )


def python_program(text: str) -> list[str]:
    """The command line of a process of skate that runs this text: this Python, and this skate."""
    root = os.path.abspath(os.path.join(os.path.dirname(__file__), os.pardir, os.pardir))
    return [sys.executable, "-c", f"import sys; sys.path.insert(0, {root!r}); {text}"]


def _environment(runtime_env: dict[str, Any], job: dict[str, Any]) -> list[str]:
    """The whole environment of the workers, as NAME=value; that of this process stays unchanged."""
    env = {**_QUIET, **os.environ, **(runtime_env.get("env_vars") or {})}
    env["SKATE_GPUS"] = "1" if job["gpus"] else ""
    env["SKATE_DEVICES"] = options.devices_of(job["custom"])
    return [f"{k}={v}" for k, v in env.items()]


# What the fork server imports because this program has imported the key. The last one imports
# pyarrow; the fork server does so while the program builds its plan.
_WITH_THE_PROGRAM = {
    "numpy": "numpy",
    "pyarrow": "pyarrow",
    "pandas": "pandas",
    "skate.data": "skate.data.worker.stage",
}


def modules(wanted: str) -> list[str]:
    """The modules that the fork server imports: those that this process has imported and workers
    are likely to need, and the wanted ones (names by commas)."""
    out = [m for of, m in _WITH_THE_PROGRAM.items() if of in sys.modules]
    return out + [m for m in wanted.split(",") if m]


def _first_note(wanted, runtime_env, job, labels):
    path = ambient_environment.path_now()
    where = runtime_env.get("working_dir")
    ambient_environment.begin(path, None if where else os.getcwd())
    path = (
        ([where] if where else [])
        + [_runtime_env.module_path(m) for m in runtime_env.get("py_modules") or []]
        + path
    )
    return _hooks.preload_note(
        ["skate.calls.by_value", *modules(wanted)],
        path,
        where or os.getcwd(),
        runtime_env.get("worker_process_setup_hook"),
        job,
        labels,
    )
