"""read_tfrecords: TFRecord files of tf.train.Example, without TensorFlow.

A record consists of its length (8 bytes), a masked CRC-32C of the length, the data, and a masked
CRC-32C of the data; both checksums are verified. tf.train.Example is a protobuf message of three
nested maps, which this module decodes: features { feature { key: name, value: bytes_list |
float_list | int64_list } }. Lists of one value become plain values if they have one value in all
records of a batch, as in Ray.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Unpack

from skate._deps import pa
from skate.data.files import crc32c
from skate.data.read.files import Fitting, file_source, read_sound, unreadable
from skate.data.read.files import run as run_files
from skate.data.read.options import StreamOptions, takes_streams
from skate.data.read.source import Source

if TYPE_CHECKING:
    from skate.data.typed import Paths


ROWS = 1024  # rows of a batch


@takes_streams()
def read_tfrecords(
    paths: Paths,
    *,
    tf_schema: Any = None,
    tfx_read_options: Any = None,
    **options: Unpack[StreamOptions],
) -> Source:
    """A Dataset of TFRecord files of tf.train.Example: one row per record, one column per feature.

    Args:
        paths: A file, folder, glob pattern, or list of them; local, or a URI of a pyarrow file
            system.
        arrow_open_stream_args: {"compression": "gzip"} for compressed files whose name does not
            show it.
        tf_schema: Of TensorFlow's own libraries; not supported (NotImplementedError).
        tfx_read_options: Of TensorFlow's own libraries; not supported (NotImplementedError).
        options: See StreamOptions.

    Raises:
        FileNotFoundError: A path does not exist.
        ValueError: A checksum is wrong; the message names file and offset.
    """
    if tf_schema is not None or tfx_read_options is not None:
        raise NotImplementedError(
            "read_tfrecords: tf_schema and tfx_read_options need TensorFlow Extended, which skate does not use; leave them out"
        )
    return file_source("ReadTFRecords", "tfrecords", paths, {"by_settings": True}, options)


def run(params: dict[str, Any], task: Any) -> Iterator[Any]:
    return run_files(params, task, "read_tfrecords", read_file)


def read_file(params: dict[str, Any], task: Any, path: str) -> Iterator[Any]:
    """Yields the batches of one file."""

    def bad(record: tuple[int, dict[str, list[Any]], bytes], e: Exception) -> None:
        unreadable(
            params, task, _of_record(path, record[0], e), path, record[0], record[2][:RAW_BYTES]
        )

    fitting = Fitting(params, lambda some: _batch([r[1] for r in some]), bad)
    held: list[tuple[int, dict[str, list[Any]], bytes]] = []
    for i, found in enumerate(records(read_sound(params, task, "read_tfrecords", path))):
        try:
            if isinstance(found, Damaged):
                raise found
            held.append((i, example(found), found))
        except (ValueError, struct.error, AttributeError, TypeError) as e:
            unreadable(
                params,
                task,
                _of_record(path, i, e),
                path,
                i,
                (found.raw if isinstance(found, Damaged) else found)[:RAW_BYTES],
            )
        if len(held) == ROWS:
            yield from fitting.batch(held)
            held = []
    if held:
        yield from fitting.batch(held)


RAW_BYTES = 64 << 10  # the bytes of a bad record that a dead letter contains


class Damaged(ValueError):
    """A record whose checksum or length is wrong; raw: the bytes in the file."""

    def __init__(self, text: str, raw: bytes):
        super().__init__(text)
        self.raw = raw


def _of_record(path: str, i: int, e: Exception) -> Exception:
    kind = TypeError if isinstance(e, TypeError) else ValueError
    return kind(f"read_tfrecords {path}, record {i}: {e}")


def records(data: bytes) -> Iterator[bytes | Damaged]:
    """Yields the records of a file. A record with a wrong checksum is yielded as a Damaged. If the
    start of the next record cannot be found, the rest of the file is yielded as a Damaged, too."""
    at, end = 0, len(data)
    while at < end:
        head = data[at : at + 12]
        if len(head) < 12:
            yield Damaged(f"the file ends within the head of a record at byte {at}", data[at:])
            return
        n, crc = struct.unpack("<QI", head)
        if crc32c.masked(head[:8]) != crc:
            text = f"the checksum of the record's length at byte {at} is wrong; the file is damaged, or is no TFRecord file (compressed?)"
            yield Damaged(text, data[at : at + RAW_BYTES])
            return
        body = data[at + 12 : at + 12 + n]
        tail = data[at + 12 + n : at + 16 + n]
        if len(body) < n or len(tail) < 4:
            yield Damaged(f"the file ends within the record at byte {at}", body)
            return
        if crc32c.masked(body) != struct.unpack("<I", tail)[0]:
            yield Damaged(
                f"the checksum of the record at byte {at} is wrong; the file is damaged", body
            )
        else:
            yield body
        at += 16 + n


def _fields(data: bytes) -> Iterator[tuple[int, int, Any]]:
    """Yields (field number, wire type, value) of a protobuf message; a varint is an int, any other
    value bytes."""
    at, end = 0, len(data)
    while at < end:
        key, at = _varint(data, at)
        kind = key & 7
        if kind == 0:
            v, at = _varint(data, at)
        elif kind in (1, 5):
            n = 8 if kind == 1 else 4
            v, at = data[at : at + n], at + n
        elif kind == 2:
            n, at = _varint(data, at)
            v, at = data[at : at + n], at + n
        else:
            raise ValueError(f"wire type {kind} in a tf.train.Example")
        if at > end:
            raise ValueError("a tf.train.Example ends within a field")
        yield key >> 3, kind, v


def _varint(data: bytes, at: int) -> tuple[int, int]:
    n = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise ValueError("a tf.train.Example ends within a number")
        b = data[at]
        at += 1
        n |= (b & 127) << shift
        if b < 128:
            return n, at
        shift += 7


def example(data: bytes) -> dict[str, list[Any]]:
    """The features of a serialized tf.train.Example: lists of bytes, floats or ints (empty for a
    feature without values)."""
    out: dict[str, list[Any]] = {}
    for field, _, features in _fields(data):
        if field != 1:
            continue
        for f, _, entry in _fields(features):
            if f == 1:
                parts = {n: v for n, _, v in _fields(entry)}
                out[parts.get(1, b"").decode()] = _feature(parts.get(2, b""))
    return out


def _feature(data: bytes) -> list[Any]:
    for kind, _, body in _fields(data):
        if kind == 1:
            return [v for _, _, v in _fields(body)]
        out: list[Any] = []
        for _, wire, v in _fields(body):
            if kind == 2:
                out += struct.unpack(f"<{len(v) // 4}f", v)
            elif wire == 0:
                out.append(_signed(v))
            else:
                at = 0
                while at < len(v):
                    n, at = _varint(v, at)
                    out.append(_signed(n))
        return out
    return []


def _signed(n: int) -> int:
    return n - (1 << 64) if n >= 1 << 63 else n


def _batch(rows: list[dict[str, list[Any]]]) -> Any:
    cols = {}
    for name in dict.fromkeys(k for r in rows for k in r):
        values = [r.get(name) for r in rows]
        kinds = {type(x) for v in values if v for x in v}
        kind = (
            pa.float32()
            if kinds == {float}
            else pa.int64()
            if kinds == {int}
            else pa.binary()
            if kinds == {bytes}
            else pa.null()
        )
        if len(kinds) > 1:
            raise TypeError(
                f"feature {name!r} has values of different kinds in different records: {', '.join(sorted(k.__name__ for k in kinds))}"
            )
        if all(v is None or len(v) <= 1 for v in values) and kinds:
            cols[name] = pa.array([v[0] if v else None for v in values], kind)
        else:
            cols[name] = pa.array(values, pa.list_(kind))
    return pa.RecordBatch.from_arrays(list(cols.values()), names=list(cols))
