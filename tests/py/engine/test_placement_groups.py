"""Placement groups, GPUs by number, and processes with their own environment, as Ray's programs see
them."""

import os
from concurrent.futures import ThreadPoolExecutor

import pytest
import skate
from skate.util import (
    get_current_placement_group,
    get_placement_group,
    placement_group,
    placement_group_table,
    remove_placement_group,
)
from skate.util.placement_group import VALID_PLACEMENT_GROUP_STRATEGIES, validate_placement_group
from skate.util.scheduling_strategies import PlacementGroupSchedulingStrategy as In
from waits import wait_at


@pytest.fixture
def ray():
    skate.shutdown()
    skate.init(
        num_cpus=4, num_gpus=2, resources={"mine": 2}, object_store_memory=128 << 20, namespace="n"
    )
    yield skate
    skate.shutdown()


def where():
    c = skate.get_runtime_context()
    return c.get_placement_group_id(), c.get_assigned_resources(), skate.get_gpu_ids()


def test_a_group(ray):
    pg = placement_group([{"CPU": 1, "mine": 1}, {"CPU": 2, "GPU": 1}], strategy="SPREAD", name="g")
    assert ray.get(pg.ready()) == pg and pg.wait(5) and pg.bundle_count == 2
    assert pg.bundle_specs == [{"CPU": 1.0, "mine": 1.0}, {"CPU": 2.0, "GPU": 1.0}]
    free = ray.available_resources()
    assert (free["CPU"], free["GPU"], free["mine"]) == (1, 1, 1)
    f = ray.remote(where)
    assert ray.get(f.options(scheduling_strategy=In(pg), num_cpus=2, num_gpus=1).remote())[:2] == (
        pg.id.hex(),
        {"CPU": 2.0, "GPU": 1.0},
    )
    assert ray.get(f.remote())[0] is None

    @ray.remote(num_cpus=1)
    class A:
        def where(self):
            return where(), get_current_placement_group()

    (_, resources, _), group = ray.get(
        A.options(scheduling_strategy=In(pg, 0)).remote().where.remote()
    )
    assert group == pg and resources == {"CPU": 1.0}
    found = get_placement_group("g")
    assert found == pg and found.bundle_specs == pg.bundle_specs and hash(found) == hash(pg)
    row = placement_group_table(pg)
    assert (
        row["state"] == "CREATED"
        and row["strategy"] == "SPREAD"
        and row["bundles"][1] == {"CPU": 2.0, "GPU": 1.0}
    )
    assert placement_group_table() == {pg.id.hex(): row}
    assert ray.get(ray.remote(lambda g: g.bundle_count).remote(pg)) == 2  # a handle may be sent
    remove_placement_group(pg)
    remove_placement_group(pg)
    assert placement_group_table(pg)["state"] == "REMOVED" and ray.available_resources()["CPU"] == 4
    with pytest.raises(ValueError, match="Failed to look up"):
        get_placement_group("g")


def test_children_are_captured(ray):
    pg = placement_group([{"CPU": 2}])
    child = ray.remote(lambda: skate.get_runtime_context().get_placement_group_id())

    @ray.remote
    def parent():
        return skate.get_runtime_context().should_capture_child_tasks_in_placement_group, skate.get(
            child.remote()
        )

    @ray.remote(num_cpus=1)
    class A:
        def f(self):
            return (
                skate.get_runtime_context().should_capture_child_tasks_in_placement_group,
                skate.get(child.remote()),
            )

    for capture, want in ((True, pg.id.hex()), (False, None)):
        inside = In(pg, placement_group_capture_child_tasks=capture)
        assert ray.get(parent.options(scheduling_strategy=inside).remote()) == (capture, want)
        assert ray.get(A.options(scheduling_strategy=inside).remote().f.remote()) == (capture, want)
    assert ray.get(parent.remote()) == (False, None)


def test_capture_reaches_all_that_comes_of_it(ray):
    pg = placement_group([{"CPU": 3}])
    inside = In(pg, placement_group_capture_child_tasks=True)
    here = ray.remote(num_cpus=0.5)(lambda: skate.get_runtime_context().get_placement_group_id())

    @ray.remote(num_cpus=0)
    class A:
        def where(self):
            return skate.get_runtime_context().get_placement_group_id(), ray.get(here.remote())

        async def where_async(self):
            return await here.remote()

    @ray.remote(num_cpus=0.5)
    def deep(n):
        if n:
            return ray.get(deep.remote(n - 1))
        out = here.options(scheduling_strategy=In(None)), here.options(scheduling_strategy="SPREAD")
        a = A.remote()
        return (
            [ray.get(x.remote()) for x in (here, *out)],
            ray.get(a.where.remote()),
            ray.get(a.where_async.remote()),
        )

    @ray.remote(num_cpus=0.5)
    def stream():
        for _ in range(2):
            yield ray.get(here.remote())

    mine = pg.id.hex()
    assert ray.get(deep.options(scheduling_strategy=inside).remote(2)) == (
        [mine, None, None],
        (mine, mine),
        mine,
    )
    assert [ray.get(r) for r in stream.options(scheduling_strategy=inside).remote()] == [mine, mine]
    assert ray.get(deep.remote(1)) == ([None, None, None], (None, None), None)


def test_names_of_groups(ray):
    pg = placement_group([{"CPU": 1}], name="twice")
    with pytest.raises(ValueError, match="'twice' is already taken by a living placement group"):
        placement_group([{"CPU": 1}], name="twice")
    with pytest.raises(ValueError, match="the name of this placement group"):
        placement_group([{"CPU": 1}], name="x" * 2000)
    remove_placement_group(pg)
    remove_placement_group(placement_group([{"CPU": 1}], name="twice"))


def test_what_waits_and_what_is_removed(ray):
    first = placement_group([{"CPU": 4}])
    second = placement_group([{"CPU": 4}])
    assert (
        first.wait(30)
        and not second.wait(0.05)
        and placement_group_table(second)["state"] == "PENDING"
    )
    ref = second.ready()
    remove_placement_group(first)
    assert ray.get(ref, timeout=30) == second
    third = placement_group([{"CPU": 4}])
    waiting = third.ready()
    remove_placement_group(third)
    with pytest.raises(ray.exceptions.TaskPlacementGroupRemoved):
        ray.get(waiting, timeout=30)

    @ray.remote(num_cpus=1)
    class A:
        def f(self):
            return 1

    a = A.options(scheduling_strategy=In(second)).remote()
    assert ray.get(a.f.remote()) == 1
    remove_placement_group(second)
    with pytest.raises(ray.exceptions.RayActorError):
        while True:
            ray.get(a.f.remote())


@pytest.mark.parametrize(
    "bundles,more,text",
    [
        ("x", {}, "must be a list"),
        ([], {}, "non-empty list"),
        ([{"CPU": "1"}], {}, "resource dictionaries"),
        ([{"CPU": 0}], {}, "only 0 values"),
        ([{"CPU": 1}], {"strategy": "CLOSE"}, "Invalid placement group strategy"),
        ([{"CPU": 1}], {"lifetime": "long"}, "lifetime='long'"),
        ([{"CPU": 1}], {"bundle_label_selector": [{"bad key!": "x"}]}, "Invalid label selector"),
    ],
    ids=lambda v: str(v)[:30],
)
def test_wrong_groups(bundles, more, text):
    with pytest.raises(ValueError, match=text):
        placement_group(bundles, **more)


def test_wrong_uses(ray):
    for s in VALID_PLACEMENT_GROUP_STRATEGIES:
        assert validate_placement_group([{"CPU": 1}], s)
    pg = placement_group([{"CPU": 1}])
    f = ray.remote(where)
    with pytest.raises(
        ValueError,
        match=r"Cannot schedule where .*\{'CPU': 3\} cannot fit into any bundles .*\[\{'CPU': 1.0\}\]",
    ):
        f.options(scheduling_strategy=In(pg), num_cpus=3)
    with pytest.raises(ValueError, match="index 1 is invalid"):
        f.options(scheduling_strategy=In(pg, 1))
    with pytest.raises(ValueError, match="specified via scheduling_strategy="):
        f.options(placement_group=pg, scheduling_strategy="SPREAD")
    assert ray.get(f.options(placement_group=pg).remote())[0] == pg.id.hex()


def test_gpus(ray):
    @ray.remote(num_gpus=1, num_cpus=0)
    class A:
        def see(self):
            return (
                skate.get_gpu_ids(),
                os.environ["CUDA_VISIBLE_DEVICES"],
                skate.get_runtime_context().get_accelerator_ids()["GPU"],
            )

    a, b = A.remote(), A.remote()
    seen = sorted(ray.get([a.see.remote(), b.see.remote()]))
    assert seen == [([0], "0", ["0"]), ([1], "1", ["1"])]
    f = ray.remote(lambda: (skate.get_gpu_ids(), os.environ["CUDA_VISIBLE_DEVICES"], os.getpid()))
    assert ray.get(f.remote())[:2] == ([], "")
    del a
    one = ray.get(f.options(num_gpus=0.5).remote())
    two = ray.get(f.options(num_gpus=0.5).remote())
    # a process that had a GPU is not reused
    assert one[0] == two[0] and len(one[0]) == 1 and one[2] != two[2]
    half, own = f.options(num_gpus=1.5), ray.remote(resources={"TPU": 2.5})(A.__ray_actor_class__)
    for unfit in (half, own, A.options(num_gpus=1.5)):  # as in Ray, the call raises the error
        with pytest.raises(ValueError, match="only whole ones can be"):
            unfit.remote()


def test_other_devices():
    skate.shutdown()
    with skate.init(num_cpus=2, num_gpus=1, resources={"mine": 1, "neuron_cores": 3}):

        def see():
            return (
                skate.get_runtime_context().get_accelerator_ids()["neuron_cores"],
                os.environ["NEURON_RT_VISIBLE_CORES"],
                skate.get_gpu_ids(),
            )

        @skate.remote(num_cpus=0)
        class A:
            def see(self):
                return see()

        f = skate.remote(see)
        assert skate.get(f.remote()) == ([], "", [])
        one, two = (
            A.options(resources={"neuron_cores": 1}).remote(),
            A.options(resources={"neuron_cores": 2}, num_gpus=1).remote(),
        )
        a, b = skate.get([one.see.remote(), two.see.remote()])
        assert a == (["0"], "0", []) and b == (["1", "2"], "1,2", [0])
        del two
        pg = skate.util.placement_group([{"CPU": 1, "neuron_cores": 2}])
        given = skate.get(f.options(resources={"neuron_cores": 2}, placement_group=pg).remote())
        assert given[:2] == (["1", "2"], "1,2")


def test_gpus_that_have_names(monkeypatch):
    skate.shutdown()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-a,GPU-b")
    with skate.init(num_cpus=1):
        assert skate.cluster_resources()["GPU"] == 2
        assert skate.get(skate.remote(num_gpus=2)(lambda: skate.get_gpu_ids()).remote()) == [
            "GPU-a",
            "GPU-b",
        ]


def test_calls_on_an_actor_that_restarts(ray, gate):
    path = gate.path

    @ray.remote(max_restarts=1)
    class A:
        def __init__(self):
            if skate.get_runtime_context().was_current_actor_reconstructed:
                wait_at(path)

        def die(self):
            os._exit(1)

        def f(self):
            return 1

    a = A.remote()
    assert ray.get(a.f.remote()) == 1
    with pytest.raises(ray.exceptions.ActorUnavailableError):
        ray.get(a.die.remote())
    with pytest.raises(ray.exceptions.ActorUnavailableError, match="The actor is restarting"):
        ray.get(a.f.remote())
    patient = a.f.options(max_task_retries=-1).remote()
    gate.let_go()
    assert ray.get(patient) == 1
    with pytest.raises(ray.exceptions.ActorDiedError):
        ray.get(a.die.remote())


def test_max_pending_calls(ray, gate):
    path = gate.path

    @ray.remote(num_cpus=0)
    class A:
        def f(self):
            return wait_at(path)

    a = A.options(max_pending_calls=3).remote()
    refs = [a.f.remote() for _ in range(3)]
    with pytest.raises(ray.exceptions.PendingCallsLimitExceeded, match="max_pending_calls"):
        a.f.remote()
    gate.let_go()
    assert ray.get(refs[0]) == b"g"
    refs.append(a.f.remote())
    gate.let_go(3)
    assert ray.get(refs) == [b"g"] * 4


def test_environments_are_inherited(ray):
    def look():
        return os.environ.get("A"), os.environ.get("B"), os.getcwd()

    f = ray.remote(look)

    @ray.remote
    class C:
        def look(self):
            return look(), ray.get(f.remote())

    @ray.remote(runtime_env={"env_vars": {"A": "1", "B": "1"}, "working_dir": "/tmp"})
    def parent():
        other = {"env_vars": {"B": "2"}}
        with ThreadPoolExecutor(1) as threads:
            assert threads.submit(lambda: ray.get(f.remote())).result() == look()
        children = (
            f.remote(),
            f.options(runtime_env=other).remote(),
            C.remote().look.remote(),
            C.options(runtime_env=other).remote().look.remote(),
        )
        return look(), *ray.get(list(children))

    one, two, here = ("1", "1", "/tmp"), ("1", "2", "/tmp"), os.getcwd()
    assert ray.get(parent.remote()) == (one, one, two, (one, one), (two, two))
    assert ray.get(f.remote()) == (None, None, here)
    assert ray.get(parent.options(runtime_env={"env_vars": {"A": "3"}}).remote())[1:3] == (
        ("3", None, here),
        ("3", "2", here),
    )


@pytest.mark.parametrize("engine", ["local", "inline"])
def test_many_custom_resources(engine):
    skate.shutdown()
    # their names have 160 KB, more than a single environment variable can hold
    all_of_them = {f"r{i}": 1 + i % 3 for i in range(20_000)}
    skate.init(
        num_cpus=4,
        resources=all_of_them,
        object_store_memory=128 << 20,
        _system_config={"engine": engine},
    )
    try:
        total = skate.cluster_resources()
        assert {k: total[k] for k in all_of_them} == all_of_them

        @skate.remote(num_cpus=0)
        def look():
            return (
                skate.get_runtime_context().get_assigned_resources(),
                skate.available_resources().get("r200", 0),
            )

        @skate.remote(num_cpus=0)
        def nested(n):
            return skate.get(look.options(resources={f"r{i}": 1 for i in range(n)}).remote())

        assert skate.get(look.options(resources={"r3": 1, "r200": 2, "r299": 0.5}).remote()) == (
            {"r3": 1, "r200": 2, "r299": 0.5},
            1,
        )
        took_all = ({k: float(v) for k, v in all_of_them.items()}, 0)
        assert (
            skate.get([look.options(resources=all_of_them).remote() for _ in range(3)])
            == [took_all] * 3
        )
        assert skate.get(nested.remote(250)) == ({f"r{i}": 1 for i in range(250)}, 2)
        assert skate.get(look.remote()) == ({}, 3)
        assert skate.available_resources() == total

        @skate.remote(num_cpus=0, resources={"r250": 1, "r0": 1})
        class Holder:
            def left(self):
                return skate.available_resources().get("r250", 0)

        h = Holder.remote()
        assert skate.get(h.left.remote()) == 1  # one of two is left
        with pytest.raises(
            skate.exceptions.TaskUnschedulableError,
            match="for 9 r250, but this machine was given 2",
        ):
            skate.get(look.options(resources={"r250": 9}).remote())
        with pytest.raises(
            skate.exceptions.TaskUnschedulableError,
            match="bundles of placement groups hold only the first",
        ):
            placement_group([{"r250": 1}])
    finally:
        skate.shutdown()
