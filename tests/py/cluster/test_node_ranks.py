"""Training over several nodes: the ranks of one streaming_split are on different nodes."""

import pytest
import skate
import skate.data as sd
from skate.util import placement_group
from skate.util.scheduling_strategies import PlacementGroupSchedulingStrategy as In

EPOCHS = 2


@pytest.fixture(scope="module")
def two():
    """Ids of two nodes."""
    skate.init(num_cpus=4, _system_config={"nodes": 2})
    yield [n["NodeID"] for n in skate.nodes()]
    skate.shutdown()


@skate.remote(num_cpus=1)
class Rank:
    def train(self, it):
        """The node, and the ids of the rows of each epoch."""
        at = skate.get_runtime_context().get_node_id()
        epochs = [
            [int(i) for b in it.iter_batches(batch_size=7) for i in b["id"]] for _ in range(EPOCHS)
        ]
        return at, epochs


@pytest.mark.parametrize("equal", [False, True])
def test_ranks_on_different_nodes_get_all_rows_each_epoch(two, equal):
    group = placement_group([{"CPU": 1}] * 2, "STRICT_SPREAD")  # as a trainer reserves its ranks
    ds = sd.range(200).map_batches(lambda b: {"id": b["id"], "x": [bytes(3000)] * len(b["id"])})
    its = ds.streaming_split(2, equal=equal)
    ranks = [Rank.options(scheduling_strategy=In(group, i)).remote() for i in range(2)]
    told = skate.get([r.train.remote(it) for r, it in zip(ranks, its, strict=True)], timeout=60)
    assert {at for at, _ in told} == {*two}
    for epoch in range(EPOCHS):
        rows = [epochs[epoch] for _, epochs in told]
        assert sorted(rows[0] + rows[1]) == [*range(200)]
        assert not equal or [len(r) for r in rows] == [100, 100]
    skate.util.remove_placement_group(group)
