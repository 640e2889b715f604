"""explode: makes one row for each element of a list column; the other columns are repeated. A row
whose list is empty or null becomes one row with null."""

from __future__ import annotations

from typing import Any

from skate._deps import np, pa, pc
from skate.data.op import Batches, Columns, Operator, Params
from skate.data.values import selection, to_arrow
from skate.data.worker import rows


class Explode(Operator):
    by_row = predicates = True

    def columns(self, params: Params) -> Columns:
        return Columns(needs=frozenset({params["col"]}), makes=frozenset({params["col"]}))

    def schema(self, params: Params, given: Any) -> Any:
        i = given.get_field_index(params["col"])
        return given.set(i, given.field(i).with_type(_values(given.field(i))))

    def modules(self, params: Params) -> tuple[str, ...]:
        return ("pyarrow.compute",)

    def run(self, params: Params, batches: Batches, task: Any) -> Batches:
        name, label = params["col"], params["label"]
        for rb in batches:
            i = rb.schema.get_field_index(name)
            if i < 0:
                raise rows.missing(name, rb, label)
            _values(rb.schema.field(i))
            yield _exploded(rb, i)


def _values(field: Any) -> Any:
    """The type of the elements of a list column; TypeError if the column has no lists."""
    t = field.type
    if not (
        pa.types.is_list(t)
        or pa.types.is_large_list(t)
        or pa.types.is_fixed_size_list(t)
        or _view(t)
    ):
        raise TypeError(f"explode: column {field.name!r} is of type {t}, not of lists")
    return t.value_type


def _view(t: Any) -> bool:
    return bool(pa.types.is_list_view(t) or pa.types.is_large_list_view(t))


def _exploded(rb: Any, i: int) -> Any:
    lists = selection.listed(rb.column(i)) if _view(rb.schema.field(i).type) else rb.column(i)
    n = np.array(pc.fill_null(pc.list_value_length(lists), 0).to_pylist(), np.int64)
    parent = np.repeat(np.arange(rb.num_rows), np.maximum(n, 1))
    none = np.repeat(n == 0, np.maximum(n, 1))  # true for output rows of an empty or null list
    element = np.cumsum(~none) - 1
    at = pc.if_else(
        to_arrow.array_from_numpy(none, None),
        pa.scalar(None, pa.int64()),
        to_arrow.array_from_numpy(element, None),
    )
    values = selection.take_values(pc.list_flatten(lists), at)
    out = selection.take(rb, parent)
    return out.set_column(i, rb.schema.field(i).with_type(values.type), values)


operator = Explode()
