"""unnest: puts the fields of struct columns in the place of the columns. A null becomes a null in each
field."""

from __future__ import annotations

from typing import Any

from skate._deps import pa
from skate.data.op import Batches, Operator, Params
from skate.data.values import unify
from skate.data.worker import rows


class Unnest(Operator):
    one_to_one = by_row = True

    def schema(self, params: Params, given: Any) -> Any:
        return pa.schema([field for _, _, field in _places(params, given)])

    def run(self, params: Params, batches: Batches, task: Any) -> Batches:
        for rb in batches:
            for name in params["cols"]:
                if name not in rb.schema.names:
                    raise rows.missing(name, rb, params["label"])
            places = _places(params, rb.schema)
            parts = {i: rb.column(i).flatten() for i, part, _ in places if part is not None}
            yield pa.RecordBatch.from_arrays(
                [rb.column(i) if part is None else parts[i][part] for i, part, _ in places],
                schema=pa.schema([field for _, _, field in places]),
            )


def _places(params: Params, given: Any) -> list[tuple[int, int | None, Any]]:
    """For each column of the output: the column of the input, the number of its field, or None for
    the whole column, and the field of the schema."""
    out: list[tuple[int, int | None, Any]] = []
    for i, field in enumerate(given):
        if field.name not in params["cols"]:
            out.append((i, None, field))
            continue
        if not pa.types.is_struct(field.type):
            raise TypeError(
                f"unnest: column {field.name!r} is of type {field.type}, not of structs"
            )
        for k in range(field.type.num_fields):
            part = field.type.field(k)
            name = part.name
            if params["separator"] is not None:
                name = f"{field.name}{params['separator']}{name}"
            out.append((i, k, part.with_name(name).with_nullable(True)))
    unify.check_names([field.name for _, _, field in out], "unnest")
    return out


operator = Unnest()
