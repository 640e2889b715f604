"""Sources and targets that users write, file names, and what folders of paths say. Names are Ray's."""

from __future__ import annotations

from typing import Any

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
__all__ = ["SaveMode"]
__all__ += list(_WHERE)


def __getattr__(name: str) -> Any:
    from skate import _lazy

    if name == "SaveMode":
        from skate.data.write.job import SaveMode

        return SaveMode
    return _lazy.attribute("skate.data.datasource", name, _WHERE)
