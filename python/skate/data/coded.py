"""Strings that stay as Parquet stores them, numbers into a dictionary, on their way from a Parquet reader to a Parquet writer in one task.

A job that reads, adds a column, filters and writes passes most strings on as they are. To make them strings in between costs more than the rest of reading and
filtering. So where a stage is read_parquet, then map_batches (of NumPy batches) and filters by expressions, then write_parquet, columns of few different
strings travel as CodedText: the operators between know it, users' functions see the strings, the files are of strings as always.

Not here: the dictionary types that users have; those are theirs. Invariant: CodedText never leaves the task, nor reaches an operator that is not named here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

DICTIONARY_MAX = 64 << 10  # bytes in the file, and half a byte a row: then the values are few


class CodedText(pa.ExtensionType):
    """Strings as numbers into a dictionary."""

    def __init__(self) -> None:
        super().__init__(pa.dictionary(pa.int32(), pa.string()), "skate.coded_text")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> CodedText:
        return cls()


TYPE = CodedText()


def is_coded(t: pa.DataType) -> bool:
    return isinstance(t, CodedText)


def mark(ops: list[tuple[Any, dict[str, Any]]]) -> None:
    """Tells reader and writer of a stage (operators and their parameters) that strings may stay coded, if all its operators know of it."""
    if len(ops) > 1 and _reads(*ops[0]) and _writes(*ops[-1]) and all(_knows(*o) for o in ops[1:-1]):
        ops[0][1]["coded"] = ops[-1][1]["coded"] = True


def _reads(fn: Any, p: dict[str, Any]) -> bool:
    if fn.__name__ != "read" or p["format"] != "parquet":
        return False
    return p["filter"] is None and p["pushed"] is None and p["schema"] is None and p["udf"] is None and not p["tensors"]


def _writes(fn: Any, p: dict[str, Any]) -> bool:
    return fn.__name__ == "write" and p["format"] == "parquet" and not p["partition_cols"] and "store_schema" not in p["args"]


def _knows(fn: Any, p: dict[str, Any]) -> bool:
    if (p.get("on_error") or "raise") != "raise":  # dead letters hold rows
        return False
    if fn.__name__ == "map_batches":
        return p["batch_format"] in ("default", "numpy") and p["batch_size"] is None
    return fn.__name__ == "filter" and p.get("expr") is not None


# ---- reader


def columns(schema: pa.Schema, md: Any, groups: list[int]) -> list[str]:
    """Columns of a Parquet file that are strings, of few different values in all of these row groups."""
    out = []
    at = {md.row_group(groups[0]).column(i).path_in_schema: i for i in range(md.num_columns)} if groups else {}
    for f in schema:
        if f.type != pa.string() or f.name not in at:
            continue
        chunks = [md.row_group(g).column(at[f.name]) for g in groups]
        if all(
            c.has_dictionary_page and 0 < c.data_page_offset - c.dictionary_page_offset <= min(DICTIONARY_MAX, c.num_values // 2)
            for c in chunks
        ):
            out.append(f.name)
    return out


def code(rb: pa.RecordBatch, names: list[str]) -> pa.RecordBatch:
    """rb, whose columns `names` were read as dictionaries, with CodedText in their place."""
    cols, fields = list(rb.columns), list(rb.schema)
    for n in names:
        i = rb.schema.get_field_index(n)
        cols[i] = pa.ExtensionArray.from_storage(TYPE, cols[i])
        fields[i] = fields[i].with_type(TYPE)
    return pa.RecordBatch.from_arrays(cols, schema=pa.schema(fields))


# ---- between


def plain(col: pa.Array) -> pa.Array:
    """The strings of a coded column; another column as it is."""
    return col.storage.dictionary_decode() if is_coded(col.type) else col


def plain_columns(rb: pa.RecordBatch, names: set[str] | None) -> pa.RecordBatch:
    """rb with strings in the columns `names` (None: all)."""
    for i, f in enumerate(rb.schema):
        if is_coded(f.type) and (names is None or f.name in names):
            rb = rb.set_column(i, f.with_type(pa.string()), plain(rb.column(i)))
    return rb


# ---- writer


def level(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same batches, with those columns coded that were so in the first one: a function may give strings of its own for some batches."""
    first: set[str] | None = None
    for rb in batches:
        now = {f.name for f in rb.schema if is_coded(f.type)}
        if first is None and rb.num_rows:
            first = now
        if first is not None and now != first:
            rb = plain_columns(rb, now - first)
            for i, f in enumerate(rb.schema):
                if f.name in first - now and f.type == pa.string():
                    rb = rb.set_column(i, f.with_type(TYPE), pa.ExtensionArray.from_storage(TYPE, rb.column(i).dictionary_encode()))
        yield rb


def storage(table: pa.Table) -> pa.Table:
    """A table for the file writer: dictionaries in the place of coded columns, one a column."""
    coded = [i for i, f in enumerate(table.schema) if is_coded(f.type)]
    for i in coded:
        f, c = table.schema.field(i), table.column(i)
        t = TYPE.storage_type
        table = table.set_column(i, f.with_type(t), pa.chunked_array([x.storage for x in c.chunks], t))
    return table.unify_dictionaries() if coded else table


def file_schema(schema: pa.Schema) -> pa.Schema:
    """What the file is to say of itself: strings."""
    return pa.schema([f.with_type(pa.string()) if is_coded(f.type) else f for f in schema], schema.metadata)
