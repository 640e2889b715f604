"""The reports of a write, in which its tasks tell the driver which files they wrote."""

from __future__ import annotations

import importlib
import pickle
from types import SimpleNamespace
from typing import Any

from skate._deps import load, pa
from skate.data.values import encoded_text, tensor_types, to_arrow, unify

KEY = b"skate.schemas"

TYPED = {"parquet", "arrow", "orc"}  # the formats whose files have a schema

Report = tuple[str, int, int]


def said(schemas: list[Any]) -> dict[bytes, bytes]:
    """Makes the metadata of a report: the schema of each of its files."""
    texts: dict[bytes, int] = {}
    known: dict[int, int] = {}
    at = []
    for s in schemas:
        if id(s) not in known:
            text = encoded_text.file_schema(s).remove_metadata().serialize().to_pybytes()
            known[id(s)] = texts.setdefault(text, len(texts))
        at.append(known[id(s)])
    return {KEY: pickle.dumps((list(texts), at))}


def heard(rb: Any) -> list[bytes]:
    """Reads the schemas of the files of a report, as bytes; empty for formats without types."""
    text = (rb.schema.metadata or {}).get(KEY)
    if text is None:
        return []
    texts, at = pickle.loads(text)
    return [texts[i] for i in at]


def report(files: list[tuple[str, int, int]]) -> Any:
    """Makes a report: a batch with name, rows and bytes of each file."""
    schema = pa.schema([("path", pa.string()), ("rows", pa.int64()), ("bytes", pa.int64())])
    cols = list(zip(*files, strict=True)) if files else [(), (), ()]
    return pa.RecordBatch.from_arrays(
        [to_arrow.from_objects(list(c), f.type) for c, f in zip(cols, schema, strict=True)],
        schema=schema,
    )


class Reports:
    """Collects the reports of a write's tasks. A report names files or, if the task had no rows,
    the columns. known: the schema, if it is known before the run."""

    def __init__(self, known: Any):
        self.known = known
        self.schemas: list[Any] = []
        self.written: list[bytes] = []  # the schema of each file, for formats with types

    def files(self, rb: Any) -> list[tuple[str, int, int]]:
        """(name, rows, bytes) of the files of a report."""
        load(tensor_types)  # registers skate's types, which the schema may have
        if rb.schema.names == ["no_rows"]:
            self.schemas += [pa.ipc.read_schema(pa.py_buffer(v)) for v in rb.column(0).to_pylist()]
            return []
        self.written += heard(rb)
        return list(zip(*(c.to_pylist() for c in rb.columns), strict=True))

    def without_rows(self, params: dict[str, Any]) -> list[tuple[str, int, int]]:
        """Writes one file for a write that had no rows, so that its columns can be read back; no
        file if the columns are unknown."""
        schema = self.known
        if self.schemas:
            try:
                schema = unify.unify(self.schemas)
            except TypeError:  # the columns of tasks without rows may have conflicting types
                schema = self.schemas[0]
        schema = params["args"].get("schema", schema)
        if schema is None or not len(schema) or params["format"] == "images":
            return []
        task = SimpleNamespace(
            seq=0, unit=b"", nbytes=lambda rb: 0, target=1 << 20, sides=[], source=""
        )
        run = importlib.import_module(f"skate.data.write.{params['format']}").run
        (rb,) = run(
            {**params, "partition_cols": None, "no_rows": True},
            iter(to_arrow.from_table(schema.empty_table())),
            task,
        )
        return self.files(rb)
