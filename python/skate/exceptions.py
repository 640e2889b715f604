"""What can go wrong, in Ray's names. Every error that get() raises is a RayError; one that the user's code raised is an instance of the
user's class as well (RayTaskError.as_instanceof_cause). Made in src/py/py_err.c from result codes, with the message as the one argument."""


class RayError(Exception):
    """Base of all errors of skate."""


class RayTaskError(RayError):
    """The user's code raised. str() begins with the user's error, then where it happened. `cause` is the exception itself, or None when
    it cannot be sent between processes."""

    def __init__(self, message="", function_name=None, cause=None, traceback_str=None):
        super().__init__(message)
        self.text = message
        self.function_name = function_name
        self.traceback_str = traceback_str if traceback_str is not None else message
        self.cause = cause

    def __str__(self):
        return self.text

    def __reduce__(self):
        return _remake, (self.text, self.function_name, self.cause, self.traceback_str, isinstance(self, _Dual))

    def make_dual_exception_instance(self):
        return self.as_instanceof_cause()

    def as_instanceof_cause(self):
        """The same error as an instance of both RayTaskError and the class of its cause."""
        cls = type(self.cause)
        if self.cause is None or isinstance(self, cls):
            return self
        dual = _dual_class(cls)
        if dual is None:
            return self
        e = _bare(dual)
        e.args = (self.text,)
        e.__dict__.update(self.__dict__)
        return e


class _Dual:
    """Attributes of the cause are found on the error too (e.errno, e.my_field)."""

    def __getattr__(self, name):
        cause = self.__dict__.get("cause")
        if cause is None or name.startswith("__"):
            raise AttributeError(name)
        return getattr(cause, name)


_dual_classes = {}


def _bare(cls):
    """An instance without any __init__ or __new__ of the user's."""
    for c in cls.__mro__:
        if c.__module__ == "builtins":
            try:
                return c.__new__(cls, "", [Exception()]) if issubclass(c, BaseExceptionGroup) else c.__new__(cls)
            except TypeError:  # not the one that lays out the instance
                continue
    raise TypeError(cls)


def _dual_class(cls):
    dual = _dual_classes.get(cls, cls)
    if dual is cls:
        name = f"RayTaskError({cls.__name__})"
        body = {"__module__": RayTaskError.__module__, "__init__": RayTaskError.__init__, "__qualname__": name}
        try:
            dual = type(name, (_Dual, RayTaskError, cls), body)
            _bare(dual)
        except Exception:  # a class that cannot be mixed or not be made without its arguments
            dual = None
        _dual_classes[cls] = dual
    return dual


def _remake(message, function_name, cause, traceback_str, dual):
    e = RayTaskError(message, function_name, cause, traceback_str)
    return e.as_instanceof_cause() if dual else e


class TaskCancelledError(RayError):
    """The task was cancelled."""


class GetTimeoutError(RayError, TimeoutError):
    """A get or a next took longer than its timeout."""


class WorkerCrashedError(RayError):
    """The worker process died while it ran the task, and no retries are left."""


class RayActorError(RayError):
    """Something is wrong with an actor."""

    cause = None


class ActorDiedError(RayActorError):
    """The actor is dead: its constructor raised, it was killed, or its process died."""


class ActorUnavailableError(RayActorError):
    """The actor is restarting."""


class ActorUnschedulableError(RayError):
    """The actor asks for more than this machine has."""


class TaskUnschedulableError(ActorUnschedulableError):
    """The task (or actor) asks for more than this machine has."""


class TaskPlacementGroupRemoved(RayError):
    """The placement group of the task was removed."""


class ActorPlacementGroupRemoved(RayError):
    """The placement group of the actor was removed."""


class ObjectStoreFullError(RayError):
    """The object does not fit into the store."""


class OutOfDiskError(RayError):
    """A disk is full."""


class OutOfMemoryError(RayError):
    """A worker used more memory than there is."""


class ObjectLostError(RayError):
    """The object is gone and cannot be made again."""


class ObjectFetchTimedOutError(ObjectLostError):
    pass


class OwnerDiedError(ObjectLostError):
    """The process that made the object died before its value was here."""


class ReferenceCountingAssertionError(ObjectLostError, AssertionError):
    pass


class ObjectReconstructionFailedError(ObjectLostError):
    pass


class RaySystemError(RayError):
    """An error of skate itself, or of the system under it."""


class RuntimeEnvSetupError(RayError):
    """The runtime_env cannot be had."""


class PendingCallsLimitExceeded(RayError):
    pass


class AsyncioActorExit(RayError):
    pass


class UserCodeException(RayError):
    """A user function of a dataset raised."""


class ActorAlreadyExistsError(ValueError, RayError):
    """There is a living actor of that name."""
