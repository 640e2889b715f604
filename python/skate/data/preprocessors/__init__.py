"""Preprocessors learn from a Dataset's columns in one pass, and change batches and Datasets. Names
and arguments are Ray's.

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

from skate import _lazy

_names = _lazy.Names(__name__)
__getattr__, __dir__ = _names.get, _names.dir
