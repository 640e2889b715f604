"""The table of knobs, options, and the time of imports."""

import json
import os
import subprocess
import sys

import pytest
import skate
from skate import config
from skate.calls import options


def test_defaults():
    out = config.resolve({})
    assert (
        set(out) == set(config.KNOBS)
        and out["num_cpus"] >= 1
        and out["object_store_memory"] > 1 << 20
    )
    assert out["object_store_memory"] < config.memory_bytes()


def test_precedence(monkeypatch):
    monkeypatch.setenv("SKATE_NUM_CPUS", "3")
    assert config.resolve({})["num_cpus"] == 3
    assert config.resolve({"num_cpus": 5})["num_cpus"] == 5
    assert config.resolve({"num_cpus": None})["num_cpus"] == 3
    monkeypatch.setenv("SKATE_NUM_CPUS", "2.5")
    assert config.resolve({})["num_cpus"] == 2.5
    monkeypatch.setenv("SKATE_ENGINE", "inline")
    assert config.resolve({})["engine"] == "inline"


def test_wrong_knobs(monkeypatch):
    with pytest.raises(ValueError, match="'nmu_cpus'.*known: engine"):
        config.resolve({"nmu_cpus": 1})
    monkeypatch.setenv("SKATE_SPIN_US", "x")
    with pytest.raises(ValueError, match="SKATE_SPIN_US='x'.*spins"):
        config.resolve({})


def test_wrong_values(monkeypatch):
    with pytest.raises(
        TypeError, match="max_workers='many': what is wanted is a number .most worker processes"
    ):
        config.resolve({"max_workers": "many"})
    with pytest.raises(ValueError, match="idle_reap_s=-1: .* of 0 or more"):
        config.resolve({"idle_reap_s": -1})
    with pytest.raises(TypeError, match="engine=1: .* a text"):
        config.resolve({"engine": 1})
    monkeypatch.setenv("SKATE_SPIN_US", "-2")
    with pytest.raises(ValueError, match="SKATE_SPIN_US=-2: .* of -1 or more"):
        config.resolve({})


def test_unknown_names_are_told_once_with_the_nearest(monkeypatch, caplog):
    monkeypatch.setenv("SKATE_NUM_CPU", "3")
    monkeypatch.setenv("SKATE_LIVE_FD", "1")  # one of skate's own variables
    for _ in range(2):
        config.resolve({"health_check_period_ms": 1})
    assert [r.getMessage() for r in caplog.records] == [
        "_system_config: 'health_check_period_ms' means nothing to skate",
        "the environment sets SKATE_NUM_CPU, which means nothing to skate; did you mean SKATE_NUM_CPUS?",
    ]
    caplog.clear()
    monkeypatch.setattr(config, "_told", set())
    for _ in range(2):
        assert config.from_ray({"max_io_workers": 4, "seed": 1}) == {"seed": 1}
        with pytest.raises(RuntimeError):
            skate.init(cgroup_path="/", num_cpu=2)
    assert [r.getMessage() for r in caplog.records] == [
        "_system_config: 'max_io_workers' is Ray's and has no effect in skate: threads of the engine write what is spilled",
        "init: 'cgroup_path' is Ray's and has no effect in skate: skate makes no cgroups",
    ]
    with pytest.raises(
        RuntimeError, match=r"Unknown keyword argument\(s\): num_cpu; did you mean 'num_cpus'"
    ):
        skate.init(num_cpu=2)


def test_spilling(monkeypatch, tmp_path):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    out = config.resolve({})
    assert out["spill_dir"] == [str(tmp_path)] and out["spill_bytes"] == -1
    monkeypatch.setenv("SKATE_SPILL_DIR", "")
    assert config.resolve({})["spill_dir"] == []
    monkeypatch.setenv("SKATE_SPILL_DIR", str(tmp_path / "123"))
    assert config.resolve({})["spill_dir"] == [str(tmp_path / "123")]
    monkeypatch.setenv("SKATE_SPILL_DIR", f"{tmp_path}/a:{tmp_path}/b")
    out = config.resolve({})
    assert out["spill_dir"] == [f"{tmp_path}/a", f"{tmp_path}/b"]
    monkeypatch.delenv("SKATE_SPILL_DIR")
    for path, match in (
        (tmp_path / "none", "is no directory"),
        ("/proc/1/fd", "TMPDIR='/proc/1/fd' is read-only|is no directory"),
    ):
        monkeypatch.setenv("TMPDIR", str(path))
        if not os.access(path, os.W_OK):
            with pytest.raises(ValueError, match=match):
                config.resolve({})
    assert config.resolve({"spill_bytes": 5})["spill_bytes"] == 5
    ray = json.dumps({"type": "filesystem", "params": {"directory_path": [str(tmp_path), "/y"]}})
    assert config.from_ray({"object_spilling_config": ray, "max_io_workers": 4, "seed": 1}) == {
        "spill_dir": [str(tmp_path), "/y"],
        "seed": 1,
    }
    assert config.from_ray({"automatic_object_spilling_enabled": False}) == {"spill_dir": ""}
    with pytest.raises(ValueError, match="smart_open"):
        config.from_ray(
            {"object_spilling_config": '{"type": "smart_open", "params": {"uri": "s3://x"}}'}
        )
    with pytest.raises(ValueError, match="a directory is wanted"):
        config.from_ray({"object_spilling_config": '{"type": "filesystem", "params": {}}'})
    with pytest.raises(ValueError, match="params are directory_path and buffer_size"):
        config.from_ray(
            {
                "object_spilling_config": '{"type": "filesystem", "params": {"directory_path": "/tmp", "random_arg": 1}}'
            }
        )


def test_the_table_is_complete_and_small():
    assert len(config.KNOBS) <= 30
    for name, (_, env, meaning) in config.KNOBS.items():
        assert env == "SKATE_" + name.upper() and len(meaning) > 10


def test_option_tables_name_their_keywords():
    with pytest.raises(ValueError, match=r"Valid ones are \[.*'num_cpus'"):
        options.check(options.TASK, {"x": 1}, "remote functions")
    assert options.check(options.TASK, {"num_cpus": None}, "remote functions") == {"num_cpus": None}


def test_import_is_light():
    code = "import sys; a = set(sys.modules); import skate; print('\\n'.join(sorted(set(sys.modules) - a)))"
    root = os.path.dirname(os.path.dirname(os.path.abspath(config.__file__)))
    p = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": root},
    )
    got = set(p.stdout.split())
    heavy = {
        "numpy",
        "pyarrow",
        "pandas",
        "cloudpickle",
        "asyncio",
        "inspect",
        "dataclasses",
        "typing",
        "re",
        "logging",
        "traceback",
        "subprocess",
        "multiprocessing",
        "pickle",
        "json",
        "socket",
    }
    assert "skate._skate" in got and not heavy & got, heavy & got


@pytest.mark.parametrize("name", ["CPU", "GPU", "memory", "object_store_memory"])
def test_resources_that_have_a_keyword(name):
    skate.shutdown()  # an engine that other tests of this process may have left open
    with pytest.raises(AssertionError, match=f"`{name}` cannot be a custom resource"):
        skate.init(resources={name: 1})


def test_the_temporary_directory(tmp_path, monkeypatch):
    monkeypatch.delenv("SKATE_SPILL_DIR", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAY_TMPDIR", os.path.join("of", "ray"))
    for more, wanted in (
        ({}, tmp_path / "of" / "ray"),
        ({"_temp_dir": str(tmp_path / "said")}, tmp_path / "said"),
    ):
        with skate.init(num_cpus=1, _system_config={"engine": "inline"}, **more) as context:
            assert (
                os.path.dirname(context["session_dir"])
                == skate.get_runtime_context().get_temp_dir()
                == str(wanted)
            )
        assert wanted.is_dir()
    with pytest.raises(ValueError, match="_temp_dir: an absolute path"):
        skate.init(_temp_dir="relative")
