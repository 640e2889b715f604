"""Numbers of an engine for others: metrics for Prometheus, spans for OpenTelemetry, and pictures of
a run."""

import json
import logging
import os
import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import skate
import skate.data as sd
from engine.waits import wait_until
from skate.util import metrics
from skate.util.metrics import prometheus_text, write_prometheus

REFERENCE = Path(__file__).parents[3] / "docs" / "reference" / "metrics.md"


@pytest.fixture(scope="module", autouse=True)
def engine():
    skate.shutdown()
    skate.init(num_cpus=2, num_gpus=0, object_store_memory=64 << 20)
    yield
    skate.shutdown()


@pytest.fixture(scope="module")
def run():
    ds = sd.range(1000, override_num_blocks=4).map_batches(lambda b: b, batch_size=100)
    return ds.random_shuffle().materialize()


def families(text):
    from prometheus_client.parser import text_string_to_metric_families

    return {f.name: f for f in text_string_to_metric_families(text.decode())}


def test_metrics_are_those_of_the_reference(run):
    found = families(prometheus_text())
    ours = {
        name + "_total" * (f.type == "counter"): f.type
        for name, f in found.items()
        if name.startswith("skate_")
    }
    told = dict(re.findall(r"^\| `(skate_\w+)` \| (gauge|counter) \|", REFERENCE.read_text(), re.M))
    assert ours == told
    assert all(f.documentation for f in found.values())


def test_values_of_metrics(run):
    def value(name, **labels):
        (s,) = [s.value for s in found[name].samples if labels.items() <= s.labels.items()]
        return s

    def all_of_it():
        nonlocal found
        found = families(prometheus_text())
        return value("skate_tasks", result="done") >= 5

    found = {}
    wait_until(all_of_it)  # nodes tell what they have done within half a second
    assert value("skate_store_capacity_bytes") == 64 << 20
    assert value("skate_tasks", result="failed") == 0
    assert value("skate_info", pid=str(os.getpid())) == 1
    rows = {s.labels["label"]: s.value for s in found["skate_operator_rows_out"].samples}
    assert [v for k, v in rows.items() if "MapBatches" in k] == [1000]
    assert value("skate_operator_wait_seconds", operator="0", reason="memory") >= 0


def test_the_users_metrics_are_included(tmp_path):
    mine = metrics.Counter("my.requests", "Requests.", tag_keys=("who",))
    again = metrics.Counter("my.requests", "Requests.", tag_keys=("who",))
    level, sizes = metrics.Gauge("level"), metrics.Histogram("sizes", boundaries=[1, 10])
    mine.inc(2, {"who": 'a\n"b"'})
    again.inc(1, {"who": 'a\n"b"'})
    level.set(-1.5)
    for v in (0.5, 3, 4, 100):
        sizes.observe(v)
    write_prometheus(tmp_path / "out.prom")
    assert os.listdir(tmp_path) == ["out.prom"]
    found = families((tmp_path / "out.prom").read_bytes())
    (sample,) = found["my_requests"].samples
    assert (sample.name, sample.value) == ("my_requests_total", 3.0)
    assert sample.labels == {"who": 'a\n"b"'}
    assert found["level"].samples[0].value == -1.5
    buckets = {s.labels["le"]: s.value for s in found["sizes"].samples if "le" in s.labels}
    assert buckets == {"1.0": 1, "10.0": 3, "+Inf": 4}
    sums = {s.name: s.value for s in found["sizes"].samples}
    assert (sums["sizes_count"], sums["sizes_sum"]) == (4, 107.5)
    other = dict(skate._private.view.own(), pid=1)
    assert b"my_requests" not in prometheus_text(other)
    with pytest.raises(OSError):
        write_prometheus(tmp_path / "no" / "x")
    clash = metrics.Gauge("level.")
    clash2 = metrics.Counter("level ")
    with pytest.raises(ValueError, match="a counter and a gauge called level_"):
        prometheus_text()
    del clash, clash2, mine, again, level, sizes


def test_spans_of_what_has_ended(run):
    sdk = pytest.importorskip("opentelemetry.sdk.trace")
    from opentelemetry import trace
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    from skate.util.tracing import export_spans

    seen = InMemorySpanExporter()
    provider = sdk.TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(seen))
    trace.set_tracer_provider(provider)

    @skate.remote
    def child():
        pass

    @skate.remote
    def parent():
        skate.get(child.remote())

    @skate.remote(max_retries=0)
    def wrong():
        raise ValueError("x")

    skate.get(parent.remote())
    with pytest.raises(ValueError, match="x"):
        skate.get(wrong.remote())
    n = export_spans()
    spans = {s.name.rpartition(".")[2]: s for s in seen.get_finished_spans()}
    assert n == len(seen.get_finished_spans())
    assert spans["child"].parent.span_id == spans["parent"].context.span_id
    assert spans["parent"].start_time <= spans["child"].start_time
    assert spans["child"].end_time <= spans["parent"].end_time
    assert abs(spans["child"].end_time / 1e9 - __import__("time").time()) < 600
    assert spans["wrong"].status.status_code.name == "ERROR"
    ops = [s for s in seen.get_finished_spans() if "skate.rows_out" in s.attributes]
    assert any(s.attributes["skate.rows_out"] == 1000 for s in ops)
    seen.clear()
    assert export_spans() == 0  # each span once
    skate.get(child.remote())
    assert export_spans() == 1


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_a_run_is_drawn(run, tmp_path, ending):
    path = tmp_path / f"run.{ending}"
    figure = run.stats().plot(path)
    if ending == "svg":
        assert ET.parse(path).getroot().tag.endswith("svg")
    else:
        assert path.read_bytes().startswith(b"\x89PNG")
    rows, memory, queues = figure.axes
    labels = [t.get_text() for t in rows.get_legend().get_texts()]
    assert labels == ["in", "out"] and memory.get_ylabel() == "blocks, MiB"
    assert len(queues.lines) == len(skate._private.view.own()["runs"][-1]["ops"])
    assert type(figure).__name__ == "Figure"


def test_a_run_of_many_operators_and_a_short_one_are_drawn(tmp_path):
    from skate.data.run.plot import draw

    many = {
        "t": [0.0, 1.0, 1.0],
        "memory": [0, 1, 2],
        "disk": [0, 0, 0],
        "rows_in": [0, 10, 10],
        "rows_out": [0, 5, 7],
        "queued": [[0, i, i] for i in range(20)],
    }
    figure = draw(many, [f"op {i}" for i in range(20)], {"memory_limit": 4})
    assert len(figure.axes[2].lines) == 9
    assert "12 others" in [t.get_text() for t in figure.axes[2].get_legend().get_texts()]
    one = {k: v[:1] for k, v in many.items() if k != "queued"} | {"queued": [[0]]}
    draw(one, ["op"], {}).savefig(tmp_path / "one.png")


def test_stats_that_cannot_be_drawn_say_why(run, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="has not run in this process"):
        sd.range(3).stats().plot()
    with pytest.raises(ValueError, match="(?i)format 'xyz' is not supported"):
        run.stats().plot(tmp_path / "a.xyz")
    assert isinstance(run.stats(), str) and "samples" not in json.loads(run.stats_json())


@pytest.mark.parametrize(
    "module, call",
    [
        ("prometheus_client", "skate.util.metrics.prometheus_text()"),
        ("opentelemetry", "skate.util.tracing.export_spans()"),
        ("matplotlib", "skate.data.range(3).map(lambda r: r).materialize().stats().plot()"),
    ],
)
def test_a_package_that_is_missing_is_named(module, call, tmp_path):
    import subprocess

    program = f"""
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == {module!r}:
            raise ModuleNotFoundError(f"No module named {{name}}", name={module!r})

sys.meta_path.insert(0, Hidden())
import skate, skate.data, skate.util.metrics, skate.util.tracing
skate.init(num_cpus=1)
try:
    {call}
except ImportError as e:
    print(e)
"""
    p = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    names = {"prometheus_client": "prometheus-client", "opentelemetry": "opentelemetry-api"}
    assert f"pip install {names.get(module, module)}" in p.stdout, p.stderr


def test_a_formatter_for_json_logs():
    formatter = skate.LoggingConfig(
        encoding="JSON", additional_log_standard_attrs=["threadName"]
    ).formatter()
    try:
        raise ValueError("no")
    except ValueError:
        record = logging.getLogger("a.b").makeRecord(
            "a.b", logging.ERROR, "f.py", 3, "x %s", ("y",), sys.exc_info(), extra={"k": {1}}
        )
    line = formatter.format(record)
    assert "\n" not in line
    out = json.loads(line)
    assert (out["levelname"], out["message"], out["name"], out["lineno"]) == (
        "ERROR",
        "x y",
        "a.b",
        3,
    )
    assert "ValueError: no" in out["exc_text"] and out["k"] == "{1}" and "threadName" in out
