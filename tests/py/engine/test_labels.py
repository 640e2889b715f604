"""Labels of the node, and what their selectors let run: tasks, actors, groups, operators."""

import types

import pytest
from skate import _labels
from skate.exceptions import TaskUnschedulableError
from skate.util.placement_group import placement_group

FITS = [
    {},
    {"zone": "a"},
    {"zone": "in(b, a)"},
    {"zone": "!b"},
    {"zone": "!in(b,c)"},
    {"other": "!x"},  # what is not there differs from any value
    {"zone": "a", "tier": "gold"},
]
DOES_NOT = [
    ({"zone": "b"}, "zone is 'a' here"),
    ({"zone": "in(b, c)"}, "zone is 'a' here"),
    ({"zone": "!a"}, "zone is 'a' here"),
    ({"zone": "!in(a, b)"}, "zone is 'a' here"),
    ({"other": "x"}, "there is no other here"),
    ({"zone": "a", "other": "in(x)"}, "there is no other here"),
]


@pytest.fixture
def ray(fresh):
    return fresh(labels={"zone": "a", "tier": "gold"})


def test_labels_of_the_node(ray):
    labels = ray.nodes()[0]["Labels"]
    assert labels == {
        "ray.io/node-id": ray.get_runtime_context().get_node_id(),
        "zone": "a",
        "tier": "gold",
    }
    there = ray.remote(lambda: ray.get_runtime_context().get_node_labels())
    here = {"ray.io/node-id": labels["ray.io/node-id"]}
    assert ray.get(there.options(label_selector=here).remote()) == labels


def test_tasks_and_actors(ray):
    @ray.remote
    def f():
        return 1

    @ray.remote
    class A:
        def f(self):
            return 1

    for selector in FITS:
        assert ray.get(f.options(label_selector=selector).remote()) == 1
    assert ray.get(A.options(label_selector=FITS[2]).remote().f.remote()) == 1
    for selector, text in DOES_NOT:
        with pytest.raises(TaskUnschedulableError, match=text):
            ray.get(f.options(label_selector=selector).remote())
    with pytest.raises(TaskUnschedulableError, match=r"init\(labels="):
        ray.get(A.options(label_selector={"zone": "b"}).remote().f.remote())

    def inside():
        return ray.get(f.options(label_selector={"zone": "b"}).remote())

    # a node asks its driver, and hears that no node fits
    with pytest.raises(
        TaskUnschedulableError, match="zone is 'a' here|no node that has the labels which it asks"
    ):
        ray.get(ray.remote(inside).remote())


def test_a_fallback(ray):
    f = ray.remote(lambda: 1)
    no = {"zone": "b"}
    fallback = [{"label_selector": {"zone": "c"}}, {"label_selector": {"tier": "gold"}}]
    assert ray.get(f.options(label_selector=no, fallback_strategy=fallback).remote()) == 1
    with pytest.raises(TaskUnschedulableError, match=r"{'zone': 'b'} or {'zone': 'c'}"):
        ray.get(f.options(label_selector=no, fallback_strategy=fallback[:1]).remote())


def test_placement_groups(ray):
    assert placement_group([{"CPU": 1}], bundle_label_selector=[{"zone": "a"}]).wait(30)
    with pytest.raises(TaskUnschedulableError, match="zone is 'a' here"):
        placement_group([{"CPU": 1}] * 2, bundle_label_selector=[{}, {"zone": "!a"}])


def test_operators(ray, tmp_path):
    ds = ray.data.range(9)
    yes, no = {"label_selector": {"zone": "in(a, b)"}}, {"label_selector": {"zone": "b"}}
    assert ds.map(lambda r: r, **yes).random_shuffle(**yes).count() == 9
    back = [{"label_selector": {"tier": "gold"}}]
    assert ds.map(lambda r: r, **no, fallback_strategy=back).count() == 9
    for out, label in (
        (ds.map(lambda r: r, **no), "Map"),
        (ds.filter(expr="id > 3", **no).sort("id"), "Filter"),
        (ds.random_shuffle(**no), "RandomShuffle"),
        (ds.join(ds, "inner", 2, ("id",), aggregator_ray_remote_args=no), "Join"),
    ):
        with pytest.raises(TaskUnschedulableError, match=f"^{label}.* can never run here: no node"):
            out.take_all()
    with pytest.raises(TaskUnschedulableError, match="^WriteParquet"):
        ds.write_parquet(tmp_path / "out", ray_remote_args=no)


def test_the_kind_of_gpu(tmp_path):
    for model, kind in (
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA A100-SXM4-40GB", "A100"),
        ("Tesla V100-SXM2-16GB", "V100"),
        ("NVIDIA GeForce RTX 4090", None),
    ):
        at = tmp_path / model.replace(" ", "") / "0000:01:00.0"
        at.mkdir(parents=True)
        (at / "information").write_text(f"Model: \t\t {model}\nIRQ:   \t\t 31\n")
        want = {"ray.io/accelerator-type": kind} if kind else {}
        assert _labels.of_devices(at.parent) == want
    assert _labels.of_devices(tmp_path / "none") == {}


def test_over_an_engine_without_labels(monkeypatch):
    monkeypatch.setattr(_labels, "_skate", types.SimpleNamespace(engine=lambda: "guest"))
    with pytest.raises(NotImplementedError, match="the nodes of this engine have no labels"):
        _labels.unfit({"zone": "a"})
