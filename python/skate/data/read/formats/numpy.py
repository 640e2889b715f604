"""read_numpy: .npy files, one row for each entry of the first axis."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Unpack

from skate._deps import np, pa
from skate.data.arguments import others
from skate.data.checks import keywords, parameters
from skate.data.files.paths import is_folder
from skate.data.read.files import file_source, read_stream
from skate.data.read.files import run as run_files
from skate.data.read.options import StreamOptions, takes_streams
from skate.data.read.source import Source
from skate.data.values import to_arrow

if TYPE_CHECKING:
    from skate.data.read.options import OpenStreamOptions
    from skate.data.typed import Paths


@takes_streams(rest="numpy_load_args")
def read_numpy(paths: Paths, **options: Unpack[OpenStreamOptions]) -> Source:
    """A Dataset of .npy files: column "data", one row for each entry of the first axis.

    Args:
        paths: A file, folder, glob pattern, or list of them; local, or a URI of a pyarrow file
            system.
        numpy_load_args: Arguments of numpy.load (allow_pickle, ...); by default nothing is
            unpickled.
        options: See StreamOptions.

    Raises:
        FileNotFoundError: A path does not exist.
        ValueError: An option is out of its range.

    Example:
        >>> import numpy, os, skate, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "a.npy")
        >>> numpy.save(path, numpy.zeros((3, 2)))
        >>> skate.data.read_numpy(path).take_batch()["data"].shape
        (3, 2)
    """
    args = others(options, StreamOptions)
    keywords("read_numpy", args, (*parameters(np.load, ("file",)), *parameters(read_numpy)))
    if options.get("file_extensions") is None and is_folder(paths, options.get("filesystem")):
        options["file_extensions"] = ["npy"]
    return file_source("ReadNumpy", "numpy", paths, {"by_settings": True, "args": args}, options)


def run(params: dict[str, Any], task: Any) -> Iterator[Any]:
    return run_files(params, task, "read_numpy", read_file)


def read_file(params: dict[str, Any], task: Any, path: str) -> Iterator[Any]:
    """Yields the array of one file."""
    a = np.load(io.BytesIO(read_stream(params, path)), **{"allow_pickle": False, **params["args"]})
    if not isinstance(a, np.ndarray):
        raise ValueError(
            f"it holds {type(a).__name__}, not one array; only .npy files are understood"
        )
    a = a.reshape(1) if a.ndim == 0 else a
    yield pa.RecordBatch.from_arrays([to_arrow.array_from_numpy(a, None)], names=["data"])
