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

from typing import TYPE_CHECKING, Any

from skate._deps import write_job
from skate.data.plan.node import Node
from skate.data.plan.resources import resources
from skate.data.run import errors, execute
from skate.data.write.mode import SaveMode
from skate.data.write.options import WriteOptions
from skate.serialize import cloudpickled

if TYPE_CHECKING:
    from collections.abc import Callable

    from skate.data.datasource import Datasink, FilenameProvider
    from skate.data.typed import FileSystem, Mode, Path


@errors.part_of("skate.data.dataset", "Dataset")
class Writers:
    """Part of Dataset."""

    def write_parquet(
        self,
        path: Path,
        *,
        partition_cols: list[str] | None = None,
        filesystem: FileSystem | None = None,
        try_create_dir: bool = True,
        arrow_open_stream_args: dict[str, Any] | None = None,
        filename_provider: FilenameProvider | None = None,
        arrow_parquet_args_fn: Callable[[], dict[str, Any]] | None = None,
        min_rows_per_file: int | None = None,
        max_rows_per_file: int | None = None,
        ray_remote_args: dict[str, Any] | None = None,
        concurrency: int | None = None,
        num_rows_per_file: int | None = None,
        mode: Mode = SaveMode.APPEND,
        resume: bool | str = False,
        **arrow_parquet_args: Any,
    ) -> None:
        """Writes Parquet files into a folder.

        Args:
            path: The folder; local, or a URI of a pyarrow file system.
            partition_cols: Columns that become folders (col=value).
            filesystem: The pyarrow (or fsspec) file system of the path; None: it follows from the
                path.
            try_create_dir: Without effect: folders that are missing are made.
            arrow_open_stream_args: Arguments of pyarrow's open_output_stream: compression,
                buffer_size, metadata.
            filename_provider: Names the files (skate.data.datasource.FilenameProvider).
            arrow_parquet_args_fn: A function that gives more of arrow_parquet_args; called in the
                tasks.
            min_rows_per_file: Rows of a file, at least; None: any number.
            max_rows_per_file: Rows of a file, at most; None: any number.
            ray_remote_args: Other options of the write tasks, as of skate.remote: num_cpus, memory
                (bytes), resources, runtime_env, ...
            concurrency: Write tasks at once, at most; None: as many as fit.
            num_rows_per_file: Ray's older name of min_rows_per_file.
            mode: "append", "overwrite", "error" (ValueError when there are files) or "ignore"
                (nothing is written when there are).
            resume: The same program, run again after it was killed, does only what is missing, and
                nothing when all is there (see the head of this module). A text: the local folder of
                the log.
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
        options = WriteOptions(
            path,
            mode,
            filesystem,
            ray_remote_args,
            concurrency,
            filename_provider,
            resume,
            arrow_open_stream_args,
        )
        options = options.of_files(
            min_rows_per_file or num_rows_per_file, max_rows_per_file, partition_cols
        )
        write_job.write(self, "parquet", options, arrow_parquet_args, arrow_parquet_args_fn)

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
        ray_remote_args: dict[str, Any] | None = None,
        concurrency: int | None = None,
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
            ray_remote_args: Other options of the write tasks, as of skate.remote: num_cpus, memory
                (bytes), resources, runtime_env, ...
            concurrency: Write tasks at once, at most; None: as many as fit.

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
        self.write_datasink(sink, ray_remote_args=ray_remote_args, concurrency=concurrency)

    def write_csv(
        self,
        path: Path,
        *,
        filesystem: FileSystem | None = None,
        try_create_dir: bool = True,
        arrow_open_stream_args: dict[str, Any] | None = None,
        filename_provider: FilenameProvider | None = None,
        arrow_csv_args_fn: Callable[[], dict[str, Any]] | None = None,
        min_rows_per_file: int | None = None,
        max_rows_per_file: int | None = None,
        ray_remote_args: dict[str, Any] | None = None,
        concurrency: int | None = None,
        num_rows_per_file: int | None = None,
        mode: Mode = SaveMode.APPEND,
        resume: bool | str = False,
        **arrow_csv_args: Any,
    ) -> None:
        """Writes CSV files with a header line into a folder.

        Args:
            path: The folder; local, or a URI of a pyarrow file system.
            filesystem: The pyarrow (or fsspec) file system of the path; None: it follows from the
                path.
            try_create_dir: Without effect: folders that are missing are made.
            arrow_open_stream_args: Arguments of pyarrow's open_output_stream: compression,
                buffer_size, metadata.
            filename_provider: Names the files (skate.data.datasource.FilenameProvider).
            arrow_csv_args_fn: A function that gives more of arrow_csv_args; called in the tasks.
            min_rows_per_file: Rows of a file, at least; None: any number.
            max_rows_per_file: Rows of a file, at most; None: any number.
            ray_remote_args: Other options of the write tasks, as of skate.remote: num_cpus, memory
                (bytes), resources, runtime_env, ...
            concurrency: Write tasks at once, at most; None: as many as fit.
            num_rows_per_file: Ray's older name of min_rows_per_file.
            mode: "append", "overwrite", "error" (ValueError when there are files) or "ignore"
                (nothing is written when there are).
            resume: The same program, run again after it was killed, does only what is missing, and
                nothing when all is there (see the head of this module). A text: the local folder of
                the log.
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
        options = WriteOptions(
            path,
            mode,
            filesystem,
            ray_remote_args,
            concurrency,
            filename_provider,
            resume,
            arrow_open_stream_args,
        )
        options = options.of_files(min_rows_per_file or num_rows_per_file, max_rows_per_file)
        write_job.write(self, "csv", options, arrow_csv_args, arrow_csv_args_fn)

    def write_json(
        self,
        path: Path,
        *,
        filesystem: FileSystem | None = None,
        try_create_dir: bool = True,
        arrow_open_stream_args: dict[str, Any] | None = None,
        filename_provider: FilenameProvider | None = None,
        pandas_json_args_fn: Callable[[], dict[str, Any]] | None = None,
        min_rows_per_file: int | None = None,
        max_rows_per_file: int | None = None,
        ray_remote_args: dict[str, Any] | None = None,
        concurrency: int | None = None,
        num_rows_per_file: int | None = None,
        mode: Mode = SaveMode.APPEND,
        resume: bool | str = False,
        **pandas_json_args: Any,
    ) -> None:
        """Writes JSON files, one object a line, into a folder.

        Args:
            path: The folder; local, or a URI of a pyarrow file system.
            filesystem: The pyarrow (or fsspec) file system of the path; None: it follows from the
                path.
            try_create_dir: Without effect: folders that are missing are made.
            arrow_open_stream_args: Arguments of pyarrow's open_output_stream: compression,
                buffer_size, metadata.
            filename_provider: Names the files (skate.data.datasource.FilenameProvider).
            pandas_json_args_fn: A function that gives more of pandas_json_args; called in the
                tasks.
            min_rows_per_file: Rows of a file, at least; None: any number.
            max_rows_per_file: Rows of a file, at most; None: any number.
            ray_remote_args: Other options of the write tasks, as of skate.remote: num_cpus, memory
                (bytes), resources, runtime_env, ...
            concurrency: Write tasks at once, at most; None: as many as fit.
            num_rows_per_file: Ray's older name of min_rows_per_file.
            mode: "append", "overwrite", "error" (ValueError when there are files) or "ignore"
                (nothing is written when there are).
            resume: The same program, run again after it was killed, does only what is missing, and
                nothing when all is there (see the head of this module). A text: the local folder of
                the log.
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
        options = WriteOptions(
            path,
            mode,
            filesystem,
            ray_remote_args,
            concurrency,
            filename_provider,
            resume,
            arrow_open_stream_args,
        )
        options = options.of_files(min_rows_per_file or num_rows_per_file, max_rows_per_file)
        write_job.write(self, "json", options, pandas_json_args, pandas_json_args_fn)

    def write_numpy(
        self,
        path: Path,
        *,
        column: str,
        filesystem: FileSystem | None = None,
        try_create_dir: bool = True,
        arrow_open_stream_args: dict[str, Any] | None = None,
        filename_provider: FilenameProvider | None = None,
        min_rows_per_file: int | None = None,
        ray_remote_args: dict[str, Any] | None = None,
        concurrency: int | None = None,
        num_rows_per_file: int | None = None,
        mode: Mode = SaveMode.APPEND,
        resume: bool | str = False,
    ) -> None:
        """Writes one column into .npy files.

        Args:
            path: The folder; local, or a URI of a pyarrow file system.
            column: The column; all its values must have one shape (TypeError).
            filesystem: The pyarrow (or fsspec) file system of the path; None: it follows from the
                path.
            try_create_dir: Without effect: folders that are missing are made.
            arrow_open_stream_args: Arguments of pyarrow's open_output_stream: compression,
                buffer_size, metadata.
            filename_provider: Names the files (skate.data.datasource.FilenameProvider).
            min_rows_per_file: Rows of a file, at least; None: any number.
            ray_remote_args: Other options of the write tasks, as of skate.remote: num_cpus, memory
                (bytes), resources, runtime_env, ...
            concurrency: Write tasks at once, at most; None: as many as fit.
            num_rows_per_file: Ray's older name of min_rows_per_file.
            mode: "append", "overwrite", "error" (ValueError when there are files) or "ignore"
                (nothing is written when there are).
            resume: The same program, run again after it was killed, does only what is missing, and
                nothing when all is there (see the head of this module). A text: the local folder of
                the log.

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
        options = WriteOptions(
            path,
            mode,
            filesystem,
            ray_remote_args,
            concurrency,
            filename_provider,
            resume,
            arrow_open_stream_args,
        )
        write_job.write(
            self,
            "numpy",
            options.of_files(min_rows_per_file or num_rows_per_file),
            {"column": column},
        )

    def write_images(
        self,
        path: Path,
        column: str,
        file_format: str = "png",
        *,
        filesystem: FileSystem | None = None,
        try_create_dir: bool = True,
        arrow_open_stream_args: dict[str, Any] | None = None,
        filename_provider: FilenameProvider | None = None,
        ray_remote_args: dict[str, Any] | None = None,
        concurrency: int | None = None,
        mode: Mode = SaveMode.APPEND,
        resume: bool | str = False,
    ) -> None:
        """Writes a column of arrays into image files, one a row.

        Args:
            path: The folder; local, or a URI of a pyarrow file system.
            column: Arrays (height, width[, channels]) of uint8.
            file_format: "png", "jpeg", ... as Pillow knows it.
            filesystem: The pyarrow (or fsspec) file system of the path; None: it follows from the
                path.
            try_create_dir: Without effect: folders that are missing are made.
            arrow_open_stream_args: Arguments of pyarrow's open_output_stream: compression,
                buffer_size, metadata.
            filename_provider: Names the files (skate.data.datasource.FilenameProvider).
            ray_remote_args: Other options of the write tasks, as of skate.remote: num_cpus, memory
                (bytes), resources, runtime_env, ...
            concurrency: Write tasks at once, at most; None: as many as fit.
            mode: "append", "overwrite", "error" (ValueError when there are files) or "ignore"
                (nothing is written when there are).
            resume: The same program, run again after it was killed, does only what is missing, and
                nothing when all is there (see the head of this module). A text: the local folder of
                the log.

        Raises:
            ValueError: mode="error" finds files, or options do not fit together.
            TypeError: A column has values that the format cannot hold, or a keyword is unknown.
            OSError: Something cannot be written; nothing of the write is to be seen then.
        """
        options = WriteOptions(
            path,
            mode,
            filesystem,
            ray_remote_args,
            concurrency,
            filename_provider,
            resume,
            arrow_open_stream_args,
        )
        write_job.write(self, "images", options, {"column": column, "file_format": file_format})

    def write_tfrecords(
        self,
        path: Path,
        *,
        tf_schema: Any = None,
        filesystem: FileSystem | None = None,
        try_create_dir: bool = True,
        arrow_open_stream_args: dict[str, Any] | None = None,
        filename_provider: FilenameProvider | None = None,
        min_rows_per_file: int | None = None,
        ray_remote_args: dict[str, Any] | None = None,
        concurrency: int | None = None,
        num_rows_per_file: int | None = None,
        mode: Mode = SaveMode.APPEND,
        resume: bool | str = False,
    ) -> None:
        """Writes TFRecord files of tf.train.Example; bytes, text, ints, floats and lists of these
        have such a form (TypeError for others).

        Args:
            path: The folder; local, or a URI of a pyarrow file system.
            tf_schema: Of TensorFlow's metadata library; NotImplementedError.
            filesystem: The pyarrow (or fsspec) file system of the path; None: it follows from the
                path.
            try_create_dir: Without effect: folders that are missing are made.
            arrow_open_stream_args: Arguments of pyarrow's open_output_stream: compression,
                buffer_size, metadata.
            filename_provider: Names the files (skate.data.datasource.FilenameProvider).
            min_rows_per_file: Rows of a file, at least; None: any number.
            ray_remote_args: Other options of the write tasks, as of skate.remote: num_cpus, memory
                (bytes), resources, runtime_env, ...
            concurrency: Write tasks at once, at most; None: as many as fit.
            num_rows_per_file: Ray's older name of min_rows_per_file.
            mode: "append", "overwrite", "error" (ValueError when there are files) or "ignore"
                (nothing is written when there are).
            resume: The same program, run again after it was killed, does only what is missing, and
                nothing when all is there (see the head of this module). A text: the local folder of
                the log.

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
        options = WriteOptions(
            path,
            mode,
            filesystem,
            ray_remote_args,
            concurrency,
            filename_provider,
            resume,
            arrow_open_stream_args,
        )
        write_job.write(
            self, "tfrecords", options.of_files(min_rows_per_file or num_rows_per_file), {}
        )

    def write_webdataset(
        self,
        path: Path,
        *,
        filesystem: FileSystem | None = None,
        try_create_dir: bool = True,
        arrow_open_stream_args: dict[str, Any] | None = None,
        filename_provider: FilenameProvider | None = None,
        min_rows_per_file: int | None = None,
        ray_remote_args: dict[str, Any] | None = None,
        encoder: Any = True,
        concurrency: int | None = None,
        num_rows_per_file: int | None = None,
        mode: Mode = SaveMode.APPEND,
        resume: bool | str = False,
    ) -> None:
        """Writes tar files of the WebDataset form: column "jpg" of the row with __key__ "a" becomes
        the member a.jpg.

        Args:
            path: The folder; local, or a URI of a pyarrow file system.
            filesystem: The pyarrow (or fsspec) file system of the path; None: it follows from the
                path.
            try_create_dir: Without effect: folders that are missing are made.
            arrow_open_stream_args: Arguments of pyarrow's open_output_stream: compression,
                buffer_size, metadata.
            filename_provider: Names the files (skate.data.datasource.FilenameProvider).
            min_rows_per_file: Rows of a file, at least; None: any number.
            ray_remote_args: Other options of the write tasks, as of skate.remote: num_cpus, memory
                (bytes), resources, runtime_env, ...
            encoder: True: by the column's ending; None: bytes and text only; a function from row to
                row, or a list of these.
            concurrency: Write tasks at once, at most; None: as many as fit.
            num_rows_per_file: Ray's older name of min_rows_per_file.
            mode: "append", "overwrite", "error" (ValueError when there are files) or "ignore"
                (nothing is written when there are).
            resume: The same program, run again after it was killed, does only what is missing, and
                nothing when all is there (see the head of this module). A text: the local folder of
                the log.

        Raises:
            ValueError: mode="error" finds files, or options do not fit together.
            TypeError: A column has values that the format cannot hold, or a keyword is unknown.
            OSError: Something cannot be written; nothing of the write is to be seen then.
        """
        options = WriteOptions(
            path,
            mode,
            filesystem,
            ray_remote_args,
            concurrency,
            filename_provider,
            resume,
            arrow_open_stream_args,
        )
        write_job.write(
            self,
            "webdataset",
            options.of_files(min_rows_per_file or num_rows_per_file),
            {"encoder": encoder},
        )

    def write_feather(
        self,
        path: Path,
        *,
        filesystem: FileSystem | None = None,
        filename_provider: FilenameProvider | None = None,
        min_rows_per_file: int | None = None,
        max_rows_per_file: int | None = None,
        ray_remote_args: dict[str, Any] | None = None,
        concurrency: int | None = None,
        mode: Mode = SaveMode.APPEND,
        resume: bool | str = False,
        **args: Any,
    ) -> None:
        """Writes Arrow IPC files (Feather version 2) into a folder.

        Args:
            path: The folder; local, or a URI of a pyarrow file system.
            filesystem: The pyarrow (or fsspec) file system of the path; None: it follows from the
                path.
            filename_provider: Names the files (skate.data.datasource.FilenameProvider).
            min_rows_per_file: Rows of a file, at least; None: any number.
            max_rows_per_file: Rows of a file, at most; None: any number.
            ray_remote_args: Other options of the write tasks, as of skate.remote: num_cpus, memory
                (bytes), resources, runtime_env, ...
            concurrency: Write tasks at once, at most; None: as many as fit.
            mode: "append", "overwrite", "error" (ValueError when there are files) or "ignore"
                (nothing is written when there are).
            resume: The same program, run again after it was killed, does only what is missing, and
                nothing when all is there (see the head of this module). A text: the local folder of
                the log.
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
        options = WriteOptions(
            path, mode, filesystem, ray_remote_args, concurrency, filename_provider, resume
        )
        write_job.write(self, "arrow", options.of_files(min_rows_per_file, max_rows_per_file), args)

    def write_orc(
        self,
        path: Path,
        *,
        filesystem: FileSystem | None = None,
        filename_provider: FilenameProvider | None = None,
        min_rows_per_file: int | None = None,
        max_rows_per_file: int | None = None,
        ray_remote_args: dict[str, Any] | None = None,
        concurrency: int | None = None,
        mode: Mode = SaveMode.APPEND,
        resume: bool | str = False,
        **args: Any,
    ) -> None:
        """Writes ORC files into a folder.

        Args:
            path: The folder; local, or a URI of a pyarrow file system.
            filesystem: The pyarrow (or fsspec) file system of the path; None: it follows from the
                path.
            filename_provider: Names the files (skate.data.datasource.FilenameProvider).
            min_rows_per_file: Rows of a file, at least; None: any number.
            max_rows_per_file: Rows of a file, at most; None: any number.
            ray_remote_args: Other options of the write tasks, as of skate.remote: num_cpus, memory
                (bytes), resources, runtime_env, ...
            concurrency: Write tasks at once, at most; None: as many as fit.
            mode: "append", "overwrite", "error" (ValueError when there are files) or "ignore"
                (nothing is written when there are).
            resume: The same program, run again after it was killed, does only what is missing, and
                nothing when all is there (see the head of this module). A text: the local folder of
                the log.
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
        options = WriteOptions(
            path, mode, filesystem, ray_remote_args, concurrency, filename_provider, resume
        )
        write_job.write(self, "orc", options.of_files(min_rows_per_file, max_rows_per_file), args)

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
        params = {"format": "sql", "sql": sql, "connect": cloudpickled(connection_factory)}
        options = resources(ray_remote_args or {})
        if concurrency is not None:
            options["max_tasks"] = concurrency
        for _ in execute.batches(self, Node("write", "WriteSQL", params, (self._node,), **options)):  # type: ignore[attr-defined]
            pass

    def write_datasink(
        self,
        datasink: Datasink,
        *,
        ray_remote_args: dict[str, Any] | None = None,
        concurrency: int | None = None,
    ) -> None:
        """Writes into a Datasink that users write.

        Args:
            datasink: A skate.data.datasource.Datasink.
            ray_remote_args: Other options of the write tasks, as of skate.remote: num_cpus, memory
                (bytes), resources, runtime_env, ...
            concurrency: Tasks at once.
        """
        write_job.write_sink(self, datasink, concurrency, ray_remote_args)
