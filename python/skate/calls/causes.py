"""Sends an exception of user code between processes as bytes: pickled by its class if that works,
else by its parts. skate.exceptions imports this module, because its RayTaskError contains these
bytes."""

import _pickle as pickle  # without re and struct

from skate._deps import by_value


def _by_value(obj, protocol):
    return by_value.dumps(obj, protocol=protocol)


def _pickle_alone(obj):
    """obj as bytes that unpickle to the same class; None if that fails."""
    for dumps in (pickle.dumps, _by_value):
        try:
            data = dumps(obj, 5)
            if (dumps is not pickle.dumps or b"__main__" not in data) and type(
                pickle.loads(data)
            ) is type(obj):
                return data
        except Exception:
            pass
    return None


ERROR_MAX = 1 << 20  # bytes; the same as SK_ERROR_VALUE_MAX


def short(text, n):
    return (
        text
        if len(text) <= n
        else f"{text[: n * 2 // 3]} ... ({len(text) - n} characters left out) ... {text[-n // 3 :]}"
    )


# An attribute that lists the names of attributes that could not be sent; see RayTaskError.
_LOST = "__skate_lost__"


def _bare_cause(cls, args, fields, attributes):
    e = bare(cls)
    BaseException.args.__set__(e, args)  # pyright: ignore[reportAttributeAccessIssue]
    for name, value in fields.items():
        BaseException.__setattr__(e, name, value)
    e.__dict__.update(attributes)
    return e


def cause_bytes(e, room=ERROR_MAX):
    """The user's exception as bytes for load_cause(), at most `room` of them. It is pickled by its
    class if that works, else (its constructor has other arguments, or an attribute is a lock) by
    its parts. None if not even its class can be sent."""
    data = _pickle_alone(e)
    if data is not None and len(data) <= room:
        return data

    def part(value, most):
        got = _pickle_alone(value)
        return (
            value
            if got is not None and len(got) <= most
            else short(value if isinstance(value, str) else repr(value), 500)
        )

    most = room // 8
    args = tuple(part(a, most) for a in e.args[:4])
    fields = {n: part(v, most) for n, v in fields_of(e).items()}
    own = {
        n: v for n, v in list(vars(e).items())[:100] if len(_pickle_alone(v) or b" " * most) < most
    }
    lost = sorted(vars(e).keys() - own.keys())
    least = {"__notes__": own["__notes__"]} if "__notes__" in own else {}
    for attributes in (
        own | {_LOST: lost} if lost else own,
        least | {_LOST: sorted(vars(e).keys() - least.keys())},
    ):
        try:
            data = _by_value((_bare_cause, type(e), args, fields, attributes), 5)
        except Exception:
            return None
        if len(data) <= room:
            return data
    return None


def load_cause(data):
    """The exception in the bytes from cause_bytes()."""
    cause = pickle.loads(data)
    return cause[0](*cause[1:]) if type(cause) is tuple else cause


def bare(cls, like=None):
    """An instance of the exception class cls, made without calling the user's __init__ or __new__;
    an exception group gets the members of `like`."""
    for c in cls.__mro__:
        if c.__module__ == "builtins":
            try:
                if issubclass(c, BaseExceptionGroup):
                    return c.__new__(
                        cls,
                        *(
                            (like.message, like.exceptions)
                            if like is not None
                            else ("", [Exception()])
                        ),
                    )
                return c.__new__(cls)
            # this base class does not determine the layout of instances: try the next
            except TypeError:
                continue
    raise TypeError(cls)


def fields_of(e):
    """The attributes that builtin exception classes store outside the instance's __dict__: errno,
    filename, name, ..."""
    found = {}
    for c in type(e).__mro__:
        if c.__module__ != "builtins" or c in (BaseException, Exception, object):
            continue
        for name, field in vars(c).items():
            if type(field) in _FIELDS and name not in found and name != "exceptions":
                try:
                    value = field.__get__(e)
                    field.__set__(e, value)  # read-only fields are left out
                except (AttributeError, TypeError):
                    continue
                if value is not None:
                    found[name] = value
    return found


_FIELDS = type(OSError.errno), type(OSError.characters_written)  # pyright: ignore[reportAttributeAccessIssue]
