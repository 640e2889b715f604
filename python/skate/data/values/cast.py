"""Exact casts: they change the type, and keep each value exactly."""

from __future__ import annotations

from skate._deps import np, pa, pc
from skate._deps import pa_types as _T
from skate.data.values.flat import plain_view
from skate.data.values.selection import decoded
from skate.data.values.types import family


def exact_cast(arr: pa.Array, to: pa.DataType, naive_ok: bool = False) -> pa.Array | None:
    """arr cast to `to`, if the kind of value is the same and no value changes; else None. naive_ok:
    a time without a zone may get a zone."""
    a = arr.type
    if a.equals(to):
        return arr
    try:
        if _T.is_null(a):
            return pa.nulls(len(arr), to)
        if _T.is_dictionary(to):
            kept = exact_cast(decoded(arr) if _T.is_dictionary(a) else arr, to.value_type, naive_ok)
            if kept is None:
                return None
            enc = kept.dictionary_encode()
            return pa.DictionaryArray.from_arrays(
                enc.indices.cast(to.index_type), enc.dictionary, ordered=to.ordered
            )
        if _T.is_dictionary(a):
            return exact_cast(decoded(arr), to, naive_ok)
        if _T.is_run_end_encoded(to):
            kept = exact_cast(arr, to.value_type, naive_ok)
            return None if kept is None else pc.run_end_encode(kept, run_end_type=to.run_end_type)
        if isinstance(to, pa.Bool8Type) and _T.is_boolean(a):
            return pa.ExtensionArray.from_storage(to, arr.cast(pa.int8()))
        if isinstance(to, pa.BaseExtensionType):
            kept = exact_cast(arr, to.storage_type)
            return None if kept is None else pa.ExtensionArray.from_storage(to, kept)
        if _T.is_nested(to) or _T.is_nested(a):
            if not compatible(a, to):
                return None
            kept = arr.cast(to, safe=True)
            return kept if same_floats(arr, kept) else None
        if naive_ok and _T.is_timestamp(a) and a.tz is None and _T.is_date(to):
            return arr.cast(to, safe=True)
        if family(a) != family(to):
            return None
        if (
            _T.is_timestamp(a)
            and (a.tz is None) != (to.tz is None)
            and not (naive_ok and a.tz is None)
        ):
            return None
        if _T.is_timestamp(a) and a.tz is None and to.tz is not None:
            # The instants stay the same: NumPy has no time zones, so its values are in UTC
            return arr.cast(pa.timestamp(to.unit), safe=True).view(to)
        kept = arr.cast(to, safe=True)
        return kept if not _T.is_floating(a) or same_floats(arr, kept) else None
    except (pa.ArrowException, TypeError, ValueError):
        return None


def compatible(a: pa.DataType, b: pa.DataType) -> bool:
    """Whether values of natural type a may become values of type b, judged by their kinds."""
    if isinstance(b, pa.BaseExtensionType):
        b = b.storage_type
    if isinstance(a, pa.BaseExtensionType):
        a = a.storage_type
    if _T.is_null(a) or a.equals(b):
        return True
    if _T.is_struct(a) and _T.is_struct(b):
        names = {b.field(i).name: b.field(i).type for i in range(b.num_fields)}
        return all(
            a.field(i).name in names and compatible(a.field(i).type, names[a.field(i).name])
            for i in range(a.num_fields)
        )
    if _T.is_dictionary(b):
        return compatible(a, b.value_type)
    if (
        _T.is_nested(a)
        and _T.is_nested(b)
        and not _T.is_struct(a)
        and not _T.is_struct(b)
        and not _T.is_union(b)
    ):
        if _T.is_map(b):
            return _T.is_map(a) or _T.is_struct(getattr(a, "value_type", pa.null())) or True
        return not _T.is_map(a) and compatible(a.value_type, b.value_type)
    return family(a) == family(b)


def same_floats(a: pa.Array, b: pa.Array) -> bool:
    """Whether floats that were narrowed somewhere inside b equal the floats in a (NaN equals NaN).
    Values of other types cannot differ after a safe cast."""
    if isinstance(b, pa.ExtensionArray):
        b = b.storage
    if isinstance(a, pa.ExtensionArray):
        a = a.storage
    if _T.is_floating(b.type):
        if not _T.is_floating(a.type) or a.type == b.type:
            return True
        x, y = (np.asarray(plain_view(v.drop_null()), np.float64) for v in (a, b))
        return bool(np.array_equal(x, y, equal_nan=True))
    if _T.is_struct(a.type) and _T.is_struct(b.type):
        return all(
            same_floats(a.field(b.type.field(i).name), b.field(i))
            for i in range(b.type.num_fields)
            if a.type.get_field_index(b.type.field(i).name) >= 0
        )
    if (
        _T.is_nested(a.type)
        and _T.is_nested(b.type)
        and not _T.is_map(b.type)
        and not _T.is_union(b.type)
        and not _T.is_struct(b.type)
    ):
        return same_floats(a.flatten(), b.flatten())
    return True
