"""Batches on a GPU: page-locked memory, copies on a separate CUDA stream (docs/design/ingest.md).
Skipped if torch has no GPU."""

import numpy as np
import pytest
import skate
import skate.data as sd
from skate.data.collate_fn import NumpyBatchCollateFn

torch = pytest.importorskip("torch", reason="torch is not installed")
if not torch.cuda.is_available():
    pytest.skip("torch has no GPU here", allow_module_level=True)

ROWS, WIDTH = 4000, 2048


@pytest.fixture(scope="module", autouse=True)
def engine():
    skate.shutdown()
    skate.init(num_cpus=4, object_store_memory=2 << 30)
    yield
    skate.shutdown()


@pytest.fixture(scope="module")
def ds():
    def make(batch):
        return {"x": (batch["id"][:, None] + np.arange(WIDTH)).astype(np.int32), "id": batch["id"]}

    return sd.range(ROWS, override_num_blocks=5).map_batches(make, batch_size=None).materialize()


def check(batches, shuffled=False):
    """Checks that all rows arrived intact. The tensors are used as in training, by work that is
    queued behind them."""
    seen = []
    for b in batches:
        assert b["x"].is_cuda and b["id"].is_cuda
        good = (
            b["x"] == (b["id"][:, None] + torch.arange(WIDTH, device="cuda")).to(torch.int32)
        ).all()
        seen.append((b["id"].clone(), good))
        b["x"].zero_()  # the memory is released while the next batch is being copied
    assert all(bool(good) for _, good in seen)
    order = torch.cat([i for i, _ in seen]).cpu()
    assert torch.equal(order.sort().values, torch.arange(ROWS))
    assert torch.equal(order, torch.arange(ROWS)) is not shuffled


@pytest.mark.parametrize("ahead", [0, 1, 4])
@pytest.mark.parametrize("shuffle", [None, 500])
def test_all_rows_arrive_whole(ds, ahead, shuffle):
    options = {"local_shuffle_buffer_size": shuffle, "local_shuffle_seed": 1} if shuffle else {}
    for _ in range(3):
        check(
            ds.iter_torch_batches(batch_size=96, device="cuda", prefetch_batches=ahead, **options),
            shuffle is not None,
        )


def test_whole_blocks_arrive(ds):
    check(ds.iter_torch_batches(batch_size=None, device="cuda"))


def test_batches_that_are_kept_stay_as_they_were(ds):
    kept = list(ds.iter_torch_batches(batch_size=100, device="cuda", prefetch_batches=4))
    check(kept)


def test_dtypes_and_a_stream_of_the_consumer(ds):
    stream = torch.cuda.Stream()
    total = 0
    with torch.cuda.stream(stream):
        for b in ds.iter_torch_batches(batch_size=128, device="cuda", dtypes={"x": torch.float32}):
            assert b["x"].dtype == torch.float32
            total += int((b["x"][:, 0].long() - b["id"]).abs().sum())
    assert total == 0


def test_pin_memory_gives_page_locked_batches_of_the_cpu(ds):
    for shuffle in (None, 300):
        options = {"local_shuffle_buffer_size": shuffle, "local_shuffle_seed": 1} if shuffle else {}
        n = 0
        for b in ds.iter_torch_batches(batch_size=100, pin_memory=True, **options):
            assert b["x"].is_pinned() and not b["x"].is_cuda
            n += len(b["id"])
        assert n == ROWS


def test_page_locked_memory_is_used_again(ds):
    addresses = {
        b["x"].data_ptr()
        for _ in range(4)
        for b in ds.iter_torch_batches(batch_size=100, pin_memory=True, prefetch_batches=2)
    }
    assert len(addresses) <= 30, "of 160 batches"


def test_collate_fn_and_its_tensors(ds):
    class Collate(NumpyBatchCollateFn):
        def __call__(self, b):
            return [torch.as_tensor(b["id"].copy()), torch.as_tensor(b["x"].copy())]

    got = []
    for i, x in ds.iter_torch_batches(
        batch_size=100, device="cuda", collate_fn=Collate(), prefetch_batches=2
    ):
        assert x.is_cuda and bool((x[:, 1].long() == i + 1).all())
        got.append(i)
    assert torch.equal(torch.cat(got).cpu(), torch.arange(ROWS))


def test_left_early_and_an_error_of_the_consumer(ds):
    for _ in range(5):
        it = iter(ds.iter_torch_batches(batch_size=50, device="cuda", prefetch_batches=3))
        next(it)
        it.close()
    with pytest.raises(ZeroDivisionError):
        for _ in ds.iter_torch_batches(batch_size=50, device="cuda"):
            raise ZeroDivisionError
    check(ds.iter_torch_batches(batch_size=96, device="cuda"))


def test_training_is_the_same_as_over_tensors_in_memory(ds):
    """A few steps of a small model: the weights are equal, whatever copies are in progress at the
    same time."""

    def train(batches):
        torch.manual_seed(0)
        model = torch.nn.Linear(WIDTH, 4).cuda()
        sgd = torch.optim.SGD(model.parameters(), lr=1e-4)
        for x in batches:
            sgd.zero_grad()
            model(x.float() / ROWS).square().mean().backward()
            sgd.step()
        return model.weight.detach().cpu()

    x = torch.from_numpy((np.arange(ROWS)[:, None] + np.arange(WIDTH)).astype(np.int32))
    plain = train(x[i : i + 100].cuda() for i in range(0, ROWS, 100))
    ours = train(
        b["x"] for b in ds.iter_torch_batches(batch_size=100, device="cuda", prefetch_batches=4)
    )
    assert torch.isfinite(plain).all() and torch.equal(plain, ours)
