"""The methods of .str, .list, .struct, .map, .dt and .arr of an expression. Each method makes one
node of the expression; evaluation.py computes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skate._deps import pa
from skate.data.datatype import DataType, is_list

__all__ = [
    "ArrayNamespace",
    "DatetimeNamespace",
    "ListNamespace",
    "MapNamespace",
    "StringNamespace",
    "StructNamespace",
]

if TYPE_CHECKING:
    from skate.data.expressions import Expr, PyArrowComputeUDFExpr

_OBJECT = DataType(object)


class _Namespace:
    def __init__(self, expr: Expr):
        self._expr = expr

    def _arrow(self) -> pa.DataType | None:
        t = self._expr.data_type
        return t.to_arrow_dtype() if t.is_arrow_type() else None

    def _call(self, fn: str, dtype: DataType, *args: Any, **kwargs: Any) -> PyArrowComputeUDFExpr:
        return self._expr._applied(fn, dtype, *args, **kwargs)


class StringNamespace(_Namespace):
    """Functions of text."""

    def split(self, pattern: str, *args: Any, **kwargs: Any) -> Expr:
        """Splits at a separator text; the parts are a list."""
        return self._call("split_pattern", _OBJECT, pattern, *args, **kwargs)

    def split_regex(self, pattern: str, *args: Any, **kwargs: Any) -> Expr:
        """Splits at matches of a regular expression; the parts are a list."""
        return self._call("split_pattern_regex", _OBJECT, pattern, *args, **kwargs)

    def split_whitespace(self, *args: Any, **kwargs: Any) -> Expr:
        """Splits at white space; the parts are a list."""
        return self._call("utf8_split_whitespace", _OBJECT, *args, **kwargs)

    def center(self, width: int, padding: str = " ", *args: Any, **kwargs: Any) -> Expr:
        """Pads on both sides to a width in characters."""
        return self._call("utf8_center", DataType.string(), width, padding, *args, **kwargs)

    def lpad(self, width: int, padding: str = " ", *args: Any, **kwargs: Any) -> Expr:
        """Pads on the left to a width in characters."""
        return self._call("utf8_lpad", DataType.string(), width, padding, *args, **kwargs)

    def rpad(self, width: int, padding: str = " ", *args: Any, **kwargs: Any) -> Expr:
        """Pads on the right to a width in characters."""
        return self._call("utf8_rpad", DataType.string(), width, padding, *args, **kwargs)

    def pad(self, width: int, fillchar: str = " ", side: str = "right") -> Expr:
        """Pads to a width in characters on the side "left", "right" or "both" (ValueError for
        others)."""
        try:
            return {"left": self.lpad, "right": self.rpad, "both": self.center}[side](
                width, fillchar
            )
        except KeyError:
            raise ValueError(f"pad: side={side!r}: 'left', 'right' or 'both'") from None

    def strip(self, characters: str | None = None) -> Expr:
        """Removes white space, or these characters, at both ends."""
        return self._trim("utf8_trim", characters)

    def lstrip(self, characters: str | None = None) -> Expr:
        """Removes white space, or these characters, at the start."""
        return self._trim("utf8_ltrim", characters)

    def rstrip(self, characters: str | None = None) -> Expr:
        """Removes white space, or these characters, at the end."""
        return self._trim("utf8_rtrim", characters)

    def _trim(self, fn: str, characters: str | None) -> Expr:
        if characters is None:
            return self._call(fn + "_whitespace", DataType.string())
        return self._call(fn, DataType.string(), characters=characters)


def _text(name: str, fn: str, what: str, dtype: str, doc: str) -> None:
    """Adds a method to StringNamespace that calls an Arrow function with the same arguments."""
    if what:

        def method(self: StringNamespace, pattern: Any, *args: Any, **kwargs: Any) -> Expr:  # pyright: ignore[reportRedeclaration]
            return self._call(fn, getattr(DataType, dtype)(), pattern, *args, **kwargs)
    else:

        def method(self: StringNamespace, *args: Any, **kwargs: Any) -> Expr:
            return self._call(fn, getattr(DataType, dtype)(), *args, **kwargs)

    method.__name__, method.__qualname__, method.__doc__ = name, f"StringNamespace.{name}", doc
    setattr(StringNamespace, name, method)


for _line in """
len utf8_length - int32 Number of characters.
byte_len binary_length - int32 Number of bytes.
upper utf8_upper - string In upper case.
lower utf8_lower - string In lower case.
capitalize utf8_capitalize - string With a capital first letter.
title utf8_title - string With each word's first letter a capital.
swapcase utf8_swapcase - string Upper and lower case exchanged.
reverse utf8_reverse - string From back to front.
slice utf8_slice_codeunits - string Characters from start to stop (and step).
repeat binary_repeat - string n times.
replace_slice binary_replace_slice - string With the bytes start..stop replaced.
is_alpha utf8_is_alpha - bool Only letters.
is_alnum utf8_is_alnum - bool Only letters and digits.
is_digit utf8_is_digit - bool Only digits.
is_decimal utf8_is_decimal - bool Only decimal digits.
is_numeric utf8_is_numeric - bool Only numeric characters.
is_space utf8_is_space - bool Only white space.
is_lower utf8_is_lower - bool All letters are lower case.
is_upper utf8_is_upper - bool All letters are upper case.
is_title utf8_is_title - bool Each word starts with a capital.
is_printable utf8_is_printable - bool Only printable characters.
is_ascii string_is_ascii - bool Only ASCII.
starts_with starts_with pattern bool Starts with a text.
ends_with ends_with pattern bool Ends with a text.
contains match_substring pattern bool Contains a text.
match match_like pattern bool Matches a pattern of SQL's LIKE.
match_regex match_substring_regex pattern bool Contains a match of a regular expression.
find find_substring pattern int32 Byte where a text is first found, or -1.
find_regex find_substring_regex pattern int32 Byte where a regular expression first matches, or -1.
count count_substring pattern int32 How often a text occurs.
count_regex count_substring_regex pattern int32 How often a regular expression matches.
replace replace_substring pattern string With a text replaced by another.
replace_regex replace_substring_regex pattern string With matches of a regular expression replaced.
extract extract_regex pattern string The named groups of a regular expression, as a struct.
""".strip().splitlines():
    _n, _f, _w, _t, _d = _line.split(" ", 4)
    _text(_n, _f, "" if _w == "-" else _w, _t, _d)


class ListNamespace(_Namespace):
    """Functions of lists."""

    def len(self) -> Expr:
        """Number of values."""
        return self._call("list_value_length", DataType.int32())

    def __getitem__(self, key: Any) -> Expr:
        if isinstance(key, int):
            return self.get(key)
        if isinstance(key, slice):
            return self.slice(key.start, key.stop, key.step)
        raise TypeError(f"List indices must be integers or slices; this is a {type(key).__name__}")

    def get(self, index: int) -> Expr:
        """The value at an index; an error if a list is shorter."""
        t = self._arrow()
        return self._call(
            "list_element",
            DataType(t.value_type) if t is not None and is_list(t) else _OBJECT,
            index,
        )

    def slice(
        self, start: int | None = None, stop: int | None = None, step: int | None = None
    ) -> Expr:
        """The values from start (included) to stop (excluded)."""
        return self._call(
            "list_slice",
            self._expr.data_type,
            start=start or 0,
            stop=stop,
            step=1 if step is None else step,
        )

    def sort(self, order: str = "ascending", null_placement: str = "at_end") -> Expr:
        """Sorts each list."""
        if order not in ("ascending", "descending"):
            raise ValueError(f"list.sort: order={order!r}: 'ascending' or 'descending'")
        if null_placement not in ("at_start", "at_end"):
            raise ValueError(
                f"list.sort: null_placement={null_placement!r}: 'at_start' or 'at_end'"
            )
        return self._call("skate_list_sort", self._expr.data_type, order, null_placement)

    def flatten(self) -> Expr:
        """Flattens lists of lists by one level."""
        t = self._arrow()
        if t is not None and is_list(t) and is_list(t.value_type):
            inner = t.value_type.value_type
            return self._call(
                "skate_list_flatten",
                DataType(pa.large_list(inner) if pa.types.is_large_list(t) else pa.list_(inner)),
            )
        return self._call("skate_list_flatten", _OBJECT)


class StructNamespace(_Namespace):
    """Fields of structs."""

    def __getitem__(self, field_name: str) -> Expr:
        return self.field(field_name)

    def field(self, field_name: str) -> Expr:
        """A field by name."""
        t = self._arrow()
        dtype = _OBJECT
        if t is not None and pa.types.is_struct(t) and t.get_field_index(field_name) >= 0:
            dtype = DataType(t.field(field_name).type)
        return self._call("struct_field", dtype, field_name)


class MapNamespace(_Namespace):
    """Keys and values of maps."""

    def keys(self) -> Expr:
        """The keys, as a list."""
        return self._part(0)

    def values(self) -> Expr:
        """The values, as a list."""
        return self._part(1)

    def _part(self, i: int) -> Expr:
        t = self._arrow()
        known = t is not None and pa.types.is_map(t)
        dtype = DataType(pa.list_((t.key_type, t.item_type)[i])) if known else _OBJECT  # type: ignore[union-attr]
        return self._call("skate_map_part", dtype, i)


class DatetimeNamespace(_Namespace):
    """Functions of dates and times."""

    def year(self) -> Expr:
        """The year."""
        return self._call("year", DataType.int32())

    def month(self) -> Expr:
        """The month, 1 to 12."""
        return self._call("month", DataType.int32())

    def day(self) -> Expr:
        """The day of the month, from 1."""
        return self._call("day", DataType.int32())

    def hour(self) -> Expr:
        """The hour, 0 to 23."""
        return self._call("hour", DataType.int32())

    def minute(self) -> Expr:
        """The minute, 0 to 59."""
        return self._call("minute", DataType.int32())

    def second(self) -> Expr:
        """The second, 0 to 59."""
        return self._call("second", DataType.int32())

    def strftime(self, fmt: str) -> Expr:
        """The date or time as text in a format."""
        return self._call("strftime", DataType.string(), format=fmt)

    def ceil(self, unit: str) -> Expr:
        """Rounds up to a unit ("day", "hour", ...)."""
        return self._call("ceil_temporal", self._expr.data_type, multiple=1, unit=unit)

    def floor(self, unit: str) -> Expr:
        """Rounds down to a unit ("day", "hour", ...)."""
        return self._call("floor_temporal", self._expr.data_type, multiple=1, unit=unit)

    def round(self, unit: str) -> Expr:
        """Rounds to the nearest unit ("day", "hour", ...)."""
        return self._call("round_temporal", self._expr.data_type, multiple=1, unit=unit)


class ArrayNamespace(_Namespace):
    """Functions of arrays."""

    def to_list(self) -> Expr:
        """Fixed-size lists as lists of variable size; ArrowInvalid for columns that are no
        lists."""
        t = self._arrow()
        dtype = _OBJECT
        if t is not None and is_list(t):
            dtype = (
                DataType(pa.list_(t.value_type))
                if pa.types.is_fixed_size_list(t)
                else self._expr.data_type
            )
        return self._call("skate_to_list", dtype)
