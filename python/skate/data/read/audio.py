"""read_audio: sound files decoded by soundfile (libsndfile) into arrays."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from skate.data.checks import library
from skate.data.read.files import common, file_source, read_stream
from skate.data.read.files import run as run_files
from skate.data.read.source import Source
from skate.data.values import batch

if TYPE_CHECKING:
    from skate.data.datasource import Partitioning, PathPartitionFilter
    from skate.data.typed import FileSystem, OnError, Paths, Shuffle


EXTENSIONS = list[str](
    "mp3 wav aac flac ogg m4a wma alac aiff pcm amr opus ra rm au mid midi caf".split()
)


def read_audio(
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
    ignore_missing_paths: bool = False,
    file_extensions: list[str] | None = EXTENSIONS,  # noqa: B006
    shuffle: Shuffle = None,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
    on_error: OnError = None,
) -> Source:
    """A Dataset with one row a sound file: "amplitude", an array (channels, samples) of float32,
    and "sample_rate" (Hz).

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
        ImportError: The package soundfile is not there.
        FileNotFoundError: A path does not exist.
        ValueError: An option is out of its range.
    """
    library("soundfile", "read_audio")
    return file_source("ReadAudio", "audio", paths, {"by_settings": True}, **common(locals()))


def run(params: dict[str, Any], task: Any) -> Iterator[Any]:
    return run_files(params, task, "read_audio", read_file)


def read_file(params: dict[str, Any], task: Any, path: str) -> Iterator[Any]:
    """The row of one file."""
    soundfile = library("soundfile", "read_audio")
    try:
        sound, rate = soundfile.read(
            io.BytesIO(read_stream(params, path)), always_2d=True, dtype="float32"
        )
    except soundfile.SoundFileError as e:
        raise ValueError(str(e)) from None
    yield from batch.from_batch(
        {"amplitude": [sound.T.copy()], "sample_rate": [rate]}, "read_audio"
    )
