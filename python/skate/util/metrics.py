"""Counter, Gauge, Histogram: the user's own metrics; and metrics of the engine and these as text for
Prometheus. `values` of a metric shows the numbers of its process; the text of the driver has those of
tasks and actors, too (_private/metrics_board.py)."""

import time
from bisect import bisect_left

from skate import _forked
from skate._private import metrics_board, prometheus
from skate._private.prometheus import prometheus_text, write_prometheus

__all__ = [
    "Counter",
    "Gauge",
    "Histogram",
    "Metric",
    "prometheus_text",
    "write_prometheus",
]


class Metric:
    """The base of all metrics. name: not empty; tag_keys: names of the tags (str) that values may
    have. TypeError, ValueError for invalid arguments."""

    kind = "gauge"  # of Prometheus

    def __init__(self, name, description="", tag_keys=None):
        if not isinstance(name, str) or not name:
            raise ValueError("Empty name is not allowed. Please provide a metric name.")
        if tag_keys is not None and not isinstance(tag_keys, tuple):
            raise TypeError(f"metric {name}: tag_keys is a tuple of names, not {type(tag_keys)}")
        for key in tag_keys or ():
            if not isinstance(key, str):
                raise TypeError(f"metric {name}: the tag key {key!r} is not text but {type(key)}")
        self._name, self._description, self._tag_keys, self._default_tags = (
            name,
            description,
            tag_keys or (),
            {},
        )
        self._values, self._lock = {}, _forked.lock()
        self._what = self.kind, name, description, tag_keys or (), ()
        prometheus.known.add(self)

    def set_default_tags(self, default_tags):
        """Sets the tags for values that do not name their own. Returns the metric itself."""
        self._default_tags = self._checked(default_tags)
        return self

    @property
    def info(self):
        return {
            "name": self._name,
            "description": self._description,
            "tag_keys": self._tag_keys,
            "default_tags": self._default_tags,
        }

    @property
    def values(self):
        """The numbers of this process, by tuples of (tag, value); for a histogram a number is
        ([count of each bucket], sum)."""
        with self._lock:
            return {
                k: (list(v[0]), v[1]) if isinstance(v, list) else v for k, v in self._values.items()
            }

    def _checked(self, tags):
        for key, value in (tags or {}).items():
            if key not in self._tag_keys:
                raise ValueError(
                    f"metric {self._name}: no tag {key!r} in tag_keys {self._tag_keys}"
                )
            if not isinstance(value, str):
                raise TypeError(
                    f"metric {self._name}: the value of tag {key} is not text but {type(value)}"
                )
        return dict(tags or {})

    def _key(self, value, tags):
        if not isinstance(value, (int, float)):
            raise TypeError(f"metric {self._name}: a value is a number, not {type(value)}")
        tags = {**self._default_tags, **self._checked(tags)}
        missing = [k for k in self._tag_keys if k not in tags]
        if missing:
            raise ValueError(
                f"metric {self._name}: no value for {', '.join(missing)}; give tags={{...}}, or set_default_tags() once"
            )
        return tuple(sorted(tags.items()))

    def __reduce__(self):  # in another process a metric starts from zero
        return _again, (
            type(self),
            self._name,
            self._description,
            self._tag_keys,
            self._default_tags,
            getattr(self, "boundaries", None),
        )


def _again(cls, name, description, tag_keys, default_tags, boundaries):
    m = (
        cls(name, description, tag_keys=tag_keys)
        if boundaries is None
        else cls(name, description, boundaries, tag_keys)
    )
    return m.set_default_tags(default_tags)


class Counter(Metric):
    """A number that never decreases."""

    kind = "counter"

    def inc(self, value=1.0, tags=None):
        """Adds value, which must be above 0."""
        key = self._key(value, tags)
        if value <= 0:
            raise ValueError(f"value must be >0, got {value}")
        board = metrics_board.mine()
        with self._lock:
            self._values[key] = self._values.get(key, 0.0) + value
            if board is not None:
                board.add(self, key, 1, {0: value})


class Gauge(Metric):
    """The last number that was set."""

    def __init__(self, name, description="", tag_keys=None):
        super().__init__(name, description, tag_keys)
        self._times = {}

    def set(self, value, tags=None):
        key = self._key(value, tags)
        board = metrics_board.mine()
        with self._lock:
            self._values[key] = value
            self._times[key] = time.monotonic()
            if board is not None:
                board.set(self, key, value)


class Histogram(Metric):
    """The number of values in each bucket. boundaries: the upper ends of all buckets but the last,
    above 0 and increasing."""

    kind = "histogram"

    def __init__(self, name, description="", boundaries=None, tag_keys=None):
        super().__init__(name, description, tag_keys)
        if not boundaries:
            raise ValueError(
                f"histogram {name}: give boundaries, the upper ends of its buckets, such as boundaries=[0.1, 1, 10]"
            )
        if any(b <= 0 for b in boundaries) or list(boundaries) != sorted(boundaries):
            raise ValueError(
                f"histogram {name}: boundaries {list(boundaries)} are not rising from above 0"
            )
        self.boundaries = list(boundaries)
        self._what = *self._what[:-1], tuple(boundaries)

    def observe(self, value, tags=None):
        key = self._key(value, tags)
        board, bucket = metrics_board.mine(), bisect_left(self.boundaries, value)
        with self._lock:
            v = self._values.setdefault(key, [[0] * (len(self.boundaries) + 1), 0.0])
            v[0][bucket] += 1
            v[1] += value
            if board is not None:
                n = len(self.boundaries) + 2
                board.add(self, key, n, {bucket: 1, n - 1: value})

    @property
    def info(self):
        return {**super().info, "boundaries": self.boundaries}
