"""Aggregates by group that the kernel works out (src/kernel/agg.c, collect.c): which ones they are,
and the batches that it takes.

Between maps and reduces go batches of rows (the columns of the key, then v0, v1, ...: what
aggregates are of) and batches of states (the columns of the key, then one an aggregate that is
named "state:" and the Arrow format of its values; of an aggregate that keeps values, a list of
these). Types that blocks have in common are found by values/unify.py; casts are made here, and what
was counted of narrower values already is made wider in the kernel.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

from skate import _skate
from skate._deps import pa
from skate._deps import pa_types as _T
from skate.data import aggregate as ag
from skate.data.group_keys import key_columns, plain
from skate.data.values import encoded_text, unify

STATE = "state:"
_KINDS: dict[type, str] = {
    ag.Count: "count",
    ag.Sum: "sum",
    ag.Min: "min",
    ag.Max: "max",
    ag.AbsMax: "abs_max",
    ag.Mean: "mean",
    ag.Std: "std",
    ag.MissingValuePercentage: "missing_pct",
    ag.ZeroPercentage: "zero_pct",
    ag.AsList: "list",
    ag.Unique: "unique",
    ag.CountDistinct: "count_distinct",
    ag.ValueCounter: "value_counter",
    ag.Quantile: "quantile",
    ag.ApproximateQuantile: "approx_quantile",
    ag.ApproximateTopK: "approx_topk",
}
_QUANTILES = {"quantile", "approx_quantile"}
_NUMBERS = {"sum", "mean", "std", "zero_pct"}
_KEEP = {"list", "unique", "count_distinct", "value_counter", "approx_topk"}  # values as they are
_LONGEST = 255  # bytes of a name


def takes(fns: Sequence[Any], names: Sequence[str]) -> bool:
    """Whether the kernel has all of these aggregates."""
    return all(
        type(f) in _KINDS
        and not getattr(f, "_encode", None)
        and not getattr(f, "_encode_lists", False)
        for f in fns
    ) and all(
        "\0" not in n and len(n.encode()) <= _LONGEST
        for n in [*names, *(f.get_target_column() or "" for f in fns)]
    )


class _Column(NamedTuple):
    """A column of a batch of rows, behind the key. how: which cast it may need."""

    name: str
    how: str


def _how(kind: str) -> str:
    return "quantile" if kind in _QUANTILES else "number" if kind in _NUMBERS else ""


def _short(col: Any) -> Any:
    """A column of a key as it is looked up: a dictionary stays one that is short, as it goes whole
    with each batch of groups."""
    col = col.storage if encoded_text.is_encoded(col.type) else col
    return (
        col if _T.is_dictionary(col.type) and 16 * len(col.dictionary) <= len(col) else plain(col)
    )


def _fitting(col: Any, how: str) -> Any:
    """A column in a type that the kernel's aggregate takes, if there is one."""
    col = plain(col)
    t = col.type
    if how and _T.is_boolean(t):
        return col.cast(pa.uint8())
    if how == "quantile" and _T.is_decimal(t):
        return col.cast(pa.float64())
    return col.cast(pa.decimal128(38, t.scale)) if how == "number" and _T.is_decimal256(t) else col


class Kernel:
    """Aggregates by a key in the kernel.

    Args:
        keys: The key's columns; none: all rows are one group.
        fns: The aggregates.
        names: Of the results, one each.
        label: Of the operator, for errors.
    """

    def __init__(self, keys: Sequence[str], fns: Sequence[Any], names: Sequence[str], label: str):
        self.keys, self.fns, self.names, self.label = list(keys), list(fns), list(names), label
        self.kinds = [_KINDS[type(f)] for f in fns]
        wanted = [
            None if f.get_target_column() is None else _Column(f.get_target_column(), _how(k))
            for f, k in zip(fns, self.kinds, strict=True)
        ]
        self.columns = list(dict.fromkeys(c for c in wanted if c is not None))
        self.at = [
            -1 if c is None else len(self.keys) + self.columns.index(c) for c in wanted
        ]  # the column of each aggregate in a batch of rows

    def what(self) -> bytes:
        """What an exchange of it does."""
        return _skate.exchange_what(
            "aggregate",
            keys=[(k, False, False) for k in self.keys],
            groups=True,
            partitions=1,
            aggs=[self._agg(i) for i in range(len(self.fns))],
        )

    def _agg(self, i: int) -> tuple[str, int, bool, bool, int, float, int, bytes, str, str]:
        f, kind = self.fns[i], self.kinds[i]
        quantiles = f._quantiles if kind == "approx_quantile" else ()
        return (
            kind,
            self.at[i],
            f._ignore_nulls and kind != "value_counter",
            True,
            getattr(f, "_ddof", 0),
            float(getattr(f, "_q", 0.0)),
            f.k if kind == "approx_topk" else len(quantiles),
            struct.pack(f"{len(quantiles)}d", *quantiles),
            self.names[i],
            f.get_target_column() or "",
        )

    def rows(self, rb: pa.RecordBatch) -> pa.RecordBatch:
        """A batch of rows of a block, whose keys may be dictionaries still. MissingColumn,
        TypeError and ValueError name the column."""
        columns = key_columns(rb, self.keys, self.label, _short)
        for name, how in self.columns:
            if name not in rb.schema.names:
                fn = next(f for f in self.fns if f.get_target_column() == name)
                raise unify.MissingColumn(
                    f"{self.label}: {fn.name}: there is no column {name!r}; {unify.columns_are(name, rb.schema.names)}"
                )
            col = rb.column(rb.schema.names.index(name))
            try:
                columns.append(_fitting(col, how))
            except pa.ArrowInvalid as e:
                raise TypeError(f"{self.label}: column {name!r} of type {col.type}: {e}") from None
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

    def states(self, what: bytes, rows: pa.RecordBatch, everything: bool = False) -> Any:
        """Something that makes states of rows like these (of all, or as long as it pays).
        TypeError: an aggregate is not possible."""
        try:
            return _skate.group_states(what, rows, everything)
        except ValueError:
            self._explain(rows)
            raise

    def _explain(self, rows: pa.RecordBatch) -> None:
        for f, name, at in zip(self.fns, self.names, self.at, strict=True):
            try:
                _skate.group_states(
                    Kernel(self.keys, [f], [name], self.label).what(),
                    rows.select([*range(len(self.keys)), *([at] if at >= 0 else [])]),
                )
            except ValueError:
                t = rows.schema.field(at).type
                raise TypeError(
                    f"{self.label}: {name} over column {f.get_target_column()!r} of type {t} is not possible"
                ) from None

    # ---- batches of several schemas

    def unified(
        self, slices: list[list[pa.RecordBatch]], bounds: Any
    ) -> tuple[pa.RecordBatch, list[list[pa.RecordBatch]]]:
        """(a batch of rows, without any, of the types that hold all; the batches in these types, as
        far as the kernel does not widen states itself). bounds: a batch of keys, or None."""
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
        """(a column of rows, the type of values in it) as a schema says it."""
        n = len(self.keys)
        if not self._is_states(schema):
            return [(i, schema.field(n + i).type) for i in range(len(self.columns))]
        out = []
        for i, (kind, at) in enumerate(zip(self.kinds, self.at, strict=True)):
            f = schema.field(n + i)
            if kind in _KEEP or kind == "quantile":
                out.append(
                    (
                        at - n,
                        f.type.value_type if kind == "list" else f.type.value_type.field(0).type,
                    )
                )
            elif at >= 0 and kind != "approx_quantile":
                out.append(
                    (
                        at - n,
                        pa.DataType._import_from_c_capsule(
                            _skate.arrow_schema(f.name[len(STATE) :])
                        ),
                    )
                )
        return out

    def cast(self, rb: pa.RecordBatch, whole: pa.Schema) -> pa.RecordBatch:
        """A batch of rows or states in the types of a batch of rows that holds all, as far as the
        kernel does not widen states itself."""
        if not self._is_states(rb.schema):
            return unify.cast_batch(rb, whole)
        n = len(self.keys)
        columns = [
            unify.cast(c, whole.field(i).type, whole.names[i]) for i, c in enumerate(rb.columns[:n])
        ]
        for c, kind, at in zip(rb.columns[n:], self.kinds, self.at, strict=True):
            if kind in _KEEP or kind == "quantile":
                t = whole.field(at).type
                to = (
                    pa.list_(t)
                    if kind == "list"
                    else pa.list_(pa.struct([("value", t), ("count", pa.int64())]))
                )
                c = unify.cast(c, to, self.columns[at - n].name)
            columns.append(c)
        return pa.RecordBatch.from_arrays(columns, names=rb.schema.names)
