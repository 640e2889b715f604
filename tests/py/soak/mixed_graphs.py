"""Random graphs of tasks, actors, streams and nested references on one engine, while workers are
killed and stopped, tasks cancelled, processes forked and objects spilled; every value is compared
with a plain evaluation of the same graph.

python tests/py/soak/mixed_graphs.py [--seconds 3600] [--seed N]

Drivers run one after another, each a process with its own engine: half of them end by themselves,
half are killed with SIGKILL while they work. After each driver, no process and no file may be left.
The last line has the numbers of operations, kills, stops, cancels, forks, wrong values and hangs,
what was left, and the growth of the drivers' memory; the exit status is 1 if anything is wrong. If
a driver fails, its seed is printed: `--driver SEED SECONDS` runs it alone.
"""

import argparse
import contextlib
import hashlib
import json
import os
import random
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
import zlib

STORE = 48 << 20
PATIENCE_S = 180  # for one get(), on a machine that runs other programs, too


# ---- the value of a node: the same function in the tasks and in the plain evaluation


def value(node, args):
    """(number, bytes) of a node: a function of its number in the graph, its size and the contents
    of all its arguments."""
    h = hashlib.blake2b(
        repr((node["id"], [(n, zlib.crc32(b)) for n, b in args])).encode(), digest_size=8
    )
    n = int.from_bytes(h.digest(), "big")
    return n, h.digest() * (node["size"] // 8)


def plan(rng, n_nodes):
    """A list of nodes; arguments are the numbers of earlier nodes."""
    kinds = [
        "put",
        "task",
        "task",
        "task",
        "two",
        "stream",
        "inner",
        "boxed",
        "stateless",
        "stateless",
        "fork",
        "stray",
        "process",
        "fails",
    ]
    nodes = []
    for i in range(n_nodes):
        size = (
            rng.choice([8, 800, 80_000, 800_000, 4_000_000])
            if rng.random() < 0.5
            else rng.choice([8, 800])
        )
        kind = rng.choice(kinds) if i else "put"
        n_args = 0 if kind == "put" else rng.choice([0, 1, 1, 2, 3])
        args = [rng.randrange(max(0, i - 12), i) for _ in range(n_args)] if i else []
        if kind == "fails" and rng.random() < 0.7:
            kind = "task"
        nodes.append(
            {
                "id": i,
                "kind": kind,
                "size": size,
                "args": args,
                "cancel": kind in ("task", "inner") and rng.random() < 0.05,
            }
        )
    return nodes


class Failed(Exception):
    pass


def evaluate(nodes):
    """The value of each node, or the Failed that ends it; for a node that depends on a cancelled
    one both are correct."""
    out, shaky = [], []
    for node in nodes:
        args = [out[a] for a in node["args"]]
        bad = next((a for a in args if isinstance(a, Failed)), None)
        out.append(
            Failed(node["id"])
            if node["kind"] == "fails"
            else bad
            if bad is not None
            else value(node, args)
        )
        shaky.append(node["cancel"] or any(shaky[a] for a in node["args"]))
    return out, shaky


# ---- the driver


def functions(skate):
    forever = {"max_retries": -1}

    @skate.remote(**forever)
    def task(node, *args):
        if node["kind"] == "fails":
            raise Failed(node["id"])
        return value(node, args)

    @skate.remote(num_returns=2, **forever)
    def two(node, *args):
        return value(node, args)

    @skate.remote(**forever)
    def pair(n, b):
        return n, b

    @skate.remote(**forever)
    def stream(node, *args):
        n, b = value(node, args)
        yield n
        step = max(1, len(b) // 3)
        for i in range(0, len(b), step):
            yield b[i : i + step]

    @skate.remote(**forever)
    def joined(n, *parts):
        return n, b"".join(parts)

    @skate.remote(**forever)
    def inner(node, *args):
        return skate.get(task.remote({**node, "kind": "task"}, *args))

    @skate.remote(**forever)
    def boxed(node, *args):
        return [skate.put(value(node, args))]

    @skate.remote(**forever)
    def unboxed(box):
        return skate.get(box[0])

    @skate.remote(**forever)
    def fork(node, *args):
        r, w = os.pipe()
        pid = os.fork()
        if not pid:
            os.write(w, b"x")
            os._exit(0)
        os.close(w)
        assert os.read(r, 1) == b"x"
        os.close(r)
        os.waitpid(pid, 0)
        return value(node, args)

    @skate.remote(**forever)
    def stray(node, *args):
        os.fork()  # the child returns from the task: the engine has to end the child
        return value(node, args)

    @skate.remote(**forever)
    def process(node, *args):
        subprocess.run(["true"], check=True)
        return value(node, args)

    @skate.remote(max_restarts=-1, max_task_retries=-1, num_cpus=0)
    class Stateless:
        def do(self, node, *args):
            return value(node, args)

    @skate.remote
    class Counter:
        def __init__(self):
            self.n = 0

        def add(self, k):
            self.n += k
            return self.n

    return locals()


class Chaos(threading.Thread):
    """Kills and stops workers of this driver at random."""

    def __init__(self, rng, counts):
        super().__init__(daemon=True)
        self.rng, self.counts, self.over = rng, counts, threading.Event()

    def run(self):
        from skate.util import state

        while not self.over.wait(self.rng.expovariate(2.0)):
            pids = [
                w.pid
                for w in state.list_workers()
                if w.worker_type == "WORKER" and w.is_alive and w.pid
            ]
            if not pids:
                continue
            pid = self.rng.choice(pids)
            with contextlib.suppress(ProcessLookupError):
                if self.rng.random() < 0.6:
                    os.kill(pid, signal.SIGKILL)
                    self.counts["kills"] += 1
                else:
                    os.kill(pid, signal.SIGSTOP)
                    self.counts["stops"] += 1
                    self.over.wait(self.rng.uniform(0.0, 0.6))
                    os.kill(pid, signal.SIGCONT)


def run_graph(skate, f, rng, actors, counts):
    nodes = plan(rng, rng.randrange(10, 80))
    want, shaky = evaluate(nodes)
    refs, gens = [], []
    for node in nodes:
        args, kind = [refs[a] for a in node["args"]], node["kind"]
        if kind == "put":
            ref = skate.put(value(node, []))
        elif kind == "two":
            ref = f["pair"].remote(*f["two"].remote(node, *args))
        elif kind == "stream":
            gen = f["stream"].remote(node, *args)
            try:
                ref = f["joined"].remote(*gen)
            except Exception as e:  # noqa: BLE001 (what the stream ended with; the value of the node)
                ref = f["task"].remote({**node, "kind": "fails", "id": getattr(e, "args", [0])[0]})
                gens.append(e)
        elif kind == "boxed":
            ref = f["unboxed"].remote(f["boxed"].remote(node, *args))
        elif kind == "stateless":
            ref = rng.choice(actors).do.remote(node, *args)
        else:
            ref = f[kind if kind in ("inner", "fork", "stray", "process") else "task"].remote(
                node, *args
            )
            counts["forks"] += kind in ("fork", "stray", "process")
        if node["cancel"]:
            skate.cancel(ref, force=rng.random() < 0.3)
            counts["cancels"] += 1
        refs.append(ref)
        counts["operations"] += 1
    counter = f["Counter"].remote()
    sums = [counter.add.remote(k) for k in range(10)]
    order = list(range(len(refs)))
    rng.shuffle(order)
    keep = order[: rng.randrange(1, len(order) + 1)]
    wanted = {i: refs[i] for i in keep}
    del refs, args, ref  # results that will not be read are dropped while they are computed
    for i in keep:
        check(skate, nodes[i], wanted.pop(i), want[i], shaky[i], counts)
    total = 0
    for k, s in enumerate(sums):
        total += k
        try:
            got = skate.get(s, timeout=PATIENCE_S)
        except skate.exceptions.RayActorError:
            continue  # the actor was killed, and its state is lost
        if got != total:
            wrong(counts, f"call {k} of a Counter gave {got}, not {total}")


def check(skate, node, ref, want, shaky, counts):
    try:
        got = skate.get(ref, timeout=PATIENCE_S)
    except skate.exceptions.GetTimeoutError:
        counts["hung"] += 1
        print(f"HUNG: node {node}", flush=True)
        return
    except skate.exceptions.TaskCancelledError:
        if not shaky:
            wrong(counts, f"node {node} was cancelled by nobody")
        return
    except Failed:
        if not isinstance(want, Failed):
            wrong(counts, f"node {node} failed")
        return
    except Exception as e:  # noqa: BLE001
        # a forced cancel ends the process
        if not (shaky and isinstance(e, skate.exceptions.WorkerCrashedError)):
            wrong(counts, f"node {node} ended with {type(e).__name__}: {e}")
        return
    if isinstance(want, Failed) or tuple(got) != want:
        wrong(
            counts,
            f"node {node}: {got[0] if got else got!r}, {len(got[1])} bytes; wanted {want if isinstance(want, Failed) else (want[0], len(want[1]))}",
        )


def wrong(counts, text):
    counts["wrong"] += 1
    print(f"WRONG: {text}", flush=True)


def memory_bytes():
    with open("/proc/self/smaps_rollup") as f:
        return next(int(line.split()[1]) << 10 for line in f if line.startswith("Pss_Anon"))


def driver(seed, seconds):
    import skate

    rng = random.Random(seed)
    counts = dict.fromkeys(
        ("operations", "graphs", "kills", "stops", "cancels", "forks", "wrong", "hung"), 0
    )
    skate.init(
        num_cpus=4,
        object_store_memory=STORE,
        _system_config={"spill_dir": os.environ["SOAK_SPILL"]},
    )
    f = functions(skate)
    actors = [f["Stateless"].remote() for _ in range(2)]
    chaos = Chaos(random.Random(seed + 1), counts)
    chaos.start()
    end, sizes = time.monotonic() + seconds, []
    while time.monotonic() < end and not counts["hung"]:
        run_graph(skate, f, rng, actors, counts)
        counts["graphs"] += 1
        if counts["graphs"] % 20 == 0:
            sizes.append(memory_bytes())
        print(json.dumps(counts), flush=True)
    chaos.over.set()
    chaos.join()
    counts["memory"] = sizes
    print(json.dumps(counts), flush=True)
    skate.shutdown()


# ---- the parent


def of_tag(tag):
    """The living processes that have the tag in their environment."""
    out = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            with open(f"/proc/{pid}/environ", "rb") as f:
                if tag in f.read():
                    with open(f"/proc/{pid}/stat") as g:
                        if g.read().rsplit(") ", 1)[1][0] != "Z":
                            out.append(int(pid))
    return out


def wait_until_gone(tag, seconds):
    end = time.monotonic() + seconds
    while pids := of_tag(tag):
        if time.monotonic() > end:
            return pids
        fds = []
        for pid in pids:
            with contextlib.suppress(OSError):
                fds.append(os.pidfd_open(pid))
        poll = select.poll()
        for fd in fds[:1]:
            poll.register(fd, select.POLLIN)
        poll.poll(1000)
        for fd in fds:
            os.close(fd)
    return []


def one_driver(seed, seconds, kill, spill, total):
    tag = f"SOAK_TAG={seed}-{os.getpid()}"
    env = {**os.environ, "SOAK_SPILL": spill, "SOAK_TAG": tag.partition("=")[2]}
    cmd = [sys.executable, os.path.abspath(__file__), "--driver", str(seed), str(seconds)]
    p = subprocess.Popen(cmd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env)
    killer = (
        threading.Timer(random.Random(seed).uniform(0.3, 1.0) * seconds, p.kill)
        if kill
        else threading.Timer(seconds + 2 * PATIENCE_S, p.kill)
    )
    killer.start()
    last, texts = None, []
    for line in p.stdout:
        try:
            last = json.loads(line)
        except ValueError:
            texts.append(line)
    rc = p.wait()
    killer.cancel()
    if last:
        for k, n in last.items():
            if k != "memory":
                total[k] = total.get(k, 0) + n
        sizes = last.get("memory") or []
        if len(sizes) >= 4:  # during the first quarter caches are filled
            total["growth"].append((sizes[-1] - sizes[len(sizes) // 4]) / (1 << 20))
    told = [t for t in texts if t.startswith(("WRONG", "HUNG"))]
    if told or (rc and not kill) or (not kill and last is None):
        total["bad drivers"] += 1
        print(
            f"driver --driver {seed} {seconds:.0f}: exit {rc}\n" + "".join(told or texts[-30:]),
            flush=True,
        )
    left = wait_until_gone(tag.encode(), 20)
    files = os.listdir(spill)
    if left or files:
        total["left"] += len(left) + len(files)
        print(f"driver {seed}: left over: processes {left}, files {files}", flush=True)
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def main():
    a = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    a.add_argument("--seconds", type=float, default=3600)
    a.add_argument("--seed", type=int, default=None)
    a.add_argument(
        "--driver", nargs=2, type=float, metavar=("SEED", "SECONDS"), help=argparse.SUPPRESS
    )
    args = a.parse_args()
    if args.driver:
        os.environ.setdefault("SOAK_SPILL", tempfile.gettempdir())
        driver(int(args.driver[0]), args.driver[1])
        return 0
    seed = random.SystemRandom().randrange(1 << 30) if args.seed is None else args.seed
    rng, end = random.Random(seed), time.monotonic() + args.seconds
    total = {"drivers": 0, "killed drivers": 0, "bad drivers": 0, "left": 0, "growth": []}
    print(f"seed {seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="skate-soak-") as spill:
        while (rest := end - time.monotonic()) > 0:
            kill = rng.random() < 0.5
            seconds = min(rest, rng.choice([10, 20, 40]) if kill or rng.random() < 0.5 else 300)
            one_driver(rng.randrange(1 << 30), seconds, kill, spill, total)
            total["drivers"] += 1
            total["killed drivers"] += kill
    growth = total.pop("growth")
    print(
        ", ".join(f"{n} {k}" for k, n in total.items()),
        f"memory grew by {max(growth, default=0.0):.1f} MiB at most in {len(growth)} long drivers",
        sep="; ",
    )
    return int(any(total.get(k) for k in ("wrong", "hung", "left", "bad drivers")))


if __name__ == "__main__":
    sys.exit(main())
