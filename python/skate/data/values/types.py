"""Kinds of Arrow types that the batch formats distinguish, and the type of Python objects."""

from __future__ import annotations

import functools
import pickle
from typing import Any

from skate import _job
from skate._deps import np, pa, pd
from skate._deps import pa_types as _T
from skate.data import settings
from skate.data.values import marks
from skate.data.values.tensor_types import ArrowVariableShapedTensorType, is_fixed
from skate.serialize import cloudpickled


def is_ragged(t: pa.DataType) -> bool:
    """Whether the values of this type are arrays of different shapes, as skate's type or as Arrow's
    own."""
    return (
        isinstance(t, ArrowVariableShapedTensorType)
        or isinstance(t, pa.BaseExtensionType)
        and t.extension_name == "arrow.variable_shape_tensor"
    )


def ragged_type(value_type: pa.DataType, ndim: int) -> pa.DataType:
    """The type for arrays of different shapes."""
    return ArrowVariableShapedTensorType(value_type, ndim)


def ragged_parts(t: pa.DataType) -> tuple[pa.DataType, int]:
    """(value type, number of dimensions) of a type for which is_ragged() is true."""
    if isinstance(t, ArrowVariableShapedTensorType):
        return t.value_type, t.ndim
    return t.storage_type.field("data").type.value_type, t.storage_type.field(
        "shape"
    ).type.list_size


def uncoded(t: pa.DataType, inside: bool = False) -> pa.DataType:
    """The type of the same values without encodings: text and bytes instead of their views, lists
    instead of list views, values instead of dictionaries and run ends. unify.cast() casts to it.
    Inside other types, Arrow cannot cast run ends and dictionaries of views, and makes damaged
    lists of list views, so these stay."""
    if _T.is_string_view(t) or _T.is_binary_view(t):
        return pa.string() if _T.is_string_view(t) else pa.binary()
    if _T.is_dictionary(t) or _T.is_run_end_encoded(t):
        plain = uncoded(t.value_type, inside)
        return t if inside and (_T.is_run_end_encoded(t) or plain != t.value_type) else plain
    if isinstance(t, pa.BaseExtensionType):
        return t
    if _T.is_map(t):
        return pa.map_(uncoded(t.key_type, True), uncoded(t.item_type, True))
    if _T.is_struct(t):
        return pa.struct([f.with_type(uncoded(f.type, True)) for f in t])
    if _T.is_fixed_size_list(t):
        return pa.list_(t.value_field.with_type(uncoded(t.value_type, True)), t.list_size)
    if inside and (_T.is_list_view(t) or _T.is_large_list_view(t)):
        return t
    if _T.is_list(t) or _T.is_list_view(t):
        return pa.list_(t.value_field.with_type(uncoded(t.value_type, True)))
    if _T.is_large_list(t) or _T.is_large_list_view(t):
        return pa.large_list(t.value_field.with_type(uncoded(t.value_type, True)))
    return t


_FAMILIES = (
    (_T.is_integer,),
    (_T.is_floating,),
    (_T.is_string, _T.is_large_string, _T.is_string_view),
    (_T.is_binary, _T.is_large_binary, _T.is_binary_view, _T.is_fixed_size_binary),
    (_T.is_timestamp,),
    (_T.is_duration,),
    (_T.is_date,),
    (_T.is_time,),
    (_T.is_decimal,),
    (_T.is_boolean,),
)


def family(t: pa.DataType) -> int:
    for i, tests in enumerate(_FAMILIES):
        if any(f(t) for f in tests):
            return i
    return -1 - t.id


def holds_union(t: pa.DataType) -> bool:
    """Whether this is a union, or contains one."""
    return (
        _T.is_union(t)
        or _T.is_nested(t)
        and any(holds_union(t.field(i).type) for i in range(t.num_fields))
    )


def can_rebuild(t: pa.DataType) -> bool:
    """Whether Arrow can build this type from Python values."""
    if _T.is_union(t) or _T.is_run_end_encoded(t) or is_fixed(t):
        return False
    if _T.is_struct(t):
        return all(can_rebuild(t.field(i).type) for i in range(t.num_fields))
    if _T.is_nested(t):
        return (
            _T.is_map(t)
            and can_rebuild(t.key_type)
            and can_rebuild(t.item_type)
            or not _T.is_map(t)
            and can_rebuild(t.value_type)
        )
    return True


foreign_seen = False  # whether this process has read objects of another job


class PythonObjectType(pa.ExtensionType):
    """Python objects for which Arrow has no type, each pickled. If a file declares this type, its
    objects are foreign and are not unpickled (marks.py).

    Args:
        mark: Identifies the job that pickled the objects; None: this job.
    """

    def __init__(self, mark: bytes | None = None) -> None:
        self._mark = _job.secret()[:HALF] if mark is None else mark
        super().__init__(pa.large_binary(), "skate.python_object")

    @property
    def trusted(self) -> bool:
        """Whether a process of this job pickled the objects."""
        mark = self._mark
        return mark != b"" and (
            mark == _job.secret()[:HALF] or any(mark == s[:HALF] for s in _job.secrets())
        )

    @property
    def source(self) -> str:
        """The source from which foreign objects were read, if known."""
        return next(
            (self._mark[HALF:].decode() for s in _job.secrets() if self._mark.startswith(s[HALF:])),
            "",
        )

    def __arrow_ext_serialize__(self) -> bytes:
        return self._mark

    @classmethod
    def __arrow_ext_deserialize__(
        cls, storage_type: pa.DataType, serialized: bytes
    ) -> PythonObjectType:
        global foreign_seen
        if storage_type != pa.large_binary():
            raise ValueError(f"skate.python_object is over large_binary, not {storage_type}")
        t = _marked(serialized)
        if t.trusted:
            return t
        foreign_seen = True
        return t if t.source else _marked(b"")

    def __reduce__(self) -> Any:
        # the pickle has no mark: a process that unpickles it trusts the pickle already
        return (PythonObjectType, ()) if self.trusted else (foreign_type, (self.source,))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PythonObjectType) and other._mark == self._mark

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((self.extension_name, self._mark))

    def __arrow_ext_class__(self) -> type:
        return PythonObjectArray

    def __arrow_ext_scalar_class__(self) -> type:
        return PythonObjectScalar

    def __str__(self) -> str:
        return "python_object" if self.trusted else "python_object (of others)"


# The bytes of half a secret: the first half marks objects of this job, the second half precedes the
# source in the mark of foreign objects
HALF = 16


@functools.lru_cache(maxsize=256)
def _marked(mark: bytes) -> PythonObjectType:
    """The type with this mark; always the same object for the same mark (as in tensor_types.py)."""
    return PythonObjectType(mark)


def foreign_type(source: str = "") -> PythonObjectType:
    """The type for foreign objects."""
    return _marked(_job.secret()[HALF:] + source.encode("utf-8", "replace") if source else b"")


def _loads(t: PythonObjectType, name: str = "") -> Any:
    """The function that unpickles values of this type; UntrustedPickleError if they must not be
    unpickled."""
    if t.trusted or settings.current is not None and settings.current.trust_pickled_columns:
        return pickle.loads
    raise marks.refused(t, name)


class PythonObjectScalar(pa.ExtensionScalar):
    """One value of a PythonObjectArray."""

    def as_py(self, **kwargs: Any) -> Any:
        return (
            None
            if self.value is None or not self.value.is_valid
            else _loads(self.type)(self.value.as_py())
        )


class PythonObjectArray(pa.ExtensionArray):
    """A column of Python objects."""

    @staticmethod
    def from_objects(values: Any) -> PythonObjectArray:
        """Makes a column of a sequence of objects; TypeError names a class that cannot be
        pickled."""
        return python_objects(list(values))

    def to_numpy(self, zero_copy_only: bool = False, writable: bool = False) -> np.ndarray:
        """An array of the objects."""
        out = np.empty(len(self), object)
        for i, v in enumerate(objects_of(self)):
            out[i] = v
        return out

    def to_pandas(self, **kwargs: Any) -> Any:
        """A Series of the objects."""
        return pd.Series(self.to_numpy())


pa.register_extension_type(foreign_type())


def _compact(v: Any) -> Any:
    """v, in which torch tensors that are views of larger tensors are replaced by copies: torch
    would pickle the whole storage."""
    if type(v) in (list, tuple):
        return type(v)(map(_compact, v))
    if type(v) is dict:
        return {k: _compact(x) for k, x in v.items()}
    if (
        type(v).__module__.split(".")[0] == "torch"
        and hasattr(v, "untyped_storage")
        and v.untyped_storage().nbytes() > v.nbytes
    ):
        return v.clone()
    return v


def python_objects(values: list[Any]) -> pa.Array:
    """Makes a column of pickled objects; TypeError names a class that cannot be pickled."""
    out = []
    for v in values:
        try:
            out.append(None if v is None else cloudpickled(_compact(v)))
        except Exception as e:
            raise TypeError(
                f"an object of type {type(v).__name__} cannot be pickled: {e}"
            ) from None
    return pa.ExtensionArray.from_storage(PythonObjectType(), pa.array(out, pa.large_binary()))


def objects_of(col: pa.Array, name: str = "") -> list[Any]:
    """The objects in such a column; UntrustedPickleError if they are foreign."""
    if col.null_count == len(col):
        return [None] * len(col)
    loads = _loads(col.type, name)
    return [None if v is None else loads(v) for v in col.storage.to_pylist()]
