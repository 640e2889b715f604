"""Strategies that choose the node of a task or actor: options(scheduling_strategy=...). A strategy
that requires a node which does not exist is an error."""

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
        if self.soft or _labels.on_node():  # in a task on a node the driver says it
            return None
        there = [labels[_labels.ID] for labels in _labels.nodes()]
        if self.node_id in there:
            return None
        return f"the node {self.node_id} is asked for, and there is only {' and '.join(there)}; leave scheduling_strategy out or use soft=True"

    def _nodes(self):
        """(flags, conditions of the first choice, conditions of all choices); see _labels.where."""
        own = [("=", _labels.ID, [self.node_id])]
        if not self.soft:
            return 0, own, own
        return 0 if self._spill_on_unavailable else _labels.STAYS, own, []


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
        """The label that each node lacks; None if one node lacks none, or if the driver says it."""
        if _labels.on_node():
            return None
        for labels in (there := _labels.nodes()):
            if all(_fits(labels.get(key), op) for key, op in self.hard.items()):
                return None
        have = [{key: labels.get(key) for key in self.hard} for labels in there]
        return f"labels of the nodes are {', '.join(map(str, have))}, which the scheduling strategy does not allow"

    def _nodes(self):
        """(flags, conditions of the first choice, conditions of all choices); see _labels.where."""
        hard = [_condition(key, op) for key, op in self.hard.items()]
        return 0, hard + [_condition(key, op) for key, op in self.soft.items()], hard


def _fits(have, op):
    if isinstance(op, _Values):
        return (have in op.values) == isinstance(op, In)
    return (have is not None) == isinstance(op, Exists)


def _condition(key, op):
    if isinstance(op, _Values):
        return "=" if isinstance(op, In) else "!", key, op.values
    return "+" if isinstance(op, Exists) else "-", key, []
