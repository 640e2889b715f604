"""exchange_map: the first half of an exchange. It is fused after the operators that make the rows,
and turns the output of a task into packs of partitions, or into sorted runs.

params: what (the description of the exchange in the plan's node), keys (names of columns that must
exist), boundaries (of a sort for which the user says at which keys blocks begin; else None). C code
moves the rows (src/shuffle/work.h); the code here collects batches until they are large enough for
a pack, and casts them to one schema (values/unify.py).
"""

from __future__ import annotations

import math
from typing import Any

from skate import _skate
from skate._deps import pa
from skate.data.op import Batches, Operator, Params
from skate.data.values import selection, types, unify


class ExchangeMap(Operator):
    packs = True

    def run(self, params: Params, batches: Batches, task: Any) -> Any:
        row0 = 0
        bounds: dict[Any, Any] = {}
        for rb in gathered(batches, _skate.MAP_BLOCKS * task.target, task.nbytes):
            if not rb.num_columns:  # a batch that has neither rows nor columns
                continue
            check_keys(rb.schema, params.get("keys", ()))
            limits = None
            if params.get("boundaries") is not None:
                t = rb.schema.field(params["keys"][0]).type
                limits = bounds[t] = bounds.get(t) or boundaries(
                    params["boundaries"], params["keys"][0], t
                )
            yield from _skate.exchange_map(
                params["what"], rb, task.seq or 0, row0, limits, task.values
            )
            row0 += rb.num_rows
            del rb  # frees the batch before the next one is collected


def gathered(batches: Batches, most: int, nbytes: Any) -> Batches:
    """Yields all rows in batches of about `most` bytes; an empty batch if there are no rows."""
    held: list[Any] = []
    size, empty, none = 0, None, True
    for rb in batches:
        if not rb.num_rows:
            empty = rb if empty is None else empty
            continue
        n = nbytes(rb)
        if held and size + n > most:
            yield _one(held)
            size = 0
        none = False
        held.append(rb)
        size += n
    if held:
        yield _one(held)
    elif none and empty is not None:
        yield empty


def _one(held: list[Any]) -> Any:
    """Joins all batches into one and empties the list, so that the batches do not stay in memory
    beside the result (10 ms of work for 100 MB)."""
    whole = plain(unify.merge(held))
    held.clear()
    return whole


PARTS = 256  # approximate number of parts of a batch; each part has whole dictionaries
SMALL = 4 << 20  # total bytes of dictionaries up to which each part may repeat them


def plain(rb: Any) -> Any:
    """rb with dictionary-encoded columns decoded where repeating the dictionary in all parts would
    take more bytes than the plain values."""
    columns, schema = rb.columns, rb.schema
    for i, c in enumerate(columns):
        if (
            pa.types.is_dictionary(c.type)
            and PARTS * c.dictionary.nbytes > SMALL
            and PARTS * len(c.dictionary) > len(c)
        ):
            columns[i] = selection.decoded(c)
            schema = schema.set(i, schema.field(i).with_type(columns[i].type))
    return rb if schema.equals(rb.schema) else pa.RecordBatch.from_arrays(columns, schema=schema)


def check_keys(schema: Any, keys: Any) -> None:
    """Raises MissingColumn for a key that is missing; TypeError for a key column of Python objects,
    which have no order."""
    for key in keys:
        i = schema.get_field_index(key)
        if i < 0 and key not in schema.names:
            raise unify.MissingColumn(
                f"You specified the column {key!r}, but there's no such column in the dataset: {unify.columns_are(key, schema.names)}"
            )
        if isinstance(
            schema.field(i if i >= 0 else schema.names.index(key)).type, types.PythonObjectType
        ):
            raise TypeError(
                f"column {key!r} cannot be a key: it holds Python objects of several types, which have no order"
            )


def boundaries(values: list[float], key: str, t: Any) -> Any:
    """The boundaries that the user gave, as a batch with one column of the key's type. A row that
    is not less than a boundary goes behind this boundary."""
    is_ = pa.types
    if is_.is_dictionary(t):
        t = t.value_type
    if not (is_.is_integer(t) or is_.is_floating(t)):
        raise TypeError(f"sort: boundaries are for columns of numbers; {key!r} is of type {t}")
    exact = [math.ceil(v) for v in values] if is_.is_integer(t) else [float(v) for v in values]
    try:
        return pa.RecordBatch.from_arrays([pa.array(exact, t)], names=[key])
    except (pa.ArrowInvalid, OverflowError) as e:
        raise ValueError(
            f"sort: the boundaries {values} do not fit the type {t} of column {key!r}: {e}"
        ) from None


operator = ExchangeMap()
