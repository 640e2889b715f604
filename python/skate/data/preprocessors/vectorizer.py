"""Text and counts of words as vectors: Tokenizer, CountVectorizer, HashingVectorizer,
FeatureHasher. A missing text stays missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from skate._deps import np, pa, pc
from skate.data.preprocessors.base import (
    Builtin,
    ByColumn,
    Counts,
    as_numpy,
    column,
    floats,
    lists_of,
    most_common,
    vectors,
    with_columns,
)
from skate.data.preprocessors.encoder import counted
from skate.data.preprocessors.utils import StatComputationPlan, simple_hash, simple_split_tokenizer
from skate.data.preprocessors.version_support import OURS, SerializablePreprocessor
from skate.data.values import to_arrow

Split = Callable[[str], list[str]]


class _Tokens:
    """Converts a column of text into one of lists of tokens; picklable. Arrow makes the default
    tokens; otherwise the user's function is called for each text."""

    def __init__(self, split: Split, who: str, name: str):
        self.split, self.who, self.name = split, who, name

    def lists(self, col: Any) -> Any:
        if self.split is simple_split_tokenizer:
            if pa.types.is_null(col.type):
                return pa.nulls(len(col), pa.list_(pa.string()))
            if not (pa.types.is_string(col.type) or pa.types.is_large_string(col.type)):
                raise TypeError(
                    f"{self.who}: column {self.name!r} is of type {col.type}, not of text; leave it out of columns, or give tokenization_fn"
                )
            return pc.split_pattern(col, " ")
        return to_arrow.from_objects(
            [None if v is None else self.split(v) for v in col.to_pylist()], None
        )

    def __call__(self, col: Any) -> Any:
        """All tokens, one after another (for Counts)."""
        return _inside(self.lists(col), self).flatten()


def _inside(col: Any, tokens: _Tokens) -> Any:
    inside = (
        pa.nulls(len(col), pa.list_(pa.string())) if pa.types.is_null(col.type) else lists_of(col)
    )
    if inside is None:
        raise TypeError(
            f"{tokens.who}: tokenization_fn gives lists of tokens; of column {tokens.name!r} it has given values of type {col.type}"
        )
    return inside


class _OfText(ByColumn):
    tokenization_fn: Split

    def _tokens(self, name: str) -> _Tokens:
        return _Tokens(self.tokenization_fn, type(self).__name__, name)

    def _vectors(self, name: str, col: Any, codes_of: Callable[[Any], Any], length: int) -> Any:
        """The count of each number in each text.

        Args:
            codes_of: A function from an array of tokens to their numbers; null for tokens that are
                left out.
            length: Number of different numbers.
        """
        lists = _inside(self._tokens(name).lists(col), self._tokens(name))
        missing = lists.is_null().to_numpy(zero_copy_only=False) if lists.null_count else None
        return vectors(
            counted(
                pc.list_parent_indices(lists).to_numpy(),
                codes_of(lists.flatten()),
                len(lists),
                length,
            ),
            missing,
        )


@SerializablePreprocessor(version=1, identifier=OURS + "tokenizer")
class Tokenizer(_OfText):
    """Each text as the list of its tokens.

    Args:
        columns: Names of columns of text.
        tokenization_fn: From a text to a list of tokens; None: splits at single spaces.
        output_columns: Names of the results, one for each column; None: the columns are replaced.
    """

    _is_fittable = False

    def __init__(
        self,
        columns: list[str],
        tokenization_fn: Split | None = None,
        output_columns: list[str] | None = None,
    ):
        super().__init__()
        self._keep(
            columns=columns,
            tokenization_fn=tokenization_fn or simple_split_tokenizer,
            output_columns=output_columns,
        )

    def _made(self, name: str, col: Any) -> Any:
        return self._tokens(name).lists(col)


@SerializablePreprocessor(version=1, identifier=OURS + "count_vectorizer")
class CountVectorizer(_OfText):
    """A vector of int64 with the count of each token in a text, for tokens that fit() has seen: the
    most frequent token first (of equally frequent ones, the one that came first). `stats_`:
    token_counts(c) for each column c, a collections.Counter.

    Args:
        columns: Names of columns of text.
        tokenization_fn: From a text to a list of tokens; None: splits at single spaces.
        max_features: Maximum number of tokens that have a place; None: all.
        output_columns: Names of the results, one for each column; None: the columns are replaced.
    """

    max_features: int | None

    def __init__(
        self,
        columns: list[str],
        tokenization_fn: Split | None = None,
        max_features: int | None = None,
        *,
        output_columns: list[str] | None = None,
    ):
        super().__init__()
        tokens = tokenization_fn or simple_split_tokenizer
        self._keep(
            columns=columns,
            tokenization_fn=tokens,
            max_features=max_features,
            output_columns=output_columns,
        )

    def _ask(self, plan: StatComputationPlan) -> None:
        for name in self.columns:
            plan.add(Counts(name, f"token_counts({name})", self._tokens(name)), self._counter)

    def _counter(self, counts: dict[Any, int] | None) -> Counter[Any]:
        return Counter(most_common(counts or {}, self.max_features))

    def _made(self, name: str, col: Any) -> Any:
        known = list(most_common(self.stats_[f"token_counts({name})"], None))

        def codes(tokens: Any) -> Any:
            return pc.index_in(tokens, value_set=pa.array(known, tokens.type))

        return self._vectors(name, col, codes, len(known))


@SerializablePreprocessor(version=1, identifier=OURS + "hashing_vectorizer")
class HashingVectorizer(_OfText):
    """A vector of int64 with the count of tokens of each hash in a text. Nothing is learned; two
    tokens may have the same hash.

    Args:
        columns: Names of columns of text.
        num_features: Number of different hashes.
        tokenization_fn: From a text to a list of tokens; None: splits at single spaces.
        output_columns: Names of the results, one for each column; None: the columns are replaced.
    """

    num_features: int
    _is_fittable = False

    def __init__(
        self,
        columns: list[str],
        num_features: int,
        tokenization_fn: Split | None = None,
        *,
        output_columns: list[str] | None = None,
    ):
        super().__init__()
        tokens = tokenization_fn or simple_split_tokenizer
        self._keep(
            columns=columns,
            num_features=_at_least_one(num_features, self),
            tokenization_fn=tokens,
            output_columns=output_columns,
        )

    def _made(self, name: str, col: Any) -> Any:
        def codes(tokens: Any) -> Any:
            coded = tokens.dictionary_encode()
            return pa.array(
                [simple_hash(v, self.num_features) for v in coded.dictionary.to_pylist()],
                pa.int64(),
            ).take(coded.indices)

        return self._vectors(name, col, codes, self.num_features)


@SerializablePreprocessor(version=1, identifier=OURS + "feature_hasher")
class FeatureHasher(Builtin):
    """A vector with the sums of those columns whose names have the same hash, for a table that has
    a column of counts for each token. It is int64 for columns of integers, else float64; NaN if a
    count is missing. The columns are kept.

    Args:
        columns: Names of columns of numbers.
        num_features: Number of different hashes.
        output_column: The name of the result.
    """

    columns: list[str]
    num_features: int
    output_column: str
    _is_fittable = False

    def __init__(self, columns: list[str], num_features: int, output_column: str):
        super().__init__()
        self._keep(
            columns=columns,
            num_features=_at_least_one(num_features, self),
            output_column=output_column,
        )

    def get_output_columns(self) -> list[str]:
        return [self.output_column]

    def _transform_arrow(self, table: Any) -> Any:
        cols = [column(table, name, self) for name in self.columns]
        whole = all(pa.types.is_integer(c.type) and not c.null_count for c in cols)
        out = np.zeros((table.num_rows, self.num_features), np.int64 if whole else np.float64)
        for name, col in zip(self.columns, cols, strict=True):
            values = (
                col.to_numpy(zero_copy_only=False)
                if whole
                else as_numpy(floats(name, col, self))[0]
            )
            out[:, simple_hash(name, self.num_features)] += values.astype(out.dtype)
        return with_columns(table, {self.output_column: vectors(out)})


def _at_least_one(num_features: Any, who: Any) -> int:
    if not isinstance(num_features, int) or isinstance(num_features, bool) or num_features < 1:
        raise ValueError(f"{type(who).__name__}: num_features={num_features!r}: an int, at least 1")
    return num_features
