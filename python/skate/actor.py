"""@remote classes: ActorClass, ActorHandle, ActorMethod. The object of a method is made at its
first use and stored in the handle; its `remote` is the C method of its Template. A handle that is
sent to another process contains the names of the methods, not the class.

The engine implements names, namespaces, lifetimes and concurrency groups (engine/books/names.c,
local/driver/actors/actor.c); this module only parses their options."""

import _pickle as pickle  # without re and struct
import functools
import types
import weakref

from skate import _did_you_mean, _job, _skate, runtime_env
from skate._deps import binding, cloudpickle
from skate.calls import options
from skate.calls.in_actor import here, me
from skate.exceptions import ActorAlreadyExistsError
from skate.ids import ActorID
from skate.remote_function import Dynamic, decorated
from skate.terminal import notebook

TYPE_CHECKING = False  # typing is slow to import
if TYPE_CHECKING:
    from typing import Any

ASYNC_CONCURRENCY = 1000  # max_concurrency of an actor with async methods whose options name none


class ActorClassInheritanceException(TypeError):
    """A class inherits from an actor class."""


def method(*args, **given):
    """Decorator that sets the options of one method of an actor class. Without arguments,
    @skate.method marks a method for type checkers.

    Args:
        args: The method, if there are no options.
        given: num_returns, max_task_retries, retry_exceptions, concurrency_group, name,
            _generator_backpressure_num_objects: see skate.remote; enable_task_events and
            tensor_transport have no effect.

    Raises:
        AssertionError: There are both positional arguments and options, or neither.
        ValueError, TypeError: An option is unknown, or its value wrong.

    Example:
        >>> import skate
        >>> @skate.remote
        ... class Pair:
        ...     @skate.method(num_returns=2)
        ...     def both(self):
        ...         return 1, 2
        >>> skate.get(Pair.remote().both.remote())
        [1, 2]
    """
    if len(args) == 1 and callable(args[0]) and not given:
        return args[0]
    if args or not given:
        raise AssertionError(
            "@skate.method(...) takes keywords only, and at least one of: "
            + ", ".join(options.METHOD)
        )
    options.check(options.METHOD, given, "methods")

    def mark(fn):
        fn.__skate_method__ = given
        return fn

    return mark


def _methods(cls):
    """{name: (options, function)} of everything that can be called on an instance."""
    out = {}
    for c in reversed(cls.__mro__):
        for name, f in c.__dict__.items():
            inner = f.__func__ if isinstance(f, (staticmethod, classmethod)) else f
            if (
                not callable(inner)
                or isinstance(inner, type)
                or (name.startswith("__") and name != "__call__")
            ):
                continue
            # an overriding method keeps the options of the method that it overrides
            o = {**(out[name][0] if name in out else {}), **getattr(inner, "__skate_method__", {})}
            if o.get("num_returns") is None and options.is_generator(inner):
                o["num_returns"] = "streaming"
            decorate = getattr(inner, "__ray_invocation_decorator__", None)
            if decorate is not None:
                o["_decorate"] = decorate
            out[name] = (o, f if f is inner and decorate is None else None)
    return out


def _is_async(cls):
    return any(
        options.is_async(f.__func__ if isinstance(f, (staticmethod, classmethod)) else f)
        for c in cls.__mro__
        for f in c.__dict__.values()
    )


# ---- The process of the actor: making the instance, ending it.


class Maker:
    """Is sent instead of an actor's class: makes the instance, and records the facts about the
    actor that code in it may read."""

    def __init__(self, cls, meta, name, env, resources):
        self.cls, self.meta, self.name = cls, meta, name
        self.resources = {
            **{
                k: float(resources[n])
                for k, n in (("CPU", "num_cpus"), ("GPU", "num_gpus"), ("memory", "memory"))
                if resources.get(n)
            },
            **{k: float(v) for k, v in (resources.get("resources") or {}).items() if v},
        }
        self.restarts = 0
        self.instance = None  # in the actor's process: a weak reference
        if env:
            self.cls = runtime_env.Sealed(cls)
        self.__name__, self.__module__ = cls.__name__, cls.__module__

    def __call__(self, *args, **kwargs):
        t = _skate.current_task()
        assert t is not None  # an actor is made by a task
        here[t[1]] = self
        self.restarts = t[3]
        cls = self.cls if isinstance(self.cls, type) else self.cls.opened()
        return (
            self._made_async(cls, args, kwargs)
            if options.is_async(cls.__init__)
            else self._known(cls(*args, **kwargs))
        )

    async def _made_async(self, cls, args, kwargs):
        made = cls.__new__(cls, *args, **kwargs)
        await made.__init__(*args, **kwargs)
        return self._known(made)

    def _known(self, made):
        try:
            self.instance = weakref.ref(made)
        except TypeError:  # a class with __slots__: errors name the class only
            pass
        return made


def current():
    """A handle of the actor that this code runs in; the handle does not keep the actor alive."""
    maker, number = me()
    return ActorHandle(_skate.weak_token(number), maker.meta)


# ---- Calls that every actor has. In the worker these functions are called with the instance
# instead of a method of its class (src/py/worker/result.c)


def __ray_ready__(self):
    return True


def __ray_call__(self, fn, *args, **kwargs):
    return fn(self, *args, **kwargs)


def __ray_terminate__(self):
    exit_actor()


def exit_actor():
    """Ends the actor in whose method (or constructor) this is called: no other call is begun, and
    calls that wait end with ActorDiedError. It does not return. TypeError outside actors."""
    try:
        _skate.actor_exit()
    except TypeError:
        raise TypeError(
            "exit_actor API is called on a non-actor worker; it can be called in methods of actors only"
        ) from None
    raise ActorExit


class ActorExit(BaseException):
    """Leaves the method in which exit_actor() was called; callers never see it."""


def dynamic(name):
    """The function that runs for a method with num_returns="dynamic"."""

    def run(self, *args, **kwargs):
        return Dynamic._run(getattr(type(self), name)(self, *args, **kwargs))

    return run


BUILT_IN = {
    "__ray_ready__": __ray_ready__,
    "__ray_call__": __ray_call__,
    "__ray_terminate__": __ray_terminate__,
}


# ---- ActorMethod: handle.method.


class ActorMethod:
    """handle.method: .remote(...), .options(...).remote(...)."""

    def __init__(self, token, meta, name, given, func):
        # Without a reference to the handle, which holds its methods: a cycle would keep the actor
        # alive until a garbage collection.
        self._token, self._meta, self._name, self._given, self._func = (
            token,
            meta,
            name,
            given,
            func,
        )
        self._cls_name = meta.cls_name
        retry = given.get("retry_exceptions")
        retries = given.get("max_task_retries")
        more = {}
        group = given.get("concurrency_group")
        if group is not None:
            if group not in meta.groups:
                raise ValueError(
                    f"{self._cls_name} has no concurrency group '{group}'; it has {sorted(meta.groups) or 'none'}"
                )
            more["group"] = meta.groups[group]
        more_def, returns = (), given.get("num_returns")
        is_list = bool(retry) and not isinstance(retry, bool)
        if is_list or returns == "dynamic":
            more_def = (
                cloudpickle.dumps(
                    (
                        tuple(retry) if isinstance(retry, (list, tuple)) and retry else None,
                        returns == "dynamic",
                    ),
                    protocol=5,
                ),
            )
            returns = 1 if returns == "dynamic" else returns
        self._template = _skate.Template(
            "method",
            (token, name, *more_def),
            given.get("name") or f"{self._cls_name}.{name}",
            num_returns=returns,
            max_retries=meta.max_task_retries if retries is None else retries,
            retry_exceptions=bool(retry),
            stream_window=max(given.get("_generator_backpressure_num_objects") or 0, 0),
            max_pending=meta.max_pending,
            func=func,
            **more,
        )
        self.remote = self._template.submit
        decorate = given.get("_decorate")
        if decorate is not None:
            self.remote = decorated(decorate, self.remote)

    def __call__(self, *args, **kwargs):
        raise TypeError(
            f"{self._name}() is a method of an actor, which lives in another process: call it as '<handle>.{self._name}.remote()'."
        )

    def options(self, **given):
        """The same method with other options, e.g. a.m.options(num_returns=2).remote()."""
        options.check(options.METHOD, given, "methods")
        # None: the value of the method itself applies
        given = {k: v for k, v in given.items() if v is not None}
        return ActorMethod(
            self._token, self._meta, self._name, {**self._given, **given}, self._func
        )

    def bind(self, *args, **kwargs):
        """A node of a graph for this call, which runs when the graph is executed (skate.dag).

        Args:
            args: Arguments of the method; nodes in them, also in lists and dicts, stand for their
                results.
            kwargs: The same by name.
        """
        return binding.bind_method(ActorHandle(self._token, self._meta), self, args, kwargs)

    def _remote(self, args=None, kwargs=None, **given):
        """self.options(**given).remote(*args, **kwargs)."""
        m = (
            self.options(**given)
            if any(v is not None and v != "" for v in given.values())
            else self
        )
        return m.remote(*(args or ()), **(kwargs or {}))

    def __reduce__(self):
        plain = {k: v for k, v in self._given.items() if k != "_decorate"}
        return _restore_method, (self._token, self._meta, self._name, plain, _shape_of(self._func))

    def __repr__(self):
        return f"<skate.ActorMethod {self._cls_name}.{self._name}>"


class Meta:
    """The facts about the actor's class that a handle holds, and takes along to other processes."""

    __slots__ = (
        "cls_name",
        "methods",
        "groups",
        "max_task_retries",
        "is_async",
        "max_pending",
        "max_restarts",
    )

    def __init__(
        self, cls_name, methods, groups, max_task_retries, is_async, max_pending, max_restarts
    ):
        self.cls_name, self.methods, self.groups = cls_name, methods, groups
        self.max_task_retries, self.is_async, self.max_pending, self.max_restarts = (
            max_task_retries,
            is_async,
            max_pending,
            max_restarts,
        )

    def __reduce__(self):
        plain = {
            k: ({n: v for n, v in o.items() if n != "_decorate"}, _shape_of(f))
            for k, (o, f) in self.methods.items()
        }
        return _restore_meta, (
            self.cls_name,
            plain,
            self.groups,
            self.max_task_retries,
            self.is_async,
            self.max_pending,
            self.max_restarts,
        )


def _shape_of(f):
    """The signature that calls are checked against, without the function itself."""
    code = getattr(f, "__code__", None)
    if code is None:
        return None
    kw = tuple(f.__kwdefaults__ or ())
    return (
        code.co_argcount,
        code.co_posonlyargcount,
        code.co_kwonlyargcount,
        code.co_flags & 0xC,
        code.co_varnames,
        len(f.__defaults__ or ()),
        kw,
    )


def _stub(shape, name):
    """A function with that signature; it is never called."""
    if shape is None:
        return None
    n, n_pos, n_kw, flags, names, n_defaults, kw = shape
    n_all = n + n_kw + bool(flags & 4) + bool(flags & 8)
    code = (lambda: None).__code__
    code = code.replace(
        co_argcount=n,
        co_posonlyargcount=n_pos,
        co_kwonlyargcount=n_kw,
        co_flags=code.co_flags | flags,
        co_varnames=names[:n_all],
        co_nlocals=n_all,
    )
    f = types.FunctionType(code, {}, name, (None,) * n_defaults)
    f.__kwdefaults__ = dict.fromkeys(kw) or None
    return f


def _restore_method(token, meta, name, given, shape):
    return ActorMethod(token, meta, name, given, _stub(shape, name))


def _restore_meta(cls_name, plain, *others):
    methods = {k: (o, _stub(shape, k)) for k, (o, shape) in plain.items()}
    return Meta(cls_name, methods, *others)


class ActorHandle:
    """A reference to an actor. The actor ends when its last handle, in whatever process or object,
    is gone. Made by ActorClass.remote().

    Args:
        token: The engine's reference to the actor.
        meta: Names and options of the actor's methods.
    """

    def __init__(self, token, meta):
        self._token = token
        self._meta = meta
        self._cls_name = meta.cls_name

    def __getattr__(self, name):
        meta = self.__dict__.get("_meta")
        found = meta.methods.get(name) if meta is not None else None
        if found is None:
            if name in BUILT_IN and meta is not None:
                found = ({}, None)
            else:
                hint = ""
                if meta is not None and not name.startswith("_"):
                    hint = _did_you_mean.guess(name, meta.methods)
                raise AttributeError(
                    f"'ActorHandle' of {self.__dict__.get('_cls_name')} has no method '{name}'{hint}"
                )
        m = self.__dict__[name] = ActorMethod(self._token, meta, name, *found)
        return m

    def __getitem__(self, name):  # annotations: ActorHandle[Class]
        return self

    @classmethod
    def __class_getitem__(cls, item):
        return cls

    @property
    def _actor_id(self):
        return ActorID._of(self._token.id)

    _ray_actor_id = _actor_id

    def _method_names(self):
        return list(self._meta.methods)

    def __dir__(self):
        return [*self._meta.methods, *BUILT_IN]

    def __reduce__(self):
        return ActorHandle, (self._token, self._meta)

    def __eq__(self, other):
        return isinstance(other, ActorHandle) and other._token.id == self._token.id

    def __hash__(self):
        return hash(self._token.id)

    def __repr__(self):
        return f"Actor({self._cls_name}, {self._token.id:032x})"

    def _repr_html_(self):
        methods = ", ".join(m for m in self._meta.methods if not m.startswith("_"))
        return notebook.labelled(repr(self), f"methods: {methods or 'none'}")


ActorProxy = ActorHandle


def get_actor(name, namespace=None):
    """The living actor with that name. The handle does not keep the actor alive.

    Args:
        name: The actor's name, as options(name=...) gave it.
        namespace: The namespace of the name; None: the job's namespace.

    Raises:
        ValueError: There is no such actor, or the name is blank.
    """
    if not name or not isinstance(name, str) or not name.strip():
        raise ValueError(f"get_actor: the name of an actor is text that is not blank, not {name!r}")
    options._name("name", name)
    if namespace is not None:
        options._name("namespace", namespace)
    space = _space(namespace)
    found = _skate.actor_find(name, space)
    if found is None:
        raise ValueError(
            f"Failed to look up actor with name '{name}'. This could because 1. You are trying to look up a named actor you didn't create. "
            "2. The named actor died. 3. You did not use a namespace matching the namespace of the actor."
        )
    return ActorHandle(_skate.weak_token(found[0].id), pickle.loads(found[1]))


def list_named_actors(all_namespaces=False):
    """Names of the living actors of this job's namespace; with all_namespaces=True a list of
    {"name":, "namespace":}."""
    rows = _skate.actor_names()
    if all_namespaces:
        return [{"name": n, "namespace": s} for s, n in rows]
    here = _space(None)
    return [n for s, n in rows if s == here]


def _space(namespace):
    if namespace is not None:
        return namespace
    return _job.namespace()


class ActorClass:
    """The result of @remote for a class: A.remote(...), A.options(...).remote(...). Static methods
    and class attributes are those of the class. ActorClass[A] is for type checkers.

    Args:
        cls: The class.
        given: The options of the actors.
        base: The ActorClass whose options() made this one.
    """

    __class_getitem__ = classmethod(types.GenericAlias)

    def __init__(self, cls, given, base=None):
        self._cls = cls
        self._options = given
        self._is_async = _is_async(cls) if base is None else base._is_async
        self._base = self if base is None else base._base
        self._check()
        self.__wrapped__ = cls
        self.__name__ = cls.__name__
        self.__qualname__ = cls.__qualname__
        self.__module__ = cls.__module__
        self.__doc__ = cls.__doc__
        self.__ray_actor_class__ = cls
        self._template: Any = None
        self._made_for = None
        if base is None:
            self._all_methods = _methods(cls)

    def __dir__(self):
        return sorted(
            {
                *self._base._all_methods,
                *(n for n in vars(type(self)) if n[0] != "_" or n[:2] == "__"),
                "remote",
            }
        )

    def _check(self):
        o = self._options
        if o.get("get_if_exists") and o.get("name") is None:
            raise ValueError(
                "`name` must be specified to use `get_if_exists`: it looks for the actor of that name"
            )
        if o.get("allow_out_of_order_execution") is False and (
            self._is_async or (o.get("max_concurrency") or 1) > 1
        ):
            raise ValueError(
                "allow_out_of_order_execution=False: an async actor, or one with max_concurrency > 1, begins its calls as their arguments are "
                "there"
            )

    def _current(self):
        """The Template. It is made at the first call, because options().options() needs none, and
        because names and lifetimes depend on the job."""
        job = _job.namespace(), _job.default_lifetime()
        if self._made_for != job:
            base = self._base._current() if self._base is not self else None
            self._make_template(base, *job)
            self._made_for = job
        return self._template

    def _make_template(self, base, space, lifetime):
        cls, o = self._cls, self._options
        groups, index = self._groups()
        more = {}
        if groups != [1]:
            more["groups"] = groups
            more["is_async"] = self._is_async
        if (o.get("lifetime") or lifetime) == "detached":
            more["detached"] = True
        retries = o.get("max_task_retries") or 0
        pending = max(o.get("max_pending_calls") or 0, 0)
        restarts = o.get("max_restarts") or 0
        self._meta = Meta(
            cls.__name__, self._base._all_methods, index, retries, self._is_async, pending, restarts
        )
        env = o.get("runtime_env")
        if env:
            env = runtime_env.check(env)
        if o.get("name") is not None:
            more["actor_name"] = o["name"]
            more["space"] = o.get("namespace") or space
            more["meta"] = cloudpickle.dumps(self._meta, protocol=5)
        init = cls.__init__ if hasattr(cls.__init__, "__code__") else None
        unfit = options.parts_of_units(o)
        if unfit is not None:
            raise unfit
        resources, group = options.resources_of(o), options.group_of(o, 0, cls.__qualname__)
        maker = Maker(cls, self._meta, o.get("name") or "", env, resources)
        # the facts that code in the actor can read
        self._seen = maker.name, groups, env, resources
        if env:
            more["env"] = runtime_env.packed(env)
        self._template = _skate.Template(
            "actor",
            base if base is not None and self._seen == self._base._seen else maker,
            cls.__name__,
            max_restarts=restarts,
            max_task_retries=retries,
            func=init,
            **more,
            **resources,
            **group,
        )

    def _groups(self):
        """([number of concurrent calls of each group, the nameless group first], {name: index})."""
        o = self._options
        first = o.get("max_concurrency") or (ASYNC_CONCURRENCY if self._is_async else 1)
        given = o.get("concurrency_groups") or {}
        items = (
            list(given.items())
            if isinstance(given, dict)
            else [(g["name"], g["max_concurrency"]) for g in given]
        )
        return [first, *(n for _, n in items)], {
            "_default": 0,
            **{name: i + 1 for i, (name, _) in enumerate(items)},
        }

    def __call__(self, *args, **kwargs):
        raise TypeError(
            f"actor class {self.__name__} cannot be instantiated directly: '{self.__name__}.remote(...)' starts an actor in its own process"
        )

    def __mro_entries__(self, bases):
        raise ActorClassInheritanceException(
            f"Inheriting from actor classes is not currently supported. Inherit from the plain class of '{self.__name__}' and decorate the "
            "result."
        )

    def __getattr__(self, name):
        cls = self.__dict__.get("_cls")
        if cls is None or name.startswith("__"):
            raise AttributeError(name)
        value = getattr(cls, name)
        # The function is copied: pickle would find the original in its module and send only the
        # name.
        if isinstance(value, types.FunctionType):
            return functools.partial(value)
        return value

    def options(self, **given):
        """The same class with other options, e.g. A.options(name="a").remote().

        Args:
            given: Options of an actor, as of skate.remote.

        Raises:
            ValueError, TypeError: An option is unknown, or its value wrong.
        """
        options.check(options.ACTOR, given, "actors")
        return ActorClass(self._cls, {**self._options, **given}, self)

    def bind(self, *args, **kwargs):
        """A node of a graph for an actor of this class, which is made when the graph is executed
        (skate.dag).

        Args:
            args: Arguments of the constructor; nodes in them, also in lists and dicts, stand for
                their results.
            kwargs: The same by name.
        """
        return binding.ClassNode(self, args, kwargs)

    def _remote(self, args=None, kwargs=None, **given):
        """self.options(**given).remote(*args, **kwargs)."""
        a = self.options(**given) if given else self
        return a.remote(*(args or ()), **(kwargs or {}))

    def remote(self, *args, **kwargs):
        """Starts an actor; returns its handle at once.

        Args:
            args: Positional arguments of the constructor; references stand for their values.
            kwargs: Keyword arguments of the constructor.

        Raises:
            ActorAlreadyExistsError: A living actor has the name (and get_if_exists is not set).
            TypeError: The arguments do not fit the constructor.
        """
        o, template = self._options, self._current()
        if not o.get("get_if_exists"):
            return ActorHandle(template.submit(*args, **kwargs), self._meta)
        while True:  # another process may make or end the actor between two steps of this loop
            try:
                return get_actor(o["name"], o.get("namespace"))
            except ValueError:
                pass
            try:
                return ActorHandle(template.submit(*args, **kwargs), self._meta)
            except ActorAlreadyExistsError:
                pass

    def __reduce__(self):
        return ActorClass, (self._cls, self._options)

    def __repr__(self):
        return f"<skate.ActorClass {self.__module__}.{self.__qualname__}>"
