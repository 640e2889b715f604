"""The public names of skate.data, in one place; the package takes them from here when the first one is asked for."""

from __future__ import annotations

from skate.data import context  # noqa: F401
from skate.data.context import DataContext, ExecutionOptions, ExecutionResources  # noqa: F401
from skate.data.dataset import ActorPoolStrategy, Dataset, MaterializedDataset, TaskPoolStrategy  # noqa: F401
from skate.data.iterator import DataIterator  # noqa: F401
from skate.data.read.binary import read_binary_files  # noqa: F401
from skate.data.read.csv import read_csv  # noqa: F401
from skate.data.read.images import read_images  # noqa: F401
from skate.data.read.json import read_json  # noqa: F401
from skate.data.read.memory import from_arrow, from_blocks, from_items, from_numpy, from_pandas  # noqa: F401
from skate.data.read.parquet import read_parquet  # noqa: F401
from skate.data.read.range import range, range_tensor  # noqa: F401
from skate.data.read.text import read_text  # noqa: F401
from skate.data.schema import Schema  # noqa: F401
from skate.data.write.job import SaveMode  # noqa: F401
