"""@remote classes: ActorClass, ActorHandle, ActorMethod. A method object is made at its first use and kept in the handle; its `remote` is the
C method of its Template. A handle that goes to another process takes the names of the methods with it, not the class."""

from skate import _skate, options


def method(**given):
    """@skate.method(num_returns=2): options of one method of an actor class."""
    if not given:
        raise AssertionError(
            "The @skate.method decorator must be applied using at least one of the arguments: " + ", ".join(options.METHOD)
        )
    options.check(options.METHOD, given, "methods")

    def mark(fn):
        fn.__skate_method__ = given
        return fn

    return mark


def _methods(cls):
    """Name -> (options, function) of everything that can be called on an instance."""
    out = {}
    for c in reversed(cls.__mro__):
        for name, f in c.__dict__.items():
            inner = f.__func__ if isinstance(f, (staticmethod, classmethod)) else f
            if not callable(inner) or isinstance(inner, type) or (name.startswith("__") and name != "__call__"):
                continue
            o = dict(getattr(inner, "__skate_method__", {}))
            if o.get("num_returns") is None and options.is_generator(inner):
                o["num_returns"] = "streaming"
            out[name] = (o, f if f is inner else None)
    return out


class ActorMethod:
    """handle.method: .remote(...), .options(...).remote(...)."""

    def __init__(self, token, cls_name, name, given, func):
        self._token, self._cls_name, self._name, self._given, self._func = token, cls_name, name, given, func
        retry = given.get("retry_exceptions") or False
        if not isinstance(retry, bool):
            raise NotImplementedError("retry_exceptions of a method: True or False")
        self._template = _skate.Template(
            "method",
            (token, name),
            f"{cls_name}.{name}",
            num_returns=given.get("num_returns"),
            max_retries=given.get("max_task_retries") or 0,
            retry_exceptions=retry,
            stream_window=given.get("_generator_backpressure_num_objects") or 0,
            func=func,
        )
        self.remote = self._template.submit

    def __call__(self, *args, **kwargs):
        raise TypeError(
            f"Actor methods cannot be called directly. Instead of running 'object.{self._name}()', try 'object.{self._name}.remote()'."
        )

    def options(self, **given):
        options.check(options.METHOD, given, "methods")
        return ActorMethod(self._token, self._cls_name, self._name, {**self._given, **given}, self._func)

    def __repr__(self):
        return f"<skate.ActorMethod {self._cls_name}.{self._name}>"


class _Ready:
    def __init__(self, token):
        self._token = token

    def remote(self):
        return self._token.ready


class ActorHandle:
    """A reference to an actor. The actor ends when the last handle on it, in whatever process or object, is gone."""

    def __init__(self, token, cls_name, methods):
        self._token = token
        self._cls_name = cls_name
        self._methods = methods

    def __getattr__(self, name):
        methods = self.__dict__.get("_methods")
        found = methods.get(name) if methods is not None else None
        if found is None:
            if name == "__ray_ready__" and methods is not None:
                return _Ready(self._token)
            raise AttributeError(f"'ActorHandle' of {self.__dict__.get('_cls_name')} has no method '{name}'")
        m = self.__dict__[name] = ActorMethod(self._token, self._cls_name, name, *found)
        return m

    @property
    def _actor_id(self):
        return self._token.id

    def __reduce__(self):
        return ActorHandle, (self._token, self._cls_name, {k: (o, None) for k, (o, _) in self._methods.items()})

    def __eq__(self, other):
        return isinstance(other, ActorHandle) and other._token.id == self._token.id

    def __hash__(self):
        return hash(self._token.id)

    def __repr__(self):
        return f"Actor({self._cls_name}, {self._token.id:x})"


_named = {}  # name -> handle (weak, unless detached): of this process
_detached = {}


def _find(name):
    entry = _named.get(name)
    handle = entry() if entry is not None else None
    if handle is None or handle._token is None:
        _named.pop(name, None)
        return None
    return handle


def forget_names():
    _named.clear()
    _detached.clear()


def forget_handle(handle):
    for names in (_named, _detached):
        for name in [n for n, h in names.items() if (h() if names is _named else h) == handle]:
            del names[name]


def get_actor(name, namespace=None):
    """The actor that was made with options(name=...) by this process."""
    if not name:
        raise ValueError("Please supply a non-empty value to get_actor")
    handle = _find(name)
    if handle is None:
        where = " (names are known in the process that made the actor; pass the handle to the task)" if _skate.in_worker() else ""
        raise ValueError(f"Failed to look up actor with name '{name}'. No living actor of this name was made here{where}.")
    return handle


class ActorClass:
    """What @remote makes of a class: A.remote(...), A.options(...).remote(...)."""

    def __init__(self, cls, given, base=None):
        self._cls = cls
        self._options = given
        self._methods = _methods(cls) if base is None else base._methods
        init = cls.__init__ if callable(getattr(cls.__init__, "__code__", None).__class__) and hasattr(cls.__init__, "__code__") else None
        self._template = _skate.Template(
            "actor",
            cls if base is None else base._template,
            given.get("name") or cls.__name__,
            max_restarts=given.get("max_restarts") or 0,
            max_task_retries=given.get("max_task_retries") or 0,
            func=init,
            **options.resources_of(given),
        )
        self.__wrapped__ = cls
        self.__name__ = cls.__name__
        self.__qualname__ = cls.__qualname__
        self.__module__ = cls.__module__
        self.__doc__ = cls.__doc__

    def __call__(self, *args, **kwargs):
        raise TypeError(f"Actors cannot be instantiated directly. Instead of '{self.__name__}()', use '{self.__name__}.remote()'.")

    def __mro_entries__(self, bases):
        raise TypeError(
            f"Inheriting from the actor class '{self.__name__}' is not possible: inherit from the plain class and decorate the result."
        )

    def options(self, **given):
        options.check(options.ACTOR, given, "actors")
        return ActorClass(self._cls, {**self._options, **given}, self)

    def remote(self, *args, **kwargs):
        """Starts an actor; returns its handle at once."""
        o = self._options
        name = o.get("name")
        if name is not None:
            old = _find(name)
            if old is not None and o.get("get_if_exists"):
                return old
            if old is not None:
                from skate.exceptions import ActorAlreadyExistsError

                raise ActorAlreadyExistsError(
                    f"The name {name} is already taken. Please use a different name or get the existing actor using "
                    f"skate.get_actor('{name}')"
                )
        handle = ActorHandle(self._template.submit(*args, **kwargs), self.__name__, self._methods)
        if o.get("lifetime") == "detached":
            _detached[name or handle._token.id] = handle
        if name is not None:
            import weakref

            _named[name] = weakref.ref(handle)
        return handle

    def __reduce__(self):
        return ActorClass, (self._cls, self._options)

    def __repr__(self):
        return f"<skate.ActorClass {self.__module__}.{self.__qualname__}>"
