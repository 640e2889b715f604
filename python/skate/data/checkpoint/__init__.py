"""Ray's names for writes that can be resumed; see interfaces.py."""

from skate.data.checkpoint.interfaces import (  # noqa: F401
    CheckpointBackend,
    CheckpointConfig,
    InvalidCheckpointingConfig,
    InvalidCheckpointingOperators,
)

__all__ = [
    "CheckpointBackend",
    "CheckpointConfig",
    "InvalidCheckpointingConfig",
    "InvalidCheckpointingOperators",
]
