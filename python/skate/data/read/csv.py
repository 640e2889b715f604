"""read_csv: CSV files by pyarrow.csv, block by block."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

from skate.data.read.files import compression, file_source, named, open_file, with_path


def read_csv(
    paths: Any,
    *,
    filesystem: Any = None,
    parallelism: int = -1,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory: float | None = None,
    ray_remote_args: dict[str, Any] | None = None,
    ignore_missing_paths: bool = False,
    include_paths: bool = False,
    file_extensions: list[str] | None = None,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
    **arrow_csv_args: Any,
) -> Any:
    """A Dataset of CSV files.

    Args:
        arrow_csv_args: read_options, parse_options, convert_options of pyarrow.csv.

    Example:
        >>> import skate, tempfile, os
        >>> path = os.path.join(tempfile.mkdtemp(), "a.csv")
        >>> _ = open(path, "w").write("a,b\\n1,x\\n")
        >>> skate.data.read_csv(path).take_all()
        [{'a': 1, 'b': 'x'}]
    """
    for k in arrow_csv_args:
        if k not in ("read_options", "parse_options", "convert_options", "invalid_row_handler"):
            raise TypeError(f"read_csv: unexpected keyword argument {k!r}")
    return file_source(
        "ReadCSV",
        "csv",
        paths,
        {"args": arrow_csv_args, "include_paths": include_paths},
        filesystem=filesystem,
        file_extensions=file_extensions,
        ignore_missing_paths=ignore_missing_paths,
        override_num_blocks=override_num_blocks,
        parallelism=parallelism,
        num_cpus=num_cpus,
        num_gpus=num_gpus,
        memory=memory,
        ray_remote_args=ray_remote_args,
        concurrency=concurrency,
    )


def run(params: dict[str, Any], task: Any) -> Iterator[Any]:
    import pyarrow as pa
    import pyarrow.csv as pacsv

    args = dict(params["args"])
    handler = args.pop("invalid_row_handler", None)
    if handler is not None:
        po = args.get("parse_options") or pacsv.ParseOptions()
        po.invalid_row_handler = handler
        args["parse_options"] = po
    ro = args.pop("read_options", None) or pacsv.ReadOptions()
    ro.use_threads = False
    ro.block_size = max(ro.block_size or 0, 4 << 20)  # types are inferred from the first block: a larger one is wrong less often
    for path in pickle.loads(task.unit):
        task.source = path
        try:
            with open_file(params.get("fs"), path) as raw:
                with pa.input_stream(raw, compression="detect" if params.get("fs") is not None else compression(path)) as f:
                    for rb in pacsv.open_csv(f, read_options=ro, **args):
                        yield with_path(rb, path) if params["include_paths"] else rb
        except (pa.ArrowInvalid, OSError) as e:
            if isinstance(e, pa.ArrowInvalid) and "Empty CSV file" in str(e):
                continue
            raise named(e, "read_csv", path) from None
