"""A source for pages without an engine: a made-up pipeline that moves when a test says so. What it
gives has the form of skate._private.view.snapshot.

    .venv/bin/python tests/py/page/fake.py [killed | wide | empty]    opens a page of it
"""

import copy
import sys
import time

MiB = 1 << 20


def op(label, kind="map", inputs=(), **more):
    """An operator that has done nothing yet."""
    return {
        "label": label,
        "kind": kind,
        "inputs": list(inputs),
        "running": 0,
        "queued": 0,
        "done": 0,
        "total": None,
        "retries": 0,
        "rows_in": 0,
        "rows_out": 0,
        "bytes_in": 0,
        "bytes_out": 0,
        "blocks_out": 0,
        "queued_blocks": 0,
        "queued_bytes": 0,
        "peak_queued_bytes": 0,
        "busy": 0.0,
        "wait_input": 0.0,
        "wait_memory": 0.0,
        "wait_resource": 0.0,
        "wait_consumer": 0.0,
        "actors": 0,
        "fused": [],
        "exchange": None,
        **more,
    }


def ops():
    return [
        op("ReadImages", "read", total=400),
        op(
            "Map(decode)->MapBatches(resize)",
            inputs=[0],
            fused=[
                {"label": "Map(decode)", "rows_out": 0, "seconds": 0.0},
                {"label": "MapBatches(resize)", "rows_out": 0, "seconds": 0.0},
            ],
        ),
        op("MapBatches(Classifier)", inputs=[1], actors=2),
        op("ReadParquet", "read", total=20),
        op(
            "Join(on=[label])",
            inputs=[2, 3],
            exchange={
                "strategy": "merge",
                "partitions": 16,
                "packs": 0,
                "pack_bytes": 0,
                "disk_bytes": 0,
                "taken_bytes": 0,
                "phase": "map",
            },
        ),
        op("Write(parquet)", "write", inputs=[4]),
    ]


def run(id=1, started=0.2):
    return {
        "id": id,
        "started": started,
        "seconds": 0.0,
        "state": "running",
        "share": None,
        "left": None,
        "memory": {"now": 0, "peak": 0, "limit": 1024 * MiB, "disk": 0},
        "bottleneck": 2,
        "bottleneck_why": "actors",
        "bad_rows": 0,
        "errored_blocks": 0,
        "ops_left_out": 0,
        "ops": ops(),
        "samples": {
            "t": [],
            "memory": [],
            "disk": [],
            "rows_out": [],
            "rows_in": [],
            "queued": [[] for _ in range(6)],
        },
    }


class Fake:
    """A source of pages (skate.page.source.Source)."""

    def __init__(self):
        self.gone = False  # whether the engine has ended
        self.state = {
            "version": 1,
            "pid": 4242,
            "program": "train.py --epochs 3",
            "started": 1_790_000_000.0,
            "seconds": 0.2,
            "live": True,
            "ended": None,
            "cpus": 8.0,
            "gpus": 0.0,
            "waits": "a block of the run",
            "store": {
                "used": 0,
                "capacity": 2048 * MiB,
                "spilled_now": 0,
                "spilled_total": 0,
                "restored_total": 0,
                "objects": 0,
            },
            "tasks": {"done": 0, "failed": 0, "running": 0, "queued": 0},
            "workers": [
                {"pid": 4300 + i, "task": "MapBatches(Classifier)", "seconds": 0.4 * i, "node": 0}
                for i in range(2)
            ]
            + [
                {"pid": 4302, "task": "Map(decode)->MapBatches(resize)", "seconds": 0.1, "node": 0},
                {"pid": 4303, "task": "", "seconds": None, "node": 0},
            ],
            "nodes": [],
            "errors": [],
            "runs": [run()],
        }

    def step(self, share):
        """Moves the newest run to this share of its work."""
        s, r = self.state, self.state["runs"][-1]
        r["seconds"] = 120 * share
        s["seconds"] = r["started"] + r["seconds"]
        r["share"], r["left"] = share, 120 * (1 - share)
        done = int(400 * share)
        for i, o in enumerate(r["ops"]):
            mine = max(int(done * (1 - 0.04 * i)), 0)
            o["done"] = mine if o["label"] != "ReadParquet" else min(20, int(100 * share))
            o["running"], o["queued"] = (2 if share < 1 else 0), 3 * i if share < 1 else 0
            o["rows_in"], o["rows_out"] = (0 if not o["inputs"] else 512 * mine), 512 * o["done"]
            o["bytes_in"], o["bytes_out"] = 2 * MiB * mine, 2 * MiB * o["done"]
            o["blocks_out"] = o["done"]
            o["queued_blocks"] = (3 + 5 * (i == 2)) * bool(o["inputs"]) * (share < 1)
            o["queued_bytes"] = o["queued_blocks"] * 2 * MiB
            o["peak_queued_bytes"] = max(o["peak_queued_bytes"], o["queued_bytes"] * 2)
            t = r["seconds"]
            o["busy"] = t * (2.0 if i == 2 else 0.6)
            waits = {0: (0, 0.2, 0.1, 0.5), 2: (0.03, 0, 0, 0)}.get(i, (0.6, 0, 0.2, 0))
            for name, part in zip(("input", "memory", "resource", "consumer"), waits, strict=True):
                o[f"wait_{name}"] = t * part
            for f in o["fused"]:
                f["rows_out"], f["seconds"] = o["rows_out"], o["busy"] / 2
        x = r["ops"][4]["exchange"]
        x["packs"], x["pack_bytes"] = r["ops"][4]["done"], r["ops"][4]["bytes_in"]
        x["phase"] = "reduce" if share > 0.8 else "map"
        x["disk_bytes"] = int(x["pack_bytes"] * 0.3)
        memory = int((300 + 250 * share + 40 * ((share * 37) % 1)) * MiB)
        m = r["memory"]
        m["now"], m["peak"], m["disk"] = memory, max(m["peak"], memory), x["disk_bytes"]
        s["store"].update(used=memory, objects=done, spilled_now=m["disk"], spilled_total=m["disk"])
        s["tasks"].update(done=sum(o["done"] for o in r["ops"]), running=12, queued=30)
        a = r["samples"]
        a["t"].append(r["seconds"])
        a["memory"].append(memory)
        a["disk"].append(m["disk"])
        a["rows_out"].append(r["ops"][-1]["rows_out"])
        a["rows_in"].append(r["ops"][0]["rows_out"])
        for values, o in zip(a["queued"], r["ops"], strict=True):
            values.append(o["queued_bytes"])

    def thin(self):
        """What the engine does when there are too many samples: every other one goes."""
        a = self.state["runs"][-1]["samples"]
        for name, values in a.items():
            a[name] = [x[::2] for x in values] if name == "queued" else values[::2]

    def fail(self, text="ValueError: cannot identify image file", replay="b3f1a2c4"):
        """One more error."""
        self.state["errors"].append(
            {
                "seconds": self.state["seconds"],
                "text": text,
                "operator": "Map(decode)->MapBatches(resize)",
                "replay": replay,
            }
        )
        self.state["errors"] = self.state["errors"][-16:]
        self.state["tasks"]["failed"] += 1
        self.state["runs"][-1]["errored_blocks"] += 1

    def finish(self, state="done"):
        """The newest run is over."""
        r = self.state["runs"][-1]
        r.update(state=state, left=None)
        for o in r["ops"]:
            o["running"] = o["queued"] = o["queued_blocks"] = o["queued_bytes"] = 0
        for w in self.state["workers"]:
            w.update(task="", seconds=None)
        self.state["waits"] = ""
        r["memory"]["now"] = 0

    def begin(self):
        """One more run."""
        r = self.state["runs"][-1]
        self.state["runs"].append(run(r["id"] + 1, self.state["seconds"] + 0.5))

    def end(self, how="closed"):
        """The program has ended, and this is its record."""
        self.state.update(live=False, ended=how, workers=[])

    # ---- what a page calls

    def snapshot(self):
        if self.gone:
            raise LookupError("the engine has ended")
        return copy.deepcopy(self.state)

    def stack(self, pid):
        if pid not in [self.state["pid"], *(w["pid"] for w in self.state["workers"])]:
            raise LookupError(f"process {pid} is none of this engine")
        return f'Thread 0x7f (main of {pid})\n  File "train.py", line 12, in <module>'

    def trace(self):
        return b'{"traceEvents":[]}'

    def metrics(self, snapshot):
        return f"skate_tasks_done_total {snapshot['tasks']['done']}\n"


def wide(n=300):
    """A source whose run has n operators: chains that come together."""
    s = Fake()
    r = s.state["runs"][-1]
    r["ops"] = [op(f"ReadParquet{i}", "read", total=4, done=i % 5) for i in range(n // 3)]
    r["ops"] += [op(f"MapBatches(step{i})", inputs=[i], done=i % 3) for i in range(n // 3)]
    r["ops"] += [op(f"Filter(f{i})", inputs=[n // 3 + i]) for i in range(n // 3 - 1)]
    r["ops"].append(op("Union", "union", inputs=range(len(r["ops"]) - n // 3 + 1, len(r["ops"]))))
    r["samples"]["queued"] = [[] for _ in r["ops"]]
    return s


def main(how=""):
    from skate.page.server import serve

    s = wide() if how == "wide" else Fake()
    if how == "empty":
        s.state["runs"].clear()
    with serve(source=s) as page:
        print(page.url, flush=True)
        for i in range(1, 201) if not how or how == "killed" else ():
            time.sleep(0.25)
            s.step(i / 200)
            if i in (60, 90):
                s.fail()
            if how == "killed" and i == 100:
                break
        if how == "killed":
            s.end("killed")
        elif not how:
            s.finish()
        time.sleep(3600)


if __name__ == "__main__":
    main(*sys.argv[1:])
