"""Arguments that several public functions share: declared once, with their types and what they
mean, by a class; each function takes them as **options: Unpack[that class].

Example:
    >>> class Options(TypedDict, total=False):
    ...     '''Args:
    ...         depth: How deep.'''
    ...     depth: int
    >>> @takes(Options, depth=1)
    ... def f(x, **options): return x, options
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
        """Stands for the one of typing, which makes more than is needed of each annotation."""

        def __init_subclass__(cls, **_: Any) -> None:
            """Takes total= and extra_items=, which are for type checkers."""


F = TypeVar("F", bound=Callable[..., Any])


@functools.cache
def names(shared: Any) -> dict[str, Any]:
    """{argument: its annotation} of a class of arguments and of those that it extends."""
    out: dict[str, Any] = {}
    for cls in reversed(shared.__mro__):
        out.update(inspect.get_annotations(cls))
    return out


def others(options: Any, shared: Any) -> dict[str, Any]:
    """What is in options and not an argument of the class `shared`; it is taken out of options."""
    return {k: options.pop(k) for k in list(options) if k not in names(shared)}


def takes(shared: Any, rest: str | None = None, **defaults: Any) -> Callable[[F], F]:
    """A decorator of a function whose **options are the arguments of a class: its signature has
    them, its docstring explains them in place of "options: See <the class>.", and it is always
    called with all of them.

    Args:
        shared: The class.
        rest: The name that its signature has for other keywords; None: they are a TypeError that
            says what may have been meant.
        defaults: Those of the arguments that are not None.
    """
    values = {n: defaults.get(n) for n in names(shared)}

    def of(f: F) -> F:
        signature = inspect.signature(f)
        *own, options = signature.parameters.values()
        known = [p.name for p in own] + list(values)
        more = [
            options.replace(
                name=n, kind=options.KEYWORD_ONLY, default=v, annotation=names(shared)[n]
            )
            for n, v in values.items()
        ]
        if rest is not None:
            more.append(options.replace(name=rest, annotation="Any"))

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
                    raise  # by f; else it was not called at all
                text = str(e).replace(f.__qualname__, call.__qualname__, 1)
            raise exceptions.misused(TypeError(text), call)

        vars(call)["__signature__"] = signature.replace(parameters=[*own, *more])
        call.__doc__ = _explained(f.__doc__, shared)
        return call  # pyright: ignore[reportReturnType]

    return of


def _explained(doc: str | None, shared: Any) -> str | None:
    """The docstring with what the class says of each argument that it does not explain itself."""
    if doc is None:  # python -OO
        return None
    doc = inspect.cleandoc(doc) + "\n"
    entries: list[str] = []
    for cls in reversed(shared.__mro__[:-2]):
        for line in inspect.cleandoc(cls.__doc__).partition("Args:\n")[2].splitlines():
            if line[4:5] == " ":
                entries[-1] += f"{line}\n"
            else:
                entries.append(f"{line}\n")
    missing = [e for e in entries if f"\n{e.partition(':')[0]}: " not in doc]
    return doc.replace(f"    options: See {shared.__name__}.\n", "".join(missing))
