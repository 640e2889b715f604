"""read_videos: frames of films, decoded by PyAV (FFmpeg). One task a film at least: frames are read
one after another."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from skate._deps import np
from skate.data.checks import library
from skate.data.read.files import common, file_source, read_stream
from skate.data.read.files import run as run_files
from skate.data.read.source import Source
from skate.data.values import batch as _batch

if TYPE_CHECKING:
    from skate.data.datasource import Partitioning, PathPartitionFilter
    from skate.data.typed import FileSystem, OnError, Paths, Shuffle


EXTENSIONS = list[str](
    "mp4 mkv mov avi wmv flv webm m4v 3gp mpeg mpg ts ogv rm rmvb vob asf f4v m2ts mts divx xvid mxf".split()
)
BATCH_BYTES = 4 << 20


def read_videos(
    paths: Paths,
    *,
    filesystem: FileSystem | None = None,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory: float | None = None,
    ray_remote_args: dict[str, Any] | None = None,
    arrow_open_stream_args: dict[str, Any] | None = None,
    partition_filter: PathPartitionFilter | None = None,
    partitioning: Partitioning | None = None,
    include_paths: bool = False,
    include_timestamps: bool = False,
    ignore_missing_paths: bool = False,
    file_extensions: list[str] | None = EXTENSIONS,  # noqa: B006
    shuffle: Shuffle = None,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
    on_error: OnError = None,
) -> Source:
    """A Dataset with one row a frame: "frame", an array (height, width, 3) of uint8 (RGB), and
    "frame_index", its number in the file.

    Args:
        paths: A file, folder, glob pattern, or list of them; local, or a URI of a pyarrow file
            system.
        filesystem: The pyarrow (or fsspec) file system of the paths; None: it follows from the
            paths.
        num_cpus: CPUs that each read task takes; None: 1.
        num_gpus: GPUs that each read task takes; None: none.
        memory: Bytes of memory that each read task reserves; None: none.
        ray_remote_args: Other options of the read tasks, as of skate.remote: resources,
            runtime_env, scheduling_strategy, max_retries, ...
        arrow_open_stream_args: compression and the like of pyarrow's open_input_stream.
        partition_filter: Which files are read (a PathPartitionFilter); None: all.
        partitioning: Which folders name columns (skate.data.datasource.Partitioning); None: none.
        include_paths: Adds the column "path".
        include_timestamps: Adds "frame_timestamp": an array of its beginning and end in seconds
            (float64).
        ignore_missing_paths: Paths that do not exist are left out; else they are a
            FileNotFoundError.
        file_extensions: Only files with one of these endings; None: all files.
        shuffle: "files" or a FileShuffleConfig: files in random order; None: in sorted order.
        concurrency: Read tasks at once, at most; None: as many as fit.
        override_num_blocks: Number of read tasks, at most; None: it follows from the bytes of the
            input.
        on_error: What becomes of what cannot be understood: "raise", "skip" or "quarantine" (see
            Dataset.errors()); None: as DataContext.on_error says.

    Raises:
        ImportError: The package av is not there.
        FileNotFoundError: A path does not exist.
        ValueError: An option is out of its range.
    """
    library("av", "read_videos")
    return file_source(
        "ReadVideo",
        "videos",
        paths,
        {"by_settings": True, "timestamps": include_timestamps},
        **common(locals()),
    )


def run(params: dict[str, Any], task: Any) -> Iterator[Any]:
    return run_files(params, task, "read_videos", read_file)


def read_file(params: dict[str, Any], task: Any, path: str) -> Iterator[Any]:
    """The frames of one file."""
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
