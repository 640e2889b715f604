"""read_audio: sound files decoded by soundfile (libsndfile) into arrays."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

from skate.data.convert import _library
from skate.data.read.files import common, file_source, read_stream
from skate.data.read.files import run as run_files

EXTENSIONS = "mp3 wav aac flac ogg m4a wma alac aiff pcm amr opus ra rm au mid midi caf".split()


def read_audio(
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
    ignore_missing_paths: bool = False,
    file_extensions: list[str] | None = EXTENSIONS,  # noqa: B006
    shuffle: Any = None,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
    on_error: str | None = None,
) -> Any:
    """A Dataset with one row a sound file: "amplitude", an array (channels, samples) of float32, and "sample_rate".

    Needs the package soundfile: ImportError without it. Arguments as of read_images.
    """
    _library("soundfile", "read_audio")
    return file_source("ReadAudio", "audio", paths, {}, **common(locals()))


def run(params: dict[str, Any], task: Any) -> Iterator[Any]:
    return run_files(params, task, "read_audio", read_file)


def read_file(params: dict[str, Any], task: Any, path: str) -> Iterator[Any]:
    """The row of one file."""
    from skate.data.batch import from_batch

    soundfile = _library("soundfile", "read_audio")
    try:
        sound, rate = soundfile.read(io.BytesIO(read_stream(params, path)), always_2d=True, dtype="float32")
    except soundfile.SoundFileError as e:
        raise ValueError(str(e)) from None
    yield from from_batch({"amplitude": [sound.T.copy()], "sample_rate": [rate]}, "read_audio")
