"""@remote functions. `f.remote` is the C method of a Template, stored in the instance, so a call
runs no Python code of skate."""

from skate import _job, _skate, runtime_env
from skate._deps import binding
from skate.calls import options
from skate.ref import DynamicObjectRefGenerator


class _Wrapped:
    """A wrapper around the user's function, under its name."""

    def __init__(self, fn):
        self.fn = fn
        self.__name__ = self.__qualname__ = getattr(fn, "__name__", "f")
        self.__module__ = getattr(fn, "__module__", None)  # pyright: ignore[reportAttributeAccessIssue]


class _Retry(_Wrapped):
    """retry_exceptions=[classes]: the worker in which the exception was raised reads the classes
    (src/py/worker/result.c); other exceptions are not retried."""

    def __init__(self, fn, classes):
        super().__init__(fn)
        self.__skate_retry_on__ = tuple(classes)

    def __call__(self, *args, **kwargs):
        return self.fn(*args, **kwargs)


class Dynamic(_Wrapped):
    """num_returns="dynamic": one result, which contains a reference for each value that the
    generator yields. If the generator raises and is not retried, the last reference is that of its
    error."""

    def __init__(self, fn, retry_on=(), retries: int | None = 0):
        super().__init__(fn)
        self.retry_on, self.retries = retry_on, retries

    def __call__(self, *args, **kwargs):
        retries = _job.facts()["max_retries"] if self.retries is None else self.retries
        task = _skate.current_task()
        again = retries < 0 or (task is not None and task[3] < retries)
        return self._run(self.fn(*args, **kwargs), self.retry_on if again else ())

    @staticmethod
    def _run(values, retry_on=()):
        if not hasattr(values, "__next__"):
            raise TypeError(
                f'num_returns="dynamic": the function has to be a generator (it has to yield its values); it gave a {type(values).__name__}'
            )
        refs = []
        try:
            for v in values:
                refs.append(_skate.put(v))
        except Exception as e:
            if not refs or isinstance(e, retry_on):
                raise
            refs.append(_raised.remote(e))
        return DynamicObjectRefGenerator(refs)


def _raise(e):
    raise e


def _template(fn, o, base):
    retries = o.get("max_retries")
    retry_exceptions = o.get("retry_exceptions") or False
    returns = o.get("num_returns")
    if returns is None and options.is_generator(fn):
        returns = "streaming"
    target, more = fn, {} if retries is None else {"max_retries": retries}
    if returns == "dynamic":
        retry_on = Exception if retry_exceptions is True else tuple(retry_exceptions or ())
        target, returns = Dynamic(target, retry_on, retries), 1
    if not isinstance(retry_exceptions, bool):
        target, retry_exceptions = _Retry(target, retry_exceptions), bool(retry_exceptions)
    env = o.get("runtime_env")
    if env:
        more["env"] = runtime_env.packed(runtime_env.check(env))
        target = runtime_env.Sealed(target)
    group = options.group_of(o, 1, fn.__qualname__)
    if target is fn and base is not None:
        target = base
    window = o.get("_generator_backpressure_num_objects") or 0
    calls = o.get("max_calls")
    if calls is None and o.get("num_gpus"):
        calls = 1  # as in Ray: GPU memory that a library holds is freed when the process ends
    if calls:
        more["max_calls"] = calls
    return _skate.Template(
        "task",
        target,
        o.get("name") or fn.__name__,
        num_returns=returns,
        retry_exceptions=retry_exceptions,
        stream_window=max(window, 0),
        func=fn,
        **more,
        **options.resources_of(o),
        **group,
    )


def _is_plain(o):
    return (
        o.get("num_returns") != "dynamic"
        and not o.get("runtime_env")
        and isinstance(o.get("retry_exceptions") or False, bool)
    )


class RemoteFunction:
    """The result of @remote for a function: f.remote(...), f.options(...).remote(...)."""

    def __init__(self, fn, given, base=None):
        self._function = fn
        self._options = given
        self._own = base is None  # whether @remote made this object, and not options()
        self._template = _template(fn, given, base)
        # The Template that defines the function; the Templates of options() share its definition.
        self._base = self._template if _is_plain(given) else base
        self._function_name = f"{fn.__module__}.{fn.__qualname__}"
        decorate = getattr(fn, "__ray_invocation_decorator__", None)
        self.remote = (
            self._template.submit
            if decorate is None
            else decorated(decorate, self._template.submit)
        )
        unfit = options.parts_of_units(given)
        if unfit is not None:
            self.remote = lambda *args, **kwargs: _raise(unfit)
        self.__wrapped__ = fn
        self.__name__ = fn.__name__
        self.__qualname__ = fn.__qualname__
        self.__module__ = fn.__module__
        self.__doc__ = fn.__doc__

    def __call__(self, *args, **kwargs):
        raise TypeError(
            f"{self.__name__}() is a remote function, which runs in another process: call it as '{self.__name__}.remote()'."
        )

    def options(self, **given):
        """The same function with other options, e.g. f.options(num_cpus=2).remote()."""
        options.check(options.TASK, given, "remote functions")
        return RemoteFunction(self._function, {**self._options, **given}, self._base)

    def bind(self, *args, **kwargs):
        """A node of a graph for this task, which is submitted when the graph is executed
        (skate.dag).

        Args:
            args: Arguments of the function; nodes in them, also in lists and dicts, stand for their
                results.
            kwargs: Keyword arguments of the function; nodes in them stand for their results, too.
        """
        return binding.bind(self, self._own, args, kwargs)

    def _remote(self, args=None, kwargs=None, **given):
        """f.options(**given).remote(*args, **kwargs)."""
        f = self.options(**given) if given else self
        return f.remote(*(args or ()), **(kwargs or {}))

    def __reduce__(self):
        return RemoteFunction, (self._function, self._options)

    def __repr__(self):
        return f"<skate.RemoteFunction {self.__module__}.{self.__qualname__}>"


def decorated(decorate, submit):
    """The submit function for a function with its own way of being called: `decorate` gets a
    function f(args, kwargs) and returns another such function."""
    call = decorate(lambda args, kwargs: submit(*args, **kwargs))
    return lambda *args, **kwargs: call(args, kwargs)


_raised = RemoteFunction(_raise, {"num_cpus": 0, "max_retries": 0})
