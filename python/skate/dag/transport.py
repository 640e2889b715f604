"""How tensors are sent from node to node (with_tensor_transport): through shared memory, the only
transport between CPUs of one machine. This module also has the names of Ray's other transports."""

DEVICES = ("default", "cpu", "gpu", "cuda")


class Communicator:
    """A group of actors that send tensors to each other. Values always go through shared memory; a
    subclass only names its actors.

    Args:
        actor_handles: The actors.
    """

    def __init__(self, actor_handles=()):
        self._actor_handles = list(actor_handles)

    def get_actor_handles(self):
        """The actors."""
        return self._actor_handles


class CPUCommunicator(Communicator):
    """A group of actors without GPUs.

    Args:
        world_size: The number of actors.
        actor_handles: The actors.
    """

    def __init__(self, world_size, actor_handles):
        super().__init__(actor_handles)
        if world_size != len(self._actor_handles):
            raise ValueError(
                f"a group of {world_size} actors has as many handles, not {len(self._actor_handles)}"
            )

    def get_world_size(self):
        """The number of actors."""
        return len(self._actor_handles)

    def get_rank(self, actor):
        """The rank of an actor in the group."""
        return self._actor_handles.index(actor)


class TorchTensorType:
    """How the tensors of a node's value are sent to its consumers.

    Args:
        transport: "auto", "shm", or a Communicator whose actors have no GPUs; "nccl" and
            "accelerator" are refused when the graph is compiled.
        device: "default" and "cpu": tensors stay on their device; "gpu" and "cuda" are refused when
            the graph is compiled.
    """

    def __init__(
        self, transport="auto", device="default", _static_shape=False, _direct_return=False
    ):
        if device not in DEVICES:
            raise ValueError(
                f"Invalid device '{device}'. Valid options are: {', '.join(map(repr, DEVICES))}."
            )
        if transport not in ("auto", "shm", "nccl", "accelerator") and not hasattr(
            transport, "get_actor_handles"
        ):
            raise ValueError(
                f"Invalid transport type: {transport}. Transport must be one of 'auto', 'nccl', 'shm', 'accelerator' or an instance of Communicator type."
            )
        self.transport, self.device = transport, device
        self.static_shape, self.direct_return = _static_shape, _direct_return

    def requires_accelerator(self):
        """Whether this type asks for a transport between GPUs."""
        return self.transport in ("nccl", "accelerator")

    def check(self, node):
        """Raises NotImplementedError if the transport of a node's value is not supported."""
        if self.requires_accelerator() or self.device in ("gpu", "cuda"):
            raise NotImplementedError(
                f"{node} asks for transport {self.transport!r} to device {self.device!r}: compiled graphs move values by shared memory between CPUs; "
                'use transport="auto" or "shm" with device="default" or "cpu", and move tensors to a GPU in the method that uses them'
            )
