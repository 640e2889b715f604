"""skate's exceptions, under Ray's names. Every error that get() raises is a RayError; an error that
user code raised is also an instance of the user's class (RayTaskError.as_instanceof_cause).
src/py/core/err.c makes the exceptions from result codes, with the message as the only argument."""

from skate import _did_you_mean
from skate._deps import inspect, linecache, logging, re, traceback
from skate.calls.causes import bare, cause_bytes, fields_of, load_cause

__all__ = [
    "ActorAlreadyExistsError",
    "ActorDiedError",
    "ActorHandleNotFoundError",
    "ActorPlacementGroupRemoved",
    "ActorUnavailableError",
    "ActorUnschedulableError",
    "AsyncioActorExit",
    "AuthenticationError",
    "CrossLanguageError",
    "GetTimeoutError",
    "LocalRayletDiedError",
    "NodeDiedError",
    "ObjectFetchTimedOutError",
    "ObjectFreedError",
    "ObjectLostError",
    "ObjectReconstructionFailedError",
    "ObjectRefStreamEndOfStreamError",
    "ObjectStoreFullError",
    "OufOfBandObjectRefSerializationException",
    "OutOfDiskError",
    "OutOfMemoryError",
    "OwnerDiedError",
    "PendingCallsLimitExceeded",
    "PlasmaObjectNotAvailable",
    "RayActorError",
    "RayCgraphCapacityExceeded",
    "RayChannelError",
    "RayChannelTimeoutError",
    "RayDirectTransportError",
    "RayError",
    "RaySystemError",
    "RayTaskError",
    "ReferenceCountingAssertionError",
    "RpcError",
    "RuntimeEnvSetupError",
    "TaskCancelledError",
    "TaskPlacementGroupRemoved",
    "TaskUnschedulableError",
    "UnknownOwnerError",
    "UnserializableException",
    "UserCodeException",
    "WorkerCrashedError",
]

_args = vars(BaseException)["args"]  # the descriptor


class RayError(Exception):
    """Base of all errors of skate. Takes Ray's arguments by position or by name; the first one, if
    any, is the text."""

    _named = ()

    def __init__(self, *args, **named):
        for name in named:
            if name not in self._named:
                raise TypeError(
                    f"{type(self).__name__}() got an unexpected keyword argument '{name}'"
                )
        given = {**dict(zip(self._named, args, strict=False)), **named}
        super().__init__(*(args or [v for v in given.values() if v is not None][:1]))
        self.__dict__.update(given)


class RayTaskError(RayError):
    """The user's code raised an exception. str() begins with the user's error and the place where
    it was raised. `cause` is the exception itself or, if it cannot be sent between processes, a
    RayError that says so."""

    def __init__(
        self,
        function_name=None,
        traceback_str="",
        cause=None,
        proctitle=None,
        pid=None,
        ip=None,
        actor_repr=None,
        actor_id=None,
    ):
        self.text = traceback_str or function_name or ""
        super().__init__(self.text)
        self.function_name = function_name
        self.traceback_str = self.text
        self.cause = cause
        self.proctitle, self.pid, self.ip = proctitle, pid, ip
        self.actor_repr, self._actor_id = actor_repr, actor_id

    def __str__(self):
        return self.text

    def __reduce__(self):
        cause = self.__dict__.get("raised", self.cause)
        cause = None if cause is None else cause_bytes(cause)
        return _remake, (self.text, self.function_name, cause, isinstance(self, _Dual))

    def make_dual_exception_instance(self):
        """The same as as_instanceof_cause()."""
        return self.as_instanceof_cause()

    def as_instanceof_cause(self):
        """The same error in a form that an `except` clause for the class of its cause catches, too;
        self if that class cannot be combined with RayTaskError."""
        cls = type(self.cause)
        if self.cause is None or isinstance(self, cls) or issubclass(RayTaskError, cls):
            return self
        dual = _dual_class(cls)
        if dual is None:
            return self
        try:
            e = bare(dual, self.cause)
        except TypeError:  # an exception group whose members are not all Exceptions
            return self
        for name, value in fields_of(self.cause).items():
            setattr(e, name, value)
        # this sets `args` even if the user's class makes it read-only
        _args.__set__(e, (self.cause,))
        e.__dict__.update(self.__dict__)
        lost = getattr(self.cause, "__skate_lost__", None)
        # some attributes could not be sent: the error is caught by its class, with the other
        # attributes
        if lost:
            e.__dict__.update({n: v for n, v in vars(self.cause).items() if n != "__notes__"})
            e.__dict__["raised"] = self.cause
            what = f"attribute{'s' if len(lost) > 1 else ''} {', '.join(lost)}"
            e.__dict__["cause"] = RayError(
                f"the exception itself isn't serializable: its {what} stayed in the worker"
            )
        return e


class _Dual:
    """Makes attributes of the cause available on the error, too (e.errno, e.my_field)."""

    args = property(lambda self: _args.__get__(self), lambda self, v: _args.__set__(self, v))

    def __getattr__(self, name):
        cause = self.__dict__.get("cause")
        if cause is None or name.startswith("__"):
            raise AttributeError(name)
        return getattr(cause, name)


_dual_classes = {}


def _dual_class(cls):
    dual = _dual_classes.get(cls, cls)
    if dual is cls:
        name = f"RayTaskError({cls.__name__})"
        body = {
            "__module__": RayTaskError.__module__,
            "__init__": RayTaskError.__init__,
            "__qualname__": name,
        }
        try:
            dual = type(name, (_Dual, RayTaskError, cls), body)
            bare(dual)
        except Exception:
            # the user's class cannot be combined with RayTaskError, or its instances cannot be made
            # without arguments
            logging.getLogger("skate.exceptions").warning(
                "%s: no class can be made of it and RayTaskError. This exception is raised as RayTaskError only. You can use `ray_task_error.cause` to access "
                "the user exception.",
                cls.__qualname__,
            )
            dual = None
        _dual_classes[cls] = dual
    return dual


def _remake(text, function_name, cause, dual):
    e = RayTaskError(function_name, text, None if cause is None else load_cause(cause))
    return e.as_instanceof_cause() if dual else e


def misused(e, f, of=None):
    """Adds a suggestion to a TypeError about arguments that do not fit: for an unknown keyword, the
    nearest known keyword, or all keywords.

    Args:
        e: The TypeError.
        f: The function that was called.
        of: The first argument of the call, which names the class of a constructor.

    Returns:
        e.
    """
    text = str(e)
    if f.__name__ == "__init__":
        text = text.replace(f"{f.__qualname__}()", f"{type(of).__name__}()", 1)
    text = text.partition(". Did you mean")[0]  # Python's own suggestion, from 3.13 on
    _, found, word = text.partition(" got an unexpected keyword argument ")
    if found:
        known = [
            n
            for n, p in inspect.signature(f).parameters.items()
            if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) and n != "self"
        ]
        text += _did_you_mean.meant(word.strip("'"), known) if known else "; it takes none"
    e.args = (text,)
    return e


def told(e):
    """Whether e is meant for users (a raise statement of skate, or the engine, raised it), so that
    frames of skate above it are hidden; for a failure inside skate these frames stay.
    `_skate_front` marks the functions whose frames are hidden (data/run/errors.py)."""
    marked = getattr(e, "_skate_front", None)
    if marked is not None:
        return bool(marked)
    if isinstance(e, (KeyboardInterrupt, RayError)):
        return True
    if e.__traceback__ is None or isinstance(e, AssertionError):
        return False
    # the source line of the error shows whether a raise statement raised it
    at = traceback.extract_tb(e.__traceback__, -1)[0]
    here = linecache.getline(at.filename, at.lineno or 0).encode()[at.colno or 0 :]
    return at.filename.startswith(_HOME) and re.match(rb"\s*raise\b", here) is not None


_HOME = __file__[: -len("exceptions.py")]


def _remake_plain(cls, args, attributes):
    e = cls.__new__(cls, *args)
    e.__dict__.update(attributes)
    return e


class UnserializableException(RayTaskError):
    """The user's code raised an exception that cannot be loaded here; only its text is
    available."""


class CrossLanguageError(RayError):
    """For Ray's other languages; skate never raises it."""

    _named = ("ray_exception",)


class TaskCancelledError(RayError):
    """The task was cancelled. `task_id` and `error_message` where they are known."""

    def __init__(self, task_id=None, error_message=None):
        text = (
            task_id
            if isinstance(task_id, str) and error_message is None
            else error_message or "This task or its dependency was cancelled"
        )
        super().__init__(text)
        self.task_id = None if text is task_id else task_id
        self.error_message = text


class GetTimeoutError(RayError, TimeoutError):
    """A get or a next took longer than its timeout."""


class WorkerCrashedError(RayError):
    """The worker process died while it ran the task, and no retries are left."""


class LocalRayletDiedError(WorkerCrashedError):
    """For Ray's node manager, which skate lacks; never raised."""


class NodeDiedError(RayError):
    """A node of a cluster has died; on one machine never raised."""

    _named = ("message",)


class RayActorError(RayError):
    """An error about an actor. `actor_id`: the hexadecimal id of the actor, if known."""

    cause = None
    actor_id = None
    preempted = False
    actor_init_failed = False

    def __init__(
        self, actor_id=None, error_msg="The actor failed.", actor_init_failed=False, preempted=False
    ):
        super().__init__(error_msg)
        self.actor_id, self.actor_init_failed, self.preempted = (
            actor_id,
            actor_init_failed,
            preempted,
        )

    def __reduce__(self):
        return _remake_plain, (type(self), self.args, self.__dict__)

    @property
    def error_msg(self):
        return str(self)


class ActorDiedError(RayActorError):
    """The actor is dead: its constructor raised, it was killed, or its process died. cause: the
    text, or the RayTaskError of the constructor."""

    def __init__(self, cause=None):
        init = isinstance(cause, RayTaskError)
        text = (
            f"The actor died in __init__: an error raised in its creation task, {cause}"
            if init
            else cause
        )
        super().__init__(
            getattr(cause, "_actor_id", None),
            text or "The actor died before this call of it had ended.",
            init,
        )
        self.cause = cause if init else None
        # the text of the user's exception, for an actor whose constructor has raised
        self.told = text or ""


class ActorUnavailableError(RayActorError):
    """The actor is restarting."""

    def __init__(
        self, error_message="The actor is restarting: call it again later.", actor_id=None
    ):
        super().__init__(actor_id.hex() if isinstance(actor_id, bytes) else actor_id, error_message)


class ActorUnschedulableError(RayError):
    """The actor needs more resources than this machine has."""

    _named = ("error_message",)


class TaskUnschedulableError(ActorUnschedulableError):
    """The task (or actor) needs more resources than this machine has."""


class TaskPlacementGroupRemoved(RayError):
    """The placement group of the task was removed."""


class ActorPlacementGroupRemoved(RayError):
    """The placement group of the actor was removed."""


class ObjectStoreFullError(RayError):
    """The object does not fit into the store."""


class OutOfDiskError(RayError):
    """A disk is full."""


class OutOfMemoryError(RayError):
    """A worker used more memory than is available."""

    _named = ("message",)


class ObjectLostError(RayError):
    """The object is lost and cannot be made again."""

    _named = ("object_ref_hex", "owner_address", "call_site", "reason", "reason_message")


class ObjectFetchTimedOutError(ObjectLostError):
    """For objects on Ray's other machines; skate never raises it."""


class ObjectFreedError(ObjectLostError):
    """The object was freed explicitly."""


class PlasmaObjectNotAvailable(RayError):
    """The object is not in the store."""


class OwnerDiedError(ObjectLostError):
    """The process that made the object died before the object's value was complete."""


class ReferenceCountingAssertionError(ObjectLostError, AssertionError):
    """The object was freed although references to it exist."""


class ObjectReconstructionFailedError(ObjectLostError):
    """The object is lost and cannot be made again; the message says why."""


class RaySystemError(RayError):
    """An error of skate itself, or of the system under it."""

    _named = ("client_exc", "traceback_str")


class UnknownOwnerError(RaySystemError, ValueError):
    """The reference does not belong to this engine: it belongs to an engine that was shut down, or
    was made from bytes."""


class AuthenticationError(RayError):
    """For Ray's servers; skate never raises it."""

    _named = ("message",)


class RpcError(RayError):
    """For Ray's servers; skate never raises it."""

    _named = ("message", "rpc_code")


class RuntimeEnvSetupError(RayError):
    """The runtime_env cannot be provided."""

    _named = ("error_message",)


class PendingCallsLimitExceeded(RayError):
    """More calls than max_pending_calls wait for the actor."""


class AsyncioActorExit(RayError):
    """The exception with which a method of an async actor ends the actor."""


class ObjectRefStreamEndOfStreamError(RayError):
    """The generator has no more references."""


class OufOfBandObjectRefSerializationException(RayError):
    """A reference was pickled where skate cannot count it, and the environment forbids this."""


class UserCodeException(RayError):
    """A user's function in a Dataset raised an exception."""


class RayDirectTransportError(RaySystemError):
    """For transports between GPUs; skate never raises it."""


class RayChannelError(RaySystemError):
    """A channel of a compiled graph is closed, or has failed."""


class RayChannelTimeoutError(RayChannelError, TimeoutError):
    """A compiled graph gave no result, or had no room for an input, before the timeout."""


class RayCgraphCapacityExceeded(RaySystemError):
    """Too many executions of a compiled graph are in progress."""


class ActorAlreadyExistsError(ValueError, RayError):
    """A living actor has this name already."""


class ActorHandleNotFoundError(ValueError, RaySystemError):
    """The handle belongs to an engine that was shut down."""


RAY_EXCEPTION_TYPES = [
    c for c in list(globals().values()) if isinstance(c, type) and issubclass(c, RayError)
]
