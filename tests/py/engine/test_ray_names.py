"""Names of Ray's core besides tasks and actors: ids, contexts, runtime_env, generators as objects,
and which values can be sent."""

import asyncio
import dataclasses
import os
import pickle
import sys
import threading
import time

import numpy as np
import pytest
import skate
from procs import wait_gone
from skate import ids
from waits import wait_at


def test_ids():
    for cls, size in (
        (skate.JobID, 4),
        (skate.ActorID, 16),
        (skate.TaskID, 24),
        (skate.NodeID, 28),
        (skate.PlacementGroupID, 18),
    ):
        a = cls.from_random()
        assert cls.size() == a.size() == size == len(a.binary()) and a == cls(
            a.binary()
        ) == cls.from_hex(a.hex()) == pickle.loads(pickle.dumps(a))
        assert (
            a != cls.from_random()
            and len({a, cls.from_binary(a.binary())}) == 1
            and a.hex() in repr(a)
        )
        assert cls.nil().is_nil() and not a.is_nil() and cls.nil().hex() == "ff" * size
        with pytest.raises(ValueError, match="length"):
            cls(b"short")
        with pytest.raises(TypeError):
            cls("x" * size)
    assert skate.TaskID(b"1" * 24) != skate.UniqueID(b"1" * 28)
    assert skate.JobID.from_int(7).int() == 7


def test_refs_of_bytes(ray):
    b = bytes(range(28))
    r = ray.ObjectRef(b)
    assert (
        r._number() == 0
        and (here := ray.put(1))._number() == int.from_bytes(here.binary(), "big") != 0
    )
    assert (
        r.binary() == b
        and r.hex() == b.hex()
        and r == ray.ObjectRef(b)
        and hash(r) == hash(ray.ObjectRef(b))
        and r != ray.put(1)
    )
    assert pickle.loads(pickle.dumps(r)) == r and not r.is_nil() and b.hex() in repr(r)
    assert (
        ray.ObjectRef.nil().is_nil()
        and not ray.ObjectRef.from_random().is_nil()
        and ray.ObjectID is ray.ObjectRef
    )
    for wrong in (b"", b + b"x"):
        with pytest.raises(ValueError, match="length 28"):
            ray.ObjectRef(wrong)
    with pytest.raises(ValueError, match="owner is unknown"):
        ray.get(r)
    with pytest.raises(ValueError, match="owner is unknown"):
        ray.wait([r])
    for _ in range(1000):  # the free list takes the objects back as they were
        ray.ObjectRef(b)
    assert ray.get(ray.put(5)) == 5


def test_ref_belongs_to_its_task(ray):
    f = ray.remote(lambda: ray.get_runtime_context().get_task_id())
    ref = f.remote()
    assert ref.task_id().hex() == ray.get(ref) and ref.job_id() == ids.JOB
    assert ray.put(1).task_id().is_nil()


@skate.remote
class Counter:
    def __init__(self, n=0):
        self.n = n

    def add(self, k=1):
        self.n += k
        return self.n

    def who(self):
        c = skate.get_runtime_context()
        return (
            c.get_actor_id(),
            c.get_actor_name(),
            c.get_task_name(),
            c.get_task_function_name(),
            c.get()["actor_id"].hex(),
        )

    def self_add(self, k):
        return skate.get_runtime_context().current_actor.add.remote(k)

    n_of = property(lambda self: self.n)

    @staticmethod
    def twice(x):
        return 2 * x

    @classmethod
    def made(cls, x):
        return cls.__name__, x


def test_context(ray):
    c = ray.get_runtime_context()
    assert (
        c.get_task_id()
        is c.get_task_name()
        is c.get_actor_id()
        is c.get_actor_name()
        is c.get_task_function_name()
        is None
    )
    assert (
        set(c.get()) == {"job_id", "node_id", "namespace"}
        and c.get_job_id() == c.get()["job_id"].hex()
        and c.get_session_name()
    )
    with pytest.raises(RuntimeError):
        _ = c.current_actor
    with pytest.raises(RuntimeError):
        c.is_canceled()

    @ray.remote
    def f():
        c = ray.get_runtime_context()
        return (
            c.get(),
            c.get_task_id(),
            c.get_task_name(),
            c.get_task_function_name(),
            c.get_session_name(),
            c.namespace,
            c.is_canceled(),
        )

    d, task, name, function, session, namespace, cancelled = ray.get(
        f.options(name="a name").remote()
    )
    assert (
        d["task_id"].hex() == task
        and "actor_id" not in d
        and name == "a name"
        and function == __name__ + ".f"
        and not cancelled
    )
    assert (
        session == c.get_session_name()
        and namespace == c.namespace
        and d["node_id"] == c.get()["node_id"]
    )
    a, b = Counter.options(name="with a name").remote(), Counter.remote()
    for actor, name in ((a, "with a name"), (b, "")):
        actor_id, actor_name, task_name, function, same = ray.get(actor.who.remote())
        assert actor_id == same == actor._actor_id.hex() and actor_name == name
        assert task_name == "Counter.who" and function == __name__ + ".Counter.who"
    assert ray.get(ray.get(b.self_add.remote(4))) == 4 and ray.get(b.add.remote()) == 5
    with pytest.warns(DeprecationWarning, match="get_node_id"):
        assert c.node_id.hex() == c.get_node_id()


def test_what_a_class_has(ray):
    assert (
        Counter.twice(4) == 8
        and Counter.made(1) == ("Counter", 1)
        and isinstance(Counter.n_of, property)
    )
    with pytest.raises(skate.actor.ActorClassInheritanceException):

        class Wrong(Counter):
            pass

    class Shadow:
        def __init__(self):
            self.value = 3  # has the same name as the method

        def value(self):
            return self.value

    a = ray.remote(Shadow).remote()
    assert ray.get([a.value.remote(), a.value.remote()]) == [3, 3]
    c = Counter.remote(1)
    assert ray.get([c.twice.remote(5), c.made.remote(6)]) == [10, ("Counter", 6)]


def test_what_every_actor_can(ray):
    c = Counter.remote(1)
    assert ray.get(c.__ray_ready__.remote()) is True
    assert ray.get(c.__ray_call__.remote(lambda self, k, x=0: self.n + k + x, 10, x=100)) == 111
    assert ray.get(Counter._remote(args=[3]).add._remote([4])) == 7
    with pytest.raises(AttributeError, match="no method"):
        _ = c.nothing
    c.__ray_terminate__.remote()
    with pytest.raises(ray.exceptions.RayActorError):
        while True:
            ray.get(c.add.remote())


def test_methods_travel_with_their_signature(ray):
    c = Counter.remote()

    @ray.remote
    def use(m, handle):
        for wrong in (lambda: m.remote(1, 2), lambda: handle.add.remote(no=1)):
            try:
                wrong()
            except TypeError:
                continue
            return "no TypeError"
        return ray.get(m.remote(k=2)), ray.get(handle.add.remote(3))

    assert ray.get(use.remote(c.add, c)) == (2, 5)


def test_dynamic_and_fixed_generators(ray):
    @ray.remote
    class A:
        def gen(self, n, fail=False):
            for i in range(n):
                yield np.full(3, i)
            if fail:
                raise ValueError("after all")

    @ray.remote
    def gen(n, fail=False):
        for i in range(n):
            yield np.full(3, i)
        if fail:
            raise ValueError("after all")

    a = A.remote()
    for f in (gen, a.gen):
        with pytest.raises(TypeError, match="has to be a generator .* it gave a list"):
            ray.get(ray.remote(num_returns="dynamic")(lambda: [1, 2]).remote())
        d = ray.get(f.options(num_returns="dynamic").remote(3))
        assert len(d) == 3 and [ray.get(r)[0] for r in d] == [0, 1, 2] and len(list(d)) == 0
        first, last = ray.get(f.options(num_returns="dynamic").remote(1, True))
        assert ray.get(first)[0] == 0
        with pytest.raises(ValueError, match="after all"):
            ray.get(last)
        one, two, three = f.options(num_returns=3).remote(2, True)
        assert [ray.get(one)[0], ray.get(two)[0]] == [0, 1]  # the values that were yielded stay
        with pytest.raises(ValueError, match="after all"):
            ray.get(three)
        with pytest.raises(ValueError, match="num_returns=2"):
            ray.get(f.options(num_returns=2).remote(1)[1])
        # the third value is dropped, with a message
        assert [x[0] for x in ray.get(f.options(num_returns=2).remote(3))] == [0, 1]
        g = f.remote(2)
        assert ray.get(g) is g and [ray.get(r)[0] for r in g] == [0, 1]


def test_ten_thousand_arguments_and_three_thousand_returns(ray):
    f, g = ray.remote(lambda *a: sum(a)), ray.remote(lambda n: tuple(range(n)))
    refs = g.options(num_returns=3000).remote(3000)
    assert ray.get(refs) == list(range(3000))
    assert ray.get(f.remote(*refs, *[ray.put(1) for _ in range(7000)])) == sum(range(3000)) + 7000
    with pytest.raises(ValueError, match="0 to 100000"):
        g.options(num_returns=100_001)


def test_generators_are_waited_for(ray, gate):
    path = gate.path

    @ray.remote
    def gen():
        yield 1
        wait_at(path)
        yield 2

    if skate.api._context["engine"] == "inline":
        pytest.skip("the caller would run the task, and wait in it")
    g = gen.remote()
    never = ray.remote(lambda p: wait_at(p) and 5).remote(path)
    assert ray.wait([g, never], num_returns=1, timeout=30) == ([g], [never])
    assert g.next_ready() and not g.is_finished() and ray.get(next(g)) == 1
    assert (
        ray.wait([g, never], num_returns=1, timeout=0.05) == ([], [g, never]) and not g.next_ready()
    )
    assert g._next_sync(0.01).is_nil()
    gate.let_go(2)
    ready, rest = ray.wait([g, never], num_returns=2, timeout=30)
    assert ready == [g, never] and rest == []
    assert ray.get(next(g)) == 2
    with pytest.raises(StopIteration):
        next(g)
    assert g.is_finished() and not g.next_ready()
    with pytest.raises(ValueError, match="more than once"):
        ray.wait([g, g])


def test_generators_in_coroutines(ray):
    @ray.remote
    def gen(n):
        yield from range(n)

    async def take(n):
        return [await r async for r in gen.remote(n)]

    async def main():
        return await asyncio.gather(*(take(n) for n in range(5)))

    assert asyncio.run(main()) == [list(range(n)) for n in range(5)]

    async def one():
        return await ray.put(7).as_future()

    assert asyncio.run(one()) == 7
    got = threading.Event()
    ray.put(8)._on_completed(lambda v: v == 8 and got.set())
    assert got.wait(30)


def test_get_raises_before_the_others_are_there(ray, gate):
    if skate.api._context["engine"] == "inline":
        pytest.skip("one task after the other")
    path = gate.path

    @ray.remote
    def f(fail):
        if fail:
            raise KeyError("early")
        wait_at(path)

    refs = [f.remote(False), f.remote(True)]
    with pytest.raises(KeyError, match="early"):
        ray.get(refs, timeout=30)
    assert ray.wait(refs[:1], timeout=0)[0] == []


def test_runtime_env(fresh, tmp_path, monkeypatch):
    (tmp_path / "mods" / "their_module").mkdir(parents=True)
    (tmp_path / "mods" / "their_module" / "__init__.py").write_text("VALUE = 'found'\n")
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "data.txt").write_text("content")
    (tmp_path / "work" / "beside.py").write_text("NAME = 'beside'\n")
    module = str(tmp_path / "mods" / "their_module")
    ray = fresh(runtime_env={"env_vars": {"A_B_C": "job"}})
    if fresh.engine == "inline":
        return

    def look():
        c = skate.get_runtime_context()
        return os.environ.get("A_B_C"), os.environ.get("D_E_F"), dict(c.runtime_env)

    assert ray.get(ray.remote(look).remote()) == ("job", None, {"env_vars": {"A_B_C": "job"}})
    f = ray.remote(runtime_env={"env_vars": {"D_E_F": "task"}})(look)
    assert ray.get(f.remote()) == ("job", "task", {"env_vars": {"A_B_C": "job", "D_E_F": "task"}})
    assert ray.get(ray.remote(look).remote())[1] is None  # the process is not reused

    @ray.remote(runtime_env={"py_modules": [module], "working_dir": str(tmp_path / "work")})
    def g():
        import beside
        import their_module

        return their_module.VALUE, beside.NAME, open("data.txt").read()

    assert ray.get(g.remote()) == ("found", "beside", "content")

    @ray.remote
    class A:
        def f(self):
            return os.environ.get("D_E_F"), os.environ.get("A_B_C")

    assert ray.get(A.options(runtime_env={"env_vars": {"D_E_F": "actor"}}).remote().f.remote()) == (
        "actor",
        "job",
    )
    ray = fresh(runtime_env={"py_modules": [module], "working_dir": str(tmp_path / "work")})
    assert ray.get(
        ray.remote(lambda: (os.getcwd(), __import__("their_module").VALUE)).remote()
    ) == (str(tmp_path / "work"), "found")


@pytest.mark.parametrize(
    "env,cls,text",
    [
        ({"env_vars": {"A": 1}}, TypeError, "for A, value 1"),
        ({"env_vars": ["A"]}, TypeError, "Dict"),
        ({"working_dir": "/no/such/folder"}, ValueError, "not a folder"),
        (
            {"working_dir": "s3://bucket/x.zip"},
            skate.exceptions.RuntimeEnvSetupError,
            "local folders",
        ),
        ({"py_modules": "x"}, TypeError, "list"),
        ({"py_modules": ["/no/such"]}, ValueError, "not a folder"),
        (
            {"pip": ["no-such-package"]},
            skate.exceptions.RuntimeEnvSetupError,
            "'no-such-package': it is not installed",
        ),
        (
            {"uv": {"packages": ["numpy<1"]}},
            skate.exceptions.RuntimeEnvSetupError,
            "'numpy<1': .* is installed",
        ),
        (
            {"pip": ["numpy", "x @ http://y/z.whl"]},
            skate.exceptions.RuntimeEnvSetupError,
            "address",
        ),
        ({"pip": ["-r other"]}, skate.exceptions.RuntimeEnvSetupError, "no name with a version"),
        ({"pip": "/no/such/file"}, ValueError, "requirements file"),
        ({"pip": [1]}, TypeError, "list of requirements"),
        ({"conda": "elsewhere"}, skate.exceptions.RuntimeEnvSetupError, "conda='elsewhere'"),
        ({"no_such": 1}, skate.exceptions.RuntimeEnvSetupError, "no_such"),
    ],
    ids=lambda v: str(v)[:30],
)
def test_wrong_runtime_env(env, cls, text):
    from skate.runtime_env import RuntimeEnv

    for use in (lambda: skate.remote(runtime_env=env)(len), lambda: RuntimeEnv(**env)):
        with pytest.raises(cls, match=text):
            use()


@pytest.mark.parametrize("whole_job", [True, False])
@pytest.mark.parametrize("fresh", ["local"], indirect=True)
def test_a_setup_hook_that_fails(fresh, whole_job):
    """If the setup hook of the environment fails, no task or actor runs, and the error says so."""

    def bad():
        raise ValueError("no such licence")

    env = {"worker_process_setup_hook": bad}
    fresh(num_cpus=1, **({"runtime_env": env} if whole_job else {}))
    options = {} if whole_job else {"runtime_env": env}

    class A:
        def f(self):
            return 1

    for ref in (
        skate.remote(lambda: 2).options(max_retries=0, **options).remote(),
        skate.remote(A).options(**options).remote().f.remote(),
    ):
        with pytest.raises(
            skate.exceptions.RayError,
            match="worker_process_setup_hook failed with ValueError: no such licence",
        ):
            skate.get(ref, timeout=60)


def test_installed_packages(ray, engine, tmp_path):
    (tmp_path / "requirements.txt").write_text(
        "# what it needs\nnumpy>=1  # here\n\nno-such-package; python_version < '3'\n"
    )
    look = ray.remote(lambda: dict(ray.get_runtime_context().runtime_env))
    if engine == "local":  # the inline engine has no process with its own environment
        assert ray.get(look.options(runtime_env={"pip": ["numpy>=1.0", "pyarrow"]}).remote())[
            "pip"
        ] == ["numpy>=1.0", "pyarrow"]
    assert skate.runtime_env.RuntimeEnv(pip=str(tmp_path / "requirements.txt"))["pip"] == [
        "numpy>=1",
        "no-such-package; python_version < '3'",
    ]
    assert skate.runtime_env.RuntimeEnv(uv={"packages": ["numpy"], "uv_check": True})["uv"] == [
        "numpy"
    ]


def test_free(ray, engine):
    """free() releases an object that is held because its ref was pickled by hand."""
    if engine == "inline":
        pytest.skip("it tells no references")
    from skate._private import internal_api

    ref = ray.put(b"x" * 100_000)
    number = int.from_bytes(ref.binary()[-8:], "big")
    data = pickle.dumps(ref)
    del ref
    ref = pickle.loads(data)
    assert ray.get(ref) == b"x" * 100_000 and number in skate._skate.references()
    internal_api.free([ref])
    assert ray.get(ref) == b"x" * 100_000  # the object is in use
    del ref
    assert number not in skate._skate.references()
    with pytest.raises(TypeError, match="ObjectRef"):
        internal_api.free(3)


def test_cluster():
    from skate.cluster_utils import Cluster

    skate.shutdown()
    with pytest.warns(UserWarning, match="one machine"):
        c = Cluster(initialize_head=True, head_node_args={"num_cpus": 3, "resources": {"a": 1}})
    other = c.add_node(num_cpus=4, num_gpus=1, resources={"a": 1, "b": 2})
    c.remove_node(c.add_node(num_cpus=50))
    assert set(c.list_all_nodes()) == {c.head_node, other}
    skate.init(address=c.address, namespace="there")
    c.add_node(num_cpus=10, resources={"node:10.0.0.1": 1})  # the engine was not used yet
    assert skate.get_runtime_context().namespace == "there"
    found = skate.cluster_resources()
    assert (found["CPU"], found["GPU"], found["a"], found["b"], found["object_store_memory"]) == (
        17,
        1,
        2,
        2,
        450 << 20,
    )
    assert (
        found["memory"] > 1 << 20
        and skate.get(skate.remote(memory=500)(lambda: 1).remote(), timeout=60) == 1
    )
    assert skate.get(skate.remote(resources={"node:10.0.0.1": 0.5})(lambda: 1).remote()) == 1
    for wrong in (lambda: c.add_node(), lambda: c.remove_node(other)):
        with pytest.raises((RuntimeError, NotImplementedError), match="one machine|cannot grow"):
            wrong()
    c.shutdown()
    assert not skate.is_initialized()
    skate.init(num_cpus=1, address="local")
    assert skate.cluster_resources()["CPU"] == 1
    skate.shutdown()


def test_names_of_ray_inside(ray):
    from skate._private import (
        internal_api,
        ray_option_utils,
        services,
        state,
        utils,
        worker,
    )

    a = ray.remote(Counter).remote() if not hasattr(Counter, "remote") else Counter.remote()
    assert (
        state.actors(a._ray_actor_id.hex())["ActorID"] == a._ray_actor_id.hex()
        and state.actors("00") == {}
    )
    assert (
        0 < utils.get_used_memory() < utils.get_system_memory()
        and services.get_node_ip_address() == ray.nodes()[0]["NodeManagerAddress"]
    )
    assert worker.global_worker.mode == ray.SCRIPT_MODE and ray.get(
        ray.remote(lambda: worker.global_worker.mode).remote()
    ) in (0, 1)
    assert (
        "label_selector" in ray_option_utils.task_options
        and "max_restarts" in ray_option_utils.actor_options
    )
    stats = internal_api.get_memory_info_reply(
        internal_api.get_state_from_address(None)
    ).store_stats
    assert stats.spilled_bytes_total >= 0 and stats.object_store_bytes_used >= 0


def test_resources_and_labels(fresh, monkeypatch):
    monkeypatch.setenv("RAY_OVERRIDE_RESOURCES", '{"CPU": 3, "one": 1}')
    ray = fresh(resources={"one": 5, "two": 2}, labels={"a": "b"})
    r = ray.cluster_resources()
    assert (
        r["CPU"] == 3
        and r["one"] == 1
        and r["two"] == 2
        and r["object_store_memory"] > 0
        and "GPU" not in r
    )
    assert ray.nodes()[0]["Labels"]["a"] == "b" and ray.nodes()[0]["Resources"] == r

    @ray.remote(num_cpus=3, resources={"two": 2})
    def f():
        return ray.available_resources()

    free = ray.get(f.remote())
    assert "CPU" not in free and "two" not in free and free["one"] == 1
    from skate.util.scheduling_strategies import (
        NodeAffinitySchedulingStrategy,
        NodeLabelSchedulingStrategy,
        NotIn,
    )

    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    assert ray.get(ray.remote(lambda: 1).options(scheduling_strategy=here).remote()) == 1
    for away in (
        NodeAffinitySchedulingStrategy("00" * 28, soft=False),
        NodeLabelSchedulingStrategy({"a": NotIn("b")}),
    ):
        ref = ray.remote(lambda: 1).options(scheduling_strategy=away).remote()
        with pytest.raises(
            ray.exceptions.TaskUnschedulableError,
            match="the scheduling strategy does not allow|the node 0000",
        ):
            ray.get(ref)


def test_errors_as_the_users_own(ray):
    class Fixed(Exception):
        args = property(lambda self: ("mine",))

    @ray.remote(max_retries=0)
    def f(e):
        raise e

    group = ExceptionGroup("two", [ValueError(1), TypeError(2)])
    with pytest.raises(ExceptionGroup) as info:
        ray.get(f.remote(group))
    assert [type(e) for e in info.value.exceptions] == [ValueError, TypeError] and isinstance(
        info.value, ray.exceptions.RayTaskError
    )
    with pytest.raises(Fixed) as info:
        ray.get(f.remote(Fixed()))
    assert info.value.args == (info.value.cause,)
    with pytest.raises(ray.exceptions.RayTaskError) as info:
        ray.get(f.remote(BaseExceptionGroup("base", [KeyboardInterrupt()])))
    assert "base" in str(info.value)

    class Locked(Exception):
        def __init__(self):
            self.lock = threading.Lock()

    @ray.remote(max_retries=0)
    def g():
        raise Locked

    with pytest.raises(ray.exceptions.RayTaskError) as info:
        ray.get(g.remote())
    assert "isn't serializable" in str(info.value.cause)

    @ray.remote(max_retries=0)
    def write(x):
        x[0] = 1

    with pytest.raises(ValueError, match=r"read-only[\s\S]*x\.copy\(\)"):
        ray.get(write.remote(ray.put(np.zeros(100_000))))


def test_retry_only_some_exceptions(ray, tmp_path):
    @ray.remote
    class A:
        def __init__(self):
            self.n = 0

        @ray.method(max_task_retries=5, retry_exceptions=[KeyError])
        def f(self, cls, good_at):
            self.n += 1
            if self.n < good_at:
                raise cls(self.n)
            return self.n

    assert ray.get(A.remote().f.remote(KeyError, 4)) == 4
    with pytest.raises(ValueError, match="1"):
        ray.get(A.remote().f.remote(ValueError, 4))
    with pytest.raises(KeyError):
        ray.get(A.remote().f.options(max_task_retries=1).remote(KeyError, 4))
    count = tmp_path / "n"

    @ray.remote(max_retries=3, retry_exceptions=[OSError])
    def g(cls):
        with open(count, "a") as f:
            f.write("x")
        raise cls("again")

    with pytest.raises(FileNotFoundError):  # a subclass of OSError
        ray.get(g.remote(FileNotFoundError))
    assert count.read_text() == "xxxx"
    with pytest.raises(KeyError):
        ray.get(g.remote(KeyError))
    assert count.read_text() == "xxxxx"


def test_serializers(ray):
    class Handle:
        def __init__(self, name):
            self.name, self.lock = name, threading.Lock()

    with pytest.raises(TypeError, match="Lock"):
        ray.put(Handle("a"))
    ray.util.register_serializer(
        Handle, serializer=lambda h: h.name, deserializer=lambda name: Handle(name + "!")
    )
    assert ray.get(ray.put([Handle("a")]))[0].name == "a!"
    assert ray.get(ray.remote(lambda h: h.name).remote(Handle("b"))) == "b!"
    ray.util.deregister_serializer(Handle)
    ray.util.deregister_serializer(Handle)
    with pytest.raises(TypeError, match="Lock"):
        ray.put(Handle("a"))


def test_inspect_serializability(capsys):
    lock = threading.Lock()

    def f():
        return lock

    ok, failures = skate.util.inspect_serializability(f, name="f")
    assert not ok and [(x.obj, x.name, x.parent) for x in failures] == [(lock, "lock", f)]
    assert capsys.readouterr().out.startswith(
        "f -> closure variable lock: threading.Lock cannot be sent"
    )
    assert skate.util.inspect_serializability(len) == (True, set())
    with pytest.raises(TypeError, match="^f -> closure variable lock"):
        skate.cloudpickle.dumps_debug(f)


def test_module_made_by_hand(ray):
    """No other process can import the module, so its contents are pickled by value."""
    import types

    m = types.ModuleType("made_by_hand.inside")
    sys.modules["made_by_hand.inside"] = m
    try:
        exec("def helper():\n    return 'helped'\ndef f():\n    return helper()\n", m.__dict__)
        assert ray.get(ray.remote(m.f).remote()) == "helped"
    finally:
        import cloudpickle

        if "made_by_hand.inside" in cloudpickle.list_registry_pickle_by_value():
            cloudpickle.unregister_pickle_by_value(m)
        del sys.modules["made_by_hand.inside"]


def test_leaving_in_order(fresh, tmp_path):
    ray = fresh()
    if fresh.engine == "inline":
        return
    log = tmp_path / "log"

    def note(text):
        with open(log, "a") as f:
            f.write(text + "\n")

    @ray.remote
    class A:
        def __init__(self, name):
            import atexit

            self.name = name
            atexit.register(note, "atexit of " + name)

        def __ray_shutdown__(self):
            note("shutdown of " + self.name)

        def leave(self):
            skate.actor.exit_actor()

        def ping(self):
            return os.getpid()

    def wait_for(n):
        end = time.monotonic() + 30
        while not log.exists() or log.read_text().count("\n") < n:
            assert time.monotonic() < end, log.exists() and log.read_text()
            time.sleep(0.01)
        return log.read_text().splitlines()[n - 2 : n]

    a = A.remote("scope")
    ray.get(a.ping.remote())
    del a
    assert wait_for(2) == ["shutdown of scope", "atexit of scope"]
    b = A.remote("exit")
    with pytest.raises(ray.exceptions.ActorDiedError, match="exit_actor"):
        ray.get(b.leave.remote())
    assert wait_for(4) == ["shutdown of exit", "atexit of exit"]
    c = A.remote("killed")
    pid = ray.get(c.ping.remote())
    ray.kill(c)
    with pytest.raises(ray.exceptions.RayActorError):
        ray.get(c.ping.remote())
    assert not wait_gone([pid], 30)
    assert log.read_text().count("\n") == 4
    with pytest.raises(TypeError, match="exit_actor"):
        skate.actor.exit_actor()


def test_process_title(fresh):
    import psutil

    ray = fresh()
    if fresh.engine == "inline":
        return

    @ray.remote
    class A:
        def __init__(self):
            self.seen = psutil.Process().cmdline()[0]

        def both(self):
            return self.seen, psutil.Process().cmdline()[0]

    assert ray.get(A.remote().both.remote()) == ("ray::A.__init__", "ray::A.both")
    f = ray.remote(lambda: psutil.Process().cmdline()[0])
    assert ray.get(f.options(name="a name").remote()) == "ray::a name"
    assert ray.get(f.options(name="n" * 5000).remote()).startswith("ray::nnn")


def test_weak_handles(ray):
    c = Counter.options(name="looked up").remote(5)
    h = ray.get_actor("looked up")
    assert h == c and ray.get(h.add.remote()) == 6

    @ray.remote
    def use(handle):
        return ray.get(handle.add.remote()), ray.get(ray.get_actor("looked up").add.remote())

    assert ray.get(use.remote(h)) == (7, 8)
    assert "looked up" in ray.util.list_named_actors()
    del c  # a handle from get_actor() does not keep the actor alive
    end = time.monotonic() + 30
    with pytest.raises(ValueError, match="Failed to look up"):
        while time.monotonic() < end:
            ray.get_actor("looked up")
    with pytest.raises(ray.exceptions.RayActorError):
        ray.get(h.add.remote())


def test_namespaces(fresh):
    ray = fresh(namespace="mine")
    a, b = (
        Counter.options(name="n").remote(1),
        Counter.options(name="n", namespace="other").remote(2),
    )
    assert ray.get_actor("n") == a and ray.get_actor("n", namespace="other") == b and a != b
    assert {"name": "n", "namespace": "other"} in ray.util.list_named_actors(
        all_namespaces=True
    ) and ray.util.list_named_actors() == ["n"]
    with pytest.raises(ValueError, match="Failed to look up"):
        ray.get_actor("n", namespace="third")
    with pytest.raises(ValueError, match="already taken"):
        Counter.options(name="n").remote()
    assert Counter.options(name="n", get_if_exists=True).remote() == a
    with pytest.raises(ValueError, match="get_if_exists"):
        Counter.options(get_if_exists=True).remote()
    assert ray.get(ray.remote(lambda: ray.get_runtime_context().namespace).remote()) == "mine"


@pytest.mark.parametrize("package", ["skate", "skate.util", "skate.experimental", "skate.data"])
def test_names_that_are_not_there(package):
    import importlib

    module = importlib.import_module(package)
    for name in ("set_resource", "no_such_name"):
        with pytest.raises(AttributeError, match=f"module '{package}' has no attribute '{name}'"):
            getattr(module, name)


def test_exceptions_take_the_arguments_of_ray():
    import pickle

    from skate import exceptions as ex

    cases = [
        (ex.TaskCancelledError(error_message="no"), "no", {"error_message": "no", "task_id": None}),
        (ex.TaskCancelledError("text of the engine"), "text of the engine", {"task_id": None}),
        (
            ex.RayActorError(),
            "The actor failed.",
            {"actor_id": None, "preempted": False, "actor_init_failed": False},
        ),
        (
            ex.RayActorError("0a", "gone", True, True),
            "gone",
            {"actor_id": "0a", "preempted": True, "actor_init_failed": True, "error_msg": "gone"},
        ),
        (ex.ActorDiedError("killed"), "killed", {"actor_id": None, "error_msg": "killed"}),
        (ex.ActorDiedError(), "The actor died before this call of it had ended.", {}),
        (ex.ActorUnavailableError("wait", b"\x0a"), "wait", {"actor_id": "0a"}),
        (ex.OutOfMemoryError(message="much"), "much", {"message": "much"}),
        (ex.RuntimeEnvSetupError(error_message="x"), "x", {"error_message": "x"}),
        (ex.RaySystemError("x", traceback_str="y"), "x", {"client_exc": "x", "traceback_str": "y"}),
        (
            ex.ObjectLostError(object_ref_hex="aa", owner_address=None, call_site="here"),
            "aa",
            {"call_site": "here"},
        ),
        (ex.TaskUnschedulableError("never"), "never", {"error_message": "never"}),
        (ex.RpcError("down", rpc_code=14), "('down',)", {"rpc_code": 14}),
    ]
    for e, text, attributes in cases:
        for x in (e, pickle.loads(pickle.dumps(e))):
            assert type(x) is type(e) and (str(x) == text or str(x.args) == text)
            assert {k: getattr(x, k) for k in attributes} == attributes
    died = ex.ActorDiedError(ex.RayTaskError("f", "boom", ValueError(1), actor_id="0b"))
    assert died.actor_init_failed and died.actor_id == "0b" and "boom" in str(died)
    for cls in (
        ex.OutOfMemoryError,
        ex.RayActorError,
        ex.TaskCancelledError,
        ex.WorkerCrashedError,
    ):
        with pytest.raises(TypeError):
            cls(nonsense=1)


def test_a_failed_constructor_is_named(ray):
    @ray.remote
    class Bad:
        def __init__(self):
            raise ValueError("no")

        def f(self):
            pass

    with pytest.raises(ray.exceptions.ActorDiedError) as e:
        ray.get(Bad.remote().f.remote())
    assert e.value.actor_init_failed and isinstance(e.value.cause, ValueError)


def test_logging_config(ray):
    import json
    import subprocess
    import sys

    program = """
import logging, skate as ray
ray.init(num_cpus=1, logging_config=ray.LoggingConfig(encoding="JSON", log_level="INFO", additional_log_standard_attrs=["name"]))
@ray.remote
def f():
    logging.getLogger("mine").info("in a task", extra={"step": 3})
    logging.getLogger("mine").debug("not this")
ray.get(f.remote())
logging.info("in the driver")
ray.shutdown()
ray.init(num_cpus=1, logging_config=ray.LoggingConfig())
logging.info("as text")
"""
    out = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )
    lines = [
        line
        for line in out.stderr.splitlines()
        if "in a task" in line or "in the driver" in line or "as text" in line
    ]
    assert len(lines) == 3 and "not this" not in out.stderr, out
    task, driver = (
        json.loads(lines[0].partition(") ")[2] if lines[0].startswith("(f pid=") else lines[0]),
        json.loads(lines[1]),
    )
    assert (
        task["step"] == 3
        and task["name"] == "mine"
        and task["task_name"] == "f"
        and task["levelname"] == "INFO"
        and task["worker_id"]
    )
    assert (
        "task_name" not in driver
        and driver["message"] == "in the driver"
        and driver["job_id"] == task["job_id"]
    )
    assert "INFO <string>:" in lines[2] and "job_id=" in lines[2]
    with pytest.raises(ValueError, match="encoding 'XML'"):
        ray.LoggingConfig(encoding="XML")
    with pytest.raises(ValueError, match="'nonsense' is no attribute"):
        ray.LoggingConfig(additional_log_standard_attrs=["nonsense"])


def test_the_read_only_hint_in_the_driver():
    import subprocess
    import sys

    program = """
import numpy as np, skate as ray
ray.init(num_cpus=1); ray.init(ignore_reinit_error=True); ray.shutdown(); ray.init(num_cpus=1)
a = ray.get(ray.put(np.zeros(5)))
a[0] = 1
"""
    out = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )
    assert (
        out.returncode == 1
        and out.stderr.count("x = x.copy()") == 1
        and "ValueError: assignment destination is read-only" in out.stderr
    )


def test_log_once_and_annotations(recwarn):
    from skate.util import annotations, debug, log_once

    assert log_once("k1") and not log_once("k1") and log_once("k2")
    debug.reset_log_once("k1")
    assert debug.log_once("k1") and not debug.log_once("k2")

    @annotations.PublicAPI(stability="beta")
    def f(x):
        return x

    @annotations.DeveloperAPI
    class A:
        pass

    @annotations.Deprecated(message="Use f.", warning=True)
    def old(x):
        return x + 1

    @annotations.Deprecated
    def older(x):
        return x + 2

    assert (f(1), old(1), older(1)) == (1, 2, 3) and A()
    assert [str(w.message) for w in recwarn if w.category is annotations.RayDeprecationWarning] == [
        "old is deprecated: a later version will not have it. Use f."
    ]


def test_fields_of_a_runtime_env_by_set_and_get(tmp_path):
    @dataclasses.dataclass
    class Config:
        setup_timeout_seconds: int

    env = skate.runtime_env.RuntimeEnv(env_vars={"a": "1"})
    env.set("working_dir", str(tmp_path))
    env.set("config", Config(7))
    assert env.get("working_dir") == str(tmp_path) and env["env_vars"] == {"a": "1"}
    assert (
        env.get("config", data_class=Config) == Config(7)
        and env.get("pip") is None
        and env.get("pip", 3) == 3
    )
    with pytest.raises(TypeError, match="env_vars is a Dict"):
        env.set("env_vars", {"a": 1})
