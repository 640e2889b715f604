"""Reads CSV that Arrow's parser refuses: finds the bad records, and reads all others.

A record is a line, or several lines if a quoted value spans them. A record is bad if it has too few
or too many values, or a value that the type of its column cannot represent. Types are those of the
file's first block; a type becomes wider if a later record needs this and no value loses precision:
any type after nulls only, double after ints.

Python's csv module finds the records and their widths (by Arrow's rules about quotes). Arrow's
parser reads their values, CHUNK records at a time; a chunk that it refuses is halved until single
records remain.
Cost: about 2 us per record.
"""

from __future__ import annotations

import csv
import io
import re
import sys
from collections.abc import Iterator
from itertools import islice
from typing import Any

from skate._deps import pa, pacsv
from skate.data.read.files import bad_line, read_sound
from skate.data.values import to_arrow
from skate.data.values.unify import unique

CHUNK = 4096

# (number of its first line, from 1; number of its values; its text)
Record = tuple[int, int, bytes]


def batches(
    params: dict[str, Any],
    task: Any,
    path: str,
    skip: int,
    ro: Any,
    args: dict[str, Any],
    e: Exception,
) -> Iterator[Any]:
    """Yields the good rows of a file after its first `skip` rows, which were read before. Bad rows
    become dead letters or are raised. e is the error of Arrow's parser; it is raised if all records
    turn out to be good."""
    data = read_sound(params, task, "read_csv", path, lines=True)
    if b"\0" in data[:4096] and ro.encoding.lower() in ("utf8", "utf-8"):
        raise pa.ArrowInvalid(
            "Failed to read CSV file: it holds bytes that are no text. Leave other files out with file_extensions=['csv'] or partition_filter; for UTF-16 pass "
            "read_options=pyarrow.csv.ReadOptions(encoding='utf-16')"
        )
    if ro.encoding.lower() not in ("utf8", "utf-8"):
        data = data.decode(ro.encoding).encode()
    po = args.get("parse_options") or pacsv.ParseOptions()
    co = args.get("convert_options") or pacsv.ConvertOptions()
    records = _records(data, po, ro.skip_rows)
    names: list[str] = list(ro.column_names or ())
    if not names:
        head = next(records, None)
        if head is None:
            return
        if ro.autogenerate_column_names:
            names, records = [f"f{i}" for i in range(head[1])], _records(data, po, ro.skip_rows)
        else:
            names = next(csv.reader(_text(head[2]), **_dialect(po)))
    names = unique(names) or names
    records = islice(records, ro.skip_rows_after_names, None)
    types = _Types(data, ro, po, co, names)
    done = wrong = 0
    given = skip > 0

    def bad(record: Record, why: str) -> None:
        nonlocal wrong
        wrong += 1
        bad_line(params, task, "read_csv", path, record[0], why, record[2])

    while chunk := list(islice(records, CHUNK)):
        if done + len(chunk) <= skip:
            done += len(chunk)
            continue
        fresh = chunk[max(0, skip - done) :]
        done += len(chunk)
        good = []
        for r in fresh:
            if r[1] == len(names):
                good.append(r)
            elif not _left_out(po, len(names), r):
                bad(r, f"it has {r[1]:,} values, and there are {len(names):,} columns")
        todo = [good]
        while todo:
            some = todo.pop()
            if not some:
                continue
            try:
                out = types.parse(some)
            except pa.ArrowInvalid as why:
                if len(some) == 1:
                    bad(some[0], _why(why, names))
                else:
                    todo += [some[len(some) // 2 :], some[: len(some) // 2]]
                continue
            given = True
            yield from out.to_batches()
    if not done and not wrong:
        raise e
    if not given:
        yield from to_arrow.from_table(
            pa.schema(
                [(n, types.types.get(n, pa.null())) for n in co.include_columns or names]
            ).empty_table()
        )


def _left_out(po: Any, columns: int, r: Record) -> bool:
    """Calls the user's handler of invalid rows for a record with a wrong number of values, and
    returns its answer."""
    if po.invalid_row_handler is None:
        return False
    row = pacsv.InvalidRow(columns, r[1], r[0], r[2].decode("utf-8", "replace"))
    return po.invalid_row_handler(row) == "skip"


def _why(e: Exception, names: list[str]) -> str:
    """The text of Arrow's error about a record, with the column's name and advice about its
    type."""
    said = str(e).splitlines()[0]
    at = re.match(r"In CSV column #(\d+): (?:Row #\d+: )?", said)
    if at is None or int(at[1]) >= len(names):
        return said
    way = (
        " (column_types of convert_options says its type, for all rows)"
        if "conversion error" in said
        else ""
    )
    return f"column {names[int(at[1])]!r}: {said[at.end() :]}{way}"


def _text(data: bytes) -> io.TextIOWrapper:
    return io.TextIOWrapper(
        io.BytesIO(data.removeprefix(b"\xef\xbb\xbf")), "utf-8", "replace", newline=""
    )


def _dialect(po: Any) -> dict[str, Any]:
    return {
        "delimiter": po.delimiter,
        "quotechar": po.quote_char or None,
        "quoting": csv.QUOTE_MINIMAL if po.quote_char else csv.QUOTE_NONE,
        "escapechar": po.escape_char or None,
        "doublequote": bool(po.double_quote),
    }


def _records(data: bytes, po: Any, skip: int) -> Iterator[Record]:
    """The records after the first `skip` lines. Empty lines are no records, unless
    ignore_empty_lines is False."""
    lines = io.TextIOWrapper(io.BytesIO(data.removeprefix(b"\xef\xbb\xbf")), "latin-1", newline="")
    for _ in range(skip):
        next(lines, None)
    held: list[str] = []

    def taken() -> Iterator[str]:
        for text in lines:
            held.append(text)
            yield text

    line = skip + 1
    before = csv.field_size_limit(sys.maxsize)
    try:
        for row in csv.reader(taken(), **_dialect(po)):
            n = len(held)
            if row or not po.ignore_empty_lines:
                yield line, max(1, len(row)), "".join(held).rstrip("\r\n").encode("latin-1")
            held.clear()
            line += n
    finally:
        csv.field_size_limit(before)


def _parse_options(po: Any, **other: Any) -> Any:
    """A copy of parse options with some replaced, without the handler of invalid rows."""
    names = (
        "delimiter",
        "quote_char",
        "double_quote",
        "escape_char",
        "newlines_in_values",
        "ignore_empty_lines",
    )
    return pacsv.ParseOptions(**({n: getattr(po, n) for n in names} | other))


class _Types:
    """The types of the columns, as far as they are known, and Arrow's parser with these types."""

    def __init__(self, data: bytes, ro: Any, po: Any, co: Any, names: list[str]):
        self.names, self.co = names, co
        self.po = _parse_options(po, newlines_in_values=True)
        loose = _parse_options(po, invalid_row_handler=lambda row: "skip")
        read = pacsv.ReadOptions(
            use_threads=False,
            block_size=ro.block_size,
            skip_rows=ro.skip_rows,
            column_names=ro.column_names or None,
            autogenerate_column_names=ro.autogenerate_column_names,
            skip_rows_after_names=ro.skip_rows_after_names,
        )
        self.asked = dict(co.column_types)
        self.types: dict[str, pa.DataType] = dict(self.asked)
        # These columns are read as binary, which can represent any text, because the first block
        # may not fit the types that the user asked for
        plain = self._options(dict.fromkeys(self.asked, pa.binary()))
        with pacsv.open_csv(
            pa.BufferReader(data), read_options=read, parse_options=loose, convert_options=plain
        ) as r:
            found = dict(zip(co.include_columns or names, r.schema.types, strict=True))
        # Binary columns become strings: Arrow infers binary for a column that is no valid UTF-8
        text = {n: pa.string() for n, t in found.items() if pa.types.is_binary(t)}
        self.types = found | text | self.asked

    def parse(self, records: list[Record]) -> pa.Table:
        """The rows of some records; ArrowInvalid if a record does not fit the types."""
        data = b"\n".join([r[2] for r in records]) + b"\n"
        try:
            table = self._read(data, self.types)
        except pa.ArrowInvalid:
            wider = self._wider(self._read(data, self.asked).schema)
            if wider is None:
                raise
            table = self._read(data, wider)
            self.types = wider
        for f in table.schema:
            self.types.setdefault(f.name, f.type)
        return table

    def _wider(self, schema: pa.Schema) -> dict[str, pa.DataType] | None:
        """Wider types that can represent all earlier records and these; None if no type needs to
        change."""
        is_ = pa.types
        out = dict(self.types)
        for f in schema:
            old = out.get(f.name, f.type)
            if f.name in self.asked or old == f.type or is_.is_null(f.type) or is_.is_string(old):
                continue
            if is_.is_null(old) or is_.is_integer(old) and is_.is_floating(f.type):
                out[f.name] = pa.string() if is_.is_binary(f.type) else f.type
            elif not (is_.is_floating(old) and is_.is_integer(f.type)):
                return None
        return None if out == self.types else out

    def _read(self, data: bytes, types: dict[str, pa.DataType]) -> pa.Table:
        return pacsv.read_csv(
            pa.BufferReader(data),
            read_options=pacsv.ReadOptions(
                use_threads=False, block_size=len(data) + 1, column_names=self.names
            ),
            parse_options=self.po,
            convert_options=self._options(types),
        )

    def _options(self, types: dict[str, pa.DataType]) -> Any:
        co = self.co
        return pacsv.ConvertOptions(
            check_utf8=co.check_utf8,
            column_types=types,
            null_values=co.null_values,
            true_values=co.true_values,
            false_values=co.false_values,
            decimal_point=co.decimal_point,
            strings_can_be_null=co.strings_can_be_null,
            quoted_strings_can_be_null=co.quoted_strings_can_be_null,
            timestamp_parsers=co.timestamp_parsers,
            include_columns=co.include_columns,
            include_missing_columns=co.include_missing_columns,
            auto_dict_encode=co.auto_dict_encode,
            auto_dict_max_cardinality=co.auto_dict_max_cardinality,
        )
