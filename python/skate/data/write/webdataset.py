"""WebDataset tar files: each row's columns become members key.column; read/webdataset.py says which
values these can have."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator
from typing import Any

from skate._deps import Image, np
from skate.data.read.formats.webdataset import IMAGES, apply_each, library
from skate.data.values import row_dicts
from skate.data.write import files


class _Writer:
    def __init__(self, sink: Any, schema: Any, args: dict[str, Any]):
        self.tar, self.encoder, self.name, self.n = (
            tarfile.open(fileobj=sink, mode="w|"),
            args["encoder"],
            args["stem"],
            0,
        )

    def write(self, table: Any) -> None:
        for rb in table.to_batches():
            for row in row_dicts.to_rows(rb):
                self._row(apply_each(self.encoder, row, encode))

    def _row(self, row: dict[str, Any]) -> None:
        key = row.get("__key__") or f"{self.name}{self.n:08d}"
        self.n += 1
        for k, v in row.items():
            if v is None or k.startswith("__"):
                continue
            if isinstance(v, str):
                v = v.encode()
            if not isinstance(v, bytes):
                raise TypeError(
                    f"column {k!r} of row {key!r} is {type(v).__name__} after encoding, not bytes or text; name it by an ending such as .json, or pass encoder="
                )
            # The member gets no modification time, so that the same rows give the same bytes
            info = tarfile.TarInfo(f"{key}.{k}")
            info.size, info.mode, info.uname, info.gname = len(v), 0o644, "data", "data"
            self.tar.addfile(info, io.BytesIO(v))

    def close(self) -> None:
        self.tar.close()


def encode(row: dict[str, Any], how: Any) -> dict[str, Any]:
    """Encodes each value of a row by the last part of its column's name (such as jpg or json)."""
    out = dict(row)
    for k, v in row.items():
        end = k.rsplit(".", 1)[-1].lower()
        if k.startswith("__") or v is None or isinstance(v, bytes):
            continue
        if end in ("cls", "cls2"):
            out[k] = str(v).encode()
        elif end in IMAGES:
            f = io.BytesIO()
            (Image.fromarray(v) if isinstance(v, np.ndarray) else v).save(
                f, format="jpeg" if end == "jpg" else end
            )
            out[k] = f.getvalue()
        elif end == "json":
            out[k] = json.dumps(
                v, default=lambda x: x.tolist() if hasattr(x, "tolist") else str(x)
            ).encode()
        elif end in ("mp", "msgpack"):
            out[k] = library("msgpack", k).packb(v, default=lambda x: x.tolist())
        elif end in ("pt", "pth"):
            f = io.BytesIO()
            library("torch", k).save(v, f)
            out[k] = f.getvalue()
        elif end == "npy":
            f = io.BytesIO()
            np.save(f, v, allow_pickle=False)
            out[k] = f.getvalue()
    return out


def run(params: dict[str, Any], batches: Iterator[Any], task: Any) -> Iterator[Any]:
    # The names of members do not have the id of the write, so that the same rows give the same
    # bytes.
    params["args"]["stem"] = f"{task.seq:06d}_"
    yield from files.run(params, batches, task, "tar", _Writer, 8 << 20)
