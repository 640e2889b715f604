"""Actors and nodes, under the module name that programs import from Ray. skate.util.state is the
public interface."""

import skate
from skate.util import state


def actors(actor_id=None):
    """{actor's id: its record}, or the record of one actor; {} for an unknown one."""

    def row(a):
        return {
            "ActorID": a.actor_id,
            "ActorClassName": a.class_name,
            "IsDetached": bool(a.is_detached),
            "Name": a.name or "",
            "JobID": a.job_id,
            "State": a.state,
            "Address": {"NodeID": a.node_id or "", "IPAddress": "127.0.0.1"},
            "Pid": a.pid or 0,
            "NumRestarts": a.num_restarts or 0,
        }

    found = {a.actor_id: row(a) for a in state.list_actors(limit=10_000, detail=True)}
    return found if actor_id is None else found.get(actor_id, {})


def node_ids():
    """The names of the resources with which a task asks to run on this node."""
    return [
        name
        for name in skate.cluster_resources()
        if name.startswith("node:") and name != "node:__internal_head__"
    ]


def available_resources_per_node():
    """{node's id: its free resources}."""
    return {node["NodeID"]: skate.available_resources() for node in skate.nodes()}


def total_resources_per_node():
    """{node's id: all of its resources}."""
    return {node["NodeID"]: skate.cluster_resources() for node in skate.nodes()}
