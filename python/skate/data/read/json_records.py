"""Reads JSON that Arrow's parser refuses as a whole: finds the bad records, and reads all others.

A record is the content of a line (an object, or several one after another), or an object that spans
several lines. A record is bad if it is no JSON, contains no object, or has a value of another kind
than most records have at that place (dominant_type.py). Kinds are bool, number, string, list and
object; null agrees with each. Types that Arrow infers within a kind (int or double, timestamp or
string) never make a record bad: the wider type is used.

Arrow's parser reads CHUNK records at a time. Only chunks that it refuses, or whose columns have
another kind, are examined record by record in Python. The good records are then parsed with the
types of all records, so the result depends on the file alone. Cost: two more passes of Arrow's
parser, and about 5 us for each record of a chunk with a bad record.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from skate._deps import np, pa, pajson
from skate.data.dominant_type import SURE, Majority

CHUNK = 4096  # records that are parsed together
BLOCK_BYTES = 64 << 20  # bytes that the last pass parses at once
REST_BYTES = 64 << 10  # the bytes that are saved if the rest of a file is bad

BOOL, NUMBER, STRING, LIST, OBJECT = 1, 2, 4, 8, 16
_NAMES = {
    BOOL: "a bool",
    NUMBER: "a number",
    STRING: "a string",
    LIST: "a list",
    OBJECT: "an object",
}
_KINDS = {bool: BOOL, int: NUMBER, float: NUMBER, str: STRING, list: LIST, dict: OBJECT}

Path = tuple[str, ...]
Record = tuple[int, bytes]  # (number of its first line, from 1; its text)
# a function of (line number, what is wrong, text of the record), which either records the error or
# raises it
Bad = Callable[[int, str, bytes], None]


def tables(data: bytes, lines: bool, args: dict[str, Any], bad: Bad) -> Iterator[pa.Table]:
    """Yields the good records of a file, in one schema. lines: each line is a record, whatever it
    begins with. args: parse_options of pyarrow.json. bad: called for each bad record, in the order
    of the file."""
    options = args.get("parse_options") or pajson.ParseOptions()
    found: list[tuple[int, str, bytes]] = []

    def note(line: int, why: str, text: bytes) -> None:
        found.append((line, why, text.rstrip(b"\r")))

    values = _values if lines and data.lstrip()[:1] == b"[" else _objects
    source: Any = _Lines(data) if lines or _looks_like_lines(data) else _Objects(data, note)
    if values is _objects and any(_holds_text(f.type) for f in options.explicit_schema or ()):
        source = _Texts(source, options)
    seen = _Seen(options)
    wrong: list[set[int]] = []  # indices of bad records, for each chunk
    schemas: list[pa.Schema | None] = []
    for chunk in source.chunks():
        table = _parsed(chunk, options)
        wrong.append(set())
        schemas.append(None if table is None else table.schema)
        if table is not None:
            seen.add_table(table)
            continue
        for i, (line, text) in enumerate(chunk):
            try:
                seen.add(values(text))
            except (ValueError, RecursionError) as e:
                wrong[-1].add(i)
                note(line, _why(e), text)
    most = seen.most()
    # chunks that Python has rewritten, because Arrow refuses their text
    changed: dict[int, list[bytes]] = {}
    for k, chunk in enumerate(source.chunks()):
        schema = schemas[k]
        if schema is not None and _fits(schema, most):
            continue
        for i, (line, text) in enumerate(chunk):
            if i not in wrong[k] and (why := _misfit(values(text), most)):
                wrong[k].add(i)
                note(line, why, text)
        good = [(i, r) for i, r in enumerate(chunk) if i not in wrong[k]]
        table = _parsed([r for _, r in good], options)
        # Python's parser accepts some records that Arrow's parser refuses, such as one with a key
        # that occurs twice
        if table is None:
            table = _one_by_one(good, options, values, wrong[k], note)
            changed[k] = [_again(r[1], values) for i, r in good if i not in wrong[k]]
        schemas[k] = table.schema
    for line, why, text in sorted(found, key=lambda f: f[0]):
        bad(line, why, text)
    schema = _unified([s for s in schemas if s is not None])
    asked = pajson.ParseOptions(
        explicit_schema=schema, unexpected_field_behavior=options.unexpected_field_behavior
    )
    held: list[bytes] = []
    size = 0
    for k, chunk in enumerate(source.chunks()):
        texts = changed.get(k) or [t for i, (_, t) in enumerate(chunk) if i not in wrong[k]]
        held += texts
        size += sum(map(len, texts))
        if size >= BLOCK_BYTES:
            yield _table(held, asked)
            held, size = [], 0
    if held:
        yield _table(held, asked)


# ---- Finding the records of a file.


def _looks_like_lines(data: bytes) -> bool:
    """Whether most lines begin like objects; they do not if objects span several lines."""
    starts = data.count(b"\n{") + data.startswith((b"{", b"\xef\xbb\xbf{"))
    return 2 * starts >= len(_Lines(data).ends)


class _Lines:
    """Records of a file in which each line is a record; blank lines are skipped."""

    def __init__(self, data: bytes):
        self.data = data
        self.ends = np.flatnonzero(np.frombuffer(data, np.uint8) == 10)
        if not data.endswith(b"\n"):
            self.ends = np.append(self.ends, len(data))

    def chunks(self) -> Iterator[list[Record]]:
        start = 0
        for k in range(0, len(self.ends), CHUNK):
            end = int(self.ends[min(k + CHUNK, len(self.ends)) - 1])
            rows = self.data[start:end].split(b"\n")
            yield [(k + i + 1, t) for i, t in enumerate(rows) if t.strip(b" \t\r")]
            start = end + 1


class _Objects:
    """Records of a file of objects that span several lines. After a damaged object the start of the
    next one cannot be found, so the rest of the file is one bad record."""

    def __init__(self, data: bytes, bad: Bad):
        self.records: list[Record] = []
        try:
            text, rest = data.decode("utf-8-sig"), b""
        except UnicodeDecodeError as e:
            text, rest = data[: e.start].decode("utf-8-sig"), data[e.start : e.start + REST_BYTES]
        decode = json.JSONDecoder().raw_decode
        at, line, end = 0, 1, len(text)
        while True:
            from_ = at
            while at < end and text[at] in " \t\r\n":
                at += 1
            line += text.count("\n", from_, at)
            if at == end:
                break
            try:
                v, to = decode(text, at)
                if not isinstance(v, dict):
                    raise ValueError("it holds no object")
            except (ValueError, RecursionError) as e:
                bad(
                    line + text.count("\n", at, getattr(e, "pos", at)),
                    _why(e),
                    text[at : at + REST_BYTES].encode(),
                )
                return
            self.records.append((line, text[at:to].encode()))
            line += text.count("\n", at, to)
            at = to
        if rest:
            bad(line, "it is not UTF-8", rest)

    def chunks(self) -> Iterator[list[Record]]:
        for k in range(0, len(self.records), CHUNK):
            yield self.records[k : k + CHUNK]


def _objects(text: bytes) -> list[dict[str, Any]]:
    """The objects of a record; ValueError if the record contains anything else."""
    try:
        found = [json.loads(text)]
    except json.JSONDecodeError as e:
        if not e.msg.startswith("Extra data"):
            raise
        line, at, found = text.decode("utf-8-sig").strip(), 0, []
        while at < len(line):
            v, at = json.JSONDecoder().raw_decode(line, at)
            found.append(v)
            while at < len(line) and line[at] in " \t\r\n":
                at += 1
    if any(type(v) is not dict for v in found):
        raise ValueError("it holds no object")
    return found


def elements(data: bytes) -> tuple[list[Any], tuple[int, str, bytes] | None]:
    """The values of an array and, if the array is damaged from some place on, (line, what is wrong,
    bytes of the rest)."""
    try:
        return json.loads(data), None
    except UnicodeDecodeError as e:
        return [], (
            1 + data.count(b"\n", 0, e.start),
            _why(e),
            data[e.start : e.start + REST_BYTES],
        )
    except (ValueError, RecursionError):
        pass
    text = data.decode("utf-8-sig")
    at, out = text.index("[") + 1, []
    decode = json.JSONDecoder().raw_decode
    try:
        while True:
            while at < len(text) and text[at] in " \t\r\n":
                at += 1
            v, to = decode(text, at)
            end = to
            while end < len(text) and text[end] in " \t\r\n":
                end += 1
            if text[end : end + 1] not in (",", "]"):
                raise json.JSONDecodeError("Expecting ',' delimiter", text, end)
            out.append(v)
            at = end + 1
            if text[end] == "]":
                raise json.JSONDecodeError("Extra data", text, at)
    except (ValueError, RecursionError) as e:
        return out, (
            1 + text.count("\n", 0, getattr(e, "pos", at)),
            _why(e),
            text[at : at + REST_BYTES].encode("utf-8", "backslashreplace"),
        )


def _values(text: bytes) -> list[dict[str, Any]]:
    """The objects of a record in a file whose lines are arrays: columns are named by position, as
    in pandas."""
    v = json.loads(text)
    return [{str(i): x for i, x in enumerate(v)}] if type(v) is list else _objects(text)


def _why(e: BaseException) -> str:
    if isinstance(e, json.JSONDecodeError):
        return f"{e.msg} (character {e.colno})"
    if isinstance(e, UnicodeDecodeError):
        return f"it is not UTF-8 at byte {e.start}"
    if isinstance(e, UnicodeEncodeError):
        return "it holds half of a surrogate pair, which is no text"
    return "it is nested too deeply" if isinstance(e, RecursionError) else str(e)


# ---- Kinds of values, and the kind of most records.


def kinds(v: Any, path: Path, out: dict[Path, int]) -> None:
    """Counts in `out` the kinds of the values within v, by their place."""
    kind = _KINDS[type(v)]
    out[path] = out.get(path, 0) | kind
    if kind == OBJECT:
        for k, x in v.items():
            if x is not None:
                kinds(x, (*path, k), out)
    elif kind == LIST:
        for x in v:
            if x is not None:
                kinds(x, (*path, "[]"), out)


def _of_rows(rows: list[dict[str, Any]]) -> dict[Path, int]:
    out: dict[Path, int] = {}
    for r in rows:
        for k, v in r.items():
            if v is not None:
                kinds(v, (k,), out)
    return out


class _Seen:
    """Counts for each place in a record how many records have which kind there."""

    def __init__(self, options: Any = None):
        self.majority = Majority(lambda a, b: a if a == b or not a else None)  # 0 is any kind
        self.rest = True
        if options is not None and options.explicit_schema is not None:
            for f in options.explicit_schema:
                for path, kind in _of_type(f.type, (f.name,)).items():
                    self.majority.add(path, kind, SURE)
        if options is not None and options.unexpected_field_behavior == "ignore":
            self.rest = False

    def add(self, rows: list[dict[str, Any]]) -> None:
        for path, bits in _of_rows(rows).items():
            for kind in _NAMES:
                if bits & kind:
                    self._count(path, kind, 1)

    def add_table(self, table: pa.Table) -> None:
        for name, col in zip(table.column_names, table.columns, strict=True):
            self._column((name,), col.combine_chunks())

    def _column(self, path: Path, col: Any) -> None:
        n, t = len(col) - col.null_count, col.type
        kind = _kind(t)
        if not n or not kind:
            return
        self._count(path, kind, n)
        if kind == OBJECT:
            for i, child in enumerate(col.flatten()):
                self._column((*path, t.field(i).name), child)
        elif kind == LIST:
            self._column((*path, "[]"), col.flatten())

    def _count(self, path: Path, kind: int, n: int) -> None:
        if self.rest or path in self.majority.counts:
            self.majority.add(path, kind, n)

    def most(self) -> dict[Path, int]:
        """The kind that most records have at each place."""
        return {p: k for p, k in self.majority.most().items() if k}


def _kind(t: pa.DataType) -> int:
    """The kind of JSON from which Arrow's parser makes this type; 0: any kind, or unknown."""
    is_ = pa.types
    if is_.is_boolean(t):
        return BOOL
    if is_.is_integer(t) or is_.is_floating(t):
        return NUMBER
    if is_.is_string(t) or is_.is_large_string(t) or is_.is_binary(t) or is_.is_timestamp(t):
        return STRING
    return LIST if is_.is_list(t) else OBJECT if is_.is_struct(t) else 0


def _of_type(t: pa.DataType, path: Path) -> dict[Path, int]:
    out = {path: _kind(t)}
    if out[path] == OBJECT:
        for f in t:
            out |= _of_type(f.type, (*path, f.name))
    elif out[path] == LIST:
        out |= _of_type(t.value_type, (*path, "[]"))
    return out


def _fits(schema: pa.Schema, most: dict[Path, int]) -> bool:
    said: dict[Path, int] = {}
    for f in schema:
        said |= _of_type(f.type, (f.name,))
    return all(not k or most.get(p, k) == k for p, k in said.items())


def _misfit(rows: list[dict[str, Any]], most: dict[Path, int]) -> str | None:
    """A text that says how a record differs from most others; None: it does not differ."""
    for path, bits in _of_rows(rows).items():
        stays = most.get(path, bits)
        if bits != stays:
            odd = " and ".join(name for kind, name in _NAMES.items() if bits & kind & ~stays)
            return f"column {'.'.join(path).replace('.[]', '[]')!r} is {odd} here, and {_NAMES[stays]} elsewhere (a string in explicit_schema of parse_options reads both as text)"
    return None


def majority(rows: list[Any]) -> Iterator[tuple[int, str]]:
    """Yields (index, what is wrong) of the rows that are no dict, or have a value of another kind
    than most rows."""
    seen = _Seen()
    for r in rows:
        if type(r) is dict:
            seen.add([r])
    most = seen.most()
    for i, r in enumerate(rows):
        why = "it is no object" if type(r) is not dict else _misfit([r], most)
        if why:
            yield i, why


# ---- Columns that explicit_schema declares as text.


def _holds_text(t: pa.DataType) -> bool:
    is_ = pa.types
    if is_.is_struct(t):
        return any(_holds_text(f.type) for f in t)
    return (
        _holds_text(t.value_type) if is_.is_list(t) else is_.is_string(t) or is_.is_large_string(t)
    )


class _Texts:
    """Records made from those of another source, for columns that explicit_schema declares as text.
    In chunks that Arrow refuses, a value of another kind in such a column (a number, a bool, an
    object, a list) is replaced by a string: its JSON as written in the file."""

    def __init__(self, source: Any, options: Any):
        self.source, self.options = source, options
        self.type = pa.struct(list(options.explicit_schema))
        self.odd: set[int] | None = None  # chunks that Arrow refuses; None: not yet examined

    def chunks(self) -> Iterator[list[Record]]:
        odd = (
            {
                k
                for k, chunk in enumerate(self.source.chunks())
                if _parsed(chunk, self.options) is None
            }
            if self.odd is None
            else self.odd
        )
        self.odd = odd
        for k, chunk in enumerate(self.source.chunks()):
            yield [(line, self._texts(text)) for line, text in chunk] if k in odd else chunk

    def _texts(self, record: bytes) -> bytes:
        try:
            text, out, at = record.decode(), [], 0
            while (at := _SPACE.match(text, at).end()) < len(text):  # type: ignore[union-attr]
                at = _as_text(text, at, self.type, out)
                out.append(" ")
        except (ValueError, IndexError, RecursionError):
            return record  # the record is no JSON: the parser will raise the error
        return "".join(out).encode()


_SPACE = re.compile(r"[ \t\r\n]*")
_value = json.JSONDecoder().raw_decode
_END = {"{": "}", "[": "]"}


def _as_text(text: str, at: int, t: pa.DataType | None, out: list[str]) -> int:
    """Appends the value that begins at text[at] to `out`, in the form that type t needs, and
    returns the place where the value ends. ValueError, IndexError: the text is no JSON."""
    begins = text[at]
    if (
        t is not None
        and _END.get(begins)
        and (pa.types.is_struct(t) if begins == "{" else pa.types.is_list(t))
        and _holds_text(t)
    ):
        out.append(begins)
        at = _SPACE.match(text, at + 1).end()  # type: ignore[union-attr]
        while text[at] != _END[begins]:
            inner = t.value_type if begins == "[" else None
            if begins == "{":
                name, after = _value(text, at)
                colon = _SPACE.match(text, after).end()  # type: ignore[union-attr]
                if type(name) is not str or text[colon] != ":":
                    raise ValueError("no name of a field")
                i = t.get_field_index(name)
                inner = t.field(i).type if i >= 0 else None
                out.append(text[at:after] + ":")
                at = _SPACE.match(text, colon + 1).end()  # type: ignore[union-attr]
            at = _SPACE.match(text, _as_text(text, at, inner, out)).end()  # type: ignore[union-attr]
            if text[at] == ",":
                out.append(",")
                at = _SPACE.match(text, at + 1).end()  # type: ignore[union-attr]
            elif text[at] != _END[begins]:
                raise ValueError("no comma")
        out.append(text[at])
        return at + 1
    value, end = _value(text, at)
    as_it_is = (
        value is None
        or type(value) is str
        or t is None
        or not (pa.types.is_string(t) or pa.types.is_large_string(t))
    )
    out.append(text[at:end] if as_it_is else json.dumps(text[at:end], ensure_ascii=False))
    return end


# ---- Calls of Arrow's parser.


def parse(data: Any, size: int, options: Any) -> pa.Table:
    """Parses one block of objects with Arrow's parser; ArrowInvalid for what it refuses, including
    bytes that are no UTF-8."""
    read = pajson.ReadOptions(use_threads=False, block_size=size + 1)
    table = pajson.read_json(pa.BufferReader(data), read_options=read, parse_options=options)
    table.validate(full=True)
    return table


def _table(texts: list[bytes], options: Any) -> pa.Table:
    data = b"\n".join(texts)
    return parse(data, len(data), options)


def _parsed(records: list[Record], options: Any) -> pa.Table | None:
    # pyarrow 26 crashes if a null comes first; a null is no object anyway
    if not records or any(t.lstrip()[:4] == b"null" for _, t in records):
        return None if records else pa.table({})
    try:
        return _table([t for _, t in records], options)
    except pa.ArrowInvalid:
        return None


def _again(text: bytes, values: Any) -> bytes:
    """A record that is rewritten from Python's parse of it; ValueError for text that is not
    Unicode."""
    return b" ".join(json.dumps(v, ensure_ascii=False).encode() for v in values(text))


def _one_by_one(
    good: list[tuple[int, Record]], options: Any, values: Any, wrong: set[int], bad: Bad
) -> pa.Table:
    """The table of the records that Arrow accepts after Python has rewritten them; a list of
    records that Arrow refuses is halved. Records that are refused alone go to bad()."""
    todo, out = [good], []
    while todo:
        some = todo.pop()
        try:
            if some:
                out.append(_table([_again(t, values) for _, (_, t) in some], options))
        except ValueError as e:
            if len(some) == 1:
                i, (line, text) = some[0]
                wrong.add(i)
                bad(line, _why(e), text)
            else:
                todo += [some[len(some) // 2 :], some[: len(some) // 2]]
    return _unified([t.schema for t in out]).empty_table()


def _unified(schemas: list[pa.Schema]) -> pa.Schema:
    """A schema that can represent all of these schemas, whose kinds agree; columns are in the order
    of their first appearance."""
    types: dict[str, pa.DataType] = {}
    for s in schemas:
        for f in s:
            types[f.name] = _wider(types[f.name], f.type) if f.name in types else f.type
    return pa.schema(list(types.items()))


def _wider(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    is_ = pa.types
    if a == b or is_.is_null(b):
        return a
    if is_.is_null(a):
        return b
    if is_.is_list(a):
        return pa.list_(_wider(a.value_type, b.value_type))
    if is_.is_struct(a):
        return pa.struct(list(_unified([pa.schema(list(a)), pa.schema(list(b))])))
    return pa.float64() if is_.is_integer(a) or is_.is_floating(a) else pa.string()
