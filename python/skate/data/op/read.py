"""read: reads rows from outside (files, ranges, items); each unit of the source is one task. The
module of the format does it: data/read/formats/<format>.py."""

from __future__ import annotations

import functools
import importlib
from typing import Any

from skate.data.op import Operator, Params
from skate.data.values import unify


class Read(Operator):
    source = on_error = True

    def sure(self, params: Params) -> bool:
        return True

    def modules(self, params: Params) -> tuple[str, ...]:
        tests = ("skate.data.expr.bounds",) if params.get("pushed") else ()
        return (f"skate.data.read.formats.{params['format']}", *tests)

    def encoded(self, params: Params) -> bool:
        can = getattr(_format(params["format"]), "encoded", None)
        return can is not None and can(params)

    def narrowed(self, params: Params, columns: set[str]) -> Params | None:
        """Tells the reader which columns are needed, where the format can skip columns and the
        names of its columns are known."""
        names = params.get("names")
        if names is None or params["columns"] is not None or not columns <= set(names):
            return None
        read = [c for c in names if c in columns] or names[:1]  # one column, to count rows
        return {**params, "columns": read} if len(read) < len(names) else None

    def filtered(self, params: Params, tests: list[tuple[Any, set[str]]]) -> Params | None:
        """Gives the tests to the reader, where the format can skip rows: it skips by statistics,
        then row by row. Tests that read columns which are not stored, or that call user functions,
        stay with the filter operator. Tests of columns whose values only the path has are done by
        units_with()."""
        if params.get("names") is None or params.get("udf") is not None:
            return None
        stored = set(params["stored"]) - set(params.get("tensors") or ())
        pushed = tuple(
            e for e, used in tests if used & stored and used <= stored | set(params["names"])
        )
        return {**params, "pushed": pushed} if pushed else None

    def units_with(
        self, params: Params, units: list[Any], tests: list[tuple[Any, set[str]]]
    ) -> tuple[list[Any], str] | None:
        """Leaves out files whose folders' names (such as year=2024) give columns values that fail a
        test; these files are not read."""
        if params.get("partitioning") is None or params.get("udf") is not None:
            return None
        # imported late: a program without such folders saves 2 ms
        from skate.data.read import files

        return files.units_with(params, units, tests)

    def run(self, params: Params, batches: None, task: Any) -> Any:
        # set by an earlier task of this stage in the same process
        known: Any = params.get("read_before")
        for rb in _format(params["format"]).run(params, task):
            if known is None or not rb.schema.equals(known):
                params["read_before"] = known = rb.schema
                unify.check_names(known.names, f"{params['label']}, {task.source or 'its input'}")
            yield rb


@functools.cache
def _format(name: str) -> Any:
    return importlib.import_module(f"skate.data.read.formats.{name}")


operator = Read()
