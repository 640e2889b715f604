"""Runs an exchange in one process, as the engine would (src/exec/exec.h), for tests of the
operators of an exchange without an engine."""

import struct

from skate import _skate
from skate.data.op import find
from skate.data.worker import stage
from skate.data.worker.task import Exchange, Part, task

HEAD = struct.Struct("<IIQQQIIII")
PARTS, RUN, SAMPLE, CUTS, BOUNDS = 1, 2, 3, 4, 5


def exchanged(op, params, inputs, n, target=1 << 20):
    """The batches of a node with moves_rows, in order. inputs: for each input, the batches of each
    of its tasks. n: the number of partitions, if the node does not ask for another number."""
    found = find(op).phases(params)
    task.cap, task.target, task.nbytes, task.values = -1, target, _skate.block_nbytes, 1
    maps = [
        [_ran(m, task_batches, seq) for seq, task_batches in enumerate(tasks)]
        for m, tasks in zip(found.maps, inputs, strict=True)
    ]
    packs = [(side, *pack) for side, of in enumerate(maps) for t in of for pack in t]
    wanted = found.reduce.options["exchange"]["n_partitions"]
    out = []
    if found.reduce.options["exchange"]["cut"]:
        n = wanted or n
        samples = [p for p in packs if p[1] == SAMPLE]
        runs = [p for p in packs if p[1] == RUN]
        if not samples:
            return []
        cuts, bounds = [[[] for _ in range(n)] for _ in runs], None
        parts = [Part(memoryview(s[3]), s[2][2], s[0], i, 0) for i, s in enumerate(samples)]
        for kind, note, data in _ran(
            found.reduce, None, 0, Exchange(_skate.PHASE_CUT, 0, n, n, parts, None, 0, [])
        ):
            if kind == BOUNDS:
                bounds = memoryview(data)
                continue
            first, run, count = note[5:8]
            for i in range(count):
                cuts[run][first + i].append(struct.unpack_from("<IIII", note[9], 16 * i))
        for p in range(n):
            slices = []
            for r, of in enumerate(cuts):
                for off, length, row, rows in of[p]:
                    if length:
                        slices.append(
                            Part(
                                memoryview(runs[r][3])[64 * off : 64 * (off + length)],
                                rows,
                                runs[r][0],
                                r,
                                row,
                            )
                        )
            out += _batches(
                found.reduce,
                Exchange(
                    _skate.PHASE_REDUCE, p, p + 1, n, slices or [_empty(runs[0], 0)], bounds, 0, []
                ),
            )
        return out
    n = wanted or max(note[5] + note[7] for _, _, note, _ in packs)
    for p in range(n):
        slices = []
        for r, (side, _, note, data) in enumerate(packs):
            at = 0
            for i in range(note[7]):
                len64, rows = struct.unpack_from("<II", note[9], 8 * i)
                if note[5] + i == p and len64:
                    slices.append(
                        Part(memoryview(data)[64 * at : 64 * (at + len64)], rows, side, r, p)
                    )
                at += len64
        for side in range(len(maps)):
            mine = [(r, k) for r, k in enumerate(packs) if k[0] == side]
            if mine and not any(s.side == side for s in slices):
                slices.append(_columns_of(*mine[0]))
        out += _batches(
            found.reduce,
            Exchange(
                _skate.PHASE_REDUCE,
                p,
                p + 1,
                n,
                sorted(slices, key=lambda s: (s.side, s.run)),
                None,
                0,
                [],
            ),
        )
    return out


def _empty(run, number):
    return Part(memoryview(run[3]), 0, run[0], number, 0)


def _columns_of(number, pack):
    side, _, note, data = pack
    len64 = next(
        v[0] for v in (struct.unpack_from("<II", note[9], 8 * i) for i in range(note[7])) if v[0]
    )
    return Part(memoryview(data)[: 64 * len64], 0, side, number, 0)


def _ran(phase, batches, seq, exchange=None):
    """Yields (kind, note, bytes) for each pack that a task yields."""
    out = []
    task.seq, task.exchange = seq, exchange
    params = {"label": phase.label, "last": True, "at": 0, "what": phase.what, **phase.params}
    for made in find(phase.op).run(params, iter(batches) if batches is not None else None, task):
        note = HEAD.unpack_from(made.note)
        out.append((note[1], (*note, made.note[HEAD.size :]), bytes(made.written())))
    return out


def _batches(phase, exchange):
    task.exchange = exchange
    params = {"label": phase.label, "last": False, "at": 0, "what": phase.what, **phase.params}
    return list(find(phase.op).run(params, None, task))


__all__ = ["exchanged", "stage"]
