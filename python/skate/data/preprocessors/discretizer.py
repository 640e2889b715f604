"""Discretizers: replace a value by the number of the interval that contains it, with given or
evenly spaced edges. Values outside, and missing values, become null."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skate._deps import np, pa, pd
from skate.data.aggregate import Max, Min
from skate.data.preprocessors.base import ByColumn, OfNumbers, as_numpy, floats
from skate.data.preprocessors.utils import StatComputationPlan
from skate.data.preprocessors.version_support import OURS, SerializablePreprocessor

if TYPE_CHECKING:
    pass


class _Discretizer(ByColumn):
    bins: Any
    right: bool
    include_lowest: bool
    duplicates: str
    dtypes: dict[str, Any] | None

    def __init__(
        self,
        columns: list[str],
        bins: Any,
        *,
        right: bool = True,
        include_lowest: bool = False,
        duplicates: str = "raise",
        dtypes: dict[str, Any] | None = None,
        output_columns: list[str] | None = None,
    ):
        super().__init__()
        if duplicates not in ("raise", "drop"):
            raise ValueError(
                f"{type(self).__name__}: duplicates={duplicates!r}: it is 'raise' or 'drop'"
            )
        more = {
            "right": right,
            "include_lowest": include_lowest,
            "duplicates": duplicates,
            "dtypes": dtypes,
        }
        self._keep(columns=columns, bins=bins, **more, output_columns=output_columns)
        self._check_bins()

    def _check_bins(self) -> None:
        """Raises ValueError for invalid bins, as far as that is known before fit()."""

    def _of(self, name: str) -> Any:
        """The bins of a column; ValueError if it has none."""
        if not isinstance(self.bins, dict):
            return self.bins
        if name not in self.bins:
            raise ValueError(
                f"{type(self).__name__}: bins says nothing of column {name!r}; it has {', '.join(map(repr, self.bins))}"
            )
        return self.bins[name]

    def _edges(self, name: str) -> Any:
        """The edges of a column: an array, or a pd.IntervalIndex."""
        raise NotImplementedError

    def _made(self, name: str, col: Any) -> Any:
        x, edges = as_numpy(floats(name, col, self))[0], self._edges(name)
        if isinstance(edges, pd.IntervalIndex):
            n, codes = len(edges), edges.get_indexer(pd.Index(x)).astype(float)
            codes[codes < 0] = np.nan
        else:
            codes, edges = pd.cut(
                x,
                edges,
                right=self.right,
                labels=False,
                retbins=True,
                include_lowest=self.include_lowest,
                duplicates=self.duplicates,
            )
            n = len(edges) - 1
        outside = np.isnan(codes)
        numbers = pa.array(np.where(outside, 0, codes).astype(np.int64), mask=outside)
        labels: Any = (self.dtypes or {}).get(name)
        if not isinstance(labels, pd.CategoricalDtype):
            return numbers
        if len(labels.categories) != n:
            raise ValueError(
                f"{type(self).__name__}: dtypes[{name!r}] has {len(labels.categories)} categories for {n} bins; give one for each"
            )
        return pa.DictionaryArray.from_arrays(
            numbers.cast(pa.int32()),
            pa.array(labels.categories.tolist()),
            ordered=bool(labels.ordered),
        )


@SerializablePreprocessor(version=1, identifier=OURS + "custom_kbins_discretizer")
class CustomKBinsDiscretizer(_Discretizer):
    """Bins between given edges.

    Args:
        columns: Names of columns of numbers.
        bins: Edges that increase, or a pd.IntervalIndex without overlaps; or {column: bins}.
        right: True: intervals include their upper edge and exclude the lower one; False: the
            reverse.
        include_lowest: With right: the first interval includes its lower edge.
        duplicates: What to do with an edge that occurs twice: "raise" (ValueError when the bins are
            used), or "drop" one.
        dtypes: {column: pd.CategoricalDtype with a category for each bin}: the result has these
            categories in place of numbers. Other columns, and those with an integer type here,
            become int64.
        output_columns: Names of the results, one for each column; None: the columns are replaced.

    Raises:
        ValueError: Edges do not increase, or a dict of bins lacks a column.

    Example:
        >>> import skate
        >>> from skate.data.preprocessors import CustomKBinsDiscretizer
        >>> CustomKBinsDiscretizer(["id"], [0, 2, 4]).transform(skate.data.range(4)).take_all()[1:]
        [{'id': 0}, {'id': 0}, {'id': 1}]
    """

    _is_fittable = False

    def _check_bins(self) -> None:
        for name in self.columns:
            edges = self._of(name)
            if isinstance(edges, pd.IntervalIndex):
                good, wanted = not edges.is_overlapping, "intervals that do not overlap"
            else:
                values = np.asarray(edges, float)
                good, wanted = (
                    values.ndim == 1 and len(values) > 1 and bool((np.diff(values) >= 0).all()),
                    "at least two edges that increase",
                )
            if not good:
                raise ValueError(
                    f"CustomKBinsDiscretizer: bins of column {name!r} are {wanted}, not {edges!r}"
                )

    def _edges(self, name: str) -> Any:
        edges = self._of(name)
        return edges if isinstance(edges, pd.IntervalIndex) else np.asarray(edges, float)


@SerializablePreprocessor(version=1, identifier=OURS + "uniform_kbins_discretizer")
class UniformKBinsDiscretizer(_Discretizer):
    """Bins of equal width between the smallest and the largest value, as pd.cut makes them: the
    range is extended by 0.1 % at the end that would exclude its value. `stats_`: {column: edges}.

    Args:
        columns: Names of columns of numbers.
        bins: Number of bins, or {column: number}. fit() raises TypeError if it is no int,
            ValueError if it is less than 1 or a dict lacks a column.
        right: True: intervals include their upper edge and exclude the lower one; False: the
            reverse.
        include_lowest: With right: the first interval includes its lower edge.
        duplicates: What to do with an edge that occurs twice: "raise" (ValueError when the bins are
            used), or "drop" one.
        dtypes: {column: pd.CategoricalDtype with a category for each bin}: the result has these
            categories in place of numbers. Other columns, and those with an integer type here,
            become int64.
        output_columns: Names of the results, one for each column; None: the columns are replaced.

    Raises:
        ValueError: Also raised by fit(): a column has no values, or an infinite one.
    """

    def _ask(self, plan: StatComputationPlan) -> None:
        for name in self.columns:
            bins = self._of(name)
            if not isinstance(bins, int) or isinstance(bins, bool):
                raise TypeError(
                    f"UniformKBinsDiscretizer: bins of column {name!r} is how many there are, an int, not {bins!r}"
                )
            if bins < 1:
                raise ValueError(
                    f"UniformKBinsDiscretizer: bins of column {name!r} is {bins}; give 1 or more"
                )
            for of in (Min, Max):
                plan.add(OfNumbers(of(name), self))

    def _take(self, found: dict[str, Any]) -> None:
        self.stats_ = {
            name: self._uniform(name, found[f"min({name})"], found[f"max({name})"])
            for name in self.columns
        }

    def _uniform(self, name: str, low: Any, high: Any) -> Any:
        if low is None or high is None:
            raise ValueError(
                f"UniformKBinsDiscretizer: column {name!r} has no values to make bins of; leave it out, or fill it first"
            )
        low, high, n = float(low), float(high), self._of(name)
        if np.isinf(low) or np.isinf(high):
            raise ValueError(
                f"UniformKBinsDiscretizer: column {name!r} has an infinite value, so its range has no equal parts; replace it first"
            )
        if low == high:
            room = 0.001 * abs(low) or 0.001
            return np.linspace(low - room, high + room, n + 1)
        edges = np.linspace(low, high, n + 1)
        edges[0 if self.right else -1] += (low - high if self.right else high - low) * 0.001
        return edges

    def _edges(self, name: str) -> Any:
        return self.stats_[name]
