"""read_iceberg: an Iceberg table, whose metadata and files the package pyiceberg reads; a unit is a few
of its data files. pyiceberg applies the filter, deletes and changes of the schema."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any, Unpack

from skate.data.checks import library
from skate.data.read.options import ReadOptions, takes_read
from skate.data.read.source import Facts, Source, asked_blocks, min_units
from skate.data.values import to_arrow


def load(method: str, identifier: str, catalog_kwargs: dict[str, Any] | None) -> Any:
    """The table of a catalog; ImportError without pyiceberg, ValueError for a wrong name."""
    if not isinstance(identifier, str) or "." not in identifier:
        raise ValueError(f"{method}: a table's name is 'namespace.table', not {identifier!r}")
    given = dict(catalog_kwargs or {})
    name = given.pop("name", "default")
    catalog = library("pyiceberg.catalog", method, "pyiceberg").load_catalog(name, **given)
    errors = library("pyiceberg.exceptions", method, "pyiceberg")
    try:
        return catalog.load_table(identifier)
    except errors.NoSuchTableError as e:
        raise ValueError(f"{method}: {e}; create it with pyiceberg: create_table()") from None


@takes_read()
def read_iceberg(
    *,
    table_identifier: str,
    row_filter: Any = None,
    selected_fields: tuple[str, ...] = ("*",),
    snapshot_id: int | None = None,
    scan_kwargs: dict[str, Any] | None = None,
    catalog_kwargs: dict[str, Any] | None = None,
    **options: Unpack[ReadOptions],
) -> Source:
    """A Dataset of an Iceberg table. Needs the package pyiceberg: ImportError without it.

    Args:
        table_identifier: Name of the table in its catalog, such as "db.events".
        row_filter: Only rows for which this holds: an expression of pyiceberg, or its text; None:
            all rows. Files whose statistics exclude it are not read.
        selected_fields: Only these columns; ("*",): all.
        snapshot_id: The snapshot to read; None: the newest.
        scan_kwargs: More arguments of pyiceberg's Table.scan(): case_sensitive, options, limit.
        catalog_kwargs: Arguments of pyiceberg.catalog.load_catalog(), such as name, type, uri and
            warehouse.
        options: See ReadOptions.

    Raises:
        ValueError: There is no such table, column or snapshot.
    """
    table = load("read_iceberg", table_identifier, catalog_kwargs)
    more = {**(scan_kwargs or {}), "selected_fields": tuple(selected_fields)}
    if row_filter is not None:
        more["row_filter"] = row_filter
    if snapshot_id is not None and table.snapshot_by_id(snapshot_id) is None:
        raise ValueError(f"read_iceberg: {table_identifier} has no snapshot {snapshot_id}")
    scan = table.scan(snapshot_id=snapshot_id, **more)
    arrow = library("pyiceberg.io.pyarrow", "read_iceberg", "pyiceberg")
    schema = arrow.schema_to_pyarrow(scan.projection(), include_field_ids=False)
    # by path, so that the order of rows does not depend on the order of manifests
    files = sorted(scan.plan_files(), key=lambda task: task.file.file_path)
    n = len(files)
    k = min(n, asked_blocks(options) or 4 * min_units())
    whole = row_filter is None and "limit" not in more
    parts = [files[i * n // k : (i + 1) * n // k] for i in range(k)]
    units = [_unit(part, whole) for part in parts] or [(pickle.dumps([]), 0, 1)]
    rows = [r for _, r, _ in units]
    params = {
        "format": "iceberg",
        "table": table_identifier,
        "metadata": table.metadata,
        "io": table.io,
        "projection": scan.projection(),
        "row_filter": scan.row_filter,
        "case_sensitive": scan.case_sensitive,
        "limit": scan.limit,
        "schema": schema,
    }
    facts = Facts(sum(rows) if min(rows) >= 0 else None, lambda: schema)
    return Source("ReadIceberg", params, units, options, facts)


def _unit(files: list[Any], whole: bool) -> tuple[bytes, int, int]:
    counted = whole and not any(f.delete_files for f in files)
    rows = sum(f.file.record_count for f in files) if counted else -1
    return pickle.dumps(files), rows, sum(f.file.file_size_in_bytes for f in files)


def run(params: dict[str, Any], task: Any) -> Iterator[Any]:
    files = pickle.loads(task.unit)
    task.source = ", ".join([params["table"], *(f.file.file_path for f in files[:1])])
    arrow = library("pyiceberg.io.pyarrow", "read_iceberg", "pyiceberg")
    scan = arrow.ArrowScan(
        params["metadata"],
        params["io"],
        params["projection"],
        params["row_filter"],
        params["case_sensitive"],
        params["limit"],
    )
    wanted, some = params["schema"], False
    for rb in scan.to_record_batches(files):
        some = True
        yield rb.replace_schema_metadata(None).cast(wanted)
    if not some:
        yield to_arrow.from_table(wanted.empty_table())[0]
