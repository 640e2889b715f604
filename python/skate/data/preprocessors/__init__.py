"""Preprocessors: what is learned from a Dataset's columns in one pass, and done to batches and
Datasets (names and arguments are Ray's).

Example:
    >>> import skate
    >>> from skate.data.preprocessors import (
    ...     Chain,
    ...     Concatenator,
    ...     LabelEncoder,
    ...     SimpleImputer,
    ...     StandardScaler,
    ... )
    >>> rows = [
    ...     {"age": 20.0, "height": 1.5, "kind": "cat"},
    ...     {"age": None, "height": 1.7, "kind": "dog"},
    ...     {"age": 40.0, "height": 1.9, "kind": "cat"},
    ... ]
    >>> ds = skate.data.from_items(rows)
    >>> prepare = Chain(
    ...     SimpleImputer(["age"]),
    ...     StandardScaler(["age", "height"]),
    ...     Concatenator(["age", "height"], output_column_name="x"),
    ...     LabelEncoder("kind"),
    ... )
    >>> [(row["kind"], row["x"].round(2).tolist()) for row in prepare.fit_transform(ds).take_all()]
    [(0, [-1.22, -1.22]), (1, [0.0, 0.0]), (0, [1.22, 1.22])]
    >>> loaded = Chain.deserialize(prepare.serialize())
    >>> loaded.transform_batch({"age": [30.0], "height": [1.7], "kind": ["dog"]})["kind"]
    array([1])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skate import _lazy

if TYPE_CHECKING:
    from skate.data.preprocessors.chain import Chain
    from skate.data.preprocessors.concatenator import Concatenator
    from skate.data.preprocessors.discretizer import CustomKBinsDiscretizer, UniformKBinsDiscretizer
    from skate.data.preprocessors.encoder import (
        Categorizer,
        LabelEncoder,
        MultiHotEncoder,
        OneHotEncoder,
        OrdinalEncoder,
    )
    from skate.data.preprocessors.imputer import SimpleImputer
    from skate.data.preprocessors.scaler import (
        MaxAbsScaler,
        MinMaxScaler,
        Normalizer,
        PowerTransformer,
        RobustScaler,
        StandardScaler,
    )
    from skate.data.preprocessors.torch import TorchVisionPreprocessor
    from skate.data.preprocessors.vectorizer import (
        CountVectorizer,
        FeatureHasher,
        HashingVectorizer,
        Tokenizer,
    )

__all__ = [
    "Categorizer",
    "Chain",
    "Concatenator",
    "CountVectorizer",
    "CustomKBinsDiscretizer",
    "FeatureHasher",
    "HashingVectorizer",
    "LabelEncoder",
    "MaxAbsScaler",
    "MinMaxScaler",
    "MultiHotEncoder",
    "Normalizer",
    "OneHotEncoder",
    "OrdinalEncoder",
    "PowerTransformer",
    "RobustScaler",
    "SimpleImputer",
    "StandardScaler",
    "Tokenizer",
    "TorchVisionPreprocessor",
    "UniformKBinsDiscretizer",
]

_IN = {  # where a name is, below this package
    "chain": ("Chain",),
    "concatenator": ("Concatenator",),
    "discretizer": ("CustomKBinsDiscretizer", "UniformKBinsDiscretizer"),
    "encoder": (
        "Categorizer",
        "LabelEncoder",
        "MultiHotEncoder",
        "OneHotEncoder",
        "OrdinalEncoder",
    ),
    "imputer": ("SimpleImputer",),
    "scaler": (
        "MaxAbsScaler",
        "MinMaxScaler",
        "Normalizer",
        "PowerTransformer",
        "RobustScaler",
        "StandardScaler",
    ),
    "torch": ("TorchVisionPreprocessor",),
    "vectorizer": ("CountVectorizer", "FeatureHasher", "HashingVectorizer", "Tokenizer"),
}
_WHERE = {name: module for module, names in _IN.items() for name in names}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        return _lazy.attribute("skate.data.preprocessors", name, _WHERE)
