"""Schema: the columns of a Dataset, and the written rule by which blocks of one Dataset are brought to one schema.

Rule (`unify`): the same name may have different types in different blocks only if one can hold the other exactly: null -> any;
ints to a wider int of both; int -> double when the ints stay below 2**53 (checked while casting); float -> double; string -> large_string;
lists and structs by their parts; a 1-d tensor next to ragged lists -> list; tensors of different shapes -> variable-shape tensor. A column that some blocks lack is null there. Anything else is
an error that names the column and both types; never a silent conversion.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class PandasBlockSchema:
    """Names and pandas dtypes of the columns of a DataFrame."""

    names: tuple[str, ...]
    types: tuple[Any, ...]


class Schema:
    """Names and Arrow types of the columns of a Dataset.

    Args:
        base_schema: The pyarrow.Schema.
        data_context: Without effect.
        pandas: The Dataset came as DataFrames, or was made so last: base_schema tells the dtypes that they have, as a PandasBlockSchema (arrays are a TensorDtype).
    """

    def __init__(self, base_schema: pa.Schema, *, data_context: Any = None, pandas: bool = False):
        self.arrow, self.pandas = base_schema, pandas

    @property
    def base_schema(self) -> Any:
        """The pyarrow.Schema, or a PandasBlockSchema."""
        return _of_frames(self.arrow) if self.pandas else self.arrow

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return list(self.arrow.names)

    @property
    def types(self) -> list[Any]:
        """Arrow types of the columns."""
        return list(self.arrow.types)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and other.arrow.equals(self.arrow)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        names, types = self.names, [str(t) for t in self.types]
        width = max([6, *map(len, names)])
        lines = [f"{'Column':<{width}}  Type", f"{'------':<{width}}  ----"]
        return "\n".join(lines + [f"{n:<{width}}  {t}" for n, t in zip(names, types, strict=True)])


def _of_frames(schema: pa.Schema) -> PandasBlockSchema:
    from skate.data.batch import to_pandas
    from skate.data.extensions import TensorDtype
    from skate.data.tensor_types import fixed_parts, is_fixed

    frame = to_pandas(_no_rows(schema))
    types = [TensorDtype(fixed_parts(f.type)[1], fixed_parts(f.type)[0]) if is_fixed(f.type) else frame[f.name].dtype for f in schema]
    return PandasBlockSchema(tuple(schema.names), tuple(types))


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    import pyarrow as pa

    from skate.data.tensor_types import is_fixed

    plain = pa.schema([pa.field(f.name, pa.null()) if is_fixed(f.type) else f for f in schema])
    return pa.RecordBatch.from_arrays([pa.nulls(0, f.type) for f in plain], schema=plain)


def unify(schemas: list[pa.Schema]) -> pa.Schema:
    """One schema for all (see the head of the file); TypeError naming the column and both types when there is none."""
    import pyarrow as pa

    first = schemas[0]
    if all(s.equals(first) for s in schemas[1:]):
        return first
    types: dict[str, pa.DataType] = {}
    for s in schemas:
        for f in s:
            types[f.name] = promote(f.name, types[f.name], f.type) if f.name in types else f.type
    return pa.schema([pa.field(n, t) for n, t in types.items()])


def promote(name: str, a: pa.DataType, b: pa.DataType) -> pa.DataType:
    """The type that holds the values of both; TypeError when there is none."""
    import pyarrow as pa

    if a.equals(b):
        return a
    t = pa.types
    if t.is_null(a):
        return b
    if t.is_null(b):
        return a
    from skate.data.tensor_types import fixed_parts, is_fixed

    if is_fixed(a) or is_fixed(b):
        from skate.data.values.types import is_ragged, ragged_parts, ragged_type

        for x, y in ((a, b), (b, a)):
            if is_ragged(x) and is_fixed(y) and ragged_parts(x) == (y.value_type, len(y.shape)):
                return x
        if is_fixed(a) and is_fixed(b) and a.value_type == b.value_type:
            if fixed_parts(a) == fixed_parts(b):
                return b if isinstance(b, pa.FixedShapeTensorType) else a
            if len(a.shape) == len(b.shape) > 1:
                return ragged_type(a.value_type, len(a.shape))
        plain = [pa.list_(x.value_type) if is_fixed(x) and len(x.shape) == 1 else x for x in (a, b)]
        if not any(is_fixed(x) for x in plain):
            return promote(name, *plain)
    elif t.is_struct(a) and t.is_struct(b) or t.is_list(a) and t.is_list(b) or _simple(a) and _simple(b):
        # Arrow's own permissive promotion follows this rule inside these kinds, but for what it would lose (checked here).
        text = {t.is_string(x) or t.is_large_string(x) for x in (a, b)}  # Arrow would turn str + bytes into bytes
        if len(text) == 1 and (not (t.is_temporal(a) or t.is_temporal(b)) or a.id == b.id):
            try:
                return pa.unify_schemas([pa.schema([(name, a)]), pa.schema([(name, b)])], promote_options="permissive").field(0).type
            except (pa.ArrowInvalid, pa.ArrowTypeError):
                pass
    raise TypeError(
        f"column {name!r} has type {a} in one block and {b} in another, and neither holds the other exactly: "
        f"return one type from the function that makes it (for example arr.astype(...)), or cast it"
    )


def _simple(a: pa.DataType) -> bool:
    import pyarrow as pa

    t = pa.types
    return (
        t.is_integer(a)
        or t.is_floating(a)
        or t.is_string(a)
        or t.is_large_string(a)
        or t.is_binary(a)
        or t.is_large_binary(a)
        or t.is_decimal(a)
        or t.is_temporal(a)
    )


def cast_batch(rb: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """rb in this schema: missing columns are null, types are cast exactly or it is an error."""
    import pyarrow as pa

    if rb.schema.equals(schema):
        return rb
    have = {n: i for i, n in enumerate(rb.schema.names)}
    cols = []
    for f in schema:
        if f.name not in have:
            cols.append(pa.nulls(rb.num_rows, f.type))
            continue
        c = rb.column(have[f.name])
        if not c.type.equals(f.type):
            try:
                c = _cast(c, f.type)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as e:
                raise TypeError(f"column {f.name!r}: {c.type} in one block cannot become {f.type} of another without loss: {e}") from None
        cols.append(c)
    extra = [n for n in rb.schema.names if n not in set(schema.names)]
    if extra:
        raise TypeError(f"column {extra[0]!r} appears only in later blocks; return the same columns from every batch")
    return pa.RecordBatch.from_arrays(cols, schema=schema)


def _cast(c: pa.Array, t: pa.DataType) -> pa.Array:
    """c as type t; ArrowInvalid when it does not fit. Tensors by shape: Arrow looks at the lists below them only."""
    import pyarrow as pa

    from skate.data.tensor_types import ArrowTensorArray, fixed_parts, is_fixed, native, of_native
    from skate.data.values.to_arrow import ragged_of_fixed
    from skate.data.values.types import is_ragged

    if is_fixed(c.type) and is_ragged(t):
        return ragged_of_fixed(c, t)
    if is_fixed(t):
        value, shape = fixed_parts(t)
        if is_fixed(c.type):
            if fixed_parts(c.type) != (value, shape):
                raise pa.ArrowInvalid("arrays of another shape or type")
            c = native(c) if isinstance(c, ArrowTensorArray) else c
        else:
            size = 1
            for n in shape:
                size *= n
            c = pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(value, shape), c.cast(pa.list_(value, size), safe=True))
        return c if c.type.equals(t) else of_native(c, t)
    if isinstance(c, ArrowTensorArray):
        c = native(c)
    return (c.storage if isinstance(c.type, pa.FixedShapeTensorType) else c).cast(t, safe=True)


def join(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """One batch of all rows, in one schema; texts, bytes and lists that are together more than their type counts get its large one."""
    import pyarrow as pa

    if len(batches) == 1:
        return batches[0]
    schema = batches[0].schema
    if any(not b.schema.equals(schema) for b in batches[1:]):
        schema = unify([b.schema for b in batches])
        batches = [cast_batch(b, schema) for b in batches]
    try:
        return pa.concat_batches(batches)
    except pa.ArrowInvalid:  # more than 2 GiB in a column
        wide = pa.schema([f.with_type(widened(f.type)) for f in schema], schema.metadata)
        if wide.equals(schema):
            raise
        return pa.concat_batches([b.cast(wide) for b in batches])


def widened(t: pa.DataType) -> pa.DataType:
    """The type of the same values that counts what is in an array with 64 bits."""
    import pyarrow as pa

    is_ = pa.types
    if is_.is_string(t):
        return pa.large_string()
    if is_.is_binary(t):
        return pa.large_binary()
    if is_.is_list(t) or is_.is_large_list(t):
        return pa.large_list(t.value_field.with_type(widened(t.value_type)))
    if is_.is_struct(t):
        return pa.struct([f.with_type(widened(f.type)) for f in t])
    return t


def concat(batches: list[pa.RecordBatch]) -> pa.Table:
    """All batches as one Table in one schema (no copy)."""
    import pyarrow as pa

    schema = unify([b.schema for b in batches])
    return pa.Table.from_batches([cast_batch(b, schema) for b in batches], schema=schema)


def concat_as(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """A Table in this schema; see cast_batch()."""
    import pyarrow as pa

    return pa.Table.from_batches([cast_batch(b, schema) for b in table.to_batches()], schema=schema)


def check_names(names: Sequence[str], what: str) -> None:
    """ValueError when a name is there twice: rows and batches are dicts of names, so one of the columns would be lost."""
    if len(set(names)) != len(names):
        seen: set[str] = set()
        twice = next(n for n in names if n in seen or seen.add(n))  # type: ignore[func-returns-value]
        raise ValueError(f"{what}: the column name {twice!r} is there twice; give each column a name of its own")


def free_name(taken: Any, name: str) -> str:
    """name, or name_1, name_2, ... if it is taken."""
    if name not in taken:
        return name
    i = 1
    while f"{name}_{i}" in taken:
        i += 1
    return f"{name}_{i}"
