"""CPUCommunicator: a group of actors without GPUs."""

from skate.dag.transport import CPUCommunicator

__all__ = ["CPUCommunicator"]
