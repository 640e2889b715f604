"""Placement groups over several nodes: where bundles are, what runs in them, and lost nodes."""

import os

import pytest
import skate
from engine.waits import wait_at, wait_until
from skate import engine
from skate.exceptions import (
    RayActorError,
    TaskPlacementGroupRemoved,
    TaskUnschedulableError,
)
from skate.util import (
    get_current_placement_group,
    get_placement_group,
    placement_group,
    placement_group_table,
    remove_placement_group,
)
from skate.util.scheduling_strategies import PlacementGroupSchedulingStrategy as In


@pytest.fixture(scope="module")
def two():
    """Ids of two nodes with two CPUs each, in the zones a and b."""
    knobs = {"nodes": 2, "node_labels": "zone=a; zone=b"}
    skate.shutdown()
    skate.init(num_cpus=4, _system_config=knobs)
    yield [n["NodeID"] for n in skate.nodes()]
    skate.shutdown()


@pytest.fixture
def gate(tmp_path):
    """gate(): the path that tasks wait at; gate(n): lets n of them go."""
    os.mkfifo(path := str(tmp_path / "gate"))
    with open(path, "r+b", 0) as fifo:
        yield lambda n=0: fifo.write(b"g" * n) and path if n else path


def here():
    return skate.get_runtime_context().get_node_id()


@skate.remote(num_cpus=1)
class A:
    def node(self):
        return here()

    def group(self):
        return get_current_placement_group()


node = skate.remote(num_cpus=1)(here)


def where(group):
    """The node of each bundle, of a group that is ready; what runs in the bundles is there."""
    assert skate.get(group.ready(), timeout=30) == group
    table = placement_group_table(group)
    assert table["state"] == "CREATED"
    at = [table["bundles_to_node_id"][i] for i in range(group.bundle_count)]
    inside = [In(group, i) for i in range(group.bundle_count)]
    assert skate.get([node.options(scheduling_strategy=s).remote() for s in inside]) == at
    actors = [A.options(scheduling_strategy=s).remote() for s in inside]
    assert skate.get([a.node.remote() for a in actors]) == at
    assert skate.get([a.group.remote() for a in actors]) == [group] * len(at)
    return at


@pytest.mark.parametrize(
    "strategy,bundles,n",
    [
        ("PACK", 2, 1),
        ("PACK", 3, 2),
        ("SPREAD", 2, 2),
        ("SPREAD", 4, 2),
        ("STRICT_PACK", 2, 1),
        ("STRICT_SPREAD", 2, 2),
    ],
)
def test_strategies(two, strategy, bundles, n):
    group = placement_group([{"CPU": 1}] * bundles, strategy)
    at = where(group)
    assert len({*at}) == n and {*at} <= {*two}
    # bundles of the group before this one may still be on their way back
    wait_until(lambda: skate.available_resources().get("CPU", 0) == 4 - bundles)
    any_of_them = [node.options(scheduling_strategy=In(group)).remote() for _ in range(8)]
    assert {*skate.get(any_of_them)} <= {*at}
    remove_placement_group(group)
    assert placement_group_table(group)["state"] == "REMOVED"
    assert skate.available_resources()["CPU"] == 4


def test_labels_of_bundles(two):
    group = placement_group([{"CPU": 1}] * 2, bundle_label_selector=[{"zone": "b"}, {"zone": "a"}])
    assert where(group) == [two[1], two[0]]
    remove_placement_group(group)
    with pytest.raises(TaskUnschedulableError, match="zone is 'a' or 'b' here"):
        placement_group([{"CPU": 1}], bundle_label_selector=[{"zone": "c"}])


def test_what_fits_no_node_waits(two):
    for bundles, strategy in (([1] * 3, "STRICT_SPREAD"), ([2, 1], "STRICT_PACK"), ([3], "PACK")):
        group = placement_group([{"CPU": n} for n in bundles], strategy)
        assert not group.wait(0.05) and placement_group_table(group)["state"] == "PENDING"
        waiting = node.options(scheduling_strategy=In(group)).remote()
        assert {*skate.get([node.remote() for _ in range(8)])} <= {*two}  # nobody waits for it
        remove_placement_group(group)
        with pytest.raises(TaskPlacementGroupRemoved):
            skate.get(waiting)


def test_room_is_saved_up_for_a_group(two, gate):
    hold = skate.remote(num_cpus=1)(wait_at)
    held = [hold.remote(gate()) for _ in range(4)]
    wait_until(lambda: not skate.available_resources().get("CPU"))
    group = placement_group([{"CPU": 2}] * 2)
    more = [hold.remote(gate()) for _ in range(40)]
    assert not group.wait(0.05)
    gate(4)
    assert group.wait(30)  # none of the others has come before it
    remove_placement_group(group)
    gate(40)
    assert skate.get(held + more) == [b"g"] * 44


def test_nothing_waits_behind_a_bundle(two, gate):
    group = placement_group([{"CPU": 2}], bundle_label_selector=[{"zone": "a"}])
    assert group.wait(30)
    assert {*skate.get([node.remote() for _ in range(20)])} == {two[1]}
    actor = A.options(num_cpus=2, scheduling_strategy=In(group)).remote()
    assert skate.get(actor.node.remote()) == two[0]
    waits = node.options(scheduling_strategy=In(group)).remote()
    assert skate.wait([waits], timeout=0.05)[1] == [waits]
    skate.kill(actor)
    assert skate.get(waits) == two[0]
    remove_placement_group(group)


def test_children_are_captured(two):
    group = placement_group([{"CPU": 1}, {"CPU": 2}], "STRICT_SPREAD")
    at = where(group)

    @skate.remote
    def parent():
        child = skate.remote(num_cpus=0.5)(
            lambda: (here(), skate.get_runtime_context().get_placement_group_id())
        )
        return here(), *skate.get(child.remote())

    for i, capture in ((0, True), (1, True), (0, False)):
        inside = In(group, i, placement_group_capture_child_tasks=capture)
        got = skate.get(parent.options(num_cpus=0.5, scheduling_strategy=inside).remote())
        assert got == (at[i], at[i], group.id.hex() if capture else None)
    remove_placement_group(group)


def test_what_runs_in_a_group_ends_with_it(two, gate):
    group = placement_group([{"CPU": 1}] * 4, "SPREAD")
    inside = [In(group, i) for i in range(4)]
    hold = skate.remote(num_cpus=1, max_retries=5)(wait_at)
    tasks = [hold.options(scheduling_strategy=s).remote(gate()) for s in inside[:2]]
    actors = [A.options(max_restarts=-1, scheduling_strategy=s).remote() for s in inside[2:]]
    skate.get([a.node.remote() for a in actors])
    remove_placement_group(group)
    for ref in tasks:
        with pytest.raises(TaskPlacementGroupRemoved):
            skate.get(ref)
    for actor in actors:
        with pytest.raises(RayActorError):
            while True:
                skate.get(actor.node.remote())
    with pytest.raises(TaskPlacementGroupRemoved):
        skate.get(node.options(scheduling_strategy=inside[0]).remote())


def test_groups_of_a_task_are_on_its_node(two):
    @skate.remote(num_cpus=0)
    def make(bundles, strategy="PACK"):
        group = placement_group(bundles, strategy, name="of a task")
        at = {skate.get(node.options(scheduling_strategy=In(group, i)).remote()) for i in (0, 1)}
        assert group.wait() and at == {here()} and get_placement_group("of a task") == group
        assert {*placement_group_table(group)["bundles_to_node_id"].values()} == at
        return group

    on_b = make.options(label_selector={"zone": "b"})
    group = skate.get(on_b.remote([{"CPU": 1}] * 2))
    with pytest.raises(TaskUnschedulableError, match="STRICT_SPREAD: .* make it in the driver"):
        skate.get(on_b.remote([{"CPU": 1}] * 2, "STRICT_SPREAD"))
    with pytest.raises(TaskUnschedulableError, match="own node; make it in the driver: .*3"):
        skate.get(on_b.remote([{"CPU": 2}, {"CPU": 1}]))
    with pytest.raises(TaskUnschedulableError, match="a task made the placement group"):
        skate.get(node.options(scheduling_strategy=In(group)).remote())
    with pytest.raises(ValueError, match="remove it in a task of the same node"):
        remove_placement_group(group)
    with pytest.raises(ValueError, match="ask where the group was made"):
        placement_group_table(group)
    away = skate.remote(num_cpus=0)(remove_placement_group)
    with pytest.raises(ValueError, match="has not made the placement group"):
        skate.get(away.options(label_selector={"zone": "a"}).remote(group))
    skate.get(away.options(label_selector={"zone": "b"}).remote(group))
    assert skate.available_resources()["CPU"] == 4


def test_groups_of_the_driver_in_a_task(two):
    @skate.remote(num_cpus=0)
    def use(group, bundle=-1):
        assert placement_group_table(group)["bundles_to_node_id"][0] == here() and group.wait()
        return skate.get(node.options(scheduling_strategy=In(group, bundle)).remote())

    group = placement_group([{"CPU": 1}] * 2, "STRICT_SPREAD", name="of the driver")
    at = where(group)
    first, other = (use.options(scheduling_strategy=In(group, i)) for i in (0, 1))
    assert skate.get(first.remote(group)) == skate.get(first.remote(group, 0)) == at[0]
    with pytest.raises(TaskUnschedulableError, match="on this node, where tasks run that a task"):
        skate.get(first.remote(group, 1))
    with pytest.raises(ValueError, match="remove it in the driver"):
        skate.get(skate.remote(num_cpus=0)(remove_placement_group).remote(group))
    with pytest.raises(ValueError, match="pass the group to the task"):
        skate.get(skate.remote(num_cpus=0)(get_placement_group).remote("of the driver"))
    assert get_placement_group("of the driver") == group
    remove_placement_group(group)
    group = placement_group([{"CPU": 1}], bundle_label_selector=[{"zone": "b"}])
    assert group.wait(30)
    inside = skate.remote(num_cpus=0)(lambda g: node.options(scheduling_strategy=In(g)).remote())
    with pytest.raises(TaskUnschedulableError, match="this node has no bundle of the placement"):
        skate.get(skate.get(inside.options(label_selector={"zone": "a"}).remote(group)))
    remove_placement_group(group)


def test_a_dataset_in_a_group(two):
    group = placement_group([{"CPU": 1}], bundle_label_selector=[{"zone": "b"}])
    ds = skate.data.range(8).map(lambda r: {"at": here()}, scheduling_strategy=In(group))
    assert {r["at"] for r in ds.take_all()} == {two[1]}
    remove_placement_group(group)


@pytest.mark.parametrize("strategy", ["PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"])
def test_bundles_of_a_lost_node_are_reserved_again(strategy):
    skate.shutdown()
    with skate.init(num_cpus=4, _system_config={"nodes": 2}):
        group = placement_group([{"CPU": 1}] * 2, strategy)
        at = where(group)
        actors = [
            A.options(max_restarts=1, max_task_retries=1, scheduling_strategy=In(group, i)).remote()
            for i in range(2)
        ]
        assert skate.get([a.node.remote() for a in actors]) == at
        ids = [n["NodeID"] for n in skate.nodes()]
        gone = ids.index(at[1])
        engine._nodes._started[gone][0].kill()
        if strategy == "STRICT_SPREAD":  # there is no room until another node has joined
            wait_until(lambda: placement_group_table(group)["state"] != "CREATED")
            state = placement_group_table(group)
            assert state["state"] == "RESCHEDULING" and state["bundles_to_node_id"][1] == ""
            assert state["bundles_to_node_id"][0] == at[0]
            engine._nodes.add()
            ids.append(skate.nodes()[2]["NodeID"])
        now = skate.get([a.node.remote() for a in actors])  # in their bundles, which have moved
        other = ids[2] if strategy == "STRICT_SPREAD" else ids[1 - gone]
        assert now == [other if n == at[1] else n for n in at]
        table = placement_group_table(group)
        assert table["state"] == "CREATED" and [*table["bundles_to_node_id"].values()] == now
        assert skate.get(group.ready()) == group
        remove_placement_group(group)


def test_a_group_that_waits_gets_a_node_that_joins():
    skate.shutdown()
    with skate.init(num_cpus=2, _system_config={"nodes": 2}):
        group = placement_group([{"CPU": 1}] * 3, "STRICT_SPREAD")
        assert not group.wait(0.05)
        engine._nodes.add()
        assert {*where(group)} == {n["NodeID"] for n in skate.nodes()}
