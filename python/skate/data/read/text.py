"""read_text: lines of text files."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

from skate.data.read.files import file_source, named, read_bytes


def read_text(
    paths: Any,
    *,
    encoding: str = "utf-8",
    drop_empty_lines: bool = True,
    filesystem: Any = None,
    parallelism: int = -1,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory: float | None = None,
    ray_remote_args: dict[str, Any] | None = None,
    ignore_missing_paths: bool = False,
    file_extensions: list[str] | None = None,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
) -> Any:
    """A Dataset with one row a line, in a column "text".

    Example:
        >>> import skate
        >>> "DataContext" in skate.data.read_text(skate.data.context.__file__).take(1)[0]["text"]
        True
    """
    return file_source(
        "ReadText",
        "text",
        paths,
        {"encoding": encoding, "drop_empty_lines": drop_empty_lines},
        filesystem=filesystem,
        file_extensions=file_extensions,
        ignore_missing_paths=ignore_missing_paths,
        override_num_blocks=override_num_blocks,
        parallelism=parallelism,
        schema=_schema,
        num_cpus=num_cpus,
        num_gpus=num_gpus,
        memory=memory,
        ray_remote_args=ray_remote_args,
        concurrency=concurrency,
    )


def _schema() -> Any:
    import pyarrow as pa

    return pa.schema([("text", pa.string())])


def run(params: dict[str, Any], task: Any) -> Iterator[Any]:
    import pyarrow as pa

    from skate.data.batch import from_objects

    schema = _schema()
    for path in pickle.loads(task.unit):
        task.source = path
        try:
            text = read_bytes(params.get("fs"), path).decode(params["encoding"])
        except OSError as e:
            raise named(e, "read_text", path) from None
        except UnicodeDecodeError as e:
            raise ValueError(f"read_text {path}: not {params['encoding']} at byte {e.start}: {e.reason}; pass encoding=...") from None
        lines = text.split("\n")
        lines = [ln[:-1] if ln.endswith("\r") else ln for ln in lines]
        if lines and not lines[-1]:
            lines.pop()  # after the last line's end
        if params["drop_empty_lines"]:
            lines = [ln for ln in lines if ln]
        for at in range(0, max(1, len(lines)), 65536):
            yield pa.RecordBatch.from_arrays([from_objects(lines[at : at + 65536], pa.string())], schema=schema)
