"""read_numpy: .npy files, one row an entry of the first axis."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from skate._deps import np, pa
from skate.data.checks import keywords, parameters
from skate.data.files.paths import is_folder
from skate.data.read.files import common, file_source, read_stream
from skate.data.read.files import run as run_files
from skate.data.read.source import Source
from skate.data.values import to_arrow

if TYPE_CHECKING:
    from skate.data.datasource import Partitioning, PathPartitionFilter
    from skate.data.typed import FileSystem, OnError, Paths, Shuffle


def read_numpy(
    paths: Paths,
    *,
    filesystem: FileSystem | None = None,
    parallelism: int = -1,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory: float | None = None,
    ray_remote_args: dict[str, Any] | None = None,
    arrow_open_stream_args: dict[str, Any] | None = None,
    partition_filter: PathPartitionFilter | None = None,
    partitioning: Partitioning | None = None,
    include_paths: bool = False,
    ignore_missing_paths: bool = False,
    shuffle: Shuffle = None,
    file_extensions: list[str] | None = None,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
    on_error: OnError = None,
    **numpy_load_args: Any,
) -> Source:
    """A Dataset of .npy files: column "data", one row for each entry of the first axis.

    Args:
        paths: A file, folder, glob pattern, or list of them; local, or a URI of a pyarrow file
            system.
        filesystem: The pyarrow (or fsspec) file system of the paths; None: it follows from the
            paths.
        parallelism: Ray's older name of override_num_blocks; -1: not given.
        num_cpus: CPUs that each read task takes; None: 1.
        num_gpus: GPUs that each read task takes; None: none.
        memory: Bytes of memory that each read task reserves; None: none.
        ray_remote_args: Other options of the read tasks, as of skate.remote: resources,
            runtime_env, scheduling_strategy, max_retries, ...
        arrow_open_stream_args: compression and the like of pyarrow's open_input_stream.
        partition_filter: Which files are read (a PathPartitionFilter); None: all.
        partitioning: Which folders name columns (skate.data.datasource.Partitioning); None: none.
        include_paths: Adds the column "path".
        ignore_missing_paths: Paths that do not exist are left out instead of an error.
        shuffle: "files" or a FileShuffleConfig: files in random order.
        file_extensions: Only files with one of these endings.
        concurrency: Read tasks at once, at most; None: as many as fit.
        override_num_blocks: Number of read tasks, at most; None: it follows from the bytes of the
            input.
        on_error: What becomes of what cannot be understood: "raise", "skip" or "quarantine" (see
            Dataset.errors()); None: as DataContext.on_error says.
        numpy_load_args: Arguments of numpy.load (allow_pickle, ...); the default is not to unpickle
            anything.

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
    given = common(locals())
    keywords(
        "read_numpy", numpy_load_args, (*parameters(np.load, ("file",)), *parameters(read_numpy))
    )
    if file_extensions is None and is_folder(paths, filesystem):
        given["file_extensions"] = ["npy"]
    return file_source(
        "ReadNumpy", "numpy", paths, {"by_settings": True, "args": numpy_load_args}, **given
    )


def run(params: dict[str, Any], task: Any) -> Iterator[Any]:
    return run_files(params, task, "read_numpy", read_file)


def read_file(params: dict[str, Any], task: Any, path: str) -> Iterator[Any]:
    """The array of one file."""
    a = np.load(io.BytesIO(read_stream(params, path)), **{"allow_pickle": False, **params["args"]})
    if not isinstance(a, np.ndarray):
        raise ValueError(
            f"it holds {type(a).__name__}, not one array; only .npy files are understood"
        )
    a = a.reshape(1) if a.ndim == 0 else a
    yield pa.RecordBatch.from_arrays([to_arrow.array_from_numpy(a, None)], names=["data"])
