"""Ray's names for the statistics of runs (run/stats.py) and for summaries (summary.py)."""

from skate.data.run.stats import DatasetStats  # noqa: F401
from skate.data.summary import Aggregators as _DtypeAggregators  # noqa: F401
from skate.data.summary import DatasetSummary  # noqa: F401
from skate.data.summary import aggregators as _dtype_aggregators_for_dataset  # noqa: F401
from skate.data.summary import basic as _basic_aggregators  # noqa: F401
from skate.data.summary import defaults as _default_dtype_aggregators  # noqa: F401
from skate.data.summary import numerical as _numerical_aggregators  # noqa: F401
from skate.data.summary import temporal as _temporal_aggregators  # noqa: F401
