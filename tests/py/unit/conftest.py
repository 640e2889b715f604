"""Runs the worker half of skate.data without an engine: the three functions that a stage calls in
its worker are replaced by plain ones."""

import types

import pytest


class Out:
    """Replaces _skate.BlockOut."""

    def __init__(self, batch):
        from skate import _skate

        self.batch, self.nbytes = batch, _skate.block_nbytes(batch)

    @classmethod
    def join(cls, parts):
        from skate.data.values.unify import merge

        return cls(merge([p.batch for p in parts]))


@pytest.fixture
def worker(monkeypatch):
    """worker(stage, blocks=(), unit=b"", seq=0, cap=-1, target=1 << 24, actor=False) -> output
    batches; worker.notes has the notes of the task."""
    from skate import _skate
    from skate.data.worker import stage as stage_mod

    notes = []
    real = {
        name: getattr(_skate, name)
        for name in ("block_nbytes", "doing", "current_task", "arrays_counts")
    }
    fake = types.SimpleNamespace(
        BlockOut=Out,
        task_note=notes.append,
        task_closing=lambda: None,
        in_worker=lambda: False,
        **real,
    )
    monkeypatch.setattr(stage_mod, "_skate", fake)
    stage_mod._chains.clear()
    # parameters are passed by number instead of by pickle, so that functions of a test may record
    # what they see
    sent = {}
    monkeypatch.setattr(stage_mod.captured, "load", lambda b: (dict(sent[b]), 0))

    def run(stage, blocks=(), unit=b"", seq=0, cap=-1, target=1 << 24, actor=False, ranges=None):
        data = []
        for op, label, params in stage:
            key = str(len(sent)).encode()
            sent[key] = params
            data.append(_skate.StageNode((op, label, key, b"")))
        stage = data
        of = [
            _skate.StageBlock((*r, 0, 0, 0, b""))
            for r in ranges or [(0, b.num_rows, 0) for b in blocks]
        ]
        args = _skate.StageTask((seq, cap, target, target // 2, unit, 1, of, None))
        if actor:
            out = stage_mod.stage_init(stage).stage_call(args, *blocks)
        else:
            out = stage_mod.run_stage(stage, args, *blocks)
        return [o.batch for o in out]

    run.notes = notes
    yield run
    stage_mod._chains.clear()
