"""Scalers: scale each column by what fit() learned (StandardScaler, MinMaxScaler, MaxAbsScaler,
RobustScaler), each row by its norm (Normalizer), or each value alone (PowerTransformer).

Columns of numbers (and bools) become float64, float32 stays float32; missing values stay missing. A
column of which fit() saw no value becomes missing. TypeError for other columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from skate._deps import np, pa, pc
from skate.data.aggregate import AbsMax, ApproximateQuantile, Max, Mean, Min, Std
from skate.data.preprocessors.base import (
    Builtin,
    ByColumn,
    OfNumbers,
    as_numpy,
    column,
    floats,
    with_columns,
)
from skate.data.preprocessors.utils import StatComputationPlan
from skate.data.preprocessors.version_support import OURS, SerializablePreprocessor

_TINY = 1e-8  # a standard deviation or range below this is treated as 0


def _result(col: Any, t: pa.DataType) -> Any:
    return col.cast(t) if pa.types.is_floating(t) else col


class _Scaler(ByColumn):
    """The base of scalers that compute (x - shift) / scale for each column."""

    def __init__(self, columns: list[str], output_columns: list[str] | None = None):
        super().__init__()
        self._keep(columns=columns, output_columns=output_columns)

    def _aggregates(self, name: str) -> Sequence[Any]:
        raise NotImplementedError

    def _line(self, name: str) -> tuple[Any, Any]:
        """(shift, scale) of a column, None if fit() saw no value of it."""
        raise NotImplementedError

    def _ask(self, plan: StatComputationPlan) -> None:
        for name in self.columns:
            for aggregate in self._aggregates(name):
                plan.add(OfNumbers(aggregate, self))

    def _made(self, name: str, col: Any) -> Any:
        x, (shift, scale) = floats(name, col, self), self._line(name)
        if shift is None or scale is None:
            return pa.nulls(
                len(col),
                col.type
                if pa.types.is_floating(col.type) or pa.types.is_null(col.type)
                else pa.float64(),
            )
        return _result(pc.divide(pc.subtract(x, float(shift)), float(scale)), col.type)


@SerializablePreprocessor(version=1, identifier=OURS + "standard_scaler")
class StandardScaler(_Scaler):
    """(x - mean) / standard deviation (of the population); a constant column becomes 0. `stats_`:
    mean(c) and std(c) of each column c.

    Args:
        columns: Names of columns of numbers.
        output_columns: As many names for the results; None: the columns are replaced.

    Example:
        >>> import skate
        >>> from skate.data.preprocessors import StandardScaler
        >>> StandardScaler(["id"]).fit_transform(skate.data.range(3)).take_all()[2]
        {'id': 1.224744871391589}
    """

    def _aggregates(self, name: str) -> Sequence[Any]:
        return Mean(name), Std(name, ddof=0)

    def _line(self, name: str) -> tuple[Any, Any]:
        std = self.stats_[f"std({name})"]
        return self.stats_[f"mean({name})"], 1 if std is not None and std < _TINY else std


@SerializablePreprocessor(version=1, identifier=OURS + "min_max_scaler")
class MinMaxScaler(_Scaler):
    """(x - min) / (max - min); a constant column becomes 0. `stats_`: min(c) and max(c) of each
    column c.

    Args:
        columns: Names of columns of numbers.
        output_columns: As many names for the results; None: the columns are replaced.
    """

    def _aggregates(self, name: str) -> Sequence[Any]:
        return Min(name), Max(name)

    def _line(self, name: str) -> tuple[Any, Any]:
        low, high = self.stats_[f"min({name})"], self.stats_[f"max({name})"]
        if low is None or high is None:
            return None, None
        return low, 1 if high - low < _TINY else high - low


@SerializablePreprocessor(version=1, identifier=OURS + "max_abs_scaler")
class MaxAbsScaler(_Scaler):
    """`x / max(|x|)`; a column of zeros stays as it is. `stats_`: abs_max(c) of each column c.

    Args:
        columns: Names of columns of numbers.
        output_columns: As many names for the results; None: the columns are replaced.
    """

    def _aggregates(self, name: str) -> Sequence[Any]:
        return (AbsMax(name),)

    def _line(self, name: str) -> tuple[Any, Any]:
        most = self.stats_[f"abs_max({name})"]
        return 0, 1 if most == 0 else most


@SerializablePreprocessor(version=1, identifier=OURS + "robust_scaler")
class RobustScaler(_Scaler):
    """(x - median) / (high quantile - low quantile), all from a sketch of bounded size; where the
    quantiles are the same, x - median. `stats_`: low_quantile(c), median(c) and high_quantile(c) of
    each column c.

    Args:
        columns: Names of columns of numbers.
        quantile_range: (low, high), each from 0 to 1.
        output_columns: As many names for the results; None: the columns are replaced.
        quantile_precision: Values kept a level of the sketch: errors of ranks are about 1.7 /
            quantile_precision.
    """

    DEFAULT_QUANTILE_PRECISION = 800
    quantile_range: tuple[float, float]
    quantile_precision: int

    def __init__(
        self,
        columns: list[str],
        quantile_range: tuple[float, float] = (0.25, 0.75),
        output_columns: list[str] | None = None,
        quantile_precision: int = DEFAULT_QUANTILE_PRECISION,
    ):
        super().__init__(columns, output_columns)
        if len(quantile_range) != 2 or not 0 <= quantile_range[0] < quantile_range[1] <= 1:
            raise ValueError(
                f"RobustScaler: quantile_range is (low, high) with 0 <= low < high <= 1, not {quantile_range!r}"
            )
        self._keep(quantile_range=quantile_range, quantile_precision=quantile_precision)

    def _aggregates(self, name: str) -> Sequence[Any]:
        low, high = self.quantile_range
        return (ApproximateQuantile(name, [low, 0.5, high], self.quantile_precision),)

    def _take(self, found: dict[str, Any]) -> None:
        stats = {}
        for name in self.columns:
            values = found[f"approx_quantile({name})"] or [None] * 3
            stats.update(
                zip(
                    (f"low_quantile({name})", f"median({name})", f"high_quantile({name})"),
                    values,
                    strict=True,
                )
            )
        self.stats_ = stats

    def _line(self, name: str) -> tuple[Any, Any]:
        low, median, high = (
            self.stats_[f"{k}({name})"] for k in ("low_quantile", "median", "high_quantile")
        )
        return median, None if low is None or high is None else (high - low) or 1


_NORMS = {
    "l1": lambda x: np.nansum(np.abs(x), axis=1),
    "l2": lambda x: np.sqrt(np.nansum(x * x, axis=1)),
    "max": lambda x: np.nan_to_num(np.fmax.reduce(np.abs(x), axis=1)),
}


@SerializablePreprocessor(version=1, identifier=OURS + "normalizer")
class Normalizer(Builtin):
    """Divides each row of these columns by its norm. A row of zeros stays as it is; missing values
    add nothing to the norm, and stay missing.

    Args:
        columns: Names of columns of numbers.
        norm: "l2" (root of the sum of squares), "l1" (sum of absolute values) or "max" (largest
            absolute value).
        output_columns: As many names for the results; None: the columns are replaced.
    """

    columns: list[str]
    norm: str
    output_columns: list[str]
    _is_fittable = False

    def __init__(
        self, columns: list[str], norm: str = "l2", *, output_columns: list[str] | None = None
    ):
        super().__init__()
        if norm not in _NORMS:
            raise ValueError(
                f"Normalizer: norm={norm!r}: it is one of {', '.join(map(repr, _NORMS))}"
            )
        self._keep(columns=columns, norm=norm, output_columns=output_columns)

    def _transform_arrow(self, table: Any) -> Any:
        cols = [column(table, name, self) for name in self.columns]
        parts = [
            as_numpy(floats(name, col, self)) for name, col in zip(self.columns, cols, strict=True)
        ]
        x = np.column_stack([values for values, _ in parts])
        norm = _NORMS[self.norm](x)
        x = x / np.where(norm == 0, 1, norm)[:, None]
        made = [
            _result(pa.array(x[:, i], mask=null), col.type)
            for i, (col, (_, null)) in enumerate(zip(cols, parts, strict=True))
        ]
        return with_columns(table, dict(zip(self.output_columns, made, strict=True)))


def _yeo_johnson(x: Any, power: float) -> Any:
    """Yeo and Johnson 2000, formula 3.1: the Box-Cox transform of x + 1, mirrored below 0 with the
    power 2 - power."""
    out, up = np.full_like(x, np.nan), x >= 0
    down = x < 0
    out[up] = _box_cox(x[up] + 1, power)
    out[down] = -_box_cox(1 - x[down], 2 - power)
    return out


def _box_cox(x: Any, power: float) -> Any:
    """Box and Cox 1964, formula 1."""
    return np.log(x) if power == 0 else (np.power(x, power) - 1) / power


@SerializablePreprocessor(version=1, identifier=OURS + "power_transformer")
class PowerTransformer(ByColumn):
    """Raises each value to a power, which makes skewed values more normal. The power is given, not
    learned.

    Args:
        columns: Names of columns of numbers.
        power: The exponent (lambda).
        method: "yeo-johnson", or "box-cox", which is for values above 0 (ValueError for others).
        output_columns: As many names for the results; None: the columns are replaced.
    """

    power: float
    method: str
    _is_fittable = False

    def __init__(
        self,
        columns: list[str],
        power: float,
        method: str = "yeo-johnson",
        *,
        output_columns: list[str] | None = None,
    ):
        super().__init__()
        if method not in ("yeo-johnson", "box-cox"):
            raise ValueError(
                f"PowerTransformer: method={method!r}: it is 'yeo-johnson' or 'box-cox'"
            )
        self._keep(columns=columns, power=power, method=method, output_columns=output_columns)

    def _made(self, name: str, col: Any) -> Any:
        x, null = as_numpy(floats(name, col, self))
        if self.method == "yeo-johnson":
            return _result(pa.array(_yeo_johnson(x, self.power), mask=null), col.type)
        if (x <= 0).any():
            raise ValueError(
                f"PowerTransformer: box-cox takes values above 0, and column {name!r} has {x[x <= 0][0]}; use method='yeo-johnson'"
            )
        return _result(pa.array(_box_cox(x, self.power), mask=null), col.type)
