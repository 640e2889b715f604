"""The Python half of src/py/value/encode.c and py/value/decode.c. C tries the plain pickler before
it calls `dumps`.

This module also makes the messages about values that cannot be sent, which name the part that
prevents it.
"""

import _pickle as pickle  # without re and struct, which only the Python pickler needs
import functools
import sys
import types

from skate import _skate
from skate._deps import by_value, cloudpickle, logging, pa, re
from skate.calls import ambient_environment
from skate.exceptions import RayError

# ---- Pickling values.


def is_missing(e):
    """Whether the error e says that cloudpickle is not installed: then the value itself may be
    picklable."""
    return isinstance(e, ModuleNotFoundError) and e.name == "cloudpickle"


def dumps(obj):
    """(pickle, buffers) by cloudpickle: functions and classes of __main__, lambdas and local
    definitions are pickled by value."""
    buffers = []
    try:
        return cloudpickled(obj, buffers), buffers
    except BaseException as e:
        raise _cannot_send(obj, e) from None


def cloudpickled(obj, buffers=None, aside=None):
    """obj as bytes by cloudpickle; functions and classes that no other process could import are
    pickled by value.

    Args:
        obj: The value.
        buffers: A list to which the buffers that are left out of the bytes are appended; None: no
            buffer is left out.
        aside: A function that says whether a buffer is left out; None: all buffers are.
    """
    callback = None
    if buffers is not None:
        callback = (
            buffers.append if aside is None else lambda b: buffers.append(b) if aside(b) else True
        )
    while True:
        try:
            return by_value.dumps(obj, protocol=5, buffer_callback=callback)
        except BaseException as e:
            if not _by_value_from_now(e):
                raise
            if buffers is not None:
                buffers.clear()


TOLD = 10_000_000  # a warning is logged for a function of at least this many bytes


def dump_function(fn):
    try:
        data = cloudpickled(fn)
    except BaseException as e:
        raise _cannot_send(_users_own(fn), e) from None
    if len(data) >= TOLD:
        _tell_large(_users_own(fn), len(data))
    return ambient_environment.along(data)


def _by_value_from_now(e):
    """Whether e is about a module that the program has put into sys.modules itself. No other
    process can import it, so its functions and classes are pickled by value from now on."""
    found = isinstance(e, pickle.PicklingError) and re.search(
        r"import of module '([^']+)' failed", str(e)
    )
    module = sys.modules.get(found[1]) if found else None
    if not found or module is None:
        return False
    if found[1] in cloudpickle.list_registry_pickle_by_value():
        return False
    cloudpickle.register_pickle_by_value(module)
    return True


def _users_own(fn):
    """The function or class that the user wrote, without skate's wrappers around it."""
    while type(fn).__module__.startswith("skate.") and (hasattr(fn, "fn") or hasattr(fn, "cls")):
        fn = fn.fn if hasattr(fn, "fn") else fn.cls
    return fn


def function_name():
    """module.qualified name of the function that the current task runs."""
    f = _skate.current_function()
    if isinstance(f, tuple):
        cls, name = f
        m = getattr(cls, name, None) if isinstance(name, str) else name
        code = getattr(m, "__code__", None)
        # As in Ray, a coroutine is named by its full name, with the module.
        if code is not None and code.co_flags & 0x280:
            return f"{cls.__module__}.{getattr(m, '__qualname__', name)}"
        return f"{cls.__module__}.{cls.__name__}.{getattr(m, '__name__', name)}"
    f = _users_own(f)
    return f"{f.__module__}.{f.__name__}"


def in_coroutine():
    """Whether this code runs on an event loop."""
    asyncio = sys.modules.get("asyncio")
    return asyncio is not None and asyncio._get_running_loop() is not None


load_function = pickle.loads


# ---- Finding the part of a value that cannot be sent.

_KINDS = {  # the names of kinds of objects for messages
    "_thread.lock": "threading.Lock",
    "_thread.RLock": "threading.RLock",
    "_io.TextIOWrapper": "an open file",
    "_io.BufferedReader": "an open file",
    "_io.BufferedWriter": "an open file",
    "_io.BufferedRandom": "an open file",
    "_io.FileIO": "an open file",
    "builtins.traceback": "a traceback",
    "weakref.ReferenceType": "a weak reference",
    "builtins.generator": "a generator",
    "builtins.coroutine": "a coroutine",
    "builtins.async_generator": "an async generator",
    "builtins.frame": "a frame",
    "builtins.module": "a module",
    "builtins.memoryview": "a memoryview",
    "_thread._local": "threading.local",
    "skate._skate.ObjectRefGenerator": "an ObjectRefGenerator",
    "socket.socket": "a socket",
}


def _type_name(obj):
    t = type(obj)
    return f"{t.__module__}.{t.__qualname__}".removeprefix("builtins.")


def _kind(obj):
    t = type(obj)
    return _KINDS.get(f"{t.__module__}.{t.__qualname__}") or _type_name(obj)


def _name(obj):
    return getattr(obj, "__qualname__", "").replace("<locals>.", "").split(".")[-1] or None


def _used_globals(code):
    names = set(code.co_names)
    for const in code.co_consts:
        if hasattr(const, "co_names"):
            names |= _used_globals(const)
    return names


def _parts(obj):
    """(name of the part, part) for each of the objects that pickling obj would pickle."""
    if isinstance(obj, types.MethodType):
        yield "bound object", obj.__self__
        yield "method " + obj.__func__.__name__, obj.__func__
    elif isinstance(obj, types.FunctionType):
        for name, cell in zip(obj.__code__.co_freevars, obj.__closure__ or ()):
            try:
                yield "closure variable " + name, cell.cell_contents
            except ValueError:  # empty cell
                pass
        for name in sorted(_used_globals(obj.__code__)):
            if name in obj.__globals__:
                yield "global variable " + name, obj.__globals__[name]
        args = obj.__code__.co_varnames[: obj.__code__.co_argcount]
        for name, value in zip(reversed(args), reversed(obj.__defaults__ or ())):
            yield "default of argument " + name, value
        for name, value in (obj.__kwdefaults__ or {}).items():
            yield "default of argument " + name, value
        for name, value in vars(obj).items():
            yield "attribute " + name, value
    elif isinstance(obj, functools.partial):
        yield "function of the partial", obj.func
        for i, value in enumerate(obj.args):
            yield f"argument {i} of the partial", value
        for name, value in obj.keywords.items():
            yield f"argument {name} of the partial", value
    elif isinstance(obj, type):
        for name, value in vars(obj).items():
            if isinstance(value, (staticmethod, classmethod)):
                yield "method " + name, value.__func__
            elif isinstance(value, property):
                for f in filter(None, (value.fget, value.fset, value.fdel)):
                    yield "property " + name, f
            elif name not in ("__dict__", "__weakref__"):
                yield (
                    ("method " if isinstance(value, types.FunctionType) else "class attribute ")
                    + name,
                    value,
                )
        for base in obj.__bases__:
            yield "base class " + base.__name__, base
    elif isinstance(obj, dict):
        for key, value in obj.items():
            yield f"key {key!r:.40}", key
            yield f"value of {key!r:.40}", value
    elif isinstance(obj, (list, tuple, set, frozenset)) or _is(obj, "collections", "deque"):
        for i, value in enumerate(obj):
            yield f"item {i}", value
    elif _is(obj, "numpy", "ndarray"):
        if obj.dtype.hasobject and not obj.dtype.names:
            for i, value in enumerate(obj.flat):
                yield f"item {i}", value
    elif _is(obj, "pandas", "DataFrame"):
        for name, column in obj.items():
            yield f"column {name!r:.40}", column.to_numpy()
    elif _is(obj, "pandas", "Series"):
        yield "values", obj.to_numpy()
    else:
        names = dict(getattr(obj, "__dict__", None) or {})
        for cls in type(obj).__mro__:
            slots = cls.__dict__.get("__slots__", ())
            for name in (slots,) if isinstance(slots, str) else slots:
                if hasattr(obj, name):
                    names.setdefault(name, getattr(obj, name))
        for name, value in names.items():
            yield "attribute " + name, value
        yield "class " + type(obj).__name__, type(obj)
        yield from _reduced(obj)


def _is(obj, module, name):
    """Whether obj is an instance of a class, looked up without importing its module."""
    cls = getattr(sys.modules.get(module), name, None)
    return cls is not None and isinstance(obj, cls)


def _reduced(obj):
    """The values that __getstate__ or __reduce__ of obj's class returns instead of its
    attributes."""
    try:
        given = obj.__reduce_ex__(5)
    except Exception:
        return
    if not isinstance(given, tuple) or len(given) < 2:
        return
    for i, value in enumerate(given[1] if isinstance(given[1], tuple) else ()):
        if not isinstance(value, type):
            yield f"argument {i} of __reduce__", value
    if len(given) > 2 and given[2] is not None:
        yield "state", given[2]


def _can(obj):
    try:
        by_value.dumps(obj, protocol=5, buffer_callback=lambda b: None)
    except Exception:
        return False
    return True


def _culprit(obj, path, seen, budget):
    """The path to the smallest part that cannot be pickled."""
    for what, part in _parts(obj):
        if id(part) in seen or budget[0] <= 0:
            continue
        seen.add(id(part))
        budget[0] -= 1
        if not _can(part):
            return (
                _culprit(part, path + [what], seen, budget)
                if len(path) < 8
                else (path + [what], part)
            )
    return path, obj


def _cannot_send(obj, e):
    return (
        e
        if isinstance(e, (KeyboardInterrupt, MemoryError, RayError)) or is_missing(e)
        else unpicklable(obj, e)
    )


def unpicklable(obj, error):
    """A TypeError of three lines: which value, why, and where."""
    # For a value that is nested too deeply cloudpickle raises its own error, with this text.
    if isinstance(error, RecursionError) or "deep recursion" in str(error):
        return TypeError(f"a {_kind(obj)} is nested too deeply to be sent to another process")
    path, part = _culprit(obj, [], {id(obj)}, [300])
    what = _name(obj) if callable(obj) and _name(obj) else f"a value of type {_type_name(obj)}"
    inside = (
        f"create it inside {_name(obj)}"
        if callable(obj) and not isinstance(obj, type) and _name(obj)
        else "create it in the process that uses it"
    )
    if isinstance(obj, type):
        inside = f"create it in a method of {obj.__name__}, for instance its __init__"
    where = getattr(obj, "__code__", None)
    lines = [
        f"{' -> '.join(map(str, [what, *path]))}: {_kind(part)} cannot be sent to another process; {inside}",
        f"  reason: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}",
        f"  defined at {where.co_filename}:{where.co_firstlineno}"
        if where
        else f"  while pickling {_type_name(obj)}",
    ]
    return TypeError("\n".join(lines))


# ---- Finding the part of a value that is large.


def _tell_large(fn, size):
    found = heaviest([(_name(fn) or _type_name(fn), fn)], size)
    logging.getLogger("ray").warning(
        "%s is %.0f MB when it is sent to the workers%s: each of them gets it all. Put it into the object store (ref = skate.put(value)) and give the ref as an "
        "argument, or make it in the task.",
        _name(fn) or _type_name(fn),
        size / 1e6,
        f": {found[0]} ({found[1]}, {found[2] / 1e6:.0f} MB)" if found else "",
    )


class _Sink:
    """A file that only counts the bytes written."""

    def __init__(self):
        self.n = 0

    def write(self, data):
        self.n += memoryview(data).nbytes


def _weight(obj):
    """The bytes that obj takes when it is sent; 0 if it cannot be sent, or is pickled by its
    name."""
    if isinstance(obj, (bytes, bytearray, str)):
        return len(obj)
    if isinstance(obj, types.ModuleType):
        return 0
    sink, buffers = _Sink(), []
    try:
        by_value.Pickler(
            sink, protocol=5, buffer_callback=lambda b: buffers.append(b.raw().nbytes)
        ).dump(obj)
    except Exception:
        return 0
    return sink.n + sum(buffers)


def heaviest(parts, size):
    """(path, type, bytes) of the part that makes a value of `size` bytes large, found in pairs
    (name, value): goes down into functions, classes and objects as long as one part is most of the
    whole. None: no part is. It may pickle what it inspects, so it is for warnings only."""
    path, found = [], None
    while parts and len(path) < 6:
        weighed = [(size if len(parts) == 1 else _weight(part), what, part) for what, part in parts]
        n, what, part = max(weighed, key=lambda w: w[0])
        if 2 * n < size:
            break
        path.append(what)
        found, size = (" -> ".join(path), _kind(part), n), n
        inner = isinstance(part, (types.FunctionType, types.MethodType, type, functools.partial))
        if not inner and (_is_data(part) or not hasattr(part, "__dict__")):
            break
        parts = [
            (w, p)
            for w, p in _parts(part)
            if not w.startswith(("class ", "argument ", "state"))
            and not isinstance(p, types.ModuleType)
        ]
    return found


def _is_data(obj):
    return any(
        _is(obj, m, c)
        for m, c in (
            ("numpy", "ndarray"),
            ("pandas", "DataFrame"),
            ("pandas", "Series"),
            ("torch", "Tensor"),
        )
    )


# ---- Blocks of Datasets.


def load_block(schema_capsule, array_capsule):
    return pa.RecordBatch._import_from_c_capsule(schema_capsule, array_capsule)
