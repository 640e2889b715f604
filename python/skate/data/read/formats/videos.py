"""read_videos: the frames of videos, which PyAV (FFmpeg) decodes. Each video is read by one task,
since frames are decoded in order."""

from __future__ import annotations

import io
import math
import numbers
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
ROUNDING = 0.0006  # seconds; Matroska and others round the time of a frame to a millisecond


@takes_streams(file_extensions=EXTENSIONS)
def read_videos(
    paths: Paths,
    *,
    include_timestamps: bool = False,
    fps: float | None = None,
    resize: tuple[int, int] | None = None,
    **options: Unpack[StreamOptions],
) -> Source:
    """A Dataset with one row for each frame: "frame", an array (height, width, 3) of uint8 (RGB),
    and "frame_index", the frame's number in the file.

    Args:
        paths: A file, folder, glob pattern, or list of them; local, or a URI of a pyarrow file
            system.
        include_timestamps: Adds "frame_timestamp": an array of the frame's start and end in seconds
            (float64).
        fps: Frames that are taken for each second of the video: for k = 0, 1, 2, ... the first
            frame that begins k / fps seconds or later after the first one. No frame is taken
            twice, so fps above the file's own rate takes all frames. "frame_index" still counts
            all frames of the file. None: all frames. (Ray has no such argument.)
        resize: (height, width) that frames are scaled to as they are decoded (bilinear). None: as
            in the file. (Ray has no such argument.)
        options: See StreamOptions.

    Raises:
        ImportError: The package av is not installed.
        FileNotFoundError: A path does not exist.
        ValueError: An option is out of its range.
    """
    if fps is not None and not (_is(fps, numbers.Real) and 0 < fps <= 1e6):
        raise ValueError(
            f"read_videos: fps must be a number of frames a second, above 0 and at most 1,000,000, not {fps!r}"
        )
    if resize is not None and not (
        isinstance(resize, (tuple, list))
        and len(resize) == 2
        and all(_is(n, numbers.Integral) and 0 < n < 1 << 14 for n in resize)
    ):
        raise ValueError(
            f"read_videos: resize must be (height, width), whole numbers from 1 to 16383, not {resize!r}"
        )
    library("av", "read_videos")
    return file_source(
        "ReadVideo",
        "videos",
        paths,
        {
            "by_settings": True,
            "timestamps": include_timestamps,
            "fps": None if fps is None else float(fps),
            "scale": {} if resize is None else {"height": int(resize[0]), "width": int(resize[1])},
        },
        options,
    )


def _is(n: Any, kind: type) -> bool:
    return isinstance(n, kind) and not isinstance(n, bool)


def run(params: dict[str, Any], task: Any) -> Iterator[Any]:
    return run_files(params, task, "read_videos", read_file)


def read_file(params: dict[str, Any], task: Any, path: str) -> Iterator[Any]:
    """Yields the frames of one file."""
    frames: list[Any] = []
    indices: list[int] = []
    times: list[Any] = []

    def batch() -> Any:
        cols = {"frame": np.stack(frames), "frame_index": np.array(indices)}
        if params["timestamps"]:
            cols["frame_timestamp"] = np.array(times)
        return _batch.from_batch(cols, "read_videos")

    with library("av", "read_videos").open(io.BytesIO(read_stream(params, path))) as film:
        if not film.streams.video:
            raise ValueError("the file has no video, only other streams")
        stream = film.streams.video[0]
        each = 1 / float(stream.average_rate or 1)
        for index, start, f in taken(film.decode(stream), each, params["fps"]):
            a = f.reformat(format="rgb24", **params["scale"]).to_ndarray()
            if frames and (len(frames) + 1) * a.nbytes > BATCH_BYTES:
                yield from batch()
                frames, indices, times = [], [], []
            frames.append(a)
            indices.append(index)
            times.append([start, start + (float(f.duration * f.time_base) if f.duration else each)])
    if frames:
        yield from batch()


def taken(frames: Any, each: float, fps: float | None) -> Iterator[tuple[int, float, Any]]:
    """Yields the frames that fps takes, all if it is None: (number in the file, start in seconds,
    frame). each: seconds of a frame, for a file that has no timestamps."""
    first, k = None, 0  # k / fps: when the next frame is due, in seconds after the first
    for index, f in enumerate(frames):
        start = index * each if f.time is None else f.time
        if first is None:
            first = start
        if fps is not None:
            passed = (start - first + ROUNDING) * fps
            if passed < k:
                continue
            k = math.floor(passed) + 1
        yield index, start, f
