"""skate.as_ray(): makes `import ray`, and everything below it, mean skate, in this process and in
the workers of its engine.

A finder at the front of sys.meta_path returns the module object of `skate.x.y` for `ray.x.y`, so
each class exists once, and pickles contain skate's names everywhere. An installed Ray is never
imported. Workers get the finder through the note to their fork server (_hooks.preload_note);
processes that multiprocessing spawns find a package `ray` on sys.path that installs it. Other
programs that the driver starts find an installed Ray."""

import importlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import importlib.util
import os
import sys
from typing import Any

from skate import _skate

# imported here: the finder needs this module, and cannot find it for itself
from skate.compat import absent

SPAWNED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "spawned")
# The version of Ray whose names and defaults skate has: packages compare ray.__version__ with it.
VERSION = "2.55.0"


def _ours(name):
    """The name of skate's module for a module of ray; None if the name is not below ray."""
    return "skate" + name[3:] if name == "ray" or name.startswith("ray.") else None


def _link():
    """Enters every loaded module of skate in sys.modules under ray's name as well. All modules are
    entered at once, because importlib sets a freshly imported module as an attribute of its
    package, where a function of the same name may exist (util.placement_group), but does not do so
    for modules that are already in sys.modules."""
    for name, module in list(sys.modules.items()):
        if name == "skate" or name.startswith("skate."):
            sys.modules.setdefault("ray" + name[5:], module)


class _Loader(importlib.abc.Loader):
    def create_module(self, spec):
        return None

    def exec_module(self, module):
        name = str(module.__spec__ and module.__spec__.name)
        # _link() below enters skate's module under this name, and importlib takes that entry.
        del sys.modules[name]
        importlib.import_module(str(_ours(name)))
        _link()

    # inspect, linecache and runpy ask the loader for a module's source.
    def get_source(self, name):
        return _loader_of(_ours(name)).get_source(_ours(name))

    def get_code(self, name):
        return _loader_of(_ours(name)).get_code(_ours(name))


def _loader_of(ours) -> Any:
    spec = importlib.util.find_spec(ours)
    return spec and spec.loader


class _Distribution(importlib.metadata.Distribution):
    """The metadata of the package "ray" for importlib.metadata."""

    _files = {
        "METADATA": f"Metadata-Version: 2.1\nName: ray\nVersion: {VERSION}\nSummary: skate under Ray's name\n",
        "top_level.txt": "ray\n",
    }

    def read_text(self, filename):
        return self._files.get(filename)

    def locate_file(self, path):
        return os.path.join(
            os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), path
        )


def _asked_by_find_spec():
    """Whether importlib.util.find_spec() called the finder. It returns None for a missing module;
    an import gets an error with the reason."""
    frame = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__", "").startswith(
        ("importlib", "_frozen_importlib")
    ):
        if frame.f_globals["__name__"] == "importlib.util":
            return True
        frame = frame.f_back
    return False


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        ours = _ours(name)
        if ours is None and not (name.startswith("skate.") and absent.why(name)):
            return None
        spec: Any = importlib.util.find_spec(ours) if ours else None
        if not spec:
            if _asked_by_find_spec():
                return None
            # `from ray import x` tries to import ray.x, and ignores only a ModuleNotFoundError with
            # this name.
            raise ModuleNotFoundError(absent.text(ours or name), name=ours or "ray" + name[5:])
        out = importlib.machinery.ModuleSpec(
            name,
            _Loader(),
            origin=spec.origin,
            is_package=spec.submodule_search_locations is not None,
        )
        if out.submodule_search_locations is not None:
            out.submodule_search_locations.extend(spec.submodule_search_locations or ())
        return out

    def find_distributions(self, context=None):
        name = getattr(context, "name", None)
        return [_Distribution()] if name is None or name.lower() == "ray" else []


_finder = _Finder()


def active():
    """Whether `import ray` means skate here."""
    return _finder in sys.meta_path


def install():
    """Puts the finder at the front of sys.meta_path, and sets skate's version to Ray's."""
    if active():
        return
    sys.meta_path.insert(0, _finder)
    if SPAWNED not in sys.path:
        sys.path.insert(1, SPAWNED)  # behind the script's folder, before an installed Ray
    vars(sys.modules["skate"])["__version__"] = VERSION


def as_ray():
    """From now on `import ray`, and every import below it, means skate: in this process, and in the
    workers of the engine that it starts.

    It must be called before the first `import ray` and before skate.init(), else it raises
    RuntimeError. skate.__version__ becomes the version of the Ray whose names skate has, because
    packages compare it. `python -m skate run SCRIPT` does the same for a whole program. A second
    call does nothing.

    >>> import skate
    >>> skate.as_ray()
    >>> import ray"""
    if active():
        return
    ray = sys.modules.get("ray")
    if ray is not None and ray is not sys.modules["skate"]:
        where = getattr(ray, "__file__", None) or "somewhere"
        raise RuntimeError(
            f"skate.as_ray(): ray is imported already, from {where}; call as_ray() before the first `import ray`"
        )
    if _skate.is_initialized() and not _skate.in_worker():
        raise RuntimeError(
            "skate.as_ray(): the engine runs already, with workers that know no `ray`; call as_ray() before init(), or shutdown() first"
        )
    install()
