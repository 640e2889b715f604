"""read_images: image files decoded by Pillow into arrays."""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from skate import _lazy
from skate.data.files.reading import read_bytes
from skate.data.read.files import Gather, common, file_source, gathered, named, unreadable
from skate.data.read.source import Source

if TYPE_CHECKING:
    from skate.data.datasource import Partitioning, PathPartitionFilter
    from skate.data.typed import FileSystem, OnError, Paths, Shuffle


EXTENSIONS = ["png", "jpg", "jpeg", "tif", "tiff", "bmp", "gif", "webp"]


def read_images(
    paths: Paths,
    *,
    filesystem: FileSystem | None = None,
    parallelism: int = -1,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory: float | None = None,
    ray_remote_args: dict[str, Any] | None = None,
    arrow_open_file_args: dict[str, Any] | None = None,
    partition_filter: PathPartitionFilter | None = None,
    partitioning: Partitioning | None = None,
    size: tuple[int, int] | None = None,
    mode: str | None = None,
    include_paths: bool = False,
    ignore_missing_paths: bool = False,
    shuffle: Shuffle = None,
    file_extensions: list[str] | None = EXTENSIONS,  # noqa: B006
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
    on_error: OnError = None,
) -> Source:
    """A Dataset with one row an image: column "image", an array (height, width[, channels]) of uint8.

    Args:
        paths: A file, folder, glob pattern, or list of them; local, or a URI of a pyarrow file system.
        filesystem: The pyarrow (or fsspec) file system of the paths; None: it follows from the paths.
        parallelism: Ray's older name of override_num_blocks; -1: not given.
        num_cpus: CPUs that each read task takes; None: 1.
        num_gpus: GPUs that each read task takes; None: none.
        memory: Bytes of memory that each read task reserves; None: none.
        ray_remote_args: Other options of the read tasks, as of skate.remote: resources, runtime_env, scheduling_strategy, max_retries, ...
        arrow_open_file_args: compression and the like of pyarrow's open_input_stream.
        partition_filter: Which files are read (a PathPartitionFilter); None: all.
        partitioning: Which folders name columns (skate.data.datasource.Partitioning); None: none.
        size: (height, width) to resize to; ValueError when not both are over 0.
        mode: Pillow's mode to convert to, such as "RGB" or "L".
        include_paths: Adds the column "path".
        ignore_missing_paths: Paths that do not exist are left out instead of an error.
        shuffle: "files" or a FileShuffleConfig: files in random order.
        file_extensions: Only files with one of these endings.
        concurrency: Read tasks at once, at most; None: as many as fit.
        override_num_blocks: Number of read tasks, at most; None: it follows from the bytes of the input.
        on_error: What becomes of what cannot be understood: "raise", "skip" or "quarantine" (see Dataset.errors()); None: as DataContext.on_error says.

    Raises:
        FileNotFoundError: A path does not exist.
        ImportError: The package Pillow is not there.
        PIL.UnidentifiedImageError: A file is no image; see on_error.
    """
    given = common(locals())
    if size is not None and (len(size) != 2 or size[0] <= 0 or size[1] <= 0):
        raise ValueError(f"size must be (height, width), both over 0, not {size!r}")
    return file_source("ReadImage", "images", paths, {"by_settings": True, "size": size, "mode": mode}, **given)


def __getattr__(name: str) -> Any:
    """_Unidentified: a file that is no picture Pillow knows: a ValueError as in Ray, and Pillow's own UnidentifiedImageError. Made when it is asked for, since
    Pillow is imported by who reads pictures only."""
    if name != "_Unidentified":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from PIL import UnidentifiedImageError

    made = type(name, (ValueError, UnidentifiedImageError), {"__module__": __name__, "__doc__": "A file that is no picture Pillow knows."})
    return globals().setdefault(name, made)


def run(params: dict[str, Any], task: Any) -> Iterator[Any]:
    import numpy as np
    from PIL import Image

    size, mode = params["size"], params["mode"]
    g = Gather(["image", "path"], min(task.target, 4 << 20))

    def batch() -> list[Any]:
        paths = task.rows_of = g.cols[1]
        rbs = _lazy.batch.from_batch({"image": g.cols[0]}, "read_images")
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
            unreadable(params, task, __getattr__("_Unidentified")(f"read_images {path}: {e}"), path)
            continue
        except Exception as e:
            unreadable(params, task, named(e, "read_images", path), path)
            continue
        if g.add(a, path, size=a.nbytes):
            yield from batch()
    if g.cols[0]:
        yield from batch()
