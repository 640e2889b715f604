"""TorchVisionPreprocessor: a transform of torchvision, or any function of tensors, on columns of
images."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from skate._deps import np, torch
from skate.data.preprocessors.base import Builtin
from skate.data.preprocessors.version_support import OURS, SerializablePreprocessor
from skate.data.util.data_batch_conversion import BatchFormat
from skate.data.values.unify import MissingColumn, columns_are


@SerializablePreprocessor(version=1, identifier=OURS + "torchvision_preprocessor")
class TorchVisionPreprocessor(Builtin):
    """Applies a transform to each image.

    Args:
        columns: Names of columns of arrays.
        transform: A function from a torch tensor of the array's shape to a tensor or an array. If
            it raises TypeError, it gets the array itself, as ToTensor wants it.
        output_columns: Names of the results, one for each column; None: the columns are replaced.
        batched: Whether the transform gets all images of a batch as one array, along the first
            axis.

    Raises:
        ValueError: During the run: the transform returned something else.
    """

    columns: list[str]
    output_columns: list[str]
    torchvision_transform: Callable[[Any], Any]
    batched: bool
    _is_fittable = False

    def __init__(
        self,
        columns: list[str],
        transform: Callable[[Any], Any],
        output_columns: list[str] | None = None,
        batched: bool = False,
    ):
        super().__init__()
        self._keep(
            columns=columns,
            output_columns=output_columns,
            torchvision_transform=transform,
            batched=batched,
        )

    def __repr__(self) -> str:
        return f"TorchVisionPreprocessor(columns={self.columns!r}, output_columns={self.output_columns!r}, transform={self.torchvision_transform!r})"

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(
            {
                "batched": False,
                **({} if "_output_columns" in state else {"output_columns": state.get("columns")}),
                **state,
            }
        )

    def _determine_transform_to_use(self) -> BatchFormat:
        return BatchFormat.NUMPY

    def _transform_batch(self, data: Any) -> Any:
        return super(Builtin, self)._transform_batch(data)

    def _transform_numpy(self, np_data: Any) -> Any:
        if not isinstance(np_data, Mapping):
            return self._images(np_data)
        made = {}
        for name, out in zip(self.columns, self.output_columns, strict=True):
            if name not in np_data:
                raise MissingColumn(
                    f"TorchVisionPreprocessor: there is no column {name!r}; {columns_are(name, np_data)}"
                )
            made[out] = self._images(np_data[name])
        return {**np_data, **made}

    def _images(self, arrays: Any) -> Any:
        if self.batched:
            return self._image(arrays)
        made = [self._image(a) for a in arrays]
        if len({(m.shape, m.dtype) for m in made}) == 1:
            return np.stack(made)
        out = np.empty(len(made), object)
        out[:] = made
        return out

    def _image(self, array: Any) -> Any:
        try:
            made = self.torchvision_transform(
                torch.as_tensor(array if array.flags.writeable else array.copy())
            )
        except TypeError:
            made = self.torchvision_transform(array)
        made = made.numpy() if isinstance(made, torch.Tensor) else made
        if not isinstance(made, np.ndarray):
            raise ValueError(
                f"TorchVisionPreprocessor: transform gave a value of type {type(made).__name__}; it gives a torch tensor or a NumPy array"
            )
        return made
