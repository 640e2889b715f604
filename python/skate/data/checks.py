"""Checks before a run: unknown keywords, columns that a file format cannot represent, missing
libraries."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from typing import Any

from skate import _did_you_mean
from skate._deps import inspect, pa
from skate.data.values import types as value_types


def keywords(method: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raises TypeError for an unknown keyword, and suggests the nearest known one."""
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
    """The schema in which a format can represent these columns: unchanged, or with encodings
    (views, dictionaries, run ends) replaced by plain types. TypeError names the first column whose
    type the format cannot represent in either form. write(schema) writes no rows; it raises an
    error for such a type."""

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
    """The error about a column whose type a format cannot represent."""
    return TypeError(
        f"{method}: column {field.name!r} is of type {field.type}, which {what} has no form for; {remedy}, or drop it"
    )


def library(module: str, method: str, package: str | None = None) -> Any:
    """Imports a third-party module; the ImportError names the package (by default the module's
    name), the method that needs it, and the command that installs it."""
    try:
        return importlib.import_module(module)
    except ImportError as e:
        name = package or module
        raise ImportError(
            f"{method} needs the package {name}, which is not installed ({e}): pip install {name}"
        ) from None
