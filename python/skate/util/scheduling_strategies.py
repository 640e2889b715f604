"""Strategies that choose the node of a task or actor: options(scheduling_strategy=...). There is
one node; a strategy that requires another node is an error."""

from skate import _labels, ids

__all__ = [
    "DoesNotExist",
    "Exists",
    "In",
    "NodeAffinitySchedulingStrategy",
    "NodeLabelSchedulingStrategy",
    "NotIn",
    "PlacementGroupSchedulingStrategy",
]

DEFAULT_SCHEDULING_STRATEGY = "DEFAULT"
SPREAD_SCHEDULING_STRATEGY = "SPREAD"


class PlacementGroupSchedulingStrategy:
    """Runs a task or actor in a placement group. Bundle -1: any bundle; with capture_child_tasks,
    tasks submitted inside run in the group, too."""

    def __init__(
        self,
        placement_group,
        placement_group_bundle_index=-1,
        placement_group_capture_child_tasks=None,
    ):
        self.placement_group = placement_group
        self.placement_group_bundle_index = placement_group_bundle_index
        self.placement_group_capture_child_tasks = placement_group_capture_child_tasks


class NodeAffinitySchedulingStrategy:
    """Runs a task or actor on the node with this hexadecimal id. soft: if the node does not exist,
    runs it on another node."""

    def __init__(self, node_id, soft, _spill_on_unavailable=False, _fail_on_unavailable=False):
        self.node_id = node_id.hex() if isinstance(node_id, ids.NodeID) else node_id
        if not isinstance(soft, bool):
            raise TypeError(
                f"NodeAffinitySchedulingStrategy: soft must be a bool, not {type(soft)}"
            )
        self.soft = soft
        self._spill_on_unavailable, self._fail_on_unavailable = (
            _spill_on_unavailable,
            _fail_on_unavailable,
        )
        if _spill_on_unavailable and not soft:
            raise ValueError(
                "_spill_on_unavailable=True needs soft=True: a hard affinity goes nowhere else"
            )
        if _fail_on_unavailable and soft:
            raise ValueError(
                "_fail_on_unavailable=True needs soft=False: a soft affinity goes elsewhere instead"
            )

    def _unfit(self):
        """The reason why the node does not exist; None if it exists."""
        if self.node_id == ids.NODE.hex() or self.soft:
            return None
        return f"the node {self.node_id} is asked for, and there is only {ids.NODE.hex()}; leave scheduling_strategy out or use soft=True"


class _Values:
    def __init__(self, *values):
        if not values:
            raise ValueError(f"{type(self).__name__}: at least one value is wanted")
        for v in values:
            if not isinstance(v, str):
                raise ValueError(
                    f"Type of value in position {values.index(v)} for the {type(self).__name__} operator must be str, not {type(v)}"
                )
        self.values = list(values)


class In(_Values):
    """A condition: the node's label has one of these values."""


class NotIn(_Values):
    """A condition: the node's label has none of these values."""


class Exists:
    """A condition: the node has the label."""


class DoesNotExist:
    """A condition: the node does not have the label."""


class NodeLabelSchedulingStrategy:
    """Runs a task or actor on a node with these labels: hard labels must match, soft labels are
    preferences."""

    def __init__(self, hard, *, soft=None):
        for what, given in (("hard", hard), ("soft", soft)):
            if given is not None and not isinstance(given, dict):
                raise ValueError(
                    f"NodeLabelSchedulingStrategy: {what} is a dict such as {{'zone': In('a', 'b')}}, not {type(given)}"
                )
            for key, op in (given or {}).items():
                if not isinstance(key, str):
                    raise ValueError(
                        f"The map key of the {what} parameter must be of type str, a label's name, not {key!r}"
                    )
                if not isinstance(op, (In, NotIn, Exists, DoesNotExist)):
                    raise ValueError(
                        f"{what}[{key!r}] must be one of the `In`, `NotIn`, `Exists` or `DoesNotExist` operators, not {type(op)}"
                    )
        if not hard and not soft:
            raise ValueError(
                "The `hard` and `soft` parameter of NodeLabelSchedulingStrategy cannot both be empty."
            )
        self.hard, self.soft = hard or {}, soft or {}

    def _unfit(self):
        """The label that the one node lacks; None if it lacks none."""
        labels = _labels.node()
        for key, op in self.hard.items():
            have = labels.get(key)
            fits = (
                have in op.values
                if isinstance(op, In)
                else have not in op.values
                if isinstance(op, NotIn)
                else (have is not None) == isinstance(op, Exists)
            )
            if not fits:
                return f"label {key!r} of the one node is {have!r}, which the scheduling strategy does not allow"
        return None
