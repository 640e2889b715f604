"""A program changes sys.path, its environment variables or its working directory while the engine
runs, as in a notebook (skate/calls/ambient_environment.py)."""

import os
import sys

import pytest
import skate
import skate.data as sd


@pytest.fixture(scope="module", autouse=True)
def engine():
    skate.init(num_cpus=2)
    yield
    skate.shutdown()


@pytest.fixture
def lib(tmp_path, monkeypatch):
    """A module that cannot be imported yet: (its name, its folder)."""
    name = "ambient_" + tmp_path.name.replace("-", "_")
    (tmp_path / f"{name}.py").write_text("X = 5\nclass Item:\n    x = 7\ndef f():\n    return X\n")
    monkeypatch.setattr(sys, "path", sys.path)  # restored below
    before = list(sys.path)
    yield name, str(tmp_path)
    sys.path[:] = before


def test_a_folder_appended_to_sys_path_is_found_by_tasks_actors_and_datasets(lib):
    name, folder = lib

    @skate.remote
    def f(item=None):
        return __import__(name).X if item is None else item.x

    @skate.remote
    class A:
        def m(self):
            return __import__(name).X

    old = A.remote()
    with pytest.raises(ModuleNotFoundError):
        skate.get(f.remote())
    sys.path.append(folder)
    # the function that was sent before, in workers that exist already
    assert skate.get([f.remote() for _ in range(4)]) == [5] * 4
    assert skate.get(A.remote().m.remote()) == 5
    module = __import__(name)
    assert (
        skate.get(f.remote(module.Item())) == 7 and skate.get(skate.remote(module.f).remote()) == 5
    )
    assert sd.range(2).map(lambda r: {"x": __import__(name).X}).take_all() == [{"x": 5}] * 2
    with pytest.raises(
        ModuleNotFoundError, match=f"this program finds '{name}' in {folder}.*made from now on does"
    ):
        skate.get(old.m.remote())


def test_variables_of_the_environment_come_and_go(monkeypatch):
    @skate.remote
    def env(name):
        return os.environ.get(name)

    assert skate.get(env.remote("AMBIENT_A")) is None
    monkeypatch.setenv("AMBIENT_A", "1")
    assert skate.get([env.remote("AMBIENT_A") for _ in range(4)]) == ["1"] * 4
    assert sd.range(1).map(lambda r: {"x": os.environ["AMBIENT_A"]}).take_all() == [{"x": "1"}]
    own = env.options(runtime_env={"env_vars": {"AMBIENT_A": "mine"}})
    assert skate.get(own.remote("AMBIENT_A")) == "mine"
    monkeypatch.delenv("AMBIENT_A")
    assert skate.get([env.remote("AMBIENT_A") for _ in range(4)]) == [None] * 4


def test_the_working_directory_goes_along_with_what_is_sent_from_then_on(tmp_path, monkeypatch):
    (tmp_path / "here.txt").write_text("hi")

    @skate.remote
    def early():
        return open("here.txt").read()

    with pytest.raises(FileNotFoundError):
        skate.get(early.remote())
    monkeypatch.chdir(tmp_path)

    @skate.remote
    def late():
        return open("here.txt").read()

    with pytest.raises(FileNotFoundError, match=f"this program is in {tmp_path} now"):
        skate.get(early.options(max_retries=0).remote())
    assert skate.get(late.remote()) == "hi"
    assert sd.range(1).map(lambda r: {"t": open("here.txt").read()}).take_all() == [{"t": "hi"}]


class Counted:
    """An object that counts how often it is pickled."""

    def __init__(self):
        self.n = 0

    def __reduce__(self):
        self.n += 1
        return str, ()


def test_who_goes_back_to_what_was_uses_what_was_sent_then(monkeypatch):
    counted = Counted()

    @skate.remote
    def env(name):
        return counted, os.environ.get(name)

    template = env.options(num_cpus=1)
    skate.get(env.remote("AMBIENT_B"))
    for i in range(500):
        for value in ("1", None):
            if value:
                monkeypatch.setenv("AMBIENT_B", value)
            else:
                monkeypatch.delenv("AMBIENT_B")
            ref = (env if i % 2 else template).remote("AMBIENT_B")
            if i % 100 == 0:
                assert skate.get(ref)[1] == value, (
                    "a worker puts on what a function came with, also when it has it loaded"
                )
    assert counted.n == 2
    for i in range(30):
        monkeypatch.setenv(f"AMBIENT_C{i}", "1")
        assert skate.get(env.remote("AMBIENT_C0"))[1] == "1"
    for i in range(30):
        monkeypatch.delenv(f"AMBIENT_C{i}")
    # the function was sent again, because there were many environments in between
    assert skate.get(env.remote("AMBIENT_C0"))[1] is None and counted.n <= 34


def test_another_list_for_sys_path_is_seen_and_taken_back(lib):
    name, folder = lib

    @skate.remote(num_cpus=2)
    def f():
        return folder in sys.path, os.getcwd()

    before, here = sys.path, os.getcwd()
    assert skate.get(f.remote()) == (False, here)
    try:
        sys.path = [folder] + sys.path  # noqa: RUF005
        assert skate.get(f.remote()) == (True, here)
    finally:
        sys.path = before
    assert skate.get(f.remote()) == (False, here)
