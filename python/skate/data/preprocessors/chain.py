"""Chain: preprocessors one after another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skate.data.preprocessor import Preprocessor, SerializablePreprocessorBase
from skate.data.preprocessors.base import Builtin
from skate.data.preprocessors.utils import compute_all
from skate.data.preprocessors.version_support import OURS, SerializablePreprocessor
from skate.data.util.data_batch_conversion import BatchFormat

if TYPE_CHECKING:
    from skate.data.dataset import Dataset

_STATUS = Preprocessor.FitStatus


@SerializablePreprocessor(version=1, identifier=OURS + "chain")
class Chain(SerializablePreprocessorBase):
    """Each preprocessor learns from, and works on, the result of the one before it. Neighbours that
    do not change each other's columns learn in one pass over the Dataset; transforms run as one
    stage.

    Args:
        preprocessors: The preprocessors in their order; may contain Chains.

    Raises:
        TypeError: An argument is no Preprocessor. ValueError if there is none.
    """

    def __init__(self, *preprocessors: Preprocessor):
        super().__init__()
        if not preprocessors:
            raise ValueError("Chain: give at least one preprocessor")
        for p in preprocessors:
            if not isinstance(p, Preprocessor):
                raise TypeError(f"Chain takes preprocessors, as Chain(a, b), not {p!r}")
        self._preprocessors = preprocessors

    @property
    def preprocessors(self) -> tuple[Preprocessor, ...]:
        """The preprocessors of the chain."""
        return self._preprocessors

    def fit_status(self) -> Preprocessor.FitStatus:
        found = {p.fit_status() for p in self._preprocessors} - {_STATUS.NOT_FITTABLE}
        if not found:
            return _STATUS.NOT_FITTABLE
        return found.pop() if len(found) == 1 else _STATUS.PARTIALLY_FITTED

    def _flat(self) -> list[Preprocessor]:
        return [
            q for p in self._preprocessors for q in (p._flat() if isinstance(p, Chain) else [p])
        ]

    def _forget(self) -> None:
        super()._forget()
        for p in self._flat():
            p._forget()

    def _fit(self, ds: Dataset) -> Chain:
        # successive preprocessors that can learn from ds, and have not learned yet
        waiting: list[Builtin] = []
        changed: set[str] = set()  # columns of ds that these preprocessors change
        for p in self._flat():
            if (
                not isinstance(p, Builtin)
                or p._is_fittable
                and changed.intersection(p.get_input_columns())
            ):
                ds, waiting, changed = _learned(ds, waiting), [], set()
            if isinstance(p, Builtin):
                waiting.append(p)
                changed |= p._changes()
            else:
                ds = p.fit_transform(ds)
        _learned(ds, waiting)
        return self

    def _fit_execute(self, dataset: Any) -> Chain:
        return self  # the chain has learned in _fit, step by step

    def _transform(
        self,
        ds: Dataset,
        batch_size: Any,
        num_cpus: Any = None,
        memory: Any = None,
        concurrency: Any = None,
    ) -> Any:
        for p in self._preprocessors:
            ds = p.transform(
                ds, batch_size=batch_size, num_cpus=num_cpus, memory=memory, concurrency=concurrency
            )
        return ds

    def _transform_batch(self, data: Any) -> Any:
        for p in self._preprocessors:
            data = p.transform_batch(data)
        return data

    def _determine_transform_to_use(self) -> BatchFormat:
        return self._preprocessors[0]._determine_transform_to_use()

    def __repr__(self) -> str:
        return f"Chain({', '.join(map(repr, self._preprocessors))})"

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(
            {"_preprocessors" if k == "preprocessors" else k: v for k, v in state.items()}
        )

    def _get_serializable_fields(self) -> dict[str, Any]:
        return {"preprocessors": self._preprocessors}

    def _set_serializable_fields(self, fields: dict[str, Any], version: int) -> None:
        self._preprocessors = tuple(fields["preprocessors"])


def _learned(ds: Dataset, waiting: list[Builtin]) -> Any:
    """ds after these preprocessors, which have learned from it in one pass."""
    learning = [p for p in waiting if p._is_fittable]
    for p in learning:
        p._fit(ds)
    for p, found in zip(
        learning,
        compute_all([p.stat_computation_plan for p in learning], ds, "fit of a Chain"),
        strict=True,
    ):
        p._take(found)
        p._fitted = True
    for p in waiting:
        ds = p.transform(ds)
    return ds
