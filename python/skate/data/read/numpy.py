"""read_numpy: .npy files, one row an entry of the first axis."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

from skate.data.read.files import common, file_source, read_stream
from skate.data.read.files import run as run_files


def read_numpy(
    paths: Any,
    *,
    filesystem: Any = None,
    parallelism: int = -1,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory: float | None = None,
    ray_remote_args: dict[str, Any] | None = None,
    arrow_open_stream_args: dict[str, Any] | None = None,
    partition_filter: Any = None,
    partitioning: Any = None,
    include_paths: bool = False,
    ignore_missing_paths: bool = False,
    shuffle: Any = None,
    file_extensions: list[str] | None = None,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
    on_error: str | None = None,
    **numpy_load_args: Any,
) -> Any:
    """A Dataset of .npy files: column "data", one row for each entry of the first axis.

    Args:
        partitioning: Which folders name columns (skate.data.datasource.Partitioning); None: none.
        partition_filter: Which files are read (PathPartitionFilter).
        file_extensions: Only files with one of these endings.
        shuffle: "files" or a FileShuffleConfig: files in random order.
        include_paths: Adds the column "path".
        ignore_missing_paths: Paths that do not exist are left out instead of an error.
        arrow_open_stream_args: compression and the like of pyarrow's open_input_stream.
        override_num_blocks: Number of read tasks at most; concurrency: how many run at once.
        on_error: What becomes of what cannot be understood: "raise", "skip" or "quarantine" (see Dataset.errors()); None: as DataContext.on_error says.
        numpy_load_args: Arguments of numpy.load (allow_pickle, ...); the default is not to unpickle anything.

    Example:
        >>> import numpy, os, skate, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "a.npy")
        >>> numpy.save(path, numpy.zeros((3, 2)))
        >>> skate.data.read_numpy(path).take_batch()["data"].shape
        (3, 2)
    """
    given = common(locals())
    if file_extensions is None and _is_dir(paths):
        given["file_extensions"] = ["npy"]
    return file_source("ReadNumpy", "numpy", paths, {"args": numpy_load_args}, **given)


def _is_dir(paths: Any) -> bool:
    import os

    return isinstance(paths, (str, os.PathLike)) and os.path.isdir(paths)


def run(params: dict[str, Any], task: Any) -> Iterator[Any]:
    return run_files(params, task, "read_numpy", read_file)


def read_file(params: dict[str, Any], task: Any, path: str) -> Iterator[Any]:
    """The array of one file."""
    import numpy as np
    import pyarrow as pa

    from skate.data.batch import array_from_numpy

    a = np.load(io.BytesIO(read_stream(params, path)), **{"allow_pickle": False, **params["args"]})
    if not isinstance(a, np.ndarray):
        raise ValueError(f"it holds {type(a).__name__}, not one array; only .npy files are understood")
    a = a.reshape(1) if a.ndim == 0 else a
    yield pa.RecordBatch.from_arrays([array_from_numpy(a, None)], names=["data"])
