"""Placement groups: resources that are set aside together, as bundles. There is one node: every strategy but STRICT_SPREAD of several bundles
can be had. The engine keeps them (src/engine/groups.c); here are names and checks."""

import time

from skate import _skate, ids

VALID_PLACEMENT_GROUP_STRATEGIES = {"PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"}


class PlacementGroup:
    """A handle; it may be passed to tasks. The group lives until remove_placement_group, or the end of the engine."""

    @staticmethod
    def empty():
        return PlacementGroup(ids.PlacementGroupID.nil())

    def __init__(self, id, bundle_cache=None):
        self.id = id
        self.bundle_cache = bundle_cache

    @property
    def is_empty(self):
        return self.id.is_nil()

    @property
    def _number(self):
        return int.from_bytes(self.id.binary(), "big")

    def ready(self):
        """An ObjectRef that is there when the resources are set aside; getting it gives this handle."""
        return _ready.options(scheduling_strategy=_strategy(self, 0), num_cpus=0).remote(self)

    def wait(self, timeout_seconds=30):
        """Whether the resources are set aside, within timeout_seconds."""
        import skate

        done, _ = skate.wait([self.ready()], timeout=timeout_seconds)
        return bool(done)

    @property
    def bundle_specs(self):
        """[{"CPU": 1.0, ...}, ...]"""
        if self.bundle_cache is None:
            row = placement_group_table(self)
            self.bundle_cache = [row["bundles"][i] for i in sorted(row.get("bundles", {}))]
        return self.bundle_cache

    @property
    def bundle_count(self):
        return len(self.bundle_specs)

    def __eq__(self, other):
        return isinstance(other, PlacementGroup) and self.id == other.id

    def __hash__(self):
        return hash(self.id)

    def __reduce__(self):
        return PlacementGroup, (self.id, self.bundle_cache)

    def __repr__(self):
        return f"PlacementGroup({self.id.hex()})"
