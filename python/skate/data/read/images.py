"""read_images: image files decoded by Pillow into arrays."""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterator
from typing import Any

from skate.data.read.files import Gather, common, file_source, gathered, named, read_bytes, unreadable

EXTENSIONS = ["png", "jpg", "jpeg", "tif", "tiff", "bmp", "gif", "webp"]


def read_images(
    paths: Any,
    *,
    filesystem: Any = None,
    parallelism: int = -1,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory: float | None = None,
    ray_remote_args: dict[str, Any] | None = None,
    arrow_open_file_args: dict[str, Any] | None = None,
    partition_filter: Any = None,
    partitioning: Any = None,
    size: tuple[int, int] | None = None,
    mode: str | None = None,
    include_paths: bool = False,
    ignore_missing_paths: bool = False,
    shuffle: Any = None,
    file_extensions: list[str] | None = EXTENSIONS,  # noqa: B006
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
    on_error: str | None = None,
) -> Any:
    """A Dataset with one row an image: column "image", an array (height, width[, channels]) of uint8.

    Args:
        size: (height, width) to resize to; ValueError when not both are over 0.
        mode: Pillow's mode to convert to, such as "RGB" or "L".
        partitioning: Which folders name columns (skate.data.datasource.Partitioning); None: none.
        partition_filter: Which files are read (PathPartitionFilter).
        file_extensions: Only files with one of these endings.
        shuffle: "files" or a FileShuffleConfig: files in random order.
        include_paths: Adds the column "path".
        ignore_missing_paths: Paths that do not exist are left out instead of an error.
        arrow_open_file_args: compression and the like of pyarrow's open_input_stream.
        override_num_blocks: Number of read tasks at most; concurrency: how many run at once.
        on_error: What becomes of what cannot be understood: "raise", "skip" or "quarantine" (see Dataset.errors()); None: as DataContext.on_error says.
    """
    given = common(locals())
    if size is not None and (len(size) != 2 or size[0] <= 0 or size[1] <= 0):
        raise ValueError(f"size must be (height, width), both over 0, not {size!r}")
    return file_source("ReadImage", "images", paths, {"size": size, "mode": mode}, **given)


class _Unidentified(ValueError, OSError):
    """A file that is no picture Pillow knows: ValueError as in Ray, OSError as Pillow's own."""


def run(params: dict[str, Any], task: Any) -> Iterator[Any]:
    import numpy as np
    from PIL import Image

    from skate.data.batch import from_batch

    size, mode = params["size"], params["mode"]
    g = Gather(["image", "path"], min(task.target, 4 << 20))

    def batch() -> list[Any]:
        paths = task.rows_of = g.cols[1]
        rbs = from_batch({"image": g.cols[0]}, "read_images")
        g.clear()
        return [gathered(params, rb, paths) for rb in rbs]

    for path in pickle.loads(task.unit):
        task.source, task.source_row = path, None
        try:
            with Image.open(io.BytesIO(read_bytes(params.get("fs"), path))) as im:
                if size is not None:
                    im = im.resize((size[1], size[0]), Image.Resampling.BILINEAR)
                if mode is not None:
                    im = im.convert(mode)
                a = np.asarray(im)
        except Image.UnidentifiedImageError as e:
            unreadable(params, task, _Unidentified(f"read_images {path}: {e}"), path)
            continue
        except Exception as e:
            unreadable(params, task, named(e, "read_images", path), path)
            continue
        if g.add(a, path, size=a.nbytes):
            yield from batch()
    if g.cols[0]:
        yield from batch()
