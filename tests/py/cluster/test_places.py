"""Where tasks and actors run over two nodes: labels, strategies, and nodes that join."""

import os

import pytest
import skate
from engine.waits import wait_at
from skate import _labels, engine
from skate.engine import nodes as here
from skate.exceptions import TaskUnschedulableError
from skate.util.scheduling_strategies import (
    DoesNotExist,
    Exists,
    In,
    NodeAffinitySchedulingStrategy,
    NodeLabelSchedulingStrategy,
    NotIn,
)


@pytest.fixture(scope="module")
def two():
    """Ids of two nodes, in the zones a and b."""
    knobs = {"nodes": 2, "node_labels": "zone=a,rack=1; zone=b"}
    skate.shutdown()
    skate.init(num_cpus=2, labels={"tier": "gold"}, _system_config=knobs)
    yield [n["NodeID"] for n in skate.nodes()]
    skate.shutdown()


@pytest.fixture
def gate(tmp_path):
    """gate(): the path that tasks wait at; gate(n): lets n of them go."""
    os.mkfifo(path := str(tmp_path / "gate"))
    with open(path, "r+b", 0) as fifo:
        yield lambda n=0: fifo.write(b"g" * n) and path if n else path


def test_explain_says_what_crosses_nodes(two):
    ds = skate.data.range(1000, override_num_blocks=4).map_batches(
        lambda batch: batch, label_selector={"rack": "1"}
    )
    text = ds.sort("id").explain_text()
    assert "nodes\n  2 nodes, connected by tcp: " in text
    assert "runs on the 1 of 2 nodes with label rack=1; the rest of its input crosses" in text
    assert (
        "Sort(id): each row goes to the node of its part, so about 1 of 2 cross, of 7.8 KiB" in text
    )


@skate.remote(num_cpus=0)
def node():
    return skate.get_runtime_context().get_node_id()


@skate.remote(num_cpus=0)
class A:
    def node(self):
        return skate.get_runtime_context().get_node_id()


def where(n=6, **options):
    """The nodes where tasks, actors and tasks of a Dataset with these options ran."""
    tasks = {*skate.get([node.options(**options).remote() for _ in range(n)])}
    actors = [A.options(**options).remote() for _ in range(2)]
    ds = skate.data.range(n).map(
        lambda r: {"at": skate.get_runtime_context().get_node_id()}, **options
    )
    of_actors = {*skate.get([a.node.remote() for a in actors])}
    return tasks | of_actors | {r["at"] for r in ds.take_all()}


def test_labels(two):
    a, b = two
    for selector, at in (
        ({"zone": "a"}, {a}),
        ({"zone": "!a"}, {b}),
        ({"zone": "in(b, c)"}, {b}),
        ({"tier": "gold", "rack": "!in(2, 3)", "zone": "!b"}, {a}),
        ({"rack": "!1"}, {b}),
        ({_labels.ID: b}, {b}),
    ):
        assert where(label_selector=selector) == at
    assert where(scheduling_strategy="SPREAD", label_selector={"tier": "gold"}) == {a, b}


def test_each_node_tells_its_labels(two):
    there = skate.remote(lambda: skate.get_runtime_context().get_node_labels())
    told = [n["Labels"] for n in skate.nodes()]
    assert [labels["zone"] for labels in told] == ["a", "b"]
    for labels in told:
        assert skate.get(there.options(label_selector={"zone": labels["zone"]}).remote()) == labels
    assert skate.get_runtime_context().get_node_id() == two[0]  # a driver counts as on the first


def test_what_no_node_has(two):
    text = "no node has the labels .*'zone': 'c'.*: zone is 'a' or 'b' here"
    with pytest.raises(TaskUnschedulableError, match=text):
        skate.get(node.options(label_selector={"zone": "c"}).remote())
    with pytest.raises(TaskUnschedulableError, match="no other here"):
        skate.get(A.options(label_selector={"other": "x"}).remote().node.remote())
    with pytest.raises(TaskUnschedulableError, match="^Map.*zone is 'a' or 'b' here"):
        skate.data.range(3).map(lambda r: r, label_selector={"zone": "c"}).take_all()
    with pytest.raises(TaskUnschedulableError):  # no node has both
        skate.get(node.options(label_selector={"zone": "b"}, num_cpus=2).remote())
    nobody = NodeAffinitySchedulingStrategy("ab" * 28, soft=False)
    with pytest.raises(TaskUnschedulableError, match=f"{two[0]} and {two[1]}"):
        skate.get(node.options(scheduling_strategy=nobody).remote())


def test_tasks_of_a_task_go_where_they_are_to(two):
    @skate.remote
    def inside(**options):
        return skate.get(node.options(**options).remote())

    @skate.remote
    def actor(strategy):
        return skate.get(A.options(scheduling_strategy=strategy).remote().node.remote())

    def zone_of(zone):
        return {"label_selector": {"zone": zone}}

    a, b = two
    for at, zone in ((a, "a"), (b, "b")):
        on = inside.options(label_selector={"zone": zone})
        for selector, to in (
            ({"zone": "a"}, a),
            ({"zone": "b"}, b),
            ({"tier": "gold"}, at),  # its own node has it
            ({"zone": "in(b, c)", "tier": "gold"}, b),
        ):
            assert skate.get(on.remote(label_selector=selector)) == to
        to_a = [{"label_selector": {"zone": "a"}}]
        assert skate.get(on.remote(label_selector={"zone": "c"}, fallback_strategy=to_a)) == a
        for to in two:
            strategy = NodeAffinitySchedulingStrategy(to, soft=False)
            assert skate.get(on.remote(scheduling_strategy=strategy)) == to
            assert skate.get(actor.options(**zone_of(zone)).remote(strategy)) == to
        with_label = NodeLabelSchedulingStrategy({"rack": Exists()})
        assert skate.get(on.remote(scheduling_strategy=with_label)) == a
        with pytest.raises(TaskUnschedulableError, match="no node that has the labels"):
            skate.get(on.remote(label_selector={"zone": "c"}))
        with pytest.raises(TaskUnschedulableError, match="node can never run here.*2 CPU"):
            skate.get(on.remote(num_cpus=2))


def test_tasks_of_a_task_are_spread(two):
    @skate.remote
    def inside():
        spread = node.options(scheduling_strategy="SPREAD")
        return skate.get([spread.remote() for _ in range(10)])

    at = skate.get(inside.remote())
    assert at.count(two[0]) == at.count(two[1]) == 5


def test_fallbacks(two, gate):
    a, b = two
    to_a = [{"label_selector": {"zone": "c"}}, {"label_selector": {"zone": "a"}}]
    assert where(label_selector={"zone": "c"}, fallback_strategy=to_a) == {a}
    path = gate()
    busy = skate.remote(lambda: wait_at(path)).options(label_selector={"zone": "b"}).remote()
    prefers = A.options(num_cpus=1, label_selector={"zone": "b"}, fallback_strategy=to_a)
    actor = prefers.remote()  # the CPU of node b is taken, so it does not wait for it
    assert skate.get(actor.node.remote()) == a
    gate(1)
    assert skate.get(busy) == b"g"
    assert skate.get(prefers.remote().node.remote()) == b
    del actor


def test_strategies(two):
    for at in two:
        for soft in (False, True):
            assert where(scheduling_strategy=NodeAffinitySchedulingStrategy(at, soft)) == {at}
    gone = NodeAffinitySchedulingStrategy("ab" * 28, soft=True)
    assert where(scheduling_strategy=gone) <= {*two}
    a, b = two
    for hard, soft, at in (
        ({"zone": In("b", "c")}, None, {b}),
        ({"zone": NotIn("b"), "tier": Exists()}, None, {a}),
        ({"rack": DoesNotExist()}, None, {b}),
        ({"tier": Exists()}, {"rack": In("7")}, {a, b}),
    ):
        assert where(scheduling_strategy=NodeLabelSchedulingStrategy(hard, soft=soft)) <= at
    soft = NodeLabelSchedulingStrategy({}, soft={"rack": In("1")})
    assert skate.get(node.options(scheduling_strategy=soft).remote()) == a
    none = NodeLabelSchedulingStrategy({"zone": In("c")})
    with pytest.raises(TaskUnschedulableError, match=r"\{'zone': 'a'\}, \{'zone': 'b'\}"):
        skate.get(node.options(scheduling_strategy=none).remote())


def test_a_soft_affinity_waits_for_its_node(two, gate):
    path = gate()
    hold = skate.remote(lambda: wait_at(path))
    held = hold.options(label_selector={"zone": "b"}).remote()
    soft = NodeAffinitySchedulingStrategy(two[1], soft=True)
    waits = node.options(num_cpus=1, scheduling_strategy=soft).remote()
    assert skate.wait([waits], timeout=0.2)[1] == [waits]
    spills = NodeAffinitySchedulingStrategy(two[1], soft=True, _spill_on_unavailable=True)
    actor = A.options(num_cpus=1, scheduling_strategy=spills).remote()
    assert skate.get(actor.node.remote()) == two[0]
    gate(1)
    assert skate.get(held) == b"g" and skate.get(waits) == two[1]


def test_spread(two):
    tasks = skate.get([node.options(scheduling_strategy="SPREAD").remote() for _ in range(20)])
    assert tasks.count(two[0]) == tasks.count(two[1]) == 10
    actors = [A.options(scheduling_strategy="SPREAD").remote() for _ in range(4)]
    at = skate.get([a.node.remote() for a in actors])
    assert at.count(two[0]) == 2


def test_a_node_that_joins_and_is_lost():
    skate.shutdown()
    with skate.init(num_cpus=2, _system_config={"nodes": 2}):
        late = node.options(label_selector={"zone": "late"})
        with pytest.raises(TaskUnschedulableError, match="there is no zone here"):
            skate.get(late.remote())
        engine._nodes.add(labels={"zone": "late"})
        third = skate.nodes()[2]
        assert third["Labels"]["zone"] == "late"
        assert skate.get(late.remote()) == third["NodeID"]  # the same function, which was refused
        soft = NodeAffinitySchedulingStrategy(third["NodeID"], soft=True)
        assert skate.get(node.options(scheduling_strategy=soft).remote()) == third["NodeID"]
        engine._nodes._started[2][0].kill()
        waits = node.options(scheduling_strategy=soft, max_retries=-1)
        while skate.get(waits.remote()) == third["NodeID"]:
            pass
        with pytest.raises(TaskUnschedulableError):
            skate.get(late.remote())


def test_labels_of_the_environment():
    assert here.node_labels("", 2) == [{}, {}]
    assert here.node_labels("a=1, b=2;", 3) == [{"a": "1", "b": "2"}, {}, {}]
    with pytest.raises(ValueError, match="'b' is no label=value"):
        here.node_labels("a=1,b", 1)
    with pytest.raises(ValueError, match="labels of 2 nodes, and there are 1"):
        here.node_labels("a=1;a=2", 1)
