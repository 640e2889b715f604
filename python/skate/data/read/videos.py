"""read_videos: frames of films, decoded by PyAV (FFmpeg). One task a film at least: frames are read one after another."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

from skate.data.convert import _library
from skate.data.read.files import common, file_source, read_stream
from skate.data.read.files import run as run_files

EXTENSIONS = "mp4 mkv mov avi wmv flv webm m4v 3gp mpeg mpg ts ogv rm rmvb vob asf f4v m2ts mts divx xvid mxf".split()
BATCH_BYTES = 4 << 20


def read_videos(
    paths: Any,
    *,
    filesystem: Any = None,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory: float | None = None,
    ray_remote_args: dict[str, Any] | None = None,
    arrow_open_stream_args: dict[str, Any] | None = None,
    partition_filter: Any = None,
    partitioning: Any = None,
    include_paths: bool = False,
    include_timestamps: bool = False,
    ignore_missing_paths: bool = False,
    file_extensions: list[str] | None = EXTENSIONS,  # noqa: B006
    shuffle: Any = None,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
    on_error: str | None = None,
) -> Any:
    """A Dataset with one row a frame: "frame", an array (height, width, 3) of uint8 (RGB), and "frame_index", its number in the file.

    Needs the package av: ImportError without it. Other arguments as of read_images.

    Args:
        include_timestamps: Adds "frame_timestamp": an array of its beginning and end in seconds (float64).
    """
    _library("av", "read_videos")
    return file_source("ReadVideo", "videos", paths, {"timestamps": include_timestamps}, **common(locals()))


def run(params: dict[str, Any], task: Any) -> Iterator[Any]:
    return run_files(params, task, "read_videos", read_file)


def read_file(params: dict[str, Any], task: Any, path: str) -> Iterator[Any]:
    """The frames of one file."""
    import numpy as np

    from skate.data.batch import from_batch

    frames: list[Any] = []
    times: list[Any] = []
    first = 0

    def batch() -> Any:
        cols = {"frame": np.stack(frames), "frame_index": np.arange(first, first + len(frames))}
        return from_batch({**cols, "frame_timestamp": np.array(times)} if params["timestamps"] else cols, "read_videos")

    with _library("av", "read_videos").open(io.BytesIO(read_stream(params, path))) as film:
        stream = film.streams.video[0]
        each = 1 / float(stream.average_rate or 1)
        for f in film.decode(stream):
            a = f.to_ndarray(format="rgb24")
            if frames and (len(frames) + 1) * a.nbytes > BATCH_BYTES:
                yield from batch()
                first += len(frames)
                frames, times = [], []
            frames.append(a)
            start = f.time or 0.0
            times.append([start, start + (float(f.duration * f.time_base) if f.duration else each)])
    if frames:
        yield from batch()
