"""The Python half of src/py/py_encode.c and py_decode.c: what C does not do itself. C has tried the plain pickler when `dumps` is called.

Also here: what is said when something cannot be sent (find the culprit, name it), and how a user's exception travels."""

import _pickle as pickle  # without re and struct, which only the Python pickler needs
import gc
import os
import sys

from skate import _skate, options, surroundings

_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep


# ---- values


def _cloudpickle():
    import cloudpickle

    return cloudpickle


def dumps(obj):
    """(pickle, buffers) by cloudpickle: functions and classes of __main__, lambdas, local definitions go by value."""
    while True:
        buffers = []
        try:
            return _cloudpickle().dumps(obj, protocol=5, buffer_callback=buffers.append), buffers
        except BaseException as e:
            if not _by_value_from_now(e):
                raise _cannot_send(obj, e) from None


TOLD = 10_000_000  # bytes of a function that are worth a warning


def dump_function(fn):
    while True:
        try:
            data = _cloudpickle().dumps(fn, protocol=5)
            if len(data) >= TOLD:
                _tell_large(_users_own(fn), len(data))
            return surroundings.along(data)
        except BaseException as e:
            if not _by_value_from_now(e):
                raise _cannot_send(_users_own(fn), e) from None


def _by_value_from_now(e):
    """Whether e is about a module that was put into sys.modules by hand: no other process can import it, so what it holds is sent by value."""
    import re

    found = isinstance(e, pickle.PicklingError) and re.search(r"import of module '([^']+)' failed", str(e))
    module = sys.modules.get(found[1]) if found else None
    cp = _cloudpickle()
    if not found or module is None or found[1] in cp.list_registry_pickle_by_value():
        return False
    cp.register_pickle_by_value(module)
    return True


def _users_own(fn):
    """The function or class that the user wrote, without what skate wraps around it."""
    while type(fn).__module__.startswith("skate.") and (hasattr(fn, "fn") or hasattr(fn, "cls")):
        fn = fn.fn if hasattr(fn, "fn") else fn.cls
    return fn


def function_name():
    """module.qualified name of what the current task runs."""
    f = _skate.current_function()
    if isinstance(f, tuple):
        cls, name = f
        m = getattr(cls, name, None) if isinstance(name, str) else name
        code = getattr(m, "__code__", None)
        if code is not None and code.co_flags & 0x280:  # a coroutine is known by its full name, in Ray
            return f"{cls.__module__}.{getattr(m, '__qualname__', name)}"
        return f"{cls.__module__}.{cls.__name__}.{getattr(m, '__name__', name)}"
    f = _users_own(f)
    return f"{f.__module__}.{f.__name__}"


def in_coroutine():
    """Whether this code runs on an event loop."""
    asyncio = sys.modules.get("asyncio")
    return asyncio is not None and asyncio._get_running_loop() is not None


load_function = pickle.loads


# ---- what cannot be sent

_KINDS = {  # how people call them
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
    """(what it is called, part) of the things that pickling obj would pickle."""
    import functools
    import types

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
                yield ("method " if isinstance(value, types.FunctionType) else "class attribute ") + name, value
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
    """Whether it is one of a class that somebody else may have imported."""
    cls = getattr(sys.modules.get(module), name, None)
    return cls is not None and isinstance(obj, cls)


def _reduced(obj):
    """What __getstate__ or __reduce__ of its class give instead of its attributes."""
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
        _cloudpickle().dumps(obj, protocol=5, buffer_callback=lambda b: None)
    except Exception:
        return False
    return True


def _culprit(obj, path, seen, budget):
    """Path to the smallest part that cannot be pickled."""
    for what, part in _parts(obj):
        if id(part) in seen or budget[0] <= 0:
            continue
        seen.add(id(part))
        budget[0] -= 1
        if not _can(part):
            return _culprit(part, path + [what], seen, budget) if len(path) < 8 else (path + [what], part)
    return path, obj


def _cannot_send(obj, e):
    from skate.exceptions import RayError

    return e if isinstance(e, (KeyboardInterrupt, MemoryError, RayError)) else unpicklable(obj, e)


def unpicklable(obj, error):
    """The three-line TypeError: who, why, where."""
    if isinstance(error, RecursionError) or "deep recursion" in str(error):  # cloudpickle's word for it
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
        f"  defined at {where.co_filename}:{where.co_firstlineno}" if where else f"  while pickling {_type_name(obj)}",
    ]
    return TypeError("\n".join(lines))


# ---- what is large


def _tell_large(fn, size):
    import logging

    found = heaviest([(_name(fn) or _type_name(fn), fn)], size)
    logging.getLogger("ray").warning(
        "%s is %.0f MB when it is sent to the workers%s: each of them gets it all. Put it into the object store (ref = skate.put(value)) and give the ref as an "
        "argument, or make it in the task.",
        _name(fn) or _type_name(fn),
        size / 1e6,
        f": {found[0]} ({found[1]}, {found[2] / 1e6:.0f} MB)" if found else "",
    )


class _Sink:
    """A file that counts."""

    def __init__(self):
        self.n = 0

    def write(self, data):
        self.n += memoryview(data).nbytes


def _weight(obj):
    """Bytes of it when it is sent; 0: it cannot be, or goes by its name."""
    import types

    if isinstance(obj, (bytes, bytearray, str)):
        return len(obj)
    if isinstance(obj, types.ModuleType):
        return 0
    sink, buffers = _Sink(), []
    try:
        _cloudpickle().CloudPickler(sink, protocol=5, buffer_callback=lambda b: buffers.append(b.raw().nbytes)).dump(obj)
    except Exception:
        return 0
    return sink.n + sum(buffers)


def heaviest(parts, size):
    """(path, type, bytes) of the part that makes a value of `size` bytes large, from pairs (what it is called, value): down into functions, classes and
    objects as long as one part is most of it. None: there is none. May pickle what it looks at: for warnings."""
    import functools
    import types

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
            (w, p) for w, p in _parts(part) if not w.startswith(("class ", "argument ", "state")) and not isinstance(p, types.ModuleType)
        ]
    return found


def _is_data(obj):
    return any(_is(obj, m, c) for m, c in (("numpy", "ndarray"), ("pandas", "DataFrame"), ("pandas", "Series"), ("torch", "Tensor")))


# ---- errors of user code


def _frames(tb):
    import traceback

    frames = traceback.extract_tb(tb)
    return [f for f in frames if not f.filename.startswith(_HERE)]


def _only(e):
    """'ValueError: text', without the traceback."""
    import traceback

    return "".join(traceback.format_exception_only(type(e), e)).rstrip()


def _story(e, seen, head="Traceback (most recent call last):"):
    """Tracebacks of e and what it came from, in the order in which Python prints them, without frames of skate; each begins with `head`."""
    import traceback

    out = []
    if id(e) in seen:
        return out
    seen.add(id(e))
    if e.__cause__ is not None:
        out += _story(e.__cause__, seen, head)
        out += [_only(e.__cause__), "", "The above exception was the direct cause of the following exception:", ""]
    elif e.__context__ is not None and not e.__suppress_context__:
        out += _story(e.__context__, seen, head)
        out += [_only(e.__context__), "", "During handling of the above exception, another exception occurred:", ""]
    from skate.exceptions import told

    frames = _frames(e.__traceback__)
    if not frames and not told(e):  # an error of skate's own
        frames = traceback.extract_tb(e.__traceback__)[-1:]
    if frames or not head.startswith("Traceback"):
        out.append(head)
    if frames:
        out += "".join(traceback.format_list(frames)).rstrip().splitlines()
    return out


def _where(name, attempt):
    """(whether it is a part of a dataset, "ray::f() (pid=1, ip=127.0.0.1)"): what runs here, in the words of Ray."""
    t, f = _skate.current_task(), _skate.current_function()
    more = f", attempt={attempt}" if attempt else ""
    of_data = False
    if f is not None and t is not None:
        of_data = (getattr(f[0] if isinstance(f, tuple) else f, "__module__", None) or "").startswith("skate.data")
        if of_data:
            name = t[2]
        elif t[1]:
            from skate.actor import described

            name, what = described(f, t[1], name)
            more += what
    return of_data, f"ray::{name}() (pid={os.getpid()}, ip=127.0.0.1{more})"


def _pickle_alone(obj):
    """obj as bytes, from which the same class comes out again; None: it cannot be."""
    for dumps in (pickle.dumps, lambda o, n: _cloudpickle().dumps(o, protocol=n)):
        try:
            data = dumps(obj, 5)
            if (dumps is not pickle.dumps or b"__main__" not in data) and type(pickle.loads(data)) is type(obj):
                return data
        except Exception:
            pass
    return None


_READ_ONLY = "\n(values from the object store are shared, and so read-only: write to a copy, x = x.copy() or numpy.array(x))"


def install_hint():
    """The same hint in this process, for an exception that ends the program. Nothing is wrapped for it: an array of get() is numpy's own."""
    before = sys.excepthook

    def hook(cls, e, tb):
        if isinstance(e, ValueError) and "read-only" in str(e) and _READ_ONLY not in str(e):
            e.add_note(_READ_ONLY[1:])
        before(cls, e, tb)

    hook.of_skate = True
    if not hasattr(before, "of_skate"):
        sys.excepthook = hook


_ERROR_MAX = 1 << 20  # bytes: SK_ERROR_VALUE_MAX
_HEAD_MAX, _STORY_MAX = 128 << 10, 64 << 10  # characters of at most 4 bytes; the rest is for the exception itself


def _short(text, n):
    return text if len(text) <= n else f"{text[: n * 2 // 3]} ... ({len(text) - n} characters left out) ... {text[-n // 3 :]}"


_LOST = "__skate_lost__"  # attribute: names of those that an exception has left behind; see RayTaskError


def _bare_cause(cls, args, fields, attributes):
    from skate.exceptions import _bare

    e = _bare(cls)
    BaseException.args.__set__(e, args)  # pyright: ignore[reportAttributeAccessIssue]
    for name, value in fields.items():
        BaseException.__setattr__(e, name, value)
    e.__dict__.update(attributes)
    return e


def cause_bytes(e, room=_ERROR_MAX):
    """The user's exception as bytes for load_cause(), as much of it as fits: in the way of its class where that works, else (a constructor of two arguments, a lock
    among its attributes) by what it consists of. None: not even its class can be sent."""
    data = _pickle_alone(e)
    if data is not None and len(data) <= room:
        return data
    from skate.exceptions import _fields

    def part(value, most):
        got = _pickle_alone(value)
        return value if got is not None and len(got) <= most else _short(value if isinstance(value, str) else repr(value), 500)

    most = room // 8
    args = tuple(part(a, most) for a in e.args[:4])
    fields = {n: part(v, most) for n, v in _fields(e).items()}
    own = {n: v for n, v in list(vars(e).items())[:100] if len(_pickle_alone(v) or b" " * most) < most}
    lost = sorted(vars(e).keys() - own.keys())
    least = {"__notes__": own["__notes__"]} if "__notes__" in own else {}
    for attributes in (own | {_LOST: lost} if lost else own, least | {_LOST: sorted(vars(e).keys() - least.keys())}):
        try:
            data = _cloudpickle().dumps((_bare_cause, type(e), args, fields, attributes), protocol=5)
        except Exception:
            return None
        if len(data) <= room:
            return data
    return None


def load_cause(data):
    """What cause_bytes() was given."""
    cause = pickle.loads(data)
    return cause[0](*cause[1:]) if type(cause) is tuple else cause


def dumps_error(e, name, attempt):
    from skate.exceptions import RayTaskError

    of_data, where = _where(name, attempt)
    hint = _READ_ONLY if isinstance(e, ValueError) and "read-only" in str(e) else ""
    if isinstance(e, RayTaskError):  # a get() of another task inside this one
        only, cause = f"ray.exceptions.{type(e).__name__}: {e}", vars(e).get("raised", e.cause)
    else:
        only, cause = _only(e), e
    if of_data:  # of many operators and rows: what went wrong comes first
        first = e.text if isinstance(e, RayTaskError) else only + hint
        text = _short(first, _HEAD_MAX) + "\n" + _short("\n".join([*_story(e, set()), f"task {where}"]), _STORY_MAX)
    else:
        text = _short("\n".join(_story(e, set(), where)), _STORY_MAX) + "\n" + _short(only + hint, _HEAD_MAX)
    room = _ERROR_MAX - len(text.encode("utf-8", "backslashreplace")) - len(name) - 200
    return pickle.dumps((name, text.encode("utf-8", "backslashreplace").decode(), None if cause is None else cause_bytes(cause, room)), 5)


def load_error(kind, data):
    from skate import exceptions as ex

    name, text, cause = pickle.loads(data)
    try:
        cause = load_cause(cause) if cause is not None else None
    except Exception as e:  # its class is not here
        said = f"{text}\n(the exception itself could not be loaded here: {_only(e)})"
        if kind != 0xE2:
            return ex.UnserializableException(
                name, f"Failed to deserialize exception.\nOriginal exception:\nray.exceptions.RayTaskError: {said}"
            )
        cause, text = None, said
    text += surroundings.hint(cause) if cause is not None else ""
    if kind == 0xE2:
        e = ex.ActorDiedError(f"The actor died in __init__: an error raised in its creation task, {text}")
        e.cause, e.actor_init_failed, e.told = cause, True, text
        return e
    if isinstance(cause, KeyboardInterrupt):  # somebody interrupted the task, not this program
        e = ex.TaskCancelledError(error_message=text)
        e.cause = cause  # pyright: ignore[reportAttributeAccessIssue]
        return e
    if cause is None:
        cause = ex.RayError(f"the exception itself isn't serializable: {text.splitlines()[-1] if text else ''}")
    return ex.RayTaskError(name, text, cause).as_instanceof_cause()


# ---- blocks


def load_block(schema_capsule, array_capsule):
    import pyarrow

    return pyarrow.RecordBatch._import_from_c_capsule(schema_capsule, array_capsule)


# ---- fork server and workers


def preload_note(modules=(), path=None, cwd=None, hook=None):
    """Bytes for the fork server: import these, use this sys.path, be there; workers call the hook (a function or a name) first. Where `import ray` means
    skate here, it does there."""
    if hook is not None:
        hook = _cloudpickle().dumps(hook, protocol=5)
    as_ray = sys.modules.get("skate._private.as_ray")
    return pickle.dumps({"modules": list(modules), "path": path, "cwd": cwd, "hook": hook, "ray": bool(as_ray and as_ray.active())}, 5)


_setup_hook = None


def note(data):
    global _setup_hook
    d = pickle.loads(data)
    _setup_hook = d.get("hook") or _setup_hook
    if d["cwd"]:
        try:
            os.chdir(d["cwd"])
        except OSError:
            pass  # removed meanwhile: workers stay where the fork server is
    if d["path"] is not None:
        try:
            __import__(
                "cloudpickle"
            )  # and what it needs of the standard library, before a folder of the program can have modules of these names
        except ImportError:
            pass  # only the program's sys.path has it
        sys.path[:] = d["path"]
    gc.disable()  # nothing here is garbage
    if d["ray"]:
        from skate._private import as_ray

        as_ray.install()
    for name in d["modules"]:
        try:
            __import__(name)
            for more in getattr(sys.modules[name], "WORKERS_IMPORT", ()):  # what it imports itself only when it works
                __import__(more)
        except Exception as e:  # the task that needs it will raise properly
            print(f"skate: cannot preload {name}: {_only(e)}", file=sys.stderr)
    gc.freeze()  # collections in the workers would write to each object, and so copy every page that they share with us
    gc.enable()


def after_fork():
    """In a fresh worker."""
    if os.environ.get("SKATE_GPUS") or os.environ.get("SKATE_DEVICES"):  # the job has some
        _gpu_names[:] = [v for v in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if v]  # the driver's
        set_gpus(())
    for name in ("SKATE_FORK_FD", "SKATE_CTL"):  # the C side has unset them; os.environ was read before
        os.environ.pop(name, None)
    if sys.stdout is not None:
        sys.stdout.reconfigure(line_buffering=True)  # a worker may be killed at any time: what it printed is not to be lost in a buffer  # pyright: ignore[reportAttributeAccessIssue]
    numpy = sys.modules.get("numpy")
    if numpy is not None and "numpy.random" in sys.modules:
        numpy.random.seed(int.from_bytes(os.urandom(4), "little"))
    random = sys.modules.get("random")
    if random is not None:
        random.seed()
    import _signal
    import faulthandler

    _signal.signal(_signal.SIGINT, _skate.on_interrupt)  # a cancelled task; Ctrl-C is for the driver
    fd = _skate.crash_fd()
    if fd >= 0:  # what killed it is said in the driver's message
        faulthandler.enable(fd, all_threads=False)
    _skate.stack_install(False)
    if b"logging".hex() in os.environ.get("SKATE_JOB", ""):  # the module is not loaded for nothing
        from skate import api, logging_config

        if api.job().get("logging"):
            logging_config.LoggingConfig(**api.job()["logging"])._apply()
    if _setup_hook is not None:
        from skate import runtime_env

        runtime_env.run_hook(pickle.loads(_setup_hook))


def idle():
    """A worker has had nothing to do for a second. What Python and malloc keep is the C side's; Arrow has an allocator of its own."""
    stage = sys.modules.get("skate.data.worker.stage")
    if stage is not None:
        stage.forget()
    pyarrow = sys.modules.get("pyarrow")
    if pyarrow is not None:
        pyarrow.default_memory_pool().release_unused()


def run_coroutine(coro):
    """An `async def` task or method: run to its end (one call at a time)."""
    import asyncio

    global _loop
    if _loop is None or _loop.is_closed():
        _loop = asyncio.new_event_loop()
    return _loop.run_until_complete(coro)


_loop = None


def serve_async(fd, group):
    """The event loop of a concurrency group of an async actor (0: of all calls that name none): until the process is to leave."""
    import asyncio

    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)

    def step():
        if not _skate.async_step(group):
            loop.stop()

    loop.add_reader(fd, step)
    loop.run_forever()


async def _run_call(call, coro):
    try:
        result, error = await coro, None
    except BaseException as e:  # SystemExit, too: it would end the loop, and all other calls with it
        result, error = None, e
    _skate.async_done(call, result, error)
    error = None  # its traceback holds this frame: what the call had in hand would wait for the garbage collector


async def _run_stream(call, values, window):
    import asyncio

    error = None
    try:
        async for value in values:
            if window:  # may wait for the consumer: not on the loop
                go_on = await asyncio.get_running_loop().run_in_executor(None, _skate.async_yield, call, value)
            else:
                go_on = _skate.async_yield(call, value)
            if not go_on:
                await values.aclose()
                break
    except BaseException as e:
        error = e
    _skate.async_done(call, None, error)
    error = None  # as above


def start_async(call, coro, window):
    """Starts a call of an async actor: the asyncio.Task."""
    import asyncio

    work = _run_stream(call, coro, window) if hasattr(coro, "__anext__") else _run_call(call, coro)
    return asyncio.get_running_loop().create_task(work)


def apply_env(data):
    from skate import runtime_env

    runtime_env.apply(data)


def set_gpus(numbers):
    """In a worker, when what runs there has other GPUs (from 16 on: other devices) than what ran before: only these are seen by libraries that look now."""
    if os.environ.get("SKATE_GPUS"):
        gpus = [i for i in numbers if i < 16]
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(_gpu_names[i] if i < len(_gpu_names) else str(i) for i in gpus)
    kind = os.environ.get("SKATE_DEVICES")
    if kind:
        os.environ[options.DEVICES[kind]] = ",".join(str(i - 16) for i in numbers if i >= 16)


_gpu_names = []  # of the driver, in a worker


def leave_by_exit(e):
    """sys.exit() of user code in a worker: the process ends with that code, its exit handlers run."""
    import atexit

    code = e.code
    if code is None:
        code = 0
    elif not isinstance(code, int):
        print(code, file=sys.stderr)
        code = 1
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code & 0xFF)


def end_stray(task, worker, error):
    """In a process that a task forked: what the task called came back, or raised `error`. The process ends, as it would at the end of a program."""
    if isinstance(error, SystemExit):
        leave_by_exit(error)
    what = "came back from it"
    if error is not None:
        sys.excepthook(type(error), error, error.__traceback__)
        what = f"raised {type(error).__name__} in it"
    print(
        f"skate: process {os.getpid()}, which the task {task} had forked, {what} and ended: the task goes on in process {worker} alone. "
        "End a forked child by os._exit(), or use multiprocessing.",
        file=sys.stderr,
    )
    for out in (sys.stdout, sys.stderr):
        if out is not None:
            out.flush()
    os._exit(0 if error is None else 1)


def leave(actors):
    """The process of these actors ends in order (not killed): their __ray_shutdown__ is called."""
    for a in actors:
        end = getattr(type(a), "__ray_shutdown__", None)
        if end is not None:
            try:
                end(a)
            except Exception as e:
                sys.excepthook(type(e), e, e.__traceback__)


def check_call(func, skip, args, kwargs):
    """Called when a call does not fit its function: raises what Python would."""
    import inspect

    sig = inspect.signature(func, follow_wrapped=False)
    try:
        sig.bind(*([None] * skip), *args, **kwargs)
    except TypeError as e:
        raise TypeError(str(e)) from None  # without the frames of inspect


def install():
    from skate import ref

    _skate.set_hooks(
        dumps=dumps,
        dumps_error=dumps_error,
        load_error=load_error,
        load_block=load_block,
        dump_function=dump_function,
        load_function=load_function,
        note=note,
        after_fork=after_fork,
        run_coroutine=run_coroutine,
        serve_async=serve_async,
        apply_env=apply_env,
        set_gpus=set_gpus,
        start_async=start_async,
        check_call=check_call,
        leave=leave,
        idle=idle,
        ref_await=ref.await_ref,
        ref_future=ref.future_of,
    )
