"""read_audio: sound files, which soundfile (libsndfile) decodes into arrays."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Unpack

from skate.data.checks import library
from skate.data.read.files import file_source, read_stream
from skate.data.read.files import run as run_files
from skate.data.read.options import StreamOptions, takes_streams
from skate.data.read.source import Source
from skate.data.values import batch

if TYPE_CHECKING:
    from skate.data.typed import Paths


EXTENSIONS = list[str](
    "mp3 wav aac flac ogg m4a wma alac aiff pcm amr opus ra rm au mid midi caf".split()
)


@takes_streams(file_extensions=EXTENSIONS)
def read_audio(paths: Paths, **options: Unpack[StreamOptions]) -> Source:
    """A Dataset with one row for each sound file: "amplitude", an array (channels, samples) of
    float32, and "sample_rate" (Hz).

    Args:
        paths: A file, folder, glob pattern, or list of them; local, or a URI of a pyarrow file
            system.
        options: See StreamOptions.

    Raises:
        ImportError: The package soundfile is not installed.
        FileNotFoundError: A path does not exist.
        ValueError: An option is out of its range.
    """
    library("soundfile", "read_audio")
    return file_source("ReadAudio", "audio", paths, {"by_settings": True}, options)


def run(params: dict[str, Any], task: Any) -> Iterator[Any]:
    return run_files(params, task, "read_audio", read_file)


def read_file(params: dict[str, Any], task: Any, path: str) -> Iterator[Any]:
    """Yields the row of one file."""
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
