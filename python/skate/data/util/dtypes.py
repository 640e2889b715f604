"""Which dtype a column of a batch for torch, TensorFlow or JAX gets, and whether its values fit."""

from __future__ import annotations

from typing import Any

from skate._deps import np

FILL = "leave those rows out (ds.filter(expr=col({name!r}).is_not_null())) or fill them (preprocessors.SimpleImputer) first"


def asked(dtypes: Any, name: str) -> Any:
    """The dtype that the argument `dtypes` (a dtype for all columns, a dict by column, or None)
    gives a column; None: that of its values."""
    return dtypes.get(name) if isinstance(dtypes, dict) else dtypes


def checked(dtypes: Any, name: str, values: Any) -> Any:
    """Like asked(), for these values, an array or a torch tensor. TypeError if some are NaN and the
    dtype is of integers or bools, where NaN would become an arbitrary number."""
    dtype = asked(dtypes, name)
    if dtype is not None and _is_whole(dtype) and _has_nan(values):
        raise TypeError(
            f"column {name!r} has missing values (NaN), which {dtype} cannot hold; {FILL.format(name=name)}, or ask for a dtype of floats"
        )
    return dtype


def _is_whole(dtype: Any) -> bool:
    """Whether a dtype (of torch, TensorFlow, JAX or NumPy) has no NaN."""
    if not isinstance(getattr(dtype, "is_complex", None), bool):
        try:
            return np.dtype(dtype).kind in "iub"
        except TypeError:  # a name that only the library knows, such as "bfloat16"
            return False
    # torch and TensorFlow have a name each for the same fact
    floats = dtype.is_floating_point if hasattr(dtype, "is_floating_point") else dtype.is_floating
    return not (floats or dtype.is_complex)


def _has_nan(values: Any) -> bool:
    if hasattr(values, "is_floating_point"):  # a torch tensor, on any device
        return values.is_floating_point() and bool(values.isnan().any())
    return values.dtype.kind == "f" and bool(np.isnan(values).any())
