"""Makes the DataFrames of many small groups as slices of one DataFrame, and joins the results. Each
pandas call takes 10 to 300 us whatever the size, so this module makes as few calls for each group
as possible."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from skate._deps import load, np, pa, pd
from skate.data.values.frames import from_pandas, to_pandas

load(pd)  # its __version__ alone would not say that the package is missing
# pandas 2 warns about writes to a slice of a DataFrame, although no other code uses these rows
WARNS = int(pd.__version__.split(".")[0]) < 3

# the most frames and rows that a Held collects before they become a batch
MOST_FRAMES, MOST_FRAMES_OF_OBJECTS, MOST_ROWS = 1024, 64, 1 << 16


class Frames:
    """The groups of a batch as DataFrames. Each looks as if it was made of its rows alone, and may
    be changed.

    Args:
        rb: The batch.
    """

    def __init__(self, rb: pa.RecordBatch):
        self.df = to_pandas(rb)
        # A column with nulls is masked, but in a group without nulls it must not be masked.
        masked = [
            i
            for i, t in enumerate(self.df.dtypes)
            if not isinstance(t, np.dtype) and hasattr(t, "numpy_dtype")
        ]
        self.masked = [i for i in masked if rb.column(i).null_count]

    def of(self, at: int, rows: pa.RecordBatch) -> Any:
        """The DataFrame of `rows`, which begin at row `at` of the batch."""
        n = rows.num_rows
        df = self.df.iloc[at : at + n]
        if WARNS:
            df._is_copy = None
        df.index = pd.RangeIndex(n)
        for i in self.masked:
            if not rows.column(i).null_count:
                name = df.columns[i]
                df[name] = df[name].to_numpy(df.dtypes.iloc[i].numpy_dtype)
        return df


class Held:
    """Collects DataFrames that functions returned, to make one batch of them.

    Args:
        what: The function, for errors.
        rb: The batch whose slices the function got: columns with the same names keep their types if
            the values allow this exactly.
    """

    def __init__(self, what: str, rb: pa.RecordBatch):
        self.what, self.rb = what, rb
        self.frames: list[Any] = []
        self.rows, self.most = 0, MOST_FRAMES

    def takes(self, out: Any) -> bool:
        """Adds `out` if it is a DataFrame that can be joined with those held; returns whether it
        was added."""
        if not isinstance(out, pd.DataFrame):
            return False
        index = out.index
        # such an index contains data (see frames.py), so this DataFrame is not joined with others
        if index.nlevels != 1 or index.name is not None or index.dtype.kind not in "iu":
            return False
        if self.frames:
            first = self.frames[0]
            if not (
                out.columns.equals(first.columns) and out.dtypes.tolist() == first.dtypes.tolist()
            ):
                return False
        elif not out.columns.is_unique:
            return False
        else:
            self.most = (
                MOST_FRAMES_OF_OBJECTS
                if any(not isinstance(t, np.dtype) or t.kind == "O" for t in out.dtypes)
                else MOST_FRAMES
            )
        self.frames.append(out)
        self.rows += len(out)
        return True

    def full(self) -> bool:
        """Whether the DataFrames held are enough for a batch."""
        return len(self.frames) >= self.most or self.rows >= MOST_ROWS

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields the batch of all DataFrames held, and releases these."""
        frames, self.frames, self.rows = self.frames, [], 0
        if frames:
            yield from from_pandas(
                frames[0] if len(frames) == 1 else pd.concat(frames, ignore_index=True, copy=False),
                self.what,
                self.rb,
            )
