"""Sources and targets that users write, file names, and what folders of paths say. Names are
Ray's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skate import _lazy
from skate.data.write import mode

if TYPE_CHECKING:
    from skate.data.datasource.datasink import (
        Datasink,
        DummyOutputDatasink,
        WriteResult,
        WriteReturnType,
    )
    from skate.data.datasource.datasource import (
        Datasource,
        RandomIntRowDatasource,
        Reader,
        ReadTask,
    )
    from skate.data.datasource.file_based_datasource import FileBasedDatasource
    from skate.data.datasource.file_datasink import BlockBasedFileDatasink, RowBasedFileDatasink
    from skate.data.datasource.filename_provider import FilenameProvider
    from skate.data.datasource.partitioning import (
        Partitioning,
        PartitionStyle,
        PathPartitionFilter,
        PathPartitionParser,
    )
    from skate.data.random_config import FileShuffleConfig
    from skate.data.write.mode import SaveMode

_WHERE = {
    "BlockBasedFileDatasink": "file_datasink",
    "Datasink": "datasink",
    "Datasource": "datasource",
    "DummyOutputDatasink": "datasink",
    "FileBasedDatasource": "file_based_datasource",
    "FileShuffleConfig": "file_based_datasource",
    "FilenameProvider": "filename_provider",
    "PartitionStyle": "partitioning",
    "Partitioning": "partitioning",
    "PathPartitionFilter": "partitioning",
    "PathPartitionParser": "partitioning",
    "RandomIntRowDatasource": "datasource",
    "ReadTask": "datasource",
    "Reader": "datasource",
    "RowBasedFileDatasink": "file_datasink",
    "WriteResult": "datasink",
    "WriteReturnType": "datasink",
}
__all__ = [
    "BlockBasedFileDatasink",
    "Datasink",
    "Datasource",
    "DummyOutputDatasink",
    "FileBasedDatasource",
    "FileShuffleConfig",
    "FilenameProvider",
    "PartitionStyle",
    "Partitioning",
    "PathPartitionFilter",
    "PathPartitionParser",
    "RandomIntRowDatasource",
    "ReadTask",
    "Reader",
    "RowBasedFileDatasink",
    "SaveMode",
    "WriteResult",
    "WriteReturnType",
]


if not TYPE_CHECKING:  # for a type checker a name is there or it is not

    def __getattr__(name: str) -> Any:
        if name == "SaveMode":
            return mode.SaveMode
        return _lazy.attribute("skate.data.datasource", name, _WHERE)
