"""Cluster: for programs and tests that start several Ray nodes on one machine. skate makes them one
engine with the sum of their resources."""

import warnings

import skate
from skate import _skate

cluster_not_supported = False
_open = []  # the clusters that were not shut down, the newest last
_said = {}  # the arguments of the init() call that started the engine of the newest cluster


class Node:
    """The result of add_node(): the arguments of the node."""

    def __init__(self, number, resources, head):
        self.resources, self.head = resources, head
        self.node_id = self.unique_id = f"node-{number}"

    def __repr__(self):
        return f"Node({self.node_id}, {self.resources})"


class Cluster:
    """Cluster(initialize_head=True, head_node_args={"num_cpus": 2}, connect=False): nodes whose
    resources are added up. Then init(address=cluster.address), or address="auto", starts an engine
    with the CPUs, GPUs, memory and custom resources of all nodes. shutdown_at_exit has no effect:
    no process outlives the program.

    A warning says once that there is one machine. NotImplementedError for uses that need several
    machines (removing a node while tasks run on it, tasks that must run on different nodes)."""

    def __init__(
        self, initialize_head=False, connect=False, head_node_args=None, shutdown_at_exit=True
    ):
        if connect and not initialize_head:
            raise RuntimeError(
                "Cluster(connect=True) needs initialize_head=True: there is no node to connect to"
            )
        self.head_node, self.worker_nodes = None, set()
        self.connected = False
        self._n = 0
        warnings.warn(
            "skate has one machine: the nodes of a Cluster are one engine with the resources of all",
            stacklevel=2,
        )
        _open.append(self)
        if initialize_head:
            self.add_node(**(head_node_args or {}))
            if connect:
                self.connect()

    @property
    def address(self):
        """The value for init(address=...); None before the first node."""
        return "local" if self.head_node is not None else None

    gcs_address = address

    def add_node(
        self,
        wait=True,
        num_cpus=1,
        num_gpus=0,
        resources=None,
        memory=None,
        object_store_memory=150 << 20,
        labels=None,
        **node_args,
    ):
        """Adds to the resources that the engine will have: CPUs, GPUs, custom resources, bytes of
        memory (for a node that names none, the default of init()) and of the object store.
        Arguments for Ray's servers have no effect. An engine that was not used yet is started
        again; RuntimeError if it was used: it cannot grow."""
        again = skate.is_initialized()
        if again and not _untouched():
            raise RuntimeError(
                "Cluster.add_node: the engine is in use and cannot grow; add all nodes before the first task, actor or put()"
            )
        given = {
            "CPU": num_cpus,
            "GPU": num_gpus,
            "memory": memory,
            "object_store_memory": object_store_memory,
            **(resources or {}),
        }
        self._n += 1
        node = Node(self._n, given, self.head_node is None)
        if node.head:
            self.head_node = node
        else:
            self.worker_nodes.add(node)
        if again:
            skate.shutdown()
            skate.init(**_said)
        return node

    def remove_node(self, node, allow_graceful=True):
        """Removes a node before an engine has used it. NotImplementedError if the engine runs."""
        if skate.is_initialized():
            raise NotImplementedError(
                "Cluster.remove_node: there is one machine, and tasks of the engine run on it; a node that goes away needs a second one"
            )
        if node is self.head_node:
            self.head_node = None
        else:
            self.worker_nodes.remove(node)

    def list_all_nodes(self):
        return [n for n in (self.head_node, *self.worker_nodes) if n is not None]

    def wait_for_nodes(self, timeout=30):
        """Returns at once, since nodes need no time to start."""

    def remaining_processes_alive(self):
        return True

    def total(self):
        """{resource: the sum over all nodes}."""
        out = {}
        for node in self.list_all_nodes():
            for name, n in node.resources.items():
                out[name] = None if n is None or out.get(name, 0) is None else out.get(name, 0) + n
        return {name: n for name, n in out.items() if n is not None}

    def connect(self, namespace=None):
        """Calls init() with this cluster's resources."""
        if self.address is None:
            raise RuntimeError("Cluster.connect: there is no node yet; add_node() makes one")
        skate.init(address=self.address, namespace=namespace, ignore_reinit_error=True)
        self.connected = True

    def shutdown(self):
        """Removes all nodes, and ends the engine if it runs."""
        if self in _open:
            _open.remove(self)
        skate.shutdown()
        self.head_node, self.connected = None, False
        self.worker_nodes.clear()


def _untouched():
    """Whether the engine has not been used yet."""
    s = _skate.status()
    return "tasks_known" in s and not (s["tasks_known"] or s["tasks_done"] or s["objects"])


def given(said):
    """The resources of the newest cluster for init(); {} if there is no cluster. said: the
    arguments of init()."""
    if not _open or _open[-1].head_node is None:
        return {}
    _said.clear()
    _said.update(said)
    return _open[-1].total()
