"""TFRecord files of tf.train.Example, without TensorFlow: the counterpart of read/tfrecords.py."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from skate.data.files import crc32c
from skate.data.values import row_dicts
from skate.data.write import files


class _Writer:
    def __init__(self, sink: Any, schema: Any, args: dict[str, Any]):
        self.sink = sink

    def write(self, table: Any) -> None:
        for rb in table.to_batches():
            self.sink.write(b"".join([record(example(r)) for r in row_dicts.to_rows(rb)]))

    def close(self) -> None:
        pass


def record(data: bytes) -> bytes:
    """data as a TFRecord record."""
    head = struct.pack("<Q", len(data))
    return b"".join(
        (head, struct.pack("<I", crc32c.masked(head)), data, struct.pack("<I", crc32c.masked(data)))
    )


def _varint(n: int) -> bytes:
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def _field(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def example(row: dict[str, Any]) -> bytes:
    """A row as a serialized tf.train.Example; TypeError names a column that such an example cannot
    hold."""
    parts = [_field(1, _field(1, k.encode()) + _field(2, _feature(k, v))) for k, v in row.items()]
    return _field(1, b"".join(parts))


def _feature(name: str, v: Any) -> bytes:
    values = (
        []
        if v is None
        else v.ravel().tolist()
        if hasattr(v, "ravel")
        else v
        if isinstance(v, (list, tuple))
        else [v]
    )
    values = [x for x in values if x is not None]
    if not values:
        return b""
    kinds = {bool if isinstance(x, bool) else type(x) for x in values}
    if kinds <= {bytes, str}:
        return _field(
            1, b"".join(_field(1, x.encode() if isinstance(x, str) else x) for x in values)
        )
    if kinds <= {int, bool}:
        return _field(3, _field(1, b"".join(_varint(int(x) & 0xFFFFFFFFFFFFFFFF) for x in values)))
    if kinds <= {int, float, bool}:
        return _field(2, _field(1, struct.pack(f"<{len(values)}f", *values)))
    raise TypeError(
        f"column {name!r} holds {', '.join(sorted(k.__name__ for k in kinds))}, which a tf.train.Example cannot; it has bytes, text, ints and floats"
    )


def run(params: dict[str, Any], batches: Iterator[Any], task: Any) -> Iterator[Any]:
    yield from files.run(params, batches, task, "tfrecords", _Writer, 4 << 20)
