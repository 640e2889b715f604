"""What is wrong before anything runs: keywords that nobody knows, columns that a format has no form for, a library that is not installed."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from typing import Any

from skate import _lazy


def keywords(method: str, given: Iterable[str], known: Iterable[str]) -> None:
    """TypeError for a keyword that is not known, with the nearest one."""
    known = list(known)
    for k in given:
        if k not in known:
            raise TypeError(f"{method}: unexpected keyword argument {k!r}{_lazy.near.meant(k, known)}")


def parameters(of: Any, but: Iterable[str] = ()) -> list[str]:
    """The names of a function's parameters."""
    import inspect

    some = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [n for n, p in inspect.signature(of).parameters.items() if p.kind in some and n not in but]


def columns(method: str, what: str, schema: Any, write: Callable[[Any], None], remedy: str) -> None:
    """TypeError that names the first column whose type a format has no form for. write(schema) writes no rows, or raises."""
    import pyarrow as pa

    try:
        write(schema)
        return
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        pass
    for f in schema:
        try:
            write(pa.schema([f]))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            raise TypeError(
                f"{method}: column {f.name!r} is of type {f.type}, which {what} has no form for; {remedy}, or drop it"
            ) from None


def library(module: str, method: str, package: str | None = None) -> Any:
    """A module of a package of others; ImportError names the package (its module, where it has no other name) and the method that needs it."""
    try:
        return importlib.import_module(module)
    except ImportError as e:
        raise ImportError(f"{method} needs the package {package or module}, which is not installed ({e})") from None
