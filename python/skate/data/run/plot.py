"""A picture of a run over time: rates of rows, memory and disk, and the queues of operators."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from skate._deps import load, mpl_figure, pyplot
from skate.terminal import notebook
from skate.terminal.words import short

if TYPE_CHECKING:
    import matplotlib.figure

_MIB = 1 << 20
_MOST = 8  # operators that are drawn by name; the others are drawn as one


class StatsText(notebook.Text):
    """The text of Dataset.stats(), which can also draw the run."""

    __slots__ = ("_of",)
    _of: Any  # the DatasetStats of the run; None: nothing has run

    def __new__(cls, text: str, of: Any) -> StatsText:
        self = super().__new__(cls, text)
        self._of = of
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return str, (str(self),)

    def plot(self, path: str | os.PathLike[str] | None = None) -> matplotlib.figure.Figure:
        """Draws the last run over time: rows a second that went in and came out, the memory and disk
        of its blocks, and the bytes that waited for each operator. Needs the package matplotlib.

        Args:
            path: A file to write as well; its ending says the format, such as ".png" or ".svg".

        Returns:
            The picture, which a notebook shows.

        Raises:
            ValueError: Nothing has run yet, or the file's ending is not known.
            ModuleNotFoundError: matplotlib is not installed.

        Example:
            >>> import skate
            >>> ds = skate.data.range(1000).map_batches(lambda b: b).materialize()
            >>> figure = ds.stats().plot()
        """
        samples = self._of.extra.get("samples") if self._of is not None else None
        if self._of is None or not samples or not samples["t"]:
            raise ValueError(
                "this Dataset has not run in this process, so there is nothing to draw: "
                "materialize(), take_all(), write_parquet() and the like run it"
            )
        figure = draw(samples, [o["label"] for o in self._of.ops], self._of.raw)
        if path is not None:
            figure.savefig(os.fspath(path))
        return figure


def draw(
    samples: dict[str, Any], labels: list[str], raw: dict[str, Any]
) -> matplotlib.figure.Figure:
    """The figure of a run's samples (skate._private.view)."""
    # The import of pyplot lets a notebook's kernel show figures. This one is none of pyplot's own,
    # which the kernel would show a second time.
    load(pyplot)
    figure = mpl_figure.Figure(figsize=(8, 7.5), layout="constrained")
    rows, memory, queues = figure.subplots(3, sharex=True)
    t = samples["t"]
    middle = [(a + b) / 2 for a, b in zip(t, t[1:])]
    for name, label in (("rows_in", "in"), ("rows_out", "out")):
        rows.plot(middle, _rates(t, samples[name]), label=label, drawstyle="steps-mid")
    rows.set_ylabel("rows/s")
    memory.plot(t, _mib(samples["memory"]), label="in memory")
    memory.plot(t, _mib(samples["disk"]), label="on disk")
    limit = raw.get("memory_limit", 0) / _MIB
    if limit and limit < 3 * max(_mib(samples["memory"]), default=0):
        memory.axhline(limit, linestyle=":", color="gray", label="budget")
    memory.set_ylabel("blocks, MiB")
    waiting = list(zip(labels, samples["queued"]))
    for label, values in waiting[:_MOST]:
        queues.plot(t, _mib(values), label=short(label, 40))
    if len(waiting) > _MOST:
        rest = [sum(at) for at in zip(*(v for _, v in waiting[_MOST:]), strict=True)]
        queues.plot(t, _mib(rest), label=f"{len(waiting) - _MOST} others", color="gray")
    queues.set_ylabel("waiting for\nthe operator, MiB")
    queues.set_xlabel("seconds")
    for axes in (rows, memory, queues):
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
        axes.legend(fontsize="small", loc="best")
    return figure


def _mib(values: list[int]) -> list[float]:
    return [v / _MIB for v in values]


def _rates(t: list[float], values: list[int]) -> list[float]:
    """What came in each second between two samples."""
    pairs = zip(t, t[1:], values, values[1:])
    return [(b - a) / (end - start) if end > start else 0.0 for start, end, a, b in pairs]
