"""LanceDatasink: tasks write fragments, and the driver commits them as one version. A write that
fails leaves the dataset unchanged."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from typing import Any

from skate._deps import lance, lance_fragment, pa
from skate.data.checks import library
from skate.data.datasource.datasink import Datasink, TaskContext, WriteResult
from skate.data.files.local import local_path
from skate.data.values import marks, unify


class LanceDatasink(Datasink[bytes]):
    """The implementation of Dataset.write_lance(). Needs the package pylance: ImportError without
    it.

    Args:
        uri: Path or URI of the dataset.
        schema: The schema to write; None: that of the blocks.
        mode: "create" (FileExistsError if the dataset exists), "append" or "overwrite".
        min_rows_per_file, max_rows_per_file: The least rows (of a task) and the most rows of a
            file.
    """

    _whole_or_not = True

    def __init__(
        self,
        uri: str,
        schema: Any = None,
        mode: str = "create",
        min_rows_per_file: int = 1024 * 1024,
        max_rows_per_file: int = 64 * 1024 * 1024,
        data_storage_version: str | None = None,
        storage_options: dict[str, Any] | None = None,
    ):
        if mode not in ("create", "append", "overwrite"):
            raise ValueError(
                f"write_lance: mode must be 'create', 'append' or 'overwrite', not {mode!r}"
            )
        library("lance", "write_lance", "pylance")
        self.uri, self.schema, self.mode = local_path(uri) or uri, schema, mode
        self.min_rows, self.max_rows = min_rows_per_file, max_rows_per_file
        self.storage_version, self.options = data_storage_version, storage_options
        self.read_version: int | None = None
        self.known: Any = None  # the schema, if it is known before the run

    @property
    def min_rows_per_write(self) -> int | None:
        return self.min_rows

    def on_write_start(self, schema: Any = None) -> None:
        self.known = schema
        try:
            self.read_version = lance.dataset(self.uri, storage_options=self.options).version
        except (ValueError, OSError):  # the dataset does not exist
            if self.mode == "append":
                raise FileNotFoundError(
                    f"write_lance: there is no dataset at {self.uri} to append to; use mode='create'"
                ) from None
            return
        if self.mode == "create":
            raise FileExistsError(
                f"write_lance: there is a dataset at {self.uri}; use mode='append' or 'overwrite'"
            )

    def write(self, blocks: Iterable[Any], ctx: TaskContext) -> bytes:
        """Writes fragments; returns them and their schema, pickled."""
        tables = [t for t in blocks if t.num_rows]
        if not tables:
            return pickle.dumps(([], None))
        schema = marks.bare(self.schema or tables[0].schema.remove_metadata())
        tables = [marks.bare(t) for t in tables]
        batches = [b for t in tables for b in unify.concat_as(t, schema).to_batches()]
        made = lance_fragment.write_fragments(
            pa.RecordBatchReader.from_batches(schema, batches),
            self.uri,
            schema=schema,
            mode="append" if self.mode == "append" else "overwrite",
            max_rows_per_file=self.max_rows,
            data_storage_version=self.storage_version,
            storage_options=self.options,
        )
        return pickle.dumps((made, schema))

    def on_write_complete(self, write_result: WriteResult[bytes]) -> None:
        made = [pickle.loads(r) for r in write_result.write_returns]
        fragments = [f for some, _ in made for f in some]
        schema = marks.bare(self.schema or next((s for _, s in made if s is not None), self.known))
        if schema is None or not fragments and self.mode == "append":
            return  # no rows
        op = (
            lance.LanceOperation.Append(fragments)
            if self.mode == "append"
            else lance.LanceOperation.Overwrite(schema, fragments)
        )
        lance.LanceDataset.commit(
            self.uri, op, read_version=self.read_version, storage_options=self.options
        )
