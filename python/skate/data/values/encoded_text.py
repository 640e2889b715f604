"""Strings that stay dictionary-encoded, as Parquet stores them, from a Parquet reader to a Parquet
writer, or to aggregates by group, within one task.

A job that reads, adds a column, filters and writes passes most strings on unchanged. Decoding them
would take longer than all other reading and filtering. So where the optimiser says so
(plan/optimise.py: dictionary_encoding), columns with few different strings become EncodedText:
operators pass it through, user functions get plain strings, and files contain strings, as without
it; the keys of groups work the same way (group_keys.py).

Dictionary types in users' data are not changed. Invariant: EncodedText never leaves the task, and
never reaches an operator whose facts `encoded` and `decodes` are both false.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from skate._deps import pa

# the largest dictionary of a column in the file, in bytes; it may also have at most half a byte for
# each row
DICTIONARY_MAX = 64 << 10


class EncodedText(pa.ExtensionType):
    """Strings as indices into a dictionary; only this module makes columns of this type."""

    def __init__(self) -> None:
        super().__init__(pa.dictionary(pa.int32(), pa.string()), "skate.encoded_text")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> EncodedText:
        return cls()


TYPE = EncodedText()


def is_encoded(t: pa.DataType) -> bool:
    return isinstance(t, EncodedText)


# ---- Encoding strings in the reader.


def columns(schema: pa.Schema, md: Any, groups: list[int]) -> list[str]:
    """The string columns of a Parquet file that have few different values in all of these row
    groups."""
    out = []
    at = (
        {md.row_group(groups[0]).column(i).path_in_schema: i for i in range(md.num_columns)}
        if groups
        else {}
    )
    for f in schema:
        if f.type != pa.string() or f.name not in at:
            continue
        chunks = [md.row_group(g).column(at[f.name]) for g in groups]
        if all(
            c.has_dictionary_page
            and 0
            < c.data_page_offset - c.dictionary_page_offset
            <= min(DICTIONARY_MAX, c.num_values // 2)
            for c in chunks
        ):
            out.append(f.name)
    return out


def encode(rb: pa.RecordBatch, names: list[str]) -> pa.RecordBatch:
    """rb with EncodedText for the columns `names`, which were read as dictionaries."""
    cols, fields = list(rb.columns), list(rb.schema)
    for n in names:
        i = rb.schema.get_field_index(n)
        cols[i] = pa.ExtensionArray.from_storage(TYPE, cols[i])
        fields[i] = fields[i].with_type(TYPE)
    return pa.RecordBatch.from_arrays(cols, schema=pa.schema(fields))


# ---- Encoded strings in operators.


def plain(col: pa.Array) -> pa.Array:
    """The strings of an encoded column; another column unchanged."""
    return col.storage.dictionary_decode() if is_encoded(col.type) else col


def plain_columns(rb: pa.RecordBatch, names: set[str] | None) -> pa.RecordBatch:
    """rb with plain strings in the columns `names` (None: all)."""
    for i, f in enumerate(rb.schema):
        if is_encoded(f.type) and (names is None or f.name in names):
            rb = rb.set_column(i, f.with_type(pa.string()), plain(rb.column(i)))
    return rb


# ---- Encoded strings in the writer.


def level(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Encodes in each batch the columns that are encoded in the first batch: a function may return
    plain strings for some batches."""
    first: set[str] | None = None
    for rb in batches:
        now = {f.name for f in rb.schema if is_encoded(f.type)}
        if first is None and rb.num_rows:
            first = now
        if first is not None and now != first:
            rb = plain_columns(rb, now - first)
            for i, f in enumerate(rb.schema):
                if f.name in first - now and f.type == pa.string():
                    rb = rb.set_column(
                        i,
                        f.with_type(TYPE),
                        pa.ExtensionArray.from_storage(TYPE, rb.column(i).dictionary_encode()),
                    )
        yield rb


def storage(table: pa.Table) -> pa.Table:
    """A table for the file writer: each encoded column becomes one dictionary."""
    encoded = [i for i, f in enumerate(table.schema) if is_encoded(f.type)]
    for i in encoded:
        f, c = table.schema.field(i), table.column(i)
        t = TYPE.storage_type
        table = table.set_column(
            i, f.with_type(t), pa.chunked_array([x.storage for x in c.chunks], t)
        )
    return table.unify_dictionaries() if encoded else table


def file_schema(schema: pa.Schema) -> pa.Schema:
    """The schema that the file gets: encoded columns are strings."""
    return pa.schema(
        [f.with_type(pa.string()) if is_encoded(f.type) else f for f in schema], schema.metadata
    )
