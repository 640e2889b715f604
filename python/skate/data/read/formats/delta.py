"""read_delta: the Parquet files of one version of a Delta Lake table. The package deltalake reads
the table's log, which names the files and the schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from skate._deps import pa
from skate.data.checks import library
from skate.data.files.local import local_path
from skate.data.read import memory as _memory
from skate.data.read.files import HIVE
from skate.data.read.formats.parquet import read_parquet
from skate.data.read.options import takes_files
from skate.data.read.source import InMemory, Source

if TYPE_CHECKING:
    from skate.data.read.options import OpenFileOptions


@takes_files(rest="arrow_parquet_args", partitioning=HIVE)
def read_delta(
    path: str,
    version: int | None = None,
    *,
    columns: list[str] | None = None,
    storage_options: dict[str, str] | None = None,
    trust_pickled_columns: bool = False,
    **options: Unpack[OpenFileOptions],
) -> Source | InMemory:
    """A Dataset of a Delta Lake table. Needs the package deltalake: ImportError without it. Other
    arguments are as in read_parquet.

    Args:
        path: Folder of the table.
        version: Version of the table; None: the newest.
        columns: Only these columns are read, in this order; None: all.
        storage_options: Options with which deltalake reads the log.
        trust_pickled_columns: True: Python objects that others have pickled into the files are
            unpickled, which runs whatever code they name. False: as
            DataContext.trust_pickled_columns says, which is not to.
        options: See FileOptions.
        arrow_parquet_args: As in read_parquet: batch_size, use_threads.

    Raises:
        NotImplementedError: The table marks rows as deleted only in its log (deletion vectors), or
            its columns have other names in the files: reading the files would give wrong rows.
    """
    if not isinstance(path, str):
        raise ValueError(f"read_delta takes the path of one table, not {path!r}")
    table = library("deltalake", "read_delta").DeltaTable(
        local_path(path) or path, version=version, storage_options=storage_options
    )
    needs = {"deletionVectors", "columnMapping"} & set(table.protocol().reader_features or ())
    if needs:
        raise NotImplementedError(
            f"read_delta {path}: the table uses {', '.join(sorted(needs))}, so its files alone do not say its rows; rewrite it without (REORG TABLE ... APPLY (PURGE)), or hand over "
            "from_arrow(DeltaTable(path).to_pyarrow_table())"
        )
    files = table.file_uris()
    schema = pa.schema(table.schema().to_arrow())
    if not files:
        return _memory.from_arrow(
            (
                schema if columns is None else pa.schema([schema.field(c) for c in columns])
            ).empty_table()
        )
    return read_parquet(
        files,
        columns=columns,
        schema=schema,
        trust_pickled_columns=trust_pickled_columns,
        **options,
    )
