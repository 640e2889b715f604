"""page_cost.py: what the page of a run (skate.page) costs the run while a browser has it open.

    .venv/bin/python bench/py/page_cost.py [--rounds 7] [--blocks 100000] [--browser]

A pipeline of one operator in Python makes blocks of 100 rows, as many in a second as it can, which is
more than 10,000 where the machine is free. In turns it runs without a page and with one whose stream
of events is read: by a process that parses each state, or by Chromium (--browser), which draws it,
too, on the same CPUs. Told are the seconds of the run, the CPU time of the program's process, and that
of the page's threads alone, which also holds where the machine is busy; medians, and their ratio.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time

import skate
import skate.data as sd
from skate.data import DataContext
from skate.page import serve

READER = """
import json, sys, urllib.request
n = 0
for line in urllib.request.urlopen(sys.argv[1] + "events"):
    if line.startswith(b"data: "):
        json.loads(line[6:])
        n += 1
print(n)
"""
BROWSER = """
import sys
from playwright.sync_api import expect, sync_playwright
with sync_playwright() as p:
    tab = p.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"]).new_page()
    tab.goto(sys.argv[1])
    expect(tab.locator("#facts")).to_contain_text("has ended", timeout=1e9)
    print(0)
"""


def same(batch):
    return batch


def run(blocks):
    """(seconds, seconds of CPU of this process)."""
    ds = sd.range(100 * blocks).map_batches(same, batch_size=None, batch_format="pyarrow")
    wall, cpu, n = time.perf_counter(), time.process_time(), 0
    for _ in ds.iter_internal_ref_bundles():
        n += 1
    assert n == blocks, n
    return time.perf_counter() - wall, time.process_time() - cpu


def threads():
    """{thread: seconds of CPU} of this process."""
    out = {}
    for tid in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{tid}/schedstat") as f:
            out[tid] = int(f.read().split()[0]) / 1e9
    return out


def watched(blocks, reader):
    """The same, the number of states that were read, and seconds of CPU of the page's threads."""
    before = threads()
    with serve() as page:
        p = subprocess.Popen([sys.executable, "-c", reader, page.url], stdout=subprocess.PIPE)
        while not page._server.streams:  # until it reads
            time.sleep(0.01)
        took = run(blocks)
        own = sum(s for tid, s in threads().items() if tid not in before)
    return *took, int(p.communicate()[0]), own


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--blocks", type=int, default=100_000)
    parser.add_argument("--browser", action="store_true")
    args = parser.parse_args()
    reader = BROWSER if args.browser else READER
    skate.init(num_cpus=len(os.sched_getaffinity(0)))
    context = DataContext.get_current()
    context.enable_progress_bars = False
    context.target_min_block_size = 0
    context.read_block_size = context.target_max_block_size = 800
    run(args.blocks // 10)
    without, with_it = [], []
    for i in range(args.rounds):
        for on in (False, True) if i % 2 else (True, False):
            (with_it if on else without).append(
                watched(args.blocks, reader) if on else run(args.blocks)
            )
    states = statistics.median(x[2] for x in with_it)
    for k, what in ((0, "seconds"), (1, "CPU seconds of the program")):
        a = statistics.median(x[k] for x in without)
        b = statistics.median(x[k] for x in with_it)
        spread = ", ".join(f"{x[k]:.2f}" for x in without)
        print(
            f"{what}: {b:.3f} with the page, {a:.3f} without: {100 * (b / a - 1):+.2f} % (without, each: {spread})"
        )
    share = statistics.median(x[3] / x[0] for x in with_it)
    print(f"the page's threads: {100 * share:.3f} % of a CPU")
    speed = args.blocks / statistics.median(x[0] for x in without)
    print(f"{speed:,.0f} blocks/s; the reader had {states:.0f} states in a run")


if __name__ == "__main__":
    main()
