"""skate/_deps.py: stand-ins for modules, which import the module when an attribute is first
read."""

import doctest
import importlib
import inspect
import pickle
import sys

import cloudpickle
import pytest
from skate import _deps


def module(tmp_path, monkeypatch, name, text):
    (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()


def test_a_stand_in_imports_at_the_first_look(tmp_path, monkeypatch):
    module(tmp_path, monkeypatch, "first_look", "def f():\n    return 1\n")
    m = _deps.stand_in("first_look")
    assert "first_look" not in sys.modules
    assert m.f() == 1 and vars(m)["f"] is sys.modules["first_look"].f
    with pytest.raises(AttributeError, match="first_look.*nothing"):
        _ = m.nothing


def test_what_is_missing_says_so_each_time():
    m = _deps.stand_in("no_such_package_at_all")
    for _ in range(2):
        with pytest.raises(ModuleNotFoundError, match="no_such_package_at_all"):
            _ = m.f


def test_what_is_missing_can_be_inspected():
    m = _deps.stand_in("no_such_package_at_all")
    assert (
        inspect.unwrap(m) is m and not inspect.isclass(m) and doctest.DocTestFinder().find(m) == []
    )


def test_it_is_pickled_as_the_module():
    assert cloudpickle.loads(cloudpickle.dumps(lambda: _deps.np.arange(3).sum()))() == 3
    fn = eval("lambda: np.arange(4).sum()", {"np": _deps.stand_in("numpy")})
    assert pickle.loads(cloudpickle.dumps(fn))() == 6


def test_variables_of_our_modules_are_looked_up_each_time(monkeypatch):
    from skate.data.values import types

    m = _deps.stand_in("skate.data.values.types")
    before = m.foreign_seen
    monkeypatch.setattr(sys.modules["skate.data.values.types"], "foreign_seen", not before)
    assert m.foreign_seen is not before and types is not None


def test_load_imports_now(tmp_path, monkeypatch):
    module(tmp_path, monkeypatch, "loaded_now", "x = 1\n")
    _deps.load(_deps.stand_in("loaded_now"))
    assert "loaded_now" in sys.modules
