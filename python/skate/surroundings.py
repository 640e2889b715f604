"""What the driver's program changes around itself while the engine runs: sys.path, the environment, the working directory. In a notebook that is usual.

Workers begin with what the driver had when the engine was opened. What has changed since then goes along with each definition of a function or class, and with the
functions of a run of a Dataset; a worker puts it on when it loads one. A function that was sent before is sent again when sys.path or the environment has become
longer or shorter (py_task.c looks at their sizes). An actor that lives stays as it is. Not here: runtime_env, which wins over this.
"""

from __future__ import annotations

import _pickle as pickle  # without re and struct
import os
import sys

TYPE_CHECKING = False  # typing is slow to import
if TYPE_CHECKING:
    from typing import Any

_start: tuple[list[str], str | None, dict[str, str]] | None = None  # of the driver, when the engine was opened
_sent: dict[str, Any] | None = None  # last; None: nothing has ever changed
_before: dict[str, str | None] = {}  # in a worker: the variables put on, and what they were

_OWN = ("SKATE_", "RAY_")


def begin(path: list[str], cwd: str | None) -> None:
    """In the driver: workers have this sys.path, are there (None: they stay where they are), and have os.environ as it is now."""
    global _start, _sent
    _start, _sent = (path, cwd, dict(os.environ)), None
    from skate import _skate

    _skate.around(sys.path, getattr(os.environ, "_data", {}))


def path_now() -> list[str]:
    """sys.path, without what depends on the working directory."""
    return [os.getcwd() if p == "" else p for p in sys.path]


def changed() -> dict[str, Any] | None:
    """What is different now: {"path", "cwd", "env"}, each where it is, and a number; None: nothing is, and nothing was. In a worker: what came from the driver."""
    global _sent
    if _start is None:
        return _sent
    path, cwd, env = _start
    now: dict[str, Any] = {}
    try:
        if (here := path_now()) != path:
            now["path"] = here
        if cwd is not None and os.getcwd() != cwd:
            now["cwd"] = os.getcwd()
    except OSError:  # the working directory was removed
        pass
    more = {k: v for k, v in os.environ.items() if env.get(k) != v and not k.startswith(_OWN) and k != "CUDA_VISIBLE_DEVICES"}
    if more:
        now["env"] = more
    last = _sent or {"number": 0}
    if {**now, "number": last["number"]} != last:  # the number tells it from the same at another time, whose definitions are loaded already
        _sent = {**now, "number": last["number"] + 1}
    return _sent


class _Along:
    def __init__(self, what: dict[str, Any], data: bytes):
        self.what, self.data = what, data

    def __reduce__(self) -> Any:
        return _arrive, (self.what, self.data)


def along(data: bytes) -> bytes:
    """The pickle of something that is to be loaded in these surroundings."""
    what = changed()
    return data if what is None else pickle.dumps(_Along(what, data), 5)


def _arrive(what: dict[str, Any], data: bytes) -> Any:
    put_on(what)
    return pickle.loads(data)


def put_on(what: dict[str, Any]) -> None:
    """Makes this worker's surroundings those. What is its own (of its runtime_env, or changed by what ran here) stays, and comes first."""
    global _sent
    from skate import _skate

    if what == _sent or not _skate.in_worker():
        return
    import importlib

    from skate import runtime_env

    own: Any = runtime_env._own or {}
    before, _sent = _sent or {}, what
    if "path" in what:
        had = set(before.get("path") or what["path"])
        sys.path[:] = [p for p in sys.path if p not in had and p not in what["path"]] + what["path"]
        importlib.invalidate_caches()
    if "cwd" in what and not own.get("working_dir"):
        try:
            os.chdir(what["cwd"])
        except OSError:  # removed meanwhile
            pass
    env = {k: v for k, v in what.get("env", {}).items() if k not in (own.get("env_vars") or {})}
    for k in _before.keys() - env.keys():
        old = _before.pop(k)
        if old is None:
            os.environ.pop(k, None)
        else:
            os.environ[k] = old
    for k, v in env.items():
        _before.setdefault(k, os.environ.get(k))
        os.environ[k] = v


def hint(e: BaseException) -> str:
    """For an error that a worker raised: what is different here, where that may be why. "" or a line."""
    if _start is None:
        return ""
    if isinstance(e, ModuleNotFoundError) and e.name:
        import importlib.util

        try:
            spec = importlib.util.find_spec(e.name.partition(".")[0])
        except (ImportError, ValueError):
            spec = None
        if spec is not None and spec.origin is not None:
            return (
                f"\n(this program finds {e.name.partition('.')[0]!r} in {os.path.dirname(spec.origin)}, which the worker did not when it began: a function or actor made "
                "from now on does)"
            )
    name = getattr(e, "filename", None)
    if isinstance(e, FileNotFoundError) and isinstance(name, str) and not os.path.isabs(name) and _start[1] not in (None, os.getcwd()):
        return f"\n(the worker was in {_start[1]}; this program is in {os.getcwd()} now: give the whole path, or make the function or actor anew)"
    return ""
