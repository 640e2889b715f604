"""Preprocessor: learns from one Dataset (fit) and changes this or another Dataset (transform).
skate.data.preprocessors has the built-in ones. A user's own class defines

- `_transform_pandas(df)`, `_transform_numpy(dict of arrays)` or `_transform_arrow(table)`, each of
  which returns a batch; if several are defined, `preferred_batch_format()` chooses;
- `_fit(ds)`, which sets attributes whose names end with "_" (`self.stats_ = {...}`), or adds
  aggregates to `self.stat_computation_plan`, and returns self; or `_is_fittable = False`.
"""

from __future__ import annotations

import abc
import base64
import enum
import io
import pickle
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from skate import _job
from skate._deps import by_value, np, pa
from skate.data import dataset
from skate.data.on_error import UntrustedPickleError
from skate.data.preprocessors.utils import StatComputationPlan
from skate.data.preprocessors.version_support import UnknownPreprocessorError, class_of
from skate.data.run import errors
from skate.data.util.data_batch_conversion import BatchFormat
from skate.data.values import batch, frames, marks, unify

__all__ = [
    "Preprocessor",
    "PreprocessorNotFittedException",
    "SerializablePreprocessorBase",
]

if TYPE_CHECKING:
    from skate.data.dataset import Dataset


_METHODS = {
    BatchFormat.PANDAS: "_transform_pandas",
    BatchFormat.ARROW: "_transform_arrow",
    BatchFormat.NUMPY: "_transform_numpy",
}


class PreprocessorNotFittedException(RuntimeError):
    """transform() was called before fit()."""


@errors.methods
class Preprocessor:
    """Learns from a Dataset and changes rows by what it has learned (see the docstring of the
    module)."""

    class FitStatus(enum.StrEnum):
        """Whether fit() has run. PARTIALLY_FITTED: for some preprocessors of a Chain."""

        NOT_FITTABLE = "NOT_FITTABLE"
        NOT_FITTED = "NOT_FITTED"
        PARTIALLY_FITTED = "PARTIALLY_FITTED"
        FITTED = "FITTED"

    _is_fittable = True
    _fitted = False
    stats_: Any = {}  # the learned values; each fit() makes a new dict

    def __init__(self) -> None:
        self.stats_ = {}

    @property
    def stat_computation_plan(self) -> StatComputationPlan:
        """The aggregates that fit() computes in its single pass over the Dataset; `_fit` adds
        aggregates to it."""
        return self.__dict__.setdefault("_stat_computation_plan", StatComputationPlan())

    def fit_status(self) -> Preprocessor.FitStatus:
        """Whether this preprocessor can be fitted, and whether it has been."""
        if not self._is_fittable:
            return Preprocessor.FitStatus.NOT_FITTABLE
        learned = self._fitted or any(
            name.endswith("_") and bool(value) for name, value in vars(self).items()
        )
        return Preprocessor.FitStatus.FITTED if learned else Preprocessor.FitStatus.NOT_FITTED

    def has_stats(self) -> bool:
        """Whether it has learned values."""
        return bool(self.stats_)

    def fit(self, ds: Dataset) -> Preprocessor:
        """Learns from a Dataset, which runs here. Earlier learned values are dropped, with a
        warning.

        Args:
            ds: The Dataset.

        Returns:
            This preprocessor.

        Raises:
            TypeError: ds is no Dataset, or a column holds values that the preprocessor cannot
                handle.
            ValueError: The Dataset has no rows, or a column has missing values where each value
                must be a category.
            KeyError: A column does not exist.
        """
        self._check_dataset(ds, "fit")
        status = self.fit_status()
        if status is Preprocessor.FitStatus.NOT_FITTABLE:
            return self
        if status is not Preprocessor.FitStatus.NOT_FITTED:
            warnings.warn(
                f"{type(self).__name__} was fitted before: what it had learned is replaced",
                stacklevel=2,
            )
        self._forget()
        fitted = self._fit(ds)._fit_execute(ds)
        self._fitted = True
        return fitted

    def _forget(self) -> None:
        self.stat_computation_plan.reset()
        self.stats_, self._fitted = {}, False

    def _fit(self, ds: Dataset) -> Preprocessor:
        raise NotImplementedError(
            f"{type(self).__name__} defines no _fit(ds), and does not say _is_fittable = False"
        )

    def _fit_execute(self, dataset: Dataset) -> Preprocessor:
        """Computes the aggregates that `_fit` has added."""
        self._take(self.stat_computation_plan.compute(dataset, f"fit of {type(self).__name__}"))
        return self

    def _take(self, found: dict[str, Any]) -> None:
        """Stores the results of the aggregates."""
        self.stats_ = {**self.stats_, **found}

    def fit_transform(
        self,
        ds: Dataset,
        *,
        transform_num_cpus: float | None = None,
        transform_memory: float | None = None,
        transform_batch_size: int | None = None,
        transform_concurrency: int | None = None,
    ) -> Dataset:
        """fit(), then transform() of the same Dataset.

        Args:
            ds: The Dataset.
            transform_num_cpus, transform_memory, transform_batch_size, transform_concurrency: The
                arguments of transform() with these names, without `transform_`.
        """
        more = {"num_cpus": transform_num_cpus, "memory": transform_memory}
        return self.fit(ds).transform(
            ds, batch_size=transform_batch_size, concurrency=transform_concurrency, **more
        )

    def transform(
        self,
        ds: Dataset,
        *,
        batch_size: int | None = None,
        num_cpus: float | None = None,
        memory: float | None = None,
        concurrency: int | None = None,
    ) -> Dataset:
        """Returns the Dataset with its rows changed by one map_batches(); nothing runs yet.

        Args:
            ds: The Dataset.
            batch_size: Maximum rows of a batch; None: whole blocks.
            num_cpus: CPUs that each task reserves; None: 1.
            memory: Bytes that each task reserves.
            concurrency: Maximum number of tasks at once.

        Raises:
            PreprocessorNotFittedException: fit() was not called.
            KeyError: A column does not exist, as far as the columns are known before the Dataset
                runs.
        """
        self._check_dataset(ds, "transform")
        self._check_fitted("transform")
        return self._transform(ds, batch_size, num_cpus, memory, concurrency)

    def transform_batch(self, data: Any) -> Any:
        """Changes one batch in this process. The built-in preprocessors return a batch of the kind
        that they get; a user's own class returns what its function returns.

        Args:
            data: A DataFrame, a pyarrow Table, a dict of arrays, or an array (a batch with the
                column "data"). It is not modified.

        Raises:
            PreprocessorNotFittedException: fit() was not called.
            ValueError: data is no batch.
        """
        self._check_fitted("transform_batch")
        return self._transform_batch(data)

    def _check_dataset(self, ds: Dataset, what: str) -> None:
        if not isinstance(ds, dataset.Dataset):
            raise TypeError(
                f"{type(self).__name__}.{what} takes a Dataset, not {type(ds).__name__}; from_pandas, from_arrow and from_numpy make one, transform_batch takes a batch"
            )

    def _check_fitted(self, what: str) -> None:
        if self.fit_status() in (
            Preprocessor.FitStatus.NOT_FITTED,
            Preprocessor.FitStatus.PARTIALLY_FITTED,
        ):
            raise PreprocessorNotFittedException(
                f"{type(self).__name__}.{what}: it has not learned anything yet; call fit(ds) first, or fit_transform(ds)"
            )

    def _determine_transform_to_use(self) -> BatchFormat:
        """The format of the batches that the preprocessor works on."""
        own = [
            f
            for f, name in _METHODS.items()
            if getattr(type(self), name) is not getattr(Preprocessor, name)
        ]
        if not own:
            raise NotImplementedError(
                f"{type(self).__name__} defines none of {', '.join(_METHODS.values())}: one of them has to say what it does to a batch"
            )
        return own[0] if len(own) == 1 else self.preferred_batch_format()

    @classmethod
    def preferred_batch_format(cls) -> BatchFormat:
        """The batch format of a class that has functions for several formats."""
        return BatchFormat.PANDAS

    def _get_transform_config(self) -> dict[str, Any]:
        """Arguments for map_batches; a user's own class may override this."""
        return {}

    def _transform(
        self,
        ds: Dataset,
        batch_size: Any,
        num_cpus: Any = None,
        memory: Any = None,
        concurrency: Any = None,
    ) -> Any:
        fmt = BatchFormat(self._determine_transform_to_use())
        given = {
            "num_cpus": num_cpus,
            "memory": memory,
            "batch_size": batch_size,
            "concurrency": concurrency,
        }
        options = {
            **self._get_transform_config(),
            **{k: v for k, v in given.items() if v is not None},
        }
        name = "pyarrow" if fmt is BatchFormat.ARROW else fmt.value
        return ds.map_batches(
            getattr(self, _METHODS[fmt]), batch_format=name, zero_copy_batch=True, **options
        )

    def _transform_batch(self, data: Any) -> Any:
        table = as_table(data, f"{type(self).__name__}.transform_batch")
        fmt = BatchFormat(self._determine_transform_to_use())
        if fmt is BatchFormat.NUMPY and isinstance(data, np.ndarray):
            return self._transform_numpy(data)
        if fmt is BatchFormat.ARROW:
            return self._transform_arrow(table)
        if fmt is BatchFormat.PANDAS:
            return self._transform_pandas(
                data.copy(deep=False) if is_frame(data) else frames.table_to_pandas(table)
            )
        return self._transform_numpy(
            dict(data) if isinstance(data, Mapping) else batch.to_batch(one_batch(table), "numpy")
        )

    def _transform_pandas(self, df: Any) -> Any:
        raise NotImplementedError

    def _transform_numpy(self, np_data: Any) -> Any:
        raise NotImplementedError

    def _transform_arrow(self, table: Any) -> Any:
        raise NotImplementedError

    def get_input_columns(self) -> list[str]:
        """The columns that the preprocessor reads; an empty list if they are unknown."""
        return getattr(self, "_columns", getattr(self, "columns", []))

    def get_output_columns(self) -> list[str]:
        """The columns that the preprocessor makes; an empty list if they are unknown."""
        return getattr(self, "_output_columns", getattr(self, "output_columns", []))

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k != "_stat_computation_plan"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def serialize(self) -> str | bytes:
        """The preprocessor as text for deserialize(). It is pickled, so the process that calls
        deserialize() must be able to import its class."""
        return base64.b64encode(_job.signed(pickle.dumps(self))).decode("ascii")

    @staticmethod
    def deserialize(serialized: str | bytes) -> Any:
        """Makes a preprocessor from the result of serialize().

        Text from another job is accepted for built-in preprocessors that contain data only.
        Unpickling functions or classes of a program runs code, so these need
        DataContext.trust_pickled_columns.

        Args:
            serialized: The text.

        Raises:
            UntrustedPickleError: The text is from another job, and contains more than data.
        """
        return _loaded(base64.b64decode(serialized))


class _DataOnly(pickle.Unpickler):
    """Unpickles the fields of built-in preprocessors if they are data only: their own classes,
    containers, numbers, arrays. It allows only callables that make such values."""

    KNOWN: ClassVar[dict[str, tuple[str, ...]]] = {
        "builtins": (
            "set",
            "frozenset",
            "complex",
            "bytearray",
            "int",
            "float",
            "bool",
            "str",
            "bytes",
            "list",
            "tuple",
            "dict",
            "range",
            "slice",
        ),
        "collections": ("OrderedDict", "defaultdict", "Counter"),
        "datetime": ("date", "datetime", "time", "timedelta", "timezone"),
        "decimal": ("Decimal",),
        "numpy": ("dtype", "ndarray"),
        "numpy.core.multiarray": ("_reconstruct", "scalar"),
        "numpy._core.multiarray": ("_reconstruct", "scalar"),
        "numpy.core.numeric": ("_frombuffer",),
        "numpy._core.numeric": ("_frombuffer",),
        "skate.data.preprocessors.utils": ("simple_split_tokenizer", "simple_hash"),
    }

    def find_class(self, module: str, name: str) -> Any:
        if name in self.KNOWN.get(module, ()):
            return super().find_class(module, name)
        if module.startswith("skate.data.preprocessors.") and "." not in name:
            found = super().find_class(module, name)
            if (
                isinstance(found, type)
                and found.__module__ == module
                and not issubclass(found, BaseException)
            ):
                return found
        raise UntrustedPickleError(
            f"deserialize: this preprocessor was serialized outside of this job, and holds {module}.{name}. To make that runs code, so it is not done. If you trust who wrote it, set "
            "DataContext.get_current().trust_pickled_columns = True"
        )


def _loaded(data: bytes) -> Any:
    """Unpickles the result of serialize(): any object if the bytes are from this job or other jobs
    are trusted; else only data."""
    try:
        return marks.unpickled(data, "deserialize")
    except UntrustedPickleError:
        return _DataOnly(io.BytesIO(data)).load()


def is_frame(data: Any) -> bool:
    """Whether this is a DataFrame; does not import pandas to find out."""
    return type(data).__module__.split(".")[0] == "pandas" and hasattr(data, "columns")


def as_table(data: Any, who: str) -> Any:
    """A batch as a pyarrow Table; ValueError if it is no batch."""
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, np.ndarray):
        data = {"data": data}
    if (
        not isinstance(data, Mapping | pa.RecordBatch)
        and not is_frame(data)
        and not hasattr(data, "__arrow_c_stream__")
    ):
        raise ValueError(
            f"{who} takes a DataFrame, a pyarrow Table, a dict of arrays or an array, not {type(data).__name__}"
        )
    batches = batch.from_batch(data, who, marks=True)
    return pa.Table.from_batches(batches) if batches else pa.table({})


def one_batch(table: Any) -> Any:
    """A Table as one RecordBatch."""
    batches = table.to_batches()
    return (
        batches[0]
        if len(batches) == 1
        else unify.merge(batches)
        if batches
        else pa.RecordBatch.from_pylist([], schema=table.schema)
    )


class SerializablePreprocessorBase(Preprocessor, abc.ABC):
    """A Preprocessor that is stored as its fields and learned values under its own name, so that
    its class may change or move. @SerializablePreprocessor(version=, identifier=) of
    skate.data.preprocessors.version_support sets the name; a class defines
    `_get_serializable_fields()` and `_set_serializable_fields(fields, version)`."""

    MAGIC_CLOUDPICKLE: ClassVar[bytes] = b"CPKL:"
    SERIALIZER_FORMAT_VERSION: ClassVar[int] = 1
    _version: ClassVar[int]
    _identifier: ClassVar[str]

    @abc.abstractmethod
    def _get_serializable_fields(self) -> dict[str, Any]:
        """The arguments of the constructor, by name."""

    @abc.abstractmethod
    def _set_serializable_fields(self, fields: dict[str, Any], version: int) -> None:
        """Restores a new object, whose constructor was not called, from fields.

        Args:
            fields: The result of _get_serializable_fields().
            version: The version of the class that made the fields.
        """

    def _get_stats(self) -> Any:
        return self.stats_

    def _set_stats(self, stats: Any) -> None:
        self.stats_ = stats

    @classmethod
    def get_preprocessor_class_id(cls) -> str:
        """The name of the class in serialized data."""
        return cls._identifier

    @classmethod
    def set_preprocessor_class_id(cls, identifier: str) -> None:
        """Sets the name of the class in serialized data."""
        cls._identifier = identifier

    @classmethod
    def get_version(cls) -> int:
        """The version of the class in serialized data."""
        return cls._version

    @classmethod
    def set_version(cls, version: int) -> None:
        """Sets the version of the class in serialized data."""
        cls._version = version

    def serialize(self) -> bytes:
        """The preprocessor as bytes for deserialize(): b"CPKL:" and a cloudpickled dict. Ray can
        read the bytes of built-in preprocessors that contain no function (such as tokenizers) and
        no other preprocessor."""
        if not hasattr(self, "_identifier"):
            raise TypeError(
                f"{type(self).__name__} has no name to be serialized under; decorate the class with @SerializablePreprocessor(version=1, identifier='...')"
            )
        data = {
            "type": self.get_preprocessor_class_id(),
            "version": self.get_version(),
            "fields": self._get_serializable_fields(),
            "stats": self._get_stats(),
            "serializer_format_version": self.SERIALIZER_FORMAT_VERSION,
        }
        return self.MAGIC_CLOUDPICKLE + _job.signed(by_value.dumps(data))

    @staticmethod
    def deserialize(serialized: str | bytes) -> Any:
        """Makes a preprocessor of the original class from the result of serialize(). For data of
        another job see Preprocessor.deserialize().

        Args:
            serialized: The bytes; or text of Preprocessor.serialize().

        Raises:
            UntrustedPickleError: It is from another job, and contains more than data.
            UnknownPreprocessorError: No class has this name; import the module that defines the
                class first.
            ValueError: The data is damaged, or is no serialized preprocessor.
        """
        magic = SerializablePreprocessorBase.MAGIC_CLOUDPICKLE
        try:
            if isinstance(serialized, str):
                return Preprocessor.deserialize(serialized)
            if not serialized.startswith(magic):
                raise ValueError(f"it does not begin with {magic!r}")
            data = _loaded(serialized[len(magic) :])
            cls = class_of(data["type"])
            if data["serializer_format_version"] != cls.SERIALIZER_FORMAT_VERSION:
                raise ValueError(
                    f"its layout is of version {data['serializer_format_version']}, and {cls.SERIALIZER_FORMAT_VERSION} is known"
                )
            made = cls.__new__(cls)
            made._set_serializable_fields(fields=data["fields"], version=data["version"])
            made._set_stats(stats=data["stats"])
            return made
        except (UnknownPreprocessorError, UntrustedPickleError):
            raise
        except Exception as e:
            raise ValueError(
                f"these bytes are no serialized preprocessor ({type(e).__name__}: {e}); they begin with {serialized[:20]!r}"
            ) from e
