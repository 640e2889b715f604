"""One schema for all files of a write: files with another schema are written again before the
commit.

A task knows the types of its own rows only; where users' functions make the rows, a column may be
null or int in one task and float in another. So tasks report the schemas of their files. If these
differ, a schema that can hold all files is found (values/unify.py: a TypeError names two files),
and files with another schema are cast, by one task for each. If all schemas are the same, this
costs nothing. Formats whose files have types: Parquet, Arrow, ORC. A write that was resumed reads
the schemas of all its files, and its log records which files were written again, and where
(resume.py).
"""

from __future__ import annotations

import importlib
import os
from types import SimpleNamespace
from typing import Any

import skate
from skate._deps import load, pa
from skate.data.files.reading import open_file
from skate.data.values import tensor_types
from skate.data.values.unify import ADVICE, concat_as, retold, unify
from skate.data.write.files import Files
from skate.data.write.reports import TYPED, Report


def wanted(params: dict[str, Any]) -> bool:
    """Whether the files of a write have to have one schema: true for a format with types, unless
    the user has given the schema or has the files compressed as a whole."""
    return params["format"] in TYPED and "schema" not in params["args"] and not params["stream"]


def level(
    label: str, params: dict[str, Any], reports: list[Report], schemas: list[bytes]
) -> list[Report]:
    """Brings all files to one schema; returns their reports."""
    other, text = misfits(label, [r[0] for r in reports], schemas)
    sizes = dict(
        zip(
            other,
            again(
                params,
                [(f"{params['folder']}/{reports[i][0]}", reports[i][0]) for i in other],
                text,
            ),
            strict=True,
        )
    )
    return [(name, rows, sizes.get(i, size)) for i, (name, rows, size) in enumerate(reports)]


def misfits(label: str, names: list[str], schemas: list[bytes]) -> tuple[list[int], bytes]:
    """Returns (the numbers of the files whose schema is not the common one, the common schema).
    TypeError if there is no common schema; it names the operator, two files, the column and both
    types."""
    if len(set(schemas)) < 2 or len(schemas) != len(names):
        return [], b""
    load(tensor_types)  # registers skate's types, which the schemas may have
    first: dict[bytes, str] = {}
    for name, s in zip(names, schemas, strict=True):
        first.setdefault(s, name)
    found = {s: pa.ipc.read_schema(pa.py_buffer(s)) for s in first}
    try:
        whole = unify(list(found.values()), list(first.values()))
    except TypeError as e:
        raise retold(
            e, f"{label}: ", f": {ADVICE}. No file of this write is in its place"
        ) from None
    other = {s for s, schema in found.items() if not schema.equals(whole)}
    return [i for i, s in enumerate(schemas) if s in other], whole.serialize().to_pybytes()


def again(params: dict[str, Any], files: list[tuple[str, str]], text: bytes) -> list[int]:
    """Writes files again in the schema `text`, which can hold their values, by one task for each
    file, and returns their sizes. files: (present path, name in the folder of params) of each."""
    if not files:
        return []
    task = skate.remote(num_cpus=1)(_again)
    to = {
        k: params.get(k)
        for k in ("format", "folder", "fs", "args", "stream", "prefix", "max_rows", "sync")
    }
    return skate.get([task.remote(to, old, name, text) for old, name in files])


def of_file(params: dict[str, Any], full: str) -> bytes:
    """The schema of a file, as bytes."""
    load(tensor_types)  # registers skate's types, which the schema may have
    with open_file(params["fs"], full) as f:
        schema = importlib.import_module(f"skate.data.write.{params['format']}").schema(f)
    return schema.remove_metadata().serialize().to_pybytes()


def _again(params: dict[str, Any], old: str, name: str, text: bytes) -> int:
    load(tensor_types)
    module = importlib.import_module(f"skate.data.write.{params['format']}")
    schema = pa.ipc.read_schema(pa.py_buffer(text))
    full = f"{params['folder']}/{name}"
    files = Files(params, SimpleNamespace(seq=0, unit=b""), "", module._Writer)
    new = (
        full if params["fs"] is not None or old != full else f"{full}.new"
    )  # a remote file is replaced when the new one is closed
    with open_file(params["fs"], old) as f:
        parts = module.parts(f) if new != old else list(module.parts(f))
        sink = files._open(new)
        writer = (module._Writer(sink, schema, params["args"]), sink)
        try:
            for t in parts:
                writer[0].write(concat_as(t, schema))
            files._close(writer, name, new, 0)
        except BaseException as e:
            files._abort(writer, new, e)
            raise
    if new != full:
        os.replace(new, full)
    return files.reports[0][2]
