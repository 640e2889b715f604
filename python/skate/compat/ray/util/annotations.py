"""skate.util.annotations: the decorators that mark the stability of Ray's API, for libraries that
use them. Only Deprecated(warning=True) changes the behaviour of the function or class that it
decorates."""

import functools
import warnings


class RayDeprecationWarning(DeprecationWarning):
    """The warning that a program uses a name which will be removed."""


def _mark(args, mark):
    return mark(args[0]) if len(args) == 1 and callable(args[0]) else mark


def PublicAPI(*args, stability="stable", api_group="Others"):
    """Decorator, with or without arguments. stability: "stable", "beta" or "alpha"."""
    if stability not in ("stable", "beta", "alpha"):
        raise AssertionError(stability)

    def mark(obj):
        obj._annotated, obj._annotated_type, obj._annotated_api_group = (
            obj.__name__,
            "PublicAPI",
            api_group,
        )
        return obj

    return _mark(args, mark)


def DeveloperAPI(*args):
    """Decorator, with or without parentheses."""

    def mark(obj):
        obj._annotated, obj._annotated_type = obj.__name__, "DeveloperAPI"
        return obj

    return _mark(args, mark)


def Deprecated(*args, message="", warning=False):
    """Decorator, with or without arguments; the message is added to the docstring. warning: each
    use of the function or class gives a RayDeprecationWarning with the message."""

    def mark(obj):
        obj._annotated, obj._annotated_type = obj.__name__, "Deprecated"
        text = f"{obj.__name__} is deprecated: a later version will not have it. {message}".strip()
        obj.__doc__ = f"{obj.__doc__ or ''}\n\n{text}".strip()
        if not warning:
            return obj
        inside = obj.__init__ if isinstance(obj, type) else obj

        @functools.wraps(inside)
        def warned(*a, **kw):
            warnings.warn(text, RayDeprecationWarning, stacklevel=2)
            return inside(*a, **kw)

        if isinstance(obj, type):
            obj.__init__ = warned
            return obj
        return warned

    return _mark(args, mark)
