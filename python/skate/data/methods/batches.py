"""The methods by which a Dataset and a DataIterator give batches: both inherit them, so each has one
signature and one docstring. What makes the batches is in skate/data/iterator.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack, overload

import skate
from skate._deps import pa, pd, torch
from skate.data import collate_fn as _collate_fn
from skate.data.arguments import TypedDict, takes
from skate.data.checks import library
from skate.data.context import DEFAULT_BATCH_SIZE
from skate.data.util import dtypes as _dtypes
from skate.data.util import jax_arrays, torch_utils

if TYPE_CHECKING:
    from skate.data.collate_fn import CollateFn
    from skate.data.iterator import DataIterator
    from skate.data.typed import NumpyBatch


class BatchOptions(TypedDict, total=False):
    """Arguments of all methods that give batches.

    Args:
        prefetch_batches: Number of batches that a thread prepares ahead, if preparing one is work
            (collate_fn, dtypes, a GPU; for a local shuffle alone only from 2 on); 0: no thread.
            Blocks are always made ahead while their memory budget allows.
        batch_size: Rows of a batch; the last one may have fewer. None: whole blocks.
        drop_last: Leaves out the last batch if it is not full.
        local_shuffle_buffer_size: Minimum number of rows in the buffer from which batches draw
            their rows at random; None: no shuffle. Needs a batch_size.
        local_shuffle_seed: An int: the shuffled order is the same each time; None: a new order each
            time.
    """

    prefetch_batches: int
    batch_size: int | None
    drop_last: bool
    local_shuffle_buffer_size: int | None
    local_shuffle_seed: int | None


F = TypeVar("F", bound=Callable[..., Any])
_METHODS: dict[str, Callable[[Any], Any]] = {}  # of Batches: a decorator for each


def takes_batches(batch_size: int) -> Callable[[F], F]:
    """A decorator for a method of Batches with **options. batch_size: its default."""

    def of(f: F) -> F:
        _METHODS[f.__name__] = takes(
            BatchOptions, prefetch_batches=1, batch_size=batch_size, drop_last=False
        )
        return f

    return of


class Batches:
    """The base class of Dataset and DataIterator."""

    def __init_subclass__(cls) -> None:
        """Gives these two classes methods that go by the name of the class, in errors, too."""
        if Batches in cls.__bases__:
            for name, of in _METHODS.items():
                own = of(vars(Batches)[name])
                own.__qualname__ = f"{cls.__qualname__}.{name}"
                setattr(cls, name, own)

    def _iterator(self) -> DataIterator:
        raise NotImplementedError

    @overload
    def iter_batches(
        self,
        *,
        batch_format: Literal["default", "numpy"] = "default",
        **options: Unpack[BatchOptions],
    ) -> Iterator[NumpyBatch]: ...
    @overload
    def iter_batches(
        self, *, batch_format: Literal["pandas"], **options: Unpack[BatchOptions]
    ) -> Iterator[pd.DataFrame]: ...
    @overload
    def iter_batches(
        self, *, batch_format: Literal["pyarrow"], **options: Unpack[BatchOptions]
    ) -> Iterator[pa.Table]: ...
    @overload
    def iter_batches(
        self,
        *,
        batch_format: str | None = ...,
        _collate_fn: Callable[[Any], Any] | None = ...,
        **options: Unpack[BatchOptions],
    ) -> Iterator[Any]: ...

    @takes_batches(batch_size=DEFAULT_BATCH_SIZE)
    def iter_batches(
        self,
        *,
        batch_format: str | None = "default",
        _collate_fn: Callable[[Any], Any] | None = None,
        **options: Unpack[BatchOptions],
    ) -> Iterator[Any]:
        """Yields batches of exactly batch_size rows (the last may have fewer) while the Dataset
        runs. Closing or dropping the iterator stops the run.

        Args:
            batch_format: "default" or "numpy" (a dict of arrays), "pandas" or "pyarrow"; None:
                "pandas" where the blocks came as DataFrames, else "pyarrow".
            options: See BatchOptions.

        Raises:
            ValueError: batch_size is no positive int, the format is unknown, or a shuffle has no
                batch_size.

        Example:
            >>> import skate
            >>> [len(b["id"]) for b in skate.data.range(5).iter_batches(batch_size=2)]
            [2, 2, 1]
        """
        return self._iterator()._batches(batch_format, _collate_fn, **options)

    @takes_batches(batch_size=DEFAULT_BATCH_SIZE)
    def iter_torch_batches(
        self,
        *,
        dtypes: Any = None,
        device: Any = "auto",
        collate_fn: Callable[..., Any] | CollateFn | None = None,
        pin_memory: bool = False,
        **options: Unpack[BatchOptions],
    ) -> Iterator[Any]:
        """Yields batches of torch tensors while the Dataset runs: a dict of tensors by column, or
        what collate_fn returns.

        A missing number becomes NaN. In a batch where integers or bools are missing, the tensor is
        float64, unless dtypes says otherwise.

        Args:
            dtypes: A torch dtype for all columns, or a dict of dtypes by column; None: the dtypes
                of the NumPy arrays.
            device: Where the tensors go; "auto": the GPU that this process was given, else the CPU.
            collate_fn: A function from the dict of arrays of a batch to what is yielded (it makes
                the tensors itself, so dtypes, device and pin_memory must not be given), or a
                CollateFn, which says which batch format it takes.
            pin_memory: Tensors are made in page-locked memory, from which copies to a GPU are
                faster.
            options: See BatchOptions.

        Raises:
            ValueError: collate_fn is a function and dtypes, device or pin_memory is given.
            TypeError: A column cannot become a tensor: it holds texts or arrays of several shapes,
                or nulls that NaN cannot stand for (beside arrays of integers, or integers beyond
                2**53, or with a dtype of integers or bools).
            ImportError: torch is not installed.
        """
        it = self._iterator()
        if (
            collate_fn is not None
            and not isinstance(collate_fn, _collate_fn.CollateFn)
            and (dtypes is not None or pin_memory or device != "auto")
        ):
            raise ValueError(
                "a collate_fn that is a function cannot be used with dtypes, device or pin_memory; let collate_fn do it"
            )
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() and _gpus() else "cpu"

        cuda = torch.device(device).type == "cuda"
        pin = cuda or bool(pin_memory)
        if pin and not torch.cuda.is_available():
            raise ValueError(
                f"iter_torch_batches: {'device=' + repr(str(device)) if cuda else 'pin_memory=True'} needs a GPU that torch can use; there is none"
            )
        there = (
            torch_utils.ToDevice(device, None if collate_fn is not None else dtypes)
            if cuda
            else None
        )
        send, arrived = (there.send, there.arrived) if there is not None else (None, None)
        if collate_fn is not None:
            return it._collated(collate_fn, device, send, arrived, **options)
        tensors = torch_utils.Tensors(
            None if cuda else dtypes, None if cuda or str(device) == "cpu" else device, pin
        )
        return it._tensors(tensors, send, arrived, **options)

    @takes_batches(batch_size=DEFAULT_BATCH_SIZE)
    def iter_tf_batches(
        self, *, dtypes: Any = None, **options: Unpack[BatchOptions]
    ) -> Iterator[Any]:
        """Yields batches of TensorFlow tensors, a dict by column, while the Dataset runs.

        Args:
            dtypes: A TensorFlow dtype for all columns, or a dict of dtypes by column; None: the
                dtypes of the NumPy arrays.
            options: See BatchOptions.

        Raises:
            ImportError: TensorFlow is not installed.
        """
        tf = library("tensorflow", "iter_tf_batches")

        def convert(batch: dict[str, Any]) -> dict[str, Any]:
            return {
                k: tf.convert_to_tensor(v, dtype=_dtypes.checked(dtypes, k, v))
                for k, v in batch.items()
            }

        return self._iterator()._batches("numpy", convert, **options)

    @takes_batches(batch_size=DEFAULT_BATCH_SIZE)
    def iter_jax_batches(
        self, *, dtypes: Any = None, device: Any = None, **options: Unpack[BatchOptions]
    ) -> Iterator[dict[str, Any]]:
        """Yields batches of jax.Arrays, a dict by column, while the Dataset runs.

        A missing number becomes NaN. JAX makes 32-bit numbers of 64-bit ones unless jax_enable_x64
        is set; whole numbers that do not fit are an error.

        Args:
            dtypes: A dtype of JAX or NumPy for all columns, or a dict of dtypes by column; None:
                those of the NumPy arrays.
            device: A jax.Device, or a jax.sharding.Sharding by which the rows of a batch go to
                several; None: JAX's default device.
            drop_last: Leaves out the last batch if it is not full, so that all have one shape, and
                a function under jax.jit is compiled once.
            options: See BatchOptions.

        Raises:
            ImportError: jax is not installed.
            TypeError: A column cannot become a jax.Array: it holds texts or arrays of several
                shapes.
            ValueError: Whole numbers do not fit into 32 bits.

        Example:
            >>> import skate
            >>> batches = skate.data.range(8).iter_jax_batches(batch_size=4)  # doctest: +SKIP
            >>> [int(batch["id"].sum()) for batch in batches]  # doctest: +SKIP
            [6, 22]
        """
        return self._iterator()._batches("numpy", jax_arrays.ToJax(dtypes, device), **options)

    @takes_batches(batch_size=1)
    def to_torch(
        self,
        *,
        label_column: str | None = None,
        feature_columns: Any = None,
        label_column_dtype: Any = None,
        feature_column_dtypes: Any = None,
        unsqueeze_label_tensor: bool = True,
        unsqueeze_feature_tensors: bool = True,
        **options: Unpack[BatchOptions],
    ) -> Any:
        """A torch IterableDataset of (features, label) batches.

        Args:
            label_column: Name of the label; None: the label of each batch is None.
            feature_columns: Names (one tensor), lists of names (a list of tensors) or a dict of
                lists (a dict of tensors); None: all columns but the label.
            label_column_dtype, feature_column_dtypes: torch dtypes, in the form of feature_columns.
            unsqueeze_label_tensor, unsqueeze_feature_tensors: Scalars become rows of one element.
            options: See BatchOptions.

        Raises:
            TypeError: feature_column_dtypes does not have the form of feature_columns.
            ImportError: torch is not installed.
        """
        if (
            isinstance(feature_columns, dict)
            and feature_column_dtypes is not None
            and not isinstance(feature_column_dtypes, dict | torch.dtype)
        ):
            raise TypeError(
                "feature_column_dtypes must be a dict too, or one dtype, when feature_columns is a dict"
            )

        def batches() -> Iterator[Any]:
            for df in self.iter_batches(batch_format="pandas", **options):
                label = None
                if label_column is not None:
                    label = torch_utils.convert_pandas_to_torch_tensor(
                        df, [label_column], label_column_dtype, unsqueeze_label_tensor
                    )
                    df = df.drop(columns=[label_column])
                if isinstance(feature_columns, dict):
                    d = feature_column_dtypes
                    yield (
                        {
                            k: torch_utils.convert_pandas_to_torch_tensor(
                                df,
                                c,
                                d.get(k) if isinstance(d, dict) else d,
                                unsqueeze_feature_tensors,
                            )
                            for k, c in feature_columns.items()
                        },
                        label,
                    )
                else:
                    yield (
                        torch_utils.convert_pandas_to_torch_tensor(
                            df, feature_columns, feature_column_dtypes, unsqueeze_feature_tensors
                        ),
                        label,
                    )

        class Batches(torch.utils.data.IterableDataset):
            def __iter__(self) -> Iterator[Any]:
                return batches()

        return Batches()

    @takes_batches(batch_size=1)
    def to_tf(
        self,
        feature_columns: Any,
        label_columns: Any,
        *,
        additional_columns: Any = None,
        feature_type_spec: Any = None,
        label_type_spec: Any = None,
        additional_type_spec: Any = None,
        **options: Unpack[BatchOptions],
    ) -> Any:
        """A TensorFlow Dataset of (features, labels[, additional]) batches.

        Args:
            feature_columns, label_columns, additional_columns: A name (one tensor) or a list of
                names (a dict of tensors).
            feature_type_spec, label_type_spec, additional_type_spec: TypeSpecs; None: inferred from
                the first batch.
            options: See BatchOptions.

        Raises:
            ImportError: TensorFlow is not installed.
        """
        tf = library("tensorflow", "to_tf")
        wanted = [c for c in (feature_columns, label_columns, additional_columns) if c is not None]

        def batches() -> Iterator[Any]:
            for b in self.iter_tf_batches(**options):
                yield tuple(b[c] if isinstance(c, str) else {k: b[k] for k in c} for c in wanted)

        first = next(iter(batches()))
        given = [
            s
            for c, s in zip(
                (feature_columns, label_columns, additional_columns),
                (feature_type_spec, label_type_spec, additional_type_spec),
                strict=True,
            )
            if c is not None
        ]

        def spec(t: Any) -> Any:
            return (
                {k: spec(v) for k, v in t.items()}
                if isinstance(t, dict)
                else tf.TensorSpec((None, *t.shape[1:]), t.dtype)
            )

        specs = tuple(s if s is not None else spec(t) for s, t in zip(given, first, strict=True))
        return tf.data.Dataset.from_generator(batches, output_signature=specs)


def _gpus() -> bool:
    try:
        return bool(skate.get_gpu_ids())
    except Exception:
        return False
