"""bench/py/paper.py [-p DIR] [-o TABLE ...]: published shuffles on simulated clusters, beside what
was measured there.

Each row is a run of bin/scale_bench: exec's scheduler and the shuffle strategies on a queueing
model of the cluster (tests/c/sim/cluster/scale.h; docs/design/scale.md says what was
calibrated on which points: those are marked *). -p writes plots there as PNG (matplotlib, extra
`bench`). -o: only these tables. Runs of 100 TB take minutes, all of it a quarter of an hour on two
cores; --quick leaves out what is larger than 10 TB; `./dev bench paper` builds first."""

import argparse
import concurrent.futures
import json
import os
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BENCHES = [
    os.path.join(ROOT, "build", preset, "bin", "scale_bench") for preset in ("release", "dev")
]
BENCH = next((b for b in BENCHES if os.path.exists(b)), BENCHES[0])
GB, TB, PB = 1e9, 1e12, 1e15

# Seconds of a core for a byte, by what is done to it: of the authors' programs, and of ours
# (docs/design/cloudsort.md).
THEIR_CPU = dict(
    cpu_read=0.5e-9,
    cpu_map=4e-9,
    cpu_merge=2e-9,
    cpu_reduce=2e-9,
    cpu_write=0.5e-9,
    cpu_receive=0.5e-9,
)
OUR_CPU = dict(
    cpu_read=0.3e-9,
    cpu_map=0.7e-9,
    cpu_merge=0.25e-9,
    cpu_reduce=0.3e-9,
    cpu_write=0.3e-9,
    cpu_receive=0.3e-9,
)
# The driver. Ray: 5 KB a task and 2 KB an object (REP of Ray; field notes 1.3.2), seconds an object
# calibrated. Ours: as in src/shuffle/strategy.c, bytes as in exec_int.h.
RAY = dict(
    task_s=1e-3,
    value_s=108e-6,
    part_s=108e-6,
    task_bytes=5000,
    value_bytes=2000,
    part_bytes=0,
    entry_bytes=0,
)
OURS = dict(
    task_s=30e-6,
    value_s=15e-6,
    part_s=3e-6,
    task_bytes=800,
    value_bytes=400,
    part_bytes=160,
    entry_bytes=16,
)
# Stores have 60 % of the memory; what tasks do side by side is the authors'
# (raysort/config/aws.py).
D3 = dict(
    cores=8,
    disks=6,
    disk_bytes_s=196.7e6,
    seek_s=8e-3,
    net_bytes_s=1.0e9,
    store_bytes=39.8e9,
    stretch_bytes=1.6e6,
    part_stretch_bytes=128e3,
    part_stretches=3,
)
I3 = dict(
    cores=8,
    disks=1,
    disk_bytes_s=720e6,
    seek_s=1e-4,
    net_bytes_s=1.0e9,
    store_bytes=39.8e9,
    stretch_bytes=4e6,
    part_stretch_bytes=1e6,
    part_stretches=1,
)
I4I = dict(
    cores=16,
    disks=1,
    disk_bytes_s=2.0e9,
    seek_s=8e-5,
    net_bytes_s=1.4e9,
    store_bytes=79.6e9,
    stretch_bytes=4e6,
    part_stretch_bytes=1e6,
    part_stretches=1,
)
S3 = dict(
    s3=1,
    s3_get_bytes=16 * 2**20,
    s3_put_bytes=100e6,
    s3_wait_s=0.05,
    s3_conn_bytes_s=80e6,
    s3_threads=10,
)
LOCAL_SLOTS = dict(slots_map=4, slots_merge=2, slots_reduce=8)
CLOUD_SLOTS = dict(slots_map=12, slots_merge=12, slots_reduce=12)


def run(conf):
    """The result of one run; `why` says what was busiest. A run that fails ends the program."""
    p = subprocess.run(
        [BENCH, *(f"{k}={v}" for k, v in conf.items())], capture_output=True, text=True
    )
    if p.returncode:
        raise SystemExit(f"{' '.join(map(str, p.args))}\n{p.stderr}")
    r = json.loads(p.stdout)
    busy = {k: r[k] for k in ("core", "disk", "net_out", "net_in", "driver")}
    r["why"] = ", ".join(f"{k} {v:.0%}" for k, v in sorted(busy.items(), key=lambda x: -x[1])[:3])
    return r


def local_sort(node, nodes, size, parts, way, grain=1):
    """From local disks to local disks, as in Exoshuffle, 5.1, with the authors' settings."""
    conf = dict(
        node,
        **THEIR_CPU,
        **RAY,
        **LOCAL_SLOTS,
        nodes=nodes,
        bytes=size,
        maps=parts,
        reduces=parts,
        grain=grain,
        way=way,
        reduces_a_value=1,
    )
    if way == "direct":
        conf.update(strategy="simple", values_a_map=parts, grain=max(1, parts // 500))
    elif way == "merge":
        conf.update(factor=8, slots_merge=1)
    else:
        conf.update(factor=2 * nodes)
    return conf


def cloud_sort(node, nodes, size, out=2 * GB, grain=1, **more):
    """From S3 to S3 with two levels of merging, as in Exoshuffle-CloudSort; input in pieces of 2
    GB. Each node has an owner of the blocks there, so what they cost is shared."""
    maps, reduces = round(size / (2 * GB)), round(size / out)
    driver = dict(RAY, value_s=RAY["value_s"] / nodes, part_s=RAY["part_s"] / nodes)
    conf = dict(
        node,
        **THEIR_CPU,
        **driver,
        **CLOUD_SLOTS,
        **S3,
        nodes=nodes,
        bytes=size,
        maps=maps,
        reduces=reduces,
        grain=grain,
        way="push_star",
        factor=nodes,
    )
    return dict(conf, reduces_a_value=1, **more)


def dollars(nodes, sec, reduce_sec, size, gets, puts):
    """src/app/lib/cost.c: machines, storage of the input and, while it is written, of the output,
    requests."""
    hours = sec / 3600
    compute = hours * (nodes * 1.373 + 0.504 + (nodes + 1) * 40 * 0.08 / 730)
    return (
        compute
        + size * 0.023 / 730 / 1e9 * (hours + reduce_sec / 3600)
        + gets * 0.0004 / 1000
        + puts * 0.005 / 1000
    )


# ---- tables: rows of (name, conf, published seconds or None, calibrated on it)
# ---------------------------------------------------------------------

WAYS = {"direct": "simple", "merge": "merge", "push": "push", "push_star": "push*"}
EXOSHUFFLE = {  # 1 TB on ten nodes in 500, 1,000, 2,000 partitions; papers.md 2.3
    "SSD": {
        "direct": (570, 628, 1085),
        "merge": (711, 660, 728),
        "push": (602, 580, 626),
        "push_star": (596, 533, 553),
    },
    "HDD": {
        "direct": (1297, 1929, 2799),
        "merge": (1409, 1334, 2163),
        "push": (761, 700, 748),
        "push_star": (702, 634, 743),
    },
}
CALIBRATED = {
    ("SSD", "push_star", 1000),
    ("SSD", "direct", 2000),
    ("HDD", "push_star", 1000),
    ("HDD", "direct", 500),
    ("HDD", "direct", 2000),
}


def exoshuffle():
    for disk, node in (("SSD", I3), ("HDD", D3)):
        for way, seconds in EXOSHUFFLE[disk].items():
            for parts, sec in zip((500, 1000, 2000), seconds):
                name = f"1 TB, 10 x {'i3' if disk == 'SSD' else 'd3'}.2xlarge ({disk}), {WAYS[way]}, {parts}"
                yield (
                    name,
                    local_sort(node, 10, TB, parts, way),
                    sec,
                    (disk, way, parts) in CALIBRATED,
                )


def hundred():
    yield (
        "100 TB, 100 HDD nodes, push*, 50,000",
        dict(local_sort(D3, 100, 100 * TB, 50000, "push_star"), bundle=10),
        10707,
        False,
    )


# nodes, TB, GB of a part (parts are a multiple of nodes and bundle), bundle, published
CLOUDSORT = [
    (10, 2, 2, 1, 402, False), (20, 4, 2, 1, 418, False), (10, 8, 4, 1, 1550, False), (20, 10, 2, 1, 1266, False), (40, 8, 2, 1, 456, True), (40, 40, 40000 / 9600, 12, 2187, False),
    (40, 100, 100000 / 24000, 12, 5378, False),
]  # fmt: skip


def cloudsort():
    for nodes, tb, out, bundle, sec, calibrated in CLOUDSORT:
        yield (
            f"{tb} TB, {nodes} x i4i.4xlarge, S3, two levels",
            cloud_sort(I4I, nodes, tb * TB, out * GB, bundle=bundle),
            sec,
            calibrated,
        )


def direct(strategy, size, grain):
    conf = cloud_sort(I4I, 40, size, 4 * GB, grain, **OUR_CPU)
    conf.update(OURS, way="direct", strategy=strategy)
    return conf


def ours():
    """On the published cluster in other ways."""
    theirs = cloud_sort(I4I, 40, 100 * TB, 100 * TB / 24000, bundle=12)
    yield (
        "100 TB, two levels, our kernels, 12 reduces a value",
        dict(theirs, **OUR_CPU, **OURS, bundle=1, reduces_a_value=12),
        5378,
        False,
    )
    yield "100 TB, index", direct("index", 100 * TB, 4), 5378, False
    for strategy in (
        "index",
        "grouped",
        "simple",
        "merge",
        "push",
        "push_star",
        "two_level",
        "auto",
    ):
        yield f"8 TB, {strategy}", direct(strategy, 8 * TB, 1), 456, False
    theirs = cloud_sort(I4I, 40, 8 * TB)
    yield "8 TB, two levels, our kernels and driver", dict(theirs, **OUR_CPU, **OURS), 456, False
    yield "8 TB, published, 4 of the 16 cores", dict(theirs, cores=4), 456, False
    yield "8 TB, ours, 4 of the 16 cores", dict(theirs, **OUR_CPU, **OURS, cores=4), 456, False


def cores():
    """The other reading of the published times: cards give the 25 Gb/s of the data sheet, and the
    cores are scarce."""
    fast = dict(I4I, net_bytes_s=3.1e9)
    slow = {k: 3.3 * v for k, v in THEIR_CPU.items()}
    for nodes, tb, out, bundle, sec, calibrated in CLOUDSORT:
        if tb <= 8:
            yield (
                f"{tb} TB, {nodes} nodes, two levels",
                dict(cloud_sort(fast, nodes, tb * TB, out * GB, bundle=bundle), **slow),
                sec,
                calibrated,
            )
    yield (
        "8 TB, 40 nodes, our kernels and driver",
        dict(cloud_sort(fast, 40, 8 * TB), **OUR_CPU, **OURS),
        456,
        False,
    )
    theirs = cloud_sort(fast, 40, 100 * TB, 100 * TB / 24000, bundle=12)
    yield "100 TB, 40 nodes, two levels", dict(theirs, **slow), 5378, False
    yield (
        "100 TB, 40 nodes, ours, 12 reduces a value",
        dict(theirs, **OUR_CPU, **OURS, bundle=1, reduces_a_value=12),
        5378,
        False,
    )


# ---- what limits a strategy, by arithmetic: seconds that each resource needs for all of it, and
# bytes of the driver ----------------------------------


def limits(nodes, size, strategy, part=4 * GB, piece=2 * GB):
    """Of i4i.4xlarge nodes and S3: {resource: seconds}, objects, GB of the driver's memory.
    Resources work side by side, so a run takes at least as long as the longest."""
    m, r, w = size / piece, size / part, nodes
    disk, net, seek = I4I["disk_bytes_s"] * w, I4I["net_bytes_s"] * w, I4I["seek_s"] / w
    notes = -(-r // 120)  # values that a map needs for r parts: a note has 120
    written, parts, made, alive, entries, owners = size, m * r, m * notes, m * notes, m * r, 1
    if strategy == "grouped":
        made = alive = m * max(8, notes)
    elif strategy == "simple":
        made = alive = m * r
    elif strategy.startswith(
        "two_level"
        # merges take w blocks of their node's range: as many bytes as a map; blocks live while they
        # wait for them
    ):
        made, alive, parts, entries = (
            m * w + m * -(-r // w // 120),
            48 * w * w + m * -(-r // w // 120),
            m * w + m * r / w,
            m * r / w,
        )
        owners = w if strategy.endswith("nodes") else 1
    elif strategy == "streaming":  # each round's reduces read and write all that there is so far
        written, made, alive, entries = size * m / (12 * w) / 2, m * r, m * r, 0
    need = {
        "network": 2.975 * size / net,
        "disk": 2 * written / disk
        + (m * r / w if strategy.startswith("two_level") else parts) * seek,
        "driver": (made * OURS["value_s"] + parts * OURS["part_s"]) / owners
        + (m + r) * OURS["task_s"],
    }
    return need, made, (alive * OURS["value_bytes"] + entries * OURS["entry_bytes"]) / GB / owners


# ---- output
# ----------------------------------------------------------------------------------------------------------------------------------------------


def line(name, conf, r, published, calibrated):
    ratio = (
        f"{published:6.0f}  {r['sec'] / published:5.2f}{'*' if calibrated else ' '}"
        if published
        else " " * 14
    )
    cost = ""
    if conf.get("s3"):
        cost = f"  ${dollars(conf['nodes'], r['sec'], r['sec'] - r['map_sec'], conf['bytes'], r['gets'], r['puts']):6.1f}"
    return f"{name:52} {r['sec']:7.0f}  {ratio} {r['map_sec']:7.0f}  {r['values']:9.3g}  {r['driver_bytes'] / GB:7.1f}{cost:9}  {r['why']}"


def print_limits():
    print(
        f"\n{'on i4i.4xlarge and S3, parts of 4 GB':52} {'network':>9} {'disk':>9} {'driver':>9} seconds    objects  driver GB  limit"
    )
    for size, nodes in ((100 * TB, 40), (10 * PB, 4000)):
        for strategy in (
            "index",
            "grouped",
            "simple",
            "streaming",
            "two_level",
            "two_level, owners on nodes",
        ):
            need, values, gb = limits(nodes, size, strategy)
            name = f"{size / TB:g} TB, {nodes} nodes, {strategy}"
            cells = " ".join(f"{need[k]:9.3g}" for k in ("network", "disk", "driver"))
            why = "the driver's memory" if gb > 100 else max(need, key=need.get)
            print(f"{name:52} {cells}          {values:9.3g}  {gb:9.3g}  {why}")


def plot(directory, name, rows, results):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    labels = [row[0] for row in rows]
    figure, axes = pyplot.subplots(figsize=(11, 1.2 + 0.32 * len(rows)))
    at = range(len(rows))
    axes.barh([i - 0.2 for i in at], [r["sec"] for r in results], 0.4, label="simulated")
    axes.barh([i + 0.2 for i in at], [row[2] or 0 for row in rows], 0.4, label="published")
    axes.set_yticks(
        list(at), [label + (" *" if row[3] else "") for label, row in zip(labels, rows)], fontsize=7
    )
    axes.invert_yaxis()
    axes.set_xlabel("seconds (*: calibrated on this row)")
    axes.legend()
    figure.tight_layout()
    figure.savefig(os.path.join(directory, f"paper_{name}.png"), dpi=120)
    pyplot.close(figure)


TABLES = {
    "exoshuffle": exoshuffle,
    "hundred": hundred,
    "cloudsort": cloudsort,
    "ours": ours,
    "cores": cores,
}


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("-p", "--plots", metavar="DIR", help="write plots there, as PNG")
    p.add_argument("-o", "--only", nargs="*", choices=[*TABLES, "limits"], help="only these tables")
    p.add_argument(
        "-q", "--quick", action="store_true", help="without what is larger than 10 TB: a minute"
    )
    p.add_argument("-j", "--jobs", type=int, default=2, help="runs at once; each takes up to 3 GB")
    a = p.parse_args()
    for name, table in TABLES.items():
        if a.only is not None and name not in a.only:
            continue
        rows = [row for row in table() if not a.quick or row[1]["bytes"] <= 10 * TB]
        if not rows:
            continue
        print(
            f"\n{name:52} {'sim s':>7}  {'publ. s':>7}  ratio     map s     values  driver GB    cost  busy",
            flush=True,
        )
        with concurrent.futures.ThreadPoolExecutor(a.jobs) as pool:
            results = []
            for row, r in zip(rows, pool.map(run, [row[1] for row in rows])):
                print(line(row[0], row[1], r, row[2], row[3]), flush=True)
                results.append(r)
        off = [abs(r["sec"] / row[2] - 1) for row, r in zip(rows, results) if row[2] and not row[3]]
        if off:
            print(
                f"{len(off)} rows that nothing was calibrated on: off by {sum(off) / len(off):.0%} on average, {max(off):.0%} at most"
            )
        if a.plots:
            os.makedirs(a.plots, exist_ok=True)
            plot(a.plots, name, rows, results)
    if a.only is None or "limits" in a.only:
        print_limits()


if __name__ == "__main__":
    main()
