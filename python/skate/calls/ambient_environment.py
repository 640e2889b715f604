"""The ambient environment: sys.path, environment variables and the working directory of the
driver's program, which the program may change while the engine runs (usual in a notebook).

Workers begin with the ambient environment that the driver had when the engine was opened. Later
changes travel with each definition of a function or class, and with the functions of a Dataset's
run. A worker sets an ambient environment when it loads a function, and again when it calls a
function after another environment was set. A function that was sent before is sent again if
sys.path is another list, or if sys.path or os.environ has changed its length (py/call/template.h
compares their sizes). Equal environments have the same number, so a program that returns to an
earlier environment (a variable that is set for one call) uses the definition that was sent with it.
A living actor keeps its environment. A runtime_env, which is not part of this, takes precedence.
"""

from __future__ import annotations

import _pickle as pickle  # without re and struct
import os
import sys

from skate import _skate, runtime_env
from skate._deps import importlib, importlib_util

TYPE_CHECKING = False  # typing is slow to import
if TYPE_CHECKING:
    from typing import Any

# In the driver: the ambient environment when the engine was opened.
_start: tuple[list[str], str | None, dict[str, str]] | None = None
# In the driver: the environment as it was compared last, and what differed. It has a hundred
# variables, and decoding each costs 1 us.
_compared: tuple[dict[Any, Any], dict[str, str]] | None = None
_sent: dict[str, Any] | None = (
    None  # the environment that was sent last; None: nothing has ever changed
)
# In the driver: the environments that were sent, by content, the one used last at the end.
_numbers: dict[Any, dict[str, Any]] = {}
_count = 0  # the last number given; 0 is for the environment at the opening
# in a worker: the values of environment variables before an ambient environment replaced them
_before: dict[str, str | None] = {}
# In a worker: sys.path and the working directory before any ambient environment was set.
_base: tuple[list[str], str | None] | None = None
# in a worker: the ambient environments that this process knows, by number
_known: dict[int, dict[str, Any]] = {0: {"number": 0}}
NUMBERS = 1000  # the number of environments that are remembered; older ones are sent again

_OWN = ("SKATE_", "RAY_")


def begin(path: list[str], cwd: str | None) -> None:
    """In the driver: records the ambient environment with which workers begin: this sys.path, this working
    directory (None: that of the fork server), and os.environ as it is now."""
    global _start, _sent, _compared
    _start, _sent, _compared = (path, cwd, dict(os.environ)), None, None
    _numbers.clear()
    _skate.ambient_of(sys.path, getattr(os.environ, "_data", {}))


def path_now() -> list[str]:
    """sys.path, without the entries that depend on the working directory."""
    return [os.getcwd() if p == "" else p for p in sys.path]


def _changed_variables(env: dict[str, str]) -> dict[str, str]:
    """The variables of the program that have other values than in `env`, its environment when the
    engine was opened."""
    global _compared
    raw: dict[Any, Any] | None = getattr(os.environ, "_data", None)
    if raw is None or _compared is None or raw != _compared[0]:
        more = {
            k: v
            for k, v in os.environ.items()
            if env.get(k) != v and not k.startswith(_OWN) and k != "CUDA_VISIBLE_DEVICES"
        }
        if raw is None:
            return more
        _compared = dict(raw), more
    return dict(_compared[1])


def changed() -> dict[str, Any] | None:
    """The changes since the opening: {"path", "cwd", "env"}, only those that differ, and the number
    of this environment. None: nothing has ever changed. In a worker: the environment that the
    driver has sent."""
    global _sent, _count
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
    more = _changed_variables(env)
    if more:
        now["env"] = more
    if not now and _sent is None:
        return None
    content = (tuple(now.get("path", ())), now.get("cwd"), tuple(sorted(more.items())))
    what = _numbers.pop(content, None)
    if what is None:
        _count += bool(now)
        what = {**now, "number": _count if now else 0}
        if len(_numbers) >= NUMBERS:
            del _numbers[next(iter(_numbers))]
    _numbers[content] = what
    if what is not _sent:
        _sent = what
        _skate.ambient_is(what["number"], False)
    return what


class _Along:
    def __init__(self, what: dict[str, Any], data: bytes):
        self.what, self.data = what, data

    def __reduce__(self) -> Any:
        return _arrive, (self.what, self.data)


def along(data: bytes) -> bytes:
    """Adds the ambient environment to a pickle; the receiver sets the environment before it loads
    the pickle."""
    what = changed()
    return data if what is None else pickle.dumps(_Along(what, data), 5)


def _arrive(what: dict[str, Any], data: bytes) -> Any:
    put_on(what)
    value = pickle.loads(data)
    if _skate.in_worker():
        _skate.ambient_is(what["number"], True)
    return value


def again(number: int) -> None:
    """In a worker: sets the ambient environment of a function before another call of it."""
    put_on(_known[number])


def put_on(what: dict[str, Any]) -> None:
    """Sets an ambient environment in this worker. The worker's own values (of its runtime_env, or
    set by code that ran in it) stay, and take precedence."""
    global _sent, _base
    if not _skate.in_worker():
        return
    _known[what["number"]] = what
    _skate.ambient_is(what["number"], False)
    if what == _sent:
        return
    own: Any = runtime_env._own or {}
    before, _sent = _sent or {}, what
    if _base is None:
        try:
            here: str | None = os.getcwd()
        except OSError:  # removed in the meantime
            here = None
        _base = list(sys.path), here
    if "path" in what or "path" in before:
        path = what.get("path") or _base[0]
        had = {*before.get("path", ()), *path}
        sys.path[:] = [p for p in sys.path if p not in had] + path
        importlib.invalidate_caches()
    cwd = what.get("cwd") or ("cwd" in before and _base[1])
    if cwd and not own.get("working_dir"):
        try:
            os.chdir(cwd)
        except OSError:  # removed in the meantime
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
    """A line for an error that a worker raised, about differences between this process's ambient
    environment and the worker's, if they may be the cause; else ""."""
    if _start is None:
        return ""
    if isinstance(e, ModuleNotFoundError) and e.name:
        try:
            spec = importlib_util.find_spec(e.name.partition(".")[0])
        except (ImportError, ValueError):
            spec = None
        if spec is not None and spec.origin is not None:
            return (
                f"\n(this program finds {e.name.partition('.')[0]!r} in {os.path.dirname(spec.origin)}, which the worker did not when it began: a function or actor made "
                "from now on does)"
            )
    name = getattr(e, "filename", None)
    if (
        isinstance(e, FileNotFoundError)
        and isinstance(name, str)
        and not os.path.isabs(name)
        and _start[1] not in (None, os.getcwd())
    ):
        return f"\n(the worker was in {_start[1]}; this program is in {os.getcwd()} now: give the whole path, or make the function or actor anew)"
    return ""
