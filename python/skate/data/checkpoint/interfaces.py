"""Ray's names for writes that can be resumed: DataContext.checkpoint_config =
CheckpointConfig(...). data/write/resume.py implements them.

Unlike in Ray, a write of files needs a config but no column of ids to be resumed. A write into a
user's Datasink is resumed by ids, as in Ray (data/write/rows.py).
"""

from __future__ import annotations

import enum
import os
import warnings
from typing import Any

from skate._deps import pafs
from skate.data.files.local import local_path


class CheckpointBackend(enum.Enum):
    """Ray's kinds of places for checkpoints; in skate, the path alone determines the place."""

    CLOUD_OBJECT_STORAGE = "CLOUD_OBJECT_STORAGE"
    FILE_STORAGE = "FILE_STORAGE"


class InvalidCheckpointingConfig(Exception):
    """The error for a CheckpointConfig that cannot be used."""


class InvalidCheckpointingOperators(Exception):
    """The error for a plan that cannot be resumed."""


class CheckpointConfig:
    """Makes writes resumable.

    Args:
        id_column: A column whose values identify rows, for write_datasink; other writes do not use
            it.
        checkpoint_path: A local folder for the logs of jobs; None: beside the output, in
            <output>/.skate-job (not for write_datasink).
        delete_checkpoint_on_success: Whether the log is deleted when its job has ended, so that the
            same program writes anew in its next run. False: the next run finds nothing to do.

    Raises:
        InvalidCheckpointingConfig: checkpoint_path is relative or not local, or id_column is no
            text.

    Example:
        >>> from skate.data.checkpoint import CheckpointConfig
        >>> CheckpointConfig(checkpoint_path="/tmp/logs").delete_checkpoint_on_success
        True
    """

    def __init__(
        self,
        id_column: str | None = None,
        checkpoint_path: str | None = None,
        *,
        delete_checkpoint_on_success: bool = True,
        override_filesystem: Any = None,
        override_backend: CheckpointBackend | str | None = None,
        filter_num_threads: int = 3,
        write_num_threads: int = 3,
        checkpoint_path_partition_filter: Any = None,
    ):
        if id_column is not None and (not isinstance(id_column, str) or not id_column):
            raise InvalidCheckpointingConfig(
                f"Checkpoint ID column: the name of a column, not {id_column!r}"
            )
        path = None if checkpoint_path is None else os.fspath(checkpoint_path)
        if path is not None:
            path = local_path(path) or path
            # a job that is started in another folder would not find the log at a relative path
            if not os.path.isabs(path):
                raise InvalidCheckpointingConfig(
                    f"Invalid checkpoint path: {checkpoint_path}. It must be a local folder, from the root on"
                )
        if (
            override_filesystem is not None
            and getattr(override_filesystem, "type_name", None) != "local"
        ):
            raise InvalidCheckpointingConfig(
                f"Invalid checkpoint path: {checkpoint_path}. The log of a job is kept in a local folder, not in {override_filesystem}"
            )
        if override_backend is not None:
            warnings.warn(
                "override_backend is deprecated: the kind of path says it",
                FutureWarning,
                stacklevel=2,
            )
        self.id_column, self.checkpoint_path = id_column, path
        self.delete_checkpoint_on_success = delete_checkpoint_on_success
        self.backend = CheckpointBackend(
            getattr(override_backend, "value", override_backend or "FILE_STORAGE")
        )
        self._filesystem = override_filesystem
        self.filter_num_threads, self.write_num_threads = filter_num_threads, write_num_threads
        self.checkpoint_path_partition_filter = checkpoint_path_partition_filter

    @property
    def filesystem(self) -> Any:
        """The file system of the log, by default the local one."""
        return self._filesystem or pafs.LocalFileSystem()
