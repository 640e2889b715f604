"""What is wrong before anything runs: keywords that nobody knows, columns that a format has no form
for, a library that is not installed."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from typing import Any

from skate import _did_you_mean
from skate._deps import inspect, pa
from skate.data.values import types as value_types


def keywords(method: str, given: Iterable[str], known: Iterable[str]) -> None:
    """TypeError for a keyword that is not known, with the nearest one."""
    known = list(known)
    for k in given:
        if k not in known:
            raise TypeError(
                f"{method}: unexpected keyword argument {k!r}{_did_you_mean.meant(k, known)}"
            )


def parameters(of: Any, but: Iterable[str] = ()) -> list[str]:
    """The names of a function's parameters."""
    some = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [
        n for n, p in inspect.signature(of).parameters.items() if p.kind in some and n not in but
    ]


def columns(method: str, what: str, schema: Any, write: Callable[[Any], None], remedy: str) -> Any:
    """The schema in which a format takes these columns: as they are, or without a coding (views,
    dictionaries, run ends) that it has no form for. TypeError that names the first column whose
    type it has no form for either way. write(schema) writes no rows, or raises."""

    def takes(s: Any) -> bool:
        try:
            write(s)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return False
        return True

    if takes(schema):
        return schema
    fields = []
    for f in schema:
        plain = f.with_type(value_types.uncoded(f.type))
        fields.append(f if takes(pa.schema([f])) else plain)
        if fields[-1] is plain and (plain.type == f.type or not takes(pa.schema([plain]))):
            raise no_form(method, what, f, remedy)
    return pa.schema(fields, schema.metadata)


def no_form(method: str, what: str, field: Any, remedy: str) -> TypeError:
    """The error about a column whose type a format has no form for."""
    return TypeError(
        f"{method}: column {field.name!r} is of type {field.type}, which {what} has no form for; {remedy}, or drop it"
    )


def library(module: str, method: str, package: str | None = None) -> Any:
    """A module of a package of others; ImportError names the package (its module, where it has no
    other name) and the method that needs it."""
    try:
        return importlib.import_module(module)
    except ImportError as e:
        raise ImportError(
            f"{method} needs the package {package or module}, which is not installed ({e})"
        ) from None
