"""Placement groups: resources that are reserved together, as bundles. On one node STRICT_SPREAD of
several bundles waits for ever, and the other strategies do the same; over several nodes they differ,
and a group that a task makes is reserved on the task's node. The engine manages the groups
(src/engine/groups.h); this module has the names and checks."""

from __future__ import annotations

from skate import _job, _labels, _skate, ids
from skate._deps import re
from skate.exceptions import TaskUnschedulableError
from skate.util.scheduling_strategies import PlacementGroupSchedulingStrategy

TYPE_CHECKING = False  # typing is slow to import
if TYPE_CHECKING:
    from typing import Any

VALID_PLACEMENT_GROUP_STRATEGIES = {"PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"}


class PlacementGroup:
    """A handle of a placement group; it may be passed to tasks. The group lives until
    remove_placement_group(), or the end of the engine."""

    def __init__(
        self, id: ids.PlacementGroupID, bundle_cache: list[dict[str, float]] | None = None
    ):
        self.id = id
        self.bundle_cache = bundle_cache

    @staticmethod
    def empty() -> PlacementGroup:
        return PlacementGroup(ids.PlacementGroupID.nil())

    @property
    def is_empty(self) -> bool:
        return self.id.is_nil()

    @property
    def _number(self):
        return int.from_bytes(self.id.binary(), "big")

    def ready(self) -> _skate.ObjectRef[PlacementGroup]:
        """An ObjectRef that becomes ready when the resources are reserved; its value is this
        handle."""
        where = of_options(
            {"scheduling_strategy": PlacementGroupSchedulingStrategy(self)}, 0, "ready()"
        )
        return _template(_ready, **where).submit(self)

    def wait(self, timeout_seconds: float | None = 30) -> bool:
        """Waits at most timeout_seconds; returns whether the resources are reserved."""
        if timeout_seconds is not None and timeout_seconds < 0:
            raise ValueError(
                f"wait: timeout_seconds={timeout_seconds}: seconds from 0 on, or None to wait for as long as it takes"
            )
        return bool(_skate.wait([self.ready()], 1, timeout_seconds)[0])

    @property
    def bundle_specs(self) -> list[dict[str, float]]:
        """The resources of each bundle, as dicts such as ``{"CPU": 1.0}``."""
        if self.bundle_cache is None:
            row = _row(self)
            self.bundle_cache = [] if row is None else [_plain(b) for b in row[5]]
        return self.bundle_cache

    @property
    def bundle_count(self) -> int:
        return len(self.bundle_specs)

    def __eq__(self, other):
        return isinstance(other, PlacementGroup) and self.id == other.id

    def __hash__(self):
        return hash(self.id)

    def __reduce__(self):
        return PlacementGroup, (self.id, self.bundle_cache)

    def __repr__(self):
        return f"PlacementGroup({self.id.hex()})"


def _itself(group):
    return group


def _template(target, **where):
    return _skate.Template(
        "task", target, "_itself", num_cpus=0, max_retries=-1, func=_itself, **where
    )


_ready = _template(_itself)  # a Template of _itself; all groups share its definition


def _plain(bundle):
    return {k: v for k, v in bundle.items() if v}


def _rows():
    return _skate.pg_table(_job.facts().get("custom", []))


def _row(group):
    return next((r for r in _rows() if r[0] == group._number), None)


def placement_group(
    bundles: list[dict[str, float]],
    strategy: str = "PACK",
    name: str = "",
    lifetime: str | None = None,
    _soft_target_node_id: str | None = None,
    bundle_label_selector: list[dict[str, str]] | None = None,
) -> PlacementGroup:
    """Reserves bundles of resources, all or none. Returns a PlacementGroup at once; its ready()
    becomes ready when the resources are reserved.

    bundles: [{"CPU": 1, "my resource": 2}, ...]; strategy: one of VALID_PLACEMENT_GROUP_STRATEGIES;
    name: for get_placement_group(), in the job's namespace; bundle_label_selector: the labels of the
    node that each bundle needs. ValueError for invalid arguments, TaskUnschedulableError where no
    node has the labels."""
    validate_placement_group(
        bundles, strategy, lifetime, _soft_target_node_id, bundle_label_selector
    )
    if not isinstance(name, str):
        raise TypeError(f"name must be a str, not {type(name)}")
    _job.ensure()
    selectors = bundle_label_selector or []
    for selector in selectors:
        why = _labels.unfit_here(selector)
        if why is not None:
            raise TaskUnschedulableError(why)
    given = [{k: v for k, v in b.items() if k != "object_store_memory"} for b in bundles]
    nodes = [_labels.where(None, selector) for selector in selectors]
    number, _ = _skate.pg_create(given, strategy, name or None, _job.namespace(), nodes)
    return PlacementGroup(
        ids.PlacementGroupID._of(number),
        [{k: float(v) for k, v in b.items() if v} for b in bundles],
    )


def remove_placement_group(placement_group: PlacementGroup) -> None:
    """Removes the group: its actors and running tasks are killed, and tasks that wait for it end
    with TaskPlacementGroupRemoved. Does nothing if it was removed before."""
    if placement_group is None or placement_group.is_empty:
        raise ValueError("remove_placement_group: a group is wanted")
    _skate.pg_remove(placement_group._number)


def get_placement_group(placement_group_name: str) -> PlacementGroup:
    """The group with that name in the job's namespace; ValueError if there is none."""
    if not placement_group_name:
        raise ValueError("get_placement_group: the name is empty")
    for r in _rows():
        if r[1] == placement_group_name and r[2] == _job.namespace():
            return PlacementGroup(ids.PlacementGroupID._of(r[0]), [_plain(b) for b in r[5]])
    more = (
        "; on a node, only groups that its tasks have made have names: pass the group to the task"
    )
    raise ValueError(
        f"Failed to look up placement group {placement_group_name!r}: namespace {_job.namespace()!r} has none of that name{more if _labels.on_node() else ''}"
    )


def placement_group_table(placement_group: PlacementGroup | None = None) -> dict[str, Any]:
    """The engine's record of a group: name, bundles, strategy, state (PENDING, CREATED, RESCHEDULING,
    REMOVED). Without a group: a dict of all groups by hexadecimal id. In a task on one of several
    nodes: of the bundles that are on this node."""

    def tell(r):
        own = None if _job.on_nodes() else _labels.node_id()
        state = "CREATED" if r[4] else "PENDING" if r[6] < 0 else "RESCHEDULING"
        return {
            "placement_group_id": ids.PlacementGroupID._of(r[0]).hex(),
            "name": r[1],
            "bundles": {i: _plain(b) for i, b in enumerate(r[5])},
            "bundles_to_node_id": {
                i: (own or ids.NodeID._of(n)).hex() if n else "" for i, n in enumerate(r[7])
            },
            "strategy": r[3],
            "state": state,
            "stats": {
                "end_to_end_creation_latency_ms": max(r[6], 0) * 1e3,
                "scheduling_state": "FINISHED" if r[4] else "QUEUED",
            },
        }

    if placement_group is None:
        return {t["placement_group_id"]: t for t in map(tell, _rows())}
    r = _row(placement_group)
    if r is not None:
        return tell(r)
    if not _job.is_own(placement_group._number):
        raise ValueError(
            f"placement_group_table: this process does not know of {placement_group}: it was removed, or none of its bundles is on this node; ask where the group was made"
        )
    bundles = dict(enumerate(placement_group.bundle_cache or []))
    return {
        "placement_group_id": placement_group.id.hex(),
        "name": "",
        "bundles": bundles,
        "state": "REMOVED",
        "stats": {},
    }


def get_current_placement_group() -> PlacementGroup | None:
    """The group of the task or actor that calls this; None if it has none."""
    need = _skate.current_need([]) if _skate.current_task() else None
    return PlacementGroup(ids.PlacementGroupID._of(need[1])) if need and need[1] else None


# ---- Checks of arguments.


def check_placement_group_index(placement_group, bundle_index):
    """ValueError if the group has no bundle with that index; -1 means any bundle."""
    if placement_group.is_empty:
        if bundle_index != -1:
            raise ValueError(
                f"bundle index must be -1 where no placement group is given, not {bundle_index}"
            )
    elif not -1 <= bundle_index < placement_group.bundle_count:
        raise ValueError(
            f"bundle index {bundle_index} is invalid: the placement group has bundles 0 to {placement_group.bundle_count - 1}; -1 is any of them"
        )


def validate_placement_group(
    bundles, strategy="PACK", lifetime=None, _soft_target_node_id=None, bundle_label_selector=None
):
    """True, or ValueError for invalid arguments."""
    if _soft_target_node_id and strategy != "STRICT_PACK":
        raise ValueError(f"_soft_target_node_id needs strategy 'STRICT_PACK', not {strategy!r}")
    if _soft_target_node_id and ids.NodeID.from_hex(_soft_target_node_id).is_nil():
        raise ValueError(
            f"_soft_target_node_id {_soft_target_node_id} is no id of a node; nodes() lists them"
        )
    _validate_bundles(bundles)
    if bundle_label_selector is not None:
        if len(bundles) != len(bundle_label_selector):
            raise ValueError(
                f"Invalid bundle label selector {bundle_label_selector}: one for each of the {len(bundles)} bundles is wanted, {{}} for any node"
            )
        _validate_bundle_label_selector(bundle_label_selector)
    if strategy not in VALID_PLACEMENT_GROUP_STRATEGIES:
        raise ValueError(
            f"Invalid placement group strategy {strategy!r}: one of {', '.join(sorted(VALID_PLACEMENT_GROUP_STRATEGIES))}"
        )
    if lifetime not in (None, "detached"):
        raise ValueError(f"placement group: lifetime={lifetime!r}: None or 'detached'")
    return True


def _validate_bundles(bundles):
    if not isinstance(bundles, list):
        raise ValueError(f"bundles must be a list, not {type(bundles)}")
    if not bundles:
        raise ValueError('bundles must be a non-empty list, such as [{"CPU": 1}]')
    for b in bundles:
        if not isinstance(b, dict) or not all(
            isinstance(k, str) and isinstance(v, (int, float)) for k, v in b.items()
        ):
            raise ValueError(f"bundles are resource dictionaries, {{name: amount}}, not {b!r}")
        if not any(b.values()):
            raise ValueError(
                f"bundles: {b!r} is empty or has only 0 values, so it would hold nothing"
            )


def _validate_bundle_label_selector(bundle_label_selector):
    if not isinstance(bundle_label_selector, list):
        raise ValueError(f"bundle_label_selector must be a list, not {type(bundle_label_selector)}")
    for labels in bundle_label_selector:
        if not isinstance(labels, dict) or not all(
            isinstance(k, str) and isinstance(v, str) for k, v in labels.items()
        ):
            raise ValueError(
                f"bundle_label_selector must be a list of string dictionary values, {{label: value}}, not {labels!r}"
            )
        for key in labels:
            if not re.fullmatch(r"([a-zA-Z0-9.-]+/)?[a-zA-Z0-9][a-zA-Z0-9._-]*", key):
                raise ValueError(f"Invalid label selector provided: {key!r} is no name of a label")


def of_options(o, default_cpus, what):
    """The keywords of a Template for the group in these options: {"pg": number, "bundle": index,
    and "capture": 1 if tasks submitted inside run in the group, too}; {"capture": 2} if the options
    ask for no group, not even that of the submitting task; else {}. ValueError if the resources fit
    into no bundle."""
    s = o.get("scheduling_strategy")
    if isinstance(s, PlacementGroupSchedulingStrategy):
        group, index, capture = (
            s.placement_group,
            s.placement_group_bundle_index,
            s.placement_group_capture_child_tasks,
        )
    else:
        group, index = o.get("placement_group"), o.get("placement_group_bundle_index")
        if group in (None, "default"):
            return {} if s is None else {"capture": 2}
        if s is not None:
            raise ValueError(
                "Placement groups should be specified via scheduling_strategy=PlacementGroupSchedulingStrategy(group); leave placement_group out"
            )
        index, capture = (
            -1 if index is None else index,
            o.get("placement_group_capture_child_tasks"),
        )
    if group is None or group.is_empty:
        return {"capture": 2}
    check_placement_group_index(group, index)
    wanted = {
        **{
            k: o[n]
            for k, n in (("CPU", "num_cpus"), ("GPU", "num_gpus"), ("memory", "memory"))
            if o.get(n)
        },
        **(o.get("resources") or {}),
    }
    if o.get("num_cpus") is None and default_cpus:
        wanted["CPU"] = default_cpus
    bundles = group.bundle_specs
    if bundles and not any(all(b.get(k, 0) >= v for k, v in wanted.items()) for b in bundles):
        raise ValueError(
            f"Cannot schedule {what} with the placement group because the resource request {wanted} cannot fit into any bundles for the "
            f"placement group, {bundles}."  # Ray's tests compare the whole text
        )
    return {"pg": group._number, "bundle": index, "capture": int(bool(capture))}
