"""Arguments that several public functions share. A class declares them once, with types and
descriptions; each function takes them as **options: Unpack[that class].

Example:
    >>> class Options(TypedDict, total=False):
    ...     '''Args:
    ...     depth: How deep.'''
    ...
    ...     depth: int
    >>> @takes(Options, depth=1)
    ... def f(x, **options):
    ...     return x, options
    >>> f(3), str(inspect.signature(f))
    ((3, {'depth': 1}), '(x, *, depth=1)')
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from skate import exceptions

if TYPE_CHECKING:
    from typing_extensions import TypedDict as TypedDict
else:

    class TypedDict:
        """Replaces typing's class at run time, which does more work for each annotation than is
        needed."""

        def __init_subclass__(cls, **_: Any) -> None:
            """Accepts total= and extra_items=, which only type checkers use."""


F = TypeVar("F", bound=Callable[..., Any])


@functools.cache
def names(shared: Any) -> dict[str, Any]:
    """{argument: annotation} of a class of shared arguments and of its base classes."""
    out: dict[str, Any] = {}
    for cls in reversed(shared.__mro__):
        out.update(inspect.get_annotations(cls))
    return out


def others(options: Any, shared: Any) -> dict[str, Any]:
    """Removes from `options` the entries that are no arguments of the class `shared`; returns
    them."""
    return {k: options.pop(k) for k in list(options) if k not in names(shared)}


def takes(shared: Any, rest: str | None = None, **defaults: Any) -> Callable[[F], F]:
    """A decorator for a function whose **options are the arguments of a class. The function's
    signature shows these arguments, its docstring explains them in place of "options: See <the
    class>.", and each call gets all of them.

    Args:
        shared: The class.
        rest: The name under which the signature shows further keywords; None: a further keyword is
            a TypeError that suggests the nearest argument.
        defaults: The defaults of those arguments whose default is not None.
    """
    values = {n: defaults.get(n) for n in names(shared)}

    def of(f: F) -> F:
        code = f.__code__
        known = {*code.co_varnames[: code.co_argcount + code.co_kwonlyargcount], *values}

        def signature() -> inspect.Signature:
            short = inspect.signature(f)
            *own, options = short.parameters.values()
            for n, kind in names(shared).items():
                own.append(
                    options.replace(
                        name=n, kind=options.KEYWORD_ONLY, default=values[n], annotation=kind
                    )
                )
            if rest is not None:
                own.append(options.replace(name=rest, annotation="Any"))
            return short.replace(parameters=own, return_annotation=call.__annotations__["return"])

        @functools.wraps(f)
        def call(*args: Any, **given: Any) -> Any:
            wrong = next((k for k in given if k not in known), None) if rest is None else None
            try:
                if wrong is not None:
                    raise TypeError(
                        f"{f.__qualname__}() got an unexpected keyword argument {wrong!r}"
                    )
                return f(*args, **{**values, **given})
            except TypeError as e:
                if e.__traceback__ is None or e.__traceback__.tb_next is not None:
                    raise  # f raised it; a TypeError of the call itself is handled below
                text = str(e).replace(f.__qualname__, call.__qualname__, 1)
            raise exceptions.misused(TypeError(text), call)

        vars(call)["__signature__"] = _Signature(signature)
        # the docstring is None with python -OO
        call.__doc__ = f.__doc__ and _explained(f.__doc__, shared)
        return call  # pyright: ignore[reportReturnType]

    return of


class _Signature(inspect.Signature):
    """A signature that is computed when it is first read, since few programs read it."""

    def __init__(self, make: Callable[[], inspect.Signature]) -> None:
        self._make = make

    @functools.cached_property
    def _made(self) -> inspect.Signature:
        return self._make()

    parameters = property(lambda self: self._made.parameters)
    return_annotation = property(lambda self: self._made.return_annotation)

    def replace(self, **changes: Any) -> inspect.Signature:
        return self._made.replace(**changes)


@functools.cache
def _entries(shared: Any) -> list[str]:
    """The entries for arguments in the docstrings of a class and its base classes."""
    out: list[str] = []
    for cls in reversed(shared.__mro__[:-2]):
        for line in inspect.cleandoc(cls.__doc__).partition("Args:\n")[2].splitlines():
            if line[4:5] == " ":
                out[-1] += f"{line}\n"
            else:
                out.append(f"{line}\n")
    return out


def _explained(doc: str, shared: Any) -> str:
    """The docstring, to which the class's entries for the arguments that it does not explain are
    added."""
    doc = inspect.cleandoc(doc) + "\n"
    missing = [e for e in _entries(shared) if f"\n{e.partition(':')[0]}: " not in doc]
    return doc.replace(f"    options: See {shared.__name__}.\n", "".join(missing))
