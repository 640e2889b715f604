"""bench/run.py [-n RUNS] [-e ENGINES] [WORKLOAD ...]: the workloads of ../shared/measure for skate
and its peers, in one go.

Runs are interleaved (skate, peer, skate, peer ...), so that a noisy machine is noisy to all;
medians and ratios to skate are printed and written to bench/results/<date>-<machine>.json. WORKLOAD
is a file name there without .py, with its arguments after a colon (`hetero_pipeline:40:1`), or a
file of bench/py (`main_job`). Default: core_micro data_overhead first_rows main_job. Engines
default to skate, ray and what the workload's row of ../shared/measure/README.md names and is
installed (../shared/measure/setup.sh [all]). `skate@DIR` is skate of another tree, built there: a
change and what was before it are `-e skate,skate@DIR`."""

import argparse
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
MEASURE = os.environ.get("SKATE_MEASURE", os.path.join(ROOT, "..", "shared", "measure"))
PEERS = os.environ.get("PEERS", os.path.expanduser("~/.cache/skate-peers"))
VENV = os.path.join(ROOT, ".venv", "bin", "python")
RAY, OTHERS = PEERS + "/ray/bin/python", PEERS + "/peers/bin/python"
PYTHON = {"skate": VENV, "numpy": VENV, "ppe": VENV, "pool": VENV, "mp": VENV, "ray": RAY}
DEFAULT = {
    "core_micro": ["skate", "ray", "ppe", "limit"],
    "data_overhead": ["skate", "ray", "numpy"],
    "first_rows": ["skate", "ray"],
    "core_scale": ["skate", "ray"],
    "main_job": ["skate", "pool", "ray"],
    "hetero_pipeline": ["skate", "ray", "mp"],
    "parquet_pipeline": ["skate", "ray"],
    "image_ingest": ["skate", "ray:binary"],
    "fig9": ["skate", "ray"],
    "spill": ["skate"],
}


def command(workload, engine):
    name, *args = workload.split(":")
    engine = engine.split("@")[0]
    if engine == "limit":
        return [PEERS + "/bin/core"]
    python = PYTHON.get(engine.split(":")[0], OTHERS)
    own = os.path.join(HERE, "py", name + ".py")
    return [
        python,
        own if os.path.exists(own) else os.path.join(MEASURE, name + ".py"),
        engine,
        *args,
    ]


def run(workload, engine, timeout):
    tree = engine.partition("@")[2] or ROOT
    env = dict(
        os.environ,
        PYTHONPATH=os.pathsep.join([os.path.join(tree, "python"), MEASURE])
        if engine.startswith("skate")
        else MEASURE,
    )
    try:
        p = subprocess.run(
            command(workload, engine),
            env=env,
            cwd=MEASURE,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"no result in {timeout} s"}
    for line in reversed(p.stdout.splitlines()):
        if line.startswith('{"workload"'):
            return json.loads(line)
    return {"failed": (p.stderr.strip() or p.stdout.strip())[-800:]}


def table(workload, engines, rows):
    """One line per figure: medians of each engine, and each peer's ratio to skate."""
    keys = [k for r in rows.values() for x in r for k in x]
    print(
        f"\n== {workload}  (median of {max(len(r) for r in rows.values())}, interleaved; ratio = peer / skate)"
    )
    print(f"{'figure':30s}" + "".join(f"{e:>24s}" for e in engines))
    out = {}
    for k in dict.fromkeys(keys):
        if k in ("workload", "engine"):
            continue
        cells = []
        for e in engines:
            v = [
                x[k]
                for x in rows[e]
                if isinstance(x.get(k), (int, float)) and not isinstance(x.get(k), bool)
            ]
            text = next((str(x[k]) for x in rows[e] if k in x), "")
            cells.append(statistics.median(v) if v else text)
        out[k] = dict(zip(engines, cells))
        base = cells[0]

        def show(c, base=base):
            if not isinstance(c, (int, float)):
                return c[:22]
            return f"{c:.4g}" + (
                f" ({c / base:.2f})"
                if c is not base and isinstance(base, (int, float)) and base
                else ""
            )

        print(f"{k:30s}" + "".join(f"{show(c):>24s}" for c in cells))
    for e in engines:
        for x in rows[e]:
            if "failed" in x:
                print(f"!! {e}: {x['failed']}")
    sys.stdout.flush()
    return out


def main():
    a = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    a.add_argument("-n", type=int, default=5)
    a.add_argument("-t", type=int, default=600, help="seconds for one run")
    a.add_argument("-e", help="engines, comma separated; the first is the one ratios refer to")
    a.add_argument("workloads", nargs="*")
    a = a.parse_args()
    if not os.path.isdir(MEASURE):
        sys.exit(f"no workloads at {MEASURE}: set SKATE_MEASURE to the folder with core_micro.py")
    results = {}
    for w in a.workloads or ["core_micro", "data_overhead", "first_rows", "main_job"]:
        engines = a.e.split(",") if a.e else DEFAULT.get(w.split(":")[0], ["skate", "ray"])
        missing = [e for e in engines if not os.path.exists(command(w, e)[0])]
        if missing:
            print(
                f"not installed, left out: {', '.join(missing)} (run {MEASURE}/setup.sh all)",
                file=sys.stderr,
            )
        engines = [e for e in engines if e not in missing]
        rows = {e: [] for e in engines}
        for _ in range(a.n):
            for e in engines:
                rows[e].append(run(w, e, a.t))
        results[w] = {"median": table(w, engines, rows), "runs": rows}
    os.makedirs(os.path.join(HERE, "results"), exist_ok=True)
    path = os.path.join(
        HERE, "results", f"{datetime.datetime.now():%Y%m%d-%H%M%S}-{platform.node()}.json"
    )
    with open(path, "w") as f:
        json.dump(results, f, indent=1)
    print(f"\nwritten to {path}")


if __name__ == "__main__":
    main()
