"""Checks the columns of a key, and converts them to plain types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from skate._deps import pa
from skate._deps import pa_types as _T
from skate.data.values import encoded_text, from_arrow, selection
from skate.data.values import types as value_types
from skate.data.values.unify import MissingColumn, columns_are


def orderable(t: pa.DataType) -> bool:
    """Whether a column of this type may be a key (src/kernel/key.c)."""
    if _T.is_dictionary(t):
        return orderable(t.value_type)
    if isinstance(t, pa.BaseExtensionType):
        return not isinstance(t, value_types.PythonObjectType) and orderable(t.storage_type)
    return (
        not _T.is_nested(t)
        and not _T.is_run_end_encoded(t)
        and t.id != pa.lib.Type_INTERVAL_MONTH_DAY_NANO
    )


def key_columns(
    rb: pa.RecordBatch, keys: Sequence[str], what: str, made: Callable[[Any], Any] | None = None
) -> list[Any]:
    """The columns of a key; MissingColumn if one is missing, ValueError for a type that has no
    order. made: a function that converts each column; None: plain()."""
    out = []
    for k in keys:
        i = rb.schema.get_field_index(k)
        if i < 0:
            raise MissingColumn(
                f"{what}: there is no column {k!r}; {columns_are(k, rb.schema.names)}"
            )
        c = rb.column(i)
        if not (orderable(c.type) or encoded_text.is_encoded(c.type)):
            raise ValueError(
                f"{what}: column {k!r} of type {c.type} cannot be a key: its values have no order"
            )
        out.append((made or plain)(c))
    return out


def plain(col: Any) -> Any:
    """A column without a dictionary, run ends or views, which are replaced by plain types."""
    if encoded_text.is_encoded(col.type):
        col = col.storage
    t = col.type
    if _T.is_run_end_encoded(t):
        return plain(from_arrow.runs_decoded(col))
    if _T.is_dictionary(t):
        return plain(selection.decoded(col))
    return (
        col.cast(pa.string())
        if _T.is_string_view(t)
        else col.cast(pa.binary())
        if _T.is_binary_view(t)
        else col
    )
