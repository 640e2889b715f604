"""JSON files, one object on each line. Values without a JSON form (dates, decimals) are written as
text; bytes are an error."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from skate._deps import pa
from skate.data.checks import keywords, parameters
from skate.data.values import row_dicts
from skate.data.write import files

_PANDAS = ("orient", "lines")  # accepted and ignored: they are always "records" and True


def check(args: dict[str, Any], schema: Any) -> None:
    """TypeError for unknown arguments; with a schema, TypeError for a column of bytes unless the
    user gives a `default`, which may handle them."""
    keywords("write_json", args, (*_PANDAS, *parameters(json.JSONEncoder)))
    if schema is not None and "default" not in args:
        for f in schema:
            if (inner := _bytes_in(f.type)) is not None:
                raise TypeError(
                    _no_form(
                        f.name, f.type if inner == f.type else f"{f.type}, with {inner} inside"
                    )
                )


def _bytes_in(t: Any) -> Any:
    """Returns t if it is a type of bytes, or else the first such type nested in it."""
    if (
        pa.types.is_binary(t)
        or pa.types.is_large_binary(t)
        or pa.types.is_fixed_size_binary(t)
        or pa.types.is_binary_view(t)
    ):
        return t
    if isinstance(t, pa.BaseExtensionType) or not pa.types.is_nested(t):
        return None
    return next(
        (b for i in range(t.num_fields) if (b := _bytes_in(t.field(i).type)) is not None), None
    )


def _no_form(name: str, t: Any) -> str:
    return f"write_json: column {name!r} is of type {t}, and bytes have no form in JSON; decode it (bytes.decode, base64), drop it, or pass default="


class _Writer:
    def __init__(self, sink: Any, schema: Any, args: dict[str, Any]):
        self.sink = sink
        args = {k: v for k, v in args.items() if k not in _PANDAS}
        self.dumps = json.JSONEncoder(**{"default": _default, "ensure_ascii": False, **args}).encode

    def write(self, table: Any) -> None:
        for rb in table.to_batches():
            rows = row_dicts.to_rows(rb)
            try:
                text = "".join([self.dumps(r) + "\n" for r in rows])
            except (TypeError, ValueError) as e:
                raise self._named(e, rows) from None
            self.sink.write(text.encode())

    def _named(self, e: Exception, rows: list[dict[str, Any]]) -> Exception:
        """Returns the error e with a text that names the column."""
        for r in rows:
            for name, v in r.items():
                try:
                    self.dumps(v)
                except (TypeError, ValueError) as of_one:
                    return type(e)(f"write_json: column {name!r}: {of_one}")
        return e

    def close(self) -> None:
        pass


def _default(v: Any) -> Any:
    if hasattr(v, "tolist"):
        return v.tolist()
    if isinstance(v, bytes):
        raise TypeError(
            "bytes have no form in JSON; decode them (bytes.decode, base64), drop the column, or pass default="
        )
    return v.isoformat() if hasattr(v, "isoformat") else str(v)


def run(params: dict[str, Any], batches: Iterator[Any], task: Any) -> Iterator[Any]:
    yield from files.run(params, batches, task, "json", _Writer, 4 << 20)
