"""@remote functions. `f.remote` is the C method of a Template, stored in the instance: a call runs no Python of ours."""

from skate import _skate, options


class _Retry:
    """retry_exceptions=[classes]: the engine only knows "all or none", so the choice is made where the exception is."""

    def __init__(self, fn, classes, n):
        self.fn, self.classes, self.n = fn, tuple(classes), n
        self.__name__ = self.__qualname__ = getattr(fn, "__name__", "f")

    def __call__(self, *args, **kwargs):
        left = self.n
        while True:
            try:
                return self.fn(*args, **kwargs)
            except self.classes:
                if left == 0:
                    raise
                left -= 1


def _template(fn, o, base):
    from skate.config import KNOBS

    retries = o.get("max_retries")
    retries = KNOBS["max_retries"][0] if retries is None else retries
    retry_exceptions = o.get("retry_exceptions") or False
    returns = o.get("num_returns")
    if returns is None and options.is_generator(fn):
        returns = "streaming"
    target = fn if base is None else base
    if not isinstance(retry_exceptions, bool):
        target, retry_exceptions = _Retry(fn, retry_exceptions, retries), False
    window = o.get("_generator_backpressure_num_objects") or 0
    return _skate.Template(
        "task",
        target,
        o.get("name") or fn.__name__,
        num_returns=returns,
        max_retries=retries,
        retry_exceptions=retry_exceptions,
        stream_window=window,
        func=fn,
        **options.resources_of(o),
    )


class RemoteFunction:
    """What @remote makes of a function: f.remote(...), f.options(...).remote(...)."""

    def __init__(self, fn, given, base=None):
        self._function = fn
        self._options = given
        self._template = _template(fn, given, base)
        self.remote = self._template.submit
        self.__wrapped__ = fn
        self.__name__ = fn.__name__
        self.__qualname__ = fn.__qualname__
        self.__module__ = fn.__module__
        self.__doc__ = fn.__doc__

    def __call__(self, *args, **kwargs):
        raise TypeError(
            f"Remote functions cannot be called directly. Instead of running '{self.__name__}()', try '{self.__name__}.remote()'."
        )

    def options(self, **given):
        """The same function with other options, e.g. f.options(num_cpus=2).remote()."""
        options.check(options.TASK, given, "remote functions")
        return RemoteFunction(self._function, {**self._options, **given}, self._template)

    def __reduce__(self):
        return RemoteFunction, (self._function, self._options)

    def __repr__(self):
        return f"<skate.RemoteFunction {self.__module__}.{self.__qualname__}>"
