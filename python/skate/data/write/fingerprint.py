"""The fingerprint of a job: a list of (label, digest) of its operators (their functions' code and
arguments), its input files (size and time), and its options.

Two programs with equal fingerprints do the same work, as far as the fingerprint can see. It sees
the code of functions, of classes and of functions in the same module that they call; defaults,
closures and constants. It does not see other modules, files that functions open, or the time of
day. Nothing in it depends on the process (no addresses, no hash seeds), so the same program gives
the same list each time it is started.
"""

from __future__ import annotations

import functools
import os
import types
from typing import Any

from skate._deps import cloudpickle, hashlib
from skate.data.plan.node import Node
from skate.data.run.request import RunRequest

_PLAIN = (type(None), bool, int, float, complex, str, bytes)
_CONTEXT = ("target_max_block_size", "target_min_block_size", "on_error", "max_errored_blocks")


def fingerprint(request: RunRequest, write: dict[str, Any]) -> list[tuple[str, bytes]]:
    """The fingerprint of a write. write: the parameters of the writer, without its target."""
    nodes: list[Node] = []
    node = request.node
    while True:
        nodes.append(node)
        if not node.inputs:
            break
        node = node.inputs[0]
    out = []
    for n in reversed(nodes):
        more = n.each_run(n.runs) if n.each_run is not None else {}
        params = {**n.params, **more.get("params", {})}
        params.pop("stamps", None)  # the input files have their own part of the list
        units = more.get("units", n.options.get("units"))
        out.append((n.label, of(n.op, params, n.options.get("batch_rows", 0), units)))
    files = list(dict.fromkeys(request.facts.files))
    out.insert(1, (f"{len(files)} input files", of(_stats(files, nodes[-1].params.get("fs")))))
    out.append(("settings", of({k: getattr(request.context, k) for k in _CONTEXT})))
    more = [k for k, usual in (("names", None), ("flavor", "hive")) if write[k] != usual]
    out.append(
        (
            "write",
            of(
                {
                    k: write[k]
                    for k in ("format", "max_rows", "partition_cols", "args", "stream", *more)
                }
            ),
        )
    )
    return out


def _stats(files: list[str], fs: Any) -> list[tuple[str, int, int]]:
    """(path, bytes, time of the last change in ns) of each file."""
    if not files:
        return []
    if fs is not None:
        return [(i.path, i.size or 0, i.mtime_ns or 0) for i in fs.get_file_info(files)]
    out = []
    for f in files:
        s = os.stat(f)
        out.append((f, s.st_size, s.st_mtime_ns))
    return out


def of(*values: Any) -> bytes:
    """A digest of values of any kind."""
    h = hashlib.blake2b(digest_size=16)
    _Walk(h).value(values)
    return h.digest()


class _Walk:
    def __init__(self, h: Any):
        self.h = h
        self.seen: dict[int, int] = {}
        self.keep: list[Any] = []  # keeps objects alive, so that no two have the same id()

    def put(self, kind: str, data: bytes = b"") -> None:
        self.h.update(f"{kind}:{len(data)}:".encode() + data)

    def value(self, v: Any) -> None:
        if isinstance(v, _PLAIN):
            self.put(
                type(v).__name__,
                v if isinstance(v, bytes) else repr(v).encode("utf-8", "surrogatepass"),
            )
            return
        if id(v) in self.seen:
            self.put("again", str(self.seen[id(v)]).encode())
            return
        self.seen[id(v)] = len(self.seen)
        self.keep.append(v)
        if isinstance(v, (list, tuple)):
            self.put(type(v).__name__, str(len(v)).encode())
            for x in v:
                self.value(x)
        elif isinstance(v, dict):
            self.put("dict", str(len(v)).encode())
            for k, x in v.items():
                self.value(k)
                self.value(x)
        elif isinstance(v, (set, frozenset)):
            self.put("set", b"".join(sorted(of(x) for x in v)))
        elif isinstance(v, types.FunctionType):
            self.function(v)
        elif isinstance(v, types.MethodType):
            self.value((v.__self__, v.__func__))
        elif isinstance(v, functools.partial):
            self.value(("partial", v.func, v.args, v.keywords))
        elif isinstance(v, types.CodeType):
            self.code(v)
        elif isinstance(v, types.ModuleType):
            self.put("module", v.__name__.encode())
        elif isinstance(v, type):
            self.cls(v)
        elif isinstance(v, types.BuiltinFunctionType):
            self.put("builtin", f"{v.__module__}.{v.__qualname__}".encode())
        else:
            self.other(v)

    def function(self, f: types.FunctionType) -> None:
        self.put("function", f.__qualname__.encode())
        self.code(f.__code__)
        self.value(f.__defaults__)
        self.value(f.__kwdefaults__)
        for c in f.__closure__ or ():
            try:
                self.value(c.cell_contents)
            except ValueError:
                self.put("empty cell")
        for n in _names(f.__code__):
            g = f.__globals__.get(n)
            mine = getattr(g, "__module__", None) == f.__module__ and isinstance(
                g, (types.FunctionType, type)
            )
            if n in f.__globals__ and (
                mine
                or isinstance(g, _PLAIN)
                or (isinstance(g, (tuple, frozenset)) and all(isinstance(x, _PLAIN) for x in g))
            ):
                self.put("global", n.encode())
                self.value(g)

    def code(self, c: types.CodeType) -> None:
        self.put("code", c.co_code)
        self.value((c.co_names, c.co_varnames, c.co_argcount, c.co_kwonlyargcount, c.co_flags))
        for x in c.co_consts:
            self.code(x) if isinstance(x, types.CodeType) else self.value(x)

    def cls(self, c: type) -> None:
        self.put("class", f"{c.__module__}.{c.__qualname__}".encode())
        if c.__module__ == "builtins" or c.__module__.split(".")[0] in (
            "numpy",
            "pandas",
            "pyarrow",
            "torch",
            "skate",
        ):
            return
        for b in c.__bases__:
            self.value(b)
        for k, x in vars(c).items():
            x = getattr(x, "__func__", x)
            if isinstance(x, (types.FunctionType, property, *_PLAIN, tuple)) and k not in (
                "__module__",
                "__doc__",
                "__firstlineno__",
            ):
                self.put("attribute", k.encode())
                self.value(x.fget if isinstance(x, property) else x)

    def other(self, v: Any) -> None:
        """Adds an object to the digest: its class and attributes, or its pickle if it has no
        attributes."""
        t = type(v)
        self.put("object", f"{t.__module__}.{t.__qualname__}".encode())
        state = getattr(v, "__dict__", None)
        if state and not t.__module__.startswith(("numpy", "pyarrow", "pandas")):
            if t.__module__.split(".")[0] not in ("skate",):
                self.cls(t)
            self.value(state)
            return
        try:
            self.put("pickle", cloudpickle.dumps(v, 5))
        except Exception as e:
            raise TypeError(
                f"resume: an argument of type {t.__module__}.{t.__qualname__} cannot be told from another one ({e}); leave it out of the function"
            ) from None


def _names(c: types.CodeType) -> list[str]:
    """The names that a function, and functions defined inside it, may look up in its module."""
    out = list(c.co_names)
    for x in c.co_consts:
        if isinstance(x, types.CodeType):
            out += _names(x)
    return list(dict.fromkeys(out))
