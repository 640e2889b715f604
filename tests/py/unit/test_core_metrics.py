"""The user's own metrics: counted in the process, and checked as in Ray."""

import pickle

import pytest
from skate.util.metrics import Counter, Gauge, Histogram


def test_values():
    c = Counter("c", tag_keys=("k",)).set_default_tags({"k": "a"})
    c.inc()
    c.inc(2, {"k": "b"})
    c.inc(3)
    assert c.values == {(("k", "a"),): 4.0, (("k", "b"),): 2.0}
    g = Gauge("g")
    g.set(1)
    g.set(-2.5)
    assert g.values == {(): -2.5}
    h = Histogram("h", boundaries=[1, 10])
    for v in (0.5, 1, 2, 11):
        h.observe(v)
    assert h.values == {(): ([2, 1, 1], 14.5)}
    again = pickle.loads(pickle.dumps(h))
    assert again.info == h.info and again.values == {}


def test_bad_input():
    c = Counter("c", tag_keys=("k",))
    with pytest.raises(ValueError, match="metric c: no value for k"):
        c.inc()
    with pytest.raises(ValueError, match="no tag 'x'"):
        c.inc(tags={"x": "1"})
    with pytest.raises(ValueError, match=">0"):
        c.inc(0, {"k": "1"})
    with pytest.raises(TypeError):
        c.inc("1", {"k": "1"})
    with pytest.raises(ValueError):
        Gauge("")
    with pytest.raises(TypeError):
        Gauge("g", tag_keys="k")
    with pytest.raises(ValueError):
        Histogram("h", boundaries=[2, 1])
