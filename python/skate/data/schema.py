"""Schema: the columns of a Dataset. values/unify.py unifies the schemas of blocks into one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from skate._deps import extensions, pa
from skate.data.values import frames, tensor_types
from skate.terminal import notebook

SHOWN = 200  # the most columns that repr() shows; names and types have all columns


@dataclass(frozen=True)
class PandasBlockSchema:
    """Names and pandas dtypes of the columns of a DataFrame."""

    names: tuple[str, ...]
    types: tuple[Any, ...]


class Schema:
    """Names and Arrow types of the columns of a Dataset.

    Args:
        base_schema: The pyarrow.Schema.
        data_context: Has no effect.
        pandas: Whether the blocks came from DataFrames, or the last operator made DataFrames; then
            base_schema returns pandas dtypes, as a PandasBlockSchema (arrays are a TensorDtype).
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
        rows = list(zip(self.names, map(str, self.types), strict=True))
        left = len(rows) - SHOWN
        if left > 0:
            rows = [*rows[: SHOWN // 2], ("…", f"({left:,} more)"), *rows[-SHOWN // 2 :]]
        width = max([6, *(len(n) for n, _ in rows)])
        return "\n".join(
            [
                f"{'Column':<{width}}  Type",
                f"{'------':<{width}}  ----",
                *(f"{n:<{width}}  {t}" for n, t in rows),
            ]
        )

    def _repr_html_(self) -> str:
        rows = list(zip(self.names, map(str, self.types), strict=True))
        return notebook.table(f"{len(rows):,} columns", ("Column", "Type"), rows)


def _of_frames(schema: pa.Schema) -> PandasBlockSchema:
    frame = frames.to_pandas(_no_rows(schema))
    types = [
        extensions.TensorDtype(
            tensor_types.fixed_parts(f.type)[1], tensor_types.fixed_parts(f.type)[0]
        )
        if tensor_types.is_fixed(f.type)
        else frame[f.name].dtype
        for f in schema
    ]
    return PandasBlockSchema(tuple(schema.names), tuple(types))


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    plain = pa.schema(
        [pa.field(f.name, pa.null()) if tensor_types.is_fixed(f.type) else f for f in schema]
    )
    return pa.RecordBatch.from_arrays([pa.nulls(0, f.type) for f in plain], schema=plain)
