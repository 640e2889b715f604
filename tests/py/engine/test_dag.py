"""skate.dag without compilation, over every engine: bind, InputNode, MultiOutputNode, execute, the
errors for invalid graphs, and random graphs compared with plain calls."""

import random

import cloudpickle
import pytest
import skate
from skate.dag import (
    PARENT_CLASS_NODE_KEY,
    PREV_CLASS_METHOD_CALL_KEY,
    DAGNode,
    InputNode,
    MultiOutputNode,
    vis_utils,
)


@skate.remote
def add(a, b=0):
    return a + b


@skate.remote
def total(values):
    return sum(skate.get(v) if isinstance(v, skate.ObjectRef) else v for v in values)


@skate.remote
class Log:
    def __init__(self, first=None):
        self.seen = [] if first is None else [first]

    def put(self, x, then=None):
        self.seen.append(x)
        return x

    def all(self):
        return list(self.seen)

    @skate.method(num_returns=2)
    def halves(self, x):
        return x, -x

    def fail(self, x):
        raise KeyError(x)


class Box:
    def __init__(self, inside):
        self.inside = inside


def test_tasks(ray):
    a = add.bind(1, b=2)
    b = add.bind(a, b=3)
    c = add.bind(b, b=a)
    assert ray.get([a.execute(), b.execute(), c.execute(), c.execute()]) == [3, 6, 9, 9]
    assert ray.get(add.options(num_cpus=0.5).bind(c, 1).execute()) == 10


def test_a_node_runs_once(ray):
    log = Log.remote()
    shared = log.put.bind("once")
    graph = MultiOutputNode([add.bind(shared, "a"), add.bind(shared, "b"), shared])
    assert ray.get(graph.execute()) == ["oncea", "onceb", "once"]
    assert ray.get(log.all.remote()) == ["once"]


def test_input(ray):
    with InputNode() as inp:
        whole = add.bind(inp, 1)
        parts = add.bind(inp[0], inp.b)
        items = add.bind(inp["x"], inp["y"])
        straight = MultiOutputNode([inp[1], add.bind(inp[0])])
    assert inp[0] is inp[0] and inp.b is inp.b and inp[0].key == 0
    assert ray.get([whole.execute(4), whole.execute(5)]) == [5, 6]
    assert ray.get(parts.execute(1, b=2)) == 3
    assert ray.get(items.execute({"x": 1, "y": 2})) == 3
    assert ray.get(add.bind(inp[0], inp[1]).execute([3, 4])) == 7

    class Given:
        def __init__(self):
            self.b, self.c = 5, 6

    assert ray.get(add.bind(inp.b, inp.c).execute(Given())) == 11
    out = straight.execute(1, 2)
    assert out[0] == 2 and ray.get(out[1]) == 1


def test_actors_of_a_graph(ray):
    a, b = Log.bind(), Log.bind("b")
    a.put.bind(1)
    last = a.put.bind(add.bind(1, 1))
    b.put.bind(last)
    graph = MultiOutputNode([a.all.bind(), b.all.bind()])
    for _ in range(2):  # each execution has its own actors
        assert ray.get(graph.execute()) == [[1, 2], ["b", 2]]
    assert last.get_other_args_to_resolve()[PARENT_CLASS_NODE_KEY] is a
    assert last.get_other_args_to_resolve()[PREV_CLASS_METHOD_CALL_KEY].get_args() == (1,)

    handle = b.execute()
    assert isinstance(handle, ray.ActorHandle) and ray.get(handle.all.remote()) == ["b"]


def test_actors_that_are_there(ray):
    log = Log.remote()
    with InputNode() as inp:
        log.put.bind(inp)  # this call is no part of the next graph
        graph = log.put.bind(log.put.bind(inp.x), log.put.bind(inp.y))
    del log
    assert ray.get(graph.execute(x=1, y=2)) == 1
    handle = graph.get_other_args_to_resolve()[PARENT_CLASS_NODE_KEY]
    assert ray.get(handle.all.remote()) == [1, 2, 1]


def test_calls_of_an_actor_in_the_order_of_bind(ray):
    log = Log.remote()
    with InputNode() as inp:
        nodes = [log.put.bind(i, inp) for i in range(20)]
        random.Random(1).shuffle(nodes)
        graph = MultiOutputNode(nodes)
    ray.get(graph.execute(None))
    assert ray.get(log.all.remote()) == list(range(20))


def test_several_values(ray):
    log = Log.remote()
    with InputNode() as inp:
        plus, minus = log.halves.bind(inp)
        graph = MultiOutputNode([add.bind(plus, minus), minus, plus])
    assert ray.get(graph.execute(3)) == [0, -3, 3]
    assert (
        minus.is_class_method_output
        and minus.output_idx == 1
        and minus.class_method_call.num_returns == 2
    )
    assert not minus.class_method_call.is_class_method_output
    assert isinstance(log.halves.options(num_returns=1).bind(1), DAGNode)


def test_nodes_inside_of_values(ray):
    with InputNode() as inp:
        a, b = add.bind(inp, 1), add.bind(inp, 2)
        lists = total.bind([a, b, 3])
        dicts = add.bind(total.bind(({"a": a}["a"], b)), 0)
    assert ray.get([lists.execute(1), dicts.execute(1)]) == [8, 5]

    @skate.remote
    def opened(x):
        return skate.get(x["deep"][0].inside) + len(x)

    boxed = opened.bind({"deep": (Box(a),), 1: {2: inp}})
    assert boxed._get_all_child_nodes() == [a, inp] and boxed._get_toplevel_child_nodes() == []
    assert ray.get(boxed.execute(1)) == 4


def test_values_without_nodes_go_as_they_are(ray):
    ref = ray.put([1, 2])
    assert ray.get(total.bind(ref).execute()) == 3
    held = Box(ref)
    node = add.bind(held)
    assert node.get_args()[0] is held
    values = []
    values.append(values)  # the list contains itself
    assert add.bind(values).get_args()[0] is values


def test_options_and_accessors(ray):
    a = add.options(name="n", num_cpus=2).bind(1, b=2)
    assert (
        a.get_options() == {"name": "n", "num_cpus": 2}
        and a.get_args() == (1,)
        and a.get_kwargs() == {"b": 2}
    )
    gpu = skate.remote(num_gpus=1)(lambda: 1)
    assert gpu.bind().get_options() == {"num_gpus": 1, "max_calls": 1} and gpu.options(
        num_cpus=1
    ).bind().get_options() == {
        "num_gpus": 1,
        "num_cpus": 1,
    }
    made = Log.options(name="l", namespace="t").bind()
    assert made.get_options() == {"name": "l", "namespace": "t"}
    assert made.put.options(name="m").bind(1).get_options() == {"name": "m"}
    x, y = add.bind(1), add.bind(2)
    n = add.bind(x, y)
    z = add.bind(3)
    m = n._apply_and_replace_all_child_nodes(lambda node: z)
    assert (
        m._get_all_child_nodes() == [z]
        and n._get_all_child_nodes() == [x, y]
        and m.get_stable_uuid() == n.get_stable_uuid()
    )
    assert n.apply_recursive(lambda node: sum(node.get_args())) == 3


def test_errors_of_users_arrive(ray):
    graph = add.bind(Log.remote().fail.bind("x"), 1)
    with pytest.raises(KeyError, match="x"):
        ray.get(graph.execute())


def test_what_is_wrong_is_said(ray):
    log = Log.remote()
    for bind in (
        lambda: log.put.bind(),
        lambda: log.put.bind(1, 2, 3),
        lambda: Log.bind(1, 2),
        lambda: Log.bind().put.bind(),
    ):
        with pytest.raises(TypeError, match="the given arguments to `bind`"):
            bind()
    # for functions, the error is raised when the graph runs, before any node does
    for wrong in (add.bind(), add.bind(1, 2, 3), add.bind(1, c=2)):
        with pytest.raises(TypeError, match="the given arguments to `bind`"):
            MultiOutputNode([log.put.bind(1), wrong]).execute()
    assert ray.get(log.all.remote()) == []
    with InputNode() as inp:
        graph = add.bind(inp[0], inp.b)
    for args, kwargs, words in [
        ((), {}, "without arguments"),
        ((1,), {"c": 1}, "takes input.b"),
        ((), {"b": 1}, r"takes input\[0\]"),
        ((object(),), {}, r"takes input\[0\]"),
    ]:
        with pytest.raises(ValueError, match=words):
            graph.execute(*args, **kwargs)
    with pytest.raises(AssertionError, match="only used in context manager"):
        add.bind(InputNode()).execute(1)
    with InputNode() as other:
        two = add.bind(inp, other)
    with pytest.raises(AssertionError, match="one unique InputNode"):
        two.execute(1)
    with pytest.raises(ValueError, match="cannot be used as args"):
        Log.bind(add.bind(inp))
    with pytest.raises(ValueError, match="should not take any"):
        InputNode(1)
    with pytest.raises(AssertionError, match="int index or str"):
        inp[1, 2]
    with pytest.raises(ValueError, match="Invalid input type"):
        MultiOutputNode(graph)  # pyright: ignore[reportArgumentType]
    with pytest.raises(AttributeError, match="bind.. cannot be used again"):
        graph.bind()
    with pytest.raises(AttributeError, match="bind.. cannot be used again"):
        Log.bind().bind()
    with pytest.raises(AttributeError, match="'Log' has no attribute 'pt'"):
        _ = Log.bind().pt
    with pytest.raises(AttributeError, match="remote.. cannot be used on"):
        graph.remote()
    with pytest.raises(AttributeError, match="remote.. cannot be used on ClassMethodNodes"):
        Log.bind().put.remote()
    with pytest.raises(ValueError, match="Invalid option keyword"):
        Log.bind().put.options(num_cpu=1)
    with pytest.raises(ValueError, match="doesn't support leaf nodes"):  # two leaf nodes
        graph.experimental_compile()


def test_a_graph_that_was_changed_after_bind(ray):
    values = [add.bind(1)]
    node = total.bind(values)
    assert ray.get(node.execute()) == 1
    values.append(node)  # this would make a cycle
    with pytest.raises(ValueError, match="changed after bind"):
        node.execute()
    a, b = add.bind(1), add.bind(2)
    a._upstream.append(b)
    b._upstream.append(a)
    with pytest.raises(ValueError, match="cycle"):
        total.bind([a, b]).execute()


def test_a_graph_in_a_task(ray):
    @skate.remote
    def run(graph, x):
        return skate.get(graph.execute(x))

    with InputNode() as inp:
        graph = add.bind(add.bind(inp, 1), inp)
    assert ray.get(run.remote(graph, 5)) == 11
    again = cloudpickle.loads(cloudpickle.dumps(add.bind(add.bind(1), b=2)))
    assert ray.get(again.execute()) == 3


def test_long_chains(ray):
    node = first = add.bind(0, 0)
    for _ in range(3000):
        node = add.bind(node, 1)
    assert node._ordered()[0] is first and len(str(node).splitlines()) == 3001


def test_words_and_pictures(tmp_path):
    with InputNode() as inp:
        a, b = add.bind(inp, 1), add.options(name="second").bind(inp.x)
        graph = add.bind(a, b)
    assert repr(graph) == "FunctionNode(add)" and repr(b) == "FunctionNode(second)"
    assert str(graph).splitlines()[-1] == "#4 FunctionNode(add) (#2, #3)" or "#" in str(graph)
    names, edges = vis_utils.names_and_edges(graph)
    assert set(names) == {"INPUT_NODE", "INPUT_ATTRIBUTE_NODE_x", "add", "second", "add_1"}
    assert set(edges) == {
        ("INPUT_NODE", "add"),
        ("INPUT_NODE", "INPUT_ATTRIBUTE_NODE_x"),
        ("INPUT_ATTRIBUTE_NODE_x", "second"),
        ("add", "add_1"),
        ("second", "add_1"),
    }
    skate.dag.plot(graph, str(tmp_path / "g.dot"))
    text = (tmp_path / "g.dot").read_text()
    assert text.startswith("digraph") and '"second" -> "add_1";' in text


@pytest.mark.parametrize("seed", range(4))
def test_random_graphs_are_plain_calls(ray, seed):
    """The same graph of tasks and calls twice: by bind() and execute(), and by remote() in the same
    order."""
    rng = random.Random(seed)
    logs = [(Log.remote(), Log.remote()) for _ in range(2)]
    with InputNode() as inp:
        nodes, plain = [inp], [7]
        for i in range(25):
            picks = [rng.randrange(len(nodes)) for _ in range(2)]
            a, b = (nodes[p] for p in picks)
            x, y = (plain[p] for p in picks)
            kind = rng.randrange(3)
            if kind == 0:
                nodes.append(add.bind(a, b=b))
                plain.append(add.remote(x, b=y))
            elif kind == 1:
                nodes.append(total.bind([a, i, b]))
                plain.append(total.remote([x, i, y]))
            else:
                mine, its = rng.choice(logs)
                nodes.append(mine.put.bind(a))
                plain.append(its.put.remote(x))
        graph = MultiOutputNode(nodes)
    assert ray.get(graph.execute(7)[1:]) == ray.get(plain[1:])
    for mine, its in logs:
        assert ray.get(mine.all.remote()) == ray.get(its.all.remote())
