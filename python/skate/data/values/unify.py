"""The rule by which the schemas of a Dataset's blocks become one schema, and the code that applies
it: casts, concatenation of batches, a stream whose schema becomes wider.

Where one schema is decided: a schema that is known when the plan is made (of sources with a schema,
operators without user functions, unions of these) applies to all blocks; inputs of a union that
differ are cast by their own node (`conform`). The schema of rows that user functions make is
learned from their blocks. A consumer that has all blocks (materialize, take_all, to_pandas,
to_arrow) uses the schema of all; a consumer that takes them one by one (iter_batches, iter_rows)
uses the schema of the blocks so far, which only becomes wider (`Widening`).

Rule (`promote`). A column may have different types in different blocks only if one type can
represent the values of both exactly:

- null and any type: the other type
- ints: an int type for both
- ints and floats, floats: a float type for both, if it represents the ints exactly (which is checked
  value by value)
- ints and decimals, decimals: a decimal type for both
- strings, binaries: large_string, large_binary; a string never becomes a binary or the reverse
- times of one kind and zone: the finer unit
- dictionaries: a dictionary; with another type, the type of its values
- lists: a list of a type for both values (of fixed size if all have that size)
- structs: a struct with the fields of both, null where one lacks a field
- tensors of the same shape: a tensor of a type for both values
- tensors of different shapes: variable-shaped tensors; tensors of one dimension and lists: lists
- Python objects and any type: objects, which are foreign (marks.py) if some of either are

A column that some blocks lack is null there. Any other difference is an error that names the
column, both types and the operators or files that made them; no value is ever converted silently.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from skate._deps import np, pa, pc
from skate._did_you_mean import nearest_few
from skate.data.dominant_type import SURE, Majority
from skate.data.on_error import UntrustedPickleError
from skate.data.values import from_arrow, marks, selection, tensor_types, to_arrow
from skate.data.values import types as value_types


class MissingColumn(KeyError, ValueError):
    """A column does not exist: a KeyError as in pandas, and a ValueError as in Ray."""


def columns_are(name: str, names: Any) -> str:
    """A text for the error about a missing column: it lists all columns or, of many, those with the
    most similar names."""
    names = list(map(str, names))
    if len(names) <= 12:
        return f"columns are {', '.join(names)}"
    near = nearest_few(name, names, least=0.5)
    meant = (
        f"did you mean {' or '.join([', '.join(map(repr, near[:-1])), repr(near[-1])] if near[1:] else [repr(near[0])])}? "
        if near
        else ""
    )
    return f"{meant}{'there' if not meant else 'There'} are {len(names):,} columns: {', '.join(names[:5])}, …"


def few(names: Any, most: int = 8) -> str:
    """Names for a label: all, or the first ones and the number of the others."""
    names = list(map(str, names))
    return (
        ", ".join(names)
        if len(names) <= most
        else f"{', '.join(names[:most])}, … {len(names) - most:,} more"
    )


def unify(schemas: list[pa.Schema], names: list[str] | None = None) -> pa.Schema:
    """Returns one schema that can represent all of these (see the docstring of this module). If
    there is none, TypeError names the column, both types, and their makers (`names`)."""
    first = schemas[0]
    if all(s is first or s.equals(first) for s in schemas[1:]):
        return first
    types: dict[str, pa.DataType] = {}
    since: dict[str, int] = {}
    for i, s in enumerate(schemas):
        for f in s:
            old = types.get(f.name)
            if old is None:
                types[f.name], since[f.name] = f.type, i
            elif old is not f.type and not old.equals(f.type):
                try:
                    types[f.name] = promote(f.name, old, f.type)
                except TypeError:
                    if names is None:
                        raise
                    raise differ(f.name, old, f.type, names[since[f.name]], names[i]) from None
                if not types[f.name].equals(old):
                    since[f.name] = i
    return pa.schema([pa.field(n, t) for n, t in types.items()])


def differ(
    name: str, a: Any, b: Any, where_a: str, where_b: str, before: str = "", after: str = ""
) -> TypeError:
    """The error about a column with two types that cannot be unified. Its attribute skate_types has
    the types (run/conflict.py)."""
    e = TypeError(
        f"{before}column {name!r} has type {a} in {where_a} and {b} in {where_b}, and no type holds the values of both exactly{after}"
    )
    e.skate_types = name, str(a), str(b)  # type: ignore[attr-defined]
    return e


def retold(e: TypeError, before: str, after: str) -> TypeError:
    """An error of the same class, with text added before and after the message."""
    new = TypeError(f"{before}{e}{after}")
    new.__dict__.update(e.__dict__)
    return new


ADVICE = "return one type from the function that makes it (for example arr.astype(...)), or cast it"


def promote(name: str, a: pa.DataType, b: pa.DataType) -> pa.DataType:
    """The type that can represent the values of both; TypeError if there is none."""
    found = promoted(a, b)
    if found is None:
        raise differ(name, a, b, "one block", "another", after=f": {ADVICE}")
    return found


def promoted(a: Any, b: Any) -> Any:
    """Like promote(), but returns None if there is no type."""
    tensors, kinds = tensor_types, value_types
    if a.equals(b):
        return a
    t = pa.types
    if t.is_null(a) or t.is_null(b):
        return b if t.is_null(a) else a
    if isinstance(a, kinds.PythonObjectType) or isinstance(b, kinds.PythonObjectType):
        if isinstance(a, kinds.PythonObjectType) and isinstance(b, kinds.PythonObjectType):
            return marks.of_both(a, b)
        return a if isinstance(a, kinds.PythonObjectType) else b
    if t.is_dictionary(a) or t.is_dictionary(b):
        values = promoted(*[x.value_type if t.is_dictionary(x) else x for x in (a, b)])
        if values is None or not (t.is_dictionary(a) and t.is_dictionary(b)):
            return values
        index = a.index_type if a.index_type.bit_width >= b.index_type.bit_width else b.index_type
        return pa.dictionary(index, values, ordered=a.ordered and b.ordered)
    if t.is_run_end_encoded(a) or t.is_run_end_encoded(b):
        return promoted(*[x.value_type if t.is_run_end_encoded(x) else x for x in (a, b)])
    if any(tensors.is_fixed(x) or kinds.is_ragged(x) for x in (a, b)):
        return _promoted_tensors(a, b)
    if _listed(a) and _listed(b):
        values = promoted(a.value_type, b.value_type)
        if values is None:
            return None
        if t.is_fixed_size_list(a) and t.is_fixed_size_list(b) and a.list_size == b.list_size:
            return pa.list_(values, a.list_size)
        return (
            pa.large_list(values) if t.is_large_list(a) or t.is_large_list(b) else pa.list_(values)
        )
    if t.is_struct(a) and t.is_struct(b):
        fields = {f.name: f.type for f in a}
        for f in b:
            fields[f.name] = promoted(fields[f.name], f.type) if f.name in fields else f.type
        return None if None in fields.values() else pa.struct(list(fields.items()))
    if t.is_map(a) and t.is_map(b):
        parts = promoted(a.key_type, b.key_type), promoted(a.item_type, b.item_type)
        return None if None in parts else pa.map_(*parts)
    if not (_simple(a) and _simple(b)):
        return None
    # Arrow would unify str and bytes to bytes
    text = {t.is_string(x) or t.is_large_string(x) for x in (a, b)}
    if len(text) == 2 or (t.is_temporal(a) or t.is_temporal(b)) and a.id != b.id:
        return None
    if t.is_decimal(a) != t.is_decimal(b):
        return _with_decimal(*((a, b) if t.is_decimal(a) else (b, a)))
    # Within these kinds Arrow's permissive promotion follows this rule, and the casts find values
    # that it would change
    try:
        return (
            pa.unify_schemas(
                [pa.schema([("x", a)]), pa.schema([("x", b)])], promote_options="permissive"
            )
            .field(0)
            .type
        )
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return None


def _with_decimal(decimal: Any, other: Any) -> Any:
    """A decimal type for a decimal type and ints. Arrow would give int64 a digit less than its cast
    needs, and would make floats of decimals, though no float is 0.1."""
    if not pa.types.is_integer(other):
        return None
    signed = pa.types.is_signed_integer(other)
    digits = len(str(1 << (other.bit_width - signed)))
    scale = max(decimal.scale, 0)
    precision = max(decimal.precision - decimal.scale, digits) + scale
    if precision > 76:
        return None
    wide = precision > 38 or pa.types.is_decimal256(decimal)
    return (pa.decimal256 if wide else pa.decimal128)(precision, scale)


def _promoted_tensors(a: Any, b: Any) -> Any:
    tensors, types = tensor_types, value_types
    kinds = []  # for each type: (type of the numbers, dimensions, shape or None)
    for x in (a, b):
        if tensors.is_fixed(x):
            kinds.append((x.value_type, len(x.shape), tensors.fixed_parts(x)[1]))
        elif types.is_ragged(x):
            kinds.append((*types.ragged_parts(x), None))
        elif _listed(x) and not _listed(x.value_type):
            kinds.append((x.value_type, 1, ()))
        else:
            return None
    (va, na, sa), (vb, nb, sb) = kinds
    values = promoted(va, vb)
    if values is None or na != nb:
        return None
    if sa == sb and sa:
        if values.equals(vb) and isinstance(b, pa.FixedShapeTensorType) or values.equals(va):
            return b if values.equals(vb) and isinstance(b, pa.FixedShapeTensorType) else a
        return tensors.fixed_type(tensors.ArrowTensorTypeV2, sa, values)
    if na == 1 and None not in (sa, sb):
        return pa.list_(values)
    return types.ragged_type(values, na)


def misfits(
    parts: Sequence[tuple[int, pa.Schema | None]], before: pa.Schema | None = None
) -> list[TypeError | None]:
    """For each part of some rows (number of rows, schema): an error if it does not fit the others
    (dominant_type.py), else None. before: a schema that stays in any case."""
    count = Majority(promoted)
    for rows, schema in [(SURE, before), *parts]:
        for f in schema or ():
            if not pa.types.is_null(f.type):
                count.add(f.name, f.type, rows)
    whole = pa.schema(list(count.most().items()))
    out: list[TypeError | None] = []
    for _, schema in parts:
        try:
            unify([whole, schema or whole], ["most rows", "this one"])
            out.append(None)
        except TypeError as e:
            out.append(e)
    return out


def _listed(t: Any) -> bool:
    return pa.types.is_list(t) or pa.types.is_large_list(t) or pa.types.is_fixed_size_list(t)


def _simple(a: Any) -> bool:
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
    """rb cast to this schema: missing columns become null; TypeError if a cast is not exact."""
    if rb.schema.equals(schema):
        return rb
    have = {n: i for i, n in enumerate(rb.schema.names)}
    cols = []
    for f in schema:
        if f.name not in have:
            cols.append(pa.nulls(rb.num_rows, f.type))
            continue
        cols.append(cast(rb.column(have[f.name]), f.type, f.name))
    names = set(schema.names)
    extra = [n for n in rb.schema.names if n not in names]
    if extra:
        raise TypeError(
            f"column {extra[0]!r} appears only in later blocks; return the same columns from every batch"
        )
    return pa.RecordBatch.from_arrays(cols, schema=schema)


def cast(c: pa.Array, t: pa.DataType, name: str) -> pa.Array:
    """c, the column `name`, cast exactly to type t; TypeError if that is impossible."""
    if c.type.equals(t):
        return c
    try:
        return _cast(c, t)
    except UntrustedPickleError:
        raise marks.refused(c.type, name) from None
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as e:
        raise TypeError(
            f"column {name!r}: {c.type} in one block cannot become {t} of another without loss: {e}"
        ) from None


def _cast(c: pa.Array, t: pa.DataType) -> pa.Array:
    """The column c, cast to type t; ArrowInvalid if a value does not fit. Tensors are checked by
    their shapes, since Arrow would compare only the lists that store them."""
    tensors, kinds, values = tensor_types, value_types, from_arrow
    if pa.types.is_null(c.type):
        return pa.nulls(len(c), t)
    if isinstance(t, kinds.PythonObjectType):
        return _cast_to_objects(c, t)
    if marks.has_objects(t):
        return marks.relabelled(c, t)
    if kinds.is_ragged(t):
        if tensors.is_fixed(c.type):
            return to_arrow.ragged_of_fixed(c, t)
        if kinds.is_ragged(c.type):
            return tensors.ragged(values.to_objects("", c), t)
        return tensors.ragged(
            [
                None if v is None else v if hasattr(v, "ndim") else _array(v, t)
                for v in values.to_objects("", c)
            ],
            t,
        )
    if tensors.is_fixed(t):
        value, shape = tensors.fixed_parts(t)
        if tensors.is_fixed(c.type):
            if tensors.fixed_parts(c.type)[1] != shape:
                raise pa.ArrowInvalid("arrays of another shape")
            c = tensors.native(c) if isinstance(c, tensors.ArrowTensorArray) else c
            if not c.type.value_type.equals(value):
                to = pa.fixed_shape_tensor(value, shape)
                c = pa.ExtensionArray.from_storage(to, c.storage.cast(to.storage_type, safe=True))
        else:
            size = 1
            for n in shape:
                size *= n
            c = pa.ExtensionArray.from_storage(
                pa.fixed_shape_tensor(value, shape), c.cast(pa.list_(value, size), safe=True)
            )
        return c if c.type.equals(t) else tensors.of_native(c, t)
    if isinstance(c, tensors.ArrowTensorArray):
        c = tensors.native(c)
    c = c.storage if isinstance(c.type, pa.FixedShapeTensorType) else c
    if pa.types.is_run_end_encoded(c.type):
        c = pc.run_end_decode(c)
    if pa.types.is_dictionary(c.type):
        c = selection.decoded(c)
    if pa.types.is_list_view(c.type) or pa.types.is_large_list_view(c.type):
        c = selection.listed(c)
    if pa.types.is_dictionary(t):
        c = c.cast(t.value_type, safe=True).dictionary_encode()
        return pa.DictionaryArray.from_arrays(
            c.indices.cast(t.index_type), c.dictionary, ordered=t.ordered
        )
    return c.cast(t, safe=True)


def _cast_to_objects(c: pa.Array, t: Any) -> pa.Array:
    """Converts a column to one of objects; values that are no objects yet are pickled."""
    if not isinstance(c.type, type(t)):
        c = value_types.python_objects(from_arrow.to_objects("", c))
    return marks.relabelled(c, t)


def _array(v: Any, t: Any) -> Any:
    return np.asarray(v, value_types.ragged_parts(t)[0].to_pandas_dtype())


class Widening:
    """Casts the blocks of a stream, one by one, to the schema of all blocks so far, which only
    becomes wider.

    Args:
        what: The operator that makes the blocks, for errors.
        schema: The schema that is known before the first block; None: unknown.
        sure: True: the schema is certain. False: it is the schema of an earlier run, and is dropped
            if the first block of this run does not fit.
    """

    def __init__(self, what: str, schema: pa.Schema | None = None, sure: bool = True):
        self.what, self.schema, self.sure, self.row = what, schema, sure, 0
        self.known = schema is not None
        # for each column the row that determined its type, for errors
        self.since: dict[str, int] = {}

    def __call__(self, rb: pa.RecordBatch) -> pa.RecordBatch:
        """rb, cast to the schema of all blocks so far; TypeError if there is none."""
        first, self.row = self.row, self.row + rb.num_rows
        if self.schema is None:
            self.schema = rb.schema if rb.num_rows else None
            return rb
        if rb.schema is self.schema or rb.schema.equals(self.schema):
            return rb
        if not rb.num_rows:  # a batch without rows: no user function has made its types
            return cast_batch(rb.slice(0, 0).select([]), self.schema)
        self.schema = self._wider(rb.schema, first)
        try:
            return cast_batch(rb, self.schema)
        except TypeError as e:
            raise TypeError(f"{self.what}: {e} (rows {first:,} to {self.row - 1:,})") from None

    def _wider(self, new: pa.Schema, first: int) -> pa.Schema:
        assert self.schema is not None
        fields = {f.name: f.type for f in self.schema}
        for f in new:
            old = fields.get(f.name)
            if old is None:
                fields[f.name] = f.type
            elif not old.equals(f.type):
                wide = promoted(old, f.type)
                if wide is None:
                    if not self.sure and not first:
                        return new
                    at = self.since.get(f.name)
                    before = (
                        ("its schema" if self.sure else "what an earlier run saw")
                        if at is None and self.known
                        else f"what came from row {at or 0:,} on"
                    )
                    raise differ(
                        f.name,
                        old,
                        f.type,
                        before,
                        f"what came from row {first:,} on",
                        f"{self.what}: ",
                        f": {ADVICE}",
                    )
                if wide.equals(old):
                    continue
                fields[f.name] = wide
            self.since[f.name] = first
        return pa.schema(list(fields.items()))


def merge(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Concatenates batches into one batch in one schema; a column of texts, bytes or lists that
    needs more than 32-bit offsets gets the large type."""
    if len(batches) == 1:
        return batches[0]
    schema = batches[0].schema
    if any(not b.schema.equals(schema) for b in batches[1:]):
        schema = unify([b.schema for b in batches])
        batches = [cast_batch(b, schema) for b in batches]
    types = sys.modules.get("skate.data.values.types")
    if types is not None and types.foreign_seen:
        marks.check_alike([b.schema for b in batches])
    try:
        return pa.concat_batches(batches)
    except pa.ArrowInvalid:  # a column has more than 2 GiB
        wide = pa.schema([f.with_type(widened(f.type)) for f in schema], schema.metadata)
        if wide.equals(schema):
            raise
        return pa.concat_batches([b.cast(wide) for b in batches])


def widened(t: pa.DataType) -> pa.DataType:
    """The type of the same values with 64-bit offsets."""
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
    schema = unify([b.schema for b in batches])
    return pa.Table.from_batches([cast_batch(b, schema) for b in batches], schema=schema)


def concat_as(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The Table, cast to this schema; see cast_batch()."""
    return pa.Table.from_batches([cast_batch(b, schema) for b in table.to_batches()], schema=schema)


def check_names(names: Sequence[str], what: str) -> None:
    """Raises ValueError if a name occurs twice: rows and batches are dicts by name, so one of the
    columns would be lost."""
    if len(set(names)) != len(names):
        seen: set[str] = set()
        twice = next(n for n in names if n in seen or seen.add(n))
        raise ValueError(
            f"{what}: the column name {twice!r} is there twice; give each column a name of its own"
        )


def free_name(taken: Any, name: str) -> str:
    """Returns `name`, or name_1, name_2, ... if `name` is taken."""
    if name not in taken:
        return name
    i = 1
    while f"{name}_{i}" in taken:
        i += 1
    return f"{name}_{i}"


def unique(names: list[str]) -> list[str] | None:
    """Makes repeated names unique as pandas does (a, a.1, a.2); None if no name is repeated."""
    if len(set(names)) == len(names):
        return None
    out: list[str] = []
    taken, counts = set(names), dict.fromkeys(names, 0)
    for n in names:
        name = n
        if counts[n]:
            while name in taken:
                name = f"{n}.{counts[n]}"
                counts[n] += 1
            taken.add(name)
        else:
            counts[n] = 1
        out.append(name)
    return out
