"""Which columns of pickled objects may be unpickled: those of this job. Bytes of others run code
when they are unpickled, so they stay bytes (docs/design/security.md).

The type skate.python_object (types.py) says in its parameter, the *mark*, whose objects they are.
The mark of this job's own is a secret that each of its processes knows (_job.py), so no file can
carry it. Any other one is of somebody else: the type is the same but for `trusted`, and what would
unpickle raises UntrustedPickleError. What a reader gives names its file by a second secret. Files
get neither (`bare`): they have no mark.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from typing import Any

from skate import _job
from skate._deps import pa
from skate._deps import pa_types as _T
from skate.data import settings
from skate.data.on_error import UntrustedPickleError
from skate.data.values import types

SEVERAL = "several sources, such as "


def trust(what: Any) -> Any:
    """A type, field, schema, array, batch or Table (or None) whose objects may be unpickled."""
    return _changed(what, lambda t: t if t.trusted else types.PythonObjectType())


def bare(what: Any) -> Any:
    """The same as a file is to have it: without a mark."""
    return _changed(what, lambda t: types.foreign_type() if t.trusted or t.source else t)


def came_from(what: Any, source: str) -> Any:
    """The same, where the objects of others say that they were read from `source`, if nothing is
    said of them yet."""
    return _changed(what, lambda t: t if t.trusted or t.source else types.foreign_type(source))


def of_both(a: types.PythonObjectType, b: types.PythonObjectType) -> types.PythonObjectType:
    """The type of objects of both: of others, if those of one are."""
    if a.trusted and b.trusted:
        return types.PythonObjectType()
    said = [t.source for t in (a, b) if t.source] or [""]
    return types.foreign_type(
        said[0] if len(set(said)) == 1 or said[0].startswith(SEVERAL) else SEVERAL + said[0]
    )


def has_objects(t: pa.DataType) -> bool:
    """Whether there are pickled objects at some level."""
    return next(_objects(t), None) is not None


def _objects(t: pa.DataType) -> Iterator[types.PythonObjectType]:
    """The types of objects in a type."""
    if isinstance(t, types.PythonObjectType):
        yield t
    elif _T.is_dictionary(t):
        yield from _objects(t.value_type)
    elif _T.is_run_end_encoded(t):
        yield from _objects(t.value_type)
    elif _T.is_nested(t):
        for i in range(t.num_fields):
            yield from _objects(t.field(i).type)


def refused(t: pa.DataType, name: str = "") -> UntrustedPickleError:
    """The error for what would unpickle a column of this type, in which there are objects of
    others."""
    of = next((o for o in _objects(t) if not o.trusted), None)
    where = f" of {of.source}" if of is not None and of.source else ""
    return UntrustedPickleError(
        f"{f'column {name!r}' if name else 'a column'}{where} holds Python objects that were pickled outside of this job. To unpickle them runs whatever code they name, so it is not done. "
        "If you trust who wrote them, set DataContext.get_current().trust_pickled_columns = True, or give the reader trust_pickled_columns=True; else leave the column out (columns=, "
        "drop_columns())"
    )


def check_alike(schemas: list[pa.Schema]) -> None:
    """UntrustedPickleError where objects of others are in a column of this job's. Arrow takes
    dictionaries of extension types for equal whatever their parameters are, and would put the
    values of one below the type of another."""
    for i, f in enumerate(schemas[0]):
        mine = list(_objects(f.type))
        for s in schemas[1:] if mine else ():
            if list(_objects(s.field(i).type)) != mine:
                raise refused(s.field(i).type, f.name)


def relabelled(col: pa.Array, t: pa.DataType) -> pa.Array:
    """A column of objects, at some level, as another type of such: by the marks, and, of nested
    types, by Arrow's cast. UntrustedPickleError, where it would make objects of others this job's;
    ArrowNotImplementedError, where it would make objects of other values: Arrow takes bytes for
    pickles."""
    if _T.is_dictionary(col.type) and not _T.is_dictionary(t):
        col = col.dictionary_decode()
    for a, b in _pairs(col.type, t):
        if not isinstance(a, types.PythonObjectType):
            raise pa.ArrowNotImplementedError("in a nested column only objects become objects")
        if b.trusted and not a.trusted:
            raise refused(a)
    col, plain = bare(col), bare(t)
    col = col if col.type.equals(plain) else col.cast(plain, safe=True)
    return pa.Array._import_from_c_capsule(t.__arrow_c_schema__(), col.__arrow_c_array__()[1])


def _pairs(a: pa.DataType, t: pa.DataType) -> Iterator[tuple[pa.DataType, types.PythonObjectType]]:
    """For each type of objects in t what is in its place in a, if that is there and has values."""
    if _T.is_null(a) or not has_objects(t):
        return
    if _T.is_struct(a) and _T.is_struct(t):
        for f in t:
            if a.get_field_index(f.name) >= 0:
                yield from _pairs(a.field(f.name).type, f.type)
    elif _T.is_map(a) and _T.is_map(t):
        yield from _pairs(a.key_type, t.key_type)
        yield from _pairs(a.item_type, t.item_type)
    elif hasattr(a, "value_type") and hasattr(t, "value_type"):
        yield from _pairs(a.value_type, t.value_type)
    else:
        yield from ((a, o) for o in _objects(t))


def as_kept(rb: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """What bare() made of a batch of this schema, as it was. For files of the user's own, whose
    pickles say the schema (worker/replay.py)."""
    return pa.RecordBatch._import_from_c_capsule(
        schema.__arrow_c_schema__(), rb.__arrow_c_array__()[1]
    )


def unpickled(data: bytes, what: str) -> Any:
    """What _job.signed() was given; UntrustedPickleError, where another job has signed it, or
    nobody, and the user does not trust others."""
    if (
        _job.is_signed(data)
        or settings.current is not None
        and settings.current.trust_pickled_columns
    ):
        return pickle.loads(data)
    raise UntrustedPickleError(
        f"{what}: these bytes were pickled outside of this job. To unpickle them runs whatever code they name, so it is not done. If you trust who wrote them, set "
        "DataContext.get_current().trust_pickled_columns = True"
    )


def python_values(name: str, col: pa.Array) -> list[Any]:
    """col.to_pylist(), whose error says the column's name."""
    try:
        return col.to_pylist()
    except UntrustedPickleError:
        raise refused(col.type, name) from None


def _changed(what: Any, to: Callable[[Any], Any]) -> Any:
    """what, with to(type) for each type of objects in it. Nothing is copied, and what has none is
    given back itself."""
    if what is None:
        return None
    if isinstance(what, pa.DataType):
        return _type(what, to)
    if isinstance(what, pa.Field):
        t = _type(what.type, to)
        return what if t is what.type else what.with_type(t)
    if isinstance(what, pa.Schema):
        had = what.types
        new = [_type(t, to) for t in had]
        if all(a is b for a, b in zip(had, new, strict=True)):
            return what
        return pa.schema([f.with_type(t) for f, t in zip(what, new, strict=True)], what.metadata)
    had = what.type if isinstance(what, pa.Array | pa.ChunkedArray) else what.schema
    new = _changed(had, to)
    if new is had:
        return what
    if isinstance(what, pa.Table):
        return pa.Table.from_batches([_changed(b, to) for b in what.to_batches()], new)
    if isinstance(what, pa.ChunkedArray):
        return pa.chunked_array([_changed(c, to) for c in what.chunks], new)
    return (pa.Array if isinstance(what, pa.Array) else pa.RecordBatch)._import_from_c_capsule(
        new.__arrow_c_schema__(), what.__arrow_c_array__()[1]
    )


def _type(t: pa.DataType, to: Callable[[Any], Any]) -> pa.DataType:
    if isinstance(t, types.PythonObjectType):
        return to(t)
    if all(to(o) is o for o in _objects(t)):
        return t
    if _T.is_dictionary(t):
        return pa.dictionary(t.index_type, _type(t.value_type, to), t.ordered)
    if _T.is_run_end_encoded(t):
        return pa.run_end_encoded(t.run_end_type, _type(t.value_type, to))
    fields = [f.with_type(_type(f.type, to)) for f in (t.field(i) for i in range(t.num_fields))]
    if _T.is_struct(t):
        return pa.struct(fields)
    if _T.is_map(t):
        return pa.map_(
            t.key_field.with_type(_type(t.key_type, to)),
            t.item_field.with_type(_type(t.item_type, to)),
            t.keys_sorted,
        )
    if _T.is_union(t):
        return pa.union(fields, t.mode, t.type_codes)
    if _T.is_fixed_size_list(t):
        return pa.list_(fields[0], t.list_size)
    for is_it, make in (
        (_T.is_large_list, pa.large_list),
        (_T.is_list_view, pa.list_view),
        (_T.is_large_list_view, pa.large_list_view),
    ):
        if is_it(t):
            return make(fields[0])
    return pa.list_(fields[0])
