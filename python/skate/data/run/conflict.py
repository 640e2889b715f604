"""Names the files whose columns have conflicting types. Blocks do not know their files, so after
such an error the first rows of files are read again, for LOOK_S seconds at most."""

from __future__ import annotations

import contextlib
import importlib
import pickle
from collections.abc import Iterator
from time import monotonic
from types import SimpleNamespace
from typing import Any

from skate.data.plan.node import Node, below
from skate.data.values.unify import ADVICE
from skate.exceptions import RayTaskError

LOOK_S = 5.0  # seconds spent on reading files again, in all


def of_files(e: BaseException, node: Node) -> BaseException:
    """Explains an error of a run of `node`. If e says that a column has two types (as `unify`
    reports) and files that the plan reads have these types, returns an error that names two such
    files and says what to do; else returns e."""
    cause = e.cause if isinstance(e, RayTaskError) else e
    said = getattr(cause, "skate_types", None)
    found = said and _found(node, *said)
    if not found:
        return e
    text = found + str(cause).partition(ADVICE)[2]
    if isinstance(e, RayTaskError):
        e.text = e.text.replace(str(cause), text)
    else:
        e.args = (text,)
    return e


@contextlib.contextmanager
def by_files(node: Node) -> Iterator[None]:
    """A context manager that passes errors raised in its block through of_files()."""
    try:
        yield
    except TypeError as e:
        raise of_files(e, node) from None


def _found(node: Node, column: str, a: str, b: str) -> str | None:
    until = monotonic() + LOOK_S
    # type of the column -> (the first file that has this type, its reader, the label of the read)
    has: dict[str, tuple[str, Any, str]] = {}
    for n in below(node):
        if n.op != "read" or n.options.get("units") is None:
            continue
        reader = importlib.import_module(f"skate.data.read.formats.{n.params['format']}")
        if not hasattr(reader, "read_file"):
            continue
        for path in (path for unit, _, _ in n.options["units"] for path in pickle.loads(unit)):
            if monotonic() > until or {a, b} <= has.keys():
                break
            try:
                task = SimpleNamespace(
                    unit=pickle.dumps([path]), letters=_Letters(), source="", source_row=0
                )
                rb = next(reader.run(n.params, task), None)
            except Exception:
                # the file cannot be read; that error is not reported here
                continue
            if rb is not None and column in rb.schema.names:
                has.setdefault(str(rb.schema.field(column).type), (path, reader, n.label))
    if not {a, b} <= has.keys():
        return None
    (first, _, label), (second, reader, _) = has[a], has[b]
    way = getattr(reader, "as_text", None)
    advice = (
        way(column)
        if way
        else "read these files apart, bring the column to one type (Dataset.with_column, col(name).cast(type)), and union them"
    )
    return f"{label}: column {column!r} has type {a} in {first} and {b} in {second}, and no type holds the values of both exactly: {advice}"


class _Letters:
    def add(self, *_: Any) -> None:
        """Ignores bad rows: only the types of columns matter here."""
