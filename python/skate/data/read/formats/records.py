"""read_records: files that hold binary records of one length without gaps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Unpack

from skate._deps import np, pa
from skate.data.read.files import file_source, read_sound
from skate.data.read.files import run as run_files
from skate.data.read.options import StreamOptions, takes_streams
from skate.data.read.source import Source
from skate.data.values import to_arrow

if TYPE_CHECKING:
    import numpy.typing

    from skate.data.typed import Paths

BATCH = 4 << 20  # bytes of a batch, as in src/data/by/read_records.c


@takes_streams()
def read_records(
    paths: Paths,
    dtype: numpy.typing.DTypeLike,
    *,
    header_bytes: int = 0,
    footer_bytes: int = 0,
    **options: Unpack[StreamOptions],
) -> Source:
    """A Dataset of files that consist of binary records of equal length: one row for each record,
    one column for each field. (Similar: tf.data.FixedLengthRecordDataset, numpy.fromfile; Ray has
    no such reader.)

    Args:
        paths: A file, folder, glob pattern, or list of them; local, or a URI of a pyarrow file
            system.
        dtype: The type of a record, as numpy.dtype takes it: its fields become columns, fields of
            fixed shape become arrays, bytes ("S10", "V10") become binary values of that length. A
            dtype without fields becomes the column "data".
        header_bytes: Bytes to skip at the beginning of each file.
        footer_bytes: Bytes to skip at the end of each file.
        options: See StreamOptions.

    Raises:
        FileNotFoundError: A path does not exist.
        TypeError: dtype has fields that hold Python objects.
        ValueError: An option is out of its range; or, during the run, the size of a file is no
            multiple of the record length.

    Example:
        >>> import numpy, os, skate, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "points.bin")
        >>> numpy.array([(1, 0.5), (2, 1.5)], [("id", "<i4"), ("x", "<f8")]).tofile(path)
        >>> skate.data.read_records(path, [("id", "<i4"), ("x", "<f8")]).take_all()
        [{'id': 1, 'x': 0.5}, {'id': 2, 'x': 1.5}]
    """
    record = np.dtype(dtype)
    if record.hasobject:
        raise TypeError(f"read_records: {record} holds Python objects, which no file of bytes has")
    if record.itemsize < 1:
        raise ValueError(f"read_records: a record of {record} has no bytes")
    for name, n in (("header_bytes", header_bytes), ("footer_bytes", footer_bytes)):
        if not isinstance(n, int) or isinstance(n, bool) or n < 0:
            raise ValueError(f"{name} must be an int of at least 0, not {n!r}")
    params = {"dtype": record, "header": header_bytes, "footer": footer_bytes}
    return file_source(
        "ReadRecords",
        "records",
        paths,
        params,
        options,
        schema=lambda: _batch(_none(record)).schema,
    )


def run(params: dict[str, Any], task: Any) -> Iterator[Any]:
    return run_files(params, task, "read_records", read_file)


def read_file(params: dict[str, Any], task: Any, path: str) -> Iterator[Any]:
    """Yields the records of one file. ValueError: its size is no multiple of the record length."""
    data = read_sound(params, task, "read_records", path)
    size, header = params["dtype"].itemsize, params["header"]
    n, rest = divmod(len(data) - header - params["footer"], size)
    records = np.frombuffer(data, params["dtype"], max(n, 0), min(header, len(data)))
    rows = max(BATCH // size, 1)
    for at in range(0, max(n, 1), rows):
        yield _batch(records[at : at + rows])
    if n < 0 or rest:
        raise ValueError(
            f"its {len(data):,} bytes, less {header} of a header and {params['footer']} of a footer,"
            f" are no whole number of records of {size} bytes"
        )


def _none(record: Any) -> Any:
    return np.empty(0, record)


def _batch(records: Any) -> Any:
    """Records as a batch with one column for each field."""
    fields = records.dtype.names
    columns = {n: records[n] for n in fields} if fields else {"data": records}
    return pa.RecordBatch.from_arrays(
        [_column(n, v) for n, v in columns.items()], names=list(columns)
    )


def _column(name: str, v: Any) -> Any:
    if v.dtype.names:  # the field is a record itself
        return pa.StructArray.from_arrays(
            [_column(n, v[n]) for n in v.dtype.names], names=list(v.dtype.names)
        )
    if v.dtype.kind in "SV" and v.ndim == 1:
        size = v.dtype.itemsize
        buffer = pa.py_buffer(np.ascontiguousarray(v).tobytes())
        return pa.Array.from_buffers(pa.binary(size), len(v), [None, buffer])
    native = v.dtype.newbyteorder("=")
    return to_arrow.array_from_numpy(np.ascontiguousarray(v, native), None)
