"""read_images: image files decoded by Pillow into arrays."""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterator
from typing import Any

from skate.data.read.files import Gather, file_source, named, read_bytes

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
    size: tuple[int, int] | None = None,
    mode: str | None = None,
    include_paths: bool = False,
    ignore_missing_paths: bool = False,
    file_extensions: list[str] | None = None,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
) -> Any:
    """A Dataset with one row an image: column "image", an array (height, width[, channels]) of uint8.

    Args:
        size: (height, width) to resize to.
        mode: Pillow's mode to convert to, such as "RGB" or "L".
        include_paths: Adds the column "path".
    """
    if size is not None and (len(size) != 2 or size[0] <= 0 or size[1] <= 0):
        raise ValueError(f"size must be (height, width), both over 0, not {size!r}")
    return file_source(
        "ReadImage",
        "images",
        paths,
        {"size": size, "mode": mode, "include_paths": include_paths},
        filesystem=filesystem,
        file_extensions=file_extensions or EXTENSIONS,
        ignore_missing_paths=ignore_missing_paths,
        override_num_blocks=override_num_blocks,
        parallelism=parallelism,
        num_cpus=num_cpus,
        num_gpus=num_gpus,
        memory=memory,
        ray_remote_args=ray_remote_args,
        concurrency=concurrency,
    )


def run(params: dict[str, Any], task: Any) -> Iterator[Any]:
    import numpy as np
    from PIL import Image

    from skate.data.batch import from_batch

    size, mode, with_path = params["size"], params["mode"], params["include_paths"]
    g = Gather(["image", "path"], min(task.target, 4 << 20))

    def batch() -> list[Any]:
        out = {"image": g.cols[0], **({"path": g.cols[1]} if with_path else {})}
        g.clear()
        return from_batch(out, "read_images")

    for path in pickle.loads(task.unit):
        task.source = path
        try:
            with Image.open(io.BytesIO(read_bytes(params.get("fs"), path))) as im:
                if size is not None:
                    im = im.resize((size[1], size[0]), Image.Resampling.BILINEAR)
                if mode is not None:
                    im = im.convert(mode)
                a = np.asarray(im)
        except Exception as e:
            raise named(e, "read_images", path) from None
        if g.add(a, path, size=a.nbytes):
            yield from batch()
    if g.cols[0]:
        yield from batch()
