"""Parquet files: row groups of about 32 MiB; columns with repeated values have dictionaries.

Arrow's writer puts each value of every column into a hash table until the dictionary is full. For
columns of distinct values this takes longer than all the rest of the writing. So the number of
distinct values of each column is estimated from a sample of its first rows, and a column whose
dictionary would save less than a quarter of its bytes is written without one. If the user gives
use_dictionary or column_encoding, no estimate is made. Cost: about 0.2 ms for each column and file.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator
from typing import Any

from skate._deps import np, pa, pc, pq
from skate.data.checks import columns, keywords, parameters
from skate.data.values import encoded_text, to_arrow
from skate.data.values.unify import concat_as
from skate.data.write import files

WORKERS_IMPORT = ("pyarrow.parquet",)  # the fork server imports these for all workers
ROW_GROUP_BYTES = 32 << 20
SAMPLE = 2048  # rows of a sample


def encoded(params: dict[str, Any]) -> bool:
    """Whether a write with these parameters accepts dictionary-encoded strings."""
    return not params["partition_cols"] and "store_schema" not in params["args"]


def check(args: dict[str, Any], schema: Any) -> None:
    """TypeError for unknown arguments; with a schema, TypeError for a column that Parquet cannot
    represent."""
    known = [
        *parameters(pq.write_table, ("table", "where", "filesystem")),
        *parameters(pq.ParquetWriter.__init__, ("self", "where", "filesystem")),
    ]
    keywords("write_parquet", args, dict.fromkeys([*known, "partitioning_flavor"]))
    if schema is not None and args.get("schema") is None:
        _as_stored(schema)


def _as_stored(schema: Any) -> Any:
    """The schema in which Parquet accepts these columns. Only columns whose types may fail are
    tried, since a try takes long."""

    def write(s: Any) -> None:
        with pq.ParquetWriter(pa.BufferOutputStream(), s) as w:
            # The table needs one row: without rows the writer does not look at the values of a
            # dictionary.
            w.write_table(pa.table([pa.nulls(1, f.type) for f in s], schema=s))

    doubtful = [f for f in schema if _doubtful(f.type)]
    if not doubtful:
        return schema
    fields = {
        f.name: f
        for f in columns(
            "write_parquet", "Parquet", pa.schema(doubtful), write, "turn it into another type"
        )
    }
    return pa.schema([fields.get(f.name, f) for f in schema], schema.metadata)


def _doubtful(t: Any) -> bool:
    """Whether Parquet may be unable to represent a type."""
    is_ = pa.types
    if isinstance(t, pa.BaseExtensionType):
        return _doubtful(t.storage_type)
    if is_.is_dictionary(t):
        return (
            is_.is_string_view(t.value_type)
            or is_.is_binary_view(t.value_type)
            or _doubtful(t.value_type)
        )
    if is_.is_union(t) or is_.is_run_end_encoded(t) or is_.is_interval(t):
        return True
    return is_.is_nested(t) and any(_doubtful(t.field(i).type) for i in range(t.num_fields))


class _Writer:
    def __init__(self, sink: Any, schema: Any, args: dict[str, Any]):
        self.sink, self.args = sink, dict(args)
        # The user's schema: values that cannot be cast to it without loss are an error.
        self.given = self.args.pop("schema", None)
        self.schema = _as_stored(schema) if self.given is None else self.given
        self.row_group_size = self.args.pop("row_group_size", None)
        self.w: Any = None

    def write(self, table: Any) -> None:
        if not table.schema.equals(self.schema):
            table = concat_as(table, self.schema)
        table = encoded_text.storage(table)
        if self.w is None:
            self._begin(table)
        writer: Any = self.w
        writer.write_table(table, self.row_group_size)

    def close(self) -> None:
        if self.w is not None:
            self.w.close()

    def _begin(self, table: Any) -> None:
        if not self.args.keys() & {"use_dictionary", "column_encoding"}:
            plain = {
                n for n, c in zip(table.column_names, table.columns, strict=True) if _distinct(c)
            }
            if plain:
                self.args["use_dictionary"] = [
                    p for f in table.schema if f.name not in plain for p in _leaves(f.name, f.type)
                ]
        said = encoded_text.file_schema(self.schema)
        if said.equals(self.schema):
            self.w = pq.ParquetWriter(self.sink, self.schema, **self.args)
        else:  # without this, the file's schema would have dictionaries for encoded columns
            self.w = pq.ParquetWriter(self.sink, table.schema, store_schema=False, **self.args)
            self.w.add_key_value_metadata(
                {"ARROW:schema": base64.b64encode(said.serialize()).decode()}
            )


def _distinct(col: Any) -> bool:
    """Whether a dictionary of a column would save less than a quarter of its bytes. It is estimated
    from two samples: rows spread over the column, and neighbouring rows."""
    if not len(col):
        return False
    t, rows, col = col.type, len(col), col.chunk(0)
    n = len(col)
    text = (
        pa.types.is_string(t)
        or pa.types.is_large_string(t)
        or pa.types.is_binary(t)
        or pa.types.is_large_binary(t)
    )
    if n < 8 * SAMPLE or not (text or pa.types.is_primitive(t) and t.bit_width >= 32):
        return False
    spread = col.take(to_arrow.array_from_numpy(np.arange(0, n, n // SAMPLE), None)).drop_null()
    k, close = len(spread), col[:SAMPLE].drop_null()
    if not k or not len(close):
        return False
    width = spread.nbytes / k
    # Drawing k times from v values gives about k * k / 2v repeats.
    twice = max(0.5, k - pc.count_distinct(spread).as_py())
    values = min(k * k / 2 / twice, rows * pc.count_distinct(close).as_py() / len(close))
    return bool(values * width + rows * math.log2(values) / 8 > 0.75 * rows * width)


def _leaves(path: str, t: Any) -> list[str]:
    """The paths of the Parquet columns that a column is stored as."""
    if isinstance(t, pa.BaseExtensionType):
        return _leaves(path, t.storage_type)
    if pa.types.is_struct(t):
        return [
            p
            for i in range(t.num_fields)
            for p in _leaves(f"{path}.{t.field(i).name}", t.field(i).type)
        ]
    if pa.types.is_map(t):
        return [
            *_leaves(f"{path}.key_value.key", t.key_type),
            *_leaves(f"{path}.key_value.value", t.item_type),
        ]
    if pa.types.is_nested(t) and hasattr(t, "value_type"):
        return _leaves(f"{path}.list.element", t.value_type)
    return [path]


def schema(file: Any) -> Any:
    """The schema of a file."""
    return pq.read_schema(file)


def parts(file: Any) -> Iterator[Any]:
    """The Tables that a file was written from."""
    with pq.ParquetFile(file) as pf:
        for i in range(pf.num_row_groups):
            yield pf.read_row_group(i)


def run(params: dict[str, Any], batches: Iterator[Any], task: Any) -> Iterator[Any]:
    if params.get("encoded"):
        batches = encoded_text.level(batches)
    yield from files.run(params, batches, task, "parquet", _Writer, ROW_GROUP_BYTES)
