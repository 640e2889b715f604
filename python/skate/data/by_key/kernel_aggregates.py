"""Built-in aggregates, which the kernel computes (src/kernel/aggregates.h has their table): makes
the batches that the kernel reads, and handles the states that it returns. Aggregates are by group
or over all rows; all rows are one group without a key.

Tasks exchange batches of rows (the columns of the key, then v0, v1, ...: the inputs of aggregates)
and batches of states (the columns of the key, then one column for each aggregate. Its name is
"state:" and the Arrow format of the values; the state of an aggregate that collects values is a
list of values). values/unify.py finds types that can represent all blocks; this module casts, and
the kernel widens states that were made from narrower values.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from skate import _skate
from skate._deps import hashlib, pa, pc
from skate._deps import pa_types as _T
from skate.data.by_key.group_keys import key_columns, plain
from skate.data.datatype import is_list
from skate.data.values import encoded_text, from_arrow, unify
from skate.data.values import types as value_types

STATE = "state:"
_TABLE: dict[str, tuple[str, int]] = _skate.aggregates()
_WHOLE = frozenset("bcCsSiIlL")  # Arrow formats of integers
LONGEST = 255  # maximum bytes of a name


class _Column(NamedTuple):
    """An input column of a batch of rows, after the key, and how it is converted for the kernel.

    Args:
        name: Name of the column.
        numbers: Whether booleans become numbers.
        floats: Whether decimals become float64.
        narrow: Whether decimals of 256 bits become decimals of 128 bits.
        ordered: Whether extension types are refused, because they have their own order.
        hashable: Whether Python objects are distinguished by ==.
        lists: "FLATTEN": the elements of lists are the values; "HASH": each list becomes a number.
    """

    name: str
    numbers: bool
    floats: bool
    narrow: bool
    ordered: bool
    hashable: bool
    lists: str

    @classmethod
    def of(cls, f: Any) -> _Column | None:
        name = f.get_target_column()
        state, takes = _TABLE[f.kind]
        numbers = takes & _skate.TAKES_ORDERED != _skate.TAKES_ORDERED
        floats = numbers and not takes & _skate.TAKES_DECIMALS
        narrow = numbers and not takes & _skate.TAKES_DECIMALS_256
        lists = f.options().get("lists") or ""
        ordered = state == "typed" and not numbers
        return name and cls(name, numbers, floats, narrow, ordered, state == "pairs", lists)

    def fitting(self, col: Any) -> Any:
        """The column in a type that the kernel's aggregate accepts, if there is one."""
        if not self.lists and _T.is_primitive(col.type) and not _T.is_boolean(col.type):
            return col
        col = plain(col)
        t = col.type
        if self.ordered and isinstance(t, pa.BaseExtensionType):
            raise TypeError("an extension type has no order of its own")
        if self.hashable and isinstance(t, value_types.PythonObjectType):
            first: dict[Any, int] = {}
            objects = from_arrow.to_objects(self.name, col)
            return col.take(pa.array([first.setdefault(v, i) for i, v in enumerate(objects)]))
        if self.lists == "FLATTEN":
            return _flattened(col, self.name)
        if self.lists == "HASH" and is_list(t):
            values = col.to_pylist()
            return pa.array([None if v is None else number_of(v) for v in values], pa.int64())
        if self.numbers and _T.is_boolean(t):
            return col.cast(pa.uint8())
        if self.floats and _T.is_decimal(t):
            return col.cast(pa.float64())
        return col.cast(pa.decimal128(38, t.scale)) if self.narrow and _T.is_decimal256(t) else col


def number_of(v: Any) -> int:
    """A 64-bit hash of a value, the same in every process."""
    return int.from_bytes(
        hashlib.blake2b(repr(v).encode(), digest_size=8).digest(), "little", signed=True
    )


def _flattened(col: Any, name: str) -> Any:
    """A column of lists with the items to aggregate: a null list becomes a list of one null, and a
    value that is no list becomes a list of that value."""
    t = col.type
    if not is_list(t):
        return pa.ListArray.from_arrays(pa.array(range(len(col) + 1), pa.int32()), col)
    to = pa.list_(t.value_type)
    col = col if t.equals(to) else unify.cast(col, to, name)
    return pc.coalesce(col, pa.scalar([None], to)) if col.null_count else col


def _short(col: Any) -> Any:
    """A key column for look-ups. A short dictionary stays; a long one is decoded, because each
    batch of groups would contain the whole dictionary."""
    col = col.storage if encoded_text.is_encoded(col.type) else col
    return (
        col if _T.is_dictionary(col.type) and 16 * len(col.dictionary) <= len(col) else plain(col)
    )


class Kernel:
    """Built-in aggregates by a key.

    Args:
        keys: The key's columns; empty: all rows are one group.
        fns: The aggregates.
        names: Names of the results, one for each aggregate.
        label: Label of the operator, for errors.
        wide: Whether sums of integers are decimals of 38 digits, which never overflow.
    """

    def __init__(
        self,
        keys: Sequence[str],
        fns: Sequence[Any],
        names: Sequence[str],
        label: str,
        wide: bool = False,
    ):
        self.keys, self.fns, self.names, self.label = list(keys), list(fns), list(names), label
        self.wide = wide
        self.kinds = [f.kind for f in fns]
        self.kept = [_TABLE[k][0] for k in self.kinds]
        self.lists = [f.options().get("lists") == "FLATTEN" for f in fns]
        wanted = [_Column.of(f) for f in fns]
        self.columns = list(dict.fromkeys(c for c in wanted if c is not None))
        # for each column, one of its aggregates, which errors name
        self.users = [fns[wanted.index(c)] for c in self.columns]
        self.at = [
            -1 if c is None else len(self.keys) + self.columns.index(c) for c in wanted
        ]  # the column of each aggregate in a batch of rows

    @functools.cached_property
    def what(self) -> bytes:
        """The description of an exchange of these aggregates, for exec."""
        return _skate.exchange_what(
            "aggregate",
            keys=[(k, False, False) for k in self.keys],
            groups=True,
            partitions=1,
            aggs=[self._agg(i) for i in range(len(self.fns))],
        )

    def _agg(self, i: int) -> tuple[Any, ...]:
        f, o = self.fns[i], self.fns[i].options()
        quantiles = o.get("quantiles", ())
        return (
            self.kinds[i],
            self.at[i],
            f._ignore_nulls,
            self.lists[i],
            self.wide,
            o.get("ddof", 0),
            float(o.get("q", 0.0)),
            o.get("k", len(quantiles)),
            struct.pack(f"{len(quantiles)}d", *quantiles),
            self.names[i],
            f.get_target_column() or "",
        )

    def rows(self, rb: pa.RecordBatch) -> pa.RecordBatch:
        """Converts a block into a batch of rows, whose keys may still be dictionaries.
        MissingColumn, TypeError and ValueError name the column."""
        columns = key_columns(rb, self.keys, self.label, _short)
        for column, fn in zip(self.columns, self.users, strict=True):
            name, names = column.name, rb.schema.names
            if name not in names:
                raise unify.MissingColumn(
                    f"{self.label}: {fn.name}: there is no column {name!r}; {unify.columns_are(name, names)}"
                )
            col = rb.column(names.index(name))
            try:
                columns.append(column.fitting(col))
            except (pa.ArrowInvalid, TypeError) as e:
                raise self._impossible(fn, fn.name, col.type, f": {e}") from None
        names = [*self.keys, *(f"v{i}" for i in range(len(self.columns)))]
        if not columns:
            columns, names = [pa.nulls(rb.num_rows)], ["v0"]
        return pa.RecordBatch.from_arrays(columns, names=names)

    def plain(self, rb: pa.RecordBatch) -> pa.RecordBatch:
        """A batch of rows or states without dictionaries among its keys."""
        if not any(_T.is_dictionary(f.type) for f in rb.schema):
            return rb
        n = len(self.keys)
        return pa.RecordBatch.from_arrays(
            [*map(plain, rb.columns[:n]), *rb.columns[n:]], names=rb.schema.names
        )

    def states(self, what: bytes, rows: pa.RecordBatch) -> Any:
        """An object that makes states of rows in the schema of `rows`. TypeError: an aggregate is
        not possible for its column."""
        try:
            return _skate.group_states(what, rows)
        except ValueError:
            self._explain(rows)
            raise

    def _explain(self, rows: pa.RecordBatch) -> None:
        for f, name, at in zip(self.fns, self.names, self.at, strict=True):
            try:
                _skate.group_states(
                    Kernel(self.keys, [f], [name], self.label).what,
                    rows.select([*range(len(self.keys)), *([at] if at >= 0 else [])]),
                )
            except ValueError:
                raise self._impossible(f, name, rows.schema.field(at).type) from None

    def _impossible(self, f: Any, name: str, t: Any, why: str = "") -> TypeError:
        return TypeError(
            f"{self.label}: {name} over column {f.get_target_column()!r} of type {t} is not possible{why}"
        )

    # ---- Batches of several schemas.

    def unified(
        self, slices: list[list[pa.RecordBatch]], bounds: Any
    ) -> tuple[pa.RecordBatch, list[list[pa.RecordBatch]]]:
        """(an empty batch of rows in types that can represent all batches; the batches cast to
        these types, except states that the kernel widens itself). bounds: a batch of keys, or
        None."""
        batches = [rb for s in slices for rb in s]
        n = len(self.keys)
        keyed = [rb.schema.field(i).type for i in range(n) for rb in batches[:1]]
        for rb in [*batches, *([bounds] if bounds is not None else [])]:
            keyed = [
                unify.promote(k, t, rb.schema.field(i).type)
                for i, (k, t) in enumerate(zip(self.keys, keyed, strict=True))
            ]
        types: list[Any] = [pa.null()] * max(len(self.columns), 1)
        for schema in {id(rb.schema): rb.schema for rb in batches}.values():
            for at, t in self._types(schema):
                types[at] = unify.promote(self.columns[at].name, types[at], t)
        whole = pa.schema(
            [*zip(self.keys, keyed, strict=True), *((f"v{i}", t) for i, t in enumerate(types))]
        )
        whole = whole if self.columns or not self.keys else pa.schema(list(whole)[:n])
        return pa.RecordBatch.from_pylist([], whole), [
            [self.cast(rb, whole) for rb in s] for s in slices
        ]

    def _is_states(self, schema: pa.Schema) -> bool:
        n = len(self.keys)
        return len(schema) == n + len(self.fns) and schema.names[n].startswith(STATE)

    def _types(self, schema: pa.Schema) -> list[tuple[int, Any]]:
        """[(input column, type of its values)] according to the schema of rows or states."""
        n = len(self.keys)
        if not self._is_states(schema):
            return [(i, schema.field(n + i).type) for i in range(len(self.columns))]
        out = []
        for i, (kind, at) in enumerate(zip(self.kinds, self.at, strict=True)):
            f = schema.field(n + i)
            if at < 0 or kind == "approx_quantile":
                continue
            if self.kept[i] not in ("list", "pairs"):
                capsule = _skate.arrow_schema(f.name[len(STATE) :])
                t = pa.DataType._import_from_c_capsule(capsule)
            else:
                t = f.type.value_type if self.kept[i] == "list" else f.type.value_type.field(0).type
                t = pa.list_(t) if self.lists[i] else t
            out.append((at - n, t))
        return out

    def cast(self, rb: pa.RecordBatch, whole: pa.Schema) -> pa.RecordBatch:
        """Casts a batch of rows or states to the types of `whole`, which can represent all batches;
        states that the kernel widens itself are not cast."""
        if not self._is_states(rb.schema):
            return unify.cast_batch(rb, whole)
        n = len(self.keys)
        columns = [
            unify.cast(c, whole.field(i).type, whole.names[i]) for i, c in enumerate(rb.columns[:n])
        ]
        for i, (c, kind, at) in enumerate(zip(rb.columns[n:], self.kinds, self.at, strict=True)):
            if self.kept[i] in ("list", "pairs") and kind != "approx_quantile":
                t = whole.field(at).type.value_type if self.lists[i] else whole.field(at).type
                pair = pa.struct([("value", t), ("count", pa.int64())])
                to = pa.list_(t if self.kept[i] == "list" else pair)
                c = unify.cast(c, to, self.columns[at - n].name)
            columns.append(c)
        return pa.RecordBatch.from_arrays(columns, names=rb.schema.names)


class States:
    """Merges states of built-in aggregates as they arrive.

    Args:
        of: The aggregates.
    """

    def __init__(self, of: Kernel):
        self.of = of
        self.what = of.what
        self.states: Any = None
        self.schemas: list[Any] = []  # schemas of batches that can be added without a cast
        # with several schemas: types that can represent all, to which each batch is cast
        self.whole: Any = None

    def add(self, batch: Any) -> None:
        """Merges a batch of states or of rows into the states held."""
        if self.states is None:
            self.states = self.of.states(self.what, batch)
            self.schemas.append(batch.schema)
        if any(s.equals(batch.schema) for s in self.schemas):
            self.states.add(batch if self.whole is None else self.of.cast(batch, self.whole))
            return
        first, (held,) = self.of.unified([[self.states.batch(), batch]], None)
        self.states, self.whole = self.of.states(self.what, first), first.schema
        for b in held:
            self.states.add(b)
        self.schemas.append(batch.schema)

    def add_rows(self, batches: Iterator[Any]) -> None:
        """Aggregates the rows of blocks. If there is a key but no row, it records the columns."""
        empty = None
        for rb in rows_of(self.of, batches):
            if rb.num_rows:
                self.add(rb)
            else:
                empty = rb
        if self.states is None and empty is not None and self.of.keys:
            self.add(empty)

    def batch(self) -> Any:
        """All states, one row for each group."""
        return self.of.plain(self.states.batch())

    def results(self, as_seen: bool = False) -> Any:
        """The results, one row for each group, in the order of the keys (as_seen: in the order of
        the rows of batch())."""
        try:
            return self.states.results(as_seen)
        except OverflowError as e:
            raise OverflowError(f"{self.of.label}: {e}") from None

    def values(self) -> list[Any] | None:
        """The results over all rows as Python values; None if there was no row."""
        if self.states is None:
            return None
        made = self.results()
        if not made.num_rows:
            return None
        out, names = [], None
        for i, (f, column) in enumerate(zip(self.of.fns, made.columns, strict=True)):
            v = f.value(column)
            if self.of.wide and v is not None and _T.is_decimal(column.type):
                # a sum of integers, or an aggregate of decimals
                names = names or self.states.batch().schema.names
                v = int(v) if names[i][len(STATE) :] in _WHOLE else v
            out.append(v)
        return out


def rows_of(of: Kernel, batches: Iterator[Any]) -> Iterator[Any]:
    """Converts blocks into batches of rows; a block without rows that lacks a column is left
    out."""
    for rb in batches:
        try:
            yield of.rows(rb)
        except unify.MissingColumn:
            if rb.num_rows:  # a block without rows may lack columns
                raise
