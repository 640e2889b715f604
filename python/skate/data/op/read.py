"""read: rows from outside (files, ranges, items): each unit of the source is one task. The file of the format does it: data/read/<format>.py."""

from __future__ import annotations

import functools
import importlib
from typing import Any

from skate import _lazy
from skate.data.op import Operator, Params

expressions = _lazy.module("skate.data.expressions")
unify = _lazy.module("skate.data.values.unify")


class Read(Operator):
    source = on_error = True

    def modules(self, params: Params) -> tuple[str, ...]:
        return (f"skate.data.read.{params['format']}",)

    def encoded(self, params: Params) -> bool:
        can = getattr(_format(params["format"]), "encoded", None)
        return can is not None and can(params)

    def narrowed(self, params: Params, columns: set[str]) -> Params | None:
        """Of formats that can, which say the names of their columns."""
        names = params.get("names")
        if names is None or params["columns"] is not None or not columns <= set(names):
            return None
        read = [c for c in names if c in columns] or names[:1]  # rows are counted by a column
        return {**params, "columns": read} if len(read) < len(names) else None

    def filtered(self, params: Params, predicates: list[tuple[Any, frozenset[str]]]) -> Params | None:
        """Of formats that can: by statistics, then by rows. Expressions over columns that are not stored, or with functions of users, are left to the filter."""
        if params.get("names") is None:
            return None
        pushed, stored = params.get("pushed"), set(params["stored"])
        for expr, columns in predicates:
            if not columns or not columns <= stored or expressions.has_user_code(expr):
                continue
            try:
                e = expr.to_pyarrow()
            except (TypeError, ValueError):
                continue
            pushed = e if pushed is None else pushed & e
        return {**params, "pushed": pushed} if pushed is not params.get("pushed") else None

    def run(self, params: Params, batches: None, task: Any) -> Any:
        known: Any = params.get("read_before")  # by an earlier task of this stage
        for rb in _format(params["format"]).run(params, task):
            if known is None or not rb.schema.equals(known):
                params["read_before"] = known = rb.schema
                unify.check_names(known.names, f"{params['label']}, {task.source or 'its input'}")
            yield rb


@functools.cache
def _format(name: str) -> Any:
    return importlib.import_module(f"skate.data.read.{name}")


operator = Read()
