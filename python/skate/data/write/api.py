"""The write_... methods of Dataset. What they do is in job.py; each format in its own file.

All files of a write appear in the folder together when everything is written. Their names are <id
of the write>_<task>_<file of the task>.<ending>: no other write has them, on whatever machine, and
they sort as the rows and, by the time of their start, the writes do; the bytes are the same each
time. `mode` says what happens to files that are there. Beside other writes into the folder:
"append" takes no notice of them, and loses nothing; "error" is a ValueError, too, when another
write has put files there meanwhile, which stay; "overwrite" removes what was there when it began,
and what another write of that mode has put there since (the last one to commit has the folder), not
what was appended meanwhile. Where files are written in place (file systems that are not local) two
that overwrite at once leave the files of both. A name that a filename_provider gives and that is
taken is a FileExistsError (not with "overwrite", of what was there).

resume=True: a job (its operators, functions, input files, options) is written into its folder once,
however often the program is killed and started again. What is done is kept in
<path>/.skate-job/log, which stays there; remove the folder .skate-job to write the same again.
ValueError: the log is of another job that has not ended, or the plan has no lasting units
(from_items and the like have, a materialized Dataset, limit, union and zip have not). Files hold
rows of one unit of the input each; batches of map_batches do not cross units; so min_rows_per_file
is refused. A target that is not local needs a local folder for the log, resume="/logs"; files are
in their places there before the job ends. A filename_provider must follow from its arguments alone.
DataContext.checkpoint_config does the same with Ray's name (skate.data.checkpoint).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from skate._deps import write_job
from skate.data.arguments import others
from skate.data.run import errors
from skate.data.write.options import RowOptions, takes_files, takes_rows, takes_tasks

if TYPE_CHECKING:
    from collections.abc import Callable

    from skate.data.datasource import Datasink
    from skate.data.run.request import RunRequest
    from skate.data.typed import Mode, Path
    from skate.data.write.options import OpenRowOptions, TaskOptions, WriteOptions


@errors.part_of("skate.data.dataset", "Dataset")
class Writers:
    """Part of Dataset."""

    if TYPE_CHECKING:  # what it has of the rest of Dataset

        def _request(self) -> RunRequest: ...
        def _write(
            self, fmt: str, path: Any, options: WriteOptions, args: dict[str, Any], *more: Any
        ) -> None: ...

    @takes_rows(rest="arrow_parquet_args")
    def write_parquet(
        self,
        path: Path,
        *,
        partition_cols: list[str] | None = None,
        arrow_parquet_args_fn: Callable[[], dict[str, Any]] | None = None,
        **options: Unpack[OpenRowOptions],
    ) -> None:
        """Writes Parquet files into a folder.

        Args:
            path: The folder; local, or a URI of a pyarrow file system.
            partition_cols: Columns that become folders (col=value).
            arrow_parquet_args_fn: A function that gives more of arrow_parquet_args; called in the
                tasks.
            options: See RowOptions.
            arrow_parquet_args: Arguments of pyarrow.parquet.write_table (compression,
                row_group_size, ...); schema: the pyarrow.Schema of the files (TypeError for values
                that it cannot hold exactly); and partitioning_flavor: "hive", None (folders of
                values
                alone: read them with Partitioning("dir", field_names=...)) or "filename" (values in
                    front of the names, as pyarrow has it).

        Raises:
            ValueError: mode="error" finds files, or options do not fit together.
            TypeError: A column has values that the format cannot hold, or a keyword is unknown.
            OSError: Something cannot be written; nothing of the write is to be seen then.

        Example:
            >>> import skate, tempfile
            >>> folder = tempfile.mkdtemp()
            >>> skate.data.range(3).write_parquet(folder)
            >>> skate.data.read_parquet(folder).count()
            3
        """
        args = others(options, RowOptions)
        self._write("parquet", path, options, args, arrow_parquet_args_fn, partition_cols)

    @takes_tasks()
    def write_lance(
        self,
        path: Path,
        *,
        schema: Any = None,
        mode: Mode = "create",
        min_rows_per_file: int = 1024 * 1024,
        max_rows_per_file: int = 64 * 1024 * 1024,
        data_storage_version: str | None = None,
        storage_options: dict[str, Any] | None = None,
        **options: Unpack[TaskOptions],
    ) -> None:
        """Writes a Lance dataset; all of it becomes visible as one version. Needs the package
        pylance: ImportError without it.

        Args:
            path: Where it is made; a path or URI.
            schema: The pyarrow.Schema of what is written; None: that of the blocks.
            mode: "create" (FileExistsError where there is one), "append" or "overwrite".
            min_rows_per_file: Rows of a file, at least.
            max_rows_per_file: Rows of a file, at most.
            data_storage_version: Version of Lance's file format; None: the library's default.
            storage_options: As Lance takes them.
            options: See TaskOptions.

        Raises:
            ImportError: The package pylance is not there.
            FileExistsError: mode="create" finds a dataset.
        """
        sink = write_job.LanceDatasink(
            str(path),
            schema,
            mode,
            min_rows_per_file,
            max_rows_per_file,
            data_storage_version,
            storage_options,
        )
        self.write_datasink(sink, **options)

    @takes_rows(rest="arrow_csv_args")
    def write_csv(
        self,
        path: Path,
        *,
        arrow_csv_args_fn: Callable[[], dict[str, Any]] | None = None,
        **options: Unpack[OpenRowOptions],
    ) -> None:
        """Writes CSV files with a header line into a folder.

        Args:
            path: The folder; local, or a URI of a pyarrow file system.
            arrow_csv_args_fn: A function that gives more of arrow_csv_args; called in the tasks.
            options: See RowOptions.
            arrow_csv_args: Arguments of pyarrow.csv.WriteOptions, or write_options itself.

        Raises:
            ValueError: mode="error" finds files, or options do not fit together.
            TypeError: A column has values that the format cannot hold, or a keyword is unknown.
            OSError: Something cannot be written; nothing of the write is to be seen then.

        Example:
            >>> import skate, tempfile
            >>> folder = tempfile.mkdtemp()
            >>> skate.data.range(3).write_csv(folder)
            >>> skate.data.read_csv(folder).count()
            3
        """
        args = others(options, RowOptions)
        self._write("csv", path, options, args, arrow_csv_args_fn)

    @takes_rows(rest="pandas_json_args")
    def write_json(
        self,
        path: Path,
        *,
        pandas_json_args_fn: Callable[[], dict[str, Any]] | None = None,
        **options: Unpack[OpenRowOptions],
    ) -> None:
        """Writes JSON files, one object a line, into a folder.

        Args:
            path: The folder; local, or a URI of a pyarrow file system.
            pandas_json_args_fn: A function that gives more of pandas_json_args; called in the
                tasks.
            options: See RowOptions.
            pandas_json_args: Arguments of json.dumps (orient and lines are understood and are
                "records" and True).

        Raises:
            ValueError: mode="error" finds files, or options do not fit together.
            TypeError: A column has values that the format cannot hold, or a keyword is unknown.
            OSError: Something cannot be written; nothing of the write is to be seen then.

        Example:
            >>> import skate, tempfile
            >>> folder = tempfile.mkdtemp()
            >>> skate.data.range(3).write_json(folder)
            >>> skate.data.read_json(folder).count()
            3
        """
        args = others(options, RowOptions)
        self._write("json", path, options, args, pandas_json_args_fn)

    @takes_rows()
    def write_numpy(self, path: Path, *, column: str, **options: Unpack[RowOptions]) -> None:
        """Writes one column into .npy files.

        Args:
            path: The folder; local, or a URI of a pyarrow file system.
            column: The column; all its values must have one shape (TypeError).
            options: See RowOptions.

        Raises:
            ValueError: mode="error" finds files, or options do not fit together.
            TypeError: A column has values that the format cannot hold, or a keyword is unknown.
            OSError: Something cannot be written; nothing of the write is to be seen then.

        Example:
            >>> import skate, tempfile
            >>> folder = tempfile.mkdtemp()
            >>> skate.data.range(3).write_numpy(folder, column="id")
            >>> skate.data.read_numpy(folder).count()
            3
        """
        self._write("numpy", path, options, {"column": column})

    @takes_files()
    def write_images(
        self, path: Path, column: str, file_format: str = "png", **options: Unpack[WriteOptions]
    ) -> None:
        """Writes a column of arrays into image files, one a row.

        Args:
            path: The folder; local, or a URI of a pyarrow file system.
            column: Arrays (height, width[, channels]) of uint8.
            file_format: "png", "jpeg", ... as Pillow knows it.
            options: See WriteOptions.

        Raises:
            ValueError: mode="error" finds files, or options do not fit together.
            TypeError: A column has values that the format cannot hold, or a keyword is unknown.
            OSError: Something cannot be written; nothing of the write is to be seen then.
        """
        args = {"column": column, "file_format": file_format}
        self._write("images", path, options, args)

    @takes_rows()
    def write_tfrecords(
        self, path: Path, *, tf_schema: Any = None, **options: Unpack[RowOptions]
    ) -> None:
        """Writes TFRecord files of tf.train.Example; bytes, text, ints, floats and lists of these
        have such a form (TypeError for others).

        Args:
            path: The folder; local, or a URI of a pyarrow file system.
            tf_schema: Of TensorFlow's metadata library; NotImplementedError.
            options: See RowOptions.

        Raises:
            ValueError: mode="error" finds files, or options do not fit together.
            TypeError: A column has values that the format cannot hold, or a keyword is unknown.
            OSError: Something cannot be written; nothing of the write is to be seen then.

        Example:
            >>> import skate, tempfile
            >>> folder = tempfile.mkdtemp()
            >>> skate.data.range(3).write_tfrecords(folder)
            >>> skate.data.read_tfrecords(folder).count()
            3
        """
        if tf_schema is not None:
            raise NotImplementedError(
                "write_tfrecords: tf_schema needs TensorFlow's metadata library, which skate does not use; leave it out"
            )
        self._write("tfrecords", path, options, {})

    @takes_rows()
    def write_webdataset(
        self, path: Path, *, encoder: Any = True, **options: Unpack[RowOptions]
    ) -> None:
        """Writes tar files of the WebDataset form: column "jpg" of the row with __key__ "a" becomes
        the member a.jpg.

        Args:
            path: The folder; local, or a URI of a pyarrow file system.
            encoder: True: by the column's ending; None: bytes and text only; a function from row to
                row, or a list of these.
            options: See RowOptions.

        Raises:
            ValueError: mode="error" finds files, or options do not fit together.
            TypeError: A column has values that the format cannot hold, or a keyword is unknown.
            OSError: Something cannot be written; nothing of the write is to be seen then.
        """
        self._write("webdataset", path, options, {"encoder": encoder})

    @takes_rows(rest="args")
    def write_feather(self, path: Path, **options: Unpack[OpenRowOptions]) -> None:
        """Writes Arrow IPC files (Feather version 2) into a folder.

        Args:
            path: The folder; local, or a URI of a pyarrow file system.
            options: See RowOptions.
            args: compression: "lz4" (default), "zstd" or None.

        Raises:
            ValueError: mode="error" finds files, or options do not fit together.
            TypeError: A column has values that the format cannot hold, or a keyword is unknown.
            OSError: Something cannot be written; nothing of the write is to be seen then.

        Example:
            >>> import skate, tempfile
            >>> folder = tempfile.mkdtemp()
            >>> skate.data.range(3).write_feather(folder)
            >>> skate.data.read_feather(folder).count()
            3
        """
        self._write("arrow", path, options, others(options, RowOptions))

    @takes_rows(rest="args")
    def write_orc(self, path: Path, **options: Unpack[OpenRowOptions]) -> None:
        """Writes ORC files into a folder.

        Args:
            path: The folder; local, or a URI of a pyarrow file system.
            options: See RowOptions.
            args: Arguments of pyarrow.orc.ORCWriter (compression, stripe_size, ...).

        Raises:
            ValueError: mode="error" finds files, or options do not fit together.
            TypeError: A column has values that the format cannot hold, or a keyword is unknown.
            OSError: Something cannot be written; nothing of the write is to be seen then.

        Example:
            >>> import skate, tempfile
            >>> folder = tempfile.mkdtemp()
            >>> skate.data.range(3).write_orc(folder)
            >>> skate.data.read_orc(folder).count()
            3
        """
        self._write("orc", path, options, others(options, RowOptions))

    def write_sql(
        self,
        sql: str,
        connection_factory: Callable[[], Any],
        ray_remote_args: dict[str, Any] | None = None,
        concurrency: int | None = None,
    ) -> None:
        """Writes rows into a database over DB-API: executemany(), one transaction a task.

        Args:
            sql: An INSERT with one parameter a column.
            connection_factory: A function without arguments that opens a connection; called in the
                workers.
            ray_remote_args: Other options of the write tasks, as of skate.remote: num_cpus, memory
                (bytes), resources, runtime_env, ...
            concurrency: Write tasks at once, at most; None: as many as fit.

        Example:
            >>> import os, skate, sqlite3, tempfile
            >>> db = os.path.join(tempfile.mkdtemp(), "x.db")
            >>> _ = sqlite3.connect(db).execute("create table t(a)")
            >>> skate.data.range(3).write_sql(
            ...     "insert into t values (?)", lambda: sqlite3.connect(db)
            ... )
            >>> sqlite3.connect(db).execute("select count(*) from t").fetchone()
            (3,)
        """
        options: TaskOptions = {"ray_remote_args": ray_remote_args, "concurrency": concurrency}
        write_job.write_sql(self._request(), sql, connection_factory, options)

    @takes_tasks()
    def write_datasink(self, datasink: Datasink, **options: Unpack[TaskOptions]) -> None:
        """Writes into a Datasink that users write.

        Args:
            datasink: A skate.data.datasource.Datasink.
            options: See TaskOptions.
        """
        write_job.write_sink(self._request(), datasink, options)
