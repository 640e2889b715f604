"""Every Arrow type that a column may have, each with a few values, for tests of operators, readers,
writers and batch formats.

A case has a name, a column of ROWS rows (some of them null, if the type has nulls), and facts about
the type. Values repeat (rows i and i + PERIOD are equal), so that keys have groups.
"""

from __future__ import annotations

import datetime
import decimal
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

PERIOD = 5  # number of values of a type, one of them null; the others are in ascending order
ROWS = 3 * PERIOD


@dataclass(frozen=True)
class Case:
    """A type, with a column of it.

    Args:
        name: The name of the column.
        column: Its values.
        key: Whether the values have an order, so that the column may be a key.
        lists: Whether the values are lists, so that the column may be exploded.
    """

    name: str
    column: Any
    key: bool = False
    lists: bool = False

    @property
    def type(self) -> Any:
        return self.column.type


def _of(values: list[Any], t: Any) -> Any:
    """ROWS rows: the values and then a null, again and again."""
    return pa.array((values + [None]) * (ROWS // PERIOD), t)


D = decimal.Decimal
UTC = datetime.UTC
DAYS = [
    datetime.date(1960, 2, 29),
    datetime.date(1970, 1, 1),
    datetime.date(2001, 2, 3),
    datetime.date(2026, 11, 24),
]
TIMES = [datetime.datetime(d.year, d.month, d.day, 1, 2, 3) for d in DAYS]
ZONED = [t.replace(tzinfo=UTC) for t in TIMES]
CLOCK = [datetime.time(0), datetime.time(0, 0, 1), datetime.time(12, 30), datetime.time(23, 59, 59)]
SPANS = [datetime.timedelta(seconds=s) for s in (-5, 0, 1, 86400)]
TEXT = ["", "a", "a rather long text, which no view holds inline", "ü"]
BYTES = [b"", b"\0", b"\0a rather long text, which no view holds inline", b"\xff"]
NUMBERS = [[], [1], [1, None, 3], [4, 5]]
TEXTS = [[], ["a"], ["a", None, "a rather long text, which no view holds inline"], ["b", ""]]
STRUCTS = [{"a": 1, "b": "x"}, {"a": None, "b": "y"}, {"a": 3, "b": None}, {"a": 4, "b": ""}]
MAPS = [[], [("a", 1)], [("b", None), ("c", 3)], [("d", 4)]]


def _ints() -> list[Case]:
    out = []
    for bits in (8, 16, 32, 64):
        low = -(2 ** (bits - 1))
        out.append(
            Case(f"int{bits}", _of([low, -1, 0, -low - 1], getattr(pa, f"int{bits}")()), key=True)
        )
        out.append(
            Case(f"uint{bits}", _of([0, 1, 2, 2**bits - 1], getattr(pa, f"uint{bits}")()), key=True)
        )
    return out


def _floats() -> list[Case]:
    values = [-np.inf, -1.5, 0.0, 2.0]
    return [
        Case(
            f"float{bits}",
            _of([np.dtype(f"float{bits}").type(v) for v in values], getattr(pa, f"float{bits}")()),
            key=True,
        )
        for bits in (16, 32, 64)
    ]


def _decimals() -> list[Case]:
    kinds = [(bits, getattr(pa, f"decimal{bits}", None)) for bits in (32, 64, 128, 256)]
    return [
        Case(
            f"decimal{bits}",
            _of([D("-12.50"), D("-0.01"), D("0.00"), D("99.99")], make(6, 2)),
            key=True,
        )
        for bits, make in kinds
        if make
    ]


def _times() -> list[Case]:
    out = [
        Case("date32", _of(DAYS, pa.date32()), key=True),
        Case("date64", _of(DAYS, pa.date64()), key=True),
    ]
    for unit in ("s", "ms", "us", "ns"):
        out += [
            Case(f"timestamp_{unit}", _of(TIMES, pa.timestamp(unit)), key=True),
            Case(f"duration_{unit}", _of(SPANS, pa.duration(unit)), key=True),
            Case(
                f"time_{unit}",
                _of(CLOCK, pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit)),
                key=True,
            ),
        ]
    return [
        *out,
        Case("timestamp_utc", _of(ZONED, pa.timestamp("us", "UTC")), key=True),
        Case("timestamp_zone", _of(ZONED, pa.timestamp("ns", "Europe/Berlin")), key=True),
        Case("timestamp_offset", _of(ZONED, pa.timestamp("ms", "+02:00")), key=True),
        Case(
            "interval",
            _of([pa.MonthDayNano([k, -k, 10**k]) for k in range(4)], pa.month_day_nano_interval()),
        ),
    ]


def _texts() -> list[Case]:
    out = [
        Case(t.__name__, _of(TEXT, t()), key=True)
        for t in (pa.string, pa.large_string, pa.string_view)
    ]
    out += [
        Case(t.__name__, _of(BYTES, t()), key=True)
        for t in (pa.binary, pa.large_binary, pa.binary_view)
    ]
    return [
        *out,
        Case(
            "fixed_binary",
            _of([b"\0\0\0", b"abc", b"abd", b"\xff\xff\xff"], pa.binary(3)),
            key=True,
        ),
    ]


def _lists() -> list[Case]:
    out = []
    for make in (pa.list_, pa.large_list, pa.list_view, pa.large_list_view):
        name = make.__name__.rstrip("_")
        out += [
            Case(f"{name}_int", _of(NUMBERS, make(pa.int32())), lists=True),
            Case(f"{name}_text", _of(TEXTS, make(pa.string())), lists=True),
            Case(f"{name}_of_views", _of(TEXTS, make(pa.string_view())), lists=True),
            Case(
                f"{name}_struct",
                _of(
                    [STRUCTS[:k] for k in range(4)],
                    make(pa.struct([("a", pa.int8()), ("b", pa.string())])),
                ),
                lists=True,
            ),
        ]
    three = [[1, 2, 3], [4, None, 6], [7, 8, 9], [10, 11, 12]]
    return [
        *out,
        Case(
            "list_list",
            _of([NUMBERS[:k] for k in range(4)], pa.list_(pa.list_(pa.int16()))),
            lists=True,
        ),
        Case("fixed_list", _of(three, pa.list_(pa.int16(), 3)), lists=True),
        Case(
            "fixed_list_of_views",
            _of(
                [["a", "b"], ["c", None], ["d", "e"], ["f", TEXT[2]]], pa.list_(pa.string_view(), 2)
            ),
            lists=True,
        ),
        Case("list_null", _of([[], [None], [None, None], []], pa.list_(pa.null())), lists=True),
    ]


def _nested() -> list[Case]:
    ab = [("a", pa.int8()), ("b", pa.string())]
    views = [("a", pa.int8()), ("b", pa.string_view())]
    deep = pa.struct(
        [
            ("v", pa.binary_view()),
            ("l", pa.list_(pa.string_view())),
            ("s", pa.struct([("f", pa.float16())])),
        ]
    )
    half = np.float16(0.5)
    return [
        Case("struct", _of(STRUCTS, pa.struct(ab))),
        Case("struct_of_views", _of(STRUCTS, pa.struct(views))),
        Case(
            "struct_deep",
            _of([{"v": b"x", "l": TEXTS[k], "s": {"f": half}} for k in range(4)], deep),
        ),
        Case("map", _of(MAPS, pa.map_(pa.string(), pa.int32()))),
        Case(
            "map_of_views",
            _of(
                [[(k, [k])] for k in "abcd"], pa.map_(pa.string_view(), pa.list_(pa.string_view()))
            ),
        ),
        _union("union_dense"),
        _union("union_sparse"),
        Case(
            "struct_union", pa.StructArray.from_arrays([_union("union_dense").column], names=["u"])
        ),
    ]


def _union(name: str) -> Case:
    ids = pa.array([0, 1, 0, 1, 0] * (ROWS // PERIOD), pa.int8())
    if name == "union_dense":
        parts = [
            pa.array([7, None, 9] * (ROWS // PERIOD), pa.int32()),
            pa.array(["x", None] * (ROWS // PERIOD), pa.string()),
        ]
        offsets = [sum(ids[j] == ids[k] for j in range(k)) for k in range(ROWS)]
        return Case(
            name, pa.UnionArray.from_dense(ids, pa.array(offsets, pa.int32()), parts, ["i", "t"])
        )
    wide = [
        pa.array([7, 0, None, 0, 9] * (ROWS // PERIOD), pa.int32()),
        pa.array(["", "x", "", None, ""] * (ROWS // PERIOD), pa.string()),
    ]
    return Case(name, pa.UnionArray.from_sparse(ids, wide, ["i", "t"]))


def _coded() -> list[Case]:
    """Dictionaries with each type of index, over several types of values; run ends."""
    out = []
    at = [0, 1, 2, 3, None] * (ROWS // PERIOD)
    for t in (pa.int8, pa.int16, pa.int32, pa.int64, pa.uint8, pa.uint16, pa.uint32, pa.uint64):
        out.append(
            Case(
                f"dictionary_{t.__name__}",
                pa.DictionaryArray.from_arrays(pa.array(at, t()), pa.array(sorted(TEXT))),
                key=True,
            )
        )
    values = {
        "ints": pa.array([-3, 0, 4, 9]),
        "views": pa.array(sorted(TEXT), pa.string_view()),
        "times": pa.array(TIMES, pa.timestamp("us")),
    }
    for name, v in values.items():
        out.append(
            Case(
                f"dictionary_of_{name}",
                pa.DictionaryArray.from_arrays(pa.array(at, pa.int32()), v),
                key=True,
            )
        )
    out.append(
        Case(
            "dictionary_ordered",
            pa.DictionaryArray.from_arrays(
                pa.array(at, pa.int8()), pa.array(["w", "x", "y", "z"]), ordered=True
            ),
            key=True,
        )
    )
    ends = {"int16": pa.int16(), "int32": pa.int32(), "int64": pa.int64()}
    for name, t in ends.items():
        out.append(
            Case(
                f"run_end_{name}",
                pa.RunEndEncodedArray.from_arrays(
                    pa.array([2, 5, 9, ROWS], t), pa.array([1.5, None, 2.5, 1.5])
                ),
            )
        )
    out.append(
        Case(
            "run_end_text",
            pa.RunEndEncodedArray.from_arrays(
                pa.array([2, 5, 9, ROWS], pa.int32()), pa.array(["a", None, "b", "a"])
            ),
        )
    )
    return out


def _extensions() -> list[Case]:
    fixed = pa.fixed_shape_tensor(pa.float32(), [2, 2])
    cells = _of([[float(k + j) for j in range(4)] for k in range(4)], fixed.storage_type)
    out = [Case("tensor", pa.ExtensionArray.from_storage(fixed, cells))]
    if hasattr(pa, "uuid"):
        out.append(
            Case(
                "uuid",
                pa.ExtensionArray.from_storage(
                    pa.uuid(), _of([bytes([k] * 16) for k in range(4)], pa.binary(16))
                ),
                key=True,
            )
        )
    if hasattr(pa, "json_"):
        out.append(
            Case(
                "json",
                pa.ExtensionArray.from_storage(
                    pa.json_(), _of(["1", "[2]", "null", '{"a": 3}'], pa.string())
                ),
                key=True,
            )
        )
    if hasattr(pa, "bool8"):
        out.append(
            Case(
                "bool8",
                pa.ExtensionArray.from_storage(pa.bool8(), _of([0, 0, 1, 1], pa.int8())),
                key=True,
            )
        )
    if hasattr(pa, "opaque"):
        out.append(
            Case(
                "opaque",
                pa.ExtensionArray.from_storage(
                    pa.opaque(pa.binary(), "kind", "vendor"), _of(BYTES, pa.binary())
                ),
                key=True,
            )
        )
    return [*out, *_of_skate()]


def _of_skate() -> list[Case]:
    from skate.data.extensions import ArrowTensorArray, ArrowVariableShapedTensorArray
    from skate.data.values.types import python_objects

    same = [np.full((2, 3), k, np.int16) for k in range(PERIOD)] * (ROWS // PERIOD)
    other = np.empty(ROWS, object)
    other[:] = [np.full((1 + k % PERIOD, 2), k % PERIOD, np.int32) for k in range(ROWS)]
    things = [1, "a", (2, 3), {"k": {4}}, None] * (ROWS // PERIOD)
    return [
        Case("ray_tensor", ArrowTensorArray.from_numpy(np.stack(same))),
        Case("ragged_tensor", ArrowVariableShapedTensorArray.from_numpy(other)),
        Case("python_object", python_objects(things)),
    ]


def cases() -> list[Case]:
    """All cases."""
    return [
        Case("null", pa.nulls(ROWS), key=True),
        Case("bool", _of([False, False, True, True], pa.bool_()), key=True),
        *_ints(),
        *_floats(),
        *_decimals(),
        *_times(),
        *_texts(),
        *_lists(),
        *_nested(),
        *_coded(),
        *_extensions(),
    ]


def table(some: list[Case] | None = None) -> Any:
    """A Table with a column for each case, after a column with the numbers of the rows."""
    some = cases() if some is None else some
    return pa.table(
        [pa.array(range(ROWS)), *[c.column for c in some]], names=["row", *[c.name for c in some]]
    )
