"""Decides which columns of pickled objects may be unpickled: only those of this job. Unpickling
bytes of others runs their code, so such columns stay bytes (docs/design/security.md).

The type skate.python_object (types.py) has a parameter, the *mark*, that identifies the job that
pickled the objects. The mark of this job is a secret that all of its processes know (_job.py), so
no file can forge it. With any other mark the objects are foreign: the type behaves the same except
for `trusted`, and unpickling raises UntrustedPickleError. For files that it reads, skate makes a
mark of a second secret and the file's name. Files are written without a mark (`bare`).
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
    """Marks the object types in a type, field, schema, array, batch or Table (or None) as this
    job's, so that the objects may be unpickled."""
    return _changed(what, lambda t: t if t.trusted else types.PythonObjectType())


def bare(what: Any) -> Any:
    """Removes the marks of object types in `what`, for files."""
    return _changed(what, lambda t: types.foreign_type() if t.trusted or t.source else t)


def came_from(what: Any, source: str) -> Any:
    """Marks foreign objects of unknown source in `what` as read from `source`."""
    return _changed(what, lambda t: t if t.trusted or t.source else types.foreign_type(source))


def of_both(a: types.PythonObjectType, b: types.PythonObjectType) -> types.PythonObjectType:
    """The object type for objects of both types: foreign, if one of them is foreign."""
    if a.trusted and b.trusted:
        return types.PythonObjectType()
    said = [t.source for t in (a, b) if t.source] or [""]
    return types.foreign_type(
        said[0] if len(set(said)) == 1 or said[0].startswith(SEVERAL) else SEVERAL + said[0]
    )


def has_objects(t: pa.DataType) -> bool:
    """Whether a type contains pickled objects, at some level."""
    return next(_objects(t), None) is not None


def _objects(t: pa.DataType) -> Iterator[types.PythonObjectType]:
    """The object types that a type contains."""
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
    """The error about unpickling a column of this type, which has foreign objects."""
    of = next((o for o in _objects(t) if not o.trusted), None)
    where = f" of {of.source}" if of is not None and of.source else ""
    return UntrustedPickleError(
        f"{f'column {name!r}' if name else 'a column'}{where} holds Python objects that were pickled outside of this job. To unpickle them runs whatever code they name, so it is not done. "
        "If you trust who wrote them, set DataContext.get_current().trust_pickled_columns = True, or give the reader trust_pickled_columns=True; else leave the column out (columns=, "
        "drop_columns())"
    )


def check_alike(schemas: list[pa.Schema]) -> None:
    """Raises UntrustedPickleError if a column has objects of this job in one schema and foreign
    objects in another. Arrow treats dictionaries of extension types as equal whatever their
    parameters, and would put values of one type under the other."""
    for i, f in enumerate(schemas[0]):
        mine = list(_objects(f.type))
        for s in schemas[1:] if mine else ():
            if list(_objects(s.field(i).type)) != mine:
                raise refused(s.field(i).type, f.name)


def relabelled(col: pa.Array, t: pa.DataType) -> pa.Array:
    """Casts a column that contains objects to another such type; checks the marks, and uses Arrow's
    cast for nested types. UntrustedPickleError if foreign objects would become this job's;
    ArrowNotImplementedError if other values would become objects, because Arrow accepts any bytes
    as pickles."""
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
    """Yields for each object type in t (the type at the same place in a, the object type)."""
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
    """Restores a batch of this schema after bare(). It is for the user's own files, whose pickles
    contain the schema (worker/replay.py)."""
    return pa.RecordBatch._import_from_c_capsule(
        schema.__arrow_c_schema__(), rb.__arrow_c_array__()[1]
    )


def unpickled(data: bytes, what: str) -> Any:
    """The value that was passed to _job.signed(). UntrustedPickleError if the data has another
    job's signature or none, unless the user trusts other jobs' pickles."""
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
    """col.to_pylist(); errors name the column."""
    try:
        return col.to_pylist()
    except UntrustedPickleError:
        raise refused(col.type, name) from None


def _changed(what: Any, to: Callable[[Any], Any]) -> Any:
    """`what`, in which each object type is replaced by to(type). Nothing is copied; if it has no
    object types, the same object is returned."""
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
