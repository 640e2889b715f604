"""Values that are defined by the folders of a path: Partitioning (how folders are read),
PathPartitionParser (from a path to values), PathPartitionFilter (which paths are read).

For example, .../year=2024/country=de/x.parquet has year "2024" and country "de" in the Hive style;
in the directory style, with field_names ["year", "country"], .../2024/de/x.parquet has the same
values. Values are text unless field_types says otherwise.
"""

from __future__ import annotations

import enum
import os
import posixpath
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from skate._deps import pa, urllib_parse
from skate.data.expr import bounds
from skate.data.files.local import local_path


class PartitionStyle(enum.StrEnum):
    """The style in which folders name values."""

    HIVE = "hive"
    DIRECTORY = "dir"


@dataclass
class Partitioning:
    """How folders define columns.

    Args:
        style: PartitionStyle or its text: "hive" (key=value) or "dir" (values only).
        base_dir: Only folders below this one are used.
        field_names: The columns, in the order of the folders; required for "dir"; None in the list
            skips a folder.
        field_types: int, float, str or bool, by column.
        filesystem: File system of base_dir.
    """

    style: PartitionStyle | str
    base_dir: str | None = None
    field_names: list[Any] | None = None
    field_types: dict[str, type] | None = field(default_factory=dict)
    filesystem: Any = None

    def __post_init__(self) -> None:
        self.base_dir = self.base_dir or ""
        self.field_types = self.field_types or {}

    @property
    def normalized_base_dir(self) -> str:
        """base_dir in the form that paths begin with, without a scheme and with a slash at the end."""
        d = os.fspath(self.base_dir or "")
        if not d:
            return ""
        at = local_path(d) if self.filesystem is None else None
        if at is not None:
            d = at
        elif "://" in d:
            d = d.split("://", 1)[1]
        return d if d.endswith("/") else d + "/"


class PathPartitionParser:
    """Extracts from a path the values that its folders define.

    Example:
        >>> from skate.data.datasource import PathPartitionParser
        >>> PathPartitionParser.of("dir", field_names=["year"], base_dir="/data")(
        ...     "/data/2024/x.csv"
        ... )
        {'year': '2024'}
    """

    @staticmethod
    def of(
        style: Any = PartitionStyle.HIVE,
        base_dir: str | None = None,
        field_names: list[Any] | None = None,
        field_types: dict[str, type] | None = None,
        filesystem: Any = None,
    ) -> PathPartitionParser:
        """Makes a parser from the arguments of Partitioning."""
        return PathPartitionParser(
            Partitioning(style, base_dir, field_names, field_types, filesystem)
        )

    def __init__(self, partitioning: Partitioning):
        try:
            style = PartitionStyle(partitioning.style)
        except ValueError:
            raise ValueError(
                f"Unsupported partition style: {partitioning.style!r}; there are {', '.join(s.value for s in PartitionStyle)}"
            ) from None
        if style is PartitionStyle.DIRECTORY and not partitioning.field_names:
            raise ValueError(
                "partitioning 'dir': the folders bear values only; give field_names, one for each level of folders"
            )
        self._scheme, self._hive = partitioning, style is PartitionStyle.HIVE

    @property
    def scheme(self) -> Partitioning:
        """The Partitioning that the parser was made from."""
        return self._scheme

    def __call__(self, path: str) -> dict[str, Any]:
        """The values in a path; {} for a path that is not below base_dir. ValueError if folders and
        field_names do not match."""
        base = self._scheme.normalized_base_dir
        if not path.startswith(base):
            return {}
        folders = [d for d in posixpath.dirname(path[len(base) :]).split("/") if d]
        out = self._of_hive(folders) if self._hive else self._of_folders(folders)
        for name, kind in (self._scheme.field_types or {}).items():
            if out.get(name) is not None:
                out[name] = out[name].lower() == "true" if kind is bool else kind(out[name])
        return out

    def evaluate_predicate_on_partition(self, path: str, predicate: Any) -> bool:
        """Whether files with this path may have rows for which an expression over the columns of
        its folders is true. False if the folders define no values.

        Args:
            predicate: An expression (skate.data.expressions).
        """
        values = self(path)
        if not values:
            return False
        return bool(  # only the file itself knows its other columns
            bounds.may_hold(predicate, bounds.Known({}, pa.RecordBatch.from_pylist([values])))
        )

    def _of_hive(self, folders: list[str]) -> dict[str, Any]:
        pairs = [d.split("=") for d in folders if d.count("=") == 1 and not d.startswith("=")]
        names = self._scheme.field_names
        if names and pairs:
            if len(pairs) != len(names):
                raise ValueError(
                    f"Expected {len(names)} partition value(s) but found {len(pairs)}: {pairs}."
                )
            for (key, _), name in zip(pairs, names, strict=True):
                if key != name:
                    raise ValueError(
                        f"partitioning 'hive': a folder is called {key}=..., where field_names wants {name}=..."
                    )
        return {
            urllib_parse.unquote(k): None
            if v == "__HIVE_DEFAULT_PARTITION__"
            else urllib_parse.unquote(v)
            for k, v in pairs
        }

    def _of_folders(self, folders: list[str]) -> dict[str, Any]:
        names = self._scheme.field_names or []
        if folders and len(folders) != len(names):
            raise ValueError(
                f"Expected {len(names)} partition value(s) but found {len(folders)}: {folders}."
            )
        return {n: d for n, d in zip(names, folders, strict=False) if n is not None}


class PathPartitionFilter:
    """Selects the paths for which a function of their partition values is true.

    Example:
        >>> from skate.data.datasource import PathPartitionFilter
        >>> PathPartitionFilter.of(lambda d: d["year"] == "2024")(["year=2023/a", "year=2024/a"])
        ['year=2024/a']
    """

    @staticmethod
    def of(
        filter_fn: Callable[[dict[str, Any]], bool] | None,
        style: Any = PartitionStyle.HIVE,
        base_dir: str | None = None,
        field_names: list[Any] | None = None,
        field_types: dict[str, type] | None = None,
        filesystem: Any = None,
    ) -> PathPartitionFilter:
        """Makes a filter from a function and the arguments of Partitioning."""
        return PathPartitionFilter(
            PathPartitionParser.of(style, base_dir, field_names, field_types, filesystem), filter_fn
        )

    def __init__(
        self,
        path_partition_parser: PathPartitionParser,
        filter_fn: Callable[[dict[str, Any]], bool] | None,
    ):
        self._parser, self._filter_fn = path_partition_parser, filter_fn

    @property
    def parser(self) -> PathPartitionParser:
        """The PathPartitionParser that reads the paths."""
        return self._parser

    def __call__(self, paths: list[str]) -> list[str]:
        """The selected paths, in their order."""
        return [p for p in paths if self.apply(p)] if self._filter_fn is not None else paths

    def apply(self, path: str) -> bool:
        """Whether one path is selected."""
        return bool(self._filter_fn(self._parser(path))) if self._filter_fn is not None else True
