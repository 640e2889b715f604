"""Bounds of a column's values in a row group, from the statistics of a Parquet file, for
expr.bounds.may_hold().

Statistics may be absent, may omit the number of nulls, and by the specification omit NaN, so a
column of floats may always contain NaN. Values are compared in their stored form by their logical
type; types without a reliable order (INT96, half floats, nested columns) have no bounds here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from skate._deps import pa
from skate._deps import pa_types as _T
from skate.data.expr.bounds import Bounds
from skate.data.values import comparison

_UNITS = {"milliseconds": 10**6, "microseconds": 1000, "nanoseconds": 1}


def indices(md: Any, names: Iterable[str]) -> dict[str, int]:
    """The indices in the file of those columns with these names that are neither nested nor
    repeated."""
    columns, wanted = md.schema, set(names)
    found = ((i, columns.column(i)) for i in range(md.num_columns))
    return {
        c.path: i
        for i, c in found
        if c.path in wanted and c.max_repetition_level == 0 and c.max_definition_level <= 1
    }


def bounds(md: Any, group: int, index: int, t: pa.DataType) -> Bounds:
    """Bounds of a column in a row group; t is its Arrow type."""
    chunk, t = md.row_group(group).column(index), comparison.plain_type(t)
    said = chunk.statistics
    floats = _T.is_floating(t)
    if said is None:
        return Bounds(t, None, None, nan=floats, nulls=True)
    nulls = not said.has_null_count or said.null_count > 0
    if said.has_null_count and said.null_count == chunk.num_values:
        return Bounds(t, None, None, values=False, nulls=True)
    ends = (
        _ends(said, chunk.physical_type, md.schema.column(index), t) if said.has_min_max else None
    )
    # Old writers store NaN as a bound; comparisons with NaN are false, so such bounds count as
    # unknown
    known = ends is not None and None not in ends and ends[0] <= ends[1]
    low, high = ends if ends is not None and known else (None, None)
    return Bounds(t, low, high, nan=floats, nulls=nulls)


def _ends(said: Any, stored: str, column: Any, t: pa.DataType) -> tuple[Any, Any] | None:
    """The smallest and the largest value, in the form of position()."""
    if _T.is_integer(t) and stored in ("INT32", "INT64"):
        low, high = said.min_raw, said.max_raw
        return (
            (low % (1 << int(stored[3:])), high % (1 << int(stored[3:])))
            if _T.is_unsigned_integer(t)
            else (low, high)
        )
    if (
        stored in ("FLOAT", "DOUBLE")
        and _T.is_floating(t)
        or stored == "BOOLEAN"
        and _T.is_boolean(t)
    ):
        return said.min_raw, said.max_raw
    if stored == "BYTE_ARRAY" and (comparison.is_text(t) or comparison.is_bytes(t)):
        return said.min_raw, said.max_raw
    if _T.is_decimal(t) or _T.is_fixed_size_binary(t):
        return comparison.position(said.min, t), comparison.position(said.max, t)
    unit = _unit(column, t) if stored in ("INT32", "INT64") else None
    return None if unit is None else (said.min_raw * unit, said.max_raw * unit)


def _unit(column: Any, t: pa.DataType) -> int | None:
    """The nanoseconds in one unit of a stored date, time or duration."""
    kind = column.logical_type.type
    if kind == "DATE" and _T.is_date(t):
        return comparison.DAY_NS
    if (kind == "TIMESTAMP" and _T.is_timestamp(t)) or (kind == "TIME" and _T.is_time(t)):
        return _UNITS.get(json.loads(column.logical_type.to_json())["timeUnit"])
    return comparison.tick(t) if kind == "NONE" and _T.is_duration(t) else None
