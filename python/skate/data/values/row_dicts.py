"""Converts record batches into rows (dicts of Python values), and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skate._deps import extensions, pa
from skate.data.context import DataContext
from skate.data.values.flat import FIXED_LIST, LISTS
from skate.data.values.from_arrow import to_objects
from skate.data.values.marks import python_values
from skate.data.values.to_arrow import from_objects, hint_of, record_batches
from skate.data.values.types import PythonObjectType
from skate.data.values.unify import cast_batch, merge


def to_columns(rb: pa.RecordBatch) -> list[list[Any]]:
    """The Python values of each column: ints, floats, str, ..., None for null; tensors as
    ndarrays."""
    out = []
    for name, col in zip(rb.schema.names, rb.columns, strict=True):
        t = col.type
        if t.id in LISTS or t.id == FIXED_LIST:
            out.append(python_values(name, col))
        else:
            out.append(to_objects(name, col))
    return out


def to_rows(rb: pa.RecordBatch) -> list[dict[str, Any]]:
    """One dict for each row."""
    names = rb.schema.names
    cols = to_columns(rb)
    if len(names) == 1:
        k = names[0]
        return [{k: v} for v in cols[0]]
    if len(names) == 2:
        k, m = names
        return [{k: v, m: w} for v, w in zip(cols[0], cols[1], strict=True)]
    return (
        [dict(zip(names, r, strict=True)) for r in zip(*cols, strict=True)]
        if names
        else [{} for _ in range(rb.num_rows)]
    )


def in_wider_schema(rows: list[dict[str, Any]], old: pa.Schema, new: pa.Schema) -> None:
    """Changes rows made by to_rows() in place: they get the values that they have in a wider
    schema."""
    names, had = new.names, set(old.names)
    other = [n for n in names if n not in had or not old.field(n).type.equals(new.field(n).type)]
    # a column of nulls has None in both schemas
    other = [n for n in other if n not in had or not pa.types.is_null(old.field(n).type)]
    same_order = names == old.names
    for at in range(0, len(rows), 65536):
        some = rows[at : at + 65536]
        for n in (n for n in other if n in had):
            t = old.field(n).type
            was = pa.Table.from_arrays(
                [from_objects([r[n] for r in some], t)], schema=pa.schema([(n, t)])
            )
            for row, v in zip(
                some,
                (
                    r[n]
                    for b in was.to_batches()
                    for r in to_rows(cast_batch(b, pa.schema([new.field(n)])))
                ),
                strict=True,
            ):
                row[n] = v
        if not same_order:
            for row in some:
                values = dict(row)
                row.clear()
                row.update((n, values.get(n)) for n in names)


def from_rows(
    rows: list[Mapping[str, Any]], what: str, rb: pa.RecordBatch | None = None
) -> pa.RecordBatch | None:
    """One batch of all rows (see rows_to_batches); None if there are no rows."""
    rbs = rows_to_batches(rows, what, rb)
    return merge(rbs) if rbs else None


def rows_to_batches(
    rows: list[Mapping[str, Any]], what: str, rb: pa.RecordBatch | None = None
) -> list[pa.RecordBatch]:
    """Converts rows (dicts; a missing key is null; columns in the order of their first appearance)
    to a batch; to several batches if one cannot hold them, and to none if there are no rows."""
    if not rows:
        return []
    keys = list(rows[0])
    n = len(keys)
    cols: list[list[Any]] | None = None
    if n and set(map(len, rows)) == {n}:
        try:
            cols = [[r[k] for r in rows] for k in keys]
        except KeyError:
            cols = None
    if cols is None:
        seen: dict[str, None] = {}
        for r in rows:
            seen.update(dict.fromkeys(r))
        keys = list(seen)
        cols = [[r.get(k) for r in rows] for k in keys]
    arrays = []
    for k, values in zip(keys, cols, strict=True):
        if type(k) is not str:
            raise TypeError(
                f"{what} returned a row with the key {k!r} of type {type(k).__name__}; column names are str"
            )
        old = hint_of(k, rb)
        try:
            arrays.append(from_objects(values, None if old is None else old.type, old))
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as e:
            raise type(e)(
                f"{what} returned column {k!r} that cannot become an Arrow column: {e}"
            ) from None
    if DataContext.get_current().enable_fallback_to_arrow_object_ext_type is False:
        _no_objects(keys, arrays, what)
    return record_batches(keys, arrays) if arrays else []


def _no_objects(names: list[str], arrays: list[pa.Array], what: str) -> None:
    """Raises an error for columns of Python objects in rows, as Ray does; in batches they are
    allowed, whatever the setting."""
    for name, a in zip(names, arrays, strict=True):
        if isinstance(a.type, PythonObjectType):
            raise extensions.ArrowConversionError(
                f"{what} returned column {name!r} that cannot become an Arrow column: it holds objects, and they are not pickled, since "
                "DataContext.enable_fallback_to_arrow_object_ext_type is False"
            )
