"""Compares skate.data.DataLoader with torch's: the same batches for the same arguments."""

import os
import random

import numpy as np
import pyarrow as pa
import pytest
import skate.data as sd

torch = pytest.importorskip("torch", reason="torch is not installed")
Theirs = torch.utils.data.DataLoader


class Squares(torch.utils.data.Dataset):
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return {
            "x": torch.full((3,), float(i)),
            "i": i,
            "name": f"row {i}",
            "both": (np.float32(i), [i, i + 1]),
        }


class Count(torch.utils.data.IterableDataset):
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        return iter(range(first, self.n, step))


class Draws(torch.utils.data.Dataset):
    def __len__(self):
        return 12

    def __getitem__(self, i):
        return (
            i,
            int(torch.randint(1 << 30, ())),
            random.randrange(1 << 30),
            int(np.random.randint(1 << 30)),
            os.getpid(),
        )


def same(a, b):
    assert type(a) is type(b), (a, b)
    if isinstance(a, torch.Tensor):
        assert a.dtype == b.dtype and torch.equal(a, b)
    elif isinstance(a, dict):
        assert list(a) == list(b)
        for k in a:
            same(a[k], b[k])
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            same(x, y)
    else:
        assert a == b


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"batch_size": 4},
        {"batch_size": 4, "drop_last": True, "shuffle": True},
        {"batch_size": None},
        {"batch_size": 3, "sampler": [4, 1, 1, 9]},
        {"batch_sampler": [[1, 2], [3], [9, 0, 4]]},
        {"batch_size": 4, "collate_fn": len},
    ],
)
@pytest.mark.parametrize("workers", [0, 2])
def test_batches_of_a_map_style_dataset_are_those_of_torch(options, workers):
    made = []
    for kind in (Theirs, sd.DataLoader):
        torch.manual_seed(5)
        loader = kind(Squares(10), num_workers=0 if kind is Theirs else workers, **options)
        made.append([list(loader), list(loader), len(loader)])
    same(*made)


def test_a_generator_draws_what_it_draws_in_torch():
    made = []
    for kind in (Theirs, sd.DataLoader):
        g = torch.Generator().manual_seed(3)
        loader = kind(Squares(10), batch_size=4, shuffle=True, generator=g)
        made.append([list(loader), list(loader)])
    same(*made)


@pytest.mark.parametrize(
    "options", [{"batch_size": 3}, {"batch_size": 3, "drop_last": True}, {"batch_size": None}]
)
def test_an_iterable_dataset_is_shared_by_its_workers_as_in_torch(options):
    same(list(sd.DataLoader(Count(10), **options)), list(Theirs(Count(10), **options)))
    same(
        list(sd.DataLoader(Count(10), num_workers=2, **options)),
        list(Theirs(Count(10), num_workers=2, **options)),
    )


def test_workers_draw_what_workers_of_torch_draw_and_stay_if_they_are_to():
    made = []
    for kind in (Theirs, sd.DataLoader):
        torch.manual_seed(1)
        loader = kind(
            Draws(), batch_size=2, num_workers=2, persistent_workers=kind is sd.DataLoader
        )
        made.append([[t[:4] for t in map(list, loader)] for _ in range(2)])
    same(*made)
    pids = [{int(p) for b in loader for p in b[4]} for _ in range(2)]
    assert pids[0] == pids[1] and len(pids[0]) == 2 and os.getpid() not in pids[0]
    changed = list(
        sd.DataLoader(Draws(), num_workers=1, worker_init_fn=lambda i: torch.manual_seed(99))
    )
    torch.manual_seed(99)
    assert [int(b[1]) for b in changed] == [int(torch.randint(1 << 30, ())) for _ in range(12)]


def test_large_tensors_come_without_a_copy_and_may_be_written():
    class Large(torch.utils.data.Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, i):
            return torch.full((100_000,), i, dtype=torch.bfloat16)

    for b in sd.DataLoader(Large(), batch_size=2, num_workers=1):
        assert b.dtype == torch.bfloat16 and b.shape == (2, 100_000)
        b += 1


def test_errors_of_samples_keep_their_type_and_a_dead_worker_is_told():
    class Bad(Squares):
        def __getitem__(self, i):
            if i == 5:
                raise KeyError("five")
            return i

    class Dies(Squares):
        def __getitem__(self, i):
            os._exit(3)

    for workers in (0, 2):
        with pytest.raises(KeyError, match="five"):
            list(sd.DataLoader(Bad(8), num_workers=workers))
    with pytest.raises(RuntimeError, match="worker 0 .* exited unexpectedly"):
        list(sd.DataLoader(Dies(8), num_workers=1))


def test_a_batch_that_takes_too_long_is_an_error():
    class Waits(Squares):
        def __getitem__(self, i):
            import time

            time.sleep(60)

    with pytest.raises(RuntimeError, match="timed out after 3 seconds"):
        list(sd.DataLoader(Waits(2), num_workers=1, timeout=3))


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("dataset", [Squares(40), Count(40)])
def test_an_epoch_is_gone_on_with(dataset, workers):
    shuffle = {"shuffle": True} if isinstance(dataset, Squares) else {}
    loader = sd.DataLoader(dataset, batch_size=4, num_workers=workers, **shuffle)
    it, got = iter(loader), []
    for _ in range(4):
        got.append(next(it))
    state = loader.state_dict()
    rest = list(it)
    torch.manual_seed(12345)
    again = sd.DataLoader(dataset, batch_size=4, num_workers=workers, **shuffle)
    again.load_state_dict(state)
    same(list(again), rest)
    assert len(rest) == 6 and len(str(state)) < 300
    with pytest.raises(ValueError, match="no state of a DataLoader over"):
        again.load_state_dict({"version": 1, "of": "nothing"})


# ---- over a Dataset


def table():
    n = 20
    return sd.from_blocks(
        [
            pa.table(
                {
                    "i": range(k, k + 5),
                    "f": [x / 2 for x in range(k, k + 5)],
                    "s": [str(x) for x in range(k, k + 5)],
                    "v": [[x, x] for x in range(k, k + 5)],
                }
            )
            for k in range(0, n, 5)
        ]
    )


class Rows(torch.utils.data.Dataset):
    def __init__(self):
        self.rows = table().take_all()

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": 8},
        {"batch_size": 8, "drop_last": True},
        {"batch_size": 3, "sampler": [4, 1, 1, 19]},
        {"batch_sampler": [[1, 2], [3]]},
    ],
)
def test_batches_of_a_dataset_are_what_torch_makes_of_its_rows(options):
    ours = sd.DataLoader(table(), **options)
    same(list(ours), list(Theirs(Rows(), **options)))
    assert len(sd.DataLoader(table(), **options)) == len(list(ours))


def test_rows_and_collate_fn_over_a_dataset():
    assert [r["s"] for r in sd.DataLoader(table(), batch_size=None)] == [str(i) for i in range(20)]
    assert list(
        sd.DataLoader(table(), batch_size=8, collate_fn=lambda rows: [r["s"] for r in rows])
    )[2] == ["16", "17", "18", "19"]
    with pytest.raises(RuntimeError, match="column 'n'"):
        list(sd.DataLoader(sd.from_arrow(pa.table({"n": [2**60, None]})), batch_size=2))
    (batch,) = sd.DataLoader(sd.from_arrow(pa.table({"n": [1, None]})), batch_size=2)
    assert batch["n"].dtype == torch.float64 and batch["n"].isnan().tolist() == [False, True]
    with pytest.raises(IndexError, match="row 20 of a Dataset of 20"):
        list(sd.DataLoader(table(), sampler=[20]))


def test_shuffle_over_a_dataset_is_another_order_each_epoch_by_the_generator():
    def epochs(seed):
        loader = sd.DataLoader(
            table(), batch_size=6, shuffle=True, generator=torch.Generator().manual_seed(seed)
        )
        return [[i for b in loader for i in b["i"].tolist()] for _ in range(2)]

    one, again, other = epochs(1), epochs(1), epochs(2)
    assert one == again and one[0] != one[1] and one != other
    assert all(sorted(e) == list(range(20)) for e in one + other)


@pytest.mark.parametrize("options", [{}, {"shuffle": True}, {"sampler": list(range(19, -1, -1))}])
def test_an_epoch_over_a_dataset_is_gone_on_with(options):
    loader = sd.DataLoader(table(), batch_size=3, **options)
    it = iter(loader)
    first = [next(it), next(it)]
    state = loader.state_dict()
    rest = list(it)
    again = sd.DataLoader(table(), batch_size=3, **options)
    again.load_state_dict(state)
    same(list(again), rest)
    assert sorted(i for b in first + rest for i in b["i"].tolist()) == list(range(20))


def test_arguments_that_exclude_each_other():
    for options in (
        {"shuffle": True, "sampler": [1]},
        {"batch_sampler": [[1]], "batch_size": 2},
        {"batch_size": None, "drop_last": True},
        {"num_workers": -1},
        {"timeout": -1},
        {"prefetch_factor": 2},
        {"persistent_workers": True},
    ):
        for kind in (Theirs, sd.DataLoader):
            with pytest.raises(ValueError):
                kind(Squares(3), **options)
    with pytest.raises(ValueError):
        sd.DataLoader(Count(3), shuffle=True)


@pytest.mark.parametrize("how", [{"shuffle": True}, {"sampler": list(range(19, -1, -1))}])
def test_a_state_goes_on_with_all_epochs_that_follow(how):
    """A state resumes with all later epochs, also for a shuffle without a seed, after the last
    batch, and after the end; an epoch that is set again begins at its first row."""
    loader = sd.DataLoader(sd.range(20).materialize(), batch_size=6, **how)
    epochs, states = [], []
    for _ in range(3):
        epochs.append([])
        for batch in loader:
            epochs[-1].append(batch["id"].tolist())
            states.append((len(epochs) - 1, len(epochs[-1]), loader.state_dict()))
        states.append((len(epochs), 0, loader.state_dict()))
    assert [len(e) for e in epochs] == [4, 4, 4] and (
        "shuffle" not in how or epochs[0] != epochs[1] != epochs[2]
    )
    for epoch, step, state in states:
        again = sd.DataLoader(sd.range(20).materialize(), batch_size=6, **how)
        again.load_state_dict(state)
        assert again.state_dict() == state
        got = [[batch["id"].tolist() for batch in again] for _ in range(epoch, 3)]
        assert got == [e[step if k == epoch else 0 :] for k, e in enumerate(epochs) if k >= epoch]
        again.load_state_dict(state)
        again.set_epoch(1)
        assert [batch["id"].tolist() for batch in again] == epochs[1][step if epoch == 1 else 0 :]
