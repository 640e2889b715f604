"""bench/py/paper.py: its arithmetic, and that the simulator understands its arguments."""

import os

import pytest
from scripts import script

HERE = os.path.join(
    os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "bench", "py", "paper.py"
)


@pytest.fixture(scope="module")
def paper():
    return script(HERE, "paper_bench")


def test_the_published_run_costs_what_was_published(paper):
    assert paper.dollars(40, 5378, 1870, 100e12, 6e6, 1e6) == pytest.approx(97, abs=0.5)


def test_what_limits_each_strategy(paper):
    """The index of 100 TB fits into a driver, that of 10 PB does not; merges on two levels work if
    the owners of objects are on the nodes."""
    small, large = paper.limits(40, 100e12, "index"), paper.limits(4000, 10e15, "index")
    assert small[2] < 100 < 10_000 < large[2] and max(large[0], key=large[0].get) == "driver"
    need, _, gb = paper.limits(4000, 10e15, "two_level, owners on nodes")
    assert max(need, key=need.get) == "network" and gb < 1
    assert need["network"] == pytest.approx(paper.limits(40, 100e12, "index")[0]["network"])


def test_rows_run(paper):
    if not os.path.exists(paper.BENCH):
        pytest.skip("scale_bench is not built")
    for conf in (
        paper.local_sort(paper.I3, 10, 10e9, 40, "push"),
        paper.cloud_sort(paper.I4I, 4, 80e9),
    ):
        r = paper.run(conf)
        assert r["sec"] > r["map_sec"] > 0 and r["moved_bytes"] == pytest.approx(
            conf["bytes"] * (1 - 1 / conf["nodes"]), rel=0.02
        )


def test_a_field_that_is_none_is_refused(paper):
    if not os.path.exists(paper.BENCH):
        pytest.skip("scale_bench is not built")
    with pytest.raises(SystemExit, match="'colour' is no field"):
        paper.run({"colour": 1})
