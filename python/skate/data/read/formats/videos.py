"""read_videos: the frames of videos, which PyAV (FFmpeg) decodes. Each video is read by one task,
since frames are decoded in order."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Unpack

from skate._deps import np
from skate.data.checks import library
from skate.data.read.files import file_source, read_stream
from skate.data.read.files import run as run_files
from skate.data.read.options import StreamOptions, takes_streams
from skate.data.read.source import Source
from skate.data.values import batch as _batch

if TYPE_CHECKING:
    from skate.data.typed import Paths


EXTENSIONS = list[str](
    "mp4 mkv mov avi wmv flv webm m4v 3gp mpeg mpg ts ogv rm rmvb vob asf f4v m2ts mts divx xvid mxf".split()
)
BATCH_BYTES = 4 << 20


@takes_streams(file_extensions=EXTENSIONS)
def read_videos(
    paths: Paths,
    *,
    include_timestamps: bool = False,
    **options: Unpack[StreamOptions],
) -> Source:
    """A Dataset with one row for each frame: "frame", an array (height, width, 3) of uint8 (RGB),
    and "frame_index", the frame's number in the file.

    Args:
        paths: A file, folder, glob pattern, or list of them; local, or a URI of a pyarrow file
            system.
        include_timestamps: Adds "frame_timestamp": an array of the frame's start and end in seconds
            (float64).
        options: See StreamOptions.

    Raises:
        ImportError: The package av is not installed.
        FileNotFoundError: A path does not exist.
        ValueError: An option is out of its range.
    """
    library("av", "read_videos")
    return file_source(
        "ReadVideo",
        "videos",
        paths,
        {"by_settings": True, "timestamps": include_timestamps},
        options,
    )


def run(params: dict[str, Any], task: Any) -> Iterator[Any]:
    return run_files(params, task, "read_videos", read_file)


def read_file(params: dict[str, Any], task: Any, path: str) -> Iterator[Any]:
    """Yields the frames of one file."""
    frames: list[Any] = []
    times: list[Any] = []
    first = 0

    def batch() -> Any:
        cols = {"frame": np.stack(frames), "frame_index": np.arange(first, first + len(frames))}
        return _batch.from_batch(
            {**cols, "frame_timestamp": np.array(times)} if params["timestamps"] else cols,
            "read_videos",
        )

    with library("av", "read_videos").open(io.BytesIO(read_stream(params, path))) as film:
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
