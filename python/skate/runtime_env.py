"""runtime_env: the environment in which the processes of a job, of a task or of an actor run:
environment variables, a working folder, folders of modules.

A folder is used in its place, not copied, because there is one machine. Nothing is installed: skate
checks that the packages of "pip", "uv" and "conda" are installed in the requested versions. The
workers of a job get its environment when they start (variables, working folder and sys.path); a
task or actor with its own environment runs in a process of that environment, which sets it before
it does anything else."""

import _pickle as pickle  # without re and struct
import os
import sys

from skate import _job
from skate._deps import (
    by_value,
    dataclasses,
    importlib,
    importlib_metadata,
    json,
    packaging_requirements,
)
from skate.compat import without_effect
from skate.exceptions import RuntimeEnvSetupError

_KNOWN = {
    "env_vars",
    "working_dir",
    "py_modules",
    "pip",
    "uv",
    "conda",
    "worker_process_setup_hook",
    *without_effect.RUNTIME_ENV,
}


def _error(text):
    return RuntimeEnvSetupError("runtime_env: " + text)


def _folder(what, path, files=()):
    if not isinstance(path, (str, os.PathLike)):
        if hasattr(path, "__path__"):  # a package that this process has imported
            return os.path.abspath(list(path.__path__)[0])
        raise TypeError(f"runtime_env: {what} must be the path of a local folder, not {path!r}")
    path = os.fspath(path)
    if "://" in path:
        raise _error(f"{what}={path!r}: only local folders; fetch it first and give the folder")
    full = os.path.abspath(os.path.expanduser(path))
    if os.path.isdir(full) or (full.endswith(files) and os.path.isfile(full)):
        return full
    raise ValueError(
        f"runtime_env: {what}={path!r} is not a folder; give the path of one that exists"
    )


def _packages(what, given):
    """The requirements of runtime_env's "pip" or "uv": a list, {"packages": [...]}, or the path of
    a requirements file."""
    if isinstance(given, dict):
        given = given.get("packages")
    if isinstance(given, (str, os.PathLike)):
        try:
            with open(os.path.expanduser(given)) as f:
                given = [line.partition(" #")[0].strip() for line in f]
        except OSError as e:
            raise ValueError(
                f"runtime_env: {what}={given!r}: a requirements file that cannot be read: {e.strerror}"
            ) from None
        given = [line for line in given if line and not line.startswith("#")]
    if not isinstance(given, (list, tuple)) or not all(isinstance(r, str) for r in given):
        raise TypeError(
            f"runtime_env: {what} is a list of requirements, a dict with 'packages', or a requirements file, not {given!r}"
        )
    return list(given)


def _lacks(requirement):
    """Why the installed packages do not meet a requirement; None if they do, or if the requirement
    is for other machines."""
    try:
        want = packaging_requirements.Requirement(requirement)
    except ImportError:
        raise _error(
            "to compare versions the package `packaging` is needed: pip install packaging"
        ) from None
    except packaging_requirements.InvalidRequirement:
        return "it is no name with a version; skate installs nothing, and cannot tell what this would be"
    if want.marker is not None and not want.marker.evaluate({"extra": ""}):
        return None
    if want.url is not None:
        return "what is installed by an address cannot be compared"
    try:
        have = importlib_metadata.version(want.name)
    except importlib_metadata.PackageNotFoundError:
        return "it is not installed"
    return None if want.specifier.contains(have, prereleases=True) else f"{have} is installed"


def _installed(what, given):
    """The requirements, if all are installed. RuntimeEnvSetupError names each that is not."""
    wanted = _packages(what, given)
    lacking = [(r, why) for r in wanted if (why := _lacks(r))]
    if lacking:
        raise _error(
            f"{what}: "
            + "; ".join(f"{r!r}: {why}" for r, why in lacking)
            + f". Tasks run in the program's own environment ({sys.prefix}), which skate does not change: install there what is missing"
        )
    return wanted


def _conda(given):
    """The name or the path of the conda environment in which this program runs;
    RuntimeEnvSetupError for another environment."""
    here = (os.environ.get("CONDA_DEFAULT_ENV"), os.path.basename(sys.prefix), sys.prefix)
    if isinstance(given, str) and given in here:
        return given
    raise _error(
        f"conda={given!r}: tasks run in the environment of the program ({sys.prefix}); start the program in the one that you want, and leave conda out"
    )


def check(env):
    """`env` in its full form: {"env_vars": {...}, "working_dir": absolute path, "py_modules":
    [absolute paths], "pip": [requirements]}. TypeError, ValueError or RuntimeEnvSetupError says
    what is wrong with it. Requirements of "pip", "uv" and "conda" must be installed already."""
    if not isinstance(env, dict):
        raise TypeError(f"runtime_env must be a dict, not {type(env)}")
    out = {}
    unknown = {k for k, v in env.items() if v and k not in _KNOWN}
    if unknown:
        raise _error(
            f"{', '.join(sorted(map(str, unknown)))} not supported; skate has env_vars, working_dir, py_modules, pip, uv and conda (of what is "
            "installed) and worker_process_setup_hook"
        )
    given = env.get("env_vars")
    if given is not None:
        if not isinstance(given, dict):
            raise TypeError(f"runtime_env: env_vars is a Dict[str, str], not {type(given)}")
        for k, v in given.items():
            if not isinstance(k, str):
                raise TypeError(
                    f"runtime_env: env_vars is a Dict[str, str]; key {k} is of type {type(k)}"
                )
            if not isinstance(v, str):
                raise TypeError(
                    f"runtime_env: env_vars is a Dict[str, str]; for {k}, value {v} is of type {type(v)}"
                )
        if given:
            out["env_vars"] = dict(given)
    if env.get("working_dir") is not None:
        out["working_dir"] = _folder("working_dir", env["working_dir"])
    modules = env.get("py_modules")
    if modules is not None:
        if not isinstance(modules, (list, tuple)):
            raise TypeError(
                f"runtime_env: py_modules takes several folders, as a list, not {type(modules)}"
            )
        out["py_modules"] = [_folder("py_modules", m, (".whl", ".zip", ".py")) for m in modules]
    for what in ("pip", "uv"):
        if env.get(what):
            out[what] = _installed(what, env[what])
    if env.get("conda"):
        out["conda"] = _conda(env["conda"])
    hook = env.get("worker_process_setup_hook")
    if hook is not None:
        if not callable(hook) and not isinstance(hook, str):
            raise TypeError(
                f"runtime_env: worker_process_setup_hook is a function or the name of one ('module.function'), not {type(hook)}"
            )
        out["worker_process_setup_hook"] = hook
    return out


class RuntimeEnv(dict):
    """A checked runtime_env: RuntimeEnv(env_vars=..., working_dir=..., py_modules=...). A dict."""

    def __init__(
        self,
        *,
        env_vars=None,
        working_dir=None,
        py_modules=None,
        pip=None,
        uv=None,
        conda=None,
        worker_process_setup_hook=None,
        config=None,
        _validate=True,
        **more,
    ):
        given = {
            "env_vars": env_vars,
            "working_dir": working_dir,
            "py_modules": py_modules,
            "pip": pip,
            "uv": uv,
            "conda": conda,
            "worker_process_setup_hook": worker_process_setup_hook,
            "config": config,
            **more,
        }
        given = {k: v for k, v in given.items() if v is not None}
        super().__init__(check(given) if _validate else given)

    def set(self, name, value):
        """Sets one field; a dataclass becomes a dict."""
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            value = dataclasses.asdict(value)
        # Some of Ray's fields are accepted and have no effect
        self[name] = check({name: value}).get(name, value)

    def get(self, name, default=None, data_class=None):
        """The value of a field, or `default`; with data_class, an instance of it made from the
        value."""
        if name not in self:
            return default
        return self[name] if data_class is None else data_class(**self[name])

    def to_dict(self):
        return dict(self)

    def serialize(self):
        return json.dumps(self, sort_keys=True)

    @classmethod
    def deserialize(cls, text):
        return cls(_validate=False, **json.loads(text))

    def env_vars(self):
        return self.get("env_vars", {})

    def working_dir(self):
        return self.get("working_dir", "")

    def py_modules(self):
        return self.get("py_modules", [])


class RuntimeEnvConfig(dict):
    """Ray's settings for making environments; they have no effect in skate, which makes
    environments at once."""

    def __init__(self, setup_timeout_seconds=600, eager_install=True, log_files=None):
        super().__init__(
            setup_timeout_seconds=setup_timeout_seconds,
            eager_install=eager_install,
            log_files=log_files or [],
        )


def module_path(full):
    """The entry that sys.path needs for finding a module: the parent of the module's folder, or the
    archive itself."""
    return full if full.endswith((".whl", ".zip")) else os.path.dirname(full)


def merge(outer, inner):
    """The environment of a task that has `inner` and was submitted in `outer`: environment
    variables are merged, other fields replaced."""
    if not outer or not inner:
        return dict(inner or outer or {})
    out = {**outer, **inner}
    if outer.get("env_vars") and inner.get("env_vars"):
        out["env_vars"] = {**outer["env_vars"], **inner["env_vars"]}
    return out


def run_hook(hook):
    """Calls worker_process_setup_hook: a function, its name as module.function, or either of them
    pickled. RuntimeEnvSetupError if it fails: then no task can run here."""
    try:
        if isinstance(hook, bytes):
            hook = pickle.loads(hook)
        if isinstance(hook, str):
            module, _, name = hook.rpartition(".")
            hook = getattr(importlib.import_module(module), name)
        hook()
    except Exception as e:
        raise _error(f"worker_process_setup_hook failed with {type(e).__name__}: {e}") from e


_own = None  # the runtime_env of the task or actor that this process belongs to


def put_on(env):
    """Applies the environment `env` to this process."""
    global _own
    _own = env
    os.environ.update(env.get("env_vars") or {})
    for m in reversed(env.get("py_modules") or []):
        sys.path.insert(0, module_path(m))
    where = env.get("working_dir")
    if where:
        os.chdir(where)
        sys.path.insert(0, where)
    if env.get("worker_process_setup_hook"):
        run_hook(env["worker_process_setup_hook"])


def apply(data):
    """Applies its environment to a worker that was started for one runtime_env. It is the first
    call in that process (src/py/worker/run.c)."""
    put_on(pickle.loads(data))


def inside(data):
    """The environment of a task or actor that is submitted here, as bytes; data: the environment
    that its options name."""
    return packed(merge(_own, pickle.loads(data))) if _own else data


def packed(env):
    """A checked environment as bytes; the hook in it may be a function that only cloudpickle can
    pickle."""
    return by_value.dumps(env, protocol=5)


class Sealed:
    """A function (or class) for another environment: it is sent as bytes, which are unpickled at
    the first call, in a process that has its modules."""

    def __init__(self, fn, data: bytes | None = None, names=None):
        self.fn, self.data = fn, data
        self.__name__, self.__qualname__, self.__module__ = names or (  # pyright: ignore[reportAttributeAccessIssue]
            getattr(fn, "__name__", "f"),
            getattr(fn, "__qualname__", "f"),
            getattr(fn, "__module__", None),
        )

    def __reduce__(self):
        data = self.data if self.fn is None else by_value.dumps(self.fn, protocol=5)
        return Sealed, (None, data, (self.__name__, self.__qualname__, self.__module__))

    def opened(self):
        """The function or class, unpickled at the first call."""
        if self.fn is None:
            self.fn = pickle.loads(self.data or b"")
        return self.fn

    def __call__(self, *args, **kwargs):
        return self.opened()(*args, **kwargs)


def current():
    """The runtime_env of this process."""
    return RuntimeEnv(_validate=False, **merge(_job.facts().get("runtime_env"), _own))
