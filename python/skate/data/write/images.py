"""Images: each row becomes a file, which Pillow encodes."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

from skate._deps import Image
from skate.data.values import row_dicts
from skate.data.values.unify import columns_are
from skate.data.write.files import Files


def run(params: dict[str, Any], batches: Iterator[Any], task: Any) -> Iterator[Any]:
    column, fmt = params["args"]["column"], params["args"]["file_format"]
    files = Files(params, task, fmt, None)
    n = 0
    for rb in batches:
        if column not in rb.schema.names:
            raise KeyError(
                f"write_images: there is no column {column!r}; {columns_are(column, rb.schema.names)}"
            )
        for row in row_dicts.to_rows(rb):
            f = io.BytesIO()
            try:
                Image.fromarray(row[column]).save(f, format="jpeg" if fmt == "jpg" else fmt)
            except (TypeError, AttributeError, KeyError, ValueError) as e:
                raise TypeError(
                    f"write_images: column {column!r} of row {n} of the task is no image that can be a {fmt} file: {e}"
                ) from None
            files.whole(files.row_name(row, n), f.getvalue(), 1)
            n += 1
    yield files.report()
