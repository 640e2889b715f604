"""Trainers that are killed at random steps and resumed by state_dict(): their rows are compared,
byte by byte, with those of an undisturbed trainer.

python tests/py/soak/training_kills.py [--kills 1000 | --seconds S] [--seed N] [--only WORD]

There are three of them (--only: those whose names contain the word), each with its share of the
kills: rows with a local shuffle, prepared in advance; all rows shuffled; rows dealt to 8, 4 or 6
ranks, another number after each kill. Each step writes the rows of its batch and then, by a rename,
the state; a kill (SIGKILL) happens a random time after a random step, so also between the two. The
last lines say how long it took from load_state_dict() to the first batch, and how many streams were
wrong (0); the exit status is 1 if one was."""

import argparse
import json
import os
import queue
import random
import signal
import statistics
import sys
import tempfile
import threading
import time

import numpy  # noqa: F401  here, so that a process that is forked has them
import pyarrow  # noqa: F401
import skate
import skate.data as sd

BATCH = 20


def local(state, turn):
    """Yields (rows of a step, state after it) without end, with a local shuffle."""
    it = sd.range(3000, override_num_blocks=6).map(lambda row: {"id": row["id"]}).iterator()
    yield from epochs(
        it,
        state,
        local_shuffle_buffer_size=400,
        local_shuffle_seed=9,
        prefetch_batches=2,
        _collate_fn=lambda b: b,
    )


def whole(state, turn):
    """Shuffles all rows, anew in each epoch."""
    yield from epochs(
        sd.range(1500, override_num_blocks=5)
        .random_shuffle(seed=sd.RandomSeedConfig(7))
        .iterator(),
        state,
    )


def epochs(it, state, **more):
    epoch = 0
    if state is not None:
        it.load_state_dict(state)
        epoch = state["epoch"]
    while True:
        it.set_epoch(epoch)
        for b in it.iter_batches(batch_size=BATCH, **more):
            yield b["id"], it.state_dict()
        epoch += 1


def ranks(state, turn):
    """Threads as ranks; their batches of a step are concatenated, which gives the rows of the
    Dataset in order, however many ranks there are."""
    ds = sd.range(2400, override_num_blocks=5).random_shuffle(seed=sd.RandomSeedConfig(7))
    its = ds.streaming_split((8, 4, 6)[turn % 3], batch_size=BATCH)
    given = [queue.Queue(1) for _ in its]

    def run(it, out):
        if state is not None:
            it.load_state_dict(state)
        while True:
            for b in it.iter_batches(batch_size=BATCH):
                out.put((b["id"], it.state_dict()))
            out.put(None)

    for it, out in zip(its, given, strict=True):
        threading.Thread(target=run, args=(it, out), daemon=True).start()
    while True:
        step = [out.get() for out in given]
        for item in step:
            if item is not None:
                # after a complete step the state of any rank is that of all
                yield item[0], item[1] if item is step[-1] else None
        for i, item in enumerate(step):  # ranks without a further batch wait for the others
            while item is not None and None in step and (item := given[i].get()) is not None:
                raise AssertionError("a rank had two batches more than another")


def train(kind, path, turn, said, limit):
    """The trainer's process: resumes from the files until the stream has `limit` bytes. Writes a
    line after each step whose state it has saved; the first line has the seconds that the start
    took."""
    skate.init(num_cpus=2, object_store_memory=64 << 20, logging_level="error")
    sd.DataContext.get_current().enable_progress_bars = False
    state, at = None, 0
    if os.path.exists(path + ".state"):
        with open(path + ".state") as f:
            state, at = json.load(f)
    begun, line = time.perf_counter(), None
    with open(path, "ab") as out:
        out.truncate(at)
        for ids, behind in KINDS[kind](state, turn):
            out.write(ids.tobytes())
            out.flush()
            if behind is not None:
                with open(path + ".new", "w") as f:
                    json.dump([behind, out.tell()], f)
                os.replace(path + ".new", path + ".state")
                line = b"+\n" if line else b"%.6f\n" % (time.perf_counter() - begun)
                os.write(said, line)
            if out.tell() >= limit:
                break


KINDS = {"local shuffle": local, "global shuffle": whole, "8, 4 or 6 ranks": ranks}


def fork(*args):
    """Forks a trainer; returns (pid, file with its lines)."""
    r, w = os.pipe()
    pid = os.fork()
    if not pid:
        rc = 1
        try:
            os.close(r)
            train(*args[:3], w, args[3])
            rc = 0
        except BaseException as e:
            print(f"{args[0]}: {type(e).__name__}: {e}", flush=True)
        finally:
            os._exit(rc)
    os.close(w)
    return pid, os.fdopen(r, "rb")


def disturb(kind, path, kills, until, rng):
    """Kills a trainer again and again; returns the number of kills, and the seconds that each
    resume took."""
    took = []
    for turn in range(kills):
        if time.monotonic() > until:
            break
        pid, said = fork(kind, path, turn, 1 << 60)
        with said:
            lines = [said.readline() for _ in range(rng.randint(1, 12))]
            time.sleep(rng.random() * 0.002)  # so that kills hit any point of a step
            os.kill(pid, signal.SIGKILL)
            if os.waitpid(pid, 0)[1] != signal.SIGKILL or not lines[-1]:
                raise SystemExit(f"{kind}: a trainer ended by itself")
        took.append(float(lines[0]))
    return took


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--kills", type=int)
    p.add_argument("--seconds", type=float)
    p.add_argument("--seed", type=int, default=int(time.time()))
    p.add_argument("--only", default="")
    a = p.parse_args()
    kinds = [k for k in KINDS if a.only in k]
    wanted, until, rng = (
        a.kills or (10**9 if a.seconds else 1000),
        time.monotonic() + (a.seconds or 10**9),
        random.Random(a.seed),
    )
    print("seed", a.seed, flush=True)
    wrong = total = 0
    with tempfile.TemporaryDirectory() as folder:
        for k, kind in enumerate(kinds):
            path = os.path.join(folder, f"{k}")
            left = len(kinds) - k
            took = disturb(
                kind,
                path,
                -(-(wanted - total) // left),
                time.monotonic() + (until - time.monotonic()) / left,
                rng,
            )
            total += len(took)
            with open(path + ".state") as f:
                at = json.load(f)[1]
            with open(path, "rb") as f:
                got = f.read(at)
            pid, said = fork(kind, path + ".whole", 0, at)
            with said:
                said.read()
            if os.waitpid(pid, 0)[1] != 0:
                raise SystemExit(f"{kind}: the trainer that nobody kills failed")
            with open(path + ".whole", "rb") as f:
                same = f.read(at) == got
            wrong += not same
            print(
                f"{kind}: {len(took)} kills in {at // 8 // BATCH} steps, {'the same rows' if same else 'WRONG rows'}; to the first batch {statistics.median(took):.3f} s, at most {max(took):.3f}",
                flush=True,
            )
    print(f"{total} kills, {wrong} wrong streams")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
