"""read_webdataset: tar files whose members share a stem: a.jpg, a.json and a.cls become one row
with the columns jpg, json, cls and __key__ "a".

Members are decoded by their suffix: txt, cls, json, npy, images, mp (with the package msgpack), pt
(with torch, which loads only tensors and arrays, so a file cannot run code). Values with other
suffixes, pickle among them, stay bytes unless a decoder is given.
"""

from __future__ import annotations

import fnmatch
import importlib
import io
import json
import tarfile
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Unpack

from skate._deps import Image, lzma, np
from skate.data.on_error import is_fatal
from skate.data.read.files import (
    Fitting,
    decompress,
    file_source,
    read_sound,
    tolerates,
    unreadable,
)
from skate.data.read.files import run as run_files
from skate.data.read.options import StreamOptions, takes_streams
from skate.data.read.source import Source
from skate.data.values import row_dicts

if TYPE_CHECKING:
    from skate.data.typed import Paths


IMAGES = ("jpg", "jpeg", "png", "ppm", "pgm", "pbm", "pnm")
BATCH_BYTES = 4 << 20


@takes_streams()
def read_webdataset(
    paths: Paths,
    *,
    decoder: Any = True,
    fileselect: Any = None,
    filerename: Any = None,
    suffixes: Any = None,
    verbose_open: bool = False,
    expand_json: bool = False,
    **options: Unpack[StreamOptions],
) -> Source:
    """A Dataset of WebDataset tar files: one row for the members with the same stem.

    Args:
        paths: A file, folder, glob pattern, or list of them; local, or a URI of a pyarrow file
            system.
        decoder: True: decode by the suffix; None or False: bytes stay; "PIL": images become Pillow
            images; or a function from row to row, or a list of functions.
        fileselect: The members that are read: suffixes or patterns, or a function of the name.
        filerename: A function from a member's name to its new name, or a list of functions.
        suffixes: The columns of the output: suffixes or patterns, or a function.
        verbose_open: Has no effect.
        expand_json: Whether the keys of the column "json" become columns.
        options: See StreamOptions.

    Raises:
        FileNotFoundError: A path does not exist.
        ValueError: A row has two members with the same name.
    """
    params = {
        "code": True,
        "by_settings": True,
        "decoder": decoder,
        "fileselect": fileselect,
        "filerename": filerename,
        "suffixes": suffixes,
        "expand_json": expand_json,
    }
    return file_source("ReadWebDataset", "webdataset", paths, params, options)


def run(params: dict[str, Any], task: Any) -> Iterator[Any]:
    return run_files(params, task, "read_webdataset", read_file)


def read_file(params: dict[str, Any], task: Any, path: str) -> Iterator[Any]:
    """Yields the rows of one file."""

    def bad(row: dict[str, Any], e: Exception) -> None:
        why = f"read_webdataset {path}, row {row['__key__']!r}: {type(e).__name__}: {e}"
        unreadable(
            params, task, TypeError(why) if isinstance(e, TypeError) else ValueError(why), path
        )

    fitting = Fitting(params, lambda some: row_dicts.from_rows(some, "read_webdataset"), bad)
    held: list[dict[str, Any]] = []
    size = 0
    rows = _rows(_members(params, task, path), params["suffixes"], bad)
    while True:
        try:
            row = next(rows, None)
        except _DamagedArchive as e:  # members of the current row may be missing
            unreadable(params, task, e, path)
            break
        if row is None:
            break
        size += sum(len(v) for v in row.values())
        row["__url__"] = path
        try:
            row = apply_each(params["decoder"], row, decode)
            if params["expand_json"]:
                row = {**_object(row.get("json")), **row}
        except Exception as e:  # a decoder, possibly the user's, raised it
            if not tolerates(params) or is_fatal(e, reading=True):
                raise
            bad(row, e)
            continue
        held.append(row)
        if size >= BATCH_BYTES:
            yield from fitting.batch(held)
            held, size = [], 0
    if held:
        yield from fitting.batch(held)


class _DamagedArchive(ValueError):
    pass


def _members(params: dict[str, Any], task: Any, path: str) -> Iterator[tuple[str, bytes]]:
    """Yields the names and bytes of the members. After damage to the archive the start of the next
    member cannot be found, so reading ends there."""
    data = read_sound(params, task, "read_webdataset", path)
    f = data if data[257:262] == b"ustar" else plain(data)
    at = 0
    try:
        with tarfile.open(fileobj=io.BytesIO(f), mode="r:") as tar:
            for m in tar:
                at = tar.offset
                if m.isreg():
                    name = apply_each(params["filerename"], m.name, None)
                    if _wanted(name, params["fileselect"]):
                        member = tar.extractfile(m)
                        assert member is not None
                        body = member.read()
                        if len(body) < m.size:
                            raise tarfile.ReadError("unexpected end of data")
                        yield name, body
        # an archive ends with blocks of zeros, or at the end of the file; tarfile would treat
        # anything else as the end, too
        end = f[at : at + 512]
        if end.strip(b"\0"):
            raise tarfile.ReadError("no member begins here")
    except tarfile.TarError as e:
        raise _DamagedArchive(
            f"read_webdataset {path}: the archive is damaged at byte {at}: {e}"
        ) from None


def plain(data: bytes) -> bytes:
    """The content of data, decompressed if its first bytes show gzip, bz2 or xz."""
    if data[:6] == b"\xfd7zXZ\0":
        try:
            return lzma.decompress(data)
        except lzma.LZMAError as e:
            raise ValueError(f"damaged xz data: {e}") from None
    kind = "gzip" if data[:2] == b"\x1f\x8b" else "bz2" if data[:3] == b"BZh" else None
    return data if kind is None else decompress(data, kind)


def _rows(
    members: Iterator[tuple[str, bytes]],
    suffixes: Any,
    bad: Callable[[dict[str, Any], Exception], None],
) -> Iterator[dict[str, Any]]:
    """Groups members by their stem into rows; a row that has a name twice goes to bad()."""
    row: dict[str, Any] = {}
    whole = True
    for name, data in members:
        folder, slash, file = name.rpartition("/")
        stem, dot, suffix = file.partition(".")
        if not dot or not stem:
            continue
        key = folder + slash + stem
        if row.get("__key__") != key:
            if len(row) > 1 and whole:
                yield row
            row, whole = {"__key__": key}, True
        if suffix in row and whole:
            bad(
                row,
                ValueError(f"{name}: duplicate file name: {suffix!r} is twice in the row {key!r}"),
            )
            whole = False
        if _wanted(suffix, suffixes):
            row[suffix] = data
    if len(row) > 1 and whole:
        yield row


def _wanted(name: str, patterns: Any) -> bool:
    if patterns is None:
        return True
    if callable(patterns):
        return bool(patterns(name))
    for p in patterns:
        if fnmatch.fnmatch("." + name, p) if "*" in p or "?" in p else p in (name, "." + name):
            return True
    return False


def apply_each(steps: Any, v: Any, default: Callable[[Any, Any], Any] | None) -> Any:
    """Passes v through a function or a list of functions; a step that is no function is applied as
    default(v, step)."""
    if steps is None or steps is False:
        return v
    for step in steps if isinstance(steps, list) else [steps]:
        v = step(v) if callable(step) or default is None else default(v, step)
    return v


def _object(v: Any) -> dict[str, Any]:
    return json.loads(v) if isinstance(v, (bytes, str)) else dict(v or {})


def decode(row: dict[str, Any], how: Any) -> dict[str, Any]:
    """Decodes each value by the last part of its column's name."""
    out = dict(row)
    for k, v in row.items():
        end = k.rsplit(".", 1)[-1].lower()
        if k.startswith("__"):
            continue
        if end in ("txt", "text"):
            out[k] = v.decode()
        elif end in ("cls", "cls2"):
            out[k] = int(v.decode())
        elif end in IMAGES:
            im = Image.open(io.BytesIO(v))
            out[k] = im if how == "PIL" else np.asarray(im)
        elif end == "json":
            out[k] = json.loads(v)
        elif end in ("mp", "msgpack"):
            out[k] = library("msgpack", k).unpackb(v)
        elif end in ("pt", "pth"):
            out[k] = _load_torch(v, k)
        elif end == "npy":
            out[k] = np.load(io.BytesIO(v), allow_pickle=False)
    return out


def library(name: str, column: str) -> Any:
    """Imports the package that a column's suffix needs; the ImportError names both."""
    try:
        return importlib.import_module(name)
    except ImportError as e:
        raise ImportError(
            f"column {column!r} needs the package {name}, which is not installed ({e}); pass a decoder or encoder of your own"
        ) from None


def _load_torch(data: bytes, column: str) -> Any:
    """Loads a value written by torch.save(), but only tensors and arrays."""
    torch = library("torch", column)
    numpy: Any = np  # untyped, because numpy's types lack these attributes
    kinds = [
        np.dtype,
        np.ndarray,
        numpy._core.multiarray._reconstruct,  # type: ignore[attr-defined]
        *{type(np.dtype(c)) for c in np.typecodes["All"]},
    ]
    with torch.serialization.safe_globals(kinds):
        return torch.load(io.BytesIO(data), weights_only=True)
