"""decode_images: turns a column of encoded images (bytes of JPEG, PNG and whatever Pillow reads)
into a column of arrays of uint8. Null stays null."""

from __future__ import annotations

from typing import Any

from skate._deps import pa
from skate.data.op import Batches, Columns, Operator, Params
from skate.data.values import batch, pictures, to_arrow
from skate.data.worker import rows


class DecodeImages(Operator):
    one_to_one = by_row = on_error = predicates = True

    def columns(self, params: Params) -> Columns:
        return Columns(needs=frozenset({params["col"]}), makes=frozenset({params["col"]}))

    def modules(self, params: Params) -> tuple[str, ...]:
        return ("skate.data.values.pictures", "PIL.Image")

    def run(self, params: Params, batches: Batches, task: Any) -> Batches:
        want, name, label = pictures.Wanted(*params["want"]), params["col"], params["label"]

        def work(rb: Any) -> list[Any]:
            i = rb.schema.get_field_index(name)
            if i < 0:
                raise rows.missing(name, rb, label)
            column = rb.column(i)
            if not (
                pa.types.is_binary(column.type)
                or pa.types.is_large_binary(column.type)
                or pa.types.is_binary_view(column.type)
            ):
                raise TypeError(f"{label}: column {name!r} is of type {column.type}, not of bytes")
            made, fallbacks = _decoded(column, want)
            out: list[Any] = to_arrow.record_batches(
                list(rb.schema.names), [made if k == i else c for k, c in enumerate(rb.columns)]
            )
            task.fallbacks[params["at"]] += fallbacks  # a batch that fails is not counted
            return out

        for rb in batches:
            for first in range(0, rb.num_rows, ROWS):
                yield from rows.by_batch(params, iter([rb.slice(first, ROWS)]), task, work)


ROWS = 32  # images that are decoded into one batch


def _decoded(column: Any, want: Any) -> tuple[Any, int]:
    """Returns (the images as a column, the number of images that Pillow decoded)."""
    stack = pictures.Stack(len(column), 1 << 62)
    fallbacks, nulls = 0, []
    for k, value in enumerate(column):
        data = value.as_buffer()
        if data is None:
            nulls.append(k)
            continue
        picture, other = pictures.decode(data, want, stack.make)
        stack.add(picture)
        fallbacks += other
    got = stack.column()
    if nulls:
        got = list(got)
        for k in nulls:
            got.insert(k, None)
    return batch.as_column(got, "images", None, None), fallbacks


operator = DecodeImages()
