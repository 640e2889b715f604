"""Compiled graphs over several nodes: actors of one node, of several, and of lost ones."""

import pytest
import skate
from skate import _labels, engine
from skate.dag import InputNode, MultiOutputNode
from skate.exceptions import RayActorError


@pytest.fixture(scope="module")
def two():
    """Ids of two nodes, in the zones a and b."""
    knobs = {"nodes": 2, "node_labels": "zone=a; zone=b"}
    skate.init(num_cpus=2, _system_config=knobs)
    yield [n["NodeID"] for n in skate.nodes()]
    skate.shutdown()


@skate.remote(num_cpus=0)
class Adds:
    def __init__(self, n):
        self.n = n

    def add(self, x):
        if x < 0:
            raise ValueError("below zero")
        return x + self.n

    def node(self):
        return skate.get_runtime_context().get_node_id()


def in_zones(*zones, **options):
    """Actors that add 1, 10, 100 ..."""
    return [
        Adds.options(label_selector={"zone": z}, **options).remote(10**i)
        for i, z in enumerate(zones)
    ]


def compiled(actors):
    with InputNode() as x:
        node, nodes = x, []
        for actor in actors:
            nodes.append(node := actor.add.bind(node))
        return MultiOutputNode(nodes).experimental_compile()


def check(graph, n=3):
    for k in range(5):
        want = [k + (10 ** (i + 1) - 1) // 9 for i in range(n)]
        assert skate.get(graph.execute(k), timeout=30) == want
    with pytest.raises(ValueError, match="below zero"):
        skate.get(graph.execute(-1), timeout=30)
    assert skate.get(graph.execute(0), timeout=30)[0] == 1
    graph.teardown()


@pytest.mark.parametrize("zones", ["aaa", "bbb", "aba"])
def test_of_the_driver(two, zones):
    actors = in_zones(*zones)
    at = {"a": two[0], "b": two[1]}
    assert skate.get([a.node.remote() for a in actors]) == [at[z] for z in zones]
    check(compiled(actors))


@skate.remote(num_cpus=0)
def inside(actors=None):
    """Compiles a graph in a task; says whether it has channels."""
    graph = compiled(actors or [Adds.remote(10**i) for i in range(3)])
    channels = type(graph._graph).__name__ == "Graph"
    check(graph)
    return channels


def test_of_a_task(two):
    on_b = inside.options(label_selector={"zone": "b"})
    assert skate.get(on_b.remote()) is True  # the actors share the memory of node b
    # those of the driver need not be there, nor stay there
    assert skate.get(on_b.remote(in_zones(*"aaa"))) is False
    assert skate.get(on_b.remote(in_zones(*"aba"))) is False
    assert skate.get(on_b.remote(in_zones(*"bbb"))) is False


def test_of_actors_that_a_task_has_made(two):
    make = skate.remote(num_cpus=0)(lambda: [Adds.remote(10**i) for i in range(2)])
    actors = skate.get(make.options(label_selector={"zone": "b"}).remote())
    check(compiled(actors + in_zones("a", "a", "a")[2:]))
    assert (
        skate.get(
            inside.options(label_selector={"zone": "a"}).remote(
                [*actors, *in_zones("a", "a", "a")[2:]]
            )
        )
        is False
    )


def test_executed_on_another_node(two):
    graph = compiled(in_zones(*"aba"))
    execute = skate.remote(num_cpus=0)(lambda g, k: skate.get(g.execute(k)))
    for zone in "ab":
        on = execute.options(label_selector={"zone": zone})
        assert skate.get(on.remote(graph, 5)) == [6, 16, 116]
    graph.teardown()


def test_a_lost_node():
    skate.shutdown()
    with skate.init(num_cpus=2, _system_config={"nodes": 2}):
        ids = [n["NodeID"] for n in skate.nodes()]
        again = [
            Adds.options(max_restarts=-1, max_task_retries=-1, scheduling_strategy="SPREAD").remote(
                10**i
            )
            for i in range(3)
        ]
        at = skate.get([a.node.remote() for a in again])
        assert {*at} == {*ids}
        once = Adds.options(label_selector={_labels.ID: at[0]}).remote(1)
        graph, other = compiled(again), compiled([once, *again[1:]])
        assert skate.get(other.execute(1)) == [2, 12, 112]
        assert skate.get(graph.execute(1)) == [2, 12, 112]
        engine._nodes._started[ids.index(at[0])][0].kill()
        assert skate.get(graph.execute(2), timeout=60) == [3, 13, 113]
        check(graph)
        with pytest.raises(RayActorError):
            skate.get(other.execute(2), timeout=60)
        other.teardown()
