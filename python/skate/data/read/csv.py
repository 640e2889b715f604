"""read_csv: CSV files by pyarrow.csv, block by block."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from skate.data.read.files import HIVE, common, compression, file_source, named, open_file, read_stream, tolerates, unreadable
from skate.data.read.files import run as run_files


def read_csv(
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
    partitioning: Any = HIVE,
    include_paths: bool = False,
    ignore_missing_paths: bool = False,
    shuffle: Any = None,
    file_extensions: list[str] | None = None,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
    on_error: str | None = None,
    **arrow_csv_args: Any,
) -> Any:
    """A Dataset of CSV files.

    Args:
        paths: A file, folder, glob pattern, or list of them; local or of a pyarrow file system.
        partitioning: Which folders name columns (skate.data.datasource.Partitioning); None: none.
        partition_filter: Which files are read (PathPartitionFilter).
        file_extensions: Only files with one of these endings.
        shuffle: "files" or a FileShuffleConfig: files in random order.
        include_paths: Adds the column "path".
        ignore_missing_paths: Paths that do not exist are left out instead of an error.
        arrow_open_stream_args: compression and the like of pyarrow's open_input_stream.
        override_num_blocks: Number of read tasks at most; concurrency: how many run at once.
        on_error: What becomes of what cannot be understood: "raise", "skip" or "quarantine" (see Dataset.errors()); None: as DataContext.on_error says.
        arrow_csv_args: read_options, parse_options, convert_options, invalid_row_handler of pyarrow.csv; TypeError for others.

    Example:
        >>> import skate, tempfile, os
        >>> path = os.path.join(tempfile.mkdtemp(), "a.csv")
        >>> _ = open(path, "w").write("a,b\\n1,x\\n")
        >>> skate.data.read_csv(path).take_all()
        [{'a': 1, 'b': 'x'}]
    """
    given = common(locals())
    for k in arrow_csv_args:
        if k not in ("read_options", "parse_options", "convert_options", "invalid_row_handler"):
            raise TypeError(f"read_csv: unexpected keyword argument {k!r}")
    return file_source("ReadCSV", "csv", paths, {"args": arrow_csv_args}, **given)


def run(params: dict[str, Any], task: Any) -> Iterator[Any]:
    return run_files(params, task, "read_csv", read_file)


def read_file(params: dict[str, Any], task: Any, path: str) -> Iterator[Any]:
    """The batches of one file; none when it is empty."""
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
    kind = params["stream"].get("compression", "detect")
    rows = 0
    try:
        with (
            open_file(params.get("fs"), path) as raw,
            pa.input_stream(raw, compression=compression(path) if kind == "detect" else kind) as f,
        ):
            try:
                reader = pacsv.open_csv(f, read_options=ro, **args)
            except pa.ArrowInvalid as e:
                if "Empty CSV file" in str(e):
                    return
                raise
            for rb in reader:
                yield rb
                rows += rb.num_rows
    except pa.ArrowInvalid:
        if not tolerates(params) or "read_options" in params["args"] or handler is not None:
            raise
        yield from _good_lines(params, task, path, rows, ro, args)


def _good_lines(params: dict[str, Any], task: Any, path: str, skip: int, ro: Any, args: dict[str, Any]) -> Iterator[Any]:
    """The rows of a file after the first `skip`; lines that do not parse become dead letters. Arrow's parser decides, over halves of the lines."""
    import pyarrow as pa
    import pyarrow.csv as pacsv

    def wrong_width(row: Any) -> str:
        return "skip"

    data = read_stream(params, path)
    lines = [(i, ln) for i, ln in enumerate(data.split(b"\n")) if ln.strip()]  # Arrow leaves out empty lines, too
    head, lines = lines[0][1], lines[1 + skip :]
    po = args.get("parse_options") or pacsv.ParseOptions()
    co = args.get("convert_options") or pacsv.ConvertOptions()
    loose = pacsv.ParseOptions(
        delimiter=po.delimiter, quote_char=po.quote_char, escape_char=po.escape_char, invalid_row_handler=wrong_width
    )
    block = ro.block_size
    try:
        with pacsv.open_csv(pa.BufferReader(data), read_options=ro, parse_options=loose, convert_options=co) as r:
            schema = r.schema  # as the first block has it
    except pa.ArrowInvalid:  # the first block does not fit types that were asked for: those alone are known then
        with pacsv.open_csv(pa.BufferReader(head + b"\n"), read_options=ro, parse_options=loose, convert_options=co) as r:
            schema = r.schema
    strict = pacsv.ConvertOptions(
        column_types={f.name: f.type for f in schema},
        null_values=co.null_values,
        true_values=co.true_values,
        false_values=co.false_values,
        strings_can_be_null=co.strings_can_be_null,
        timestamp_parsers=co.timestamp_parsers,
        include_columns=co.include_columns,
        include_missing_columns=co.include_missing_columns,
        decimal_point=co.decimal_point,
    )
    todo = [lines[i : i + LINES] for i in range(0, len(lines), LINES)][::-1]
    while todo:
        some = todo.pop()
        text = head + b"\n" + b"\n".join(ln for _, ln in some) + b"\n"
        try:
            t = pacsv.read_csv(
                pa.BufferReader(text),
                read_options=pacsv.ReadOptions(use_threads=False, block_size=max(block, len(text) + 1)),
                parse_options=po,
                convert_options=strict,
            )
        except pa.ArrowInvalid as e:
            if len(some) == 1:
                i, ln = some[0]
                unreadable(params, task, named(e, "read_csv", f"{path} line {i + 1}"), path, i, ln)
            else:
                todo += [some[len(some) // 2 :], some[: len(some) // 2]]
            continue
        yield from t.to_batches()


LINES = 4096  # that are parsed together where some are bad
